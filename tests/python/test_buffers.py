"""Accepted arrays, and the errors of others."""

import array
import random
import struct

import ml_dtypes
import numpy as np
import pytest

import gloo_c
from gloo_c._binding import ffi
from gloo_c._buffers import DTYPE_NAMES, memory


def test_kinds_of_memory(alone):
    for thing in (array.array("d", [1, 2]), bytearray(b"ab"), memoryview(bytearray(8)).cast("i"),
                  np.ones((2, 3), "f4"), np.array(3.0), np.zeros(0), ffi.buffer(ffi.new("char[3]")),
                  gloo_c.alloc(16), np.frombuffer(gloo_c.alloc(16), "f4"), np.ones(2, np.bool_)):
        kind = "max" if getattr(thing, "dtype", None) == np.bool_ else "sum"
        assert alone.allreduce(thing, op=kind) is thing


def test_every_type_is_known():
    for name in gloo_c.dtypes:
        dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
        address, count, number, _ = memory(np.zeros(3, dtype), True)
        assert (count, DTYPE_NAMES[number]) == (3, name)


@pytest.mark.parametrize("letter", "bBhHiIlLqQfd?")
def test_letters_of_struct(letter):
    view = memoryview(bytearray(struct.calcsize(letter) * 3)).cast(letter)
    _, count, number, _ = memory(view, True)
    assert count == 3
    assert gloo_c._buffers.SIZES[number] == struct.calcsize(letter)


def test_read_only_memory_is_read_and_not_written(alone):
    frozen = np.ones(3)
    frozen.flags.writeable = False
    for thing in (b"abc", memoryview(b"abc"), frozen):
        with pytest.raises(TypeError, match="read-only"):
            alone.allreduce(thing)
        out = bytearray(3) if not isinstance(thing, np.ndarray) else np.zeros(3)
        alone.allreduce(thing, out)
        assert bytes(out) == bytes(thing)


def test_scattered_memory_is_refused(alone):
    for thing in (np.ones(8)[::2], np.ones((3, 3)).T, np.ones(4)[::-1], memoryview(b"abcd")[::2],
                  np.ones((4, 4))[:, 1:3], np.ones((2, 2), ml_dtypes.bfloat16)[:, 0]):
        with pytest.raises(ValueError, match="not contiguous"):
            alone.allreduce(thing, np.zeros(4))


def test_what_is_no_array_is_refused(alone):
    masked = np.ma.array([1.0, 2.0], mask=[0, 1])
    for thing in (None, 3, 2.5, "text", object(), {}, {1, 2}, lambda: 0, masked, np.array(["a"]),
                  np.array([None]), np.zeros(2, "V3"), np.zeros(2, [("a", "i4")]),
                  np.zeros(2, "M8[ns]"), np.zeros(2, ">f4"), np.zeros(2, np.longdouble),
                  memoryview(np.zeros(2, ">i4"))):
        with pytest.raises(TypeError):
            alone.allreduce(thing)


def test_types_and_lengths_must_fit(alone):
    with pytest.raises(TypeError, match="float32 and float64"):
        alone.allreduce(np.ones(3, "f4"), np.ones(3))
    for call in (lambda: alone.allreduce(np.ones(3), np.ones(4)),
                 lambda: alone.allgather(np.ones(3), np.ones(4)),
                 lambda: alone.allgather(np.ones(3), [np.ones(3)] * 2),
                 lambda: alone.allgatherv(np.ones(3), np.ones(3), [4]),
                 lambda: alone.allgatherv(np.ones(3), np.ones(3), [3], [1]),
                 lambda: alone.allgatherv(np.ones(3), np.ones(3), [3, 3]),
                 lambda: alone.allgatherv(np.ones(3), np.ones(3), [-1]),
                 lambda: alone.allgatherv(np.ones(3), np.ones(3), [1 << 70]),
                 lambda: alone.reduce_scatterv(np.ones(3), counts=[4]),
                 lambda: alone.gatherv(np.ones(3), np.ones(3), [4]),
                 lambda: alone.scatterv(np.ones(3), np.ones(3), [4]),
                 lambda: alone.alltoallv(np.ones(3), np.ones(3), [4], [3]),
                 lambda: alone.alltoallv(np.ones(3), np.ones(3), [3], [4]),
                 lambda: alone.allreduce(np.ones(3), op="none"),
                 lambda: alone.allreduce(np.ones(3), timeout=float("nan")),
                 lambda: alone.recv_any(np.ones(3), [])):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(TypeError, match="no option 'tagg'"):
        alone.allreduce(np.ones(3), tagg=1)
    assert alone.error() is None


def test_a_bytearray_in_use_keeps_its_size(pair):
    def play(c):
        data = bytearray(8)
        request = c.recv_start(data, 0) if c.rank else None
        if request is not None:
            with pytest.raises(BufferError):
                data.extend(b"more")
        c.barrier()
        if c.rank == 0:
            c.send(b"12345678", 1)
        else:
            request.wait()
            del request
            assert data == b"12345678"
            data.extend(b"more")

    pair.run(play)


class Interface:
    """An array with __array_interface__ only."""

    def __init__(self, base, **changes):
        self.base = base
        self.__array_interface__ = {**base.__array_interface__, **changes}


