"""Checks for TORCH_DISTRIBUTED_DEBUG=DETAIL: before each collective all ranks compare their calls.

PyTorch wraps C++ backends for this purpose, but not a process group in Python. So the group
compares calls itself, on a separate context: a different call is reported before anything is sent,
and the group remains usable. Messages use the words of PyTorch's wrapper for a call, a difference
and a missing rank, because programs search for them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .._binding import lib
from ._errors import BackendError
from ._tensors import NULL, counts, pointer

if TYPE_CHECKING:
    from ._calls import Caller


class _Kind(NamedTuple):
    title: str
    argument: int | None = 0  # argument whose tensors are compared; None: only the operation
    shapes: bool = True  # true if shapes must be the same on all ranks


_KINDS = {
    "allreduce": _Kind("ALLREDUCE"), "allreduce_coalesced": _Kind("ALLREDUCE_COALESCED"),
    "broadcast": _Kind("BROADCAST"), "reduce": _Kind("REDUCE"),
    "allgather": _Kind("ALLGATHER", 1, False),
    "allgather_coalesced": _Kind("ALLGATHER_COALESCED", 1, False),
    "all_gather_single": _Kind("_ALLGATHER_BASE", 1),
    "all_gather_single_coalesced": _Kind("ALLGATHER_INTO_TENSOR_COALESCED", 1),
    "gather": _Kind("GATHER", 1), "gather_single": _Kind("GATHER_SINGLE", 1), "scatter": _Kind("SCATTER"),
    "reduce_scatter": _Kind("REDUCE_SCATTER", 0, False),
    "reduce_scatter_single": _Kind("_REDUCE_SCATTER_BASE", 1),
    "reduce_scatter_single_coalesced": _Kind("REDUCE_SCATTER_TENSOR_COALESCED", 1),
    "alltoall": _Kind("ALLTOALL", 1, False), "all_to_all_single": _Kind("ALLTOALL_BASE", 1, False),
    "barrier": _Kind("BARRIER", None)}

_TYPES = {torch.float32: "Float", torch.float64: "Double", torch.float16: "Half",
          torch.int64: "Long", torch.int32: "Int", torch.int16: "Short", torch.int8: "Char",
          torch.uint8: "Byte", torch.bool: "Bool"}
_DIGEST = 32


class Checks:
    """Compares the calls of all ranks through `meeting`, which has no other use."""

    def __init__(self, meeting: Caller) -> None:
        self.meeting = meeting
        self._sequence = 0

    def verify(self, name: str, args: tuple[Any, ...]) -> None:
        """Raises BackendError on all ranks if they do not make the same call."""
        kind = _KINDS.get(name)
        if kind is None:
            return
        self._sequence += 1
        mine = _described(kind, self._sequence, args)
        compared = {key: value for key, value in mine.items()
                    if key != "shapes" or kind.shapes}
        digest = hashlib.sha256(json.dumps(compared, sort_keys=True).encode()).digest()
        own = torch.frombuffer(bytearray(digest), dtype=torch.uint8)
        every = torch.empty((self.meeting._size, _DIGEST), dtype=torch.uint8)
        try:
            self.meeting._run("allgather", (pointer(own), pointer(every), _DIGEST, lib.GLOO_UINT8))
            different = (every != own).any(dim=1)
            agreed = (every == every[0]).all()
            calls = None if agreed else self._all_calls(mine)
        except BackendError as error:
            raise self._absent(mine, error) from error
        if calls is not None:
            other = int(different.nonzero()[0])
            raise BackendError(_difference(self.meeting._rank, mine, other, calls[other]),
                               lib.GLOO_ERR_MISMATCH)

    def _all_calls(self, mine: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns the call of each rank."""
        text = bytearray(json.dumps(mine).encode())
        source = torch.frombuffer(text, dtype=torch.uint8)
        length = torch.tensor([len(text)])
        lengths = torch.empty(self.meeting._size, dtype=torch.int64)
        self.meeting._run("allgather", (pointer(length), pointer(lengths), 1, lib.GLOO_INT64))
        sizes = lengths.tolist()
        place = torch.empty(sum(sizes), dtype=torch.uint8)
        self.meeting._run("allgatherv", (pointer(source), pointer(place), counts(sizes), NULL,
                                         lib.GLOO_UINT8))
        return [json.loads(bytes(part.tolist())) for part in torch.split(place, sizes)]

    def _absent(self, mine: dict[str, Any], error: BackendError) -> BackendError:
        absent = "Some ranks" if error.rank is None else f"Ranks {error.rank}"
        hint = "" if self.meeting._rank == 0 else ". Please check rank 0 logs for faulty ranks, too"
        made = BackendError(f"{_shown(mine)}: {absent} failed to pass monitoredBarrier, the check "
                            f"before the call (TORCH_DISTRIBUTED_DEBUG=DETAIL): {error.message}{hint}",
                            error.status, error.cause, error.rank, error.root_rank)
        return made


def _tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [tensor for each in value for tensor in _tensors_in(each)]


def _described(kind: _Kind, sequence: int, args: tuple[Any, ...]) -> dict[str, Any]:
    tensors = [] if kind.argument is None else _tensors_in(args[kind.argument])
    return {"operation": kind.title, "SequenceNumber": sequence,
            "shapes": [list(tensor.shape) for tensor in tensors],
            "types": [_TYPES.get(tensor.dtype, str(tensor.dtype)) for tensor in tensors],
            "devices": sorted({tensor.device.type for tensor in tensors})}


def _shown(call: dict[str, Any]) -> str:
    parts = [f"SequenceNumber={call['SequenceNumber']}"]
    if call["shapes"]:
        parts += [f"shapes={call['shapes']}", f"types={', '.join(call['types'])}",
                  f"devices={', '.join(call['devices'])}"]
    return f"{call['operation']}({', '.join(parts)})"


def _difference(rank: int, mine: dict[str, Any], other: int, theirs: dict[str, Any]) -> str:
    found = [f"{key} {mine[key]} and {theirs[key]}" for key in mine if mine[key] != theirs[key]]
    return (f"rank {rank} called {_shown(mine)}, and rank {other} {_shown(theirs)}. Collectives "
            f"differ in the following: {'; '.join(found)}. All ranks must make the same calls in "
            "the same order")
