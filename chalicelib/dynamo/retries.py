"""Retries of calls to AWS: which errors are retried, how, and for how long in all.

This is the only retry policy. The SDK's own retries are switched off, for two layers multiply.

| error | it means | retried |
|---|---|---|
| ConditionalCheckFailed | a condition is false | no, the caller reads it |
| TransactionConflict, TransactionInProgress | another transaction holds an item | yes |
| a throttle | nothing was done | yes |
| no connection | nothing was sent | yes |
| a read time-out, a closed connection, HTTP 5xx | it may have been done, or not | if a repeat does no harm |
| ValidationException | the request is invalid | no: `Rejected` |

Between two attempts lies a pause with full jitter (Marc Brooker, "Exponential Backoff And Jitter", AWS
Architecture Blog, 2015). A `Budget` bounds what failed attempts and pauses take together: 3 seconds for a
request, with all its calls. An attempt begins only if it fits into the budget even when it is a slow one, so
the bound holds when the table stops answering. When the budget is used up the call raises `Busy` (503).

The budget counts failures, not time: a request that is slow because it has much to do loses nothing.
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

CONNECT_TIMEOUT, READ_TIMEOUT = 0.4, 1.0  # seconds, of an SDK client on AWS; DynamoDB answers in 10 ms
SLOWEST = CONNECT_TIMEOUT + READ_TIMEOUT  # seconds that one attempt takes at most
REQUEST = 3.0  # seconds that an HTTP request or a frame may lose
EVENT = 20.0  # seconds that a batch of the stream or the queue, or a sweep, may lose
EACH = 10.0  # seconds that one call may lose outside of these: of a command
LONGEST_PAUSE = 1.0

# By the class of Chalice's event.
BUDGETS = {
    "Request": REQUEST,
    "WebsocketEvent": REQUEST,
    "DynamoDBEvent": EVENT,
    "SQSEvent": EVENT,
    "CloudWatchEvent": EVENT,
}

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
        "RequestThrottled",
        "LimitExceededException",
    }
)
NOT_SENT = (ConnectTimeoutError, EndpointConnectionError)

# What a query hears on a table of before its index, and until the index has every item.
NO_INDEX = ("does not have the specified index", "backfilling global secondary index")


class Budget:
    """Seconds that failed attempts and pauses may take; threads of one request share it."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._lock = Lock()

    def spend(self, seconds: float) -> None:
        """Take what an attempt or a pause took."""
        with self._lock:
            self._left -= seconds

    def allows(self, pause: float = 0.0) -> bool:
        """Return whether an attempt after this pause fits, however slow it is."""
        return pause + SLOWEST <= self._left


_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budget(seconds: float) -> Iterator[None]:
    """Bound what all calls in this block lose together, in this thread and those of `threads`."""
    token = _budget.set(Budget(seconds))
    try:
        yield
    finally:
        _budget.reset(token)


def around(event: Any, handle: Callable[[Any], Any]) -> Any:
    """Handle an event within the budget of its kind: a middleware of every handler."""
    with budget(BUDGETS.get(type(event).__name__, EVENT)):
        return handle(event)


class Retries:
    """The attempts of one call, or of a batch that is sent again for what DynamoDB left undone."""

    def __init__(self, pause: Callable[[float], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._pause = pause
        self._clock = clock
        self._budget = _budget.get() or Budget(EACH)
        self._pauses = 0
        self._took = 0.0  # by the attempt that succeeded last

    def run(self, call: Callable[[], T], *, repeatable: bool = True) -> T:
        """Call until it succeeds, or fails for good.

        `repeatable`: doing it twice does no harm. Otherwise it is not repeated once it may have been done.

        Raises: Busy, Rejected; ClientError for a false condition and for anything else.
        """
        if not self._budget.allows():
            raise Busy("The table is busy: try again in a moment.")
        while True:
            began = self._clock()
            try:
                answer = call()
                self._took = self._clock() - began
                return answer
            except (HTTPClientError, ConnectionError) as error:
                self._budget.spend(self._clock() - began)
                metrics.count(Unreachable=1)
                if not (repeatable or isinstance(error, NOT_SENT)) or not self.wait():
                    raise Busy("The table cannot be reached: try again in a moment.") from error
            except ClientError as error:
                self._budget.spend(self._clock() - began)
                codes = {code(error), *reasons(error)} - {"None", "TransactionCanceledException"}
                if any(one.startswith("ConditionalCheckFailed") for one in codes):
                    raise
                if codes & {"ValidationError", "ValidationException"}:
                    if any(words in _message(error) for words in NO_INDEX):
                        raise Busy("The table's index is being made: try again later.") from error
                    raise Rejected(_message(error)) from error
                is_unsure = _status(error) >= 500 or "InternalServerError" in codes
                if not is_unsure and (not codes or codes - PASSING):
                    raise
                is_conflict = any(one.startswith("Transaction") for one in codes)
                kind = "Unreachable" if is_unsure else "Conflicts" if is_conflict else "Throttles"
                metrics.count(**{kind: 1})
                if (is_unsure and not repeatable) or not self.wait():
                    raise Busy("The table is busy: try again in a moment.") from error

    def undone(self) -> bool:
        """Wait, like `wait`, after an answer that has left a part of a batch undone."""
        self._budget.spend(self._took)
        return self.wait()

    def wait(self) -> bool:
        """Pause before the next attempt; return False, without a pause, if none fits into the budget."""
        pause = jitter(self._pauses)
        if not self._budget.allows(pause):
            return False
        self._pauses += 1
        self._budget.spend(pause)
        self._pause(pause)
        return True


def attempt(call: Callable[[], T], pause: Callable[[float], None]) -> T:
    """Call with retries; the call does no harm when it is repeated. Raises as `Retries.run` does."""
    return Retries(pause).run(call)


def back_off(number: int, pause: Callable[[float], None]) -> None:
    """Pause after the attempt of this number, from 0."""
    pause(jitter(number))


def jitter(number: int) -> float:
    """Return the seconds to pause after the attempt of this number, from 0."""
    return random.uniform(0, min(LONGEST_PAUSE, 0.025 * 2 ** min(number, 16)))  # noqa: S311 (no secret)


def is_refused(error: ClientError) -> bool:
    """Tell whether a write was refused for its condition alone."""
    return code(error) == "ConditionalCheckFailedException"


def code(error: ClientError) -> str:
    """Read an error's code."""
    return str(error.response.get("Error", {}).get("Code", ""))


def reasons(error: ClientError) -> list[str]:
    """Read why a transaction was cancelled, action by action."""
    found: Any = error.response.get("CancellationReasons", [])
    return [str(reason.get("Code", "None")) for reason in found]


def _message(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message", ""))


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
