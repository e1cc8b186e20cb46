"""Draws plots as SVG: lines on two logarithmic axes, which read in light and in dark.

A plot of three lines is some forty elements; a library for it would be the bench's largest dependency.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from xml.sax.saxutils import escape

from bench.report import Plot, text

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 40, 62, 50
OURS, PUBLISHED, FLOOR = ("#0b7285", "#e67700"), "#c92a2a", "#868e96"
LETTER = 6.8  # pixels that a letter of a legend takes, on average
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#343a40}.title{font-size:15px;font-weight:600}"
    ".grid{stroke:#ced4da;stroke-width:1}rect{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#dee2e6}.grid{stroke:#495057}rect{fill:#1a1d20}}"
)


def svg(plot: Plot) -> str:
    """Draw a plot. Every number must be above zero."""
    xs = [x for points in plot.series.values() for x, _ in points]
    ys = [y for points in plot.series.values() for _, y in points]
    across, up = _Axis(xs, LEFT, WIDTH - RIGHT), _Axis(ys, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(plot.title)}</title><style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="title" x="{LEFT}" y="22">{escape(plot.title)}</text>',
        *_grid(across, up),
        f'<g text-anchor="middle"><text x="{WIDTH / 2}" y="{HEIGHT - 12}">{escape(plot.x)}</text>',
        f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)">{escape(plot.y)}</text></g>',
    ]
    at = float(LEFT)
    for name, colour in _colours(plot.series):
        parts += _line(name, plot.series[name], colour, across, up)
        parts.append(f'<circle cx="{at + 5:.0f}" cy="43" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{at + 15:.0f}" y="47">{escape(name)}</text>')
        at += 40 + LETTER * len(name)
    return "\n".join([*parts, "</svg>", ""])


def _colours(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Give the same design the same colour in every plot."""
    ours = iter(OURS)
    for name in names:
        yield name, PUBLISHED if name.startswith("published") else FLOOR if name == "floor" else next(ours)


class _Axis:
    """Turns values into pixels; its ticks are the powers of ten around them, or of two when those are few."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        wide = max(values) >= 100 * min(values)
        self._base = 10 if wide else 2
        self._low = math.floor(math.log(min(values), self._base) + 1e-9)
        self._high = max(self._low + 1, math.ceil(math.log(max(values), self._base) - 1e-9))
        self._begin, self._end = begin, end

    def __call__(self, value: float) -> float:
        part = (math.log(value, self._base) - self._low) / (self._high - self._low)
        return round(self._begin + part * (self._end - self._begin), 1)

    @property
    def ticks(self) -> list[float]:
        return [float(self._base) ** power for power in range(self._low, self._high + 1)]


def _grid(across: _Axis, up: _Axis) -> Iterator[str]:
    for x in across.ticks:
        at = across(x)
        yield f'<line class="grid" x1="{at}" y1="{TOP}" x2="{at}" y2="{HEIGHT - BOTTOM}"/>'
        yield f'<text x="{at}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{_tick(x)}</text>'
    for y in up.ticks:
        at = up(y)
        yield f'<line class="grid" x1="{LEFT}" y1="{at}" x2="{WIDTH - RIGHT}" y2="{at}"/>'
        yield f'<text x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{_tick(y)}</text>'


def _tick(value: float) -> str:
    return text(int(value)) if value >= 1 else f"{value:g}"


def _line(
    name: str, points: Sequence[tuple[float, float]], colour: str, across: _Axis, up: _Axis
) -> Iterator[str]:
    places = [(across(x), up(y)) for x, y in points]
    path = " ".join(f"{x},{y}" for x, y in places)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
    for (x, y), (at_x, at_y) in zip(places, points, strict=True):
        told = f"{escape(name)}: {text(at_x)}, {text(at_y)}"
        yield f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"><title>{told}</title></circle>'
