"""Operations on a context within functions that JAX compiles.

Each is one primitive of JAX, which XLA runs by calling the library. All of them have one effect,
an ordered one: JAX runs them in the order in which the program has them, in and across compiled
functions, in loops and branches, so that ranks that run the same program agree."""

from __future__ import annotations

import functools
import importlib
import weakref
from typing import Any, NamedTuple, Sequence

from gloo_c import _handles
from gloo_c._binding import ffi, lib
from gloo_c._calls import NO_RANK, OPS
from gloo_c._context import Context
from gloo_c._requests import nanoseconds

# Without types: JAX need not be there when this package is checked.
jax: Any = importlib.import_module("jax")
jnp: Any = importlib.import_module("jax.numpy")
np: Any = importlib.import_module("numpy")
_core: Any = importlib.import_module("jax.extend.core")
_ad: Any = importlib.import_module("jax.interpreters.ad")
_batching: Any = importlib.import_module("jax.interpreters.batching")
_mlir: Any = importlib.import_module("jax.interpreters.mlir")
try:
    # What JAX does not promise to keep, and has no other name for.
    _token: Any = importlib.import_module("jax._src.core").abstract_token
    _effects: Any = importlib.import_module("jax._src.effects")
    _ordered = (_effects.ordered_effects, _effects.lowerable_effects,
                _effects.control_flow_allowed_effects, _effects.remat_allowed_effects,
                _effects.custom_derivatives_allowed_effects)
except (ImportError, AttributeError) as error:
    raise ImportError(f"gloo_c.jax does not know this version of JAX, {jax.__version__}: its "
                      f"ordered effects are not where they were in 0.10 ({error})") from error

# The enum of python/xla/handler.h.
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
    """A context, for a compiled function, which must not keep it."""

    number: int  # in python/xla/contexts.c
    rank: int
    size: int


_keys: weakref.WeakKeyDictionary[Context, Key] = weakref.WeakKeyDictionary()
_held: dict[int, Any] = {}  # handles of contexts, by number
# How long calls may go on when Python ends.
_PATIENCE_NS = 2_000_000_000


def _let_go(number: int, patience_ns: int = -1) -> None:
    """Refuse calls on a context from now on, and wait for those that are under way."""
    if number in _held:
        lib.xla_context_remove(number, patience_ns)
        _held.pop(number, None)


def _let_go_of_all() -> None:
    for number in list(_held):
        _let_go(number, _PATIENCE_NS)


_handles.at_exit(_let_go_of_all)


def _key(context: Context) -> Key:
    found = _keys.get(context)
    if found is not None and found.number in _held:
        return found
    handle = context._held()  # raises when it was closed
    number = int(lib.xla_context_add(handle.pointer))
    if number == 0:
        raise MemoryError("there is no memory left for a context")
    key = Key(number, context.rank, context.size)
    _held[number] = handle
    handle.closers.append(functools.partial(_let_go, number))
    weakref.finalize(context, _handles._destroy, _let_go, number).atexit = False
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


def _lower(ctx: Any, *arrays: Any, call: int, key: Key, op: int, peer: int, from_: int,
           timeout_ns: int) -> Any:
    _register()
    with_token = ctx.replace(avals_in=[_token, *ctx.avals_in], avals_out=[_token, *ctx.avals_out])
    attributes = {"call": call, "context": key.number, "op": op, "peer": peer, "from": from_,
                  "timeout_ns": timeout_ns}
    lowering = jax.ffi.ffi_lowering(_TARGET, has_side_effect=True)
    told, *results = lowering(with_token, ctx.tokens_in.get(_effect), *arrays,
                              **{name: np.int64(value) for name, value in attributes.items()})
    ctx.set_tokens_out(_mlir.TokenSet({_effect: told}))
    return results


_mlir.register_lowering(_primitive, _lower, platform="cpu")


def _bind(call: int, context: Context | Key, arrays: Sequence[Any], *, op: int = 0, peer: int = 0,
          from_: int = 0, timeout_ns: int = 0) -> Any:
    key = context if isinstance(context, Key) else _key(context)
    return _primitive.bind(*arrays, call=call, key=key, op=op, peer=peer, from_=from_,
                           timeout_ns=timeout_ns)


# ---- derivatives -------------------------------------------------------------------------------
#
# What is differentiated is the sum of what all ranks differentiate: then the derivative of a sum
# is the sum of the cotangents of all ranks, and every rank takes part in it.

def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    results = _primitive.bind(*primals, **params)
    if not primals:
        return results, []
    if params["call"] in (ALLREDUCE, REDUCE_SCATTER) and params["op"] not in _LINEAR:
        raise NotImplementedError(
            f"gloo_c.jax.{_NAMES[params['call']]}: only \"sum\" and \"average\" have derivatives")
    # Ranks must agree about calls, so what is known to be zero here is sent all the same.
    dense = [_ad.instantiate_zeros(tangent) for tangent in tangents]
    if dense[0].dtype == jax.dtypes.float0:
        return results, [_ad.Zero.from_primal_value(result) for result in results]
    return results, _primitive.bind(*dense, **params)


