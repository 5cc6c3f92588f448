"""Every collective in every type on 1 to 4 ranks, compared with numpy."""

import ml_dtypes
import numpy as np
import pytest

import gloo_c

SPECIAL = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
           "float8_e5m2": ml_dtypes.float8_e5m2}
LENGTH = 6


def numpy_type(name):
    return np.dtype(SPECIAL.get(name, name))


def values(rank, dtype, length=LENGTH):
    """Returns small integers; every type but bool can hold the sum of four."""
    found = [(rank + place) % 3 for place in range(length)]
    if dtype.kind == "c":
        return np.array([x + (x + 1) * 1j for x in found]).astype(dtype)
    return np.array(found, dtype="f8").astype(dtype)


def combined(rows, dtype):
    if dtype == np.bool_:
        return np.any(rows, axis=0)
    wide = np.complex128 if dtype.kind == "c" else np.float64
    return np.sum([row.astype(wide) for row in rows], axis=0).astype(dtype)


def op(dtype):
    return "max" if dtype == np.bool_ else "sum"


def same(found, wanted):
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    assert found.tobytes() == wanted.tobytes(), f"{found} is not {wanted}"


def inputs(context, dtype, length=LENGTH):
    return [values(rank, dtype, length) for rank in range(context.size)]


# Each function makes one call on one rank, and checks the result.

def broadcast(c, t):
    root = c.size - 1
    data = values(root, t) if c.rank == root else np.zeros(LENGTH, t)
    assert c.broadcast(data, root=root) is data
    same(data, values(root, t))
    out = np.zeros(LENGTH, t)
    c.broadcast(values(0, t) if c.rank == 0 else None, out)
    same(out, values(0, t))


def allreduce(c, t):
    data, out = values(c.rank, t), np.zeros(LENGTH, t)
    assert c.allreduce(data, out, op=op(t)) is out
    same(out, combined(inputs(c, t), t))
    same(data, values(c.rank, t))
    assert c.allreduce(data, op=op(t)) is data
    same(data, out)
    pieces = [values(c.rank, t)[:2].copy(), values(c.rank, t)[2:].copy()]
    c.allreduce(pieces, op=op(t))
    same(np.concatenate(pieces), out)


def reduce(c, t):
    data, root = values(c.rank, t), c.size - 1
    out = np.zeros(LENGTH, t) if c.rank == root else None
    c.reduce(data, out, root=root, op=op(t))
    same(data, values(c.rank, t))
    if out is not None:
        same(out, combined(inputs(c, t), t))


def scan(c, t):
    data = values(c.rank, t)
    c.scan(data, op=op(t))
    same(data, combined(inputs(c, t)[:c.rank + 1], t))


def exscan(c, t):
    data, out = values(c.rank, t), values(2, t)
    c.exscan(data, out, op=op(t))
    same(out, combined(inputs(c, t)[:c.rank], t) if c.rank else values(2, t))


def reduce_scatter(c, t):
    whole = combined(inputs(c, t, 2 * c.size), t)
    mine, data, out = slice(2 * c.rank, 2 * c.rank + 2), values(c.rank, t, 2 * c.size), np.zeros(2, t)
    c.reduce_scatter(data, out, op=op(t))
    same(out, whole[mine])
    out[:] = 0
    c.reduce_scatter([data[2 * r:2 * r + 2].copy() for r in range(c.size)], out, op=op(t))
    same(out, whole[mine])
    c.reduce_scatter(data, op=op(t))
    same(data[:2], whole[mine])


def allgather(c, t):
    wanted, out = np.concatenate(inputs(c, t)), np.zeros(LENGTH * c.size, t)
    c.allgather(values(c.rank, t), out)
    same(out, wanted)
    outs = [np.zeros(LENGTH, t) for _ in range(c.size)]
    c.allgather(values(c.rank, t), outs)
    same(np.concatenate(outs), wanted)
    out[:] = 0
    out[LENGTH * c.rank:LENGTH * (c.rank + 1)] = values(c.rank, t)
    c.allgather(gloo_c.IN_PLACE, out)
    same(out, wanted)


def gather(c, t):
    root = c.size // 2
    out = np.zeros(LENGTH * c.size, t) if c.rank == root else None
    c.gather(values(c.rank, t), out, root=root)
    outs = [np.zeros(LENGTH, t) for _ in range(c.size)] if c.rank == root else None
    c.gather(values(c.rank, t), outs, root=root)
    if c.rank == root:
        same(out, np.concatenate(inputs(c, t)))
        same(np.concatenate(outs), out)


