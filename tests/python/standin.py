"""Arrays and streams of the stand-in for libcuda.so.1 (tests/cuda/standin), for tests in processes that
no other tests run in: the library asks the driver about each buffer from then on.

CUDA_STANDIN is the path of the stand-in. An access to its memory, other than by a copy, is a crash."""

import ctypes
import os
import threading

import numpy as np

LIBRARY = os.environ.get("CUDA_STANDIN", "")
os.environ["GLOO_CUDA"] = "1"  # before the first device
cuda = ctypes.CDLL(LIBRARY, mode=ctypes.RTLD_GLOBAL)
LEGACY = 1
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def must(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, f"{name}: error {status}"


class Device:
    """A GPU. Within `with`, its context is the thread's current one."""

    def __init__(self, number):
        self.number, self.context = number, ctypes.c_void_p()
        must("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), number)

    def __enter__(self):
        must("cuCtxPushCurrent_v2", self.context)

    def __exit__(self, *_):
        must("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


must("cuInit", 0)
devices = [Device(number) for number in range(2)]
_kept = []  # what the stand-in's threads use


class Gate:
    """Work of a stream that takes until `open`."""

    def __init__(self, stream):
        self._opened = threading.Event()
        self._wait = HOST_FUNCTION(lambda _user: self._opened.wait(60) and None)
        _kept.append(self)
        with stream.device:
            must("cuLaunchHostFunc", stream.pointer, self._wait, None)

    def open(self):
        self._opened.set()


class Event:
    """A point in the order of a stream's work."""

    def __init__(self):
        self.pointer = ctypes.c_void_p()

    def record(self, stream):
        with stream.device:
            must("cuEventCreate", ctypes.byref(self.pointer), 2)
            must("cuEventRecord", self.pointer, stream.pointer)


class Stream:
    """A stream, or the legacy default stream of a device."""

    def __init__(self, device=0, legacy=False):
        self.device, self.pointer = devices[device], ctypes.c_void_p(LEGACY)
        if legacy:
            return
        with self.device:
            must("cuStreamCreate", ctypes.byref(self.pointer), 1)

    @property
    def handle(self):
        return self.pointer.value

    def __cuda_stream__(self):
        return 0, self.handle

    def copy(self, to, from_, length):
        with self.device:
            must("cuMemcpyAsync", ctypes.c_uint64(to), ctypes.c_uint64(from_), ctypes.c_size_t(length), self.pointer)

    def wait_event(self, event):
        with self.device:
            must("cuStreamWaitEvent", self.pointer, event.pointer, 0)

    def wait_for(self, other):
        """Orders later work behind the present work of another stream."""
        event = Event()
        event.record(other)
        self.wait_event(event)

    def synchronize(self):
        with self.device:
            must("cuStreamSynchronize", self.pointer)


class External(Stream):
    """A stream that another package has made, given by its handle."""

    def __init__(self, handle, device):
        self.device, self.pointer = device, ctypes.c_void_p(handle)


def allocate(device, length, kind):
    """Returns the address of memory: "device", "managed" or "pinned"."""
    address = ctypes.c_uint64()
    with device:
        if kind == "device":
            must("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(length, 1)))
        elif kind == "managed":
            must("cuMemAllocManaged", ctypes.byref(address), ctypes.c_size_t(max(length, 1)), 1)
        else:
            pages = np.zeros(length // 4096 * 4096 + 8192, "u1")
            _kept.append(pages)
            address.value = (pages.ctypes.data + 4095) // 4096 * 4096
            must("cuMemHostRegister_v2", ctypes.c_void_p(address.value),
                 ctypes.c_size_t(length // 4096 * 4096 + 4096), 1)
    return address.value


class Memory:
    """Memory of a device with the values of a numpy array."""

    def __init__(self, values, device=0, kind="device"):
        values = np.ascontiguousarray(values)
        self.shape, self.dtype, self.bytes, self.kind = values.shape, values.dtype, values.nbytes, kind
        self.own = Stream(device)
        self.address = allocate(self.own.device, values.nbytes, kind)
        self.put(values, self.own)
        self.own.synchronize()

    def put(self, values, stream):
        """Queues a copy of new values to it."""
        values = np.array(values, self.dtype, order="C")
        assert values.nbytes == self.bytes
        _kept.append(values)
        if self.bytes:
            stream.copy(self.address, values.ctypes.data, self.bytes)

    def get(self):
        values = np.empty(self.shape, self.dtype)
        if self.bytes:
            self.own.copy(values.ctypes.data, self.address, self.bytes)
            self.own.synchronize()
        return values


class Interface(Memory):
    """An array with __cuda_array_interface__ only."""

    changes: dict = {}

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.address, False), "version": 3,
                "strides": None, "stream": None, **self.changes}


# ---- DLPack ------------------------------------------------------------------------------------

class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, DESTRUCTOR]
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
TYPES = {"device": 2, "managed": 13, "pinned": 3}


class Lent(Memory):
    """An array with DLPack only. Its package works on it in the stream `producer`."""

    def __init__(self, values, device=0, kind="device", producer=None):
        super().__init__(values, device, kind)
        self.type, self.producer, self.strides, self.flags, self.old = TYPES[kind], producer, None, 0, False
        self.asked, self.exported = [], 0
        self._returned = DESTRUCTOR(self._release)
        _kept.append(self._returned)

    def _release(self, _capsule):
        self.exported -= 1

    def __dlpack_device__(self):
        return self.type, self.own.device.number

    def __dlpack__(self, *, stream=-1, **options):
        if self.old and options:
            raise TypeError("unexpected arguments")
        self.asked.append(stream)
        if self.producer is not None and stream != -1:
            External(stream, self.own.device).wait_for(self.producer)
        shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        strides = (ctypes.c_int64 * len(self.shape))(*self.strides) if self.strides else None
        tensor = Tensor(self.address, self.type, self.own.device.number, len(self.shape), CODES[self.dtype.kind],
                        8 * self.dtype.itemsize, 1, shape, strides, 0)
        managed = tensor if self.old else Versioned(1, 0, None, None, self.flags, tensor)
        _kept.append((shape, strides, managed))
        self.exported += 1
        return _new_capsule(ctypes.addressof(managed), b"dltensor" if self.old else b"dltensor_versioned",
                            self._returned)
