"""The middleware that publishes the metrics of each invocation.

| metrics | of |
|---|---|
| `ViewsAccepted`, `ViewsRejected` | views |
| `Applied`, `Duplicates`, `Quarantined` | records of the stream |
| `QueueFailures` | messages of the queue |
| `Pairs`, `DeadPeers`, `PostsFailed`, `PushesDeferred`, `PushesDropped` | chat and live topics |
| `Conflicts`, `Throttles`, `Unreachable` | failed attempts at DynamoDB calls |

Requests, their errors and durations are metrics of API Gateway, which are free. No metric contains a token, a
client's address or a person's text.
"""

from collections.abc import Callable
from typing import Any, Protocol

from chalicelib.telemetry import metrics
from chalicelib.telemetry.logs import logger


class BatchReport(Protocol):
    """The result of a batch of stream records, as the aggregates engine reports it."""

    @property
    def applied(self) -> int:
        """The number of records that were applied."""

    @property
    def duplicates(self) -> int:
        """The number of records that had been applied before."""

    @property
    def quarantined(self) -> int:
        """The number of records that went into quarantine."""


def measure(event: Any, handle: Callable[[Any], Any]) -> Any:
    """Handle an event and publish the metrics of the invocation, also when it fails."""
    try:
        return handle(event)
    finally:
        metrics.publish()


def count_batch(report: BatchReport) -> None:
    """Count the results of a batch of stream records."""
    metrics.count(Applied=report.applied, Duplicates=report.duplicates, Quarantined=report.quarantined)
    if report.quarantined:
        logger().warning("records are in quarantine", extra={"quarantined": report.quarantined})
