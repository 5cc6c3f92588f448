"""Admitting new ranks to a running job, and joining one."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import torch.distributed as dist

from .._context import Context
from .._errors import GlooError
from .._stores import Store
from ._calls import BACKEND, _shared
from ._errors import backend_error
from ._replace import gloo_is_replaced
from ._shrink import default_group, met, replace


def grow(store: Store, *, newcomers: int = 0, ranks_max: int = 0,
         wait: timedelta | None = None) -> dist.ProcessGroup | None:
    """Admits processes that have called `join` with the same store. All ranks of the default group
    call it. Returns a new default group of old and new ranks, in which the old ranks keep their
    numbers, or None if no newcomer arrived. With a new group, the old default group and all other
    groups are destroyed, as by `shrink`.

    store: a store of gloo_c that survives ranks that fail: FileStore, UrlStore("tcp://host:port")
        of `gloo store`, Redis.
    newcomers, ranks_max, wait: those of gloo_c.Context.grow.

    Raises BackendError. If `error` returns None afterwards, the group is unchanged: a newcomer died,
    or the store cannot be used. Otherwise a rank died: call `shrink`."""
    world = default_group("grow")
    seconds = None if wait is None else wait.total_seconds()
    try:
        more = world._context.grow(store, newcomers=newcomers, ranks_max=ranks_max, wait=seconds,
                                   timeout=world._timeout.total_seconds())
    except GlooError as failure:
        raise backend_error(failure) from failure.__cause__
    if more is None:
        return None
    return replace(world, *met(more, None, 0))


def join(store: Store, *, wait: timedelta | None = None, timeout: timedelta | None = None) -> dist.ProcessGroup:
    """Joins a running job, in place of init_process_group: waits until its ranks call `grow` with
    the same store, and creates the default group of all of them. The variables of a launcher (RANK,
    WORLD_SIZE) have no effect: use dist.get_rank().

    wait: time to wait; None: GLOO_START_TIMEOUT, or 30 s.
    timeout: of the operations of the group; None: PyTorch's default.

    Raises BackendError. Its cause_name is GLOO_ERR_TIMEOUT if no ranks called `grow`, and
    GLOO_ERR_PEER if this rank was not admitted because another one died: call it again."""
    if dist.is_initialized():
        raise ValueError("gloo_c.torch.join: the default process group exists; a process that joins a job must "
                         "not call init_process_group")
    limit = dist.distributed_c10d.default_pg_timeout if timeout is None else timeout
    try:
        joined = Context.join(store, device=_shared.get(), wait=None if wait is None else wait.total_seconds(),
                              timeout=limit.total_seconds())
    except GlooError as failure:
        raise backend_error(failure) from failure.__cause__
    context, theirs = met(joined, None, 0)
    theirs.set_timeout(limit)
    backend = "gloo" if gloo_is_replaced() else BACKEND
    dist.init_process_group(backend, store=theirs, rank=context.rank, world_size=context.size,
                            timeout=limit, pg_options=context)
    return cast(dist.ProcessGroup, dist.group.WORLD)
