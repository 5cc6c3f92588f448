"""Cases of torch.ops.gloo_c, which each rank of one job runs.

usage: torch_operators.py c|python [CASE...]

Rank 0 prints "ok NAME", or "failed NAME: WHY" if a case failed on any rank, as recorded in the store. With
"python" the kernels are those in Python."""

import datetime
import os
import signal
import sys
import threading
import time
import warnings

import _cffi_backend
import torch
import torch.distributed as dist

warnings.simplefilter("ignore")
if sys.argv[1] == "python":
    torch._C.__file__ = _cffi_backend.__file__  # a loaded module without PyTorch's interface

import gloo_c
import gloo_c.torch
from torch_groups import run_cases

torch.set_num_threads(1)
dist.init_process_group("gloo_c", timeout=datetime.timedelta(seconds=60))
RANK, SIZE = dist.get_rank(), dist.get_world_size()
WORLD = dist.group.WORLD.group_name
NATIVE = gloo_c.torch.operators().native
ops = torch.ops.gloo_c
store = dist.PrefixStore("operators", dist.distributed_c10d._get_default_store())
CASES = {}

NUMBERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32,
           torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64,
           torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2]
CALLS = {"all_reduce_": lambda x, name: ops.all_reduce_(x, "sum", name),
         "all_reduce": lambda x, name: ops.all_reduce(x, "sum", name),
         "all_gather": lambda x, name: ops.all_gather(x, SIZE, name),
         "reduce_scatter": lambda x, name: ops.reduce_scatter(x, "sum", SIZE, name),
         "broadcast_": lambda x, name: ops.broadcast_(x, 0, name),
         "all_to_all": lambda x, name: ops.all_to_all(x, name)}


def case(function):
    CASES[function.__name__] = function
    return function


def same(found, expected):
    assert found.dtype is expected.dtype and torch.equal(found, expected), f"{found} is not {expected}"


def given(rank, dtype=torch.float32, rows=2 * SIZE):
    """Returns a tensor of small whole numbers that differ by rank and place."""
    return ((torch.arange(rows * 3) + rank) % 3).reshape(rows, 3).to(dtype)


def raises(kinds, words, call, *arguments):
    try:
        call(*arguments)
    except Exception as error:
        for kind in kinds:
            assert isinstance(error, kind), f"{type(error).__name__} is not a {kind.__name__}: {error}"
        assert words in str(error), str(error)
        return error
    raise AssertionError(f"no error with {words!r}")


@case
def results_and_types():
    for dtype in NUMBERS:
        every = [given(rank, dtype) for rank in range(SIZE)]
        total = torch.stack([each.to(torch.complex128 if dtype.is_complex else torch.float64)
                             for each in every]).sum(0).to(dtype)
        mine = every[RANK].clone()
        same(ops.all_reduce(mine, "sum", WORLD), total)
        same(mine, every[RANK])
        same(ops.reduce_scatter(mine, "sum", SIZE, WORLD), total[2 * RANK:2 * RANK + 2])
        assert ops.all_reduce_(mine, "sum", WORLD) is None
        same(mine, total)
    for dtype in [*NUMBERS, torch.bool, torch.complex32, torch.float8_e4m3fnuz]:
        every = [given(rank, torch.uint8).view(torch.uint8) for rank in range(SIZE)]
        width = torch.empty((), dtype=dtype).element_size()
        raw = [(each if dtype is not torch.bool else each % 2).repeat(1, width).contiguous() for each in every]
        mine = raw[RANK].view(dtype)
        gathered = ops.all_gather(mine, SIZE, WORLD)
        assert gathered.dtype is dtype
        same(gathered.view(torch.uint8), torch.cat(raw))
        same(ops.all_to_all(mine, WORLD).view(torch.uint8),
             torch.cat([each[2 * RANK:2 * RANK + 2] for each in raw]))
        root = SIZE - 1
        changed = mine.clone()
        assert ops.broadcast_(changed, root, WORLD) is None
        same(changed.view(torch.uint8), raw[root])


@case
def operations():
    every = torch.tensor([[1 + rank, 6 >> rank, -rank] for rank in range(SIZE)])
    expected = {"sum": every.sum(0), "max": every.amax(0), "min": every.amin(0), "product": every.prod(0)}
    for name, function in (("band", torch.bitwise_and), ("bor", torch.bitwise_or), ("bxor", torch.bitwise_xor)):
        total = every[0]
        for each in every[1:]:
            total = function(total, each)
        expected[name] = total
    for name, total in expected.items():
        same(ops.all_reduce(every[RANK].clone(), name, WORLD), total)
    same(ops.all_reduce(every[RANK].double(), "avg", WORLD), every.double().mean(0))
    bools = torch.tensor([RANK == 0, True, False])
    for name, total in {"sum": [True, True, False], "max": [True, True, False], "product": [SIZE == 1, True, False],
                        "min": [SIZE == 1, True, False], "bxor": [True, SIZE % 2 == 1, False]}.items():
        same(ops.all_reduce(bools, name, WORLD), torch.tensor(total))


