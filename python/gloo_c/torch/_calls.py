"""Calls of the library for a process group: at once, started, or several as one."""

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
from torch._C._distributed_c10d import Store

from .._binding import ffi, lib
from .._context import Context
from .._devices import Device
from .._errors import GlooError, failure, give_back, new_error
from .._requests import Request, nanoseconds
from ._errors import backend_error
from ._meeting import meeting_store
from ._profiler import profiled, shown
from ._tensors import DTYPES, NULL, After, all_of
from ._works import Ended, Started

KINDS: Any = dist.ReduceOp.RedOpType
OPS: dict[Any, int] = {
    KINDS.SUM: lib.GLOO_SUM, KINDS.PRODUCT: lib.GLOO_PRODUCT, KINDS.MIN: lib.GLOO_MIN,
    KINDS.MAX: lib.GLOO_MAX, KINDS.BAND: lib.GLOO_BAND, KINDS.BOR: lib.GLOO_BOR,
    KINDS.BXOR: lib.GLOO_BXOR, KINDS.AVG: lib.GLOO_AVERAGE, KINDS.PREMUL_SUM: lib.GLOO_SCALED_SUM}
# Of truth values: a sum is whether any is true, a product whether all are.
BOOL_OPS: dict[Any, int] = {
    KINDS.SUM: lib.GLOO_LOR, KINDS.MAX: lib.GLOO_LOR, KINDS.BOR: lib.GLOO_LOR,
    KINDS.PRODUCT: lib.GLOO_LAND, KINDS.MIN: lib.GLOO_LAND, KINDS.BAND: lib.GLOO_LAND,
    KINDS.BXOR: lib.GLOO_LXOR}


_ZERO = timedelta(0)
_UNSET = int(lib.GLOO_TIMEOUT_DEFAULT)
_OPTIONS = ffi.typeof("gloo_options *")
_REQUEST = ffi.typeof("gloo_request **")


@lru_cache(maxsize=None)
def _function(name: str) -> Any:
    """To look for one in lib takes longer."""
    return getattr(lib, "gloo_" + name)


class _Shared:
    """One per process: a child makes its own."""

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
    """How long an operation may take, as the library takes it. What is not set is below 0 in
    PyTorch; 0 is not to wait at all."""
    if timeout is None or timeout < _ZERO:
        return _UNSET
    return nanoseconds(timeout.total_seconds())


