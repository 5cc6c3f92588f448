"""Operations on a context within functions that JAX compiles.

XLA runs them by calling the library, one after the other, in the same order on all ranks. A call
can get its order in two ways, each with a JAX primitive:

- By an ordered effect, which is the default. JAX runs such calls in program order, within and
    across compiled functions, in loops and branches. It starts functions with effects on a slower
    path than others.
- By a token that the program passes from call to call: a number, which a call takes and returns. To
    JAX such a call is like any other function."""

from __future__ import annotations

import functools
import importlib
import weakref
from typing import Any, NamedTuple, Sequence

from gloo_c import _native
from gloo_c._binding import ffi, lib
from gloo_c._calls import OPS
from gloo_c._collectives import NO_RANK
from gloo_c._context import Context
from gloo_c._convert import nanoseconds

# Untyped: JAX may be absent when this package is type-checked.
jax: Any = importlib.import_module("jax")
jnp: Any = importlib.import_module("jax.numpy")
np: Any = importlib.import_module("numpy")
_core: Any = importlib.import_module("jax.extend.core")
_ad: Any = importlib.import_module("jax.interpreters.ad")
_batching: Any = importlib.import_module("jax.interpreters.batching")
_mlir: Any = importlib.import_module("jax.interpreters.mlir")
try:
    # JAX does not guarantee these names, but has no others for them.
    _token: Any = importlib.import_module("jax._src.core").abstract_token
    _effects: Any = importlib.import_module("jax._src.effects")
    _ordered = (_effects.ordered_effects, _effects.lowerable_effects,
                _effects.control_flow_allowed_effects, _effects.remat_allowed_effects,
                _effects.custom_derivatives_allowed_effects)
except (ImportError, AttributeError) as error:
    raise ImportError(f"gloo_c.jax does not support JAX {jax.__version__}: its "
                      f"ordered effects have moved since 0.10 ({error})") from error

# The same values as the enum in python/xla/handler.h.
ALLREDUCE, ALLGATHER, REDUCE_SCATTER, ALLTOALL, BROADCAST, SENDRECV, BARRIER = range(7)
_NAMES = ("allreduce", "allgather", "reduce_scatter", "alltoall", "broadcast", "sendrecv", "barrier")
_LINEAR = (OPS["sum"], OPS["average"])
_TARGET = "gloo_c"


class _Effect(_core.Effect):  # type: ignore[misc]
    def __str__(self) -> str:
        return "gloo_c"


_effect = _Effect()
for _kinds in _ordered:
    _kinds.add_type(_Effect)


# ---- contexts ----------------------------------------------------------------------------------

class Key(NamedTuple):
    """The key of a context in a compiled function, which must not keep the context alive."""

    number: int  # as in python/native/contexts.c
    rank: int
    size: int


_keys: weakref.WeakKeyDictionary[Context, Key] = weakref.WeakKeyDictionary()


def _key(context: Context) -> Key:
    found = _keys.get(context)
    if found is not None and _native.listed(found.number):
        return found
    key = Key(_native.add(context), context.rank, context.size)
    _keys[context] = key
    return key


# ---- the primitive -----------------------------------------------------------------------------

_primitive = _core.Primitive("gloo_c")
_primitive.multiple_results = True


def _shape_after(call: int, shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    if call == ALLGATHER:
        return (size, *shape)
    if call == REDUCE_SCATTER:
        return (shape[0] // size, *shape[1:])
    return shape


def _abstract(*arrays: Any, call: int, key: Key, **_: Any) -> Any:
    results = [jax.core.ShapedArray(_shape_after(call, x.shape, key.size), x.dtype) for x in arrays]
    return results, {_effect}


_primitive.def_effectful_abstract_eval(_abstract)


@functools.lru_cache(maxsize=None)
def _compiled(**params: Any) -> Any:
    return jax.jit(functools.partial(_primitive.bind, **params))


_primitive.def_impl(lambda *arrays, **params: _compiled(**params)(*arrays))


@functools.lru_cache(maxsize=None)
def _register() -> None:
    address = int(ffi.cast("uintptr_t", lib.xla_handler_address()))
    ctypes = importlib.import_module("ctypes")
    handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)
    jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(handler), platform="cpu")


def _attributes(call: int, key: Key, op: int, peer: int, from_: int,
                timeout_ns: int) -> dict[str, Any]:
    """Returns the attributes that python/xla/handler.c reads."""
    values = {"call": call, "context": key.number, "op": op, "peer": peer, "from": from_,
              "timeout_ns": timeout_ns}
    return {name: np.int64(value) for name, value in values.items()}


def _lower(ctx: Any, *arrays: Any, **params: Any) -> Any:
    _register()
    with_token = ctx.replace(avals_in=[_token, *ctx.avals_in], avals_out=[_token, *ctx.avals_out])
    lowering = jax.ffi.ffi_lowering(_TARGET, has_side_effect=True)
    told, *results = lowering(with_token, ctx.tokens_in.get(_effect), *arrays,
                              **_attributes(**params))
    ctx.set_tokens_out(_mlir.TokenSet({_effect: told}))
    return results


