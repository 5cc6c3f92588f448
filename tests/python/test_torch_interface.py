"""Properties of PyTorch's gloo besides its operations: short forms, aliased tensors, several
tensors per rank, exceptions, and what barriers and shutdown wait for."""

import gc
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch._C import _distributed_c10d as c10d  # noqa: E402

import gloo_c  # noqa: E402
from gloo_c.torch import ArgumentError, BackendError, Group  # noqa: E402
from gloo_c.torch._checks import _KINDS  # noqa: E402
from torch_groups import TIMEOUT, given, on, same  # noqa: E402

MAX = dist.ReduceOp.MAX


@pytest.fixture(params=[False, True], ids=["blocking", "started"])
def asynchronous(request):
    return request.param


def full(*values):
    return torch.tensor([float(value) for value in values])


# ---- what is waited for ----------------------------------------------------------------------------

@pytest.mark.parametrize("wait", [lambda work: work.wait(), lambda work: work.get_future().wait()],
                         ids=["work", "future"])
def test_a_barrier_waits_for_the_results_of_collectives_before_it(asynchronous, wait):
    """These results are copied on completion; plain ones are in torch_features.py."""
    def body(group, rank):
        for _ in range(10):
            tensors = [torch.full((60, 50), float(number)).t() for number in range(12)]
            for tensor in tensors:
                group.allreduce(tensor)  # the work is dropped
            wait(group.barrier(given(c10d.BarrierOptions, asynchronous)))
            for number, tensor in enumerate(tensors):
                same(tensor.contiguous(), torch.full(tensor.shape, 3.0 * number))

    on(3, body)


def test_a_barrier_does_not_wait_for_a_receive(asynchronous):
    def body(group, rank):
        got = full(0)
        work = group.recv([got], 1, 0) if rank == 0 else None
        group.barrier(given(c10d.BarrierOptions, asynchronous)).wait()
        if rank == 1:
            group.send([full(5)], 0, 0).wait()
        if work is not None:
            work.wait()
            same(got, full(5))

    on(2, body)


def test_an_asynchronous_barrier_lets_its_caller_go_on():
    """Rank 1 makes its calls only after a message that rank 0 sends after the barrier; later calls
    keep their order."""
    def body(group, rank):
        first, second, got = full(1), full(2), full(0)
        if rank == 0:
            group.allreduce(first)
            barrier = group.barrier()
            assert not barrier.is_completed() and barrier.exception() is None
            with pytest.raises(BackendError, match="continues"):
                barrier.wait(timedelta(milliseconds=20))
            group.send([full(7)], 1, 0).wait()
            group.allreduce(second, op=MAX).wait()
        else:
            group.recv([got], 0, 0).wait()
            same(got, full(7))
            group.allreduce(first).wait()
            barrier = group.barrier()
            group.allreduce([second], given(c10d.AllreduceOptions, False, reduceOp=MAX))
        barrier.wait()
        assert barrier.is_success() and barrier.result() == []
        same(first, full(2))
        same(second, full(2))

    on(2, body)


def test_an_error_of_a_collective_is_that_of_the_barrier_behind_it(asynchronous):
    def body(group, rank):
        group.allreduce(torch.ones(2 + rank))
        group.barrier(given(c10d.BarrierOptions, asynchronous)).wait()

    for error in on(2, body, errors=True):
        assert isinstance(error, BackendError) and "2 x float32" in str(error)


@pytest.mark.parametrize("leave", ["shutdown", "drop"])
def test_a_group_is_left_when_its_collectives_have_completed(leave):
    leaving, store = threading.Event(), dist.HashStore()

    def made(rank):
        return Group(store, rank, 2, TIMEOUT, device=gloo_c.Device("inproc"))

    def late():
        group = made(1)
        assert leaving.wait(30)
        time.sleep(0.2)  # so that rank 0 is already leaving
        mine = full(2)
        try:
            group.allreduce(mine).wait()
        except BackendError as error:
            mine = error
        found.append(mine)
        group.shutdown()

    found, thread = [], threading.Thread(target=late)
    thread.start()
    group, mine = made(0), full(1)
    group.allreduce(mine)
    leaving.set()
    if leave == "shutdown":
        group.shutdown()
    del group
    gc.collect()
    thread.join(60)
    same(found[0], full(3))
    same(mine, full(3))


