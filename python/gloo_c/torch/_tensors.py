"""Tensors as the library sees them: addresses, counts and types, and copies where necessary."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Callable, Iterator, Sequence

import torch
from torch import Tensor

from .. import _gpu
from .._binding import ffi, lib
from .._errors import GlooError
from ._errors import TensorTypeError, backend_error

NULL = ffi.NULL
_POINTER = ffi.typeof("void *")

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
    """Returns true if the library can use the tensor's memory directly."""
    return in_host_memory(tensor) or (tensor.is_cuda and _in_order(tensor) and _known(tensor))


def in_host_memory(tensor: Tensor) -> bool:
    """Returns true if the library can use the tensor's memory directly, and that belongs to the host."""
    return tensor.is_cpu and _in_order(tensor)


def _in_order(tensor: Tensor) -> bool:
    return bool(tensor.layout is torch.strided and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()))


def _known(tensor: Tensor) -> bool:
    """Returns true if the library knows the GPU that has the tensor, and copies in the order of streams."""
    try:
        return tensor.numel() == 0 or _gpu.on_gpu(tensor.data_ptr())
    except GlooError as error:
        raise backend_error(error) from None


# ---- streams -------------------------------------------------------------------------------------

def _tensors_in(held: Any) -> Iterator[Tensor]:
    if isinstance(held, Tensor):
        yield held
    elif isinstance(held, (list, tuple)):
        for each in held:
            yield from _tensors_in(each)


def gpus_of(held: Any) -> list[torch.device]:
    """Returns the GPUs that have the tensors."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return []
    return list(dict.fromkeys(tensor.device for tensor in _tensors_in(held) if tensor.is_cuda))


def _streams_of(held: Any) -> list[Any]:
    """Returns the current stream of each of these GPUs."""
    return [torch.cuda.current_stream(device) for device in gpus_of(held)]


def ordered(keep: Any, result: Any, after: After | None) -> tuple[int, After | None]:
    """Returns the stream that a call follows, and `after` in the order of streams. keep: buffers of the
    library. The stream follows the current ones of other GPUs.

    Any thread may wait for a work and so run `after`, whose copies between tensors on GPUs are
    asynchronous. They run in the streams of the call, and the host waits for them."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return 0, after
    used = _streams_of(keep)
    for other in used[1:]:
        used[0].wait_stream(other)
    if after is not None:
        streams = _streams_of((keep, result))
        after = _in_streams(streams, after) if streams else after
    return used[0].cuda_stream if used else 0, after


def _in_streams(streams: list[Any], after: After) -> After:
    def run() -> None:
        with ExitStack() as stack:
            for stream in streams:
                stack.enter_context(torch.cuda.stream(stream))
            after()
        for stream in streams:
            stream.synchronize()

    return run


# ---- copies --------------------------------------------------------------------------------------

def input_of(tensor: Tensor) -> Tensor:
    """Returns the elements, in their order, in memory that the library can use."""
    if plain(tensor):
        return tensor
    if tensor.layout is not torch.strided:
        raise TensorTypeError(f"a tensor of layout {tensor.layout} cannot be sent: only allreduce "
                              "accepts sparse ones")
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()


def output_of(tensor: Tensor) -> tuple[Tensor, After | None]:
    """Returns memory for the elements, which may be read, too, and a function that copies them to
    the tensor."""
    if plain(tensor):
        return tensor, None
    copy = input_of(tensor)
    if copy.data_ptr() == tensor.data_ptr():
        copy = copy.clone()
    return copy, lambda: fill(tensor, copy)


def fill(tensor: Tensor, values: Tensor) -> None:
    """Copies values to a tensor, whatever the mode of this thread."""
    with torch.inference_mode() if tensor.is_inference() else torch.no_grad():
        tensor.copy_(values)


def outputs_of(tensors: Sequence[Tensor]) -> tuple[list[Tensor], After | None]:
    places, afters = [], []
    for tensor in tensors:
        place, after = output_of(tensor)
        places.append(place)
        if after is not None:
            afters.append(after)
    return places, all_of(afters)


