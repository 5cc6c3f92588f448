"""A process group: every operation of torch.distributed as a call of the library."""

from __future__ import annotations

import os
import threading
from collections import deque
from datetime import timedelta
from typing import Any, Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C import _distributed_c10d as _c10d

from .. import _handles
from .._binding import ffi, lib
from .._context import Context
from .._devices import Device
from .._errors import GlooError, failure, give_back, new_error
from .._requests import Request
from .._stores import CallbackStore
from ._errors import backend_error
from ._store import functions_of
from ._works import Ended, Started

BACKEND = "gloo_c"
NULL = ffi.NULL
IN_PLACE = lib.GLOO_IN_PLACE

_DTYPES: dict[torch.dtype, int] = {
    dtype: number for dtype, number in (
        (getattr(torch, name, None), number) for name, number in (
            ("int8", lib.GLOO_INT8), ("int16", lib.GLOO_INT16), ("int32", lib.GLOO_INT32),
            ("int64", lib.GLOO_INT64), ("uint8", lib.GLOO_UINT8), ("uint16", lib.GLOO_UINT16),
            ("uint32", lib.GLOO_UINT32), ("uint64", lib.GLOO_UINT64),
            ("float16", lib.GLOO_FLOAT16), ("bfloat16", lib.GLOO_BFLOAT16),
            ("float32", lib.GLOO_FLOAT32), ("float64", lib.GLOO_FLOAT64),
            ("complex64", lib.GLOO_COMPLEX64), ("complex128", lib.GLOO_COMPLEX128),
            ("bool", lib.GLOO_BOOL), ("float8_e4m3fn", lib.GLOO_FLOAT8_E4M3FN),
            ("float8_e5m2", lib.GLOO_FLOAT8_E5M2))) if dtype is not None}

_KINDS = dist.ReduceOp.RedOpType
_OPS: dict[Any, int] = {
    _KINDS.SUM: lib.GLOO_SUM, _KINDS.PRODUCT: lib.GLOO_PRODUCT, _KINDS.MIN: lib.GLOO_MIN,
    _KINDS.MAX: lib.GLOO_MAX, _KINDS.BAND: lib.GLOO_BAND, _KINDS.BOR: lib.GLOO_BOR,
    _KINDS.BXOR: lib.GLOO_BXOR, _KINDS.AVG: lib.GLOO_AVERAGE, _KINDS.PREMUL_SUM: lib.GLOO_SCALED_SUM}
# Of truth values: a sum is whether any is true, a product whether all are.
_BOOL_OPS: dict[Any, int] = {
    _KINDS.SUM: lib.GLOO_LOR, _KINDS.MAX: lib.GLOO_LOR, _KINDS.BOR: lib.GLOO_LOR,
    _KINDS.PRODUCT: lib.GLOO_LAND, _KINDS.MIN: lib.GLOO_LAND, _KINDS.BAND: lib.GLOO_LAND,
    _KINDS.BXOR: lib.GLOO_LXOR}

_ZERO = timedelta(0)
_functions: dict[str, Any] = {}
_OPTIONS = ffi.typeof("gloo_options *")
_REQUEST = ffi.typeof("gloo_request **")
After = Callable[[], None]


# ---- tensors -------------------------------------------------------------------------------------

def _plain(tensor: Tensor) -> bool:
    """Can the library use its memory as it is?"""
    return bool(tensor.is_cpu and tensor.layout is torch.strided and tensor.is_contiguous()
                and not tensor.is_conj() and not tensor.is_neg())


def _input(tensor: Tensor) -> Tensor:
    """The same elements, in their order, in host memory."""
    if _plain(tensor):
        return tensor
    if tensor.layout is not torch.strided:
        raise TypeError(f"a tensor of layout {tensor.layout} cannot be sent: only allreduce takes "
                        "sparse ones")
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()


