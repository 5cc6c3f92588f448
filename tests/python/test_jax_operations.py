"""gloo_c.jax.allreduce and other operations: in jit, derivatives, vmap and loops, and their errors."""

import shutil
import subprocess
from pathlib import Path

import pytest

jax = pytest.importorskip("jax", reason="jax is not installed")

HEAD = """
import os
os.environ["JAX_PLATFORMS"] = "cpu"
import gloo_c, gloo_c.jax as gj
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
c = gloo_c.init(timeout=30)
r, n = c.rank, c.size
def eq(found, wanted):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape and np.allclose(found.astype("c16"), wanted.astype("c16")), (found, wanted)
"""

CALLS = HEAD + """
mine = lambda rank: np.arange(6.).reshape(2 * 3) * 10 + rank
every = np.stack([mine(k) for k in range(n)])
x = jnp.asarray(mine(r))
ring = [(k, (k + 1) % n) for k in range(n)]
for call in (lambda f: f, jax.jit):
    eq(call(lambda x: gj.allreduce(x, c))(x), every.sum(0))
    eq(call(lambda x: gj.allreduce(x, c, "average"))(x), every.mean(0))
    eq(call(lambda x: gj.allreduce(x, c, "max"))(x), every.max(0))
    eq(call(lambda x: gj.allgather(x, c))(x), every)
    eq(call(lambda x: gj.allgather(x[0], c))(x), every[:, 0])
    eq(call(lambda x: gj.broadcast(x, c, n - 1))(x), mine(n - 1))
    eq(call(lambda x: gj.permute(x, c, ring))(x), mine((r - 1) % n))
    eq(call(lambda x: gj.sendrecv(x, c, (r + 1) % n, (r - 1) % n))(x), mine((r - 1) % n))
    eq(call(lambda x: gj.permute(x, c, [(0, n - 1)]))(x), mine(0) if r == n - 1 else np.zeros(6))
    y = jnp.arange(2. * n * 3).reshape(2 * n, 3) + r
    eq(call(lambda y: gj.reduce_scatter(y, c))(y),
       (np.arange(6. * n).reshape(2 * n, 3) * n + n * (n - 1) / 2)[2 * r:2 * r + 2])
    blocks = np.arange(6. * n).reshape(n, 2, 3)
    eq(call(lambda y: gj.alltoall(y, c))(y), np.concatenate([blocks[r] + k for k in range(n)]))
    tree = call(lambda t: gj.allreduce(t, c))({"a": x, "b": (jnp.int32(1), jnp.ones((2, 2)) * r)})
    eq(tree["a"], every.sum(0)); eq(tree["b"][0], n); eq(tree["b"][1], np.full((2, 2), n * (n - 1) / 2))
    call(lambda: gj.barrier(c))()
eq(jax.jit(lambda x: gj.allreduce(x, c))(jnp.zeros((0, 3))), np.zeros((0, 3)))
print("done")
"""

DTYPES = HEAD + """
for name in gloo_c.dtypes:
    x = jnp.arange(4).astype(name)
    kind = "max" if name == "bool" else "sum"
    found = jax.jit(lambda x: gj.allreduce(x, c, kind))(x)
    assert found.dtype == x.dtype == name, (found.dtype, name)
    eq(found, np.asarray(x) if name == "bool" else np.arange(4) * n)
    for moved in (gj.broadcast(x, c), gj.allgather(x, c)[n - 1], gj.permute(x, c, [(k, k) for k in range(n)])):
        assert moved.dtype == x.dtype
        eq(moved, x)
print("done")
"""

