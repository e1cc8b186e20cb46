"""The commands that export a table, erase a person and remove a page."""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import click

from chalicelib.feature import Person
from chalicelib.settings import Settings
from ops.cli.options import CONSENT, INCOMPLETE, JSON, PACE, SETTLE, STAGE, Consent, gather
from ops.maintenance.pace import Pace


class Named(NamedTuple):
    """A person as a command names them. The name may be missing."""

    name: str | None
    clients: tuple[str, ...]


CLIENTS = click.option(
    "--client", "clients", multiple=True, help="A client id of the person in views. May be repeated."
)


@click.command()
@STAGE
@click.option("--feature", help="Export the items of one feature only, for example views.")
@gather(
    "named",
    Named,
    click.option("--person", "name", help="Export the items of one person only: a player or author."),
    CLIENTS,
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")
@PACE
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON to standard error.")
def export(
    stage: str, feature: str | None, named: Named, output: Path | None, pace: Pace, as_json: bool
) -> None:
    """Export a table's items as JSON lines in DynamoDB's typed JSON.

    `--person` exports what `erase` would erase. Exit code 1: no data of this person exists.

    Safe while the stage serves traffic. The output file is created when the export is complete. An
    interrupted export leaves no file and starts from the beginning.
    """
    from chalicelib.dynamo.items import Item, Key
    from chalicelib.dynamo.table import connect
    from chalicelib.feature import owner_of
    from ops.cli.progress import progress
    from ops.maintenance import erase as erasing
    from ops.maintenance import export as work
    from ops.stage import load

    if named.clients and named.name is None:
        raise click.BadParameter("needs the --person whose views these are", param_hint="'--client'")
    settings = load(stage)
    import app  # after `load`, which sets the environment of the stage

    if feature not in (None, *(names := [known.name for known in app.FEATURES])):
        raise click.BadParameter(f"the features are {', '.join(names)}", param_hint="'--feature'")
    table = connect(settings)
    person = None if named.name is None else _parse_person(settings, named.name, named.clients)

    def is_wanted(item: Item) -> bool:
        if feature and owner_of(app.FEATURES, Key(item["pk"], item["sk"])) != feature:
            return False
        return person is None or bool(erasing.classify(item, person))

    seen: Counter[str] = Counter()
    with _written(output) as file, progress("reading") as say:

        def tick(more: Counter[str]) -> None:
            seen.update(more)
            say(f"{seen['read']:,} items read, {seen['written']:,} written")

        done = work.export_items(table, is_wanted, file, pace, tick)
        if named.name and not done["written"]:
            raise _not_found(named.name, stage, "exported")
    if as_json:
        click.echo(json.dumps({"read": done["read"], "written": done["written"]}), err=True)
    else:
        click.echo(f"wrote {done['written']:,} of {done['read']:,} items", err=True)


def _parse_person(settings: Settings, name: str, clients: tuple[str, ...]) -> Person:
    """Return a person, with a warning if bans and reports cannot be found."""
    from ops.maintenance.erase import parse_person

    try:
        person = parse_person(settings, name, clients)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not person.digest:
        click.echo(
            "bans and chat reports are not searched, because the stage's secret cannot be read", err=True
        )
    return person


@contextlib.contextmanager
def _written(output: Path | None) -> Iterator[IO[str]]:
    """Open the output. A file gets its name when it is complete."""
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
@gather("named", Named, click.argument("name"), CLIENTS)
@STAGE
@CONSENT
@PACE
@SETTLE
@JSON
def erase(named: Named, stage: str, consent: Consent, pace: Pace, settle: float, as_json: bool) -> None:
    """Erase all data of a person: the player and author NAME, and the views of each --client.

    `export --person NAME` writes the same items to a file first.

    Shows the number of items and asks for confirmation. Aggregates follow through the stream. The last pass
    over the whole table finds nothing. An interrupted run resumes when it is run again.

    Exit code 1: no data of this person exists. Exit code 3: something is left, because the person keeps
    writing or because item images are in quarantine.
    """
    from chalicelib.dynamo.table import connect
    from ops.cli.progress import progress
    from ops.maintenance import erase as work
    from ops.stage import load

    settings = load(stage)
    name = named.name or ""
    person = _parse_person(settings, name, named.clients)
    table = connect(settings)
    with progress("reading") as say:
        seen: Counter[str] = Counter()

        def tick(more: Counter[str]) -> None:
            seen.update(more)
            say(f"{seen['read']:,} items read, {seen.total() - seen['read']:,} of {name}")

        if consent.dry_run or not consent.yes:
            found = work.count_items(table, person, pace, tick)
            del found["read"]
    if consent.dry_run:
        _show({"dryRun": True, "found": dict(found)}, as_json)
        if not found:
            raise _not_found(name, stage, "erased")
        return
    if not consent.yes:
        if not found and not work.is_started(table, person):
            raise _not_found(name, stage, "erased")
        _show({"found": dict(found)}, as_json=False)
        click.confirm(
            f"Erase {found.total():,} items of {name} in {stage}? This cannot be undone.", abort=True
        )
    with progress("erasing") as say:
        seen.clear()
        done = work.erase(table, person, pace, settle=settle, report=tick)
    _show({"erased": dict(done.erased), "left": dict(done.left), "looks": done.passes}, as_json)
    if done.left:
        raise click.exceptions.Exit(INCOMPLETE)
    if not done.erased and not done.is_resumed:
        raise _not_found(name, stage, "erased")


def _not_found(name: str, stage: str, done: str) -> click.ClickException:
    """Build the error for a person without data, so that a misspelled name does not look like success."""
    return click.ClickException(f"no data of {name} found in {stage}; nothing {done}")


def _page(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    from chalicelib import urls

    try:
        return urls.canonical(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}") from None


@click.command()
@click.argument("url", callback=_page)
@STAGE
@CONSENT
@click.option("--rate", type=click.FloatRange(1), help="Maximum deletions per second.  [default: unlimited]")
@click.option(
    "--patience",
    type=click.FloatRange(1, 86_400),
    default=300,
    show_default=True,
    help="Seconds to wait for the stream. Must be more than its lag.",
)
@JSON
def forget_page(
    url: str, stage: str, consent: Consent, rate: float | None, patience: float, as_json: bool
) -> None:
    """Remove the page URL: its views, visitors, days, total and rank among the top pages.

    Exclude the page from HUBBUB_SITES first, otherwise its next view creates it again. Other pages are not
    affected. Safe to interrupt and run again. Exit code 3: something is left, because the page still gets
    views or the stream lags too much.
    """
    from chalicelib.dynamo.table import connect
    from ops.cli.progress import progress
    from ops.maintenance import forget as work
    from ops.stage import load

    table = connect(load(stage))
    if consent.dry_run or not consent.yes:
        found = work.count_items(table, url)
    if consent.dry_run:
        _show({"dryRun": True, "url": url, "found": dict(found)}, as_json)
        return
    if not consent.yes:
        if not found.total():
            raise _not_found(url, stage, "removed")
        _show({"found": dict(found)}, as_json=False)
        click.confirm(f"Remove the page {url} from {stage}? This cannot be undone.", abort=True)
    seen: Counter[str] = Counter()
    with progress("removing") as say:

        def tick(more: Counter[str]) -> None:
            seen.update(more)
            say(", ".join(f"{count:,} {kind}" for kind, count in seen.items()))

        done = work.forget(table, url, rate=rate, patience=patience, report=tick)
    fields: dict[str, object] = {"url": url, "removed": dict(done.removed), "left": dict(done.left)}
    _show(fields | {"late": done.is_late}, as_json)
    if done.is_late:
        click.echo(f"the stream lags more than {patience:.0f} s: run this again", err=True)
    if done.left or done.is_late:
        raise click.exceptions.Exit(INCOMPLETE)


def _show(fields: dict[str, object], as_json: bool) -> None:
    """Print the counts of items found, erased, removed and left."""
    if as_json:
        click.echo(json.dumps(fields))
        return
    for word in ("found", "erased", "removed", "left"):
        kinds = fields.get(word)
        if isinstance(kinds, dict):
            click.echo(f"{word}: " + (", ".join(f"{n:,} {kind}" for kind, n in kinds.items()) or "nothing"))


COMMANDS = (export, erase, forget_page)
