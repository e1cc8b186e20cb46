"""The commands that bring a history in from a file, with progress."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import click

if TYPE_CHECKING:
    from rich.progress import Progress


LONGEST = 65_536  # bytes of a line; what is longer is several lines, none of them a view or a row


def _site(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    from chalicelib import urls

    try:
        url = urls.canonical(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}") from None
    if url != f"{url.partition(':')[0]}://{url.split('/')[2]}/":
        raise click.BadParameter("it must be scheme and host alone, such as https://www.example.com")
    return url.removesuffix("/")


@click.command()
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--site", required=True, callback=_site, help="Whose log it is: https://www.example.com")
@click.option("--stage", default="local", show_default=True, help="The stage that counts them.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
@click.option("--wait/--no-wait", "waits", default=True, help="Wait until all is counted.  [default: wait]")
@click.option("--discard-key", is_flag=True, help="Delete the key that version 0.1.0 kept in the table.")
def import_log(file: str, site: str, stage: str, as_json: bool, waits: bool, discard_key: bool) -> None:
    """Count the page views of an access log: FILE in Apache's combined format, also gzip'ed; - is stdin.

    Feeds, files that are no page, errors and crawlers are left out. Importing a log again counts nothing
    twice. After 29 days the days of the log are left out: their views have expired. Needs to read and write
    the stage's table, and to read its secret.
    """
    from rich.console import Console
    from rich.progress import Progress

    from chalicelib import urls
    from chalicelib.dynamo import table
    from ops.imports.access_log import OLD_KEY, Skip, client_key, read, wait, write
    from ops.stage import load

    settings, counted = load(stage), None
    if not settings.allows(urls.host(site)):
        raise click.BadParameter(f"{site} is none of the stage's sites (HUBBUB_SITES)", param_hint="--site")
    console = Console(stderr=True)
    with _explained(file):
        key = client_key(settings)
        if discard_key:
            table.connect(settings).delete(OLD_KEY)
        elif table.connect(settings).get(OLD_KEY, consistent=True):
            raise click.ClickException(
                "version 0.1.0 has imported logs here, and left the key of their clients in the table; "
                "run this with --discard-key to delete it, and import no log of that time again"
            )
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            found = read(_lines(file, progress), site, key)
            summary = write(table.connect(settings), found, settings, datetime.now(UTC), key)
            if waits:
                task = progress.add_task("counting", total=len(summary.days))
                days = sorted(summary.days)
                counted = wait(table.connect(settings), days, lambda: progress.advance(task))
    if summary.lines and summary.skipped[Skip.MALFORMED] == summary.lines:
        raise click.ClickException(f"{file}: no line is in Apache's combined format")
    if counted is False:
        click.echo("the views are written; the stream has yet to count some of them", err=True)
    if left_out := summary.skipped[Skip.IMPORTED_ALREADY]:
        click.echo(
            f"{left_out:,} views are left out: their days were imported before, 29 days ago or more, "
            "or under another secret",
            err=True,
        )
    pages = len({url for url, _ in summary.days})
    fields = {"lines": summary.lines, "views": summary.views, "distinct": summary.distinct, "pages": pages}
    skipped = {reason.value: summary.skipped[reason] for reason in Skip}
    _show(fields, skipped, counted, as_json)


def _identifier(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    from chalicelib.api.codec import normalize
    from chalicelib.api.schemas import STORED, STORED_RULE

    try:
        name = normalize(text, "name")
    except ValueError as error:
        raise click.BadParameter(f"{error}") from None
    if not STORED.match(name):
        raise click.BadParameter(f"it {STORED_RULE}")
    return name


@click.command()
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--board", required=True, callback=_identifier, help="The leaderboard, which must be there.")
@click.option("--player", required=True, metavar="COLUMN", help="The column that says whose a value is.")
@click.option("--value", required=True, metavar="COLUMN", help="The column with the value.")
@click.option("--id", metavar="COLUMN", help="The column with the submission's id.  [default: the player]")
@click.option("--time", metavar="COLUMN", help="The column with its time, ISO 8601.  [default: now]")
@click.option("--stage", default="local", show_default=True, help="The stage that counts them.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
@click.option("--wait/--no-wait", "waits", default=True, help="Wait until all is ranked.  [default: wait]")
def import_scores(
    file: str,
    board: str,
    player: str,
    value: str,
    id: str | None,
    time: str | None,
    stage: str,
    as_json: bool,
    waits: bool,
) -> None:
    """Submit the rows of a file to a leaderboard: FILE is CSV with a header, also gzip'ed; - is stdin.

    The same player and id count once, however often the file is imported. A file with several rows of a
    player needs a column that tells them apart. Needs to read and write the stage's table.
    """
    from rich.console import Console
    from rich.progress import Progress

    from chalicelib.dynamo import table
    from chalicelib.errors import NotFound
    from chalicelib.leaderboards import boards
    from ops.imports.score_rows import Columns, Skip, read
    from ops.imports.scores import Became, wait, write
    from ops.stage import load

    store, now, counted = table.connect(load(stage)), datetime.now(UTC), None
    try:
        defined = boards.find(store, board, now)
    except NotFound as error:
        raise click.ClickException(f"{error}; PUT /leaderboards/{board} makes it (see /docs)") from None
    console = Console(stderr=True)
    progress = Progress(console=console, transient=True, disable=not console.is_terminal)
    with _explained(file), progress:
        found = read(_lines(file, progress), Columns(player, value, id, time), defined, now)
        summary = write(store, board, found)
        if waits:
            task = progress.add_task("ranking", total=len(summary.players))
            players = list(summary.players)
            counted = wait(store, defined, players, lambda done: progress.advance(task, done))
    if summary.rows and not summary.players:
        [(reason, _)] = summary.became.most_common(1)
        raise click.ClickException(f"{file}: no row is a submission; most are {reason}")
    if counted is False:
        click.echo("the scores are written; the stream has yet to rank some of them", err=True)
    fields = {"rows": summary.rows, **{one.value: summary.became[one] for one in Became}}
    skipped = {reason.value: summary.became[reason] for reason in Skip}
    _show(fields | {"players": len(summary.players)}, skipped, counted, as_json)


@contextlib.contextmanager
def _explained(file: str) -> Iterator[None]:
    """Say in one line what ended an import before its file did."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("interrupted: it is safe to run this again, nothing counts twice", err=True)
        raise click.exceptions.Exit(130) from None
    except (EOFError, zlib.error) as error:
        again = "mend it and run this again, nothing counts twice"
        raise click.ClickException(f"{file}: damaged ({error}); {again}") from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or file}: {error.strerror or error}") from None


