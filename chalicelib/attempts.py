"""Tries a call of DynamoDB again while its trouble is passing: the one place that reads its error codes.

A false condition is left to the caller, a conflict or a throttle is waited out a bounded number of times and
is `Busy` after that, a write that DynamoDB calls invalid is `Rejected`. Nothing else is caught.
"""

import random
from collections.abc import Callable
from typing import Any, TypeVar

from botocore.exceptions import ClientError, ConnectionError, HTTPClientError

from chalicelib import metrics
from chalicelib.errors import Busy, Rejected

T = TypeVar("T")

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

# What a query hears on a table of before its index, and until the index has every item.
NO_INDEX = ("does not have the specified index", "backfilling global secondary index")


def attempt(call: Callable[[], T], pause: Callable[[float], None]) -> T:
    """Call until it is done or said no; passing trouble is waited out with full jitter.

    Raises Busy, Rejected, and ClientError for a false condition. Source: "Exponential Backoff And Jitter",
    AWS Architecture Blog, 2015.
    """
    for number in range(ATTEMPTS):
        try:
            return call()
        except (HTTPClientError, ConnectionError) as error:  # the SDK has tried three times
            metrics.count(Unreachable=1)
            raise Busy("The table cannot be reached: try again in a moment.") from error
        except ClientError as error:
            codes = {code(error), *reasons(error)} - {"None", "TransactionCanceledException"}
            if any(one.startswith("ConditionalCheckFailed") for one in codes):
                raise
            if codes & {"ValidationError", "ValidationException"}:
                if any(words in _message(error) for words in NO_INDEX):
                    raise Busy("The table's index is being made: try again later.") from error
                raise Rejected(_message(error)) from error
            if not codes or codes - PASSING:
                raise
            is_conflict = any(one.startswith("Transaction") for one in codes)
            metrics.count(**{"Conflicts" if is_conflict else "Throttles": 1})
        if number < ATTEMPTS - 1:
            back_off(number, pause)
    raise Busy("The table is busy: try again in a moment.")


def back_off(number: int, pause: Callable[[float], None]) -> None:
    """Pause after the attempt of this number, from 0."""
    pause(random.uniform(0, min(1.0, 0.025 * 2**number)))  # noqa: S311 (jitter is no secret)


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
