"""What an operator sees of each invocation: how long a request took, what became of a batch, who was matched.

| service | metrics |
|---|---|
| `api`, and by feature | `Latency`, `ServerErrors`; `ViewsAccepted`, `ViewsRejected` |
| `aggregates` | `Applied`, `Duplicates`, `Quarantined`, `Lag` |
| `queue` | `QueueFailures`, `ViewsRejected` |
| `chat` | `Pairs`, `DeadPeers`, `PostsFailed`, `PushesDeferred`, `PushesDropped` |
| any | `Conflicts`, `Throttles`, `Unreachable`: tries of DynamoDB that were made again |

logs.py has the log lines. Nothing here ever carries a token, a client's address or a text of a person.
"""

import time
from collections.abc import Callable
from typing import Any

from chalicelib.aggregates.engine import Report
from chalicelib.telemetry import metrics
from chalicelib.telemetry.logs import logger

FEATURES = {
    "views": "views",
    "leaderboards": "leaderboards",
    "challenges": "challenges",
    "products": "comments",
    "chat": "chat",
}
SERVICES = {"DynamoDBEvent": "aggregates", "SQSEvent": "queue"}


def around(event: Any, handle: Callable[[Any], Any]) -> Any:
    """Publish what an invocation has counted, also one that failed: a middleware of every handler."""
    kind = type(event).__name__
    if kind == "Request":
        return _request(event, handle)
    try:
        return handle(event)
    finally:
        metrics.publish(SERVICES.get(kind, "chat"), Lag="Seconds")


def _request(request: Any, handle: Callable[[Any], Any]) -> Any:
    """Publish a request's time and whether it was our fault, for all requests and for its feature's."""
    started = time.perf_counter()
    is_ours = True
    try:
        response = handle(request)
        is_ours = response.status_code >= 500
        return response
    finally:
        metrics.count(Latency=round((time.perf_counter() - started) * 1000, 1), ServerErrors=int(is_ours))
        first = str(request.context.get("resourcePath", "")).split("/")[1:2]
        metrics.publish("api", FEATURES.get("".join(first), "service"), Latency="Milliseconds")


def publish(report: Report) -> None:
    """Count what became of a batch of stream records."""
    metrics.count(
        Applied=report.applied,
        Duplicates=report.duplicates,
        Quarantined=report.quarantined,
        Lag=report.lag_seconds,
    )
    if report.quarantined:
        logger().warning("records are in quarantine", extra={"quarantined": report.quarantined})
