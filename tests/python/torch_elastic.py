"""Ranks die one after the other, and the survivors continue: run by the four ranks of a job."""

import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import gloo_c.torch

LIMIT = timedelta(seconds=60)
torch.set_num_threads(1)
dist.init_process_group("gloo_c", timeout=LIMIT)
FIRST_RANK = dist.get_rank()


def sum_of(group=None):
    """Returns the sum over the original ranks of this rank's group."""
    total = torch.tensor([float(FIRST_RANK)])
    dist.all_reduce(total, group=group)
    return total.item()


def expect_a_death(call):
    try:
        call()
    except RuntimeError:
        broken = gloo_c.torch.error()
        assert isinstance(broken, gloo_c.torch.BackendError), broken
        return
    raise AssertionError("there was no error")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def check(ranks):
    """Checks the world, a group of its first and last ranks, and a group of all, made of
    FIRST_RANKs `ranks`."""
    assert gloo_c.torch.error() is None
    assert (dist.get_rank(), dist.get_world_size()) == (ranks.index(FIRST_RANK), len(ranks))
    assert sum_of() == sum(ranks)
    ends = sorted({0, len(ranks) - 1})
    group = dist.new_group(ends, timeout=LIMIT)
    if dist.get_rank() in ends:
        assert sum_of(group) == sum(ranks[end] for end in ends)
    gathered = [None] * len(ranks)
    dist.all_gather_object(gathered, FIRST_RANK)
    assert gathered == ranks


def without_3():
    """Rank 1 waits in a group whose members are all alive."""
    pairs = [dist.new_group([0, 1], timeout=LIMIT), dist.new_group([2, 3], timeout=LIMIT)]
    check([0, 1, 2, 3])
    if FIRST_RANK == 3:
        die()
    if FIRST_RANK == 1:
        expect_a_death(lambda: dist.recv(torch.ones(1), 0, group=pairs[0]))
    else:
        expect_a_death(lambda: sum_of(pairs[1] if FIRST_RANK == 2 else None))
    group = gloo_c.torch.shrink(timeout=LIMIT, ranks_min=3)
    assert group is dist.group.WORLD and group.size() == 3


def without_the_first():
    """The first rank serves the store."""
    if dist.get_rank() == 0:
        die()
    expect_a_death(sum_of)
    gloo_c.torch.shrink(timeout=LIMIT)


def too_few():
    expect_a_death(lambda: sum_of() if FIRST_RANK == 2 else die())
    try:
        gloo_c.torch.shrink(timeout=LIMIT, ranks_min=2)
    except gloo_c.torch.BackendError as error:
        assert "1 of 2 ranks are left" in str(error) and error.cause_name == "GLOO_ERR_PEER"
        return
    raise AssertionError("there was no error")


assert gloo_c.torch.error() is None
without_3()
check([0, 1, 2])
without_the_first()
check([1, 2])
if "last" in sys.argv:
    without_the_first()
    check([2])
else:
    too_few()
print("as expected", flush=True)
dist.destroy_process_group()
