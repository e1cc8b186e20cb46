"""Retries of calls to AWS: the errors that are retried, the pauses, and the limit of the time that is lost.

This is the only retry policy. The SDK's own retries are off, because two layers of retries multiply.

| error | meaning | retried |
|---|---|---|
| ConditionalCheckFailed | a condition is false | no, the caller handles it |
| TransactionConflict, TransactionInProgress | another transaction uses an item | yes |
| a throttle, also by the table's ceiling (`MaxOnDemandThroughputExceeded`) | nothing was done | yes |
| no connection | nothing was sent | yes |
| a read time-out, a closed connection, HTTP 5xx | the call may have been applied | if it is idempotent |
| ValidationException | the request is invalid | no: `Rejected` |

Between two attempts is a pause with full jitter (Marc Brooker, "Exponential Backoff And Jitter", AWS
Architecture Blog, 2015). A `Budget` bounds the sum of failed attempts and pauses: 3 seconds for a request,
with all its calls. An attempt begins only if the budget covers the slowest possible attempt, so the bound
holds when the table stops responding. When the budget is used up, the call raises `Busy` (503).

The budget counts the time of failures. A slow request without failures spends nothing.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any, TypeVar

from botocore.exceptions import (
    ClientError,
    ConnectionError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
)

from chalicelib.errors import Busy, Rejected
from chalicelib.telemetry import metrics

T = TypeVar("T")

CONNECT_TIMEOUT, READ_TIMEOUT = 0.4, 1.0  # seconds, of an SDK client on AWS; DynamoDB responds in 10 ms
SLOWEST = CONNECT_TIMEOUT + READ_TIMEOUT  # seconds: the longest attempt
REQUEST = 3.0  # seconds that an HTTP request or a WebSocket frame may lose
EVENT = 20.0  # seconds that a batch of the stream or the queue, or a sweep, may lose
EACH = 10.0  # seconds that one call outside of an event may lose, such as a call of a command
LONGEST_PAUSE = 1.0

# By the class name of Chalice's event.
BUDGETS = {
    "Request": REQUEST,
    "WebsocketEvent": REQUEST,
    "DynamoDBEvent": EVENT,
    "SQSEvent": EVENT,
    "CloudWatchEvent": EVENT,
}

TRANSIENT = frozenset(
    {
        "TransactionConflict",
        "TransactionConflictException",
        "TransactionInProgressException",
        "ThrottlingError",
        "ThrottlingException",
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "LimitExceededException",
        "Throttled",  # the codes of SNS and of its key in KMS: Amazon SNS API Reference, PublishBatch
        "ThrottledException",
        "Throttling",
        "KMSThrottling",
        "KMSThrottlingException",
    }
)
NOT_SENT = (ConnectTimeoutError, EndpointConnectionError)

# By the metric that counts the failures.
MESSAGES = {
    "Throttles": "The table accepts no more requests at the moment. Please retry.",
    "Conflicts": "Other requests are changing the same items. Please retry.",
    "Unreachable": "The table cannot be reached. Please retry.",
}

# Messages of a query on an index that does not exist yet, or that is not complete yet.
NO_INDEX = ("does not have the specified index", "backfilling global secondary index")


class Budget:
    """The seconds that failed attempts and pauses may take. The threads of one request share it."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._lock = Lock()

    def spend(self, seconds: float) -> None:
        """Subtract the duration of an attempt or a pause."""
        with self._lock:
            self._left -= seconds

    def allows(self, pause: float = 0.0) -> bool:
        """Return whether the slowest attempt after this pause fits."""
        return pause + SLOWEST <= self._left


_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budget(seconds: float) -> Iterator[None]:
    """Share one retry budget among all calls in this block, threads of `concurrency` included."""
    token = _budget.set(Budget(seconds))
    try:
        yield
    finally:
        _budget.reset(token)


def apply_budget(event: Any, handle: Callable[[Any], Any]) -> Any:
    """Handle an event within the budget of its kind. Chalice calls this middleware around every handler."""
    with budget(BUDGETS.get(type(event).__name__, EVENT)):
        return handle(event)


