"""Exceptions of the PyTorch backend."""

from __future__ import annotations

import torch.distributed as dist

from .._errors import GlooError


class BackendError(GlooError, dist.DistBackendError):
    """An operation of a process group failed. rank, status and cause are those of GlooError, with
    the rank in the group."""


class ArgumentError(BackendError, ValueError):
    """The arguments of an operation are inconsistent. Nothing was sent, and the group remains
    usable. It is a RuntimeError, as PyTorch's gloo raises, and a ValueError."""


class TensorTypeError(ArgumentError, TypeError):
    """An operation does not support tensors of this type or layout."""


def backend_error(error: GlooError) -> BackendError:
    made = BackendError(error.message, error.status, error.cause, error.rank, error.root_rank)
    made.__cause__ = error.__cause__
    return made
