"""The store of a process group, as the library uses it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist

_LONG = timedelta(days=365)


class C10dStore:
    """StoreFunctions of a torch.distributed.Store. Keys are the library's own: the group's store
    has a prefix of its own already."""

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
        """Stores differ in what they raise when the time is up: DistStoreError, or (FileStore) the
        RuntimeError that stands for anything else as well. A store that answers that the keys
        are missing was waited for; keys that came meanwhile are there."""
        try:
            if self._store.check(keys):
                return
        except RuntimeError:
            raise ConnectionError(str(error)) from error
        raise TimeoutError(f"{keys} do not exist: {error}") from error

    def add(self, key: str, amount: int) -> int:
        return int(self._store.add(key, amount))


class ExtendedStore(C10dStore):
    """One that has what not every store of PyTorch has."""

    def append(self, key: str, value: bytes) -> None:
        self._store.append(key, value)

    def multi_get(self, keys: list[str], timeout: float | None) -> list[bytes]:
        self.wait(keys, timeout)
        return list(self._store.multi_get(keys))

    def multi_set(self, keys: list[str], values: list[bytes]) -> None:
        self._store.multi_set(keys, values)


def functions_of(store: Any) -> C10dStore:
    """PyTorch's types tell a part of what a store has; it tells the rest itself."""
    return (ExtendedStore if store.has_extended_api() else C10dStore)(store)
