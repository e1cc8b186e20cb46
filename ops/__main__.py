"""`python -m ops`: the commands that operate a stage, each with its options and what it says.

What a command does is in a module of its own, imported when it is run: naming and explaining the commands
is quick. Exit codes: 0 done, 1 failed, 2 called wrongly, 130 interrupted.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

if TYPE_CHECKING:
    from rich.progress import Progress

    from ops.import_log import Summary

LONGEST = 65_536  # bytes of a line of a log; what is longer is several lines, none of them a view
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Commands(click.Group):
    """The commands, found by name; what a stage's table or AWS says against one becomes one line."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            raise click.exceptions.Exit(130) from None
        except Exception as error:
            if line := explanation(error):
                raise click.ClickException(line) from error
            raise


def explanation(error: Exception) -> str:
    """Say in one line what kept a command from AWS or from an engine; empty for any other error."""
    from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

    from chalicelib.errors import Busy

    endpoint = os.environ.get("HUBBUB_ENDPOINT")
    reached = error.__cause__ if isinstance(error, Busy) else error
    if isinstance(reached, HTTPClientError | ConnectionError):
        if not endpoint:
            return f"AWS cannot be reached: {reached}"
        return f"nothing answers at {endpoint}: is `make run` running? (HUBBUB_ENDPOINT names another engine)"
    if isinstance(error, ClientError) and error.response["Error"]["Code"] == "ResourceNotFoundException":
        return f"the stage has no table or no such resource at {endpoint or 'AWS'}: {error}"
    return str(error) if isinstance(error, Busy | BotoCoreError | ClientError) else ""


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Operate Hubbub."""


def _seconds(ctx: click.Context, parameter: click.Parameter, text: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text)
    if not match:
        raise click.BadParameter(f"{text!r} is not a time such as 90s, 15m, 1h or 7d")
    return int(match[1]) * SECONDS[match[2]]


def _subject(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    if not 1 <= len(text) <= 128:
        raise click.BadParameter("it must be 1 to 128 characters")
    return text


@main.command()
@click.option("--stage", default="local", show_default=True, help="The stage that the token is for.")
@click.option("--sub", required=True, callback=_subject, help="The player or author, 1 to 128 characters.")
@click.option("--scope", type=click.Choice(["admin"]), help="What the bearer may do beyond a user.")
@click.option("--ttl", default="1h", show_default=True, callback=_seconds, help="As 90s, 15m, 1h or 7d.")
def token(stage: str, sub: str, scope: str | None, ttl: int) -> None:
    """Print a bearer token, and nothing else."""
    from chalicelib import auth
    from ops.stage import load

    try:
        click.echo(auth.mint(load(stage), sub, scope=scope or "", seconds=ttl))
    except OSError as error:
        raise click.ClickException(f"the stage's secret cannot be read: {error}") from None


def _site(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    from chalicelib import urls

    try:
        url = urls.canonical(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}") from None
    if url != f"{url.partition(':')[0]}://{url.split('/')[2]}/":
        raise click.BadParameter("it must be scheme and host alone, such as https://www.example.com")
    return url.removesuffix("/")


@main.command()
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--site", required=True, callback=_site, help="Whose log it is: https://www.example.com")
@click.option("--stage", default="local", show_default=True, help="The stage that counts them.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
@click.option("--wait/--no-wait", "waits", default=True, help="Wait until all is counted.  [default: wait]")
def import_log(file: str, site: str, stage: str, as_json: bool, waits: bool) -> None:
    """Count the page views of an access log: FILE in Apache's combined format, also gzip'ed; - is stdin.

    Feeds, files that are no page, errors and crawlers are left out. Importing a log again counts nothing
    twice. Needs to read and write the stage's table.
    """
    from rich.console import Console
    from rich.progress import Progress

    from chalicelib import table, urls
    from ops.import_log import Skip, client_key, read, wait, write
    from ops.stage import load

    settings, counted = load(stage), None
    if not settings.allows(urls.host(site)):
        raise click.BadParameter(f"{site} is none of the stage's sites (HUBBUB_SITES)", param_hint="--site")
    try:
        key = client_key(table.connect(settings))
        console = Console(stderr=True)
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            found = read(_lines(file, progress), site, key)
            summary = write(table.connect(settings), found, settings, datetime.now(UTC))
            if waits:
                task = progress.add_task("counting", total=len(summary.days))
                days = sorted(summary.days)
                counted = wait(table.connect(settings), days, lambda: progress.advance(task))
    except KeyboardInterrupt:
        click.echo("interrupted: it is safe to run this again, nothing counts twice", err=True)
        raise click.exceptions.Exit(130) from None
    except (EOFError, zlib.error) as error:
        raise click.ClickException(f"{file}: damaged ({error}); what came before it is written") from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or file}: {error.strerror or error}") from None
    if summary.lines and summary.skipped[Skip.MALFORMED] == summary.lines:
        raise click.ClickException(f"{file}: no line is in Apache's combined format")
    if counted is False:
        click.echo("the views are written; the stream has yet to count some of them", err=True)
    _show(summary, counted, as_json)


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


def _show(summary: Summary, counted: bool | None, as_json: bool) -> None:
    """Print what became of a log's lines."""
    from rich.console import Console
    from rich.table import Table

    from ops.import_log import Skip

    pages = len({url for url, _ in summary.days})
    fields = {"lines": summary.lines, "views": summary.views, "distinct": summary.distinct, "pages": pages}
    skipped = {reason.value: summary.skipped[reason] for reason in Skip}
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


@main.command()
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="A file, instead of stdout.")
def openapi(output: Path | None) -> None:
    """Print the interface as OpenAPI 3.1; the app answers the same at /openapi.json."""
    from ops.openapi import text

    if output is None:
        click.echo(text(), nl=False)
        return
    try:
        output.write_text(text(), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{output}: {error.strerror or error}") from None


@main.command()
@click.option("--stage", required=True, help="A stage of .chalice/config.json.")
def provision(stage: str) -> None:
    """Make the stage's secret in SSM, unless there is one; docs/deployment.md has the other steps."""
    import boto3

    from ops.provision import secret
    from ops.stage import load

    settings = load(stage)
    if not settings.secret_parameter:
        raise click.ClickException(f"{stage} names no HUBBUB_SECRET_PARAMETER in .chalice/config.json")
    made = secret(boto3.client("ssm", **settings.client_options()), settings.secret_parameter)
    click.echo(f"{settings.secret_parameter}: {'made' if made else 'there already, left as it is'}")


if __name__ == "__main__":
    main(prog_name="python -m ops")
