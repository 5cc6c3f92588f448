"""The names of mpi4py, for programs that use it.

    from gloo_c import mpi as MPI

    comm = MPI.COMM_WORLD
    comm.Allreduce(MPI.IN_PLACE, array, op=MPI.SUM)

Methods with a capital letter take arrays, or a list of array and count (`[array, n]`), array and
type (`[array, MPI.FLOAT]`), or array, counts, displacements and type (`[array, counts,
displacements, type]`, or `[array, (counts, displacements), type]`). The type, if given, must be
that of the array.

The methods in small letters, which send any object, are not available by default: they unpickle
data from other ranks, and unpickling executes code that the sender chooses. Programs that trust all
ranks can enable them: `comm = MPI.with_pickle(MPI.COMM_WORLD)`.

Differences from MPI. COMM_WORLD is created from the environment on first use. Errors are exceptions
(of gloo_c) in every communicator. The receiver of a message must pass its exact length. ANY_TAG,
one-sided communication, topologies, files and derived types are not supported."""

from __future__ import annotations

import pickle
from typing import Any, Callable, Iterable, NamedTuple, Sequence

from ._binding import ffi
from ._buffers import DTYPES, IN_PLACE, SIZES, Memory, Typed, counted, memory, reads
from ._collectives import NO_RANK
from ._context import Context, init
from ._custom import CustomOp
from ._library import version
from ._requests import Request as _Request

__all__ = [
    "ANY_SOURCE", "BAND", "BOOL", "BOR", "BXOR", "BYTE", "CHAR", "COMM_WORLD", "C_BOOL",
    "C_DOUBLE_COMPLEX", "C_FLOAT_COMPLEX", "Comm", "DOUBLE", "FLOAT", "Finalize",
    "Get_library_version", "INT", "INT16_T", "INT32_T", "INT64_T", "INT8_T", "IN_PLACE",
    "Is_initialized", "LAND", "LONG", "LONG_LONG", "LOR", "LXOR", "MAX", "MIN", "PROC_NULL", "PROD",
    "PickleComm", "Request", "SHORT", "SIGNED_CHAR", "SUM", "Status", "UINT16_T", "UINT32_T",
    "UINT64_T", "UINT8_T", "UNDEFINED", "UNSIGNED", "UNSIGNED_CHAR", "UNSIGNED_LONG",
    "UNSIGNED_LONG_LONG", "UNSIGNED_SHORT", "with_pickle",
]

COMM_WORLD: Comm  # created on first use: see __getattr__
PROC_NULL: int = NO_RANK
ANY_SOURCE = -2
UNDEFINED = -32766

SUM, PROD, MIN, MAX = "sum", "product", "min", "max"
LAND, LOR, LXOR, BAND, BOR, BXOR = "land", "lor", "lxor", "band", "bor", "bxor"

BYTE = UNSIGNED_CHAR = UINT8_T = "uint8"
CHAR = SIGNED_CHAR = INT8_T = "int8"
SHORT = INT16_T = "int16"
UNSIGNED_SHORT = UINT16_T = "uint16"
INT = INT32_T = "int32"
UNSIGNED = UINT32_T = "uint32"
LONG = LONG_LONG = INT64_T = "int64"
UNSIGNED_LONG = UNSIGNED_LONG_LONG = UINT64_T = "uint64"
FLOAT, DOUBLE = "float32", "float64"
C_FLOAT_COMPLEX, C_DOUBLE_COMPLEX = "complex64", "complex128"
BOOL = C_BOOL = "bool"

Spec = Any  # an array, or a list that begins with an array


class Status:
    """The sender of a message."""

    def __init__(self) -> None:
        self.source: int = PROC_NULL
        self.tag = 0

    def Get_source(self) -> int:
        return self.source

    def Get_tag(self) -> int:
        return self.tag


