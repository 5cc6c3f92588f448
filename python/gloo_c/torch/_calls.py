"""Calls of the library for a process group: blocking, started, or several as one."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from datetime import timedelta
from functools import lru_cache
from typing import Any, Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C import _distributed_c10d as _c10d
from torch._C._distributed_c10d import Store

from .. import _handles
from .._binding import ffi, lib
from .._context import Context
from .._convert import nanoseconds
from .._devices import Device
from .._errors import GlooError, failure, give_back, new_error
from .._requests import Request
from ._checks import Checks
from ._errors import ArgumentError, TensorTypeError, backend_error
from ._meeting import Meeting
from ._profiler import profiled, shown
from ._tensors import DTYPES, NULL, After, all_of, in_host_memory, ordered
from ._works import Deferred, Ended, Started

BACKEND = "gloo_c"
KINDS: Any = dist.ReduceOp.RedOpType
# The keys are hashes, as those of a ReduceOp and its kind are equal: reading the kind takes longer.
OPS: dict[int, int] = {hash(kind): op for kind, op in (
    (KINDS.SUM, lib.GLOO_SUM), (KINDS.PRODUCT, lib.GLOO_PRODUCT), (KINDS.MIN, lib.GLOO_MIN),
    (KINDS.MAX, lib.GLOO_MAX), (KINDS.BAND, lib.GLOO_BAND), (KINDS.BOR, lib.GLOO_BOR),
    (KINDS.BXOR, lib.GLOO_BXOR), (KINDS.AVG, lib.GLOO_AVERAGE), (KINDS.PREMUL_SUM, lib.GLOO_SCALED_SUM))}
# Operations on booleans: a sum is true if any is, a product if all are.
BOOL_OPS: dict[int, int] = {hash(kind): op for kind, op in (
    (KINDS.SUM, lib.GLOO_LOR), (KINDS.MAX, lib.GLOO_LOR), (KINDS.BOR, lib.GLOO_LOR),
    (KINDS.PRODUCT, lib.GLOO_LAND), (KINDS.MIN, lib.GLOO_LAND), (KINDS.BAND, lib.GLOO_LAND),
    (KINDS.BXOR, lib.GLOO_LXOR))}
_SCALED = int(lib.GLOO_SCALED_SUM)
# Type and operation of the library for a type and the hash of an operation of PyTorch.
_REDUCTIONS: dict[tuple[torch.dtype, int], tuple[int, int]] = {
    (dtype, kind): (number, op) for dtype, number in DTYPES.items()
    for kind, op in (BOOL_OPS if dtype is torch.bool else OPS).items()}
# The time that an asynchronous call waits for its end. A work that the program must wait for takes longer.
_SOON_NS = 20_000
_REFUSED = int(lib.GLOO_ERR_BUFFER)
_group_call: Any = lib.torch_group_call  # a look-up in lib takes longer
_ZERO = timedelta(0)
_UNSET = int(lib.GLOO_TIMEOUT_DEFAULT)
_OPTIONS = ffi.typeof("gloo_options *")
_REQUEST = ffi.typeof("gloo_request **")


@lru_cache(maxsize=None)
def _function(name: str) -> Any:
    """Caches functions, because a look-up in lib takes longer."""
    return getattr(lib, "gloo_" + name)


class _Shared:
    """State of one process; a forked child makes a new one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.device: Device | None = None
        self.process = 0

    def get(self) -> Device:
        with self.lock:
            if self.device is None or self.process != os.getpid():
                self.device, self.process = Device(), os.getpid()
            return self.device


_shared = _Shared()
contexts: weakref.WeakSet[Context] = weakref.WeakSet()  # of all process groups


def limit_of(timeout: timedelta | None) -> int:
    """Returns a timeout as the library takes it. In PyTorch, an unset timeout is negative, and 0
    does not wait."""
    if timeout is None or timeout < _ZERO:
        return _UNSET
    return nanoseconds(timeout.total_seconds())


