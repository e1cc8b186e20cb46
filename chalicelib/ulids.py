"""ULIDs: unique ids that sort by the time of their creation.

A ULID has 48 bits of milliseconds and 80 random bits in Crockford's base 32. Source: github.com/ulid/spec.

>>> from datetime import UTC, datetime
>>> created_at(new(datetime(2026, 11, 21, 10, tzinfo=UTC)))
datetime.datetime(2026, 11, 21, 10, 0, tzinfo=datetime.timezone.utc)
"""

import hashlib
import re
import secrets
from datetime import UTC, datetime, timedelta

DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
PATTERN = "^[0-7][0-9A-HJKMNP-TV-Z]{25}$(?!\\n)"
ULID = re.compile(PATTERN)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def new(now: datetime) -> str:
    """Return a new ULID. The order of two ULIDs of the same millisecond is random."""
    return _encode(now, secrets.randbits(80))


def derive(created: datetime, source: str) -> str:
    """Return the ULID of a record of another system, which is the same each time.

    >>> from datetime import UTC, datetime
    >>> derive(datetime(2014, 3, 1, tzinfo=UTC), "disqus 1")
    '018HXF1E00HTZYNMQ3H4C98251'
    """
    return _encode(created, int.from_bytes(hashlib.blake2b(source.encode(), digest_size=10).digest()))


def _encode(created: datetime, bits: int) -> str:
    number = ((created - EPOCH) // timedelta(milliseconds=1) << 80) | bits
    return "".join(DIGITS[number >> shift & 31] for shift in range(125, -1, -5))


def created_at(ulid: str) -> datetime:
    """Return the time at which a ULID was created, in milliseconds.

    Raises: ValueError or OverflowError for a text that is not a ULID.
    """
    return EPOCH + timedelta(milliseconds=to_number(ulid[:10]))


def to_number(ulid: str) -> int:
    """Return the number of a ULID, or of its beginning. Raises ValueError."""
    number = 0
    for digit in ulid:
        number = number << 5 | DIGITS.index(digit)
    return number
