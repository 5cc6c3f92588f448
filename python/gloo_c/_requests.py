"""Calls that were started and not waited for."""

from __future__ import annotations

import itertools
import sys
import time
import traceback
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Callable, Generator, Sequence

from . import _handles
from ._binding import ffi, lib
from ._convert import an, nanoseconds, wrong
from ._errors import GlooError, InProgressError, checked, failure, give_back, new_error
from ._handles import RequestHandle

if TYPE_CHECKING:
    from ._context import Context
    from ._custom import CustomOp

# So often does a thread that waits for a request look for signals (Ctrl-C).
_SLICE = 100_000_000


# Functions that are called when requests are over, by what the library hands back. The handle is
# there so that the function's thread is the last to let go of it: destroying it elsewhere waits for
# the function, with whatever locks the program has taken.
_functions: dict[int, tuple[Callable[[Request], object], Request, RequestHandle]] = {}
# Persistent requests with such a function, which they hold themselves; and those of them that are
# under way, which stay until it was called, with the number of calls to come.
_repeated: weakref.WeakValueDictionary[int, Request] = weakref.WeakValueDictionary()
_under_way: dict[int, tuple[Request, int]] = {}
_tokens = itertools.count(1)


@ffi.def_extern()  # type: ignore[untyped-decorator]
def py_request_done(user: Any, _pointer: Any, _status: int) -> None:
    token = int(ffi.cast("uintptr_t", user))
    found = _functions.pop(token, None)
    repeated = _repeated.get(token)
    if found is not None:
        _call(found[0], found[1])
    elif repeated is not None and repeated._function is not None:
        _count(token, repeated, -1)
        _call(repeated._function, repeated)
    del found, repeated  # while the request holds its context


def _call(function: Callable[[Request], object], request: Request) -> None:
    try:
        function(request)
    except BaseException:  # there is no caller that it could go to
        _report(function)


def _count(token: int, request: Request, change: int) -> None:
    """Counts the calls to come of the function of a persistent request."""
    with _handles.lock:
        calls = _under_way.pop(token, (request, 0))[1] + change
        if calls > 0:
            _under_way[token] = request, calls


def _report(function: Callable[[Request], object]) -> None:
    """Tells sys.unraisablehook of the exception of a function. Python's own hook takes only what the
    interpreter makes, so in its place the exception is printed here."""
    said = "Exception ignored in a completion callback"
    if sys.unraisablehook is sys.__unraisablehook__:
        print(f"{said}: {function!r}\n{traceback.format_exc()}", end="", file=sys.stderr)
        return
    kind, value, trace = sys.exc_info()
    sys.unraisablehook(SimpleNamespace(exc_type=kind, exc_value=value, exc_traceback=trace,
                                       object=function, err_msg=said))


