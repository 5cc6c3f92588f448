"""Every operation of the PyTorch backend, in every type, on 1 to 4 ranks, compared with plain
references. Ranks are threads here, each with a group; tests that need PyTorch's own groups, of
which a process has one set, are in test_torch_features.py."""

import threading
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch._C import _distributed_c10d as c10d  # noqa: E402

import gloo_c  # noqa: E402
from gloo_c.torch import BackendError, Group  # noqa: E402
from torch_groups import bits, given, on, same  # noqa: E402

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
WHOLE = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32,
         torch.uint64]
COMPLEX = [torch.complex64, torch.complex128]
# Types that are only moved: the library has no arithmetic for the last ones.
MOVED = [*FLOATS, *WHOLE, *COMPLEX, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2,
         torch.complex32, torch.float8_e4m3fnuz]
NAMES = {"ids": lambda value: str(value).removeprefix("torch.")}


@pytest.fixture(params=[1, 2, 3, 4], ids=lambda size: f"ranks{size}")
def size(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["blocking", "started"])
def asynchronous(request):
    return request.param


def values(rank, count, dtype):
    """Returns small integers, which every type can add exactly."""
    numbers = (torch.arange(count) + rank) % 3 + 1
    if dtype == torch.bool:
        return numbers > 2
    if dtype in (torch.complex32, torch.float8_e4m3fnuz, torch.float8_e4m3fn, torch.float8_e5m2):
        if dtype == torch.complex32:
            return numbers.to(torch.float16).repeat_interleave(2).view(torch.complex32)
        return numbers.to(torch.float32).to(dtype)
    if dtype in COMPLEX:
        return (numbers + 1j * (numbers + 1)).to(dtype)
    return numbers.to(dtype)


# ---- reductions ----------------------------------------------------------------------------------

REDUCTIONS = [(op, dtype) for op in ("SUM", "PRODUCT", "MIN", "MAX") for dtype in (*FLOATS, *WHOLE,
                                                                                   torch.bool)]
REDUCTIONS += [(op, dtype) for op in ("SUM", "PRODUCT", "AVG") for dtype in COMPLEX]
REDUCTIONS += [(op, dtype) for op in ("BAND", "BOR", "BXOR") for dtype in (*WHOLE, torch.bool)]
REDUCTIONS += [("AVG", dtype) for dtype in FLOATS]
REDUCTIONS += [(op, dtype) for op in ("SUM", "MAX") for dtype in (torch.float8_e4m3fn,
                                                                  torch.float8_e5m2)]


def reduced(op, inputs):
    """Reduces by a loop over the ranks."""
    dtype = inputs[0].dtype
    wide = torch.complex128 if dtype in COMPLEX else torch.float64 if dtype.is_floating_point else (
        torch.bool if dtype == torch.bool else torch.int64)
    total = inputs[0].to(wide)
    for other in inputs[1:]:
        other = other.to(wide)
        if op in ("SUM", "AVG"):
            total = total | other if wide == torch.bool else total + other
        elif op == "PRODUCT":
            total = total & other if wide == torch.bool else total * other
        elif op == "MIN":
            total = total & other if wide == torch.bool else torch.minimum(total, other)
        elif op == "MAX":
            total = total | other if wide == torch.bool else torch.maximum(total, other)
        else:
            total = {"BAND": total & other, "BOR": total | other, "BXOR": total ^ other}[op]
    if op == "AVG":
        total = total / len(inputs)
    return total.to(dtype)


def close(found, expected):
    """Compares, with a tolerance for the rounding of means."""
    assert found.dtype == expected.dtype and found.shape == expected.shape
    if found.dtype.is_floating_point or found.dtype.is_complex:
        wide = torch.complex128 if found.dtype.is_complex else torch.float64
        assert torch.allclose(found.to(wide), expected.to(wide), rtol=1e-2)
    else:
        assert torch.equal(found, expected)


