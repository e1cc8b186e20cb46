"""`python -m bench`: measurements that print their method first, and exit with 1 when a target is missed."""

from __future__ import annotations

import importlib
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.report import Report
    from local.engines.engine import Engine

ENGINES = "dynoxide|ministack|URL"
QUICK = click.option("--quick", is_flag=True, help="Take small numbers; times do not decide.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
ENGINE = click.option("--engine", "kind", default="dynoxide", show_default=True, metavar=ENGINES)
MEASUREMENTS = {
    "views": "Capacity and throughput of counting views.",
    "leaderboards": "Capacity, round trips and time of ranks, beside COUNT and Redis sorted sets.",
    "challenges": "Capacity of a path, with its statistics.",
    "comments": "Capacity of writing comments, and of reading pages of them by any filter.",
    "chat": "Capacity, time to the notice and messages a second of chat.",
    "sites": "The month's bill of three example sites, beside the list prices of the usual choices.",
    "shards": "Conflicts and cost of four shards of a stream, applied at the same time.",
    "profile": "CPU time of importing the app, and of every handler.",
}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure Hubbub's cost and time beside the published designs."""


def _add(name: str, help: str) -> None:
    """Add the command of one measurement, which is imported when it runs."""

    @main.command(name=name, help=help)
    @ENGINE
    @QUICK
    @JSON
    def command(kind: str, quick: bool, as_json: bool) -> None:
        measure = importlib.import_module(f"bench.{name}").measure
        with _engine(kind) as engine:
            report = measure(engine, quick)
        _show(report, as_json)


for _name, _help in MEASUREMENTS.items():
    _add(_name, _help)


@main.command()
@ENGINE
def units(kind: str) -> None:
    """Capacity of each operation, as JSON for `python -m ops cost`."""
    import json

    from bench.operations import UNITS
    from bench.units import measure

    with _engine(kind) as engine:
        click.echo(json.dumps({name: measure(engine, name) for name in UNITS}, indent=2))


@main.command()
@click.option("--engine", "kinds", multiple=True, default=("ministack", "dynoxide"), show_default=True)
@QUICK
@JSON
def local(kinds: tuple[str, ...], quick: bool, as_json: bool) -> None:
    """The local run on each engine: starts, views, imports (15 minutes on two idle cores)."""
    from rich.console import Console

    from bench.local import FULL, QUICK, measure

    with Console(stderr=True).status("starting") as status:
        report = measure(kinds, QUICK if quick else FULL, status.update)
    _show(report, as_json)


@main.command(name="all")
@QUICK
@click.option("--output", type=click.Path(path_type=Path), default="bench", show_default=True)
def everything(quick: bool, output: Path) -> None:
    """Measure everything in one run, and write RESULTS.md."""
    from rich.console import Console

    from bench.results import run
    from local.engines import EngineUnavailable

    try:
        is_met = run(output, quick, Console())
    except EngineUnavailable as reason:
        raise click.ClickException(str(reason)) from None
    sys.exit(not is_met)


@main.command()
@click.option("--seed", default=1, show_default=True, help="The first seed; each history has the next.")
@click.option("--histories", "count", default=200, show_default=True)
@click.option("--write", "page", type=click.Path(path_type=Path, exists=True), help="Write into this page.")
def published(seed: int, count: int, page: Path | None) -> None:
    """Run the published designs through the faulty histories of `python -m proof`."""
    from bench.published.histories import compare
    from proof import cli

    command = f"python -m bench published --seed {seed} --histories {count}"
    cli.show("published", command, "in-process", compare(range(seed, seed + count)), page)


@contextmanager
def _engine(kind: str) -> Iterator[Engine]:
    """Start an engine without data on a free port."""
    from local.engines import EngineUnavailable
    from local.engines.engine import start

    try:
        engine = start(kind, data=None)
    except EngineUnavailable as reason:
        raise click.ClickException(str(reason)) from None
    with engine:
        yield engine


def _show(report: Report, as_json: bool) -> None:
    """Print a report, and exit with 1 if a target is missed."""
    from rich.console import Console

    if as_json:
        click.echo(report.as_json())
    else:
        report.show(Console(width=None if sys.stdout.isatty() else 140))
    sys.exit(not report.met)


if __name__ == "__main__":
    main()
