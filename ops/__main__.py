"""`python -m ops`: the commands that operate a stage, each with its options and what it says.

What a command does is in a module of its own, imported when it is run: naming and explaining the commands
is quick. The commands that read a file are in imports.py, those that put a table right in repairs.py and
upkeep.py, those about what it holds in data.py, those that only look in overview.py, those that bring a
stage to AWS in deployment.py. Exit codes: 0 done, 1 failed, 2 called wrongly, 3 done and something is left,
130 interrupted.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click

from ops.cli import data, deploy, imports, inspect, maintenance, repairs

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
    from chalicelib.api import codec, schemas

    try:
        name = codec.normal(text, "sub")
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not schemas.IDENTIFIER.search(name):
        raise click.BadParameter(f"it {schemas.IDENTIFIER_RULE}")
    return name


@main.command()
@click.option("--stage", default="local", show_default=True, help="The stage that the token is for.")
@click.option("--sub", required=True, callback=_subject, help="The player or author.")
@click.option("--scope", type=click.Choice(["admin"]), help="What the bearer may do beyond a user.")
@click.option("--ttl", default="1h", show_default=True, callback=_seconds, help="As 90s, 15m, 1h or 7d.")
def token(stage: str, sub: str, scope: str | None, ttl: int) -> None:
    """Print a bearer token, and nothing else."""
    from chalicelib.api import auth
    from ops.stage import load

    try:
        click.echo(auth.mint(load(stage), sub, scope=scope or "", seconds=ttl))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--ttl") from None
    except OSError as error:
        raise click.ClickException(f"the stage's secret cannot be read: {error}") from None


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
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="A file, instead of stdout.")
def table(output: Path | None) -> None:
    """Print docs/table.md: the items of the table and what each operation costs, from the docstrings."""
    from ops.table import text

    if output is None:
        click.echo(text(), nl=False)
        return
    try:
        output.write_text(text(), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{output}: {error.strerror or error}") from None


@main.command()
@click.option("--stage", required=True, help="A stage of .chalice/config.json.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: path, bytes, contents.")
def bundle(stage: str, as_json: bool) -> None:
    """Make the package that the next deploy uploads: without what is unused, with its bytecode."""
    import json

    from ops.aws import bundle as package
    from ops.stage import ROOT, variables

    variables(stage)  # there is such a stage
    made = package.bundle(ROOT, stage)
    size, contents = made.stat().st_size, package.contents(made)
    if as_json:
        click.echo(json.dumps({"path": str(made), "bytes": size, "contents": contents}))
        return
    for name, part in contents.items():
        click.echo(f"{part:>9,} {name}")
    click.echo(f"{size:>9,} {made.relative_to(ROOT)}")
    if package.RUNTIME not in made.name:
        click.echo(f"this Python's runtime is not {package.RUNTIME}: run it with that one", err=True)


@main.command()
def lock() -> None:
    """Write requirements.lock from requirements.txt: the libraries of a deployment, with their hashes."""
    from ops.aws import lock as locks
    from ops.stage import ROOT

    for one in locks.write(ROOT):
        click.echo(f"{one.name} {one.version}: {len(one.hashes)} wheels")


main.add_command(deploy.provision)
main.add_command(deploy.deploy)
main.add_command(deploy.smoke)
main.add_command(deploy.destroy)
main.add_command(deploy.package)
main.add_command(inspect.status)
main.add_command(inspect.cost)
main.add_command(imports.import_log)
main.add_command(repairs.redrive)
main.add_command(repairs.replay)
main.add_command(imports.import_scores)
main.add_command(imports.import_comments)
main.add_command(maintenance.backfill)
main.add_command(maintenance.audit)
main.add_command(maintenance.repair)
main.add_command(data.export)
main.add_command(data.erase)
main.add_command(data.forget_page)


if __name__ == "__main__":
    main(prog_name="python -m ops")