class Caller:
    """A context and its pending operations."""

    _checks: Checks | None = None  # with TORCH_DISTRIBUTED_DEBUG=DETAIL

    def _meet(self, store: Store, rank: int, size: int, timeout: Any, name: str,
              given: Device | Context | None) -> None:
        """Creates the context. timeout: a timedelta, or options that have one."""
        self._rank, self._size = rank, size
        self._store = store
        self._name, self._desc = name, "undefined"
        self._sequence = 0
        if isinstance(timeout, _c10d.Backend.Options):
            timeout = timeout._timeout
        self._timeout: timedelta = timeout
        self._live: deque[Started | Deferred] = deque()  # collectives
        self._messages: list[Started] = []
        self._messages_kept = 16  # number of messages above which completed ones are removed
        self._deferred: Deferred | None = None
        try:
            self._context = self._context_of(given, timeout.total_seconds())
        except GlooError as error:
            raise backend_error(error) from error.__cause__
        contexts.add(self._context)

    def _compare_calls(self, store: Store, timeout: timedelta) -> None:
        """From now on all ranks compare each call before they make it."""
        meeting = Caller()
        meeting._meet(_c10d.PrefixStore("gloo_c/checks", store), self._rank, self._size, timeout,
                      f"{self._name}/checks", None)
        self._checks = Checks(meeting)

    def _callers(self) -> list[Caller]:
        return [self] if self._checks is None else [self, self._checks.meeting]

    def _context_of(self, given: Device | Context | None, limit: float) -> Context:
        """Returns `given`, or a new context of the ranks."""
        if isinstance(given, Context):
            if (given.rank, given.size) != (self._rank, self._size):
                raise ValueError(f"pg_options is rank {given.rank} of {given.size} ranks, and the "
                                 f"process group is to be rank {self._rank} of {self._size}")
            given.set_timeout(limit)
            return given
        meeting = Meeting(self._store, self._rank, self._size, limit, self._name)
        try:
            return Context(self._rank, self._size, meeting.store, device=given or _shared.get(), timeout=limit)
        finally:
            meeting.over()

    def _held(self) -> Any:
        handle = self._context._handle
        if handle is None:
            raise backend_error(GlooError(
                f"process group '{self._name}' was shut down", lib.GLOO_ERR_CANCELLED))
        return handle

    def _checked(self, function: Any, *arguments: Any) -> None:
        handle, error = self._held(), new_error()
        status = function(handle.pointer, *arguments, error)
        if status:
            raise backend_error(failure(status, error))
        give_back(error)

    @staticmethod
    def _options(timeout: timedelta | None, tag: int, factor: float | None,
                 stream: int) -> tuple[Any, Any]:
        limit = limit_of(timeout)
        if limit == _UNSET and tag == 0 and factor is None and stream == 0:
            return NULL, None
        options, kept = ffi.new(_OPTIONS), None
        lib.py_gloo_options_init(options)
        options.timeout_ns, options.tag = limit, tag
        if factor is not None:
            options.factor = kept = ffi.new("double *", factor)
        if stream:
            options.stream = ffi.cast("void *", stream)
        return options, kept

    def _call(self, name: str, arguments: tuple[Any, ...], result: Any, keep: Any, opts: Any,
              after: After | None = None, factor: float | None = None) -> Any:
        """Runs a collective: blocking if it is synchronous, else started."""
        self._sequence += 1
        stream, after = ordered(keep, result, after)
        if not opts.asyncOp:
            self._run(name, arguments, opts.timeout, factor, stream)
            if after is not None:
                after()
            return Ended(result)
        if self._deferred is not None:
            self._deferred.wait_begun()
        pointer = self._begin(name, arguments, opts.timeout, factor, stream)
        return self._soon(pointer, result, keep, after, stream == 0)

    def _direct(self, operator: int, source: Tensor, place: Tensor, result: Any, opts: Any, number: int = 0,
                dtype: int | None = None) -> Any:
        """Runs the collective of an operator (python/torch/operators.h) by one call in C, which takes less time
        than `_call`. Returns None, without a call, unless the library can take the tensors as they are: apart
        from each other, or in place. number: operation or root; dtype: unless the elements are only moved."""
        handle = self._context._handle
        if dtype is None:
            dtype = DTYPES.get(place.dtype)
        if (dtype is None or handle is None or self._deferred is not None or profiled() or not in_host_memory(place)
                or not (source is place or in_host_memory(source))):
            return None
        request = ffi.new(_REQUEST) if opts.asyncOp else NULL
        status = _group_call(handle.pointer, operator, source.data_ptr(), place.data_ptr(), source.numel(), dtype,
                             number, limit_of(opts.timeout), request)
        if status == _REFUSED:
            return None  # or the general call tells the reason
        self._sequence += 1
        if status:
            raise self._call_failure(status)
        return self._soon(request[0], result, (source, place), None) if request else Ended(result)

    @staticmethod
    def _call_failure(status: int) -> GlooError:
        error = new_error()
        lib.torch_operators_failure(error, ffi.new("int *"))
        return backend_error(failure(status, error))

    def _message(self, name: str, arguments: tuple[Any, ...], tensors: Any, keep: Any,
                 after: After | None, tag: int) -> Started:
        self._sequence += 1
        stream, after = ordered(keep, tensors, after)
        work = self._work(self._begin(name, arguments, stream=stream, tag=tag), tensors, keep, after)
        self._messages.append(work)
        if len(self._messages) > self._messages_kept:
            self._messages = [each for each in self._messages if not each.is_completed()]
            self._messages_kept = 16 + 2 * len(self._messages)
        return work

    def _barrier(self, opts: Any) -> Any:
        """A barrier that is entered when the pending collectives have completed, as in gloo.
        Messages are not waited for: a receive may be for a message that is sent after the
        barrier."""
        earlier = self._unfinished() if self._live else None
        if not earlier:
            return self._call("barrier", (), [], None, opts)
        if not opts.asyncOp:
            for work in earlier:
                work.wait()
            return self._call("barrier", (), [], None, opts)
        self._sequence += 1
        deferred, timeout = Deferred([]), opts.timeout

        def begin() -> Started:
            try:
                for work in earlier:
                    work.wait()
                return self._work(self._begin("barrier", (), timeout), [], None, None)
            finally:
                if self._deferred is deferred:
                    self._deferred = None

        # Ranks make their calls in the same order, so later calls wait for its start.
        self._deferred = deferred
        self._live.append(deferred)
        deferred.begin_by(begin)
        return deferred

    def _unfinished(self) -> list[Started | Deferred]:
        """Returns the pending collectives, after it has set the results of completed ones."""
        return [work for work in list(self._live) if not work.is_completed()]

    def _run(self, name: str, arguments: tuple[Any, ...], timeout: timedelta | None = None,
             factor: float | None = None, stream: int = 0) -> None:
        if self._deferred is not None:
            self._deferred.wait_begun()
        handle = self._held()
        options, _kept = self._options(timeout, 0, factor, stream)
        function, error = _function(name), new_error()
        if profiled():
            function = shown(name, function)
        status = function(handle.pointer, *arguments, options, error)
        if status:
            raise backend_error(failure(status, error))
        give_back(error)

    def _begin(self, name: str, arguments: tuple[Any, ...], timeout: timedelta | None = None,
               factor: float | None = None, stream: int = 0, tag: int = 0) -> Any:
        handle = self._held()
        options, _kept = self._options(timeout, tag, factor, stream)
        place, error = ffi.new(_REQUEST), new_error()
        function = _function(name + "_start")
        if profiled():
            function = shown(name, function)
        status = function(handle.pointer, *arguments, options, place, error)
        if status:
            raise backend_error(failure(status, error))
        give_back(error)
        return place[0]

    def _work(self, pointer: Any, result: Any, keep: Any, after: After | None) -> Started:
        request = Request(pointer, self._context, (keep, result), result, None, False,
                          self._held().state)
        return Started(request, result, after)

    def _pending(self) -> bool:
        """Returns true if a collective is pending, after it has dropped those that have completed."""
        live = self._live
        while live:
            try:
                if not live[0].is_completed():
                    return True
                live.popleft()
            except IndexError:  # another thread was faster
                break
        return False

    def _soon(self, pointer: Any, result: Any, keep: Any, after: After | None, may_wait: bool = True) -> Any:
        """Returns a work for a started collective: a completed one if it succeeds within a short time. It often
        does, as functional collectives of few bytes, whose results are used at once."""
        if not may_wait or self._pending() or profiled() or lib.torch_request_ends(pointer, _SOON_NS):
            return self._started(pointer, result, keep, after)  # this work reports errors
        _handles._destroy(lib.gloo_request_destroy, pointer)
        if after is not None:
            after()
        return Ended(result)

    def _started(self, pointer: Any, result: Any, keep: Any, after: After | None) -> Started:
        work = self._work(pointer, result, keep, after)
        self._pending()
        self._live.append(work)  # PyTorch may drop a pending work
        return work

    def _together(self, calls: Sequence[tuple[str, tuple[Any, ...], Any, After | None]], result: Any,
                  opts: Any, factor: float | None = None, after: After | None = None) -> Any:
        """Runs several calls (name, arguments, objects to keep, after) as one work. `after` runs
        last."""
        if len(calls) == 1:
            name, arguments, kept, own = calls[0]
            return self._call(name, arguments, result, kept, opts,
                              after if own is None else all_of([own, after]), factor)
        after = all_of([*(call[3] for call in calls), after])
        keep = [call[2] for call in calls]
        if not calls:
            return Ended(result)
        timeout = opts.timeout
        self._sequence += 1
        stream, after = ordered(keep, result, after)
        if not opts.asyncOp:
            for name, arguments, _keep, _after in calls:
                self._run(name, arguments, timeout, factor, stream)
            if after is not None:
                after()
            return Ended(result)
        if self._deferred is not None:
            self._deferred.wait_begun()
        pointers: list[Any] = []
        try:
            for name, arguments, _keep, _after in calls:
                pointers.append(self._begin(name, arguments, timeout, factor, stream))
        finally:
            # Calls that were started before one was refused are pending.
            if 0 < len(pointers) < len(calls):
                self._started(self._join(pointers), result, keep, None)
        return self._started(self._join(pointers), result, keep, after)

    @staticmethod
    def _join(pointers: list[Any]) -> Any:
        if len(pointers) == 1:
            return pointers[0]
        place, error = ffi.new(_REQUEST), new_error()
        status = lib.gloo_requests_join(ffi.new("gloo_request *[]", pointers), len(pointers), place,
                                        error)
        if status:
            raise backend_error(failure(status, error))
        give_back(error)
        return place[0]

    def _reduction(self, what: str, opts: Any, tensor: Tensor) -> tuple[int, int, float | None]:
        """Returns type, operation and factor of a reduction."""
        given = opts.reduceOp
        found = _REDUCTIONS.get((tensor.dtype, hash(given)))
        if found is None:
            if tensor.dtype not in DTYPES:
                raise TensorTypeError(f"{what}: {tensor.dtype} has no arithmetic")
            raise TensorTypeError(f"{what}: {getattr(given, 'op', given)} is not defined for {tensor.dtype}")
        number, op = found
        if op != _SCALED:
            return number, op, None
        factor = given.factor
        if isinstance(factor, Tensor):
            if factor.numel() != 1:
                raise ArgumentError(f"{what}: the factor of PREMUL_SUM has {factor.numel()} "
                                    "elements, not one")
            factor = factor.item()
        return number, op, float(factor)
