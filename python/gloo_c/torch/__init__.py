"""A backend of torch.distributed: `import gloo_c.torch` registers it.

    import gloo_c.torch
    import torch.distributed as dist

    dist.init_process_group(backend="gloo_c")

It supports the same calls as backend "gloo": DDP, FSDP, ZeRO, tensor parallelism, DTensor, object
collectives, checkpoints. Tensors may have any type and any strides; tensors on other devices are
copied through host memory.

Each process group is a separate context, which is created through the group's store and fails
independently; all of them share one device, and so one helper thread. `pg_options` may be a
gloo_c.Device to use instead, or a gloo_c.Context that the group then owns. GLOO_TRANSPORT and the
other variables apply.

`replace_gloo` makes the name "gloo" mean this backend, for programs that know no other; so does
GLOO_C_REPLACE_GLOO=1. `restore_gloo` undoes it, and `is_gloo_c` says which of the two a group is.

`empty` returns a tensor in memory that the ranks of a host access directly, and `ddp_buckets` keeps
the gradients of DDP in such memory.

Errors are BackendError, which is a torch.distributed.DistBackendError and a gloo_c.GlooError: it
has the rank, the status and the cause. In a future, or a backward pass, PyTorch turns it into a
RuntimeError with its text. `error` returns the error that broke the group, `shrink` creates a new
default group of the surviving ranks, and `grow` and `join` one with new ranks. gloo_c.torch.elastic
does all of that around a training loop.

Synchronous calls return when this rank is done, and only the calling thread takes part in them.
Futures are completed, and their callbacks called, by threads of this module."""

from ._buckets import ddp_buckets
from ._calls import BACKEND
from ._errors import ArgumentError, BackendError
from ._group import Group, register
from ._grow import grow, join
from ._memory import empty
from ._operators import Operators, operators
from ._replace import gloo_is_replaced, is_gloo_c, replace_gloo, replace_if_asked, restore_gloo
from ._shrink import error, shrink

register()
replace_if_asked()

__all__ = ["ArgumentError", "BACKEND", "BackendError", "Group", "Operators", "ddp_buckets", "empty", "error",
           "gloo_is_replaced", "grow", "is_gloo_c", "join", "operators", "replace_gloo", "restore_gloo", "shrink"]