def apart(inputs: list[Tensor], outputs: list[Tensor]
          ) -> tuple[list[Tensor], list[Tensor], After | None]:
    """Returns inputs and outputs whose memory does not overlap, as the library requires, and a
    function that fills the given outputs. Overlapping ones are copied; inputs may overlap each
    other."""
    spans = []
    for tensors, is_output in ((inputs, False), (outputs, True)):
        for tensor in tensors:
            length = tensor.nbytes
            if length:
                spans.append((tensor.data_ptr(), length, is_output))
    spans.sort()
    inputs_end = outputs_end = 0  # of the memory so far
    for begin, length, is_output in spans:
        if begin < outputs_end or (is_output and begin < inputs_end):
            return _copied(inputs, outputs)
        if is_output:
            outputs_end = begin + length
        else:
            inputs_end = max(inputs_end, begin + length)
    return inputs, outputs, None


def _copied(inputs: list[Tensor], outputs: list[Tensor]
            ) -> tuple[list[Tensor], list[Tensor], After | None]:
    places = [output.detach().clone() for output in outputs]

    def run() -> None:
        for output, place in zip(outputs, places):
            fill(output, place)

    return inputs, places, run


def buffers(inputs: Sequence[Tensor], outputs: Sequence[Tensor]
            ) -> tuple[list[Tensor], list[Tensor], After | None]:
    """Returns the buffers that the library reads and writes in place of inputs and outputs, and a
    function that fills the outputs."""
    places, after = outputs_of(outputs)
    sources, places, between = apart([input_of(tensor) for tensor in inputs], places)
    return sources, places, after if between is None else all_of([between, after])


def all_of(afters: Sequence[After | None]) -> After | None:
    found = [after for after in afters if after is not None]
    if len(found) <= 1:
        return found[0] if found else None

    def run() -> None:
        for after in found:
            after()

    return run


def moved(tensor: Tensor) -> tuple[int, int]:
    """Returns count and type for elements that are only moved: other types count as bytes."""
    number = DTYPES.get(tensor.dtype)
    if number is not None:
        return tensor.numel(), number
    return tensor.numel() * tensor.element_size(), lib.GLOO_UINT8


def pointers(tensors: Sequence[Tensor]) -> Any:
    return ffi.new("void *[]", [ffi.cast("void *", t.data_ptr()) for t in tensors] or [NULL])


def counts(counts: Sequence[int]) -> Any:
    return ffi.new("size_t[]", list(counts) or [0])


def pointer(tensor: Tensor) -> Any:
    return ffi.cast(_POINTER, tensor.data_ptr())


def adjacent(tensors: Sequence[Tensor]) -> Tensor | None:
    """Returns the first tensor, if each one follows the previous one in memory. Copies of GPU memory
    must not go beyond an allocation, even if another one follows."""
    at = tensors[0].data_ptr()
    whole = None if tensors[0].is_cpu else tensors[0].untyped_storage().data_ptr()
    for tensor in tensors:
        if tensor.data_ptr() != at or not plain(tensor):
            return None
        if whole is not None and tensor.untyped_storage().data_ptr() != whole:
            return None
        at += tensor.numel() * tensor.element_size()
    return tensors[0]


def joined(tensors: Sequence[Tensor]) -> Tensor:
    """Returns the elements of all tensors in contiguous memory: a copy, unless they already are."""
    together = adjacent(tensors)
    if together is not None:
        return together
    parts = [input_of(tensor).reshape(-1) for tensor in tensors]
    if len({part.device for part in parts}) > 1:
        parts = [part.cpu() for part in parts]
    return torch.cat(parts)


def split_of(tensors: Sequence[Tensor]) -> tuple[Tensor, After | None]:
    """Returns contiguous memory for the elements of all tensors, and a function that copies them
    there."""
    together = adjacent(tensors)
    if together is not None:
        return together, None
    sizes = [tensor.numel() for tensor in tensors]
    alike = all(plain(tensor) and tensor.device == tensors[0].device for tensor in tensors)
    buffer = torch.empty(sum(sizes), dtype=tensors[0].dtype, device=tensors[0].device if alike else "cpu")

    def run() -> None:
        for tensor, part in zip(tensors, torch.split(buffer, sizes)):
            fill(tensor, part.view(tensor.shape))

    return buffer, run


def shown_as_list(outputs: Sequence[Any]) -> Any:
    """Returns the result of an operation with lists of outputs: a single list is returned without
    the outer one."""
    return outputs[0] if len(outputs) == 1 else list(outputs)
