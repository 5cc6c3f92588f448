"""Tables in Markdown, which are also what the terminal shows."""

import math

import limits as machine_limits
import results

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


def range_text(cell):
    if math.isnan(cell.ratio_low) or cell.ratio_low == cell.ratio_high:
        return ""
    return f"{cell.ratio_low:.2f}-{cell.ratio_high:.2f}"


def spread_text(figure):
    """How far the repetitions lie apart, against their median."""
    if figure is None or figure.repetitions < 2:
        return ""
    return f"{(figure.high_us - figure.low_us) / figure.median_us * 100:.0f} %"


def table(header, rows):
    """Columns as wide as their widest cell, numbers to the right."""
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
    return "over the limit" if library in cell.over_limit else ""


def cells_table(cells, libraries, limits):
    present = [l for l in libraries
               if any(l.name in c.figures or l.name in c.over_limit for c in cells)]
    floors = {id(c): machine_limits.floor_us(limits, c.transport, c.ranks, c.collective, c.bytes)
              for c in cells}
    has_floor = any(not math.isnan(f) for f in floors.values())
    header = ["collective", "size"] + [l.title for l in present]
    header += ["ours/best", "range", "our spread"] + (["floor"] if has_floor else [])
    rows = []
    for cell in cells:
        row = [NAMES.get(cell.collective, cell.collective), size_text(cell.bytes)]
        row += [figure_text(cell, l.name) for l in present]
        ours = next((cell.figures.get(l.name) for l in present if l.ours), None)
        mark = "*" if cell.over_limit and not math.isnan(cell.ratio) else ""
        row += [ratio_text(cell.ratio) + mark, range_text(cell), spread_text(ours)]
        row += [time_text(floors[id(cell)])] if has_floor else []
        rows.append(row)
    return table(header, rows)


def means_table(cells):
    rows = []
    for transport, ranks, mean, above, n in results.means(cells):
        rows.append([transport, ranks, ratio_text(mean), f"{above} of {n}" if n else ""])
    return table(["transport", "ranks", "geometric mean", "cells above 1"], rows)


def limits_table(limits):
    rows = [[l["limit"], size_text(l["bytes"]), f"{l['value']:.3g} {l['unit']}"] for l in limits]
    return table(["limit", "size", "median"], rows)


def machine_text(machine):
    known = {"openmpi": "Open MPI", "mpich": "MPICH", "gloo": "Gloo"}
    versions = ", ".join(f"{known.get(n, n)} {v}" for n, v in machine["versions"].items() if v)
    return (f"{machine['date']}: {machine['cpu']}, {machine['cores']} cores, {machine['memory']}, "
            f"{machine['kernel']}. Load average {machine['load_before']:.1f} before, "
            f"{machine['load_after']:.1f} after. {versions}.")


def report(machine, command, limits, cells, libraries, notes):
    parts = [machine_text(machine), f"    {command}"]
    parts.append("Ours divided by the best peer's; below 1 is faster than all of them:")
    parts.append(means_table(cells))
    for transport, ranks in dict.fromkeys((c.transport, c.ranks) for c in cells):
        group = [c for c in cells if (c.transport, c.ranks) == (transport, ranks)]
        parts.append(f"### {transport}, {ranks} ranks")
        parts.append(cells_table(group, libraries, limits))
    parts.append("### The machine")
    parts.append(limits_table(limits))
    if notes:
        parts.append("### Notes")
        parts.append("\n".join("- " + note for note in notes))
    return "\n\n".join(parts) + "\n"
