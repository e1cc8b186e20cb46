"""Estimate a monthly bill from the use of each feature, the units per use and the price per unit.

Units are measured by `make units`, and a test checks them. Prices come from AWS's
public price list, each with its file and publication date (`ops/prices.json`), which also has what AWS's
always-free tier leaves of an item. Values that cannot be measured without an account are assumptions, which
are printed with the bill. Data transfer is not included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
MINUTES = 30 * 24 * 60  # per month
GB = 1_000_000_000
LOG_BYTES = 900  # per invocation: its line, its metrics and Lambda's own three lines
POLLS = 5 * 3 * MINUTES  # of an idle queue: five pollers of Lambda wait 20 s each (AWS Lambda, SQS)
METRICS = 15  # custom metrics that a full stage with all features in use publishes
PROBES = MINUTES / 5
PROBE = {"write": 2, "read": 4, "invocation": 2, "second": 0.3}  # of a probe, and of its record in the stream
FRAMES = {"two meet and part": 6, "message": 2}  # in and out: two statuses, two replies, two notices
CONNECTS = {"two meet and part": 4}  # invocations to connect and disconnect


class Use(NamedTuple):
    """How often an operation happens per month, and the channel that it arrives by."""

    feature: str
    operation: str
    times: float
    channel: str = "rest"  # or "user" (with a token), "socket", "queue"


class Assumed(NamedTuple):
    """Assumed values that need an AWS account to measure: durations, memory and batch size."""

    batch: int = 1
    request_ms: float = 30
    batch_ms: float = 60
    memory: float = 0.5
    minutes: float = 10
    is_full: bool = False
    queue: bool = False
    chat: bool = True
    free_tier: bool = False


class Line(NamedTuple):
    """A line of the bill."""

    feature: str
    what: str
    amount: float
    unit: str
    usd: float


def build_uses(used: Mapping[str, Any]) -> list[Use]:
    """Build the uses of a month from the options of `python -m ops cost`, with defaults for missing ones."""

    def given(name: str, default: float = 0) -> float:
        return default if used.get(name) is None else float(used[name])

    views, back = given("views"), given("returning", 50) / 100
    scores, comments, chats = given("scores", 20 * given("players")), given("comments"), given("chats")
    standings = min(scores, given("standings"))
    channel = "queue" if used.get("queue") else "rest"
    return [
        Use("views", "view, new visitor", views * (1 - back), channel),
        Use("views", "view, returning visitor", views * back, channel),
        Use("views", "count of a page", given("counts", views)),
        Use("leaderboards", "score", scores - standings, "user"),
        Use("leaderboards", "score with its rank", standings, "user"),
        Use("leaderboards", "rank", given("ranks", 2 * scores)),
        Use("challenges", "path", given("paths"), "user"),
        Use("challenges", "wrong guess", given("guesses", given("paths")), "user"),
        Use("comments", "comment", comments, "user"),
        Use("comments", "page of comments", given("pages", 50 * comments)),
        Use("chat", "two meet and part", chats, "socket"),
        Use("chat", "message", given("messages", 20 * chats), "socket"),
    ]


def count_alarms(assumed: Assumed) -> int:
    """Count the alarms that a stage has."""
    from ops.aws.template import TEMPLATE, read_yaml

    holds = {"Full": assumed.is_full, "Queued": assumed.queue}
    holds["WatchesWaiting"] = assumed.is_full and assumed.queue
    resources = read_yaml(TEMPLATE)["Resources"].values()
    alarms = [resource for resource in resources if resource["Type"] == "AWS::CloudWatch::Alarm"]
    return sum(holds.get(alarm.get("Condition"), True) for alarm in alarms)


def estimate_bill(uses: list[Use], assumed: Assumed) -> list[Line]:
    """Estimate the bill of a month, by feature and price item. Items of zero are omitted.

    What an account has free is taken from the first lines of each item.
    """
    units = json.loads((HERE / "units.json").read_text(encoding="utf-8"))
    amounts = {("always", what): amount for what, amount in _count_idle(assumed).items()}
    for use in uses:
        for what, amount in _count_amounts(use, units[use.operation], assumed):
            amounts[use.feature, what] = amounts.get((use.feature, what), 0.0) + amount
    prices, lines = load_prices()["prices"], []
    free = {what: price.get("free", 0) if assumed.free_tier else 0 for what, price in prices.items()}
    for (feature, what), amount in amounts.items():
        paid = max(0.0, amount - free[what])
        free[what] -= amount - paid
        if paid:
            price = prices[what]
            lines.append(Line(feature, what, paid, price["unit"], paid * price["usd"] / price["per"]))
    return lines


def _count_idle(assumed: Assumed) -> dict[str, float]:
    """Return the amounts of a stage that nobody uses: its probe, alarms, and what a full stage adds."""
    amounts = {what: PROBES * amount for what, amount in PROBE.items()}
    amounts["log"] = 2 * PROBES * LOG_BYTES / GB
    if assumed.chat:
        amounts["invocation"] += MINUTES
        amounts["second"] += MINUTES * 0.25 * 0.2  # of the sweep
        amounts["log"] += MINUTES * LOG_BYTES / GB
    amounts["alarm"] = count_alarms(assumed)
    if assumed.queue:
        amounts["message"] = POLLS
    if assumed.is_full:
        amounts |= {"metric": METRICS, "dashboard": 1, "acl": 1, "rule": 1}
    return amounts


def describe_idle(assumed: Assumed) -> str:
    """Return the price of a stage that nobody uses as a sentence."""
    free, full = (
        sum(line.usd for line in estimate_bill([], assumed._replace(free_tier=is_free)))
        for is_free in (True, False)
    )
    return f"at rest about USD {free:.2f} a month, and {full:.2f} without AWS's always-free tier"


def _count_amounts(use: Use, unit: Any, assumed: Assumed) -> Iterator[tuple[str, float]]:
    """Yield the amount of each price item that a use consumes."""
    # Use the units of the largest measured batch that is not larger than the assumed one.
    measured = max((size for size in map(int, unit["stream"]) if size <= assumed.batch), default=1)
    stream = unit["stream"][str(measured)]
    count = use.times
    yield "write", count * (unit["write"] + stream["write"])
    yield "read", count * (unit["read"] + stream["read"])
    yield "storage", count * unit["bytes"] / GB
    yield "recovery", count * unit["bytes"] / GB
    # TTL deletes expired items without a write, and each deletion's record invokes `apply` again.
    batches = count * (unit["records"] + unit["removals"]) / assumed.batch
    calls = count * (FRAMES.get(use.operation, 0) / 2 + CONNECTS.get(use.operation, 0) or 1)
    if use.channel == "socket":
        yield "frame", count * FRAMES[use.operation]
        yield "minute", count * 2 * assumed.minutes if use.operation in CONNECTS else 0.0
    else:
        yield "request", count
        yield "inspected", count * assumed.is_full
    if use.channel == "user":  # at most: API Gateway caches the authorizer's result for five minutes
        calls += count
    if use.channel == "queue":
        yield "message", 3 * count  # send, receive, delete: at most one each
        calls += count
    yield "invocation", calls + batches
    yield "log", (calls + batches) * LOG_BYTES / GB
    yield "second", (calls * assumed.request_ms + batches * assumed.batch_ms) / 1000 * assumed.memory


def load_prices() -> Any:
    """Read the prices."""
    return json.loads((HERE / "prices.json").read_text(encoding="utf-8"))


def list_assumptions(assumed: Assumed) -> list[str]:
    """Return the assumptions of a bill as sentences."""
    return [
        f"a request takes {assumed.request_ms:g} ms and a batch {assumed.batch_ms:g} ms, "
        f"at {assumed.memory:g} GB (not measured on AWS)",
        f"records in a batch of the stream: {assumed.batch:,}; a busier site has larger, cheaper batches",
        f"an invocation logs {LOG_BYTES} bytes, and logs are kept for less than a month",
        "each view is one request; a site that batches views pays for fewer requests",
        "each request with a token invokes the authorizer; API Gateway's cache of five minutes reduces this",
        f"each chat visitor stays {assumed.minutes:g} minutes, and the sweep finds no long waits",
        "TTL deletes expired views and visits, and each deletion invokes a function",
        "the endpoint is regional (the default); an edge-optimized one has the same price per request",
        "an idle queue is polled 15 times per minute; a busy queue needs no extra polls",
        "all items are stored for the whole month; views are kept for 22 days",
        f"{METRICS} custom metrics of a full stage; a small one has four, and only in hours with a failure",
        "the always-free tier is that of the whole account"
        if assumed.free_tier
        else "free tiers are not included (--free-tier)",
        "data transfer and DNS are not included",
    ]
