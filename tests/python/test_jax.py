"""JAX's own collectives, over gloo_c and over the Gloo that is part of JAX: the results are equal."""

import os
import random
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="jax is not installed")

# Each program writes its results to a file per process, by name.
HEAD = """
import os, sys
how, folder = sys.argv[1:]
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if how == "gloo_c":
    import gloo_c.jax
    gloo_c.jax.use()
else:
    os.environ["JAX_CPU_COLLECTIVES_IMPLEMENTATION"] = "gloo"
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
jax.config.update("jax_enable_x64", True)
jax.distributed.initialize(f"127.0.0.1:{int(os.environ['MASTER_PORT']) + 1}", size, rank,
                           initialization_timeout=60)
assert jax.process_count() == size and jax.local_device_count() == 1
flat = Mesh(np.array(jax.devices()), ("i",))
kept = {}

def local(array): return np.asarray(array.addressable_data(0))
def spread(x, mesh, spec):
    return jax.make_array_from_callback(x.shape, NamedSharding(mesh, spec), lambda where: x[where])
def keep(name, array):
    found = local(array)
    assert name not in kept
    kept[name] = found.view("u" + str(found.itemsize)) if found.dtype.kind == "V" else found
def over(f, x, mesh=flat, before=P("i"), after=P("i")):
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=before, out_specs=after, check_vma=False))(
        spread(x, mesh, before))
def end():
    np.savez(f"{folder}/{how}-{rank}.npz", **kept)
    print("done", flush=True)
"""

COLLECTIVES = HEAD + """
from jax import lax
ring = [(k, (k + 1) % size) for k in range(size)]
halves = [list(range(size // 2)), list(range(size // 2, size))]
draw = np.random.RandomState(3)
for name in ("float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
             "complex64", "complex128"):
    dtype = jnp.dtype(name)
    x = draw.randint(0, 100, (size * size, 3))
    # With parts that are rounded; so few bits for all else that sums are exact in any order.
    x = (x + draw.rand(*x.shape) if size == 2 and dtype.kind in "fVc" else x).astype(dtype)
    kinds = {"psum": lambda a: lax.psum(a, "i"),
             "psum_scatter": lambda a: lax.psum_scatter(a, "i", tiled=True),
             "all_gather": lambda a: lax.all_gather(a, "i", tiled=True),
             "all_to_all": lambda a: lax.all_to_all(a, "i", 0, 0, tiled=True),
             "ppermute": lambda a: lax.ppermute(a, "i", ring),
             "part": lambda a: lax.ppermute(a, "i", [(0, size - 1)]),
             "pmean": lambda a: lax.pmean(a.astype("float32") if dtype.kind in "iu" else a, "i")}
    if dtype.kind != "c":
        kinds.update(pmax=lambda a: lax.pmax(a, "i"), pmin=lambda a: lax.pmin(a, "i"))
    if size == 4:
        kinds.update({"psum of groups": lambda a: lax.psum(a, "i", axis_index_groups=halves),
                      "all_gather of groups": lambda a: lax.all_gather(a, "i", axis_index_groups=halves, tiled=True)})
    for kind, f in kinds.items():
        keep(f"{kind} {name}", over(f, x))
        if kind == "psum" and dtype.kind in "iu":
            assert np.array_equal(kept[f"psum {name}"], x.reshape(size, size, 3).sum(0, dtype=x.dtype))
keep("any", over(lambda a: lax.pmax(a > 90, "i"), draw.randint(0, 100, (size, 9)).astype("f4")))
big = draw.randint(0, 1000, (size * 4, 1 << 17)).astype("f4")
keep("a large psum", over(lambda a: lax.psum(a, "i"), big))
keep("a large psum_scatter", over(lambda a: lax.psum_scatter(a, "i", tiled=True), big[:size * size]))
keep("is not supported", over(lambda a: lax.psum(a, "i"), np.zeros((size, 0), "f4")))
end()
"""

