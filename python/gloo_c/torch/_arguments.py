"""Checks of the arguments of operations. Each raises the exception that gloo would, with its own
message."""

from __future__ import annotations

from typing import Any, Sequence

from torch import Tensor

from ._errors import ArgumentError, TensorTypeError


def check_alike(what: str, tensors: Sequence[Tensor], model: Tensor, sizes: bool = True) -> None:
    for place, tensor in enumerate(tensors):
        if tensor.dtype != model.dtype:
            raise TensorTypeError(f"{what}: tensor {place} is of type {tensor.dtype}, not "
                                  f"{model.dtype} as the other side of the call")
        if sizes and tensor.shape != model.shape:
            raise ArgumentError(f"{what}: tensor {place} has the shape {list(tensor.shape)}, not "
                                f"{list(model.shape)} as the other side of the call")


def one_type(what: str, tensors: Sequence[Tensor]) -> None:
    """Checks that tensors have the same type and layout."""
    first = tensors[0]
    for place, tensor in enumerate(tensors):
        if tensor.layout is not first.layout:
            raise TensorTypeError(f"{what}: tensor {place} has the layout {tensor.layout}, "
                                  f"and tensor 0 {first.layout}")
        if tensor.dtype != first.dtype:
            raise TensorTypeError(f"{what}: tensor {place} is of type {tensor.dtype}, and tensor 0 of "
                                  f"{first.dtype}; call it once for each type")


def one_after_the_other(what: str, tensor: Tensor) -> None:
    """Checks that the elements of a tensor are in order, without gaps."""
    if not tensor.is_contiguous():
        raise ArgumentError(f"{what}: the input of shape {list(tensor.shape)} has the strides "
                            f"{list(tensor.stride())}. Tensors must be contiguous here; pass "
                            "tensor.contiguous()")


def some(what: str, tensors: Sequence[Any]) -> None:
    if not tensors:
        raise ArgumentError(f"{what}: the list of tensors is empty")


def only(what: str, of_what: str, given: Sequence[Any]) -> Any:
    """Returns the only entry of a list."""
    if len(given) != 1:
        raise ArgumentError(f"{what}: the number of {of_what} is {len(given)}; expected 1")
    return given[0]


def listed(what: str, tensors: Any) -> list[Tensor]:
    """Returns a list of the one tensor of a message."""
    if isinstance(tensors, Tensor):
        return [tensors]
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(t, Tensor) for t in tensors):
        raise TypeError(f"{what}: tensors is {type(tensors).__name__}: {tensors!r:.80}; expected a "
                        "list of one tensor")
    return [only(what, "tensors", tensors)]


def none(what: str, of_what: str, given: Sequence[Any], root: int) -> None:
    if len(given) > 0:
        raise ArgumentError(f"{what}: {of_what} must be empty on ranks other than the root, {root}; pass "
                            "an empty list there")


def one_per_rank(what: str, of_what: str, given: Sequence[Any], ranks: int) -> None:
    if len(given) != ranks:
        raise ArgumentError(f"{what}: the number of {of_what} is {len(given)}; expected {ranks}, one "
                            "for each rank")


def pairs(what: str, outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
    some(what, inputs)
    if len(outputs) != len(inputs):
        raise ArgumentError(f"{what}: the number of outputs is {len(outputs)}; expected "
                            f"{len(inputs)}, that of inputs")


def root_tensor(what: str, number: int, tensors: Sequence[Any]) -> None:
    some(what, tensors)
    if not 0 <= number < len(tensors):
        raise ArgumentError(f"{what}: rootTensor is {number}; expected 0 or more and less than the "
                            f"number of tensors, {len(tensors)}")


def tag_of(what: str, tag: int) -> int:
    if tag < 0:
        raise ArgumentError(f"{what}: the tag is {tag}; tags are 0 or more")
    return tag
