"""Calls of the C interface, prepared from arguments by _collectives, and their common options.

`forms` makes four methods from each, which differ in how they wait."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, TypedDict, TypeVar

from ._binding import ffi, lib
from ._convert import integer, nanoseconds, string, wrong
from ._custom import CustomOp
from ._errors import text
from ._gpu import calls_in, handle_of
from ._requests import Request

if TYPE_CHECKING:
    import asyncio

    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")
    C = TypeVar("C", bound="Caller")

OPS: dict[str, int] = {text(lib.gloo_op_name(n)): n for n in range(lib.GLOO_OP_COUNT)}
OPS["scaled_sum"] = lib.GLOO_SCALED_SUM
NULL = ffi.NULL
_OPTIONS = ffi.typeof("gloo_options *")


class Options(TypedDict, total=False):
    """Options of every call, in addition to its arguments.

    timeout: seconds; None is the context's timeout, infinity no limit.
    tag: operations with the same tag match in the order of their calls. Use a tag per thread; for
        messages, it is the tag of the message.
    algorithm: name of an algorithm; None: chosen by size and ranks.
    ordered: combine inputs in rank order, so that the bits of the result do not depend on the
        algorithm.
    factor: factor of this rank's input for op="scaled_sum".
    stream: CUDA stream whose earlier work on arrays in GPU memory the call follows: a handle, or an
        object with `__cuda_stream__` or `cuda_stream`; None: the legacy default stream. The result is
        ready for every stream when the call returns, or its request has completed.
    matched_by_init: match persistent requests in the order of their creation; see gloo_options of
        the C interface."""

    timeout: float | None
    tag: int
    algorithm: str | None
    ordered: bool
    factor: float
    stream: Any
    matched_by_init: bool


class Call(NamedTuple):
    """A call of the C interface. Its functions are gloo_NAME, gloo_NAME_start and gloo_NAME_init;
    `arguments` are those between the context and the options."""

    name: str
    arguments: tuple[Any, ...]
    keep: Any  # must stay alive as long as the operation uses it
    result: Any  # returned by a wait for the operation
    options: Options
    op: str | CustomOp = "sum"
    opaque_bytes: int = 0
    receives: bool = False  # the result is the rank of the sender


def op_number(op: str | CustomOp) -> int:
    if isinstance(op, CustomOp):
        return int(lib.GLOO_CUSTOM)
    try:
        return OPS[op]
    except (KeyError, TypeError):
        raise ValueError(f"unknown operation {op!r}; valid: {', '.join(OPS)}") from None


def options_of(call: Call) -> tuple[Any, Any]:
    """Returns gloo_options, and the objects that must stay alive while they are read."""
    given, custom = call.options, call.op if isinstance(call.op, CustomOp) else None
    if not given and custom is None:
        return NULL, None
    options, kept = ffi.new(_OPTIONS), [custom]
    lib.py_gloo_options_init(options)
    for name, value in given.items():
        if name == "timeout":
            options.timeout_ns = nanoseconds(value)
        elif name == "tag":
            options.tag = integer("tag", value, 0, (1 << 32) - 1)
        elif name == "algorithm":
            if value is not None:
                kept.append(string("algorithm", value))
                options.algorithm = kept[-1]
        elif name == "ordered":
            options.ordered = bool(value)
        elif name == "factor":
            try:
                kept.append(ffi.new("double *", value))
            except TypeError:
                raise wrong("factor", value, "a number") from None
            options.factor = kept[-1]
        elif name == "stream":
            if value is not None:
                options.stream = ffi.cast("void *", handle_of(value))
        elif name == "matched_by_init":
            options.matched_by_init = bool(value)
        else:
            raise TypeError(f"{call.name} has no option {name!r}; valid: "
                            f"{', '.join(Options.__annotations__)}")
    if custom is not None:
        if custom._pointer is None:
            raise ValueError("this operation was closed")
        options.custom, options.custom_element_bytes = custom._pointer, call.opaque_bytes
    return options, kept


def _in_stream(prepare: Any, self: Any, args: Any, kwargs: Any) -> Call:
    """Prepares a call that names a stream."""
    if kwargs["stream"] is not None:
        kwargs["stream"] = handle_of(kwargs["stream"])
    with calls_in(kwargs["stream"] or 0):
        made: Call = prepare(self, *args, **kwargs)
        return made


def clear(call: Call, problem: Exception) -> Exception:
    """Returns an exception that names the argument that cffi refused. Among plain integers only
    ranks come from the program."""
    for value in call.arguments:
        if not isinstance(value, (int, ffi.CData)):
            return wrong(f"{call.name}: a rank (root or peer)", value, "a whole number")
    return problem


class Caller:
    """The part of a Context that runs prepared calls."""

    size: int
    rank: int

    def _run(self, call: Call) -> Any:
        raise NotImplementedError

    def _begin(self, call: Call, form: str) -> Request:
        raise NotImplementedError

    def _future(self, call: Call) -> asyncio.Future[Any]:
        raise NotImplementedError


def forms(prepare: Callable[Concatenate[C, P], Call]) -> tuple[
        Callable[Concatenate[C, P], Any], Callable[Concatenate[C, P], Request],
        Callable[Concatenate[C, P], asyncio.Future[Any]],
        Callable[Concatenate[C, P], Request]]:
    """Makes the four forms of a call: blocking, `_start`, `_async` and `_init`."""
    name = prepare.__name__.lstrip("_")
    said = prepare.__doc__ or ""

    def prepared(self: C, args: Any, kwargs: Any) -> Call:
        return _in_stream(prepare, self, args, kwargs) if "stream" in kwargs else prepare(self, *args, **kwargs)

    @wraps(prepare)
    def blocking(self: C, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self._run(prepared(self, args, kwargs))

    @wraps(prepare)
    def start(self: C, *args: P.args, **kwargs: P.kwargs) -> Request:
        return self._begin(prepared(self, args, kwargs), "_start")

    @wraps(prepare)
    def in_asyncio(self: C, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[Any]:
        return self._future(prepared(self, args, kwargs))

    @wraps(prepare)
    def init(self: C, *args: P.args, **kwargs: P.kwargs) -> Request:
        return self._begin(prepared(self, args, kwargs), "_init")

    for form, ending, how in (
            (blocking, "", "Blocks until this rank is done, and returns the output."),
            (start, "_start", "Returns a Request at once."),
            (in_asyncio, "_async", "Starts the call and returns a future of the running loop; "
                                   "cancelling the future does not cancel the operation."),
            (init, "_init", "Returns a Request that can be started any number of times.")):
        form.__name__ = name + ending
        form.__qualname__ = f"Context.{name}{ending}"
        form.__doc__ = f"{said}\n\n{how}"
        form.__annotations__ = {key: value for key, value in prepare.__annotations__.items()
                                if key != "return"}
    return blocking, start, in_asyncio, init  # type: ignore[return-value]
