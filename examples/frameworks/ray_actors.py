"""Ray actors as ranks, with the Python package alone: least squares by gradient descent, each actor on
its rows. The first actor serves the store, and the driver passes its address on. If an actor dies, Ray
starts it again, all actors meet again, and the descent goes on from the last weights of the driver.

    python examples/frameworks/ray_actors.py                                # two actors on this host
    RAY_ADDRESS=host-a:6379 python examples/frameworks/ray_actors.py 4      # four in a cluster
"""

import os
import secrets
import sys
import time

import numpy
import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

import gloo_c


@ray.remote(num_cpus=1, max_restarts=-1)
class Rank:
    def serve(self):
        """Serves the store on this actor's host, at a free port; returns its address."""
        host = ray.util.get_node_ip_address()
        self.store = gloo_c.TcpStore(host, serve=True)
        return host, self.store.port

    def meet(self, rank, size, address):
        store = self.store if rank == 0 else gloo_c.TcpStore(*address)
        self.context = gloo_c.Context(rank, size, store, timeout=30)
        noise = numpy.random.default_rng(rank)
        self.rows = noise.normal(size=(1000, 4))
        self.wanted = self.rows @ [1.0, -2.0, 3.0, 0.5]

    def fit(self, weights, steps):
        weights, gradient = weights.copy(), numpy.empty(4)
        for _ in range(steps):
            gradient[:] = self.rows.T @ (self.rows @ weights - self.wanted) / len(self.rows)
            self.context.allreduce(gradient, op="average")
            weights -= 0.1 * gradient
        return weights

    def leave(self):
        self.context.close()


def meet(ranks):
    """Makes a job of the actors, as soon as those run again that have died."""
    for attempt in range(60):
        try:
            address = ray.get(ranks[0].serve.remote())
            ray.get([actor.meet.remote(rank, len(ranks), address) for rank, actor in enumerate(ranks)])
            print("the actors have met", flush=True)
            return
        except ray.exceptions.RayError as error:
            if attempt == 59:
                raise
            print(f"the actors have not met: {str(error).splitlines()[0]}", flush=True)
            time.sleep(1)


def main(size, rounds):
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    secret = {"GLOO_JOB_SECRET": secrets.token_hex(32)}  # a new one for each job
    here = {} if os.environ.get("RAY_ADDRESS") else {
        "num_cpus": size, "object_store_memory": 80 << 20, "include_dashboard": False}
    ray.init(runtime_env={"env_vars": secret}, **here)
    group = placement_group([{"CPU": 1}] * size, strategy="SPREAD")  # on as many hosts as there are
    ranks = [Rank.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, bundle)).remote()
             for bundle in range(size)]
    meet(ranks)
    weights, done = numpy.zeros(4), 0
    while done < rounds:
        try:
            found = ray.get([actor.fit.remote(weights, 20) for actor in ranks])
        except ray.exceptions.RayError as error:
            print(f"round {done} failed: {str(error).splitlines()[-1]}", flush=True)
            meet(ranks)
            continue
        assert all(numpy.array_equal(each, found[0]) for each in found)
        weights, done = found[0], done + 1
    ray.get([actor.leave.remote() for actor in ranks])
    print(f"{size} actors found {weights.round(3)}")
    ray.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2, int(sys.argv[2]) if len(sys.argv) > 2 else 20)
