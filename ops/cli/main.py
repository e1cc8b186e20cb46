"""The commands that operate a stage: `python -m ops`.

| module | commands |
|---|---|
| main | token, openapi, table, client |
| imports | import-log, import-scores, import-comments |
| inspect | status, cost |
| maintenance | audit, repair, redrive, replay |
| data | export, erase, forget-page |
| deploy | provision, deploy, rollback, smoke, destroy, package, bundle, lock |

A command imports the module that does its work when it runs, so listing the commands is fast.

Exit codes: 0 done, 1 failed, 2 usage error, 3 finished but something needs attention, 130 interrupted.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click

from ops.cli import data, deploy, imports, inspect, maintenance
from ops.cli.options import INTERRUPTED

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class WrongOption(click.ClickException):
    """A wrong option. click itself prints two lines about the usage before the error."""

    exit_code = 2


class Commands(click.Group):
    """A group of commands that prints a wrong option, and an error of AWS or of an engine, as one line."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except click.BadParameter as error:
            raise WrongOption(error.format_message()) from None
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        except Exception as error:
            if line := explain(error):
                raise click.ClickException(line) from error
            raise


def explain(error: Exception) -> str:
    """Return one line about an error of AWS or of an engine; empty for any other error."""
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        ConnectionError,
        HTTPClientError,
        NoRegionError,
    )

    from chalicelib.errors import Busy

    endpoint = os.environ.get("HUBBUB_ENDPOINT")
    cause = error.__cause__ if isinstance(error, Busy) else error
    if isinstance(error, NoRegionError):
        return "no region; set AWS_DEFAULT_REGION, for example to eu-central-1"
    if isinstance(cause, HTTPClientError | ConnectionError):
        if not endpoint:
            return f"cannot connect to AWS: {cause}"
        return f"cannot connect to {endpoint}. Is `make run` running? HUBBUB_ENDPOINT selects another engine."
    if isinstance(error, ClientError) and error.response["Error"]["Code"] == "ResourceNotFoundException":
        return f"a table or another resource of the stage does not exist at {endpoint or 'AWS'}: {error}"
    return str(error) if isinstance(error, Busy | BotoCoreError | ClientError) else ""


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Operate Hubbub."""


def _seconds(ctx: click.Context, parameter: click.Parameter, text: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text)
    if not match:
        raise click.BadParameter(f"{text!r} is not a duration such as 90s, 15m, 1h or 7d")
    return int(match[1]) * SECONDS[match[2]]


def _subject(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    from chalicelib.api import codec, schemas

    try:
        name = codec.normalize(text, "sub")
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not schemas.IDENTIFIER.search(name):
        raise click.BadParameter(f"it {schemas.IDENTIFIER_RULE}")
    return name


@main.command()
@click.option("--stage", default="local", show_default=True, help="The stage that accepts the token.")
@click.option("--sub", required=True, callback=_subject, help="The player or author.")
@click.option("--scope", type=click.Choice(["admin", "scores"]), help="Additional rights of the bearer.")
@click.option("--name", help="The display name.")
@click.option("--ttl", default="1h", show_default=True, callback=_seconds, help="Such as 90s, 15m, 1h or 7d.")
def token(stage: str, sub: str, scope: str | None, name: str | None, ttl: int) -> None:
    """Print a bearer token."""
    from chalicelib.api import auth
    from ops.stage import load

    try:
        click.echo(auth.mint(load(stage), sub, scope=scope or "", seconds=ttl, name=name))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--ttl") from None
    except OSError as error:
        raise click.ClickException(f"the stage's secret cannot be read: {error}") from None


OUTPUT = click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file.")


def _write(text: str, output: Path | None) -> None:
    """Write a text to a file, or print it."""
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{output}: {error.strerror or error}") from None


@main.command()
@OUTPUT
def openapi(output: Path | None) -> None:
    """Print the REST interface as OpenAPI 3.1, as GET /openapi.json returns it."""
    from ops.openapi import format_openapi

    _write(format_openapi(), output)


@main.command()
@OUTPUT
def table(output: Path | None) -> None:
    """Print the items of the table and the cost of each operation, from the docstrings, as Markdown."""
    from ops.table import text

    _write(text(), output)


@main.command()
def client() -> None:
    """Write the client's calls and types (web/lib/hubbub.js and hubbub.d.ts) from the OpenAPI document."""
    from ops.client import write

    for path in write():
        click.echo(f"{path.name}: written")


for module in (data, deploy, imports, inspect, maintenance):
    for command in module.COMMANDS:
        main.add_command(command)
