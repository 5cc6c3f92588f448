"""Waiting in asyncio, by the descriptor that a device has for event loops."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from ._binding import ffi, lib
from ._errors import GlooError, checked

if TYPE_CHECKING:
    from ._requests import Request

    Entry = tuple[Request, asyncio.Future[Any], asyncio.AbstractEventLoop]



class Watcher:
    """The event loops that wait for requests of one device. All of them watch its descriptor; the
    first that finds it readable tests the requests of all."""

    def __init__(self, device: Any) -> None:
        fd = ffi.new("int *")
        checked(lib.gloo_device_get_fd, device, fd)
        self.device: Any = device
        self.fd: int = fd[0]
        self.lock = threading.Lock()
        self.waiting: list[Entry] = []
        self.loops: dict[asyncio.AbstractEventLoop, int] = {}

    def future(self, request: Request) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self.lock:
            self.waiting.append((request, future, loop))
            first = loop not in self.loops
            self.loops[loop] = self.loops.get(loop, 0) + 1
        if first and self.device is not None:
            loop.add_reader(self.fd, self._readable)
        self._look()  # it may have completed before the descriptor was watched
        return future

    def _readable(self) -> None:
        if self.device is not None:
            lib.gloo_device_clear_fd(self.device)
        self._look()

    def _look(self) -> None:
        """Completes the futures of requests that have completed."""
        # Entries stay in the list during the test, because another loop may test them meanwhile,
        # and find requests that complete after this test.
        with self.lock:
            waiting = list(self.waiting)
        ended = [entry for entry in waiting if entry[2].is_closed() or entry[0].done()]
        with self.lock:
            over = [entry for entry in ended if entry in self.waiting]
            self.waiting = [entry for entry in self.waiting if entry not in over]
        here = asyncio._get_running_loop()
        for request, future, loop in over:
            if here is loop:
                self._tell(request, future, loop)
            else:
                try:
                    loop.call_soon_threadsafe(self._tell, request, future, loop)
                except RuntimeError:  # that loop is closed
                    self._left(loop, closed=True)

    def _tell(self, request: Request, future: asyncio.Future[Any],
              loop: asyncio.AbstractEventLoop) -> None:
        self._left(loop)
        if future.done():
            return
        try:
            future.set_result(request.result)
        except GlooError as error:
            future.set_exception(error)

    def _left(self, loop: asyncio.AbstractEventLoop, closed: bool = False) -> None:
        with self.lock:
            left = self.loops.get(loop, 0) - 1
            if left > 0:
                self.loops[loop] = left
            else:
                self.loops.pop(loop, None)
        if left <= 0 and not closed and self.device is not None:
            loop.remove_reader(self.fd)

    def close(self) -> None:
        """Stops watching the descriptor, before the device may be destroyed."""
        with self.lock:
            loops, self.device = list(self.loops), None
        here = asyncio._get_running_loop()
        for loop in loops:
            if loop is here:
                loop.remove_reader(self.fd)
            elif not loop.is_closed():
                removed = threading.Event()

                def remove(loop: asyncio.AbstractEventLoop = loop,
                           removed: threading.Event = removed) -> None:
                    loop.remove_reader(self.fd)
                    removed.set()

                try:
                    loop.call_soon_threadsafe(remove)
                except RuntimeError:
                    continue
                # A loop that is not running does not watch the descriptor either.
                removed.wait(1 if loop.is_running() else 0)

    def closed(self) -> None:
        """Completes all futures after the context was destroyed."""
        self._look()


def future_of(request: Request) -> asyncio.Future[Any]:
    """Returns a future of the running loop for a request. Cancelling it does not cancel the
    operation, because other ranks depend on it."""
    return request._context._watcher().future(request)
