"""The local schedule calls a handler at its rate with EventBridge's event, and continues after errors."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import app
from local.schedule import Schedule, interval, schedules
from tests.support.running import until


def test_a_cron_expression_is_refused() -> None:
    with pytest.raises(ValueError, match="only a rate"):
        interval("cron(0 12 * * ? *)")


def test_the_apps_handlers_are_scheduled_at_their_rates() -> None:
    assert {schedule.name: schedule._seconds for schedule in schedules(app.app)} == {
        "sweep": 60,
        "probe": 300,
    }


def test_calls_continue_after_a_failure_and_end_with_stop() -> None:
    events: list[dict[str, Any]] = []
    second = threading.Event()

    def handler(event: dict[str, Any], context: Any) -> None:
        events.append(event)
        if len(events) == 1:
            raise LookupError("as told")
        second.set()

    schedule = Schedule("test", "rate(0 minutes)", handler)
    schedule.start()
    assert second.wait(30)
    schedule.stop()
    until(lambda: not schedule._thread.is_alive(), "the end of the schedule")
    assert events[0]["detail-type"] == "Scheduled Event"
