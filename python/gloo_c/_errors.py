"""What calls raise, and how it is made of a gloo_error."""

from __future__ import annotations

import builtins
from typing import Any, Callable

from ._binding import ffi, lib

STATUS_NAMES: dict[int, str] = dict(ffi.typeof("gloo_status").elements)


class GlooError(Exception):
    """A call failed. All errors of the library are of this class, and of one below it.

    status, status_name: the number and the name, such as "GLOO_ERR_PEER", of what failed.
    cause, cause_name: what to decide by; differs from the status where that is
        GLOO_ERR_POISONED: then it says what made the context unusable.
    rank: the rank at fault, as this context numbers it; None when no single one is.
    root_rank: the same rank in the context that groups were made of, which is what the
        message speaks of.
    message: one sentence that says what was wrong, where, and what can be done.
    """

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
    """The call cannot be used like this: nothing was sent, and the context is as good as before."""


class UnsupportedError(GlooError, NotImplementedError):
    """The library, the type or the algorithm does not do this."""


class NotFoundError(GlooError, LookupError):
    """There is no algorithm, transport, interface or key of that name."""


class NoMemoryError(GlooError, MemoryError):
    """There is not enough memory."""


class SystemFailure(GlooError, OSError):
    """A file, descriptor, thread or address could not be had."""


class TimeoutError(GlooError, builtins.TimeoutError):
    """A deadline has passed. The context cannot be used any more."""


class InProgressError(GlooError, builtins.TimeoutError):
    """Request.wait waited as long as it was told to. The operation goes on: wait again."""


class PeerError(GlooError, ConnectionError):
    """A rank died, or left while it was needed."""


class MismatchError(GlooError):
    """Ranks disagree about a call; the message has both."""


class ProtocolError(GlooError, ConnectionError):
    """What came from a rank or a store makes no sense, or was damaged on its way."""


class StaleError(GlooError):
    """A store, file or rank belongs to another job, or to an earlier attempt at this one."""


class BusyError(GlooError):
    """Something is in use already."""


class CancelledError(GlooError):
    """The operation was cancelled."""


class PoisonedError(GlooError):
    """An earlier error has made the context unusable; `cause` says which."""


class CompareError(GlooError):
    """compare_and_set found another value."""


class ForkedError(GlooError):
    """This belongs to the process that the present one was forked from."""


class AbortedError(GlooError):
    """A rank gave up, see Context.abort; the message has its reason."""


class AuthError(GlooError):
    """A peer, or this process, does not know the job's secret."""


class InternalError(GlooError):
    """A mistake of the library: please report it."""


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

_ERROR = ffi.typeof("gloo_error *")
_pool: list[Any] = []


def new_error() -> Any:
    """A place for a gloo_error. Give it back with `_pool.append` when nothing failed."""
    try:
        return _pool.pop()
    except IndexError:
        return ffi.new(_ERROR)


give_back = _pool.append


def text(characters: Any) -> str:
    """A string of the library, which is UTF-8 where it repeats what a program gave it."""
    found: bytes = ffi.string(characters)
    return found.decode("utf-8", "replace")


def failure(status: int, error: Any) -> GlooError:
    """The exception that says what the library said."""
    kind = KINDS.get(status, GlooError)
    made = kind(text(error.message) or text(lib.gloo_status_string(status)), status, error.cause,
                error.rank if error.rank >= 0 else None,
                error.root_rank if error.root_rank >= 0 else None)
    _pool.append(error)
    return made


def checked(function: Callable[..., int], *arguments: Any) -> None:
    """Call a function of the library that takes a gloo_error last."""
    error = new_error()
    status = function(*arguments, error)
    if status:
        raise failure(status, error)
    _pool.append(error)