class Retries:
    """The attempts of one call, or of a batch whose unprocessed part is sent again."""

    def __init__(self, pause: Callable[[float], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._pause = pause
        self._clock = clock
        self._budget = _budget.get() or Budget(EACH)
        self._pauses = 0
        self._took = 0.0  # seconds of the last successful attempt

    def run(self, call: Callable[[], T], *, repeatable: bool = True) -> T:
        """Call until the call succeeds or fails permanently.

        `repeatable`: the call is idempotent. Any other call is not repeated once it may have been applied.

        Raises: Busy, Rejected; ClientError for a false condition and for every other error.
        """
        if not self._budget.allows():
            raise Busy(MESSAGES["Throttles"])
        while True:
            began = self._clock()
            try:
                result = call()
                self._took = self._clock() - began
                return result
            except (HTTPClientError, ConnectionError) as error:
                self._budget.spend(self._clock() - began)
                metrics.count(Unreachable=1)
                if not (repeatable or isinstance(error, NOT_SENT)) or not self._wait():
                    raise Busy(MESSAGES["Unreachable"]) from error
            except ClientError as error:
                codes = {error_code(error), *cancellation_reasons(error)} - {
                    "None",
                    "TransactionCanceledException",
                }
                if any(code.startswith("ConditionalCheckFailed") for code in codes):
                    raise  # a response, and no failure
                self._budget.spend(self._clock() - began)
                if codes & {"ValidationError", "ValidationException"}:
                    if any(words in _message(error) for words in NO_INDEX):
                        raise Busy("The table's index is being built. Please retry later.") from error
                    raise Rejected(_message(error)) from error
                may_be_applied = _status(error) >= 500 or "InternalServerError" in codes
                if not may_be_applied and (not codes or codes - TRANSIENT):
                    raise
                is_conflict = any(code.startswith("Transaction") for code in codes)
                kind = "Unreachable" if may_be_applied else "Conflicts" if is_conflict else "Throttles"
                metrics.count(**{kind: 1})
                if (may_be_applied and not repeatable) or not self._wait():
                    raise Busy(MESSAGES[kind]) from error

    def wait_for_unprocessed(self) -> bool:
        """Pause after a response that has left a part of a batch unprocessed; False if no attempt fits.

        DynamoDB leaves items because it throttles (Amazon DynamoDB API Reference, BatchWriteItem).
        """
        metrics.count(Throttles=1)
        self._budget.spend(self._took)
        return self._wait()

    def _wait(self) -> bool:
        """Pause before the next attempt; return False, without a pause, if none fits into the budget."""
        pause = jitter(self._pauses)
        if not self._budget.allows(pause):
            return False
        self._pauses += 1
        self._budget.spend(pause)
        self._pause(pause)
        return True


def retry(call: Callable[[], T], pause: Callable[[float], None]) -> T:
    """Make an idempotent call with retries. Raises as `Retries.run` does."""
    return Retries(pause).run(call)


def back_off(number: int, pause: Callable[[float], None]) -> None:
    """Pause after the attempt of this number, counted from 0."""
    pause(jitter(number))


def jitter(number: int) -> float:
    """Return the seconds to pause after the attempt of this number, counted from 0."""
    return random.uniform(0, min(LONGEST_PAUSE, 0.025 * 2 ** min(number, 16)))  # noqa: S311 (no secret)


def is_condition_failed(error: ClientError) -> bool:
    """Return whether a write failed only because its condition was false."""
    return error_code(error) == "ConditionalCheckFailedException"


def error_code(error: ClientError) -> str:
    """Return the code of an error, or an empty text."""
    return str(error.response.get("Error", {}).get("Code", ""))


def cancellation_reasons(error: ClientError) -> list[str]:
    """Return the code of each action of a cancelled transaction; "None" for an action without an error."""
    reasons: Any = error.response.get("CancellationReasons", [])
    return [str(reason.get("Code", "None")) for reason in reasons]


def _message(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message", ""))


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
