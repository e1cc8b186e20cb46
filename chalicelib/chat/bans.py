"""Bans: an address or a subject that may not connect for some hours.

| item | pk | sk | holds |
|---|---|---|---|
| ban | `BAN#<digest>` | `BAN` | `until`, in seconds; `ttl` |
| | | | gsi1 = `BANS`, sorted by `until` |

An address is a keyed digest (chalicelib/api/rates.py). IPv6 addresses of one /64 are one address. A subject
is a keyed digest of the `sub` of the token with which a socket was opened. Both digests are stored with a
connection, and with a report of it until the report expires.

A ban closes the open connections of its address or subject. A connection that opens at the same moment is
closed by the sweep.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from chalicelib import times
from chalicelib.api import auth, rates
from chalicelib.context import Context
from chalicelib.dynamo.items import Key, Range
from chalicelib.settings import Settings
from chalicelib.telemetry import logs

INDEX = "BANS"
DIGESTS = ("network", "subject")  # attributes of a connection and of a report


def ban_key(digest: str) -> Key:
    """Build the key of the ban of an address or a subject."""
    return Key(f"BAN#{digest}", "BAN")


def find_network(settings: Settings, request: Mapping[str, Any]) -> str:
    """Return the digest of the client's address, or an empty text where address or secret are unknown."""
    address = request.get("identity", {}).get("sourceIp", "")
    try:
        return rates.digest(settings, address) if address else ""
    except Exception as error:  # no secret, or SSM is unavailable: the client may connect all the same
        logs.log_error("the address of a connection is unknown, so that it cannot be banned", error)
        return ""


def find_subject(settings: Settings, token: str) -> str:
    """Return the digest of a token's subject. A token that is missing or not valid has an empty text."""
    caller = auth.read_context(auth.authenticate(settings, f"Bearer {token}")) if token else auth.Caller()
    if not caller.sub:
        return ""
    try:
        return rates.digest_subject(settings, caller.sub)
    except Exception as error:  # as in `find_network`
        logs.log_error("the subject of a connection is unknown, so that it cannot be banned", error)
        return ""


def ban(context: Context, digests: Iterable[str], hours: int) -> None:
    """Refuse the connections of addresses and subjects from now on. A later ban replaces an earlier one.

    Cost: 2 WCU for each, 1 of them for the index.
    """
    until = times.epoch(context.now + timedelta(hours=hours))
    for digest in digests:
        index = {"gsi1pk": INDEX, "gsi1sk": until}
        context.table.put({**ban_key(digest)._asdict(), "until": until, "ttl": until, **index})


def is_banned(context: Context, digests: Iterable[str]) -> bool:
    """Return whether one of these addresses and subjects may not connect. An empty digest is not banned.

    Cost: 0.5 RCU for each.
    """
    items = (context.table.get(ban_key(digest)) for digest in digests if digest)
    return any(item is not None and item["until"] > times.epoch(context.now) for item in items)


def list_banned(context: Context) -> set[str]:
    """Return the digests of all addresses and subjects that may not connect.

    Cost: 0.5 RCU for about 40 bans.
    """
    pages = context.table.query_pages(Range(INDEX, (times.epoch(context.now) + 1, 10**11), "gsi1"))
    return {item["pk"].removeprefix("BAN#") for page in pages for item in page.items}
