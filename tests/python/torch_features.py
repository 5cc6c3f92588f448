"""Features of PyTorch that work on a backend: run by every rank of a job.

usage: torch_features.py BACKEND [FEATURE...]

Each feature is a function here. Rank 0 prints "ok NAME", or "failed NAME: WHY" if it failed on any
rank, as recorded in the store, so a failure does not end the others. (A group of PyTorch's own gloo
would also work, but programs that have one occasionally abort at exit: its thread releases Python
objects while Python exits.)"""

import datetime
import os
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch_groups import run_cases

import gloo_c.torch  # noqa: F401

warnings.simplefilter("ignore")
torch.set_num_threads(1)
BACKEND = sys.argv[1]
dist.init_process_group(BACKEND, timeout=datetime.timedelta(seconds=30))
RANK, SIZE = dist.get_rank(), dist.get_world_size()
TOTAL = float(SIZE * (SIZE + 1) // 2)
store = dist.PrefixStore("features", dist.distributed_c10d._get_default_store())
FEATURES = {}


def feature(function):
    FEATURES[function.__name__] = function
    return function


def same(found, expected):
    assert torch.equal(found, expected), f"{found} is not {expected}"


def model(*sizes):
    torch.manual_seed(1)
    layers = []
    for before, after in zip(sizes, sizes[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def batch(step, width):
    return torch.randn(4, width, generator=torch.Generator().manual_seed(100 * step + RANK))


def is_shared(tensor):
    """Returns true if the memory of a tensor is a file, as that of gloo_alloc is."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            begin, end = (int(each, 16) for each in line.split()[0].split("-"))
            if begin <= tensor.data_ptr() < end:
                return int(line.split()[4]) != 0
    return False


def alike_everywhere(module):
    """Checks that all ranks have bitwise equal parameters."""
    mine = torch.cat([p.detach().flatten() for p in module.parameters()])
    others = [torch.empty_like(mine) for _ in range(SIZE)]
    dist.all_gather(others, mine)
    for other in others:
        same(other, mine)


def train(module, width, steps=4, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(module.parameters(), lr=0.05)
    for step in range(steps):
        optimizer.zero_grad()
        module(batch(step, width)).square().mean().backward()
        optimizer.step()


# ---- operations through torch.distributed ---------------------------------------------------------

@feature
def operations():
    one = torch.full((4,), RANK + 1.0)
    dist.all_reduce(one)
    same(one, torch.full((4,), TOTAL))
    complex_one = torch.full((3,), 1 + 1j) * (RANK + 1)
    dist.all_reduce(complex_one)
    same(complex_one, torch.full((3,), 1 + 1j) * TOTAL)
    truth = torch.tensor([RANK == 0, False, True])
    dist.all_reduce(truth)
    same(truth, torch.tensor([True, False, True]))
    whole = torch.empty(2 * SIZE)
    dist.all_gather_into_tensor(whole, torch.full((2,), float(RANK)))
    same(whole, torch.arange(SIZE).repeat_interleave(2).float())
    part = torch.empty(2)
    dist.reduce_scatter_tensor(part, whole)
    same(part, torch.full((2,), float(RANK * SIZE)))
    dist.barrier()
    work = dist.all_reduce(torch.ones(10), async_op=True)
    future = work.get_future().then(lambda over: over.value()[0] + 1)
    same(future.wait(), torch.full((10,), SIZE + 1.0))


@feature
def barrier_after_collectives():
    for asynchronous in (False, True) * 5:
        tensors = [torch.full((100, 100), float(number)) for number in range(16)]
        for tensor in tensors:
            dist.all_reduce(tensor, async_op=True)
        work = dist.barrier(async_op=asynchronous)
        if asynchronous:
            work.wait()
        for number, tensor in enumerate(tensors):
            same(tensor, torch.full((100, 100), float(number * SIZE)))


@feature
def premul_sum():
    mine = torch.full((3,), RANK + 1.0)
    dist.all_reduce(mine, op=dist._make_nccl_premul_sum(0.5))
    same(mine, torch.full((3,), TOTAL / 2))


@feature
def messages():
    got = torch.empty(3)
    calls = [dist.P2POp(dist.isend, torch.full((3,), float(RANK)), (RANK + 1) % SIZE),
             dist.P2POp(dist.irecv, got, (RANK - 1) % SIZE)] if SIZE > 1 else []
    for work in dist.batch_isend_irecv(calls) if calls else []:
        work.wait()
    if SIZE > 1:
        same(got, torch.full((3,), float((RANK - 1) % SIZE)))
        if RANK == 0:
            assert sorted(dist.recv(torch.empty(1)) for _ in range(SIZE - 1)) == list(range(1, SIZE))
        else:
            dist.send(torch.ones(1), 0)


@feature
def objects():
    everything = [None] * SIZE
    dist.all_gather_object(everything, {"rank": RANK, "text": "x" * (100 * RANK)})
    assert [each["rank"] for each in everything] == list(range(SIZE))
    listed = [("from", RANK), {1, 2}]
    dist.broadcast_object_list(listed, SIZE - 1)
    assert listed == [("from", SIZE - 1), {1, 2}]
    gathered = [None] * SIZE if RANK == 0 else None
    dist.gather_object(RANK * 2, gathered, 0)
    assert RANK or gathered == [2 * rank for rank in range(SIZE)]
    mine = [None]
    dist.scatter_object_list(mine, [f"for {rank}" for rank in range(SIZE)] if RANK == 0 else None, 0)
    assert mine == [f"for {RANK}"]


@feature
def coalescing_manager():
    one, two = torch.ones(3), torch.ones(4)
    with dist._coalescing_manager(async_ops=True) as manager:
        dist.all_reduce(one)
        dist.all_reduce(two)
    manager.wait()
    same(one, torch.full((3,), float(SIZE)))
    same(two, torch.full((4,), float(SIZE)))
    outputs = [torch.empty(SIZE * 3), torch.empty(SIZE * 2)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for output in outputs:
            dist.all_gather_into_tensor(output, torch.full((output.numel() // SIZE,), float(RANK)))
    manager.wait()
    same(outputs[1], torch.arange(SIZE).repeat_interleave(2).float())


@feature
def groups():
    everyone = dist.new_group(list(range(SIZE)))
    one = torch.ones(2)
    dist.all_reduce(one, group=everyone)
    same(one, torch.full((2,), float(SIZE)))
    dist.destroy_process_group(everyone)
    for size in range(1, SIZE + 1):
        some = dist.new_group(list(range(size)))
        if RANK < size:
            one = torch.ones(1)
            dist.all_reduce(one, group=some)
            same(one, torch.tensor([float(size)]))
            assert dist.get_group_rank(some, RANK) == RANK


@feature
def backends_by_device():
    """Requires PyTorch 2.14; older versions report that."""
    if torch.__version__ < "2.14":
        try:
            dist.new_group(list(range(SIZE)), backend="cpu:gloo_c,cuda:gloo")
        except NotImplementedError as error:
            assert "since 2.14" in str(error)
            return
        raise AssertionError("it was not refused")
    mixed = dist.new_group(list(range(SIZE)), backend="cpu:gloo_c,cuda:gloo")
    one = torch.ones(2)
    dist.all_reduce(one, group=mixed)
    same(one, torch.full((2,), float(SIZE)))
    outputs = [torch.empty(1) for _ in range(SIZE)]
    work = dist.all_gather(outputs, torch.tensor([float(RANK)]), group=mixed, async_op=True)
    work.wait()
    same(torch.cat(outputs), torch.arange(float(SIZE)))
    dist.destroy_process_group(mixed)


@feature
def gather_single():
    """Requires PyTorch 2.14."""
    if not hasattr(dist, "gather_single"):
        return
    for work in (False, True):
        output = torch.full((SIZE, 2), -1.0) if RANK == SIZE - 1 else None
        done = dist.gather_single(torch.full((2,), float(RANK)), output, dst=SIZE - 1, async_op=work)
        if work:
            done.wait()
        if output is not None:
            same(output, torch.arange(float(SIZE)).repeat_interleave(2).view(SIZE, 2))


@feature
def split_groups():
    whole = dist.group.WORLD
    some = [rank for rank in range(SIZE) if rank != 1]
    for turn in range(2):
        every, part = whole.split_group(list(reversed(range(SIZE)))), whole.split_group(some, group_name="part")
        assert (every.rank(), every.size()) == (SIZE - 1 - RANK, SIZE) and (part is None) == (RANK == 1)
        for group, ranks in ((every, range(SIZE)), (part, some)):
            if group is not None:
                one = torch.full((3,), RANK + 1.0)
                group.allreduce([one]).wait()
                same(one, torch.full((3,), sum(rank + 1.0 for rank in ranks)))
    for wrong in ([0, 0], [SIZE], [-1]):
        try:
            whole.split_group(wrong)
        except ValueError as error:
            assert "it must have different ranks" in str(error)
        else:
            raise AssertionError(wrong)
    try:
        whole.merge_remote_group(store, SIZE, datetime.timedelta(seconds=1))
    except NotImplementedError:
        pass
    else:
        raise AssertionError("merge_remote_group")
    assert not whole.supports_reconfigure and not whole.supports_window


@feature
def all_to_all_needs_a_dimension_to_divide():
    if SIZE == 1:
        return
    try:
        dist.all_to_all_single(torch.tensor(0.0), torch.tensor(1.0))
    except ValueError as error:
        assert "cannot be divided by" in str(error)
    else:
        raise AssertionError("nothing was moved")


@feature
def names():
    assert dist.get_backend() == BACKEND
    world = dist.group.WORLD
    world._get_sequence_number_for_group()
    assert dist.get_process_group_ranks(world) == list(range(SIZE))
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=30), world)
    dist.all_reduce(torch.ones(1))


@feature
def profiler():
    module = DistributedDataParallel(nn.Linear(4, 4))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        dist.all_reduce(torch.ones(4))
        module(torch.ones(2, 4)).sum().backward()
        dist.all_gather([torch.empty(3) for _ in range(SIZE)], torch.ones(3), async_op=True).wait()
        if SIZE > 1 and RANK < 2:
            dist.send(torch.ones(1), 1) if RANK == 0 else dist.recv(torch.ones(1), 0)
        dist.barrier()
    names = [event.name for event in profile.events()]
    found = {name.partition(":")[2]: names.count(name) for name in names
             if name.startswith(BACKEND + ":")}
    expected = {"all_reduce": 2, "barrier": 1}
    if SIZE > 1 and RANK < 2:
        expected["recv" if RANK else "send"] = 1
    assert expected.items() <= found.items() and {"all_gather", "wait"} <= found.keys(), found


# ---- data-parallel training ----------------------------------------------------------------------

@feature
def ddp():
    module = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8),
                                                   nn.Linear(8, 2)), bucket_cap_mb=0.0001)
    train(module, 8)
    alike_everywhere(module)


@feature
def ddp_equals_one_rank():
    """The mean of all ranks' gradients, computed by hand."""
    module, alone = DistributedDataParallel(model(8, 16, 1)), model(8, 16, 1)
    train(module, 8)
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.05)
    for step in range(4):
        optimizer.zero_grad()
        for rank in range(SIZE):
            given = torch.randn(4, 8, generator=torch.Generator().manual_seed(100 * step + rank))
            (alone(given).square().mean() / SIZE).backward()
        optimizer.step()
    for one, other in zip(module.parameters(), alone.parameters()):
        assert torch.allclose(one, other, atol=1e-6)


@feature
def ddp_find_unused():
    class Some(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.other = nn.Linear(8, 4), nn.Linear(8, 4)

        def forward(self, given):
            return (self.used if RANK % 2 == 0 else self.other)(given)

    module = DistributedDataParallel(Some(), find_unused_parameters=True)
    train(module, 8)
    alike_everywhere(module)


@feature
def ddp_hooks():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    for hook in (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook):
        module = DistributedDataParallel(model(8, 4, 2))
        module.register_comm_hook(None, hook)
        train(module, 8)
        alike_everywhere(module)


@feature
def ddp_powersgd():
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    module = DistributedDataParallel(nn.Linear(64, 64))
    module.register_comm_hook(powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2),
                              powerSGD_hook.powerSGD_hook)
    train(module, 64, steps=5)
    alike_everywhere(module)


@feature
def ddp_join():
    module = DistributedDataParallel(nn.Linear(8, 4))
    with module.join():
        train(module, 8, steps=2 + RANK)


@feature
def ddp_sparse_embedding():
    module = DistributedDataParallel(nn.Embedding(20, 4, sparse=True))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        module(torch.tensor([RANK, 5, step])).square().sum().backward()
        optimizer.step()
    alike_everywhere(module)


@feature
def ddp_buckets():
    """Bits are those without it, unless quotients by the number of ranks are rounded."""
    for views in (False, True):
        mean, shared = (DistributedDataParallel(model(64, 256, 64), bucket_cap_mb=0.05, gradient_as_bucket_view=views)
                        for _ in range(2))
        gloo_c.torch.ddp_buckets(shared)
        for module in (mean, shared):
            train(module, 64)
        for one, other in zip(mean.parameters(), shared.parameters()):
            for mean_, other_ in ((one, other), (one.grad, other.grad)):
                assert torch.equal(other_, mean_) if SIZE & (SIZE - 1) == 0 else torch.allclose(other_, mean_)
            assert is_shared(other.grad) == views and not is_shared(one.grad)
    try:
        gloo_c.torch.ddp_buckets(model(8, 4))
    except TypeError as error:
        assert "the model is Sequential; it must be" in str(error)
    else:
        raise AssertionError("a model without DDP")


@feature
def ddp_buckets_join():
    module = DistributedDataParallel(model(8, 4), find_unused_parameters=True)
    gloo_c.torch.ddp_buckets(module)
    with module.join():
        train(module, 8, steps=2 + RANK)


@feature
def ddp_buckets_sparse():
    weight = torch.randn(20, 4, generator=torch.Generator().manual_seed(1))
    modules = [DistributedDataParallel(nn.Embedding.from_pretrained(weight.clone(), freeze=False, sparse=True))
               for _ in range(2)]
    gloo_c.torch.ddp_buckets(modules[1])
    for module in modules:
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            module(torch.tensor([RANK, 5, step])).square().sum().backward()
            optimizer.step()
    assert torch.allclose(*(module.module.weight for module in modules))


@feature
def sync_batch_norm_is_refused_by_pytorch():
    """It requires an accelerator; the error is PyTorch's own."""
    error = ""
    try:
        nn.SyncBatchNorm(4)(torch.randn(2, 4))
    except (ValueError, RuntimeError) as raised:
        error = str(raised)
    assert "GPU" in error or "cuda" in error.lower() or "expected" in error, error


@feature
def zero_redundancy_optimizer():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    module = DistributedDataParallel(model(8, 16, 2))
    optimizer = ZeroRedundancyOptimizer(module.parameters(), torch.optim.Adam, lr=0.01)
    train(module, 8, optimizer=optimizer)
    alike_everywhere(module)


# ---- sharded training ----------------------------------------------------------------------------

@feature
def fsdp1():
    from torch.distributed.fsdp import FullyShardedDataParallel

    module = FullyShardedDataParallel(model(16, 32, 4), device_id=torch.device("cpu"))
    train(module, 16)


@feature
def fsdp2():
    from torch.distributed.fsdp import fully_shard

    module, alone = model(16, 32, 4), model(16, 32, 4)
    for layer in module:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(module)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (module, alone)]
    for step in range(3):
        given = torch.randn(4, 16, generator=torch.Generator().manual_seed(step))
        losses = []
        for each, optimizer in zip((module, alone), optimizers):
            optimizer.zero_grad()
            losses.append(each(given).square().mean())
            losses[-1].backward()
            optimizer.step()
        assert torch.allclose(*losses), losses


@feature
def fsdp2_memory_of_the_group():
    """FSDP2 gets its buffers from the group; after the first step from the memory of buffers that are gone."""
    from torch.distributed.fsdp import FSDPModule, fully_shard

    given, states = [], []
    for own in (False, True):
        module = model(16, 32, 4)
        for layer in module:
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        fully_shard(module)
        if own:
            allocate = dist.group.WORLD.allocate_tensor
            dist.group.WORLD.allocate_tensor = lambda *args, **named: given.append(allocate(*args, **named)) or given[-1]
            for each in module.modules():
                if isinstance(each, FSDPModule):
                    each.set_allocate_memory_from_process_group_for_comm(True)
        train(module, 16)
        states.append([parameter.full_tensor() for parameter in module.parameters()])
    del dist.group.WORLD.allocate_tensor
    assert given and all(is_shared(tensor) for tensor in given if tensor.numel()), given
    for one, other in zip(*states):
        same(other, one)


@feature
def shared_tensors():
    for tensor in (gloo_c.torch.empty(3, 5), gloo_c.torch.empty((7,), dtype=torch.float16),
                   gloo_c.torch.empty(torch.Size([2, 0])), gloo_c.torch.empty(1 << 20, dtype=torch.uint8)):
        assert tensor.numel() == 0 or is_shared(tensor)
        tensor.fill_(1)
        dist.all_reduce(tensor)
        same(tensor, torch.full_like(tensor, SIZE))
    address = tensor.data_ptr()
    del tensor
    assert gloo_c.torch.empty(1 << 20, dtype=torch.uint8).data_ptr() == address
    assert (gloo_c.torch.empty(5).dtype, gloo_c.torch.empty().shape) == (torch.float32, ())


@feature
def device_mesh():
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (SIZE,))
    assert mesh.size() == SIZE == mesh.get_group().size()
    shape = (SIZE // 2, 2) if SIZE % 2 == 0 else (SIZE, 1)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("rows", "columns"))
    one = torch.ones(2)
    dist.all_reduce(one, group=mesh.get_group("columns"))
    same(one, torch.full((2,), float(shape[1])))


@feature
def dtensor():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (SIZE,))
    torch.manual_seed(2)
    whole = torch.randn(4 * SIZE, 2 * SIZE)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    same(sharded.full_tensor(), whole)
    same(sharded.redistribute(mesh, [Shard(1)]).full_tensor(), whole)
    assert torch.allclose(sharded.sum().full_tensor(), whole.sum(), atol=1e-5)
    weight = torch.randn(2 * SIZE, 5)
    product = sharded @ distribute_tensor(weight, mesh, [Replicate()])
    assert torch.allclose(product.full_tensor(), whole @ weight, atol=1e-5)


