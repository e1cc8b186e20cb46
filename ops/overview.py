"""The commands that tell how a stage is, and what it costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

LEFT = 3  # the exit code when somebody should do something


@click.command()
@click.option("--stage", default="local", show_default=True, help="The stage to look at.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=".local",
    show_default=True,
    help="Where a local run keeps its data: how far its stream is read stands there.",
)
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON object.")
def status(stage: str, data: Path, as_json: bool) -> None:
    """Say how a stage is: lag of the sums, quarantine, queues, mappings.

    Exit code 3: somebody should do something, and the output says what.
    """
    import boto3

    from ops.stage import load
    from ops.status import look

    settings = load(stage)
    session = boto3.session.Session()

    def client(service: str) -> Any:
        return session.client(service, **settings.client_options())  # type: ignore[call-overload]

    found = look(settings, client, data / "stream.json" if settings.endpoint else None)
    if as_json:
        click.echo(json.dumps(found))
    else:
        _show(found)
    if found["problems"]:
        raise click.exceptions.Exit(LEFT)


def _show(found: dict[str, Any]) -> None:
    """Print how a stage is, a line each, and then what is not as it should be."""
    table, lag = found["table"], found["lagSeconds"]
    queues = {name: "none" if depth is None else f"{depth:,}" for name, depth in found["queues"].items()}
    lines = {
        "stage": found["stage"],
        "table": f"{table['name']}, {table['state'].lower()}, about {table['items']:,} items",
        "lag": "not known: nothing has come through the stream lately" if lag is None else f"{lag:.1f} s",
        "quarantine": f"{found['quarantine']:,} images",
        "views": f"{queues['views']} messages wait, {queues['deadViews']} are dead letters",
        "batches": f"{queues['streamFailures']} were given up",
        "mappings": "none on this machine: pumps bring the stream and the queue"
        if found["mappings"] is None
        else ", ".join(f"{one['function']} {one['state'].lower()}" for one in found["mappings"]) or "none",
    }
    for name, text in lines.items():
        click.echo(f"{name:10} {text}")
    for problem in found["problems"]:
        click.echo(f"{'!':10} {problem}")
