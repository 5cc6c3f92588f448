"""Checks of the arguments of operations. Each raises what gloo would, with a sentence of its own."""

from __future__ import annotations

from typing import Any, Sequence

from torch import Tensor

from ._errors import ArgumentError, TensorTypeError


def check_alike(what: str, tensors: Sequence[Tensor], model: Tensor, sizes: bool = True) -> None:
    for place, tensor in enumerate(tensors):
        if tensor.dtype != model.dtype:
            raise TensorTypeError(f"{what}: tensor {place} is of type {tensor.dtype}, not "
                                  f"{model.dtype} as the other side of the call")
        if sizes and tensor.numel() != model.numel():
            raise ArgumentError(f"{what}: tensor {place} has {tensor.numel()} elements, not "
                                f"{model.numel()}")


def some(what: str, tensors: Sequence[Any]) -> None:
    if not tensors:
        raise ArgumentError(f"{what}: the list of tensors is empty")


def only(what: str, of_what: str, given: Sequence[Any]) -> Any:
    """The one entry of a list."""
    if len(given) != 1:
        raise ArgumentError(f"{what}: the number of {of_what} is {len(given)}; expected 1")
    return given[0]


def listed(what: str, tensors: Any) -> list[Tensor]:
    """A list of the one tensor of a message."""
    if isinstance(tensors, Tensor):
        return [tensors]
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(t, Tensor) for t in tensors):
        raise TypeError(f"{what}: tensors is {type(tensors).__name__}: {tensors!r:.80}; expected a "
                        "list of one tensor")
    return [only(what, "tensors", tensors)]


def none(what: str, of_what: str, given: Sequence[Any], root: int) -> None:
    if len(given) > 0:
        raise ArgumentError(f"{what}: there are {of_what} at a rank other than the root, {root}; pass "
                            "an empty list there")


def one_per_rank(what: str, of_what: str, given: Sequence[Any], ranks: int) -> None:
    if len(given) != ranks:
        raise ArgumentError(f"{what}: there are {len(given)} {of_what} for {ranks} ranks")


def pairs(what: str, outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
    some(what, inputs)
    if len(outputs) != len(inputs):
        raise ArgumentError(f"{what}: there are {len(outputs)} outputs for {len(inputs)} inputs")


def root_tensor(what: str, number: int, tensors: Sequence[Any]) -> None:
    some(what, tensors)
    if not 0 <= number < len(tensors):
        raise ArgumentError(f"{what}: rootTensor is {number}, and there are {len(tensors)} tensors, "
                            "from 0")


def tag_of(what: str, tag: int) -> int:
    if tag < 0:
        raise ArgumentError(f"{what}: the tag is {tag}; tags are 0 or more")
    return tag
