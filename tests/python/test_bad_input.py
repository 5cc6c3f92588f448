"""Arguments of a wrong type, and the names in their messages."""

import datetime
import subprocess
import sys

import numpy as np
import pytest

import gloo_c
from gloo_c import mpi
from gloo_c._buffers import counted


@pytest.fixture(scope="module")
def context():
    with gloo_c.Context(0, 1, gloo_c.MemoryStore(), device=gloo_c.Device("inproc")) as made:
        yield made


ONES = np.ones(4, "f4")
STORE = gloo_c.MemoryStore()
SECONDS = "expected seconds as a number"
WHOLE = "expected a whole number"


@pytest.mark.parametrize("call, given, expected", [
    (lambda c: c.allreduce(ONES, timeout="5"), "timeout is '5' (str)", SECONDS),
    (lambda c: c.allreduce(ONES, timeout=datetime.timedelta(1)), "(timedelta)", "total_seconds"),
    (lambda c: c.set_timeout([1]), "timeout is [1] (list)", SECONDS),
    (lambda c: c.grow(STORE, wait="x"), "wait is 'x'", SECONDS),
    (lambda c: c.barrier_start().wait("x"), "timeout is 'x'", SECONDS),
    (lambda c: STORE.get("key", timeout="x"), "timeout is 'x'", SECONDS),
    (lambda c: c.allreduce(ONES, tag="a"), "tag is 'a'", WHOLE),
    (lambda c: c.allreduce(ONES, algorithm=3), "algorithm is 3 (int)", "expected a str"),
    (lambda c: c.allreduce(ONES, op="scaled_sum", factor="a"), "factor is 'a'", "expected a number"),
    (lambda c: c.broadcast(ONES, root="0"), "broadcast: a rank (root or peer) is '0'", WHOLE),
    (lambda c: c.broadcast_start(ONES, root=0.0), "is 0.0 (float)", WHOLE),
    (lambda c: c.broadcast(ONES, root=None), "is None (NoneType)", WHOLE),
    (lambda c: c.send(ONES, "0"), "send: a rank", WHOLE),
    (lambda c: c.recv_any(ONES, 3), "peers is 3 (int)", "a list of ranks"),
    (lambda c: c.allgatherv(ONES, ONES, 4), "counts is 4", "1 whole number,"),
    (lambda c: c.allgatherv(ONES, ONES, [4.0]), "counts is [4.0]", "1 whole number,"),
    (lambda c: c.allreduce_multi(ONES, ONES), "outputs is array(", "a list of arrays"),
    (lambda c: c.allreduce_multi(None, None), "outputs is None", "a list of arrays"),
    (lambda c: c.broadcast_multi(None, ONES), "outputs is array(", "a list of arrays"),
    (lambda c: c.allgather_multi("x", [ONES]), "inputs is 'x'", "a list of arrays"),
    (lambda c: c.split("red"), "color is 'red'", WHOLE),
    (lambda c: c.subset(0), "ranks is 0", "a list of ranks"),
    (lambda c: c.host("a"), "rank is 'a'", WHOLE),
    (lambda c: c.route("a"), "peer is 'a'", WHOLE),
    (lambda c: c.translate(0, None), "other is None", "a Context"),
    (lambda c: c.choice(3, 4), "collective is 3", "a str"),
    (lambda c: c.shrink(ranks_min="x"), "ranks_min is 'x'", WHOLE),
    (lambda c: gloo_c.Context(0, 2, None), "store is None (NoneType)", "a store of gloo_c"),
    (lambda c: gloo_c.Context(0, 1, "file:///x"), "store is 'file:///x'", "UrlStore(url)"),
    (lambda c: gloo_c.Context("0", 1, STORE), "rank is '0'", WHOLE),
    (lambda c: gloo_c.Context(0, 1, STORE, device="tcp"), "device is 'tcp'", "a gloo_c.Device"),
    (lambda c: gloo_c.Context(0, 1, STORE, host_id=3), "host_id is 3", "a str"),
    (lambda c: gloo_c.Context.join(None), "store is None", "a store of gloo_c"),
    (lambda c: gloo_c.Device(3), "transport is 3", "a str"),
    (lambda c: gloo_c.Device("tcp", streams="x"), "streams is 'x'", WHOLE),
    (lambda c: gloo_c.FileStore(None), "directory is None", "a path"),
    (lambda c: gloo_c.TcpStore(3, 4), "host is 3", "a str"),
    (lambda c: gloo_c.TcpStore("127.0.0.1", "x"), "port is 'x'", WHOLE),
    (lambda c: gloo_c.PrefixStore(None, "x"), "base is None", "a store"),
    (lambda c: gloo_c.UrlStore(3), "url is 3", "a str"),
    (lambda c: STORE.set("a", "b"), "value is 'b'", "text.encode()"),
    (lambda c: STORE.set(3, b"x"), "key is 3", "a str"),
    (lambda c: STORE.wait("a"), "keys is 'a'", "a list of keys"),
    (lambda c: c.barrier_start().on_done(None), "function is None", "a function"),
    (lambda c: gloo_c.wait_all([3]), "requests[0] is 3", "a Request"),
    (lambda c: gloo_c.wait_any(3), "requests is 3", "a list of requests"),
    (lambda c: gloo_c.typed(ONES, "opaque", "x"), "element_bytes is 'x'", WHOLE),
    (lambda c: gloo_c.CustomOp(3), "function is 3", "a function"),
])
def test_the_argument_is_named(context, call, given, expected):
    with pytest.raises(TypeError) as told:
        call(context)
    assert given in str(told.value) and expected in str(told.value), told.value


