"""A short form of a comparison: the data for tables and pages, without single runs.

Such a file is kept in results/, one cell per line; `--from` reads it like the JSON of a run."""

import json
import os
import re

import results
import turns
from machine import short

FORMAT = "gloo_c comparison, summary 1"
RUN_KEYS = ("machine", "command", "notes", "limits", "against")


def with_limits(run):
    """Returns a measured run with the results of its turns."""
    return {**run, "limits": turns.best_limits(run["turns"]),
            "against": turns.all_against(run["turns"])}


def rounded(value, digits=4):
    """Rounds to the precision of a measurement; use more digits for ratios, which may be near 1."""
    return float(f"{value:.{digits}g}")


def known(values, digits=4):
    """Returns the rounded values without NaN, which occurs only at the end."""
    return [rounded(value, digits) for value in values if value == value]


def of_cell(cell):
    line = {"transport": cell.transport, "ranks": cell.ranks, "collective": cell.collective,
            "bytes": cell.bytes,
            "us": {name: known((f.median_us, f.low_us, f.high_us))
                   + ([f.repetitions] if f.repetitions else [])
                   for name, f in sorted(cell.figures.items())}}
    if cell.missing:
        line["missing"] = cell.missing
    if cell.best_peer:
        line["best_peer"] = cell.best_peer
    if cell.ratios:
        line["ratio"] = {name: known((r.value, r.low, r.high), 6)
                         for name, r in cell.ratios.items()}
    return line


def to_cell(line):
    cell = results.Cell(line["transport"], line["ranks"], line["collective"], line["bytes"])
    for name, (median, *more) in line["us"].items():
        low, high, repetitions = more or (median, median, 0)
        cell.figures[name] = results.Figure(median, low, high, float("nan"), float("nan"),
                                            repetitions)
    cell.missing = dict(line.get("missing", {}))
    cell.best_peer = line.get("best_peer", "")
    cell.ratios = {name: results.Ratio(*found) for name, found in line.get("ratio", {}).items()}
    return cell


def one_line(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def text(run, cells):
    """Returns the text of a summary; `run` has limits."""
    parts = {"format": one_line(FORMAT)}
    for key in ("machine", "command", "notes"):
        parts[key] = one_line(run[key])
    lists = {"limits": [{**limit, "value": rounded(limit["value"])} for limit in run["limits"]],
             "against": [turns.plain(found) for found in run["against"]],
             "cells": [of_cell(cell) for cell in cells]}
    for key, lines in lists.items():
        parts[key] = "[" + ",".join("\n  " + one_line(line) for line in lines) + "\n ]"
    return "{\n" + ",\n".join(f' "{key}": {value}' for key, value in parts.items()) + "\n}\n"


def write(path, run, cells):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text(run, cells))
    os.replace(path + ".new", path)


def read(path, parsed):
    """Returns the parsed JSON of a file."""
    try:
        with open(path, encoding="utf-8") as file:
            return parsed(json.load(file))
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as problem:
        raise SystemExit(f"compare: {path} is not the JSON of a comparison: {problem!r}")


def parse(everything):
    """Returns (run, cells), or None if it is not a summary."""
    if not isinstance(everything, dict) or everything.get("format") != FORMAT:
        return None
    run = {key: everything[key] for key in RUN_KEYS}
    run["against"] = [turns.from_plain(line) for line in run["against"]]
    return run, [to_cell(line) for line in everything["cells"]]


def name(machine, ending=""):
    """Returns the name of the file in results/ for this machine."""
    cpu = re.sub(r"[^a-z0-9]+", "-", short(machine["cpu"]).lower()).strip("-")
    return f"results/{machine['date']}-{cpu}{ending}.json"
