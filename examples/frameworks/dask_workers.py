"""Dask workers as ranks, with the Python package alone: the mean and the covariance of a table of which
each worker has made its part. Tasks of one call run at the same time, one on each worker.

    python examples/frameworks/dask_workers.py
"""

import os
import secrets
import sys

import numpy
from distributed import Client, LocalCluster, get_worker

import gloo_c


def serve():
    """Serves the store on this worker's host, at a free port; returns its address."""
    worker = get_worker()
    host = worker.address.partition("://")[2].rpartition(":")[0]
    worker.gloo_store = gloo_c.TcpStore(host, serve=True)
    return host, worker.gloo_store.port


def covariance(rank, size, address):
    store = vars(get_worker()).pop("gloo_store") if rank == 0 else gloo_c.TcpStore(*address)
    rows = numpy.random.default_rng(rank).normal([1.0, 2.0, 3.0], [1.0, 2.0, 0.5], (20000, 3))
    with gloo_c.Context(rank, size, store, timeout=30) as context:
        mean = rows.mean(0)
        context.allreduce(mean, op="average")
        square = (rows - mean).T @ (rows - mean) / len(rows)
        context.allreduce(square, op="average")
    return mean, square


def main(size):
    os.environ["GLOO_JOB_SECRET"] = secrets.token_hex(32)  # a new one for each job; workers inherit it
    with LocalCluster(size, threads_per_worker=1, dashboard_address=None) as cluster, \
            Client(cluster) as client:
        workers = list(client.scheduler_info(n_workers=-1)["workers"])
        address = client.submit(serve, workers=[workers[0]]).result()
        parts = [client.submit(covariance, rank, size, address, workers=[worker], pure=False)
                 for rank, worker in enumerate(workers)]
        found = client.gather(parts)
    assert all(numpy.array_equal(one, other) for part in found for one, other in zip(part, found[0]))
    print(f"{size} workers: mean {found[0][0].round(1)}, deviation {numpy.sqrt(numpy.diag(found[0][1])).round(1)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
