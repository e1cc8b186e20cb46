"""The capacity units that one request consumes, as DynamoDB reports them.

With HUBBUB_CAPACITY=on, every call of the table requests its consumed capacity, which is free, and each
response has the sum in X-Consumed-Capacity. The default is off.

A write with a false condition is missing from the sum: DynamoDB bills it but does not report it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

HEADER = "X-Consumed-Capacity"
READS = {"GetItem", "BatchGetItem", "TransactGetItems", "Query", "Scan"}
WRITES = {
    "PutItem",
    "UpdateItem",
    "DeleteItem",
    "BatchWriteItem",
    "BatchExecuteStatement",
    "TransactWriteItems",
}


class Units:
    """Read and write units. Several threads may add to them."""

    def __init__(self) -> None:
        self.read = 0.0
        self.write = 0.0
        self._lock = Lock()

    def add(self, units: float, *, is_read: bool) -> None:
        """Add the units of one call."""
        with self._lock:
            self.read += units if is_read else 0
            self.write += 0 if is_read else units

    def __str__(self) -> str:
        """Return the units as a dictionary of RFC 8941.

        >>> str(Units())
        'read=0, write=0'
        """
        return f"read={self.read:g}, write={self.write:g}"


_units: ContextVar[Units | None] = ContextVar("units", default=None)


@contextmanager
def count_units() -> Iterator[Units]:
    """Count the units consumed in this block, also in the threads that `concurrency` uses for it."""
    units = Units()
    token = _units.set(units)
    try:
        yield units
    finally:
        _units.reset(token)


def watch(client: Any) -> None:
    """Request and count the consumed capacity of each call of a client. Idempotent."""
    client.meta.events.register(
        "provide-client-params.dynamodb", _request, unique_id="hubbub-request-capacity"
    )
    client.meta.events.register("after-call.dynamodb", _add, unique_id="hubbub-add-capacity")


def _request(params: dict[str, Any], model: Any, **_: Any) -> None:
    if model.name in READS | WRITES:
        params.setdefault("ReturnConsumedCapacity", "TOTAL")


def _add(parsed: Any, model: Any, **_: Any) -> None:
    units, consumed = _units.get(), parsed.get("ConsumedCapacity")
    if units and consumed:
        tables = consumed if isinstance(consumed, list) else [consumed]
        units.add(sum(table["CapacityUnits"] for table in tables), is_read=model.name in READS)
