"""The commands that import data from a file."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import zipfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import click

from ops.cli.options import INCOMPLETE, INTERRUPTED, REPORT, STAGE, Report, gather, parse_identifier
from ops.imports.formats import Columns, Format
from ops.stage import new_context

if TYPE_CHECKING:
    from rich.progress import Progress


AGAIN = "repair the file and run this again; nothing counts twice"
SHOWN = 200  # characters of a malformed line
MAX_LINE = 65_536  # bytes; a longer line is read as several malformed lines


def _sites(ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Return the addresses of sites by their hosts."""
    from chalicelib import urls

    found = {}
    for text in texts:
        try:
            url = urls.canonical(text)
        except ValueError as error:
            raise click.BadParameter(f"{error}") from None
        if url != f"{url.partition(':')[0]}://{url.split('/')[2]}/":
            raise click.BadParameter("must be a scheme and a host, such as https://www.example.com")
        found[urls.host(url)] = url.removesuffix("/")
    return found


@click.command()
@click.argument("file", type=click.Path(allow_dash=True))
@click.option(
    "--site",
    "sites",
    multiple=True,
    callback=_sites,
    help="The site of lines without a host, such as https://www.example.com. Repeat it for a log of several "
    "sites, to name the scheme of each.",
)
@STAGE
@REPORT
def import_log(file: str, sites: dict[str, str], stage: str, report: Report) -> None:
    """Import page views from an access log, or from an export of GoatCounter, Plausible or Umami.

    A log is in Apache's common, combined or vhost_combined format, nginx' default, Caddy's JSON, CloudFront's
    standard or ALB's. An export is CSV, or the zip of Plausible or Umami. FILE may be compressed with gzip; -
    is stdin. A line that names its host counts for that site. Feeds, assets, errors, crawlers and other sites
    are skipped. Importing a file again counts nothing twice. A day that was imported 29 days ago or earlier
    is skipped, because its views have expired. Needs read and write access to the stage's table and read
    access to its secret. Exit code 3: all is written, and the stream has not counted all of it.
    """
    from chalicelib.dynamo import table
    from chalicelib.views import definitions
    from ops.imports import log_formats
    from ops.imports.access_log import Log, NoSite, Skip, derive_client_key, wait, write
    from ops.imports.exports import NoExport, read, read_archive
    from ops.stage import load

    settings, counted = load(stage), None
    store = table.connect(settings)
    for host in sites:
        if definitions.find(store, host).fields is None and not settings.allows(host):
            other = host.removeprefix("www.") if host.startswith("www.") else f"www.{host}"
            hint = f"; {other} is one, and another site" if settings.allows(other) else ""
            raise click.BadParameter(
                f"{host} is not a site of the stage (HUBBUB_SITES){hint}", param_hint="--site"
            )
    log = Log(sites, settings, lambda host: definitions.find(store, host))
    with _explain_errors(file):
        key = derive_client_key(settings)
        with _new_progress() as progress:
            is_archive = file != "-" and Path(file).is_file() and zipfile.is_zipfile(file)
            found = (
                read_archive(Path(file), log, key) if is_archive else read(_lines(file, progress), log, key)
            )
            try:
                summary = write(store, found, settings, datetime.now(UTC), key)
            except NoExport as error:
                raise click.ClickException(f"{file}: {error}; {AGAIN}") from None
            except NoSite:
                raise click.UsageError(
                    "a line names no host: give the site of such lines as --site"
                ) from None
            if report.waits:
                task = progress.add_task("aggregates", total=len(summary.days))
                counted = wait(store, sorted(summary.days), lambda: progress.advance(task))
    if not summary.lines:
        raise click.ClickException(f"{file}: the file is empty")
    example = _show_line(log.malformed)
    if summary.skipped[Skip.MALFORMED] == summary.lines:
        known = ", ".join((*log_formats.FORMATS, "an export of GoatCounter, Plausible or Umami"))
        raise click.ClickException(f"{file}: no line is in a known format ({known}); {example}")
    if example:
        click.echo(f"malformed: {example}", err=True)
    if counted is False:
        click.echo("all views are written; the stream has not counted all of them yet", err=True)
    if already_imported := summary.skipped[Skip.IMPORTED_ALREADY]:
        click.echo(
            f"skipped {already_imported:,} views: their days were imported 29 days ago or earlier, "
            "or with another secret",
            err=True,
        )
    pages = len({url for url, _ in summary.days})
    fields = {"lines": summary.lines, "views": summary.views, "distinct": summary.distinct, "pages": pages}
    skipped = {reason.value: summary.skipped[reason] for reason in Skip}
    _show(fields, skipped, counted, report)


