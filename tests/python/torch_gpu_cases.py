"""Every operation of the PyTorch backend on tensors in GPU memory, of the stand-in for a driver.
test_torch_gpu.py runs these tests in a process."""

import os
import subprocess
import sys
import threading
import time

import pytest
import standin
import torch
import torch.distributed as dist
import torch_standin
from standin import Gate
from torch._C import _distributed_c10d as c10d
from torch_groups import given, on, same
from torch_standin import Stream

from gloo_c.torch import BackendError, _tensors

SIZE = 3
N = 150_000  # elements of 4 bytes: more than one piece of the pipeline
SUM = dist.ReduceOp.SUM


def values(rank, count, number=0):
    return ((torch.arange(count) * 7 + 3 * rank + number) % 50).to(torch.float32)


class Host:
    """Makes tensors on the CPU, for the results that others are compared with."""

    asynchronous = False

    def __init__(self, rank):
        self.rank, self.made = rank, 0

    def input(self, count):
        self.made += 1
        return values(self.rank, count, self.made)

    def output(self, count):
        return torch.zeros(count)

    def options(self, kind, **fields):
        return given(kind, False, **fields)


class Gpu:
    """Makes tensors on a GPU, whose current stream fills them after a gate has opened."""

    def __init__(self, rank, asynchronous, stream):
        self.rank, self.asynchronous, self.made, self.stream = rank, asynchronous, 0, stream
        self.device, self.pending, self.gate = f"cuda:{stream.index}", [], None

    def input(self, count):
        self.made += 1
        tensor = torch.full((count,), -1.0).to(self.device)
        self.pending.append((tensor, values(self.rank, count, self.made).to(self.device)))
        return tensor

    def output(self, count):
        return torch.zeros(count).to(self.device)

    def options(self, kind, **fields):
        """Closes the gate. All tensors of the call have been made: its options are its last argument."""
        self.close()
        return given(kind, self.asynchronous, **fields)

    def close(self):
        self.copies = torch_standin.copies_to_device()
        self.gate = Gate(self.stream)
        for tensor, wanted in self.pending:
            tensor.copy_(wanted)
        if not self.asynchronous:
            threading.Timer(0.05, self.gate.open).start()

    def open(self, work):
        if self.asynchronous:
            assert not work.is_completed()
            self.gate.open()


def whole(made, count, block):
    """Returns an output, and the rank's block in it, which is the input."""
    output = made.output(count)
    own = output[block * made.rank:block * (made.rank + 1)]
    if isinstance(made, Gpu):
        made.pending.append((own, values(made.rank, block).to(made.device)))
    else:
        own.copy_(values(made.rank, block))
    return output, own


def parts(made, count, sizes):
    return list(made.input(count).split(sizes))


# Each function gets a group, a maker of tensors and the rank. It returns the work, and its outputs.
OPERATIONS = {}


def operation(function):
    OPERATIONS[function.__name__] = function
    return function


@operation
def broadcast(group, made, rank):
    tensor = made.input(N)
    return group.broadcast([tensor], made.options(c10d.BroadcastOptions, rootRank=1)), [tensor]


@operation
def broadcast_of_two(group, made, rank):
    tensors = [made.input(N), made.input(N)]
    return group.broadcast(tensors, made.options(c10d.BroadcastOptions, rootRank=1, rootTensor=1)), tensors


@operation
def allreduce(group, made, rank):
    tensor = made.input(N)
    return group.allreduce([tensor], made.options(c10d.AllreduceOptions, reduceOp=SUM)), [tensor]


@operation
def allreduce_average(group, made, rank):
    tensor = made.input(N)
    return group.allreduce([tensor], made.options(c10d.AllreduceOptions, reduceOp=dist.ReduceOp.AVG)), [tensor]


@operation
def allreduce_scaled(group, made, rank):
    tensor = made.input(N)
    return group.allreduce([tensor], made.options(c10d.AllreduceOptions,
                                                  reduceOp=dist._make_nccl_premul_sum(0.5))), [tensor]


@operation
def allreduce_of_two(group, made, rank):
    tensors = [made.input(N), made.input(N)]
    return group.allreduce(tensors, made.options(c10d.AllreduceOptions, reduceOp=SUM)), tensors


