"""The commands that look after the sums: bring older items into them, compare and mend them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ops.maintenance.audit import Audit
    from ops.maintenance.backfill import Done
    from ops.maintenance.recount import Drift

SHOWN = 50  # rows of drift that a person reads


@click.command()
@click.argument("feature", type=click.Choice(["comments"]))
@click.option("--stage", default="local", show_default=True, help="The stage whose table it is.")
@click.option("--segments", type=click.IntRange(1, 1000), default=4, show_default=True, help="Read at once.")
@click.option(
    "--rate", type=click.FloatRange(0.1), help="At most so many comments a second; else all it can."
)
@click.option("--json", "as_json", is_flag=True, help="Print what was done as one JSON object.")
def backfill(feature: str, stage: str, segments: int, rate: float | None, as_json: bool) -> None:
    """Count what was written before there were sums, while traffic goes on.

    Killed or interrupted, it goes on where it was when it is run again. Fails when an item is malformed: such
    a one is left as it is.
    """
    from chalicelib.dynamo.table import connect
    from ops.cli.progress import progress
    from ops.maintenance.backfill import run
    from ops.stage import load

    table = connect(load(stage))
    with progress("reading") as say:
        read, touched = 0, 0

        def tick(done: Done) -> None:
            nonlocal read, touched
            read, touched = read + done.read, touched + done.touched
            say(f"{read:,} items read, {touched:,} comments touched")

        try:
            done = run(table, segments, rate, tick)
        except KeyboardInterrupt:
            click.echo("interrupted: run it again, and it goes on", err=True)
            raise click.exceptions.Exit(130) from None
    fields = {"read": done.read, "touched": done.touched, "malformed": done.malformed}
    if as_json:
        click.echo(json.dumps(fields))
    else:
        click.echo(f"{done.touched:,} comments touched among {done.read:,} items; the stream counts them")
    if done.malformed:
        raise click.ClickException(f"{done.malformed:,} comments are malformed, and left as they are")


settle = click.option(
    "--settle",
    type=click.FloatRange(0, 3600),
    default=10,
    show_default=True,
    help="Seconds between two looks: more than the stream lags.",
)


stage = click.option("--stage", default="local", show_default=True, help="The stage whose table it is.")
prints_json = click.option("--json", "as_json", is_flag=True, help="Print what was found as one JSON object.")


@click.command()
@stage
@settle
@click.option("--repair", "mends", is_flag=True, help="Mend what has drifted, as `repair` does.")
@prints_json
def audit(stage: str, settle: float, mends: bool, as_json: bool) -> None:
    """Recount every aggregate of the table and compare; report drift.

    Traffic may go on. Fails when something has drifted and is not mended, and when something changed each
    time it was looked at: then it cannot be told.
    """
    _look(stage, settle, as_json, mends=mends)


@click.command()
@stage
@settle
@prints_json
def repair(stage: str, settle: float, as_json: bool) -> None:
    """Recount every aggregate of the table, and mend what has drifted: `audit --repair`.

    Traffic may go on. Fails when something changed each time it was looked at, and is left. May be killed and
    run again.
    """
    _look(stage, settle, as_json, mends=True)


def _look(stage: str, settle: float, as_json: bool, *, mends: bool) -> None:
    """Find what has drifted, mend it or not, and print it."""
    import boto3

    from chalicelib.dynamo.table import connect
    from ops.cli.progress import progress
    from ops.maintenance import audit as audits
    from ops.maintenance.streams import follow
    from ops.stage import load

    settings = load(stage)
    from app import CONTRIBUTIONS  # reads the stage that load has put in effect

    table = connect(settings)
    following = follow(table, boto3.client("dynamodbstreams", **settings.client_options()))
    with progress("reading") as say:
        found = audits.audit(
            table, CONTRIBUTIONS, following, settle, lambda items: say(f"{items:,} items read")
        )
        drifted = found.drifted
        if mends:
            say("mending")
            audits.repair(table, found)
    _show(found, drifted, as_json)
    if found.drifted or found.unsettled:
        raise click.exceptions.Exit(1)


def _show(found: Audit, drifted: Drift, as_json: bool) -> None:
    """Print what was found; `drifted` is what it was before anything was mended."""
    if as_json:
        fields: dict[str, Any] = {"items": found.items, "malformed": found.malformed}
        fields |= {"drift": _rows(drifted), "mended": found.mended, "unsettled": _rows(found.unsettled)}
        click.echo(json.dumps(fields, default=str))
        return
    click.echo(
        f"{found.items:,} items: {len(drifted):,} sums have drifted, {found.mended:,} of them are mended, "
        f"{len(found.unsettled):,} kept changing"
    )
    if found.malformed:
        click.echo(f"{found.malformed:,} items are malformed: they are in quarantine, and count for nothing")
    for word, drift in (("drifted", drifted), ("kept changing", found.unsettled)):
        for row in _rows(drift)[:SHOWN]:
            click.echo(f"{word}: {row['pk']} {row['sk']} {row['attribute']}: {row['is']} for {row['should']}")
        if len(drift) > SHOWN:
            click.echo(f"and {len(drift) - SHOWN:,} more; --json has all")


def _rows(drift: Drift) -> list[dict[str, Any]]:
    """Write drift as rows, in the order of the keys."""
    return [
        {"pk": key.pk, "sk": key.sk, "attribute": name, "is": _plain(is_), "should": _plain(should)}
        for (key, name), (is_, should) in sorted(drift.items(), key=lambda entry: entry[0])
    ]


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, set | frozenset) else value
