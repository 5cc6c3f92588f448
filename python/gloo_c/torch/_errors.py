"""What a failed operation is for PyTorch."""

from __future__ import annotations

import torch.distributed as dist

from .._errors import GlooError


class BackendError(GlooError, dist.DistBackendError):
    """An operation of a process group failed. rank, status and cause are those of GlooError: the
    rank is one of the group."""


def backend_error(error: GlooError) -> BackendError:
    made = BackendError(error.message, error.status, error.cause, error.rank, error.root_rank)
    made.__cause__ = error.__cause__
    return made