DERIVATIVES = HEAD + """
# Of the sum of what all ranks differentiate. Each is compared with the same by differences, for which
# one rank's input is changed, and all ranks add up what they get.
size = 2 * n
weights = np.random.RandomState(7).rand(n, 64)
calls = {
    "allreduce": lambda x: gj.allreduce(x, c), "average": lambda x: gj.allreduce(x, c, "average"),
    "allgather": lambda x: gj.allgather(x, c), "reduce_scatter": lambda x: gj.reduce_scatter(x, c),
    "reduce_scatter average": lambda x: gj.reduce_scatter(x, c, "average"), "alltoall": lambda x: gj.alltoall(x, c),
    "broadcast": lambda x: gj.broadcast(x, c, n - 1), "permute": lambda x: gj.permute(x, c, [(0, n - 1)]),
    "sendrecv": lambda x: gj.sendrecv(x, c, (r + 1) % n, (r - 1) % n),
}
start = jnp.asarray(np.random.RandomState(r).rand(size))
for name, call in calls.items():
    def loss(x):
        y = call(x).ravel()
        return jnp.sum(jnp.sin(y) * weights[r, :y.size])
    whole = jax.jit(lambda x: gj.allreduce(loss(x), c))
    wanted, step = np.zeros((n, size)), 1e-5
    for rank in range(n):
        for k in range(size):
            change = np.zeros(size); change[k] = step if rank == r else 0
            wanted[rank, k] = (whole(start + change) - whole(start - change)) / (2 * step)
    for way in (jax.grad(loss), jax.jit(jax.grad(loss)), jax.grad(jax.jit(loss)),
                jax.grad(jax.checkpoint(loss)), lambda x: jax.vjp(loss, x)[1](1.)[0]):
        assert np.allclose(way(start), wanted[r], atol=1e-6), (name, way(start), wanted[r])
    toward = jnp.ones(size)
    slope = jax.jvp(loss, (start,), (toward,))[1]
    assert np.allclose(gj.allreduce(slope, c), wanted.sum(), atol=1e-6), name
    eq(jax.jit(jax.hessian(lambda x: (gj.allreduce(x, c) ** 2).sum()))(jnp.ones(2)), 2. * n * n * np.eye(2))
try:
    jax.grad(lambda x: gj.allreduce(x, c, "max").sum())(start)
    raise SystemExit("max has a derivative")
except NotImplementedError as error:
    assert "average" in str(error)
print("done")
"""

BATCHES = HEAD + """
x = np.random.RandomState(r).rand(3, 2 * n, 5)
for call in (lambda x: gj.allreduce(x, c), lambda x: gj.allgather(x, c), lambda x: gj.reduce_scatter(x, c),
             lambda x: gj.alltoall(x, c), lambda x: gj.broadcast(x, c), lambda x: gj.permute(x, c, [(0, n - 1)]),
             lambda x: gj.sendrecv(x, c, (r + 1) % n, (r - 1) % n)):
    one_by_one = np.stack([call(jnp.asarray(x[k])) for k in range(3)])
    eq(jax.jit(jax.vmap(call))(x), one_by_one)
    eq(jax.vmap(call, in_axes=2)(np.moveaxis(x, 0, 2)), one_by_one)
    eq(jax.vmap(jax.vmap(call))(x[None]), one_by_one[None])
    grads = np.stack([jax.grad(lambda a: (call(a) ** 2).sum())(jnp.asarray(x[k])) for k in range(3)])
    eq(jax.vmap(jax.grad(lambda a: (call(a) ** 2).sum()))(x), grads)
print("done")
"""

LOOPS = HEAD + """
ar = lambda x: gj.allreduce(x, c)
x = jnp.ones(3) * (r + 1)
total = n * (n + 1) / 2
eq(jax.jit(lambda x: jax.lax.scan(lambda a, _: (ar(a) / n, a[0]), x, None, length=50)[0])(x), np.full(3, total / n))
eq(jax.jit(jax.grad(lambda x: jax.lax.scan(lambda a, _: (ar(a) / n, None), x, None, length=5)[0].sum()))(x), np.ones(3))
eq(jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda i, a: ar(a), x))(x), np.full(3, total * n * n))
eq(jax.jit(lambda x: jax.lax.while_loop(lambda a: a.sum() < 100, lambda a: ar(a) + 40, x))(x),
   np.full(3, total + 40) if total > 0 else 0)
eq(jax.jit(lambda x: jax.lax.cond(n > 0, ar, lambda a: a, x))(x), np.full(3, total))
# Independent calls of one shape and type: mixed up, they would give each other's sums.
def many(x):
    return [ar(x * k) for k in range(40)]
for turn in range(20):
    for k, y in enumerate(jax.jit(many)(x)): eq(y, np.full(3, total * k))
# And in compiled functions that are started one after the other, without waiting.
f, g = jax.jit(lambda x: ar(x * 2)), jax.jit(lambda x: ar(x * 3))
found = [(f if k % 3 else g)(x * k) for k in range(60)]
for k, y in enumerate(found): eq(y, np.full(3, total * k * (2 if k % 3 else 3)))
# What is not used is sent all the same.
jax.jit(lambda x: [ar(x), x][1])(x).block_until_ready()
eq(ar(x), np.full(3, total))
print("done")
"""

