"""Errors as they appear in PyTorch: run by both ranks of a job.

usage: torch_errors.py CASE

Each rank prints its findings, or nothing; a rank that should die does. A rank that gets an
unexpected error ends with a traceback."""

import datetime
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist

import gloo_c
import gloo_c.torch
from gloo_c.torch import BackendError

torch.set_num_threads(1)
CASE = sys.argv[1]
if CASE.startswith("compared"):
    dist.set_debug_level(dist.DebugLevel.DETAIL)
dist.init_process_group("gloo_c", timeout=datetime.timedelta(seconds=5))
RANK = dist.get_rank()
one = torch.ones(4)


def expect(call, *texts, kind=BackendError, rank=None, seconds=4.0):
    begun = time.monotonic()
    try:
        call()
    except kind as error:
        took = time.monotonic() - begun
        for text in texts:
            assert text in str(error), error
        assert rank is None or error.rank == rank, (error, error.rank)
        assert took < seconds + 10, f"after {took} s"
        print(f"rank {RANK}: as expected", flush=True)
        return error
    raise AssertionError("there was no error")


def die():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)


def end_here():
    """Exits without Python's cleanup, which the other rank's death may disturb."""
    sys.stdout.flush()
    os._exit(0)


def killed_in_a_blocking_call():
    if RANK == 1:
        die()
    expect(lambda: dist.all_reduce(one), "rank 1", rank=1)
    end_here()


def killed_in_a_started_call():
    if RANK == 1:
        die()
    work = dist.all_reduce(one, async_op=True)
    future = work.get_future()
    expect(future.wait, "rank 1", kind=RuntimeError)
    expect(work.wait, "rank 1", rank=1)
    assert work.is_completed() and not work.is_success()
    assert isinstance(work.exception(), BackendError)
    end_here()


def killed_in_a_backward_pass():
    module = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
    dist.barrier()
    if RANK == 1:
        die()
    expect(lambda: module(torch.randn(2, 8)).sum().backward(), "rank 1", kind=RuntimeError)
    end_here()


def timeout():
    if RANK == 1:
        time.sleep(7)
        end_here()
    error = expect(lambda: dist.all_reduce(one), "timed out after 5 s", rank=1)
    assert error.status_name == "GLOO_ERR_TIMEOUT" and isinstance(error, RuntimeError)
    end_here()


def a_timeout_of_zero_is_not_the_default():
    dist.barrier()  # rank 0 serves the store, and must not exit before rank 1 has started
    if RANK == 1:
        time.sleep(3)
        end_here()
    begun = time.monotonic()
    expect(lambda: dist.group.WORLD.monitored_barrier(datetime.timedelta(0)), "timed out",
           rank=1)
    assert time.monotonic() - begun < 2
    other = dist.new_group([0], timeout=datetime.timedelta(seconds=5))
    other.set_timeout(datetime.timedelta.max)
    dist.all_reduce(one, group=other)
    end_here()


def wait_again_after_a_timeout():
    if RANK == 0:
        work = dist.all_reduce(one, async_op=True)
        expect(lambda: work.wait(datetime.timedelta(seconds=0.2)), "continues")
        work.wait()
    else:
        time.sleep(1)
        dist.all_reduce(one)
    assert one[0] == 2


def mismatch():
    expect(lambda: dist.all_reduce(torch.ones(4 + RANK)), "4 x float32", "5 x float32")


def abort_from_another_thread():
    if RANK == 0:
        threading.Timer(0.3, dist.group.WORLD.abort).start()
        expect(lambda: dist.all_reduce(one), "gave up")
    else:
        expect(lambda: dist.recv(one, 0), "gave up", rank=0)


def exit_without_destroy():
    dist.all_reduce(one, async_op=True)
    print(f"rank {RANK}: as expected", flush=True)
    sys.exit(0)


def forked_children_do_no_harm():
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(one)
        except BackendError as error:
            dist.destroy_process_group()
            os._exit(0 if "fork" in str(error) else 3)
        os._exit(4)
    assert os.waitpid(child, 0)[1] == 0
    dist.all_reduce(one)
    print(f"rank {RANK}: as expected", flush=True)


def data_loader_workers():
    loader = torch.utils.data.DataLoader(list(range(32)), num_workers=2, batch_size=8)
    for numbers in loader:
        total = numbers.float()
        dist.all_reduce(total)
        assert torch.equal(total, numbers.float() * 2)
    print(f"rank {RANK}: as expected", flush=True)


def groups_fail_alone():
    other = dist.new_group([0, 1])
    expect(lambda: dist.all_reduce(torch.ones(4 + RANK), group=other), "float32")
    dist.all_reduce(one)
    assert one[0] == 2


def compared_calls_differ():
    """With TORCH_DISTRIBUTED_DEBUG=DETAIL the difference is reported before anything is sent, so
    the group remains usable."""
    other = dist.new_group([0, 1])
    for group in (dist.group.WORLD, other):
        expect(lambda: dist.all_reduce(one, group=group) if RANK else dist.broadcast(one, 0, group),
               "ALLREDUCE(", "BROADCAST(", "SequenceNumber=", "Collectives differ in the following")
        expect(lambda: dist.all_reduce(torch.ones(4 + RANK), group=group), "[4]", "[5]")
        total = torch.ones(4)
        dist.all_reduce(total, group=group)
        assert total[0] == 2
    dist.destroy_process_group(other)


def compared_calls_do_not_come():
    if RANK == 1:
        end_here()
    error = expect(lambda: dist.all_reduce(one), "ALLREDUCE(", "Ranks 1 failed to pass monitoredBarrier",
                   rank=1)
    assert isinstance(error, RuntimeError)
    end_here()


def options_give_the_timeout():
    options = dist.ProcessGroupGloo._Options()
    options._timeout = datetime.timedelta(seconds=7)
    group = dist.new_group([0, 1], pg_options=options)
    assert group.options._timeout == options._timeout
    group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=9), pg_options=options)
    assert group.options._timeout == datetime.timedelta(seconds=9)
    assert group.options.global_ranks_in_group == [0, 1]
    dist.all_reduce(one, group=group)
    print(f"rank {RANK}: as expected", flush=True)


globals()[CASE]()
if CASE != "abort_from_another_thread":
    dist.barrier() if CASE not in ("mismatch",) else None
dist.destroy_process_group()
