"""Draws plots as SVG: lines on two logarithmic axes, readable in light and in dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from xml.sax.saxutils import escape

from bench.report import Plot, text

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 400, 70, 40, 62, 50
OURS, PUBLISHED, FLOOR = ("#0b7285", "#e67700"), "#c92a2a", "#868e96"
LETTER = 6.8  # pixels of a letter of the legend, on average
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#343a40}.title{font-size:15px;font-weight:600}"
    ".grid{stroke:#ced4da;stroke-width:1}rect{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#dee2e6}.grid{stroke:#495057}rect{fill:#1a1d20}}"
)


def svg(plot: Plot) -> str:
    """Return a plot as SVG. Every number must be above zero."""
    across, columns = _axis([x for points in plot.series.values() for x, _ in points], LEFT, WIDTH - RIGHT)
    up, rows = _axis([y for points in plot.series.values() for _, y in points], HEIGHT - BOTTOM, TOP)
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(plot.title)}</title><style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="title" x="{LEFT}" y="22">{escape(plot.title)}</text>',
    ]
    for x in columns:
        parts.append(f'<line class="grid" x1="{across(x)}" y1="{TOP}" x2="{across(x)}" y2="{bottom}"/>')
        parts.append(f'<text x="{across(x)}" y="{bottom + 18}" text-anchor="middle">{_tick(x)}</text>')
    for y in rows:
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{up(y)}" x2="{right}" y2="{up(y)}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{up(y) + 4}" text-anchor="end">{_tick(y)}</text>')
    parts.append(f'<g text-anchor="middle"><text x="{WIDTH / 2}" y="{HEIGHT - 12}">{escape(plot.x)}</text>')
    parts.append(f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)">{escape(plot.y)}</text></g>')
    at, ours = float(LEFT), iter(OURS)
    for name, points in plot.series.items():
        colour = PUBLISHED if name.startswith("published") else FLOOR if name == "floor" else next(ours)
        parts += _line(name, points, colour, across, up)
        parts.append(f'<circle cx="{at + 5:.0f}" cy="43" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{at + 15:.0f}" y="47">{escape(name)}</text>')
        at += 40 + LETTER * len(name)
    return "\n".join([*parts, "</svg>", ""])


def _axis(values: Sequence[float], begin: float, end: float) -> tuple[Callable[[float], float], list[float]]:
    """Return the pixel of each value, and the ticks: powers of ten, or of two when those are few."""
    base = 10 if max(values) >= 100 * min(values) else 2
    low = math.floor(math.log(min(values), base) + 1e-9)
    high = max(low + 1, math.ceil(math.log(max(values), base) - 1e-9))

    def pixel(value: float) -> float:
        return round(begin + (math.log(value, base) - low) / (high - low) * (end - begin), 1)

    return pixel, [float(base) ** power for power in range(low, high + 1)]


def _tick(value: float) -> str:
    return text(int(value)) if value >= 1 else f"{value:g}"


def _line(
    name: str,
    points: Sequence[tuple[float, float]],
    colour: str,
    across: Callable[[float], float],
    up: Callable[[float], float],
) -> Iterator[str]:
    path = " ".join(f"{across(x)},{up(y)}" for x, y in points)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
    for x, y in points:
        label = f"<title>{escape(name)}: {text(x)}, {text(y)}</title>"
        yield f'<circle cx="{across(x)}" cy="{up(y)}" r="4" fill="{colour}">{label}</circle>'