class Request:
    """A call that was started."""

    def __init__(self, request: _Request | None, finish: Callable[[], Any] | None = None) -> None:
        self._request = request
        self._finish = finish

    def _tell(self, status: Status | None) -> Any:
        request, finish, self._finish = self._request, self._finish, None
        if status is not None and request is not None and request.source is not None:
            status.source = request.source
        return finish() if finish is not None else None

    def Wait(self, status: Status | None = None) -> bool:
        if self._request is not None:
            self._request.wait()
        self._tell(status)
        return True

    def Test(self, status: Status | None = None) -> bool:
        if self._request is not None and not self._request.test():
            return False
        self._tell(status)
        return True

    def Cancel(self) -> None:
        if self._request is not None:
            self._request.cancel()

    def Free(self) -> None:
        """Releases the request; the operation continues."""
        self._request = None

    def wait(self, status: Status | None = None) -> Any:
        if self._request is not None:
            self._request.wait()
        return self._tell(status)

    def test(self, status: Status | None = None) -> tuple[bool, Any]:
        if self._request is not None and not self._request.test():
            return False, None
        return True, self._tell(status)

    @staticmethod
    def Waitall(requests: Sequence[Request], statuses: Sequence[Status] | None = None) -> bool:
        for place, request in enumerate(requests):
            request.Wait(statuses[place] if statuses else None)
        return True

    waitall = Waitall


class _Part(NamedTuple):
    """The contents of a list with an array."""

    array: Any
    counts: list[int] | None
    displacements: list[int] | None


def _elements(array: Any, first: int, count: int) -> Typed:
    """A contiguous range of an array's elements."""
    address, held, dtype, _keep = memory(array, False)
    if first < 0 or count < 0 or first + count > held:
        raise ValueError(f"elements {first} to {first + count} of an array of {held}")
    return Typed(_Slice(array, first * SIZES[dtype], count * SIZES[dtype]), dtype, SIZES[dtype])


class _Slice(NamedTuple):
    """The bytes of an array from an offset on."""

    array: Any
    begin: int
    length: int


@reads(_Slice)
def _slice(part: _Slice, writable: bool) -> Memory:
    address, _count, _dtype, keep = memory(part.array, writable)
    return ffi.cast("char *", address) + part.begin, part.length, DTYPES["uint8"], keep


def _numbers(value: Any) -> list[int] | None:
    if value is None:
        return None
    return [int(number) for number in value] if isinstance(value, Iterable) else [int(value)]


def _part(spec: Spec) -> _Part:
    """Returns array, counts and displacements of an mpi4py buffer specification."""
    if not isinstance(spec, (list, tuple)) or isinstance(spec, Typed):
        return _Part(spec, None, None)
    if not 1 <= len(spec) <= 4:
        raise ValueError("a list for a buffer has one to four entries, the first of them the array")
    array, rest = spec[0], list(spec[1:])
    if rest and isinstance(rest[-1], str):
        dtype = rest.pop()
        if array is not None and memory(array, False)[2] != DTYPES.get(dtype):
            raise TypeError(f"the array does not have the type {dtype} of its list")
    if rest and rest[-1] is None and len(rest) > 1:
        rest.pop()
    counts = rest[0] if rest else None
    displacements = rest[1] if len(rest) > 1 else None
    if (displacements is None and isinstance(counts, (list, tuple)) and len(counts) == 2
            and isinstance(counts[0], Iterable)):
        counts, displacements = counts
    return _Part(array, _numbers(counts), _numbers(displacements))


def _plain(spec: Spec) -> Any:
    """Returns the array of a list without counts for each rank; IN_PLACE and None are returned
    unchanged."""
    if spec is None or spec is IN_PLACE:
        return spec
    part = _part(spec)
    if part.array is None or part.array is IN_PLACE or part.counts is None:
        return part.array
    if len(part.counts) != 1:
        raise ValueError("this call takes one count, not a list of them")
    begin = part.displacements[0] if part.displacements else 0
    return _elements(part.array, begin, part.counts[0])


def _pair(sendbuf: Spec, recvbuf: Spec) -> tuple[Any, Any]:
    return _plain(sendbuf), _plain(recvbuf)