@feature
def tensor_parallel():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   parallelize_module)

    module, alone = model(8, 4 * SIZE, 8), model(8, 4 * SIZE, 8)
    parallelize_module(module, init_device_mesh("cpu", (SIZE,)),
                       {"0": ColwiseParallel(), "2": RowwiseParallel()})
    given = torch.randn(4, 8, generator=torch.Generator().manual_seed(3))
    found = module(given)
    assert torch.allclose(found, alone(given), atol=1e-5)
    found.sum().backward()


@feature
def checkpoints():
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.fsdp import fully_shard

    folder = [tempfile.mkdtemp() if RANK == 0 else None]
    dist.broadcast_object_list(folder, 0)
    module = nn.Linear(16, 8)
    fully_shard(module)
    state = module.state_dict()
    before = state["weight"].full_tensor().clone()
    checkpoint.save(state, checkpoint_id=folder[0])
    with torch.no_grad():
        module.weight.zero_()
    checkpoint.load(state, checkpoint_id=folder[0])
    same(state["weight"].full_tensor(), before)
    future = checkpoint.async_save({"plain": torch.ones(3)}, checkpoint_id=folder[0] + "/async")
    future.result()
    assert os.path.exists(folder[0] + "/async/.metadata")


# ---- compiled code -------------------------------------------------------------------------------

