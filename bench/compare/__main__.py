"""Measures gloo_c and other libraries side by side: see docs/performance.md.

Started by scripts/compare, which builds everything first."""

import argparse
import dataclasses
import json
import math
import os
import shlex
import signal
import sys

import campaign
import limits
import machine
import page
import results
import tables
from libraries import LIBRARIES

COLLECTIVES = ["barrier", "sendrecv", "broadcast", "reduce", "allreduce", "allgather",
               "reduce_scatter", "alltoall"]
PAGE = "docs/performance.md"


def size(text):
    factors = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    factor = factors.get(text[-1:].upper(), 1)
    try:
        value = int(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size such as 4, 16K or 64M")
    return value


def ranks(text):
    if not text.isdigit() or not 2 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of ranks from 2 to 256")
    return int(text)


def list_of(kind):
    return lambda text: [kind(one) for one in text.split(",")]


def one_of(known):
    def check(text):
        if text not in known:
            raise argparse.ArgumentTypeError(f"'{text}' is none of {', '.join(known)}")
        return text
    return check


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="scripts/compare",
        description="Measure gloo_c, Open MPI, MPICH and Gloo side by side on this machine.")
    add = parser.add_argument
    add("--ranks", type=list_of(ranks), metavar="N,..", help="processes (2,4,8)")
    add("--sizes", type=list_of(size), metavar="A,..",
        help="bytes of the larger buffer (4,1K,16K,256K,4M,64M)")
    add("--collectives", type=list_of(one_of(COLLECTIVES)), metavar="NAME,..",
        default=list(COLLECTIVES), help="sendrecv is a round trip (all)")
    add("--transports", type=list_of(one_of(["shm", "tcp"])), default=["shm", "tcp"],
        metavar="NAME,..", help="shm, tcp (both)")
    add("--libraries", type=list_of(one_of([l.name for l in LIBRARIES])), metavar="NAME,..",
        default=[l.name for l in LIBRARIES], help="gloo_c, openmpi, mpich, gloo (all)")
    add("--repetitions", type=int, metavar="N", help="of everything (3)")
    add("--time", type=float, metavar="SECONDS", help="for each size of a run (0.1)")
    add("--warmup", type=int, metavar="N", default=5, help="calls before those that count (5)")
    add("--buffers", default="2", metavar="N|fresh",
        help="sets of buffers that each rank uses in turn (2)")
    add("--limit", type=float, metavar="SECONDS", help="for one run of all sizes (20)")
    add("--budget", type=float, metavar="MINUTES", default=20, help="for everything (20)")
    add("--quick", action="store_true",
        help="2 ranks, 4 B to 4 MiB, one short repetition, unless said otherwise")
    add("--json", metavar="FILE", help="where the figures go (build-compare/compare.json)")
    add("--write-docs", action="store_true", help="put the tables into docs/performance.md")
    add("--build", required=True, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    quick = options.quick
    options.ranks = options.ranks or ([2] if quick else [2, 4, 8])
    options.sizes = options.sizes or [4, 1 << 10, 1 << 14, 1 << 18, 1 << 22] + (
        [] if quick else [1 << 26])
    options.repetitions = options.repetitions or (1 if quick else 3)
    options.time = options.time or (0.03 if quick else 0.1)
    options.limit = options.limit or (10 if quick else 20)
    options.json = options.json or os.path.join(options.build, "compare.json")
    return options


def command_line(argv):
    """As it was given, without what scripts/compare adds."""
    given = [a for i, a in enumerate(argv) if a != "--build" and argv[i - 1:i] != ["--build"]]
    return shlex.join(["scripts/compare"] + given)


def plain(value):
    """For JSON, which has no NaN and no sets."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, set):
        return sorted(value)
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def write_json(path, here, command, found_limits, work, cells):
    everything = {
        "machine": here, "command": command, "limits": found_limits, "notes": work.notes,
        "cells": [dataclasses.asdict(cell) for cell in cells],
        "means": [dict(zip(("transport", "ranks", "geometric_mean", "above_1", "cells"), row))
                  for row in results.means(cells)],
        "runs": work.measured, "over_limit": work.over_limit,
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(plain(everything), file, indent=1)
        file.write("\n")


def interrupt(*_):
    """Report what there is, and leave no ranks behind."""
    raise KeyboardInterrupt


def main(argv):
    options = parse(argv)
    if options.write_docs:
        page.split(PAGE)  # complains before the work rather than after it
    signal.signal(signal.SIGTERM, interrupt)
    chosen = [l for l in LIBRARIES if l.name in options.libraries]
    here = machine.describe(chosen)
    limits_before = limits.measure_once(options.build)
    work = campaign.Campaign(options, chosen)
    if here["load_before"] > here["cores"]:
        work.note(f"the load average was {here['load_before']:.1f} on {here['cores']} cores at the "
                  "start: other programs ran, and the figures show little of how fast anything is")
    try:
        work.run()
    except KeyboardInterrupt:
        work.note("interrupted")
    here["load_after"] = os.getloadavg()[0]
    found_limits = limits.combine(limits_before, limits.measure_once(options.build))
    cells = results.cells_of(work)
    command = command_line(argv)
    text = tables.report(here, command, found_limits, cells, chosen, work.notes)
    print(text, end="")
    write_json(options.json, here, command, found_limits, work, cells)
    if options.write_docs:
        page.write(PAGE, text)
    return 0 if cells else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
