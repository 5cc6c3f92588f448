"""Pending operations, as PyTorch sees them, and the futures of their results."""

from __future__ import annotations

import os
import queue
import threading
import time
from datetime import timedelta
from typing import Any, Callable

import torch
from torch._C._distributed_c10d import Work as _Work

from .. import _handles
from .._binding import lib
from .._errors import GlooError, InProgressError
from .._requests import Request
from ._errors import backend_error
from ._profiler import profiled, shown
from ._tensors import gpus_of

_UNSET = timedelta(milliseconds=-1)
_ZERO = timedelta(0)


class _Completers:
    """Threads that complete futures. A callback of a future may wait for another future (PowerSGD's
    does), so there is always a free thread, up to a number that no reasonable program reaches."""

    MOST = 64

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._free = 0  # threads that wait for a job, minus the jobs that wait for a thread
        self._threads = 0

    def submit(self, job: Callable[[], None]) -> None:
        with self._lock:
            if self._free > 0 or self._threads >= self.MOST:
                self._free -= 1
            else:
                self._threads += 1
                threading.Thread(target=self._run, name="gloo_c.torch", daemon=True).start()
            self._jobs.put(job)

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            job()
            del job
            with self._lock:
                self._free += 1

    def close(self) -> None:
        with self._lock:
            for _ in range(self._threads):
                self._jobs.put(None)


_completers = _Completers()


def _renew() -> None:
    global _completers
    _completers = _Completers()


_handles.at_exit(lambda: _completers.close())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def _future_of(result: Any) -> torch.futures.Future[Any]:
    """Returns a future for this result. One for GPUs orders streams: callbacks run in new streams, and
    the current stream of a thread that waits follows them."""
    devices: list[Any] = list(gpus_of(result))
    return torch.futures.Future(devices=devices) if devices else torch.futures.Future()


class Ended(_Work):
    """A completed operation."""

    _future: torch.futures.Future[Any] | None = None

    def __init__(self, result: Any) -> None:
        _Work.__init__(self)  # super() takes longer
        self._result = result

    def wait(self, timeout: timedelta = _UNSET) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def block_current_stream(self) -> None:
        pass

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def result(self) -> Any:
        return self._result

    def get_future(self) -> torch.futures.Future[Any]:
        with _futures:
            if self._future is None:
                self._future = _future_of(self._result)
                self._future.set_result(self._result)
            return self._future


class _Pending(_Work):
    """A pending operation."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self._result = result
        self._future: torch.futures.Future[Any] | None = None

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def result(self) -> Any:
        self.wait()
        return self._result

    def source_rank(self) -> int:
        return -1

    def _source_rank(self) -> int:
        return self.source_rank()

    def get_future(self) -> torch.futures.Future[Any]:
        with _futures:
            if self._future is not None:
                return self._future
            over = _future_of(self._result)
            # Not set_exception: waiters in C++ would take the exception for a value.
            self._future = over.then(self._outcome)

        def complete() -> None:
            self._finish()
            over.set_result(None)

        self._when_done(complete)
        return self._future

    def _finish(self) -> None:
        """Waits for the end, whatever the outcome."""
        try:
            self.wait()
        except Exception:  # `exception` returns it
            pass

    def _outcome(self, _over: Any) -> Any:
        self.wait()
        return self._result

    def _when_done(self, function: Callable[[], None]) -> None:
        """Calls `function` in a thread that may wait, after the operation has completed."""
        raise NotImplementedError


class Started(_Pending):
    """A pending operation. The group keeps it until it has completed."""

    def __init__(self, request: Request, result: Any, after: Callable[[], None] | None) -> None:
        super().__init__(result)
        self._request = request
        self._after = after  # makes the result from the output
        self._lock = threading.Lock() if after is not None else None
        self._failure: Exception | None = None  # from `after`

    def _settle(self) -> None:
        """Sets the result after completion. The first thread makes it; others wait for it."""
        if self._lock is None:
            return
        with self._lock:
            after, self._after = self._after, None
            if after is not None:
                try:
                    after()
                except Exception as failure:
                    self._failure = failure
        if self._failure is not None:
            raise self._failure

    def wait(self, timeout: timedelta = _UNSET) -> bool:
        wait = shown("wait", self._request.wait) if profiled() else self._request.wait
        try:
            wait(timeout.total_seconds() if timeout > _ZERO else None)
        except GlooError as error:
            raise backend_error(error) from None
        self._settle()
        return True

    def is_completed(self) -> bool:
        if not self._request.done():
            return False
        self.exception()
        return True

    def exception(self) -> Exception | None:
        if not self._request.done():
            return None
        error = self._request.exception()
        if error is not None:
            return backend_error(error)
        try:
            self._settle()
        except Exception as failure:
            return failure
        return None

    def source_rank(self) -> int:
        source = self._request.source
        return -1 if source is None else source

    def _when_done(self, function: Callable[[], None]) -> None:
        if self._request.done():
            function()
        else:
            self._request.on_done(lambda _request: _completers.submit(function))


class Deferred(_Pending):
    """An operation that another thread starts, after the pending ones."""

    def __init__(self, result: Any) -> None:
        super().__init__(result)
        self._begun = threading.Event()
        self._work: Started | None = None
        self._failure: Exception | None = None

    def begin_by(self, begin: Callable[[], Started]) -> None:
        def run() -> None:
            try:
                self._work = begin()
            except Exception as failure:
                self._failure = failure
            self._begun.set()

        _completers.submit(run)

    def wait_begun(self) -> None:
        self._begun.wait()

    def wait(self, timeout: timedelta = _UNSET) -> bool:
        if timeout <= _ZERO:
            self._begun.wait()
        else:
            deadline = time.monotonic() + timeout.total_seconds()
            if not self._begun.wait(timeout.total_seconds()):
                raise backend_error(InProgressError(
                    f"the operation did not complete within {timeout.total_seconds():g} s, and continues",
                    int(lib.GLOO_IN_PROGRESS)))
            timeout = timedelta(seconds=max(deadline - time.monotonic(), 1e-6))
        if self._work is None:
            assert self._failure is not None
            raise self._failure
        return self._work.wait(timeout)

    def is_completed(self) -> bool:
        return self._begun.is_set() and (self._work is None or self._work.is_completed())

    def exception(self) -> Exception | None:
        return self._failure if self._work is None else self._work.exception()

    def _when_done(self, function: Callable[[], None]) -> None:
        _completers.submit(function)


_futures = threading.Lock()