@pytest.mark.parametrize("thing", [3, 1.5, None, "abc", {1}, range(3), np.float32(1)], ids=repr)
@pytest.mark.parametrize("call", [
    lambda c, thing: c.allreduce(thing), lambda c, thing: c.broadcast(thing),
    lambda c, thing: c.allgather(thing, np.ones(3, "f4")), lambda c, thing: c.send(thing, 0),
    lambda c, thing: c.scan(thing), lambda c, thing: c.reduce_scatterv(thing, counts=[1]),
    lambda c, thing: c.allreduce(gloo_c.typed(thing, "float32")),
    lambda c, thing: c.alltoall(thing, np.ones(3, "f4"))],
    ids=["allreduce", "broadcast", "allgather", "send", "scan", "reduce_scatterv", "typed",
         "alltoall"])
def test_what_is_no_array_is_refused_with_how_to_convert_it(context, call, thing):
    with pytest.raises(TypeError, match=r"cannot use .*: expected an array \(numpy, torch tensor, buffer .*"
                                        r"DLPack, __cuda_array_interface__\); convert numbers with numpy\.array\("):
        call(context, thing)


def test_a_list_is_named(context):
    with pytest.raises(TypeError, match=r"cannot write a result to list \[1, 2, 3\]: pass numpy.array\("):
        context.broadcast([1, 2, 3])
    with pytest.raises(TypeError, match=r"cannot use list \[\]: expected an array"):
        context.send([], 0)


def test_numbers_out_of_range(context):
    with pytest.raises(ValueError, match="tag is -1; expected a whole number from 0"):
        context.allreduce(ONES, tag=-1)
    with pytest.raises(ValueError, match="timeout is not a number"):
        context.allreduce(ONES, timeout=float("nan"))


def test_what_a_function_of_on_done_raises_is_printed():
    done = subprocess.run([sys.executable, "-c", """
import gloo_c
def function(request):
    raise ValueError("lunch")
with gloo_c.Context(0, 1, gloo_c.MemoryStore(), device=gloo_c.Device("inproc")) as context:
    request = context.barrier_start()
    request.on_done(function)
    request.wait()
"""], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "a completion callback" in done.stderr
    assert "ValueError: lunch" in done.stderr and "cffi" not in done.stderr, done.stderr


@pytest.mark.parametrize("call, says", [
    (lambda c: c.allgatherv(ONES, ONES, [2, 2]), "the list of counts has 2 elements for 1 rank: pass one for each rank"),
    (lambda c: c.allgatherv(ONES, ONES, []), "the list of counts has 0 elements for 1 rank"),
    (lambda c: c.allgatherv(ONES, ONES[:1].copy(), [4]), "has 1 element, and the block of rank 0 ends at 4"),
    (lambda c: c.scatter([ONES, ONES], ONES.copy(), root=0), "scatter: got 2 inputs for 1 rank: pass one for each rank"),
    (lambda c: c.allreduce(ONES[:1].copy(), ONES.copy()), "the input has 1 element, and the output 4"),
    (lambda c: c.reduce_scatter(ONES[:1].copy(), ONES.copy()), "has 1 element; 1 rank with 4 each must have 4"),
    (lambda c: c.allreduce(gloo_c.typed(bytearray(1), "float32")), "1 byte cannot be split into elements of 4 bytes"),
    (lambda c: mpi.with_pickle(mpi.Comm(c)).alltoall([1, 2]), "got 2 objects for 1 rank: pass one for each rank"),
])
def test_one_thing_is_no_plural(context, call, says):
    with pytest.raises(ValueError) as error:
        call(context)
    assert says in str(error.value)


def test_two_things_are_a_plural():
    assert [counted(n, "rank") for n in (0, 1, 2)] == ["0 ranks", "1 rank", "2 ranks"]
