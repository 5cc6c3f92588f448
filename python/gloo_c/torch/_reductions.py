"""Reductions of a process group."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._binding import lib
from ._arguments import check_alike, one_per_rank, one_type, only, pairs, root_tensor, some
from ._calls import KINDS, Caller
from ._errors import ArgumentError, TensorTypeError
from ._forms import data, operation
from ._tensors import (DTYPES, NULL, all_of, apart, buffers, counts, fill, joined, moved,
                       output_of, outputs_of, pointer, pointers)
from ._works import Ended

IN_PLACE = lib.GLOO_IN_PLACE


class Reductions(Caller):
    """allreduce, reduce, reduce_scatter, and their coalesced forms."""

    @operation("AllreduceOptions", data(1, "tensors", "tensor"), fields=("op", "timeout"))
    def allreduce(self, tensors: list[Tensor], opts: Any) -> Any:
        """Several tensors are several inputs of the rank: each gets the sum of all."""
        if len(tensors) != 1:
            return self._allreduce_multi(tensors, opts)
        tensor = tensors[0]
        if tensor.layout is torch.sparse_coo:
            return self._allreduce_sparse(tensors, opts)
        dtype, op, factor = self._reduction("all_reduce", opts, tensor)
        if factor is None:
            work = self._direct(lib.TORCH_ALL_REDUCE_IN_PLACE, tensor, tensor, tensors, opts, op, dtype)
            if work is not None:
                return work
        place, after = output_of(tensor)
        return self._call("allreduce", (IN_PLACE, pointer(place), place.numel(), dtype, op),
                          tensors, place, opts, after, factor)

    @operation("AllreduceOptions", data(1, "tensors", "tensor"), fields=("op", "timeout"))
    def allreduce_sparse(self, tensors: list[Tensor], opts: Any) -> Any:
        some("all_reduce", tensors)
        return self._allreduce_sparse(tensors, opts)

    def _allreduce_multi(self, tensors: list[Tensor], opts: Any) -> Any:
        some("all_reduce", tensors)
        first = tensors[0]
        one_type("all_reduce", tensors)
        check_alike("all_reduce", tensors, first)
        if first.layout is torch.sparse_coo:
            return self._allreduce_sparse(tensors, opts)
        dtype, op, factor = self._reduction("all_reduce", opts, first)
        if op == lib.GLOO_AVERAGE:  # averages over ranks, as in gloo
            op, factor = lib.GLOO_SCALED_SUM, 1 / self._size
        _sources, places, after = buffers([], tensors)
        return self._call("allreduce_multi", (NULL, 0, pointers(places), len(places),
                                              places[0].numel(), dtype, op), tensors, places, opts,
                          after, factor)

    def _allreduce_sparse(self, tensors: list[Tensor], opts: Any) -> Any:
        """Every rank gets the indices and values of all others, and adds them. The operation has
        completed when the call returns, even if it is asynchronous."""
        kind = getattr(opts.reduceOp, "op", opts.reduceOp)
        if kind not in (KINDS.SUM, KINDS.AVG):
            raise TensorTypeError(f"all_reduce: {kind} is not defined for sparse tensors")
        for number, tensor in enumerate(tensors):
            if tensor.shape != tensors[0].shape:
                raise ArgumentError(f"all_reduce: tensor {number} has the shape {list(tensor.shape)}, "
                                    f"and tensor 0 {list(tensors[0].shape)}")
        mine = tensors[0].detach().cpu()
        for tensor in tensors[1:]:
            mine = mine + tensor.detach().cpu()
        mine = mine.coalesce()
        indices, values = mine.indices().contiguous(), mine.values().contiguous()
        here = torch.tensor([indices.shape[1]], dtype=torch.int64)
        there = torch.empty(self._size, dtype=torch.int64)
        self._run("allgather", (pointer(here), pointer(there), 1, lib.GLOO_INT64), opts.timeout)
        nonzero = there.tolist()
        row = values[:1].numel() if values.shape[0] else values.new_empty((1, *values.shape[1:])).numel()
        # Dimensions first, so that the ranks' blocks are contiguous.
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
        for tensor in tensors:
            fill(tensor, total)
        return Ended(tensors)

    @operation("AllreduceCoalescedOptions", data(1, "tensors"))
    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any) -> Any:
        some("all_reduce_coalesced", tensors)
        one_type("all_reduce_coalesced", tensors)
        dtype, op, factor = self._reduction("all_reduce_coalesced", opts, tensors[0])
        places, after = outputs_of(tensors)
        _sources, places, copied = apart([], places)
        return self._call("allreduce_list", (NULL, pointers(places), counts([p.numel() for p in places]),
                                             len(places), dtype, op), tensors, places, opts,
                          all_of([copied, after]), factor)

    @operation("ReduceOptions", data(1, "tensors", "tensor"), fields=("root", "op", "timeout"))
    def reduce(self, tensors: list[Tensor], opts: Any) -> Any:
        tensor = only("reduce", "tensors", tensors)
        root_tensor("reduce", opts.rootTensor, tensors)
        dtype, op, factor = self._reduction("reduce", opts, tensor)
        place, after = output_of(tensor)
        return self._call("reduce", (IN_PLACE, pointer(place), place.numel(), dtype, op,
                                     opts.rootRank), tensors, place, opts, after, factor)

    @operation("ReduceScatterOptions", data(1, "output_tensors", "output"),
               data(2, "input_tensors", "input", "input_tensor"), fields=("op", "timeout"))
    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> Any:
        output = only("reduce_scatter", "outputs", outputs)
        given = only("reduce_scatter", "lists of inputs", inputs)
        one_per_rank("reduce_scatter", "inputs", given, self._size)
        check_alike("reduce_scatter", given, output, sizes=False)
        dtype, op, factor = self._reduction("reduce_scatter", opts, output)
        sizes = [tensor.numel() for tensor in given]
        if sizes[self._rank] != output.numel():
            raise ArgumentError(f"reduce_scatter: the output has {output.numel()} elements, and the "
                                f"input for this rank {sizes[self._rank]}")
        sources, (place,), after = buffers(given, [output])
        if len(set(sizes)) == 1:
            return self._call("reduce_scatter_list", (pointers(sources), pointer(place),
                                                      place.numel(), dtype, op), outputs,
                              (sources, place), opts, after, factor)
        source = joined(sources)
        return self._call("reduce_scatterv", (pointer(source), pointer(place), counts(sizes),
                                              dtype, op), outputs, (sources, source, place), opts,
                          after, factor)

    @operation("ReduceScatterOptions", data(0, "outputTensor"), data(0, "inputTensor"))
    def reduce_scatter_single(self, output: Tensor, tensor: Tensor, opts: Any) -> Any:
        return self._reduce_scatter_calls([output], [tensor], opts)

    @operation("ReduceScatterOptions", data(1, "outputs"), data(1, "inputs"))
    def reduce_scatter_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor],
                                        opts: Any) -> Any:
        pairs("reduce_scatter_tensor_coalesced", outputs, inputs)
        return self._reduce_scatter_calls(outputs, inputs, opts)

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter_calls(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any) -> Any:
        calls, factor = [], None
        for output, tensor in zip(outputs, inputs):
            check_alike("reduce_scatter_tensor", [output], tensor, sizes=False)
            if tensor.numel() != output.numel() * self._size:
                raise ArgumentError(f"reduce_scatter_tensor: the input has {tensor.numel()} elements, "
                                    f"not {self._size} times the {output.numel()} of the output")
        if len(inputs) == 1:
            dtype, op, factor = self._reduction("reduce_scatter_tensor", opts, inputs[0])
            if factor is None:
                work = self._direct(lib.TORCH_REDUCE_SCATTER, inputs[0], outputs[0], outputs, opts, op, dtype)
                if work is not None:
                    return work
        sources, places, after = buffers(inputs, outputs)
        for source, place in zip(sources, places):
            dtype, op, factor = self._reduction("reduce_scatter_tensor", opts, source)
            calls.append(("reduce_scatter", (pointer(source), pointer(place), place.numel(), dtype,
                                             op), (source, place), None))
        return self._together(calls, outputs, opts, factor, after)
