"""Pairs: how a connection comes from one state to another, each time in one transaction, exactly once.

Everybody who is to be matched is in the pool before it looks into it. So of two who come at once the later
one sees the other, and of N at most one is left. The transaction that pairs two is on condition that both
still wait at the very places that were read; the loser of a race looks again.

Who is parted from a partner, and who is matched, has a note to be told (notes.py), written in the same
transaction.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from chalicelib import times
from chalicelib.chat import connections, waiting_pool
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from chalicelib.telemetry import metrics

TRIES = 40  # races that one may lose in a row before it waits for its next frame, or for the sweep
OF_A_TURN = ("former", "kept", "partner", "met", *connections.QUOTED)  # what does not outlive a turn
CONNECTED, DISCONNECTED = "partner_connected", "partner_disconnected"

Target = Literal["waiting", "idle", "gone"]
Action = Mapping[str, Any]


class Moved(NamedTuple):
    """A connection as it is now, and the partner that it has lost by that, if any."""

    me: Item
    lost: str = ""


def join(table: Table, item: Item, now: datetime) -> bool:
    """Let a newcomer wait; False when it is known already: a repeated event. Costs 6 WCU, 2 for the index."""
    turn = waiting_pool.turn(connections.id_of(item), now)
    item |= {"state": "waiting", "turn": turn, "since": times.to_sort_key(now)}
    entry = waiting_pool.entry(item["lobby"], turn, connections.card(item))
    put = {"Put": {"Item": item, "ConditionExpression": "attribute_not_exists(pk)"}}
    return not table.transact([put, {"Put": {"Item": entry}}])


def seek(table: Table, me: Item, now: datetime, settings: Settings) -> Item | None:
    """Match one who waits, if there is somebody; answer it as it is then.

    None when it waits on, and when somebody else has matched it, who tells both.

    Costs 1 RCU per 25 who wait, and 8 WCU for a pair: two connections, two places. A lost race costs as much;
    from the second on a partner is chosen at random among the first few, so that many who come at once do not
    all meet at the same place. Raises Busy.
    """
    met: set[str] = set()
    for number in range(TRIES):
        found = waiting_pool.suitable(table, me, now, settings)
        if not found:
            return None
        other = found[0] if number == 0 else random.choice(found[: 2 * number])  # noqa: S311 (no secret)
        pair = new_pair()
        refused = table.transact(_match(pair, me, other, now))
        if not refused:
            metrics.count(Pairs=1)
            return _after(me, "matched", pair, now) | {
                "partner": as_partner(other, waiting_pool.id_of(other))
            }
        if 0 in refused:  # somebody was faster to find this one, or it has left
            found_again = connections.find(table, connections.id_of(me))
            if found_again is None or found_again["state"] != "waiting" or "kept" in found_again:
                return None
            me = found_again
        elif other["sk"] in met:  # it was refused before, and is still there
            waiting_pool.drop_stale(table, other)
        met.add(other["sk"])
    return None


def move(
    table: Table,
    me: Item,
    to: Target,
    now: datetime,
    *,
    keep: int = 0,
    was: str = "",
    note: str = "",
    block: Collection[str] = (),
    extra: Sequence[Action] = (),
) -> Moved | None:
    """Bring a connection into another state; its partner, if it has one, waits again by itself.

    With `keep` the partner is kept for it until that second: it waits, and is matched with nobody else
    before. `was` says what one that is gone was, if not what it has been: `left`, which nobody comes back to.
    `block` names the sides (`mine`, `theirs`) that remember not to meet the other again. `note` is told to
    the one that moves; `extra` is written with it. None when the turn that this was decided on is over: the
    caller looks again. A partner that is not there any more is no hindrance. Costs 2 WCU, for a partner 2
    more, and 2 for each place in the pool that comes or goes. Raises Busy.
    """
    id, partner = connections.id_of(me), me.get("partner")
    for lost in (partner, None) if partner else (None,):
        turn, theirs = waiting_pool.turn(id, now), waiting_pool.turn(lost["id"], now) if lost else ""
        kept = {"partner": lost, "turn": theirs, "until": keep} if lost and keep else {}
        blocked = lost["who"] if lost and "mine" in block else ""
        actions = [_leave(me, to, turn, now, kept, was, note, blocked)]
        if lost:
            actions += _free(me, lost, theirs, now, keep, me["who"] if "theirs" in block else "")
        if me["state"] == "waiting" and "kept" not in me:
            actions.append({"Delete": {"Key": waiting_pool.entry_key(me["lobby"], me["turn"])._asdict()}})
        if to == "waiting":
            place = waiting_pool.entry(me["lobby"], turn, connections.card(me), _former(me))
            actions.append({"Put": {"Item": place}})
        refused = table.transact([*actions, *extra])
        if not refused:
            after = _after(me, to, turn, now) | ({"former": _former(me)} if _former(me) else {})
            return Moved(after, lost["id"] if lost else "")
        if 0 in refused:
            return None
    return None


# -- the actions of these transactions -----------------------------------------------------------------


def new_pair() -> str:
    """Make the turn that two share."""
    return f"PAIR#{connections.token()}"


def _match(pair: str, me: Item, other: Item, now: datetime) -> list[Action]:
    """Write down the pairing of two who wait at their places."""
    mine, theirs = (
        as_partner(connections.card(me), connections.id_of(me)),
        as_partner(other, waiting_pool.id_of(other)),
    )
    return [
        change(mine["id"], me["turn"], "matched", pair, now, {"partner": theirs}, CONNECTED),
        change(theirs["id"], other["sk"], "matched", pair, now, {"partner": mine}, CONNECTED),
        {"Delete": {"Key": waiting_pool.entry_key(me["lobby"], me["turn"])._asdict()}},
        {"Delete": {"Key": {"pk": other["pk"], "sk": other["sk"]}}},
    ]


def as_partner(card: Item, id: str) -> connections.Partner:
    """Write down what a connection knows of its partner."""
    return {name: card[name] for name in connections.CARD if name in card} | {"id": id}


def _leave(
    me: Item, to: Target, turn: str, now: datetime, kept: Item, was: str, note: str, block: str
) -> Action:
    """Write down the change of one who goes from one state to another."""
    sets: dict[str, Any] = {"former": _former(me)} if _former(me) and to != "gone" else {}
    if to == "gone":
        sets |= {"ttl": times.epoch(now + connections.GONE), "was": was or me["state"]}
        sets |= {"kept": kept} if kept else {}
    gone = connections.ENDS if to == "gone" else ()
    return change(connections.id_of(me), me["turn"], to, turn, now, sets, note, block=block, removes=gone)


def _free(
    me: Item, lost: connections.Partner, turn: str, now: datetime, keep: int, block: str
) -> list[Action]:
    """Write down the change of a partner that is left: it waits, at a place in the pool or kept for me."""
    sets: dict[str, Any] = {"former": me["who"]}
    if keep:
        sets["kept"] = {"id": connections.id_of(me), "until": keep}
    freed = change(lost["id"], me["turn"], "waiting", turn, now, sets, DISCONNECTED, block=block)
    if keep:
        return [freed]
    return [freed, {"Put": {"Item": waiting_pool.entry(me["lobby"], turn, lost, me["who"])}}]


def change(
    id: str,
    was: str,
    state: str,
    turn: str,
    now: datetime,
    sets: Mapping[str, Any],
    note: str = "",
    *,
    block: str = "",
    removes: Sequence[str] = (),
) -> Action:
    """Write down one connection's change of state, on condition that it is still in the turn `was`."""
    values: dict[str, Any] = {":was": was, ":state": state, ":turn": turn, ":since": times.to_sort_key(now)}
    values |= {f":_{name}": value for name, value in sets.items()}
    parts = ["#state = :state", "turn = :turn", "since = :since"]
    parts += [f"#{name} = :_{name}" for name in sets]
    if note:
        parts.append("untold = list_append(if_not_exists(untold, :none), :note)")
        values |= {":none": [], ":note": [note]}
    if block:
        values[":block"] = {block}
    left = [name for name in (*OF_A_TURN, *removes) if name not in sets]
    return {
        "Update": {
            "Key": connections.key(id)._asdict(),
            "UpdateExpression": f"SET {', '.join(parts)} REMOVE {', '.join(left)}"
            + (" ADD blocked :block" if block else ""),
            "ConditionExpression": "turn = :was",
            "ExpressionAttributeNames": {"#state": "state"} | {f"#{name}": name for name in sets},
            "ExpressionAttributeValues": values,
        }
    }


def _former(me: Item) -> str:
    """Name the partner that one has just lost, or had lost before."""
    return str(me["partner"]["who"] if "partner" in me else me.get("former", ""))


def _after(me: Item, state: str, turn: str, now: datetime) -> Item:
    """Answer a connection as a change of state has left it."""
    kept = {name: value for name, value in me.items() if name not in OF_A_TURN}
    return kept | {"state": state, "turn": turn, "since": times.to_sort_key(now)}
