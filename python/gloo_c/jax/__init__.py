"""JAX on CPUs, over gloo_c.

There are two ways to use it. JAX's own collectives (psum and others, in jit, shard_map and everything
built on them) use gloo_c when JAX finds its library in place of an MPI:

    import gloo_c.jax
    gloo_c.jax.use()  # before jax is imported; or in the shell: eval "$(python -m gloo_c.jax)"
    import jax

And jitted functions can call operations on a gloo_c.Context:

    context = gloo_c.init()
    total = jax.jit(lambda x: gloo_c.jax.allreduce(x, context))(x)

The first needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in addition to
jax.distributed.initialize; the second does not need jax.distributed. JAX is imported when the first
operation is used."""

from __future__ import annotations

import importlib
import os
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._operations import (allgather, allreduce, alltoall, barrier, broadcast, permute,
                              reduce_scatter, sendrecv, token)

_OPERATIONS = ("allgather", "allreduce", "alltoall", "barrier", "broadcast", "permute",
               "reduce_scatter", "sendrecv", "token")
__all__ = ["allgather", "allreduce", "alltoall", "barrier", "broadcast", "environment", "library",
           "permute", "reduce_scatter", "sendrecv", "token", "use"]


def __getattr__(name: str) -> Any:
    # The first use of an operation imports JAX.
    if name not in _OPERATIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module("gloo_c.jax._operations"), name)
    globals()[name] = found
    return found


def library() -> str:
    """Returns the path of the library that JAX loads in place of an MPI."""
    found = Path(str(resources.files("gloo_c"))) / "libgloo_c_mpi.so"
    if not found.is_file():
        raise FileNotFoundError(f"{found} does not exist: this gloo_c was installed without it")
    return str(found)


def environment() -> dict[str, str]:
    """Returns the variables that make JAX find and use that library."""
    return {"MPITRAMPOLINE_LIB": library(), "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "mpi"}


def use() -> None:
    """Sets the variables in this process. Call it before jax is imported, because JAX reads them
    then. Raises RuntimeError if jax is already imported, without them."""
    wanted = environment()
    if all(os.environ.get(name) == value for name, value in wanted.items()):
        return
    if "jaxlib" in sys.modules or "jax" in sys.modules:
        raise RuntimeError("jax was imported before gloo_c.jax.use(): it has read its variables "
                           "already")
    os.environ.update(wanted)