@case
def strides_and_shapes():
    whole = torch.arange(24.0).reshape(2 * 3, 4) + RANK
    column = whole[:, 1]
    ops.all_reduce_(column, "sum", WORLD)
    expected = torch.arange(24.0).reshape(6, 4) * SIZE + sum(range(SIZE))
    same(column, expected[:, 1])
    same(whole[:, 0], torch.arange(24.0).reshape(6, 4)[:, 0] + RANK)
    turned = given(RANK).t()
    found = ops.all_gather(turned, SIZE, WORLD)
    assert found.is_contiguous()
    same(found, torch.cat([given(rank).t() for rank in range(SIZE)]))
    spread = (torch.zeros(3, 2) + RANK)[:, 0]
    ops.broadcast_(spread, SIZE - 1, WORLD)
    same(spread, torch.full((3,), float(SIZE - 1)))
    same(ops.all_reduce(torch.tensor(2.5), "sum", WORLD), torch.tensor(2.5 * SIZE))
    same(ops.all_gather(torch.tensor(RANK), SIZE, WORLD), torch.arange(SIZE))
    for shape in ((0,), (SIZE, 0, 2)):
        empty = torch.empty(shape)
        ops.all_reduce_(empty, "sum", WORLD)
        assert ops.all_reduce(empty, "sum", WORLD).shape == shape
        assert ops.all_gather(empty, SIZE, WORLD).shape == (shape[0] * SIZE, *shape[1:])
        assert ops.reduce_scatter(empty, "sum", SIZE, WORLD).shape == (shape[0] // SIZE, *shape[1:])
    turned = (torch.ones(4, dtype=torch.complex64) * 1j).conj()
    same(ops.all_reduce(turned, "sum", WORLD), torch.full((4,), -1j * SIZE, dtype=torch.complex64))


@case
def groups():
    alone = [dist.new_group([rank], backend="gloo_c") for rank in range(SIZE)][RANK]
    same(ops.all_reduce(torch.ones(2), "sum", alone.group_name), torch.ones(2))
    same(ops.all_reduce(torch.ones(2), "sum", WORLD), torch.full((2,), float(SIZE)))
    name = alone.group_name
    if NATIVE:  # as with ranks that are threads of one process
        second = gloo_c._native.add(dist.group.WORLD._context, name)
        raises((gloo_c.torch.ArgumentError,), f"several process groups named '{name}'", ops.all_reduce_,
               torch.ones(2), "sum", name)
        gloo_c._native.remove(second)
        same(ops.all_reduce(torch.ones(2), "sum", name), torch.ones(2))
    dist.destroy_process_group(alone)
    for what, call in CALLS.items():
        error = raises((gloo_c.torch.ArgumentError, dist.DistBackendError, ValueError), f"'{name}'", call,
                       torch.ones(SIZE), name)
        assert f"torch.ops.gloo_c.{what.rstrip('_')}" in str(error) and "destroyed" in str(error)
    raises((gloo_c.torch.ArgumentError,), "''", ops.all_reduce_, torch.ones(2), "sum", "")


@case
def refusals():
    kind = (gloo_c.torch.ArgumentError, RuntimeError)
    raises(kind, "reduce_op is 'median'; valid: sum, avg", ops.all_reduce_, torch.ones(2), "median", WORLD)
    raises(kind, f"group_size is {SIZE + 1}", ops.all_gather, torch.ones(2), SIZE + 1, WORLD)
    raises(kind, f"group_size is {SIZE + 1}", ops.reduce_scatter, torch.ones(2), "sum", SIZE + 1, WORLD)
    raises(kind, f"src is {SIZE}; the group has ranks 0 to {SIZE - 1}", ops.broadcast_, torch.ones(2), SIZE, WORLD)
    raises(kind, "src is -1", ops.broadcast_, torch.ones(2), -1, WORLD)
    raises(kind, f"the {SIZE + 1} rows", ops.all_to_all, torch.ones(SIZE + 1), WORLD)
    raises(kind, "the 1 rows", ops.reduce_scatter, torch.tensor(1.0), "sum", SIZE, WORLD)
    raises((*kind, TypeError), "has no arithmetic", ops.all_reduce, torch.ones(2, dtype=torch.complex32), "sum",
           WORLD)
    raises((*kind, TypeError), "not defined for", ops.all_reduce, torch.ones(2, dtype=torch.bool), "avg", WORLD)
    raises((gloo_c.torch.BackendError,), "", ops.all_reduce, torch.ones(2), "bor", WORLD)
    error = raises((RuntimeError,), "expected at most 3", ops.all_reduce_, torch.ones(2), "sum", WORLD, 4)
    assert not isinstance(error, gloo_c.GlooError)  # an error of PyTorch stays what it is
    same(ops.all_reduce(torch.ones(2), "sum", WORLD), torch.full((2,), float(SIZE)))


@case
def opcheck():
    for tensor in (given(RANK), given(RANK, torch.bfloat16), given(RANK).requires_grad_()):
        for name, arguments in {"all_reduce": ("sum", WORLD), "all_gather": (SIZE, WORLD),
                                "reduce_scatter": ("sum", SIZE, WORLD), "all_to_all": (WORLD,)}.items():
            torch.library.opcheck(getattr(ops, name).default, (tensor, *arguments))
    for name, arguments in {"all_reduce_": ("max", WORLD), "broadcast_": (0, WORLD)}.items():
        torch.library.opcheck(getattr(ops, name).default, (given(RANK), *arguments))


@case
def gradients():
    scale = torch.arange(1.0, 2 * SIZE + 1).reshape(-1, 1) * (RANK + 1)
    total = SIZE * (SIZE + 1) / 2
    rows = torch.arange(1.0, 2 * SIZE + 1).reshape(-1, 1).expand(-1, 3)
    tensor = given(RANK).requires_grad_()
    (ops.all_reduce(tensor, "sum", WORLD) * scale).sum().backward()
    same(tensor.grad, rows * total)
    tensor.grad = None
    (ops.all_reduce(tensor, "avg", WORLD) * scale).sum().backward()
    same(tensor.grad, rows * total / SIZE)
    short = torch.ones(2, 3, requires_grad=True)
    (ops.all_gather(short, SIZE, WORLD) * scale).sum().backward()
    same(short.grad, rows[2 * RANK:2 * RANK + 2] * total)
    for reduce_op, factor in (("sum", 1.0), ("avg", 1 / SIZE)):
        tensor.grad = None
        (ops.reduce_scatter(tensor, reduce_op, SIZE, WORLD) * (RANK + 1)).sum().backward()
        same(tensor.grad, torch.arange(1.0, SIZE + 1).repeat_interleave(2).reshape(-1, 1).expand(-1, 3) * factor)
    tensor.grad = None
    (ops.all_to_all(tensor, WORLD) * scale).sum().backward()
    same(tensor.grad, torch.cat([(rows * (rank + 1))[2 * RANK:2 * RANK + 2] for rank in range(SIZE)]))
    raises((NotImplementedError,), "reduce_op 'max' has no gradient",
           lambda: ops.all_reduce(tensor, "max", WORLD).sum().backward())


@case
def in_place_refuses_gradients():
    tensor = torch.ones(3, requires_grad=True)
    for what, argument in (("all_reduce_", "sum"), ("broadcast_", 0)):
        for call in (getattr(ops, what), getattr(ops, what).default):
            raises((NotImplementedError,), f"torch.ops.gloo_c.{what} changes a tensor that requires a gradient", call,
                   tensor, argument, WORLD)
            with torch.no_grad():
                call(tensor.detach().clone().requires_grad_(), argument, WORLD)
    ops.all_reduce_(input=torch.ones(3), reduce_op="sum", group_name=WORLD)


@case
def compiled():
    def layer(x):
        hidden = torch.relu(x) + 1
        ops.all_reduce_(hidden, "sum", WORLD)
        return ops.all_gather(hidden * 2, SIZE, WORLD).sum(0), ops.all_reduce(x.t(), "max", WORLD)

    with torch.no_grad():
        expected = layer(given(RANK))
        found = torch.compile(layer, fullgraph=True, backend="aot_eager")(given(RANK))
        for one, other in zip(found, expected):
            same(one, other)


@case
def inference_mode():
    with torch.inference_mode():
        tensor = torch.ones(3)
        ops.all_reduce_(tensor, "sum", WORLD)
        same(ops.all_reduce(tensor, "sum", WORLD), torch.full((3,), float(SIZE * SIZE)))


@case
def other_threads_run_meanwhile():
    """The GIL is released: a thread counts while rank 0 waits for the others."""
    counted, over = [0], threading.Event()

    def count():
        while not over.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    if RANK != 0:
        store.get("late")
    else:
        threading.Timer(0.3, lambda: store.set("late", "1")).start()
    before = counted[0]
    ops.all_reduce_(torch.ones(3), "sum", WORLD)
    if RANK == 0:
        assert counted[0] - before > 20, counted[0] - before
    over.set()
    thread.join()


@case
def a_deadline_passes():
    late = dist.new_group(backend="gloo_c", timeout=datetime.timedelta(seconds=0.5))
    tensor = torch.ones(2)
    if RANK == 0:
        error = raises((gloo_c.torch.BackendError, dist.DistBackendError), "timed out after 0.5 s",
                       ops.all_reduce_, tensor, "sum", late.group_name)
        assert error.cause_name == "GLOO_ERR_TIMEOUT" and error.rank in range(1, SIZE), error
        error = raises((gloo_c.torch.BackendError,), "", ops.all_gather, tensor, SIZE, late.group_name)
        assert error.status_name == "GLOO_ERR_POISONED", error
        store.set("passed", "1")
    store.get("passed")
    dist.destroy_process_group(late)


@case
def an_abort_ends_a_wait():
    ended = dist.new_group(backend="gloo_c")
    if RANK == 0:
        threading.Timer(0.2, ended.abort).start()
        raises((gloo_c.torch.BackendError,), "abort", ops.all_reduce_, torch.ones(2), "sum", ended.group_name)
    dist.barrier()
    dist.destroy_process_group(ended)


@case
def a_child_forked_during_a_call_ends():
    if RANK == 0:
        tensor = torch.ones(2)
        thread = threading.Thread(target=ops.all_reduce_, args=(tensor, "sum", WORLD))
        thread.start()
        time.sleep(0.3)  # the thread is in the call now
        child = os.fork()
        if child == 0:
            dist.group.WORLD._context.close()
            os._exit(7)
        for _ in range(300):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            time.sleep(0.1)
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        store.set("forked", "1")
        thread.join()
        assert ended and os.waitstatus_to_exitcode(status) == 7, "the child waits for a call of its parent"
        same(tensor, torch.full((2,), float(SIZE)))
    else:
        store.get("forked")
        ops.all_reduce_(torch.ones(2), "sum", WORLD)


@case
def short_asynchronous_collectives():
    """A call that ends at once needs no request; one whose peers come later does not wait for them."""
    alone = [dist.new_group([rank], backend="gloo_c") for rank in range(SIZE)][RANK]
    tensor = torch.ones(3)
    work = dist.all_reduce(tensor, group=alone, async_op=True)
    assert type(work).__name__ == "Ended" and work.is_completed() and work.get_future().done(), work
    if RANK == 0:
        work = dist.all_reduce(tensor, async_op=True)
        assert type(work).__name__ == "Started" and not work.is_completed()
        second = dist.all_reduce(torch.ones(3), async_op=True)
        store.set("begun", "1")
        work.wait()
        second.wait()
    else:
        store.get("begun")
        dist.all_reduce(tensor)
        dist.all_reduce(torch.ones(3))
    same(tensor, torch.full((3,), float(SIZE)))
    found = torch.ops._c10d_functional.all_reduce(tensor, "sum", WORLD)
    same(torch.ops._c10d_functional.wait_tensor(found), torch.full((3,), float(SIZE * SIZE)))
    dist.destroy_process_group(alone)


@case
def the_default_group_again():
    """Graphs keep the name of a group: a later group with the same name takes its place."""
    name, address = WORLD, store.get("address") if RANK else None
    if RANK == 0:
        again = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        store.set("address", str(again.port))
    else:
        again = dist.TCPStore("127.0.0.1", int(address), is_master=False)
    store.set(f"here/{RANK}", "1")
    store.wait([f"here/{rank}" for rank in range(SIZE)])
    dist.destroy_process_group()
    raises((gloo_c.torch.ArgumentError,), "destroyed", ops.all_reduce_, torch.ones(2), "sum", name)
    dist.init_process_group("gloo_c", store=again, rank=RANK, world_size=SIZE)
    assert dist.group.WORLD.group_name == name
    same(ops.all_reduce(torch.ones(2), "sum", name), torch.full((2,), float(SIZE)))


assert NATIVE == (sys.argv[1] == "c"), gloo_c.torch.operators()
print("operators:", gloo_c.torch.operators().why, flush=True)
run_cases(CASES, sys.argv[2:], store)
