"""Accepted arrays, and the errors of others."""

import array
import random
import struct
import subprocess
import sys

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
        assert ("stream" in options) == (self.device == 2)
        options.pop("stream", None)
        return self.base.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device, 0


def test_dlpack(alone):
    data = np.arange(4.0)
    alone.allreduce(Lent(data), out := np.zeros(4))
    assert (out == data).all()
    alone.allreduce(Lent(data))
    with pytest.raises(TypeError, match="GPU memory that the library does not recognize"):
        alone.allreduce(Lent(data, 2))
    with pytest.raises(TypeError, match=r"device type 8 \(Metal\), which the library cannot access"):
        alone.allreduce(Lent(data, 8))
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
            ["root", "op", "counts", "timeout", "tag", "algorithm", "factor", "stream"],
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
    for changes, kind in (({"device": Device("xpu")}, TypeError), ({"is_conj": True}, ValueError),
                          ({"is_contiguous": False}, ValueError),
                          ({"layout": "torch.sparse_coo"}, ValueError)):
        with pytest.raises(kind):
            alone.allreduce(tensor(base, "float32", **changes))
    with pytest.raises(TypeError, match="quint8"):
        alone.allreduce(tensor(base, "quint8"))


# ---- lists of numbers ------------------------------------------------------------------------

def ranks(context, call):
    """Returns what the call has written to float32 arrays of four elements."""
    out = np.full(4, -1, "f4")
    call(out)
    return out.tolist()


@pytest.mark.parametrize("make", [list, tuple])
def test_every_call_takes_numbers_as_its_input(pair, make):
    two, four = make([1, 2.5]), make([1, 2, 3, 4])
    blocks = make([make([1, 2]), make([3, 4])])

    def run(context):
        rank, peer = context.rank, 1 - context.rank
        pieces = [np.zeros(2, "f4"), np.zeros(2, "f4")]
        context.allreduce(blocks, pieces)
        assert [piece.tolist() for piece in pieces] == [[2, 4], [6, 8]]
        context.alltoall(blocks, pieces)
        assert [piece.tolist() for piece in pieces] == [[1, 2] if rank == 0 else [3, 4]] * 2
        got = {name: ranks(context, call) for name, call in {
            "allreduce": lambda out: context.allreduce(four, out),
            "rows": lambda out: context.allreduce(blocks, out, op="max"),
            "scan": lambda out: context.scan(four, out),
            "exscan": lambda out: context.exscan(four, out),
            "broadcast": lambda out: context.broadcast(four if rank == 0 else None, out),
            "allgather": lambda out: context.allgather(two, out),
            "allgatherv": lambda out: context.allgatherv(two, out, [2, 2]),
            "alltoall": lambda out: context.alltoall(four, out),
            "alltoallv": lambda out: context.alltoallv(four, out, [2, 2], [2, 2]),
            "reduce_scatter": lambda out: context.reduce_scatter(four, out[:2]),
            "reduce_scatter of blocks": lambda out: context.reduce_scatter(blocks, out[:2]),
            "reduce_scatterv": lambda out: context.reduce_scatterv(four, out[:2], counts=[2, 2]),
            "reduce": lambda out: context.reduce(make([1.0, 2, 3, 4]) if rank == 0 else np.ones(4, "f4"), out),
            "gather": lambda out: context.gather(two if rank == 0 else np.ones(2, "f4"), out),
            "gatherv": lambda out: context.gatherv(two if rank == 0 else np.ones(2, "f4"), out, [2, 2]),
            "scatter": lambda out: context.scatter(blocks if rank == 0 else None, out[:2]),
            "scatterv": lambda out: context.scatterv(four if rank == 0 else None, out[:2], [2, 2]),
            "sendrecv": lambda out: context.sendrecv(four, peer, out, peer),
            "allreduce_multi": lambda out: context.allreduce_multi([four], [out]),
            "reduce_multi": lambda out: context.reduce_multi([four], [out]),
            "reduce_scatter_multi": lambda out: context.reduce_scatter_multi([four], [out[:2]]),
            "broadcast_multi": lambda out: context.broadcast_multi(four if rank == 0 else None, [out]),
            "allgather_multi": lambda out: context.allgather_multi([two], [out])}.items()}
        first = rank == 0
        mine = [1, 2, 1, 2] if first else [3, 4, 3, 4]
        half = [2, 4, -1, -1] if first else [6, 8, -1, -1]
        part = [1, 2, -1, -1] if first else [3, 4, -1, -1]
        sums, none = [2, 4, 6, 8], [-1, -1, -1, -1]
        assert got == {
            "allreduce": sums, "rows": [1, 2, 3, 4], "scan": [1, 2, 3, 4] if first else sums,
            "exscan": none if first else [1, 2, 3, 4], "broadcast": [1, 2, 3, 4],
            "allgather": [1, 2.5, 1, 2.5], "allgatherv": [1, 2.5, 1, 2.5], "alltoall": mine, "alltoallv": mine,
            "reduce_scatter": half, "reduce_scatter of blocks": half, "reduce_scatterv": half,
            "reduce": [2, 3, 4, 5] if first else none, "gather": [1, 2.5, 1, 1] if first else none,
            "gatherv": [1, 2.5, 1, 1] if first else none, "scatter": part, "scatterv": part,
            "sendrecv": [1, 2, 3, 4], "allreduce_multi": sums, "reduce_multi": sums if first else none,
            "reduce_scatter_multi": half, "broadcast_multi": [1, 2, 3, 4],
            "allgather_multi": [1, 2.5, 1, 2.5]}, (rank, got)

    pair.run(run)