class Request:
    """An operation under way, or one that can be started again and again (`..._init`).

    It keeps its arrays for as long as the operation uses them. It may be dropped: the operation
    then goes on all the same, and what it uses is freed when it is over.

    Any thread may use it, several at once too. `await request` waits for it in asyncio."""

    __slots__ = ("_handle", "_context", "_result", "_custom", "_persistent", "_ended", "_source",
                 "_function", "_begun", "__weakref__")

    def __init__(self, pointer: Any, context: Context, keep: Any, result: Any,
                 custom: CustomOp | None, persistent: bool, state: Any) -> None:
        self._handle: RequestHandle | None = RequestHandle(pointer, keep, state)
        self._context = context
        self._result = result
        self._custom = custom
        self._persistent = persistent
        self._ended: tuple[GlooError | None] | None = None
        self._source: int | None = None
        self._function: Callable[[Request], object] | None = None  # of a persistent one
        self._begun = False  # has a persistent one run?
        if persistent:
            self._ended = (None,)

    def __repr__(self) -> str:
        ended = self._ended
        state = "under way" if ended is None else "over" if ended[0] is None else "failed"
        return f"<gloo_c.Request: {state}>"

    # Whatever runs here has a request that no one destroys meanwhile, and a context that is there,
    # or is gone for good.
    def _look(self, function: Callable[..., int], *arguments: Any) -> int | None:
        """Ask the library about the request. None: it is over, and `_ended` says how."""
        handle = self._handle
        if handle is None or self._ended is not None:
            return None
        context = self._context._handle  # held, so that it stays
        while context is None and not handle.state.gone:
            time.sleep(0.0005)  # another thread leaves the context
        error = new_error()
        status: int = function(handle.pointer, *arguments, error)
        if status == lib.GLOO_IN_PROGRESS:
            give_back(error)
            return status
        self._end(handle, status, error)
        del handle  # it may go here, and only then the context
        del context
        return None

    def _end(self, handle: RequestHandle, status: int, error: Any) -> None:
        if status == lib.GLOO_ERR_INVALID and _handles.in_callback():
            raise failure(status, error)  # not the operation's: it is called in the wrong place
        source = lib.gloo_request_source(handle.pointer)
        self._source = source if source >= 0 else None
        handle.over = not self._persistent
        if status:
            self._ended = (failure(status, error),)
        else:
            give_back(error)
            self._ended = (None,)
        if not self._persistent:
            handle.keep = None
            self._handle = None  # whoever uses it at the moment holds it
        if self._custom is not None:
            raised = self._custom._take_raised()
            if raised is not None:
                self._ended = (self._context._gave_up(raised),)

    def _outcome(self) -> Any:
        ended = self._ended
        assert ended is not None
        if ended[0] is not None:
            raise ended[0]
        return self._result

    def test(self) -> bool:
        """Is it over? Raises what it has failed of. Does not wait."""
        if self._look(lib.gloo_request_test) is not None:
            return False
        self._outcome()
        return True

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until it is over, for so many seconds at most, and return the result: the output,
        or for a receive from any rank that rank. Raises what it has failed of; and InProgressError
        when the time has passed, after which it goes on and can be waited for again."""
        limit = 0 if timeout is None else nanoseconds(timeout)
        if limit <= 0:
            while self._look(lib.gloo_request_wait, _SLICE) is not None:
                pass
            return self._outcome()
        end = time.monotonic_ns() + limit
        while self._look(lib.gloo_request_wait,
                         max(1, min(_SLICE, end - time.monotonic_ns()))) is not None:
            if time.monotonic_ns() >= end:
                raise InProgressError(f"the operation did not complete within {timeout:g} s, and continues",
                                      lib.GLOO_IN_PROGRESS)
        return self._outcome()

    def done(self) -> bool:
        """Is it over? Raises nothing that it has failed of."""
        return self._look(lib.gloo_request_test) is None

    def exception(self) -> GlooError | None:
        """What it has failed of; None as long as it is under way, and when all went well."""
        return self._ended[0] if self.done() and self._ended else None

    @property
    def result(self) -> Any:
        """What `wait` returns, of a request that is over."""
        if not self.done():
            raise InProgressError("the operation is still pending", lib.GLOO_IN_PROGRESS)
        return self._outcome()

    @property
    def source(self) -> int | None:
        """The rank that a receive which is over got its message from."""
        return self._source

    def start(self) -> Request:
        """Start a persistent request once more. Returns itself."""
        handle, context = self._handle, self._context._handle
        if not self._persistent or handle is None:
            raise ValueError("only requests from ..._init can be started again")
        if context is None:
            raise self._context._closed()
        if self._ended is None:
            self.done()  # it may be over by now
        (ended, self._ended), begun = (self._ended, None), self._begun
        self._begun, token = True, handle.token
        if token:
            _count(token, self, 1)
        error = new_error()
        status = lib.gloo_request_start(handle.pointer, error)
        if status:
            # Under way already, when nothing was known of its end.
            self._ended, self._begun = ended, begun
            if token:
                _count(token, self, -1)
            raise failure(status, error)
        give_back(error)
        return self

    def cancel(self) -> None:
        """Give up. A receive that no message has reached is withdrawn, and so is a send of which
        nothing has left; anything else makes the context unusable, on all ranks."""
        handle, context = self._handle, self._context._handle
        if handle is not None and context is not None and self._ended is None:
            checked(lib.gloo_request_cancel, handle.pointer)

    def on_done(self, function: Callable[[Request], object]) -> None:
        """Have `function` called with this request when it is over; at once where it is already.
        It is called by a thread of the library, and should be short: no other such function is
        called meanwhile. What it raises is printed."""
        if not callable(function):
            raise wrong("on_done: function", function, "a function of one argument, the request")
        handle, context = self._handle, self._context._handle
        if handle is None or context is None:
            function(self)
            return
        if handle.token:
            raise ValueError("this request already has a callback")
        handle.token = token = next(_tokens)
        if self._persistent:
            self._function, _repeated[token] = function, self
            if self._begun:
                _count(token, self, 1)
        else:
            _functions[token] = function, self, handle
        try:
            checked(lib.gloo_request_on_done, handle.pointer, lib.py_request_done,
                    ffi.cast("void *", token))
        except GlooError:
            _functions.pop(token, None)
            _under_way.pop(token, None)
            raise

    def release(self) -> None:
        """Let go of it: it goes on, and is freed with what it uses when it is over. The same as
        dropping the last reference."""
        self._handle = None
        if self._ended is None:
            self._ended = (InProgressError("this request was released", lib.GLOO_IN_PROGRESS),)

    def __await__(self) -> Generator[Any, None, Any]:
        from ._aio import future_of

        return future_of(self).__await__()


# ---- several -----------------------------------------------------------------------------------

def _pointers(requests: Sequence[Request | None]) -> tuple[Any, list[Any]]:
    """A list of handles as C takes it, and what must be held while it is used."""
    held: list[Any] = []
    pointers = ffi.new("gloo_request *[]", max(len(requests), 1))
    for index, request in enumerate(requests):
        handle = request._handle if request is not None and request._ended is None else None
        if handle is not None and request is not None:
            held.append((handle, request._context._handle))
            pointers[index] = handle.pointer
    return pointers, held


def _check(name: str, requests: Any) -> None:
    if not isinstance(requests, (list, tuple)):
        raise wrong(f"{name}: requests", requests, "a list of requests")
    for place, request in enumerate(requests):
        if request is not None:
            an(f"{name}: requests[{place}]", request, Request, "a Request, or None")


def wait_any(requests: Sequence[Request | None], timeout: float | None = None) -> int | None:
    """Wait until one of several requests is over, and return its place in the list; None where
    there is none. Entries that are None are left out: put None where one was found. Does not raise
    what it has failed of: ask it. InProgressError when the time has passed."""
    _check("wait_any", requests)
    limit = nanoseconds(timeout)
    end = time.monotonic_ns() + limit if limit > 0 else None
    index, error = ffi.new("size_t *"), new_error()
    while True:
        for place, request in enumerate(requests):
            if request is not None and request.done():
                return place
        if all(request is None for request in requests):
            return None
        pointers, held = _pointers(requests)
        left = _SLICE if end is None else max(1, min(_SLICE, end - time.monotonic_ns()))
        status = lib.gloo_request_wait_any(pointers, len(requests), left, index, error)
        if status and index[0] == lib.GLOO_NO_INDEX and status != lib.GLOO_IN_PROGRESS:
            raise failure(status, error)
        del held
        if end is not None and status == lib.GLOO_IN_PROGRESS and time.monotonic_ns() >= end:
            raise InProgressError(f"no operation completed within {timeout:g} s", lib.GLOO_IN_PROGRESS)


def wait_all(requests: Sequence[Request | None], timeout: float | None = None) -> list[Any]:
    """Wait until all requests are over, and return their results. Raises what the first of them
    has failed of that has; and InProgressError when the time (for all of them together) has
    passed."""
    _check("wait_all", requests)
    limit = nanoseconds(timeout)
    end = time.monotonic() + limit / 1e9 if limit > 0 else None
    for request in requests:
        while request is not None and not request.done():
            left = None if end is None else max(0.0, end - time.monotonic())
            try:
                request.wait(left)
            except InProgressError:
                raise
            except GlooError:
                break  # told below, when all are over
    return [request._outcome() if request is not None else None for request in requests]
