"""The buckets of DistributedDataParallel in memory that the ranks of a host access directly."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C import _distributed_c10d
from torch.nn.parallel import DistributedDataParallel

from ._calls import BACKEND
from ._memory import move
from ._replace import is_gloo_c

_c10d: Any = _distributed_c10d


class _Buckets:
    """The buckets of a model. DDP makes them anew after the first step, so a bucket moves when it comes again."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self._seen: dict[int, int] = {}  # address of each bucket in the last step
        self._moved: dict[int, int] = {}

    def average(self, bucket: Any) -> torch.futures.Future[Tensor]:
        gradients, options = bucket.buffer(), _c10d.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.AVG
        if gradients.is_cpu and gradients.layout is torch.strided:
            self._move(bucket.index(), gradients)
        future: torch.futures.Future[list[Tensor]] = self._group.allreduce([gradients], options).get_future()
        return future.then(lambda done: done.value()[0])

    def _move(self, index: int, gradients: Tensor) -> None:
        address = gradients.data_ptr()
        if self._moved.get(index) == address:
            return
        if self._seen.get(index) == address:
            move(gradients)
            self._moved[index] = gradients.data_ptr()
        self._seen[index] = address


def ddp_buckets(model: DistributedDataParallel) -> None:
    """Keeps the gradients of `model` in memory that the ranks of a host access directly, which they then add without
    copies. It is a communication hook of DDP, so the model can have no other. The mean is rounded once, where DDP
    rounds each quotient; with 2, 4, 8 ... ranks the bits are the same.

    The buckets move there in the second or third step. They are shared with processes that this one forks."""
    if not isinstance(model, DistributedDataParallel):
        raise TypeError(f"gloo_c.torch.ddp_buckets: the model is {type(model).__name__}; it must be a "
                        "torch.nn.parallel.DistributedDataParallel")
    group = model.process_group
    if not is_gloo_c(group, model.device_type):
        raise ValueError(f"gloo_c.torch.ddp_buckets: the group of the model has the backend '{dist.get_backend(group)}'; "
                         f"it must be '{BACKEND}', or 'gloo' with GLOO_C_REPLACE_GLOO=1")
    buckets = _Buckets(group)
    model.register_comm_hook(None, lambda _state, bucket: buckets.average(bucket))
