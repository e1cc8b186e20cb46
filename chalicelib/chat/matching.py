"""Matching: the transactions between the states of connections, each of them exactly once.

| state | means |
|---|---|
| `waiting` | in the pool of its lobby, or `kept` for a lost partner that may return |
| `matched` | with a `partner`; both have the same state id |
| `idle` | neither: the client has left, and may wait again |
| `gone` | the connection is closed or resumed by another |

The items are those of connections.py and waiting_pool.py. A transaction that matches a connection, or takes
its partner away, appends a notice for it (outbox.py).

Invariant: a connection enters the pool before it reads it. So of two connections that come at the same time
the later one sees the other, and of many at most one is left over. The transaction of a pair is conditional
on both state ids that were read. The loser of a race reads the pool again.
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

TRIES = 40  # lost races in a row, until the connection waits for its next frame or the sweep
# Attributes that do not outlive a state.
OF_A_STATE = ("former", "kept", "partner", "met", *connections.QUOTED)
CONNECTED, DISCONNECTED = "partner_connected", "partner_disconnected"

Target = Literal["waiting", "idle", "gone"]
Action = Mapping[str, Any]


class Changed(NamedTuple):
    """A connection after a change of state, and the id of the partner that it has lost, if any."""

    item: Item
    lost: str = ""


def new_pair_id() -> str:
    """Return a state id for two partners."""
    return f"PAIR#{connections.new_token()}"


# -- write ---------------------------------------------------------------------------------------------


def join_pool(table: Table, item: Item, now: datetime) -> bool:
    """Write a new connection and its pool entry. Return False for a duplicate event.

    Cost: 5 WCU, 1 of them for the index.
    """
    state_id = waiting_pool.new_state_id(connections.id_of(item), now)
    item |= {"state": "waiting", "turn": state_id, "since": times.to_sort_key(now)}
    entry = waiting_pool.build_entry(item["lobby"], state_id, connections.profile(item))
    put = {"Put": {"Item": item, "ConditionExpression": "attribute_not_exists(pk)"}}
    return not table.transact([put, {"Put": {"Item": entry}}])


def stay_out(table: Table, item: Item, now: datetime) -> None:
    """Write a new connection that is in no pool, because it only listens. A duplicate event does nothing.

    Cost: 2 WCU, 1 of them for the index.
    """
    state_id = waiting_pool.new_state_id(connections.id_of(item), now)
    item |= {"state": "idle", "turn": state_id, "since": times.to_sort_key(now), "listening": True}
    table.put(item, condition="attribute_not_exists(pk)")


def find_partner(table: Table, me: Item, now: datetime, settings: Settings) -> Item | None:
    """Match a waiting connection, and return it as it is then.

    Returns None when there is no partner, or when another handler has matched it, which notifies both. After
    a lost race the partner is chosen at random among the first candidates, so that many connections that come
    at the same time do not all try the same one.

    Cost: 1 RCU per 25 entries of the pool, and 8 WCU for a pair (two connections and two entries). A lost
    race costs as much.
    Raises: Busy.
    """
    tried: set[str] = set()
    for number in range(TRIES):
        found = waiting_pool.find_candidates(table, me, now, settings)
        if not found:
            return None
        other = found[0] if number == 0 else random.choice(found[: 2 * number])  # noqa: S311 (no secret)
        pair = new_pair_id()
        refused = table.transact(_build_match(pair, me, other, now))
        if not refused:
            metrics.count(Pairs=1)
            partner = as_partner(other, waiting_pool.id_of(other))
            return _after(me, "matched", pair, now) | {"partner": partner}
        if 0 in refused:  # another handler has matched this connection, or it has left
            current = connections.find(table, connections.id_of(me))
            if current is None or current["state"] != "waiting" or "kept" in current:
                return None
            me = current
        elif other["sk"] in tried:  # the entry was refused before, and is still there
            waiting_pool.delete_if_stale(table, other)
        tried.add(other["sk"])
    return None


def change_state(
    table: Table,
    me: Item,
    to: Target,
    now: datetime,
    *,
    keep_until: int = 0,
    last_state: str = "",
    notice: str = "",
    block: Collection[str] = (),
    extra: Sequence[Action] = (),
) -> Changed | None:
    """Change the state of a connection. Its partner, if it has one, waits again.

    Returns None when the connection has another state id by now. A partner that is gone is ignored.

    `keep_until` is the second until which the partner waits for this connection and is matched with no other.
    `last_state` is stored on a connection that is gone. Its default is the state before, and `left` means
    that it does not return. `notice` is delivered to this connection. `block` names the sides (`mine`,
    `theirs`) that are never matched with the other again. `extra` are actions of the same transaction.

    Cost: 2 WCU, 2 more for a partner, and 2 for each pool entry that is written or deleted.
    Raises: Busy.
    """
    id, partner = connections.id_of(me), me.get("partner")
    for lost in (partner, None) if partner else (None,):
        state_id = waiting_pool.new_state_id(id, now)
        theirs = waiting_pool.new_state_id(lost["id"], now) if lost else ""
        kept = {"partner": lost, "turn": theirs, "until": keep_until} if lost and keep_until else {}
        blocked = lost["who"] if lost and "mine" in block else ""
        actions = [_build_leave(me, to, state_id, now, kept, last_state, notice, blocked)]
        if lost:
            actions += _build_free(me, lost, theirs, now, keep_until, me["who"] if "theirs" in block else "")
        if me["state"] == "waiting" and "kept" not in me:
            actions.append({"Delete": {"Key": waiting_pool.entry_key(me["lobby"], me["turn"])._asdict()}})
        if to == "waiting":
            profile = connections.profile(me)
            entry = waiting_pool.build_entry(me["lobby"], state_id, profile, _former(me))
            actions.append({"Put": {"Item": entry}})
        refused = table.transact([*actions, *extra])
        if not refused:
            after = _after(me, to, state_id, now) | ({"former": _former(me)} if _former(me) else {})
            return Changed(after, lost["id"] if lost else "")
        if 0 in refused:
            return None
    return None


# -- the actions of these transactions -----------------------------------------------------------------


def build_change(
    id: str,
    was: str,
    state: str,
    state_id: str,
    now: datetime,
    sets: Mapping[str, Any],
    notice: str = "",
    *,
    block: str = "",
    removes: Sequence[str] = (),
) -> Action:
    """Build the update of one connection's state, on condition that its state id is still `was`."""
    values: dict[str, Any] = {
        ":was": was,
        ":state": state,
        ":turn": state_id,
        ":since": times.to_sort_key(now),
    }
    values |= {f":_{name}": value for name, value in sets.items()}
    parts = ["#state = :state", "turn = :turn", "since = :since"]
    parts += [f"#{name} = :_{name}" for name in sets]
    if notice:
        parts.append("untold = list_append(if_not_exists(untold, :none), :note)")
        values |= {":none": [], ":note": [notice]}
    if block:
        values[":block"] = {block}
    removed = [name for name in (*OF_A_STATE, *removes) if name not in sets]
    return {
        "Update": {
            "Key": connections.key(id)._asdict(),
            "UpdateExpression": f"SET {', '.join(parts)} REMOVE {', '.join(removed)}"
            + (" ADD blocked :block" if block else ""),
            "ConditionExpression": "turn = :was",
            "ExpressionAttributeNames": {"#state": "state"} | {f"#{name}": name for name in sets},
            "ExpressionAttributeValues": values,
        }
    }


