"""What an operator counts: numbers for CloudWatch, printed as one line of its own format for an invocation.

A line costs no call and no time (CloudWatch reads it out of the log). Metrics are in the namespace
`Hubbub/<stage>`, by `service` and sometimes by `feature`: never by anything that a client can choose, for
each value of a dimension is billed by the month. POWERTOOLS_METRICS_DISABLED=true prints none.
"""

from collections import Counter
from threading import Lock

from chalicelib.settings import current
from chalicelib.telemetry.logs import logger

_counts: Counter[str] = Counter()  # of this invocation: Lambda runs one at a time in a process
_counting = Lock()


def count(**amounts: float) -> None:
    """Add to what the invocation will print; costs nothing."""
    with _counting:
        _counts.update(amounts)


def publish(service: str, feature: str = "", **units: str) -> None:
    """Print what was counted since the last time, if anything was; by `service`, and by `feature` too.

    A metric is a count unless `units` says another unit for it.
    """
    with _counting:
        amounts = dict(_counts)
        _counts.clear()
    if not amounts:
        return
    logger()  # first: it imports powertools one thread at a time
    from aws_lambda_powertools.metrics import EphemeralMetrics

    metrics = EphemeralMetrics(namespace=f"Hubbub/{current().stage}", service=service)
    if feature:
        metrics.add_dimensions(service=service, feature=feature)
    for name, amount in amounts.items():
        metrics.add_metric(name, units.get(name, "Count"), amount)
    metrics.flush_metrics()
