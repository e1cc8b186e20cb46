"""The one place that talks to DynamoDB.

Items are plain dicts of str, int, Decimal, bytes, bool, None, lists, dicts and sets. A false condition is
an answer (False, or the places of the actions that were refused). A conflict, a throttle or a lost connection
is retried within the request's budget (attempts.py), and is `Busy` after that. A write that DynamoDB calls
invalid is `Rejected`. Nothing else is caught. Costs are in WCU and RCU per KB or 4 KB begun, as AWS publishes
them.

Which writes are repeated when an answer is lost (a time-out, a closed connection, a 500):

| write | repeated | because |
|---|---|---|
| `put`, `delete`, `batch_put` | yes | the same write again leaves the same item |
| `transact` | yes | all attempts carry one ClientRequestToken: DynamoDB applies it once in 10 minutes |
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
from chalicelib.dynamo.items import Item, Key, groups, pack, unpack
from chalicelib.dynamo.retries import CONNECT_TIMEOUT, READ_TIMEOUT, Retries, back_off, is_refused, reasons
from chalicelib.errors import Busy
from chalicelib.settings import Settings, current

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

T = TypeVar("T")

TRANSACTION = 100  # actions in one TransactWriteItems
BATCH_WRITE, BATCH_GET = 25, 100


class Page(NamedTuple):
    """Some items of a query in order, where the next ones begin (None: there are none), and its RCU."""

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
        """Read one item, or None. Costs 0.5 RCU per 4 KB, strongly consistent 1."""
        asked: Any = {"TableName": self.name, "Key": pack(key._asdict()), "ConsistentRead": consistent}
        answer = self._try(lambda: self.client.get_item(**asked))
        return unpack(answer["Item"]) if "Item" in answer else None

    def get_many(self, keys: Iterable[Key], *, consistent: bool = False) -> dict[Key, Item]:
        """Read the items that exist among many keys. Costs 0.5 RCU per 4 KB and key, consistent 1."""
        found: dict[Key, Item] = {}
        for some in groups(dict.fromkeys(keys), BATCH_GET):
            asked: Any = {"Keys": [pack(k._asdict()) for k in some], "ConsistentRead": consistent}
            for answer in self._until_done("UnprocessedKeys", self.client.batch_get_item, asked):
                items = map(unpack, answer["Responses"].get(self.name, []))
                found |= {Key(item["pk"], item["sk"]): item for item in items}
        return found

    def get_together(self, keys: Iterable[Key]) -> dict[Key, Item]:
        """Read up to 100 items as they were at one moment, those that exist. Costs 2 RCU per 4 KB and key."""
        gets: Any = [{"Get": {"TableName": self.name, "Key": pack(key._asdict())}} for key in keys]
        answer = self._try(lambda: self.client.transact_get_items(TransactItems=gets))
        items = (unpack(found["Item"]) for found in answer["Responses"] if found.get("Item"))
        return {Key(item["pk"], item["sk"]): item for item in items}

    def query(
        self,
        pk: str,
        sk: tuple[Any, Any] | None = None,
        *,
        index: str = "",
        limit: int = 100,
        start: Item | None = None,
        newest_first: bool = False,
        consistent: bool = False,
    ) -> Page:
        """Read one page of a partition in sort-key order, both bounds of `sk` included.

        Follows DynamoDB's own 1 MB pages until `limit` items are there or the partition ends. `start` is
        a key that the answer comes strictly after. Costs 0.5 RCU per 4 KB of what is read, all items of
        the answer together; strongly consistent 1.
        """
        names = {"#pk": f"{index}pk"} | ({"#sk": "gsi1sk" if index == "gsi1" else "sk"} if sk else {})
        values = {":pk": pk, ":low": sk[0], ":high": sk[1]} if sk else {":pk": pk}
        request: Any = {
            "TableName": self.name,
            "KeyConditionExpression": "#pk = :pk" + (" AND #sk BETWEEN :low AND :high" if sk else ""),
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": pack(values),
            "ScanIndexForward": not newest_first,
            "ConsistentRead": consistent,
            "ReturnConsumedCapacity": "TOTAL",
        }
        if index:
            request["IndexName"] = index
        items: list[Item] = []
        units = 0.0
        while True:
            if start:
                request["ExclusiveStartKey"] = pack(start)
            request["Limit"] = limit - len(items)
            answer = self._try(lambda: self.client.query(**request))
            items += map(unpack, answer["Items"])
            units += answer.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0)
            start = unpack(answer["LastEvaluatedKey"]) if "LastEvaluatedKey" in answer else None
            if start is None or len(items) >= limit:
                return Page(items, start, units)

    def put(self, item: Item, *, condition: str = "", values: Mapping[str, Any] | None = None) -> bool:
        """Write one item; False when the condition is false. Costs 1 WCU per KB, also when it is false.

        A retry after a lost answer may find its own write: treat False as "it is there", not "I failed".
        """
        request = self._request({"Item": item}, condition, values)
        return self._unless_refused(lambda: self.client.put_item(**request)) is not None

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
        """Change one item, or make it; answer it as it is now, or None when the condition is false.

        `idempotent`: the same update again does no harm, and its caller can bear None for an update that was
        applied. Any other update is not repeated after a lost answer, and raises Busy.

        Costs 1 WCU per KB of the larger of what it was and is.
        """
        request = self._request({"Key": key._asdict()}, condition, values, names)
        request |= {"UpdateExpression": expression, "ReturnValues": "ALL_NEW"}
        answer = self._unless_refused(lambda: self.client.update_item(**request), repeatable=idempotent)
        return None if answer is None else unpack(answer.get("Attributes", {}))

    def update_or_get(
        self,
        key: Key,
        expression: str,
        *,
        condition: str,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> tuple[bool, Item | None]:
        """Change one item and return True and the item; False and the item as it is when it was refused.

        Costs 1 WCU per KB either way: DynamoDB returns the item with the refusal free of charge
        (`ReturnValuesOnConditionCheckFailure`, API reference of UpdateItem). Where a refusal comes without
        an item, which on AWS means that there is none, a read makes sure, for 1 RCU.
        """
        request = self._request({"Key": key._asdict()}, condition, values, names)
        request |= {"UpdateExpression": expression, "ReturnValues": "ALL_NEW"}
        request |= {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        try:
            answer = self._try(lambda: self.client.update_item(**request))
        except ClientError as error:
            if not is_refused(error):
                raise
            seen: Any = error.response.get("Item")
            return False, unpack(seen) if seen else self.get(key, consistent=True)
        return True, unpack(answer["Attributes"])

    def delete(
        self, key: Key, *, condition: str = "", values: Mapping[str, Any] | None = None
    ) -> Item | None:
        """Delete one item; answer it as it was (empty: there was none), or None when the condition is false.

        Costs 1 WCU per KB.
        """
        request = self._request({"Key": key._asdict()}, condition, values) | {"ReturnValues": "ALL_OLD"}
        answer = self._unless_refused(lambda: self.client.delete_item(**request))
        return None if answer is None else unpack(answer.get("Attributes", {}))

    def batch_put(self, items: Iterable[Item]) -> None:
        """Write any number of items, each at least once, in no order. Costs 1 WCU per KB and item."""
        by_key = {Key(item["pk"], item["sk"]): item for item in items}  # a batch may not name a key twice
        for some in groups(by_key.values(), BATCH_WRITE):
            asked = [{"PutRequest": {"Item": pack(item)}} for item in some]
            for _ in self._until_done("UnprocessedItems", self.client.batch_write_item, asked):
                pass

    def transact(self, actions: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        """Write up to 100 items all or none; answer the places of the actions whose condition was false.

        An empty answer means that everything is written. Each reason of a cancelled transaction is read:
        a false condition ends it (whatever else was in the way), a conflict or a throttle is tried again
        under the same token, so that a try whose answer was lost is not applied twice within 10 minutes.
        Costs 2 WCU per KB and item, also when it is cancelled. Raises Busy, Rejected.
        """
        packed: Any = [_packed(action, self.name) for action in actions]
        token = uuid.uuid4().hex
        try:
            self._try(
                lambda: self.client.transact_write_items(TransactItems=packed, ClientRequestToken=token)
            )
        except ClientError as error:
            if refused := tuple(i for i, why in enumerate(reasons(error)) if why == "ConditionalCheckFailed"):
                return refused
            raise
        return ()

    def back_off(self, number: int) -> None:
        """Pause after a write of this number, from 0, that has met other writes of the same item."""
        back_off(number, self._pause)

    def _request(
        self,
        typed: Mapping[str, Mapping[str, Any]],
        condition: str,
        values: Mapping[str, Any] | None,
        names: Mapping[str, str] | None = None,
    ) -> Any:
        """Write down a request of one item, without what DynamoDB refuses when it is empty."""
        return {
            "TableName": self.name,
            **{name: pack(value) for name, value in typed.items()},
            **({"ConditionExpression": condition} if condition else {}),
            **({"ExpressionAttributeValues": pack(values)} if values else {}),
            **({"ExpressionAttributeNames": dict(names)} if names else {}),
        }

    def _unless_refused(self, call: Callable[[], T], *, repeatable: bool = True) -> T | None:
        """Call; None when the condition is false."""
        try:
            return self._try(call, repeatable=repeatable)
        except ClientError as error:
            if not is_refused(error):
                raise
        return None

    def _try(self, call: Callable[[], T], *, repeatable: bool = True) -> T:
        return Retries(self._pause, self._clock).run(call, repeatable=repeatable)

    def _until_done(self, left: str, call: Callable[..., Any], asked: Any) -> Iterator[Any]:
        """Send a batch again for as long as DynamoDB leaves a part of it (`left`) undone."""
        retries = Retries(self._pause, self._clock)
        while True:
            answer = retries.run(partial(call, RequestItems={self.name: asked}))
            yield answer
            asked = answer.get(left, {}).get(self.name)
            if not asked:
                return
            if not retries.undone():
                raise Busy("The table is busy: try again in a moment.")


@cache
def connect(settings: Settings | None = None) -> Table:
    """Answer the stage's table; its client is made at the first call and kept for the process's life.

    Its time-outs are those that `attempts.Budget` reckons with, and the SDK retries nothing by itself. A
    session of its own: boto3's default one is not safe for two threads' first clients.
    """
    settings = settings or current()
    config = Config(
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=30 if settings.endpoint else READ_TIMEOUT,
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=32,
        tcp_keepalive=True,
        parameter_validation=False,  # it took a quarter of a batch's time: docs/performance.md
        user_agent="hubbub",  # its own is long, and written anew for each call
    )
    client = boto3.session.Session().client("dynamodb", config=config, **settings.client_options())
    if settings.capacity:
        capacity.watch(client)
    return Table(settings.table, client)


def _packed(action: Mapping[str, Any], table: str) -> dict[str, Any]:
    """Write one action of a transaction, `{"Put": {"Item": …}}` and the like, in typed JSON."""
    ((verb, fields),) = action.items()
    typed = {"Item", "Key", "ExpressionAttributeValues"}
    return {verb: {"TableName": table} | {n: pack(v) if n in typed else v for n, v in fields.items()}}
