"""Custom operations of the program."""

from __future__ import annotations

from typing import Any, Callable

from ._binding import ffi, lib
from ._buffers import DTYPE_NAMES
from ._convert import integer, string, wrong
from ._errors import checked
from ._handles import called_back

Combine = Callable[[memoryview, memoryview, memoryview, str], object]
_operations: dict[int, CustomOp] = {}


@ffi.def_extern()  # type: ignore[untyped-decorator]
def py_custom(args: Any) -> None:
    operation = _operations.get(int(ffi.cast("uintptr_t", args.user)))
    if operation is None or operation._raised is not None:
        return  # the call has already failed
    length = args.count * args.element_bytes
    left, right, result = (memoryview(ffi.buffer(ffi.cast("char *", pointer), length))
                           for pointer in (args.left, args.right, args.result))
    with called_back():
        try:
            operation._function(left.toreadonly(), right.toreadonly(), result,
                                DTYPE_NAMES.get(args.dtype, "opaque"))
        except BaseException as raised:
            operation._raised = raised


@ffi.def_extern()  # type: ignore[untyped-decorator]
def py_custom_release(user: Any) -> None:
    _operations.pop(int(ffi.cast("uintptr_t", user)), None)


class CustomOp:
    """A custom operation for collectives that reduce: pass it as `op`.

    function: called as function(left, right, result, dtype) with memory (of bytes) of equal length,
        to set result = left op right element by element, for example with `numpy.frombuffer(left,
        dtype)` and `out=`. `result` may be the memory of `left` or `right`. The function must be
        associative, must not keep its arguments, and must not use this package. If it raises, this
        rank aborts (Context.abort), and the call raises that exception.
    name: identifies the operation; must be the same on all ranks.
    commutative: left op right equals right op left; otherwise inputs are combined in rank order.
    element_bytes: size of elements that the library does not know, see `typed`; 0: the operation
        works on the types of the library."""

    def __init__(self, function: Combine, *, name: str = "python", commutative: bool = False,
                 element_bytes: int = 0) -> None:
        if not callable(function):
            raise wrong("function", function, "a function of left, right, result and dtype")
        self._function = function
        self._raised: BaseException | None = None
        options, key = ffi.new("gloo_custom_op_options *"), id(self)
        lib.py_gloo_custom_op_options_init(options)
        text = string("name", name)
        options.name, options.commutative, options.element_bytes = (
            text, bool(commutative), integer("element_bytes", element_bytes, 0))
        options.user, options.release = ffi.cast("void *", key), lib.py_custom_release
        place = ffi.new("gloo_custom_op **")
        checked(lib.gloo_custom_op_create, lib.py_custom, options, place)
        # py_custom_release drops this reference when the library no longer needs the operation.
        _operations[key] = self
        self._pointer: Any = place[0]

    def close(self) -> None:
        """Releases the operation; pending calls keep it. Without this call it stays until Python
        exits."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            lib.gloo_custom_op_destroy(pointer)

    def _take_raised(self) -> BaseException | None:
        raised, self._raised = self._raised, None
        return raised
