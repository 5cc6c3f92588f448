"""Dask workers as ranks, with the Python package alone: the mean and the covariance of a table of which
each worker makes its part, batch by batch. Tasks of one call run at the same time, one on each worker.
If a worker dies, Dask starts it again, and the call is repeated.

    python examples/frameworks/dask_workers.py                                            # on this host
    DASK_SCHEDULER_ADDRESS=tcp://host-a:8786 python examples/frameworks/dask_workers.py   # in a cluster
"""

import os
import secrets
import sys

import numpy
from distributed import Client, LocalCluster, as_completed, get_worker

import gloo_c


def serve(secret):
    """Serves the store on this worker's host, at a free port; returns its address."""
    os.environ["GLOO_JOB_SECRET"] = secret
    worker = get_worker()
    host = worker.address.partition("://")[2].rpartition(":")[0]
    worker.gloo_store = gloo_c.TcpStore(host, serve=True)
    return host, worker.gloo_store.port


def covariance(rank, size, address, secret, batches):
    os.environ["GLOO_JOB_SECRET"] = secret
    store = vars(get_worker()).pop("gloo_store") if rank == 0 else gloo_c.TcpStore(*address)
    noise, mean, square = numpy.random.default_rng(rank), numpy.zeros(3), numpy.zeros((3, 3))
    with gloo_c.Context(rank, size, store, timeout=30) as context:
        print(f"rank {rank} of {size} begins", flush=True)
        for _ in range(batches):
            rows = noise.normal([1.0, 2.0, 3.0], [1.0, 2.0, 0.5], (2000, 3))
            sums, squares = rows.mean(0), rows.T @ rows / len(rows)
            context.allreduce([sums, squares], op="average")
            mean += sums / batches
            square += squares / batches
    return mean, square - numpy.outer(mean, mean)


def run(client, size, batches):
    """Runs one task on each of `size` workers. Raises the first error of a task: that of a rank whose
    peer has died, as the task of the dead one waits for a worker that does not come back."""
    client.wait_for_workers(size)
    workers = list(client.scheduler_info(n_workers=-1)["workers"])[:size]
    secret = secrets.token_hex(32)  # a new one for each job
    address = client.submit(serve, secret, workers=[workers[0]], pure=False).result()
    parts = [client.submit(covariance, rank, size, address, secret, batches, workers=[worker], pure=False)
             for rank, worker in enumerate(workers)]
    try:
        for part in as_completed(parts):
            part.result()
        return client.gather(parts)
    finally:
        client.cancel(parts)


def main(size, batches):
    here = None
    if not os.environ.get("DASK_SCHEDULER_ADDRESS"):
        here = LocalCluster(size, threads_per_worker=1, dashboard_address=None)
    with Client(here) as client:
        for attempt in range(3):
            try:
                found = run(client, size, batches)
                break
            except gloo_c.GlooError as error:
                print(f"attempt {attempt} failed: {error}", flush=True)
        else:
            raise RuntimeError("no attempt was successful")
    if here is not None:
        here.close()
    assert all(numpy.array_equal(one, other) for part in found for one, other in zip(part, found[0]))
    print(f"{size} workers: mean {found[0][0].round(1)}, deviation {numpy.sqrt(numpy.diag(found[0][1])).round(1)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2, int(sys.argv[2]) if len(sys.argv) > 2 else 10)
