"""Programs and types: the self-test, the benchmark, mpi4py's names, the log, and type checks."""

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest

import gloo_c


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_self_test(job, size):
    status, said = job("import runpy\nrunpy.run_module('gloo_c', run_name='__main__')", size)
    assert status == 0 and f"self-test passed: 10 calls, 10 types, {size} rank" in said, said
    assert gloo_c.__version__ in said
    if size > 1:
        assert f"rank {size - 1} to 0: shared memory" in said


def test_self_test_says_what_is_wrong():
    done = subprocess.run([sys.executable, "-m", "gloo_c"], capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", "RANK": "5", "WORLD_SIZE": "2",
                               "PYTHONPATH": ":".join(sys.path)}, timeout=60)
    assert done.returncode == 1 and "GLOO_ERR_INVALID" in done.stderr, done.stderr


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_c_program_uses_the_package(tmp_path):
    (tmp_path / "version.c").write_text(
        "#include <gloo_c/gloo_c.h>\n#include <stdio.h>\n"
        "int main(void) { return puts(gloo_version()) < 0; }\n")
    options = subprocess.run([sys.executable, "-m", "gloo_c", "--cflags", "--libs"], check=True,
                             capture_output=True, text=True).stdout.split()
    subprocess.run(["cc", "version.c", "-o", "version", *options], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "version"], capture_output=True, text=True, check=True).stdout
    assert said.strip() == gloo_c.__version__
    assert f"-I{gloo_c.get_include()}" in options and gloo_c.get_library() in options


def test_benchmark(job):
    status, said = job("import runpy\nrunpy.run_module('gloo_c.bench', run_name='__main__')", 2,
                       ["--sizes", "4,64K", "--seconds", "0.01", "allreduce", "alltoall", "barrier"])
    assert status == 0, said
    assert re.search(r"allreduce +64 KiB +\d+\.\d\d +\d+\.\d", said), said
    assert "barrier" in said


def test_benchmark_without_matplotlib_says_so():
    program = ("import sys; sys.modules['matplotlib'] = None; sys.argv = ['bench', '--sizes', '4', "
               "'--seconds', '0', '--png', '/dev/null']\nimport runpy\n"
               "runpy.run_module('gloo_c.bench', run_name='__main__')")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "needs matplotlib" in done.stderr, done.stderr


MPI = """
from gloo_c import mpi as MPI
import numpy as np
comm = MPI.COMM_WORLD
r, n = comm.rank, comm.Get_size()
assert comm.Get_rank() == r and comm.size == n and MPI.Is_initialized()
def eq(found, wanted):
    assert np.array_equal(found, wanted), (found, wanted)
x = np.full(4, r + 1.0); comm.Allreduce(MPI.IN_PLACE, x, op=MPI.SUM); eq(x, [n * (n + 1) / 2] * 4)
y = np.zeros(4); comm.Allreduce([x, 2, MPI.DOUBLE], [y, 2, MPI.DOUBLE]); eq(y[2:], [0, 0]); eq(y[0], n * x[0])
b = np.full(2, 5 if r == 0 else 0); comm.Bcast([b, MPI.LONG]); eq(b, [5, 5])
z = np.zeros(2) if r == n - 1 else None; comm.Reduce(np.full(2, 2.0), z, op=MPI.MAX, root=n - 1)
if r == n - 1: eq(z, [2, 2])
out = np.zeros(n); comm.Allgather(np.full(1, r * 1.0), out); eq(out, range(n))
ragged = np.concatenate([np.full(k + 1, k) for k in range(n)])
out = np.zeros(len(ragged), int); comm.Allgatherv(np.full(r + 1, r), [out, list(range(1, n + 1))]); eq(out, ragged)
out = np.zeros(n, int) if r == 0 else None; comm.Gather(np.array([r]), out)
if r == 0: eq(out, range(n))
out = np.zeros(len(ragged), int) if r == 0 else None
comm.Gatherv(np.full(r + 1, r), [out, list(range(1, n + 1)), None, MPI.LONG] if r == 0 else None)
if r == 0: eq(out, ragged)
one = np.zeros(1, int); comm.Scatter(np.arange(n) if r == 0 else None, one); eq(one, [r])
some = np.zeros(r + 1, int); comm.Scatterv([ragged, list(range(1, n + 1))] if r == 0 else None, some); eq(some, [r] * (r + 1))
a = np.arange(n) + 10 * r; t = np.zeros(n, int); comm.Alltoall(a, t); eq(t, [10 * k + r for k in range(n)])
comm.Alltoallv([a, ([1] * n, list(range(n))), MPI.LONG], [t, [1] * n]); eq(t, [10 * k + r for k in range(n)])
comm.Reduce_scatter_block(np.arange(n), one); eq(one, [n * r])
comm.Reduce_scatter(np.arange(n), one, [1] * n); eq(one, [n * r])
comm.Scan(np.array([1]), one); eq(one, [r + 1])
comm.Exscan(np.array([1]), one); eq(one, [r] if r else [1])
st = MPI.Status(); comm.Sendrecv(np.array([r]), (r + 1) % n, 0, one, (r - 1) % n, 0, st); eq(one, [(r - 1) % n]); assert st.Get_source() == (r - 1) % n
q = comm.Irecv(one, (r - 1) % n, 5); s = comm.Isend(np.array([r * 2]), (r + 1) % n, 5); MPI.Request.Waitall([q, s]); eq(one, [(r - 1) % n * 2])
comm.Isend(np.array([7]), (r + 1) % n).Wait(); comm.Recv(one, status=st); eq(one, [7]); assert st.source == (r - 1) % n
comm.Send(one, MPI.PROC_NULL); comm.Recv(one, MPI.PROC_NULL)
comm.Barrier(); comm.Ibarrier().Wait(); comm.Iallreduce(MPI.IN_PLACE, one).Wait()
g = comm.Split(r % 2, r); assert g.Get_size() == (n + 1 - r % 2) // 2
assert comm.Split(MPI.UNDEFINED) is None
d = comm.Dup(); assert d.rank == r; d.Free(); g.Free()
for bad in ([x, MPI.INT], [x, 9], [], [x, [1, 2, 3, 4, 5, 6]]):
    try: comm.Allreduce(bad, np.zeros(4)); raise SystemExit(f"{bad} was taken")
    except (TypeError, ValueError): pass
for name in ("send", "bcast", "allreduce", "recv", "gather"):
    assert not hasattr(comm, name), name
p = MPI.with_pickle(comm)
assert p.bcast({"a": 1} if r == 0 else None) == {"a": 1}
assert p.allgather((r, "x" * r)) == [(k, "x" * k) for k in range(n)]
assert p.allreduce(r) == sum(range(n)) and p.allreduce([r]) == list(range(n))
assert p.reduce(r, MPI.MAX) == (n - 1 if r == 0 else None)
assert p.gather(r, root=n - 1) == (list(range(n)) if r == n - 1 else None)
assert p.scatter(["x" * i for i in range(n)] if r == 0 else None) == "x" * r
assert p.alltoall([(r, i) for i in range(n)]) == [(i, r) for i in range(n)]
p.barrier()
if n > 1 and r < 2:
    if r: assert p.recv(status=st) == {1, 2} and st.source == 0
    else: p.send({1, 2}, 1)
print("done")
"""


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_mpi_names(job, size):
    status, said = job(MPI, size)
    assert status == 0 and said.count("done") == size, said


