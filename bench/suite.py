"""All measurements in one run, each on a fresh engine, and the document that says what they found."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import machine, results
from bench.report import Report
from local.engine import start


class Measurement(NamedTuple):
    """A module that measures, the engine that it asks for, and how many minutes it takes on two cores."""

    name: str
    engine: str
    minutes: float

    def run(self, quick: bool) -> Report:
        """Measure on an engine of its own. Raises EngineUnavailable."""
        measure: Callable[..., Report] = importlib.import_module(f"bench.{self.name}").measure
        with start(self.engine, data=None) as engine:
            return measure(engine, quick)


# DynamoDB Local for ranks: ministack looks at its whole table for each query of an index.
ALL = (
    Measurement("profile", "ministack", 1),  # first: while the machine is idle
    Measurement("views", "ministack", 5),
    Measurement("millions", "ministack", 8),
    Measurement("leaderboards", "dynamodb-local", 9),
    Measurement("challenges", "ministack", 1),
    Measurement("comments", "ministack", 6),
    Measurement("chat", "ministack", 1),
)


def run(folder: Path, quick: bool, console: Console) -> bool:
    """Measure everything and write the document; tell whether every strict target is met."""
    facts = machine.facts()
    begun = time.monotonic()
    reports = {}
    total = sum(one.minutes for one in ALL)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    if not quick:
        console.print(f"about {total:.0f} minutes on two idle cores; the document goes to {folder}")
    with Progress(*columns, console=console) as progress:
        for one in ALL:
            expected = "" if quick else f" (about {one.minutes:g} min)"
            task = progress.add_task(f"{one.name}{expected}", total=1)
            reports[one.name] = one.run(quick)
            progress.update(task, completed=1, description=f"{one.name}")
    file = results.write(folder, facts, reports, time.monotonic() - begun)
    console.print(f"written: {file}")
    for report in reports.values():
        missed = [target for target in report.targets if target.strict and not target.met]
        for target in missed:
            console.print(f"MISSED {target.name}: {target.measured:g}, bound {target.bound:g}")
    return all(report.met for report in reports.values())
