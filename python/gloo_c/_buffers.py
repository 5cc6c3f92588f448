"""Memory of the arrays of any package, and their element types.

A Memory is (address, number of elements, type, owner): the address as the C interface takes it, and
the object that must stay alive as long as an operation uses the memory."""

from __future__ import annotations

import operator
import sys
from typing import Any, Callable, Iterable, NamedTuple, Sequence, Tuple

from ._binding import ffi, lib
from ._convert import integer, integers, wrong
from ._errors import text
from ._gpu import GPUS, HOST, check_known, check_stream, exchanged, no_access

Memory = Tuple[Any, int, int, Any]
Reader = Callable[[Any, bool], Memory]

_CHARS = ffi.typeof("char[]")
_VOID = ffi.typeof("void *")
_SIZES = ffi.typeof("size_t[]")
_from_buffer = ffi.from_buffer

DTYPES: dict[str, int] = {text(lib.gloo_dtype_name(n)): n for n in range(lib.GLOO_DTYPE_COUNT)}
DTYPE_NAMES: dict[int, str] = {number: name for name, number in DTYPES.items()}
DTYPE_NAMES[lib.GLOO_OPAQUE] = "opaque"
SIZES: dict[int, int] = {n: lib.gloo_dtype_size(n) for n in DTYPES.values()}


class _InPlace:
    def __repr__(self) -> str:
        return "gloo_c.IN_PLACE"


IN_PLACE = _InPlace()


class Typed(NamedTuple):
    """An array whose elements are treated as another type: see `typed`."""

    array: Any
    dtype: int
    element_bytes: int


def typed(array: Any, dtype: str, element_bytes: int = 0) -> Typed:
    """Returns an array whose elements are treated as `dtype`: `typed(bits, "bfloat16")` where
    `bits` has 16-bit integers. A list of numbers is converted to that type. With "opaque", whose
    elements only a custom operation understands, `element_bytes` is the size of an element."""
    if dtype == "opaque":
        if integer("element_bytes", element_bytes) < 1:
            raise ValueError(f"element_bytes is {element_bytes}; expected the size of an element of "
                             "type opaque in bytes, 1 or more")
        return Typed(array, lib.GLOO_OPAQUE, element_bytes)
    number = dtype_number(dtype)
    if is_numbers(array):
        array = converted(array, number)
        array.flags.writeable = False
    return Typed(array, number, SIZES[number])


def dtype_number(dtype: str) -> int:
    try:
        return DTYPES[dtype]
    except (KeyError, TypeError):
        raise ValueError(f"unknown type {dtype!r}; valid: {', '.join(DTYPES)}") from None


def _kind(thing: Any) -> str:
    kind = type(thing)
    where = "" if kind.__module__ == "builtins" else kind.__module__ + "."
    return where + kind.__qualname__


def _read_only(thing: Any) -> TypeError:
    return TypeError(f"this {_kind(thing)} is read-only, but the call writes to it; "
                     "pass a writable array, or another output")


def _scattered(thing: Any) -> ValueError:
    return ValueError(f"this {_kind(thing)} is not contiguous in C "
                      "order; pass a contiguous copy")


def _no_array(thing: Any) -> TypeError:
    return TypeError(f"cannot use {_kind(thing)} {thing!r:.40}: expected an array (numpy, torch tensor, "
                     "buffer such as array.array or bytearray, DLPack, __cuda_array_interface__); convert "
                     "numbers with numpy.array(numbers, dtype=\"float32\")")


def _no_dtype(thing: Any, name: str) -> TypeError:
    return TypeError(f"type {name} of this {_kind(thing)} is not supported; "
                     f"valid: {', '.join(DTYPES)}")


# ---- numpy, and what has its buffers -----------------------------------------------------------

_numpy_dtypes: dict[Any, int] = {}


def _numpy_dtype(array: Any) -> int:
    dtype = array.dtype
    number = DTYPES.get(dtype.name)
    if number is None or not dtype.isnative:
        raise _no_dtype(array, str(dtype) if dtype.isnative else f"{dtype}, in another byte order,")
    _numpy_dtypes[dtype] = number
    return number