def _output(tensor: Tensor) -> tuple[Tensor, After | None]:
    """Where to put its elements, which may be read too, and what brings them to it."""
    if _plain(tensor):
        return tensor, None
    copy = _input(tensor)
    if copy.data_ptr() == tensor.data_ptr():
        copy = copy.clone()
    return copy, lambda: (tensor.detach().copy_(copy), None)[1]


def _outputs(tensors: Sequence[Tensor]) -> tuple[list[Tensor], After | None]:
    places, afters = [], []
    for tensor in tensors:
        place, after = _output(tensor)
        places.append(place)
        if after is not None:
            afters.append(after)
    return places, _all_of(afters)


def _all_of(afters: Sequence[After | None]) -> After | None:
    found = [after for after in afters if after is not None]
    if len(found) <= 1:
        return found[0] if found else None

    def run() -> None:
        for after in found:
            after()

    return run


def _moved(tensor: Tensor) -> tuple[int, int]:
    """Count and type for what only moves: what the library has no type for are bytes."""
    number = _DTYPES.get(tensor.dtype)
    if number is not None:
        return tensor.numel(), number
    return tensor.numel() * tensor.element_size(), lib.GLOO_UINT8


def _pointers(tensors: Sequence[Tensor]) -> Any:
    return ffi.new("void *[]", [ffi.cast("void *", t.data_ptr()) for t in tensors] or [NULL])


def _counts(counts: Sequence[int]) -> Any:
    return ffi.new("size_t[]", list(counts) or [0])


def _pointer(tensor: Tensor) -> Any:
    return ffi.cast("void *", tensor.data_ptr())


def _together(tensors: Sequence[Tensor]) -> Tensor | None:
    """The first of them, if all lie one behind the other in memory."""
    at = tensors[0].data_ptr()
    for tensor in tensors:
        if tensor.data_ptr() != at or not _plain(tensor):
            return None
        at += tensor.numel() * tensor.element_size()
    return tensors[0]


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    """Their elements one behind the other: a copy, unless they are so already."""
    together = _together(tensors)
    if together is not None:
        return together
    return torch.cat([_input(tensor).reshape(-1) for tensor in tensors])


def _split(tensors: Sequence[Tensor]) -> tuple[Tensor, After | None]:
    """Where to put the elements of all, one behind the other, and what brings them to them."""
    together = _together(tensors)
    if together is not None:
        return together, None
    sizes = [tensor.numel() for tensor in tensors]
    buffer = torch.empty(sum(sizes), dtype=tensors[0].dtype)

    def run() -> None:
        for tensor, part in zip(tensors, buffer.split(sizes)):
            tensor.detach().copy_(part.view(tensor.shape))

    return buffer, run


def _alike(what: str, tensors: Sequence[Tensor], model: Tensor, sizes: bool = True) -> None:
    for place, tensor in enumerate(tensors):
        if tensor.dtype != model.dtype:
            raise ValueError(f"{what}: tensor {place} is of type {tensor.dtype}, not "
                             f"{model.dtype} as the other side of the call")
        if sizes and tensor.numel() != model.numel():
            raise ValueError(f"{what}: tensor {place} has {tensor.numel()} elements, not "
                             f"{model.numel()}")


def _one(what: str, tensors: Sequence[Any]) -> Any:
    if len(tensors) != 1:
        raise ValueError(f"{what}: one tensor is expected (there is one device), not "
                         f"{len(tensors)}")
    return tensors[0]


# ---- the device that groups share ----------------------------------------------------------------