@pytest.mark.parametrize("op, dtype", REDUCTIONS, **NAMES)
def test_reductions(size, asynchronous, op, dtype):
    kind = getattr(dist.ReduceOp, op)
    inputs = [values(rank, 5 * size, dtype) for rank in range(size)]
    expected = reduced(op, inputs)
    check = close if op == "AVG" else same

    def body(group, rank):
        mine = inputs[rank].clone()
        work = group.allreduce([mine], given(c10d.AllreduceOptions, asynchronous, reduceOp=kind))
        assert work.wait() and work.is_completed() and work.is_success()
        check(mine, expected)
        assert work.result()[0] is mine

        mine = inputs[rank].clone()
        group.reduce([mine], given(c10d.ReduceOptions, asynchronous, reduceOp=kind,
                                   rootRank=size - 1)).wait()
        if rank == size - 1:
            check(mine, expected)

        part = torch.empty(5, dtype=dtype)
        group.reduce_scatter_single(part, inputs[rank], given(
            c10d.ReduceScatterOptions, asynchronous, reduceOp=kind)).wait()
        check(part, expected[5 * rank:5 * rank + 5])

        part = torch.empty(5, dtype=dtype)
        group.reduce_scatter([part], [list(inputs[rank].split(5))], given(
            c10d.ReduceScatterOptions, asynchronous, reduceOp=kind)).wait()
        check(part, expected[5 * rank:5 * rank + 5])

    on(size, body)


def test_scaled_sums(size, asynchronous):
    def body(group, rank):
        for factor in (0.5, torch.tensor(0.5)):
            mine = torch.full((3,), rank + 1.0)
            group.allreduce([mine], given(c10d.AllreduceOptions, asynchronous,
                                          reduceOp=dist._make_nccl_premul_sum(factor))).wait()
            same(mine, torch.full((3,), size * (size + 1) / 4))

    on(size, body)


def test_sparse_sums(size, asynchronous):
    inputs = [torch.sparse_coo_tensor([[rank, 0, 4], [0, rank, 3]], [1.0, 2.0, 3.0], (5, 5))
              for rank in range(size)]
    hybrid = [torch.sparse_coo_tensor([[rank, 3]], torch.full((2, 3), rank + 1.0), (5, 3))
              for rank in range(size)]
    nothing = torch.sparse_coo_tensor(torch.empty((1, 0), dtype=torch.int64), torch.empty(0, 2),
                                      (4, 2))

    def body(group, rank):
        options = given(c10d.AllreduceOptions, asynchronous)
        for all_of_them in (inputs, hybrid):
            mine = all_of_them[rank].clone()
            group.allreduce([mine], options).wait()
            same(mine.to_dense(), sum(each.to_dense() for each in all_of_them))
        mine = nothing.clone()
        group.allreduce([mine], options).wait()
        same(mine.to_dense(), nothing.to_dense())

    on(size, body)


def test_many_tensors_are_one_call(size, asynchronous):
    def body(group, rank):
        tensors = [torch.full((n,), rank + 1.0) for n in (3, 0, 1000)] + [
            torch.full((2, 2), rank + 1.0).t()]
        group.allreduce_coalesced(tensors, given(c10d.AllreduceCoalescedOptions,
                                                 asynchronous)).wait()
        total = size * (size + 1) // 2
        for tensor in tensors:
            same(tensor, torch.full(tensor.shape, total, dtype=tensor.dtype))

    on(size, body)


# ---- what moves ----------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", MOVED, **NAMES)
def test_moves(size, asynchronous, dtype):
    inputs = [values(rank, 3 * size, dtype) for rank in range(size)]

    def empty(*shape):
        return torch.empty(*shape, dtype=dtype)

    def body(group, rank):
        mine = inputs[rank].clone()
        group.broadcast([mine], given(c10d.BroadcastOptions, asynchronous, rootRank=size - 1)).wait()
        same(mine, inputs[size - 1])

        outputs = [empty(3 * size) for _ in range(size)]
        group.allgather([outputs], [inputs[rank]], given(c10d.AllgatherOptions, asynchronous)).wait()
        for output, expected in zip(outputs, inputs):
            same(output, expected)

        whole = empty(3 * size * size)
        group.all_gather_single(whole, inputs[rank], given(c10d.AllgatherOptions,
                                                           asynchronous)).wait()
        same(whole, torch.cat([bits(each) for each in inputs]).view(dtype))

        root = size // 2
        outputs = [empty(3 * size) for _ in range(size)]
        group.gather([outputs] if rank == root else [], [inputs[rank]],
                     given(c10d.GatherOptions, asynchronous, rootRank=root)).wait()
        for output, expected in zip(outputs, inputs):
            if rank == root:
                same(output, expected)

        mine = empty(3 * size)
        group.scatter([mine], [list(inputs)] if rank == root else [],
                      given(c10d.ScatterOptions, asynchronous, rootRank=root)).wait()
        same(mine, inputs[rank])

        mine = empty(3 * size)
        options = given(c10d.AllToAllOptions, asynchronous)
        group.all_to_all_single(mine, inputs[rank], [], [], options).wait()
        exchanged = torch.cat([bits(each[3 * rank:3 * rank + 3]) for each in inputs]).view(dtype)
        same(mine, exchanged)

        outputs = [empty(3) for _ in range(size)]
        group.alltoall(outputs, [each.clone() for each in inputs[rank].split(3)], options).wait()
        same(torch.cat([bits(each) for each in outputs]).view(dtype), exchanged)

    on(size, body)