def _numpy(array: Any, writable: bool) -> Memory:
    dtype = _numpy_dtypes.get(array.dtype)
    if dtype is None:
        dtype = _numpy_dtype(array)
    try:
        memory = _from_buffer(_CHARS, array, writable)
    except (BufferError, ValueError, TypeError):
        if not array.flags.c_contiguous:
            raise _scattered(array) from None
        if writable and not array.flags.writeable:
            raise _read_only(array) from None
        # Types from extensions of numpy, such as bfloat16, have no buffers.
        memory = _from_buffer(_CHARS, array.view(f"u{array.dtype.itemsize}"), writable)
    return memory, array.size, dtype, memory


# Format characters of the struct module. Their sizes depend on the system, so they are queried.
_LETTERS = {"?": "bool", "c": "uint", "b": "int", "B": "uint", "h": "int", "H": "uint",
            "i": "int", "I": "uint", "l": "int", "L": "uint", "q": "int", "Q": "uint",
            "n": "int", "N": "uint", "e": "float", "f": "float", "d": "float",
            "Zf": "complex", "Zd": "complex"}
_formats: dict[tuple[str, int], int] = {}


def _format_dtype(view: memoryview) -> int:
    format, bytes_each = view.format, view.itemsize
    letter = format[1:] if format[:1] in ("@", "=", "<" if ffi_little else ">") else format
    kind = _LETTERS.get(letter)
    number = DTYPES.get(kind if kind == "bool" else f"{kind}{8 * bytes_each}") if kind else None
    if number is None:
        raise _no_dtype(view.obj, f"{format!r}, {bytes_each} bytes each,")
    _formats[format, bytes_each] = number
    return number


ffi_little = bytes(ffi.buffer(ffi.new("uint16_t *", 1)))[0] == 1


def _buffer(thing: Any, writable: bool) -> Memory:
    view = memoryview(thing)
    dtype = _formats.get((view.format, view.itemsize))
    if dtype is None:
        dtype = _format_dtype(view)
    if not view.c_contiguous:
        raise _scattered(thing)
    if writable and view.readonly:
        raise _read_only(thing)
    return _address(view), view.nbytes // view.itemsize, dtype, view


def _address(view: memoryview) -> Any:
    """Returns the address of memory that a view holds. The object that cffi makes from the view is
    released at once: if garbage collection finds both in a cycle, CPython may clear the view first,
    and crash."""
    taken = _from_buffer(_CHARS, view)
    address = ffi.cast(_VOID, taken)
    ffi.release(taken)
    return address


# ---- torch -------------------------------------------------------------------------------------

_torch_dtypes: dict[Any, int] = {}


def _torch(tensor: Any, writable: bool) -> Memory:
    dtype = _torch_dtypes.get(tensor.dtype)
    if dtype is None:
        name = str(tensor.dtype).rpartition(".")[2]
        if name not in DTYPES:
            raise _no_dtype(tensor, name)
        dtype = _torch_dtypes[tensor.dtype] = DTYPES[name]
    if tensor.device.type not in ("cpu", "cuda"):
        raise TypeError(f"this tensor is on {tensor.device}, whose memory the library cannot access; pass "
                        "tensor.cpu()")
    if str(tensor.layout) != "torch.strided" or not tensor.is_contiguous():
        raise _scattered(tensor)
    if tensor.is_conj() or tensor.is_neg():
        raise ValueError("this tensor is a lazy view; resolve it first "
                         "(resolve_conj, resolve_neg)")
    if tensor.device.type == "cuda":  # also ROCm
        with sys.modules["torch"].cuda.device(tensor.device):  # its __dlpack__ refuses other devices
            return _dlpack(tensor.detach(), writable)
    return ffi.cast(_VOID, tensor.data_ptr()), tensor.numel(), dtype, tensor


# ---- array interfaces and DLPack ---------------------------------------------------------------

def _dense(shape: Sequence[int], strides: Sequence[int] | None, unit: int) -> bool:
    """Returns true if an array is contiguous in C order. Strides are in units of `unit`."""
    if strides is None or 0 in shape:
        return True
    wanted = unit
    for length, stride in zip(reversed(shape), reversed(strides)):
        if length != 1 and stride != wanted:
            return False
        wanted *= length
    return True


def _product(shape: Iterable[int]) -> int:
    total = 1
    for length in shape:
        if length < 0:
            raise ValueError("an array has a negative length")
        total *= length
    return total


