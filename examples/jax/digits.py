"""Train a small neural network on all ranks, each on its part of the data, with JAX.

    gloo run -n 4 -- python examples/jax/digits.py --backend gloo_c

The digits are drawn here: seven segments in 8 by 8 pixels, moved about, and noise.

--backend says what carries the gradients:
  gloo        JAX's own collectives, by the Gloo that is part of JAX
  gloo_c      JAX's own collectives, by this library
  operations  gloo_c.jax.allreduce; each rank has a JAX of its own
"""

import argparse
import os
import time

parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--backend", choices=("gloo", "gloo_c", "operations"), default="gloo_c")
parser.add_argument("--steps", type=int, default=300)
options = parser.parse_args()
rank, size = (int(os.environ.get(name, alone)) for name, alone in (("RANK", 0), ("WORLD_SIZE", 1)))

os.environ.setdefault("JAX_PLATFORMS", "cpu")
if options.backend == "gloo_c":
    # Before jax is imported: it then decides what carries its collectives.
    import gloo_c.jax

    os.environ.update({name: os.environ.get(name, alone) for name, alone in (
        ("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500"))})
    gloo_c.jax.initialize()
elif options.backend == "gloo":
    os.environ["JAX_CPU_COLLECTIVES_IMPLEMENTATION"] = "gloo"

import jax
import jax.numpy as jnp
import numpy as np

# ---- data ----------------------------------------------------------------------------------------

# Rows and columns of each segment: top, upper left and right, middle, lower left and right, bottom.
SEGMENTS = ((1, slice(2, 6)), (slice(1, 4), 2), (slice(1, 4), 5), (3, slice(2, 6)),
            (slice(3, 7), 2), (slice(3, 7), 5), (6, slice(2, 6)))
LIT = ("1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010",
       "1111111", "1111011")


def draw_digits(count, seed):
    """count images of 64 pixels, and the digits that they show."""
    random = np.random.RandomState(seed)
    shapes = np.zeros((10, 8, 8), "f4")
    for digit, lit in enumerate(LIT):
        for place, on in zip(SEGMENTS, lit):
            if on == "1":
                shapes[digit][place] = 1
    labels = random.randint(0, 10, count)
    moves = random.randint(0, 2, (count, 2))
    images = np.stack([np.roll(shapes[label], move, (0, 1)) for label, move in zip(labels, moves)])
    images += 0.2 * random.randn(*images.shape)
    return images.reshape(count, 64).astype("f4"), labels


# ---- the network ---------------------------------------------------------------------------------

def first_parameters():
    """The same on all ranks."""
    one, two = jax.random.split(jax.random.key(1))
    return {"hidden": jax.random.normal(one, (64, 48)) * 0.1, "hidden bias": jnp.zeros(48),
            "out": jax.random.normal(two, (48, 10)) * 0.1, "out bias": jnp.zeros(10)}


def scores(parameters, images):
    hidden = jnp.tanh(images @ parameters["hidden"] + parameters["hidden bias"])
    return hidden @ parameters["out"] + parameters["out bias"]


def loss(parameters, images, labels):
    chances = jax.nn.log_softmax(scores(parameters, images))
    return -jnp.mean(jnp.take_along_axis(chances, labels[:, None], axis=1))


def step(parameters, images, labels, average):
    """One step, on this rank's part of the data; all ranks do the same with the average."""
    value, gradients = average(jax.value_and_grad(loss)(parameters, images, labels))
    return value, jax.tree.map(lambda p, g: p - 1.0 * g, parameters, gradients)


# ---- the two ways --------------------------------------------------------------------------------

def by_collectives(images, labels):
    """One array in parts, of which each process has one."""
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    if size > 1 and options.backend == "gloo":
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) + 1
        jax.distributed.initialize(f"{address}:{port}", size, rank)
    mesh = Mesh(np.array(jax.devices()), ("ranks",))
    one_step = jax.jit(jax.shard_map(
        lambda *a: step(*a, average=lambda tree: jax.lax.pmean(tree, "ranks")), mesh=mesh,
        in_specs=(P(), P("ranks"), P("ranks")), out_specs=P(), check_vma=False))

    def place(array, spec):
        array = np.asarray(array)
        return jax.make_array_from_callback(array.shape, NamedSharding(mesh, spec),
                                            lambda where: array[where])

    parameters = jax.tree.map(lambda array: place(array, P()), first_parameters())
    return one_step, parameters, place(images, P("ranks")), place(labels, P("ranks"))


def by_operations(images, labels):
    """Each process has arrays of its own."""
    import gloo_c
    import gloo_c.jax

    context = gloo_c.init()
    one_step = jax.jit(lambda *a: step(
        *a, average=lambda tree: gloo_c.jax.allreduce(tree, context, "average")))
    part = len(images) // size
    mine = slice(rank * part, (rank + 1) * part)
    return one_step, first_parameters(), jnp.asarray(images[mine]), jnp.asarray(labels[mine])


def main():
    images, labels = draw_digits(1000 * size, seed=2)
    make = by_operations if options.backend == "operations" else by_collectives
    one_step, parameters, images, labels = make(images, labels)
    value, parameters = one_step(parameters, images, labels)
    jax.block_until_ready(parameters)
    begun = time.perf_counter()
    for _ in range(options.steps):
        value, parameters = one_step(parameters, images, labels)
    jax.block_until_ready(parameters)
    seconds = time.perf_counter() - begun
    if rank == 0:
        # Each rank has all parameters.
        own = jax.tree.map(lambda array: jnp.asarray(array.addressable_data(0)), parameters)
        others, shown = draw_digits(1000, seed=3)
        right = float(jnp.mean(jnp.argmax(scores(own, others), axis=1) == shown))
        print(f"{options.backend}, {size} rank{'s' if size > 1 else ''}: loss {float(value.addressable_data(0)):.4f}, "
              f"{100 * right:.1f} % of new digits are right, "
              f"{1000 * seconds / max(1, options.steps):.2f} ms a step")


main()
