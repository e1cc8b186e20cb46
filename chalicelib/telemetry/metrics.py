"""CloudWatch metrics, printed once per invocation as one line of the embedded metric format.

A line needs no call to AWS, because CloudWatch extracts metrics from the log. Metrics are in the namespace
`Hubbub/<stage>` with the dimension `service`. The log line of a request has its feature. A client's input is
never a dimension, because each value of a dimension is billed monthly. POWERTOOLS_METRICS_DISABLED=true
prints none.
"""

from collections import Counter
from threading import Lock

from chalicelib.settings import current
from chalicelib.telemetry.logs import logger

_counts: Counter[str] = Counter()  # of this invocation: a Lambda process handles one at a time
_lock = Lock()


def count(**amounts: float) -> None:
    """Add to the metrics of the invocation."""
    with _lock:
        _counts.update(amounts)


def publish(service: str, **units: str) -> None:
    """Print the metrics counted since the last call, if there are any, by `service`.

    The unit of a metric is Count unless `units` has another one.
    """
    with _lock:
        amounts = dict(_counts)
        _counts.clear()
    if not amounts:
        return
    logger()  # first, because it imports powertools in one thread at a time
    from aws_lambda_powertools.metrics import EphemeralMetrics

    metrics = EphemeralMetrics(namespace=f"Hubbub/{current().stage}", service=service)
    for name, amount in amounts.items():
        metrics.add_metric(name, units.get(name, "Count"), amount)
    metrics.flush_metrics()
