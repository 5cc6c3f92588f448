"""Turn what ranks remember (GLOO_TRACE_DIR) into what PyTorch's flight recorder analyzer reads.

    python -m gloo_c.flight_recorder --output DIRECTORY traces/*
    torchfrtrace DIRECTORY
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from pathlib import Path
from typing import Any, NamedTuple

# Version of the layout that is written.
VERSION = "2.4"

# Maximum number of ranks of a job.
RANKS_MAX = 65536

# Names that the analyzer knows; it stops at any other. An operation without a name there gets that
# of a similar one, followed by its own name.
NAMES = {
    "allreduce": "all_reduce", "broadcast": "broadcast", "reduce": "reduce", "barrier": "barrier",
    "allgather": "_all_gather_base", "allgatherv": "_all_gather_base allgatherv",
    "reduce_scatter": "_reduce_scatter_base", "reduce_scatterv": "reduce reduce_scatterv",
    "alltoall": "all_to_all", "alltoallv": "all_to_all alltoallv",
    "gather": "gather", "gatherv": "gather gatherv", "scatter": "scatter", "scatterv": "scatter scatterv",
    "scan": "reduce scan", "exscan": "reduce exscan",
}


class UnreadableError(Exception):
    """A file cannot be read."""


class Stream(NamedTuple):
    """A sequence of numbered operations, which is a process group to the analyzer: those of a group
    with one tag, the starts of a persistent request that is matched by init, or the messages from
    one rank to another."""

    group: str
    tag: int
    request: int
    ends: tuple[int, ...]  # of messages: sender and receiver

    def name(self) -> str:
        parts = [self.group]
        if self.ends:
            parts.append(f"rank {self.ends[0]} to {self.ends[1]}")
        if self.tag:
            parts.append(f"tag {self.tag}")
        if self.request >= 0:
            parts.append(f"request {self.request}")
        return ", ".join(parts)


class Operation:
    """An operation in a rank's trace. Times are in nanoseconds since 1970; `ended` is None if it is
    pending."""

    def __init__(self, fields: dict[str, Any], rank: int, epoch: int) -> None:
        self.call, self.state, self.sequence = str(fields["call"]), str(fields["state"]), int(fields["sequence"])
        self.count, self.dtype = int(fields.get("count", 0)), str(fields.get("dtype", ""))
        self.root, peer = int(fields.get("root", -1)), int(fields.get("peer", -1))
        self.started = epoch + int(fields["started_ns"])
        self.ended = epoch + int(fields["ended_ns"]) if "ended_ns" in fields else None
        ends = {"send": (rank, peer), "receive": (peer, rank)}.get(self.call, ())
        self.stream = Stream(str(fields["group"]), int(fields.get("tag", 0)), int(fields.get("request", -1)), ends)

    def shown(self) -> bool:
        """Returns false for internal messages that create groups, which have odd numbers, and for
        messages whose other end is unknown, or the same rank."""
        group, ends = self.stream.group, self.stream.ends
        if group != "world" and int(group.rpartition(".")[2]) % 2:
            return False
        return min(ends) >= 0 and ends[0] != ends[1] if ends else self.call in NAMES


class Rank:
    """The file of a rank."""

    def __init__(self, path: Path) -> None:
        try:
            file = json.loads(path.read_text(encoding="utf-8"))
            self.rank, self.size, self.now = int(file["rank"]), int(file["size"]), int(file["wall_ns"])
            if file["gloo_trace"] != 1 or not 0 <= self.rank < self.size <= RANKS_MAX:
                raise ValueError(f"format {file['gloo_trace']}, rank {self.rank} of {self.size}")
            self.groups = {str(group["group"]): [int(rank) for rank in group["ranks"]] for group in file["groups"]}
            epoch = self.now - int(file["monotonic_ns"])
            # A group that is being created is listed without a number, and has no operations.
            operations = [Operation(fields, self.rank, epoch) for fields in file["operations"]
                          if fields["call"] != "group"]
            for rank in {end for one in operations for end in one.stream.ends}.union(*self.groups.values()):
                if not -1 <= rank < self.size:
                    raise ValueError(f"rank {rank} of {self.size}")
            self.forgot = int(file["ended"]) > sum("ended_ns" in fields for fields in file["operations"])
            self.operations = sorted((one for one in operations if one.shown()), key=lambda one: one.started)
        except OSError as error:
            raise UnreadableError(f"{path}: {error.strerror}") from None
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise UnreadableError(f"{path} is not a trace file: {error!r}") from None


def read(paths: list[Path]) -> dict[int, Rank]:
    """Returns files by rank; of several of a rank, the newest."""
    ranks: dict[int, Rank] = {}
    size = None
    for path in paths:
        one = Rank(path)
        if size is not None and one.size != size:
            raise UnreadableError(f"{path} is of a job of {one.size} ranks, and {paths[0]} of one of {size}")
        size = one.size
        if one.rank not in ranks or one.now > ranks[one.rank].now:
            ranks[one.rank] = one
    return ranks


def members(ranks: dict[int, Rank]) -> dict[Stream, list[int]]:
    """Returns the members of the streams that a rank still knows. A group that all ranks have left
    is not included."""
    groups: dict[str, list[int]] = {}
    for one in ranks.values():
        groups.update(one.groups)
        groups["world"] = list(range(one.size))
    return {operation.stream: sorted(operation.stream.ends) or groups[operation.stream.group]
            for one in ranks.values() for operation in one.operations if operation.stream.group in groups}


def forgotten(ranks: dict[int, Rank], streams: dict[Stream, list[int]]) -> set[tuple[Stream, int]]:
    """Returns the operations that a rank has completed and no longer remembers. The analyzer would
    take them for missing."""
    done: dict[tuple[Stream, int], dict[int, bool]] = {}
    last: dict[tuple[Stream, int], int] = {}
    for one in ranks.values():
        for o in one.operations:
            done.setdefault((o.stream, o.sequence), {})[one.rank] = o.state == "completed"
            last[o.stream, one.rank] = max(o.sequence, last.get((o.stream, one.rank), -1))
    return {(stream, sequence) for (stream, sequence), by in done.items() for rank in streams.get(stream, ())
            if rank not in by and rank in ranks and ranks[rank].forgot
            and (last.get((stream, rank), -1) > sequence or all(by.values()))}


def lengths(o: Operation, rank: int, ranks: list[int]) -> tuple[int, int]:
    """Returns the number of elements of the input and the output, if they are the same on all
    ranks."""
    whole = o.count * len(ranks)
    is_root = 0 <= o.root < len(ranks) and ranks[o.root] == rank
    if o.call in ("barrier", "alltoallv", "gatherv", "scatterv"):
        return 0, 0
    return {"allgather": (o.count, whole), "reduce_scatter": (whole, o.count), "alltoall": (whole, whole),
            "gather": (o.count, whole if is_root else 0), "scatter": (whole if is_root else 0, o.count),
            "send": (o.count, 0), "receive": (0, o.count)}.get(o.call, (o.count, o.count))


def entry(o: Operation, number: int, rank: int, ranks: list[int]) -> dict[str, Any]:
    message, (taken, given) = bool(o.stream.ends), lengths(o, rank, ranks)
    name = NAMES.get(o.call, "")
    if message:
        source, target = (ranks.index(end) for end in o.stream.ends)
        name = f"send {source}->{target}" if o.call == "send" else f"recv {target}<-{source}"
    completed = o.state == "completed"
    return {
        "record_id": number, "pg_id": 0, "process_group": (o.stream.name(), "undefined"), "frames": [],
        "profiling_name": f"gloo:{name}", "is_p2p": message, "op_id": o.sequence,
        "collective_seq_id": o.sequence, "p2p_seq_id": o.sequence if message else 0,
        "input_sizes": [[taken]], "input_dtypes": [o.dtype],
        "output_sizes": [[given]], "output_dtypes": [o.dtype],
        # A failed operation has started and is not complete: the analyzer treats a timeout in this
        # way.
        "state": "started" if o.state == "failed" else o.state,
        "time_created_ns": o.started,
        "time_discovered_started_ns": None if o.state == "scheduled" else o.started,
        "time_discovered_completed_ns": o.ended if completed else None,
        "retired": o.ended is not None, "timeout_ms": 0,
    }


def convert(ranks: dict[int, Rank]) -> dict[int, dict[str, Any]]:
    """Returns the contents of the file of each rank."""
    streams = members(ranks)
    lost = forgotten(ranks, streams)
    dumps = {}
    for rank, one in ranks.items():
        kept = [o for o in one.operations if o.stream in streams and (o.stream, o.sequence) not in lost]
        dumps[rank] = {
            "version": VERSION, "entries": [entry(o, i, rank, streams[o.stream]) for i, o in enumerate(kept)],
            "pg_config": {stream.name(): {"name": stream.name(), "desc": "undefined", "ranks": str(of)}
                          for stream, of in streams.items() if rank in of},
        }
    return dumps


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m gloo_c.flight_recorder",
                                     description="Convert traces of ranks to the format that PyTorch's flight "
                                                 "recorder analyzer (torchfrtrace) reads.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a rank's, of GLOO_TRACE_DIR")
    parser.add_argument("--output", required=True, type=Path, metavar="DIRECTORY",
                        help="a new one, for a file rank_N of each rank")
    options = parser.parse_args()
    try:
        ranks = read(options.files)
        options.output.mkdir()
        for rank, dump in convert(ranks).items():
            (options.output / f"rank_{rank}").write_bytes(pickle.dumps(dump, protocol=4))
    except UnreadableError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{parser.prog}: {error.filename or options.output}: {error.strerror}", file=sys.stderr)
        return 2
    missing = sorted(set(range(max(one.size for one in ranks.values()))) - set(ranks))
    if missing:
        print(f"no file from ranks {', '.join(map(str, missing))}: torchfrtrace needs --allow-incomplete-ranks",
              file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
