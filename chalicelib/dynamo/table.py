"""The client of the DynamoDB table. Only this module reads and writes it for the features.

Items are plain dicts of str, int, Decimal, bytes, bool, None, lists, dicts and sets. A false condition is a
result (False, None, or the indexes of the failed actions) and not an error. Conflicts, throttles and lost
connections are retried within the request's budget (retries.py), and raise `Busy` after that. A write that is
invalid for DynamoDB raises `Rejected`. Other errors are not caught.

Costs are in WCU per KB and RCU per 4 KB, rounded up, as AWS publishes them.

Writes that are repeated when their response is lost (a time-out, a closed connection, a 500):

| write | repeated | reason |
|---|---|---|
| `put`, `put_new`, `delete`, `batch_put` | yes | the same write again leaves the same item |
| `transact` | yes | all attempts have one ClientRequestToken, and DynamoDB applies it once in 10 minutes |
| `update` | only with `idempotent=True` | an `ADD` or `SET n = n + 1` would be applied twice |
"""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from chalicelib.dynamo import capacity
from chalicelib.dynamo.items import Item, Key, Range, chunks, pack, unpack
from chalicelib.dynamo.retries import (
    CONNECT_TIMEOUT,
    MESSAGES,
    READ_TIMEOUT,
    Retries,
    back_off,
    cancellation_reasons,
    is_condition_failed,
)
from chalicelib.errors import Busy
from chalicelib.settings import Settings, current

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

T = TypeVar("T")

TRANSACTION = 100  # actions in one TransactWriteItems
BATCH_WRITE, BATCH_GET = 25, 100


class Page(NamedTuple):
    """Items of a query in order, the key before the next page (None: it is the last), and the RCU."""

    items: list[Item]
    next: Item | None
    units: float = 0.0


