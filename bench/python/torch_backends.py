"""Times of torch.distributed with gloo_c and with PyTorch's gloo.

usage: torchrun --nproc-per-node N bench/python/torch_backends.py [--only PART...] [--json FILE] [--svg FILE]

The parts are in PARTS. All ways to do the same take turns in the same processes; medians. --svg draws how
long each step of DDP took (needs matplotlib). Needs torch and gloo_c. The part "decoding" also measures
the kernels of DeepSpeed and vLLM, where these packages are installed; they serve the ranks of one host."""

import argparse
import datetime
import importlib.util
import json
import os
import statistics
import time
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

import gloo_c.torch

SIZES = ((4, 300, 15), (16 << 10, 300, 15), (1 << 20, 30, 15), (64 << 20, 2, 7))


def timed(call, repeats):
    dist.barrier()
    begun = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begun) / repeats * 1e6


def slowest(microseconds):
    """Returns the time of the slowest rank."""
    value = torch.tensor(microseconds, dtype=torch.float64)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return value.item()


def in_turns(ways, repeats, rounds, warm=1):
    """Returns the times of each way, which is a function."""
    taken = {name: [] for name in ways}
    for round_ in range(rounds + warm):
        for name, way in ways.items():
            one = slowest(timed(way, repeats))
            if round_ >= warm:
                taken[name].append(one)
    return taken


