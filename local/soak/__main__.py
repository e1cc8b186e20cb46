"""`python -m local.soak`: run the product under mixed load and random kills, and audit what it accepted."""

from __future__ import annotations

import json
import secrets
import sys

import click

from local.engines import EngineUnavailable
from local.soak.soak import DURABLE, Soak, soak

SHOWN = 20  # errors


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--engine", "kind", default=DURABLE, show_default=True, metavar="dynoxide|ministack|URL")
@click.option("--minutes", type=click.FloatRange(0.05), default=10, show_default=True)
@click.option("--rate", type=click.FloatRange(1), default=20, show_default=True, help="Requests a second.")
@click.option("--seed", type=int, help="Of the random choices; printed when it is not given.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(kind: str, minutes: float, rate: float, seed: int | None, as_json: bool) -> None:
    """Run the whole product under load and kill it at random, then audit everything that it accepted.

    Exits with 1 when a target is missed.
    """
    seed = secrets.randbelow(10**6) if seed is None else seed
    click.echo(f"{minutes:g} minutes, then an audit; --seed {seed}", err=True)
    try:
        found = soak(kind, minutes, rate, seed, lambda line: click.echo(line, err=True))
    except EngineUnavailable as reason:
        raise click.ClickException(str(reason)) from None
    click.echo(as_text(found) if not as_json else json.dumps(as_object(found), indent=2))
    sys.exit(not is_met(found))


def is_met(found: Soak) -> bool:
    """Return whether every strict target is met."""
    return all(target.met for target in found.targets if target.strict)


def as_object(found: Soak) -> dict[str, object]:
    """Return the outcome of a soak for JSON."""
    targets = [{**target._asdict(), "met": target.met} for target in found.targets]
    return {**found._asdict(), "figures": dict(found.figures), "targets": targets, "met": is_met(found)}


def as_text(found: Soak) -> str:
    """Return the method, the figures, the plot, the targets and the first errors of a soak."""
    lines = [found.method, ""]
    for name, figure in found.figures:
        lines.append(f"{name}: {f'{figure:,.2f}' if isinstance(figure, float) else figure}")
    lines += ["", *found.plot, ""]
    for target in found.targets:
        word = "met" if target.met else "MISSED" if target.strict else "missed, for information"
        bound = f"{'at most' if target.at_most else 'at least'} {target.bound:,.4g}"
        lines.append(f"target {word}: {target.name} is {target.measured:,.4g}, {bound}")
    return "\n".join([*lines, *(f"error: {line}" for line in found.errors[:SHOWN])])


if __name__ == "__main__":
    main()
