"""Memory of GPUs, and the streams that order accesses to it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Any, Iterator

from ._binding import ffi, lib
from ._convert import integer, wrong
from ._errors import checked

_HANDLE = ("a stream: a handle as a whole number, an object with __cuda_stream__ or cuda_stream (such as a "
           "torch.cuda.Stream), or None for the default stream")
_LEGACY = 1  # CUDA's handle of the legacy default stream, which is also 0
_PLACE = ffi.typeof("int *")
_VOID = ffi.typeof("void *")

# Types of devices of DLPack. Host memory includes memory that a GPU can access.
HOST = frozenset({1, 3, 11})
GPUS = frozenset({2, 10, 13})
_ROCM = 10
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 9: "VPI", 10: "ROCm", 12: "an extension of its package",
            13: "CUDA, managed", 14: "oneAPI", 15: "WebGPU", 16: "Hexagon", 17: "MAIA"}


# ---- streams -----------------------------------------------------------------------------------

class _Calling(threading.local):
    """The call whose arguments this thread converts."""

    stream = 0


_calling = _Calling()


def handle_of(stream: Any) -> int:
    """Returns the handle of a stream, as the C interface takes it."""
    given = stream
    if hasattr(stream, "__cuda_stream__"):
        told = stream.__cuda_stream__()
        if not isinstance(told, tuple) or len(told) != 2 or told[0] != 0:
            raise TypeError(f"stream: __cuda_stream__ of {type(stream).__name__} returned {told!r:.60}; expected "
                            "(0, handle), version 0 of the protocol")
        stream = told[1]
    elif hasattr(stream, "cuda_stream"):
        stream = stream.cuda_stream
    if stream is None or isinstance(stream, bool):
        raise wrong("stream", given, _HANDLE)
    try:
        return integer("stream", stream, 0, (1 << 8 * ffi.sizeof("void *")) - 1)
    except TypeError:
        raise wrong("stream", given, _HANDLE) from None


@contextmanager
def calls_in(stream: int) -> Iterator[None]:
    """Arrays that are converted meanwhile are for a call that names this stream."""
    _calling.stream = stream
    try:
        yield
    finally:
        _calling.stream = 0


def exchanged(device: int) -> dict[str, int]:
    """Returns the argument of __dlpack__ by which a package orders its pending work on an array before
    the stream of the call. Host memory has none. PyTorch's default is no order, so it is passed always."""
    if device not in GPUS:
        return {}
    if device == _ROCM:  # 1 and 2 are CUDA's
        return {"stream": _calling.stream if _calling.stream > 2 else 0}
    return {"stream": _calling.stream or _LEGACY}


def check_stream(kind: str, stream: Any) -> None:
    """Checks that the call names the stream in which a package works on an array. None: no work is
    pending. Only DLPack lets a package order one stream after another."""
    if stream is None or (handle_of(stream) or _LEGACY) == (_calling.stream or _LEGACY):
        return
    named = f"names stream {_calling.stream:#x}" if _calling.stream else "names no stream"
    raise ValueError(f"the __cuda_array_interface__ of this {kind} says that its data is ready in stream "
                     f"{handle_of(stream):#x}, and the call {named}; pass stream={handle_of(stream):#x}")


# ---- memory ------------------------------------------------------------------------------------

def no_access(kind: str, device: int) -> TypeError:
    return TypeError(f"this {kind} is in memory of DLPack's device type {device} "
                     f"({_DEVICES.get(device, 'unknown')}), which the library cannot access; copy it to host "
                     "memory first")


def on_gpu(address: Any) -> bool:
    """Returns true if the library knows an address as memory of a GPU."""
    place = ffi.new(_PLACE)
    checked(lib.gloo_memory_locate, ffi.cast(_VOID, address), place)
    return bool(place[0] >= 0)


def check_known(kind: str, address: Any, count: int) -> None:
    """Checks that the library knows the memory of an array on a GPU as such: it would crash otherwise."""
    if count and not on_gpu(address):
        raise TypeError(f"this {kind} is in GPU memory that the library does not recognize: it does not use this "
                        "GPU's driver (`gloo info` prints what it uses; GLOO_CUDA=0 and "
                        "GLOO_HIP=0 turn it off, 1 on), or the memory was freed; copy the array to host memory first")
