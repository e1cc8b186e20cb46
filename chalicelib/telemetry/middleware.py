"""The middleware that publishes the metrics of each invocation.

| service | metrics |
|---|---|
| `api` | `Latency`, `ServerErrors`; `ViewsAccepted`, `ViewsRejected` |
| `aggregates` | `Applied`, `Duplicates`, `Quarantined`, `Lag` |
| `queue` | `QueueFailures`, `ViewsRejected` |
| `chat` | `Pairs`, `DeadPeers`, `PostsFailed`, `PushesDeferred`, `PushesDropped` |
| any | `Conflicts`, `Throttles`, `Unreachable`: failed attempts at DynamoDB calls |

No metric contains a token, a client's address or a person's text.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

from chalicelib.telemetry import metrics
from chalicelib.telemetry.logs import logger

SERVICES = {"DynamoDBEvent": "aggregates", "SQSEvent": "queue"}


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

    @property
    def lag_seconds(self) -> float:
        """The age of the oldest record of the batch."""


def measure(event: Any, handle: Callable[[Any], Any]) -> Any:
    """Handle an event and publish the metrics of the invocation, also when it fails."""
    kind = type(event).__name__
    if kind == "Request":
        return _measure_request(event, handle)
    try:
        return handle(event)
    finally:
        metrics.publish(SERVICES.get(kind, "chat"), Lag="Seconds")


def count_batch(report: BatchReport) -> None:
    """Count the results of a batch of stream records."""
    metrics.count(
        Applied=report.applied,
        Duplicates=report.duplicates,
        Quarantined=report.quarantined,
        Lag=report.lag_seconds,
    )
    if report.quarantined:
        logger().warning("records are in quarantine", extra={"quarantined": report.quarantined})


def _measure_request(request: Any, handle: Callable[[Any], Any]) -> Any:
    """Publish the latency of a request and whether it was a server error."""
    started = time.perf_counter()
    is_server_error = True
    try:
        response = handle(request)
        is_server_error = response.status_code >= 500
        return response
    finally:
        latency = round((time.perf_counter() - started) * 1000, 1)
        metrics.count(Latency=latency, ServerErrors=int(is_server_error))
        metrics.publish("api", Latency="Milliseconds")