MESHES = HEAD + """
from jax import lax
grid = Mesh(np.array(jax.devices()).reshape(2, size // 2), ("x", "y"))
spec = P(("x", "y"))
x = np.arange(size * 12.).reshape(size * 4, 3).astype("f4")
for axes in ("x", "y", ("x", "y")):
    keep(f"psum {axes}", over(lambda a: lax.psum(a, axes), x, grid, spec, spec))
    keep(f"gather {axes}", over(lambda a: lax.all_gather(a, axes, tiled=True), x, grid, spec, spec))
keep("x and y", over(lambda a: lax.psum(a, "x") + 2 * lax.psum(a, "y"), x, grid, spec, spec))
keep("scatter", over(lambda a: lax.psum_scatter(a, "y", tiled=True), x, grid, spec, spec))
# What jit makes of shardings.
a = spread(x, grid, P("x", None))
b = spread(np.ones((3, size * 2), "f4"), grid, P(None, "y"))
keep("matmul", jax.jit(lambda a, b: a @ b, out_shardings=NamedSharding(grid, P()))(a, b))
keep("contracted", jax.jit(lambda a: a.T @ a, out_shardings=NamedSharding(grid, P()))(a))
keep("sum", jax.jit(jnp.sum, out_shardings=NamedSharding(grid, P()))(a))
keep("resharded", jax.jit(lambda a: a * 2, out_shardings=NamedSharding(grid, P(None, None)))(a))
from jax.experimental import multihost_utils
assert multihost_utils.process_allgather(np.array([rank])).ravel().tolist() == list(range(size))
multihost_utils.sync_global_devices("here")
end()
"""

TRAINING = HEAD + """
draw = np.random.RandomState(5)
images, labels = draw.rand(size * 16, 20).astype("f4"), draw.randint(0, 4, size * 16)
start = {"w": draw.randn(20, 8).astype("f4") * .1, "v": draw.randn(8, 4).astype("f4") * .1}

def loss(parameters, images, labels):
    scores = jnp.tanh(images @ parameters["w"]) @ parameters["v"]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1))

everywhere, parts = NamedSharding(flat, P()), NamedSharding(flat, P("i"))
x, y = spread(images, flat, P("i")), spread(labels, flat, P("i"))
place = lambda tree: jax.tree.map(lambda a: jax.make_array_from_callback(a.shape, everywhere, lambda i: a[i]), tree)

def step(parameters, x, y):
    value, gradients = jax.value_and_grad(loss)(parameters, x, y)
    return value, jax.tree.map(lambda p, g: p - .5 * g, parameters, gradients)
by_shardings = jax.jit(step, in_shardings=(everywhere, parts, parts), out_shardings=everywhere)

def own_step(parameters, x, y):
    value, gradients = jax.value_and_grad(loss)(parameters, x, y)
    value, gradients = jax.lax.pmean((value, gradients), "i")
    return value, jax.tree.map(lambda p, g: p - .5 * g, parameters, gradients)
by_hand = jax.jit(jax.shard_map(own_step, mesh=flat, in_specs=(P(), P("i"), P("i")), out_specs=P(), check_vma=False))

for name, train in (("shardings", by_shardings), ("shard_map", by_hand)):
    parameters, losses = place(start), []
    for _ in range(20):
        value, parameters = train(parameters, x, y)
        losses.append(float(local(value)))
    assert losses[-1] < losses[0]
    kept[f"{name} losses"] = np.array(losses)
    for part in parameters: keep(f"{name} {part}", parameters[part])
end()
"""

F16 = HEAD + """
from jax import lax
x = np.ones((size * size, 3), "f2")
for name, f in {"all_to_all": lambda a: lax.all_to_all(a, "i", 0, 0, tiled=True),
                "ppermute": lambda a: lax.ppermute(a, "i", [(0, 1), (1, 0)]),
                "psum": lambda a: lax.psum(a, "i"), "all_gather": lambda a: lax.all_gather(a, "i")}.items():
    try:
        over(f, x).block_until_ready()
        print("taken:", name)
    except jax.errors.JaxRuntimeError as error:
        print("refused:", name, str(error).splitlines()[0])
end()
"""

DEAD = HEAD + """
x = np.ones((size, 3), "f4")
f = lambda: over(lambda a: jax.lax.psum(a, "i"), x).block_until_ready()
f()
if rank == size - 1: os._exit(0)
try: f()
except jax.errors.JaxRuntimeError as error: print("heard:", str(error).splitlines()[0], flush=True)
os._exit(0)
"""