TOKENS = HEAD + """
x = jnp.arange(6.) + r
every = np.stack([np.arange(6.) + k for k in range(n)])
ring = [(k, (k + 1) % n) for k in range(n)]
def chain(x, t):
    a, t = gj.allreduce(x, c, token=t)
    b, t = gj.allgather(x, c, token=t)
    t = gj.barrier(c, token=t)
    e, t = gj.broadcast(x, c, n - 1, token=t)
    d, t = gj.permute(x, c, ring, token=t)
    e2, t = gj.sendrecv(x, c, (r + 1) % n, (r - 1) % n, token=t)
    y = jnp.tile(x, n)
    g, t = gj.reduce_scatter(y, c, token=t)
    h, t = gj.alltoall(y, c, token=t)
    tree, t = gj.allreduce({"a": x, "b": x * 2}, c, "max", token=t)
    return [a, b, e, d, e2, g, h, tree["a"], tree["b"]], t
def check(found):
    wanted = [every.sum(0), every, every[n - 1], every[(r - 1) % n], every[(r - 1) % n], every.sum(0), every.ravel(),
              every.max(0), 2 * every.max(0)]
    for a, b in zip(found, wanted): eq(a, b)
found, t = chain(x, gj.token()); check(found)
assert t.shape == () and t.dtype == "uint32" and t == 0
f = jax.jit(chain)
for turn in range(20):
    found, t = f(x, t); check(found)
# Calls that only the token orders, in one function and in several that are not waited for.
def many(x, t):
    found = []
    for k in range(40):
        y, t = gj.allreduce(x * k, c, token=t)
        found.append(y)
    return found[::-1], t
g, waiting, t = jax.jit(many), [], gj.token()
for turn in range(20):
    found, t = g(x + turn, t)
    waiting.append(found)
for turn, found in enumerate(waiting):
    for k, y in enumerate(found[::-1]): eq(y, (every + turn).sum(0) * k)
def body(carry, k):
    y, t = gj.allreduce(carry[0] + k, c, token=carry[1])
    return (y / n, t), y
(y, t), ys = jax.jit(lambda x, t: jax.lax.scan(body, (x, t), jnp.arange(30.)))(x, t)
eq(y, every.mean(0) + 29 * 30 / 2)
eq(jax.jit(lambda x, t: jax.vmap(lambda x: gj.allreduce(x, c, token=t)[0])(x))(jnp.stack([x, 2 * x]), t),
   np.stack([every.sum(0), 2 * every.sum(0)]))
# Arguments of calls do not decide whether a call is made: the same sums twice are two calls.
def twice(x, t):
    a, t = gj.allreduce(x, c, token=t)
    b, t = gj.allreduce(x, c, token=t)
    return a + b, t
eq(jax.jit(twice)(x, t)[0], 2 * every.sum(0))
try: jax.grad(lambda x: gj.allreduce(x, c, token=gj.token())[0].sum())(x); raise SystemExit("it has a derivative")
except NotImplementedError as error: assert "no derivatives" in str(error)
for wrong in (1.5, jnp.zeros(2, "uint32")):
    try: gj.allreduce(x, c, token=jnp.asarray(wrong)); raise SystemExit("it is no token")
    except TypeError as error: assert "token" in str(error)
print("done")
"""

