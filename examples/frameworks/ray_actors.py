"""Ray actors as ranks, with the Python package alone: least squares by gradient descent, each actor on
its rows. The first actor serves the store, and the driver passes its address on.

    python examples/frameworks/ray_actors.py
"""

import os
import secrets
import sys

import numpy
import ray

import gloo_c


@ray.remote(num_cpus=1)
class Rank:
    def serve(self):
        """Serves the store on this actor's host, at a free port; returns its address."""
        host = ray.util.get_node_ip_address()
        self.store = gloo_c.TcpStore(host, serve=True)
        return host, self.store.port

    def meet(self, rank, size, address):
        store = self.store if rank == 0 else gloo_c.TcpStore(*address)
        self.context = gloo_c.Context(rank, size, store, timeout=30)

    def fit(self, steps):
        noise = numpy.random.default_rng(self.context.rank)
        rows = noise.normal(size=(1000, 4))
        wanted = rows @ [1.0, -2.0, 3.0, 0.5]
        weights, gradient = numpy.zeros(4), numpy.empty(4)
        for _ in range(steps):
            gradient[:] = rows.T @ (rows @ weights - wanted) / len(rows)
            self.context.allreduce(gradient, op="average")
            weights -= 0.5 * gradient
        return weights

    def leave(self):
        self.context.close()


def main(size):
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    secret = {"GLOO_JOB_SECRET": secrets.token_hex(32)}  # a new one for each job
    ray.init(runtime_env={"env_vars": secret}, num_cpus=size, object_store_memory=80 << 20,
             include_dashboard=False)
    ranks = [Rank.remote() for _ in range(size)]
    address = ray.get(ranks[0].serve.remote())
    ray.get([actor.meet.remote(rank, size, address) for rank, actor in enumerate(ranks)])
    found = ray.get([actor.fit.remote(50) for actor in ranks])
    ray.get([actor.leave.remote() for actor in ranks])
    assert all(numpy.array_equal(each, found[0]) for each in found)
    print(f"{size} actors found {found[0].round(3)}")
    ray.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
