"""Shifts the clock of a Python process by CLOCK_OFFSET seconds, if this folder is on PYTHONPATH."""

import datetime
import os
import time

OFFSET = float(os.environ["CLOCK_OFFSET"])
_time, _time_ns = time.time, time.time_ns


class Shifted(datetime.datetime):
    """A datetime whose `now` is shifted."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
        """Return the shifted time."""
        return cls.fromtimestamp(time.time(), tz)


time.time = lambda: _time() + OFFSET
time.time_ns = lambda: _time_ns() + int(OFFSET * 1e9)
datetime.datetime = Shifted  # type: ignore[misc]