def _show_line(line: tuple[int, str] | None) -> str:
    """Return a line of a log with its number, without the characters that a terminal would act on."""
    return f"line {line[0]:,} is {line[1][:SHOWN]!a}" if line else ""


@click.command()
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--board", required=True, callback=parse_identifier, help="An existing leaderboard.")
@gather(
    "columns",
    Columns,
    click.option("--player", required=True, metavar="COLUMN", help="The column with the player."),
    click.option("--value", required=True, metavar="COLUMN", help="The column with the value."),
    click.option("--id", metavar="COLUMN", help="The column with the id.  [default: the player]"),
    click.option("--time", metavar="COLUMN", help="The column with the ISO 8601 time.  [default: now]"),
)
@STAGE
@REPORT
def import_scores(file: str, board: str, columns: Columns, stage: str, report: Report) -> None:
    """Import scores from a CSV file into a leaderboard.

    FILE has a header line and may be compressed with gzip; - is stdin. A submission with the same player and
    id counts once, however often the file is imported. A file with several rows per player needs an id
    column. Needs read and write access to the stage's table, with dynamodb:PartiQLInsert. Exit code 3: all is
    written, and the stream has not ranked all of it.
    """
    from chalicelib.dynamo import table
    from chalicelib.errors import NotFound
    from chalicelib.leaderboards import boards
    from ops.imports.scores import Outcome, Skip, read, wait, write
    from ops.stage import load

    store, now, counted = table.connect(load(stage)), datetime.now(UTC), None
    try:
        defined = boards.find(new_context(store, now), board)
    except NotFound as error:
        hint = f"Create it with PUT /leaderboards/{board} (see /docs)."
        raise click.ClickException(f"{error} {hint}") from None
    progress = _new_progress()
    with _explain_errors(file), progress:
        found = read(_lines(file, progress), columns, defined, now)
        summary = write(store, board, found)
        if report.waits:
            task = progress.add_task("ranking", total=len(summary.players))
            players = list(summary.players)
            counted = wait(store, defined, players, lambda done: progress.advance(task, done))
    if summary.rows and not summary.players:
        [(reason, _)] = summary.outcomes.most_common(1)
        raise click.ClickException(
            f"{file}: no row is a valid submission; the most frequent reason is {reason}"
        )
    if counted is False:
        click.echo("all scores are written; the stream has not ranked all of them yet", err=True)
    fields = {"rows": summary.rows, **{outcome.value: summary.outcomes[outcome] for outcome in Outcome}}
    skipped = {reason.value: summary.outcomes[reason] for reason in Skip}
    _show(fields | {"players": len(summary.players)}, skipped, counted, report)


