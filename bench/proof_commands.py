"""The commands of the proof: faulty histories, the published designs in the same ones, planted faults."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from bench.report import Report

T = TypeVar("T")

EACH = 50  # a line where there is no terminal to draw on
INSIDE = "inside"  # bench/inside.py: not imported for --help


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that both have."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables."),
        click.option(
            "--write", type=click.Path(path_type=Path, exists=True), help="Write the tables into this page."
        ),
        click.option(
            "--engine",
            "kind",
            default=INSIDE,
            show_default=True,
            metavar="inside|dynoxide|ministack|URL",
            help="inside: ministack, asked in the process that lives the history.",
        ),
        click.option("--processes", default=2, show_default=True, help="That live histories at a time."),
        click.option(
            "--seed", default=1, show_default=True, help="The first one; each history has the next."
        ),
    ):
        command = option(command)
    return command


@click.command()
@options
@click.option("--histories", default=200, show_default=True)
@click.option("--published", is_flag=True, help="Live them with the published designs, too.")
def faults(
    seed: int, histories: int, published: bool, processes: int, kind: str, write: Path | None, as_json: bool
) -> None:
    """Live histories in which everything goes wrong, and compare what was counted with the truth.

    A history follows from its seed: what fails, replays with `--seed S --histories 1`. Exit code 1 if any
    has a difference.
    """
    from bench import proof, workers

    workers.settle_in()
    began, seeds = time.perf_counter(), range(seed, seed + histories)
    outcomes: list[Any] = []
    try:
        outcomes += _shown(workers.lived(kind, seeds, processes), histories, "histories", _warned)
    except KeyboardInterrupt:  # what was lived until then is reported as such
        published = False
    report = proof.of_histories(outcomes, kind, time.perf_counter() - began)
    again = f"python -m bench faults --seed {seed} --histories {histories}" + (
        "" if kind == INSIDE else f" --engine {kind}"
    )
    reports = {("faults", again): report}
    if published:
        lived = workers.lived_published(kind, seeds, processes)
        found = sum(_shown(lived, histories, "histories of the published designs"), start=proof.NOTHING)
        ours = sum(bool(outcome.differences) for outcome in outcomes)
        reports["published", f"{again} --published"] = proof.of_published(found, histories, ours, kind)
    _end(reports, write, as_json)


@click.command()
@options
@click.option("--histories", default=40, show_default=True, help="At most, with each.")
@click.argument("names", nargs=-1)
def mutations(
    seed: int,
    histories: int,
    names: tuple[str, ...],
    processes: int,
    kind: str,
    write: Path | None,
    as_json: bool,
) -> None:
    """Plant faults in the code, one at a time, and see after how many histories each is caught, and by what.

    All that are in bench/mutants.toml, or those of these NAMES. Exit code 1 if one is not caught.
    """
    from bench import proof, workers
    from bench.mutants import mutants

    workers.settle_in()
    if unknown := set(names) - mutants().keys():
        raise click.BadParameter(f"there is no mutant {sorted(unknown)[0]!r}")
    chosen, seeds = names or tuple(mutants()), range(seed, seed + histories)
    hunted = workers.hunted(kind, chosen, seeds, processes)
    found = sorted(
        _shown(hunted, len(chosen), "planted faults", _escaped), key=lambda one: chosen.index(one.name)
    )
    again = f"python -m bench mutations --seed {seed} --histories {histories}"
    _end({("mutations", again): proof.of_mutants(found, seeds, kind)}, write, as_json)


def _warned(outcome: Any) -> str:
    """Say at once which seed failed, and how it is lived again."""
    if not outcome.differences:
        return ""
    again = f"python -m bench faults --seed {outcome.seed} --histories 1"
    return "\n".join([f"seed {outcome.seed} has a difference; again: {again}", *outcome.differences[:5]])


def _escaped(caught: Any) -> str:
    """Say at once which planted fault nothing has caught."""
    return "" if caught.difference else f"not caught in {caught.histories} histories: {caught.name}"


def _shown(
    things: Iterable[T], total: int, what: str, said: Callable[[T], str] = lambda thing: ""
) -> Iterator[T]:
    """Hand things on as they come, with progress."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        for number, thing in enumerate(things, 1):
            lines = [said(thing)]
            if number % EACH == 0 and not console.is_terminal:
                lines.append(f"{number:,} of {total:,} {what}")
            for line in filter(None, lines):
                click.echo(line, err=True)
            progress.advance(task)
            yield thing


def _end(reports: dict[tuple[str, str], Report], write: Path | None, as_json: bool) -> None:
    """Print reports, the last one as JSON or into a page, and exit with 1 if a target is missed."""
    from rich.console import Console

    from bench import proof

    is_met = all(report.met for report in reports.values())
    if not as_json:
        for report in reports.values():
            report.show(Console(width=None if sys.stdout.isatty() else 160))
    (mark, command), report = reports.popitem()
    if as_json:
        click.echo(report.as_json())
    if write:
        proof.write(write, mark, command, report)
    sys.exit(0 if is_met else 1)
