"""Requests: calls that were started, and can be waited for."""

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

# Interval at which a thread that waits for a request checks for signals (Ctrl-C), in ns.
_SLICE = 100_000_000


# Callbacks of requests by token. The handle is included so that the callback's thread drops its
# last reference: destroying the request elsewhere waits for the callback, whatever locks the
# program holds.
_functions: dict[int, tuple[Callable[[Request], object], Request, RequestHandle]] = {}
# Persistent requests with a callback, which they hold themselves, and those of them that are
# pending, with the number of calls to come: they stay until then.
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
        with _handles.at_end_of(request):
            function(request)
    except BaseException:  # there is no caller to raise it to
        _report(function)


def _count(token: int, request: Request, change: int) -> None:
    """Counts the pending calls of a persistent request's callback."""
    with _handles.lock:
        calls = _under_way.pop(token, (request, 0))[1] + change
        if calls > 0:
            _under_way[token] = request, calls


def _report(function: Callable[[Request], object]) -> None:
    """Reports the exception of a callback to sys.unraisablehook. Python's own hook accepts only
    arguments that the interpreter creates, so in its place the exception is printed here."""
    said = "Exception ignored in a completion callback"
    if sys.unraisablehook is sys.__unraisablehook__:
        print(f"{said}: {function!r}\n{traceback.format_exc()}", end="", file=sys.stderr)
        return
    kind, value, trace = sys.exc_info()
    sys.unraisablehook(SimpleNamespace(exc_type=kind, exc_value=value, exc_traceback=trace,
                                       object=function, err_msg=said))


class Request:
    """A pending operation, or a persistent one (`..._init`), which can be started any number of
    times.

    It keeps its arrays alive as long as the operation uses them. It may be dropped: the operation
    continues, and its memory is freed when it has completed.

    Any thread may use it, and several at once. `await request` waits for it in asyncio."""

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
        self._function: Callable[[Request], object] | None = None  # of a persistent request
        self._begun = False  # true once a persistent request was started
        if persistent:
            self._ended = (None,)

    def __repr__(self) -> str:
        ended = self._ended
        state = "under way" if ended is None else "over" if ended[0] is None else "failed"
        return f"<gloo_c.Request: {state}>"

    # Code in here has a request that no other thread destroys meanwhile, and a context that is
    # alive or destroyed for good.
    def _look(self, function: Callable[..., int], *arguments: Any) -> int | None:
        """Calls a function of the library on the request. Returns None if it has completed, with
        the outcome in `_ended`."""
        handle = self._handle
        if handle is None or self._ended is not None:
            return None
        context = self._context._handle  # a reference, so that it stays
        while context is None and not handle.state.gone:  # a thread is leaving the context
            ending = _handles.ending()
            if ending is self:
                break
            if ending is None:
                time.sleep(0.0005)
            elif function is lib.gloo_request_test:
                return int(lib.GLOO_IN_PROGRESS)
            else:
                raise InProgressError("the operation ends with its context, which is being closed; a completion "
                                      "callback cannot wait for that", lib.GLOO_IN_PROGRESS)
        error = new_error()
        status: int = function(handle.pointer, *arguments, error)
        if status == lib.GLOO_IN_PROGRESS:
            give_back(error)
            return status
        self._end(handle, status, error)
        del handle  # dropped before the context
        del context
        return None

    def _end(self, handle: RequestHandle, status: int, error: Any) -> None:
        if status == lib.GLOO_ERR_INVALID and _handles.in_callback():
            raise failure(status, error)  # this call is in a callback: not the operation's error
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
            self._handle = None  # current users hold a reference
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
        """Returns true if the operation has completed. Raises its error. Does not wait."""
        if self._look(lib.gloo_request_test) is not None:
            return False
        self._outcome()
        return True

    def wait(self, timeout: float | None = None) -> Any:
        """Waits until the operation has completed, for at most `timeout` seconds, and returns the
        result: the output, or the rank of the sender for a receive from any rank. Raises the error
        of the operation, or InProgressError if the time has passed: the operation continues, and
        can be waited for again."""
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
        """Returns true if the operation has completed or failed. Does not raise its error."""
        return self._look(lib.gloo_request_test) is None

    def exception(self) -> GlooError | None:
        """Returns the error of the operation, or None if it is pending or has succeeded."""
        return self._ended[0] if self.done() and self._ended else None

    @property
    def result(self) -> Any:
        """The result of a completed operation, as returned by `wait`."""
        if not self.done():
            raise InProgressError("the operation is still pending", lib.GLOO_IN_PROGRESS)
        return self._outcome()

    @property
    def source(self) -> int | None:
        """The rank whose message a completed receive got."""
        return self._source

    def start(self) -> Request:
        """Starts a persistent request again. Returns the request."""
        handle, context = self._handle, self._context._handle
        if not self._persistent or handle is None:
            raise ValueError("only requests from ..._init can be started again")
        if context is None:
            raise self._context._closed()
        if self._ended is None:
            self.done()  # it may have completed
        (ended, self._ended), begun = (self._ended, None), self._begun
        self._begun, token = True, handle.token
        if token:
            _count(token, self, 1)
        error = new_error()
        status = lib.gloo_request_start(handle.pointer, error)
        if status:
            # It is still pending, if its end was not known.
            self._ended, self._begun = ended, begun
            if token:
                _count(token, self, -1)
            raise failure(status, error)
        give_back(error)
        return self

    def cancel(self) -> None:
        """Cancels the operation. A receive without a message is withdrawn, and so is a send of
        which nothing was sent; cancelling any other operation makes the context unusable on all
        ranks."""
        handle, context = self._handle, self._context._handle
        if handle is not None and context is not None and self._ended is None:
            checked(lib.gloo_request_cancel, handle.pointer)

    def on_done(self, function: Callable[[Request], object]) -> None:
        """Registers `function`, to be called with this request when it has completed; calls it at
        once if it already has. A thread of the library calls it, and no other callback meanwhile,
        so it should be short. Exceptions are printed."""
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
        """Releases the request: the operation continues, and its memory is freed when it has
        completed. Equivalent to dropping the last reference."""
        self._handle = None
        if self._ended is None:
            self._ended = (InProgressError("this request was released", lib.GLOO_IN_PROGRESS),)

    def __await__(self) -> Generator[Any, None, Any]:
        from ._aio import future_of

        return future_of(self).__await__()


# ---- several -----------------------------------------------------------------------------------

def _pointers(requests: Sequence[Request | None]) -> tuple[Any, list[Any]]:
    """Returns a list of handles as C takes it, and the references to hold while it is used."""
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
    """Waits until one of several requests has completed, and returns its index, or None if there
    are no requests. Entries that are None are skipped: set completed ones to None. Does not raise
    the error of the request. Raises InProgressError if the time has passed."""
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
    """Waits until all requests have completed, and returns their results. Raises the error of the
    first failed request, or InProgressError if the timeout for all of them has passed."""
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
                break  # raised below, after all have completed
    return [request._outcome() if request is not None else None for request in requests]
