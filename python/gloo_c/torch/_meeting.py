"""Where the ranks of a process group meet.

PyTorch's store takes everybody who reaches its port. Where the launcher says that all ranks are on
one host, the first rank of a group keeps a store of this library's next to it, at loopback, which
takes processes of its own user alone (or those that know the job's secret), and PyTorch's tells only
at which port. Who changes that can keep ranks from meeting, but cannot come between them, nor read
what they tell each other."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from .._errors import GlooError
from .._stores import CallbackStore, PrefixStore, Store, TcpStore
from ._store import functions_of

_HOST = "127.0.0.1"
_KEY = "gloo_c/port"
_TRY = 1.0  # seconds


class _Served:
    """The store that this process keeps for its groups; a child makes its own. So do groups whose
    names come again, as they do after destroy_process_group: the keys of the first are still there."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.store: TcpStore | None = None
        self.process = 0
        self.names: set[str] = set()

    def get(self, name: str) -> TcpStore:
        with self.lock:
            if self.store is None or self.process != os.getpid() or name in self.names:
                self.store, self.process = TcpStore(_HOST, serve=True), os.getpid()
                self.names = set()
            self.names.add(name)
            return self.store


_served = _Served()


def _one_host() -> bool:
    size = os.environ.get("WORLD_SIZE")
    return size is not None and os.environ.get("LOCAL_WORLD_SIZE") == size


def _told(functions: Any, timeout: float) -> int:
    """The port that the first rank has told; 0: there is no such store."""
    said = functions.get(_KEY, timeout)
    if not (said.isdigit() and len(said) <= 5 and int(said) < 65536):
        raise ConnectionError("PyTorch's store does not have the port that rank 0 told it, but "
                              f"{said[:20]!r}: somebody else has changed it")
    return int(said)


def _reached(functions: Any, timeout: float) -> TcpStore | None:
    """The store that the first rank keeps; None: there is no such store. PyTorch's may tell the port
    of a rank that is gone (torchrun keeps one store for all that it starts anew), until the first
    rank has come."""
    deadline = time.monotonic() + timeout
    while True:
        port = _told(functions, max(deadline - time.monotonic(), 0.001))
        if not port:
            return None
        try:  # not the one to keep: its timeout is also that of what the ranks do with it
            TcpStore(_HOST, port, timeout=min(_TRY, max(deadline - time.monotonic(), 0.001)))
        except GlooError:
            if time.monotonic() >= deadline:
                raise
            continue
        return TcpStore(_HOST, port, timeout=timeout)


def meeting_store(store: Any, rank: int, size: int, timeout: float, name: str) -> Store:
    """The store of a group, given PyTorch's. Its keys are the group's own."""
    functions, name = functions_of(store), name or "group"
    if size == 1 or not _one_host():
        return CallbackStore(functions)
    kept: TcpStore | None = None
    if rank == 0:
        try:
            kept = _served.get(name)
        except GlooError:  # all do without
            pass
        functions.set(_KEY, str(kept.port if kept else 0).encode())
    else:
        kept = _reached(functions, timeout)
    return PrefixStore(kept, name) if kept else CallbackStore(functions)
