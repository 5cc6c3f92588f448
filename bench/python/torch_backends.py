"""Times of torch.distributed's all_reduce, and of steps of DDP, with gloo_c and with PyTorch's gloo.

usage: torchrun --nproc-per-node N bench/python/torch_backends.py [--ddp] [--json FILE] [--svg FILE]

Both backends take turns in the same processes; medians. --ddp: steps of DDP only. --svg draws how long
each of these steps took (needs matplotlib). Needs torch and gloo_c."""

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
    """Returns the time of the slowest rank."""
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
    """Measures the rest of a step that starts an operation, computes for 300 us, and waits."""
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


# Width of the layers, bucket size in MB, steps: models of 0.1, 1.8, 26 and 26 MB.
MODELS = ((96, 25, 200), (512, 25, 100), (2048, 25, 40), (2048, 4, 40))
WARM = 4


def model(width):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width // 2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                         nn.Linear(width, 128))


def ddp_steps(groups):
    for width, bucket, steps in MODELS:
        given = torch.randn(16, width // 2, generator=torch.Generator().manual_seed(dist.get_rank()))
        wanted = torch.randn(16, 128, generator=torch.Generator().manual_seed(7))
        jobs, taken = {}, {name: [] for name in groups}
        for name, group in groups.items():
            module = DistributedDataParallel(model(width), process_group=group, bucket_cap_mb=bucket)
            jobs[name] = module, torch.optim.SGD(module.parameters(), lr=0.01)
        for step in range(steps + WARM):
            for name, (module, optimizer) in jobs.items():
                def train():
                    optimizer.zero_grad()
                    (module(given) - wanted).square().mean().backward()
                    optimizer.step()

                one = slowest(timed(train, 1))
                if step >= WARM:
                    taken[name].append(one)
        size = sum(p.nbytes for p in jobs["gloo"][0].parameters()) / 1e6
        yield f"DDP, {size:.1f} MB, buckets of {bucket} MB", taken


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddp", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--svg")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    groups = {"gloo": dist.group.WORLD, "gloo_c": dist.new_group(backend="gloo_c")}
    found, steps = {}, {}
    for measure in (ddp_steps,) if options.ddp else (all_reduces, overlapped, ddp_steps):
        for name, taken in measure(groups):
            if measure is ddp_steps:
                steps[name] = taken
            medians = {key: statistics.median(values) for key, values in taken.items()}
            found[name] = {**medians, "ratio": medians["gloo_c"] / medians["gloo"]}
            if dist.get_rank() == 0:
                print(f"{name:34} gloo {medians['gloo']:10.1f} us   gloo_c "
                      f"{medians['gloo_c']:10.1f} us   {found[name]['ratio']:.2f}", flush=True)
    if options.json and dist.get_rank() == 0:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"ranks": dist.get_world_size(), "torch": torch.__version__,
                       "times": found}, file, indent=1)
    if options.svg and dist.get_rank() == 0:
        draw(steps, options.svg)
    dist.barrier()
    dist.destroy_process_group()


main()
