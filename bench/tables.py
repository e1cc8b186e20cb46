"""A fresh table for each measurement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from chalicelib.aggregates import sums
from chalicelib.aggregates.sums import Constant, Contribution
from chalicelib.dynamo.items import Item, Key, chunks
from chalicelib.dynamo.table import BATCH_WRITE, Table
from local.engines.engine import Engine
from local.engines.in_process import client_of
from local.event_sources import StreamPump
from ops.aws.template import create_table
from ops.maintenance.audit import find_drift, scan

WRITERS = 4  # threads


class Drifted(Exception):
    """A result differs from a recount of the items, or from the other engine's."""


@contextmanager
def fresh_table(engine: Engine) -> Iterator[tuple[Table, str]]:
    """Create a table and delete it afterwards; yield it with its stream's ARN."""
    client = engine.client("dynamodb")
    created = create_table(client, "local", name=f"hubbub-bench-{uuid4().hex}")
    try:
        yield Table(created.name, client), created.stream_arn
    finally:
        client.delete_table(TableName=created.name)


def load(engine: Engine, name: str, items: Iterable[Mapping[str, Any]]) -> None:
    """Write items in typed JSON into the engine's table of this name, some batches at a time.

    The product's own client writes them, which is faster because it validates nothing.
    """
    client = client_of(engine)

    def put(some: Sequence[Mapping[str, Any]]) -> None:
        left: Any = {name: [{"PutRequest": {"Item": item}} for item in some]}
        while left:
            left = client.batch_write_item(RequestItems=left).get("UnprocessedItems")

    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(put, chunks(items, BATCH_WRITE)))


def drain(pump: StreamPump) -> None:
    """Deliver until the stream is empty, including the changes that deliveries cause."""
    while pump.step():
        pass


def recounted(contributions: Sequence[Contribution], items: Iterable[Item]) -> dict[Key, Item]:
    """Return the aggregates of some items, by their keys."""
    found: dict[Key, Item] = {}
    for (key, name), amount in sums.recount(contributions, items).items():
        value = amount.value if isinstance(amount, Constant) else amount
        found.setdefault(key, {**key._asdict()})[name] = value
    return found


def check(contributions: Any, table: Table, name: str = "") -> None:
    """Compare the aggregates with a recount. Raises Drifted."""
    if wrong := find_drift(contributions, scan(table.client, table.name)):
        raise Drifted(f"{name}: {dict(list(wrong.items())[:3])}")
