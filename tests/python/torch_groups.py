"""Process groups of PyTorch whose ranks are threads of this process, for tests."""

from datetime import timedelta

import torch
import torch.distributed as dist
from rank_threads import raise_first, run_threads

import gloo_c
from gloo_c.torch import BackendError, Group

TIMEOUT = timedelta(seconds=30)


def on(size, body, errors=False):
    """Returns the results of body(group, rank) on each of `size` ranks."""
    store, results, raised = dist.HashStore(), [None] * size, []

    def rank_main(rank):
        try:
            group = Group(dist.PrefixStore("test", store), rank, size, TIMEOUT,
                          device=gloo_c.Device("inproc"))
            try:
                results[rank] = body(group, rank)
            finally:
                group.barrier().wait() if not errors and not raised else None
                group.shutdown()
        except BackendError as error:
            results[rank] = error
            if not errors:
                raised.append(error)
        except BaseException as error:
            raised.append(error)

    run_threads(size, rank_main)
    raise_first(raised, BackendError)
    return results


def given(kind, asynchronous, **values):
    options = kind()
    options.asyncOp = asynchronous
    for name, value in values.items():
        setattr(options, name, value)
    return options


def bits(tensor):
    """Returns the elements as bytes, even of types that cannot be compared."""
    if not tensor.numel():
        return tensor.new_empty(0, dtype=torch.uint8)
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def same(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert torch.equal(bits(found), bits(expected)), (found, expected)


def run_cases(cases, wanted, store):
    """Runs functions by name on every rank of a job: those wanted, or all. Rank 0 prints "ok NAME", or "failed NAME:
    WHY" if it failed on any rank, as recorded in the store, so a failure does not end the others."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for name, function in list(cases.items()):
        if wanted and name not in wanted:
            continue
        why = ""
        try:
            function()
        except Exception as error:
            why = f"{type(error).__name__}: {error}".replace("\n", " ")[:500]
        store.set(f"{name}/{rank}", why or "-")
        reasons = [store.get(f"{name}/{other}").decode() for other in range(size)]
        found = [f"rank {other}: {reason}" for other, reason in enumerate(reasons) if reason != "-"]
        if rank == 0:
            print(f"failed {name}: {'; '.join(found)}" if found else f"ok {name}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
