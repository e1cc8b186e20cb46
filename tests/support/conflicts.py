"""Refuses the writes that AWS would refuse for a conflict, because local engines never do.

The rule, from "Transaction conflict handling in DynamoDB" (Amazon DynamoDB Developer Guide): while a
TransactWriteItems is under way, another one that names one of its items is cancelled with the reason
TransactionConflict, and a plain write of such an item is refused with TransactionConflictException. A plain
write under way cancels nothing. The guide does not say what becomes of a BatchWriteItem; here it is refused
whole, the worst case for its sender.

A call is under way from when its client sends it until the client has the reply. AWS's own window is inside
the service, a little shorter. The SDK retries neither error.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from tests.support.faults import hooked

if TYPE_CHECKING:
    from botocore.model import OperationModel
    from mypy_boto3_dynamodb import DynamoDBClient

Target = tuple[str, str]
"""An item: its table, and its key as JSON."""

MESSAGE = "Transaction cancelled, please refer cancellation reasons for specific reasons"
ONGOING = "Transaction is ongoing for the item"


class InFlight:
    """The items that transactions under way name, for all clients of this process that are attached.

    Every call takes `latency` seconds longer, refused or not, and is under way all that time. A refused call
    takes `refusal` seconds besides, as the engine would: without them its client could send more than any
    client can.
    """

    def __init__(
        self, latency: float = 0.0, refusal: float = 0.0, key: tuple[str, ...] = ("pk", "sk")
    ) -> None:
        self.refused = 0
        self._latency = latency
        self._refusal = refusal
        self._key = key
        self._items: set[Target] = set()
        self._lock = threading.Lock()

    @contextmanager
    def attached(self, client: DynamoDBClient) -> Iterator[None]:
        """Apply the rule to a client's calls, at `before-call`: before anything is signed or sent."""
        hooks: dict[str, Any] = {
            "before-call.dynamodb": self._begin,
            "after-call.dynamodb": self._end,
            "after-call-error.dynamodb": self._end,
        }
        with hooked(client, hooks):
            yield

    def _begin(
        self, model: OperationModel, params: Mapping[str, Any], context: dict[str, Any], **_: object
    ) -> tuple[AWSResponse, dict[str, Any]] | None:
        """Return None, which lets the call go on, or DynamoDB's refusal."""
        transaction = model.name == "TransactWriteItems"
        written = self._written(model.name, json.loads(params["body"]))
        with self._lock:
            conflicting = [action in self._items for action in written]
            refused = any(conflicting)
            self.refused += refused
            if transaction and not refused:
                self._items.update(written)
                context["in flight"] = written
        time.sleep(self._latency + (self._refusal if refused else 0.0))
        if not refused:
            return None
        return _cancelled(conflicting) if transaction else _refused()

    def _end(self, context: dict[str, Any], **_: object) -> None:
        with self._lock:
            self._items.difference_update(context.pop("in flight", ()))

    def _written(self, operation: str, request: Mapping[str, Any]) -> list[Target]:
        """Return the items that a call writes, in the order of its actions."""
        match operation:
            case "PutItem" | "UpdateItem" | "DeleteItem":
                return [self._item(request["TableName"], request)]
            case "TransactWriteItems":
                actions = [action for entry in request["TransactItems"] for action in entry.values()]
                return [self._item(action["TableName"], action) for action in actions]
            case "BatchWriteItem":
                return [
                    self._item(table, action)
                    for table, entries in request["RequestItems"].items()
                    for entry in entries
                    for action in entry.values()
                ]
        return []

    def _item(self, table: str, action: Mapping[str, Any]) -> Target:
        item = action.get("Key") or action["Item"]
        return table, json.dumps([item[name] for name in self._key])


def _cancelled(conflicting: list[bool]) -> tuple[AWSResponse, dict[str, Any]]:
    conflict = {"Code": "TransactionConflict", "Message": ONGOING}
    reasons = [conflict if action else {"Code": "None"} for action in conflicting]
    codes = ", ".join(reason["Code"] for reason in reasons)
    return _reply("TransactionCanceledException", f"{MESSAGE} [{codes}]", CancellationReasons=reasons)


def _refused() -> tuple[AWSResponse, dict[str, Any]]:
    return _reply("TransactionConflictException", ONGOING)


def _reply(code: str, message: str, **fields: Any) -> tuple[AWSResponse, dict[str, Any]]:
    parsed = {
        "Error": {"Code": code, "Message": message},
        "message": message,
        "ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": {}, "RetryAttempts": 0},
        **fields,
    }
    return AWSResponse("http://127.0.0.1", 400, HTTPHeaders(), None), parsed