NO_RANK = HEAD.replace('import jax, jax', 'del os.environ["RANK"]; import jax, jax') + """
try: over(lambda a: jax.lax.psum(a, "i"), np.ones((size, 3), "f4")).block_until_ready()
except jax.errors.JaxRuntimeError as error: print("heard:", str(error).splitlines()[0], flush=True)
print("done", flush=True)
"""

ONE_CALL = """
import os, sys
import gloo_c.jax
gloo_c.jax.initialize(initialization_timeout=60)
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
size, parts = jax.process_count(), NamedSharding(Mesh(np.array(jax.devices()), ("i",)), P("i"))
x = jax.make_array_from_callback((size,), parts, lambda where: np.arange(1., size + 1)[where])
total = jax.jit(jax.shard_map(lambda a: jax.lax.psum(a, "i"), mesh=parts.mesh, in_specs=P("i"), out_specs=P()))(x)
print("rank", jax.process_index(), "of", size, "sum", float(np.asarray(total)[0]), flush=True)
with open("/proc/self/maps") as maps:
    print("by gloo_c" if "libgloo_c_mpi.so" in maps.read() else "by another", flush=True)
"""

# Rank 0 takes the port of JAX's coordinator first.
BUSY = """
import os, socket
import gloo_c.jax
taken = socket.socket()
taken.bind(("", int(os.environ["MASTER_PORT"]) + 1))
taken.listen()
gloo_c.jax.initialize()
"""


HALF = HEAD + """
if rank < 2:
    half = Mesh(np.array(jax.devices()[:2]), ("i",))
    try: over(lambda a: jax.lax.psum(a, "i"), np.ones((2, 3), "f4"), half).block_until_ready()
    except jax.errors.JaxRuntimeError as error: print("heard:", str(error).splitlines()[0], flush=True)
else:
    import time
    time.sleep(8)
os._exit(0)
"""


def two_ports():
    """Returns a free port whose successor is also free, outside the range that the system assigns:
    a port of that range may be taken before JAX uses it."""
    while True:
        with socket.socket() as one, socket.socket() as next_one:
            port = random.randrange(20000, 30000)
            try:
                one.bind(("127.0.0.1", port))
                next_one.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def run(folder, program, size, how, arguments=None, seconds=150):
    """Returns the output of each process; processes that still run after the timeout are ended.
    `arguments`: those of the program, instead of the defaults here."""
    path, port = folder / "program.py", two_ports()
    path.write_text(program)
    ours = re.compile(r"^(RANK|WORLD_SIZE|MASTER_.*|GLOO_(?!MPI).*|MPITRAMPOLINE.*|JAX_.*|XLA_FLAGS)$")
    variables = {name: value for name, value in os.environ.items() if not ours.match(name)}
    variables.update(JAX_PLATFORMS="cpu", WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1",
                     MASTER_PORT=str(port))
    outputs = [folder / f"{how}-{rank}.txt" for rank in range(size)]
    processes = []
    for rank in range(size):
        with outputs[rank].open("w") as output:
            processes.append(subprocess.Popen(
                [sys.executable, path, *(arguments or [how, folder])], env={**variables, "RANK": str(rank)},
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=folder))
    deadline = time.monotonic() + seconds
    try:
        for process in processes:
            process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        said = "\n".join(output.read_text(errors="replace") for output in outputs)
        pytest.fail(f"{how}: it is not over after {seconds} s\n{said}")
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    return [(process.returncode, output.read_text(errors="replace"))
            for process, output in zip(processes, outputs)]


def results(folder, program, size, how):
    import numpy
    for rank, (status, said) in enumerate(run(folder, program, size, how)):
        assert status == 0 and "done" in said, f"{how}, rank {rank}:\n{said}"
    found = []
    for rank in range(size):
        with numpy.load(folder / f"{how}-{rank}.npz") as arrays:
            found.append(dict(arrays))
    return found


@pytest.mark.parametrize("program, size, least", [
    (COLLECTIVES, 2, 100), pytest.param(COLLECTIVES, 4, 120, marks=pytest.mark.slow),
    (MESHES, 4, 12), pytest.param(TRAINING, 2, 6, marks=pytest.mark.slow)],
    ids=["collectives-2", "collectives-4", "meshes-4", "training-2"])
