"""`make bench`: measure each question on a local engine, and write RESULTS.md and its two pictures."""

from __future__ import annotations

import importlib
import time

import click

PARTS = ("views", "leaderboards", "challenges", "comments", "chat", "sites", "startup")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("parts", nargs=-1, type=click.Choice(PARTS))
@click.option("--quick", is_flag=True, help="Take small numbers, for a check that everything runs.")
def main(parts: tuple[str, ...], quick: bool) -> None:
    """Measure Hubbub's cost and time beside the published designs.

    Without PARTS, measure everything and write bench/RESULTS.md. With PARTS, print their tables.
    """
    from bench import report
    from local.engines.engine import start

    begun, answers = time.monotonic(), list[report.Answer]()
    for name in parts or PARTS:
        click.echo(f"{time.monotonic() - begun:5.0f} s  {name}", err=True)
        with start("dynoxide", data=None) as engine:
            answers += importlib.import_module(f"bench.{name}").measure(engine, quick)
    if parts:
        click.echo("\n".join(line for answer in answers for line in answer.markdown()))
        return
    report.draw(answers)
    click.echo(report.write(answers, (time.monotonic() - begun) / 60, quick))


if __name__ == "__main__":
    main()
