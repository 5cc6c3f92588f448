"""Collectives for CPUs: allreduce and others between processes, and messages.

    import gloo_c
    import numpy

    with gloo_c.init() as context:
        values = numpy.full(4, context.rank + 1.0)
        context.allreduce(values)  # in place; every rank has the sum
        print(values)

`gloo run -n 4 -- python program.py` starts four ranks. Every call of the library is a method of
Context, in four forms: `allreduce`, `allreduce_start` (a Request), `allreduce_async` (asyncio) and
`allreduce_init` (to be started again and again).

Threads. Any thread may use anything here; calls let other threads run. Operations of one context
need an order that all ranks share, or a tag for each thread that starts some. A blocking call is
not interrupted by signals: Python handles them when it returns; Request.wait is.

The end. Contexts are left when Python ends, if the program has not closed them. In a forked child
everything that the parent made raises ForkedError, and the child may make its own."""

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
from ._library import (algorithms, alloc, collectives, cores, set_log, set_log_level, transports,
                       usable, version)
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
    "cores", "dtypes", "init", "ops", "set_log", "set_log_level", "transports", "typed", "usable",
    "version", "wait_all", "wait_any",
]