def test_mpi_abort_ends_all(job):
    status, said = job("""
from gloo_c import mpi as MPI
import numpy as np
comm = MPI.COMM_WORLD
if comm.rank == 0: comm.Abort(3)
try: comm.Barrier()
except Exception as error: print("told", error, flush=True)
""", 2)
    assert status != 0 and "Abort(3)" in said, said


def test_log():
    program = """
import gloo_c, resource
lines = []
gloo_c.set_log(lambda level, line: lines.append((level, line)))
gloo_c.set_log_level("debug")
resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))  # memory cannot be shared, which is told once
gloo_c.alloc(1 << 20)
assert lines and lines[0][0] == "warn", lines
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    with pytest.raises(ValueError):
        gloo_c.set_log_level("loud")


def test_questions():
    assert {"tcp", "inproc"} <= set(gloo_c.transports())
    assert "allreduce" in gloo_c.collectives() and "ring" in gloo_c.algorithms("allreduce")
    assert gloo_c.algorithms("none") == [] and gloo_c.cores() >= 1
    assert gloo_c.usable("tcp") is None
    assert isinstance(gloo_c.usable("none"), gloo_c.NotFoundError)


def test_types_of_the_package():
    pytest.importorskip("mypy")
    # Modules for packages that are not installed cannot be type-checked.
    left_out = [f"--exclude=gloo_c/{part}/" for part in ("torch",) if find_spec(part) is None]
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "-p", "gloo_c", *left_out,
                           "--cache-dir=/dev/null"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


def test_every_call_has_four_documented_forms():
    names = [name for name in dir(gloo_c.Context) if name.endswith("_start")]
    assert len(names) == 25
    for name in names:
        for form in ("", "_start", "_async", "_init"):
            method = getattr(gloo_c.Context, name[:-len("_start")] + form)
            assert method.__doc__ and method.__name__ == name[:-len("_start")] + form


def test_every_function_of_the_library_is_reachable():
    """The declarations come from the headers, so a few of them are enough."""
    from gloo_c._binding import ffi, lib

    for name in ("gloo_allreduce_list_init", "gloo_requests_join", "gloo_context_split_start",
                 "gloo_device_get_fd", "gloo_log_set_sink", "GLOO_IN_PLACE", "GLOO_TIMEOUT_NONE"):
        assert hasattr(lib, name), name
    assert lib.GLOO_TIMEOUT_NONE == -1 and ffi.sizeof("gloo_error") == lib.GLOO_ERROR_MESSAGE_BYTES + 80
    assert int(ffi.cast("uintptr_t", lib.GLOO_IN_PLACE)) == 1
