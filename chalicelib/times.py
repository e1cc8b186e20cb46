"""Instants: parsed from any ISO 8601 form, and written in one form for keys and one for responses.

>>> parse("2026-11-21T10:00:00+05:30") == parse("2026-11-21T04:30:00.000Z")
True
>>> to_sort_key(parse("2026-11-21T10:00:00Z"))
'2026-11-21T10:00:00.000000Z'
"""

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

DATE = r"\d{4}-\d\d-\d\d|\d{8}|\d{4}-\d{3}|\d{7}|\d{4}-W\d\d-\d|\d{4}W\d{3}"  # calendar, ordinal, week
INSTANT = re.compile(
    rf"(?P<date>{DATE})[T ](?P<hour>\d\d)((?P<colon>:?)(?P<minute>[0-5]\d)"
    r"((?P=colon)(?P<second>[0-5]\d|60)([.,](?P<fraction>\d+))?)?)?"
    r"(Z|(?P<east>(?P<sign>[+-])\d\d)(:?(?P<eastMinute>[0-5]\d))?)",
    re.ASCII,
)
SORT_KEY = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def parse(text: str) -> datetime:
    """Parse an ISO 8601 instant as UTC, truncated to microseconds.

    The date is a calendar, week or ordinal date, and the time has hours, minutes or seconds, both in the
    basic or the extended format. As in RFC 3339, the `T` may be a space or in lower case. `24:00` is the end
    of the day, and a leap second at the end of a UTC day is the second after it.

    Raises: ValueError for any other text, also for an instant without an offset, which is ambiguous.
    """
    found = INSTANT.fullmatch(text.upper())
    try:
        if found is None:
            raise ValueError("no instant")
        hours, minutes, seconds, east = (
            int(found[name] or 0) for name in ("hour", "minute", "second", "east")
        )
        fraction = timedelta(microseconds=int((found["fraction"] or "")[:6].ljust(6, "0")))
        since = timedelta(hours=hours, minutes=minutes, seconds=seconds) + fraction
        offset = timedelta(hours=east, minutes=int(f"{found['sign'] or ''}{found['eastMinute'] or 0}"))
        if since > DAY or abs(offset) >= DAY:
            raise ValueError("no time of a day")
        moment = _parse_date(found["date"]) + since - offset
        if seconds == 60 and floor(moment, DAY) != moment - fraction:
            raise ValueError("no leap second")
        return moment
    except (ValueError, OverflowError):
        example = "2026-11-21T10:00:00Z"
        raise ValueError(f"must be an ISO 8601 time with an offset, such as {example}") from None


def parse_bound(text: str, *, end: bool = False) -> datetime:
    """Parse one bound of a time frame: an instant, or a date, which stands for the whole UTC day.

    So `to=2026-11-21` includes that day, and `to=2026-11-21T00:00:00Z` does not. Raises ValueError.
    """
    if not is_date(text):
        return parse(text)
    try:
        day = _parse_date(text)
        return day + DAY if end else day
    except (ValueError, OverflowError):
        raise ValueError("must be an ISO 8601 date, such as 2026-11-21") from None


def is_date(text: str) -> bool:
    """Return whether a text has the form of a date."""
    return bool(re.fullmatch(DATE, text, re.ASCII))


def _parse_date(text: str) -> datetime:
    """Return the beginning of a UTC day. Raises ValueError, OverflowError."""
    if not re.fullmatch(r"\d{4}-?\d{3}", text):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    year, number = int(text[:4]), int(text[-3:])
    day = datetime(year, 1, 1, tzinfo=UTC) + (number - 1) * DAY
    if day.year != year:
        raise ValueError("no day of the year")
    return day


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


@lru_cache(10_000)
def midnight(day: date, zone: str) -> datetime:
    """Return the first instant of a day in a zone. If the clock skips midnight, it is that of the change."""
    found = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    if found.astimezone(ZoneInfo(zone)).date() < day:
        found += HOUR
    return found


def find_local_day(moment: datetime, zone: str) -> date:
    """Return the day of a zone in which an instant lies: the last one that has begun."""
    day = moment.astimezone(ZoneInfo(zone)).date()
    return day + DAY if midnight(day + DAY, zone) <= moment else day


def is_zone(name: str) -> bool:
    """Return whether a text is the name of a zone in the IANA time zone database."""
    return name in available_timezones()


def epoch(moment: datetime) -> int:
    """Return the whole seconds since 1970, the unit of a TTL attribute."""
    return int(moment.timestamp())


def from_epoch(seconds: int) -> datetime:
    """Return the instant of a number of seconds since 1970."""
    return datetime.fromtimestamp(int(seconds), UTC)


def milliseconds(moment: datetime) -> int:
    """Return the whole milliseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
