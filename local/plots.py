"""Plots of measurements as lines of text, which a terminal and a Markdown page show alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

WIDTH, HEIGHT = 60, 8  # characters
WIDE = 50  # times the least number, from which on the scale is logarithmic
BLOCKS = " ▁▂▃▄▅▆▇█"


def bars(rows: Sequence[tuple[str, Sequence[float | None]]], marks: str) -> Iterator[str]:
    """Yield a line for each row: a bar for its first number, and a letter where each of the others ends.

    The last line is the scale, which is the same for all.
    """
    known = [number for _, numbers in rows for number in numbers if number]
    least, most = min(known), max(known)
    is_log, indent = most > WIDE * least, max(len(label) for label, _ in rows)

    def end(number: float) -> int:
        share = math.log(number / least, most / least) if is_log else number / most
        return 1 + round((WIDTH - 1) * share)

    for label, (first, *others) in rows:
        line = list(("█" * end(first) if first else "").ljust(WIDTH))
        for mark, number in zip(marks, others, strict=True):
            if number:
                line[end(number) - 1] = mark
        yield f"{label:<{indent}} │{''.join(line)}".rstrip()
    left, right = (f"{number:,.4f}".rstrip("0").rstrip(".") for number in (least if is_log else 0, most))
    right += " (logarithmic)" * is_log
    yield f"{'':<{indent}} └{left:<{WIDTH - len(right)}}{right}"


def columns(points: Iterable[tuple[float, float]], end: float, marks: Sequence[float] = ()) -> Iterator[str]:
    """Yield a plot of values over the time from 0 to `end`: in each column the largest value of its time.

    The last line has an × for each mark.
    """
    largest = [0.0] * WIDTH
    for time, value in points:
        column = _column(time, end)
        largest[column] = max(largest[column], value)
    top, steps = max(largest) or 1.0, len(BLOCKS) - 1
    levels = [math.ceil(value / top * HEIGHT * steps) for value in largest]
    for row in reversed(range(HEIGHT)):
        cells = "".join(BLOCKS[min(max(level - row * steps, 0), steps)] for level in levels)
        yield f"{f'{top:.1f}' if row == HEIGHT - 1 else '':>5} │{cells}".rstrip()
    yield f"{'0':>5} └{'─' * WIDTH}"
    marked = {_column(time, end) for time in marks}
    yield "".join(["       ", *("×" if column in marked else " " for column in range(WIDTH))]).rstrip()


def _column(time: float, end: float) -> int:
    return min(max(int(time / end * WIDTH), 0), WIDTH - 1)
