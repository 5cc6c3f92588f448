"""Continuing with the surviving ranks, without a launcher and without the original store."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Any, cast

import torch.distributed as dist
from torch._C._distributed_c10d import HashStore, Store, TCPStore

from .._binding import lib
from .._context import Context
from .._errors import REFUSED, GlooError
from ._calls import BACKEND, contexts
from ._errors import BackendError, backend_error
from ._group import Operations
from ._meeting import LOOPBACK, master_of, own_address
from ._memory import renew
from ._replace import gloo_is_replaced

_ADDRESS_BYTES = 256
_ZERO = timedelta(0)


def error() -> BackendError | None:
    """Returns the error that has broken the default group, or another group of this process, or
    None. It distinguishes a RuntimeError of a backward pass that is due to a dead rank from any
    other."""
    world = getattr(dist.group.WORLD, "_context", None)
    for context in sorted(contexts, key=lambda context: context is not world):
        try:
            first = context.error()
        except ValueError:  # it is closed
            continue
        if first is not None and first.status not in REFUSED:
            return backend_error(first)
    return None


def shrink(*, timeout: timedelta | None = None, ranks_min: int = 0) -> dist.ProcessGroup:
    """Creates a new default group of the surviving ranks. All of them call it after one of their
    calls has failed. They agree on the survivors, and get new ranks, in the order of the old ones.
    The old default group and all other groups are destroyed: create objects that use them
    (DistributedDataParallel, new_group, device meshes) again. A launcher's variables (RANK,
    WORLD_SIZE) are unchanged.

    timeout: time to wait for live ranks that do not call; None: the timeout of operations.
    ranks_min: minimum number of surviving ranks. More than half of the ranks prevents both halves
        from continuing after a network partition.

    Raises BackendError if the others continue without this rank (its cause_name is GLOO_ERR_STALE),
    or too few are left (GLOO_ERR_PEER)."""
    world = default_group("shrink")
    limit = None if timeout is None or timeout < _ZERO else timeout.total_seconds()
    _end_all_but(world._context)
    renew()
    try:
        left = world._context.shrink(timeout=limit, ranks_min=ranks_min)
    except GlooError as failure:
        raise backend_error(failure) from failure.__cause__
    return replace(world, *met(left, limit, ranks_min))


# ---- shared with grow and join --------------------------------------------------------------------

def default_group(caller: str) -> Operations:
    """Returns the default group, which must be one of this backend."""
    world: Any = dist.group.WORLD
    if not isinstance(world, Operations):
        raise TypeError(f"gloo_c.torch.{caller}: the default process group is not one of the backend "
                        f"'{BACKEND}' alone, but {type(world).__name__}")
    return world


def replace(world: Operations, context: Context, store: Store) -> dist.ProcessGroup:
    """Replaces the default group by one of this context."""
    store.set_timeout(world._timeout)
    backend = dist.get_backend() if gloo_is_replaced() else BACKEND
    dist.destroy_process_group()
    dist.init_process_group(backend, store=store, rank=context.rank, world_size=context.size,
                            timeout=world._timeout, pg_options=context)
    return cast(dist.ProcessGroup, dist.group.WORLD)


def _end_all_but(context: Context) -> None:
    """Ends all other groups, so that ranks that wait in them call shrink, too, even if all members
    of their group are alive."""
    for other in list(contexts):
        if other is context or other.closed:
            continue
        try:
            other.abort("a rank continues with the surviving ranks (gloo_c.torch.shrink)")
        except (GlooError, ValueError):  # closed meanwhile, or failed
            pass


def met(left: Context, limit: float | None, ranks_min: int) -> tuple[Context, Store]:
    """Returns the context, and a store for PyTorch that all its ranks have reached. If one has died
    meanwhile, they shrink again."""
    while True:
        try:
            return left, _new_store(left)
        except (GlooError, dist.DistError, OSError) as failure:
            broken = left.error()
            if broken is None:  # only this rank cannot reach it
                left.close()
                raise BackendError(f"rank {left.rank} of the ranks that are left cannot reach their "
                                   f"store, and leaves: {failure}", lib.GLOO_ERR_IO) from failure
        try:
            fewer = left.shrink(timeout=limit, ranks_min=ranks_min)
        except GlooError as failure:
            raise backend_error(failure) from failure.__cause__
        left.close()
        left = fewer


def _new_store(left: Context) -> Store:
    """Returns a store for PyTorch to create groups through, served by the new first rank."""
    if left.size == 1:
        return HashStore()
    limit = timedelta(seconds=30)
    told = bytearray(_ADDRESS_BYTES)
    store: Store | None = None
    if left.rank == 0:
        name, bound = (LOOPBACK, LOOPBACK) if left.hosts == 1 else own_address(master_of())
        listener = socket.create_server((bound, 0), family=_family(bound))
        port = listener.getsockname()[1]
        store = TCPStore(name, port, is_master=True, wait_for_workers=False, timeout=limit,
                              master_listen_fd=listener.detach())
        address = f"{port} {name}".encode()
        told[:len(address)] = address
    left.broadcast(told)
    if store is None:
        port_text, _, name = told.rstrip(b"\0").decode().partition(" ")
        store = TCPStore(name, int(port_text), is_master=False, wait_for_workers=False,
                              timeout=limit)
    left.barrier()
    return store


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
