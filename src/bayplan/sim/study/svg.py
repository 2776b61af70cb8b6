"""Small pictures as SVG text: lines and points over two axes, with ticks and a legend.

Colours are named by CSS classes, so that the page decides, and works in the dark too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import msgspec

WIDTH, HEIGHT = 560, 260
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 10, 40
COLOURS = 8

Points = Sequence[tuple[float, float]]


class Series(msgspec.Struct, frozen=True):
    """One named line, or cloud of points."""

    name: str
    points: Points
    line: bool = True


def chart(series: Sequence[Series], x: str, y: str) -> str:
    """Draw series over common axes; nothing finite to draw gives an empty text."""
    drawn = [msgspec.structs.replace(s, points=_finite(s.points)) for s in series]
    every = [point for s in drawn for point in s.points]
    if not every:
        return ""
    xs, ys = ticks([p[0] for p in every]), ticks([p[1] for p in every])
    parts = [_axes(xs, ys, x, y)]
    parts += [_series(s, number % COLOURS, xs, ys) for number, s in enumerate(drawn)]
    names = "".join(
        f'<li><i class="c{number % COLOURS}"></i>{escape(s.name)}</li>'
        for number, s in enumerate(drawn)
    )
    label = escape(f"{y} by {x}", quote=True)
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f'{"".join(parts)}</svg><ul class="legend">{names}</ul></figure>'
    )


def _finite(points: Points) -> Points:
    return [point for point in points if all(map(math.isfinite, point))]


def ticks(values: Sequence[float], wanted: int = 5) -> list[float]:
    """Round numbers that span the values."""
    low, high = min(values), max(values)
    if high == low:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    rough = (high - low) / wanted
    unit = 10 ** math.floor(math.log10(rough))
    step = unit * next(m for m in (1, 2, 5, 10) if m * unit >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _place(value: float, marks: Sequence[float], start: float, end: float) -> float:
    return start + (value - marks[0]) / (marks[-1] - marks[0]) * (end - start)


def _x(value: float, marks: Sequence[float]) -> float:
    return _place(value, marks, LEFT, WIDTH - RIGHT)


def _y(value: float, marks: Sequence[float]) -> float:
    return _place(value, marks, HEIGHT - BOTTOM, TOP)


def _axes(xs: Sequence[float], ys: Sequence[float], x: str, y: str) -> str:
    parts = []
    for value in xs:
        at = _x(value, xs)
        parts.append(f'<path class="grid" d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 14}">{value:g}</text>')
    for value in ys:
        at = _y(value, ys)
        parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="end" x="{LEFT - 5}" y="{at + 4:.1f}">{value:g}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}">{escape(x)}</text>')
    turn = f"rotate(-90 12 {middle})"
    parts.append(f'<text x="12" y="{middle}" transform="{turn}">{escape(y)}</text>')
    return "".join(parts)


def _series(series: Series, colour: int, xs: Sequence[float], ys: Sequence[float]) -> str:
    places = [(_x(a, xs), _y(b, ys)) for a, b in series.points]
    if series.line:
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
        return f'<path class="line c{colour}" d="M{path}"/>' if path else ""
    return "".join(
        f'<circle class="dot c{colour}" cx="{a:.1f}" cy="{b:.1f}" r="4"/>' for a, b in places
    )
