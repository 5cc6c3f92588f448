"""Training by PyTorch that continues when ranks fail, and admits new ones.

    job = elastic.Job(module, optimizer)  # objects with state_dict and load_state_dict
    for step in job.steps(1000):
        with step:
            if step.changed:  # the default group is a new one
                model = None  # the old wrapper has hooks in the module
                model = DistributedDataParallel(module)
            ...

It is gloo_c.elastic for a default process group: see there for the loop, the state that ranks get,
and the cost. After each change the default group is a new one, and all others are destroyed."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist

from .. import elastic as _elastic
from .._context import Context
from .._errors import GlooError
from .._stores import Store
from ..elastic import Change, Step
from ._calls import BACKEND
from ._grow import grow, join
from ._shrink import default_group, error, shrink

__all__ = ["Change", "Job", "Step"]


def _seconds(limit: timedelta | None) -> float | None:
    return None if limit is None else limit.total_seconds()


class Job(_elastic.Job):
    """The ranks of a training job, and its state: objects that have state_dict and load_state_dict,
    such as modules, optimizers, schedulers, and samplers of torchdata; pass the module itself, not its
    DistributedDataParallel. It creates the default group, unless init_process_group was called before.

    state: the objects, in the same order on all ranks. Their dictionaries consist of what torch.load
        accepts with weights_only=True: tensors, numbers, strings, and containers of these. Tensors
        travel through host memory; load_state_dict copies them to the devices of the objects.
    timeout: of the groups; None: PyTorch's default. Also the time that `shrink` waits for live ranks
        that do not repeat the step.
    store, join, step, on_change, ranks_min, ranks_max, wait: those of gloo_c.elastic.Job.

    FSDP and tensor parallelism lose the parameters of a rank that fails, so they must start again
    from a checkpoint."""

    def __init__(self, *state: Any, store: Store | str | None = None, join: bool | None = None,
                 step: int = 0, on_change: Callable[[Change], Any] | None = None, ranks_min: int = 0,
                 ranks_max: int = 0, wait: timedelta | None = None,
                 timeout: timedelta | None = None) -> None:
        for number, thing in enumerate(state):
            if not (callable(getattr(thing, "state_dict", None))
                    and callable(getattr(thing, "load_state_dict", None))):
                raise TypeError(f"state {number} of gloo_c.torch.elastic.Job is a {type(thing).__name__}, which "
                                "lacks state_dict or load_state_dict; pass a module, an optimizer, or an object "
                                "that has both")
        self._state, self._limit = state, timeout
        super().__init__(save=self._pack, load=self._unpack, store=store, join=join, step=step,
                         on_change=on_change, ranks_min=ranks_min, ranks_max=ranks_max, wait=_seconds(wait),
                         timeout=_seconds(timeout))

    # ---- the state -------------------------------------------------------------------------------

    def _pack(self) -> memoryview:
        data = io.BytesIO()
        torch.save([thing.state_dict() for thing in self._state], data)
        return data.getbuffer()

    def _unpack(self, data: bytearray) -> None:
        try:
            told = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        except Exception as failure:
            raise TypeError("the state of the other ranks cannot be loaded safely (torch.load with weights_only): "
                            f"{failure}; let state_dict return tensors, numbers and strings, or register its types "
                            "by torch.serialization.add_safe_globals") from failure
        if not isinstance(told, list) or len(told) != len(self._state):
            raise TypeError(f"the other ranks have sent {len(told) if isinstance(told, list) else type(told).__name__} "
                            f"states, and this rank has {len(self._state)}; pass the same objects on all ranks")
        for thing, state in zip(self._state, told):
            thing.load_state_dict(state)

    # ---- the default group -----------------------------------------------------------------------

    def _begin(self, context: Context | None, joining: bool, wait: float | None) -> None:
        if joining:
            assert self._store is not None
            join(self._store, wait=None if wait is None else timedelta(seconds=wait), timeout=self._limit)
        elif not dist.is_initialized():
            dist.init_process_group(BACKEND, timeout=self._limit)
        default_group("elastic.Job")  # no other can shrink

    @property
    def context(self) -> Context:
        """The context of the default group."""
        return default_group("elastic.Job")._context

    def _shrink(self) -> None:
        shrink(timeout=self._limit, ranks_min=self._ranks_min)

    def _grow(self, store: Store) -> bool:
        return grow(store, ranks_max=self._ranks_max) is not None

    def _error(self) -> GlooError | None:
        return error()

    def close(self) -> None:
        """Destroys the default group, and all others."""
        dist.destroy_process_group()
