"""The waiting pool: the waiting connections of each lobby, and the choice of a partner among them.

| item | pk | sk | holds |
|---|---|---|---|
| entry | `WAITING#<lobby>` | `<since>#<connection>#<random>` | `who`, `endpoint`, `born`, `interests` |
| | | | `former`, `receipts` |

Invariant: the sort key of an entry is the state id of its connection (connections.py). An entry is valid as
long as its connection has this state id. A state id never recurs, so an entry that is stale stays stale, and
any process may delete it.
"""

import os
from collections.abc import Iterable
from datetime import datetime, timedelta

from chalicelib import times
from chalicelib.chat import connections
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key, Range
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings

PAGE = 25  # entries that are read at a time
PAGES = 8  # read in a row while no entry is suitable, at most


# -- keys ----------------------------------------------------------------------------------------------


def entry_key(lobby: str, state_id: str) -> Key:
    """Build the key of an entry in a lobby's pool."""
    return Key(f"WAITING#{lobby}", state_id)


def new_state_id(id: str, now: datetime) -> str:
    """Return the id of a connection's state that begins now. Ids sort by the time of waiting.

    It has a random part, because a handler may change a connection several times at the same `now`.
    """
    return f"{times.to_sort_key(now)}#{id}#{os.urandom(3).hex()}"


def id_of(entry: Item) -> str:
    """Return the id of an entry's connection."""
    return str(entry["sk"]).split("#")[1]


# -- write ---------------------------------------------------------------------------------------------


def build_entry(lobby: str, state_id: str, profile: connections.Partner, former: str = "") -> Item:
    """Build the entry of a waiting connection. `former` is the visitor it was matched with last."""
    known = {name: profile[name] for name in connections.PROFILE if name in profile}
    entry = entry_key(lobby, state_id)._asdict() | known | {"ttl": connections.latest_end(profile["born"])}
    return entry | ({"former": former} if former else {})


def delete_if_stale(table: Table, entry: Item) -> bool:
    """Delete an entry whose connection has another state by now. Return whether it was stale.

    Cost: 1 RCU; 1 WCU more for a stale entry.
    """
    item = connections.find(table, id_of(entry))
    if item and item["state_id"] == entry["sk"]:
        return False
    table.delete(Key(entry["pk"], entry["sk"]))
    return True


# -- read ----------------------------------------------------------------------------------------------


def list_newcomers(context: Context, lobby: str, span: timedelta) -> list[str]:
    """Return the connections that have entered a lobby's pool within `span`, among the last 100.

    A connection that waits alone is left out.

    Cost: 0.5 RCU per 4 KB (about 25 entries).
    """
    entries = context.table.query(Range(f"WAITING#{lobby}"), limit=100, newest_first=True).items
    young = [id_of(entry) for entry in entries if _waited(entry["sk"], context.now) < span.total_seconds()]
    return young if len(entries) > 1 else []


def find_candidates(context: Context, me: Item) -> list[Item]:
    """Return the entries that a waiting connection may be matched with, best first.

    The read is strongly consistent, so it sees every connection that began to wait earlier. It continues, up
    to 200 entries, while it has found nobody but the former partner.

    Cost: 1 RCU per 4 KB (about 25 entries).
    """
    start, found = None, list[Item]()
    for _ in range(PAGES):
        page = context.table.query(Range(f"WAITING#{me['lobby']}"), limit=PAGE, start=start, consistent=True)
        found = rank_candidates(me, [*found, *page.items], context.now, context.settings)
        if (found and not is_former(me, found[0])) or (start := page.next) is None:
            break
    return found


def rank_candidates(me: Item, entries: Iterable[Item], now: datetime, settings: Settings) -> list[Item]:
    """Return the best entries that `me` may be matched with, the longest waiting first.

    A shared interest ranks higher. The former partner ranks lowest, and is matched again only when both have
    waited for a while. Two connections of one person are never matched, nor is one with a visitor that a
    report keeps away. Without a shared interest both must accept anyone. A connection that names interests
    does so after some seconds.
    """
    ranks: dict[tuple[bool, bool], list[Item]] = {}
    for other in entries:
        if _may_match(me, other, now, settings):
            rank = (is_former(me, other), not share_interest(me, other))
            ranks.setdefault(rank, []).append(other)
    return sorted(ranks[min(ranks)], key=lambda other: other["sk"]) if ranks else []


def _may_match(me: Item, other: Item, now: datetime, settings: Settings) -> bool:
    if other["who"] == me["who"] or other["who"] in me.get("blocked", ()):
        return False
    waited = min(_waited(me["state_id"], now), _waited(other["sk"], now))
    if is_former(me, other) and waited < settings.chat_again.total_seconds():
        return False
    return share_interest(me, other) or (
        _accepts_anyone(me, me["state_id"], now, settings)
        and _accepts_anyone(other, other["sk"], now, settings)
    )


def share_interest(me: Item, other: Item) -> bool:
    """Return whether two connections name a common interest."""
    return not set(me.get("interests", ())).isdisjoint(other.get("interests", ()))


def is_former(me: Item, other: Item) -> bool:
    """Return whether two visitors were each other's last partner."""
    return bool(me.get("former") == other["who"] or other.get("former") == me["who"])


def _accepts_anyone(item: Item, state_id: str, now: datetime, settings: Settings) -> bool:
    return not item.get("interests") or _waited(state_id, now) >= settings.chat_widen.total_seconds()


def _waited(state_id: str, now: datetime) -> float:
    return (now - times.parse(state_id.partition("#")[0])).total_seconds()
