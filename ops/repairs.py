"""The commands that put right what went wrong in a stage's table, with progress."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ops.redrive import Summary

LEFT = 3  # the exit code when some entries stay
REASONS = 10  # that are shown, the most frequent ones


@click.command()
@click.option("--stage", default="local", show_default=True, help="The stage whose quarantine is redriven.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def redrive(stage: str, dry_run: bool, as_json: bool) -> None:
    """Apply what is in quarantine and can be computed by now, each entry exactly once.

    Deploy the version that reads the images, or mend the items, then run this. It may be interrupted,
    repeated, and run twice at a time. Exit codes: 0 nothing is left in quarantine, 3 some entries stay.
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from chalicelib import table
    from ops import redrive as work
    from ops.stage import load

    settings = load(stage)
    import app  # after the stage's settings are in effect

    console = Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.completed:,} entries"), TimeElapsedColumn()
    try:
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("redriving", total=None)
            summary = work.redrive(
                table.connect(settings),
                app.CONTRIBUTIONS,
                dry_run=dry_run,
                advance=lambda count: progress.advance(task, count),
            )
    except KeyboardInterrupt:
        click.echo("interrupted: it is safe to run this again, nothing is added twice", err=True)
        raise click.exceptions.Exit(130) from None
    _show(summary, dry_run, as_json)
    if summary.left:
        raise click.exceptions.Exit(LEFT)


def _show(summary: Summary, dry_run: bool, as_json: bool) -> None:
    """Print what became of the entries."""
    left = dict(summary.left.most_common())
    fields = {"entries": summary.entries, "applied": summary.applied, "cancelled": summary.cancelled}
    fields |= {"gone": summary.gone, "left": sum(left.values())}
    if as_json:
        click.echo(json.dumps({"dryRun": dry_run, **fields, "reasons": left}))
        return
    for name, number in fields.items():
        click.echo(f"{name:10} {number:>10,}")
    for reason, number in list(left.items())[:REASONS]:
        click.echo(f"{number:>10,} {reason}")
    if dry_run:
        click.echo("nothing is written: this was a dry run")
