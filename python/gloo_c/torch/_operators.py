"""Operators of PyTorch: torch.ops.gloo_c.

    torch.ops.gloo_c.all_reduce_(hidden, "sum", group.group_name)

They block until this rank is done, can be part of graphs of torch.compile, and take less time than
torch.distributed: PyTorch calls their kernels for tensors in host memory (python/torch/operators.c)
without Python. Those for other devices, and for all if this PyTorch cannot call kernels in C, are in
this file."""

from __future__ import annotations

import os
from typing import Any, Callable, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C import _distributed_c10d as _c10d

from .. import _native
from .._binding import ffi, lib
from .._errors import failure, give_back, new_error, text
from ._errors import ArgumentError, BackendError, TensorTypeError, backend_error

# The arguments are those of torch.ops._c10d_functional. torch_call_take in operators.c reads them in
# this order.
SCHEMAS = (
    "all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> ()",
    "all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor",
    "all_gather(Tensor input, int group_size, str group_name) -> Tensor",
    "reduce_scatter(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor",
    "broadcast_(Tensor(a!) input, int src, str group_name) -> ()",
    "all_to_all(Tensor input, str group_name) -> Tensor")
_KINDS = dist.ReduceOp
_groups: Any = dist.distributed_c10d  # without types, as torch.library
_OPS = {"sum": _KINDS.SUM, "avg": _KINDS.AVG, "max": _KINDS.MAX, "min": _KINDS.MIN,
        "product": _KINDS.PRODUCT, "band": _KINDS.BAND, "bor": _KINDS.BOR, "bxor": _KINDS.BXOR}


class Operators(NamedTuple):
    """How PyTorch runs the operators on tensors in host memory."""

    native: bool  # true: by C, false: by Python, which takes longer
    why: str


# ---- kernels in Python ---------------------------------------------------------------------------

def _part(what: str, tensor: Tensor, group_name: str) -> Any:
    """Returns the group of this name, or its part for the device of a tensor."""
    found: Any = None
    try:
        found = _groups._resolve_process_group(group_name)
        found = found if hasattr(found, "_context") else found._get_backend(tensor.device)
    except (KeyError, LookupError, RuntimeError, ValueError):
        pass
    if not hasattr(found, "_context"):
        raise ArgumentError(f"torch.ops.gloo_c.{what}: this process has no process group of gloo_c named "
                            f"'{group_name}' for {tensor.device.type}: it was destroyed, or has another "
                            "backend. Pass the group_name of an existing one")
    return found


def _blocking(kind: Any, what: str = "", reduce_op: str | None = None) -> Any:
    options = kind()
    options.asyncOp = False
    if reduce_op is not None:
        if reduce_op not in _OPS:
            raise ArgumentError(f"torch.ops.gloo_c.{what}: reduce_op is '{reduce_op:.40}'; valid: "
                                f"{', '.join(_OPS)}")
        options.reduceOp = _OPS[reduce_op]
    return options


def _rows(what: str, tensor: Tensor, ranks: int) -> int:
    """Returns the number of rows of the block of each rank."""
    if tensor.dim() == 0 or tensor.shape[0] % ranks:
        raise ArgumentError(f"torch.ops.gloo_c.{what}: the {tensor.shape[0] if tensor.dim() else 1} rows of the "
                            f"tensor cannot be divided among {ranks} ranks")
    return tensor.shape[0] // ranks


def _sized(what: str, part: Any, group_size: int) -> None:
    if group_size != part._size:
        raise ArgumentError(f"torch.ops.gloo_c.{what}: group_size is {group_size}, and the process group "
                            f"'{part._name}' has {part._size} ranks")


def _all_reduce_(input: Tensor, reduce_op: str, group_name: str) -> None:
    options = _blocking(_c10d.AllreduceOptions, "all_reduce", reduce_op)
    _part("all_reduce", input, group_name).allreduce([input], options)


