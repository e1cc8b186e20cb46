"""Calls the app's scheduled handlers at their rates, as EventBridge does."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from chalice.app import Chalice, ScheduledEventConfig

LOGGER = logging.getLogger("hubbub.local")
SECONDS = {"minute": 60, "hour": 3600, "day": 86400}


def interval(expression: str) -> float:
    """Parse a rate into seconds. Raises ValueError for a cron expression.

    >>> interval("rate(1 minute)"), interval("rate(2 hours)")
    (60.0, 7200.0)
    """
    kind, _, rest = expression.partition("(")
    if kind != "rate":
        raise ValueError(f"{expression!r}: only a rate is supported")
    number, unit = rest.rstrip(")").split()
    return float(number) * SECONDS[unit.rstrip("s")]


def schedules(app: Chalice) -> list[Schedule]:
    """Return a schedule for each scheduled handler of an app."""
    return [
        Schedule(source.name, _expression(source.schedule_expression), app.handler_map[source.name])
        for source in app.event_sources
        if isinstance(source, ScheduledEventConfig)
    ]


class Schedule:
    """Calls a handler at its rate, first at the start. A failed call is logged and not retried.

    A call waits for the end of the previous one. EventBridge would run both.
    """

    def __init__(self, name: str, expression: str, handler: Callable[[dict[str, Any], Any], Any]) -> None:
        self.name = name
        self._seconds = interval(expression)
        self._handler = handler
        self._stopping = threading.Event()
        # A daemon thread, because a call may be sleeping when the process ends.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start calling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop calling, without waiting for a running call."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            due = time.monotonic() + self._seconds
            try:
                self._handler(_event(), None)
            except Exception:
                LOGGER.warning("%s failed; the next call is in %g s", self.name, self._seconds, exc_info=True)
            self._stopping.wait(max(0.0, due - time.monotonic()))


def _expression(expression: Any) -> str:
    return expression if isinstance(expression, str) else str(expression.to_string())


def _event() -> dict[str, Any]:
    """Build EventBridge's event of a schedule."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    names = {"id": "local", "account": "000000000000", "region": "local", "version": "0"}
    return names | {
        "source": "aws.events",
        "detail-type": "Scheduled Event",
        "time": now,
        "resources": [],
        "detail": {},
    }
