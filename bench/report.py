"""The report of a measurement: its method, its tables, and whether its targets are met."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from local import plots
from local.soak.target import Target

Cell = str | int | float


@dataclass
class Figures:
    """One table: its title with the units, its columns, its rows."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[Cell]] = field(default_factory=list)

    def markdown(self) -> Iterator[str]:
        """Yield the lines of the table in Markdown."""
        yield f"| {' | '.join(self.columns)} |"
        yield f"|---|{'---:|' * (len(self.columns) - 1)}"
        yield from (f"| {' | '.join(text(cell).replace('|', '¦') for cell in row)} |" for row in self.rows)


class Result(NamedTuple):
    """One case of a question: our figure, the published design's, and the least that DynamoDB could charge.

    None where there is no such figure.
    """

    case: str
    ours: float
    published: float | None = None
    floor: float | None = None


@dataclass
class Question:
    """A question about the designs, with the results side by side in one `unit`."""

    title: str
    unit: str
    results: list[Result] = field(default_factory=list)

    @property
    def figures(self) -> Figures:
        """Return the results as a table, with the ratios."""
        columns = (self.unit, "ours", "published", "floor", "ours : published", "ours : floor")
        rows: list[Sequence[Cell]] = []
        for case, ours, *others in self.results:
            cells = ["–" if number is None else number for number in (ours, *others)]
            rows.append((case, *cells, *(ours / number if number else "–" for number in others)))
        return Figures(self.title, columns, rows)

    def plot(self) -> Iterator[str]:
        """Yield the lines of a plot in Markdown: bars are ours, P is the published design, F the floor."""
        yield from ("", "```text", f"{self.unit}: bars are ours, P is published, F is the floor", "")
        yield from (*plots.bars([(one.case, one[1:]) for one in self.results], "PF"), "```")


@dataclass
class Report:
    """Measurements of one run; `method` has a paragraph for each."""

    method: list[str] = field(default_factory=list)
    figures: list[Figures] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)

    def __add__(self, other: Report) -> Report:
        """Return both reports as one."""
        return Report(
            *(mine + theirs for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True))
        )

    @property
    def met(self) -> bool:
        """Return whether every strict target is met."""
        return all(target.met for target in self.targets if target.strict)

    def as_json(self) -> str:
        """Return the report as one JSON object."""
        targets = [{**target._asdict(), "met": target.met} for target in self.targets]
        return json.dumps({**asdict(self), "targets": targets, "met": self.met}, indent=2)

    def show(self, console: Console) -> None:
        """Print the method, then the tables, then the targets."""
        for paragraph in self.method:
            console.print(f"{paragraph}\n", markup=False, highlight=False)
        targets = Figures("Targets", ("target", "measured", "bound", ""), list(map(target_row, self.targets)))
        for figures in (*(question.figures for question in self.questions), *self.figures, targets):
            table = Table(*figures.columns, title=figures.title, title_justify="left")
            for column in table.columns[1:]:
                column.justify = "right"
            for row in figures.rows:
                table.add_row(*map(text, row))
            console.print(table)


def target_row(target: Target) -> tuple[str, str, str, str]:
    """Return a target as a row of a table."""
    word = ("met" if target.met else "**missed**") + ("" if target.strict else ", for information")
    return target.name, text(target.measured), f"{'≤' if target.at_most else '≥'} {text(target.bound)}", word


def text(cell: Cell) -> str:
    """Return a cell as text."""
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}" if abs(cell) < 0.1 else f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else cell