ERRORS = HEAD + """
import threading, time
f = jax.jit(lambda x: gj.allreduce(x, c))
x = jnp.ones(3)
for call in (lambda: gj.allreduce(x, c, "most"), lambda: gj.allreduce(x, c, "scaled_sum"),
             lambda: gj.broadcast(x, c, n), lambda: gj.permute(x, c, [(0, 0), (0, 1)]),
             lambda: gj.permute(x, c, [(0, n)]), lambda: gj.sendrecv(x, c, -1, None),
             lambda: gj.reduce_scatter(jnp.ones(2 * n + 1), c), lambda: gj.alltoall(jnp.ones(()), c)):
    try: call()
    except ValueError: continue
    raise SystemExit("it was taken")
try: gj.allreduce(jnp.ones(2, "complex64"), c, "max"); raise SystemExit("it was taken")
except jax.errors.JaxRuntimeError as error: assert "complex64" in str(error), error
eq(f(x), x * n)
d = c.split(0)
g = jax.jit(lambda x: gj.allreduce(x, d))
eq(g(x), x * n)
d.close()
try: g(x); raise SystemExit("a closed context was used")
except jax.errors.JaxRuntimeError as error: assert "FAILED_PRECONDITION: gloo_c: this context was closed" in str(error), error
try: gj.allreduce(x, d); raise SystemExit("a closed context was used")
except ValueError as error: assert "closed" in str(error)
# To close a context waits for calls that are under way.
e = c.split(0)
h = jax.jit(lambda x: gj.allreduce(x, e))
eq(h(x), x * n)
if r == 0:
    y = h(x)
    time.sleep(0.2)
    e.close()
    eq(y, x * n)
else:
    time.sleep(1)
    eq(h(x), x * n)
    e.close()
# A rank that calls something else is named, on all.
try: gj.allreduce(jnp.ones(3 + (r == 1)), c).block_until_ready(); raise SystemExit("they agree")
except jax.errors.JaxRuntimeError as error: assert "FAILED_PRECONDITION" in str(error) and "gloo_c: " in str(error), error
try: f(x).block_until_ready(); raise SystemExit("it went on")
except jax.errors.JaxRuntimeError as error: assert "gloo_c: " in str(error), error
print("done")
"""

LEFT = HEAD + """
f = jax.jit(lambda x: gj.allreduce(x, c, timeout=20))
eq(f(jnp.ones(3)), [n] * 3)
if r == 1: os._exit(0)
try: f(jnp.ones(3)).block_until_ready(); raise SystemExit("it went on")
except jax.errors.JaxRuntimeError as error: assert "UNAVAILABLE: gloo_c: " in str(error) and "rank 1" in str(error), error
print("done", flush=True)
"""


PROGRAMS = [("calls", CALLS, 1), ("calls", CALLS, 2), ("calls", CALLS, 4), ("dtypes", DTYPES, 2),
            ("vmap", BATCHES, 2), ("loops", LOOPS, 2), ("loops", LOOPS, 4),
            ("tokens", TOKENS, 1), ("tokens", TOKENS, 2), ("tokens", TOKENS, 4)]


@pytest.mark.parametrize("program, size", [case[1:] for case in PROGRAMS],
                         ids=[f"{case[0]}-{case[2]}" for case in PROGRAMS])
def test_programs(job, program, size):
    status, said = job(program, size, timeout=240)
    assert status == 0 and said.count("done") == size, said


def test_derivatives(job):
    status, said = job(DERIVATIVES, 3, timeout=300)
    assert status == 0 and said.count("done") == 3, said


def test_errors(job):
    status, said = job(ERRORS, 2, timeout=120)
    assert status == 0 and said.count("done") == 2, said


def test_a_rank_that_is_gone_is_named(job):
    _, said = job(LEFT, 3, timeout=120)
    assert said.count("done") == 2, said


