"""Two ranks admit a third, and go on without it: run by each of them. Argument: a store's URL."""

import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import gloo_c
import gloo_c.torch

LIMIT = timedelta(seconds=60)
torch.set_num_threads(1)
store = gloo_c.UrlStore(sys.argv[1])
newcomer = os.environ["RANK"] == "2"


def check(size):
    assert dist.get_world_size() == size and gloo_c.torch.error() is None
    total = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(total)
    assert total.item() == sum(range(size))
    ends = dist.new_group([0, size - 1], timeout=LIMIT)
    if dist.get_rank() in (0, size - 1):
        dist.all_reduce(total, group=ends)
        assert total.item() == 2 * sum(range(size))
    gathered = [None] * size
    dist.all_gather_object(gathered, dist.get_rank())
    assert gathered == list(range(size))


def join():
    group = gloo_c.torch.join(store, wait=LIMIT, timeout=LIMIT)
    assert group is dist.group.WORLD and dist.get_rank() == 2
    assert dist.get_backend() == "gloo_c"
    try:
        gloo_c.torch.join(store)
    except ValueError as failure:
        assert "exists" in str(failure)
    else:
        raise AssertionError("there was no error")
    check(3)
    os.kill(os.getpid(), signal.SIGKILL)


def admit():
    dist.init_process_group("gloo_c", timeout=LIMIT, rank=int(os.environ["RANK"]), world_size=2)
    own = dist.get_rank()
    assert gloo_c.torch.grow(gloo_c.PrefixStore(store, "empty/")) is None
    assert dist.get_world_size() == 2
    old = dist.new_group([0, 1], timeout=LIMIT)
    group = gloo_c.torch.grow(store, newcomers=1, wait=LIMIT)
    assert group is dist.group.WORLD and dist.get_rank() == own
    check(3)
    try:
        dist.all_reduce(torch.ones(1), group=old)
    except (RuntimeError, ValueError):  # it was destroyed
        pass
    else:
        raise AssertionError("there was no error")
    try:
        while True:
            dist.barrier()
    except RuntimeError:
        assert gloo_c.torch.error() is not None
    gloo_c.torch.shrink(timeout=LIMIT)
    check(2)
    dist.destroy_process_group()
    print("as expected", flush=True)


join() if newcomer else admit()
