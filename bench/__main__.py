"""`python -m bench`: measurements that say their method first, and exit with 1 when a target is missed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from bench.proof_commands import faults, mutations

if TYPE_CHECKING:
    from bench.report import Report
    from local.engine import Engine


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure Hubbub's cost and time beside the published designs."""


def measured(engine: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options that all measurements have; `engine` is the one that it takes unasked."""

    def give(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in (
            click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables."),
            click.option("--quick", is_flag=True, help="Take small numbers; time ratios do not decide."),
            click.option(
                "--engine", "kind", default=engine, show_default=True, metavar="URL|ministack|dynamodb-local"
            ),
        ):
            command = option(command)
        return command

    return give


# Each command imports what it measures when it runs, so that --help and the other ones need none of it.
@main.command()
@measured(engine="ministack")
def views(kind: str, quick: bool, as_json: bool) -> None:
    """Capacity, throughput and import time of counting views."""
    from bench.views import measure

    _run(measure, kind, quick, as_json)


@main.command()
@measured(engine="dynamodb-local")  # ministack looks at its whole table for each query of an index
def leaderboards(kind: str, quick: bool, as_json: bool) -> None:
    """Capacity, round trips, time and dollars of ranks, beside COUNT and Redis sorted sets."""
    from bench.leaderboards import measure

    _run(measure, kind, quick, as_json)


@main.command()
@measured(engine="ministack")
def challenges(kind: str, quick: bool, as_json: bool) -> None:
    """What the statistics of challenges answer, and what a path costs."""
    from bench.challenges import measure

    _run(measure, kind, quick, as_json)


@main.command()
@measured(engine="ministack")
def comments(kind: str, quick: bool, as_json: bool) -> None:
    """Capacity of writing comments, and of reading pages of them by any filter."""
    from bench.comments import measure

    _run(measure, kind, quick, as_json)


@main.command()
@measured(engine="ministack")
def chat(kind: str, quick: bool, as_json: bool) -> None:
    """Capacity, simultaneous arrivals, time to being told and messages a second of chat."""
    from bench.chat import measure

    _run(measure, kind, quick, as_json)


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
