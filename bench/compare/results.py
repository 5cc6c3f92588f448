"""Cells of a table, from single runs."""

import math
import statistics
from dataclasses import dataclass, field

from libraries import OURS, OURS_ALLOC


@dataclass
class Figure:
    """The p50 of one library in one cell, over the repetitions."""

    median_us: float
    low_us: float
    high_us: float
    min_us: float
    p99_us: float
    repetitions: int


@dataclass
class Ratio:
    """Our time divided by the best peer's, within single repetitions, because the machine may
    differ in the next."""

    value: float = math.nan  # the median; ratio of medians if no repetition has both
    low: float = math.nan
    high: float = math.nan


@dataclass
class Cell:
    transport: str
    ranks: int
    collective: str
    bytes: int
    figures: dict = field(default_factory=dict)  # library: Figure
    missing: dict = field(default_factory=dict)  # library: reason for a missing figure
    best_peer: str = ""
    ratios: dict = field(default_factory=dict)  # OURS, OURS_ALLOC: Ratio

    def ratio(self, name=OURS):
        return self.ratios.get(name, Ratio())

    def lacks_a_peer(self):
        return any(name not in (OURS, OURS_ALLOC) for name in self.missing)


def key_of(line):
    return line["transport"], line["ranks"], line["collective"], line["bytes"]


def figure(lines):
    p50 = [line["p50_us"] for line in lines]
    return Figure(
        statistics.median(p50), min(p50), max(p50),
        min(line["min_us"] for line in lines),
        statistics.median(line["p99_us"] for line in lines), len(lines))


# Two runs found the cores equally far apart if their flags differ by no more than this.
NEARNESS = 1.5


def apart(one, other):
    """Returns the ratio of the core distances that two runs found; 1 if unknown."""
    flags = one.get("flag_ns", 0), other.get("flag_ns", 0)
    return max(flags) / min(flags) if min(flags) > 0 else 1


# This many ratios within repetitions are more reliable than all others.
ENOUGH = 3


def ratio_of(cell, lines, name, peer):
    """Returns the ratio, within repetitions whose runs found the same machine; if these are few,
    across them, too; otherwise from all data."""
    ours = [line for line in lines if line["library"] == name]
    theirs = [line for line in lines if line["library"] == peer]
    all_pairs = [(a, b) for a in ours for b in theirs]
    both = [(a, b) for a, b in all_pairs if a["repetition"] == b["repetition"]]
    pairs = [(a, b) for a, b in both if apart(a, b) <= NEARNESS]
    if len(pairs) < ENOUGH:
        pairs = [(a, b) for a, b in all_pairs if 1 < apart(a, b) <= NEARNESS] or pairs or both
    if not pairs:
        return Ratio(cell.figures[name].median_us / cell.figures[peer].median_us)
    found = [a["p50_us"] / b["p50_us"] for a, b in pairs]
    return Ratio(statistics.median(found), min(found), max(found))


def set_ratios(cell, lines):
    peers = [name for name in cell.figures if name not in (OURS, OURS_ALLOC)]
    ours = [name for name in (OURS, OURS_ALLOC) if name in cell.figures]
    if not peers:
        return
    cell.best_peer = min(peers, key=lambda name: cell.figures[name].median_us)
    if not ours:
        return
    # Medians of different repetitions may come from different machine states: the best peer is
    # the fastest relative to ours.
    cell.best_peer = max(
        peers, key=lambda name: (ratio_of(cell, lines, ours[0], name).value,
                                 -cell.figures[name].median_us))
    for name in ours:
        cell.ratios[name] = ratio_of(cell, lines, name, cell.best_peer)


def cells_of(measured, missing):
    """Returns all cells: by transport, ranks and collective in the order of measurement, and by
    size."""
    cells, lines_of = {}, {}
    for line in measured + missing:
        cells.setdefault(key_of(line), Cell(*key_of(line)))
    for line in measured:
        lines_of.setdefault(key_of(line), []).append(line)
    for line in missing:
        cells[key_of(line)].missing[line["library"]] = line["why"]
    for key, lines in lines_of.items():
        cell = cells[key]
        for name in {line["library"] for line in lines}:
            cell.figures[name] = figure([l for l in lines if l["library"] == name])
        for name in cell.figures:
            cell.missing.pop(name, None)
        set_ratios(cell, lines)
    return in_order(list(cells.values()))


def in_order(cells):
    collectives = list(dict.fromkeys(c.collective for c in cells))
    transports = list(dict.fromkeys(c.transport for c in cells))
    return sorted(cells, key=lambda c: (transports.index(c.transport), c.ranks,
                                        collectives.index(c.collective), c.bytes))


@dataclass
class Mean:
    """The mean of a transport's cells, for all numbers of ranks if `ranks` is 0."""

    transport: str
    ranks: int
    library: str
    geometric_mean: float
    above_1: int
    cells: int


def geometric_mean(ratios):
    if not ratios:
        return math.nan
    return math.exp(sum(math.log(r) for r in ratios) / len(ratios))


def mean(cells, transport, ranks, name):
    ratios = [c.ratio(name).value for c in cells
              if c.transport == transport and ranks in (0, c.ranks)]
    ratios = [r for r in ratios if not math.isnan(r)]
    return Mean(transport, ranks, name, geometric_mean(ratios),
                sum(1 for r in ratios if r > 1), len(ratios))


def means(cells):
    """Returns the means of each transport: for each number of ranks, then all; ours with ordinary
    memory, then with gloo_alloc if that was measured."""
    found = []
    for transport in dict.fromkeys(c.transport for c in cells):
        groups = list(dict.fromkeys(c.ranks for c in cells if c.transport == transport))
        for ranks in groups + ([0] if len(groups) > 1 else []):
            both = [mean(cells, transport, ranks, name) for name in (OURS, OURS_ALLOC)]
            found += [m for m in both if m.cells > 0]
    return found


def above_1(cells):
    """Returns [(library, cell)], the worst first."""
    worse = [(name, c) for c in cells for name in c.ratios if c.ratio(name).value > 1]
    return sorted(worse, key=lambda pair: -pair[1].ratio(pair[0]).value)


def same_versions(one, other):
    """Ends the program if two runs measured different versions of a library."""
    for name, version in one["versions"].items():
        found = other["versions"].get(name)
        if version and found and found != version:
            raise SystemExit(f"compare: {name} was measured in version {version} and in version "
                             f"{found}; that makes no comparison, measure anew")


def merge(runs):
    """Merges runs: repetitions of a later one follow those of earlier ones."""
    whole, first = None, 0
    for run in runs:
        lines = [{**line, "repetition": line["repetition"] + first} for line in run["runs"]]
        first = max([line["repetition"] for line in lines], default=first - 1) + 1
        if whole is None:
            whole = {**run, "runs": lines}
            continue
        same_versions(whole["machine"], run["machine"])
        versions = {**run["machine"]["versions"], **whole["machine"]["versions"]}
        whole = {
            **whole,
            "machine": {**whole["machine"], "versions": versions},
            "runs": whole["runs"] + lines,
            "missing": whole["missing"] + run["missing"],
            "notes": list(dict.fromkeys(whole["notes"] + run["notes"])),
            "turns": whole["turns"] + run["turns"],
            "command": whole["command"] + "\n    " + run["command"],
        }
    return whole
