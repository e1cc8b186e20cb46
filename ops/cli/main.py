"""The commands that operate a stage: `.venv/bin/hubbub`, which is `.venv/bin/python -m ops`.

`GROUPS` lists them as `--help` does. A command imports the module that does its work when it runs, so listing
the commands is fast.

Exit codes: 0 done, 1 failed, 2 usage error, 3 finished but something needs attention, 130 interrupted. An
error is one line on standard error, and with `--json` an object with `code` and `message`.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import click

from ops.cli import data, deploy, imports, inspect, maintenance
from ops.cli.options import INTERRUPTED, parse_identifier
from ops.stage import ROOT

KIND = re.compile(r"is not a valid (float|integer)( range)?")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
GROUPS = {
    "Look": {
        "status": "hubbub status --stage prod",
        "cost": "hubbub cost --views 30000",
        "token": "hubbub token --sub ann --ttl 1h",
    },
    "Import": {
        "import-log": "hubbub import-log access.log --site https://www.example.org",
        "import-scores": "hubbub import-scores scores.csv --board race --player name --value points",
        "import-comments": "hubbub import-comments disqus.xml --format disqus --rating 5",
    },
    "Data of a person or a page": {
        "export": "hubbub export --person ann --output ann.jsonl",
        "erase": "hubbub erase ann --dry-run",
        "forget-page": "hubbub forget-page https://www.example.org/old",
    },
    "Deploy": {
        "provision": "hubbub provision --stage prod",
        "deploy": "hubbub deploy --stage prod",
        "package": "hubbub package --stage prod out",
        "smoke": "hubbub smoke --stage prod",
        "origin-secret": "hubbub origin-secret --stage prod",
        "restore": "hubbub restore --stage prod --to 2026-11-25T12:00:00Z",
        "rollback": "hubbub rollback --to HEAD~1 --stage prod",
        "destroy": "hubbub destroy --stage prod",
    },
    "Maintain": {
        "audit": "hubbub audit --stage prod",
        "repair": "hubbub repair --stage prod",
        "redrive": "hubbub redrive --stage prod --dry-run",
        "replay": "hubbub replay stream --stage prod",
    },
    "Develop": {
        "openapi": "hubbub openapi --output openapi.json",
        "table": "hubbub table",
        "client": "hubbub client",
        "lock": "hubbub lock",
        "completion": "hubbub completion bash >> ~/.bashrc",
    },
}
"""The commands by subject, each with an example."""
NO_CREDENTIALS = "no AWS credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


def _name_kind(found: re.Match[str]) -> str:
    """Return a refusal of click with a word for numbers that no programmer needs to explain."""
    return f"is not a {'number' if found[1] == 'float' else 'whole number'}"


class OneLine(click.ClickException):
    """An error that is printed as one line, or as a JSON object."""

    def __init__(self, message: str, code: int, *, as_json: bool) -> None:
        super().__init__(" ".join(KIND.sub(_name_kind, message).split()))
        self.exit_code = code  # type: ignore[misc]  # click keeps it on the class
        self._as_json = as_json

    def show(self, file: Any = None) -> None:
        """Print the error on standard error."""
        name = "usage" if self.exit_code == click.UsageError.exit_code else "failed"
        error = json.dumps({"code": name, "message": self.message})
        click.echo(error if self._as_json else f"Error: {self.message}", err=True, file=file)


class Commands(click.Group):
    """A group of commands that prints each error, also one of AWS or of an engine, as one line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options before the command, and note whether the command has `--json`."""
        ctx.meta["as_json"] = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        as_json = ctx.meta["as_json"]
        try:
            return self._invoke(ctx)
        except click.ClickException as error:
            if as_json or isinstance(error, click.BadParameter):
                raise OneLine(error.format_message(), error.exit_code, as_json=as_json) from None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by subject, each with its whole first sentence."""
        for title, examples in GROUPS.items():
            rows = [(name, _summarize(self.commands[name])) for name in examples]
            with formatter.section(title):
                formatter.write_dl(rows)

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit, ModuleNotFoundError):
            raise
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        except Exception as error:
            if line := explain(error):
                raise click.ClickException(line) from error
            raise


