"""Tables in Markdown, also for the terminal."""

import math

import limits as machine_limits
import machine
import results
from libraries import LIBRARIES, OURS, OURS_ALLOC

NAMES = {"sendrecv": "ping-pong", "reduce_scatter": "reduce-scatter"}


def time_text(us):
    if math.isnan(us):
        return ""
    if us >= 10000:
        return f"{us / 1000:.3g} ms" if us < 1e6 else f"{us / 1e6:.3g} s"
    if us < 0.1:
        return f"{us:.2f}"
    return f"{us:.3g}" if us < 1000 else f"{us:.0f}"


def size_text(size):
    if size == 0:
        return "-"
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} B"


def ratio_text(ratio):
    return "" if math.isnan(ratio) else f"{ratio:.2f}"


def range_text(ratio):
    if math.isnan(ratio.low) or ratio.low == ratio.high:
        return ""
    return f"{ratio.low:.2f}-{ratio.high:.2f}"


def spread_text(figure):
    """Returns the spread of the repetitions, relative to their median."""
    if figure is None or figure.repetitions < 2:
        return ""
    return f"{(figure.high_us - figure.low_us) / figure.median_us * 100:.0f} %"


def table(header, rows):
    """Returns a table: columns are as wide as their widest cell, numbers are right-aligned."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [header] + rows) for i in range(len(header))]
    def line(cells):
        first = cells[0].ljust(widths[0])
        others = [c.rjust(w) for c, w in zip(cells[1:], widths[1:])]
        return "| " + " | ".join([first] + others) + " |"
    rule = "|-" + "-" * widths[0] + "-|" + "|".join("-" * (w + 1) + ":" for w in widths[1:]) + "|"
    return "\n".join([line(header), rule] + [line(row) for row in rows])


def figure_text(cell, library):
    if library in cell.figures:
        return time_text(cell.figures[library].median_us)
    return cell.missing.get(library, "")


def name_of(collective):
    return NAMES.get(collective, collective)


def present(cells, libraries):
    return [l for l in libraries
            if any(l.name in c.figures or l.name in c.missing for c in cells)]


def ratio_columns(cell, names):
    """Returns the cells of ratios, with a star if a peer is missing."""
    row = []
    for name in names:
        ratio = cell.ratio(name)
        mark = "*" if cell.lacks_a_peer() and not math.isnan(ratio.value) else ""
        row += [ratio_text(ratio.value) + mark, range_text(ratio)]
    return row


def cells_table(cells, libraries, limits):
    shown = present(cells, libraries)
    ours = [l.name for l in shown if l.ours]
    floors = {id(c): machine_limits.floor_us(limits, c.transport, c.ranks, c.collective, c.bytes)
              for c in cells}
    has_floor = any(not math.isnan(f) for f in floors.values())
    header = ["collective", "size"] + [l.title for l in shown]
    for name in ours:
        header += ["ours/best" if name == OURS else "gloo_alloc/best", "range"]
    header += ["our spread"] + (["floor"] if has_floor else [])
    rows = []
    for cell in cells:
        row = [name_of(cell.collective), size_text(cell.bytes)]
        row += [figure_text(cell, l.name) for l in shown]
        row += ratio_columns(cell, ours) + [spread_text(cell.figures.get(OURS))]
        row += [time_text(floors[id(cell)])] if has_floor else []
        rows.append(row)
    return table(header, rows)


def repetitions_text(cells):
    """Returns the numbers of repetitions, or "" if all are equal."""
    counts = {}
    for cell in cells:
        for figure in cell.figures.values():
            counts[figure.repetitions] = counts.get(figure.repetitions, 0) + 1
    if len(counts) < 2:
        return ""
    parts = [f"{number} times {n}" for n, number in sorted(counts.items(), reverse=True)]
    return "Repetitions of a figure: " + ", ".join(parts) + "."


def missing_text(cells):
    """Returns the number of missing figures by library and reason."""
    counts = {}
    for cell in cells:
        for name, why in cell.missing.items():
            counts[name, why] = counts.get((name, why), 0) + 1
    parts = [f"{name}, {why}: {number}" for (name, why), number in sorted(counts.items())]
    return "Figures that are missing: " + "; ".join(parts) + "." if parts else ""


def notes_of(run, cells):
    return [text for text in (repetitions_text(cells), missing_text(cells)) if text] + run["notes"]


def ranks_text(ranks):
    return str(ranks) if ranks else "all"


def above_text(mean):
    return f"{mean.above_1} of {mean.cells}" if mean and mean.cells else ""


def means_table(cells):
    found = {(m.transport, m.ranks, m.library): m for m in results.means(cells)}
    alloc = any(m.library == OURS_ALLOC for m in found.values())
    rows = []
    for transport, ranks in dict.fromkeys(key[:2] for key in found):
        row = [transport, ranks_text(ranks)]
        for name in (OURS, OURS_ALLOC) if alloc else (OURS,):
            mean = found.get((transport, ranks, name))
            row += [ratio_text(mean.geometric_mean) if mean else "", above_text(mean)]
        rows.append(row)
    header = ["transport", "ranks", "geometric mean", "cells above 1"]
    header += ["with gloo_alloc", "cells above 1"] if alloc else []
    return table(header, rows)


def above_table(cells, libraries):
    titles = {l.name: l.title for l in libraries}
    rows = []
    for name, cell in results.above_1(cells):
        ratio = cell.ratio(name)
        rows.append([cell.transport, cell.ranks, name_of(cell.collective), size_text(cell.bytes),
                     titles.get(name, name), ratio_text(ratio.value), range_text(ratio),
                     titles.get(cell.best_peer, cell.best_peer)])
    header = ["transport", "ranks", "collective", "size", "ours", "ratio", "range", "fastest peer"]
    return table(header, rows) if rows else "None."


def against_table(against):
    rows = []
    for found in against:
        goal = found.goal
        what = goal.collective + ("" if goal.bytes == 0 else " of " + size_text(goal.bytes))
        what += ", gloo_alloc" if goal.library == OURS_ALLOC else ""
        rows.append([what, time_text(found.took_us), goal.limit, time_text(found.limit_us),
                     f"{found.ratio:.2f}", f"{found.low:.2f}-{found.high:.2f}", str(found.turns),
                     "" if math.isnan(goal.at_most) else f"at most {goal.at_most}"])
    return table(["2 ranks, shm", "ours", "limit", "it takes", "ratio", "range", "turns", "goal"],
                 rows) if rows else ""


def limits_table(limits):
    rows = [[l["limit"], size_text(l["bytes"]), f"{l['value']:.3g} {l['unit']}"] for l in limits]
    return table(["limit", "size", "median"], rows)


def machine_text(here):
    known = {library.name: library.title for library in LIBRARIES}
    versions = ", ".join(f"{known.get(n, n)} {v}" for n, v in here["versions"].items() if v)
    return (f"{here['date']}, gloo_c at {here.get('revision', 'unknown')}: {here['cpu']}, "
            f"{here['cores']} cores, {here['memory']}, {here['kernel']}. "
            f"Load average {here['load_before']:.1f} before, "
            f"{here['load_after']:.1f} after. {versions}.")


def groups_of(cells):
    """Returns [((transport, ranks), cells)]."""
    keys = dict.fromkeys((c.transport, c.ranks) for c in cells)
    return [(key, [c for c in cells if (c.transport, c.ranks) == key]) for key in keys]


def summary(run, cells, libraries):
    """Returns the summary for a page. `run` has limits."""
    parts = [machine_text(run["machine"]), f"    {run['command']}"]
    parts.append("Ours divided by the best peer's; below 1 is faster than all of them:")
    parts.append(means_table(cells))
    against = against_table(run["against"])
    parts += ["Against the machine itself:", against] if against else []
    return parts + [f"#### Cells above 1 on {machine.short(run['machine']['cpu'])}",
                    above_table(cells, libraries)]


def report(run, cells, libraries):
    """Returns the whole report."""
    parts = summary(run, cells, libraries)
    for (transport, ranks), group in groups_of(cells):
        parts.append(f"### {transport}, {ranks} ranks")
        parts.append(cells_table(group, libraries, run["limits"]))
    parts += ["### The machine", limits_table(run["limits"])]
    notes = notes_of(run, cells)
    if notes:
        parts += ["### Notes", "\n".join("- " + note for note in notes)]
    return paragraphs(parts)


def paragraphs(parts):
    return "\n\n".join(parts) + "\n"
