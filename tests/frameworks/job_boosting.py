"""XGBoost or LightGBM beside a context of gloo_c. Every rank prints what it has trained, as a checksum:
alone, without gloo_c in the process; beside, while another thread makes allreduces, in a forked child, and
with XGBoost's own collectives between the same ranks.

Arguments: xgboost or lightgbm; alone or beside."""

import hashlib
import multiprocessing
import sys
import threading

import numpy

ROWS, ROUNDS = 1000, 8


def table(seed):
    rows = numpy.random.default_rng(seed).normal(size=(ROWS, 8))
    return rows, rows[:, 0] * rows[:, 1] + numpy.sin(rows[:, 2])


def model_of(library, seed, threads=2):
    rows, wanted = table(seed)
    if library == "xgboost":
        import xgboost
        given = {"nthread": threads, "tree_method": "hist", "verbosity": 0}
        return xgboost.train(given, xgboost.DMatrix(rows, wanted, nthread=threads), ROUNDS).get_dump()
    import lightgbm
    given = {"num_threads": threads, "objective": "regression", "deterministic": True, "force_row_wise": True,
             "verbosity": -1}
    text = lightgbm.train(given, lightgbm.Dataset(rows, wanted), ROUNDS).model_to_string()
    return [line for line in text.splitlines() if "num_threads" not in line]


def checksum(trees):
    return hashlib.sha256("\n".join(trees).encode()).hexdigest()[:16]


def own_collectives(context):
    """Trains one XGBoost model of the rows of all ranks by XGBoost's collectives, whose tracker runs on rank
    0. Its address travels by gloo_c."""
    import xgboost
    from xgboost.tracker import RabitTracker
    port, tracker = numpy.zeros(1, "int32"), None
    if context.rank == 0:
        tracker = RabitTracker(n_workers=context.size, host_ip="127.0.0.1", timeout=60)
        tracker.start()
        port[0] = int(tracker.worker_args()["dmlc_tracker_port"])
    context.broadcast(port, root=0)
    with xgboost.collective.CommunicatorContext(dmlc_communicator="rabit", dmlc_tracker_uri="127.0.0.1",
                                                dmlc_tracker_port=int(port[0])):
        assert xgboost.collective.get_world_size() == context.size
        trees = model_of("xgboost", context.rank)
    if tracker is not None:
        tracker.wait_for(60)
    return trees


def in_child(library, seed, results):
    """The forked child has one thread for OpenMP, whose other threads the fork has left behind."""
    import gloo_c
    with gloo_c.Context(0, 1, gloo_c.MemoryStore()) as context:
        context.barrier()
        results.put(checksum(model_of(library, seed, threads=1)))


def beside(library):
    import gloo_c
    calls, done = 0, threading.Event()
    with gloo_c.init(timeout=60) as context, context.split(0) as other:
        def reduce_on():
            nonlocal calls
            more, values = numpy.zeros(1, "int32"), numpy.empty(5000)
            while True:
                more[0] = not done.is_set()
                other.allreduce(more, op="max")
                if more[0] == 0:
                    return
                values[:] = other.rank + 1
                other.allreduce(values)
                assert (values == other.size * (other.size + 1) / 2).all()
                calls += 1

        thread = threading.Thread(target=reduce_on)
        thread.start()
        print(f"trained {context.rank} {checksum(model_of(library, context.rank))}", flush=True)
        if library == "xgboost":
            print(f"together {context.rank} {checksum(own_collectives(context))}", flush=True)
        done.set()
        thread.join()
        assert calls > 0
        fork = multiprocessing.get_context("fork")
        results = fork.Queue()
        child = fork.Process(target=in_child, args=(library, context.rank, results))
        child.start()
        print(f"child {context.rank} {results.get(timeout=60)}", flush=True)
        child.join()
        context.barrier()


if __name__ == "__main__":
    if sys.argv[2] == "alone":
        for rank in range(2):
            print(f"trained {rank} {checksum(model_of(sys.argv[1], rank))}", flush=True)
        assert not any(name.partition(".")[0] == "gloo_c" for name in sys.modules)
    else:
        beside(sys.argv[1])
