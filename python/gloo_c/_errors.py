"""The exceptions of the package, and their construction from a gloo_error."""

from __future__ import annotations

import builtins
from typing import Any, Callable

from ._binding import ffi, lib

STATUS_NAMES: dict[int, str] = dict(ffi.typeof("gloo_status").elements)


class GlooError(Exception):
    """Base class of all errors of the library.

    status, status_name: number and name, such as "GLOO_ERR_PEER", of the error.
    cause, cause_name: the status to decide by. It differs from `status` if that is
        GLOO_ERR_POISONED: then it is the status of the error that made the context unusable.
    rank: the rank at fault, as this context numbers it; None if there is no single one.
    root_rank: the same rank in the root context, which messages refer to.
    message: one sentence with the failure, its cause and the remedy."""

    def __init__(self, message: str, status: int = lib.GLOO_ERR_INVALID, cause: int | None = None,
                 rank: int | None = None, root_rank: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.cause = status if cause is None else cause
        self.rank = rank
        self.root_rank = root_rank

    @property
    def status_name(self) -> str:
        return STATUS_NAMES.get(self.status, "unknown status")

    @property
    def cause_name(self) -> str:
        return STATUS_NAMES.get(self.cause, "unknown status")

    def __reduce__(self) -> Any:
        return type(self), (self.message, self.status, self.cause, self.rank, self.root_rank)


class ArgumentError(GlooError, ValueError):
    """The call cannot be used like this: nothing was sent, and the context remains usable."""


class UnsupportedError(GlooError, NotImplementedError):
    """The library, the type or the algorithm does not support this."""


class NotFoundError(GlooError, LookupError):
    """No algorithm, transport, interface or key has this name."""


class NoMemoryError(GlooError, MemoryError):
    """Memory is exhausted."""


class SystemFailure(GlooError, OSError):
    """A file, descriptor, thread or address is not available."""


class TimeoutError(GlooError, builtins.TimeoutError):
    """A deadline has passed. The context is no longer usable."""


class InProgressError(GlooError, builtins.TimeoutError):
    """The timeout of Request.wait has passed. The operation continues: wait again."""


class PeerError(GlooError, ConnectionError):
    """A rank died, or left while it was needed."""


class MismatchError(GlooError):
    """Ranks disagree about a call; the message names both calls."""


class ProtocolError(GlooError, ConnectionError):
    """Data from a rank or a store is invalid, or was corrupted in transit."""


class StaleError(GlooError):
    """A store, file or rank belongs to another job, or to an earlier attempt at this one."""


class BusyError(GlooError):
    """A resource is already in use."""


class CancelledError(GlooError):
    """The operation was cancelled."""


class PoisonedError(GlooError):
    """An earlier error made the context unusable; `cause` is its status."""


class CompareError(GlooError):
    """compare_and_set found a different value."""


class ForkedError(GlooError):
    """The object belongs to the parent process of a fork."""


class AbortedError(GlooError):
    """A rank called Context.abort; the message has its reason."""


class AuthError(GlooError):
    """A peer, or this process, does not have the job's secret."""


class InternalError(GlooError):
    """A bug in the library: please report it."""


KINDS: dict[int, type[GlooError]] = {
    lib.GLOO_IN_PROGRESS: InProgressError,
    lib.GLOO_ERR_INVALID: ArgumentError,
    lib.GLOO_ERR_ROOT: ArgumentError,
    lib.GLOO_ERR_RANK: ArgumentError,
    lib.GLOO_ERR_COUNT: ArgumentError,
    lib.GLOO_ERR_DTYPE: ArgumentError,
    lib.GLOO_ERR_OP: ArgumentError,
    lib.GLOO_ERR_BUFFER: ArgumentError,
    lib.GLOO_ERR_UNSUPPORTED: UnsupportedError,
    lib.GLOO_ERR_NOT_FOUND: NotFoundError,
    lib.GLOO_ERR_NO_MEMORY: NoMemoryError,
    lib.GLOO_ERR_IO: SystemFailure,
    lib.GLOO_ERR_ADDRESS: SystemFailure,
    lib.GLOO_ERR_TIMEOUT: TimeoutError,
    lib.GLOO_ERR_PEER: PeerError,
    lib.GLOO_ERR_MISMATCH: MismatchError,
    lib.GLOO_ERR_PROTOCOL: ProtocolError,
    lib.GLOO_ERR_STALE: StaleError,
    lib.GLOO_ERR_BUSY: BusyError,
    lib.GLOO_ERR_CANCELLED: CancelledError,
    lib.GLOO_ERR_POISONED: PoisonedError,
    lib.GLOO_ERR_COMPARE: CompareError,
    lib.GLOO_ERR_INTERNAL: InternalError,
    lib.GLOO_ERR_FORKED: ForkedError,
    lib.GLOO_ERR_ABORTED: AbortedError,
    lib.GLOO_ERR_AUTH: AuthError,
}

# Statuses of refused calls, after which a context remains usable.
REFUSED = frozenset(status for status, kind in KINDS.items()
                    if kind in (ArgumentError, UnsupportedError, NotFoundError))

_ERROR = ffi.typeof("gloo_error *")
_pool: list[Any] = []


def new_error() -> Any:
    """Returns a gloo_error. Return it with `give_back` if the call did not fail."""
    try:
        return _pool.pop()
    except IndexError:
        return ffi.new(_ERROR)


give_back = _pool.append


def text(characters: Any) -> str:
    """Decodes a string of the library: UTF-8 where it repeats text of the program."""
    found: bytes = ffi.string(characters)
    return found.decode("utf-8", "replace")


def failure(status: int, error: Any) -> GlooError:
    """Returns the exception for a status and its gloo_error."""
    kind = KINDS.get(status, GlooError)
    made = kind(text(error.message) or text(lib.gloo_status_string(status)), status, error.cause,
                error.rank if error.rank >= 0 else None,
                error.root_rank if error.root_rank >= 0 else None)
    _pool.append(error)
    return made


def checked(function: Callable[..., int], *arguments: Any) -> None:
    """Calls a function of the library whose last argument is a gloo_error."""
    error = new_error()
    status = function(*arguments, error)
    if status:
        raise failure(status, error)
    _pool.append(error)
