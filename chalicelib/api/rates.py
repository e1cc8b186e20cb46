"""Limits by address: a leaky bucket for each network, stored as one number.

`drained` is the millisecond since 1970 at which the bucket will be empty. This is the "virtual scheduling"
form of the Generic Cell Rate Algorithm (ITU-T I.371). The key of a bucket belongs to the feature that limits.
"""

import hashlib
import ipaddress
from datetime import datetime
from typing import NamedTuple

from chalicelib import times
from chalicelib.api.auth import derive_key
from chalicelib.dynamo.items import Key
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings

ADDRESSES = "addresses"  # the purpose of the key of address digests


class Limit(NamedTuple):
    """Calls that an address may make at once, and the milliseconds until one more is allowed."""

    at_once: int
    interval: int


def digest(settings: Settings, address: str) -> str:
    """Return a keyed digest of an address. IPv6 addresses of one /64 have the same digest.

    Raises: OSError without a secret, ValueError for an invalid address.
    """
    parsed = ipaddress.ip_address(address)
    size = 64 if parsed.version == 6 else 32
    network = ipaddress.ip_network(f"{parsed}/{size}", strict=False)
    return hashlib.blake2b(
        str(network).encode(), digest_size=12, key=derive_key(settings, ADDRESSES)
    ).hexdigest()


def take(table: Table, key: Key, limit: Limit, now: datetime) -> int:
    """Count a call in a bucket. Return 0, or the milliseconds until the next call is allowed.

    There are two updates: one starts an empty bucket, the other fills one that has not drained.

    Cost: 1 WCU; 2 WCU when the bucket is not empty.
    """
    time = times.milliseconds(now)
    full = time + (limit.at_once - 1) * limit.interval
    ttl = {":ttl": times.epoch(now) + limit.at_once * limit.interval // 1000}
    is_taken, _ = table.update_or_get(
        key,
        "SET drained = :next, #ttl = :ttl",
        condition="attribute_not_exists(drained) OR drained <= :now",
        names={"#ttl": "ttl"},
        values={":now": time, ":next": time + limit.interval} | ttl,
    )
    if is_taken:
        return 0
    is_taken, item = table.update_or_get(
        key,
        "SET drained = drained + :more, #ttl = :ttl",
        condition="drained > :now AND drained <= :full",
        names={"#ttl": "ttl"},
        values={":now": time, ":full": full, ":more": limit.interval} | ttl,
    )
    return 0 if is_taken else max(1, int((item or {}).get("drained", time)) - full)
