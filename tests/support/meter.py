"""Adds up the capacity units of all calls through a client, by the rules in `capacity`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock, local
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from chalicelib.dynamo.capacity import WRITES
from tests.support.capacity import (
    EVENTUAL,
    HUBBUB,
    STRONG,
    TRANSACTION_FACTOR,
    TRANSACTIONAL,
    Item,
    TableDefinition,
    item_size,
    read_units,
    table_units,
    write_units,
)

if TYPE_CHECKING:
    from botocore.model import OperationModel
    from mypy_boto3_dynamodb import DynamoDBClient

# A false condition is billed; any other refused call is not.
_BILLED_ERRORS = {"ConditionalCheckFailedException", "TransactionCanceledException"}
_PARTIQL = {"ExecuteStatement", "ExecuteTransaction"}
_NO_INDEXES = TableDefinition(indexes={})
# The parameters that make a page return less than it read.
_NARROWING = {"Select", "FilterExpression", "ProjectionExpression"}

Request = Mapping[str, Any]


class Write(NamedTuple):
    """The WCU of one write of one item: the table's, and those of its indexes."""

    key: Item
    table: float
    indexes: float


def _requests(operation: str, params: Request) -> list[tuple[str, Request]]:
    """Return the table and the request of each item a call names; a request has its `Key` or its `Item`."""
    match operation:
        case "GetItem" | "PutItem" | "UpdateItem" | "DeleteItem":
            return [(params["TableName"], params)]
        case "TransactGetItems" | "TransactWriteItems":
            actions = [action for entry in params["TransactItems"] for action in entry.values()]
            return [(action["TableName"], action) for action in actions]
        case "BatchGetItem":
            batches = params["RequestItems"].items()
            return [(table, {**batch, "Key": key}) for table, batch in batches for key in batch["Keys"]]
        case "BatchWriteItem":
            batches = params["RequestItems"].items()
            return [(table, request) for table, batch in batches for one in batch for request in one.values()]
        case "BatchExecuteStatement":
            return [_inserted(one["Statement"], one["Parameters"]) for one in params["Statements"]]
    return []


def _inserted(statement: str, parameters: list[Item]) -> tuple[str, Request]:
    """Return the table and the item of an INSERT, the only statement of PartiQL that has a rule here."""
    insert = re.fullmatch(r"INSERT INTO \"([^\"]+)\" VALUE \{(.*)\}", statement)
    if insert is None:
        raise ValueError(f"a statement has no rule in Meter: {statement[:40]}")
    return insert[1], {"Item": dict(zip(re.findall(r"'([^']+)': \?", insert[2]), parameters, strict=True))}


def _item_read(request: Request, image: Item, transactional: bool) -> float:
    rate = STRONG if request.get("ConsistentRead") else EVENTUAL
    return read_units(item_size(image), TRANSACTIONAL if transactional else rate)


