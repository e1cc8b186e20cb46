"""Runs faulty histories, and prints what they had: `python -m tests.histories`."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from tests.histories import workers

if TYPE_CHECKING:
    from tests.histories.history import Outcome

Row = Sequence[str | int]
EVERY = 50  # histories between two lines of progress


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", default=1, show_default=True, help="The first seed; each history has the next.")
@click.option("--histories", "count", default=200, show_default=True)
@click.option("--processes", default=os.cpu_count() or 1, show_default=True, help="Worker processes.")
def main(seed: int, count: int, processes: int) -> None:
    """Run histories with injected faults, and check every invariant.

    Each follows from its seed: `--seed S --histories 1` repeats one. Exits with 1 if an invariant fails, and
    when it is interrupted.
    """
    workers.set_environment()
    outcomes: list[Outcome] = []
    begin = time.perf_counter()
    try:
        for outcome in workers.run_all(range(seed, seed + count), processes):
            outcomes.append(outcome)
            if outcome.differences:
                again = f"python -m tests.histories --seed {outcome.seed} --histories 1"
                lines = [f"seed {outcome.seed} has a difference; repeat: {again}", *outcome.differences[:5]]
                click.echo("\n".join(lines), err=True)
            if len(outcomes) % EVERY == 0:
                click.echo(f"{len(outcomes):,} of {count:,} histories", err=True)
    except KeyboardInterrupt:
        click.echo("Interrupted. The tables show the histories that ended.", err=True)
    click.echo(f"`python -m tests.histories --seed {seed} --histories {count}`\n\n{describe_machine()}\n")
    click.echo(report(outcomes, time.perf_counter() - begin))
    sys.exit(len(outcomes) < count or any(outcome.differences for outcome in outcomes))


# -- tables ----------------------------------------------------------------------------------------


def table(title: str, columns: Row, rows: Iterable[Row]) -> str:
    """Return a Markdown table."""

    def line(cells: Row) -> str:
        texts = (f"{cell:,}" if isinstance(cell, int) else cell.replace("|", "\\|") for cell in cells)
        return f"| {' | '.join(texts)} |"

    return "\n".join([f"**{title}**", "", line(columns), "|---" * len(columns) + "|", *map(line, rows)])


def report(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Return the totals of some histories, their faults, and the differences."""
    faults = sum((outcome.faults for outcome in outcomes), start=Counter[str]())
    totals: list[Row] = [
        ("histories", len(outcomes)),
        ("invocations of handlers", sum(outcome.invocations for outcome in outcomes)),
        ("calls of the table", sum(outcome.calls for outcome in outcomes)),
        ("stream records", sum(outcome.records for outcome in outcomes)),
        ("faults", faults.total()),
        ("minutes", f"{seconds / 60:.2f}"),
        ("histories with a difference", sum(bool(outcome.differences) for outcome in outcomes)),
    ]
    different = [(str(outcome.seed), text) for outcome in outcomes for text in outcome.differences[:5]]
    parts = [table("Run", ("", "number"), totals)]
    parts.append(table("Faults of each kind", ("fault", "times"), sorted(faults.items())))
    return "\n\n".join(parts + [table("Differences", ("seed", "difference"), different)] * bool(different))


def describe_machine() -> str:
    """Return the engine, the processor and the versions of a run."""
    from local.engines.dynoxide import VERSION

    versions = ", ".join(f"{name} {version(name)}" for name in ("boto3", "chalice", "greenlet"))
    return f"dynoxide {VERSION}, {os.cpu_count()} cores, Python {platform.python_version()}, {versions}."


if __name__ == "__main__":
    main()
