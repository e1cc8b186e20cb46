"""Visitors without an id: a digest of the site, the address and the browser, with a salt of the day.

| item | pk | sk | holds |
|---|---|---|---|
| salt | `SALT#<date>` | `SALT` | `salt`: 16 random bytes, made once; `ttl`, two days after the day |

The salt of a day is random and removed two days after the day, so nobody can go back from a digest to an
address, the operator included. Two days of a visitor cannot be linked, and neither can two sites.

Invariant: one address (of IPv6 its /64) with one User-Agent is one visitor of a site on one day, in each
process and for all pages.
"""

import hashlib
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

from chalicelib import times
from chalicelib.api.rates import network
from chalicelib.dynamo.items import Key
from chalicelib.dynamo.table import Table
from chalicelib.views import traits
from chalicelib.views.traits import Traits

SALT = 16  # bytes
LIFE = 2 * times.DAY  # of a salt after its day
REMEMBERED = 100  # salts in a process


class Sender(NamedTuple):
    """The browser or program that sent a request: its address, its User-Agent and its traits."""

    address: str = ""
    user_agent: str = ""
    traits: Traits = traits.NONE


UNKNOWN = Sender()


def read_sender(headers: Mapping[str, str], address: str) -> Sender:
    """Return the sender of a request."""
    return Sender(address, headers.get("user-agent", ""), traits.read(headers))


def salt_key(day: str) -> Key:
    """Return the key of a day's salt. The day is written as 2026-11-21."""
    return Key(f"SALT#{day}", "SALT")


def identify(table: Table, sender: Sender, site: str, day: str, now: datetime) -> str:
    """Return the visitor of a site on a day, for an event without a client's id: 24 hexadecimal digits.

    Cost: that of `read_salt`.
    """
    try:
        address = network(sender.address)
    except ValueError:
        address = ""
    text = f"{site}\n{address}\n{sender.user_agent}".encode(errors="surrogatepass")
    return hashlib.blake2b(text, digest_size=12, key=read_salt(table, day, now)).hexdigest()


def read_salt(table: Table, day: str, now: datetime) -> bytes:
    """Return the salt of a day, which is made when it is first needed.

    Cost: 1 RCU in each process and day, and once a day 1 WCU. Nothing from then on.
    """
    known = _salts().setdefault(table, {})
    for old in [other for other, (_, expiry) in list(known.items()) if expiry <= times.epoch(now)]:
        known.pop(old, None)
    found = known.get(day) or _find_or_make(table, day, now)
    if day not in known:
        if len(known) >= REMEMBERED:
            known.clear()
        known[day] = found
    return found[0]


def has_salt(table: Table, day: str) -> bool:
    """Return whether a day has a salt, without making it. Cost: 1 RCU, or nothing if this process has it."""
    return day in _salts().get(table, {}) or table.get(salt_key(day), consistent=True) is not None


def _find_or_make(table: Table, day: str, now: datetime) -> tuple[bytes, int]:
    """Return the salt of a day and when it expires. The first of concurrent writers makes it."""
    key = salt_key(day)
    end = max(datetime.fromisoformat(day).replace(tzinfo=UTC) + times.DAY, now)
    made = {**key._asdict(), "salt": os.urandom(SALT), "ttl": times.epoch(end + LIFE)}
    item = table.get(key, consistent=True)
    if item is None and not table.put(made, condition="attribute_not_exists(pk)"):
        item = table.get(key, consistent=True)
    item = item or made
    return bytes(item["salt"]), int(item["ttl"])


@cache
def _salts() -> WeakKeyDictionary[Table, dict[str, tuple[bytes, int]]]:
    """Return the salts that this process has read of each table, with the second of their expiry."""
    return WeakKeyDictionary()