def test_results_are_those_of_jax(tmp_path, program, size, least):
    """Bitwise equal: a sum of two numbers has one result, and sums of more are exact here."""
    ours, theirs = (results(tmp_path, program, size, how) for how in ("gloo_c", "gloo"))
    for rank in range(size):
        assert len(ours[rank]) >= least and ours[rank].keys() == theirs[rank].keys()
        wrong = [name for name, array in ours[rank].items()
                 if array.dtype != theirs[rank][name].dtype
                 or array.tobytes() != theirs[rank][name].tobytes()]
        assert wrong == [], f"rank {rank}"


def test_training_on_four_processes_comes_close(tmp_path):
    """Sums of four are rounded in different orders."""
    import numpy
    ours, theirs = (results(tmp_path, TRAINING, 4, how) for how in ("gloo_c", "gloo"))
    for rank in range(4):
        for name, array in ours[rank].items():
            assert numpy.allclose(array, theirs[rank][name], rtol=1e-4, atol=1e-6), name
            assert array.tobytes() == ours[0][name].tobytes(), name


def test_float16_is_refused_by_jax_where_it_knows_types(tmp_path):
    for status, said in run(tmp_path, F16, 2, "gloo_c"):
        assert status == 0 and "done" in said, said
        assert re.findall(r"^(\w+: \w+)", said, re.M)[:4] == [
            "taken: all_to_all", "taken: ppermute", "refused: psum", "refused: all_gather"], said
        assert said.count("f16") == 2, said


def test_a_process_that_is_gone_is_named(tmp_path):
    *others, last = run(tmp_path, DEAD, 2, "gloo_c")
    assert last[0] == 0
    for _, said in others:
        assert re.search("heard: .*rank 1", said), said


def test_a_program_of_some_processes_fails_in_time(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_MPI_TIMEOUT", "3")
    for rank, (_, said) in enumerate(run(tmp_path, HALF, 4, "gloo_c")):
        assert rank > 1 or re.search("heard: .*not made.*all 4 processes must take part", said), said


@pytest.mark.parametrize("size", [1, 2])
def test_one_call_initializes_jax_and_the_library(tmp_path, size):
    for rank, (status, said) in enumerate(run(tmp_path, ONE_CALL, size, "gloo_c")):
        assert status == 0, said
        assert f"rank {rank} of {size} sum {size * (size + 1) / 2}\nby gloo_c" in said, said


def test_a_port_in_use_is_an_error_that_names_it(tmp_path):
    [(status, said)] = run(tmp_path, BUSY, 1, "gloo_c")
    assert status == 1 and re.search(r"OSError: .*port \d+ for jax.distributed: .*coordinator_port", said), said


@pytest.mark.parametrize("changed, words", [
    ({"RANK": None, "MASTER_PORT": ""}, "RuntimeError: RANK, MASTER_PORT: not set; start the ranks with gloo run"),
    ({"RANK": "2"}, "ValueError: RANK is '2'; expected a whole number from 0 to 1"),
    ({"MASTER_PORT": "x"}, "ValueError: MASTER_PORT is 'x'; expected a whole number from 1 to 65534")])
def test_variables_that_are_missing_or_wrong_are_named(tmp_path, changed, words):
    own = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", **changed}
    kept = {name: value for name, value in {**os.environ, **own}.items() if value is not None}
    done = subprocess.run([sys.executable, "-c", "import gloo_c.jax; gloo_c.jax.initialize()"], env=kept, text=True,
                          capture_output=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 1 and words in done.stderr, done.stderr


def test_processes_that_do_not_know_their_rank_are_told(tmp_path):
    for status, said in run(tmp_path, NO_RANK, 2, "gloo_c"):
        assert "heard: " in said and "RANK and WORLD_SIZE are not set" in said and "done" in said, said


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_the_example_learns_the_same_by_each_backend(tmp_path, size):
    example = (Path(__file__).resolve().parents[2] / "examples/jax/digits.py").read_text()
    losses = set()
    for backend in ("gloo", "gloo_c", "operations"):
        ranks = run(tmp_path, example, size, backend, ["--backend", backend, "--steps", "60"])
        assert [status for status, _ in ranks] == [0] * size, ranks
        found = re.search(rf"{backend}, {size} ranks?: loss (\d\.\d\d)\d+, (\d+\.\d) % of",
                          ranks[0][1])
        assert found and float(found[2]) > 40, ranks
        losses.add(found[1])
    assert len(losses) == 1, losses
