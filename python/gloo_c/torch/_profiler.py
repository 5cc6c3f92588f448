"""Calls as PyTorch's profiler shows them: "gloo_c:all_reduce", and "gloo_c:wait".

Each is shown on the calling thread, for the duration of the call. The span of a pending operation
would be ended by another thread, and PyTorch fails if that happens after the profiler's end."""

from __future__ import annotations

from typing import Any, Callable

from torch._C._autograd import _profiler_enabled as profiled  # is this thread being profiled?
from torch.autograd.profiler import record_function

__all__ = ["profiled", "shown"]

# Calls of the library by the names that gloo's operations have in the profiler.
_TITLES = {
    "allreduce": "all_reduce", "allreduce_list": "all_reduce", "allgather": "all_gather",
    "allgatherv": "all_gather", "allgather_list": "all_gather", "gather_list": "gather",
    "scatter_list": "scatter", "reduce_scatter_list": "reduce_scatter",
    "reduce_scatterv": "reduce_scatter", "alltoall": "all_to_all", "alltoallv": "all_to_all",
    "recv_any": "recvAnySource"}


def shown(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with record_function("gloo_c:" + _TITLES.get(name, name)):
            return function(*arguments)

    return call
