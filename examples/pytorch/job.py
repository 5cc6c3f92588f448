"""What the examples share: the ranks of a job, the digits, a step that learns them, and times."""

import argparse
import os
import signal
import statistics
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn


def options(what, **defaults):
    """--backend, and --NAME for each default. Then this process is a rank."""
    parser = argparse.ArgumentParser(description=what,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("gloo", "gloo_c"), default="gloo_c")
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    found = parser.parse_args()
    if found.backend == "gloo_c":
        import gloo_c.torch  # noqa: F401  (it registers the backend)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group(found.backend)
    return found


def say(text):
    if dist.get_rank() == 0:
        print(text, flush=True)


def digits():
    """1,797 images of 8 by 8, each between 0 and 1, and what they show."""
    path = Path(__file__).resolve().parent.parent / "data" / "digits.csv"
    rows = [[int(number) for number in line.split(",")] for line in path.read_text().splitlines()]
    table = torch.tensor(rows)
    return table[:, :64].float() / 16, table[:, 64]


def network():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def backward_of_part(model, images, labels, step):
    """The gradients of a batch of 120, of which each rank takes a part. What DistributedDataParallel
    makes of them, their mean, is the same for any number of ranks."""
    batch = torch.randperm(1500, generator=torch.Generator().manual_seed(step))[:120]
    part = batch[dist.get_rank()::dist.get_world_size()]
    loss = nn.functional.cross_entropy(model(images[part]), labels[part], reduction="sum")
    (loss * dist.get_world_size() / len(batch)).backward()


def die_in_backward(module):
    """This process is killed in the next backward pass. Some gradients have been made by then, and
    are on their way to the other ranks."""
    module[0].weight.register_hook(lambda _gradient: os.kill(os.getpid(), signal.SIGKILL))


def loss_of_all(model, images, labels):
    part = slice(dist.get_rank(), 1500, dist.get_world_size())
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(images[part]), labels[part], reduction="sum")
    dist.all_reduce(loss)
    return loss.item() / 1500


class Clock:
    """The times of steps, without the first ones."""

    def __init__(self):
        self.steps = []

    def __enter__(self):
        self.begun = time.perf_counter()

    def __exit__(self, *_):
        self.steps.append(time.perf_counter() - self.begun)

    def __str__(self):
        steps = self.steps[len(self.steps) // 10:]
        return f"{statistics.median(steps) * 1e3:.2f} ms a step"
