"""Curves of time over size as SVG, both axes logarithmic. Colours are those of
the page (classes line-..., see webpage.py); texts next to the lines say which is
which, and every point says what it is to a pointer that rests on it."""

import math
from dataclasses import dataclass, field
from html import escape

import tables

WIDTH, HEIGHT = 426, 268
LEFT, RIGHT, TOP, BOTTOM = 46, 114, 8, 32
LABEL_GAP = 12.5  # between the baselines of two texts
DECADES = {-2: "10 ns", -1: "0.1 µs", 0: "1 µs", 1: "10 µs", 2: "0.1 ms", 3: "1 ms", 4: "10 ms",
           5: "0.1 s", 6: "1 s", 7: "10 s", 8: "100 s"}


@dataclass
class Curve:
    kind: str  # the class of the line
    label: str  # short, next to its end
    title: str  # long, for a tooltip
    points: list = field(default_factory=list)  # [(x, microseconds)], ascending


@dataclass
class Axis:
    """The values of the x axis, and a label for each."""

    ticks: list  # [(value, text)]
    title: str


def decades_of(curves):
    """Returns the range of y that holds all points, in whole powers of ten."""
    times = [us for curve in curves for _, us in curve.points if us > 0]
    if not times:
        return 0, 1
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    return low, max(high, low + 1)


class Scale:
    def __init__(self, axis, decades):
        values = [value for value, _ in axis.ticks]
        self.first, last = math.log2(values[0]), math.log2(values[-1])
        self.span = last - self.first or 1
        self.low, self.high = decades

    def x(self, value):
        inner = WIDTH - LEFT - RIGHT
        return LEFT + 8 + (math.log2(value) - self.first) / self.span * (inner - 16)

    def y(self, us):
        inner = HEIGHT - TOP - BOTTOM
        return TOP + inner * (self.high - math.log10(us)) / (self.high - self.low)


def grid(axis, scale):
    parts = []
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for decade in range(scale.low, scale.high + 1):
        y = scale.y(10 ** decade)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">'
                     f'{DECADES.get(decade, f"1e{decade} µs")}</text>')
    for value, text in axis.ticks:
        x = scale.x(value)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">'
                     f'{escape(text)}</text>')
    parts.append(f'<text class="tick" x="{(LEFT + right) / 2:.1f}" y="{HEIGHT - 4}" '
                 f'text-anchor="middle">{escape(axis.title)}</text>')
    return parts


def line(curve, axis, scale):
    names = dict(axis.ticks)
    at = [(scale.x(x), scale.y(us), x, us) for x, us in curve.points]
    path = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y, _, _) in enumerate(at))
    parts = [f'<path class="line {curve.kind}" d="{path}"/>']
    for x, y, value, us in at:
        said = f"{curve.title}, {names.get(value, value)}: {tables.time_text(us)}"
        said += "" if said.endswith("s") else " µs"
        parts.append(f'<g class="point {curve.kind}"><title>{escape(said)}</title>'
                     f'<circle class="hit" cx="{x:.1f}" cy="{y:.1f}" r="8"/>'
                     f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/></g>')
    return parts


def spread(wanted, low, high, gap=LABEL_GAP):
    """Returns positions as near to the wanted ones as possible, at least `gap` apart."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    groups = []  # [sum of the first positions that members want, members]
    for i in order:
        groups.append([wanted[i], [i]])
        while len(groups) > 1:
            (a, first), (b, second) = groups[-2:]
            top, next_top = a / len(first), b / len(second)
            if top + gap * len(first) <= next_top:
                break
            groups[-2:] = [[a + b - gap * len(first) * len(second), first + second]]
    places = [0.0] * len(wanted)
    for total, members in groups:
        top = total / len(members)
        for k, i in enumerate(members):
            places[i] = top + gap * k
    # Groups beyond an edge move back, and push the others.
    limit = low
    for i in order:
        places[i] = limit = max(places[i], limit)
        limit += gap
    limit = high
    for i in reversed(order):
        places[i] = limit = min(places[i], limit)
        limit -= gap
    return places


def labels(curves, scale):
    ends = [(scale.x(c.points[-1][0]), scale.y(c.points[-1][1])) for c in curves]
    places = spread([y for _, y in ends], TOP + 6, HEIGHT - BOTTOM - 2)
    parts, x_text = [], WIDTH - RIGHT + 14
    for curve, (x, y), place in zip(curves, ends, places):
        parts.append(f'<path class="leader {curve.kind}" d="M{x + 4:.1f} {y:.1f} '
                     f'L{WIDTH - RIGHT + 2} {y:.1f} L{x_text - 3} {place:.1f}"/>')
        parts.append(f'<text class="label {curve.kind}" x="{x_text}" y="{place + 3.5:.1f}">'
                     f'{escape(curve.label)}</text>')
    return parts


def chart(heading, curves, axis, decades):
    """Returns a figure with its heading; later curves are drawn over earlier ones."""
    curves = [c for c in curves if c.points]
    scale = Scale(axis, decades)
    parts = grid(axis, scale)
    for curve in curves:
        parts += line(curve, axis, scale)
    parts += labels(curves, scale)
    return (f'<figure><figcaption>{escape(heading)}</figcaption>'
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(heading)}">'
            + "".join(parts) + "</svg></figure>")
