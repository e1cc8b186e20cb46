"""Reports of chat partners, with the last messages, for admins.

| item | pk | sk | holds |
|---|---|---|---|
| report | `REPORTS` | `<instant>#<pair>` | `reason`, `lobby`, `reporter`, `reported`, `messages`, `ttl` |
| | | | `network` and `subject` of the reported visitor, for a ban |

The reporter's client sends the last messages with the report. The evidence of the pair (evidence.py) proves
that they were sent. A partner can be reported for a minute after it has parted.

A report keeps two connections apart for as long as they last (matching.py), and two persons with tokens for
as long as the report is kept (blocks.py).

Invariant: an address may send five reports at once, and one more every five minutes (api/rates.py).
"""

from datetime import datetime
from typing import Any

from chalicelib import times
from chalicelib.api import cursors, listing, rates
from chalicelib.chat import bans, connections, evidence
from chalicelib.chat.schemas import (
    QuotedMessage,
    Report,
    ReportAction,
    ReportFrame,
    Reports,
    ReportsQuery,
)
from chalicelib.context import Context
from chalicelib.dynamo.items import Images, Item, Key, Range
from chalicelib.dynamo.table import Page
from chalicelib.errors import Conflict, NotFound
from chalicelib.feature import Notice
from chalicelib.settings import Settings
from chalicelib.telemetry import logs

PARTITION = "REPORTS"
LIMIT = rates.Limit(at_once=5, interval=300_000)  # of an address
ID_SEPARATOR = "~"  # in the id of a report, instead of # in its key


# -- write ---------------------------------------------------------------------------------------------


def build_put(me: Item, found: Item, frame: ReportFrame, now: datetime, settings: Settings) -> dict[str, Any]:
    """Build the put of a report of the other member of a pair, of which `found` is the evidence.

    Cost: 2 WCU per KB.
    """
    mine, theirs = evidence.read_members(found, me)
    quoted = [
        {
            "author": "reporter" if message.mine else "reported",
            "text": message.text[: settings.chat_length],
            "proved": evidence.is_proved(settings, message.text, mine if message.mine else theirs),
        }
        for message in frame.messages
    ]
    item: Item = {"pk": PARTITION, "sk": f"{times.to_sort_key(now)}#{found['pk']}", "lobby": found["lobby"]}
    item |= {"reason": frame.reason, "reporter": mine.who, "reported": theirs.who, "messages": quoted}
    item |= theirs.digests
    return {"Put": {"Item": item | {"ttl": times.epoch(now + settings.chat_reports)}}}


def count_report(context: Context, me: Item, address: str) -> bool:
    """Count a report. Return False when the address or the connection has sent too many.

    Where the address or the stage's secret is unknown, only the number of the connection is limited.

    Cost: 1 WCU; 2 WCU when the bucket is not empty.
    """
    if not connections.can_block(me):
        return False
    try:
        key = rates.address_key(context.settings, "reports", address) if address else None
    except OSError as error:  # no secret, or SSM is unavailable
        logs.log_error("reports are not counted by address", error)
        return True
    return key is None or rates.take(context, rates.Bucket(key), LIMIT) == 0


def act(context: Context, id: str, body: ReportAction) -> list[str]:
    """Dismiss a report, or ban the address and the subject of the reported visitor and dismiss it.

    Returns the digests that are banned. Repeating a ban that is interrupted before the report is deleted is
    safe.

    Cost: 1 RCU, 2 WCU each for the address and the subject, 1 WCU per KB of the report.
    Raises: NotFound; Conflict for a report that knows neither.
    """
    key = Key(PARTITION, id.replace(ID_SEPARATOR, "#"))
    item = context.table.get(key, consistent=True)
    if item is None or item["ttl"] <= times.epoch(context.now):
        raise NotFound(f"There is no report {id}.")
    digests: list[str] = []
    if body.action == "ban":
        digests += [item[name] for name in bans.DIGESTS if name in item]
        if not digests:
            raise Conflict("The report has no address of the visitor, so nobody can be banned.")
        bans.ban(context, digests, body.hours)
    context.table.delete(key)
    return digests


def find_notice(change: Images, now: datetime) -> Notice | None:
    """Return the notice of a new report, without the messages, or None for any other change."""
    key, old, new = change
    if old or key.pk != PARTITION:
        return None
    id, count = key.sk.replace("#", ID_SEPARATOR), len(new["messages"])
    return Notice(
        kind="chat-report",
        source=key.sk,
        subject=f"Report of a chat partner in {new['lobby']}",
        text=f"A visitor has reported a partner in the lobby {new['lobby']}.\n\n"
        f"Reason: {new['reason']}\nMessages sent with the report: {count}\nReport: {id}",
        data={"report": id, "lobby": new["lobby"], "reason": new["reason"]},
    )


# -- read ----------------------------------------------------------------------------------------------


def list_reports(context: Context, query: ReportsQuery) -> Reports:
    """Return a page of reports, newest first.

    Cost: 0.5 RCU per 4 KB of each ten reports.
    Raises: BadCursor.
    """
    scope = ("chat/reports",)
    after = cursors.decode(context.settings, scope, query.cursor)

    def read(limit: int, start: Item | None) -> Page:
        return context.table.query(Range(PARTITION), limit=limit, start=start, newest_first=True)

    texts = listing.read_texts(read, query.limit, {"pk": PARTITION, "sk": after} if after else None)
    items, position = listing.fill_page(
        texts, query.limit, lambda item: _report(item) if item["ttl"] > times.epoch(context.now) else None
    )
    return Reports(
        items=items, cursor=cursors.encode(context.settings, scope, position["sk"] if position else "")
    )


def _report(item: Item) -> Report:
    return Report(
        id=item["sk"].replace("#", ID_SEPARATOR),
        time=times.to_iso(times.parse(item["sk"].partition("#")[0])),
        lobby=item["lobby"],
        reason=item["reason"],
        reporter=item["reporter"],
        reported=item["reported"],
        messages=[QuotedMessage(**message) for message in item["messages"]],
    )