def _transpose(cotangents: Any, x: Any, *, call: int, key: Key, op: int, peer: int, from_: int,
               timeout_ns: int) -> Any:
    cotangent = _ad.instantiate_zeros(cotangents[0])
    bind = functools.partial(_bind, timeout_ns=timeout_ns)
    if call in (ALLREDUCE, ALLTOALL):
        return bind(call, key, [cotangent], op=op)
    if call == ALLGATHER:
        flat = cotangent.reshape(key.size * cotangent.shape[1], *cotangent.shape[2:]) \
            if cotangent.ndim > 1 else cotangent
        found = bind(REDUCE_SCATTER, key, [flat], op=OPS["sum"])[0]
        return [found.reshape(cotangent.shape[1:])]
    if call == REDUCE_SCATTER:
        found = bind(ALLGATHER, key, [cotangent])[0]
        found = found.reshape(key.size * cotangent.shape[0], *cotangent.shape[1:])
        return [found / key.size if op == OPS["average"] else found]
    if call == BROADCAST:
        found = bind(ALLREDUCE, key, [cotangent], op=OPS["sum"])[0]
        return [found if key.rank == peer else jnp.zeros_like(found)]
    assert call == SENDRECV
    return bind(SENDRECV, key, [cotangent], peer=from_, from_=peer)


def _batch(arrays: Any, dims: Any, **params: Any) -> Any:
    """All of a batch in one call: behind the axis that ranks share, or in front."""
    call, (x,), (dim,) = params["call"], arrays, dims
    place = 1 if call in (REDUCE_SCATTER, ALLTOALL) else 0
    results = _primitive.bind(jnp.moveaxis(x, dim, place), **params)
    return results, [1 if call == ALLGATHER else place]


_ad.primitive_jvps[_primitive] = _jvp
_ad.primitive_transposes[_primitive] = _transpose
_batching.primitive_batchers[_primitive] = _batch


# ---- for programs ------------------------------------------------------------------------------

def _each(tree: Any, function: Any) -> Any:
    return jax.tree.map(lambda leaf: function(jnp.asarray(leaf)), tree)


def _number_of(op: str) -> int:
    if op not in OPS or op == "scaled_sum":
        raise ValueError(f"there is no operation {op!r} here; there are "
                         f"{', '.join(name for name in OPS if name != 'scaled_sum')}")
    return OPS[op]


def _rank_of(rank: int | None, size: int) -> int:
    if rank is None:
        return NO_RANK
    if not 0 <= rank < size:
        raise ValueError(f"there is no rank {rank}")
    return int(rank)


def _divided(x: Any, size: int, name: str) -> None:
    if x.ndim == 0 or x.shape[0] % size:
        raise ValueError(f"gloo_c.jax.{name}: the first axis of an array of shape {x.shape} cannot "
                         f"be divided among {size} ranks")


def allreduce(x: Any, context: Context, op: str = "sum", *, timeout: float | None = None) -> Any:
    """Combine the arrays of all ranks element by element; every rank gets the result. x is an
    array or a tree of them, here and in all other calls; timeout is in seconds. op: see
    Context.allreduce; derivatives are there for "sum" and "average"."""
    number, limit = _number_of(op), nanoseconds(timeout)
    return _each(x, lambda one: _bind(ALLREDUCE, context, [one], op=number, timeout_ns=limit)[0])


def allgather(x: Any, context: Context, *, timeout: float | None = None) -> Any:
    """The arrays of all ranks, along a new first axis."""
    limit = nanoseconds(timeout)
    return _each(x, lambda one: _bind(ALLGATHER, context, [one], timeout_ns=limit)[0])


def reduce_scatter(x: Any, context: Context, op: str = "sum", *,
                   timeout: float | None = None) -> Any:
    """Combine the arrays of all ranks, and give each rank its part of the first axis."""
    number, limit = _number_of(op), nanoseconds(timeout)

    def one(array: Any) -> Any:
        _divided(array, context.size, "reduce_scatter")
        return _bind(REDUCE_SCATTER, context, [array], op=number, timeout_ns=limit)[0]

    return _each(x, one)


def alltoall(x: Any, context: Context, *, timeout: float | None = None) -> Any:
    """Part j of the first axis goes to rank j, and becomes part r of what that rank gets, where r
    is this rank."""
    limit = nanoseconds(timeout)

    def one(array: Any) -> Any:
        _divided(array, context.size, "alltoall")
        return _bind(ALLTOALL, context, [array], timeout_ns=limit)[0]

    return _each(x, one)


def broadcast(x: Any, context: Context, root: int = 0, *, timeout: float | None = None) -> Any:
    """The array of one rank, on all. The others pass one of the same shape and type."""
    peer, limit = _rank_of(root, context.size), nanoseconds(timeout)
    return _each(x, lambda one: _bind(BROADCAST, context, [one], peer=peer, timeout_ns=limit)[0])


def sendrecv(x: Any, context: Context, to: int | None, from_: int | None, *,
             timeout: float | None = None) -> Any:
    """Send the array to one rank, and return what another one has sent: an array of the same
    shape and type. None: there is no such rank; what would have come is zeros."""
    peer, source = _rank_of(to, context.size), _rank_of(from_, context.size)
    limit = nanoseconds(timeout)
    return _each(x, lambda one: _bind(SENDRECV, context, [one], peer=peer, from_=source,
                                      timeout_ns=limit)[0])


def permute(x: Any, context: Context, pairs: Sequence[tuple[int, int]], *,
            timeout: float | None = None) -> Any:
    """Send along pairs (from, to), in which each rank is there once on either side at most, as
    jax.lax.ppermute does: whom nothing is sent to gets zeros. All ranks pass the same pairs."""
    givers, takers = [a for a, _ in pairs], [b for _, b in pairs]
    for ranks in (givers, takers):
        if len(set(ranks)) < len(ranks):
            raise ValueError("a rank is there twice on one side of the pairs")
        for rank in ranks:
            _rank_of(rank, context.size)
    to, source = dict(pairs).get(context.rank), {b: a for a, b in pairs}.get(context.rank)
    return sendrecv(x, context, to, source, timeout=timeout)


def barrier(context: Context, *, timeout: float | None = None) -> None:
    """Wait until all ranks have come here, as far as their operations are concerned."""
    _bind(BARRIER, context, [], timeout_ns=nanoseconds(timeout))
