"""The device "cuda" of PyTorch's build for CPUs, on the stand-in for CUDA's driver: standin_torch.cpp, and
the functions of torch.cuda that gloo_c.torch and these tests use. For processes that no other tests run in."""

import ctypes
import os
from contextlib import contextmanager

import standin
import torch

_own = ctypes.CDLL(os.environ["TORCH_STANDIN"])
for _name in ("stream", "copies_to_host", "copies_to_device"):
    getattr(_own, f"standin_{_name}").restype = ctypes.c_int64
_own.standin_set_stream.argtypes = [ctypes.c_int, ctypes.c_int64]


def copies_to_host():
    """Returns the number of tensors that PyTorch has copied to host memory."""
    return _own.standin_copies_to_host()


def copies_to_device():
    """Returns the number of those that it has copied from there in this thread."""
    return _own.standin_copies_to_device()


class Stream(standin.Stream):
    """What torch.cuda.Stream does here; a new stream, or that of a handle."""

    def __init__(self, device=0, handle=None):
        index = torch.device(device).index if not isinstance(device, int) else device
        if handle is None:
            super().__init__(index)
        else:
            self.device, self.pointer = standin.devices[index], ctypes.c_void_p(handle or standin.LEGACY)
        self.index = index

    @property
    def cuda_stream(self):
        return 0 if self.handle == standin.LEGACY else self.handle

    def wait_stream(self, other):
        self.wait_for(other)


def _index(device=None):
    if device is None:
        return _own.standin_device()
    found = torch.device(device).index if not isinstance(device, int) else device
    return _own.standin_device() if found is None else found


def current_stream(device=None):
    return Stream(_index(device), _own.standin_stream(_index(device)))


@contextmanager
def stream_context(stream):
    before = _own.standin_device(), _own.standin_stream(stream.index)
    _own.standin_set_device(stream.index)
    _own.standin_set_stream(stream.index, stream.cuda_stream)
    try:
        yield
    finally:
        _own.standin_set_device(before[0])
        _own.standin_set_stream(stream.index, before[1])


@contextmanager
def device_context(device):
    before = _own.standin_device()
    _own.standin_set_device(_index(device))
    try:
        yield
    finally:
        _own.standin_set_device(before)


torch.cuda._lazy_init = lambda: None
torch.cuda.is_initialized = torch.cuda.is_available = lambda: True
torch.cuda.device_count = lambda: len(standin.devices)
torch.cuda.current_device = _own.standin_device
torch.cuda.current_stream = current_stream
torch.cuda.default_stream = lambda device=None: Stream(_index(device), 0)
torch.cuda.ExternalStream = lambda handle, device=None: Stream(_index(device), handle)
torch.cuda.Event = standin.Event
torch.cuda.stream = stream_context
torch.cuda.device = device_context
