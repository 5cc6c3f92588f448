"""The results as one web page, which loads nothing and has no scripts."""

import math
import os
from html import escape

import charts
import collectives
import limits as machine_limits
import results
import tables
from libraries import OURS, OURS_ALLOC

# Upper bounds of the colour steps of ratios.
STEPS = (0.25, 0.5, 0.8, 1.0, 1.25, 2.0, math.inf)
STEP_TEXTS = ("up to 0.25", "0.5", "0.8", "1", "1.25", "2", "more")


def style():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "webpage.css")
    with open(path, encoding="utf-8") as file:
        return file.read()


# ---- pieces -----------------------------------------------------------------


def html_table(markdown):
    """Returns a table of tables.py in HTML."""
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in markdown.splitlines()]
    if len(rows) < 2:
        return f"<p>{escape(markdown)}</p>"
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
                   for row in rows[2:])
    return (f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>")


def variant_text(transport, name):
    return transport + (", gloo_alloc memory" if name == OURS_ALLOC else "")


def tiles(cells):
    parts = []
    overall = {}
    for mean in results.means(cells):
        overall[mean.transport, mean.library] = mean  # the last one is that of all ranks
    for (transport, name), mean in overall.items():
        above = f"{mean.above_1} of {mean.cells} cells above 1"
        parts.append(f'<div class="tile"><span class="what">{variant_text(transport, name)}</span>'
                     f'<b>{mean.geometric_mean:.2f}</b><span>{above}</span></div>')
    return '<div class="tiles">' + "".join(parts) + "</div>"


# ---- all ratios at a glance -------------------------------------------------


def step(ratio):
    return next(i for i, end in enumerate(STEPS) if ratio <= end)


def ratio_cell(cell, name, titles, span=1):
    ratio = cell.ratio(name).value if cell else math.nan
    wide = f' colspan="{span}"' if span > 1 else ""
    if math.isnan(ratio):
        return f"<td{wide}></td>"
    said = (f"{tables.name_of(cell.collective)} {tables.size_text(cell.bytes)}, {cell.ranks} ranks: "
            f"{tables.time_text(cell.figures[name].median_us)}")
    if cell.best_peer:
        said += (f" against {tables.time_text(cell.figures[cell.best_peer].median_us)} of "
                 f"{titles.get(cell.best_peer, cell.best_peer)}")
    mark = "*" if cell.lacks_a_peer() else ""
    return f'<td class="r{step(ratio)}"{wide} title="{escape(said)}">{ratio:.2f}{mark}</td>'


def heat_map(cells, transport, name, sizes, titles):
    mine = [c for c in cells if c.transport == transport]
    ranks = list(dict.fromkeys(c.ranks for c in mine))
    head = "".join(f'<td class="gap"></td><th colspan="{len(sizes)}">{n} ranks</th>' for n in ranks)
    second = ('<td class="gap"></td>' + "".join(f"<th>{short_size(s)}</th>" for s in sizes)) * len(ranks)
    rows = []
    for collective in dict.fromkeys(c.collective for c in mine):
        if not any(name in c.ratios for c in mine if c.collective == collective):
            continue
        row = [f"<th>{tables.name_of(collective)}</th>"]
        for n in ranks:
            row.append('<td class="gap"></td>')
            group = {c.bytes: c for c in mine if (c.ranks, c.collective) == (n, collective)}
            if 0 in group:
                row.append(ratio_cell(group[0], name, titles, len(sizes)))
                continue
            row += [ratio_cell(group.get(collectives.rounded(collective, n, size)), name, titles)
                    for size in sizes]
        rows.append("<tr>" + "".join(row) + "</tr>")
    return (f"<h3>{variant_text(transport, name)}</h3>"
            f'<div class="wide"><table class="heat"><thead><tr><td></td>{head}</tr>'
            f"<tr><td></td>{second}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>")


def step_legend():
    parts = "".join(f'<span class="step r{i}">{text}</span>' for i, text in enumerate(STEP_TEXTS))
    return f'<p class="steps">ours / fastest peer: {parts}</p>'


def short_size(size):
    return tables.size_text(size).replace("iB", "").replace(" ", "")


# ---- curves -----------------------------------------------------------------


def curves_of(cells, libraries, x_of, floor_of):
    """Returns the curves of one collective; ours last, so that they are drawn on top."""
    shown = sorted(tables.present(cells, libraries), key=lambda l: (l.ours, l.name == OURS))
    curves = []
    floors = [(x_of(c), floor_of(c)) for c in cells]
    floors = [(x, us) for x, us in floors if not math.isnan(us) and us > 0]
    if floors:
        curves.append(charts.Curve("line-floor", "limit", "the machine's limit", floors))
    for library in shown:
        points = [(x_of(c), c.figures[library.name].median_us)
                  for c in cells if library.name in c.figures]
        curves.append(charts.Curve("line-" + library.name, library.label or library.title,
                                   library.title, points))
    return curves


def legend(cells, libraries):
    shown = [("line-" + l.name, l.title) for l in tables.present(cells, libraries)]
    shown.append(("line-floor", "the machine's limit"))
    parts = "".join(
        f'<span class="key"><svg viewBox="0 0 26 8"><path class="line {kind}" d="M1 4 L25 4"/>'
        f"</svg>{escape(title)}</span>" for kind, title in shown)
    return f'<p class="legend">{parts}</p>'


def size_charts(group, libraries, floor_of, sizes):
    axis = charts.Axis([(s, short_size(s)) for s in sizes], "bytes of the larger buffer")
    of_collective = {}
    for cell in group:
        if cell.bytes > 0:
            of_collective.setdefault(cell.collective, []).append(cell)
    # Sizes that were rounded to blocks are clamped to the axis.
    def x_of(cell):
        return min(max(cell.bytes, sizes[0]), sizes[-1])
    curves = {name: curves_of(cells, libraries, x_of, floor_of)
              for name, cells in of_collective.items()}
    decades = charts.decades_of([c for some in curves.values() for c in some])
    return [charts.chart(tables.name_of(name), some, axis, decades)
            for name, some in curves.items()]


def barrier_chart(cells, libraries, floor_of):
    """Returns a chart over ranks, because a barrier has no size."""
    barriers = [c for c in cells if c.bytes == 0]
    if not barriers:
        return ""
    axis = charts.Axis([(c.ranks, str(c.ranks)) for c in barriers], "ranks")
    curves = curves_of(barriers, libraries, lambda cell: cell.ranks, floor_of)
    return charts.chart("barrier", curves, axis, charts.decades_of(curves))


def transport_section(transport, cells, libraries, limits, sizes):
    def floor_of(cell):
        return machine_limits.floor_us(limits, cell.transport, cell.ranks, cell.collective,
                                       cell.bytes)
    mine = [c for c in cells if c.transport == transport]
    parts = [f'<section><h2 id="{transport}">Curves: {transport}</h2>', legend(mine, libraries)]
    figures = barrier_chart(mine, libraries, floor_of)
    parts += ['<div class="charts">' + figures + "</div>"] if figures else []
    for (_, ranks), group in tables.groups_of(mine):
        parts.append(f"<h3>{transport}, {ranks} ranks</h3>")
        parts.append('<div class="charts">'
                     + "".join(size_charts(group, libraries, floor_of, sizes)) + "</div>")
        parts.append(f"<details><summary>All figures of {transport}, {ranks} ranks, in µs unless "
                     "said otherwise</summary>"
                     + html_table(tables.cells_table(group, libraries, limits)) + "</details>")
    return "".join(parts) + "</section>"


# ---- the page ---------------------------------------------------------------


def columns_of(cells):
    """Returns the requested sizes, as allreduce and others have them; those of blocks only if there
    are no others."""
    whole = {c.bytes for c in cells if c.bytes > 0
             and collectives.blocks(c.collective, c.ranks) == 1}
    return sorted(whole or {c.bytes for c in cells if c.bytes > 0}) or [4, 8]


def render(run, cells, libraries):
    limits, sizes = run["limits"], columns_of(cells)
    transports = list(dict.fromkeys(c.transport for c in cells))
    titles = {library.name: library.title for library in libraries}
    peers = [library.title for library in tables.present(cells, libraries) if not library.ours]
    maps = [heat_map(cells, transport, name, sizes, titles)
            for transport in transports for name in (OURS, OURS_ALLOC)
            if any(name in c.ratios for c in cells if c.transport == transport)]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<title>gloo_c, side by side</title>", f"<style>{style()}</style></head><body>",
        f"<h1>gloo_c beside {escape(', '.join(peers) or 'nothing else')}</h1>",
        f"<p>{escape(tables.machine_text(run['machine']))}</p>",
        f"<p><code>{escape(run['command'])}</code></p>",
        "<h2>Our time divided by that of the fastest peer</h2>",
        "<p>Geometric means; below 1 we are faster than all of them.</p>", tiles(cells),
        "<p>Each cell; a star says that a peer is missing, since it failed or did not finish in time.</p>",
        step_legend(), *maps,
        "<h2>Against the machine itself</h2>",
        html_table(tables.against_table(run["against"]) or "Not measured."),
        *[transport_section(t, cells, libraries, limits, sizes) for t in transports],
        "<h2>Cells above 1</h2>", html_table(tables.above_table(cells, libraries)),
        "<h2>The machine's limits</h2>", html_table(tables.limits_table(limits)),
    ]
    if tables.notes_of(run, cells):
        notes = "".join(f"<li>{escape(note)}</li>" for note in tables.notes_of(run, cells))
        parts.append(f"<h2>Notes</h2><ul>{notes}</ul>")
    return "".join(parts) + "</body></html>\n"