def _summarize(command: click.Command) -> str:
    """Return the first sentence of a command's help."""
    return " ".join((command.help or "").split("\n\n")[0].split()).partition(". ")[0].removesuffix(".")


def explain(error: Exception) -> str:
    """Return one line about an error of AWS or of an engine; empty for any other error."""
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        ConnectionError,
        HTTPClientError,
        NoCredentialsError,
        NoRegionError,
    )

    from chalicelib.errors import Busy

    endpoint = os.environ.get("HUBBUB_ENDPOINT")
    cause = error.__cause__ if isinstance(error, Busy) else error
    if isinstance(error, NoRegionError):
        return "no region; set AWS_DEFAULT_REGION, for example to eu-central-1"
    if isinstance(error, NoCredentialsError):
        return NO_CREDENTIALS
    if isinstance(cause, HTTPClientError | ConnectionError):
        if not endpoint:
            return f"cannot connect to AWS: {cause}"
        return f"cannot connect to {endpoint}. Is `make run` running? HUBBUB_ENDPOINT selects another engine."
    code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
    if endpoint and code.isdecimal():  # a status without a code: a web server, for example
        return f"there is no DynamoDB at {endpoint}: HTTP {code}. Is HUBBUB_ENDPOINT correct?"
    if code == "ResourceNotFoundException":
        return f"a table or another resource of the stage does not exist at {endpoint or 'AWS'}: {error}"
    return str(error) if isinstance(error, Busy | BotoCoreError | ClientError) else ""


def _print_version(ctx: click.Context, parameter: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        click.echo(f"hubbub {project['version']}")
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version.",
)
def main() -> None:
    """Operate Hubbub: look at a stage, import, deploy, maintain.

    `hubbub COMMAND --help` describes a command and has an example.
    """


def _seconds(ctx: click.Context, parameter: click.Parameter, text: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text)
    if not match:
        raise click.BadParameter(f"{text!r} is not a duration such as 90s, 15m, 1h or 7d")
    return int(match[1]) * SECONDS[match[2]]


@main.command()
@click.option("--stage", default="local", show_default=True, help="The stage that accepts the token.")
@click.option("--sub", required=True, callback=parse_identifier, help="The player or author.")
@click.option("--scope", type=click.Choice(["admin", "scores"]), help="Additional rights of the bearer.")
@click.option("--name", help="The display name.")
@click.option("--ttl", default="1h", show_default=True, callback=_seconds, help="Such as 90s, 15m, 1h or 7d.")
def token(stage: str, sub: str, scope: str | None, name: str | None, ttl: int) -> None:
    """Print a bearer token."""
    from chalicelib.api import auth
    from ops.stage import load

    try:
        click.echo(auth.mint(load(stage, has_engine=False), sub, scope=scope or "", seconds=ttl, name=name))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--ttl'") from None
    except OSError as error:
        raise click.ClickException(f"the stage's secret cannot be read: {error}") from None


@main.command()
@click.option("--stage", required=True, help="The stage behind the distribution.")
def origin_secret(stage: str) -> None:
    """Print the value of the header X-Origin-Secret, which a CloudFront distribution sends to the stage."""
    from chalicelib.api import viewer
    from ops.stage import load

    try:
        click.echo(viewer.find_origin_secrets(load(stage, has_engine=False))[0])
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
    """Write the client's calls and types (web/lib/calls.js and hubbub.d.ts) from the OpenAPI document."""
    from ops.client import write

    for path in write():
        click.echo(f"{path.name}: written")


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the lines that complete commands and options in a shell."""
    from click.shell_completion import get_completion_class

    if found := get_completion_class(shell):
        click.echo(found(main, {}, "hubbub", "_HUBBUB_COMPLETE").source())


for module in (data, deploy, imports, inspect, maintenance):
    for command in module.COMMANDS:
        main.add_command(command)
for examples in GROUPS.values():
    for name, example in examples.items():
        main.commands[name].epilog = f"Example: {example}"
