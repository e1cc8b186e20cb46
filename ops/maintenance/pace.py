"""How fast a command reads a table or deletes from it."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple


class Pace(NamedTuple):
    """The segments of a table that are read in parallel, and the most items that are read per second."""

    segments: int = 4
    rate: float | None = None


class RateLimiter:
    """Limits the rate of all threads together; None means no limit."""

    def __init__(self, rate: float | None) -> None:
        self.is_slow = rate is not None
        self._gap = 1 / rate if rate else 0.0
        self._next = time.monotonic()
        self._lock = threading.Lock()

    def wait(self, count: int = 1) -> None:
        """Wait until `count` more operations are allowed."""
        if self._gap:
            with self._lock:
                self._next = max(self._next, time.monotonic()) + self._gap * count
                pause = self._next - time.monotonic()
            time.sleep(max(0.0, pause))