@operation
def allreduce_coalesced(group, made, rank):
    tensors = [made.input(N), made.input(0), made.input(7)]
    return group.allreduce_coalesced(tensors, made.options(c10d.AllreduceCoalescedOptions)), tensors


@operation
def reduce(group, made, rank):
    tensor = made.input(N)
    work = group.reduce([tensor], made.options(c10d.ReduceOptions, reduceOp=SUM, rootRank=2))
    return work, [tensor] if rank == 2 else []


@operation
def allgather(group, made, rank):
    outputs = [made.output(N) for _ in range(SIZE)]
    return group.allgather([outputs], [made.input(N)], made.options(c10d.AllgatherOptions)), outputs


@operation
def allgather_uneven(group, made, rank):
    outputs = [made.output(N * each) for each in range(SIZE)]
    return group.allgather([outputs], [made.input(N * rank)], made.options(c10d.AllgatherOptions)), outputs


@operation
def allgather_of_two(group, made, rank):
    lists = [[made.output(N) for _ in range(2 * SIZE)] for _ in range(2)]
    work = group.allgather(lists, [made.input(N), made.input(N)], made.options(c10d.AllgatherOptions))
    return work, lists[0] + lists[1]


@operation
def all_gather_single(group, made, rank):
    output = made.output(N * SIZE)
    return group.all_gather_single(output, made.input(N), made.options(c10d.AllgatherOptions)), [output]


@operation
def all_gather_single_in_place(group, made, rank):
    output, own = whole(made, N * SIZE, N)
    return group.all_gather_single(output, own, made.options(c10d.AllgatherOptions)), [output]


@operation
def all_gather_single_coalesced(group, made, rank):
    outputs = [made.output(N * SIZE), made.output(3 * SIZE)]
    return group.all_gather_single_coalesced(outputs, [made.input(N), made.input(3)],
                                             made.options(c10d.AllgatherOptions)), outputs


@operation
def allgather_coalesced(group, made, rank):
    lists = [[made.output(N), made.output(3)] for _ in range(SIZE)]
    work = group.allgather_coalesced(lists, [made.input(N), made.input(3)], made.options(c10d.AllgatherOptions))
    return work, [each for outputs in lists for each in outputs]


@operation
def gather(group, made, rank):
    outputs = [[made.output(N) for _ in range(SIZE)]] if rank == 1 else []
    work = group.gather(outputs, [made.input(N)], made.options(c10d.GatherOptions, rootRank=1))
    return work, outputs[0] if outputs else []


@operation
def scatter(group, made, rank):
    output = made.output(N)
    inputs = [[made.input(N) for _ in range(SIZE)]] if rank == 1 else []
    return group.scatter([output], inputs, made.options(c10d.ScatterOptions, rootRank=1)), [output]


@operation
def reduce_scatter(group, made, rank):
    output = made.output(N)
    work = group.reduce_scatter([output], [[made.input(N) for _ in range(SIZE)]],
                                made.options(c10d.ReduceScatterOptions, reduceOp=SUM))
    return work, [output]


@operation
def reduce_scatter_uneven(group, made, rank):
    output = made.output(N * (rank + 1))
    work = group.reduce_scatter([output], [[made.input(N * (each + 1)) for each in range(SIZE)]],
                                made.options(c10d.ReduceScatterOptions, reduceOp=SUM))
    return work, [output]


@operation
def reduce_scatter_single(group, made, rank):
    output = made.output(N)
    return group.reduce_scatter_single(output, made.input(N * SIZE), made.options(
        c10d.ReduceScatterOptions, reduceOp=SUM)), [output]


@operation
def reduce_scatter_single_coalesced(group, made, rank):
    outputs = [made.output(N), made.output(5)]
    work = group.reduce_scatter_single_coalesced(outputs, [made.input(N * SIZE), made.input(5 * SIZE)],
                                                 made.options(c10d.ReduceScatterOptions, reduceOp=SUM))
    return work, outputs


