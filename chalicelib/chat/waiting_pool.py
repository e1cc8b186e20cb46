"""The pool: who waits in a lobby, longest first, and whom a newcomer is matched with.

| item | pk | sk | holds |
|---|---|---|---|
| entry | `WAITING#<lobby>` | `<since>#<connection>#<chance>` | `who`, `at`, `born`, `interests`, `former` |

The sort key is the `turn` of its connection (connections.py): an entry whose connection has another turn is
stale for ever, and whoever meets it takes it away.
"""

import os
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice

from chalicelib import times
from chalicelib.chat import connections
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings

LOOK = 25  # entries that are read at a time
DEEP = 8  # times in a row, when none of them will do


# -- keys ----------------------------------------------------------------------------------------------


def entry_key(lobby: str, turn: str) -> Key:
    """Key a place in a lobby's pool."""
    return Key(f"WAITING#{lobby}", turn)


def turn(id: str, now: datetime) -> str:
    """Write a turn that begins now; text order is the order of waiting.

    There is chance in it, for a turn must never come again, and one handler may bring a connection from state
    to state several times at its one `now`.
    """
    return f"{times.to_sort_key(now)}#{id}#{os.urandom(3).hex()}"


def id_of(entry: Item) -> str:
    """Read the connection's id back from its place."""
    return str(entry["sk"]).split("#")[1]


# -- write ---------------------------------------------------------------------------------------------


def entry(lobby: str, turn: str, card: connections.Partner, former: str = "") -> Item:
    """Make the entry of one who waits; `card` is what a partner needs to know."""
    known = {name: card[name] for name in connections.CARD if name in card}
    place = entry_key(lobby, turn)._asdict() | known | {"ttl": connections.end(card["born"])}
    return place | ({"former": former} if former else {})


def drop_stale(table: Table, place: Item) -> bool:
    """Take an entry away if its connection is not at its place; tell whether. Costs 1 RCU, then 1 WCU."""
    item = connections.find(table, id_of(place))
    if item and item["turn"] == place["sk"]:
        return False
    table.delete(Key(place["pk"], place["sk"]))
    return True


# -- read ----------------------------------------------------------------------------------------------


def newcomers(table: Table, lobby: str, now: datetime, span: timedelta) -> list[str]:
    """Answer who came into a lobby's pool within a while, of the last 100; nobody who waits there alone.

    Costs 0.5 RCU per 4 KB (about 25 entries).
    """
    places = table.query(f"WAITING#{lobby}", limit=100, newest_first=True).items
    young = [id_of(place) for place in places if _waited(place["sk"], now) < span.total_seconds()]
    return young if len(places) > 1 else []


def suitable(table: Table, me: Item, now: datetime, settings: Settings) -> list[Item]:
    """Answer whom one who waits may be matched with, best first; of the first 25 in which there is somebody.

    Strongly consistent: who began to wait before this is seen. Costs 1 RCU per 4 KB (about 25 entries); who
    would take none of 25, or the partner before alone, looks at the next, up to 200.
    """
    found = list[Item]()
    pages = table.query_pages(f"WAITING#{me['lobby']}", limit=LOOK, consistent=True)
    for page in islice(pages, DEEP):
        found = best(me, [*found, *page.items], now, settings)
        if found and not is_former(me, found[0]):
            break
    return found


def best(me: Item, entries: Iterable[Item], now: datetime, settings: Settings) -> list[Item]:
    """Answer those that `me` may be matched with and than whom nobody is better, who waits longest first.

    Better is a shared interest; worse than anybody the partner before, who is met only when both have waited
    a while. Never oneself, and never whom a report has parted. Without a shared interest both must be ready
    to take anyone: one who names interests is, after some seconds.
    """
    ranks: dict[tuple[bool, bool], list[Item]] = {}
    for other in entries:
        if _may_meet(me, other, now, settings):
            ranks.setdefault((is_former(me, other), not shared(me, other)), []).append(other)
    return sorted(ranks[min(ranks)], key=lambda other: other["sk"]) if ranks else []


def _may_meet(me: Item, other: Item, now: datetime, settings: Settings) -> bool:
    if other["who"] == me["who"] or other["who"] in me.get("blocked", ()):
        return False
    waited = min(_waited(me["turn"], now), _waited(other["sk"], now))
    if is_former(me, other) and waited < settings.chat_again.total_seconds():
        return False
    return shared(me, other) or (
        _takes_anyone(me, me["turn"], now, settings) and _takes_anyone(other, other["sk"], now, settings)
    )


def shared(me: Item, other: Item) -> bool:
    """Tell whether two name a common interest."""
    return not set(me.get("interests", ())).isdisjoint(other.get("interests", ()))


def is_former(me: Item, other: Item) -> bool:
    """Tell whether two have just talked."""
    return bool(me.get("former") == other["who"] or other.get("former") == me["who"])


def _takes_anyone(one: Item, turn: str, now: datetime, settings: Settings) -> bool:
    return not one.get("interests") or _waited(turn, now) >= settings.chat_widen.total_seconds()


def _waited(turn: str, now: datetime) -> float:
    return (now - times.parse(turn.partition("#")[0])).total_seconds()
