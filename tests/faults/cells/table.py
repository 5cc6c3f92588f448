#!/usr/bin/env python3
"""Prints the table of the fault matrix from the records of fault_cells.

usage: table.py [--by over] FILE...

A line of a record is a rank that had to get an error, or to continue."""
import argparse
import collections

FIELDS = ("fault call over seed ranks victim rank verdict cause named told_ms "
          "leaving_ms promised_ms").split()
TOLD = ("right", "nobody", "innocent", "alarm")
BAD = ("alarm", "deaf", "wrong", "changed", "hang", "crash")


def read(paths):
    for path in paths:
        with open(path, encoding="ascii") as lines:
            for line in lines:
                yield dict(zip(FIELDS, line.rstrip("\n").split("\t"), strict=True))


def at(times, part):
    return f"{times[min(len(times) - 1, int(len(times) * part))]:.0f}"


def row(records):
    verdicts = collections.Counter(r["verdict"] for r in records)
    cells = collections.defaultdict(set)
    for r in records:
        causes = cells[r["fault"], r["call"], r["over"], r["seed"]]
        if r["verdict"] in TOLD:
            causes.add((r["cause"], r["named"]))
    told = [r for r in records if r["verdict"] in TOLD]
    times = sorted(float(r["told_ms"]) for r in told)
    late = sum(0 < float(r["promised_ms"]) < float(r["told_ms"]) for r in told)
    leaving = max(float(r["leaving_ms"]) for r in records)
    spread = f"{at(times, 0.5)}/{at(times, 0.99)}/{times[-1]:.0f}" if times else "-"
    bad = ", ".join(f"{verdicts[v]} {v}" for v in BAD if verdicts[v]) or "0"
    several = sum(len(causes) > 1 for causes in cells.values())
    return (len(cells), len(records), len(told), verdicts["right"], verdicts["nobody"],
            verdicts["innocent"], verdicts["fine"], several, bad, spread, late, f"{leaving:.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--by", choices=("over", "call"), help="a line for each of these as well")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    groups = collections.defaultdict(list)
    for r in read(options.files):
        groups[r["fault"] + (", " + r[options.by] if options.by else "")].append(r)
    print("| fault | cells | ranks | told | named right | -1 | innocent | went on | "
          "cells with several causes | violations | told after ms p50/p99/max | later than promised | "
          "leaving max ms |")
    print("|---|" + "---|" * 12)
    for name, records in groups.items():
        print(f"| {name} | " + " | ".join(map(str, row(records))) + " |")


if __name__ == "__main__":
    main()