def test_receives_that_are_never_matched_keep_no_other_works():
    def body(group, rank):
        never = [group.recv([full(0)], 1 - rank, 5) for _ in range(3)]
        for _ in range(200):
            group.allreduce(full(1))
            if rank == 0:
                group.send([full(1)], 1, 1).wait()
            else:
                group.recv([full(0)], 0, 1).wait()
        group.barrier().wait()
        group.allreduce(full(1)).wait()
        assert len(group._live) < 5 and len(group._messages) < 60
        assert not any(work.is_completed() for work in never)

    on(2, body)


# ---- short forms -----------------------------------------------------------------------------------

def test_short_forms():
    def body(group, rank):
        def check(work, found, *expected):
            assert work.wait()
            same(torch.cat(found) if isinstance(found, list) else found, full(*expected))

        limit = timedelta(seconds=20)
        x = full(rank)
        check(group.broadcast(x, root=1), x, 1)
        x = full(rank)
        check(group.broadcast(x, 1, limit), x, 1)
        x = full(rank)
        check(group.broadcast(tensor=x, root=1, timeout=limit), x, 1)
        x = full(rank)
        check(group.allreduce(x, op=MAX), x, 1)
        x = full(rank)
        check(group.allreduce([x], MAX, limit), x, 1)
        x = full(rank)
        check(group.allreduce(tensors=[x], opts=given(c10d.AllreduceOptions, True)), x, 1)
        x = full(rank)
        check(group.allreduce(x, timeout=20.0), x, 1)
        x = full(rank + 1)
        group.reduce(x, 0, MAX).wait()
        assert rank != 0 or x.item() == 2
        outputs = [full(9), full(9)]
        check(group.allgather(outputs, full(rank)), outputs, 0, 1)
        outputs = [full(9), full(9)]
        check(group.allgather(output_tensors=outputs, input_tensor=full(rank), timeout=limit),
              outputs, 0, 1)
        outputs = [full(9), full(9)] if rank == 1 else []
        group.gather(outputs, full(rank), root=1).wait()
        assert not outputs or torch.cat(outputs).tolist() == [0, 1]
        output = full(9)
        check(group.scatter(output, [full(5), full(6)] if rank == 0 else [], root=0), output,
              5 + rank)
        check(group.reduce_scatter(output, [full(1 + rank), full(3 + rank)], op=MAX), output,
              2 if rank == 0 else 4)
        check(group.reduce_scatter(output=output, input=[full(1), full(3)]), output,
              2 if rank == 0 else 6)
        outputs = [full(9), full(9)]
        check(group.alltoall(outputs, [full(rank), full(10 + rank)]), outputs,
              *((0, 1) if rank == 0 else (10, 11)))
        output = full(9, 9)
        check(group.alltoall_base(output, full(rank, 10 + rank), [], [], timeout=limit), output,
              *((0, 1) if rank == 0 else (10, 11)))
        output = full(9, 9)
        check(group._allgather_base(output=output, input=full(rank)), output, 0, 1)
        group.barrier(timeout=limit).wait()
        group.barrier(limit).wait()
        if rank == 0:
            group.send([full(3)], dstRank=1, tag=2).wait()
        else:
            x = full(0)
            check(group.recv([x], srcRank=0, tag=2), x, 3)

    on(2, body)