def scatter(c, t):
    root, out = c.size - 1, np.zeros(LENGTH, t)
    c.scatter(np.concatenate(inputs(c, t)) if c.rank == root else None, out, root=root)
    same(out, values(c.rank, t))
    out[:] = 0
    c.scatter(inputs(c, t) if c.rank == root else None, out, root=root)
    same(out, values(c.rank, t))
    place = np.concatenate(inputs(c, t)) if c.rank == 0 else np.zeros(LENGTH, t)
    c.scatter(place if c.rank == 0 else None, None if c.rank == 0 else place)
    same(place[:LENGTH], values(c.rank, t))


def alltoall(c, t):
    def block(i, j):
        return values(i + 2 * j, t, 2)

    data = np.concatenate([block(c.rank, j) for j in range(c.size)])
    wanted = np.concatenate([block(i, c.rank) for i in range(c.size)])
    out = np.zeros_like(data)
    c.alltoall(data, out)
    same(out, wanted)
    outs = [np.zeros(2, t) for _ in range(c.size)]
    c.alltoall([block(c.rank, j) for j in range(c.size)], outs)
    same(np.concatenate(outs), wanted)
    c.alltoall(data)
    same(data, wanted)


def allgatherv(c, t):
    counts = list(range(1, c.size + 1))
    out = np.zeros(sum(counts), t)
    c.allgatherv(values(c.rank, t, c.rank + 1), out, counts)
    same(out, np.concatenate([values(r, t, r + 1) for r in range(c.size)]))
    apart = np.zeros(8 * c.size, t)
    c.allgatherv(values(c.rank, t, c.rank + 1), apart, counts, [8 * r for r in range(c.size)])
    for rank in range(c.size):
        same(apart[8 * rank:8 * rank + rank + 1], values(rank, t, rank + 1))


def reduce_scatterv(c, t):
    counts = list(range(c.size))
    whole, out = combined(inputs(c, t, sum(counts)), t), np.zeros(c.rank, t)
    c.reduce_scatterv(values(c.rank, t, sum(counts)), out, counts=counts, op=op(t))
    begin = sum(counts[:c.rank])
    same(out, whole[begin:begin + c.rank])


