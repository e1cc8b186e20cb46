"""What an operator sees: metrics in CloudWatch's own format; logs.py has the log lines.

Nothing here ever carries a token, an address of a client or a text that a person wrote.
"""

from chalicelib.aggregates import Report
from chalicelib.logs import logger


def publish(report: Report) -> None:
    """Publish what became of a batch of stream records, as one EMF line (no API call, no cost per call)."""
    log = logger()  # first: it imports powertools one thread at a time
    from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

    metrics = EphemeralMetrics(namespace="Hubbub", service="aggregates")
    metrics.add_metric("Applied", MetricUnit.Count, report.applied)
    metrics.add_metric("Duplicates", MetricUnit.Count, report.duplicates)
    metrics.add_metric("Quarantined", MetricUnit.Count, report.quarantined)
    metrics.add_metric("Lag", MetricUnit.Seconds, report.lag_seconds)
    metrics.flush_metrics()
    if report.quarantined:
        log.warning("records are in quarantine", extra={"quarantined": report.quarantined})
