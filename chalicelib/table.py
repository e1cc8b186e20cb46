"""The one place that talks to DynamoDB.

Items are plain dicts of str, int, Decimal, bytes, bool, None, lists, dicts and sets. A false condition is
an answer (False, or the places of the actions that were refused); a conflict or a throttle is tried again
with jitter, a bounded number of times, and is `Busy` after that; a write that DynamoDB calls invalid is
`Rejected`. Nothing else is caught. Costs are in WCU and RCU per KB or 4 KB begun, as AWS publishes them.
"""

import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionError, HTTPClientError

from chalicelib.errors import Busy, Rejected
from chalicelib.items import Item, Key, pack, unpack
from chalicelib.settings import Settings, current

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

T = TypeVar("T")

TRANSACTION = 100  # actions in one TransactWriteItems
BATCH_WRITE, BATCH_GET = 25, 100
ATTEMPTS = 9  # one and eight more, with pauses of 3.6 s in all at most
PASSING = frozenset(
    {
        "TransactionConflict",
        "TransactionConflictException",
        "TransactionInProgressException",
        "ThrottlingError",
        "ThrottlingException",
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "InternalServerError",
        "LimitExceededException",
    }
)


class Page(NamedTuple):
    """Some items of a query in order, and where the next ones begin (None: there are none)."""

    items: list[Item]
    next: Item | None


class Table:
    """One DynamoDB table."""

    def __init__(self, name: str, client: "DynamoDBClient", pause: Callable[[float], None] = time.sleep):
        self.name = name
        self.client = client
        self._pause = pause

    def get(self, key: Key, *, consistent: bool = False) -> Item | None:
        """Read one item, or None. Costs 0.5 RCU per 4 KB, strongly consistent 1."""
        asked: Any = {"TableName": self.name, "Key": pack(key._asdict()), "ConsistentRead": consistent}
        answer = self._try(lambda: self.client.get_item(**asked))
        return unpack(answer["Item"]) if "Item" in answer else None

    def get_many(self, keys: Iterable[Key], *, consistent: bool = False) -> dict[Key, Item]:
        """Read the items that exist among many keys. Costs 0.5 RCU per 4 KB and key, consistent 1."""
        found: dict[Key, Item] = {}
        for some in _chunks(dict.fromkeys(keys), BATCH_GET):
            asked: Any = {"Keys": [pack(k._asdict()) for k in some], "ConsistentRead": consistent}
            for answer in self._until_done("UnprocessedKeys", self.client.batch_get_item, asked):
                for item in map(unpack, answer["Responses"].get(self.name, [])):
                    found[Key(item["pk"], item["sk"])] = item
        return found

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
        names = {"#pk": f"{index}pk", "#sk": f"{index}sk"} if sk else {"#pk": f"{index}pk"}
        values = {":pk": pk, ":low": sk[0], ":high": sk[1]} if sk else {":pk": pk}
        request: Any = {
            "TableName": self.name,
            "KeyConditionExpression": "#pk = :pk" + (" AND #sk BETWEEN :low AND :high" if sk else ""),
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": pack(values),
            "ScanIndexForward": not newest_first,
            "ConsistentRead": consistent,
        }
        if index:
            request["IndexName"] = index
        items: list[Item] = []
        while True:
            if start:
                request["ExclusiveStartKey"] = pack(start)
            request["Limit"] = limit - len(items)
            answer = self._try(lambda: self.client.query(**request))
            items += map(unpack, answer["Items"])
            start = unpack(answer["LastEvaluatedKey"]) if "LastEvaluatedKey" in answer else None
            if start is None or len(items) >= limit:
                return Page(items, start)

    def put(self, item: Item, *, condition: str = "", values: Mapping[str, Any] | None = None) -> bool:
        """Write one item; False when the condition is false. Costs 1 WCU per KB, also when it is false.

        A retry after a lost answer may find its own write: treat False as "it is there", not "I failed".
        """
        request: Any = {"TableName": self.name, "Item": pack(item)}
        if condition:
            request["ConditionExpression"] = condition
        if values:
            request["ExpressionAttributeValues"] = pack(values)
        try:
            self._try(lambda: self.client.put_item(**request))
        except ClientError as error:
            if _code(error) == "ConditionalCheckFailedException":
                return False
            raise
        return True

    def batch_put(self, items: Iterable[Item]) -> None:
        """Write any number of items, each at least once, in no order. Costs 1 WCU per KB and item."""
        by_key = {Key(item["pk"], item["sk"]): item for item in items}  # a batch may not name a key twice
        for some in _chunks(by_key.values(), BATCH_WRITE):
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
            reasons = _reasons(error)
            if refused := tuple(i for i, code in enumerate(reasons) if code == "ConditionalCheckFailed"):
                return refused
            raise
        return ()

    def _try(self, call: Callable[[], T]) -> T:
        """Call until it is done or said no; passing trouble is waited out with full jitter.

        Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
        """
        for attempt in range(ATTEMPTS):
            try:
                return call()
            except (HTTPClientError, ConnectionError) as error:  # the SDK has tried three times
                raise Busy("The table cannot be reached: try again in a moment.") from error
            except ClientError as error:
                codes = {_code(error), *_reasons(error)} - {"None", "TransactionCanceledException"}
                if any(code.startswith("ConditionalCheckFailed") for code in codes):
                    raise
                if codes & {"ValidationError", "ValidationException"}:
                    raise Rejected(_message(error)) from error
                if not codes or codes - PASSING:
                    raise
            if attempt < ATTEMPTS - 1:
                self._back_off(attempt)
        raise Busy("The table is busy: try again in a moment.")

    def _until_done(self, left: str, call: Callable[..., Any], asked: Any) -> Iterator[Any]:
        """Send a batch again for as long as DynamoDB leaves a part of it (`left`) undone."""
        for attempt in range(ATTEMPTS):
            request = {self.name: asked}
            answer = self._try(lambda: call(RequestItems=request))  # noqa: B023 (called at once)
            yield answer
            asked = answer.get(left, {}).get(self.name)
            if not asked:
                return
            if attempt < ATTEMPTS - 1:
                self._back_off(attempt)
        raise Busy("The table is busy: try again in a moment.")

    def _back_off(self, attempt: int) -> None:
        self._pause(random.uniform(0, min(1.0, 0.025 * 2**attempt)))  # noqa: S311 (jitter is no secret)


