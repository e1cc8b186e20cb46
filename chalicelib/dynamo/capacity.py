"""Adds up the capacity units that DynamoDB reports for one request, in a stage that shows them.

Off unless HUBBUB_CAPACITY is on: then every call of the table asks for its consumed capacity, which costs
nothing but bytes, and each answer says in X-Consumed-Capacity what it took. A write whose condition was false
is billed, and reported by nobody: it is missing here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

HEADER = "X-Consumed-Capacity"
READS = {"GetItem", "BatchGetItem", "TransactGetItems", "Query", "Scan"}
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"}


class Units:
    """Read and write units; several threads may add to them."""

    def __init__(self) -> None:
        self.read = 0.0
        self.write = 0.0
        self._adding = Lock()

    def add(self, units: float, *, is_read: bool) -> None:
        """Add the units of one call."""
        with self._adding:
            self.read += units if is_read else 0
            self.write += 0 if is_read else units

    def __str__(self) -> str:
        """Write them as a dictionary of RFC 8941.

        >>> str(Units())
        'read=0, write=0'
        """
        return f"read={self.read:g}, write={self.write:g}"


_units: ContextVar[Units | None] = ContextVar("units", default=None)


@contextmanager
def counted() -> Iterator[Units]:
    """Count what is consumed meanwhile, in this thread and in those that `threads` begins from it."""
    units = Units()
    token = _units.set(units)
    try:
        yield units
    finally:
        _units.reset(token)


def watch(client: Any) -> None:
    """Ask DynamoDB for what each call of a client consumes, and add it up; again is no harm."""
    client.meta.events.register("provide-client-params.dynamodb", _ask, unique_id="hubbub-ask")
    client.meta.events.register("after-call.dynamodb", _add, unique_id="hubbub-add")


def _ask(params: dict[str, Any], model: Any, **_: Any) -> None:
    if model.name in READS | WRITES:
        params.setdefault("ReturnConsumedCapacity", "TOTAL")


def _add(parsed: Any, model: Any, **_: Any) -> None:
    units, consumed = _units.get(), parsed.get("ConsumedCapacity")
    if units and consumed:
        tables = consumed if isinstance(consumed, list) else [consumed]
        units.add(sum(table["CapacityUnits"] for table in tables), is_read=model.name in READS)
