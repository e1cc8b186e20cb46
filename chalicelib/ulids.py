"""ULIDs: names that are unique, and in the order of the time at which they were made.

48 bits of milliseconds and 80 random ones, in Crockford's base 32. Source: github.com/ulid/spec.

>>> from datetime import UTC, datetime
>>> made(new(datetime(2026, 11, 21, 10, tzinfo=UTC)))
datetime.datetime(2026, 11, 21, 10, 0, tzinfo=datetime.timezone.utc)
"""

import re
import secrets
from datetime import UTC, datetime, timedelta

DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
PATTERN = "^[0-7][0-9A-HJKMNP-TV-Z]{25}$(?!\\n)"
ULID = re.compile(PATTERN)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def new(now: datetime) -> str:
    """Make a ULID of now; of two within a millisecond either may be the first."""
    number = ((now - EPOCH) // timedelta(milliseconds=1) << 80) | secrets.randbits(80)
    return "".join(DIGITS[number >> shift & 31] for shift in range(125, -1, -5))


def made(ulid: str) -> datetime:
    """Answer when a ULID was made, to the millisecond. Raises ValueError, OverflowError for what is none."""
    number = 0
    for digit in ulid[:10]:
        number = number << 5 | DIGITS.index(digit)
    return EPOCH + timedelta(milliseconds=number)