@cache
def connect(settings: Settings | None = None) -> Table:
    """Answer the stage's table; its client is made at the first call and kept for the process's life.

    Time-outs are short and the SDK's own retries few, for `Table._try` comes after them: a Lambda function
    that waits costs money. A local engine gets made-up credentials, so that real ones never reach it. A
    session of its own, for boto3's default one is not safe when two threads make their first clients.
    """
    settings = settings or current()
    config = Config(
        connect_timeout=1,
        read_timeout=3 if not settings.endpoint else 30,
        retries={"mode": "standard", "total_max_attempts": 3},
        max_pool_connections=32,
        tcp_keepalive=True,
    )
    return Table(
        settings.table, boto3.session.Session().client("dynamodb", config=config, **settings.client_options())
    )


def _packed(action: Mapping[str, Any], table: str) -> dict[str, Any]:
    """Write one action of a transaction, `{"Put": {"Item": …}}` and the like, in typed JSON."""
    ((verb, fields),) = action.items()
    typed = {"Item", "Key", "ExpressionAttributeValues"}
    return {verb: {"TableName": table} | {n: pack(v) if n in typed else v for n, v in fields.items()}}


def _chunks(things: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(things)
    while some := list(islice(rest, size)):
        yield some


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _message(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message", ""))


def _reasons(error: ClientError) -> list[str]:
    reasons: Any = error.response.get("CancellationReasons", [])
    return [str(reason.get("Code", "None")) for reason in reasons]
