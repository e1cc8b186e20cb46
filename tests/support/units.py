"""The units of each repeatable operation, with those of both consumers of the stream, for `ops cost`.

`make units` writes them to ops/units.json, and a test measures them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from math import isclose
from typing import Any

from chalicelib.aggregates import engine as aggregates
from chalicelib.chat import subscriptions
from chalicelib.dynamo.items import pack
from local.engines.engine import DYNOXIDE, Engine, start
from local.filters import passes
from ops.costs import HERE
from tests.support.capacity import Item, item_size
from tests.support.deployed import Deployed, Invocation, deployed
from tests.support.meter import Meter
from tests.support.operations import UNITS, Unit
from tests.support.records import scan

BATCHES = {1: 10, 10: 20, 100: 100}  # records in a batch: repetitions that are measured
OVERHEAD = 100  # bytes that DynamoDB bills for each item and index entry beside its size
DAY = 86_400  # a guard page is of a day at most, so a measurement begins days later, with a day


def measure(engine: Engine, name: str) -> dict[str, Any]:
    """Measure one operation: its own WCU and RCU, and those of the stream by the size of its batches."""
    figures: dict[str, Any] = {"stream": {}}
    for batch, count in BATCHES.items():
        with deployed(engine) as site:
            own, stream, records, size, removals = _measure(site, UNITS[name], batch, count)
        figures |= {"write": own[0], "read": own[1], "records": records, "bytes": size, "removals": removals}
        figures["stream"][str(batch)] = {"write": stream[0], "read": stream[1]}
        if not records:
            break
    return figures


def _measure(site: Deployed, unit: Unit, batch: int, count: int) -> tuple[Any, Any, float, int, float]:
    """Return, for each repetition, its own units, the stream's, the relevant records, bytes and removals."""
    _run(unit.prepare(site))
    site.drain()
    site.second += 12 * DAY - site.second % DAY
    before, expiring, relevant = _stored(site), _expiring(site), 0
    with Meter(site.table.client) as meter:
        for number in range(count):
            _run(unit.repeat(site, number))
        own = [meter.write_units, meter.read_units]
        while records := (delivery := site.delivery(size=batch)).event["Records"]:
            relevant += sum(map(_is_relevant, [site.app] * len(records), records))
            delivery.run()
            delivery._replace(operation="push", handler=site.app.push).run()
        stream = [meter.write_units - own[0], meter.read_units - own[1]]
    each = [[round(units / count, 3) for units in pair] for pair in (own, stream)]
    removals = round((_expiring(site) - expiring) / count, 3)
    return each[0], each[1], round(relevant / count, 3), round((_stored(site) - before) / count), removals


def _run(invocations: Iterable[Invocation]) -> None:
    for invocation in invocations:
        invocation.run()


def _is_relevant(app: Any, record: Any) -> bool:
    """Return whether a record changes an aggregate or a topic: the filter of the stream drops the others."""
    return bool(
        aggregates.compute(app.CONTRIBUTIONS, record).sums
        or subscriptions.changed_topics(app.TOPICS, [record])
    )


def _expiring(site: Deployed) -> int:
    """Count the items whose removal by TTL will invoke `apply`: those that its mapping's filter lets pass."""
    items = (item for item in scan(site.table) if "ttl" in item)
    return sum(passes({"dynamodb": {"Keys": {"sk": {"S": item["sk"]}}}}, "apply") for item in items)


def _stored(site: Deployed) -> int:
    """Return the bytes that are stored for more than three days, in items and index entries."""
    total, soon = 0, int(datetime.now(UTC).timestamp()) + 3 * 86_400
    for stored in scan(site.table):
        if stored.get("ttl", soon) >= soon:
            item = pack(stored)
            total += sum(OVERHEAD + item_size(entry) for entry in (item, *_entries(item)))
    return total


def _entries(item: Item) -> Iterator[Item]:
    """Yield the entries of an item in the indexes: `gsi1` has keys alone, and `gsi2` everything."""
    if {"gsi1pk", "gsi1sk"} <= item.keys():
        yield {name: item[name] for name in ("pk", "sk", "gsi1pk", "gsi1sk")}
    if "gsi2pk" in item:
        yield item


def compare(measured: dict[str, Any], written: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the figures of an operation that differ, with those that are written.

    The aggregator writes concurrently, so the order of its records, and what shares a batch, differs.
    """
    found, expected = _flatten(measured), _flatten(written)
    return {
        name: (found.get(name, 0.0), figure)
        for name, figure in expected.items()
        if found.keys() != expected.keys()
        or not isclose(found[name], figure, rel_tol=0.1 if "batches of 10" in name else 0.03, abs_tol=0.02)
    }


def _flatten(figures: dict[str, Any]) -> dict[str, float]:
    found = {name: value for name, value in figures.items() if name != "stream"}
    for size, units in figures["stream"].items():
        found |= {f"{name} in batches of {size}": value for name, value in units.items()}
    return found


if __name__ == "__main__":
    PATH = HERE / "units.json"
    before = json.loads(PATH.read_text(encoding="utf-8"))
    with start(DYNOXIDE, data=None) as running:
        figures = {name: measure(running, name) for name in UNITS}
    kept = {
        name: before[name] for name in UNITS if name in before and not compare(figures[name], before[name])
    }
    PATH.write_text(json.dumps(figures | kept, indent=2) + "\n", encoding="utf-8")
