"""Operations of the program's own."""

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
        return  # the call has failed already
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
    """An operation for the collectives that reduce: pass it as `op`.

    function: called as function(left, right, result, dtype) with memory (of bytes) of equal
        length, to set result = left op right element by element; `numpy.frombuffer(left, dtype)`
        and `out=` do. `result` may be the memory of `left` or `right`. It must be associative, must
        not keep what it is given, and must not use this package. When it raises, this rank gives up
        (Context.abort), and the call raises that.
    name: tells operations apart between ranks.
    commutative: left op right is right op left; without it inputs are combined in rank order.
    element_bytes: of elements that the library knows nothing of, see `typed`; 0: it works on the
        types of the library."""

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
        # Alive until the library needs it no more, which py_custom_release says.
        _operations[key] = self
        self._pointer: Any = place[0]

    def close(self) -> None:
        """Let go of it; operations under way keep it. It stays as long as Python runs if this is
        not called."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            lib.gloo_custom_op_destroy(pointer)

    def _take_raised(self) -> BaseException | None:
        raised, self._raised = self._raised, None
        return raised
