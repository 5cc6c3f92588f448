"""Names and limits of the library, its memory and its log."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

from . import _gloo_c, _handles
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
    """Returns the version of the library, which is also that of this package."""
    return text(lib.gloo_version())


def get_include() -> str:
    """Returns the folder with the headers of the C library, for a compiler's option -I."""
    return str(Path(str(_gloo_c.__file__)).with_name("include"))


def get_library() -> str:
    """Returns the path of the shared C library that this package uses. Link C programs with this
    file; `python -m gloo_c --cflags --libs` prints the options."""
    return str(Path(str(_gloo_c.__file__)).with_name("libgloo_c.so.0"))


def transports() -> list[str]:
    """Returns the names of the available transports."""
    return _names(lib.gloo_transport_name)


def collectives() -> list[str]:
    """Returns the names of all collectives."""
    return _names(lib.gloo_collective_name)


def algorithms(collective: str) -> list[str]:
    """Returns the algorithms of a collective; an empty list if the collective does not exist."""
    return _names(lib.gloo_algorithm_name, ffi.new("char[]", collective.encode()))


def usable(transport: str) -> GlooError | None:
    """Returns why a transport cannot be used here, or None if it can."""
    try:
        checked(lib.gloo_transport_usable, transport.encode())
    except GlooError as error:
        return error
    return None


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return int(lib.gloo_cores())


def alloc(size: int) -> memoryview:
    """Returns zeroed memory that ranks on the same host access directly: `numpy.frombuffer(alloc(4
    * n), "float32")`. Use it for large arrays that are kept; it is freed with the last array that
    uses it."""
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
    """Sets the lowest level that is logged: debug, info, warn, error, off."""
    if level not in LEVELS:
        raise ValueError(f"unknown level {level!r}; valid: {', '.join(LEVELS)}")
    lib.gloo_log_set_level(LEVELS[level])


def set_log(sink: Callable[[str, str], object] | None) -> None:
    """Passes log lines to sink(level, line) instead of standard error; None restores the default.
    Any thread may call the sink, which must not use this package. Call it before contexts exist."""
    global _sink
    _sink = sink
    lib.gloo_log_set_sink(ffi.NULL if sink is None else lib.py_log, ffi.NULL)


_handles.at_exit(lambda: lib.gloo_log_set_sink(ffi.NULL, ffi.NULL) if _sink is not None else None)