class Table:
    """One DynamoDB table."""

    def __init__(
        self,
        name: str,
        client: "DynamoDBClient",
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.name = name
        self.client = client
        self._pause = pause
        self._clock = clock

    def get(self, key: Key, *, consistent: bool = False) -> Item | None:
        """Read one item, or None.

        Cost: 0.5 RCU per 4 KB; 1 RCU if strongly consistent.
        """
        request: Any = {"TableName": self.name, "Key": pack(key._asdict()), "ConsistentRead": consistent}
        response = self._try(lambda: self.client.get_item(**request))
        return unpack(response["Item"]) if "Item" in response else None

    def get_many(self, keys: Iterable[Key], *, consistent: bool = False) -> dict[Key, Item]:
        """Read the existing items of many keys.

        Cost: 0.5 RCU per 4 KB and key; 1 RCU if strongly consistent.
        """
        found: dict[Key, Item] = {}
        for chunk in chunks(dict.fromkeys(keys), BATCH_GET):
            batch: Any = {"Keys": [pack(k._asdict()) for k in chunk], "ConsistentRead": consistent}
            for response in self._batches("UnprocessedKeys", self.client.batch_get_item, batch):
                items = map(unpack, response["Responses"].get(self.name, []))
                found |= {Key(item["pk"], item["sk"]): item for item in items}
        return found

    def get_snapshot(self, keys: Iterable[Key]) -> dict[Key, Item]:
        """Read the existing items of up to 100 keys as they were at one moment, in a transaction.

        Cost: 2 RCU per 4 KB and key.
        """
        gets: Any = [{"Get": {"TableName": self.name, "Key": pack(key._asdict())}} for key in keys]
        response = self._try(lambda: self.client.transact_get_items(TransactItems=gets))
        items = (unpack(found["Item"]) for found in response["Responses"] if found.get("Item"))
        return {Key(item["pk"], item["sk"]): item for item in items}

    def query(
        self,
        span: Range,
        *,
        limit: int = 100,
        start: Item | None = None,
        newest_first: bool = False,
        consistent: bool = False,
        attributes: Sequence[str] = (),
    ) -> Page:
        """Read one page of a range in sort-key order.

        Follows DynamoDB's own 1 MB pages until `limit` items are read or the range ends. The page begins
        strictly after the key `start`. With `attributes` it has only these attributes, which costs the same.

        Cost: 0.5 RCU per 4 KB of all items together; 1 RCU if strongly consistent.
        """
        names = {"#pk": f"{span.index_name}pk"}
        names |= {"#sk": "gsi1sk" if span.index_name == "gsi1" else "sk"} if span.sk else {}
        values = {":pk": span.pk} | ({":low": span.sk[0], ":high": span.sk[1]} if span.sk else {})
        request: Any = {
            "TableName": self.name,
            "KeyConditionExpression": "#pk = :pk" + (" AND #sk BETWEEN :low AND :high" if span.sk else ""),
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": pack(values),
            "ScanIndexForward": not newest_first,
            "ConsistentRead": consistent,
            "ReturnConsumedCapacity": "TOTAL",
        }
        if span.index_name:
            request["IndexName"] = span.index_name
        if attributes:
            request["ProjectionExpression"] = ", ".join(f"#a{i}" for i in range(len(attributes)))
            request["ExpressionAttributeNames"] |= {f"#a{i}": name for i, name in enumerate(attributes)}
        items: list[Item] = []
        units = 0.0
        while True:
            if start:
                request["ExclusiveStartKey"] = pack(start)
            request["Limit"] = limit - len(items)
            response = self._try(lambda: self.client.query(**request))
            items += map(unpack, response["Items"])
            units += response.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0)
            start = unpack(response["LastEvaluatedKey"]) if "LastEvaluatedKey" in response else None
            if start is None or len(items) >= limit:
                return Page(items, start, units)

    def query_pages(
        self,
        span: Range,
        *,
        limit: int = 100,
        consistent: bool = False,
        newest_first: bool = False,
        attributes: Sequence[str] = (),
    ) -> Iterator[Page]:
        """Yield all pages of a range, each of up to `limit` items; each is read when it is needed.

        Cost: that of `query` for each page.
        """
        start: Item | None = None
        while True:
            page = self.query(
                span,
                limit=limit,
                start=start,
                consistent=consistent,
                newest_first=newest_first,
                attributes=attributes,
            )
            yield page
            if (start := page.next) is None:
                return

    def put(
        self,
        item: Item,
        *,
        condition: str = "",
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> bool:
        """Write one item; return False when the condition is false.

        A retry after a lost response may find its own write, so False means that the item exists, not that
        this write failed.

        Cost: 1 WCU per KB, also when the condition is false.
        """
        request = self._request({"Item": item}, condition, values, names)
        return self._unless_condition_fails(lambda: self.client.put_item(**request)) is not None

    def update(
        self,
        key: Key,
        expression: str,
        *,
        condition: str = "",
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
        idempotent: bool = False,
    ) -> Item | None:
        """Update or create one item; return the new item, or None when the condition is false.

        `idempotent`: a repeated update has no effect, and the caller accepts None for an update that was
        applied. Any other update is not repeated after a lost response, and raises Busy.

        Cost: 1 WCU per KB of the larger one of the old and the new item.
        """
        request = self._request({"Key": key._asdict()}, condition, values, names)
        request |= {"UpdateExpression": expression, "ReturnValues": "ALL_NEW"}
        call = partial(self.client.update_item, **request)
        response = self._unless_condition_fails(call, repeatable=idempotent)
        return None if response is None else unpack(response.get("Attributes", {}))

    def update_or_get(
        self,
        key: Key,
        expression: str,
        *,
        condition: str,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> tuple[bool, Item | None]:
        """Update one item; return True and the new item, or False and the current one if the condition fails.

        Cost: 1 WCU per KB in both cases, because DynamoDB returns the item with the error at no charge
        (`ReturnValuesOnConditionCheckFailure`, API reference of UpdateItem). An error without an item means
        on AWS that there is no item; a read for 1 RCU makes sure.
        """
        request = self._request({"Key": key._asdict()}, condition, values, names)
        request |= {"UpdateExpression": expression, "ReturnValues": "ALL_NEW"}
        request |= {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        try:
            response = self._try(lambda: self.client.update_item(**request))
        except ClientError as error:
            if not is_condition_failed(error):
                raise
            current: Any = error.response.get("Item")
            return False, unpack(current) if current else self.get(key, consistent=True)
        return True, unpack(response["Attributes"])

    def delete(
        self,
        key: Key,
        *,
        condition: str = "",
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> Item | None:
        """Delete one item; return the old item (empty if none existed), or None when the condition is false.

        Cost: 1 WCU per KB.
        """
        request = self._request({"Key": key._asdict()}, condition, values, names)
        request |= {"ReturnValues": "ALL_OLD"}
        response = self._unless_condition_fails(lambda: self.client.delete_item(**request))
        return None if response is None else unpack(response.get("Attributes", {}))

    def batch_put(self, items: Iterable[Item]) -> None:
        """Write any number of items, each at least once, in no defined order.

        Cost: 1 WCU per KB and item.
        """
        by_key = {Key(item["pk"], item["sk"]): item for item in items}  # a batch may not repeat a key
        for chunk in chunks(by_key.values(), BATCH_WRITE):
            batch = [{"PutRequest": {"Item": pack(item)}} for item in chunk]
            for _ in self._batches("UnprocessedItems", self.client.batch_write_item, batch):
                pass

    def put_new(self, items: Iterable[Item]) -> list[bool]:
        """Write items that do not exist yet, 25 in a request. Return for each item whether it was written.

        `INSERT` in PartiQL is a put on the condition that there is no such item. Unlike a transaction it
        writes each item by itself. False means that the item exists, as in `put`.

        Cost: 1 WCU per KB and item, also when it exists.
        """
        items, written = list(items), set[Key]()
        for chunk in chunks(items, BATCH_WRITE):
            left = {Key(item["pk"], item["sk"]): item for item in chunk}
            self._try(partial(self._insert, left, written))
        return [Key(item["pk"], item["sk"]) in written for item in items]

    def _insert(self, left: dict[Key, Item], written: set[Key]) -> None:
        """Insert items. Remove those that are written, or that exist, from `left`. Raise any other error."""
        statements: Any = [_to_insert(item, self.name) for item in left.values()]
        responses = self.client.batch_execute_statement(Statements=statements)["Responses"]
        error: Any = None
        for key, response in zip(list(left), responses, strict=True):
            code = response.get("Error", {}).get("Code")
            if code not in (None, "DuplicateItem"):
                error = response["Error"]
                continue
            del left[key]
            if code is None:
                written.add(key)
        if error:
            raise ClientError({"Error": error}, "BatchExecuteStatement")

    def transact(self, actions: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        """Write up to 100 items, all or none; return the indexes of the actions whose condition was false.

        An empty result means that all items are written. A false condition ends the transaction. After a
        conflict or a throttle it is retried with the same token, so that an attempt whose response was lost
        is not applied twice within 10 minutes.

        Cost: 2 WCU per KB and item, also when the transaction is cancelled.
        Raises: Busy, Rejected.
        """
        packed: Any = [_packed(action, self.name) for action in actions]
        token = uuid.uuid4().hex
        try:
            self._try(
                lambda: self.client.transact_write_items(TransactItems=packed, ClientRequestToken=token)
            )
        except ClientError as error:
            reasons = enumerate(cancellation_reasons(error))
            if failed := tuple(i for i, reason in reasons if reason == "ConditionalCheckFailed"):
                return failed
            raise
        return ()

    def back_off(self, number: int) -> None:
        """Pause after the attempt of this number, counted from 0, that conflicted with another write."""
        back_off(number, self._pause)

    def _request(
        self,
        typed: Mapping[str, Mapping[str, Any]],
        condition: str,
        values: Mapping[str, Any] | None,
        names: Mapping[str, str] | None = None,
    ) -> Any:
        """Build a request for one item, without the parameters that must not be empty."""
        return {
            "TableName": self.name,
            **{name: pack(value) for name, value in typed.items()},
            **({"ConditionExpression": condition} if condition else {}),
            **({"ExpressionAttributeValues": pack(values)} if values else {}),
            **({"ExpressionAttributeNames": dict(names)} if names else {}),
        }

    def _unless_condition_fails(self, call: Callable[[], T], *, repeatable: bool = True) -> T | None:
        """Make a call; return None when its condition is false."""
        try:
            return self._try(call, repeatable=repeatable)
        except ClientError as error:
            if not is_condition_failed(error):
                raise
        return None

    def _try(self, call: Callable[[], T], *, repeatable: bool = True) -> T:
        return Retries(self._pause, self._clock).run(call, repeatable=repeatable)

    def _batches(self, unprocessed: str, call: Callable[..., Any], batch: Any) -> Iterator[Any]:
        """Send a batch, resend what DynamoDB did not process, and yield the responses."""
        retries = Retries(self._pause, self._clock)
        while True:
            response = retries.run(partial(call, RequestItems={self.name: batch}))
            yield response
            batch = response.get(unprocessed, {}).get(self.name)
            if not batch:
                return
            if not retries.wait_for_unprocessed():
                raise Busy(MESSAGES["Throttles"])


@cache
def connect(settings: Settings | None = None) -> Table:
    """Return the stage's table. Its client is created at the first call and cached for the process.

    `retries.Budget` depends on the time-outs of the client. The SDK itself retries nothing. The client has a
    separate session, because two threads cannot safely create clients in boto3's default session.
    """
    settings = settings or current()
    config = Config(
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=30 if settings.endpoint else READ_TIMEOUT,
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=32,
        tcp_keepalive=True,
        parameter_validation=False,  # it takes a quarter of a batch's time: docs/evidence.md
        user_agent="hubbub",  # the default is long and is built anew for each call
    )
    client = boto3.session.Session().client("dynamodb", config=config, **settings.client_options())
    if settings.capacity:
        capacity.watch(client)
    return Table(settings.table, client)


def _packed(action: Mapping[str, Any], table: str) -> dict[str, Any]:
    """Convert one action of a transaction, such as `{"Put": {"Item": …}}`, to typed JSON."""
    ((verb, fields),) = action.items()
    typed = {"Item", "Key", "ExpressionAttributeValues"}
    return {verb: {"TableName": table} | {n: pack(v) if n in typed else v for n, v in fields.items()}}


def _to_insert(item: Item, table: str) -> dict[str, Any]:
    """Return the statement that writes an item which does not exist. No name of an attribute has a quote."""
    typed = pack(item)
    values = ", ".join(f"'{name}': ?" for name in typed)
    return {"Statement": f'INSERT INTO "{table}" VALUE {{{values}}}', "Parameters": list(typed.values())}
