"""From single runs to cells of a table."""

import math
import statistics
from dataclasses import dataclass, field


@dataclass
class Figure:
    """p50 of one library in one cell, over the repetitions."""

    median_us: float
    low_us: float
    high_us: float
    min_us: float
    p99_us: float
    repetitions: int


@dataclass
class Cell:
    transport: str
    ranks: int
    collective: str
    bytes: int
    figures: dict = field(default_factory=dict)  # library: Figure
    over_limit: set = field(default_factory=set)  # libraries
    best_peer: str = ""
    ratio: float = math.nan  # ours / best peer
    ratio_low: float = math.nan  # the same within single repetitions
    ratio_high: float = math.nan


def key_of(line):
    return line["transport"], line["ranks"], line["collective"], line["bytes"]


def figure(lines):
    p50 = [line["p50_us"] for line in lines]
    return Figure(
        statistics.median(p50), min(p50), max(p50),
        min(line["min_us"] for line in lines),
        statistics.median(line["p99_us"] for line in lines), len(lines))


def set_ratio(cell, lines, ours):
    peers = [name for name in cell.figures if name != ours]
    if not peers:
        return
    cell.best_peer = min(peers, key=lambda name: cell.figures[name].median_us)
    if ours not in cell.figures:
        return
    best = cell.figures[cell.best_peer].median_us
    cell.ratio = cell.figures[ours].median_us / best
    p50 = {(line["library"], line["repetition"]): line["p50_us"] for line in lines}
    pairs = [p50[ours, r] / p50[cell.best_peer, r]
             for (library, r) in p50 if library == ours and (cell.best_peer, r) in p50]
    if pairs:
        cell.ratio_low, cell.ratio_high = min(pairs), max(pairs)


def cells_of(campaign, ours="gloo_c"):
    """All cells, in the order in which they were measured."""
    cells, lines_of = {}, {}
    for line in campaign.measured + campaign.over_limit:
        cells.setdefault(key_of(line), Cell(*key_of(line)))
    for line in campaign.measured:
        lines_of.setdefault(key_of(line), []).append(line)
    for line in campaign.over_limit:
        cells[key_of(line)].over_limit.add(line["library"])
    for key, lines in lines_of.items():
        cell = cells[key]
        for name in {line["library"] for line in lines}:
            cell.figures[name] = figure([l for l in lines if l["library"] == name])
        cell.over_limit -= set(cell.figures)
        set_ratio(cell, lines, ours)
    return list(cells.values())


def geometric_mean(cells):
    ratios = [cell.ratio for cell in cells if not math.isnan(cell.ratio)]
    if not ratios:
        return math.nan
    return math.exp(sum(math.log(r) for r in ratios) / len(ratios))


def means(cells):
    """[(transport, ranks, geometric mean, cells above 1, cells)]"""
    rows = []
    for transport, ranks in dict.fromkeys((c.transport, c.ranks) for c in cells):
        group = [c for c in cells if (c.transport, c.ranks) == (transport, ranks)]
        ratios = [c.ratio for c in group if not math.isnan(c.ratio)]
        above = sum(1 for r in ratios if r > 1)
        rows.append((transport, ranks, geometric_mean(group), above, len(ratios)))
    return rows
