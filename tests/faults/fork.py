"""A rank of a job that forks through Python's multiprocessing while it runs.

usage: fork.py LIBRARY (in the environment of `gloo run`)"""

import ctypes
import multiprocessing
import os
import sys

COUNT, ROUNDS, WORKERS = 1000, 6, 2
FLOAT32, SUM, FORKED = None, None, -17

gloo = ctypes.CDLL(sys.argv[1])
gloo.gloo_dtype_name.restype = ctypes.c_char_p
gloo.gloo_op_name.restype = ctypes.c_char_p


def number(name_of, name):
    return next(i for i in range(64) if name_of(i) == name)


def check(condition, what):
    if not condition:
        sys.exit(f"rank {os.environ['RANK']}: {what}")


def allreduce(context, values):
    array = (ctypes.c_float * COUNT)(*values)
    out = (ctypes.c_float * COUNT)()
    status = gloo.gloo_allreduce(context, array, out, ctypes.c_size_t(COUNT), FLOAT32, SUM, None, None)
    return status, list(out)


def work(context, queue, batch):
    """Acts as a data loader that calls the library by mistake, and exits."""
    status, _ = allreduce(context, [1e6] * COUNT)
    queue.put((batch, status, sum(range(batch))))


def lives(context, done):
    """Destroys the inherited context and stays for the whole job."""
    gloo.gloo_context_destroy(context)
    done.wait()


def main():
    global FLOAT32, SUM
    FLOAT32 = number(gloo.gloo_dtype_name, b"float32")
    SUM = number(gloo.gloo_op_name, b"sum")
    context = ctypes.c_void_p()
    check(gloo.gloo_init(None, ctypes.byref(context), None) == 0, "gloo_init")
    rank, size = gloo.gloo_context_rank(context), gloo.gloo_context_size(context)
    fork = multiprocessing.get_context("fork")
    queue, done = fork.Queue(), fork.Event()
    longest = fork.Process(target=lives, args=(context, done))
    longest.start()
    for k in range(ROUNDS):
        workers = [fork.Process(target=work, args=(context, queue, b)) for b in range(WORKERS)]
        for worker in workers:
            worker.start()
        status, got = allreduce(context, [rank + k] * COUNT)
        check(status == 0 and got == [size * (size - 1) / 2 + size * k] * COUNT, f"round {k}")
        for _ in workers:
            batch, status, result = queue.get()
            check(status == FORKED and result == sum(range(batch)), f"a worker got {status}")
        for worker in workers:
            worker.join()
            check(worker.exitcode == 0, f"a worker ended with {worker.exitcode}")
    check(gloo.gloo_context_error(context, ctypes.create_string_buffer(1024)) == 0, "an error")
    gloo.gloo_context_destroy(context)
    done.set()
    longest.join()
    check(longest.exitcode == 0, f"the last worker ended with {longest.exitcode}")


main()
