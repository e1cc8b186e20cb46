"""Measures what each operation costs in units, its share of the stream too: `ops cost` reckons with that.

`python -m bench units > ops/units.json` writes the figures down; a test measures them again.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import app
from bench.acts import OPERATIONS, Operation, now
from bench.capacity import HUBBUB, item_size
from bench.meter import Meter
from bench.view_costs import drain, fresh_table
from chalicelib import aggregates, topics
from chalicelib.items import pack
from chalicelib.table import Table
from local.engine import Engine
from local.filters import passes
from local.pumps import StreamPump
from ops.recount import scan

BATCHES = {1: 10, 10: 20, 100: 100}  # records that Lambda hands over at a time: operations that are measured
OVERHEAD = 100  # bytes that DynamoDB bills for each item, and each entry of an index, beside what is in it
STEP = 1_000_000  # seconds between a past that is there and what is measured


def measure(engine: Engine, name: str) -> dict[str, Any]:
    """Measure one operation: WCU and RCU of itself, and of the stream by the size of its batches."""
    figures: dict[str, Any] = {"stream": {}}
    for batch, count in BATCHES.items():
        with fresh_table(engine) as (table, stream_arn):
            own, stream, records, size, removals = _measured(
                engine, table, stream_arn, OPERATIONS[name], batch, count
            )
        figures |= {"write": own[0], "read": own[1], "records": records, "bytes": round(size)}
        figures["removals"] = removals
        figures["stream"][str(batch)] = {"write": stream[0], "read": stream[1]}
        if not records:
            break
    return figures


def _measured(
    engine: Engine, table: Table, stream_arn: str, operation: Operation, batch: int, count: int
) -> tuple[list[float], list[float], float, float, float]:
    """Measure an operation; return, for each, its own units, the stream's, records, bytes and removals."""
    second, relevant = 1_700_000_000, 0

    def apply(event: dict[str, Any], _: object) -> None:
        """Apply a batch whose records are of a second of their own, and push topics, as two functions do."""
        nonlocal second, relevant
        second += 1
        for record in event["Records"]:
            record["dynamodb"]["ApproximateCreationDateTime"] = second
            difference = aggregates.compute(app.CONTRIBUTIONS, record)
            relevant += bool(difference.sums or topics.changes(app.TOPICS, [record]))
        aggregates.apply(table, app.CONTRIBUTIONS, event["Records"])
        topics.push(table, app.posts, app.TOPICS, event["Records"], now())

    with TemporaryDirectory() as folder:
        position, streams = Path(folder) / "stream.json", engine.client("dynamodbstreams")
        operation.ready(table)
        drain(StreamPump(streams, stream_arn, apply, max(BATCHES), position))
        pump = StreamPump(streams, stream_arn, apply, batch, position)  # goes on where that one has stopped
        second, relevant, before = second + STEP, 0, _bytes(table)
        expiring = _expiring(table)
        with Meter(table.client) as meter:
            for number in range(count):
                operation.act(table, number)
            own = [meter.write_units, meter.read_units]
            drain(pump)
            stream = [meter.write_units - own[0], meter.read_units - own[1]]

    def each(units: float) -> float:
        return round(units / count, 3)

    size = (_bytes(table) - before) / count
    removals = each(_expiring(table) - expiring)
    return [each(unit) for unit in own], [each(unit) for unit in stream], each(relevant), size, removals


def _expiring(table: Table) -> int:
    """Count the items whose removal by TTL will invoke `apply`: those that its mapping's filter lets pass."""
    items = (item for item in scan(table.client, table.name) if "ttl" in item)
    return sum(passes({"dynamodb": {"Keys": {"sk": {"S": item["sk"]}}}}, "apply") for item in items)


def _bytes(table: Table) -> int:
    """Add up what is stored and stays: items and entries of indexes, without what goes within days."""
    total, soon = 0, int(now().timestamp()) + 3 * 86_400
    for stored in scan(table.client, table.name):
        if stored.get("ttl", soon) >= soon:
            item = pack(stored)
            entries = (HUBBUB.entry(index, item) for index in HUBBUB.indexes.values())
            total += sum(OVERHEAD + item_size(one) for one in (item, *entries) if one)
    return total


def every(engine: Engine) -> dict[str, Any]:
    """Measure every operation."""
    return {name: measure(engine, name) for name in OPERATIONS}