@feature
def functional_collectives():
    import torch.distributed._functional_collectives as functional

    world = dist.group.WORLD
    same(functional.all_reduce(torch.ones(3), "sum", world) + 0, torch.full((3,), float(SIZE)))
    whole = torch.arange(SIZE).repeat_interleave(2).float()
    same(functional.all_gather_tensor(torch.full((2,), float(RANK)), 0, world) + 0, whole)
    same(functional.reduce_scatter_tensor(whole, "sum", 0, world) + 0,
         torch.full((2,), float(RANK * SIZE)))
    same(functional.all_to_all_single(torch.full((SIZE,), float(RANK)), None, None, world) + 0,
         torch.arange(SIZE).float())
    same(functional.broadcast(torch.full((2,), float(RANK)), 0, world) + 0, torch.zeros(2))
    many = functional.all_reduce_coalesced([torch.ones(3), torch.ones(2)], "sum", world)
    same(many[1] + 0, torch.full((2,), float(SIZE)))


@feature
def compiled():
    def work(given):
        doubled = given * 2
        dist.all_reduce(doubled)
        return doubled + 1

    expected = torch.full((3,), 2.0 * SIZE + 1)
    same(torch.compile(work, backend="aot_eager", fullgraph=True)(torch.ones(3)), expected)


@feature
def autograd():
    import torch.distributed.nn.functional as functional

    given = torch.ones(3, requires_grad=True)
    functional.all_reduce(given).sum().backward()
    same(given.grad, torch.full((3,), float(SIZE)))


run_cases(FEATURES, sys.argv[2:], store)
