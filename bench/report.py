"""What a measurement has to say: its method, its tables, and whether its targets are met."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

Cell = str | int | float


class Target(NamedTuple):
    """A figure and its bound. One that is not strict is shown and does not decide the exit code."""

    name: str
    measured: float
    bound: float
    at_most: bool = True
    strict: bool = True

    @property
    def met(self) -> bool:
        """Tell whether the figure is within its bound, the bound included."""
        return self.measured <= self.bound if self.at_most else self.measured >= self.bound


@dataclass
class Figures:
    """One table: its title with the units, its columns, its rows."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[Cell]] = field(default_factory=list)


@dataclass
class Report:
    """Some measurements made in one run; `method` says how, a paragraph each."""

    method: list[str] = field(default_factory=list)
    figures: list[Figures] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)

    def __add__(self, other: Report) -> Report:
        """Put two reports one behind the other."""
        return Report(self.method + other.method, self.figures + other.figures, self.targets + other.targets)

    @property
    def met(self) -> bool:
        """Tell whether every strict target is met."""
        return all(target.met for target in self.targets if target.strict)

    def as_json(self) -> str:
        """Write the report as one JSON object."""
        targets = [{**target._asdict(), "met": target.met} for target in self.targets]
        return json.dumps({**asdict(self), "targets": targets, "met": self.met}, indent=2)

    def show(self, console: Console) -> None:
        """Print the method first, then the tables, then the targets."""
        for paragraph in self.method:
            console.print(paragraph, markup=False, highlight=False)
            console.print()
        for figures in self.figures:
            table = Table(*figures.columns, title=figures.title, title_justify="left")
            for column in table.columns[1:]:
                column.justify = "right"
            for row in figures.rows:
                table.add_row(*map(text, row))
            console.print(table)
        for target in self.targets:
            word = "met" if target.met else "MISSED"
            sign = "<=" if target.at_most else ">="
            loose = "" if target.strict else " (for information)"
            console.print(
                f"{word:6} {target.name}: {text(target.measured)} {sign} {text(target.bound)}{loose}",
                markup=False,
                highlight=False,
            )


def text(cell: Cell) -> str:
    """Write a cell as a person reads it."""
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}" if abs(cell) < 0.1 else f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else cell