def _array_interface(thing: Any, writable: bool) -> Memory:
    return _interface(thing, thing.__array_interface__, writable)


def _cuda_array_interface(thing: Any, writable: bool) -> Memory:
    told = thing.__cuda_array_interface__
    if told.get("mask") is not None:
        raise TypeError("a masked array cannot be used; pass its data")
    if not isinstance(told.get("data"), tuple):
        raise TypeError(f"the __cuda_array_interface__ of this {_kind(thing)} has no address")
    check_stream(_kind(thing), told.get("stream"))
    found = _interface(thing, told, writable)
    check_known(_kind(thing), found[0], found[1])
    return found


def _interface(thing: Any, told: Any, writable: bool) -> Memory:
    order, kind, each = told["typestr"][:1], told["typestr"][1:2], int(told["typestr"][2:])
    family = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}.get(kind, "?")
    dtype = DTYPES.get(family if family == "bool" else f"{family}{8 * each}")
    if dtype is None or order not in ("|", "=", "<" if ffi_little else ">"):
        raise _no_dtype(thing, told["typestr"])
    shape = [operator.index(length) for length in told["shape"]]
    if not _dense(shape, told.get("strides"), each):
        raise _scattered(thing)
    count, data = _product(shape), told.get("data")
    if isinstance(data, tuple):
        address, read_only = data
        if writable and read_only:
            raise _read_only(thing)
        return ffi.cast(_VOID, operator.index(address)), count, dtype, (thing, told)
    view = memoryview(thing if data is None else data)
    if writable and view.readonly:
        raise _read_only(thing)
    begin = operator.index(told.get("offset", 0))
    if not view.c_contiguous or begin < 0 or begin + count * each > view.nbytes:
        raise ValueError(f"the memory of this {_kind(thing)} is shorter than its shape")
    return ffi.cast("char *", _address(view)) + begin, count, dtype, view


_DL_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool",
             10: "float8_e4m3fn", 12: "float8_e5m2"}
_dl = None


def _dl_types() -> Any:
    """Returns the structs of DLPack, which no header of this library declares."""
    global _dl
    if _dl is None:
        import ctypes

        class Tensor(ctypes.Structure):
            _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32),
                        ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                        ("strides", ctypes.POINTER(ctypes.c_int64)),
                        ("byte_offset", ctypes.c_uint64)]

        class Versioned(ctypes.Structure):
            _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                        ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                        ("flags", ctypes.c_uint64), ("tensor", Tensor)]

        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        valid = ctypes.pythonapi.PyCapsule_IsValid
        valid.restype, valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
        _dl = Tensor, Versioned, pointer, valid
    return _dl