class Comm:
    """A communicator: a Context with the methods of mpi4py."""

    def __init__(self, context: Context) -> None:
        self.context = context

    # Ranks and groups.
    def Get_rank(self) -> int:
        return self.context.rank

    def Get_size(self) -> int:
        return self.context.size

    @property
    def rank(self) -> int:
        return self.context.rank

    @property
    def size(self) -> int:
        return self.context.size

    # Collectives.
    def Barrier(self) -> None:
        self.context.barrier()

    def Bcast(self, buf: Spec, root: int = 0) -> None:
        self.context.broadcast(_plain(buf), root=root)

    def Allreduce(self, sendbuf: Spec, recvbuf: Spec, op: str | CustomOp = SUM) -> None:
        self.context.allreduce(*_pair(sendbuf, recvbuf), op=op)

    def Reduce(self, sendbuf: Spec, recvbuf: Spec, op: str | CustomOp = SUM, root: int = 0) -> None:
        input, output = _pair(sendbuf, recvbuf)
        self.context.reduce(input, output, op=op, root=root)

    def Scan(self, sendbuf: Spec, recvbuf: Spec, op: str | CustomOp = SUM) -> None:
        self.context.scan(*_pair(sendbuf, recvbuf), op=op)

    def Exscan(self, sendbuf: Spec, recvbuf: Spec, op: str | CustomOp = SUM) -> None:
        self.context.exscan(*_pair(sendbuf, recvbuf), op=op)

    def Reduce_scatter_block(self, sendbuf: Spec, recvbuf: Spec,
                             op: str | CustomOp = SUM) -> None:
        self.context.reduce_scatter(*_pair(sendbuf, recvbuf), op=op)

    def Reduce_scatter(self, sendbuf: Spec, recvbuf: Spec, recvcounts: Sequence[int] | None = None,
                       op: str | CustomOp = SUM) -> None:
        input, output = _pair(sendbuf, recvbuf)
        if recvcounts is None:
            self.context.reduce_scatter(input, output, op=op)
        else:
            self.context.reduce_scatterv(input, output, counts=recvcounts, op=op)

    def Allgather(self, sendbuf: Spec, recvbuf: Spec) -> None:
        self.context.allgather(*_pair(sendbuf, recvbuf))

    def Gather(self, sendbuf: Spec, recvbuf: Spec, root: int = 0) -> None:
        input, output = _pair(sendbuf, recvbuf)
        self.context.gather(input, output, root=root)

    def Scatter(self, sendbuf: Spec, recvbuf: Spec, root: int = 0) -> None:
        input, output = _pair(sendbuf, recvbuf)
        if output is IN_PLACE:
            input, output = IN_PLACE, input
        self.context.scatter(input, output, root=root)

    def Alltoall(self, sendbuf: Spec, recvbuf: Spec) -> None:
        self.context.alltoall(*_pair(sendbuf, recvbuf))

    def _counted(self, spec: Spec) -> _Part:
        """Returns counts for each rank; unspecified ones divide the array equally."""
        part = _part(spec)
        if part.counts is not None and len(part.counts) == self.size:
            return part
        if part.counts is not None and len(part.counts) != 1:
            raise ValueError(f"got {counted(len(part.counts), 'count')} for {counted(self.size, 'rank')}: pass one for each rank")
        held = part.counts[0] if part.counts else memory(part.array, False)[1] // self.size
        return _Part(part.array, [held] * self.size, part.displacements)

    def Allgatherv(self, sendbuf: Spec, recvbuf: Spec) -> None:
        part = self._counted(recvbuf)
        self.context.allgatherv(_plain(sendbuf), part.array, part.counts or [], part.displacements)

    def Gatherv(self, sendbuf: Spec, recvbuf: Spec, root: int = 0) -> None:
        if self.rank != root:
            self.context.gatherv(_plain(sendbuf), root=root)
            return
        part = self._counted(recvbuf)
        self.context.gatherv(_plain(sendbuf), part.array, part.counts, part.displacements,
                             root=root)

    def Scatterv(self, sendbuf: Spec, recvbuf: Spec, root: int = 0) -> None:
        if self.rank != root:
            self.context.scatterv(None, _plain(recvbuf), root=root)
            return
        part, output = self._counted(sendbuf), _plain(recvbuf)
        if output is IN_PLACE:
            output = None
        self.context.scatterv(part.array, output, part.counts, part.displacements, root=root)

    def Alltoallv(self, sendbuf: Spec, recvbuf: Spec) -> None:
        into = self._counted(recvbuf)
        if sendbuf is IN_PLACE:
            self.context.alltoallv(IN_PLACE, into.array, None, into.counts or [], None,
                                   into.displacements)
            return
        from_ = self._counted(sendbuf)
        self.context.alltoallv(from_.array, into.array, from_.counts, into.counts or [],
                               from_.displacements, into.displacements)

    # Nonblocking collectives, those that programs use often.
    def Ibarrier(self) -> Request:
        return Request(self.context.barrier_start())

    def Ibcast(self, buf: Spec, root: int = 0) -> Request:
        return Request(self.context.broadcast_start(_plain(buf), root=root))

    def Iallreduce(self, sendbuf: Spec, recvbuf: Spec, op: str | CustomOp = SUM) -> Request:
        return Request(self.context.allreduce_start(*_pair(sendbuf, recvbuf), op=op))

    def Iallgather(self, sendbuf: Spec, recvbuf: Spec) -> Request:
        return Request(self.context.allgather_start(*_pair(sendbuf, recvbuf)))

    # Messages.
    def Send(self, buf: Spec, dest: int, tag: int = 0) -> None:
        if dest != PROC_NULL:
            self.context.send(_plain(buf), dest, tag=tag)

    def Recv(self, buf: Spec, source: int = ANY_SOURCE, tag: int = 0,
             status: Status | None = None) -> None:
        self.Irecv(buf, source, tag).Wait(status)

    def Isend(self, buf: Spec, dest: int, tag: int = 0) -> Request:
        if dest == PROC_NULL:
            return Request(None)
        return Request(self.context.send_start(_plain(buf), dest, tag=tag))

    def Irecv(self, buf: Spec, source: int = ANY_SOURCE, tag: int = 0) -> Request:
        if source == PROC_NULL:
            return Request(None)
        if source == ANY_SOURCE:
            return Request(self.context.recv_any_start(_plain(buf), tag=tag))
        return Request(self.context.recv_start(_plain(buf), source, tag=tag))

    def Sendrecv(self, sendbuf: Spec, dest: int, sendtag: int = 0, recvbuf: Spec = None,
                 source: int = ANY_SOURCE, recvtag: int = 0, status: Status | None = None) -> None:
        if source not in (ANY_SOURCE, PROC_NULL) and sendtag == recvtag and dest != PROC_NULL:
            self.context.sendrecv(_plain(sendbuf), dest, _plain(recvbuf), source, tag=sendtag)
            if status is not None:
                status.source = source
            return
        receive = self.Irecv(recvbuf, source, recvtag)
        self.Send(sendbuf, dest, sendtag)
        receive.Wait(status)

    # Communicators.
    def Split(self, color: int = 0, key: int = 0) -> Comm | None:
        """Returns a communicator of the ranks with the same color, or None (not COMM_NULL) for
        UNDEFINED."""
        group = self.context.split(None if color == UNDEFINED else color, key)
        return None if group is None else type(self)(group)

    def Dup(self) -> Comm:
        group = self.context.split(0, self.rank)
        assert group is not None
        return type(self)(group)

    def Free(self) -> None:
        self.context.close()

    def Abort(self, errorcode: int = 0) -> None:
        """Makes all calls of all ranks fail, and ends this process."""
        self.context.abort(f"Abort({errorcode})")
        raise SystemExit(errorcode)


