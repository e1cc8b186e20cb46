"""Faults for tests: replies and errors in place of those of the network, through botocore's event hooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ReadTimeoutError

from chalicelib.dynamo.table import Table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@contextmanager
def hooked(client: DynamoDBClient, hooks: Mapping[str, Any]) -> Iterator[None]:
    """Call hooks at the events of a client, before those that are there."""
    for event, hook in hooks.items():
        client.meta.events.register_first(event, hook)
    try:
        yield
    finally:
        for event, hook in hooks.items():
            client.meta.events.unregister(event, hook)


@contextmanager
def instead(table: Table, operation: str, *replies: Any) -> Iterator[list[int]]:
    """Replace the replies to the next calls of an operation, one each.

    None sends the call as usual. An exception is raised. Anything else is the parsed reply. Yields a list
    with one element per call.
    """
    left = list(replies)
    calls: list[int] = []

    def reply_to(**_: Any) -> Any:
        calls.append(1)
        reply = left.pop(0) if left else None
        if isinstance(reply, BaseException):
            raise reply
        return reply

    with hooked(table.client, {f"before-call.dynamodb.{operation}": reply_to}):
        yield calls


@contextmanager
def after(table: Table, operation: str, error: BaseException) -> Iterator[None]:
    """Raise after the next call of an operation: it takes effect, and its reply is lost."""
    left = [error]

    def fail(**_: Any) -> None:
        if left:
            raise left.pop()

    with hooked(table.client, {f"after-call.dynamodb.{operation}": fail}):
        yield


def cancelled(*reasons: str) -> Any:
    """Build the reply to a cancelled transaction, with a reason for each action."""
    parsed = {
        "Error": {"Code": "TransactionCanceledException", "Message": f"Transaction cancelled {reasons}"},
        "CancellationReasons": [{"Code": reason} for reason in reasons],
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }
    return AWSResponse("", 400, HTTPHeaders(), None), parsed


def refused(code: str, message: str = "", **more: Any) -> Any:
    """Build the reply to a call that DynamoDB refuses as a whole."""
    error = {"Error": {"Code": code, "Message": message}}
    parsed = error | more | {"ResponseMetadata": {"HTTPStatusCode": 400}}
    return AWSResponse("", 400, HTTPHeaders(), None), parsed


def over_ceiling(part: str = "TableWrite") -> Any:
    """Build the reply to a call above the table's ceiling, or an index's, of a second's units.

    Amazon DynamoDB Developer Guide, "Troubleshooting throttling", maximum throughput exceeded.
    """
    reason = {"reason": f"{part}MaxOnDemandThroughputExceeded", "resource": "arn:aws:dynamodb:::table/t"}
    message = "Throughput exceeds the maximum OnDemandThroughput configured on table or index"
    return refused("ThrottlingException", message, ThrottlingReasons=[reason])


def done(parsed: dict[str, Any]) -> Any:
    """Build the reply to a call that took effect, entirely or in part."""
    return AWSResponse("", 200, HTTPHeaders(), None), parsed


def timed_out() -> ReadTimeoutError:
    """Build the error of a reply that never arrived."""
    return ReadTimeoutError(endpoint_url="http://127.0.0.1")