def _languages(ctx: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    from chalicelib.comments import languages

    try:
        return [languages.canonical(tag.strip()) for tag in text.split(",")] if text else []
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--stage", default="local", show_default=True, help="The stage that keeps them.")
@click.option(
    "--languages", default="", callback=_languages, help="As en,de,fr: the rows in turn, row by row."
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
@click.option("--wait/--no-wait", "waits", default=True, help="Wait until all is counted.  [default: wait]")
def import_comments(file: str, stage: str, languages: list[str], as_json: bool, waits: bool) -> None:
    """Import comments: FILE in CSV with product, author, rating, language, text; gzip'ed too; - is stdin.

    Who has commented on a product is left out, so importing a file again writes nothing twice. Needs to read
    and write the stage's table.
    """
    from rich.console import Console
    from rich.progress import Progress

    from chalicelib.dynamo import table
    from ops.imports.comments import NotComments, Skip, read, wait, write
    from ops.stage import load

    store, counted = table.connect(load(stage)), None
    console = Console(stderr=True)
    progress = Progress(console=console, transient=True, disable=not console.is_terminal)
    try:
        with _explained(file), progress:
            lines = (line.decode("utf-8-sig", "backslashreplace") for line in _lines(file, progress))
            summary = write(store, read(lines, languages), datetime.now(UTC))
            if waits:
                task = progress.add_task("counting", total=len(summary.products))
                counted = wait(store, sorted(summary.products), lambda: progress.advance(task))
    except NotComments as error:
        raise click.ClickException(f"{file}: {error}; what came before is written") from None
    if counted is False:
        click.echo("the comments are written; the stream has yet to count some of them", err=True)
    fields = {"rows": summary.rows, "written": summary.written, "products": len(summary.products)}
    _show(fields, {reason.value: summary.skipped[reason] for reason in Skip}, counted, as_json)


def _lines(file: str, progress: Progress) -> Iterator[bytes]:
    """Read the lines of a file, or of standard input (`-`), gzip'ed or not."""
    size = 0 if file == "-" else Path(file).stat().st_size
    with click.open_file(file, "rb") as raw:
        opened = cast(BinaryIO, raw)
        source = progress.wrap_file(opened, total=size, description="reading") if size else opened
        plain = io.BufferedReader(cast(io.RawIOBase, source))
        text = gzip.GzipFile(fileobj=plain) if plain.peek(2)[:2] == b"\x1f\x8b" else plain
        while line := text.readline(LONGEST):
            yield line


def _show(fields: dict[str, int], skipped: dict[str, int], counted: bool | None, as_json: bool) -> None:
    """Print what became of a file's lines or rows."""
    from rich.console import Console
    from rich.table import Table

    if as_json:
        click.echo(json.dumps({**fields, "skipped": skipped, "counted": counted}))
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column()
    grid.add_column(justify="right")
    for name, number in fields.items():
        grid.add_row("distinct views (written)" if name == "distinct" else name, f"{number:,}")
    for name, number in skipped.items():
        grid.add_row(f"skipped: {name.replace('_', ' ')}", f"{number:,}")
    Console().print(grid)
