"""Evaluate the alarm stream-lag as CloudWatch does, from its definition and the values of its metric.

Source: Amazon CloudWatch User Guide, "Evaluating an alarm" and "Configuring how CloudWatch alarms treat
missing data". The engine evaluates neither missing data nor several periods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any


def evaluate(alarm: Mapping[str, Any], values: Sequence[float | None]) -> str:
    """Return the state of an alarm that fires above its threshold, after periods with these values.

    None is a period without data, which breaches.

    >>> alarm = {"Threshold": 0, "EvaluationPeriods": 3, "DatapointsToAlarm": 2}
    >>> [evaluate(alarm, values) for values in ([0, 0, 1], [0, 1, 1], [0, None, None])]
    ['OK', 'ALARM', 'ALARM']
    """
    recent = values[-alarm["EvaluationPeriods"] :]
    bad = sum(value is None or value > alarm["Threshold"] for value in recent)
    return "ALARM" if bad >= alarm["DatapointsToAlarm"] else "OK"


def read_sum(cloudwatch: Any, alarm: Mapping[str, Any], since: datetime) -> float:
    """Return the sum of an alarm's metric since a time."""
    points = cloudwatch.get_metric_statistics(
        Namespace=alarm["Namespace"],
        MetricName=alarm["MetricName"],
        Dimensions=alarm["Dimensions"],
        StartTime=since,
        EndTime=datetime.now(UTC) + timedelta(seconds=1),
        Period=alarm["Period"],
        Statistics=["Sum"],
    )["Datapoints"]
    return float(sum(point["Sum"] for point in points))