@operation
def alltoall(group, made, rank):
    outputs = [made.output(N) for _ in range(SIZE)]
    work = group.alltoall(outputs, [made.input(N) for _ in range(SIZE)], made.options(c10d.AllToAllOptions))
    return work, outputs


@operation
def alltoall_of_adjacent(group, made, rank):
    output = made.output(N * SIZE)
    work = group.alltoall(list(output.split(N)), parts(made, N * SIZE, N), made.options(c10d.AllToAllOptions))
    return work, [output]


@operation
def alltoall_uneven(group, made, rank):
    outputs = [made.output(1000 * (each + rank)) for each in range(SIZE)]
    work = group.alltoall(outputs, [made.input(1000 * (each + rank)) for each in range(SIZE)],
                          made.options(c10d.AllToAllOptions))
    return work, outputs


@operation
def all_to_all_single(group, made, rank):
    output = made.output(N)
    return group.all_to_all_single(output, made.input(N), [], [], made.options(c10d.AllToAllOptions)), [output]


@operation
def all_to_all_single_uneven(group, made, rank):
    sizes = [1000 * (each + rank) for each in range(SIZE)]
    output = made.output(sum(sizes))
    return group.all_to_all_single(output, made.input(sum(sizes)), sizes, sizes,
                                   made.options(c10d.AllToAllOptions)), [output]


def wanted_of(name):
    def body(group, rank):
        work, outputs = OPERATIONS[name](group, Host(rank), rank)
        work.wait()
        return outputs

    return on(SIZE, body)


def stream_of(rank, side):
    return Stream(rank % 2) if side else Stream(rank % 2, 0)


@pytest.mark.parametrize("side", [False, True], ids=["default stream", "side stream"])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["blocking", "started"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_follow_the_current_stream(name, asynchronous, side):
    wanted, read = wanted_of(name), []

    def body(group, rank):
        stream = stream_of(rank, side)
        made = Gpu(rank, asynchronous, stream)
        with torch.cuda.stream(stream):
            work, outputs = OPERATIONS[name](group, made, rank)
        made.open(work)
        assert work.wait() and work.is_completed()
        assert torch_standin.copies_to_device() == made.copies, "tensors were copied back by PyTorch"
        made.gate.open()
        with torch.cuda.stream(Stream(stream.index)):  # the result is there for every stream
            for found, expected in zip(outputs, wanted[rank], strict=True):
                assert found.device.type == "cuda"
                read.extend([1] if found.numel() else [])
                same(found.cpu(), expected)

    before = torch_standin.copies_to_host()
    on(SIZE, body)
    assert torch_standin.copies_to_host() - before == len(read), "tensors were copied by PyTorch"


def test_a_barrier_waits_for_pending_collectives():
    def body(group, rank):
        stream = Stream(rank % 2)
        made = Gpu(rank, True, stream)
        with torch.cuda.stream(stream):
            work, outputs = allreduce(group, made, rank)
            barrier = group.barrier(given(c10d.BarrierOptions, True))
        assert not barrier.is_completed()
        made.gate.open()
        barrier.wait()
        assert work.is_completed()

    on(SIZE, body)


@pytest.mark.parametrize("side", [False, True], ids=["default stream", "side stream"])
def test_messages_follow_the_current_stream(side):
    def body(group, rank):
        stream = stream_of(rank, side)
        made = Gpu(rank, rank > 0, stream)
        with torch.cuda.stream(stream):
            tensor = made.input(N)
            if rank == 0:
                for peer in (1, 2):
                    made.close()
                    group.send([tensor], peer, 7).wait()
                return
            made.close()
            work = group.recv([tensor], 0, 7) if rank == 1 else group.recv_anysource([tensor], 7)
        made.open(work)
        work.wait()
        assert rank == 1 or work.source_rank() == 0
        same(tensor.cpu(), values(0, N, 1))

    on(SIZE, body)


# ---- copies --------------------------------------------------------------------------------------

def columns(rank):
    """Returns a tensor that is not contiguous."""
    return values(rank, 400).reshape(20, 20).to(f"cuda:{rank % 2}").t()


@pytest.mark.parametrize("asynchronous", [False, True], ids=["blocking", "started"])
def test_others_than_plain_tensors_are_copied(asynchronous):
    total = sum(values(rank, 400) for rank in range(SIZE)).reshape(20, 20).t()

    def body(group, rank):
        with torch.cuda.stream(Stream(rank % 2)):
            tensor = columns(rank)
            group.allreduce([tensor], given(c10d.AllreduceOptions, asynchronous)).wait()
            same(tensor.cpu().contiguous(), total.contiguous())
            outputs = [torch.zeros(20, 20).to("cuda:0") for _ in range(SIZE)]
            group.allgather([outputs], [columns(rank)], given(c10d.AllgatherOptions, asynchronous)).wait()
            for each, output in enumerate(outputs):
                same(output.cpu(), columns(each).cpu().contiguous())
            conjugate = torch.complex(values(rank, 9), values(rank, 9)).to("cuda:0").conj()
            outputs = [torch.zeros(9, dtype=torch.complex64).to("cuda:1") for _ in range(SIZE)]
            group.allgather([outputs], [conjugate], given(c10d.AllgatherOptions, asynchronous)).wait()
            for each, output in enumerate(outputs):
                same(output.cpu(), torch.complex(values(each, 9), -values(each, 9)))

    on(SIZE, body)


@pytest.mark.parametrize("how", ["wait", "future", "thread"])
def test_copies_after_a_call_are_complete_when_it_is(how):
    """The input is one of the outputs, so the result is copied on the GPU afterwards: in the stream of the
    call, though another thread may do it."""

    def body(group, rank):
        stream = Stream(rank % 2)
        made = Gpu(rank, True, stream)
        with torch.cuda.stream(stream):
            outputs = [made.output(N) for _ in range(SIZE)]
            mine = outputs[(rank + 1) % SIZE]
            made.pending.append((mine, values(rank, N).to(made.device)))
            work = group.allgather([outputs], [mine], made.options(c10d.AllgatherOptions))
        made.open(work)
        later, never = Gate(stream), Gate(Stream(rank % 2, 0))  # before the copies
        threading.Timer(0.1, later.open).start()
        if how == "future":
            work.get_future().wait()
        elif how == "thread":
            thread = threading.Thread(target=work.wait)
            thread.start()
            thread.join()
        else:
            work.wait()
        with torch.cuda.stream(Stream(rank % 2)):
            for each, output in enumerate(outputs):
                same(output.cpu(), values(each, N))
        never.open()

    on(SIZE, body)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["blocking", "started"])
