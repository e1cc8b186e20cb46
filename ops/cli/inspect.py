"""The commands that report the status of a stage and estimate its cost."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import click

from ops.cli.options import INCOMPLETE, JSON, STAGE, settings_client

if TYPE_CHECKING:
    from ops.costs import Line


@click.command()
@STAGE
@JSON
def status(stage: str, as_json: bool) -> None:
    """Show the status of a stage: lag of the aggregates, quarantine, queues, event source mappings.

    Exit code 3: there is a problem, which the output describes.
    """
    from ops.aws.status import read_status
    from ops.stage import data_folder, load

    settings = load(stage)
    checkpoint = data_folder() / "stream.json" if settings.endpoint else None
    found = read_status(settings, settings_client(settings), checkpoint)
    if as_json:
        click.echo(json.dumps(found))
    else:
        _show(found)
    if found["problems"]:
        raise click.exceptions.Exit(INCOMPLETE)


class Amount(click.ParamType[float]):
    """A number with an optional suffix: 500, 50k, 2.5M."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the number."""
        match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)([kKmMbB]?)", str(value))
        if not match:
            self.fail(f"{value!r} is not a number such as 500, 50k or 1.5M", param, ctx)
        return float(match[1]) * {"": 1, "k": 1e3, "m": 1e6, "b": 1e9}[match[2].lower()]


AMOUNT = Amount()


@click.command()
@click.option("--views", type=AMOUNT, default="0", help="Counted views.")
@click.option(
    "--returning",
    type=click.FloatRange(0, 100),
    help="Percent of views by visitors seen earlier that day.  [default: 50]",
)
@click.option("--counts", type=AMOUNT, help="Reads of a page's count.  [default: one per view]")
@click.option("--players", type=AMOUNT, default="0", help="Players of leaderboards.")
@click.option("--scores", type=AMOUNT, help="Score submissions.  [default: 20 per player]")
@click.option("--standings", type=AMOUNT, default="0", help="Submissions that return the rank.")
@click.option("--ranks", type=AMOUNT, help="Reads of a rank.  [default: two per submission]")
@click.option("--paths", type=AMOUNT, default="0", help="Challenge paths found.")
@click.option("--guesses", type=AMOUNT, help="Wrong guesses.  [default: one per path]")
@click.option("--comments", type=AMOUNT, default="0", help="Comments written.")
@click.option("--pages", type=AMOUNT, help="Pages of comments read.  [default: 50 per comment]")
@click.option("--chats", type=AMOUNT, default="0", help="Pairs matched in the chat.")
@click.option("--messages", type=AMOUNT, help="Chat messages.  [default: 20 per pair]")
@click.option(
    "--minutes", type=AMOUNT, default="10", show_default=True, help="Minutes each visitor stays connected."
)
@click.option(
    "--batch", type=click.IntRange(1, 100), default=1, show_default=True, help="Stream records per batch."
)
@click.option("--queue", is_flag=True, help="Send views through the queue.")
@click.option("--size", type=click.Choice(["small", "full"]), default="small", show_default=True)
@click.option(
    "--chat/--no-chat", default=True, show_default=True, help="With the feature chat and its sweep."
)
@click.option("--free-tier", is_flag=True, help="Leave out what AWS's always-free tier covers.")
@JSON
def cost(as_json: bool, **used: Any) -> None:
    """Estimate a monthly bill per feature from measured units and dated list prices.

    All numbers are per month and may be written as 50k or 1.5M. Without any, it is the bill of an idle stage.
    """
    from ops import costs

    assumed = costs.Assumed(
        batch=used["batch"],
        minutes=used["minutes"],
        is_full=used["size"] == "full",
        queue=used["queue"],
        chat=used["chat"],
        free_tier=used["free_tier"],
    )
    _show_bill(
        costs.estimate_bill(costs.build_uses(used), assumed),
        costs.list_assumptions(assumed),
        costs.load_prices(),
        as_json,
    )


def _show_bill(lines: list[Line], assumptions: list[str], prices: Any, as_json: bool) -> None:
    """Print a bill: the lines and the sum of each feature, the total, assumptions and prices."""
    features = dict.fromkeys(line.feature for line in lines)
    sums = {name: sum(line.usd for line in lines if line.feature == name) for name in features}
    if as_json:
        rows = [line._asdict() for line in lines]
        whole = {"usd": sum(sums.values()), "features": sums, "lines": rows, "assumptions": assumptions}
        click.echo(json.dumps(whole | prices))
        return
    for name, usd in sums.items():
        click.echo(f"{name:14} {usd:>12,.2f}")
        for line in lines:
            if line.feature == name:
                click.echo(f"  {line.usd:>10,.2f}  {line.amount:>16,.1f}  {line.unit}")
    click.echo(f"{'USD per month':14} {sum(sums.values()):>12,.2f}  in {prices['region']}")
    for text in assumptions:
        click.echo(f"- {text}")
    for price in prices["prices"].values():
        each = f"{price['usd']:g} for {price['per']:,}" if price["per"] > 1 else f"{price['usd']:g}"
        published = f"published {price['published']}" if price["published"] else "without a date"
        click.echo(f"- {each} {price['unit']}: {price['source']}, {published}")
    click.echo(f"- {prices['note']}")


def _show(found: dict[str, Any]) -> None:
    """Print the status of a stage, then its problems."""
    table, lag = found["table"], found["lagSeconds"]
    waiting, dead, failed = (found["queues"][name] for name in ("views", "deadViews", "streamFailures"))
    lines = {
        "stage": found["stage"],
        "table": f"{table['name']}, {table['state'].lower()}, about {table['items']:,} items",
        "lag": "unknown: no recent records in the stream" if lag is None else f"{lag:.1f} s",
        "quarantine": f"{found['quarantine']:,} images",
        "views": "no queue" if waiting is None else f"{waiting:,} messages waiting, {dead:,} dead letters",
        "batches": "no queue" if failed is None else f"{failed:,} stream batches failed for good",
        "mappings": "none (local engine)"
        if found["mappings"] is None
        else f"{len(found['mappings'])} misconfigured"
        if found["mappings"]
        else "configured",
    }
    for name, text in lines.items():
        click.echo(f"{name:10} {text}")
    for problem in found["problems"]:
        click.echo(f"{'!':10} {problem}")


COMMANDS = (status, cost)
