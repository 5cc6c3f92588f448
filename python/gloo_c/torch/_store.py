"""The store of a process group, as the library uses it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist

_LONG = timedelta(days=365)


class C10dStore:
    """StoreFunctions of a torch.distributed.Store. Keys need no prefix, because the group's store
    already has one."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def set(self, key: str, value: bytes) -> None:
        self._store.set(key, value)

    def get(self, key: str, timeout: float | None) -> bytes:
        self.wait([key], timeout)
        value: bytes = self._store.get(key)
        return value

    def wait(self, keys: list[str], timeout: float | None) -> None:
        if timeout is not None and timeout <= 0:
            if not self._store.check(keys):
                raise TimeoutError(f"{keys} do not exist")
            return
        limit = _LONG if timeout is None else max(timedelta(seconds=timeout), timedelta(milliseconds=1))
        try:
            self._store.wait(keys, limit)
        except dist.DistNetworkError as error:
            raise ConnectionError(str(error)) from error
        except RuntimeError as error:
            self._blame(keys, error)

    def _blame(self, keys: list[str], error: RuntimeError) -> None:
        """Raises the error of a wait that failed. After a timeout stores raise different exceptions:
        DistStoreError, or (FileStore) the RuntimeError that also stands for any other error. If the
        store answers that keys are missing, it was a timeout. Returns if they arrived meanwhile."""
        try:
            if self._store.check(keys):
                return
        except RuntimeError:
            raise ConnectionError(str(error)) from error
        raise TimeoutError(f"{keys} do not exist: {error}") from error

    def add(self, key: str, amount: int) -> int:
        return int(self._store.add(key, amount))


class ExtendedStore(C10dStore):
    """A store with the operations that not all stores of PyTorch have."""

    def append(self, key: str, value: bytes) -> None:
        self._store.append(key, value)

    def multi_get(self, keys: list[str], timeout: float | None) -> list[bytes]:
        self.wait(keys, timeout)
        return list(self._store.multi_get(keys))

    def multi_set(self, keys: list[str], values: list[bytes]) -> None:
        self._store.multi_set(keys, values)


def functions_of(store: Any) -> C10dStore:
    """Returns the functions for a store. PyTorch's types declare only some of its operations; the
    store has methods for the rest."""
    return (ExtendedStore if store.has_extended_api() else C10dStore)(store)