def test_uneven_moves(size, asynchronous):
    """Rank r has r + 1 rows for each other rank, and r + 2 for its own output of a gather."""
    def body(group, rank):
        options = given(c10d.AllgatherOptions, asynchronous)
        outputs = [torch.empty(other + 2, 2) for other in range(size)]
        group.allgather([outputs], [torch.full((rank + 2, 2), float(rank))], options).wait()
        for other, output in enumerate(outputs):
            same(output, torch.full((other + 2, 2), float(other)))

        options = given(c10d.AllToAllOptions, asynchronous)
        mine = torch.full(((rank + 1) * size, 2), float(rank))
        output = torch.empty(sum(range(1, size + 1)), 2)
        group.all_to_all_single(output, mine, list(range(1, size + 1)), [rank + 1] * size,
                                options).wait()
        expected = torch.cat([torch.full((other + 1, 2), float(other)) for other in range(size)])
        same(output, expected)

        outputs = [torch.empty(other + 1, 2) for other in range(size)]
        group.alltoall(outputs, list(mine.split(rank + 1)), options).wait()
        same(torch.cat(outputs), expected)

        parts = [torch.full((other,), float(rank + 1)) for other in range(size)]
        part = torch.empty(rank)
        group.reduce_scatter([part], [parts], given(c10d.ReduceScatterOptions,
                                                    asynchronous)).wait()
        same(part, torch.full((rank,), size * (size + 1) / 2))

    on(size, body)


def test_coalesced_moves(size, asynchronous):
    def body(group, rank):
        options = given(c10d.AllgatherOptions, asynchronous)
        inputs = [torch.full((2,), float(rank)), torch.full((3,), rank)]
        wholes = [torch.empty(2 * size), torch.empty(3 * size, dtype=torch.int64)]
        group.all_gather_single_coalesced(wholes, inputs, options).wait()
        for whole, mine in zip(wholes, inputs):
            same(whole, torch.arange(size).repeat_interleave(len(mine)).to(mine.dtype))

        lists = [[torch.empty(2), torch.empty(3, dtype=torch.int64)] for _ in range(size)]
        group.allgather_coalesced(lists, inputs, options).wait()
        for other, (one, two) in enumerate(lists):
            same(one, torch.full((2,), float(other)))
            same(two, torch.full((3,), other))

        parts = [torch.empty(2), torch.empty(3)]
        group.reduce_scatter_single_coalesced(
            parts, [torch.full((2 * size,), 1.0), torch.full((3 * size,), 2.0)],
            given(c10d.ReduceScatterOptions, asynchronous)).wait()
        same(parts[0], torch.full((2,), float(size)))
        same(parts[1], torch.full((3,), 2.0 * size))

    on(size, body)


@pytest.mark.parametrize("dtype", MOVED, **NAMES)
def test_messages(size, dtype):
    def body(group, rank):
        to, source = (rank + 1) % size, (rank - 1) % size
        if size == 1:
            return
        for tag in (0, 7):
            mine, got = values(rank, 4, dtype), torch.empty(4, dtype=dtype)
            works = [group.send([mine], to, tag), group.recv([got], source, tag)]
            for work in works:
                work.wait()
            same(got, values(source, 4, dtype))
        got = torch.empty(4, dtype=dtype)
        work, sent = group.recv_anysource([got], 3), group.send([values(rank, 4, dtype)], to, 3)
        work.wait(), sent.wait()
        assert work._source_rank() == source
        same(got, values(source, 4, dtype))

    on(size, body)