def test_a_stream_follows_the_callbacks_of_a_future(asynchronous):
    def body(group, rank):
        stream, opened = Stream(rank % 2), []
        made = Gpu(rank, asynchronous, stream)
        more = values(rank, N, 9).to(made.device)
        with torch.cuda.stream(stream):
            work, outputs = allreduce(group, made, rank)

            def callback(future):
                tensor = future.value()[0]
                opened.append(Gate(torch.cuda.current_stream(tensor.device)))
                tensor.copy_(more)
                return [tensor]

            future = work.get_future().then(callback)
            made.gate.open()
            found, = future.wait()
            threading.Timer(0.05, opened[0].open).start()
            assert found is outputs[0]
            same(found.cpu(), values(rank, N, 9))

    on(SIZE, body)


def test_tensors_on_several_devices():
    def body(group, rank):
        streams = [Stream(0), Stream(1)]
        tensors = [torch.full((N,), -1.0).to(f"cuda:{index}") for index in range(2)]
        wanted = [values(rank, N, index).to(f"cuda:{index}") for index in range(2)]
        gates = [Gate(stream) for stream in streams]
        with torch.cuda.stream(streams[0]), torch.cuda.stream(streams[1]):
            for tensor, filled in zip(tensors, wanted):
                tensor.copy_(filled)
            work = group.allreduce(tensors, given(c10d.AllreduceOptions, True))
        gates[0].open()
        time.sleep(0.02)
        assert not work.is_completed()
        gates[1].open()
        work.wait()
        total = sum(values(each, N, index) for each in range(SIZE) for index in range(2))
        for tensor in tensors:
            same(tensor.cpu(), total)

    on(SIZE, body)