class _Shared:
    """One per process: a child makes its own."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.device: Device | None = None
        self.process = 0

    def get(self) -> Device:
        with self.lock:
            if self.device is None or self.process != os.getpid():
                self.device, self.process = Device(), os.getpid()
            return self.device


_shared = _Shared()


def _can_be_made(base: Any) -> bool:
    try:
        base(0, 1)
    except TypeError:
        return False
    return True


# Backends can be made in Python since PyTorch 2.14; before, a whole group has to be.
_Base: Any = _c10d.Backend
if not _can_be_made(_Base):
    _Base = dist.ProcessGroup


class Group(_Base):  # type: ignore[misc]
    """The operations of one process group. Ranks are those of the group."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta,
                 name: str = "", device: Device | None = None) -> None:
        super().__init__(rank, size)
        self._rank, self._size = rank, size
        self._store = store
        self._name, self._desc = name, "undefined"
        self._sequence = 0
        self._live: deque[Started] = deque()
        try:
            self._context = Context(rank, size, CallbackStore(functions_of(store)),
                                    device=device or _shared.get(),
                                    timeout=timeout.total_seconds())
        except GlooError as error:
            raise backend_error(error) from error.__cause__

    # ---- what PyTorch asks of a group ------------------------------------------------------------

    def getRank(self) -> int:
        return self._rank

    def getSize(self) -> int:
        return self._size

    rank, size = getRank, getSize

    def getBackendName(self) -> str:
        return BACKEND

    name = _get_backend_name = getBackendName

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    _set_group_name = setGroupName

    def getGroupDesc(self) -> str:
        return self._desc

    def setGroupDesc(self, desc: str) -> None:
        self._desc = desc

    _set_group_desc = setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    def get_group_store(self) -> dist.Store:
        return self._store

    supports_coalescing = False
    supports_splitting = False

    @property
    def _device_types(self) -> list[torch.device]:
        types = [torch.device("cpu")]
        if torch.cuda.is_available():
            types.append(torch.device("cuda"))
        return types

    def _get_backend(self, _device: torch.device) -> Group:
        return self

    def set_timeout(self, timeout: timedelta) -> None:
        self._checked(lib.gloo_context_set_timeout, int(timeout.total_seconds() * 1e9))

    _set_default_timeout = set_timeout

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def abort(self) -> None:
        """Let everything fail that is under way, on all ranks, and leave. Any thread may."""
        handle = self._context._handle
        if handle is not None:
            error = new_error()
            lib.gloo_context_abort(handle.pointer, b"the process group was aborted", error)
            give_back(error)
        self.shutdown()

    def shutdown(self) -> None:
        """Leave. Whatever is under way is cancelled."""
        self._live.clear()
        self._context.close()

    # ---- calls -----------------------------------------------------------------------------------

    def _held(self) -> Any:
        handle = self._context._handle
        if handle is None:
            raise backend_error(GlooError(
                f"process group '{self._name}' was shut down", lib.GLOO_ERR_CANCELLED))
        return handle

    def _checked(self, function: Any, *arguments: Any) -> None:
        handle, error = self._held(), new_error()
        status = function(handle.pointer, *arguments, error)
        if status:
            raise backend_error(failure(status, error))
        give_back(error)

    @staticmethod
    def _options(timeout: timedelta | None, tag: int, factor: float | None) -> tuple[Any, Any]:
        set_timeout = timeout is not None and timeout > _ZERO
        if not set_timeout and tag == 0 and factor is None:
            return NULL, None
        options, kept = ffi.new(_OPTIONS), None
        lib.py_gloo_options_init(options)
        if set_timeout:
            options.timeout_ns = int(timeout.total_seconds() * 1e9)  # type: ignore[union-attr]
        options.tag = tag
        if factor is not None:
            options.factor = kept = ffi.new("double *", factor)
        return options, kept

    def _call(self, name: str, arguments: tuple[Any, ...], result: Any, keep: Any,
              opts: Any = None, after: After | None = None, factor: float | None = None,
              tag: int = 0) -> Any:
        """One call: at once where it is not asynchronous, else started."""
        self._sequence += 1
        if opts is not None and not opts.asyncOp:
            self._run(name, arguments, opts.timeout, factor, tag)
            if after is not None:
                after()
            return Ended(result)
        pointer = self._begin(name, arguments, None if opts is None else opts.timeout, factor, tag)
        return self._started(pointer, result, keep, after)

    def _run(self, name: str, arguments: tuple[Any, ...], timeout: timedelta | None = None,
             factor: float | None = None, tag: int = 0) -> None:
        handle = self._held()
        function = _functions.get(name)
        if function is None:
            function = _functions[name] = getattr(lib, "gloo_" + name)
        options, _kept = self._options(timeout, tag, factor)
        error = new_error()
        status = function(handle.pointer, *arguments, options, error)
        if status:
            raise backend_error(failure(status, error))
        give_back(error)

    def _begin(self, name: str, arguments: tuple[Any, ...], timeout: timedelta | None,
               factor: float | None, tag: int) -> Any:
        handle = self._held()
        name += "_start"
        function = _functions.get(name)
        if function is None:
            function = _functions[name] = getattr(lib, "gloo_" + name)
        options, _kept = self._options(timeout, tag, factor)
        place, error = ffi.new(_REQUEST), new_error()
        status = function(handle.pointer, *arguments, options, place, error)
        if status:
            raise backend_error(failure(status, error))
        give_back(error)
        return place[0]

    def _started(self, pointer: Any, result: Any, keep: Any, after: After | None) -> Started:
        handle = self._held()
        request = Request(pointer, self._context, (keep, result), result, None, False,
                          handle.state)
        work = Started(request, result, after)
        live = self._live  # PyTorch may let go of a work that is under way
        while live:
            try:
                if not live[0]._request.done():
                    break
                live.popleft()
            except IndexError:  # another thread was faster
                break
        live.append(work)
        return work

    def _together(self, calls: Sequence[tuple[str, tuple[Any, ...], Any, After | None]], result: Any,
                  opts: Any, factor: float | None = None) -> Any:
        """Several calls (name, arguments, what to keep, after) as one work."""
        after = _all_of([call[3] for call in calls])
        keep = [call[2] for call in calls]
        if len(calls) == 1:
            return self._call(calls[0][0], calls[0][1], result, keep, opts, after, factor)
        if not calls:
            return Ended(result)
        timeout = None if opts is None else opts.timeout
        self._sequence += 1
        if opts is not None and not opts.asyncOp:
            for name, arguments, _keep, _after in calls:
                self._run(name, arguments, timeout, factor)
            if after is not None:
                after()
            return Ended(result)
        pointers: list[Any] = []
        try:
            for name, arguments, _keep, _after in calls:
                pointers.append(self._begin(name, arguments, timeout, factor, 0))
        finally:
            # Those that were started before one was refused are under way.
            if 0 < len(pointers) < len(calls):
                self._started(self._join(pointers), result, keep, None)
        return self._started(self._join(pointers), result, keep, after)

    @staticmethod
    def _join(pointers: list[Any]) -> Any:
        if len(pointers) == 1:
            return pointers[0]
        place, error = ffi.new(_REQUEST), new_error()
        status = lib.gloo_requests_join(ffi.new("gloo_request *[]", pointers), len(pointers), place,
                                        error)
        if status:
            raise backend_error(failure(status, error))
        give_back(error)
        return place[0]

    def _reduction(self, what: str, opts: Any, tensor: Tensor) -> tuple[int, int, float | None]:
        """Type, operation and factor of a reduction."""
        number = _DTYPES.get(tensor.dtype)
        if number is None:
            raise TypeError(f"{what}: there is no arithmetic on {tensor.dtype}")
        given = opts.reduceOp
        kind = getattr(given, "op", given)
        op = (_BOOL_OPS if tensor.dtype is torch.bool else _OPS).get(kind)
        if op is None:
            raise TypeError(f"{what}: there is no {kind} of {tensor.dtype}")
        if op != lib.GLOO_SCALED_SUM:
            return number, op, None
        factor = given.factor
        if isinstance(factor, Tensor):
            if factor.numel() != 1:
                raise ValueError(f"{what}: the factor of PREMUL_SUM has {factor.numel()} elements, "
                                 "not one")
            factor = factor.item()
        return number, op, float(factor)

    # ---- collectives -----------------------------------------------------------------------------

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Any:
        if isinstance(tensors, Tensor):
            tensors = [tensors]
        opts = _c10d.AllreduceOptions() if opts is None else opts
        if len(tensors) != 1:
            return self.allreduce_coalesced(tensors, opts)
        tensor = tensors[0]
        if tensor.layout is torch.sparse_coo:
            return self._allreduce_sparse(tensors, opts)
        dtype, op, factor = self._reduction("all_reduce", opts, tensor)
        place, after = (tensor, None) if _plain(tensor) else _output(tensor)
        return self._call("allreduce", (IN_PLACE, _pointer(place), place.numel(), dtype, op),
                          tensors, place, opts, after, factor)

    def allreduce_sparse(self, tensors: list[Tensor], opts: Any = None) -> Any:
        return self._allreduce_sparse(tensors, _c10d.AllreduceOptions() if opts is None else opts)

    def _allreduce_sparse(self, tensors: list[Tensor], opts: Any) -> Any:
        """Every rank gets the indices and values of all others, and adds them. It is over when it
        returns, also where it is asked to be asynchronous."""
        tensor = _one("all_reduce", tensors)
        kind = getattr(opts.reduceOp, "op", opts.reduceOp)
        if kind not in (_KINDS.SUM, _KINDS.AVG):
            raise TypeError(f"all_reduce: there is no {kind} of sparse tensors")
        mine = tensor.detach().cpu().coalesce()
        indices, values = mine.indices().contiguous(), mine.values().contiguous()
        here = torch.tensor([indices.shape[1]], dtype=torch.int64)
        there = torch.empty(self._size, dtype=torch.int64)
        self._run("allgather", (_pointer(here), _pointer(there), 1, lib.GLOO_INT64), opts.timeout)
        nonzero = there.tolist()
        row = values[:1].numel() if values.shape[0] else values.new_empty((1, *values.shape[1:])).numel()
        # Dimensions first, so that each rank's block is one after the other.
        all_indices = torch.empty((sum(nonzero), indices.shape[0]), dtype=torch.int64)
        all_values = values.new_empty((sum(nonzero), *values.shape[1:]))
        for source, place, width in ((indices.t().contiguous(), all_indices, indices.shape[0]),
                                     (values, all_values, row)):
            _count, dtype = _moved(source)
            scale = 1 if source.dtype in _DTYPES else source.element_size()
            self._run("allgatherv", (_pointer(source), _pointer(place),
                                     _counts([n * width * scale for n in nonzero]), NULL, dtype),
                      opts.timeout)
        total = torch.sparse_coo_tensor(all_indices.t(), all_values, mine.shape).coalesce()
        if kind == _KINDS.AVG:
            total = total / self._size
        with torch.no_grad():
            tensor.copy_(total)
        return Ended(tensors)

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> Any:
        opts = _c10d.AllreduceCoalescedOptions() if opts is None else opts
        calls, factor = [], None
        groups: dict[torch.dtype, list[Tensor]] = {}
        for tensor in tensors:
            groups.setdefault(tensor.dtype, []).append(tensor)
        for members in groups.values():
            dtype, op, factor = self._reduction("all_reduce", opts, members[0])
            places, after = _outputs(members)
            calls.append(("allreduce_list", (NULL, _pointers(places),
                                             _counts([p.numel() for p in places]), len(places),
                                             dtype, op), places, after))
        return self._together(calls, tensors, opts, factor)

    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> Any:
        opts = _c10d.BroadcastOptions() if opts is None else opts
        calls = []
        for tensor in tensors:
            place, after = _output(tensor)
            calls.append(("broadcast", (IN_PLACE, _pointer(place), *_moved(place), opts.rootRank),
                          place, after))
        return self._together(calls, tensors, opts)

    def reduce(self, tensors: list[Tensor], opts: Any) -> Any:
        tensor = _one("reduce", tensors)
        dtype, op, factor = self._reduction("reduce", opts, tensor)
        place, after = _output(tensor)
        return self._call("reduce", (IN_PLACE, _pointer(place), place.numel(), dtype, op,
                                     opts.rootRank), tensors, place, opts, after, factor)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Any:
        opts = _c10d.AllgatherOptions() if opts is None else opts
        calls = [self._allgather_call(list(lists), tensor)
                 for lists, tensor in zip(outputs, inputs)]
        return self._together(calls, outputs, opts)

    def _allgather_call(self, lists: list[Tensor], tensor: Tensor) -> Any:
        if len(lists) != self._size:
            raise ValueError(f"all_gather: there are {len(lists)} outputs for {self._size} ranks")
        _alike("all_gather", lists, tensor, sizes=False)
        source = _input(tensor)
        sizes = [output.numel() for output in lists]
        if sizes[self._rank] != source.numel():
            raise ValueError(f"all_gather: the input has {source.numel()} elements, and the output "
                             f"for this rank {sizes[self._rank]}")
        count, dtype = _moved(source)
        if len(set(sizes)) == 1:
            places, after = _outputs(lists)
            return ("allgather_list", (_pointer(source), _pointers(places), count, dtype),
                    (source, places), after)
        scale = 1 if tensor.dtype in _DTYPES else tensor.element_size()
        buffer, after = _split(lists)
        return ("allgatherv", (_pointer(source), _pointer(buffer),
                               _counts([size * scale for size in sizes]), NULL, dtype),
                (source, buffer), after)

    def all_gather_single(self, output: Tensor, tensor: Tensor, opts: Any = None) -> Any:
        opts = _c10d.AllgatherOptions() if opts is None else opts
        return self._together([self._allgather_single_call(output, tensor)], [output], opts)

    _allgather_base = all_gather_single

    def _allgather_single_call(self, output: Tensor, tensor: Tensor) -> Any:
        _alike("all_gather_into_tensor", [output], tensor, sizes=False)
        if output.numel() != tensor.numel() * self._size:
            raise ValueError(f"all_gather_into_tensor: the output has {output.numel()} elements, "
                             f"not {self._size} times the {tensor.numel()} of the input")
        source = _input(tensor)
        place, after = _output(output)
        own = place.data_ptr() + self._rank * source.numel() * source.element_size()
        given = IN_PLACE if source.data_ptr() == own and source.numel() else _pointer(source)
        return ("allgather", (given, _pointer(place), *_moved(source)), (source, place), after)

    def all_gather_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor],
                                    opts: Any = None) -> Any:
        opts = _c10d.AllgatherOptions() if opts is None else opts
        return self._together([self._allgather_single_call(output, tensor)
                               for output, tensor in zip(outputs, inputs)], outputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(self, outputs: list[list[Tensor]], inputs: list[Tensor],
                            opts: Any = None) -> Any:
        """outputs[rank][k] gets the rank's inputs[k]."""
        opts = _c10d.AllgatherOptions() if opts is None else opts
        return self._together([self._allgather_call([lists[place] for lists in outputs], tensor)
                               for place, tensor in enumerate(inputs)], outputs, opts)

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> Any:
        source = _input(_one("gather", inputs))
        places, after, lists = [], None, NULL
        if opts.rootRank == self._rank:
            given = _one("gather", outputs)
            if len(given) != self._size:
                raise ValueError(f"gather: there are {len(given)} outputs for {self._size} ranks")
            _alike("gather", given, source)
            places, after = _outputs(given)
            lists = _pointers(places)
        return self._call("gather_list", (_pointer(source), lists, *_moved(source), opts.rootRank),
                          outputs, (source, places), opts, after)

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> Any:
        place, after = _output(_one("scatter", outputs))
        sources, lists = [], NULL
        if opts.rootRank == self._rank:
            given = _one("scatter", inputs)
            if len(given) != self._size:
                raise ValueError(f"scatter: there are {len(given)} inputs for {self._size} ranks")
            _alike("scatter", given, place)
            sources = [_input(tensor) for tensor in given]
            lists = _pointers(sources)
        return self._call("scatter_list", (lists, _pointer(place), *_moved(place), opts.rootRank),
                          outputs, (sources, place), opts, after)

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]],
                       opts: Any = None) -> Any:
        opts = _c10d.ReduceScatterOptions() if opts is None else opts
        output, given = _one("reduce_scatter", outputs), _one("reduce_scatter", inputs)
        if len(given) != self._size:
            raise ValueError(f"reduce_scatter: there are {len(given)} inputs for {self._size} ranks")
        _alike("reduce_scatter", given, output, sizes=False)
        dtype, op, factor = self._reduction("reduce_scatter", opts, output)
        place, after = _output(output)
        sizes = [tensor.numel() for tensor in given]
        if sizes[self._rank] != output.numel():
            raise ValueError(f"reduce_scatter: the output has {output.numel()} elements, and the "
                             f"input for this rank {sizes[self._rank]}")
        if len(set(sizes)) == 1:
            sources = [_input(tensor) for tensor in given]
            return self._call("reduce_scatter_list", (_pointers(sources), _pointer(place),
                                                      place.numel(), dtype, op), outputs,
                              (sources, place), opts, after, factor)
        source = _joined(given)
        return self._call("reduce_scatterv", (_pointer(source), _pointer(place), _counts(sizes),
                                              dtype, op), outputs, (source, place), opts, after,
                          factor)

    def _reduce_scatter_call(self, output: Tensor, tensor: Tensor, opts: Any) -> Any:
        _alike("reduce_scatter_tensor", [output], tensor, sizes=False)
        if tensor.numel() != output.numel() * self._size:
            raise ValueError(f"reduce_scatter_tensor: the input has {tensor.numel()} elements, not "
                             f"{self._size} times the {output.numel()} of the output")
        dtype, op, factor = self._reduction("reduce_scatter_tensor", opts, tensor)
        source = _input(tensor)
        place, after = _output(output)
        if source.numel() and source.data_ptr() <= place.data_ptr() < (
                source.data_ptr() + source.numel() * source.element_size()):
            source = source.clone()  # PyTorch allows the output to be a part of the input
        return ("reduce_scatter", (_pointer(source), _pointer(place), place.numel(), dtype, op),
                (source, place), after), factor

    def reduce_scatter_single(self, output: Tensor, tensor: Tensor, opts: Any = None) -> Any:
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor],
                                        opts: Any = None) -> Any:
        opts = _c10d.ReduceScatterOptions() if opts is None else opts
        calls = [self._reduce_scatter_call(output, tensor, opts)
                 for output, tensor in zip(outputs, inputs)]
        return self._together([call for call, _factor in calls], outputs, opts,
                              calls[0][1] if calls else None)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def all_to_all_single(self, output: Tensor, tensor: Tensor, output_sizes: Sequence[int],
                          input_sizes: Sequence[int], opts: Any = None) -> Any:
        opts = _c10d.AllToAllOptions() if opts is None else opts
        _alike("all_to_all_single", [output], tensor, sizes=False)
        source = _input(tensor)
        place, after = _output(output)
        if not output_sizes and not input_sizes:
            for what, given in (("input", source), ("output", place)):
                if given.dim() and given.shape[0] % self._size:
                    raise ValueError(f"all_to_all_single: the first dimension of the {what}, "
                                     f"{given.shape[0]}, cannot be divided by {self._size} ranks")
            _alike("all_to_all_single", [place], source)
            count, dtype = _moved(source)
            return self._call("alltoall", (_pointer(source), _pointer(place), count // self._size,
                                           dtype), [output], (source, place), opts, after)
        received = self._rows("output", place, output_sizes)
        sent = self._rows("input", source, input_sizes)
        return self._call("alltoallv", (_pointer(source), _counts(sent), NULL, _pointer(place),
                                        _counts(received), NULL, _moved(source)[1]), [output],
                          (source, place), opts, after)

    alltoall_base = all_to_all_single

    def _rows(self, what: str, tensor: Tensor, sizes: Sequence[int]) -> list[int]:
        """How many elements of it each rank has, of how many rows."""
        rows = tensor.shape[0] if tensor.dim() else tensor.numel()
        if not sizes:
            if rows % self._size:
                raise ValueError(f"all_to_all_single: the {rows} rows of the {what} cannot be "
                                 f"divided by {self._size} ranks")
            sizes = [rows // self._size] * self._size
        if len(sizes) != self._size or sum(sizes) != rows or min(sizes) < 0:
            raise ValueError(f"all_to_all_single: the split sizes {list(sizes)} of the {what} must "
                             f"be {self._size} whole numbers that add up to its {rows} rows")
        count, _dtype = _moved(tensor)
        width = count // rows if rows else 0
        return [size * width for size in sizes]

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        opts = _c10d.AllToAllOptions() if opts is None else opts
        for what, given in (("outputs", outputs), ("inputs", inputs)):
            if len(given) != self._size:
                raise ValueError(f"all_to_all: there are {len(given)} {what} for {self._size} ranks")
        _alike("all_to_all", [*outputs, *inputs], inputs[0], sizes=False)
        # Other ranks' blocks may be of other sizes, where this rank's are all alike.
        source = _joined(inputs)
        place, after = _split(outputs)
        sent = [_moved(tensor)[0] for tensor in inputs]
        received = [_moved(tensor)[0] for tensor in outputs]
        return self._call("alltoallv", (_pointer(source), _counts(sent), NULL, _pointer(place),
                                        _counts(received), NULL, _moved(source)[1]), outputs,
                          (source, place, inputs, outputs), opts, after)

    def barrier(self, opts: Any = None) -> Any:
        return self._call("barrier", (), [], None, opts)

    def monitored_barrier(self, timeout: timedelta | None = None,
                          wait_all_ranks: bool = False) -> None:
        """A barrier whose error names the rank that has not come. `wait_all_ranks` names one too."""
        self._sequence += 1
        self._run("barrier", (), timeout)

    # ---- messages --------------------------------------------------------------------------------

    def send(self, tensors: list[Tensor], dst: int, tag: int = 0) -> Any:
        source = _input(_one("send", tensors))
        return self._call("send", (_pointer(source), *_moved(source), dst), tensors, source, tag=tag)

    def recv(self, tensors: list[Tensor], src: int, tag: int = 0) -> Any:
        place, after = _output(_one("recv", tensors))
        return self._call("recv", (_pointer(place), *_moved(place), src), tensors, place,
                          after=after, tag=tag)

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> Any:
        place, after = _output(_one("recv", tensors))
        return self._call("recv_any", (_pointer(place), *_moved(place), NULL, 0), tensors, place,
                          after=after, tag=tag)

    recvAnysource = recv_anysource


# ---- registration --------------------------------------------------------------------------------

def _make(options: Any, pg_options: Any = None) -> Group:
    if pg_options is not None and not isinstance(pg_options, Device):
        raise TypeError(f"the backend {BACKEND} takes a gloo_c.Device as pg_options, not "
                        f"{type(pg_options).__name__}")
    return Group(options.store, options.group_rank, options.group_size, options.timeout,
                 options.group_id, pg_options)


def register() -> None:
    """Make the backend known. Importing gloo_c.torch does it."""
    if not hasattr(dist.Backend, BACKEND.upper()):
        dist.Backend.register_backend(BACKEND, _make, extended_api=True, devices=["cpu", "cuda"])
