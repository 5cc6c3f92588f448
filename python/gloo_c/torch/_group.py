"""A process group: every operation of torch.distributed as a call of the library."""

from __future__ import annotations

import sys
from datetime import timedelta
from types import FrameType
from typing import Any, Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C import _distributed_c10d as _c10d
from torch._C._distributed_c10d import Store

from .._binding import lib
from .._context import Context
from .._devices import Device
from .._errors import give_back, new_error
from ._calls import KINDS, Caller, limit_of
from ._tensors import (DTYPES, NULL, After, check_alike, counts, input_of, joined, moved, only,
                       output_of, outputs_of, plain, pointer, pointers, split_of)
from ._works import Ended

BACKEND = "gloo_c"
IN_PLACE = lib.GLOO_IN_PLACE


class Operations(Caller):
    """The operations of one process group. Ranks are those of the group."""

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

    def get_group_store(self) -> Store:
        return self._store

    supports_coalescing = False
    supports_splitting = False

    @property
    def _device_types(self) -> list[torch.device]:
        types = [torch.device("cpu")]
        if torch.cuda.is_available():
            types.append(torch.device("cuda"))
        return types

    def _get_backend(self, _device: torch.device) -> Operations:
        return self

    def set_timeout(self, timeout: timedelta) -> None:
        self._checked(lib.gloo_context_set_timeout, limit_of(timeout))
        self._timeout = timeout

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

    def _check_one_per_rank(self, what: str, of_what: str, given: Sequence[Tensor]) -> None:
        if len(given) != self._size:
            raise ValueError(f"{what}: there are {len(given)} {of_what} for {self._size} ranks")

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
        place, after = (tensor, None) if plain(tensor) else output_of(tensor)
        return self._call("allreduce", (IN_PLACE, pointer(place), place.numel(), dtype, op),
                          tensors, place, opts, after, factor)

    def allreduce_sparse(self, tensors: list[Tensor], opts: Any = None) -> Any:
        return self._allreduce_sparse(tensors, _c10d.AllreduceOptions() if opts is None else opts)

    def _allreduce_sparse(self, tensors: list[Tensor], opts: Any) -> Any:
        """Every rank gets the indices and values of all others, and adds them. It is over when it
        returns, also where it is asked to be asynchronous."""
        tensor = only("all_reduce", tensors)
        kind = getattr(opts.reduceOp, "op", opts.reduceOp)
        if kind not in (KINDS.SUM, KINDS.AVG):
            raise TypeError(f"all_reduce: there is no {kind} of sparse tensors")
        mine = tensor.detach().cpu().coalesce()
        indices, values = mine.indices().contiguous(), mine.values().contiguous()
        here = torch.tensor([indices.shape[1]], dtype=torch.int64)
        there = torch.empty(self._size, dtype=torch.int64)
        self._run("allgather", (pointer(here), pointer(there), 1, lib.GLOO_INT64), opts.timeout)
        nonzero = there.tolist()
        row = values[:1].numel() if values.shape[0] else values.new_empty((1, *values.shape[1:])).numel()
        # Dimensions first, so that each rank's block is one after the other.
        all_indices = torch.empty((sum(nonzero), indices.shape[0]), dtype=torch.int64)
        all_values = values.new_empty((sum(nonzero), *values.shape[1:]))
        for source, place, width in ((indices.t().contiguous(), all_indices, indices.shape[0]),
                                     (values, all_values, row)):
            _count, dtype = moved(source)
            scale = 1 if source.dtype in DTYPES else source.element_size()
            self._run("allgatherv", (pointer(source), pointer(place),
                                     counts([n * width * scale for n in nonzero]), NULL, dtype),
                      opts.timeout)
        total = torch.sparse_coo_tensor(all_indices.t(), all_values, mine.shape).coalesce()
        if kind == KINDS.AVG:
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
            places, after = outputs_of(members)
            calls.append(("allreduce_list", (NULL, pointers(places),
                                             counts([p.numel() for p in places]), len(places),
                                             dtype, op), places, after))
        return self._together(calls, tensors, opts, factor)

    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> Any:
        opts = _c10d.BroadcastOptions() if opts is None else opts
        calls = []
        for tensor in tensors:
            place, after = output_of(tensor)
            calls.append(("broadcast", (IN_PLACE, pointer(place), *moved(place), opts.rootRank),
                          place, after))
        return self._together(calls, tensors, opts)

    def reduce(self, tensors: list[Tensor], opts: Any) -> Any:
        tensor = only("reduce", tensors)
        dtype, op, factor = self._reduction("reduce", opts, tensor)
        place, after = output_of(tensor)
        return self._call("reduce", (IN_PLACE, pointer(place), place.numel(), dtype, op,
                                     opts.rootRank), tensors, place, opts, after, factor)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Any:
        opts = _c10d.AllgatherOptions() if opts is None else opts
        calls = [self._allgather_call(list(lists), tensor)
                 for lists, tensor in zip(outputs, inputs)]
        return self._together(calls, outputs, opts)

    def _allgather_call(self, lists: list[Tensor], tensor: Tensor) -> Any:
        self._check_one_per_rank("all_gather", "outputs", lists)
        check_alike("all_gather", lists, tensor, sizes=False)
        source = input_of(tensor)
        sizes = [output.numel() for output in lists]
        if sizes[self._rank] != source.numel():
            raise ValueError(f"all_gather: the input has {source.numel()} elements, and the output "
                             f"for this rank {sizes[self._rank]}")
        count, dtype = moved(source)
        if len(set(sizes)) == 1:
            places, after = outputs_of(lists)
            return ("allgather_list", (pointer(source), pointers(places), count, dtype),
                    (source, places), after)
        scale = 1 if tensor.dtype in DTYPES else tensor.element_size()
        buffer, after = split_of(lists)
        return ("allgatherv", (pointer(source), pointer(buffer),
                               counts([size * scale for size in sizes]), NULL, dtype),
                (source, buffer), after)

    def all_gather_single(self, output: Tensor, tensor: Tensor, opts: Any = None) -> Any:
        opts = _c10d.AllgatherOptions() if opts is None else opts
        return self._together([self._allgather_single_call(output, tensor)], [output], opts)

    _allgather_base = all_gather_single

    def _allgather_single_call(self, output: Tensor, tensor: Tensor) -> Any:
        check_alike("all_gather_into_tensor", [output], tensor, sizes=False)
        if output.numel() != tensor.numel() * self._size:
            raise ValueError(f"all_gather_into_tensor: the output has {output.numel()} elements, "
                             f"not {self._size} times the {tensor.numel()} of the input")
        source = input_of(tensor)
        place, after = output_of(output)
        own = place.data_ptr() + self._rank * source.numel() * source.element_size()
        given = IN_PLACE if source.data_ptr() == own and source.numel() else pointer(source)
        return ("allgather", (given, pointer(place), *moved(source)), (source, place), after)

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
        source = input_of(only("gather", inputs))
        places: list[Tensor] = []
        after: After | None = None
        lists = NULL
        if opts.rootRank == self._rank:
            given = only("gather", outputs)
            self._check_one_per_rank("gather", "outputs", given)
            check_alike("gather", given, source)
            places, after = outputs_of(given)
            lists = pointers(places)
        return self._call("gather_list", (pointer(source), lists, *moved(source), opts.rootRank),
                          outputs, (source, places), opts, after)

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> Any:
        place, after = output_of(only("scatter", outputs))
        sources: list[Tensor] = []
        lists = NULL
        if opts.rootRank == self._rank:
            given = only("scatter", inputs)
            self._check_one_per_rank("scatter", "inputs", given)
            check_alike("scatter", given, place)
            sources = [input_of(tensor) for tensor in given]
            lists = pointers(sources)
        return self._call("scatter_list", (lists, pointer(place), *moved(place), opts.rootRank),
                          outputs, (sources, place), opts, after)

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]],
                       opts: Any = None) -> Any:
        opts = _c10d.ReduceScatterOptions() if opts is None else opts
        output, given = only("reduce_scatter", outputs), only("reduce_scatter", inputs)
        self._check_one_per_rank("reduce_scatter", "inputs", given)
        check_alike("reduce_scatter", given, output, sizes=False)
        dtype, op, factor = self._reduction("reduce_scatter", opts, output)
        place, after = output_of(output)
        sizes = [tensor.numel() for tensor in given]
        if sizes[self._rank] != output.numel():
            raise ValueError(f"reduce_scatter: the output has {output.numel()} elements, and the "
                             f"input for this rank {sizes[self._rank]}")
        if len(set(sizes)) == 1:
            sources = [input_of(tensor) for tensor in given]
            return self._call("reduce_scatter_list", (pointers(sources), pointer(place),
                                                      place.numel(), dtype, op), outputs,
                              (sources, place), opts, after, factor)
        source = joined(given)
        return self._call("reduce_scatterv", (pointer(source), pointer(place), counts(sizes),
                                              dtype, op), outputs, (source, place), opts, after,
                          factor)

    def _reduce_scatter_call(self, output: Tensor, tensor: Tensor, opts: Any) -> Any:
        check_alike("reduce_scatter_tensor", [output], tensor, sizes=False)
        if tensor.numel() != output.numel() * self._size:
            raise ValueError(f"reduce_scatter_tensor: the input has {tensor.numel()} elements, not "
                             f"{self._size} times the {output.numel()} of the output")
        dtype, op, factor = self._reduction("reduce_scatter_tensor", opts, tensor)
        source = input_of(tensor)
        place, after = output_of(output)
        if source.numel() and source.data_ptr() <= place.data_ptr() < (
                source.data_ptr() + source.numel() * source.element_size()):
            source = source.clone()  # PyTorch allows the output to be a part of the input
        return ("reduce_scatter", (pointer(source), pointer(place), place.numel(), dtype, op),
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
        check_alike("all_to_all_single", [output], tensor, sizes=False)
        source = input_of(tensor)
        place, after = output_of(output)
        if not output_sizes and not input_sizes:
            for what, given in (("input", source), ("output", place)):
                if given.dim() and given.shape[0] % self._size:
                    raise ValueError(f"all_to_all_single: the first dimension of the {what}, "
                                     f"{given.shape[0]}, cannot be divided by {self._size} ranks")
            check_alike("all_to_all_single", [place], source)
            count, dtype = moved(source)
            return self._call("alltoall", (pointer(source), pointer(place), count // self._size,
                                           dtype), [output], (source, place), opts, after)
        received = self._rows("output", place, output_sizes)
        sent = self._rows("input", source, input_sizes)
        return self._call("alltoallv", (pointer(source), counts(sent), NULL, pointer(place),
                                        counts(received), NULL, moved(source)[1]), [output],
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
        count, _dtype = moved(tensor)
        width = count // rows if rows else 0
        return [size * width for size in sizes]

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> Any:
        opts = _c10d.AllToAllOptions() if opts is None else opts
        self._check_one_per_rank("all_to_all", "outputs", outputs)
        self._check_one_per_rank("all_to_all", "inputs", inputs)
        check_alike("all_to_all", [*outputs, *inputs], inputs[0], sizes=False)
        # Other ranks' blocks may be of other sizes, where this rank's are all alike.
        source = joined(inputs)
        place, after = split_of(outputs)
        sent = [moved(tensor)[0] for tensor in inputs]
        received = [moved(tensor)[0] for tensor in outputs]
        return self._call("alltoallv", (pointer(source), counts(sent), NULL, pointer(place),
                                        counts(received), NULL, moved(source)[1]), outputs,
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
        source = input_of(only("send", tensors))
        return self._call("send", (pointer(source), *moved(source), dst), tensors, source, tag=tag)

    def recv(self, tensors: list[Tensor], src: int, tag: int = 0) -> Any:
        place, after = output_of(only("recv", tensors))
        return self._call("recv", (pointer(place), *moved(place), src), tensors, place,
                          after=after, tag=tag)

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> Any:
        place, after = output_of(only("recv", tensors))
        return self._call("recv_any", (pointer(place), *moved(place), NULL, 0), tensors, place,
                          after=after, tag=tag)

    recvAnysource = recv_anysource


# ---- what PyTorch knows them as ------------------------------------------------------------------

_Whole: Any = dist.ProcessGroup  # what PyTorch's types say of them does not fit in Python
_Part: Any = _c10d.Backend


class Group(Operations, _Whole):  # type: ignore[misc]
    """A whole process group: tensors of all devices are its."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta,
                 name: str = "", device: Device | Context | None = None) -> None:
        _Whole.__init__(self, rank, size)
        self._meet(store, rank, size, timeout, name, device)


def _parts_can_be_made() -> bool:
    try:
        _Part(0, 1)
    except TypeError:
        return False
    return True


_PARTS = _parts_can_be_made()


class PartOfGroup(Operations, _Part):  # type: ignore[misc]
    """The part of a process group for some of the devices ("cpu:gloo_c,cuda:nccl"). It can be made
    since PyTorch 2.14, which passes on of a work only waiting and its future: not is_completed,
    exception or the rank that a message came from. So it is made only where it is needed."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta,
                 name: str = "", device: Device | Context | None = None) -> None:
        _Part.__init__(self, rank, size)
        self._meet(store, rank, size, timeout, name, device)


def _is_whole(caller: FrameType | None) -> bool:
    """Is this backend that of all devices of the group that PyTorch is making? It does not tell in
    what it hands over; the function that makes groups knows."""
    config = None if caller is None else caller.f_locals.get("backend_config")
    if not isinstance(config, dist.distributed_c10d.BackendConfig):
        return not _PARTS
    return set(config.get_device_backend_map().values()) == {BACKEND}


def _make(options: Any, pg_options: Any = None) -> Operations:
    if pg_options is not None and not isinstance(pg_options, (Device, Context)):
        raise TypeError(f"the backend {BACKEND} takes a gloo_c.Device or a gloo_c.Context as "
                        f"pg_options, not {type(pg_options).__name__}")
    whole = _is_whole(sys._getframe().f_back)
    if not whole and not _PARTS:
        raise NotImplementedError(f"PyTorch {torch.__version__} cannot have the backend {BACKEND} for "
                                  "some devices of a group and another for others; since 2.14 it "
                                  f"can. '{BACKEND}' alone takes tensors of all devices, by copies "
                                  "in host memory")
    return (Group if whole else PartOfGroup)(options.store, options.group_rank, options.group_size, options.timeout,
                options.group_id, pg_options)


def register() -> None:
    """Make the backend known. Importing gloo_c.torch does it."""
    if not hasattr(dist.Backend, BACKEND.upper()):
        dist.Backend.register_backend(BACKEND, _make, extended_api=True, devices=["cpu", "cuda"])