@pytest.mark.parametrize("call, text", [
    (lambda g: g.allreduce(full(1), "sum"), "op is 'sum' .str."),
    (lambda g: g.allreduce(full(1), opp=MAX), "unexpected argument 'opp'.*op, timeout"),
    (lambda g: g.allreduce(full(1), c10d.AllreduceOptions(), op=MAX), "too many arguments"),
    (lambda g: g.allreduce([1]), "tensors is list: .1.; expected a list of tensors"),
    (lambda g: g.broadcast(None), "tensors is NoneType: None"),
    (lambda g: g.broadcast([1], c10d.BroadcastOptions()), "tensors is list: .1."),
    (lambda g: g.broadcast(), "tensors is missing"),
    (lambda g: g.broadcast(full(1), tensor=full(1)), "tensors is given twice"),
    (lambda g: g.broadcast(full(1), 0, root=1), "root is given twice"),
    (lambda g: g.barrier(timeout="5"), "timeout is '5'"),
    (lambda g: g.gather(full(1), [full(1)]), "a list of lists of tensors"),
    (lambda g: g.send([1], 0), "tensors is list: .1."),
    (lambda g: g.allgather_coalesced([full(1)], [full(1)]), "a list of lists of tensors"),
    (lambda g: g.allreduce_coalesced(full(1)), "tensors is Tensor.*expected a list of tensors"),
])
def test_arguments_of_a_wrong_kind_are_named(call, text):
    def body(group, rank):
        with pytest.raises(TypeError, match=text):
            call(group)

    on(1, body)


# ---- results ---------------------------------------------------------------------------------------

def test_futures_hold_one_list_of_tensors(asynchronous):
    def body(group, rank):
        def value(work):
            return work.get_future().wait()

        outputs = [full(9), full(9)]
        found = value(group.allgather([outputs], [full(rank)], given(c10d.AllgatherOptions,
                                                                     asynchronous)))
        assert [each.item() for each in found] == [0, 1]
        found = value(group.gather([outputs] if rank == 0 else [], [full(rank)],
                                   given(c10d.GatherOptions, asynchronous)))
        assert [each.item() for each in found] == ([0, 1] if rank == 0 else [])
        lists = [[full(9), full(9)] for _ in range(2)]
        found = value(group.allgather_coalesced(lists, [full(rank), full(rank + 5)]))
        assert [[each.item() for each in part] for part in found] == [[0, 5], [1, 6]]

    on(2, body)


# ---- several tensors of a rank ---------------------------------------------------------------------

def test_several_inputs_of_a_rank(asynchronous):
    def body(group, rank):
        options = given(c10d.AllreduceOptions, asynchronous)
        for op, expected in (("SUM", 6), ("MAX", 3), ("PRODUCT", 0), ("AVG", 3)):
            options.reduceOp = getattr(dist.ReduceOp, op)
            two = [full(rank * 2), torch.full((1, 2), rank * 2 + 1.0)[:, 0]]
            group.allreduce(two, options).wait()
            for tensor in two:
                same(full(tensor.item()), full(expected))
        sparse = [torch.sparse_coo_tensor([[rank, 2]], [1.0, 2.0], (3,)) for _ in range(2)]
        group.allreduce(sparse, given(c10d.AllreduceOptions, asynchronous)).wait()
        for tensor in sparse:
            same(tensor.to_dense(), full(2, 2, 8))
        for chosen in range(2):
            two = [full(10 * rank), full(10 * rank + 1)]
            group.broadcast(two, given(c10d.BroadcastOptions, asynchronous, rootRank=1,
                                       rootTensor=chosen)).wait()
            for tensor in two:
                same(tensor, full(10 + chosen))
        outputs = [[full(9) for _ in range(4)] for _ in range(2)]
        work = group.allgather(outputs, [full(2 * rank), full(2 * rank + 1)],
                               given(c10d.AllgatherOptions, asynchronous))
        for found in work.get_future().wait():
            same(torch.cat(found), full(0, 1, 2, 3))

    on(2, body)


# ---- tensors that share memory ---------------------------------------------------------------------

