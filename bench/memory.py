"""Answers a client's calls in an engine's place: for more players than an engine here can be given.

A table in memory knows the operations that reads of a leaderboard make, and their answers: the items that
were put, those that are computed when they are asked for, and partitions of `gsi1` with 1 MB pages.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import boto3
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config

from bench.capacity import item_size
from chalicelib.items import Item, Key, pack, unpack

if TYPE_CHECKING:
    from botocore.model import OperationModel
    from mypy_boto3_dynamodb import DynamoDBClient

PAGE = 1024 * 1024  # bytes that a query reads at most
CONDITION = re.compile(r"(\S+) = (:\w+)(?: AND (\S+) (BETWEEN|>) (:\w+)(?: AND (:\w+))?)?")
ABOVE = 10**39  # any number of DynamoDB's

Entries = Sequence[tuple[int, str]]
"""The entries of an index partition in order: number and pk."""


@contextmanager
def offline(answer: Callable[[str, Any], Mapping[str, Any]]) -> Iterator[DynamoDBClient]:
    """Make a client whose calls a function answers, by operation and request; nothing is ever sent."""

    def answered(
        model: OperationModel, params: Mapping[str, Any], **_: object
    ) -> tuple[AWSResponse, dict[str, Any]]:
        done = {"ResponseMetadata": {"HTTPStatusCode": 200, "RetryAttempts": 0}}
        found = answer(model.name, json.loads(params["body"]))
        return AWSResponse("http://memory.invalid", 200, HTTPHeaders(), None), {**done, **found}

    made = boto3.session.Session().client(
        "dynamodb",
        region_name="us-east-1",
        endpoint_url="http://memory.invalid",
        aws_access_key_id="none",
        aws_secret_access_key="none",  # noqa: S106 (it signs nothing)
        config=Config(parameter_validation=False, user_agent="hubbub"),  # as `table.connect` has it
    )
    answering: Any = answered  # its answer stands for the network, which the stubs do not know
    made.meta.events.register("before-call.dynamodb", answering)
    try:
        yield made
    finally:
        made.close()


class Memory:
    """Items and index partitions of one table; `asked` are the keys that reads named."""

    def __init__(self, computed: Callable[[Key], Item | None] = lambda _: None) -> None:
        self.asked: set[Key] = set()
        self._computed = computed
        self._items: dict[Key, Item] = {}
        self._partitions: dict[str, tuple[Entries, str]] = {}

    def put_partition(self, partition: str, entries: Entries, sk: str) -> None:
        """Give a partition of gsi1 its entries, whose items all have the same sort key."""
        self._partitions[partition] = entries, sk

    def item(self, key: Key) -> Item | None:
        """Answer an item, or None."""
        return self._items.get(key) or self._computed(key)

    @contextmanager
    def client(self) -> Iterator[DynamoDBClient]:
        """Make a client that this table answers; nothing is ever sent."""
        with offline(self._answer) as made:
            yield made

    def _answer(self, operation: str, request: Any) -> Mapping[str, Any]:
        match operation:
            case "PutItem":
                item = unpack(request["Item"])
                self._items[Key(item["pk"], item["sk"])] = item
                return {}
            case "GetItem":
                return self._got(request["Key"])
            case "BatchGetItem":
                [(table, asked)] = request["RequestItems"].items()
                found = [got["Item"] for key in asked["Keys"] if (got := self._got(key))]
                return {"Responses": {table: found}, "UnprocessedKeys": {}}
            case "TransactGetItems":
                return {"Responses": [self._got(one["Get"]["Key"]) for one in request["TransactItems"]]}
            case "Query":
                return self._query(request)
            case _:
                raise NotImplementedError(f"{operation} of a table in memory")

    def _got(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        key = Key(**unpack(typed))
        self.asked.add(key)
        item = self.item(key)
        return {} if item is None else {"Item": pack(item)}

    def _query(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Read one page of a partition, as long as the limit and 1 MB let it be."""
        values = unpack(request["ExpressionAttributeValues"])
        found = CONDITION.fullmatch(request["KeyConditionExpression"])
        if not found or request.get("IndexName") != "gsi1":
            raise NotImplementedError("this query of a table in memory")
        _, pk, _, operator, low, high = found.groups()
        lowest = 0 if not operator else values[low] if operator == "BETWEEN" else values[low] + 1
        entries, sk = self._partitions.get(values[pk], ((), ""))
        first, end = bisect_left(entries, (lowest,)), bisect_left(entries, (values.get(high, ABOVE) + 1,))
        is_forward, start = request.get("ScanIndexForward", True), request.get("ExclusiveStartKey")
        if start:
            after = int(start["gsi1sk"]["N"]), start["pk"]["S"]
            first, end = (
                (max(first, bisect_right(entries, after)), end)
                if is_forward
                else (first, min(end, bisect_left(entries, after)))
            )
        places = range(first, end) if is_forward else range(end - 1, first - 1, -1)
        page: list[dict[str, Any]] = []
        size = 0
        for place in places:
            number, owner = entries[place]
            entry = {
                "pk": {"S": owner},
                "sk": {"S": sk},
                "gsi1pk": {"S": values[pk]},
                "gsi1sk": {"N": str(number)},
            }
            size += item_size(entry)
            if size > PAGE:
                break
            page.append(entry)
            if len(page) == request.get("Limit"):
                break
        answer: dict[str, Any] = {"Count": len(page), "ScannedCount": len(page)}
        if page and (len(page) < len(places) or len(page) == request.get("Limit")):
            answer["LastEvaluatedKey"] = page[-1]
        return answer if request.get("Select") == "COUNT" else answer | {"Items": page}