class PickleComm(Comm):
    """A communicator that also sends objects: created by `with_pickle`, whose warning applies."""

    @staticmethod
    def _dumps(thing: Any) -> bytes:
        return pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)

    def _gathered(self, thing: Any) -> list[Any]:
        mine = self._dumps(thing)
        lengths = memoryview(bytearray(8 * self.size)).cast("q")
        self.context.allgather(memoryview(bytearray(len(mine).to_bytes(8, _ORDER))).cast("q"),
                               lengths)
        counts = lengths.tolist()
        data = bytearray(sum(counts))
        self.context.allgatherv(mine, data, counts)
        found, begin = [], 0
        for count in counts:
            found.append(pickle.loads(memoryview(data)[begin:begin + count]))
            begin += count
        return found

    def barrier(self) -> None:
        self.context.barrier()

    def bcast(self, obj: Any, root: int = 0) -> Any:
        data = self._dumps(obj) if self.rank == root else b""
        length = memoryview(bytearray(len(data).to_bytes(8, _ORDER))).cast("q")
        self.context.broadcast(length, root=root)
        if self.rank == root:
            self.context.broadcast(bytearray(data), root=root)
            return obj
        held = bytearray(length[0])
        self.context.broadcast(held, root=root)
        return pickle.loads(held)

    def allgather(self, sendobj: Any) -> list[Any]:
        return self._gathered(sendobj)

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        if self.rank != root:
            self.send(sendobj, root)
            return None
        return [sendobj if rank == root else self.recv(rank) for rank in range(self.size)]

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        if self.rank != root:
            return self.recv(root)
        if sendobj is None or len(sendobj) != self.size:
            raise ValueError(f"the root scatters a list of {self.size} objects")
        for rank, thing in enumerate(sendobj):
            if rank != root:
                self.send(thing, rank)
        return sendobj[root]

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        if len(sendobj) != self.size:
            raise ValueError(f"got {counted(len(sendobj), 'object')} for {counted(self.size, 'rank')}: pass one for each rank")
        return [row[self.rank] for row in self._gathered(list(sendobj))]

    def allreduce(self, sendobj: Any, op: str | Callable[[Any, Any], Any] = SUM) -> Any:
        combine = _combine(op)
        found = self._gathered(sendobj)
        result = found[0]
        for thing in found[1:]:
            result = combine(result, thing)
        return result

    def reduce(self, sendobj: Any, op: str | Callable[[Any, Any], Any] = SUM,
               root: int = 0) -> Any:
        result = self.allreduce(sendobj, op)
        return result if self.rank == root else None

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        data = self._dumps(obj)
        self.context.send(memoryview(bytearray(len(data).to_bytes(8, _ORDER))).cast("q"), dest,
                          tag=tag)
        self.context.send(data, dest, tag=tag)

    def recv(self, source: int = ANY_SOURCE, tag: int = 0, status: Status | None = None) -> Any:
        length = memoryview(bytearray(8)).cast("q")
        if source == ANY_SOURCE:
            source = self.context.recv_any(length, tag=tag)
        else:
            self.context.recv(length, source, tag=tag)
        data = bytearray(length[0])
        self.context.recv(data, source, tag=tag)
        if status is not None:
            status.source, status.tag = source, tag
        return pickle.loads(data)


