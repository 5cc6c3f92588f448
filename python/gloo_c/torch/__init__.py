"""A backend of torch.distributed: `import gloo_c.torch` registers it.

    import gloo_c.torch
    import torch.distributed as dist

    dist.init_process_group(backend="gloo_c")

Everything that works with backend "gloo" is meant to work, for the same calls: DDP, FSDP, ZeRO,
tensor parallelism, DTensor, object collectives, checkpoints. Tensors may be of any type, and of any
strides; those of other devices go through copies in host memory.

Each process group is a context of its own, which meets through the group's own store and fails
alone; all of them share one device, and so one helper thread. `pg_options` may be a
gloo_c.Device to use instead, or a gloo_c.Context that the group then has as its own. GLOO_TRANSPORT
and the other variables apply.

What fails raises BackendError, which is a torch.distributed.DistBackendError and a
gloo_c.GlooError: it has the rank, the status and the cause. Through a future, or a backward pass,
PyTorch makes a RuntimeError of it that has its text. `error` tells what has broken the group, and
`shrink` makes a new default group of the ranks that are left.

Calls that are not asynchronous return when this rank is done, and no thread but the caller's takes
part in them. Futures are completed, and their callbacks called, by threads of this module."""

from ._calls import BACKEND
from ._errors import ArgumentError, BackendError
from ._group import Group, register
from ._shrink import error, shrink

register()

__all__ = ["ArgumentError", "BACKEND", "BackendError", "Group", "error", "shrink"]