LAYOUT = """
#include <stddef.h>
#include <stdint.h>
#include "xla/ffi/api/c_api.h"
#include "ffi.h"
#define SAME(ours, field, theirs, other)                                          \\
  _Static_assert(offsetof(ours, field) == offsetof(theirs, other), #field);       \\
  _Static_assert(sizeof(((ours *)0)->field) == sizeof(((theirs *)0)->other), #field)
#define NUMBER(ours, theirs) _Static_assert((int)ours == (int)theirs, #ours)
SAME(xla_extension, struct_size, XLA_FFI_Extension_Base, struct_size);
SAME(xla_extension, type, XLA_FFI_Extension_Base, type);
SAME(xla_version, major, XLA_FFI_Api_Version, major_version);
SAME(xla_version, minor, XLA_FFI_Api_Version, minor_version);
SAME(xla_metadata, version, XLA_FFI_Metadata, api_version);
SAME(xla_metadata, traits, XLA_FFI_Metadata, traits);
SAME(xla_metadata_extension, metadata, XLA_FFI_Metadata_Extension, metadata);
SAME(xla_error_args, message, XLA_FFI_Error_Create_Args, message);
SAME(xla_error_args, code, XLA_FFI_Error_Create_Args, errc);
_Static_assert(XLA_ERROR_ARGS_SIZE == XLA_FFI_Error_Create_Args_STRUCT_SIZE, "size");
SAME(xla_api, version, XLA_FFI_Api, api_version);
SAME(xla_api, error_create, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME(xla_buffer, dtype, XLA_FFI_Buffer, dtype);
SAME(xla_buffer, data, XLA_FFI_Buffer, data);
SAME(xla_buffer, rank, XLA_FFI_Buffer, rank);
SAME(xla_buffer, dims, XLA_FFI_Buffer, dims);
SAME(xla_values, size, XLA_FFI_Args, size);
SAME(xla_values, types, XLA_FFI_Args, types);
SAME(xla_values, values, XLA_FFI_Args, args);
SAME(xla_values, size, XLA_FFI_Rets, size);
SAME(xla_values, types, XLA_FFI_Rets, types);
SAME(xla_values, values, XLA_FFI_Rets, rets);
SAME(xla_text, characters, XLA_FFI_ByteSpan, ptr);
SAME(xla_text, length, XLA_FFI_ByteSpan, len);
SAME(xla_scalar, dtype, XLA_FFI_Scalar, dtype);
SAME(xla_scalar, value, XLA_FFI_Scalar, value);
SAME(xla_attributes, size, XLA_FFI_Attrs, size);
SAME(xla_attributes, types, XLA_FFI_Attrs, types);
SAME(xla_attributes, names, XLA_FFI_Attrs, names);
SAME(xla_attributes, values, XLA_FFI_Attrs, attrs);
SAME(xla_frame, api, XLA_FFI_CallFrame, api);
SAME(xla_frame, stage, XLA_FFI_CallFrame, stage);
SAME(xla_frame, arguments, XLA_FFI_CallFrame, args);
SAME(xla_frame, results, XLA_FFI_CallFrame, rets);
SAME(xla_frame, attributes, XLA_FFI_CallFrame, attrs);
NUMBER(XLA_MAJOR, XLA_FFI_API_MAJOR);
_Static_assert(XLA_MINOR <= XLA_FFI_API_MINOR, "minor");
NUMBER(XLA_EXTENSION_METADATA, XLA_FFI_Extension_Metadata);
NUMBER(XLA_BUFFER, XLA_FFI_ArgType_BUFFER);
NUMBER(XLA_BUFFER, XLA_FFI_RetType_BUFFER);
NUMBER(XLA_SCALAR, XLA_FFI_AttrType_SCALAR);
#define CODE(name) NUMBER(XLA_##name, XLA_FFI_Error_Code_##name)
CODE(INVALID_ARGUMENT); CODE(DEADLINE_EXCEEDED); CODE(RESOURCE_EXHAUSTED); CODE(FAILED_PRECONDITION);
CODE(ABORTED); CODE(UNIMPLEMENTED); CODE(INTERNAL); CODE(UNAVAILABLE);
#define TYPE(name) NUMBER(XLA_##name, XLA_FFI_DataType_##name)
TYPE(PRED); TYPE(S8); TYPE(S16); TYPE(S32); TYPE(S64); TYPE(U8); TYPE(U16); TYPE(U32); TYPE(U64);
TYPE(F16); TYPE(F32); TYPE(F64); TYPE(C64); TYPE(BF16); TYPE(TOKEN); TYPE(C128); TYPE(F8E5M2); TYPE(F8E4M3FN);
"""


def compiled(text):
    """Returns a compiler's output, or None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    ours = Path(__file__).resolve().parents[2] / "python/xla"
    done = subprocess.run([compiler, "-std=c11", "-fsyntax-only", f"-I{jax.ffi.include_dir()}",
                           f"-I{ours}", "-xc", "-"], input=text, capture_output=True, text=True,
                          timeout=60)
    return done.stderr if done.returncode else ""


def test_the_interface_is_that_of_the_jaxlib_that_is_installed():
    said = compiled(LAYOUT)
    if said is None:
        pytest.skip("there is no C compiler")
    assert said == "", said
    assert "XLA_F16" in compiled(LAYOUT.replace("TYPE(F16)", "NUMBER(XLA_F16, XLA_FFI_DataType_F32)"))