_ORDER: Any = "little" if memoryview(b"\x01\x00").cast("H")[0] == 1 else "big"


def _combine(op: str | Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    if callable(op):
        return op
    found: dict[str, Callable[[Any, Any], Any]] = {
        SUM: lambda a, b: a + b, PROD: lambda a, b: a * b, MIN: min, MAX: max,
        LAND: lambda a, b: bool(a and b), LOR: lambda a, b: bool(a or b),
        LXOR: lambda a, b: bool(a) != bool(b), BAND: lambda a, b: a & b, BOR: lambda a, b: a | b,
        BXOR: lambda a, b: a ^ b}
    if op not in found:
        raise ValueError(f"operation {op!r} is not available for objects")
    return found[op]


def with_pickle(comm: Comm) -> PickleComm:
    """Returns the same communicator with the methods in small letters, which send any object.

    They unpickle data from other ranks, and unpickling executes code that the sender chooses. Any
    rank, and anyone who can write to its connections, can take control of this process: use it only
    if all of them, and the network between them, are trusted."""
    return PickleComm(comm.context)


_world: list[Comm] = []


def __getattr__(name: str) -> Any:
    """Creates COMM_WORLD on first use."""
    if name == "COMM_WORLD":
        if not _world:
            _world.append(Comm(init()))
        return _world[0]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def Is_initialized() -> bool:
    return bool(_world)


def Finalize() -> None:
    """Leaves COMM_WORLD. Optional: it is left when Python exits."""
    for comm in _world:
        comm.Free()


def Get_library_version() -> str:
    return f"gloo_c {version()}"
