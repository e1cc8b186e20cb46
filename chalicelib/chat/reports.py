"""Reports of a partner, for an admin: why, and the last messages.

| item | pk | sk | holds |
|---|---|---|---|
| report | `REPORTS` | `<instant>#<pair>` | `reason`, `lobby`, `reporter`, `reported`, `messages`, `ttl` |
| reports of an address | `REPORTER#<digest>` | `BUCKET` | `drained`: when none weighs any more (ms); `ttl` |

Nothing of a conversation is stored while it lasts. The last messages come with the report, from the
reporter's own client; that its partner did write them, and it itself, is proved by the digests of the last
eight messages that each connection's item has for as long as the pair lasts.

An address may send five reports at once, and one more every five minutes (the bucket of submissions.py). It
is known by a digest with the stage's key, which expires within half an hour.
"""

import hashlib
import ipaddress
import os
from datetime import datetime
from typing import Any

from chalicelib import times
from chalicelib.api import cursors
from chalicelib.api.auth import derive_key
from chalicelib.chat import connections
from chalicelib.chat.schemas import QuotedMessage, Report, ReportFrame, Reports, ReportsQuery
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from chalicelib.telemetry import logs

PARTITION = "REPORTS"
PURPOSE = "quotations"
ADDRESSES = "addresses"
AT_ONCE, INTERVAL = 5, 300_000  # reports of an address at once; milliseconds until one more is free
BLOCKED = 100  # partners that a connection remembers never to meet again


# -- keys ----------------------------------------------------------------------------------------------


def bucket_key(settings: Settings, address: str) -> Key:
    """Key the reports of an address; of IPv6 its /64, which one subscriber has.

    Raises: OSError without a secret, ValueError for what is no address.
    """
    parsed = ipaddress.ip_address(address)
    size = 64 if parsed.version == 6 else 32
    network = ipaddress.ip_network(f"{parsed}/{size}", strict=False)
    name = hashlib.blake2b(str(network).encode(), digest_size=12, key=derive_key(settings, ADDRESSES))
    return Key(f"REPORTER#{name.hexdigest()}", "BUCKET")


# -- write ---------------------------------------------------------------------------------------------


def digest(settings: Settings, text: str) -> bytes:
    """Digest a message's text: it says whether a quotation is true, to who has the stage's secret.

    Without that key whoever reads the table could try what may have been said: a yes, a number of a
    telephone. When there is no secret it is chance, which proves nothing.
    """
    try:
        return hashlib.blake2b(text.encode(), digest_size=6, key=derive_key(settings, PURPOSE)).digest()
    except Exception as error:  # no secret, or SSM does not answer: a message goes on all the same
        logs.log_error("a message cannot be proved", error)
        return os.urandom(6)


def action(
    me: Item, partner: Item | None, frame: ReportFrame, now: datetime, settings: Settings
) -> dict[str, Any]:
    """Write down the put of a report of one's partner, as the two are now. Costs 2 WCU per KB."""
    authors = {True: me, False: partner or {}}
    proofs = {mine: {item.get(name) for name in connections.QUOTED} for mine, item in authors.items()}
    quoted = [
        {
            "author": "reporter" if one.mine else "reported",
            "text": one.text[: settings.chat_length],
            "proved": digest(settings, one.text) in proofs[one.mine],
        }
        for one in frame.messages
    ]
    item: Item = {"pk": PARTITION, "sk": f"{times.to_sort_key(now)}#{me['turn']}", "lobby": me["lobby"]}
    item |= {
        "reason": frame.reason,
        "reporter": me["who"],
        "reported": me["partner"]["who"],
        "messages": quoted,
    }
    return {"Put": {"Item": item | {"ttl": times.epoch(now + settings.chat_reports)}}}


def has_room(table: Table, me: Item, address: str, now: datetime, settings: Settings) -> bool:
    """Count a report of an address; return False when it has sent too many, or its connection has.

    Where the address or the stage's secret is not known, the connection's own number is the only limit.

    Cost: 1 WCU, or 2.
    """
    if not may_block(me):
        return False
    try:
        key = bucket_key(settings, address)
    except Exception as error:
        logs.log_error("reports are not counted by address", error)
        return True
    time = times.milliseconds(now)
    full = time + (AT_ONCE - 1) * INTERVAL
    values = {":now": time, ":next": time + INTERVAL, ":ttl": times.epoch(now) + AT_ONCE * INTERVAL // 1000}
    empty = table.update(
        key,
        "SET drained = :next, #ttl = :ttl",
        condition="attribute_not_exists(drained) OR drained <= :now",
        names={"#ttl": "ttl"},
        values=values,
    )
    if empty is not None:
        return True
    more = {":now": time, ":full": full, ":more": INTERVAL, ":ttl": values[":ttl"]}
    return (
        table.update(
            key,
            "SET drained = drained + :more, #ttl = :ttl",
            condition="drained > :now AND drained <= :full",
            names={"#ttl": "ttl"},
            values=more,
        )
        is not None
    )


def may_block(one: Item) -> bool:
    """Return whether a connection can remember one more partner never to meet again."""
    return len(one.get("blocked", ())) < BLOCKED


# -- read ----------------------------------------------------------------------------------------------


def page(table: Table, query: ReportsQuery, settings: Settings, now: datetime) -> Reports:
    """Answer reports, newest first. Costs 0.5 RCU per 4 KB."""

    def read_page(after: str) -> tuple[list[Item], str]:
        found = table.query(
            PARTITION,
            limit=query.limit,
            start={"pk": PARTITION, "sk": after} if after else None,
            newest_first=True,
        )
        return found.items, found.next["sk"] if found.next else ""

    items, cursor = cursors.paginate(settings, ("chat/reports",), query.cursor, read_page)
    return Reports(items=[_report(item) for item in items if item["ttl"] > times.epoch(now)], cursor=cursor)


def _report(item: Item) -> Report:
    return Report(
        time=times.to_iso(times.parse(item["sk"].partition("#")[0])),
        lobby=item["lobby"],
        reason=item["reason"],
        reporter=item["reporter"],
        reported=item["reported"],
        messages=[QuotedMessage(**one) for one in item["messages"]],
    )
