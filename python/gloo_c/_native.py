"""Contexts that compiled code calls by number or name: functions of JAX and operators of PyTorch.

Such code does not hold a Python reference during a call. So the extension module has a list of
contexts (python/native/contexts.c), and a context leaves it before it is destroyed."""

from __future__ import annotations

import functools
import os
import weakref
from typing import Any

from . import _handles
from ._binding import ffi, lib
from ._context import Context

_held: dict[int, Any] = {}  # handles of contexts, by number
_inherited: list[dict[int, Any]] = []
# Time that calls may continue when Python exits.
_PATIENCE_NS = 2_000_000_000


def listed(number: int) -> bool:
    """Returns true if compiled code can call the context of this number."""
    return number in _held


def add(context: Context, name: str | None = None) -> int:
    """Adds a context to the list until it is closed or dropped. Returns its number."""
    handle = context._held()  # raises an error if it is closed
    number = int(lib.native_context_add(handle.pointer, ffi.NULL if name is None else name.encode()))
    if number == 0:
        raise MemoryError("out of memory for a context")
    _held[number] = handle
    handle.closers.append(functools.partial(remove, number))
    weakref.finalize(context, _handles._destroy, remove, number).atexit = False
    return number


def remove(number: int, patience_ns: int = -1) -> None:
    """Refuses further calls on a context, and waits for pending ones."""
    if number in _held:
        lib.native_context_remove(number, patience_ns)
        _held.pop(number, None)


def _remove_all() -> None:
    for number in list(_held):
        remove(number, _PATIENCE_NS)


def _forked() -> None:
    """Forgets the contexts in a forked child: the calls that the list counts are the parent's."""
    _inherited.append(dict(_held))
    _held.clear()


_handles.at_exit(_remove_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
