"""One page of results: a table for each question, and two pictures."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from local.engines.engine import ROOT

FOLDER = ROOT / "bench"
Cell = str | int | float | None


class Answer(NamedTuple):
    """The answer to a question: a table whose first column names the case, and how it was measured."""

    question: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    def markdown(self) -> Iterator[str]:
        """Yield the lines of the section."""
        yield from (f"\n## {self.question}\n", f"| {' | '.join(self.columns)} |")
        yield f"|---|{'---:|' * (len(self.columns) - 1)}"
        yield from (f"| {' | '.join(map(format_cell, row))} |" for row in self.rows)
        yield f"\n{self.note}" if self.note else ""


def format_cell(cell: Cell) -> str:
    """Return a cell as text; an en dash for a figure that does not exist."""
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}" if abs(cell) < 0.1 else f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def write(answers: Sequence[Answer], minutes: float, is_quick: bool) -> Path:
    """Write RESULTS.md and return its path."""
    pictures = [
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{name}-dark.svg">'
        f'<img src="{name}-light.svg" alt="{text}"></picture>'
        for name, text in (("view", "WCU of a view, by design"), ("rank", "RRU of a rank, by players"))
    ]
    numbers = ", **with small numbers**" if is_quick else ""
    head = f"""# Costs and times

`make bench` wrote this page on {datetime.now(UTC):%d %B %Y}, in {minutes:.0f} minutes{numbers}.
{describe_machine()}.

*Published* is the usual design for the same question, in the least form that does what its description says.
Units are write and read units (WCU, RCU; on demand WRU, RRU), computed from the items by AWS's rules. Times
are those of this machine, and not of AWS.
"""
    lines = [head, *pictures, *(line for answer in answers for line in answer.markdown())]
    file = FOLDER / "RESULTS.md"
    file.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return file


def describe_machine() -> str:
    """Return the cores, the versions, the commit and the load of this machine."""
    git = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, "
        f"commit {commit.stdout.strip() or 'unknown'}, load {load:.1f} at the start"
    )


def draw(answers: Sequence[Answer]) -> None:
    """Draw the two pictures, light and dark: the cost of a view, and of a rank by the number of players."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "hubbub"
    from matplotlib import pyplot

    views = answers[0]
    ranks = next(answer for answer in answers if answer.question.startswith("What does a rank"))
    for theme, ink, paper in (("light", "#1f2328", "#ffffff"), ("dark", "#e6edf3", "#0d1117")):
        matplotlib.rcParams.update(
            dict.fromkeys(
                ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink
            )
        )
        figure, axes = pyplot.subplots(figsize=(7, 2.6), facecolor=paper, layout="constrained")
        cases: Any = [row[0] for row in views.rows]
        for offset, (column, color) in enumerate(((1, "#2f81f7"), (2, "#db6d28"))):
            places = [index + 0.35 * (offset - 0.5) for index in range(len(cases))]
            bars = axes.barh(places, [float(row[column] or 0) for row in views.rows], 0.33, color=color)
            axes.bar_label(bars, fmt="%.2f", padding=3)
            bars.set_label(views.columns[column])
        axes.set_yticks(range(len(cases)), cases)
        axes.invert_yaxis()
        _finish(figure, axes, "WCU for each view", paper, f"view-{theme}")
        figure, axes = pyplot.subplots(figsize=(7, 3), facecolor=paper, layout="constrained")
        for column, color in ((1, "#2f81f7"), (2, "#db6d28")):
            points = [(int(str(row[0]).replace(",", "")), float(row[column] or 0)) for row in ranks.rows]
            axes.loglog(*zip(*points, strict=True), "o-", color=color, label=ranks.columns[column])
        axes.set_ylabel("RRU for each rank")
        _finish(figure, axes, "players", paper, f"rank-{theme}")


def _finish(figure: Any, axes: Any, label: str, paper: str, name: str) -> None:
    axes.set_facecolor(paper)
    axes.set_xlabel(label)
    axes.legend(facecolor=paper, edgecolor="none")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
