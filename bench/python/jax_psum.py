"""What a sum costs from JAX: psum by what carries JAX's collectives, and
gloo_c.jax.allreduce.

usage: jax_psum.py [--ranks N] [--turns N]

Needs jax, numpy and gloo_c with its command. In each turn all ways are measured one after the
other, in processes of their own that `gloo run` starts; the table has the median of the turns, each
of which is the median of its calls on rank 0, and the least and the most of them. A call is a
compiled function that is started, and whose result is waited for."""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

SIZES = {"4 floats": (4, 300), "4 MiB": (1 << 20, 40)}
WAYS = {"gloo": "JAX's Gloo", "gloo_c": "gloo_c", "operations": "gloo_c.jax.allreduce",
        "token": "the same, with a token", "tcp": "gloo_c over TCP"}


def function(way, context, rank, size, count):
    """A compiled function and its argument."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mine = np.full((1, count), rank + 1, "f4")
    if way in ("operations", "token"):
        import gloo_c.jax
        token = gloo_c.jax.token()
        if way == "operations":
            return jax.jit(lambda x: gloo_c.jax.allreduce(x, context)), jnp.asarray(mine)
        f = jax.jit(lambda x, token: gloo_c.jax.allreduce(x, context, token=token))
        return lambda x: f(x, token)[0], jnp.asarray(mine)
    mesh = Mesh(np.array(jax.devices()), ("ranks",))
    x = jax.make_array_from_single_device_arrays(
        (size, count), NamedSharding(mesh, P("ranks")), [jax.device_put(mine, jax.local_devices()[0])])
    return jax.jit(jax.shard_map(lambda a: jax.lax.psum(a, "ranks"), mesh=mesh,
                                 in_specs=P("ranks"), out_specs=P())), x


def measure(way, port):
    """Runs in a rank: prints a line for each size."""
    import time

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    os.environ["JAX_PLATFORMS"] = "cpu"
    if way in ("gloo_c", "tcp"):
        import gloo_c.jax
        gloo_c.jax.use()
    else:
        os.environ["JAX_CPU_COLLECTIVES_IMPLEMENTATION"] = "gloo"
    import jax
    import numpy as np

    context = None
    if way in ("operations", "token"):
        import gloo_c
        context = gloo_c.init()
    else:
        jax.distributed.initialize(f"127.0.0.1:{port}", size, rank)
    for name, (count, calls) in SIZES.items():
        f, x = function(way, context, rank, size, count)
        found = np.asarray(f(x).addressable_data(0)).ravel()
        assert (found == size * (size + 1) / 2).all(), found
        times = []
        for _ in range(calls):
            begun = time.perf_counter()
            f(x).block_until_ready()
            times.append(time.perf_counter() - begun)
        if rank == 0:
            print(f"measured {name}: {1e6 * statistics.median(times):.1f}", flush=True)


def job(way, ranks):
    """Returns the times of one start of all ranks, in microseconds by size."""
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    me = [sys.executable, __file__, "--measure", way, str(port)]
    variables = dict(os.environ)
    gloo = shutil.which("gloo", path=Path(sys.executable).parent) or "gloo"
    command = [gloo, "run", "-n", str(ranks), "--", *me]
    if way == "tcp":
        variables["GLOO_TRANSPORT"] = "tcp"
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    found = dict(re.findall(r"measured (.+): ([\d.]+)", done.stdout))
    if done.returncode or found.keys() != SIZES.keys():
        sys.exit(f"{way} has failed:\n{done.stdout}{done.stderr}")
    return {name: float(time) for name, time in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--measure", nargs=2, metavar=("WAY", "PORT"), help="what a rank does")
    options = parser.parse_args()
    if options.measure:
        measure(options.measure[0], int(options.measure[1]))
        return
    times = {(way, name): [] for way in WAYS for name in SIZES}
    for _ in range(options.turns):
        for way in WAYS:
            for name, time in job(way, options.ranks).items():
                times[way, name].append(time)
    print(f"microseconds, {options.ranks} ranks, {options.turns} turns: median (least to most)")
    for name in SIZES:
        for way in WAYS:
            found = times[way, name]
            print(f"{name:10} {WAYS[way]:22} {statistics.median(found):10.1f} "
                  f"({min(found):.1f} to {max(found):.1f})")


main()
