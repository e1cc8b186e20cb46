"""A table in memory that serves a client's calls: for more players than a local engine can be given.

It knows the operations that reads of a leaderboard make: the items that were put, those that are computed
when they are read, and partitions of `gsi1` with pages of 1 MB.
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

from chalicelib.dynamo.items import Item, Key, pack, unpack
from local.engines.capacity import item_size

if TYPE_CHECKING:
    from botocore.model import OperationModel
    from mypy_boto3_dynamodb import DynamoDBClient

PAGE = 1024 * 1024  # bytes that a query reads at most
CONDITION = re.compile(r"(\S+) = (:\w+)(?: AND (\S+) (BETWEEN|>) (:\w+)(?: AND (:\w+))?)?")
ABOVE = 10**39  # greater than any number of DynamoDB

Entries = Sequence[tuple[int, str]]
"""The entries of an index partition in order: number and pk."""


class Memory:
    """Items and index partitions of one table; `read` are the keys that were read."""

    def __init__(self, compute: Callable[[Key], Item | None] = lambda _: None) -> None:
        self.read: set[Key] = set()
        self._compute = compute
        self._items: dict[Key, Item] = {}
        self._partitions: dict[str, tuple[Entries, str]] = {}

    def put_partition(self, partition: str, entries: Entries, sk: str) -> None:
        """Set the entries of a partition of gsi1; their items all have the same sort key."""
        self._partitions[partition] = entries, sk

    def item(self, key: Key) -> Item | None:
        """Return an item, or None."""
        return self._items.get(key) or self._compute(key)

    @contextmanager
    def client(self) -> Iterator[DynamoDBClient]:
        """Create a client that this table serves; it sends nothing."""

        def serve(
            model: OperationModel, params: Mapping[str, Any], **_: object
        ) -> tuple[AWSResponse, dict[str, Any]]:
            reply = self._serve(model.name, json.loads(params["body"]))
            metadata = {"ResponseMetadata": {"HTTPStatusCode": 200, "RetryAttempts": 0}}
            return AWSResponse("http://memory.invalid", 200, HTTPHeaders(), None), {**metadata, **reply}

        client = boto3.session.Session().client(
            "dynamodb",
            region_name="us-east-1",
            endpoint_url="http://memory.invalid",
            aws_access_key_id="none",
            aws_secret_access_key="none",  # noqa: S106 (it signs nothing)
            config=Config(parameter_validation=False, user_agent="hubbub"),  # as `table.connect`
        )
        hook: Any = serve  # its result replaces the network's, which the stubs do not know
        client.meta.events.register("before-call.dynamodb", hook)
        try:
            yield client
        finally:
            client.close()

    def _serve(self, operation: str, request: Any) -> Mapping[str, Any]:
        match operation:
            case "PutItem":
                item = unpack(request["Item"])
                self._items[Key(item["pk"], item["sk"])] = item
                return {}
            case "GetItem":
                return self._get(request["Key"])
            case "BatchGetItem":
                [(table, batch)] = request["RequestItems"].items()
                found = [reply["Item"] for key in batch["Keys"] if (reply := self._get(key))]
                return {"Responses": {table: found}, "UnprocessedKeys": {}}
            case "TransactGetItems":
                return {"Responses": [self._get(one["Get"]["Key"]) for one in request["TransactItems"]]}
            case "Query":
                return self._query(request)
        raise NotImplementedError(f"{operation} of a table in memory")

    def _get(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        key = Key(**unpack(typed))
        self.read.add(key)
        item = self.item(key)
        return {} if item is None else {"Item": pack(item)}

    def _query(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Read one page of a partition, up to the limit and 1 MB."""
        values = unpack(request["ExpressionAttributeValues"])
        found = CONDITION.fullmatch(request["KeyConditionExpression"])
        if not found or request.get("IndexName") != "gsi1":
            raise NotImplementedError("this query of a table in memory")
        _, pk, _, operator, low, high = found.groups()
        lowest = 0 if not operator else values[low] if operator == "BETWEEN" else values[low] + 1
        entries, sk = self._partitions.get(values[pk], ((), ""))
        first, end = bisect_left(entries, (lowest,)), bisect_left(entries, (values.get(high, ABOVE) + 1,))
        is_forward = request.get("ScanIndexForward", True)
        if start := request.get("ExclusiveStartKey"):
            last = int(start["gsi1sk"]["N"]), start["pk"]["S"]
            if is_forward:
                first = max(first, bisect_right(entries, last))
            else:
                end = min(end, bisect_left(entries, last))
        places = range(first, end) if is_forward else range(end - 1, first - 1, -1)
        page: list[dict[str, Any]] = []
        size = 0
        for place in places:
            number, owner = entries[place]
            keys = {"pk": {"S": owner}, "sk": {"S": sk}}
            entry = keys | {"gsi1pk": {"S": values[pk]}, "gsi1sk": {"N": str(number)}}
            size += item_size(entry)
            if size > PAGE:
                break
            page.append(entry)
            if len(page) == request.get("Limit"):
                break
        reply: dict[str, Any] = {"Count": len(page), "ScannedCount": len(page)}
        if page and (len(page) < len(places) or len(page) == request.get("Limit")):
            reply["LastEvaluatedKey"] = page[-1]
        return reply if request.get("Select") == "COUNT" else reply | {"Items": page}