def _dlpack(thing: Any, writable: bool) -> Memory:
    device = operator.index(thing.__dlpack_device__()[0])
    if device not in HOST and device not in GPUS:
        raise no_access(_kind(thing), device)
    Tensor, Versioned, pointer, valid = _dl_types()
    stream = exchanged(device)
    try:
        capsule = thing.__dlpack__(max_version=(1, 0), **stream)
    except TypeError:
        capsule = thing.__dlpack__(**stream)
    # The capsule is not consumed: when it is destroyed, it releases the memory.
    if valid(capsule, b"dltensor_versioned"):
        managed = Versioned.from_address(pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise TypeError(f"this {_kind(thing)} uses DLPack {managed.major}, not 1")
        tensor, read_only = managed.tensor, bool(managed.flags & 1)
    elif valid(capsule, b"dltensor"):
        # This form has no read-only flag: JAX arrays, which are immutable, count as read-only.
        tensor = Tensor.from_address(pointer(capsule, b"dltensor"))
        read_only = type(thing).__module__.partition(".")[0] in ("jax", "jaxlib")
    else:
        raise TypeError(f"this {_kind(thing)} did not return a DLPack capsule")
    if writable and read_only:
        raise _read_only(thing)
    kind = _DL_KINDS.get(tensor.code, f"DLPack type {tensor.code}")
    whole = kind == "bool" or kind.startswith("float8")
    dtype = DTYPES.get(kind if whole else f"{kind}{tensor.bits}")
    if dtype is None or tensor.lanes != 1 or tensor.bits != 8 * SIZES[dtype]:
        raise _no_dtype(thing, f"{kind}, {tensor.bits} bits, {tensor.lanes} lanes")
    shape = tensor.shape[:tensor.ndim] if tensor.ndim else []
    strides = tensor.strides[:tensor.ndim] if tensor.ndim and tensor.strides else None
    if not _dense(shape, strides, 1):
        raise _scattered(thing)
    address, count = ffi.cast(_VOID, (tensor.data or 0) + tensor.byte_offset), _product(shape)
    if device in GPUS:
        check_known(_kind(thing), address, count)
    return address, count, dtype, capsule


# ---- lists of numbers --------------------------------------------------------------------------

_NUMBERS = frozenset({bool, int, float, complex})


def is_numbers(thing: Any) -> bool:
    """Returns true for a list or tuple of numbers, also a nested one; other lists are of arrays."""
    while type(thing) in (list, tuple) and thing:
        thing = thing[0]
        if type(thing) in _NUMBERS or _is_scalar(thing):
            return True
    return False


def _is_scalar(thing: Any) -> bool:
    """Returns true for a number of numpy, such as an element of an array."""
    return any(base.__module__ == "numpy" and base.__name__ == "number" for base in type(thing).__mro__)


def _to_dtype(dtype: int) -> Any:
    """Returns the type of numpy; bfloat16 and float8 are those of ml_dtypes."""
    import numpy
    name = DTYPE_NAMES[dtype]
    if not name.startswith(("bfloat", "float8", "opaque")):
        return numpy.dtype(name)
    try:
        import ml_dtypes
        return numpy.dtype(getattr(ml_dtypes, name))
    except ImportError:
        raise TypeError(f"cannot convert numbers to {name} without the package ml_dtypes; install it, "
                        "or pass an array") from None
    except AttributeError:
        raise TypeError(f"cannot convert numbers to {name}; pass an array") from None


def _fits(array: Any, found: Any) -> bool:
    """Returns true if the conversion has kept whole numbers, and made no float infinite."""
    import numpy
    back = found.astype(array.dtype)
    if array.dtype.kind in "fc" and found.dtype.kind not in "biu":
        return bool((numpy.isfinite(back) == numpy.isfinite(array)).all())
    if array.dtype.kind == "b" or found.dtype.kind == "b":
        return bool((back == array).all())
    # A cast between signed and unsigned wraps around, and back.
    return bool(((back == array) & ((found < 0) == (array < 0))).all())


def converted(numbers: Any, dtype: int | None) -> Any:
    """Returns a numpy array of a list of numbers. Its type is `dtype`, if that can represent them
    (floats are rounded), otherwise the first of bool, int64, float64 and complex128 that can."""
    try:
        import numpy
    except ImportError:
        raise TypeError(f"cannot use {_kind(numbers)} {numbers!r:.40} without numpy, which converts "
                        "numbers; install it, or pass array.array(\"f\", numbers)") from None
    try:
        array = numpy.array(numbers)
    except ValueError:  # rows of different lengths
        array = numpy.array(None)
    kinds = {"b": "bool", "i": "int64", "u": "uint64", "f": "float64", "c": "complex128"}
    if array.dtype.kind not in kinds or (dtype is None and array.dtype.kind == "u" and array.max() >= 1 << 63):
        raise TypeError(f"cannot convert {_kind(numbers)} {numbers!r:.40}: expected numbers of up to "
                        "64 bits in rows of equal length; convert it with numpy.array")
    array = array.astype(kinds[array.dtype.kind])
    if dtype is None:
        return array if array.dtype != "uint64" else array.astype("int64")
    wanted = _to_dtype(dtype)
    if wanted.kind == "c":
        array = array.astype("complex128")
    with numpy.errstate(all="ignore"):
        found = array.astype(wanted) if wanted.kind == "c" or array.dtype.kind != "c" else None
        if found is None or not _fits(array, found):
            raise TypeError(f"{_kind(numbers)} {numbers!r:.40} cannot be represented as "
                            f"{DTYPE_NAMES[dtype]}, the type of the output or of gloo_c.typed")
    return found


def _no_memory(thing: Any, writable: bool) -> Memory:
    """Raises the error for a list or tuple."""
    if writable and is_numbers(thing):
        raise TypeError(f"cannot write a result to {_kind(thing)} {thing!r:.40}: pass "
                        "numpy.array(numbers, dtype=\"float32\"), or an array as the output")
    raise _no_array(thing)


# ---- any of them -------------------------------------------------------------------------------

def _typed(thing: Typed, writable: bool) -> Memory:
    address, count, dtype, keep = memory(thing.array, writable)
    held = count * SIZES[dtype]
    if held % thing.element_bytes:
        raise ValueError(f"{counted(held, 'byte')} cannot be split into elements of {counted(thing.element_bytes, 'byte')}")
    return address, held // thing.element_bytes, thing.dtype, keep


def _has_buffer(thing: Any) -> bool:
    try:
        memoryview(thing).release()
    except (TypeError, BufferError, ValueError):
        return False
    return True


def _find_reader(thing: Any) -> Reader:
    bases = [f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(thing).__mro__]
    if "numpy.MaskedArray" in bases:
        raise TypeError("a masked array cannot be used; pass its data")
    if "numpy.ndarray" in bases:
        return _numpy
    if "numpy.generic" in bases:
        raise _no_array(thing)
    if "torch.Tensor" in bases:
        return _torch
    if _has_buffer(thing):
        return _buffer
    if hasattr(thing, "__dlpack__") and hasattr(thing, "__dlpack_device__"):
        return _dlpack
    if hasattr(thing, "__cuda_array_interface__"):
        return _cuda_array_interface
    if hasattr(thing, "__array_interface__"):
        return _array_interface
    raise _no_array(thing)


_readers: dict[type, Reader] = {bytes: _buffer, bytearray: _buffer, memoryview: _buffer,
                                Typed: _typed, list: _no_memory, tuple: _no_memory}


def reads(kind: type) -> Callable[[Callable[[Any, bool], Memory]], Callable[[Any, bool], Memory]]:
    """Registers a function as the reader of objects of this type."""

    def register(reader: Reader) -> Reader:
        _readers[kind] = reader
        return reader

    return register


def memory(thing: Any, writable: bool) -> Memory:
    """Returns the memory of an array; raises an error if it cannot be read, or written."""
    reader = _readers.get(type(thing))
    if reader is None:
        reader = _find_reader(thing)
        # For other types it may depend on the object whether it has a buffer.
        if reader is _numpy or reader is _torch:
            _readers[type(thing)] = reader
    return reader(thing, writable)


def readable(thing: Any, dtype: int | None = None) -> Memory:
    """Returns the memory of an input. A list of numbers is converted to a type, that of the output:
    see `converted`."""
    kind = type(thing)
    if (kind is list or kind is tuple) and is_numbers(thing):
        return memory(converted(thing, dtype), False)
    return memory(thing, False)


def element_bytes(thing: Any) -> int:
    """Returns the size of opaque elements, or 0 for other types."""
    if isinstance(thing, Typed) and thing.dtype == lib.GLOO_OPAQUE:
        return thing.element_bytes
    return 0


def same_dtype(one: Memory, other: Memory) -> None:
    if one[2] != other[2]:
        raise TypeError(f"input and output differ in type: {DTYPE_NAMES[one[2]]} and "
                        f"{DTYPE_NAMES[other[2]]}")


def counted(n: int, noun: str) -> str:
    """Returns the number and its noun: "1 rank", "2 ranks"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def sizes(numbers: Iterable[int], n: int, what: str) -> Any:
    """Converts a list of counts or displacements, one for each rank."""
    values = integers(what, numbers, f"a list of {counted(n, 'whole number')}, one for each rank")
    if len(values) != n:
        raise ValueError(f"the list of {what} has {counted(len(values), 'element')} for {counted(n, 'rank')}: "
                         "pass one for each rank")
    for rank, value in enumerate(values):
        if not 0 <= value < 1 << 62:
            raise ValueError(f"{what} of rank {rank} is {value}")
    return ffi.new(_SIZES, values)


def within(count: int, counts: Any, displacements: Any, what: str) -> None:
    """Checks that all blocks lie within an array of `count` elements."""
    end = 0
    for rank, length in enumerate(counts):
        begin = end if displacements is None else displacements[rank]
        end = begin + length
        if length and end > count:
            raise ValueError(f"the {what} has {counted(count, 'element')}, and the block of rank {rank} ends at {end}")