def test_outputs_that_are_inputs(asynchronous):
    def body(group, rank):
        def options(kind, **values):
            return given(getattr(c10d, kind), asynchronous, **values)

        given_ones = [full(5, 6), full(7, 8)]
        output = given_ones[0] if rank == 0 else full(0, 0)
        group.scatter([output], [given_ones] if rank == 0 else [], options("ScatterOptions")).wait()
        same(output, full(5, 6) if rank == 0 else full(7, 8))

        outputs = [full(1, 2), full(3, 4)]
        mine = outputs[1 - rank]  # the destination of the other rank's block
        group.allgather([outputs], [mine], options("AllgatherOptions")).wait()
        same(torch.cat(outputs), full(3, 4, 1, 2))

        outputs = [full(1, 2), full(3, 4)]
        group.gather([outputs] if rank == 0 else [], [outputs[1]], options("GatherOptions")).wait()
        same(torch.cat(outputs), full(3, 4, 3, 4) if rank == 0 else full(1, 2, 3, 4))

        whole = full(1, 2, 3, 4)
        group.all_gather_single(whole, whole[1:3], options("AllgatherOptions")).wait()
        same(whole, full(2, 3, 2, 3))

        blocks = [full(1, 2), full(3, 4)]
        group.reduce_scatter([blocks[1 - rank]], [blocks], options("ReduceScatterOptions")).wait()
        same(blocks[1 - rank], full(2, 4) if rank == 0 else full(6, 8))

        blocks = [full(rank), full(10 + rank)]
        group.alltoall(blocks, blocks, options("AllToAllOptions")).wait()
        same(torch.cat(blocks), full(0, 1) if rank == 0 else full(10, 11))

        whole = full(rank, 10 + rank)
        group.all_to_all_single(whole, whole, [], [], options("AllToAllOptions")).wait()
        same(whole, full(0, 1) if rank == 0 else full(10, 11))
        group.all_to_all_single(whole, whole, [1, 1], [1, 1], options("AllToAllOptions")).wait()
        same(whole, full(0, 10) if rank == 0 else full(1, 11))

    on(2, body)


def test_outputs_that_overlap_each_other(asynchronous):
    def body(group, rank):
        one, whole = full(1, 2), full(1, 2, 3)
        group.allreduce_coalesced([one, one], given(c10d.AllreduceCoalescedOptions,
                                                    asynchronous)).wait()
        same(one, full(2, 4))
        group.allreduce_coalesced([whole[:2], whole[1:]], given(c10d.AllreduceCoalescedOptions,
                                                                asynchronous)).wait()
        same(whole, full(2, 4, 6))
        output = full(9)
        group.allgather([[output, output]], [full(rank)], given(c10d.AllgatherOptions,
                                                                asynchronous)).wait()
        same(output, full(1))

    on(2, body)


def test_results_of_inference_tensors():
    def body(group, rank):
        with torch.inference_mode():
            column = torch.full((3, 2), float(rank))[:, 0]
            work = group.allreduce(column)
        # Copied in a thread that is not in inference mode.
        same(work.get_future().wait()[0].contiguous(), full(1, 1, 1))

    on(2, body)


# ---- exceptions ------------------------------------------------------------------------------------

def sparse():
    return torch.sparse_coo_tensor([[0]], [1.0], (1,))