@contextlib.contextmanager
def _explain_errors(file: str) -> Iterator[None]:
    """Convert an error that ends an import early to one line."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("interrupted: run it again; nothing counts twice", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise click.ClickException(f"{file}: the gzip data is damaged or cut off; {AGAIN}") from None
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
@STAGE
@gather(
    "chosen",
    Format,
    click.option(
        "--format",
        "kind",
        type=click.Choice(["csv", "disqus", "wordpress"]),
        default="csv",
        show_default=True,
        help="The format of the file. Exports of Disqus and WordPress are XML.",
    ),
    click.option(
        "--rating",
        type=click.IntRange(1, 5),
        help="The rating of comments of Disqus and WordPress. Without it they have none.",
    ),
    click.option(
        "--languages",
        default="",
        callback=_languages,
        help="Such as en,de,fr: assign these languages to the rows in rotation.",
    ),
)
@REPORT
def import_comments(file: str, stage: str, chosen: Format, report: Report) -> None:
    """Import comments from a CSV file, or from an export of Disqus or WordPress.

    FILE may be compressed with gzip; - is stdin. A CSV file has the columns product, author, rating, language
    and text. The other formats keep the time of each comment and the name of its author, and their replies
    become replies of one level. Without --rating their pages become discussions, where an author may write
    any number of comments. With it an author has one comment on a product, and others are skipped. Importing
    a file again writes nothing. Needs read and write access to the stage's table. Exit code 3: all is
    written, and the stream has not counted all of it.
    """
    from chalicelib.dynamo import table
    from ops.imports.blogs import Choice, read_disqus, read_wordpress
    from ops.imports.comments import NotComments, ReplyRow, Row, Skip, read, wait, write
    from ops.stage import load

    if chosen.kind != "csv" and len(chosen.languages) > 1:
        raise click.UsageError("exports of Disqus and WordPress have one language in --languages")
    choice = Choice(chosen.rating, (chosen.languages or ["und"])[0])
    settings, counted, has_rows = load(stage), None, False
    store = table.connect(settings)
    progress = _new_progress()

    def read_rows() -> Iterator[Row | ReplyRow | Skip]:
        nonlocal has_rows
        raw = _lines(file, progress)
        if chosen.kind == "csv":
            rows = read((line.decode("utf-8-sig", "surrogateescape") for line in raw), chosen.languages)
        else:
            reader = read_disqus if chosen.kind == "disqus" else read_wordpress
            rows = reader(raw, choice)
        for row in rows:
            has_rows = True
            yield row

    try:
        with _explain_errors(file), progress:
            summary = write(store, read_rows(), datetime.now(UTC))
            if report.waits:
                task = progress.add_task("aggregates", total=len(summary.products))
                counted = wait(store, sorted(summary.products), lambda: progress.advance(task))
    except NotComments as error:
        raise click.ClickException(f"{file}: {error}{f'; {AGAIN}' if has_rows else ''}") from None
    if summary.rows and not summary.products and not summary.replies:
        [(reason, _)] = summary.skipped.most_common(1)
        raise click.ClickException(f"{file}: no row is a comment; the most frequent reason is {reason}")
    if counted is False:
        click.echo("all comments are written; the stream has not counted all of them yet", err=True)
    fields = {"rows": summary.rows, "written": summary.written, "replies": summary.replies}
    fields["products"] = len(summary.products)
    fields |= {"dropped characters": choice.dropped} if choice.dropped else {}
    _show(fields, {reason.value: summary.skipped[reason] for reason in Skip}, counted, report)


def _new_progress() -> Progress:
    """Return a progress bar on standard error. It shows nothing unless that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)


def _lines(file: str, progress: Progress) -> Iterator[bytes]:
    """Read the lines of a file or of standard input (`-`), and decompress gzip."""
    size = 0 if file == "-" else Path(file).stat().st_size
    with click.open_file(file, "rb") as raw:
        opened = cast(BinaryIO, raw)
        source = progress.wrap_file(opened, total=size, description="reading") if size else opened
        plain = io.BufferedReader(cast(io.RawIOBase, source))
        text = gzip.GzipFile(fileobj=plain) if plain.peek(2)[:2] == b"\x1f\x8b" else plain
        while line := text.readline(MAX_LINE):
            yield line


def _show(fields: dict[str, int], skipped: dict[str, int], counted: bool | None, report: Report) -> None:
    """Print the counts of an import. Raises Exit if the stream has not counted all of it."""
    from rich.console import Console
    from rich.table import Table

    if report.as_json:
        click.echo(json.dumps({**fields, "skipped": skipped, "counted": counted}))
    else:
        grid = Table.grid(padding=(0, 2))
        grid.add_column()
        grid.add_column(justify="right")
        for name, number in fields.items():
            grid.add_row("distinct views (written)" if name == "distinct" else name, f"{number:,}")
        for name, number in skipped.items():
            grid.add_row(f"skipped: {name.replace('_', ' ')}", f"{number:,}")
        Console().print(grid)
    if counted is False:
        raise click.exceptions.Exit(INCOMPLETE)


COMMANDS = (import_log, import_scores, import_comments)
