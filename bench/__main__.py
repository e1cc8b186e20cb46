"""`python -m bench`: measurements that say their method first, and exit with 1 when a target is missed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.proof_commands import faults, mutations

if TYPE_CHECKING:
    from bench.report import Report
    from local.engine import Engine

ENGINES = "dynoxide|ministack|URL"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure Hubbub's cost and time beside the published designs."""


def measured(engine: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options that all measurements have; `engine` is the one that it takes unasked."""

    def give(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in (
            click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables."),
            click.option("--quick", is_flag=True, help="Take small numbers; time ratios do not decide."),
            click.option("--engine", "kind", default=engine, show_default=True, metavar=ENGINES),
        ):
            command = option(command)
        return command

    return give


# Each command imports what it measures when it runs, so that --help and the other ones need none of it.
@main.command()
@measured(engine="dynoxide")
def views(kind: str, quick: bool, as_json: bool) -> None:
    """Capacity, throughput and import time of counting views."""
    from bench.views import measure

    _run(measure, kind, quick, as_json)


@main.command()
@measured(engine="dynoxide")
def leaderboards(kind: str, quick: bool, as_json: bool) -> None:
    """Capacity, round trips, time and dollars of ranks, beside COUNT and Redis sorted sets."""
    from bench.leaderboards import measure

    _run(measure, kind, quick, as_json)


@main.command()
@measured(engine="dynoxide")
def challenges(kind: str, quick: bool, as_json: bool) -> None:
    """What the statistics of challenges answer, and what a path costs."""
    from bench.challenges import measure

    _run(measure, kind, quick, as_json)


@main.command()
@measured(engine="dynoxide")
def comments(kind: str, quick: bool, as_json: bool) -> None:
    """Capacity of writing comments, and of reading pages of them by any filter."""
    from bench.comments import measure

    _run(measure, kind, quick, as_json)


@main.command()
@measured(engine="dynoxide")
def chat(kind: str, quick: bool, as_json: bool) -> None:
    """Capacity, simultaneous arrivals, time to being told and messages a second of chat."""
    from bench.chat import measure

    _run(measure, kind, quick, as_json)


@main.command()
@click.option("--engine", "kind", default="dynoxide", show_default=True, help="As of the others.")
def units(kind: str) -> None:
    """Capacity of each operation, as JSON: what `python -m ops cost` reckons with."""
    import json

    from bench.units import every
    from local.engine import EngineUnavailable, start

    try:
        engine = start(kind, data=None)
    except EngineUnavailable as reason:
        raise click.ClickException(str(reason)) from None
    with engine:
        click.echo(json.dumps(every(engine), indent=2))


@main.command()
@measured(engine="dynoxide")
def profile(kind: str, quick: bool, as_json: bool) -> None:
    """CPU time of every handler, and of importing the app."""
    from bench.profile import measure

    _run(measure, kind, quick, as_json)


@main.command()
@measured(engine="ministack")  # the functions read their secret from SSM
def functions(kind: str, quick: bool, as_json: bool) -> None:
    """CPU time and memory of each function, and what more memory would buy."""
    from bench.functions import measure

    _run(measure, kind, quick, as_json)


@main.command()
@measured(engine="dynoxide")
def millions(kind: str, quick: bool, as_json: bool) -> None:
    """A million views, counted and checked one by one."""
    from bench.millions import measure

    _run(measure, kind, quick, as_json)


@main.command(name="all")
@click.option("--quick", is_flag=True, help="Take small numbers; time ratios do not decide.")
@click.option(
    "--output", type=click.Path(path_type=Path), default="bench", show_default=True, help="A folder."
)
def everything(quick: bool, output: Path) -> None:
    """Measure everything in one run, and write RESULTS.md with its plots."""
    from rich.console import Console

    from bench.suite import run
    from local.engine import EngineUnavailable

    try:
        is_met = run(output, quick, Console())
    except EngineUnavailable as reason:
        raise click.ClickException(str(reason)) from None
    sys.exit(0 if is_met else 1)


@main.command()
@click.option("--minutes", type=click.FloatRange(0.05), default=10, show_default=True)
@click.option("--rate", type=click.FloatRange(1), default=20, show_default=True, help="Requests a second.")
@click.option("--seed", type=int, help="Of what is drawn by lot; else one that is printed.")
@click.option("--engine", "kind", default="dynoxide", show_default=True, metavar=ENGINES)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def soak(minutes: float, rate: float, seed: int | None, kind: str, as_json: bool) -> None:
    """The whole product under mixed load and random kills, and an audit of all that it took."""
    import secrets

    from rich.console import Console

    from bench.soak import soak as run

    console, seed = Console(stderr=True), secrets.randbelow(10**6) if seed is None else seed
    console.print(f"{minutes:g} minutes, then an audit; --seed {seed}")
    with console.status("starting") as status:
        _run(lambda engine, _: run(engine, minutes, rate, seed, status.update), kind, False, as_json)


@main.command()
@click.option("--engine", "kinds", multiple=True, default=("ministack", "dynoxide"), show_default=True)
@click.option("--quick", is_flag=True, help="Take small numbers; times do not decide.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def local(kinds: tuple[str, ...], quick: bool, as_json: bool) -> None:
    """The local run on each engine: starts, views, imports (15 minutes on two idle cores)."""
    from rich.console import Console

    from bench.local import FULL, QUICK, measure

    with Console(stderr=True).status("starting") as status:
        report = measure(kinds, QUICK if quick else FULL, status.update)
    if as_json:
        click.echo(report.as_json())
    else:
        report.show(Console(width=None if sys.stdout.isatty() else 140))
    sys.exit(0 if report.met else 1)


main.add_command(faults)
main.add_command(mutations)


def _run(measure: Callable[[Engine, bool], Report], kind: str, quick: bool, as_json: bool) -> None:
    """Start an engine without data on a free port, measure, print, and exit with 1 if a target is missed."""
    from rich.console import Console

    from local.engine import EngineUnavailable, start

    try:
        engine = start(kind, data=None)
    except EngineUnavailable as reason:
        raise click.ClickException(str(reason)) from None
    with engine:
        report = measure(engine, quick)
    if as_json:
        click.echo(report.as_json())
    else:
        terminal = sys.stdout.isatty()
        report.show(Console(width=None if terminal else 140))
    sys.exit(0 if report.met else 1)


if __name__ == "__main__":
    main()
