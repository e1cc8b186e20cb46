"""The commands about what a table holds: write it to a file, erase a person or remove a page from it."""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import click

from ops.maintenance.features import FEATURES

LEFT = 3  # the exit code when something stays


@click.command()
@click.option("--stage", default="local", show_default=True, help="The stage whose table it is.")
@click.option("--feature", type=click.Choice([*FEATURES]), help="Only the items of one feature.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="A file, instead of stdout.")
@click.option("--segments", type=click.IntRange(1, 1000), default=4, show_default=True, help="Read at once.")
@click.option("--rate", type=click.FloatRange(1), help="At most so many items a second; else all it can.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON, on standard error.")
def export(
    stage: str, feature: str | None, output: Path | None, segments: int, rate: float | None, as_json: bool
) -> None:
    """Write a table's items as JSON lines, in DynamoDB's own notation.

    Traffic may go on. A file appears when it is whole; interrupted, there is none, and the export is begun
    anew.
    """
    from chalicelib.dynamo.table import connect
    from ops.cli.progress import progress
    from ops.maintenance import export as work
    from ops.stage import load

    table = connect(load(stage))
    seen: Counter[str] = Counter()
    with _written(output) as file, progress("reading") as say:

        def tick(more: Counter[str]) -> None:
            seen.update(more)
            say(f"{seen['read']:,} items read, {seen['written']:,} written")

        done = work.run(table, feature or "", file, segments, rate, tick)
    if as_json:
        click.echo(json.dumps({"read": done["read"], "written": done["written"]}), err=True)
    else:
        click.echo(f"{done['written']:,} of {done['read']:,} items written", err=True)


@contextlib.contextmanager
def _written(output: Path | None) -> Iterator[IO[str]]:
    """Open what is written to; a file has its name only once it is whole."""
    if output is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    draft = output.with_name(f".{output.name}.part")
    try:
        with draft.open("w", encoding="utf-8") as file:
            yield file
        draft.replace(output)
    except OSError as error:
        raise click.ClickException(f"{output}: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)


@click.command()
@click.argument("name")
@click.option("--stage", default="local", show_default=True, help="The stage whose table it is.")
@click.option("--client", "clients", multiple=True, help="A client's id in views; give as many as there are.")
@click.option("--dry-run", is_flag=True, help="Say what there is, and erase nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--segments", type=click.IntRange(1, 1000), default=4, show_default=True, help="Read at once.")
@click.option("--rate", type=click.FloatRange(1), help="At most so many items a second; else all it can.")
@click.option(
    "--settle",
    type=click.FloatRange(0, 3600),
    default=10,
    show_default=True,
    help="Seconds between two looks: more than the stream lags.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was done as one JSON object.")
def erase(
    name: str,
    stage: str,
    clients: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    segments: int,
    rate: float | None,
    settle: float,
    as_json: bool,
) -> None:
    """Erase a person everywhere: the player and author NAME, and views by --client.

    Says first what there is, and asks. The sums follow. Ends with a look at the whole table that finds
    nothing. Killed or interrupted, it goes on where it was when it is run again. Exit code 1: there is
    nothing of this person. Exit code 3: something is left, for the person goes on writing, or there are
    images in quarantine.
    """
    from chalicelib.dynamo.table import connect
    from ops.cli.progress import progress
    from ops.maintenance import erase as work
    from ops.stage import load

    try:
        person = work.read(name, clients)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    table = connect(load(stage))
    with progress("reading") as say:
        seen: Counter[str] = Counter()

        def tick(more: Counter[str]) -> None:
            seen.update(more)
            say(f"{seen['read']:,} items read, {seen.total() - seen['read']:,} of {name}")

        if dry_run or not yes:
            found = work.find(table, person, segments, rate, tick)
            del found["read"]
    if dry_run:
        _show({"dryRun": True, "found": dict(found)}, as_json)
        if not found:
            raise _nothing(name, stage)
        return
    if not yes:
        if not found and not work.is_begun(table, person):
            raise _nothing(name, stage)
        _show({"found": dict(found)}, as_json=False)
        click.confirm(f"Erase {found.total():,} items of {name} in {stage}, for ever?", abort=True)
    with progress("erasing") as say:
        seen.clear()
        done = work.erase(table, person, segments=segments, rate=rate, settle=settle, tick=tick)
    _show({"erased": dict(done.erased), "left": dict(done.left), "looks": done.looks}, as_json)
    if done.left:
        raise click.exceptions.Exit(LEFT)
    if not done.erased and not done.is_resumed:
        raise _nothing(name, stage)


def _nothing(name: str, stage: str) -> click.ClickException:
    """Explain that nothing is erased: a name that is spelled wrongly must not look like success."""
    return click.ClickException(f"nothing of {name} was found in {stage}, and nothing is erased")


def _page(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    from chalicelib import urls

    try:
        return urls.canonical(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}") from None


@click.command()
@click.argument("url", callback=_page)
@click.option("--stage", default="local", show_default=True, help="The stage whose table it is.")
@click.option("--dry-run", is_flag=True, help="Print what there is, and remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--rate", type=click.FloatRange(1), help="At most so many deletions a second; else all it can.")
@click.option(
    "--patience",
    type=click.FloatRange(1, 86_400),
    default=300,
    show_default=True,
    help="Seconds to wait for the stream: more than it lags.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was done as one JSON object.")
def forget_page(
    url: str, stage: str, dry_run: bool, yes: bool, rate: float | None, patience: float, as_json: bool
) -> None:
    """Remove the page URL: its views, visitors, days, total and place among the top pages.

    Leave the page out of HUBBUB_SITES first, or the next view of it makes it anew. Other pages keep their
    numbers. May be killed and run again. Exit code 3: something is left, because the page is still viewed or
    the stream was too late.
    """
    from chalicelib.dynamo.table import connect
    from ops.cli.progress import progress
    from ops.maintenance import forget as work
    from ops.stage import load

    table = connect(load(stage))
    if dry_run or not yes:
        found = work.find(table, url)
    if dry_run:
        _show({"dryRun": True, "url": url, "found": dict(found)}, as_json)
        return
    if not yes:
        _show({"found": dict(found)}, as_json=False)
        click.confirm(f"Remove the page {url} from {stage}, for ever?", abort=True)
    seen: Counter[str] = Counter()
    with progress("removing") as say:

        def tick(more: Counter[str]) -> None:
            seen.update(more)
            say(", ".join(f"{count:,} {what}" for what, count in seen.items()))

        done = work.forget(table, url, rate=rate, patience=patience, tick=tick)
    fields: dict[str, object] = {"url": url, "removed": dict(done.removed), "left": dict(done.left)}
    _show(fields | {"late": done.is_late}, as_json)
    if done.is_late:
        click.echo(f"the stream did not come so far in {patience:.0f} s: run this again", err=True)
    if done.left or done.is_late:
        raise click.exceptions.Exit(LEFT)


def _show(fields: dict[str, object], as_json: bool) -> None:
    """Print what was found, erased and left."""
    if as_json:
        click.echo(json.dumps(fields))
        return
    for word in ("found", "erased", "removed", "left"):
        kinds = fields.get(word)
        if isinstance(kinds, dict):
            click.echo(f"{word}: " + (", ".join(f"{n:,} {kind}" for kind, n in kinds.items()) or "nothing"))
