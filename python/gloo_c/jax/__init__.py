"""JAX on CPUs, over gloo_c.

There are two ways to use it. JAX's own collectives (psum and others, in jit, shard_map and everything
built on them) use gloo_c when JAX finds its library in place of an MPI:

    import gloo_c.jax
    gloo_c.jax.initialize()  # before jax is imported
    import jax

And jitted functions can call operations on a gloo_c.Context:

    context = gloo_c.init()
    total = jax.jit(lambda x: gloo_c.jax.allreduce(x, context))(x)

The first needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as gloo run sets them; the second does
not need jax.distributed. JAX is imported by initialize(), and when the first operation is used."""

from __future__ import annotations

import importlib
import os
import socket
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._operations import (allgather, allreduce, alltoall, barrier, broadcast, permute,
                              reduce_scatter, sendrecv, token)

_OPERATIONS = ("allgather", "allreduce", "alltoall", "barrier", "broadcast", "permute",
               "reduce_scatter", "sendrecv", "token")
__all__ = ["allgather", "allreduce", "alltoall", "barrier", "broadcast", "environment",
           "initialize", "library", "permute", "reduce_scatter", "sendrecv", "token", "use"]
_WANTED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


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


def _whole(name: str, least: int, most: int) -> int:
    """Returns the value of a variable."""
    try:
        value = int(os.environ[name])
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        raise ValueError(f"{name} is {os.environ[name]!r}; expected a whole number from {least} to {most}")
    return value


def _check_free(port: int) -> None:
    """Raises an error if the port is in use: JAX would end the process."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise OSError(error.errno, f"cannot use port {port} for jax.distributed: {error.strerror}; set "
                          "another MASTER_PORT, or pass coordinator_port") from None


def initialize(*, coordinator_port: int | None = None, **options: Any) -> None:
    """Selects gloo_c for JAX's own collectives and calls jax.distributed.initialize, with the rank,
    size and address in RANK, WORLD_SIZE and MASTER_ADDR. Call it before jax is imported.

    coordinator_port: port of JAX's coordinator on rank 0; default: MASTER_PORT + 1, because the
        library uses MASTER_PORT itself.
    options: of jax.distributed.initialize, such as initialization_timeout.

    Raises RuntimeError if a variable is not set, or if jax is already imported; OSError on rank 0 if
    the port is in use."""
    unset = [name for name in _WANTED if not os.environ.get(name)]
    if unset:
        raise RuntimeError(f"{', '.join(unset)}: not set; start the ranks with gloo run or torchrun, or set "
                           f"{', '.join(_WANTED)}")
    use()
    size = _whole("WORLD_SIZE", 1, 1 << 30)
    rank = _whole("RANK", 0, size - 1)
    port = _whole("MASTER_PORT", 1, 65534) + 1 if coordinator_port is None else coordinator_port
    if rank == 0:
        _check_free(port)
    jax: Any = importlib.import_module("jax")
    jax.distributed.initialize(f"{os.environ['MASTER_ADDR']}:{port}", size, rank, **options)