@pytest.mark.parametrize("call", [
    lambda g: g.broadcast(full(1), root=2), lambda g: g.broadcast(full(1), root=-1),
    lambda g: g.broadcast([full(1)], given(c10d.BroadcastOptions, True, rootTensor=1)),
    lambda g: g.broadcast([full(1)], given(c10d.BroadcastOptions, True, rootTensor=-1)),
    lambda g: g.broadcast([]), lambda g: g.broadcast([full(1), full(1, 2)]),
    lambda g: g.broadcast([full(1), full(1).int()]), lambda g: g.broadcast(sparse()),
    lambda g: g.allreduce([]), lambda g: g.allreduce([full(1), full(1, 2)]),
    lambda g: g.allreduce([full(1), full(1).int()]), lambda g: g.allreduce([full(1), sparse()]),
    lambda g: g.allreduce(sparse(), op=MAX),
    lambda g: g.allreduce(full(1), op=dist.ReduceOp.BAND),
    lambda g: g.allreduce([sparse(), torch.sparse_coo_tensor([[0]], [1.0], (2,))]),
    lambda g: g.allreduce_coalesced([full(1), full(1).int()]),
    lambda g: g.allreduce_coalesced([full(1), sparse()]), lambda g: g.broadcast(
        [torch.ones(4), torch.ones(2, 2)]),
    lambda g: g.allreduce_coalesced([]), lambda g: g.allreduce_coalesced([sparse(), sparse()]),
    lambda g: g.reduce([full(1), full(1)]), lambda g: g.reduce(full(1), root=7),
    lambda g: g.reduce([full(1)], given(c10d.ReduceOptions, True, rootTensor=1)),
    lambda g: g.allgather([], []), lambda g: g.allgather([], [full(1)]),
    lambda g: g.allgather([[full(1)]], [full(1)]), lambda g: g.allgather([[full(1)] * 2] * 2,
                                                                         [full(1)]),
    lambda g: g.allgather([[full(1)] * 4] * 2, [full(1), full(1, 2)]),
    lambda g: g.allgather([[full(1)] * 4] * 2, [full(1), full(1).int()]),
    lambda g: g.allgather_coalesced([[full(1)]] * 3, [full(1)]),
    lambda g: g.allgather_coalesced([[full(1)] * 2] * 2, [full(1)]),
    lambda g: g.allgather_coalesced([[full(1)], [full(1, 2)]], [full(1)]),
    lambda g: g.allgather_coalesced([[torch.ones(4)]] * 2, [torch.ones(2, 2)]),
    lambda g: g.allgather_coalesced([[full(1)], [full(1).int()]], [full(1)]),
    lambda g: g.allgather([[torch.ones(4)] * 2], [torch.ones(2, 2)]),
    lambda g: g.allgather_into_tensor_coalesced([full(1, 2)], [full(1)] * 2),
    lambda g: g.gather([], []), lambda g: g.gather([], [full(1)] * 2),
    lambda g: g.gather([], [full(1)], given(c10d.GatherOptions, True, rootRank=g.rank())),
    lambda g: g.gather([[full(1)]], [full(1)], given(c10d.GatherOptions, True,
                                                     rootRank=g.rank())),
    lambda g: g.gather([[full(1)] * 2], [full(1)], given(c10d.GatherOptions, True,
                                                         rootRank=1 - g.rank())),
    lambda g: g.scatter([], []), lambda g: g.scatter([full(1)] * 2, []),
    lambda g: g.scatter([full(1)], [], given(c10d.ScatterOptions, True, rootRank=g.rank())),
    lambda g: g.scatter([full(1)], [[full(1)] * 2], given(c10d.ScatterOptions, True,
                                                          rootRank=1 - g.rank())),
    lambda g: g.scatter([full(1)], [[full(1, 2)] * 2], given(c10d.ScatterOptions, True,
                                                             rootRank=g.rank())),
    lambda g: g.scatter([torch.ones(4)], [[torch.ones(2, 2)] * 2],
                        given(c10d.ScatterOptions, True, rootRank=g.rank())),
    lambda g: g.gather([[torch.ones(4)] * 2], [torch.ones(2, 2)],
                       given(c10d.GatherOptions, True, rootRank=g.rank())),
    lambda g: g.reduce_scatter([full(1)] * 2, [[full(1)] * 2] * 2),
    lambda g: g.reduce_scatter(full(1), [full(1)]),
    lambda g: g._reduce_scatter_base(full(1), full(1, 2, 3)),
    lambda g: g.alltoall([], []), lambda g: g.alltoall_base(full(1, 2), full(1, 2), [1], [1]),
    lambda g: g.send([full(1)] * 2, 0, 0), lambda g: g.send([full(1)], 0, -1),
    lambda g: g.recv([], 0, 0), lambda g: g.recv([full(1)], 9, 0),
])
def test_arguments_that_do_not_fit_raise_what_gloo_raises(call):
    def body(group, rank):
        with pytest.raises(RuntimeError) as told:
            call(group)
        assert isinstance(told.value, BackendError)
        assert told.value.status_name != "GLOO_ERR_INVALID" or isinstance(told.value, ArgumentError)
        mine = full(1)
        group.allreduce(mine).wait()
        same(mine, full(2))

    on(2, body)