_mlir.register_lowering(_primitive, _lower, platform="cpu")

# Variants with a token after the array (for a barrier, alone), and without the effect.
_chained = _core.Primitive("gloo_c_chained")
_chained.multiple_results = True
_TOKEN = np.dtype("uint32")


def _chained_abstract(*arrays: Any, call: int, key: Key, **_: Any) -> Any:
    *given, token = arrays
    if token.shape != () or token.dtype != _TOKEN:
        raise TypeError(f"the token is an array of {token.dtype} with shape "
                        f"{token.shape}; gloo_c.jax.token() creates the first one")
    results = [jax.core.ShapedArray(_shape_after(call, x.shape, key.size), x.dtype) for x in given]
    return [*results, jax.core.ShapedArray((), _TOKEN)]


_chained.def_abstract_eval(_chained_abstract)


@functools.lru_cache(maxsize=None)
def _chained_compiled(**params: Any) -> Any:
    return jax.jit(functools.partial(_chained.bind, **params))


_chained.def_impl(lambda *arrays, **params: _chained_compiled(**params)(*arrays))


def _chained_lower(ctx: Any, *arrays: Any, **params: Any) -> Any:
    _register()
    return jax.ffi.ffi_lowering(_TARGET)(ctx, *arrays, **_attributes(**params))


_mlir.register_lowering(_chained, _chained_lower, platform="cpu")


def _chained_jvp(primals: Any, tangents: Any, *, call: int, **_: Any) -> Any:
    raise NotImplementedError(f"gloo_c.jax.{_NAMES[call]}: calls with a token have no derivatives, "
                              "because derivatives of several calls have no order; omit it")


def _chained_batch(arrays: Any, dims: Any, **params: Any) -> Any:
    if dims[-1] is not None:
        raise ValueError("vmap cannot map over a token")
    if len(arrays) == 1:
        return _chained.bind(*arrays, **params), [None]
    moved, result = _batched(params["call"], arrays[0], dims[0])
    return _chained.bind(moved, arrays[1], **params), [result, None]


_ad.primitive_jvps[_chained] = _chained_jvp
_batching.primitive_batchers[_chained] = _chained_batch




# ---- derivatives -------------------------------------------------------------------------------
#
# The differentiated function is the sum of those of all ranks: so the derivative of a sum is the sum
# of the cotangents of all ranks, and every rank takes part in it.

def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    results = _primitive.bind(*primals, **params)
    if not primals:
        return results, []
    if params["call"] in (ALLREDUCE, REDUCE_SCATTER) and params["op"] not in _LINEAR:
        raise NotImplementedError(
            f"gloo_c.jax.{_NAMES[params['call']]}: only \"sum\" and \"average\" have derivatives")
    # All ranks must make the same calls, so even a known zero is sent.
    dense = [_ad.instantiate_zeros(tangent) for tangent in tangents]
    if dense[0].dtype == jax.dtypes.float0:
        return results, [_ad.Zero.from_primal_value(result) for result in results]
    return results, _primitive.bind(*dense, **params)


def _transpose(cotangents: Any, x: Any, *, call: int, key: Key, op: int, peer: int, from_: int,
               timeout_ns: int) -> Any:
    cotangent = _ad.instantiate_zeros(cotangents[0])

    def bind(call: int, array: Any, op: int = 0, peer: int = 0, from_: int = 0) -> Any:
        return _primitive.bind(array, call=call, key=key, op=op, peer=peer, from_=from_,
                               timeout_ns=timeout_ns)[0]

    if call in (ALLREDUCE, ALLTOALL):
        return [bind(call, cotangent, op)]
    if call == ALLGATHER:
        blocks = cotangent.shape[1:]
        rows = key.size * (blocks[0] if blocks else 1)
        flat = cotangent.reshape(rows, *blocks[1:])
        return [bind(REDUCE_SCATTER, flat, OPS["sum"]).reshape(blocks)]
    if call == REDUCE_SCATTER:
        rows = key.size * cotangent.shape[0]
        found = bind(ALLGATHER, cotangent).reshape(rows, *cotangent.shape[1:])
        return [found / key.size if op == OPS["average"] else found]
    if call == BROADCAST:
        found = bind(ALLREDUCE, cotangent, OPS["sum"])
        return [found if key.rank == peer else jnp.zeros_like(found)]
    assert call == SENDRECV
    return [bind(SENDRECV, cotangent, peer=from_, from_=peer)]


def _batched(call: int, x: Any, dim: int) -> tuple[Any, int]:
    """Runs a batch as one call, with the batch axis behind the axis that ranks share, or in front.
    Returns the array, and the position of the batch axis in the result."""
    place = 1 if call in (REDUCE_SCATTER, ALLTOALL) else 0
    return jnp.moveaxis(x, dim, place), 1 if call == ALLGATHER else place


def _batch(arrays: Any, dims: Any, **params: Any) -> Any:
    moved, result = _batched(params["call"], arrays[0], dims[0])
    return _primitive.bind(moved, **params), [result]


_ad.primitive_jvps[_primitive] = _jvp
_ad.primitive_transposes[_primitive] = _transpose
_batching.primitive_batchers[_primitive] = _batch


