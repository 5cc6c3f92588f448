"""Collectives and messages between processes, for CPUs.

    import gloo_c
    import numpy

    with gloo_c.init() as context:
        values = numpy.full(4, context.rank + 1.0)
        context.allreduce(values)  # in place; every rank has the sum
        print(values)

`gloo run -n 4 -- python program.py` starts four ranks. Every call of the library is a method of
Context, in four forms: `allreduce` (blocking), `allreduce_start` (returns a Request),
`allreduce_async` (asyncio) and `allreduce_init` (returns a Request that can be started any number
of times).

Threads. Any thread may use any object; calls release the interpreter lock. Operations of one
context need an order that all ranks share, or a separate tag for each thread that starts some.
Signals do not interrupt a blocking call: Python handles them when it returns. They do interrupt
Request.wait.

Exit. Open contexts are left when Python exits. In a forked child all objects of the parent raise
ForkedError, and the child may create its own."""

from __future__ import annotations

from ._buffers import IN_PLACE, typed
from ._buffers import DTYPES as _DTYPES
from ._calls import OPS as _OPS
from ._collectives import NO_RANK
from ._context import Choice, Context, Route, init
from ._custom import CustomOp
from ._devices import Device
from ._errors import (AbortedError, ArgumentError, AuthError, BusyError, CancelledError,
                      CompareError, ForkedError, GlooError, InProgressError, InternalError,
                      MismatchError, NoMemoryError, NotFoundError, PeerError, PoisonedError,
                      ProtocolError, StaleError, SystemFailure, TimeoutError, UnsupportedError)
from ._library import (algorithms, alloc, collectives, cores, get_include, get_library, set_log,
                       set_log_level, transports, usable, version)
from ._requests import Request, wait_all, wait_any
from ._stores import (CallbackStore, FileStore, MemoryStore, PrefixStore, Store, StoreFunctions,
                      TcpStore, UrlStore)

__version__ = version()
dtypes = tuple(_DTYPES)
ops = tuple(_OPS)

__all__ = [
    "AbortedError", "ArgumentError", "AuthError", "BusyError", "CallbackStore", "CancelledError",
    "Choice",
    "CompareError", "Context", "CustomOp", "Device", "FileStore", "ForkedError", "GlooError",
    "IN_PLACE", "InProgressError", "InternalError", "MemoryStore", "MismatchError", "NO_RANK",
    "NoMemoryError", "NotFoundError", "PeerError", "PoisonedError", "PrefixStore", "ProtocolError",
    "Request", "Route", "StaleError", "Store", "StoreFunctions", "SystemFailure", "TcpStore",
    "TimeoutError", "UnsupportedError", "UrlStore", "__version__", "algorithms", "alloc", "collectives",
    "cores", "dtypes", "get_include", "get_library", "init", "ops", "set_log", "set_log_level",
    "transports", "typed", "usable",
    "version", "wait_all", "wait_any",
]