@pytest.mark.parametrize("sizes", [[], [2, 2]])
def test_all_to_all_single_refuses_a_strided_input(sizes):
    def body(group, rank):
        with pytest.raises(ValueError, match=r"strides \[1, 4\].*Tensors must be contiguous"):
            group.alltoall_base(torch.empty(4, 4), torch.ones(4, 4).t(), sizes, sizes)

    on(2, body)


# ---- settings --------------------------------------------------------------------------------------

def test_options_have_the_timeout():
    given_options = c10d.Backend.Options("any", timedelta(seconds=50))
    group = Group(dist.HashStore(), 0, 1, given_options, device=gloo_c.Device("inproc"))
    assert group.options._timeout == timedelta(seconds=50)
    group._set_default_timeout(timedelta(seconds=23))
    assert group.options._timeout == timedelta(seconds=23)
    group.set_timeout(5.0)
    assert group.options._timeout == timedelta(seconds=5)
    group.set_timeout(timedelta.max)
    assert group.options._timeout > timedelta(days=30000)
    group.shutdown()


# ---- comparing calls -------------------------------------------------------------------------------

def test_checks_name_both_calls_and_leave_the_group_as_it_is():
    def body(group, rank):
        group._compare_calls(group.get_group_store(), TIMEOUT)
        ones = torch.ones(20, 10)
        for call, words in (
                (lambda: group.allreduce([ones]) if rank == 0 else group.reduce([ones]),
                 ["ALLREDUCE", "REDUCE", "[20, 10]", "Float", "operation"]),
                (lambda: group.barrier() if rank else group.broadcast(ones, 0),
                 ["BARRIER", "BROADCAST"]),
                (lambda: group.allreduce([torch.ones(2 + rank)]), ["[2]", "[3]", "shapes"]),
                (lambda: group.allreduce([ones if rank else ones.long()]), ["Long", "types"])):
            with pytest.raises(BackendError) as told:
                call()
            assert told.value.status_name == "GLOO_ERR_MISMATCH"
            for word in [*words, "SequenceNumber=", "Collectives differ in the following"]:
                assert word in str(told.value), told.value
        group.allreduce([ones]).wait()
        same(ones, torch.full((20, 10), 2.0))
        outputs = [torch.empty(other + 1) for other in range(2)]
        group.allgather([outputs], [torch.full((rank + 1,), float(rank))]).wait()
        same(torch.cat(outputs), full(0, 1, 1))

    on(2, body)


def test_checks_know_every_collective():
    operations = {function.__name__ for name in dir(Group)
                  if hasattr(function := getattr(Group, name), "__wrapped__")}
    assert operations - {"allreduce_sparse"} == set(_KINDS)


# ---- devices ---------------------------------------------------------------------------------------

def test_the_backend_is_for_all_devices_and_the_default_of_none():
    done = subprocess.run([sys.executable, "-c", """
import torch.distributed as dist
from torch.distributed.distributed_c10d import BackendConfig
before = dict(dist.Backend.default_device_backend_map)  # registered by `import torch`
import gloo_c.torch
assert dist.Backend.default_device_backend_map == before and "gloo_c" not in before.values(), before
devices = BackendConfig(dist.Backend("gloo_c")).get_device_backend_map()
assert devices == dict.fromkeys(["cpu", "cuda", "xpu", "mps", "hpu", "npu"], "gloo_c"), devices
dist.Backend.register_backend("theirs", lambda *_: None, devices=["npu"])
assert dist.Backend.default_device_backend_map["npu"] == "theirs"
print("as expected")
"""], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0 and done.stdout.split() == ["as", "expected"], done.stderr
