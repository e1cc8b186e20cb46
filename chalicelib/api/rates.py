"""Limits of callers: leaky buckets, each of which is one number.

| item | pk | sk | holds |
|---|---|---|---|
| bucket | `BUCKET#<purpose>#<digest>` | `BUCKET` | `drained`: when it is empty (ms); `ttl` |

`drained` is the millisecond since 1970 at which the bucket will be empty. This is the "virtual scheduling"
form of the Generic Cell Rate Algorithm (ITU-T I.371). Two buckets are attributes of another item, so that one
write counts and decides: that of wrong guesses is in the player's progress (challenges/submissions.py), and
that of frames in the connection (chat/connections.py).

A bucket belongs to an address (of IPv6 to its /64) or to a subject. Both are stored as digests with the
stage's key, and the item expires when the bucket is empty. A guest has a bucket of its subject and one of its
address, because anyone can be many guests. Admins and servers with the scope `scores` have no bucket.

Invariant: a bucket admits `at_once` calls at one time, and one more after each `interval`, in any number of
processes.
"""

import hashlib
import ipaddress
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from chalicelib import times
from chalicelib.api.auth import Caller, derive_key
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import SlowDown
from chalicelib.settings import Settings
from chalicelib.telemetry import logs

ADDRESSES, SUBJECTS = "addresses", "subjects"  # the purposes of the keys of digests
TRIES = 8  # of one call, while others change the bucket
REMEMBERED = 10_000  # levels in a process


class Limit(NamedTuple):
    """Calls that are allowed at once, and the milliseconds until one more is allowed."""

    at_once: int
    interval: int

    def compute_wait(self, level: int, now: datetime, count: int = 1) -> int:
        """Return 0 if a bucket with this level admits `count` calls, or the milliseconds until it does."""
        return max(0, int(level) - self.full(now, count))

    def full(self, now: datetime, count: int = 1) -> int:
        """Return the highest level that admits `count` calls."""
        return times.milliseconds(now) + (self.at_once - count) * self.interval


class Limits(NamedTuple):
    """The limits of one purpose, for a subject and for an address. None is no limit."""

    purpose: str
    of_subject: Limit
    of_address: Limit | None


class Bucket(NamedTuple):
    """The item of a bucket, and what an update writes beside its level.

    `condition` must hold beside that of the level. `level` is as the caller has read it.
    """

    key: Key
    changes: str = "#ttl = :ttl"
    names: Mapping[str, str] = {"#ttl": "ttl"}
    values: Mapping[str, Any] = {}
    condition: str = ""
    level: int | None = None


class Filled(NamedTuple):
    """Whether calls were counted, or the milliseconds until they are. `item` is what the update has returned.

    No wait and no count mean that the condition of the bucket is false.
    """

    is_counted: bool
    wait: int = 0
    item: Item | None = None


def write_limits(settings: Settings) -> Limits:
    """Return the limits of everything that users write."""
    return Limits("writes", Limit(at_once=300, interval=500), per_minute(settings.guest_writes))


