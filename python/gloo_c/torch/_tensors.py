"""Tensors as the library sees them: addresses, counts and types; and copies where it cannot."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
from torch import Tensor

from .._binding import ffi, lib

NULL = ffi.NULL

DTYPES: dict[torch.dtype, int] = {
    dtype: number for dtype, number in (
        (getattr(torch, name, None), number) for name, number in (
            ("int8", lib.GLOO_INT8), ("int16", lib.GLOO_INT16), ("int32", lib.GLOO_INT32),
            ("int64", lib.GLOO_INT64), ("uint8", lib.GLOO_UINT8), ("uint16", lib.GLOO_UINT16),
            ("uint32", lib.GLOO_UINT32), ("uint64", lib.GLOO_UINT64),
            ("float16", lib.GLOO_FLOAT16), ("bfloat16", lib.GLOO_BFLOAT16),
            ("float32", lib.GLOO_FLOAT32), ("float64", lib.GLOO_FLOAT64),
            ("complex64", lib.GLOO_COMPLEX64), ("complex128", lib.GLOO_COMPLEX128),
            ("bool", lib.GLOO_BOOL), ("float8_e4m3fn", lib.GLOO_FLOAT8_E4M3FN),
            ("float8_e5m2", lib.GLOO_FLOAT8_E5M2))) if dtype is not None}

After = Callable[[], None]


def plain(tensor: Tensor) -> bool:
    """Can the library use its memory as it is?"""
    return bool(tensor.is_cpu and tensor.layout is torch.strided and tensor.is_contiguous()
                and not tensor.is_conj() and not tensor.is_neg())


def input_of(tensor: Tensor) -> Tensor:
    """The same elements, in their order, in host memory."""
    if plain(tensor):
        return tensor
    if tensor.layout is not torch.strided:
        raise TypeError(f"a tensor of layout {tensor.layout} cannot be sent: only allreduce takes "
                        "sparse ones")
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()


def output_of(tensor: Tensor) -> tuple[Tensor, After | None]:
    """Where to put its elements, which may be read too, and what brings them to it."""
    if plain(tensor):
        return tensor, None
    copy = input_of(tensor)
    if copy.data_ptr() == tensor.data_ptr():
        copy = copy.clone()
    return copy, lambda: (tensor.detach().copy_(copy), None)[1]


def outputs_of(tensors: Sequence[Tensor]) -> tuple[list[Tensor], After | None]:
    places, afters = [], []
    for tensor in tensors:
        place, after = output_of(tensor)
        places.append(place)
        if after is not None:
            afters.append(after)
    return places, all_of(afters)


def all_of(afters: Sequence[After | None]) -> After | None:
    found = [after for after in afters if after is not None]
    if len(found) <= 1:
        return found[0] if found else None

    def run() -> None:
        for after in found:
            after()

    return run


def moved(tensor: Tensor) -> tuple[int, int]:
    """Count and type for what only moves: what the library has no type for are bytes."""
    number = DTYPES.get(tensor.dtype)
    if number is not None:
        return tensor.numel(), number
    return tensor.numel() * tensor.element_size(), lib.GLOO_UINT8


def pointers(tensors: Sequence[Tensor]) -> Any:
    return ffi.new("void *[]", [ffi.cast("void *", t.data_ptr()) for t in tensors] or [NULL])


def counts(counts: Sequence[int]) -> Any:
    return ffi.new("size_t[]", list(counts) or [0])


def pointer(tensor: Tensor) -> Any:
    return ffi.cast("void *", tensor.data_ptr())


def adjacent(tensors: Sequence[Tensor]) -> Tensor | None:
    """The first of them, if all lie one behind the other in memory."""
    at = tensors[0].data_ptr()
    for tensor in tensors:
        if tensor.data_ptr() != at or not plain(tensor):
            return None
        at += tensor.numel() * tensor.element_size()
    return tensors[0]


def joined(tensors: Sequence[Tensor]) -> Tensor:
    """Their elements one behind the other: a copy, unless they are so already."""
    together = adjacent(tensors)
    if together is not None:
        return together
    return torch.cat([input_of(tensor).reshape(-1) for tensor in tensors])


def split_of(tensors: Sequence[Tensor]) -> tuple[Tensor, After | None]:
    """Where to put the elements of all, one behind the other, and what brings them to them."""
    together = adjacent(tensors)
    if together is not None:
        return together, None
    sizes = [tensor.numel() for tensor in tensors]
    buffer = torch.empty(sum(sizes), dtype=tensors[0].dtype)

    def run() -> None:
        for tensor, part in zip(tensors, torch.split(buffer, sizes)):
            tensor.detach().copy_(part.view(tensor.shape))

    return buffer, run


def check_alike(what: str, tensors: Sequence[Tensor], model: Tensor, sizes: bool = True) -> None:
    for place, tensor in enumerate(tensors):
        if tensor.dtype != model.dtype:
            raise ValueError(f"{what}: tensor {place} is of type {tensor.dtype}, not "
                             f"{model.dtype} as the other side of the call")
        if sizes and tensor.numel() != model.numel():
            raise ValueError(f"{what}: tensor {place} has {tensor.numel()} elements, not "
                             f"{model.numel()}")


def only(what: str, tensors: Sequence[Any]) -> Any:
    if len(tensors) != 1:
        raise ValueError(f"{what}: one tensor is expected (there is one device), not "
                         f"{len(tensors)}")
    return tensors[0]
