"""Adds up the capacity units that dynoxide reports for all calls through a client.

A write whose condition is false is billed, but not reported. AWS bills it on the larger of the item that is
there and the item that was to be put ("DynamoDB read and write operations"), so the meter computes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from threading import Lock, local
from typing import TYPE_CHECKING, Any, Self

from chalicelib.dynamo.capacity import READS, WRITES
from tests.support.capacity import Item, table_units

if TYPE_CHECKING:
    from botocore.model import OperationModel
    from mypy_boto3_dynamodb import DynamoDBClient

Request = Mapping[str, Any]


class Meter:
    """Adds up the units of every call made through one boto3 DynamoDB client, in any thread.

    >>> with Meter(client) as meter:  # doctest: +SKIP
    ...     feature.write(table, view)
    >>> meter.write_units, meter.read_units, meter.by_operation  # doctest: +SKIP
    (4.0, 0.0, {'TransactWriteItems': 4.0})

    After a write with a false condition the meter reads the items, which is not counted but takes time.
    An update with a false condition counts for the item that is there, for what it would have become is
    unknown. A cancelled transaction counts as a false condition of each of its actions, doubled.
    """

    def __init__(self, client: DynamoDBClient) -> None:
        self._client = client
        self._muted = local()
        self._adding = Lock()
        self.write_units = 0.0
        self.read_units = 0.0
        self.by_operation: dict[str, float] = {}
        self.calls = 0
        client.meta.events.register_last("before-parameter-build.dynamodb", self._before)
        client.meta.events.register("after-call.dynamodb", self._after)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop counting. The totals stay."""
        self._client.meta.events.unregister("before-parameter-build.dynamodb", self._before)
        self._client.meta.events.unregister("after-call.dynamodb", self._after)

    def _before(
        self, params: dict[str, Any], model: OperationModel, context: dict[str, Any], **_: object
    ) -> None:
        if model.name in READS | WRITES and not getattr(self._muted, "now", False):
            params.setdefault("ReturnConsumedCapacity", "TOTAL")
            context["metered"] = params

    def _after(self, parsed: Request, model: OperationModel, context: dict[str, Any], **_: object) -> None:
        params = context.pop("metered", None)
        if params is None:
            return
        reads = writes = 0.0
        match parsed.get("Error", {}).get("Code"):
            case "ConditionalCheckFailedException":
                writes = self._compute_refused(params)
            case "TransactionCanceledException":
                actions = (action for entry in params["TransactItems"] for action in entry.values())
                writes = 2 * sum(map(self._compute_refused, actions))
            case _:
                for table in _consumed(parsed):
                    units = table["CapacityUnits"]
                    # A transaction that is repeated under its token is billed as a read.
                    read = units if model.name in READS else table.get("ReadCapacityUnits", 0.0)
                    reads, writes = reads + read, writes + units - read
        if reads or writes:
            with self._adding:
                self.calls += 1
                self.read_units += reads
                self.write_units += writes
                self.by_operation[model.name] = self.by_operation.get(model.name, 0.0) + reads + writes

    def _compute_refused(self, request: Request) -> float:
        """Return the units of a write whose condition is false."""
        key: Item = request.get("Key") or {name: request["Item"][name] for name in ("pk", "sk")}
        self._muted.now = True
        try:
            found: Any = self._client.get_item(
                TableName=request["TableName"], Key=dict(key), ConsistentRead=True
            )
        finally:
            self._muted.now = False
        return table_units(found.get("Item", {}), request.get("Item", {}))


def _consumed(parsed: Request) -> Iterator[Any]:
    """Yield what a response reports for each table."""
    consumed = parsed.get("ConsumedCapacity") or []
    yield from consumed if isinstance(consumed, list) else [consumed]
