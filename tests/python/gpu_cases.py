"""Arrays in GPU memory, of the stand-in for a driver. test_gpu.py runs these tests in a process."""

import asyncio
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import standin
from conftest import World
from standin import Gate, Interface, Lent, Memory, Stream

import gloo_c

RANKS = 3
N = 300_000  # elements of 4 bytes: more than two pieces of the pipeline


@pytest.fixture
def three():
    return World(RANKS)


def values(rank, count=N, seed=0):
    return ((np.arange(count) * 7 + rank * 3 + seed) % 100).astype("f4")


# ---- every call --------------------------------------------------------------------------------

# Each gets the context, a function that makes an input of some length, and one that makes an output. It
# returns the arguments of the call, and its outputs.
CALLS = {
    "broadcast": lambda c, given, room: ((given(N),), {"root": 1}, 0),
    "allreduce": lambda c, given, room: ((given(N), room(N)), {}, 1),
    "allreduce in place": lambda c, given, room: ((given(N),), {}, 0),
    "allreduce, average": lambda c, given, room: ((given(N),), {"op": "average"}, 0),
    "allreduce, scaled": lambda c, given, room: ((given(N), room(N)), {"op": "scaled_sum", "factor": 0.5}, 1),
    "allreduce of lists": lambda c, given, room: (([given(N), given(5)],), {}, 0),
    "reduce": lambda c, given, room: ((given(N), room(N)), {"root": 2}, 1),
    "scan": lambda c, given, room: ((given(N), room(N)), {}, 1),
    "exscan": lambda c, given, room: ((given(N), room(N)), {}, 1),
    "reduce_scatter": lambda c, given, room: ((given(N), room(N // RANKS)), {}, 1),
    "reduce_scatter of a list": lambda c, given, room: (([given(N)] * 3, room(N)), {}, 1),
    "allgather": lambda c, given, room: ((given(N), room(N * RANKS)), {}, 1),
    "allgather to a list": lambda c, given, room: ((given(N), [room(N) for _ in range(RANKS)]), {}, 1),
    "gather": lambda c, given, room: ((given(N), room(N * RANKS)), {"root": 1}, 1),
    "scatter": lambda c, given, room: ((given(N) if c.rank == 0 else None, room(N // RANKS)), {}, 1),
    "alltoall": lambda c, given, room: ((given(N), room(N)), {}, 1),
    "alltoall of lists": lambda c, given, room: (([given(N) for _ in range(RANKS)],
                                                  [room(N) for _ in range(RANKS)]), {}, 1),
    "allgatherv": lambda c, given, room: ((given(N * c.rank), room(N * 3), [0, N, 2 * N]), {}, 1),
    "reduce_scatterv": lambda c, given, room: ((given(N), room(N * c.rank // 3)),
                                               {"counts": [0, N // 3, 2 * N // 3]}, 1),
    "gatherv": lambda c, given, room: ((given(N * c.rank), room(N * 3), [0, N, 2 * N]), {}, 1),
    "scatterv": lambda c, given, room: ((given(N * 3) if c.rank == 0 else None, room(N * c.rank), [0, N, 2 * N]),
                                        {}, 1),
    "alltoallv": lambda c, given, room: ((given(N), room(N), [N // 3] * 3, [N // 3] * 3), {}, 1),
    "allreduce_multi": lambda c, given, room: (([given(N), given(N)], [room(N), room(N)]), {}, 1),
    "reduce_multi": lambda c, given, room: (([given(N), given(N)], [room(N)] if c.rank == 0 else []), {}, 1),
    "reduce_scatter_multi": lambda c, given, room: (([given(N), given(N)], [room(N // 3)]), {}, 1),
    "broadcast_multi": lambda c, given, room: ((given(N) if c.rank == 0 else None, [room(N), room(N)]), {}, 1),
    "allgather_multi": lambda c, given, room: (([given(N), given(N)], [room(N * 6), room(N * 6)]), {}, 1),
    "sendrecv": lambda c, given, room: ((given(N), (c.rank + 1) % 3, room(N), (c.rank + 2) % 3), {}, 2),
}


def outputs_of(arguments, place):
    found = arguments[place]
    return found if isinstance(found, list) else [found]


def name_of(call):
    return call.partition(",")[0].partition(" ")[0]


def expected(three, call):
    """Returns the outputs of each rank with arrays in host memory."""

    def body(c):
        made = []

        def given(count):
            made.append(values(c.rank, count, len(made)))
            return made[-1]

        arguments, options, place = CALLS[call](c, given, lambda count: np.zeros(count, "f4"))
        getattr(c, name_of(call))(*arguments, **options)
        return outputs_of(arguments, place)

    return three.run(body)


@pytest.mark.parametrize("form", ["", "_start"])
@pytest.mark.parametrize("call", CALLS)
def test_every_call_follows_its_stream(three, call, form):
    wanted = expected(three, call)

    def body(c):
        stream, made = Stream(c.rank % 2), []
        gate = Gate(stream)

        def given(count):
            array = Lent(np.full(count, -1, "f4"), c.rank % 2)
            array.put(values(c.rank, count, len(made)), stream)
            made.append(array)
            return array

        arguments, options, place = CALLS[call](c, given, lambda count: Lent(np.zeros(count, "f4"), c.rank % 2))
        function = getattr(c, name_of(call) + form)
        if form and call != "sendrecv":  # the start of a message that is sent waits for the stream
            request = function(*arguments, **options, stream=stream.handle)
            assert not request.done()
            gate.open()
            request.wait()
        else:
            threading.Timer(0.05, gate.open).start()
            done = function(*arguments, **options, stream=stream.handle)
            if form:
                done.wait()
        return [array.get() for array in outputs_of(arguments, place)]

    for rank, (found, wants) in enumerate(zip(three.run(body), wanted)):
        assert len(found) == len(wants)
        for one, other in zip(found, wants):
            if name_of(call) in ("reduce", "gather", "gatherv") and not other.any():
                continue  # not the root
            assert (one == other).all(), (rank, one, other)


def test_messages_follow_their_stream(three):
    def body(c):
        stream = Stream(0)
        gate = Gate(stream)
        array = Lent(np.full(N, -1, "f4"))
        if c.rank == 0:
            array.put(values(0), stream)
            threading.Timer(0.05, gate.open).start()
            for peer in (1, 2):
                c.send(array, peer, stream=stream, tag=peer)
            return array.get()
        gate.open()
        if c.rank == 1:
            c.recv(array, 0, tag=1, stream=stream)
        else:
            assert c.recv_any(array, tag=2, stream=stream) == 0
        return array.get()

    for found in three.run(body):
        assert (found == values(0)).all()


# ---- streams -----------------------------------------------------------------------------------

class Protocol:
    def __init__(self, told):
        self.told = told

    def __cuda_stream__(self):
        return self.told


class Named:
    def __init__(self, handle):
        self.cuda_stream = handle


@pytest.mark.parametrize("name", ["handle", "protocol", "attribute", "none", "legacy", "zero"])
def test_how_a_stream_is_named(pair, name):
    def body(c):
        stream = Stream(c.rank, legacy=name in ("none", "legacy", "zero"))
        gate, array = Gate(stream), Lent(np.full(N, -1, "f4"), c.rank)
        array.put(values(c.rank), stream)
        given = {"handle": stream.handle, "protocol": Protocol((0, stream.handle)), "none": None,
                 "attribute": Named(stream.handle), "legacy": standin.LEGACY, "zero": 0}[name]
        request = c.allreduce_start(array, stream=given)
        assert not request.done()
        gate.open()
        request.wait()
        assert array.asked == [standin.LEGACY if name in ("none", "legacy", "zero") else stream.handle]
        return array.get()

    for found in pair.run(body):
        assert (found == values(0) + values(1)).all()


def test_a_package_orders_its_stream_before_that_of_the_call(pair):
    def body(c, named):
        working, stream = Stream(c.rank), Stream(c.rank)
        gate, array = Gate(working), Lent(np.full(N, -1, "f4"), c.rank, producer=working)
        array.put(values(c.rank), working)
        request = c.allreduce_start(array, **({"stream": stream.handle} if named else {}))
        assert not request.done()
        gate.open()
        request.wait()
        return array.get()

    for named in (True, False):
        for found in pair.run(lambda c: body(c, named)):
            assert (found == values(0) + values(1)).all()


@pytest.mark.parametrize("stream, says", [
    ("default", "stream is 'default' (str); expected a stream: a handle as a whole number"),
    (True, "stream is True (bool); expected a stream"), (1.5, "stream is 1.5 (float)"),
    (Protocol(7), "__cuda_stream__ of Protocol returned 7; expected (0, handle)"),
    (Protocol((3, 7)), "returned (3, 7)"), (Protocol((0, None)), "expected a stream"),
    (Named("x"), "expected a stream")], ids=str)
def test_what_is_no_stream_is_refused(alone, stream, says):
    with pytest.raises(TypeError) as told:
        alone.allreduce(Lent(np.ones(3, "f4")), stream=stream)
    assert says in str(told.value)
    with pytest.raises(ValueError, match="stream is -1; expected a whole number from 0"):
        alone.allreduce(Lent(np.ones(3, "f4")), stream=-1)
    assert alone.error() is None


def test_a_persistent_request_follows_its_stream_at_each_start(pair):
    def body(c):
        stream, array = Stream(c.rank), Lent(np.zeros(N, "f4"), c.rank)
        request, found = c.allreduce_init(array, stream=stream), []
        for step in range(3):
            gate = Gate(stream)
            array.put(values(c.rank, seed=step), stream)
            request.start()
            assert not request.done()
            gate.open()
            request.wait()
            found.append(array.get())
        return found

    for found in pair.run(body):
        for step, one in enumerate(found):
            assert (one == values(0, seed=step) + values(1, seed=step)).all()


def test_asyncio(pair):
    def body(c):
        stream = Stream(c.rank)
        gate, array = Gate(stream), Lent(np.full(N, -1, "f4"), c.rank)
        array.put(values(c.rank), stream)

        async def main():
            future = c.allreduce_async(array, stream=stream)
            await asyncio.sleep(0.01)
            assert not future.done()
            gate.open()
            assert await future is array

        asyncio.run(main())
        return array.get()

    for found in pair.run(body):
        assert (found == values(0) + values(1)).all()


def test_an_array_stays_as_long_as_its_operation(pair):
    def body(c):
        stream = Stream(c.rank)
        gate, array = Gate(stream), Lent(np.ones(N, "f4"), c.rank)
        request = c.allreduce_start(array, stream=stream)
        assert array.exported == 1
        gate.open()
        request.wait()
        del request
        return array.exported

    assert pair.run(body) == [0, 0]


# ---- kinds of arrays ---------------------------------------------------------------------------

def test_old_dlpack(alone):
    array = Lent(values(0))
    array.old = True
    alone.allreduce(array, out := Lent(np.zeros(N, "f4")))
    assert (out.get() == values(0)).all() and array.asked == [standin.LEGACY]


@pytest.mark.parametrize("kind", ["device", "managed", "pinned"])
def test_kinds_of_memory(pair, kind):
    def body(c):
        stream = Stream(c.rank)
        gate, array = Gate(stream), Lent(np.full(N, -1, "f4"), c.rank, kind)
        array.put(values(c.rank), stream)
        request = c.allreduce_start(array, stream=stream)
        assert not request.done()
        gate.open()
        request.wait()
        assert array.asked == ([-1] if kind == "pinned" else [stream.handle])
        return array.get()

    for found in pair.run(body):
        assert (found == values(0) + values(1)).all()


def test_devices_and_host_in_one_call(pair):
    def body(c):
        arrays = [Lent(values(c.rank, seed=0), 0), Interface(values(c.rank, seed=1), 1), values(c.rank, seed=2)]
        c.allreduce(arrays)
        return [array if isinstance(array, np.ndarray) else array.get() for array in arrays]

    for found in pair.run(body):
        for seed, one in enumerate(found):
            assert (one == values(0, seed=seed) + values(1, seed=seed)).all()


def test_types_and_parts(alone):
    for dtype in ("i1", "u2", "i8", "f2", "f8", "c8", "?"):
        given = np.arange(12).reshape(3, 4).astype(dtype)
        for kind in (Lent, Interface):
            alone.allgather(kind(given), out := kind(np.zeros((3, 4), dtype)))
            assert (out.get() == given).all()
    bits = np.array([0x3F80] * 5, "u2")
    alone.allreduce(gloo_c.typed(Lent(bits), "bfloat16"), gloo_c.typed(out := Lent(np.zeros(5, "u2")), "bfloat16"))
    assert (out.get() == bits).all()
    alone.allreduce(Lent(np.zeros(0, "f4")))


def test_cuda_array_interface(pair):
    def body(c):
        stream, array = Stream(c.rank), Interface(np.full(N, -1, "f4"), c.rank)
        gate = Gate(stream)
        array.put(values(c.rank), stream)
        array.changes = {"stream": stream.handle}
        with pytest.raises(ValueError, match=f"ready in stream {stream.handle:#x}, and the call names no stream; "
                                             f"pass stream={stream.handle:#x}"):
            c.allreduce(array)
        with pytest.raises(ValueError, match=f"and the call names stream 0x2; pass stream={stream.handle:#x}"):
            c.allreduce(array, stream=2)
        request = c.allreduce_start(array, stream=stream)
        assert not request.done()
        gate.open()
        request.wait()
        array.changes = {"stream": 1}
        c.barrier()
        c.broadcast(array)
        return array.get()

    for found in pair.run(body):
        assert (found == values(0) + values(1)).all()


# ---- errors ------------------------------------------------------------------------------------

def lent(values=(1, 2, 3, 4), **changes):
    made = Lent(np.array(values, "f4"))
    vars(made).update(changes)
    return made


def interface(**changes):
    made = Interface(np.ones(4, "f4"))
    made.changes = changes
    return made


HOST = np.ones(4, "f4")


@pytest.mark.parametrize("array, kind, says", [
    (lambda: lent(flags=1), TypeError, "is read-only, but the call writes to it"),
    (lambda: lent(strides=[2]), ValueError, "is not contiguous in C order"),
    (lambda: lent(type=14), TypeError, "device type 14 (oneAPI), which the library cannot access; copy it to host"),
    (lambda: lent(type=99), TypeError, "device type 99 (unknown)"),
    (lambda: lent(address=HOST.ctypes.data), TypeError,
     "is in GPU memory that the library does not recognize: it does not use this GPU's driver"),
    (lambda: lent(type=10, address=HOST.ctypes.data), TypeError, "GPU memory that the library does not recognize"),
    (lambda: interface(data=(HOST.ctypes.data, False)), TypeError, "GPU memory that the library does not recognize"),
    (lambda: interface(data=None), TypeError, "has no address"),
    (lambda: interface(data=(16, True)), TypeError, "is read-only"),
    (lambda: interface(strides=(8,)), ValueError, "is not contiguous in C order"),
    (lambda: interface(mask=1), TypeError, "a masked array cannot be used"),
    (lambda: interface(typestr=">f4"), TypeError, "type >f4 of this standin.Interface is not supported"),
    (lambda: interface(stream="x"), TypeError, "stream is 'x' (str); expected a stream"),
])
def test_what_cannot_be_used_is_refused(alone, array, kind, says):
    with pytest.raises(kind) as told:
        alone.allreduce(array())
    assert says in str(told.value), told.value
    assert alone.error() is None


def test_read_only_arrays_are_inputs(alone):
    for given in (lent(flags=1), interface()):
        alone.allreduce(given, out := Lent(np.zeros(4, "f4")))
        assert (out.get() == given.get()).all()


def test_without_cuda(tmp_path):
    """Memory of a GPU in a process that was told to ignore GPUs."""
    program = tmp_path / "program.py"
    program.write_text("""
import os
import numpy as np
from standin import Interface, Lent, Stream
os.environ["GLOO_CUDA"] = "0"
import gloo_c
with gloo_c.Context(0, 1, gloo_c.MemoryStore(), device=gloo_c.Device("inproc")) as context:
    for kind in (Lent, Interface):
        try:
            context.allreduce(kind(np.ones(3, "f4")))
        except TypeError as error:
            assert "GLOO_CUDA=0 and GLOO_HIP=0 turn it off" in str(error)
            print("refused")
""")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(
                              [os.path.dirname(os.path.abspath(__file__)), os.environ.get("PYTHONPATH", "")])})
    assert done.returncode == 0 and done.stdout.split() == ["refused"] * 2, done.stdout + done.stderr


def test_an_error_of_the_driver_names_it(alone):
    given, out = Lent(values(0)), Lent(values(0))
    alone.allreduce(given, out)
    standin.cuda.standin_fail(b"cuMemcpyAsync", 1, 700)
    with pytest.raises(gloo_c.SystemFailure, match=r"CUDA: .* failed: .* \(CUDA_ERROR_ILLEGAL_ADDRESS, 700\)"):
        alone.allreduce(given, out)


# ---- the pipeline ------------------------------------------------------------------------------

def test_pieces_are_sent_while_others_are_copied(pair):
    """Rank 1 sees the array arrive in pieces, since copies of the stand-in are slow (see test_gpu.py), and
    messages are not."""
    pieces, each = 16, (512 << 10) // 4

    def body(c):
        if c.rank == 0:
            array = Lent(np.ones(pieces * each, "f4"))
            c.barrier()
            c.broadcast(array)
            return None
        array, seen = np.zeros(pieces * each, "f4"), set()
        last = array[each - 1::each]
        c.barrier()
        request = c.broadcast_start(array)
        while not request.done():
            seen.add(int(last.sum()))
        assert array.all()
        return seen

    seen = pair.run(body)[1]
    print("pieces that had arrived while others were copied:", sorted(seen))
    assert len(seen - {0, pieces}) >= 2, seen  # a message has several pieces