def all_reduces(groups):
    for size, repeats, rounds in SIZES:
        data = torch.zeros(size // 4)
        ways = {name: partial(dist.all_reduce, data, group=group) for name, group in groups.items()}
        yield f"all_reduce, {size} bytes", in_turns(ways, repeats, rounds)


# ---- inference -----------------------------------------------------------------------------------

HIDDEN = 4096  # 8 KiB of bfloat16


def deepspeed_sum():
    """Returns DeepSpeed's sum, None if it is not installed. Rank 0 builds it first, once in a minute."""
    if importlib.util.find_spec("deepspeed") is None:
        return None
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ["LOCAL_SIZE"] = str(dist.get_world_size())
    from deepspeed.ops.op_builder.cpu import ShareMemCommBuilder

    for turn in range(2):
        if (dist.get_rank() > 0) == turn:
            kernel = ShareMemCommBuilder().load(verbose=False)
        dist.barrier()
    kernel.initialize(dist.get_world_size(), dist.get_rank())
    return torch.ops.deepspeed.inference_all_reduce_


def vllm_sum():
    """Returns vLLM's sum, None if it is not installed for CPUs."""
    package = importlib.util.find_spec("vllm")
    library = f"_C_{torch.backends.cpu.get_cpu_capability()}.abi3.so"
    library = os.path.join(package.submodule_search_locations[0] if package else "", library)
    if not os.path.exists(library):
        return None
    torch.ops.load_library(library)
    name = f"sum{os.environ['MASTER_PORT']}"
    handle = torch.ops._C.init_shm_manager(name, dist.get_world_size(), dist.get_rank(), 1)
    dist.barrier()
    torch.ops._C.join_shm_manager(handle, name)
    dist.barrier()
    return partial(torch.ops._C.shm_allreduce, handle)


def other_kernels():
    """Returns the sums of other packages, after a check of one call."""
    made = {"deepspeed": deepspeed_sum(), "vllm": vllm_sum()}
    found = {name: kernel for name, kernel in made.items() if kernel}
    for name, kernel in found.items():
        ones = torch.ones(1, HIDDEN, dtype=torch.bfloat16)
        kernel(ones)
        if not torch.all(ones == dist.get_world_size()):
            raise SystemExit(f"the sum of {name} is {ones[0, 0].item()}, not {dist.get_world_size()}")
    return found


@torch.no_grad()
def decoding(groups):
    data, name = torch.zeros(1, HIDDEN, dtype=torch.bfloat16), groups["gloo_c"].group_name
    ways = {each: partial(dist.all_reduce, data, group=group) for each, group in groups.items()}
    ways["operator"] = partial(torch.ops.gloo_c.all_reduce_, data, "sum", name)
    ways.update((each, partial(kernel, data)) for each, kernel in other_kernels().items())
    yield "all_reduce, 8 KiB of bfloat16", in_turns(ways, 300, 15)
    ways = {each: partial(functional_sum, data, group.group_name) for each, group in groups.items()}
    yield "functional all_reduce, 8 KiB of bfloat16", in_turns(ways, 100, 15)


def functional_sum(data, name):
    calls = torch.ops._c10d_functional
    return calls.wait_tensor(calls.all_reduce(data, "sum", name))


@torch.no_grad()
def compiled_layer(groups):
    """Feed-forward layer of one token, whose columns and rows are divided among the ranks (Megatron)."""
    torch.manual_seed(0)
    wide = 4 * HIDDEN // dist.get_world_size()
    up, down = (torch.randn(shape, dtype=torch.bfloat16) / 64 for shape in ((HIDDEN, wide), (wide, HIDDEN)))
    token = torch.randn(1, HIDDEN, dtype=torch.bfloat16)

    def layer(add):
        compiled = torch.compile(lambda x: x + add(nn.functional.gelu(x @ up) @ down), fullgraph=True)
        return partial(compiled, token)

    ways = {"alone": layer(lambda part: part)}
    for name, group in groups.items():
        ways[name] = layer(partial(functional_sum, name=group.group_name))
    ours = groups["gloo_c"].group_name
    ways["operator"] = layer(lambda part: torch.ops.gloo_c.all_reduce(part, "sum", ours))
    for way in ways.values():
        way()
        dist.barrier()
    yield "compiled layer of tensor parallelism", in_turns(ways, 10, 15)


# ---- training ------------------------------------------------------------------------------------


def overlapped(groups):
    """Measures the rest of a step that starts an operation, computes for 300 us, and waits."""
    def compute():
        until = time.perf_counter() + 300e-6
        while time.perf_counter() < until:
            pass

    for size in (16 << 10, 1 << 20):
        data = torch.zeros(size // 4)

        def step(group, data=data):
            work = dist.all_reduce(data, group=group, async_op=True)
            compute()
            work.wait()

        ways = {name: partial(step, group) for name, group in groups.items()}
        yield f"start, 300 us, wait, {size} bytes", in_turns(ways, 50, 11)


# Width of the layers, bucket size in MB, gradients as views of buckets, steps: models of 0.1, 1.8 and 26 MB.
MODELS = ((96, 25, False, 200), (512, 25, False, 100), (2048, 25, False, 40), (2048, 25, True, 40),
          (2048, 4, False, 40))
WARM = 4


def model(width):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width // 2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                         nn.Linear(width, 128))


def no_communication(_state, bucket):
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def ddp_steps(groups):
    for width, bucket, views, steps in MODELS:
        def wrapped(group, hook=None, width=width, bucket=bucket, views=views):
            module = DistributedDataParallel(model(width), process_group=group, bucket_cap_mb=bucket,
                                             gradient_as_bucket_view=views)
            if hook:
                hook(module)
            return module

        given = torch.randn(16, width // 2, generator=torch.Generator().manual_seed(dist.get_rank()))
        wanted = torch.randn(16, 128, generator=torch.Generator().manual_seed(7))
        modules = {"alone": model(width), **{name: wrapped(group) for name, group in groups.items()}}
        modules["shared"] = wrapped(groups["gloo_c"], gloo_c.torch.ddp_buckets)
        modules["hook"] = wrapped(groups["gloo_c"], lambda module: module.register_comm_hook(None, no_communication))
        size = sum(p.nbytes for p in modules["alone"].parameters()) / 1e6
        ways = {name: training(module, given, wanted) for name, module in modules.items()}
        title = f"DDP, {size:.1f} MB, buckets of {bucket} MB" + (", views" if views else "")
        yield title, in_turns(ways, 1, steps, WARM)


def fsdp_steps(groups):
    given = torch.randn(16, 1024, generator=torch.Generator().manual_seed(dist.get_rank()))
    wanted, ways = torch.zeros(16, 128), {}
    for name, group in (*groups.items(), ("shared", groups["gloo_c"])):
        module = model(2048)
        mesh = DeviceMesh.from_group(group, "cpu")
        for layer in module:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(module, mesh=mesh)
        for each in module.modules() if name == "shared" else ():
            if isinstance(each, FSDPModule):
                each.set_allocate_memory_from_process_group_for_comm(True)
        ways[name] = training(module, given, wanted)
    yield "FSDP2, 26.2 MB", in_turns(ways, 1, 40, WARM)


def training(module, given, wanted):
    """Returns a function that trains for one step."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)

    def train():
        optimizer.zero_grad()
        (module(given) - wanted).square().mean().backward()
        optimizer.step()

    return train


def draw(taken, path):
    from matplotlib import pyplot

    figure, plots = pyplot.subplots(1, len(taken), figsize=(4 * len(taken), 3), layout="constrained")
    for plot, (title, times) in zip(plots, taken.items()):
        for name, values in times.items():
            plot.plot([value / 1e3 for value in values], label=name, linewidth=0.8)
        plot.set(title=title, xlabel="step", ylabel="ms")
        plot.set_ylim(bottom=0)
        plot.title.set_fontsize(9)
    plots[0].legend()
    figure.savefig(path)


PARTS = {"sums": all_reduces, "overlap": overlapped, "decoding": decoding, "layer": compiled_layer,
         "ddp": ddp_steps, "fsdp": fsdp_steps}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--json")
    parser.add_argument("--svg")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    groups = {"gloo": dist.group.WORLD, "gloo_c": dist.new_group(backend="gloo_c")}
    found, steps = {}, {}
    for part in options.only:
        for name, taken in PARTS[part](groups):
            if part == "ddp":
                steps[name] = taken
            medians = {key: statistics.median(values) for key, values in taken.items()}
            found[name] = {**medians, "ratio": medians["gloo_c"] / medians["gloo"]}
            if dist.get_rank() == 0:
                print(f"{name:40}", *(f"{key} {value:.1f} us  " for key, value in medians.items()),
                      f"{found[name]['ratio']:.2f}", flush=True)
    if options.json and dist.get_rank() == 0:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"ranks": dist.get_world_size(), "torch": torch.__version__,
                       "times": found}, file, indent=1)
    if options.svg and dist.get_rank() == 0:
        draw(steps, options.svg)
    dist.barrier()
    dist.destroy_process_group()


main()