class Caller:
    """A context, and the operations on it that are under way."""

    def _meet(self, store: Store, rank: int, size: int, timeout: timedelta, name: str,
              given: Device | Context | None) -> None:
        self._rank, self._size = rank, size
        self._store = store
        self._name, self._desc = name, "undefined"
        self._sequence = 0
        self._timeout = timeout
        self._live: deque[Started] = deque()
        try:
            self._context = self._context_of(given, timeout.total_seconds())
        except GlooError as error:
            raise backend_error(error) from error.__cause__
        contexts.add(self._context)

    def _context_of(self, given: Device | Context | None, limit: float) -> Context:
        """`given`, or one in which the ranks meet."""
        if isinstance(given, Context):
            if (given.rank, given.size) != (self._rank, self._size):
                raise ValueError(f"pg_options is rank {given.rank} of {given.size} ranks, and the "
                                 f"process group is to be rank {self._rank} of {self._size}")
            given.set_timeout(limit)
            return given
        store = meeting_store(self._store, self._rank, self._size, limit, self._name)
        return Context(self._rank, self._size, store, device=given or _shared.get(), timeout=limit)

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
    def _options(timeout: timedelta | None, tag: int, factor: float | None) -> tuple[Any, Any]:
        limit = limit_of(timeout)
        if limit == _UNSET and tag == 0 and factor is None:
            return NULL, None
        options, kept = ffi.new(_OPTIONS), None
        lib.py_gloo_options_init(options)
        options.timeout_ns, options.tag = limit, tag
        if factor is not None:
            options.factor = kept = ffi.new("double *", factor)
        return options, kept

    def _call(self, name: str, arguments: tuple[Any, ...], result: Any, keep: Any,
              opts: Any = None, after: After | None = None, factor: float | None = None,
              tag: int = 0) -> Any:
        """One call: at once where it is not asynchronous, else started."""
        self._sequence += 1
        if opts is not None and not opts.asyncOp:
            self._run(name, arguments, opts.timeout, factor, tag)
            if after is not None:
                after()
            return Ended(result)
        pointer = self._begin(name, arguments, None if opts is None else opts.timeout, factor, tag)
        return self._started(pointer, result, keep, after)

    def _run(self, name: str, arguments: tuple[Any, ...], timeout: timedelta | None = None,
             factor: float | None = None, tag: int = 0) -> None:
        handle = self._held()
        options, _kept = self._options(timeout, tag, factor)
        function, error = _function(name), new_error()
        if profiled():
            function = shown(name, function)
        status = function(handle.pointer, *arguments, options, error)
        if status:
            raise backend_error(failure(status, error))
        give_back(error)

    def _begin(self, name: str, arguments: tuple[Any, ...], timeout: timedelta | None,
               factor: float | None, tag: int) -> Any:
        handle = self._held()
        options, _kept = self._options(timeout, tag, factor)
        place, error = ffi.new(_REQUEST), new_error()
        function = _function(name + "_start")
        if profiled():
            function = shown(name, function)
        status = function(handle.pointer, *arguments, options, place, error)
        if status:
            raise backend_error(failure(status, error))
        give_back(error)
        return place[0]

    def _started(self, pointer: Any, result: Any, keep: Any, after: After | None) -> Started:
        handle = self._held()
        request = Request(pointer, self._context, (keep, result), result, None, False,
                          handle.state)
        work = Started(request, result, after)
        live = self._live  # PyTorch may let go of a work that is under way
        while live:
            try:
                if not live[0]._request.done():
                    break
                live.popleft()
            except IndexError:  # another thread was faster
                break
        live.append(work)
        return work

    def _together(self, calls: Sequence[tuple[str, tuple[Any, ...], Any, After | None]], result: Any,
                  opts: Any, factor: float | None = None) -> Any:
        """Several calls (name, arguments, what to keep, after) as one work."""
        after = all_of([call[3] for call in calls])
        keep = [call[2] for call in calls]
        if len(calls) == 1:
            return self._call(calls[0][0], calls[0][1], result, keep, opts, after, factor)
        if not calls:
            return Ended(result)
        timeout = None if opts is None else opts.timeout
        self._sequence += 1
        if opts is not None and not opts.asyncOp:
            for name, arguments, _keep, _after in calls:
                self._run(name, arguments, timeout, factor)
            if after is not None:
                after()
            return Ended(result)
        pointers: list[Any] = []
        try:
            for name, arguments, _keep, _after in calls:
                pointers.append(self._begin(name, arguments, timeout, factor, 0))
        finally:
            # Those that were started before one was refused are under way.
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
        """Type, operation and factor of a reduction."""
        number = DTYPES.get(tensor.dtype)
        if number is None:
            raise TypeError(f"{what}: there is no arithmetic on {tensor.dtype}")
        given = opts.reduceOp
        kind = getattr(given, "op", given)
        op = (BOOL_OPS if tensor.dtype is torch.bool else OPS).get(kind)
        if op is None:
            raise TypeError(f"{what}: there is no {kind} of {tensor.dtype}")
        if op != lib.GLOO_SCALED_SUM:
            return number, op, None
        factor = given.factor
        if isinstance(factor, Tensor):
            if factor.numel() != 1:
                raise ValueError(f"{what}: the factor of PREMUL_SUM has {factor.numel()} elements, "
                                 "not one")
            factor = factor.item()
        return number, op, float(factor)
