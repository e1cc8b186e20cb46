"""Bans: an address that may not connect for some hours.

| item | pk | sk | holds |
|---|---|---|---|
| ban | `BAN#<digest>` | `BAN` | `until`, in seconds; `ttl` |

An address is a keyed digest (chalicelib/api/rates.py). IPv6 addresses of one /64 are one address. A
connection has the digest while it lasts, and a report of it for as long as the report is kept.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from chalicelib import times
from chalicelib.api import rates
from chalicelib.dynamo.items import Key
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from chalicelib.telemetry import logs


def ban_key(network: str) -> Key:
    """Build the key of the ban of a network."""
    return Key(f"BAN#{network}", "BAN")


def find_network(settings: Settings, context: Mapping[str, Any]) -> str:
    """Return the digest of the client's address, or an empty text where address or secret are unknown."""
    address = context.get("identity", {}).get("sourceIp", "")
    try:
        return rates.digest(settings, address) if address else ""
    except Exception as error:  # no secret, or SSM is unavailable: the client may connect all the same
        logs.log_error("the address of a connection is unknown, so that it cannot be banned", error)
        return ""


def ban(table: Table, network: str, hours: int, now: datetime) -> None:
    """Refuse the connections of a network from now on. A later ban replaces an earlier one.

    Cost: 1 WCU.
    """
    until = times.epoch(now + timedelta(hours=hours))
    table.put({**ban_key(network)._asdict(), "until": until, "ttl": until})


def is_banned(table: Table, network: str, now: datetime) -> bool:
    """Return whether a network may not connect.

    Cost: 0.5 RCU.
    """
    item = table.get(ban_key(network)) if network else None
    return item is not None and item["until"] > times.epoch(now)
