"""Conversion of the arguments of collectives and messages to those of the C interface.

Each method of Calls prepares a call: it checks its arrays, and returns the name and the arguments
of the library's function. One long class, because it is a list of 25 mostly independent calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Sequence

from ._binding import ffi, lib
from ._buffers import (IN_PLACE, Memory, counted, element_bytes, is_numbers, memory, readable,
                       same_dtype, sizes, within)
from ._calls import NULL, Call, Caller, Options, forms, op_number
from ._convert import integers, wrong
from ._custom import CustomOp

if TYPE_CHECKING:
    from typing_extensions import Unpack

Array = Any  # see _buffers
Arrays = Any  # an array, or a list of them
NO_RANK: int = lib.GLOO_NO_RANK
_PLACE = lib.GLOO_IN_PLACE


# ---- arrays ------------------------------------------------------------------------------------

def _many(array: Any) -> bool:
    """Returns true for a list of arrays. A list of numbers is one array."""
    return (isinstance(array, (list, tuple)) and type(array).__name__ != "Typed"
            and not is_numbers(array))


def _split(array: Any) -> bool:
    """Returns true for an input that can be a list of arrays, which may be lists of numbers."""
    return _many(array) or (type(array) in (list, tuple) and type(array[0]) in (list, tuple))


def _mixed(name: str, *given: Arrays) -> TypeError:
    """Returns the error for a mix of an array and a list; for another value in a list, the error of
    that value."""
    for arrays in given:
        for array in arrays if _many(arrays) else ():
            memory(array, False)
    return TypeError(f"{name}: input and output must both be arrays, or both lists of arrays")


def _pair(input: Array, output: Array | None) -> tuple[Any, Memory, Any, int]:
    """Returns the input's address, the output, the objects to keep, and the number of elements of
    the input."""
    if output is None or output is input or input is IN_PLACE:
        if output is None and input is IN_PLACE:
            raise TypeError("IN_PLACE needs an output, which holds the input")
        one = memory(input if output is None else output, True)
        return _PLACE, one, one[3], one[1]
    into = memory(output, True)
    from_ = readable(input, into[2])
    same_dtype(from_, into)
    return from_[0], into, (from_[3], into[3]), from_[1]


def _equal(name: str, given: int, output: Memory) -> None:
    if given != output[1]:
        raise ValueError(f"{name}: the input has {counted(given, 'element')}, and the output {output[1]}")


def _share(name: str, what: str, count: int, ranks: int) -> int:
    """Returns the length of a block of an array that has one for each rank."""
    each, rest = divmod(count, ranks)
    if rest:
        raise ValueError(f"{name}: the {what} has {counted(count, 'element')}, which cannot be divided among "
                         f"{ranks} ranks")
    return each


def _blocks(name: str, what: str, arrays: Sequence[Array], writable: bool, ranks: int,
            dtype: int | None = None) -> tuple[Any, int, int, list[Any]]:
    """Returns pointers to separate blocks, one for each rank, their length and type, and the
    objects to keep."""
    if len(arrays) != ranks:
        raise ValueError(f"{name}: got {counted(len(arrays), what)} for {counted(ranks, 'rank')}: pass one for each rank")
    return _list(name, what, arrays, writable, dtype)


def _list(name: str, what: str, arrays: Sequence[Array], writable: bool,
          dtype: int | None = None) -> tuple[Any, int, int, list[Any]]:
    if not isinstance(arrays, (list, tuple)):
        raise wrong(f"{name}: {what}s", arrays, "a list of arrays")
    found = [memory(array, True) if writable else readable(array, dtype) for array in arrays]
    if not found:
        raise ValueError(f"{name}: the list of {what}s is empty")
    for place, one in enumerate(found):
        if one[1:3] != found[0][1:3]:
            raise ValueError(f"{name}: {what} {place} differs from the first in length or type")
    pointers = ffi.new("void *[]", [one[0] for one in found])
    return pointers, found[0][1], found[0][2], [one[3] for one in found]


def _input(array: Array, dtype: int | None = None) -> tuple[Any, Memory]:
    one = readable(array, dtype)
    return one[0], one


class Calls(Caller):
    """All collectives and messages; the base class of Context."""

    # ---- between all ranks ---------------------------------------------------------------------

    def _barrier(self, **options: Unpack[Options]) -> Call:
        """Waits until every rank has entered the barrier."""
        return Call("barrier", (), None, None, options)

    def _broadcast(self, input: Array, output: Array | None = None, *, root: int = 0,
                   **options: Unpack[Options]) -> Call:
        """Copies root's elements to every rank. Without `output`, each rank's `input` is also its
        output; otherwise `input` is read only at the root, and may be None elsewhere."""
        if output is not None and self.rank != root and input is not output:
            into = memory(output, True)
            return Call("broadcast", (NULL, into[0], into[1], into[2], root), into[3], output,
                        options)
        from_, into, keep, given = _pair(input, output)
        _equal("broadcast", given, into)
        return Call("broadcast", (from_, into[0], into[1], into[2], root), keep,
                    input if output is None else output, options)

    def _reducing(self, name: str, input: Array, output: Array | None,
                  op: str | CustomOp, options: Options, *more: Any) -> Call:
        from_, into, keep, given = _pair(input, output)
        _equal(name, given, into)
        return Call(name, (from_, into[0], into[1], into[2], op_number(op), *more), keep,
                    input if output is None else output, options, op,
                    element_bytes(input if output is None else output))

    def _allreduce(self, input: Arrays, output: Arrays | None = None, *,
                   op: str | CustomOp = "sum", **options: Unpack[Options]) -> Call:
        """Combines all ranks' inputs element by element; every rank gets the result. Without
        `output` it is in place. Lists of arrays are treated as one vector."""
        if not _many(input) and not _many(output):
            return self._reducing("allreduce", input, output, op, options)
        place = input if output is None else output
        if not _many(place) or not (input is IN_PLACE or _split(input)):
            raise _mixed("allreduce", input, place)
        into = [memory(array, True) for array in place]
        from_ = None
        if output is not None and input is not IN_PLACE and input is not output:
            from_ = [readable(array, into[0][2] if into else None) for array in input]
            if [one[1] for one in from_] != [one[1] for one in into]:
                raise ValueError("allreduce: inputs and outputs differ in length")
        if len({one[2] for one in into + (from_ or [])}) > 1:
            raise TypeError("allreduce: all pieces must have the same type")
        n = len(into)
        dtype = into[0][2] if into else lib.GLOO_UINT8
        return Call("allreduce_list",
                    (ffi.new("void *[]", [one[0] for one in from_]) if from_ else NULL,
                     ffi.new("void *[]", [one[0] for one in into] or [NULL]),
                     ffi.new("size_t[]", [one[1] for one in into] or [0]), n, dtype, op_number(op)),
                    (into, from_), place, options, op, element_bytes(place[0]) if n else 0)

    def _reduce(self, input: Array, output: Array | None = None, *, root: int = 0,
                op: str | CustomOp = "sum", **options: Unpack[Options]) -> Call:
        """Combines all ranks' inputs element by element; the root gets the result, in its input
        without `output`. Other ranks' outputs may be None, and are not written."""
        if self.rank == root:
            return self._reducing("reduce", input, output, op, options, root)
        pointer, from_ = _input(input if input is not IN_PLACE else output)
        return Call("reduce", (pointer, NULL, from_[1], from_[2], op_number(op), root), from_[3],
                    output, options, op, element_bytes(input))

    def _scan(self, input: Array, output: Array | None = None, *,
              op: str | CustomOp = "sum", **options: Unpack[Options]) -> Call:
        """Combines the inputs of ranks 0 to r, at each rank r. Without `output` it is in place."""
        return self._reducing("scan", input, output, op, options)

    def _exscan(self, input: Array, output: Array | None = None, *,
                op: str | CustomOp = "sum", **options: Unpack[Options]) -> Call:
        """Combines the inputs of ranks 0 to r - 1, at each rank r. Rank 0's output is not written.
        Without `output` it is in place."""
        return self._reducing("exscan", input, output, op, options)

    def _reduce_scatter(self, input: Arrays, output: Array | None = None, *,
                        op: str | CustomOp = "sum", **options: Unpack[Options]) -> Call:
        """Combines all ranks' inputs element by element; rank r gets block r of the result. Without
        `output` it is in place: the result is the first block of `input`, and the rest is
        undefined. The input may be a list of blocks."""
        if _many(input):
            if output is None:
                raise TypeError("reduce_scatter: a list of inputs needs an output")
            into = memory(output, True)
            pointers, count, dtype, keep = _blocks("reduce_scatter", "input", input, False,
                                                   self.size, into[2])
            if into[1] != count or into[2] != dtype:
                raise ValueError("reduce_scatter: the output has another length or type than the "
                                 "inputs")
            return Call("reduce_scatter_list", (pointers, into[0], count, dtype, op_number(op)),
                        (keep, into[3]), output, options, op, element_bytes(output))
        from_, into, keep, given = _pair(input, output)
        if from_ is _PLACE:
            count = _share("reduce_scatter", "input", into[1], self.size)
        else:
            count = into[1]
            if given != count * self.size:
                raise ValueError(f"reduce_scatter: the input has {counted(given, 'element')}; "
                                 f"{counted(self.size, 'rank')} with {count} each must have {count * self.size}")
        return Call("reduce_scatter", (from_, into[0], count, into[2], op_number(op)), keep,
                    input if output is None else output, options, op,
                    element_bytes(input if output is None else output))

    def _allgather(self, input: Array, output: Arrays, **options: Unpack[Options]) -> Call:
        """Every rank gets all inputs, in rank order. `output` has room for all, or is a list with
        an array for each rank. IN_PLACE: this rank's input is already in its block of the
        output."""
        return self._gathering("allgather", input, output, options)

    def _gathering(self, name: str, input: Array, output: Arrays, options: Options,
                   *root: int) -> Call:
        keep: Any
        if _many(output):
            outputs, count, dtype, keep = _blocks(name, "output", output, True, self.size)
            ending = "_list"
        else:
            outputs, held, dtype, keep = memory(output, True)
            count, ending = _share(name, "output", held, self.size), ""
        pointer = _PLACE
        if input is not IN_PLACE:
            pointer, from_ = _input(input, dtype)
            if from_[1] != count or from_[2] != dtype:
                raise ValueError(f"{name}: the input has {from_[1]} elements, and each rank's part "
                                 f"of the output {count}; or they differ in type")
            keep = keep, from_[3]
        return Call(name + ending, (pointer, outputs, count, dtype, *root), keep, output, options)

    def _gather(self, input: Array, output: Arrays | None = None, *, root: int = 0,
                **options: Unpack[Options]) -> Call:
        """The root gets all inputs, in rank order; `output`, an array or a list with an array for
        each rank, is needed only there. IN_PLACE, at the root: its input is already in its block of
        the output."""
        if self.rank == root:
            if output is None:
                raise TypeError("gather: the root needs an output")
            return self._gathering("gather", input, output, options, root)
        pointer, from_ = _input(input)
        return Call("gather", (pointer, NULL, from_[1], from_[2], root), from_[3], output, options)

    def _scatter(self, input: Arrays | None, output: Array | None = None, *, root: int = 0,
                 **options: Unpack[Options]) -> Call:
        """Rank r gets block r of root's input, which is an array or a list of blocks; other ranks
        pass None. At the root, with IN_PLACE or without `output`, the output or input holds the
        input, and its own block stays where it is."""
        if self.rank != root:
            if output is None:
                raise TypeError("scatter: a rank other than the root needs an output")
            into = memory(output, True)
            return Call("scatter", (NULL, into[0], into[1], into[2], root), into[3], output,
                        options)
        if input is None or input is IN_PLACE or output is None or input is output:
            place = output if output is not None else input
            if place is None or place is IN_PLACE or _many(place):
                raise TypeError("scatter: the root needs an input")
            into = memory(place, True)
            count = _share("scatter", "input", into[1], self.size)
            return Call("scatter", (_PLACE, into[0], count, into[2], root), into[3], place, options)
        into = memory(output, True)
        if _many(input):
            pointers, count, dtype, keep = _blocks("scatter", "input", input, False, self.size, into[2])
            name = "scatter_list"
        else:
            pointers, held, dtype, keep = readable(input, into[2])
            count, name = _share("scatter", "input", held, self.size), "scatter"
        if into[1] != count or into[2] != dtype:
            raise ValueError(f"scatter: each rank gets {count} elements, and the output has "
                             f"{into[1]}; or they differ in type")
        return Call(name, (pointers, into[0], count, dtype, root), (keep, into[3]), output, options)

    def _alltoall(self, input: Arrays, output: Arrays | None = None,
                  **options: Unpack[Options]) -> Call:
        """Every rank sends a block to every rank: block j of rank i's input becomes block i of rank
        j's output. Arrays have a block for each rank, or are lists of blocks. Without `output` it
        is in place."""
        if not _many(input) and not _many(output):
            from_, into, keep, given = _pair(input, output)
            _equal("alltoall", given, into)
            return Call("alltoall", (from_, into[0],
                                     _share("alltoall", "output", into[1], self.size), into[2]),
                        keep, input if output is None else output, options)
        place = input if output is None else output
        if not _many(place) or not (input is IN_PLACE or _split(input)):
            raise _mixed("alltoall", input, place)
        outputs, count, dtype, kept = _blocks("alltoall", "output", place, True, self.size)
        inputs, keep = NULL, None
        if output is not None and input is not IN_PLACE and input is not output:
            inputs, given, type_given, keep = _blocks("alltoall", "input", input, False, self.size, dtype)
            if (given, type_given) != (count, dtype):
                raise ValueError("alltoall: inputs and outputs differ in length or type")
        return Call("alltoall_list", (inputs, outputs, count, dtype), (kept, keep), place, options)

    # ---- blocks that differ in length ----------------------------------------------------------

    def _allgatherv(self, input: Array, output: Array, counts: Iterable[int],
                    displacements: Iterable[int] | None = None,
                    **options: Unpack[Options]) -> Call:
        """`allgather` of inputs of different lengths: rank r's has counts[r] elements, and goes to
        element displacements[r] of the output; without displacements blocks are contiguous."""
        lengths, places, into = self._lists("output", output, True, counts, displacements)
        pointer, keep = _PLACE, None
        if input is not IN_PLACE:
            pointer, from_ = _input(input, into[2])
            same_dtype(from_, into)
            self._own("allgatherv", "input", from_[1], lengths[self.rank])
            keep = from_[3]
        return Call("allgatherv", (pointer, into[0], lengths, places, into[2]), (keep, into[3]),
                    output, options)

    def _lists(self, what: str, array: Array, writable: bool, counts: Iterable[int] | None,
               displacements: Iterable[int] | None, dtype: int | None = None) -> tuple[Any, Any, Memory]:
        if counts is None:
            raise TypeError(f"the {what} needs a list of counts")
        lengths = sizes(counts, self.size, "counts")
        places = NULL if displacements is None else sizes(displacements, self.size, "displacements")
        found = memory(array, True) if writable else readable(array, dtype)
        within(found[1], lengths, None if displacements is None else places, what)
        return lengths, places, found

    @staticmethod
    def _own(name: str, what: str, count: int, given: int) -> None:
        if count != given:
            raise ValueError(f"{name}: the {what} has {count} elements, and this rank's count is "
                             f"{given}")

    def _reduce_scatterv(self, input: Array, output: Array | None = None, *,
                         counts: Iterable[int], op: str | CustomOp = "sum",
                         **options: Unpack[Options]) -> Call:
        """`reduce_scatter` with blocks of different lengths. Without `output` it is in place: the
        result is the first counts[r] elements of `input`."""
        lengths = sizes(counts, self.size, "counts")
        from_, into, keep, given = _pair(input, output)
        if given != sum(lengths):
            raise ValueError(f"reduce_scatterv: the input has {given} elements, and counts are "
                             f"{sum(lengths)} together")
        if from_ is not _PLACE:
            self._own("reduce_scatterv", "output", into[1], lengths[self.rank])
        return Call("reduce_scatterv", (from_, into[0], lengths, into[2], op_number(op)), keep,
                    input if output is None else output, options, op,
                    element_bytes(input if output is None else output))

    def _gatherv(self, input: Array, output: Array | None = None,
                 counts: Iterable[int] | None = None, displacements: Iterable[int] | None = None, *,
                 root: int = 0, **options: Unpack[Options]) -> Call:
        """`gather` of inputs of different lengths. `output` and the lists are needed only at the
        root."""
        if self.rank != root:
            pointer, from_ = _input(input)
            return Call("gatherv", (pointer, from_[1], NULL, NULL, NULL, from_[2], root), from_[3],
                        output, options)
        if output is None:
            raise TypeError("gatherv: the root needs an output")
        lengths, places, into = self._lists("output", output, True, counts, displacements)
        pointer, count, keep = _PLACE, 0, None
        if input is not IN_PLACE:
            pointer, from_ = _input(input, into[2])
            same_dtype(from_, into)
            count, keep = from_[1], from_[3]
            self._own("gatherv", "input", count, lengths[root])
        return Call("gatherv", (pointer, count, into[0], lengths, places, into[2], root),
                    (keep, into[3]), output, options)

    def _scatterv(self, input: Array | None, output: Array | None = None,
                  counts: Iterable[int] | None = None, displacements: Iterable[int] | None = None,
                  *, root: int = 0, **options: Unpack[Options]) -> Call:
        """`scatter` with blocks of different lengths. `input` and the lists are needed only at the
        root. At the root, with IN_PLACE or without `output`, the output or input holds the
        input."""
        if self.rank != root:
            if output is None:
                raise TypeError("scatterv: a rank other than the root needs an output")
            into = memory(output, True)
            return Call("scatterv", (NULL, NULL, NULL, into[0], into[1], into[2], root), into[3],
                        output, options)
        if input is None or input is IN_PLACE or output is None or input is output:
            place = output if output is not None else input
            lengths, places, into = self._lists("input", place, True, counts, displacements)
            return Call("scatterv", (_PLACE, lengths, places, into[0], 0, into[2], root), into[3],
                        place, options)
        into = memory(output, True)
        lengths, places, from_ = self._lists("input", input, False, counts, displacements, into[2])
        same_dtype(from_, into)
        self._own("scatterv", "output", into[1], lengths[root])
        return Call("scatterv", (from_[0], lengths, places, into[0], into[1], into[2], root),
                    (from_[3], into[3]), output, options)

    def _alltoallv(self, input: Array, output: Array, input_counts: Iterable[int] | None,
                   output_counts: Iterable[int],
                   input_displacements: Iterable[int] | None = None,
                   output_displacements: Iterable[int] | None = None,
                   **options: Unpack[Options]) -> Call:
        """`alltoall` with blocks of different lengths: rank i's input_counts[j] elements go to rank
        j, where output_counts[i] must be the same. IN_PLACE: the output holds the input, and each
        block is replaced by the received one."""
        lengths, places, into = self._lists("output", output, True, output_counts,
                                            output_displacements)
        if input is IN_PLACE:
            return Call("alltoallv", (_PLACE, NULL, NULL, into[0], lengths, places, into[2]),
                        into[3], output, options)
        sent, begins, from_ = self._lists("input", input, False, input_counts, input_displacements,
                                          into[2])
        same_dtype(from_, into)
        return Call("alltoallv", (from_[0], sent, begins, into[0], lengths, places, into[2]),
                    (from_[3], into[3]), output, options)

    # ---- several arrays per rank ---------------------------------------------------------------

    def _several(self, name: str, inputs: Sequence[Array] | None,
                 outputs: Sequence[Array], times: int, op: str | CustomOp, options: Options,
                 *root: int) -> Call:
        """Prepares a reduction of lists; inputs have `times` as many elements as outputs."""
        if not isinstance(outputs, (list, tuple)):
            raise wrong(f"{name}: outputs", outputs, "a list of arrays")
        n_inputs, pointers, keep = 0, NULL, None
        places, count, dtype, kept = _list(name, "output", outputs, True) if outputs else (
            NULL, 0, 0, [])
        if inputs is not None and inputs is not outputs:
            pointers, given, type_given, keep = _list(name, "input", inputs, False, dtype if outputs else None)
            n_inputs = len(inputs)
            if outputs and (given, type_given) != (count * times, dtype):
                raise ValueError(f"{name}: inputs and outputs differ in length or type")
            count, dtype = given if times == 1 else given // times, type_given
        elif times != 1:
            count = _share(name, "output", count, times)
        return Call(name, (pointers, n_inputs, places, len(outputs), count, dtype, op_number(op),
                           *root), (kept, keep), outputs, options, op)

    def _allreduce_multi(self, inputs: Sequence[Array] | None, outputs: Sequence[Array], *,
                         op: str | CustomOp = "sum", **options: Unpack[Options]) -> Call:
        """`allreduce` of all inputs of all ranks; each output gets the result. None: the outputs
        hold the inputs."""
        return self._several("allreduce_multi", inputs, outputs, 1, op, options)

    def _reduce_multi(self, inputs: Sequence[Array] | None, outputs: Sequence[Array] = (),
                      *, root: int = 0, op: str | CustomOp = "sum",
                      **options: Unpack[Options]) -> Call:
        """`reduce` of all inputs of all ranks; each output of the root gets the result. None: the
        outputs hold the inputs."""
        return self._several("reduce_multi", inputs, outputs, 1, op, options, root)

    def _reduce_scatter_multi(self, inputs: Sequence[Array] | None,
                              outputs: Sequence[Array], *, op: str | CustomOp = "sum",
                              **options: Unpack[Options]) -> Call:
        """`reduce_scatter` of all inputs of all ranks. None: the outputs hold the inputs, and get
        the result in their first block."""
        return self._several("reduce_scatter_multi", inputs, outputs, self.size, op, options)

    def _broadcast_multi(self, input: Array | None, outputs: Sequence[Array], *,
                         root: int = 0, **options: Unpack[Options]) -> Call:
        """`broadcast` to several outputs. IN_PLACE: root's data is in its first output."""
        places, count, dtype, keep = _list("broadcast_multi", "output", outputs, True)
        pointer, kept = NULL if input is None else _PLACE, None
        if input is not None and input is not IN_PLACE:
            pointer, from_ = _input(input, dtype)
            if from_[1:3] != (count, dtype):
                raise ValueError("broadcast_multi: the input has another length or type than the "
                                 "outputs")
            kept = from_[3]
        return Call("broadcast_multi", (pointer, places, len(outputs), count, dtype, root),
                    (keep, kept), outputs, options)

    def _allgather_multi(self, inputs: Sequence[Array] | int, outputs: Sequence[Array],
                         **options: Unpack[Options]) -> Call:
        """`allgather` of several inputs from each rank, the same number on all. An integer instead
        of a list: the first output already holds this number of inputs, in their blocks."""
        places, held, dtype, keep = _list("allgather_multi", "output", outputs, True)
        if isinstance(inputs, int):
            if inputs < 1:
                raise ValueError("allgather_multi: the list of inputs is empty")
            each = _share("allgather_multi", "output", held, self.size * inputs)
            return Call("allgather_multi", (NULL, inputs, places, len(outputs), each, dtype), keep,
                        outputs, options)
        pointers, count, type_given, kept = _list("allgather_multi", "input", inputs, False, dtype)
        if type_given != dtype or count * len(inputs) * self.size != held:
            raise ValueError("allgather_multi: inputs and outputs differ in length or type")
        return Call("allgather_multi", (pointers, len(inputs), places, len(outputs), count, dtype),
                    (keep, kept), outputs, options)

    # ---- messages ------------------------------------------------------------------------------

    def _send(self, input: Array, peer: int, **options: Unpack[Options]) -> Call:
        """Sends a message to a rank. Completes when the array may be reused, which may be before
        the message has arrived. Messages with the same `tag` match in the order of their calls."""
        pointer, from_ = _input(input)
        return Call("send", (pointer, from_[1], from_[2], peer), from_[3], input, options)

    def _recv(self, output: Array, peer: int, **options: Unpack[Options]) -> Call:
        """Receives a message from a rank; its length and type must be those of the output."""
        into = memory(output, True)
        return Call("recv", (into[0], into[1], into[2], peer), into[3], output, options)

    def _recv_any(self, output: Array, peers: Sequence[int] | None = None,
                  **options: Unpack[Options]) -> Call:
        """Receives a message from the first of these ranks that sends one (None: of all). The
        result is that rank."""
        into = memory(output, True)
        ranks = [] if peers is None else integers("recv_any: peers", peers, "a list of ranks")
        if peers is not None and not ranks:
            raise ValueError("recv_any: the list of ranks is empty")
        listed = ffi.new("int[]", ranks) if ranks else NULL
        return Call("recv_any", (into[0], into[1], into[2], listed, len(ranks)), into[3], output, options,
                    receives=True)

    def _sendrecv(self, input: Array | None, to: int, output: Array | None, source: int,
                  **options: Unpack[Options]) -> Call:
        """Sends to one rank and receives from another at the same time. Either may be NO_RANK, with
        None for its array. IN_PLACE: `output` holds the data to send."""
        into = memory(output, True) if output is not None else None
        if input is IN_PLACE and into is not None:
            return Call("sendrecv", (_PLACE, into[1], to, into[0], into[1], source, into[2]),
                        into[3], output, options)
        from_ = readable(input, into[2] if into else None) if input is not None else None
        if from_ is not None and into is not None:
            same_dtype(from_, into)
        if (from_ is None and to != NO_RANK) or (into is None and source != NO_RANK):
            raise TypeError("sendrecv: a rank needs an array")
        dtype = from_[2] if from_ else into[2] if into else lib.GLOO_UINT8
        return Call("sendrecv", (from_[0] if from_ else NULL, from_[1] if from_ else 0, to,
                                 into[0] if into else NULL, into[1] if into else 0, source, dtype),
                    (from_, into), output, options)

    barrier, barrier_start, barrier_async, barrier_init = forms(_barrier)
    broadcast, broadcast_start, broadcast_async, broadcast_init = forms(_broadcast)
    allreduce, allreduce_start, allreduce_async, allreduce_init = forms(_allreduce)
    reduce, reduce_start, reduce_async, reduce_init = forms(_reduce)
    scan, scan_start, scan_async, scan_init = forms(_scan)
    exscan, exscan_start, exscan_async, exscan_init = forms(_exscan)
    (reduce_scatter, reduce_scatter_start, reduce_scatter_async,
     reduce_scatter_init) = forms(_reduce_scatter)
    allgather, allgather_start, allgather_async, allgather_init = forms(_allgather)
    gather, gather_start, gather_async, gather_init = forms(_gather)
    scatter, scatter_start, scatter_async, scatter_init = forms(_scatter)
    alltoall, alltoall_start, alltoall_async, alltoall_init = forms(_alltoall)
    allgatherv, allgatherv_start, allgatherv_async, allgatherv_init = forms(_allgatherv)
    (reduce_scatterv, reduce_scatterv_start, reduce_scatterv_async,
     reduce_scatterv_init) = forms(_reduce_scatterv)
    gatherv, gatherv_start, gatherv_async, gatherv_init = forms(_gatherv)
    scatterv, scatterv_start, scatterv_async, scatterv_init = forms(_scatterv)
    alltoallv, alltoallv_start, alltoallv_async, alltoallv_init = forms(_alltoallv)
    (allreduce_multi, allreduce_multi_start, allreduce_multi_async,
     allreduce_multi_init) = forms(_allreduce_multi)
    reduce_multi, reduce_multi_start, reduce_multi_async, reduce_multi_init = forms(_reduce_multi)
    (reduce_scatter_multi, reduce_scatter_multi_start, reduce_scatter_multi_async,
     reduce_scatter_multi_init) = forms(_reduce_scatter_multi)
    (broadcast_multi, broadcast_multi_start, broadcast_multi_async,
     broadcast_multi_init) = forms(_broadcast_multi)
    (allgather_multi, allgather_multi_start, allgather_multi_async,
     allgather_multi_init) = forms(_allgather_multi)
    send, send_start, send_async, send_init = forms(_send)
    recv, recv_start, recv_async, recv_init = forms(_recv)
    recv_any, recv_any_start, recv_any_async, recv_any_init = forms(_recv_any)
    sendrecv, sendrecv_start, sendrecv_async, sendrecv_init = forms(_sendrecv)
