"""The self-test of `python -m gloo_c`: every collective in every type, compared with Python."""

from __future__ import annotations

import array
from typing import Any, Callable

from ._context import Context
from ._errors import GlooError

# Type codes of array.array that the library has a type for.
LETTERS = "bBhHiIqQfd"


def _row(letter: str, values: list[int]) -> array.array[Any]:
    return array.array(letter, values)


def _allreduce(context: Context, letter: str) -> bool:
    size = context.size
    data = _row(letter, [context.rank + k for k in range(5)])
    context.allreduce(data)
    return data.tolist() == [size * (size - 1) // 2 + k * size for k in range(5)]


def _broadcast(context: Context, letter: str) -> bool:
    root = context.size - 1
    data = _row(letter, [7 if context.rank == root else 0] * 3)
    context.broadcast(data, root=root)
    return data.tolist() == [7, 7, 7]


def _reduce(context: Context, letter: str) -> bool:
    data = _row(letter, [context.rank, 1])
    context.reduce(data, root=0, op="max")
    return context.rank != 0 or data.tolist() == [context.size - 1, 1]


def _allgather(context: Context, letter: str) -> bool:
    out = _row(letter, [0] * 2 * context.size)
    context.allgather(_row(letter, [context.rank, 3]), out)
    return out.tolist() == [value for rank in range(context.size) for value in (rank, 3)]


def _alltoall(context: Context, letter: str) -> bool:
    data = _row(letter, [context.rank] * context.size)
    context.alltoall(data)
    return data.tolist() == list(range(context.size))


def _reduce_scatter(context: Context, letter: str) -> bool:
    out = _row(letter, [0])
    context.reduce_scatter(_row(letter, list(range(context.size))), out)
    return out.tolist() == [context.rank * context.size]


def _gather(context: Context, letter: str) -> bool:
    out = _row(letter, [0] * context.size) if context.rank == 0 else None
    context.gather(_row(letter, [context.rank]), out)
    return out is None or out.tolist() == list(range(context.size))


def _scatter(context: Context, letter: str) -> bool:
    out = _row(letter, [0])
    context.scatter(_row(letter, list(range(context.size))) if context.rank == 0 else None, out)
    return out.tolist() == [context.rank]


def _scan(context: Context, letter: str) -> bool:
    data = _row(letter, [1])
    context.scan(data)
    return data.tolist() == [context.rank + 1]


def _ring(context: Context, letter: str) -> bool:
    out = _row(letter, [0])
    size, rank = context.size, context.rank
    context.sendrecv(_row(letter, [rank]), (rank + 1) % size, out, (rank - 1) % size)
    return out.tolist() == [(rank - 1) % size]


CHECKS: dict[str, Callable[[Context, str], bool]] = {
    "allreduce": _allreduce, "broadcast": _broadcast, "reduce": _reduce, "allgather": _allgather,
    "alltoall": _alltoall, "reduce_scatter": _reduce_scatter, "gather": _gather,
    "scatter": _scatter, "scan": _scan, "sendrecv": _ring}


def failures(context: Context) -> list[str]:
    """Returns descriptions of wrong results; raises errors that make the context unusable."""
    found = []
    for name, check in CHECKS.items():
        for letter in LETTERS:
            if letter in "bB" and context.size > 30:
                continue  # sums would wrap around
            try:
                if not check(context, letter):
                    found.append(f"{name} of {letter!r} gives a wrong result")
            except GlooError as error:
                raise type(error)(f"{name} of {letter!r}: {error.message}", error.status,
                                  error.cause, error.rank, error.root_rank) from error
    context.barrier()
    return found