class Meter:
    """Adds up the units of every call made through one boto3 DynamoDB client.

    >>> with Meter(client) as meter:  # doctest: +SKIP
    ...     feature.write(table, view)
    >>> meter.write_units, meter.read_units, meter.by_operation  # doctest: +SKIP
    (4.0, 0.0, {'TransactWriteItems': 4.0})

    True sizes need whole items, so the meter reads each named item before and after a call: through
    `reader`, or through the client itself with the meter muted. Those reads are not counted, but they take
    time: measure time in another run. Several threads may call, unless one writes what another reads. Every
    table is taken to have the one `definition`.

    A cancelled transaction is billed as a failed condition on each of its actions, doubled. An update whose
    condition fails is billed on the item that is there, for what it would have become is unknown. Other
    errors cost nothing. A transaction repeated under a ClientRequestToken that has succeeded is billed as a
    transactional read. `writes` keeps the cost of each item written, in order.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        definition: TableDefinition = HUBBUB,
        reader: DynamoDBClient | None = None,
    ) -> None:
        self._events = client.meta.events
        self._reader = reader or client
        self._definition = definition
        self._muted = local()
        self._adding = Lock()
        self._succeeded: set[str] = set()
        self.reset()
        self._events.register_last("before-parameter-build.dynamodb", self._before)
        self._events.register("after-call.dynamodb", self._after)

    def reset(self) -> None:
        """Set every total back to zero."""
        self.write_units = 0.0
        self.read_units = 0.0
        self.by_operation: dict[str, float] = {}
        self.writes: list[Write] = []
        self.calls = 0

    def close(self) -> None:
        """Stop counting; the totals stay."""
        self._events.unregister("before-parameter-build.dynamodb", self._before)
        self._events.unregister("after-call.dynamodb", self._after)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _before(self, params: Request, model: OperationModel, context: dict[str, Any], **_: object) -> None:
        if getattr(self._muted, "now", False):
            return
        if model.name in _PARTIQL:
            raise ValueError(f"{model.name} has no rule in Meter; use the item operations instead of PartiQL")
        images = [self._image(table, request) for table, request in _requests(model.name, params)]
        context["meter"] = params, images

    def _after(self, parsed: Request, model: OperationModel, context: dict[str, Any], **_: object) -> None:
        error = parsed.get("Error", {}).get("Code")
        if "meter" not in context or (error and error not in _BILLED_ERRORS):
            return
        params, images = context.pop("meter")
        operation, reads = model.name, 0.0
        writes: list[Write] = []
        touched = list(self._processed(operation, params, parsed, images))
        transactional = operation.startswith("Transact")
        if operation in ("Query", "Scan"):
            reads = self._page(operation, params, parsed)
        elif operation not in WRITES or self._repeated(params, error):
            reads = sum(_item_read(request, image, transactional) for _, request, image in touched)
        elif error:
            factor = TRANSACTION_FACTOR if transactional else 1
            for _table, request, image in touched:
                units = factor * table_units(image, request.get("Item", {}))
                writes.append(Write(self._key(request), units, 0))
        else:
            for table, request, before in touched:
                after = self._image(table, request)
                alone = write_units(before, after, _NO_INDEXES, transactional=transactional)
                whole = write_units(before, after, self._definition, transactional=transactional)
                writes.append(Write(self._key(request), alone, whole - alone))
        written = sum(write.table + write.indexes for write in writes)
        if reads or written:
            with self._adding:
                self.calls += 1
                self.read_units += reads
                self.write_units += written
                self.writes += writes
                self.by_operation[operation] = self.by_operation.get(operation, 0.0) + reads + written

    def _processed(
        self, operation: str, params: Request, parsed: Request, images: list[Item]
    ) -> Iterator[tuple[str, Request, Item]]:
        """Yield table, request and image before the call, of each item a batch did not hand back."""
        left = parsed.get("UnprocessedItems") or parsed.get("UnprocessedKeys") or {}
        refused = _requests(operation, {"RequestItems": left}) if left else []
        back = [(table, self._key(request)) for table, request in refused]
        for (table, request), image in zip(_requests(operation, params), images, strict=True):
            if (table, self._key(request)) not in back:
                yield table, request, image

    def _repeated(self, params: Request, error: str | None) -> bool:
        token = params.get("ClientRequestToken")
        repeated = token in self._succeeded
        if token and not error:
            self._succeeded.add(token)
        return repeated

    def _page(self, operation: str, params: Request, parsed: Request) -> float:
        """Return a page's RCU, reading the page again whole when the reply returns less than was read."""
        items = parsed.get("Items", [])
        if _NARROWING & params.keys() and parsed["ScannedCount"]:
            items = self._whole_page(operation, params, parsed["ScannedCount"])
        if "IndexName" in params:
            index = self._definition.indexes[params["IndexName"]]
            items = [self._definition.entry(index, item) for item in items]
        return read_units(sum(map(item_size, items)), STRONG if params.get("ConsistentRead") else EVENTUAL)

    def _whole_page(self, operation: str, params: Request, count: int) -> list[Item]:
        used = set(re.findall(r"[#:]\w+", params.get("KeyConditionExpression", "")))
        whole: dict[str, Any] = {name: value for name, value in params.items() if name not in _NARROWING}
        for names in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
            # DynamoDB refuses a name or a value that no expression uses.
            kept = {name: value for name, value in whole.pop(names, {}).items() if name in used}
            whole |= {names: kept} if kept else {}
        whole["Limit"] = count
        with self._muting():
            reply = self._reader.query(**whole) if operation == "Query" else self._reader.scan(**whole)
        return list(reply["Items"])

    def _image(self, table: str, request: Request) -> Item:
        """Return the item as it is now, or an empty one."""
        with self._muting():
            reply = self._reader.get_item(TableName=table, Key=self._key(request), ConsistentRead=True)
        return reply.get("Item", {})

    def _key(self, request: Request) -> dict[str, Any]:
        return {name: (request.get("Key") or request["Item"])[name] for name in self._definition.key}

    @contextmanager
    def _muting(self) -> Iterator[None]:
        self._muted.now = True
        try:
            yield
        finally:
            self._muted.now = False
