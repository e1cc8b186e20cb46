"""Reports of a partner, for an admin: why, and the last messages.

| item | pk | sk | holds |
|---|---|---|---|
| report | `REPORTS` | `<instant>#<pair>` | `reason`, `lobby`, `reporter`, `reported`, `messages`, `ttl` |

Nothing of a conversation is stored while it lasts. The last messages come with the report, from the
reporter's own client; that its partner did write them, and it itself, is proved by the digests of the last
eight messages that each connection's item has for as long as the pair lasts.
"""

import hashlib
import os
from datetime import datetime
from typing import Any

from chalicelib import connections, cursors, logs, times
from chalicelib.auth import derived
from chalicelib.chat_schemas import QuotedMessage, Report, ReportFrame, Reports, ReportsQuery
from chalicelib.items import Item
from chalicelib.settings import Settings
from chalicelib.table import Table

PARTITION = "REPORTS"
PURPOSE = "quotations"


def digest(settings: Settings, text: str) -> bytes:
    """Digest a message's text: it says whether a quotation is true, to who has the stage's secret.

    Without that key whoever reads the table could try what may have been said: a yes, a number of a
    telephone. When there is no secret it is chance, which proves nothing.
    """
    try:
        return hashlib.blake2b(text.encode(), digest_size=6, key=derived(settings, PURPOSE)).digest()
    except Exception as error:  # no secret, or SSM does not answer: a message goes on all the same
        logs.failure("a message cannot be proved", error)
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
    item: Item = {"pk": PARTITION, "sk": f"{times.key(now)}#{me['turn']}", "lobby": me["lobby"]}
    item |= {
        "reason": frame.reason,
        "reporter": me["who"],
        "reported": me["partner"]["who"],
        "messages": quoted,
    }
    return {"Put": {"Item": item | {"ttl": times.epoch(now + settings.chat_reports)}}}


def page(table: Table, query: ReportsQuery, settings: Settings, now: datetime) -> Reports:
    """Answer reports, newest first. Costs 0.5 RCU per 4 KB."""
    asked = ("chat/reports",)
    after = cursors.read(settings, asked, query.cursor)
    found = table.query(
        PARTITION,
        limit=query.limit,
        start={"pk": PARTITION, "sk": after} if after else None,
        newest_first=True,
    )
    items = [_report(item) for item in found.items if item["ttl"] > times.epoch(now)]
    return Reports(items=items, cursor=cursors.write(settings, asked, found.next["sk"] if found.next else ""))


def _report(item: Item) -> Report:
    return Report(
        time=times.answer(times.instant(item["sk"].partition("#")[0])),
        lobby=item["lobby"],
        reason=item["reason"],
        reporter=item["reporter"],
        reported=item["reported"],
        messages=[QuotedMessage(**one) for one in item["messages"]],
    )
