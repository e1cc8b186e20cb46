"""The commands that check and correct aggregates."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ops.cli.options import INCOMPLETE, INTERRUPTED, JSON, SETTLE, STAGE, settings_client

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

    from chalicelib.settings import Settings
    from ops.maintenance.audit import AuditResult, Drift
    from ops.maintenance.redrive import Summary as Redriven

MAX_REASONS = 10  # the most frequent reasons that redrive prints
MAX_ROWS = 50  # rows of drift that audit prints


@click.command()
@STAGE
@SETTLE
@JSON
def audit(stage: str, settle: float, as_json: bool) -> None:
    """Recount every aggregate of the table and report differences (drift).

    Safe while the stage serves traffic. Live topics are paused meanwhile, because the stream has room for two
    readers. Exit code 1: an aggregate has drifted, or it changed during every pass and could not be checked.
    """
    recount(stage, settle, as_json=as_json, repairs=False)


@click.command()
@STAGE
@SETTLE
@JSON
def repair(stage: str, settle: float, as_json: bool) -> None:
    """Recount every aggregate of the table and correct drift.

    Safe while the stage serves traffic, and safe to interrupt and run again. Live topics are paused
    meanwhile, because the stream has room for two readers. Exit code 1: an aggregate changed during every
    pass and was not corrected.
    """
    recount(stage, settle, as_json=as_json, repairs=True)


def recount(stage: str, settle: float, *, as_json: bool, repairs: bool) -> None:
    """Find drift, optionally correct it, and print the result."""
    from chalicelib.dynamo.table import connect
    from ops.cli.progress import progress
    from ops.maintenance import audit as audits
    from ops.maintenance.streams import follow_stream
    from ops.stage import load

    settings = load(stage)
    import app  # imported after load: app.py reads the settings

    table = connect(settings)
    following = follow_stream(table, settings_client(settings)("dynamodbstreams"))
    with _push_paused(settings), progress("reading") as say:
        found = audits.audit(
            table, app.CONTRIBUTIONS, following, settle, lambda items: say(f"{items:,} items read")
        )
        drifted = found.drifted
        if repairs:
            say("correcting")
            audits.repair(table, found, app.DERIVATIONS)
    _show_audit(found, drifted, as_json)
    if found.drifted or found.unsettled:
        raise click.exceptions.Exit(1)


@contextlib.contextmanager
def _push_paused(settings: Settings) -> Iterator[None]:
    """Pause the pushes of a deployed stage, because the stream has room for two readers."""
    if settings.stage == "local":
        yield
        return
    from ops.aws import event_sources

    with event_sources.push_paused(settings_client(settings)("lambda"), settings.stage):
        yield


def _show_audit(found: AuditResult, drifted: Drift, as_json: bool) -> None:
    """Print the result. `drifted` is the drift before any correction."""
    if as_json:
        fields: dict[str, Any] = {"items": found.items, "malformed": found.malformed}
        fields |= {"drift": _rows(drifted), "mended": found.corrected, "unsettled": _rows(found.unsettled)}
        click.echo(json.dumps(fields, default=str))
        return
    click.echo(
        f"{found.items:,} items: {len(drifted):,} sums drifted, {found.corrected:,} corrected, "
        f"{len(found.unsettled):,} not checked because they kept changing"
    )
    if found.malformed:
        click.echo(f"{found.malformed:,} malformed items are in quarantine and not counted")
    for word, drift in (("drifted", drifted), ("not checked", found.unsettled)):
        for row in _rows(drift)[:MAX_ROWS]:
            click.echo(
                f"{word}: {row['pk']} {row['sk']} {row['attribute']}: {row['is']}, expected {row['should']}"
            )
        if len(drift) > MAX_ROWS:
            click.echo(f"and {len(drift) - MAX_ROWS:,} more; --json lists all")


def _rows(drift: Drift) -> list[dict[str, Any]]:
    """Convert drift to rows, ordered by key."""
    return [
        {"pk": key.pk, "sk": key.sk, "attribute": name, "is": _plain(is_), "should": _plain(should)}
        for (key, name), (is_, should) in sorted(drift.items(), key=lambda entry: entry[0])
    ]


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, set | frozenset) else value


@click.command()
@STAGE
@click.option("--dry-run", is_flag=True, help="Show what would be done and write nothing.")
@JSON
def redrive(stage: str, dry_run: bool, as_json: bool) -> None:
    """Apply quarantined entries whose contribution can be computed now, each exactly once.

    First deploy a version that can read the images, or correct the items. Safe to interrupt, to repeat and to
    run twice at the same time. Exit code 3: some entries remain in quarantine.
    """
    from chalicelib.dynamo import table
    from ops.cli.progress import progress
    from ops.maintenance import redrive as work
    from ops.stage import load

    settings = load(stage)
    import app  # imported after load: app.py reads the settings

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
                derivations=app.DERIVATIONS,
                dry_run=dry_run,
                advance=advance,
            )
    except KeyboardInterrupt:
        click.echo("interrupted: run it again; no entry is applied twice", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    _show_redriven(summary, dry_run, as_json)
    if summary.left:
        raise click.exceptions.Exit(INCOMPLETE)


@click.command()
@click.argument("source", type=click.Choice(["views", "stream"]))
@STAGE
@click.option("--discard", is_flag=True, help="Also discard batches whose records have left the stream.")
@JSON
def replay(source: str, stage: str, discard: bool, as_json: bool) -> None:
    """Retry dead letters of views, or failed batches of the stream.

    Remove the cause first, otherwise the retry fails too. Safe to interrupt and to repeat. Exit code 3:
    something is left. For a lost batch run `repair`, then `replay stream --discard`.
    """
    from ops.cli.progress import progress
    from ops.maintenance import replay as work
    from ops.stage import load

    settings = load(stage)
    import app  # imported after load: app.py reads the settings

    client, queue = settings_client(settings), settings.queue_name
    sqs, streams = client("sqs"), client("dynamodbstreams")

    reads_stream = _push_paused(settings) if source == "stream" else contextlib.nullcontext()
    with reads_stream, progress("reading") as say:

        def tick(done: Counter[str]) -> None:
            say(", ".join(f"{number:,} {word}" for word, number in done.items()))

        if source == "views":
            done = work.replay_views(sqs, _queue_url(sqs, f"{queue}-dead"), _queue_url(sqs, queue), tick)
        else:
            failures = _queue_url(sqs, f"hubbub-{settings.stage}-stream-failures")
            done = work.replay_batches(sqs, failures, streams, app.apply_records, tick, discards=discard)
    words = ("sent", "left") if source == "views" else ("batches", "records", "lost", "left")
    fields = {word: done[word] for word in words}
    click.echo(
        json.dumps(fields) if as_json else ", ".join(f"{number:,} {word}" for word, number in fields.items())
    )
    if done["left"] or (done["lost"] and not discard):
        raise click.exceptions.Exit(INCOMPLETE)


def _queue_url(sqs: SQSClient, name: str) -> str:
    """Return a queue's URL. Raises ClickException when it does not exist, and on an engine without queues."""
    from botocore.exceptions import ClientError

    from chalicelib.dynamo.retries import error_code

    try:
        return sqs.get_queue_url(QueueName=name)["QueueUrl"]
    except sqs.exceptions.QueueDoesNotExist:
        raise click.ClickException(f"no queue named {name}") from None
    except ClientError as error:
        if error_code(error) != "UnknownOperationException":
            raise
        raise click.ClickException("this engine has no queues, so there is nothing to replay") from None


def _show_redriven(summary: Redriven, dry_run: bool, as_json: bool) -> None:
    """Print the result of a redrive."""
    left = dict(summary.left.most_common())
    fields = {"entries": summary.entries, "applied": summary.applied, "cancelled": summary.cancelled}
    fields |= {"gone": summary.gone, "left": sum(left.values())}
    if as_json:
        click.echo(json.dumps({"dryRun": dry_run, **fields, "reasons": left}))
        return
    for name, number in fields.items():
        click.echo(f"{name:10} {number:>10,}")
    for reason, number in list(left.items())[:MAX_REASONS]:
        click.echo(f"{number:>10,} {reason}")
    if dry_run:
        click.echo("dry run: nothing was written")


COMMANDS = (audit, repair, redrive, replay)