def test_tensors_of_other_allocations_are_not_adjacent(monkeypatch):
    monkeypatch.setattr(_tensors, "plain", lambda _tensor: True)

    class Beside:
        """A tensor that begins where the other one ends."""

        def __init__(self, tensor, at):
            self.tensor, self.at = tensor, at

        def __getattr__(self, name):
            return getattr(self.tensor, name)

        def data_ptr(self):
            return self.at

    first, second = torch.zeros(8).to("cuda:0"), torch.zeros(8).to("cuda:0")
    assert _tensors.adjacent([first, Beside(second, first.data_ptr() + first.nbytes)]) is None
    assert _tensors.adjacent(list(first.split(4))) is not None


# ---- the package without a process group ---------------------------------------------------------

@pytest.mark.parametrize("named", ["no stream", "its stream", "another stream"])
def test_tensors_in_calls_of_a_context(pair, named):
    def body(c):
        stream, other = Stream(c.rank), Stream(c.rank)
        tensor = torch.full((N,), -1.0).to(f"cuda:{c.rank}").requires_grad_()
        wanted = values(c.rank, N).to(f"cuda:{c.rank}")
        gate = Gate(stream)
        with torch.cuda.stream(stream):
            tensor.detach().copy_(wanted)
        with torch.cuda.stream(stream), torch.cuda.device("cuda:0"):
            request = c.allreduce_start(tensor, **{
                "no stream": {}, "its stream": {"stream": stream}, "another stream": {"stream": other}}[named])
        assert not request.done()
        gate.open()
        request.wait()
        return tensor.detach().cpu()

    for found in pair.run(body):
        same(found, values(0, N) + values(1, N))


# ---- errors --------------------------------------------------------------------------------------

def test_an_error_of_the_driver_names_it():
    def body(group, rank):
        tensor = values(rank, N).to("cuda:0")
        group.barrier().wait()
        if rank == 0:
            standin.cuda.standin_fail(b"cuMemcpyAsync", 1, 700)
        group.allreduce([tensor], given(c10d.AllreduceOptions, False))

    errors = on(2, body, errors=True)
    standin.cuda.standin_fail(b"cuMemcpyAsync", 0, 0)
    for error in errors:
        assert isinstance(error, BackendError), error
        assert "CUDA" in str(error) and "CUDA_ERROR_ILLEGAL_ADDRESS" in str(error)


def test_without_cuda_in_the_library(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import os
import torch_standin
import torch
os.environ["GLOO_CUDA"] = "0"
from torch._C import _distributed_c10d as c10d
from torch_groups import given, on, same

def body(group, rank):
    for asynchronous in (False, True):
        tensor = torch.full((1000,), rank + 1.0).to("cuda:0")
        with torch.cuda.stream(torch_standin.Stream(0)):
            group.allreduce([tensor], given(c10d.AllreduceOptions, asynchronous)).wait()
        same(tensor.cpu(), torch.full((1000,), 3.0))

on(2, body)
assert torch_standin.copies_to_host() == 8
print("copied")
""")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=100, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(
                              [os.path.dirname(os.path.abspath(__file__)), os.environ.get("PYTHONPATH", "")])})
    assert done.returncode == 0 and done.stdout.split() == ["copied"], done.stdout + done.stderr


# ---- the pipeline --------------------------------------------------------------------------------

def test_pieces_are_sent_while_others_are_copied():
    """Rank 1 sees the tensor arrive in pieces, since copies of the stand-in are slow (see
    test_torch_gpu.py), and messages are not."""
    pieces, each = 16, (512 << 10) // 4

    def body(group, rank):
        tensor = torch.ones(pieces * each).to("cuda:0") if rank == 0 else torch.zeros(pieces * each)
        group.barrier().wait()
        work, seen = group.broadcast([tensor], given(c10d.BroadcastOptions, True)), set()
        while rank == 1 and not work.is_completed():
            seen.add(int(tensor[each - 1::each].sum()))
        work.wait()
        assert rank == 0 or tensor.all()
        return seen

    seen = on(2, body)[1]
    print("pieces that had arrived while others were copied:", sorted(seen))
    assert len(seen - {0, pieces}) >= 2, seen  # a message has several pieces