def test_common_calls_are_one_call_in_c(size, asynchronous):
    """Tensors in order in host memory take no detour, and any others do."""
    def calls(group, rank, spread):
        def tensor(rows, value):
            wide = torch.full((rows, 2 if spread else 1), float(value))
            return wide[:, 0] if spread else wide.reshape(-1)

        def options(kind, **values):
            return given(getattr(c10d, kind + "Options"), asynchronous, **values)

        mine, gathered, part = tensor(size, rank), tensor(2 * size, -1), tensor(1, -1)
        exchanged = tensor(size, -1)
        works = [group.broadcast([tensor(3, rank)], options("Broadcast", rootRank=size - 1)),
                 group.allgather_into_tensor_coalesced([gathered], [tensor(2, rank)], options("Allgather")),
                 group.reduce_scatter_single(part, mine, options("ReduceScatter")),
                 group.all_to_all_single(exchanged, torch.full((size,), float(rank)), [], [], options("AllToAll")),
                 group.allreduce([mine], options("Allreduce", timeout=timedelta(seconds=20)))]
        for work in works:
            work.wait()
        total = float(sum(range(size)))
        for found, expected in ((mine, torch.full((size,), total)), (part, torch.full((1,), total)),
                                (gathered, torch.arange(size).repeat_interleave(2).float()),
                                (exchanged, torch.arange(float(size)))):
            assert found.tolist() == expected.tolist()

    def body(group, rank):
        calls(group, rank, True)
        before = group._get_sequence_number_for_group()
        with pytest.MonkeyPatch.context() as patch:
            for name in ("_run", "_begin"):
                patch.setattr(group, name, None)
            calls(group, rank, False)
        assert group._get_sequence_number_for_group() == before + 5

    on(size, body)


# ---- shapes of memory ----------------------------------------------------------------------------

def test_strided_and_empty_tensors(size, asynchronous):
    def body(group, rank):
        options = given(c10d.AllreduceOptions, asynchronous)
        base = torch.zeros(4, 6)
        turned = base.t()[::2]
        turned.copy_(torch.arange(12.0).reshape(3, 4) * (rank + 1))
        group.allreduce([turned], options).wait()
        same(turned, torch.arange(12.0).reshape(3, 4) * (size * (size + 1) / 2))
        assert base[:, 1].abs().sum() == 0, "what lies between was written"

        for shape in ((0,), (3, 0)):
            group.allreduce([torch.empty(shape)], options).wait()
            group.broadcast([torch.empty(shape)], given(c10d.BroadcastOptions,
                                                        asynchronous)).wait()
        one = torch.tensor(1.0)
        group.allreduce([one], options).wait()
        same(one, torch.tensor(float(size)))

        parameter = torch.nn.Parameter(torch.ones(2, 3).t())
        group.allreduce([parameter], options).wait()
        same(parameter.detach(), torch.full((3, 2), float(size)))

        conjugate = torch.full((2,), 1 + 2j).conj()
        outputs = [torch.empty(2, dtype=torch.complex64) for _ in range(size)]
        group.allgather([outputs], [conjugate], given(c10d.AllgatherOptions, asynchronous)).wait()
        for output in outputs:
            same(output, torch.full((2,), 1 - 2j))

        columns = torch.zeros(3, size)
        outputs = [columns[:, other] for other in range(size)]
        group.allgather([outputs], [torch.full((3,), float(rank))],
                        given(c10d.AllgatherOptions, asynchronous)).wait()
        same(columns, torch.arange(float(size)).expand(3, size).contiguous())

    on(size, body)


def test_outputs_that_are_a_part_of_the_input(size, asynchronous):
    def body(group, rank):
        whole = torch.full((2 * size,), -1.0)
        mine = whole[2 * rank:2 * rank + 2]
        mine.fill_(float(rank))
        group.all_gather_single(whole, mine, given(c10d.AllgatherOptions, asynchronous)).wait()
        same(whole, torch.arange(size).repeat_interleave(2).float())
        for count in (2, 5000):
            whole, expected = torch.arange(float(count * size)), torch.arange(float(count * size))
            part = slice(count * rank, count * (rank + 1))
            expected[part] *= size
            group.reduce_scatter_single(whole[part], whole, given(c10d.ReduceScatterOptions, asynchronous)).wait()
            same(whole, expected)

    on(size, body)


# ---- works and futures ---------------------------------------------------------------------------

def test_futures_and_their_callbacks(size):
    def body(group, rank):
        mine = torch.ones(100)
        work = group.allreduce([mine], c10d.AllreduceOptions())
        future = work.get_future()
        assert work.get_future() is future
        doubled = future.then(lambda over: over.value()[0] * 2)
        same(doubled.wait(), torch.full((100,), 2.0 * size))

        def again(_over):
            """A callback that waits for another operation, and for its future."""
            other = torch.ones(3)
            return group.allreduce([other], c10d.AllreduceOptions()).get_future().wait()[0]

        futures = [group.allreduce([torch.ones(10)], c10d.AllreduceOptions()).get_future()
                   for _ in range(4)]
        # In sequence, so that all ranks make the same calls in the same order.
        for future in futures:
            same(future.then(again).wait(), torch.full((3,), float(size)))

    on(size, body)


