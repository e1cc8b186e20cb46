"""Instants: parsed from any ISO 8601 form, and written in one form for keys and one for responses.

>>> parse("2026-11-21T10:00:00+05:30") == parse("2026-11-21T04:30:00.000Z")
True
>>> to_sort_key(parse("2026-11-21T10:00:00Z"))
'2026-11-21T10:00:00.000000Z'
"""

import re
from datetime import UTC, datetime, timedelta

SORT_KEY = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def parse(text: str) -> datetime:
    """Parse an ISO 8601 instant as UTC, truncated to microseconds.

    Raises: ValueError for any other text, also for an instant without an offset, which is ambiguous.
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


def parse_bound(text: str, *, end: bool = False) -> datetime:
    """Parse one bound of a time frame: an instant, or a date, which stands for the whole UTC day.

    So `to=2026-11-21` includes that day, and `to=2026-11-21T00:00:00Z` does not. Raises ValueError.
    """
    if len(text) != 10:
        return parse(text)
    try:
        day = datetime.fromisoformat(text).replace(tzinfo=UTC)
        return day + DAY if end else day
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a date such as 2026-11-21") from None


def to_sort_key(moment: datetime) -> str:
    """Format an instant so that the order of texts is the order of time: UTC, always six decimals."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def from_sort_key(text: str) -> datetime:
    """Parse an instant in the form of `to_sort_key`, 20 times faster than strptime. Raises ValueError."""
    if not SORT_KEY.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not an instant in the form of a sort key")
    return datetime.fromisoformat(text)


def to_iso(moment: datetime) -> str:
    """Format an instant for a response: UTC with `Z`, and decimals only if they are not zero."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def floor(moment: datetime, interval: timedelta) -> datetime:
    """Round an instant down to the hour or the day."""
    whole = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return whole.replace(hour=0) if interval == DAY else whole


def epoch(moment: datetime) -> int:
    """Return the whole seconds since 1970, the unit of a TTL attribute."""
    return int(moment.timestamp())


def from_epoch(seconds: int) -> datetime:
    """Return the instant of a number of seconds since 1970."""
    return datetime.fromtimestamp(int(seconds), UTC)


def milliseconds(moment: datetime) -> int:
    """Return the whole milliseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