def test_array_interface(alone):
    base = np.arange(4.0)
    alone.allreduce(Interface(base), out := np.zeros(4))
    assert (out == base).all()
    for changes, kind in (({"typestr": ">f8"}, TypeError), ({"typestr": "<U4"}, TypeError),
                          ({"strides": (16,)}, ValueError), ({"shape": (-1,)}, ValueError),
                          ({"data": b"ab"}, ValueError)):
        with pytest.raises(kind):
            alone.allreduce(Interface(base, **changes), np.zeros(4))
    with pytest.raises(TypeError, match="read-only"):
        alone.allreduce(Interface(base, data=(base.ctypes.data, True)))


class Lent:
    """An array with DLPack only."""

    def __init__(self, base, device=1):
        self.base, self.device = base, device

    def __dlpack__(self, **options):
        return self.base.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device, 0


def test_dlpack(alone):
    data = np.arange(4.0)
    alone.allreduce(Lent(data), out := np.zeros(4))
    assert (out == data).all()
    alone.allreduce(Lent(data))
    with pytest.raises(TypeError, match="CPU memory"):
        alone.allreduce(Lent(data, 2))
    with pytest.raises(ValueError, match="not contiguous"):
        alone.allreduce(Lent(np.ones(8)[::2]))
    frozen = np.ones(3)
    frozen.flags.writeable = False
    with pytest.raises(TypeError, match="read-only"):
        alone.allreduce(Lent(frozen))


def test_typed(alone):
    bits = np.array([0x3F80], "u2")  # 1 as a bfloat16
    alone.allreduce(gloo_c.typed(bits, "bfloat16"), gloo_c.typed(out := bytearray(2), "bfloat16"))
    assert bytes(out) == bits.tobytes()
    with pytest.raises(ValueError, match="cannot be split into elements"):
        alone.allreduce(gloo_c.typed(bytearray(3), "float32"))
    with pytest.raises(ValueError, match="unknown type"):
        gloo_c.typed(bits, "float12")


def test_anything_at_all_gives_a_result_or_a_python_error(alone):
    draw = random.Random(7)
    pieces = [None, 0, -1, 1 << 80, "x", b"ab", bytearray(16), np.ones(4), np.ones(4)[::2],
              np.ones((2, 2), "f4"), np.ones(3, "c8"), [], [np.ones(2)], [None], (), {},
              [b"a", bytearray(1)], gloo_c.IN_PLACE, array.array("i", [1]), float("nan"),
              gloo_c.typed(bytearray(4), "int32"), [1], [4], [[2], [0]], object()]
    names = [name for name in dir(alone) if hasattr(alone, name + "_start") and name != "recv"
             and name not in ("recv_any", "sendrecv")]
    assert len(names) >= 18
    outcomes = set()
    for _ in range(4000):
        call = getattr(alone, draw.choice(names))
        arguments = [draw.choice(pieces) for _ in range(draw.randrange(1, 5))]
        options = {key: draw.choice(pieces) for key in draw.sample(
            ["root", "op", "counts", "timeout", "tag", "algorithm", "factor"],
            draw.randrange(0, 2))}
        try:
            call(*arguments, **options)
            outcomes.add("ok")
        except gloo_c.GlooError as error:
            assert error.status_name not in ("GLOO_ERR_POISONED", "GLOO_ERR_INTERNAL"), error
            outcomes.add("refused by the library")
        except (TypeError, ValueError, OverflowError, AttributeError, BufferError):
            outcomes.add("refused")
    assert outcomes == {"ok", "refused by the library", "refused"}


class Device:
    def __init__(self, kind):
        self.type = kind

    def __str__(self):
        return self.type


def tensor(base, dtype, **changes):
    """Returns an object with the name and methods of torch's tensors that are used."""
    import ctypes

    def method(value):
        return lambda self: value

    told = {"device": Device("cpu"), "layout": "torch.strided", "is_contiguous": True,
            "is_conj": False, "is_neg": False, **changes}
    body = {name: value if name in ("device", "layout") else method(value)
            for name, value in told.items()}
    body.update(dtype=f"torch.{dtype}", base=base, __module__="torch", numel=method(len(base)),
                data_ptr=method(ctypes.addressof(ctypes.c_char.from_buffer(base.data.cast("B")))))
    return type("Tensor", (), body)()


def test_tensors_as_torch_has_them(alone):
    for dtype in ("float32", "bfloat16", "bool", "complex64", "float8_e5m2"):
        plain = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
        base = np.arange(2 * plain.itemsize, dtype="u1")
        out = bytearray(len(base))
        given = tensor(base, dtype)
        type(given).numel = lambda self: 2
        alone.allgather(given, gloo_c.typed(out, dtype))
        assert bytes(out) == base.tobytes()
    base = np.ones(3, "f4")
    alone.allreduce(tensor(base, "float32"))
    for changes, kind in (({"device": Device("cuda")}, TypeError), ({"is_conj": True}, ValueError),
                          ({"is_contiguous": False}, ValueError),
                          ({"layout": "torch.sparse_coo"}, ValueError)):
        with pytest.raises(kind):
            alone.allreduce(tensor(base, "float32", **changes))
    with pytest.raises(TypeError, match="quint8"):
        alone.allreduce(tensor(base, "quint8"))
