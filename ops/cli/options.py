"""Options that several commands share, and the exit codes."""

from __future__ import annotations

import click

INCOMPLETE = 3
"""The exit code of a command that has finished and left something that needs attention."""
INTERRUPTED = 130
"""The exit code of a command that was interrupted."""

STAGE = click.option("--stage", default="local", show_default=True, help="The stage to operate on.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
YES = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
SEGMENTS = click.option(
    "--segments",
    type=click.IntRange(1, 1000),
    default=4,
    show_default=True,
    help="Number of table segments to read in parallel.",
)
RATE = click.option(
    "--rate", type=click.FloatRange(1), help="Maximum items to read per second.  [default: unlimited]"
)
SETTLE = click.option(
    "--settle",
    type=click.FloatRange(0, 3600),
    default=10,
    show_default=True,
    help="Seconds between two passes. Must be more than the stream's lag.",
)
WAIT = click.option(
    "--wait/--no-wait",
    "waits",
    default=True,
    help="Wait until the aggregates include the import.  [default: wait]",
)
