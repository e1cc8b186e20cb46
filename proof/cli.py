"""The command of the proof: faulty histories, and their results as Markdown tables."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import click

from proof import runner

if TYPE_CHECKING:
    from proof.history import Outcome

Row = Sequence[str | int]
EVERY = 50  # histories between two lines of progress
PAGE = click.Path(path_type=Path, exists=True)
FILE = click.Path(path_type=Path, dir_okay=False)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Run the app through faulty histories, and check its invariants."""
    runner.set_environment()


@main.command()
@click.option("--seed", default=1, show_default=True, help="The first seed; each history has the next.")
@click.option("--histories", "count", default=200, show_default=True)
@click.option("--processes", default=2, show_default=True, help="The number of worker processes.")
@click.option("--engine", "kind", default=runner.IN_PROCESS, show_default=True, metavar="KIND|URL")
@click.option("--write", "page", type=PAGE, help="Write the tables between the marks of a page.")
@click.option("--outcomes", "log", type=FILE, help="Keep the outcomes in this file; skip those it has.")
def histories(seed: int, processes: int, kind: str, page: Path | None, log: Path | None, count: int) -> None:
    """Run histories with injected faults, and check every invariant.

    Each follows from its seed: `--seed S --histories 1` repeats one. Exits with 1 if an invariant fails, and
    when it is interrupted.
    """
    seeds = range(seed, seed + count)
    outcomes, seconds = read(log, seeds) if log else ([], 0.0)
    left = set(seeds) - {outcome.seed for outcome in outcomes}
    began = time.perf_counter() - seconds
    try:
        for outcome in runner.histories(kind, sorted(left), processes):
            outcomes.append(outcome)
            if log:
                keep(log, outcome, time.perf_counter() - began)
            if outcome.differences:
                again = f"python -m proof histories --seed {outcome.seed} --histories 1"
                lines = [f"seed {outcome.seed} has a difference; repeat: {again}", *outcome.differences[:5]]
                click.echo("\n".join(lines), err=True)
            if len(outcomes) % EVERY == 0:
                click.echo(f"{len(outcomes):,} of {count:,} histories", err=True)
    except KeyboardInterrupt:
        click.echo("Interrupted. The tables show the histories that ended.", err=True)
    command = f"python -m proof histories --seed {seed} --histories {count}"
    show("histories", command, kind, histories_report(outcomes, time.perf_counter() - began), page)
    sys.exit(len(outcomes) < count or any(outcome.differences for outcome in outcomes))


def keep(log: Path, outcome: Outcome, seconds: float) -> None:
    """Append an outcome to a file, with the seconds that the run has taken."""
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"seconds": seconds} | vars(outcome)) + "\n")


def read(log: Path, seeds: range) -> tuple[list[Outcome], float]:
    """Read the outcomes of these seeds from a file, and the seconds that their run has taken."""
    from proof.history import Outcome

    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    rows = [json.loads(line) for line in lines]
    seconds = max((row.pop("seconds") for row in rows), default=0.0)
    kept = [Outcome(**row | {"faults": Counter(row["faults"])}) for row in rows]
    return [outcome for outcome in kept if outcome.seed in seeds], seconds


def show(mark: str, command: str, kind: str, tables: str, page: Path | None) -> None:
    """Print the tables, and write them into a page."""
    text = "\n\n".join([f"`{command}`", machine(kind), tables])
    click.echo(text)
    if page:
        write(page, mark, text)


# -- tables ----------------------------------------------------------------------------------------


def table(title: str, columns: Row, rows: Iterable[Row]) -> str:
    """Return a Markdown table."""

    def line(cells: Row) -> str:
        texts = (f"{cell:,}" if isinstance(cell, int) else cell.replace("|", "\\|") for cell in cells)
        return f"| {' | '.join(texts)} |"

    return "\n".join([f"**{title}**", "", line(columns), "|---" * len(columns) + "|", *map(line, rows)])


def histories_report(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Return the totals of some histories, their faults, and the differences."""
    faults = sum((one.faults for one in outcomes), start=Counter[str]())
    totals: list[Row] = [
        ("histories", len(outcomes)),
        ("invocations of handlers", sum(one.invocations for one in outcomes)),
        ("calls of the table", sum(one.calls for one in outcomes)),
        ("stream records", sum(one.records for one in outcomes)),
        ("faults", faults.total()),
        ("minutes", f"{seconds / 60:.2f}"),
        ("histories with a difference", sum(bool(one.differences) for one in outcomes)),
    ]
    different = [(str(one.seed), text) for one in outcomes for text in one.differences[:5]]
    parts = [table("Run", ("", "number"), totals)]
    parts.append(table("Faults of each kind", ("fault", "times"), sorted(faults.items())))
    return "\n\n".join(parts + [table("Differences", ("seed", "difference"), different)] * bool(different))


def machine(kind: str) -> str:
    """Return the engine, the processor and the versions of a run."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("boto3", "chalice", "ministack", "greenlet"))
    return f"Engine: {kind}. {os.cpu_count()} cores, Python {platform.python_version()}, {versions}."


def write(page: Path, mark: str, text: str) -> None:
    """Replace the part of a page between the marks of this name. Raises ValueError without them."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    old = page.read_text(encoding="utf-8")
    if old.count(begin) != 1 or old.count(end) != 1:
        raise ValueError(f"{page} must have the marks of {mark} once each")
    head, tail = old.partition(begin)[0], old.partition(end)[2]
    page.write_text(f"{head}{begin}\n\n{text}\n\n{end}{tail}", encoding="utf-8")
