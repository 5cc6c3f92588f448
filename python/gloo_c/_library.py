"""What the library has, its memory and its log."""

from __future__ import annotations

from typing import Any, Callable

from . import _handles
from ._binding import ffi, lib
from ._errors import GlooError, checked, text
from ._handles import called_back

LEVELS = {"debug": lib.GLOO_LOG_DEBUG, "info": lib.GLOO_LOG_INFO, "warn": lib.GLOO_LOG_WARN,
          "error": lib.GLOO_LOG_ERROR, "off": lib.GLOO_LOG_OFF}
_LEVEL_NAMES = {number: name for name, number in LEVELS.items()}


def _names(function: Callable[..., Any], *arguments: Any) -> list[str]:
    found: list[str] = []
    while True:
        name = function(*arguments, len(found))
        if name == ffi.NULL:
            return found
        found.append(text(name))


def version() -> str:
    """Of the library, which is this package's too."""
    return text(lib.gloo_version())


def transports() -> list[str]:
    """The transports that there are."""
    return _names(lib.gloo_transport_name)


def collectives() -> list[str]:
    """The names of all collectives."""
    return _names(lib.gloo_collective_name)


def algorithms(collective: str) -> list[str]:
    """The algorithms of a collective; none where there is no such collective."""
    return _names(lib.gloo_algorithm_name, ffi.new("char[]", collective.encode()))


def usable(transport: str) -> GlooError | None:
    """Why a transport cannot be used here; None when it can."""
    try:
        checked(lib.gloo_transport_usable, transport.encode())
    except GlooError as error:
        return error
    return None


def cores() -> int:
    """How many cores this process may use."""
    return int(lib.gloo_cores())


def alloc(size: int) -> memoryview:
    """Memory of so many bytes, filled with zeros, that ranks of one host reach directly:
    `numpy.frombuffer(alloc(4 * n), "float32")`. For large arrays that are kept; it is freed with
    the last array that uses it."""
    if size < 0:
        raise ValueError("a negative number of bytes")
    place = ffi.new("void **")
    checked(lib.gloo_alloc, size, place)
    kept = ffi.gc(ffi.cast("char *", place[0]), lib.gloo_free)
    return memoryview(ffi.buffer(kept, size))


# ---- log ---------------------------------------------------------------------------------------

_sink: Callable[[str, str], object] | None = None


@ffi.def_extern()  # type: ignore[untyped-decorator]
def py_log(level: int, line: Any, _user: Any) -> None:
    sink = _sink
    if sink is not None:
        with called_back():
            sink(_LEVEL_NAMES.get(level, "info"), text(line))


def set_log_level(level: str) -> None:
    """The lowest level that is written: debug, info, warn, error, off."""
    if level not in LEVELS:
        raise ValueError(f"unknown level {level!r}; valid: {', '.join(LEVELS)}")
    lib.gloo_log_set_level(LEVELS[level])


def set_log(sink: Callable[[str, str], object] | None) -> None:
    """Have lines handed to sink(level, line) instead of being written to standard error; None
    restores that. Any thread may call it, and it must not use this package. To be set before there
    are contexts."""
    global _sink
    _sink = sink
    lib.gloo_log_set_sink(ffi.NULL if sink is None else lib.py_log, ffi.NULL)


_handles.at_exit(lambda: lib.gloo_log_set_sink(ffi.NULL, ffi.NULL) if _sink is not None else None)
