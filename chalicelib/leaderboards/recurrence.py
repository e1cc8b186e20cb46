"""Divide time into days, weeks or months of a zone, each of which is a season of a leaderboard.

Periods are numbered, so the season at an instant follows from an earlier season and the two periods. Nothing
is written when a season ends, and a board that nobody has called for years costs no more than another.

>>> monthly = Recurrence("month", "Europe/Berlin")
>>> [monthly.period(times.parse(f"2026-10-31T{time}Z")) for time in ("22:59:59.999", "23:00:00")]
[24321, 24322]
>>> times.to_iso(monthly.begin(24322))
'2026-10-31T23:00:00Z'
"""

from datetime import date, datetime
from typing import NamedTuple

from chalicelib import times


class Recurrence(NamedTuple):
    """The length of the seasons, and the zone at whose midnight they end. Weeks begin on Monday."""

    every: str
    timezone: str

    def period(self, moment: datetime) -> int:
        """Return the number of the period in which an instant lies."""
        day = times.find_local_day(moment, self.timezone)
        match self.every:
            case "day":
                return day.toordinal()
            case "week":
                return (day.toordinal() - 1) // 7
        return day.year * 12 + day.month - 1

    def begin(self, period: int) -> datetime:
        """Return the first instant of a period."""
        match self.every:
            case "day":
                day = date.fromordinal(period)
            case "week":
                day = date.fromordinal(period * 7 + 1)
            case _:
                day = date(period // 12, period % 12 + 1, 1)
        return times.midnight(day, self.timezone)
