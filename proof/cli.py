"""The commands of the proof: faulty histories, and planted faults."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from proof import runner

EVERY = 50  # histories between two lines of progress
KINDS = "in-process|URL|…"
PAGE = click.Path(path_type=Path, exists=True)
OPTIONS = (
    click.option("--seed", default=1, show_default=True, help="The first seed; each history has the next."),
    click.option("--processes", default=2, show_default=True, help="The number of worker processes."),
    click.option("--engine", "kind", default=runner.IN_PROCESS, show_default=True, metavar=KINDS),
    click.option("--write", "page", type=PAGE, help="Write the tables between the marks of a page."),
)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that both commands have."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Run the app through faulty histories, and check its invariants."""
    runner.set_environment()


@main.command()
@options
@click.option("--histories", "count", default=200, show_default=True)
def histories(seed: int, processes: int, kind: str, page: Path | None, count: int) -> None:
    """Run histories with injected faults, and check every invariant.

    Each follows from its seed: `--seed S --histories 1` repeats one. Exits with 1 if an invariant fails.
    """
    from proof import report

    began, outcomes = time.perf_counter(), []
    try:
        for outcome in runner.histories(kind, range(seed, seed + count), processes):
            outcomes.append(outcome)
            if outcome.differences:
                again = f"python -m proof histories --seed {outcome.seed} --histories 1"
                lines = [f"seed {outcome.seed} has a difference; repeat: {again}", *outcome.differences[:5]]
                click.echo("\n".join(lines), err=True)
            if len(outcomes) % EVERY == 0:
                click.echo(f"{len(outcomes):,} of {count:,} histories", err=True)
    except KeyboardInterrupt:
        click.echo("Interrupted. The tables show the histories that ended.", err=True)
    command = f"python -m proof histories --seed {seed} --histories {count}"
    _end("histories", command, kind, report.histories(outcomes, time.perf_counter() - began), page)
    sys.exit(any(outcome.differences for outcome in outcomes))


@main.command()
@options
@click.option("--histories", "count", default=100, show_default=True, help="At most, with each fault.")
@click.argument("names", nargs=-1)
def mutations(
    seed: int, processes: int, kind: str, page: Path | None, count: int, names: tuple[str, ...]
) -> None:
    """Plant faults in the product, one at a time, until an invariant catches each.

    Takes those of proof/mutants.py, or the given NAMES. The exit code is 1 if one is not caught.
    """
    from proof import report
    from proof.mutants import MUTANTS, Unfit

    if unknown := set(names) - MUTANTS.keys():
        raise click.BadParameter(f"no planted fault named {sorted(unknown)[0]!r}")
    chosen, found = names or tuple(MUTANTS), []
    try:
        for one in runner.hunts(kind, chosen, range(seed, seed + count), processes):
            found.append(one)
            click.echo(f"{one.name}: {one.difference or 'NOT CAUGHT'}", err=True)
    except Unfit as error:
        raise click.ClickException(str(error)) from None
    found.sort(key=lambda one: chosen.index(one.name))
    command = f"python -m proof mutations --seed {seed} --histories {count}"
    _end("mutations", command, kind, report.mutants(found, count), page)
    sys.exit(not all(one.difference for one in found))


def _end(mark: str, command: str, kind: str, tables: str, page: Path | None) -> None:
    """Print the tables, and write them into a page."""
    from proof import report

    text = "\n\n".join([f"`{command}`", report.machine(kind), tables])
    click.echo(text)
    if page:
        report.write(page, mark, text)
