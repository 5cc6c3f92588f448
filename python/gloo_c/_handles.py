"""Ownership and destruction of the library's objects.

An object is destroyed with the last Python reference to its handle, and threads in a call hold
references to what they use, so nothing is destroyed during a call. A pending request that is
dropped stays, with its memory, until it has completed.

Threads of the library call functions of the program, in which nothing may be destroyed, and Python
may collect garbage anywhere. Such destructions are deferred."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections import deque
from types import FrameType
from typing import Any, Callable

from ._binding import ffi, lib

# Protects state that several threads may change. It is recursive because garbage collection while a
# thread holds it makes the same thread take it again.
lock = threading.RLock()
put_off: deque[tuple[Callable[[Any], None], Any]] = deque()
_contexts: weakref.WeakSet[ContextHandle]


class _Thread(threading.local):
    calls = 0
    ending: Any = None  # the request whose completion callback it calls, in which objects may be destroyed


_thread = _Thread()


class called_back:
    """Marks a thread as called by the library."""

    def __enter__(self) -> None:
        _thread.calls += 1

    def __exit__(self, *_: object) -> None:
        _thread.calls -= 1


class at_end_of:
    """Marks a thread as one that calls the completion callback of a request."""

    def __init__(self, request: Any) -> None:
        self._request = request

    def __enter__(self) -> None:
        self._request, _thread.ending = _thread.ending, self._request

    def __exit__(self, *_: object) -> None:
        _thread.ending = self._request


def ending() -> Any:
    """Returns the request whose completion callback calls, or None."""
    return _thread.ending


def in_callback() -> bool:
    return _thread.calls > 0


def _destroy(function: Callable[[Any], None], pointer: Any) -> None:
    if _thread.calls:
        put_off.append((function, pointer))
    else:
        function(pointer)


def catch_up() -> None:
    """Destroys deferred objects. Cheap if there are none."""
    while put_off and not _thread.calls:
        try:
            function, pointer = put_off.popleft()
        except IndexError:
            return
        function(pointer)


class DeviceHandle:
    """A gloo_device, destroyed after all contexts on it, in whatever order they are collected."""

    __slots__ = ("pointer", "contexts", "dropped", "__weakref__")

    def __init__(self, pointer: Any) -> None:
        self.pointer = pointer
        self.contexts = 0
        self.dropped = False

    def gained(self) -> None:
        with lock:
            self.contexts += 1

    def lost(self) -> None:
        with lock:
            self.contexts -= 1
            gone = self.dropped and self.contexts == 0
        if gone:
            self._destroy()

    def __del__(self) -> None:
        with lock:
            self.dropped = True
            gone = self.contexts == 0
        if gone:
            self._destroy()

    def _destroy(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer is not None:
            _destroy(lib.gloo_device_destroy, pointer)


class ContextState:
    """The state of a context that its requests use without keeping the context alive."""

    __slots__ = ("gone", "orphans")

    def __init__(self) -> None:
        self.gone = False  # destroyed: any thread may test and destroy its requests
        self.orphans: list[RequestHandle] = []


class ContextHandle:
    """A gloo_context. Threads in a call with it hold a reference, and so may parts of this package,
    which release it in a function in `closers`."""

    __slots__ = ("pointer", "device", "keep", "state", "process", "closers", "__weakref__")

    def __init__(self, pointer: Any, device: DeviceHandle | None, keep: Any) -> None:
        self.pointer = pointer
        self.device = device
        self.keep = keep
        self.state = ContextState()
        self.process = os.getpid()
        self.closers: list[Callable[[], None]] = []  # called when the program closes the context
        if device is not None:
            device.gained()
        _contexts.add(self)

    def __del__(self) -> None:
        self.let_go()

    def let_go(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer is not None:
            _destroy(self._end, pointer)

    def _end(self, pointer: Any) -> None:
        lib.gloo_context_destroy(pointer)
        state = self.state
        with lock:
            state.gone = True
            orphans, state.orphans = state.orphans, []
        for orphan in orphans:
            orphan.destroy()
        if self.device is not None:
            self.device.lost()

    def look_after_orphans(self) -> None:
        """Destroys dropped requests that have completed."""
        with lock:
            orphans, self.state.orphans = self.state.orphans, []
        going_on = [orphan for orphan in orphans
                    if lib.gloo_request_test(orphan.pointer, ffi.NULL) == lib.GLOO_IN_PROGRESS]
        with lock:
            self.state.orphans += going_on
        for orphan in orphans:
            if orphan not in going_on:
                orphan.destroy()


_contexts = weakref.WeakSet()


class RequestHandle:
    """A gloo_request and the memory that it uses."""

    __slots__ = ("pointer", "keep", "state", "over", "token")

    def __init__(self, pointer: Any, keep: Any, state: ContextState) -> None:
        self.pointer = pointer
        self.keep = keep
        self.state = state
        self.over = False  # completed for good; the holder also holds the context
        self.token = 0  # of its callback in _requests

    def __del__(self, finalizing: Any = sys.is_finalizing) -> None:
        if finalizing():  # the contexts have ended, and this module may be cleared
            return
        if self.over or self.pointer is None:
            self.destroy()
            return
        with lock:
            if not self.state.gone:
                heir = RequestHandle(self.pointer, self.keep, self.state)
                self.state.orphans.append(heir)
                return
        self.destroy()

    def destroy(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer is not None:
            _destroy(lib.gloo_request_destroy, pointer)


# ---- the end of Python, and forked children ----------------------------------------------------

_closers: list[Callable[[], None]] = []


def at_exit(function: Callable[[], None]) -> None:
    """Registers a function to call before contexts are destroyed at exit."""
    _closers.append(function)


open_contexts: weakref.WeakSet[Any] = weakref.WeakSet()


_FOLDER = os.path.dirname(__file__) + os.sep


def _called_by_others() -> bool:
    """Returns true if another thread is in this package."""
    own = threading.get_ident()
    for thread, running in sys._current_frames().items():
        frame: FrameType | None = running
        while frame is not None and thread != own:
            if frame.f_code.co_filename.startswith(_FOLDER):
                return True
            frame = frame.f_back
    return False


def _leave() -> None:
    """Leaves all contexts while Python can still run the program's functions."""
    for closer in _closers:
        closer()
    for context in list(open_contexts):
        context.close()
    process, deadline, told = os.getpid(), time.monotonic() + 2, False
    while True:
        # The remaining contexts are used by threads that Python does not wait for, or kept by an
        # exception, which has the frames that it passed: the one that ended the program, or one
        # stored elsewhere.
        busy = [handle for handle in list(_contexts)
                if handle.pointer is not None and handle.process == process]
        if not busy or (told and time.monotonic() > deadline):
            break
        if not _called_by_others():
            for handle in busy:
                handle.let_go()
            break
        if not told:
            told = True
            for handle in busy:
                lib.gloo_context_abort(handle.pointer, b"the program ends", ffi.NULL)
            del handle
        del busy  # drop the list's references
        time.sleep(0.005)
    catch_up()
    for handle in list(_contexts):
        handle.pointer = None  # the process takes it along


def _forked() -> None:
    global lock
    lock = threading.RLock()
    _thread.calls = 0


atexit.register(_leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