def test_works_that_are_dropped(size):
    def body(group, rank):
        for _ in range(50):
            group.allreduce([torch.ones(3000)], c10d.AllreduceOptions())
        last = torch.ones(2)
        group.allreduce([last], c10d.AllreduceOptions()).wait()
        same(last, torch.full((2,), float(size)))
        group.barrier().wait()
        group.barrier().wait()
        assert len(group._live) < 5

    on(size, body)


def test_waiting_for_a_time():
    def body(group, rank):
        mine = torch.ones(2)
        if rank == 0:
            work = group.allreduce([mine], c10d.AllreduceOptions())
            with pytest.raises(BackendError, match="continues"):
                work.wait(timedelta(milliseconds=50))
            assert not work.is_completed()
            ready.set()
            assert work.wait()
        else:
            ready.wait(30)
            group.allreduce([mine], c10d.AllreduceOptions()).wait()
        same(mine, torch.full((2,), 2.0))

    ready = threading.Event()
    on(2, body)


# ---- errors --------------------------------------------------------------------------------------

def test_the_timeout_of_a_call(asynchronous):
    over = threading.Event()

    def body(group, rank):
        if rank == 1:
            over.wait(20)
        else:
            with pytest.raises(BackendError, match="timed out after 0.2 s"):
                group.allreduce([torch.ones(1)], given(c10d.AllreduceOptions, asynchronous,
                                                       timeout=timedelta(seconds=0.2))).wait()
            over.set()

    on(2, body, errors=True)


def test_a_mismatch_is_told_on_both_ranks():
    def body(group, rank):
        group.allreduce([torch.ones(3 + rank)], c10d.AllreduceOptions()).wait()

    for error in on(2, body, errors=True):
        assert isinstance(error, BackendError) and isinstance(error, dist.DistBackendError)
        assert isinstance(error, gloo_c.GlooError) and error.rank is None
        assert "cannot tell which" in str(error)
        assert "3 x float32" in str(error) and "4 x float32" in str(error)


def test_an_abort_from_another_thread():
    def body(group, rank):
        if rank == 0:
            threading.Timer(0.2, group.abort).start()
        group.allreduce([torch.ones(3)], given(
            c10d.AllreduceOptions, False)) if rank == 0 else group.recv([torch.ones(3)], 0).wait()

    for error in on(2, body, errors=True):
        assert isinstance(error, BackendError) and "gave up" in str(error)


def test_a_group_that_was_shut_down_says_so():
    def body(group, rank):
        work = group.recv([torch.empty(1)], 1 - rank) if rank == 0 else None
        group.allreduce([torch.ones(1)], given(c10d.AllreduceOptions, False))
        group.shutdown()
        for call in (group.barrier, lambda: group.allreduce([torch.ones(1)])):
            with pytest.raises(BackendError, match="shut down"):
                call()
        if work is not None:
            with pytest.raises(BackendError):
                work.wait()

    on(2, body, errors=True)


@pytest.mark.parametrize("call, text", [
    (lambda g: g.allgather([[torch.empty(2)]], [torch.empty(2)]), "number of outputs is 1; expected 2"),
    (lambda g: g.allgather([[torch.empty(2), torch.empty(2).int()]], [torch.empty(2)]), "int32"),
    (lambda g: g.all_gather_single(torch.empty(3), torch.empty(2)), "3 elements, not 2 times"),
    (lambda g: g.reduce_scatter_single(torch.empty(3), torch.empty(2)), "2 elements, not 2 times"),
    (lambda g: g.all_to_all_single(torch.empty(3), torch.empty(3), [], []), "cannot be divided"),
    (lambda g: g.all_to_all_single(torch.empty(4), torch.empty(4), [1, 2], [2, 2]), "split sizes"),
    (lambda g: g.alltoall([torch.empty(1)], [torch.empty(1)] * 2), "number of outputs is 1; expected 2"),
    (lambda g: g.allreduce([torch.empty(2, dtype=torch.complex32)]), "has no arithmetic"),
    (lambda g: g.broadcast([torch.eye(2).to_sparse()]), "layout"),
    (lambda g: g.send([torch.empty(1)], 2), "peer 2 is not a rank"),
])
def test_bad_arguments_are_named_and_do_no_harm(call, text):
    def body(group, rank):
        with pytest.raises((BackendError, ValueError, TypeError), match=text):
            call(group)
        mine = torch.ones(1)
        group.allreduce([mine]).wait()
        same(mine, torch.tensor([2.0]))

    on(2, body)


def test_a_store_that_fails_is_named():
    with pytest.raises(BackendError) as told:
        Group(dist.HashStore(), 0, 2, timedelta(milliseconds=300), device=gloo_c.Device("inproc"))
    assert told.value.rank == 1 or "rank 1" in str(told.value)
