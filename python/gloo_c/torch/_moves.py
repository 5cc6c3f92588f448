"""Operations of a process group that move elements, and messages."""

from __future__ import annotations

from typing import Any, Sequence

from torch import Tensor

from .._binding import lib
from ._arguments import (check_alike, listed, none, one_after_the_other, one_per_rank, only, pairs,
                         root_tensor, some, tag_of)
from ._calls import Caller
from ._errors import ArgumentError
from ._forms import data, operation
from ._tensors import (DTYPES, NULL, After, all_of, buffers, counts, fill, input_of,
                       joined, moved, output_of, plain, pointer, pointers, shown_as_list, split_of)

IN_PLACE = lib.GLOO_IN_PLACE


class Moves(Caller):
    """broadcast, allgather, gather, scatter, alltoall, send and recv."""

    @operation("BroadcastOptions", data(1, "tensors", "tensor"), fields=("root", "timeout"))
    def broadcast(self, tensors: list[Tensor], opts: Any) -> Any:
        """With several tensors, each gets the root's tensor number opts.rootTensor."""
        root_tensor("broadcast", opts.rootTensor, tensors)
        chosen = tensors[opts.rootTensor]
        if len(tensors) == 1:
            work = self._direct(lib.TORCH_BROADCAST, chosen, chosen, tensors, opts, opts.rootRank)
            if work is not None:
                return work
        place, after = output_of(chosen)
        if len(tensors) > 1:
            check_alike("broadcast", tensors, chosen)
            after = all_of([after, _copies(chosen, [each for each in tensors if each is not chosen])])
        return self._call("broadcast", (IN_PLACE, pointer(place), *moved(place), opts.rootRank),
                          tensors, place, opts, after)

    @operation("AllgatherOptions", data(2, "output_tensors"), data(1, "input_tensors", "input_tensor"),
               fields=("timeout",))
    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> Any:
        """With several inputs, every list of outputs gets those of rank 0, then those of rank 1,
        and so on."""
        pairs("all_gather", outputs, inputs)
        several = len(inputs)
        if several == 1:
            one_per_rank("all_gather", "outputs", outputs[0], self._size)
            return self._allgather_lists([outputs[0]], inputs, outputs[0], opts)
        for lists in outputs:
            if len(lists) != several * self._size:
                raise ArgumentError(f"all_gather: the number of outputs of a list is {len(lists)}; "
                                    f"expected {several * self._size}, one for each input of each "
                                    "rank")
            check_alike("all_gather", [*lists, *inputs], inputs[0])
        # The first list gets the inputs of all ranks, and the others copies.
        copies = [_copies(first, [lists[place] for lists in outputs[1:]])
                  for place, first in enumerate(outputs[0])]
        return self._allgather_lists([outputs[0][place::several] for place in range(several)],
                                     inputs, outputs, opts, all_of(copies))

    def _allgather_lists(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor],
                         result: Any, opts: Any, after: After | None = None) -> Any:
        """Makes a call for each input, whose list of outputs gets those of all ranks."""
        for lists, tensor in zip(outputs, inputs):
            check_alike("all_gather", lists, tensor, sizes=False)
            own = lists[self._rank]
            if own.shape != tensor.shape:
                raise ArgumentError(f"all_gather: the input has the shape {list(tensor.shape)}, and "
                                    f"the output for this rank {list(own.shape)}")
        if len(inputs) == 1:
            sources, places, filled = buffers(inputs, outputs[0])
            calls = [self._allgather_call(places, sources[0])]
        else:
            sources, places, filled = buffers(inputs, [each for lists in outputs for each in lists])
            calls = [self._allgather_call(places[number * self._size:(number + 1) * self._size], source)
                     for number, source in enumerate(sources)]
        return self._together(calls, result, opts, after=all_of([filled, after]))

    @staticmethod
    def _allgather_call(places: list[Tensor], source: Tensor) -> Any:
        sizes = [place.numel() for place in places]
        count, dtype = moved(source)
        if len(set(sizes)) == 1:
            return ("allgather_list", (pointer(source), pointers(places), count, dtype),
                    (source, places), None)
        scale = 1 if source.dtype in DTYPES else source.element_size()
        buffer, split = split_of(places)
        return ("allgatherv", (pointer(source), pointer(buffer),
                               counts([size * scale for size in sizes]), NULL, dtype),
                (source, buffer, places), split)

    @operation("AllgatherOptions", data(0, "output"), data(0, "input"))
    def all_gather_single(self, output: Tensor, tensor: Tensor, opts: Any) -> Any:
        return self._allgather_singles([output], [tensor], opts)

    @operation("AllgatherOptions", data(1, "outputs"), data(1, "inputs"))
    def all_gather_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor],
                                    opts: Any) -> Any:
        pairs("all_gather_into_tensor_coalesced", outputs, inputs)
        return self._allgather_singles(outputs, inputs, opts)

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _allgather_singles(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any) -> Any:
        for output, tensor in zip(outputs, inputs):
            check_alike("all_gather_into_tensor", [output], tensor, sizes=False)
            if output.numel() != tensor.numel() * self._size:
                raise ArgumentError(f"all_gather_into_tensor: the output has {output.numel()} "
                                    f"elements, not {self._size} times the {tensor.numel()} of the "
                                    "input")
        if len(inputs) == 1:
            work = self._direct(lib.TORCH_ALL_GATHER, inputs[0], outputs[0], outputs, opts)
            if work is not None:
                return work
        # An input that is this rank's block of its output is in place.
        owned = [self._owns(output, tensor) for output, tensor in zip(outputs, inputs)]
        sources, places, after = buffers(
            [tensor.new_empty(0) if own else tensor for own, tensor in zip(owned, inputs)], outputs)
        calls = []
        for own, source, place in zip(owned, sources, places):
            count, dtype = moved(place)
            calls.append(("allgather", (IN_PLACE if own else pointer(source), pointer(place),
                                        count // self._size, dtype), (source, place), None))
        return self._together(calls, outputs, opts, after=after)

    def _owns(self, output: Tensor, tensor: Tensor) -> bool:
        own = output.data_ptr() + self._rank * tensor.numel() * tensor.element_size()
        return bool(tensor.numel() and tensor.data_ptr() == own and plain(output) and plain(tensor))

    @operation("AllgatherOptions", data(2, "output_lists"), data(1, "input_list"))
    def allgather_coalesced(self, outputs: list[list[Tensor]], inputs: list[Tensor],
                            opts: Any) -> Any:
        """outputs[rank][k] gets the rank's inputs[k]."""
        some("all_gather_coalesced", inputs)
        one_per_rank("all_gather_coalesced", "lists of outputs", outputs, self._size)
        for rank, lists in enumerate(outputs):
            if len(lists) != len(inputs):
                raise ArgumentError(f"all_gather_coalesced: the number of outputs for rank {rank} is "
                                    f"{len(lists)}; expected {len(inputs)}, that of inputs")
            for output, tensor in zip(lists, inputs):
                check_alike("all_gather_coalesced", [output], tensor)
        return self._allgather_lists(list(zip(*outputs)), inputs, shown_as_list(outputs), opts)

    @operation("GatherOptions", data(2, "output_tensors"), data(1, "input_tensors", "input_tensor"),
               fields=("root", "timeout"))
    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> Any:
        tensor = only("gather", "inputs", inputs)
        if opts.rootRank != self._rank:
            none("gather", "outputs", outputs, opts.rootRank)
            source = input_of(tensor)
            return self._call("gather_list", (pointer(source), NULL, *moved(source), opts.rootRank),
                              [], source, opts)
        given = only("gather", "lists of outputs", outputs)
        one_per_rank("gather", "outputs", given, self._size)
        check_alike("gather", given, tensor)
        (source,), places, after = buffers([tensor], given)
        return self._call("gather_list", (pointer(source), pointers(places), *moved(source),
                                          opts.rootRank), given, (source, places), opts, after)

    @operation("GatherOptions", data(0, "output"), data(0, "input"))
    def gather_single(self, output: Tensor, tensor: Tensor, opts: Any) -> Any:
        if opts.rootRank != self._rank:
            source = input_of(tensor)
            return self._call("gather", (pointer(source), NULL, *moved(source), opts.rootRank), [], source, opts)
        check_alike("gather_single", [output], tensor, sizes=False)
        if output.numel() != tensor.numel() * self._size:
            raise ArgumentError(f"gather_single: the output has {output.numel()} elements, not {self._size} times the "
                                f"{tensor.numel()} of the input")
        (source,), (place,), after = buffers([tensor], [output])
        return self._call("gather", (pointer(source), pointer(place), *moved(source), opts.rootRank), [output],
                          (source, place), opts, after)

    gather_into_tensor = gather_single

    @operation("ScatterOptions", data(1, "output_tensors", "output_tensor"), data(2, "input_tensors"),
               fields=("root", "timeout"))
    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> Any:
        output = only("scatter", "outputs", outputs)
        if opts.rootRank != self._rank:
            none("scatter", "inputs", inputs, opts.rootRank)
            place, after = output_of(output)
            return self._call("scatter_list", (NULL, pointer(place), *moved(place), opts.rootRank),
                              outputs, place, opts, after)
        given = only("scatter", "lists of inputs", inputs)
        one_per_rank("scatter", "inputs", given, self._size)
        check_alike("scatter", given, output)
        sources, (place,), after = buffers(given, [output])
        return self._call("scatter_list", (pointers(sources), pointer(place), *moved(place),
                                           opts.rootRank), outputs, (sources, place), opts, after)

    @operation("AllToAllOptions", data(0, "output", "output_tensor"), data(0, "input", "input_tensor"),
               data(None, "output_split_sizes"), data(None, "input_split_sizes"), fields=("timeout",))
    def all_to_all_single(self, output: Tensor, tensor: Tensor, output_sizes: Sequence[int],
                          input_sizes: Sequence[int], opts: Any) -> Any:
        check_alike("all_to_all_single", [output], tensor, sizes=False)
        one_after_the_other("all_to_all_single", tensor)
        if not output_sizes and not input_sizes:
            for what, given in (("input", tensor), ("output", output)):
                length = given.shape[0] if given.dim() else 1
                if length % self._size:
                    raise ArgumentError(f"all_to_all_single: the first dimension of the {what}, "
                                        f"{length}, cannot be divided by {self._size} ranks")
            if output.numel() != tensor.numel():
                raise ArgumentError(f"all_to_all_single: the input has {tensor.numel()} elements, and "
                                    f"the output {output.numel()}")
            work = self._direct(lib.TORCH_ALL_TO_ALL, tensor, output, [output], opts)
            if work is not None:
                return work
            (source,), (place,), after = buffers([tensor], [output])
            count, dtype = moved(source)
            return self._call("alltoall", (pointer(source), pointer(place), count // self._size,
                                           dtype), [output], (source, place), opts, after)
        received = self._rows("output", output, output_sizes)
        sent = self._rows("input", tensor, input_sizes)
        (source,), (place,), after = buffers([tensor], [output])
        return self._call("alltoallv", (pointer(source), counts(sent), NULL, pointer(place),
                                        counts(received), NULL, moved(source)[1]), [output],
                          (source, place), opts, after)

    alltoall_base = all_to_all_single

    def _rows(self, what: str, tensor: Tensor, sizes: Sequence[int]) -> list[int]:
        """Returns the number of elements for each rank, given the number of rows."""
        rows = tensor.shape[0] if tensor.dim() else tensor.numel()
        if not sizes:
            if rows % self._size:
                raise ArgumentError(f"all_to_all_single: the {rows} rows of the {what} cannot be "
                                    f"divided by {self._size} ranks")
            sizes = [rows // self._size] * self._size
        if len(sizes) != self._size or sum(sizes) != rows or min(sizes) < 0:
            raise ArgumentError(f"all_to_all_single: the split sizes {list(sizes)} of the {what} must "
                                f"be {self._size} whole numbers that add up to its {rows} rows")
        count, _dtype = moved(tensor)
        width = count // rows if rows else 0
        return [size * width for size in sizes]

    @operation("AllToAllOptions", data(1, "output_tensors", "output_tensor"),
               data(1, "input_tensors", "input_tensor"))
    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any) -> Any:
        one_per_rank("all_to_all", "outputs", outputs, self._size)
        one_per_rank("all_to_all", "inputs", inputs, self._size)
        check_alike("all_to_all", [*outputs, *inputs], inputs[0], sizes=False)
        # Other ranks' blocks may have different sizes, even if this rank's are all equal.
        sources, places, after = buffers(inputs, outputs)
        source = joined(sources)
        place, split = split_of(places)
        sent = [moved(tensor)[0] for tensor in inputs]
        received = [moved(tensor)[0] for tensor in outputs]
        return self._call("alltoallv", (pointer(source), counts(sent), NULL, pointer(place),
                                        counts(received), NULL, moved(source)[1]), outputs,
                          (source, place, sources, places), opts, all_of([split, after]))

    # ---- messages --------------------------------------------------------------------------------

    def send(self, tensors: list[Tensor], dstRank: int, tag: int = 0) -> Any:
        tensors = listed("send", tensors)
        source = input_of(tensors[0])
        return self._message("send", (pointer(source), *moved(source), dstRank), tensors, source,
                             None, tag_of("send", tag))

    def recv(self, tensors: list[Tensor], srcRank: int, tag: int = 0) -> Any:
        tensors = listed("recv", tensors)
        place, after = output_of(tensors[0])
        return self._message("recv", (pointer(place), *moved(place), srcRank), tensors, place,
                             after, tag_of("recv", tag))

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> Any:
        tensors = listed("recv", tensors)
        place, after = output_of(tensors[0])
        return self._message("recv_any", (pointer(place), *moved(place), NULL, 0), tensors, place,
                             after, tag_of("recv", tag))

    recvAnysource = recv_anysource


def _copies(source: Tensor, targets: Sequence[Tensor]) -> After:
    def run() -> None:
        for target in targets:
            fill(target, source)

    return run
