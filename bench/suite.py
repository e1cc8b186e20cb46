"""All measurements in one run, each on a fresh engine, and the document that says what they found."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench import machine, results
from bench.report import Report
from local.engine import Engine, start


class Measurement(NamedTuple):
    """A module that measures, the engine that it asks for, and how many minutes it takes on two cores."""

    name: str
    engine: str
    minutes: float

    def run(self, shared: Engine | None) -> Report:
        """Measure on an engine of its own, or quickly on a shared one. Raises EngineUnavailable."""
        measure: Callable[..., Report] = importlib.import_module(f"bench.{self.name}").measure
        if shared:
            return measure(shared, True)
        with start(self.engine, data=None) as engine:
            return measure(engine, False)


ALL = (
    Measurement("profile", "dynoxide", 2),  # first: while the machine is idle
    Measurement("views", "dynoxide", 5),
    Measurement("millions", "dynoxide", 5),
    Measurement("leaderboards", "dynoxide", 5),
    Measurement("challenges", "dynoxide", 1),
    Measurement("comments", "dynoxide", 2),
    Measurement("chat", "dynoxide", 1),
)


def run(folder: Path, quick: bool, console: Console) -> bool:
    """Measure everything and write the document; tell whether every strict target is met.

    `quick` measures small numbers, all on one embedded engine.
    """
    numbers = "**small ones**, of `make bench ARGS=--quick`: times say little" if quick else "full"
    facts, begun = machine.facts() | {"numbers": numbers}, time.monotonic()
    reports: dict[str, Report] = {}
    if not quick:
        total = sum(one.minutes for one in ALL)
        console.print(f"about {total:.0f} minutes on two idle cores; the document goes to {folder}")
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with contextlib.ExitStack() as opened:
        shared = opened.enter_context(start("dynoxide", data=None)) if quick else None
        progress = opened.enter_context(Progress(*columns, console=console))
        for one in ALL:
            expected = "" if quick else f" (about {one.minutes:g} min)"
            task = progress.add_task(one.name + expected, total=1)
            reports[one.name] = one.run(shared)
            progress.update(task, completed=1)
    console.print(f"written: {results.write(folder, facts, reports, time.monotonic() - begun)}")
    targets = [target for report in reports.values() for target in report.targets if target.strict]
    for target in targets:
        if not target.met:
            console.print(f"MISSED {target.name}: {target.measured:g}, bound {target.bound:g}")
    return all(target.met for target in targets)
