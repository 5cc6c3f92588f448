"""Contexts: ranks that communicate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

from . import _handles
from ._binding import ffi, lib
from ._buffers import dtype_number
from ._calls import NULL, Call, Options, clear, op_number, options_of
from ._collectives import Calls
from ._convert import an, encoded, integer, integers, nanoseconds, string
from ._custom import CustomOp
from ._devices import Device, WatchSlot, device_options, tristate
from ._errors import GlooError, checked, failure, give_back, new_error, text
from ._handles import ContextHandle, catch_up
from ._requests import Request
from ._stores import Store

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType

    from typing_extensions import Unpack

    from ._aio import Watcher

# Functions of the library by the names of calls, because a look-up in lib takes longer.
_functions: dict[str, Any] = {}
_REQUEST = ffi.typeof("gloo_request **")


_STORE = "a store of gloo_c, such as FileStore(directory); UrlStore(url) opens one by its URL"


def _held_by(device: Any) -> Any:
    if device is None:
        return None
    an("device", device, Device, "a gloo_c.Device, or None for a new one")
    return device._held()


class Route(NamedTuple):
    """The transport of messages to a rank, and the reason for it."""

    through: str | None  # None: not connected yet
    why: str


class Choice(NamedTuple):
    """The algorithm that a call would use, and the reason for it."""

    algorithm: str
    why: str


def _context_options(timeout: float | None, host_id: str | None, measure: bool | None,
                     shared_buffers: bool | None) -> tuple[Any, list[Any]]:
    options, kept = ffi.new("gloo_context_options *"), []
    lib.py_gloo_context_options_init(options)
    options.timeout_ns = nanoseconds(timeout)
    if host_id is not None:
        kept.append(string("host_id", host_id))
        options.host_id = kept[-1]
    options.measure, options.shared_buffers = tristate(measure), tristate(shared_buffers)
    return options, kept


class Context(Calls):
    """A set of ranks that communicate, one of which is this process (or thread). Created by `init`
    from the environment, from a rank, a size and a store through which `size` ranks meet, or as a
    group of another context (`split`, `subset`).

    device: None: the context owns a device with default options.
    timeout: default timeout of operations, and the time to wait for the other ranks in this call,
        in seconds; None: GLOO_TIMEOUT and GLOO_START_TIMEOUT, or 30.
    host_id, measure, shared_buffers: see gloo_context_options of the C interface.

    Any thread may use it, if operations have an order that all ranks share, or a separate tag for
    each thread. The context is left at the end of a `with` block, or with its last reference."""

    _rank: int
    _size: int

    def __init__(self, rank: int, size: int, store: Store, *, device: Device | None = None,
                 timeout: float | None = None, host_id: str | None = None,
                 measure: bool | None = None, shared_buffers: bool | None = None) -> None:
        catch_up()
        options, _kept = _context_options(timeout, host_id, measure, shared_buffers)
        place = ffi.new("gloo_context **")
        held = _held_by(device)
        an("store", store, Store, _STORE)
        store._checked(lib.gloo_context_create, integer("rank", rank), integer("size", size),
                       store._pointer,
                       held.pointer if held is not None else NULL, options, place)
        # Other ranks may still need the store, so the handle keeps it.
        slot = device._slot if device is not None else WatchSlot()
        self._made(ContextHandle(place[0], held, store), slot, owner=device is None)

    def _made(self, handle: ContextHandle, slot: WatchSlot, owner: bool = False) -> None:
        self._handle: ContextHandle | None = handle
        self._slot = slot
        if not owner:
            slot.joined()
        self._rank = lib.gloo_context_rank(handle.pointer)
        self._size = lib.gloo_context_size(handle.pointer)
        _handles.open_contexts.add(self)

    def __repr__(self) -> str:
        state = "" if self._handle is not None else ", closed"
        return f"<gloo_c.Context: rank {self._rank} of {self._size}{state}>"

    def _closed(self) -> ValueError:
        return ValueError("this context was closed")

    def _held(self) -> ContextHandle:
        handle = self._handle
        if handle is None:
            raise self._closed()
        return handle

    # ---- calls -----------------------------------------------------------------------------------

    def _run(self, call: Call) -> Any:
        handle = self._handle
        if handle is None:
            raise self._closed()
        function = _functions.get(call.name)
        if function is None:
            function = _functions[call.name] = getattr(lib, "gloo_" + call.name)
        if call.options or call.op.__class__ is CustomOp:
            options, _kept = options_of(call)
        else:
            options = NULL
        error = new_error()
        try:
            if call.receives:
                source = ffi.new("int *")
                status = function(handle.pointer, *call.arguments, options, source, error)
            else:
                status = function(handle.pointer, *call.arguments, options, error)
        except TypeError as problem:
            raise clear(call, problem) from None
        if call.op.__class__ is CustomOp:
            raised = call.op._take_raised()
            if raised is not None:
                raise self._gave_up(raised)
        if status:
            raise failure(status, error)
        give_back(error)
        return source[0] if call.receives else call.result

    def _begin(self, call: Call, form: str) -> Request:
        handle = self._held()
        if handle.state.orphans:
            handle.look_after_orphans()
        if _handles.put_off:
            catch_up()
        name = call.name + form
        function = _functions.get(name)
        if function is None:
            function = _functions[name] = getattr(lib, "gloo_" + name)
        custom = call.op if call.op.__class__ is CustomOp else None
        options, _kept = NULL, None
        if call.options or custom is not None:
            options, _kept = options_of(call)
        place, error = ffi.new(_REQUEST), new_error()
        try:
            status = function(handle.pointer, *call.arguments, options, place, error)
        except TypeError as problem:
            raise clear(call, problem) from None
        if status:
            raise failure(status, error)
        give_back(error)
        made = _Receipt if call.receives else Request
        return made(place[0], self, (call.keep, call.result), call.result, custom, form == "_init",
                    handle.state)

    def _future(self, call: Call) -> asyncio.Future[Any]:
        watcher = self._watcher()  # first, so that its descriptor reports this end
        return watcher.future(self._begin(call, "_start"))

    def _watcher(self) -> Watcher:
        return self._slot.watched(lib.gloo_context_device(self._held().pointer))

    def _gave_up(self, raised: BaseException) -> GlooError:
        """Aborts after an exception in a custom operation: no rank can have a result."""
        reason = f"{type(raised).__name__} in a custom operation: {raised}"
        handle, error = self._handle, new_error()
        if handle is not None:
            lib.gloo_context_abort(handle.pointer, reason.encode(), error)
        give_back(error)
        made = GlooError(reason, lib.GLOO_ERR_ABORTED, rank=self._rank)
        made.__cause__ = raised
        return made

    # ---- who is there ----------------------------------------------------------------------------

    @property
    def rank(self) -> int:  # type: ignore[override]
        """Number of this rank, from 0."""
        return self._rank

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of ranks."""
        return self._size

    @property
    def hosts(self) -> int:
        """Number of hosts of the ranks."""
        return int(lib.gloo_context_hosts(self._held().pointer))

    def host(self, rank: int) -> int:
        """Returns the number of a rank's host, from 0."""
        found = int(lib.gloo_context_host(self._held().pointer, integer("rank", rank)))
        if found < 0:
            raise ValueError(f"rank {rank} does not exist")
        return found

    @property
    def transport(self) -> str:
        """Name of the transport of its device."""
        return text(lib.gloo_device_transport(lib.gloo_context_device(self._held().pointer)))

    def root_rank(self, rank: int) -> int:
        """Returns the number of `rank` in the root context."""
        found = int(lib.gloo_context_world_rank(self._held().pointer, integer("rank", rank)))
        if found < 0:
            raise ValueError(f"rank {rank} does not exist")
        return found

    def translate(self, rank: int, other: Context) -> int | None:
        """Returns the rank that `rank` of this context has in `other`, or None if it is not a
        member."""
        an("other", other, Context, "a Context")
        found = int(lib.gloo_context_translate(self._held().pointer, integer("rank", rank),
                                               other._held().pointer))
        return found if found >= 0 else None

    def route(self, peer: int) -> Route:
        """Returns the transport of messages to a rank, and the reason for it."""
        answer, error = ffi.new("gloo_answer *"), new_error()
        status = lib.gloo_context_route(self._held().pointer, integer("peer", peer), answer, error)
        if status < 0:
            raise failure(status, error)
        give_back(error)
        return Route(None if status else text(answer.text), text(answer.why))

    def choice(self, collective: str, count: int, dtype: str = "float32", *,
               op: str | CustomOp = "sum", root: int = 0, **options: Unpack[Options]) -> Choice:
        """Returns the algorithm that a call would use, and the reason for it. Sends nothing."""
        answer = ffi.new("gloo_answer *")
        told, _kept = options_of(Call("choice", (), None, None, options, op))
        checked(lib.gloo_context_choice, self._held().pointer, encoded("collective", collective),
                integer("count", count, 0, (1 << 63) - 1), dtype_number(dtype), op_number(op),
                integer("root", root), told, answer)
        return Choice(text(answer.text), text(answer.why))

    # ---- groups ----------------------------------------------------------------------------------

    def split(self, color: int | None, key: int = 0, *, timeout: float | None = None,
              tag: int = 0) -> Context | None:
        """Divides the context: ranks with the same color form a group, in the order of their keys.
        All ranks must call it. Returns None for a rank without a color (None, or negative)."""
        place = ffi.new("gloo_context **")
        handle = self._held()
        checked(lib.gloo_context_split, handle.pointer,
                -1 if color is None else integer("color", color), integer("key", key),
                self._group_options(timeout, tag), place)
        return None if place[0] == NULL else self._group(handle, place[0])

    def subset(self, ranks: Sequence[int], *, timeout: float | None = None,
               tag: int = 0) -> Context:
        """Creates a group of the listed ranks, in that order. Only these ranks call it, all with
        the same list."""
        place = ffi.new("gloo_context **")
        handle = self._held()
        members = integers("ranks", ranks, "a list of ranks")
        checked(lib.gloo_context_subset, handle.pointer, ffi.new("int[]", members or [0]),
                len(members), self._group_options(timeout, tag), place)
        return self._group(handle, place[0])

    @staticmethod
    def _group_options(timeout: float | None, tag: int) -> Any:
        options = ffi.new("gloo_group_options *")
        lib.py_gloo_group_options_init(options)
        options.timeout_ns, options.tag = nanoseconds(timeout), integer("tag", tag, 0, (1 << 32) - 1)
        return options

    def _group(self, handle: ContextHandle, pointer: Any) -> Context:
        made: Context = Context.__new__(Context)
        made._made(ContextHandle(pointer, handle.device, handle.keep), self._slot)
        return made

    def shrink(self, *, timeout: float | None = None, ranks_min: int = 0) -> Context:
        """Creates a successor of a failed context from the surviving ranks, numbered from 0 in the
        order of their old ranks (`old.translate(rank, new)`). All surviving ranks call it after one
        of their calls has failed. Close the old context before or after the call.

        timeout: seconds to wait for live ranks that do not call; None: the timeout of the context.
        ranks_min: minimum number of surviving ranks. After a network partition both halves would
            continue; set this above size/2 to prevent it.

        Raises StaleError if the other ranks continue without this rank, and PeerError if fewer than
        `ranks_min` ranks are left."""
        place, options = ffi.new("gloo_context **"), ffi.new("gloo_shrink_options *")
        lib.py_gloo_shrink_options_init(options)
        options.timeout_ns = nanoseconds(timeout)
        options.ranks_min = integer("ranks_min", ranks_min)
        handle = self._held()
        checked(lib.gloo_context_shrink, handle.pointer, options, place)
        return self._group(handle, place[0])

    def grow(self, store: Store, *, newcomers: int = 0, ranks_max: int = 0,
             wait: float | None = None, timeout: float | None = None) -> Context | None:
        """Admits ranks that have called `Context.join` with the same store. All ranks call it.
        Returns a context of old and new ranks, in which these ranks keep their numbers, or None if
        no newcomer arrived. Either all ranks get the context or none does.

        newcomers: number of newcomers to wait for, for `wait` seconds (None: GLOO_START_TIMEOUT, or
            30).
        ranks_max: maximum number of ranks of the new context; 0: no limit.
        timeout: as for `Context`, of the new context.

        Raises PeerError if a newcomer died and this context has not failed (`error()`): continue,
        or call it again. If this context has failed, a rank died: call `shrink`. Raises StaleError
        if the store failed at the last moment, so that this rank cannot tell whether the others
        continue in the new context: restart the process."""
        place, options = ffi.new("gloo_context **"), ffi.new("gloo_grow_options *")
        made, _kept = _context_options(timeout, None, None, None)
        lib.py_gloo_grow_options_init(options)
        options.context, options.timeout_ns = made, nanoseconds(wait, "wait")
        options.newcomers = integer("newcomers", newcomers)
        options.ranks_max = integer("ranks_max", ranks_max)
        an("store", store, Store, _STORE)
        handle = self._held()
        store._checked(lib.gloo_context_grow, handle.pointer, store._pointer, options, place)
        return None if place[0] == NULL else self._group(handle, place[0])

    @classmethod
    def join(cls, store: Store, *, device: Device | None = None, wait: float | None = None,
             timeout: float | None = None) -> Context:
        """Joins a running job: waits until its ranks call `grow` with the same store, for at most
        `wait` seconds (None: GLOO_START_TIMEOUT, or 30). Returns when all ranks of the job have
        admitted this one. If another newcomer dies meanwhile, waits for the next `grow`.

        device, timeout: as for `Context`.

        Raises TimeoutError if no ranks called `grow`, or they had no room, and PeerError if this
        rank was not admitted because a rank died at the last moment: call it again."""
        catch_up()
        options, _kept = _context_options(timeout, None, None, None)
        place = ffi.new("gloo_context **")
        held = _held_by(device)
        an("store", store, Store, _STORE)
        store._checked(lib.gloo_context_join, store._pointer,
                       held.pointer if held is not None else NULL, options,
                       nanoseconds(wait, "wait"), place)
        joined: Context = cls.__new__(cls)
        slot = device._slot if device is not None else WatchSlot()
        joined._made(ContextHandle(place[0], held, store), slot, owner=device is None)
        return joined

    # ---- what happens to it ----------------------------------------------------------------------

    def set_timeout(self, timeout: float | None) -> None:
        """Sets the timeout, in seconds, of later calls without a timeout. None: GLOO_TIMEOUT, or
        30."""
        checked(lib.gloo_context_set_timeout, self._held().pointer, nanoseconds(timeout))

    def abort(self, reason: str = "") -> None:
        """Aborts all operations of all ranks. They fail with a message that has `reason`. Any
        thread may call it, even while others wait."""
        checked(lib.gloo_context_abort, self._held().pointer, encoded("reason", reason))

    def error(self) -> GlooError | None:
        """Returns the first error of this context, or None. Does not wait."""
        error = new_error()
        status = lib.gloo_context_error(self._held().pointer, error)
        if status:
            return failure(status, error)
        give_back(error)
        return None

    @property
    def closed(self) -> bool:
        return self._handle is None

    def close(self) -> None:
        """Leaves the context. Pending operations are cancelled, and ranks that need this one get an
        error that says that it left. A thread that is in a call keeps the context until the call
        returns."""
        handle = self._handle
        if handle is None:
            return
        self._slot.left()
        self._handle = None
        for closer in handle.closers:
            closer()
        del handle  # destroyed here
        if self._slot.watcher is not None:
            self._slot.watcher.closed()

    def __enter__(self) -> Context:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


class _Receipt(Request):
    """A receive whose result is the rank of the sender."""

    __slots__ = ()

    def _outcome(self) -> Any:
        super()._outcome()
        return self._source


def init(*, transport: str | None = None, host: str | None = None, interface: str | None = None,
         port: int = 0, streams: int = 0, helper: bool = True, checksum: bool | None = None,
         timeout: float | None = None, host_id: str | None = None, measure: bool | None = None,
         shared_buffers: bool | None = None) -> Context:
    """Creates a context from the environment: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as
    `gloo run` and torchrun set them, or the variables of another launcher. Without any of them the
    job has one rank. Arguments are those of Device and Context."""
    catch_up()
    device, _kept = device_options(transport, host, interface, port, streams, helper, checksum)
    context, _text = _context_options(timeout, host_id, measure, shared_buffers)
    options = ffi.new("gloo_init_options *")
    lib.py_gloo_init_options_init(options)
    options.device, options.context = device, context
    place = ffi.new("gloo_context **")
    checked(lib.gloo_init, options, place)
    made: Context = Context.__new__(Context)
    made._made(ContextHandle(place[0], None, None), WatchSlot(), owner=True)
    return made
