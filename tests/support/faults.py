"""Faults for tests: answers put in place of the network's, through botocore's event hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ReadTimeoutError

from chalicelib.dynamo.table import Table

Answer = Callable[[dict[str, Any]], Any]


@contextmanager
def instead(table: Table, operation: str, *answers: Any) -> Iterator[list[int]]:
    """Answer the next calls of an operation with `answers`, one each; None lets a call through.

    An exception is raised, anything else is the parsed answer. Yields a list that counts the calls.
    """
    left = list(answers)
    calls: list[int] = []
    event = f"before-call.dynamodb.{operation}"

    def answer(**_: Any) -> Any:
        calls.append(1)
        given = left.pop(0) if left else None
        if isinstance(given, BaseException):
            raise given
        return given

    table.client.meta.events.register(event, answer)
    try:
        yield calls
    finally:
        table.client.meta.events.unregister(event, answer)


@contextmanager
def after(table: Table, operation: str, error: BaseException) -> Iterator[None]:
    """Let the next call of an operation do its work, then raise: the caller never hears of it."""
    event = f"after-call.dynamodb.{operation}"
    left = [error]

    def fail(**_: Any) -> None:
        if left:
            raise left.pop()

    table.client.meta.events.register(event, fail)
    try:
        yield
    finally:
        table.client.meta.events.unregister(event, fail)


def cancelled(*reasons: str) -> Any:
    """Make the answer of a cancelled transaction, with a reason for each action."""
    parsed = {
        "Error": {"Code": "TransactionCanceledException", "Message": f"Transaction cancelled {reasons}"},
        "CancellationReasons": [{"Code": reason} for reason in reasons],
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }
    return AWSResponse("", 400, HTTPHeaders(), None), parsed


def refused(code: str, message: str = "") -> Any:
    """Make the answer of a call that DynamoDB refuses as a whole."""
    parsed = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    return AWSResponse("", 400, HTTPHeaders(), None), parsed


def done(parsed: dict[str, Any]) -> Any:
    """Make the answer of a call that DynamoDB has done, or done in part."""
    return AWSResponse("", 200, HTTPHeaders(), None), parsed


def timed_out() -> ReadTimeoutError:
    """Make the error of an answer that never came."""
    return ReadTimeoutError(endpoint_url="http://127.0.0.1")