def per_minute(calls: int, *, minutes: int = 1) -> Limit:
    """Return the limit of a number of calls a minute, of which some minutes may come at once."""
    return Limit(calls * minutes, max(1, 60_000 // calls))


# -- keys ----------------------------------------------------------------------------------------------


def digest(settings: Settings, address: str) -> str:
    """Return a keyed digest of an address. IPv6 addresses of one /64 have the same digest.

    Raises: OSError without a secret, ValueError for an invalid address.
    """
    return _digest(settings, ADDRESSES, network(address))


def network(address: str) -> str:
    """Return the network that one sender has: an IPv4 address, or the /64 of an IPv6 address.

    Raises: ValueError for an invalid address.
    """
    parsed = parse_address(address)
    size = 64 if parsed.version == 6 else 32
    return str(ipaddress.ip_network(f"{parsed}/{size}", strict=False))


def parse_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address. An IPv4 address in the notation of IPv6 is that IPv4 address.

    Raises: ValueError for an invalid address.
    """
    parsed = ipaddress.ip_address(address)
    return getattr(parsed, "ipv4_mapped", None) or parsed


def digest_subject(settings: Settings, sub: str) -> str:
    """Return a keyed digest of a subject. Raises OSError without a secret."""
    return _digest(settings, SUBJECTS, sub)


def address_key(settings: Settings, purpose: str, address: str) -> Key:
    """Build the key of an address's bucket. Invalid addresses share a bucket.

    Raises: OSError without a secret.
    """
    try:
        found = digest(settings, address)
    except ValueError:
        found = _digest(settings, ADDRESSES, "")
    return Key(f"BUCKET#{purpose}#{found}", "BUCKET")


def subject_key(settings: Settings, purpose: str, sub: str) -> Key:
    """Build the key of a subject's bucket. Raises OSError without a secret."""
    return Key(f"BUCKET#{purpose}#{digest_subject(settings, sub)}", "BUCKET")


def _digest(settings: Settings, purpose: str, text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12, key=derive_key(settings, purpose)).hexdigest()


# -- write ---------------------------------------------------------------------------------------------


def admit(context: Context, limits: Limits, caller: Caller, count: int = 1) -> None:
    """Count calls for their sender, or refuse them.

    Cost: that of `take`, twice for a guest. None for an admin and a server that submits scores.
    Raises: SlowDown.
    """
    if caller.admin or caller.scores or not count:
        return
    try:
        buckets = []
        if not caller.is_trusted and limits.of_address:
            buckets.append((address_key(context.settings, limits.purpose, caller.address), limits.of_address))
        if caller.sub:
            buckets.append((subject_key(context.settings, limits.purpose, caller.sub), limits.of_subject))
    except OSError as error:  # SSM is unavailable, for example. The caller is not the cause
        logs.log_error("calls are not limited", error)
        return
    for key, limit in buckets:
        if wait := take(context, Bucket(key), limit, count):
            raise SlowDown(
                "Too many requests by you or from your address. Retry after the time in Retry-After.",
                wait / 1000,
            )


def take(context: Context, bucket: Bucket, limit: Limit, count: int = 1) -> int:
    """Count calls in a bucket. Return 0, or the milliseconds until they are allowed.

    Cost: that of `fill`.
    """
    return fill(context, bucket, limit, count).wait


def fill(context: Context, bucket: Bucket, limit: Limit, count: int = 1) -> Filled:
    """Count calls in a bucket, unless it is too full or its condition is false.

    One kind of update starts an empty bucket, and the other fills a bucket that has a level. The known level
    decides between them. A concurrent call may have changed the level. Then the condition is false, the
    refusal returns the level, and the right update follows.

    Cost: 1 WCU, and 1 more for each concurrent change. Nothing for a refusal that the process foresees: a
    level only rises until it has drained.
    """
    now, known = context.now, _levels().setdefault(context.table, {})
    time, item = times.milliseconds(now), None
    level = known.get(bucket.key, 0) if bucket.level is None else bucket.level
    expires = {":ttl": times.epoch(now) + limit.at_once * limit.interval // 1000}
    for _ in range(TRIES):
        if wait := limit.compute_wait(level, now, count):
            return Filled(False, wait, item)
        is_empty = level <= time
        if is_empty:
            change, condition = "drained = :next", "NOT drained > :time"
            own = {":next": time + count * limit.interval}
        else:
            change, condition = "drained = drained + :more", "drained > :time AND drained <= :full"
            own = {":more": count * limit.interval, ":full": limit.full(now, count)}
        is_taken, item = context.table.update_or_get(
            bucket.key,
            f"SET {change}, {bucket.changes}",
            condition=f"{condition} AND {bucket.condition}" if bucket.condition else condition,
            names=bucket.names,
            values={":time": time, **own, **(expires if ":ttl" in bucket.changes else {}), **bucket.values},
        )
        level = int((item or {}).get("drained", 0))
        if len(known) >= REMEMBERED:
            known.clear()
        known[bucket.key] = level
        if is_taken:
            return Filled(True, 0, item)
        if is_empty == (level <= time) and not limit.compute_wait(level, now, count):
            return Filled(False, 0, item)
    return Filled(False, 1, item)


@cache
def _levels() -> WeakKeyDictionary[Table, dict[Key, int]]:
    """Return the levels at which this process has left the buckets of each table."""
    return WeakKeyDictionary()