@pytest.mark.parametrize("numbers, dtype", [
    ([1, 2], "int64"), ([True, False], "bool"), ([1, 2.5], "float64"), ([1, 2j], "complex128"),
    ([np.float32(1.5), 2], "float64"), ([[1], [2]], "int64"), ([np.uint64(7)], "int64")])
def test_without_an_output_numbers_have_a_type_of_their_own(pair, numbers, dtype):
    def run(context):
        if context.rank == 0:
            context.send(numbers, 1)
            return None
        out = np.zeros(len(numbers), dtype)
        context.recv(out, 0)
        return out.tolist()

    assert pair.run(run)[1] == np.array(numbers).ravel().tolist()


def test_typed_numbers_are_converted_to_that_type(pair):
    def run(context):
        if context.rank == 0:
            return context.send(gloo_c.typed([1, 2.5], "bfloat16"), 1)
        out = np.zeros(2, ml_dtypes.bfloat16)
        context.recv(out, 0)
        return out.astype("f4").tolist()

    assert pair.run(run)[1] == [1, 2.5]
    with pytest.raises(TypeError, match="read-only"):
        pair.run(lambda context: context.allreduce(gloo_c.typed([1], "int8")))
    with pytest.raises(TypeError, match="300.* cannot be represented as int8"):
        gloo_c.typed([300], "int8")


@pytest.mark.parametrize("name", [name for name in gloo_c.dtypes if name != "bool"])
def test_numbers_are_converted_to_the_type_of_the_output(alone, name):
    out = np.zeros(3, np.dtype(getattr(ml_dtypes, name, None) or name))
    alone.allreduce([1, 2, 3], out)
    assert out.astype("f8" if not name.startswith("complex") else "c16").tolist() == [1, 2, 3]


@pytest.mark.parametrize("numbers, dtype", [
    ([300], "i1"), ([-1], "u4"), ([1.5], "i4"), ([float("nan")], "i4"), ([1j], "f8"), ([1e300], "f4"), ([2], "?"),
    ([1 << 53 | 1], "f4"), ([1 << 63], "i8"), ([-1], "u8"), ([500.0], ml_dtypes.float8_e4m3fn)])
def test_numbers_that_the_output_cannot_represent_are_refused(alone, numbers, dtype):
    with pytest.raises(TypeError, match="cannot be represented as .*, the type of the output"):
        alone.allreduce(numbers, np.zeros(1, dtype), op="max")


def test_floats_are_rounded_and_special_values_kept(alone):
    out = np.zeros(4, "f4")
    alone.allreduce([0.1, float("inf"), -float("inf"), float("nan")], out)
    assert out.tobytes() == np.array([0.1, np.inf, -np.inf, np.nan], "f4").tobytes()


@pytest.mark.parametrize("numbers", [[1, "a"], [[1, 2], [3]], [1, None], [1 << 64], [1 << 63], [1, object()]])
def test_lists_that_are_no_rows_of_numbers_are_refused(alone, numbers):
    with pytest.raises(TypeError, match="expected numbers of up to 64 bits in rows of equal length"):
        alone.send(numbers, 0)


@pytest.mark.parametrize("call", [
    lambda c: c.allreduce([1, 2, 3]), lambda c: c.broadcast((1, 2)), lambda c: c.scan([1.5]),
    lambda c: c.reduce([1]), lambda c: c.reduce_scatter([1]), lambda c: c.alltoall([1]), lambda c: c.scatter([1]),
    lambda c: c.reduce_scatterv([1], counts=[1]), lambda c: c.scatterv([1], counts=[1]),
    lambda c: c.allreduce(np.ones(1), [1]), lambda c: c.allgather([1], [0]), lambda c: c.recv([0], 0),
    lambda c: c.recv_any([0]), lambda c: c.gather([1], [0]), lambda c: c.allreduce(gloo_c.IN_PLACE, [1]),
    lambda c: c.allreduce_start([[1, 2], [3, 4]]), lambda c: c.allgatherv([1], [0], [1])])
def test_a_result_is_not_written_to_a_list(alone, call):
    with pytest.raises(TypeError, match=r"cannot write a result to (list|tuple) .*numpy\.array\(numbers, dtype="):
        call(alone)


def test_without_numpy_the_error_says_so(tmp_path):
    """numpy cannot be imported, and everything else of the package works."""
    program = """
import sys
sys.modules["numpy"] = None
import array, gloo_c
with gloo_c.init(transport="inproc") as context:
    out = array.array("f", [0, 0])
    context.allreduce(array.array("f", [1, 2]), out)
    assert out.tolist() == [1, 2]
    try: context.allreduce([1, 2], out)
    except TypeError as error: print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=60,
                          check=False)
    assert "cannot use list [1, 2] without numpy" in done.stdout and "array.array" in done.stdout, done
