"""Reckons a month's bill: what each feature is used, what each use costs in units, what each unit costs.

Units are measured (`python -m bench units > ops/units.json`, held by a test), prices are those of AWS's
public price list, each with its file and the day that was published (`ops/prices.json`). What cannot be
measured without an account is an assumption, printed with the bill. Free tiers and data transfer are left
out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
MINUTES = 30 * 24 * 60  # of a month
GB = 1_000_000_000
LOGGED = 900  # bytes that an invocation logs: its line, its metrics, and the three of Lambda itself
POLLS = 5 * 3 * MINUTES  # receives of an idle queue: Lambda's five pollers wait 20 s each (AWS Lambda, SQS)
METRICS = 30  # of our own, that a stage in full use publishes
FRAMES = {"two meet and part": 6, "message": 2}  # in and out: two statuses, two answers, two notes
CONNECTS = {"two meet and part": 4}  # invocations for coming and going, beside those of frames


class Use(NamedTuple):
    """How often something is done in a month, by whom it is asked for."""

    feature: str
    operation: str
    times: float
    door: str = "rest"  # or "user" (with a token), "socket", "queue"


class Assumed(NamedTuple):
    """What is not measured, for no account is reachable: milliseconds, memory, and the size of batches."""

    batch: int = 1
    request_ms: float = 30
    batch_ms: float = 60
    memory: float = 0.5
    minutes: float = 10
    queue: bool = False
    limits: bool = True  # WAF's limit of requests from one address


class Line(NamedTuple):
    """A line of the bill."""

    feature: str
    what: str
    amount: float
    unit: str
    usd: float


def bill(uses: list[Use], assumed: Assumed, alarms: int) -> list[Line]:
    """Reckon a month's bill, by feature, then by what is paid for; what comes to nothing is left out."""
    units = json.loads((HERE / "units.json").read_text(encoding="utf-8"))
    amounts: dict[tuple[str, str], float] = {}
    for use in uses:
        for what, amount in _amounts(use, units[use.operation], assumed):
            amounts[use.feature, what] = amounts.get((use.feature, what), 0.0) + amount
    sweep = MINUTES * 0.25 * 0.2  # GB and seconds of the sweep, when nobody waits for long
    amounts |= {("always", "invocation"): MINUTES, ("always", "second"): sweep}
    amounts |= {("always", "alarm"): alarms, ("always", "dashboard"): 1, ("always", "metric"): METRICS}
    amounts |= {("always", "message"): POLLS}
    if assumed.limits:
        amounts |= {("always", "acl"): 1, ("always", "rule"): 1}
    prices = load_prices()["prices"]
    return [
        Line(feature, what, amount, prices[what]["unit"], amount * prices[what]["usd"] / prices[what]["per"])
        for (feature, what), amount in amounts.items()
        if amount
    ]


def _amounts(use: Use, unit: Any, assumed: Assumed) -> Iterator[tuple[str, float]]:
    """Say how much of what a use takes."""
    # The units of the greatest batch that was measured and is not greater.
    measured = max((size for size in map(int, unit["stream"]) if size <= assumed.batch), default=1)
    stream = unit["stream"][str(measured)]
    count = use.times
    yield "write", count * (unit["write"] + stream["write"])
    yield "read", count * (unit["read"] + stream["read"])
    yield "storage", count * unit["bytes"] / GB
    yield "recovery", count * unit["bytes"] / GB
    # TTL removes what has expired, weeks later: that costs no write, and its record invokes `apply` again.
    batches = count * (unit["records"] + unit["removals"]) / assumed.batch
    calls = count * (FRAMES.get(use.operation, 0) / 2 + CONNECTS.get(use.operation, 0) or 1)
    if use.door == "socket":
        yield "frame", count * FRAMES[use.operation]
        yield "minute", count * 2 * assumed.minutes if use.operation in CONNECTS else 0.0
    else:
        yield "request", count
        yield "inspected", count * assumed.limits
    if use.door == "user":  # the authorizer; API Gateway keeps its answer for five minutes, so at most
        calls += count
    if use.door == "queue":
        yield "message", 3 * count  # sent, received, deleted: at most one each
        calls += count
    yield "invocation", calls + batches
    yield "log", (calls + batches) * LOGGED / GB
    yield "second", (calls * assumed.request_ms + batches * assumed.batch_ms) / 1000 * assumed.memory


def load_prices() -> Any:
    """Read the prices."""
    return json.loads((HERE / "prices.json").read_text(encoding="utf-8"))


def assumptions(assumed: Assumed) -> list[str]:
    """Say what the bill rests on."""
    return [
        f"{assumed.request_ms:g} ms a request and {assumed.batch_ms:g} ms a batch, at {assumed.memory:g} GB: "
        "assumed, no account was measured",
        f"{assumed.batch:,} records in a batch of the stream: a busier site has more, and pays less each",
        f"{LOGGED} bytes of log an invocation, and logs kept for less than a month",
        "a view is a request of its own; a site that sends several at once pays for fewer",
        "each call with a token asks the authorizer (at most; API Gateway keeps its answer five minutes)",
        f"two who chat stay {assumed.minutes:g} minutes each; the sweep finds nobody who waits for long",
        "an expired view or visit is removed by TTL, and its record invokes a function as any other's does",
        "a regional endpoint (the default); AWS's price of a request is the same with an edge-optimized one",
        "an idle queue is polled 15 times a minute; a busy one is not polled beside its messages",
        "all that is written is stored for the whole month; views are kept 22 days",
        f"{METRICS} metrics of our own; free tiers, data transfer and DNS are left out",
    ]
