"""Measures gloo_c and other libraries side by side: see docs/performance.md.

Started by scripts/compare, which builds everything first."""

import argparse
import dataclasses
import json
import math
import os
import signal
import sys
import time

import campaign
import collectives
import libraries
import machine
import page
import results
import summary
import tables
import turns
import webpage

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


def libraries_text(build):
    """Returns a line for each library: its name for --libraries, and the installed version."""
    lines = ["libraries, as they are here; older releases of an MPI are measured on request only:"]
    for library in libraries.titled(libraries.versions(libraries.LIBRARIES, build)):
        absent = libraries.missing(library, build)
        if library.packages and not libraries.version(library, build):
            absent = "not installed"
        lines.append(f"  {library.name:14}  {library.title}" + (f": {absent}" if absent else ""))
    return "\n".join(lines)


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="scripts/compare", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measure gloo_c, Open MPI, MPICH, Intel MPI and Gloo side by side on this "
                    "machine.")
    add = parser.add_argument
    add("--ranks", type=list_of(ranks), metavar="N,..", help="processes (2,4,8)")
    add("--sizes", type=list_of(size), metavar="A,..",
        help="bytes of the larger buffer (4,1K,16K,256K,4M,64M)")
    add("--collectives", type=list_of(one_of(collectives.NAMES)), metavar="NAME,..",
        default=list(collectives.NAMES), help="sendrecv is a round trip (all)")
    add("--transports", type=list_of(one_of(["shm", "tcp"])), default=["shm", "tcp"],
        metavar="NAME,..", help="shm, tcp (both)")
    add("--libraries", type=list_of(one_of(libraries.NAMES)), metavar="NAME,..",
        help="see below (all, but of each MPI only the newest release)")
    add("--repetitions", type=int, metavar="N", help="of everything that there is time for (5)")
    add("--time", type=float, metavar="SECONDS", help="for each size of a run (0.05)")
    add("--warmup", type=int, metavar="N", default=5, help="calls before those that count (5)")
    add("--buffers", default="2", metavar="N|fresh",
        help="sets of buffers that each rank uses in turn (2)")
    add("--untouched", action="store_true",
        help="do not write inputs before each call and read results after it")
    add("--limit", type=float, metavar="SECONDS",
        help="for one run of all sizes; less when time gets short (20)")
    add("--budget", type=float, metavar="MINUTES", default=20, help="for everything (20)")
    add("--quick", action="store_true",
        help="2 ranks, 4 B to 4 MiB, one short repetition, unless said otherwise")
    add("--json", metavar="FILE", help="where the figures go (build-compare/compare.json)")
    add("--from", dest="source", type=list_of(str), metavar="FILE,..",
        help="measure nothing, make tables and page from the JSON of earlier runs together, "
             "or from one of results/")
    add("--continue", dest="earlier", metavar="FILE",
        help="measure what is not in the JSON of an earlier run that was broken off")
    add("--html", metavar="FILE", help="write a page with curves, for a browser")
    add("--results", metavar="FILE",
        help="write what tables and page need, without single runs, to be kept")
    add("--write-docs", action="store_true",
        help="put a summary into docs/performance.md, and what it is made from into results/")
    add("--build", required=True, help=argparse.SUPPRESS)
    build = argparse.ArgumentParser(add_help=False)
    build.add_argument("--build")
    parser.epilog = libraries_text(build.parse_known_args(argv)[0].build or "")
    options = parser.parse_args(argv)
    options.libraries = options.libraries or libraries.default(options.build)
    quick = options.quick
    options.ranks = options.ranks or ([2] if quick else [2, 4, 8])
    options.sizes = options.sizes or [4, 1 << 10, 1 << 14, 1 << 18, 1 << 22] + (
        [] if quick else [1 << 26])
    options.repetitions = options.repetitions or (1 if quick else 5)
    options.time = options.time or (0.03 if quick else 0.05)
    options.limit = options.limit or (10 if quick else 20)
    options.json = options.json or os.path.join(options.build, "compare.json")
    return options