def _all_reduce(input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    output = input.clone(memory_format=torch.contiguous_format)
    _all_reduce_(output, reduce_op, group_name)
    return output


def _all_gather(input: Tensor, group_size: int, group_name: str) -> Tensor:
    part = _part("all_gather", input, group_name)
    _sized("all_gather", part, group_size)
    output = _gathered(input, group_size, group_name)
    part.all_gather_single(output, input, _blocking(_c10d.AllgatherOptions))
    return output


def _reduce_scatter(input: Tensor, reduce_op: str, group_size: int, group_name: str) -> Tensor:
    part = _part("reduce_scatter", input, group_name)
    _sized("reduce_scatter", part, group_size)
    output = _scattered(input, reduce_op, group_size, group_name)
    part.reduce_scatter_single(output, input, _blocking(_c10d.ReduceScatterOptions, "reduce_scatter", reduce_op))
    return output


def _broadcast_(input: Tensor, src: int, group_name: str) -> None:
    part, options = _part("broadcast_", input, group_name), _blocking(_c10d.BroadcastOptions)
    if not 0 <= src < part._size:
        raise ArgumentError(f"torch.ops.gloo_c.broadcast_: src is {src}; the group has ranks 0 to {part._size - 1}")
    options.rootRank = src
    part.broadcast([input], options)


def _all_to_all(input: Tensor, group_name: str) -> Tensor:
    part = _part("all_to_all", input, group_name)
    _rows("all_to_all", input, part._size)
    output = torch.empty_like(input, memory_format=torch.contiguous_format)
    part.alltoall_base(output, input.contiguous(), [], [], _blocking(_c10d.AllToAllOptions))
    return output


# ---- without data: shapes for graphs -------------------------------------------------------------

def _changed(input: Tensor, _of_call: Any, _group_name: str) -> None:
    """Both operators in place change elements only."""


def _alike(input: Tensor, *_of_call: Any) -> Tensor:
    return torch.empty_like(input, memory_format=torch.contiguous_format)


def _gathered(input: Tensor, group_size: int, group_name: str) -> Tensor:
    return input.new_empty((group_size * (input.shape[0] if input.dim() else 1), *input.shape[1:]))


def _scattered(input: Tensor, reduce_op: str, group_size: int, group_name: str) -> Tensor:
    return input.new_empty((_rows("reduce_scatter", input, group_size), *input.shape[1:]))


# ---- gradients -----------------------------------------------------------------------------------

def _linear(what: str, reduce_op: str) -> str:
    if reduce_op not in ("sum", "avg"):
        raise NotImplementedError(f"torch.ops.gloo_c.{what}: reduce_op '{reduce_op}' has no gradient; sum and avg "
                                  "have one")
    return reduce_op


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    """Keeps the arguments after the tensor."""
    ctx.of_call = inputs[1:]


def _all_reduce_back(ctx: Any, grad: Tensor) -> Any:
    reduce_op, name = ctx.of_call
    return torch.ops.gloo_c.all_reduce(grad, _linear("all_reduce", reduce_op), name), None, None


def _all_gather_back(ctx: Any, grad: Tensor) -> Any:
    size, name = ctx.of_call
    return torch.ops.gloo_c.reduce_scatter(grad, "sum", size, name), None, None


def _reduce_scatter_back(ctx: Any, grad: Tensor) -> Any:
    reduce_op, size, name = ctx.of_call
    scale = 1 / size if _linear("reduce_scatter", reduce_op) == "avg" else 1
    return torch.ops.gloo_c.all_gather(grad * scale, size, name), None, None, None


def _all_to_all_back(ctx: Any, grad: Tensor) -> Any:
    return torch.ops.gloo_c.all_to_all(grad, ctx.of_call[0]), None


# ---- registration --------------------------------------------------------------------------------

_torch: Any = torch.library
_library = _torch.Library("gloo_c", "DEF")
_KERNELS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any] | None]] = {
    "all_reduce_": (_all_reduce_, _changed, None),
    "all_reduce": (_all_reduce, _alike, _all_reduce_back),
    "all_gather": (_all_gather, _gathered, _all_gather_back),
    "reduce_scatter": (_reduce_scatter, _scattered, _reduce_scatter_back),
    "broadcast_": (_broadcast_, _changed, None),
    "all_to_all": (_all_to_all, _alike, _all_to_all_back)}


def _failure(raised: RuntimeError) -> BackendError | None:
    """Returns the error that a kernel in C had, which PyTorch has turned into a RuntimeError."""
    error, refused = new_error(), ffi.new("int *")
    status = lib.torch_operators_failure(error, refused)
    if not status or text(error.message) != str(raised):
        give_back(error)
        return None
    if not refused[0]:
        return backend_error(failure(status, error))
    kind = TensorTypeError if status in (lib.GLOO_ERR_DTYPE, lib.GLOO_ERR_OP) else ArgumentError
    made = kind(text(error.message), status)
    give_back(error)
    return made


def _wrap(operator: Any, name: str, in_place: bool) -> None:
    """Makes calls of an operator from Python raise errors of this package. PyTorch would take an operator
    in place for one whose gradient is that of its input."""
    run = operator._op

    def call(*args: Any, **kwargs: Any) -> Any:
        if in_place and (args[0] if args else kwargs["input"]).requires_grad and torch.is_grad_enabled():
            raise NotImplementedError(f"torch.ops.gloo_c.{name} changes a tensor that requires a gradient, and has "
                                      "no gradient itself; call it within torch.no_grad()"
                                      + (", or use all_reduce" if name == "all_reduce_" else ""))
        try:
            return run(*args, **kwargs)
        except RuntimeError as raised:
            own = _failure(raised)
            if own is None:
                raise
            raise own from None

    operator._op = call


def _register_native() -> Operators:
    path = getattr(torch._C, "__file__", None)
    if path is None:
        return Operators(False, f"PyTorch {torch.__version__} has no file of its module torch._C")
    reason = lib.torch_operators_register(os.fsencode(path))
    if reason != ffi.NULL:
        return Operators(False, f"PyTorch {torch.__version__} cannot call kernels in C: {text(reason)}")
    return Operators(True, f"PyTorch {torch.__version__} has the stable C interface")


def _register() -> Operators:
    for schema in SCHEMAS:
        name = _library.define(schema, tags=[torch.Tag.pt2_compliant_tag]).rpartition("::")[2]
        kernel, fake, backward = _KERNELS[name]
        _library.impl(name, kernel, "CompositeExplicitAutograd")
        _torch.register_fake(f"gloo_c::{name}", fake, lib=_library)
        if backward is not None:
            _torch.register_autograd(f"gloo_c::{name}", backward, setup_context=_keep, lib=_library)
        packet = getattr(torch.ops.gloo_c, name)
        for operator in (packet, packet.default):
            _wrap(operator, name, backward is None)
    return _register_native()


_operators = _register()


def operators() -> Operators:
    """Says whether PyTorch runs the operators torch.ops.gloo_c on tensors in host memory by C or by
    Python, and why."""
    return _operators


# ---- names ---------------------------------------------------------------------------------------

def list_group(group: Any) -> None:
    """Lets operators find a group by its name until its context is closed."""
    number, name = group._listed
    if not _operators.native or not group._name or name == group._name or group._context.closed:
        return
    _native.remove(number)
    group._listed = (_native.add(group._context, group._name), group._name)