def gatherv(c, t):
    out = np.zeros(c.size * (c.size + 1) // 2, t) if c.rank == 0 else None
    c.gatherv(values(c.rank, t, c.rank + 1), out, range(1, c.size + 1) if c.rank == 0 else None)
    if out is not None:
        same(out, np.concatenate([values(r, t, r + 1) for r in range(c.size)]))


def scatterv(c, t):
    data = np.concatenate([values(r, t, r + 1) for r in range(c.size)]) if c.rank == 0 else None
    out = np.zeros(c.rank + 1, t)
    c.scatterv(data, out, range(1, c.size + 1) if c.rank == 0 else None)
    same(out, values(c.rank, t, c.rank + 1))


def alltoallv(c, t):
    sent = [c.rank + j for j in range(c.size)]  # symmetric: the same amount is received
    data = np.concatenate([values(c.rank + 2 * j, t, sent[j]) for j in range(c.size)])
    out = np.zeros(sum(sent), t)
    c.alltoallv(data, out, sent, sent)
    same(out, np.concatenate([values(i + 2 * c.rank, t, sent[i]) for i in range(c.size)]))


def sendrecv(c, t):
    out = np.zeros(LENGTH, t)
    c.sendrecv(values(c.rank, t), (c.rank + 1) % c.size, out, (c.rank - 1) % c.size)
    same(out, values((c.rank - 1) % c.size, t))


def messages(c, t):
    sent = c.send_start(values(c.rank, t), (c.rank + 1) % c.size, tag=3)
    out, peer = np.zeros(LENGTH, t), (c.rank - 1) % c.size
    assert c.recv(out, peer, tag=3) is out
    sent.wait()
    same(out, values(peer, t))
    sent = c.send_start(values(c.rank, t), (c.rank + 1) % c.size, tag=4)
    assert c.recv_any(out, tag=4) == peer
    sent.wait()


def multi(c, t):
    whole = combined([row for row in inputs(c, t) for _ in range(2)], t)
    outs = [np.zeros(LENGTH, t), np.zeros(LENGTH, t)]
    c.allreduce_multi([values(c.rank, t)] * 2, outs, op=op(t))
    same(outs[0], whole)
    same(outs[1], whole)
    outs = [np.zeros(LENGTH, t)] if c.rank == 0 else []
    c.reduce_multi([values(c.rank, t)] * 2, outs, op=op(t))
    if c.rank == 0:
        same(outs[0], whole)
    outs = [np.zeros(LENGTH, t), np.zeros(LENGTH, t)]
    c.broadcast_multi(values(0, t) if c.rank == 0 else None, outs)
    same(outs[1], values(0, t))
    outs = [np.zeros(2 * LENGTH * c.size, t)]
    c.allgather_multi([values(c.rank, t), values(c.rank + 1, t)], outs)
    same(outs[0], np.concatenate([values(r + k, t) for r in range(c.size) for k in range(2)]))
    outs = [np.zeros(2, t)]
    c.reduce_scatter_multi([values(c.rank, t, 2 * c.size)] * 2, outs, op=op(t))
    same(outs[0], combined([row for row in inputs(c, t, 2 * c.size) for _ in range(2)],
                           t)[2 * c.rank:2 * c.rank + 2])


CALLS = [broadcast, allreduce, reduce, scan, exscan, reduce_scatter, allgather, gather, scatter,
         alltoall, allgatherv, reduce_scatterv, gatherv, scatterv, alltoallv, sendrecv, messages,
         multi]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_every_type(world, call):
    def play(context):
        for name in gloo_c.dtypes:
            try:
                call(context, numpy_type(name))
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error

    world.run(play)


@pytest.mark.parametrize("form", ["start", "init", "async"])
def test_forms_agree(world, form):
    import asyncio

    def play(c):
        async def later():
            await asyncio.gather(*[c.allreduce_async(data) for data in rows])

        rows = [values(c.rank, np.dtype("f4")) for _ in range(3)]
        if form == "async":
            asyncio.run(later())
        elif form == "start":
            requests = [c.allreduce_start(data) for data in rows]
            assert all(result is data for result, data in zip(gloo_c.wait_all(requests), rows))
        else:
            for data in rows:
                c.allreduce_init(data).start().wait()
        for data in rows:
            same(data, combined(inputs(c, data.dtype), data.dtype))

    world.run(play)


@pytest.mark.parametrize("op_name", ["product", "min", "max", "average", "scaled_sum"])
def test_operations(world, op_name):
    def play(c):
        rows = np.array([[r + 1.0, 2.0, -r] for r in range(c.size)])
        data = rows[c.rank].copy()
        options = {"factor": 0.5} if op_name == "scaled_sum" else {}
        c.allreduce(data, op=op_name, ordered=True, **options)
        wanted = {"product": np.prod, "min": np.min, "max": np.max, "average": np.mean,
                  "scaled_sum": lambda x, axis: 0.5 * np.sum(x, axis)}[op_name](rows, 0)
        assert np.allclose(data, wanted)

    world.run(play)


def test_custom_operation(world):
    def combine(left, right, result, dtype):
        np.maximum(np.frombuffer(left, dtype), np.frombuffer(right, dtype),
                   out=np.frombuffer(result, dtype))

    def play(c):
        operation = gloo_c.CustomOp(combine, name="largest", commutative=True)
        data = np.full(5, c.rank, "i4")
        c.allreduce(data, op=operation)
        assert (data == c.size - 1).all()
        operation.close()

    world.run(play)


def test_custom_operation_that_raises_ends_all_ranks(pair):
    def combine(left, right, result, dtype):
        raise RuntimeError("not today")

    def play(c):
        c.allreduce(np.ones(3), op=gloo_c.CustomOp(combine))

    found = pair.run(play, expect_errors=True)
    assert any("not today" in str(error) for error in found)
    assert all(isinstance(error, gloo_c.GlooError) for error in found)


def test_opaque_elements(pair):
    def combine(left, right, result, dtype):
        result[:] = bytes(max(a, b) for a, b in zip(left, right))

    def play(c):
        data = bytearray([c.rank, 3, c.rank] * 2)
        operation = gloo_c.CustomOp(combine, element_bytes=3)
        c.allreduce(gloo_c.typed(data, "opaque", 3), op=operation)
        assert data == bytearray([1, 3, 1] * 2)

    pair.run(play)


def test_algorithm_by_name(pair):
    def play(c):
        assert c.choice("allreduce", 8, algorithm="ring").algorithm == "ring"
        data = np.ones(8)
        c.allreduce(data, algorithm="ring")
        assert (data == 2).all()
        with pytest.raises(gloo_c.NotFoundError):
            c.allreduce(data, algorithm="none_such")

    pair.run(play)


def test_groups(world):
    def play(c):
        group = c.split(c.rank % 2, key=-c.rank)
        members = sorted((r for r in range(c.size) if r % 2 == c.rank % 2), reverse=True)
        assert group.size == len(members) and members[group.rank] == c.rank
        data = np.array([c.rank])
        group.allreduce(data)
        assert data[0] == sum(members)
        assert group.root_rank(0) == members[0]
        assert c.translate(c.rank, group) == group.rank
        assert c.split(None) is None
        first = c.subset([0]) if c.rank == 0 else None
        assert first is None or first.size == 1
        assert c.hosts == 1 and c.host(0) == 0
        c.close()
        assert group.allreduce(np.array([1]))[0] == len(members)
        group.close()

    world.run(play)