def plain(value):
    """Converts a value for JSON, which has no NaN and no sets."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, set):
        return sorted(value)
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def write_json(path, run, cells):
    """Writes single figures, from which everything else can be computed again, and the results."""
    everything = {
        **run,
        "cells": [dataclasses.asdict(cell) for cell in cells],
        "means": [dataclasses.asdict(mean) for mean in results.means(cells)],
        "above_1": [{"library": name, "transport": c.transport, "ranks": c.ranks,
                     "collective": c.collective, "bytes": c.bytes,
                     "ratio": c.ratio(name).value, "best_peer": c.best_peer}
                    for name, c in results.above_1(cells)],
    }
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(plain(everything), file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


RUN_KEYS = ("machine", "command", "turns", "notes", "runs", "done", "why", "missing")


def read_json(path):
    """Reads a run that write_json wrote."""
    return summary.read(path, lambda everything: {key: everything[key] for key in RUN_KEYS})


def measured(run):
    """Returns (run, cells) of single figures."""
    return summary.with_limits(run), results.cells_of(run["runs"], run["missing"])


def from_files(paths):
    """Returns (run, cells) of earlier runs, or of a summary, which must be the only file."""
    if len(paths) == 1:
        found = summary.read(paths[0], summary.parse)
        if found:
            return found
    return measured(results.merge([read_json(path) for path in paths]))


def docs_text(path, root="."):
    """Returns the part of the page for a file in results/, which is below `root`."""
    run, cells = summary.read(os.path.join(root, path), summary.parse)
    return tables.paragraphs([page.source(path)] + tables.summary(run, cells, shown(run)))


def shown(run):
    """Returns the libraries as the tables of a run name them."""
    return libraries.titled(run["machine"]["versions"])


def write_docs(options, run, cells):
    """Writes a file in results/, unless it came from there, and its part of the page."""
    path = options.source[0] if options.source else ""
    if not path.startswith("results/"):
        path = options.results or summary.name(run["machine"])
        summary.write(path, run, cells)
    page.write(PAGE, docs_text(path), page.tables_on(run["machine"]["cpu"]))


def interrupt(*_):
    """Reports the results so far, and leaves no ranks behind."""
    raise KeyboardInterrupt


def measure(options, command):
    """Measures a run and returns it for the JSON."""
    asked = [l for l in libraries.LIBRARIES if l.name in options.libraries]
    here = machine.describe(libraries.versions(asked, options.build))
    absent = {l: libraries.missing(l, options.build) for l in asked}
    chosen = [l for l in shown({"machine": here}) if l.name in options.libraries
              and not libraries.missing(l, options.build)]
    earlier = read_json(options.earlier) if options.earlier else None
    if earlier:
        results.same_versions(earlier["machine"], here)
    taken = earlier["turns"] if earlier else []

    def so_far():
        here["load_after"] = os.getloadavg()[0]
        here["minutes"] = (time.monotonic() - work.began) / 60
        return {"machine": here, "command": command, "notes": work.notes, "turns": taken,
                "runs": work.measured, "missing": work.missing(),
                "done": [(key, repetition, took) for (key, repetition), took in work.done.items()],
                "why": list(work.why.items())}

    def save():
        run = so_far()
        write_json(options.json, run, results.cells_of(run["runs"], run["missing"]))

    work = campaign.Campaign(options, chosen, save)
    if earlier:
        work.go_on_from(earlier)
    for library, why in absent.items():
        if why:
            work.note(f"{library.title} is left out: {why}")
    if here["load_before"] > here["cores"]:
        work.note(f"the load average was {here['load_before']:.1f} on {here['cores']} cores at the "
                  "start: other programs ran, and the figures show little of how fast anything is")
    try:
        taken += turns.measure(work)
        work.run()
        taken += turns.measure(work)
    except KeyboardInterrupt:
        work.note("interrupted")
    return so_far()


def main(argv):
    options = parse(argv)
    signal.signal(signal.SIGTERM, interrupt)
    if options.source:
        run, cells = from_files(options.source)
    else:
        if options.write_docs:  # fails before the measurement, not after it
            page.split(PAGE, page.tables_on(machine.processor()))
        taken = measure(options, machine.command_line(["scripts/compare"], argv))
        run, cells = measured(taken)
        write_json(options.json, taken, cells)
    print(tables.report(run, cells, shown(run)), end="")
    if options.results:
        summary.write(options.results, run, cells)
    if options.write_docs:
        write_docs(options, run, cells)
    if options.html:
        with open(options.html, "w", encoding="utf-8") as file:
            file.write(webpage.render(run, cells, shown(run)))
    return 0 if cells else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
