"""The commands that put right what went wrong in a stage's table, with progress."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

    from ops.maintenance.redrive import Summary

LEFT = 3  # the exit code when some entries stay
REASONS = 10  # that are shown, the most frequent ones


@click.command()
@click.option("--stage", default="local", show_default=True, help="The stage whose quarantine is redriven.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def redrive(stage: str, dry_run: bool, as_json: bool) -> None:
    """Apply what is in quarantine and can be computed by now, each entry exactly once.

    Deploy the version that reads the images, or mend the items, then run this. It may be interrupted,
    repeated, and run twice at a time. Exit codes: 0 nothing is left in quarantine, 3 some entries stay.
    """
    from chalicelib.dynamo import table
    from ops.cli.progress import progress
    from ops.maintenance import redrive as work
    from ops.stage import load

    settings = load(stage)
    import app  # after the stage's settings are in effect

    seen = 0
    try:
        with progress("redriving") as say:

            def advance(entries: int) -> None:
                nonlocal seen
                seen += entries
                say(f"{seen:,} entries")

            summary = work.redrive(
                table.connect(settings),
                app.CONTRIBUTIONS,
                dry_run=dry_run,
                advance=advance,
            )
    except KeyboardInterrupt:
        click.echo("interrupted: it is safe to run this again, nothing is added twice", err=True)
        raise click.exceptions.Exit(130) from None
    _show(summary, dry_run, as_json)
    if summary.left:
        raise click.exceptions.Exit(LEFT)


@click.command()
@click.argument("source", type=click.Choice(["views", "stream"]))
@click.option("--stage", default="local", show_default=True, help="The stage whose dead letters they are.")
@click.option("--discard", is_flag=True, help="Also forget batches whose records the stream has no more.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as one JSON object.")
def replay(source: str, stage: str, discard: bool, as_json: bool) -> None:
    """Bring back what Lambda has given up: dead letters of views, or batches of the stream.

    Mend the cause first, or they are given up again. Nothing counts twice, so it may be killed and repeated.
    Exit code 3: something is left; of a batch that is lost, run repair, then replay with --discard.
    """
    import boto3

    from chalicelib.aggregates import engine
    from chalicelib.dynamo import table
    from ops.cli.progress import progress
    from ops.maintenance import replay as work
    from ops.stage import load

    settings = load(stage)
    import app  # after the stage's settings are in effect

    session, options = boto3.session.Session(), settings.client_options()
    sqs, streams = session.client("sqs", **options), session.client("dynamodbstreams", **options)
    queue = settings.queue_name

    def apply(records: list[Any]) -> None:
        engine.apply(table.connect(settings), app.CONTRIBUTIONS, records, guard_pages=settings.guard_pages)

    with progress("reading") as say:

        def tick(done: Counter[str]) -> None:
            say(", ".join(f"{number:,} {word}" for word, number in done.items()))

        if source == "views":
            done = work.views(sqs, _url(sqs, f"{queue}-dead"), _url(sqs, queue), tick)
        else:
            failures = _url(sqs, f"hubbub-{settings.stage}-stream-failures")
            done = work.batches(sqs, failures, streams, apply, tick, discards=discard)
    words = ("sent", "left") if source == "views" else ("batches", "records", "lost", "left")
    fields = {word: done[word] for word in words}
    click.echo(
        json.dumps(fields) if as_json else ", ".join(f"{number:,} {word}" for word, number in fields.items())
    )
    if done["left"] or (done["lost"] and not discard):
        raise click.exceptions.Exit(LEFT)


def _url(sqs: SQSClient, name: str) -> str:
    """Find a queue."""
    try:
        return sqs.get_queue_url(QueueName=name)["QueueUrl"]
    except sqs.exceptions.QueueDoesNotExist:
        raise click.ClickException(f"there is no queue {name}") from None


def _show(summary: Summary, dry_run: bool, as_json: bool) -> None:
    """Print what became of the entries."""
    left = dict(summary.left.most_common())
    fields = {"entries": summary.entries, "applied": summary.applied, "cancelled": summary.cancelled}
    fields |= {"gone": summary.gone, "left": sum(left.values())}
    if as_json:
        click.echo(json.dumps({"dryRun": dry_run, **fields, "reasons": left}))
        return
    for name, number in fields.items():
        click.echo(f"{name:10} {number:>10,}")
    for reason, number in list(left.items())[:REASONS]:
        click.echo(f"{number:>10,} {reason}")
    if dry_run:
        click.echo("nothing is written: this was a dry run")
