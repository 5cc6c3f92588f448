"""Tensors in memory that the ranks of a host access directly."""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from functools import partial
from typing import Any, Sequence

import torch
from torch import Tensor

from .._binding import ffi, lib
from .._errors import checked

_UNIT = 64 << 10  # sizes are multiples of this


class _Pool:
    """Memory of tensors that are gone, for the next ones of the same size: making memory takes 0.3 ms per MiB, and
    peers map it anew. Both together take at most twice as much as tensors have held at one time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._returned: deque[tuple[int, Any]] = deque()  # takes no lock: garbage collection appends to it
        self._free: deque[tuple[int, Any]] = deque()  # size and memory, oldest first
        self._held = self._most = self._kept = 0  # bytes

    def take(self, size: int) -> Any:
        """Returns memory of `size` bytes, which goes back when the object and all buffers of it are gone."""
        with self._lock:
            self._collect()
            found = next((each for each in reversed(self._free) if each[0] == size), None)
            if found is None:
                place = ffi.new("void **")
                checked(lib.gloo_alloc, size, place)
                memory = place[0]
            else:
                self._free.remove(found)
                self._kept -= size
                memory = found[1]
            self._held += size
            self._most = max(self._most, self._held)
        return ffi.gc(memory, partial(_give, self, size))

    def give(self, size: int, memory: Any) -> None:
        self._returned.append((size, memory))

    def _collect(self) -> None:
        while self._returned:
            each = self._returned.popleft()
            self._free.append(each)
            self._held -= each[0]
            self._kept += each[0]
        self._limit(2 * self._most - self._held)

    def _limit(self, most: int) -> None:
        while self._kept > most:
            size, memory = self._free.popleft()
            self._kept -= size
            lib.gloo_free(memory)

    def clear(self) -> None:
        with self._lock:
            self._collect()
            self._limit(0)


def _give(pool: _Pool, size: int, memory: Any) -> None:
    if pool is _pool:
        pool.give(size, memory)
    else:
        lib.gloo_free(memory)


_pool = _Pool()


def _renew() -> None:
    global _pool
    _pool = _Pool()


def renew() -> None:
    """Makes a new pool. After an operation has failed, peers no longer access memory that it exposed to them."""
    old = _pool
    _renew()
    old.clear()


if hasattr(os, "register_at_fork"):  # the memory of the old pool is also the parent's
    os.register_at_fork(after_in_child=_renew)


def allocate(count: int, dtype: torch.dtype) -> Tensor:
    """Returns a tensor of one dimension, whose elements have any values."""
    size = count * dtype.itemsize
    if size == 0:
        return torch.empty(0, dtype=dtype)
    memory = _pool.take(-(-size // _UNIT) * _UNIT)
    return torch.frombuffer(ffi.buffer(memory, size), dtype=dtype, count=count)


def empty(*size: int | Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
    """Returns a tensor in memory that the ranks of a host access directly (that of gloo_alloc), for use like one of
    `torch.empty`, whose arguments it takes. Its memory stays for later tensors of the same size. Forked processes
    share it: each sees what the other writes."""
    shape = torch.Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)  # type: ignore[arg-type]
    if any(length < 0 for length in shape):
        raise ValueError(f"gloo_c.torch.empty: the size {list(shape)} has a negative dimension")
    return allocate(math.prod(shape), dtype or torch.get_default_dtype()).view(shape)


def move(tensor: Tensor) -> None:
    """Moves the memory of a tensor, and of all views of it, to memory that the ranks of a host access directly."""
    storage: Any = tensor.untyped_storage()
    place = allocate(storage.nbytes(), torch.uint8)
    place.copy_(torch.empty(0, dtype=torch.uint8).set_(storage))
    storage._swap_data_ptr_(place.untyped_storage())