# ---- for programs ------------------------------------------------------------------------------

def token() -> Any:
    """Returns the first token of a chain of calls, whose order is that of their tokens: each takes
    the token that the previous one returned. Calls with tokens and calls without have no order
    among each other."""
    return jnp.zeros((), _TOKEN)


def _each(tree: Any, context: Context, call: int, chain: Any, *, check: bool = False,
          op: int = 0, peer: int = 0, from_: int = 0, timeout: float | None) -> Any:
    """Makes a call for each array; returns their results, and the last token if there is one."""
    leaves, shape = jax.tree.flatten(tree)
    found, key, size = [], _key(context), context.size
    params = {"call": call, "key": key, "op": op, "peer": peer, "from_": from_,
              "timeout_ns": nanoseconds(timeout)}
    for leaf in leaves:
        x = jnp.asarray(leaf)
        if check and (x.ndim == 0 or x.shape[0] % size):
            raise ValueError(f"gloo_c.jax.{_NAMES[call]}: the first axis of an array of shape "
                             f"{x.shape} cannot be divided among {size} ranks")
        if chain is None:
            found.append(_primitive.bind(x, **params)[0])
        else:
            result, chain = _chained.bind(x, chain, **params)
            found.append(result)
    results = jax.tree.unflatten(shape, found)
    return results if chain is None else (results, chain)


def _number_of(op: str) -> int:
    if op not in OPS or op == "scaled_sum":
        raise ValueError(f"unknown operation {op!r}; valid: "
                         f"{', '.join(name for name in OPS if name != 'scaled_sum')}")
    return OPS[op]


def _rank_of(rank: int | None, size: int) -> int:
    if rank is None:
        return NO_RANK
    if not 0 <= rank < size:
        raise ValueError(f"rank {rank} does not exist")
    return int(rank)


def allreduce(x: Any, context: Context, op: str = "sum", *, token: Any = None,
              timeout: float | None = None) -> Any:
    """Combines the arrays of all ranks element by element; every rank gets the result.

    x: an array or a tree of arrays, here and in all other calls.
    op: see Context.allreduce; "sum" and "average" can be differentiated.
    timeout: seconds.
    token: with a token, the result and the next token are returned."""
    return _each(x, context, ALLREDUCE, token, op=_number_of(op), timeout=timeout)


def allgather(x: Any, context: Context, *, token: Any = None, timeout: float | None = None) -> Any:
    """Returns the arrays of all ranks, along a new first axis."""
    return _each(x, context, ALLGATHER, token, timeout=timeout)


def reduce_scatter(x: Any, context: Context, op: str = "sum", *, token: Any = None,
                   timeout: float | None = None) -> Any:
    """Combines the arrays of all ranks; each rank gets its part of the first axis."""
    return _each(x, context, REDUCE_SCATTER, token, check=True, op=_number_of(op), timeout=timeout)


def alltoall(x: Any, context: Context, *, token: Any = None, timeout: float | None = None) -> Any:
    """Sends part j of the first axis to rank j, where it becomes part r of the result, r being this
    rank."""
    return _each(x, context, ALLTOALL, token, check=True, timeout=timeout)


def broadcast(x: Any, context: Context, root: int = 0, *, token: Any = None,
              timeout: float | None = None) -> Any:
    """Returns the array of one rank on all ranks. The others pass an array of the same shape and
    type."""
    return _each(x, context, BROADCAST, token, peer=_rank_of(root, context.size), timeout=timeout)


def sendrecv(x: Any, context: Context, to: int | None, from_: int | None, *, token: Any = None,
             timeout: float | None = None) -> Any:
    """Sends the array to one rank, and returns the array from another one, of the same shape and
    type. None: no such rank; the result without a sender is zeros."""
    return _each(x, context, SENDRECV, token, peer=_rank_of(to, context.size),
                 from_=_rank_of(from_, context.size), timeout=timeout)


def permute(x: Any, context: Context, pairs: Sequence[tuple[int, int]], *, token: Any = None,
            timeout: float | None = None) -> Any:
    """Sends along pairs (from, to), in which each rank occurs at most once on either side, as
    jax.lax.ppermute does: a rank without a sender gets zeros. All ranks pass the same pairs."""
    givers, takers = [a for a, _ in pairs], [b for _, b in pairs]
    for ranks in (givers, takers):
        if len(set(ranks)) < len(ranks):
            raise ValueError("a rank is listed twice on one side of the pairs")
        for rank in ranks:
            _rank_of(rank, context.size)
    to, source = dict(pairs).get(context.rank), {b: a for a, b in pairs}.get(context.rank)
    return sendrecv(x, context, to, source, token=token, timeout=timeout)


def barrier(context: Context, *, token: Any = None, timeout: float | None = None) -> Any:
    """Waits until all ranks have entered the barrier, in the order of their operations. Returns the
    next token, if one was passed."""
    params = {"call": BARRIER, "key": _key(context), "op": 0, "peer": 0, "from_": 0,
              "timeout_ns": nanoseconds(timeout)}
    if token is not None:
        return _chained.bind(token, **params)[0]
    _primitive.bind(**params)
    return None
