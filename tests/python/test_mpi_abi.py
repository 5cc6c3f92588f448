"""libgloo_c_mpi.so through ctypes, as MPItrampoline uses it, without MPItrampoline and JAX."""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gloo_c.jax

LIST = Path(__file__).resolve().parents[2] / "python/mpi/abi.txt"
# The beginning of each program: the library, constants by name, and calls that must succeed.
HEAD = """
import ctypes, sys
import numpy as np
import gloo_c.jax

L = ctypes.CDLL(gloo_c.jax.library())
WIDE = ctypes.c_size_t

def number(name): return ctypes.c_int.in_dll(L, "MPIABI_" + name).value
def handle(name): return WIDE(WIDE.in_dll(L, "MPIABI_" + name).value)

def call(name, *arguments):
    found = [ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else a for a in arguments]
    return getattr(L, "MPIABI_" + name)(*found)

def text_of(code):
    text, length = ctypes.create_string_buffer(1024), ctypes.c_int()
    assert call("Error_string", code, text, ctypes.byref(length)) == 0
    assert length.value == len(text.value)
    return text.value.decode()

def good(name, *arguments):
    code = call(name, *arguments)
    assert code == number("SUCCESS"), f"{name}: {text_of(code)}"

def bad(kind, words, name, *arguments):
    code = call(name, *arguments)
    assert code == number("ERR_" + kind), (name, code, text_of(code))
    assert words in text_of(code), text_of(code)

def asked(name, *arguments):
    place = ctypes.c_int(-99)
    good(name, *arguments, ctypes.byref(place))
    return place.value

def eq(found, wanted): assert np.array_equal(found, wanted), (found, wanted)
WORLD, IN_PLACE, IGNORE = handle("COMM_WORLD"), handle("IN_PLACE"), None
"""
CALLS = HEAD + """
provided = ctypes.c_int()
assert asked("Initialized") == 0
bad("COMM", "MPI_Init was not called", "Barrier", WORLD)
good("Init_thread", None, None, number("THREAD_FUNNELED"), ctypes.byref(provided))
assert provided.value == number("THREAD_MULTIPLE") == asked("Query_thread")
assert asked("Initialized") == asked("Is_thread_main") == 1 and asked("Finalized") == 0
r, n = asked("Comm_rank", WORLD), asked("Comm_size", WORLD)
assert (asked("Comm_rank", handle("COMM_SELF")), asked("Comm_size", handle("COMM_SELF"))) == (0, 1)

for name, letter in (("FLOAT", "f4"), ("DOUBLE", "f8"), ("INT8_T", "i1"), ("UINT8_T", "u1"), ("INT16_T", "i2"),
                     ("UINT16_T", "u2"), ("INT32_T", "i4"), ("UINT32_T", "u4"), ("INT64_T", "i8"),
                     ("UINT64_T", "u8"), ("C_COMPLEX", "c8"), ("C_FLOAT_COMPLEX", "c8"),
                     ("C_DOUBLE_COMPLEX", "c16"), ("LONG", "l"), ("INT", "i"), ("BYTE", "u1")):
    x, y = np.arange(5).astype(letter) + r, np.zeros(5, letter)
    assert asked("Type_size", handle(name)) == x.itemsize
    good("Allreduce", x, y, 5, handle(name), handle("SUM"), WORLD)
    eq(y, n * np.arange(5) + n * (n - 1) // 2)
    good("Allreduce", IN_PLACE, x, 5, handle(name), handle("PROD"), WORLD)
    eq(x, np.prod([np.arange(5).astype(letter) + k for k in range(n)], 0, letter))
flag = np.array([r == 0, True, False])
for op, wanted in (("LAND", [n == 1, True, False]), ("LOR", [True, True, False]), ("MIN", [n == 1, True, False])):
    out = np.zeros(3, bool)
    good("Allreduce", flag, out, 3, handle("C_BOOL"), handle(op), WORLD)
    eq(out, wanted)
i8 = handle("INT64_T")
out = np.zeros(2, "i8")
for op, wanted in (("MAX", [n - 1, 0]), ("MIN", [0, 1 - n])):
    good("Allreduce", np.array([r, -r]), out, 2, i8, handle(op), WORLD)
    eq(out, wanted)
b = np.full(3, 7.0 if r == n - 1 else 0.0)
good("Bcast", b, 3, handle("DOUBLE"), n - 1, WORLD); eq(b, [7] * 3)
good("Reduce", np.array([r, 1]), out, 2, i8, handle("SUM"), 0, WORLD)
if r == 0: eq(out, [n * (n - 1) // 2, n])
g = np.zeros(2 * n, "i8")
good("Allgather", np.array([r, -r]), 2, i8, g, 2, i8, WORLD); eq(g.reshape(n, 2)[:, 0], range(n))
a, t = np.arange(n) + 10 * r, np.zeros(n, int)
good("Alltoall", a, 1, i8, t, 1, i8, WORLD); eq(t, 10 * np.arange(n) + r)
one = np.zeros(1, "i8")
good("Reduce_scatter_block", np.arange(n), one, 1, i8, handle("SUM"), WORLD); eq(one, [n * r])
good("Reduce_scatter", np.arange(n), one, np.ones(n, "i4"), i8, handle("SUM"), WORLD); eq(one, [n * r])
counts = np.arange(1, n + 1).astype("i4"); some = np.zeros(r + 1, "i8")
good("Reduce_scatter", np.arange(counts.sum()), some, counts, i8, handle("SUM"), WORLD)
eq(some, n * (np.arange(r + 1) + r * (r + 1) // 2))
good("Barrier", WORLD)

right, left = (r + 1) % n, (r - 1) % n
requests = (WIDE * 2)()
send, receive = (ctypes.byref(requests, k * ctypes.sizeof(WIDE)) for k in (0, 1))
statuses = np.zeros((2, 10), "i4")  # source, tag and error are its numbers 6, 7 and 8
good("Irecv", one, 1, i8, left, 5, WORLD, receive)
good("Isend", np.array([r * 3]), 1, i8, right, 5, WORLD, send)
good("Waitall", 2, requests, statuses); eq(one, [left * 3]); eq(statuses[1, 6:9], [left, 5, 0])
assert list(requests) == [handle("REQUEST_NULL").value] * 2
good("Irecv", one, 1, i8, number("ANY_SOURCE"), 6, WORLD, receive)
good("Send", np.array([r + 50]), 1, i8, right, 6, WORLD)
done = ctypes.c_int()
while not done.value: good("Test", receive, ctypes.byref(done), statuses)
eq(one, [left + 50]); eq(statuses[0, 6:8], [left, 6])
good("Wait", receive, IGNORE)
good("Sendrecv", np.array([r]), 1, i8, right, 1, one, 1, i8, left, 1, WORLD, statuses); eq(one, [left])
good("Isend", np.array([r]), 1, i8, right, 2, WORLD, send)
good("Recv", one, 1, i8, left, 2, WORLD, IGNORE); eq(one, [left]); good("Wait", send, IGNORE)
good("Send", one, 1, i8, number("PROC_NULL"), 0, WORLD)

half, none, copy = WIDE(), WIDE(99), WIDE()
good("Comm_split", WORLD, r % 2, -r, ctypes.byref(half))
m = (n + 1 - r % 2) // 2
assert asked("Comm_size", half) == m and asked("Comm_rank", half) == m - 1 - r // 2
good("Allreduce", np.array([r]), one, 1, i8, handle("SUM"), half); eq(one, [sum(range(r % 2, n, 2))])
good("Comm_split", WORLD, number("UNDEFINED"), 0, ctypes.byref(none)); assert none.value == handle("COMM_NULL").value
bad("COMM", "this is MPI_COMM_NULL", "Barrier", none)
good("Comm_dup", half, ctypes.byref(copy)); assert asked("Comm_rank", copy) == asked("Comm_rank", half)
kept = WIDE(copy.value)
good("Comm_free", ctypes.byref(copy)); assert copy.value == handle("COMM_NULL").value
bad("COMM", "not a valid communicator", "Barrier", kept)
bad("COMM", "MPI_Finalize", "Comm_free", ctypes.byref(WIDE(WORLD.value)))

bad("UNSUPPORTED_OPERATION", "MPI_Scan: gloo_c's MPI does not have", "Scan", one, one, 1, i8, handle("SUM"), WORLD)
bad("TYPE", "MPI_LONG_DOUBLE is not a type", "Allreduce", one, one, 1, handle("LONG_DOUBLE"), handle("SUM"), WORLD)
bad("OP", "MPI_MAXLOC is not an operation", "Allreduce", one, out, 1, i8, handle("MAXLOC"), WORLD)
bad("TYPE", "this is not a type", "Bcast", one, 1, WIDE(12345), 0, WORLD)
bad("COUNT", "the count is -1", "Bcast", one, -1, i8, 0, WORLD)
bad("ROOT", "root", "Bcast", one, 1, i8, n, WORLD)
bad("RANK", "rank", "Send", one, 1, i8, n, 0, WORLD)
bad("TAG", "the tag is -2", "Recv", one, 1, i8, 0, number("ANY_TAG"), WORLD, IGNORE)
bad("TYPE", "must be the same", "Allgather", one, 1, i8, g, 2, i8, WORLD)
bad("UNSUPPORTED_OPERATION", "", "Allreduce", np.ones(1, "c8"), np.ones(1, "c8"), 1, handle("C_COMPLEX"), handle("MAX"), WORLD)
good("Barrier", WORLD)

L.MPIABI_Wtime.restype = ctypes.c_double
assert L.MPIABI_Wtime() > 0
version = ctypes.create_string_buffer(8192)
good("Get_library_version", version, ctypes.byref(provided)); assert version.value.startswith(b"gloo_c ")
good("Get_processor_name", version, ctypes.byref(provided)); assert version.value
good("Finalize"); good("Finalize"); assert asked("Finalized") == asked("Initialized") == 1
good("Comm_free", ctypes.byref(half))
bad("COMM", "MPI_Finalize was called before", "Allreduce", one, out, 1, i8, handle("SUM"), WORLD)
bad("OTHER", "MPI_Finalize was called before", "Init", None, None)
print("done")
"""


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_calls(job, size):
    status, said = job(CALLS, size)
    assert status == 0 and said.count("done") == size, said
    assert said.count("gloo_c: MPI_Scan: gloo_c's MPI does not have this function") == size


