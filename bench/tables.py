"""A fresh table for each measurement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from chalicelib.dynamo.table import Table
from local.engines.engine import Engine
from local.event_sources import StreamPump
from ops.aws.template import create_table
from ops.maintenance.audit import find_drift, scan


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


def drain(pump: StreamPump) -> None:
    """Deliver until the stream is empty, including the changes that deliveries cause."""
    while pump.step():
        pass


def check(contributions: Any, table: Table, name: str = "") -> None:
    """Compare the aggregates with a recount. Raises Drifted."""
    if wrong := find_drift(contributions, scan(table.client, table.name)):
        raise Drifted(f"{name}: {dict(list(wrong.items())[:3])}")