def as_partner(profile: Item, id: str) -> connections.Partner:
    """Return what a connection stores of its partner."""
    return {name: profile[name] for name in connections.PROFILE if name in profile} | {"id": id}


def _build_match(pair: str, me: Item, other: Item, now: datetime) -> list[Action]:
    """Build the transaction that matches two waiting connections."""
    mine = as_partner(connections.profile(me), connections.id_of(me))
    theirs = as_partner(other, waiting_pool.id_of(other))
    return [
        build_change(mine["id"], me["turn"], "matched", pair, now, {"partner": theirs}, CONNECTED),
        build_change(theirs["id"], other["sk"], "matched", pair, now, {"partner": mine}, CONNECTED),
        {"Delete": {"Key": waiting_pool.entry_key(me["lobby"], me["turn"])._asdict()}},
        {"Delete": {"Key": {"pk": other["pk"], "sk": other["sk"]}}},
    ]


def _build_leave(
    me: Item, to: Target, state_id: str, now: datetime, kept: Item, last_state: str, notice: str, block: str
) -> Action:
    """Build the update of a connection that leaves its state."""
    sets: dict[str, Any] = {"former": _former(me)} if _former(me) and to != "gone" else {}
    if to == "gone":
        sets |= {"ttl": times.epoch(now + connections.GONE), "was": last_state or me["state"]}
        sets |= {"kept": kept} if kept else {}
    ends = connections.ENDS if to == "gone" else ()
    return build_change(
        connections.id_of(me), me["turn"], to, state_id, now, sets, notice, block=block, removes=ends
    )


def _build_free(
    me: Item, lost: connections.Partner, state_id: str, now: datetime, keep_until: int, block: str
) -> list[Action]:
    """Build the actions for a lost partner: it waits in the pool, or is kept for the connection that left."""
    sets: dict[str, Any] = {"former": me["who"]}
    if keep_until:
        sets["kept"] = {"id": connections.id_of(me), "until": keep_until}
    freed = build_change(lost["id"], me["turn"], "waiting", state_id, now, sets, DISCONNECTED, block=block)
    if keep_until:
        return [freed]
    return [freed, {"Put": {"Item": waiting_pool.build_entry(me["lobby"], state_id, lost, me["who"])}}]


def _former(me: Item) -> str:
    """Return the visitor that was the last partner, or an empty text."""
    return str(me["partner"]["who"] if "partner" in me else me.get("former", ""))


def _after(me: Item, state: str, state_id: str, now: datetime) -> Item:
    """Return a connection as it is after a change of state."""
    remaining = {name: value for name, value in me.items() if name not in OF_A_STATE}
    return remaining | {"state": state, "turn": state_id, "since": times.to_sort_key(now)}
