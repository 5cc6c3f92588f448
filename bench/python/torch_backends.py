"""Times of torch.distributed's all_reduce, and of steps of DDP, with gloo_c and with PyTorch's gloo.

usage: torchrun --nproc-per-node N bench/python/torch_backends.py [--json FILE]

Both backends take turns in the same processes; medians. Needs torch and gloo_c."""

import argparse
import datetime
import json
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gloo_c.torch  # noqa: F401

SIZES = ((4, 300, 15), (16 << 10, 300, 15), (1 << 20, 30, 15), (64 << 20, 2, 7))


def timed(call, repeats):
    dist.barrier()
    begun = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begun) / repeats * 1e6


def slowest(microseconds):
    """That of the rank that took longest."""
    value = torch.tensor(microseconds, dtype=torch.float64)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return value.item()


def all_reduces(groups):
    for size, repeats, rounds in SIZES:
        data, taken = torch.zeros(size // 4), {name: [] for name in groups}
        for round_ in range(rounds + 1):
            for name, group in groups.items():
                one = slowest(timed(lambda: dist.all_reduce(data, group=group), repeats))
                if round_ > 0:
                    taken[name].append(one)
        yield f"all_reduce, {size} bytes", taken


def overlapped(groups):
    """What is left of a step that starts an operation, computes for 300 us, and waits."""
    def compute():
        until = time.perf_counter() + 300e-6
        while time.perf_counter() < until:
            pass

    for size in (16 << 10, 1 << 20):
        data, taken = torch.zeros(size // 4), {name: [] for name in groups}
        for round_ in range(12):
            for name, group in groups.items():
                def step():
                    work = dist.all_reduce(data, group=group, async_op=True)
                    compute()
                    work.wait()

                one = slowest(timed(step, 50))
                if round_ > 0:
                    taken[name].append(one)
        yield f"start, 300 us, wait, {size} bytes", taken


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(),
                         nn.Linear(2048, 128))


def ddp_steps(groups, steps=24):
    given = torch.randn(16, 1024, generator=torch.Generator().manual_seed(dist.get_rank()))
    wanted = torch.randn(16, 128, generator=torch.Generator().manual_seed(7))
    for bucket in (25, 4):
        jobs, taken = {}, {name: [] for name in groups}
        for name, group in groups.items():
            module = DistributedDataParallel(model(), process_group=group, bucket_cap_mb=bucket)
            jobs[name] = module, torch.optim.SGD(module.parameters(), lr=0.01)
        for step in range(steps + 4):
            for name, (module, optimizer) in jobs.items():
                def train():
                    optimizer.zero_grad()
                    (module(given) - wanted).square().mean().backward()
                    optimizer.step()

                one = slowest(timed(train, 1))
                if step >= 4:
                    taken[name].append(one)
        yield f"DDP, 26 MB, buckets of {bucket} MB", taken


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    groups = {"gloo": dist.group.WORLD, "gloo_c": dist.new_group(backend="gloo_c")}
    found = {}
    for measure in (all_reduces, overlapped, ddp_steps):
        for name, taken in measure(groups):
            medians = {key: statistics.median(values) for key, values in taken.items()}
            found[name] = {**medians, "ratio": medians["gloo_c"] / medians["gloo"]}
            if dist.get_rank() == 0:
                print(f"{name:34} gloo {medians['gloo']:10.1f} us   gloo_c "
                      f"{medians['gloo_c']:10.1f} us   {found[name]['ratio']:.2f}", flush=True)
    if options.json and dist.get_rank() == 0:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"ranks": dist.get_world_size(), "torch": torch.__version__,
                       "times": found}, file, indent=1)
    dist.barrier()
    dist.destroy_process_group()


main()
