"""CloudWatch metrics, printed once per invocation as one line of the embedded metric format.

A line needs no call to AWS, because CloudWatch extracts metrics from the log. Metrics are in the namespace
`Hubbub/<stage>` with one value of one dimension, because CloudWatch bills each value by the hour in which it
is published. A full stage publishes every counted metric. A small stage publishes those of `SMALL` that are
not zero. The log line of a request has its feature and its duration. POWERTOOLS_METRICS_DISABLED=true turns
the metrics off.
"""

from collections import Counter
from threading import Lock

from chalicelib.settings import current
from chalicelib.telemetry.logs import logger

SMALL = frozenset({"Quarantined", "Conflicts", "Throttles", "Unreachable"})

_counts: Counter[str] = Counter()  # of this invocation: a Lambda process handles one at a time
_lock = Lock()


def count(**amounts: float) -> None:
    """Add to the metrics of the invocation."""
    with _lock:
        _counts.update(amounts)


def publish() -> None:
    """Print the metrics counted since the last call, if there are any."""
    stage = current()
    with _lock:
        amounts = {
            name: amount for name, amount in _counts.items() if stage.is_full or (amount and name in SMALL)
        }
        _counts.clear()
    if not amounts:
        return
    logger()  # first, because it imports powertools in one thread at a time
    from aws_lambda_powertools.metrics import EphemeralMetrics

    metrics = EphemeralMetrics(namespace=f"Hubbub/{stage.stage}", service="hubbub")
    for name, amount in amounts.items():
        metrics.add_metric(name, "Count", amount)
    metrics.flush_metrics()
