"""Instants: read in any ISO 8601 notation, kept and answered in one.

>>> from datetime import UTC, datetime
>>> instant("2026-11-21T10:00:00+05:30") == instant("2026-11-21T04:30:00.000Z")
True
>>> key(instant("2026-11-21T10:00:00Z"))
'2026-11-21T10:00:00.000000Z'
"""

import re
from datetime import UTC, datetime, timedelta

KEPT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)  # as `key` writes it
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def instant(text: str) -> datetime:
    """Read an ISO 8601 instant as UTC, to the microsecond (further digits are cut off).

    Raises ValueError for anything else, an instant without an offset included: it could be any of 27 hours.
    """
    if not text.isprintable() or (text[10:11] not in ("T", "t", " ") and text[8:9] != "T"):
        raise ValueError(f"{text[:40]!r} is not an ISO 8601 instant such as 2026-11-21T10:00:00Z")
    try:
        moment = datetime.fromisoformat(text.upper())
        if moment.tzinfo is None:
            raise ValueError("no offset")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        example = "an ISO 8601 instant with an offset, such as 2026-11-21T10:00:00Z"
        raise ValueError(f"{text[:40]!r} is not {example}") from None


def bound(text: str, *, end: bool = False) -> datetime:
    """Read one bound of a time frame: an instant, or a date, which stands for the whole UTC day.

    So `to=2026-11-21` includes that day, and `to=2026-11-21T00:00:00Z` ends with the day before it.
    """
    if len(text) != 10:
        return instant(text)
    try:
        day = datetime.fromisoformat(text).replace(tzinfo=UTC)
        return day + DAY if end else day
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a date such as 2026-11-21") from None


def key(moment: datetime) -> str:
    """Write an instant so that text order is time order: UTC, always six decimals."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def kept(text: str) -> datetime:
    """Read an instant back as `key` wrote it, in a twentieth of strptime's time. Raises ValueError."""
    if not KEPT.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not an instant as it is kept")
    return datetime.fromisoformat(text)


def answer(moment: datetime) -> str:
    """Write an instant as answers carry it: UTC with `Z`, decimals only where there are some."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def floor(moment: datetime, interval: timedelta) -> datetime:
    """Cut an instant down to the hour or the day that it lies in."""
    whole = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return whole.replace(hour=0) if interval == DAY else whole


def epoch(moment: datetime) -> int:
    """Count the whole seconds since 1970, as a TTL attribute has them."""
    return int(moment.timestamp())


def milliseconds(moment: datetime) -> int:
    """Count the whole milliseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
