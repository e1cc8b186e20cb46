"""Options that several commands share, and the exit codes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from ops.maintenance.pace import Pace
from ops.stage import DATA, RUN

if TYPE_CHECKING:
    from chalicelib.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

INCOMPLETE = 3
"""The exit code of a command that has finished and left something that needs attention."""
INTERRUPTED = 130
"""The exit code of a command that was interrupted."""


def gather(parameter: str, kind: Any, *options: Callable[[F], F]) -> Callable[[F], F]:
    """Add options, and pass their values to the command as one named tuple."""

    def add(command: F) -> F:
        @wraps(command)
        def run(**given: Any) -> Any:
            value = kind(**{name: given.pop(name) for name in kind._fields})
            return command(**given, **{parameter: value})

        for option in reversed(options):
            run = option(run)
        return run  # type: ignore[return-value]

    return add


def settings_client(settings: Settings) -> Callable[..., Any]:
    """Return a function that creates a stage's client of an AWS service, optionally with other options."""
    import boto3

    make: Any = boto3.client
    return lambda service, **options: make(service, **settings.client_options() | options)


def parse_identifier(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    """Normalize a name as the API does."""
    from chalicelib.api.codec import normalize
    from chalicelib.api.schemas import IDENTIFIER, IDENTIFIER_RULE

    try:
        name = normalize(text, parameter.name or "")
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not IDENTIFIER.search(name):
        raise click.BadParameter(f"it {IDENTIFIER_RULE}")
    return name


def _keep_data(ctx: click.Context, parameter: click.Parameter, folder: Path) -> None:
    ctx.meta[RUN] = folder


def STAGE(command: F) -> F:  # noqa: N802 (used as the other options are)
    """Add the stage, and for the local stage the data folder of its run (`ops.stage.data_folder`)."""
    data = click.option(
        "--data",
        type=click.Path(path_type=Path),
        default=DATA,
        expose_value=False,
        callback=_keep_data,
        help="The data folder of the local run.  [default: .local]",
    )
    stage = click.option("--stage", default="local", show_default=True, help="The stage to operate on.")
    return stage(data(command))


JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
PACE = gather(
    "pace",
    Pace,
    click.option(
        "--segments",
        type=click.IntRange(1, 1000),
        default=4,
        show_default=True,
        help="Number of table segments to read in parallel.",
    ),
    click.option(
        "--rate", type=click.FloatRange(1), help="Maximum items to read per second.  [default: unlimited]"
    ),
)
SETTLE = click.option(
    "--settle",
    type=click.FloatRange(0, 3600),
    default=10,
    show_default=True,
    help="Seconds between two passes. Must be more than the stream's lag.",
)


class Consent(NamedTuple):
    """Whether a command only counts, or deletes without a question."""

    dry_run: bool
    yes: bool


YES = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
CONSENT = gather(
    "consent",
    Consent,
    click.option("--dry-run", is_flag=True, help="Count the items and delete nothing."),
    YES,
)


class Report(NamedTuple):
    """Whether an import waits for the stream, and how it prints its counts."""

    as_json: bool
    waits: bool


REPORT = gather(
    "report",
    Report,
    JSON,
    click.option(
        "--wait/--no-wait",
        "waits",
        default=True,
        help="Wait until the aggregates include the import.  [default: wait]",
    ),
)