def test_all_symbols_are_there():
    library = ctypes.CDLL(gloo_c.jax.library())
    names = re.findall(r"^(?:function )?\w+ (MPIX?_\w+)", LIST.read_text(encoding="utf-8"), re.M)
    assert len(names) == 634
    for name in names:
        getattr(library, re.sub("^(MPIX?)_", r"\1ABI_", name))
    versions = [ctypes.c_int.in_dll(library, f"{of}_version_{part}").value
                for of in ("mpiwrapper", "mpiabi") for part in ("major", "minor", "patch")]
    assert versions[0] == 2 and versions[3:5] == [2, 9]
    library.mpiwrapper_export_fortran_constants_()


def test_constants_of_a_kind_differ():
    library, values = ctypes.CDLL(gloo_c.jax.library()), {}
    for kind, name in re.findall(r"^(error|type|op) (MPI_\w+)", LIST.read_text(encoding="utf-8"), re.M):
        width = ctypes.c_int if kind == "error" else ctypes.c_size_t
        value = width.in_dll(library, name.replace("MPI_", "MPIABI_", 1)).value
        assert value and values.setdefault((kind, value), name) == name
    assert len(values) == 58 + 64 + 14


def alone(program, **variables):
    """Returns the output of a program that is not part of a job, with these variables."""
    ours = re.compile("^(RANK|WORLD_SIZE|MASTER_.*|GLOO_.*)$")
    kept = {name: value for name, value in os.environ.items() if not ours.match(name)}
    done = subprocess.run([sys.executable, "-c", HEAD + program], capture_output=True, text=True,
                          env={**kept, **variables}, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


def test_without_ranks_it_does_not_take_itself_for_the_only_one():
    said = alone("""
bad("OTHER", "RANK and WORLD_SIZE are not set", "Init", None, None)
bad("COMM", "RANK and WORLD_SIZE are not set", "Barrier", WORLD)
half = WIDE(77)
bad("COMM", "MPI_Init failed", "Comm_split", WORLD, 0, 0, ctypes.byref(half))
assert half.value == handle("COMM_NULL").value
good("Finalize")
""")
    assert "gloo_c: MPI_Init: RANK and WORLD_SIZE are not set" in said


def test_a_timeout_that_is_none_is_refused():
    for value in ("soon", "0", "-5", "3s"):
        alone(f"bad('OTHER', 'GLOO_MPI_TIMEOUT is \"{value}\"', 'Init', None, None)", RANK="0",
              WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="1", GLOO_MPI_TIMEOUT=value)
    alone("bad('OTHER', 'GLOO_TIMEOUT is \\'soon\\'', 'Init', None, None)", RANK="0",
          WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="1", GLOO_TIMEOUT="soon")


LATE = HEAD + """
import time
good("Init", None, None)
r = asked("Comm_rank", WORLD)
half = WIDE()
if r == 0:
    begun = time.monotonic()
    bad("OTHER", "all 2 processes must take part", "Comm_split", WORLD, 0, 0, ctypes.byref(half))
    assert 1 < time.monotonic() - begun < 15 and half.value == 0
    bad("COMM", "was not made", "Barrier", half)
else:
    time.sleep(6)
print("done")
"""


@pytest.mark.parametrize("variables", [{"GLOO_MPI_TIMEOUT": "2"}, {"GLOO_TIMEOUT": "2"},
                                       {"GLOO_MPI_TIMEOUT": "2", "GLOO_TIMEOUT": "600"}])
def test_a_communicator_that_not_all_make_fails_in_time(job, monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    status, said = job(LATE, 2)
    assert status == 0 and said.count("done") == 2, said
    assert "gloo_c: MPI_Comm_split: " in said


DEAD = HEAD + """
import os
good("Init", None, None)
r, one = asked("Comm_rank", WORLD), np.zeros(1)
good("Barrier", WORLD)
if r == 1: os._exit(0)
code = call("Allreduce", IN_PLACE, one, 1, handle("DOUBLE"), handle("SUM"), WORLD)
assert code == number("ERR_OTHER") and "rank 1" in text_of(code), text_of(code)
print("done")
"""


def test_a_rank_that_is_gone_is_named(job):
    status, said = job(DEAD, 3)
    assert said.count("done") == 2, said


def test_without_jax_the_package_is_there():
    program = ("import sys; sys.modules['jax'] = None\nimport gloo_c.jax\nprint(gloo_c.jax.library())\n"
               "try: gloo_c.jax.allreduce\nexcept ImportError: print('no jax')\n"
               "try: gloo_c.jax.absent\nexcept AttributeError as error: print(error)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    library, no_jax, absent = done.stdout.splitlines()
    assert library.endswith("/libgloo_c_mpi.so") and no_jax == "no jax" and "absent" in absent


def test_the_variables_are_printed_for_shells():
    def said(command):
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    python, wanted = sys.executable, [gloo_c.jax.library(), "mpi"]
    show = 'echo "$MPITRAMPOLINE_LIB" "$JAX_CPU_COLLECTIVES_IMPLEMENTATION"'
    assert said(f'eval "$({python} -m gloo_c.jax)"; {show}') == wanted
    assert said(f"env $({python} -m gloo_c.jax --env) sh -c '{show}'") == wanted


def test_use_comes_before_jax():
    alone("""
import os
os.environ.pop("MPITRAMPOLINE_LIB", None)
sys.modules["jaxlib"] = None
try: gloo_c.jax.use(); raise SystemExit("it was too late")
except RuntimeError as error: assert "before" in str(error)
del sys.modules["jaxlib"]
gloo_c.jax.use()
assert os.environ["MPITRAMPOLINE_LIB"] == gloo_c.jax.library()
sys.modules["jaxlib"] = None
gloo_c.jax.use()
""")
