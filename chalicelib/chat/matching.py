"""Matching: the transactions between the states of connections, each of them exactly once.

| state | means |
|---|---|
| `waiting` | in the pool of its lobby, or `kept` for a lost partner that may return |
| `matched` | with a `partner`; both have the same state id |
| `idle` | neither: the client has left, and may wait again |
| `gone` | the connection is closed or resumed by another |

The items are those of connections.py, waiting_pool.py and evidence.py. A transaction that matches a
connection, or takes its partner away, appends a notice for it (outbox.py).

Invariants:

- A connection enters the pool before it reads it. So of two connections that come at the same time the later
  one sees the other, and of many at most one is left over.
- Every transaction is conditional on the state ids that were read. The loser of a race reads and decides
  again, so an acknowledged change has taken effect.
- The transaction of a pair is also conditional on neither having blocked the other, nor the person of the
  one that looks for a partner (blocks.py).
- The visitor id of a connection never changes, so two connections of one person are never candidates for each
  other.
- `partner_connected` is never the last pending notice of a connection that is not matched.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from chalicelib import times
from chalicelib.chat import blocks, connections, evidence, waiting_pool
from chalicelib.context import Context
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy
from chalicelib.telemetry import metrics

TRIES = 40  # lost races in a row, until the connection waits for its next frame or the sweep
# Attributes that end with a state. The digests of messages stay, because a pair may be resumed.
OF_A_STATE = ("former", "kept", "partner", "pair", "is_introduced")
PERSON = 4  # the index of the condition on a person's blocks, among the actions that match two
CONNECTED, DISCONNECTED = "partner_connected", "partner_disconnected"

Target = Literal["waiting", "idle", "gone"]
Action = Mapping[str, Any]
Condition = tuple[str, dict[str, Any]]
"""A part of a condition that follows another, and its values."""
ALWAYS: Condition = ("", {})


class Change(NamedTuple):
    """A change of a connection's state. Its partner, if it has one, waits again.

    `keep_until` is the second until which the partner waits for this connection and is matched with no other.
    `last_state` is stored on a connection that is gone. Its default is the state before, and `left` means
    that it does not return. `notice` is delivered to this connection. `blocks` is a visitor that it is never
    matched with again, its partner if it has one. `extra` are actions of the same transaction.
    """

    to: Target
    keep_until: int = 0
    last_state: str = ""
    notice: str = ""
    blocks: str = ""
    extra: Sequence[Action] = ()


class Changed(NamedTuple):
    """A connection after a change of state, and the id of the partner that it has lost, if any.

    `was_changed` is False when there was nothing to change.
    """

    item: Item
    lost: str = ""
    was_changed: bool = True


class State(NamedTuple):
    """A state that begins now: its name, its id and its time."""

    name: str
    id: str
    since: str

    @property
    def attributes(self) -> Item:
        """Return the attributes of a connection in this state."""
        return {"state": self.name, "state_id": self.id, "since": self.since}


class Update(NamedTuple):
    """The update of a connection that has the state id `before`, and gets another state."""

    id: str
    before: str
    state: State
    sets: Mapping[str, Any] = {}
    notice: str = ""
    blocks: str = ""  # a visitor that it is never matched with again
    removes: Sequence[str] = ()
    condition: Condition = ALWAYS

    @property
    def action(self) -> Action:
        """Build the action of a transaction."""
        sets = {**self.state.attributes, **self.sets}
        values = {":before": self.before} | {f":_{name}": value for name, value in sets.items()}
        parts = [f"#{name} = :_{name}" for name in sets]
        if self.notice:
            parts.append("notices = list_append(if_not_exists(notices, :none), :notice)")
            values |= {":none": [], ":notice": [self.notice]}
        removed = [name for name in (*OF_A_STATE, *self.removes) if name not in sets]
        expression = f"SET {', '.join(parts)} REMOVE {', '.join(removed)}"
        if self.blocks:
            expression += " ADD blocked :blocks"
            values[":blocks"] = {self.blocks}
        condition, more = self.condition
        return {
            "Update": {
                "Key": connections.key(self.id)._asdict(),
                "UpdateExpression": expression,
                "ConditionExpression": f"state_id = :before{condition}",
                "ExpressionAttributeNames": {f"#{name}": name for name in sets},
                "ExpressionAttributeValues": values | more,
            }
        }


def new_pair(now: datetime) -> State:
    """Return the state of two partners."""
    return State("matched", f"PAIR#{connections.new_token()}", times.to_sort_key(now))


def is_in_pool(item: Item) -> bool:
    """Return whether a connection waits for any partner."""
    return item["state"] == "waiting" and "kept" not in item


# -- write ---------------------------------------------------------------------------------------------


def join_pool(context: Context, item: Item) -> bool:
    """Write a new connection and its pool entry. Return False for a duplicate event.

    Cost: 5 WCU, 1 of them for the index.
    """
    item |= _begin("waiting", connections.id_of(item), context.now).attributes
    entry = waiting_pool.build_entry(item["lobby"], item["state_id"], connections.profile(item))
    put = {"Put": {"Item": item, "ConditionExpression": "attribute_not_exists(pk)"}}
    return not context.table.transact([put, {"Put": {"Item": entry}}])


def stay_out(context: Context, item: Item) -> None:
    """Write a new connection that is in no pool, because it only listens. A duplicate event does nothing.

    Cost: 2 WCU, 1 of them for the index.
    """
    item |= _begin("idle", connections.id_of(item), context.now).attributes | {"listening": True}
    context.table.put(item, condition="attribute_not_exists(pk)")


def find_partner(context: Context, me: Item) -> Item | None:
    """Match a waiting connection, and return it with its new state.

    Returns None when there is no partner, or when another handler has matched it. That handler notifies both.
    After a lost race the partner is chosen at random among the first candidates, so that many connections
    that come at the same time do not all try the same one.

    Cost: 1 RCU per 25 entries of the pool, and 8 WCU for a pair (two connections and two entries). With a
    token 2 WCU more per KB of the person's blocks. A lost race costs as much.
    Raises: Busy.
    """
    tried: set[str] = set()
    for number in range(TRIES):
        found = waiting_pool.find_candidates(context, me)
        if not found:
            return None
        other = found[0] if number == 0 else random.choice(found[: 2 * number])  # noqa: S311 (no secret)
        pair = new_pair(context.now)
        refused = context.table.transact(_build_match(pair, me, other))
        if not refused:
            metrics.count(Pairs=1)
            partner = as_partner(other, waiting_pool.id_of(other))
            return _after(me, pair) | {"partner": partner, "pair": name_pair(pair)}
        if 0 in refused:  # another handler has matched this connection, or it has left
            current = connections.find(context.table, connections.id_of(me))
            if current is None or not is_in_pool(current):
                return None
            me = current
        elif PERSON in refused:
            _save_block(context.table, connections.id_of(me), other["who"])
            me = me | {"blocked": {*me.get("blocked", ()), other["who"]}}
        elif other["sk"] in tried and not waiting_pool.delete_if_stale(context.table, other):
            me = me | {"blocked": {*me.get("blocked", ()), other["who"]}}  # it has blocked this visitor
        tried.add(other["sk"])
    return None


def settle(context: Context, me: Item, decide: Callable[[Item], Change | None]) -> Changed:
    """Change a connection as `decide` says, until that has taken effect.

    `decide` gets the connection as it is, and returns None when there is nothing to change. A connection that
    is gone stays gone.

    Cost: that of `change_state`. A lost race costs as much, and 1 RCU.
    Raises: Busy.
    """
    for _ in range(TRIES):
        change = None if me["state"] == "gone" else decide(me)
        if change is None:
            return Changed(me, was_changed=False)
        if changed := change_state(context, me, change):
            return changed
        me = _read_again(context.table, me)
    raise _busy()


def separate(context: Context, me: Item, partner: evidence.Member, extra: Sequence[Action]) -> Changed:
    """Part two partners, and never match the connection with that visitor again.

    `extra` are actions of the same transaction.

    Cost: that of `change_state`. Of two who have parted before 4 WCU and 1 RCU. And the cost of `extra`.
    Raises: Busy.
    """
    for _ in range(TRIES):
        if me.get("partner", me)["who"] == partner.who or me.get("kept", {}).get("id") == partner.id:
            changed = change_state(context, me, Change("waiting", blocks=partner.who, extra=extra))
        else:
            other = context.table.get(connections.key(partner.id), consistent=True)
            theirs = _build_block(other, me["who"]) if other else []
            actions = [*_build_block(me, partner.who), *theirs, *extra]
            changed = None if actions and context.table.transact(actions) else Changed(me)
        if changed:
            return changed
        me = _read_again(context.table, me)
    raise _busy()


def change_state(context: Context, me: Item, change: Change) -> Changed | None:
    """Change the state of a connection, unless it or its partner has changed since it was read.

    Cost: 2 WCU, and 2 for each pool entry that is written or deleted. With a partner 1 RCU and 4 WCU more: 2
    for the partner, and 2 per KB for the evidence of the pair.
    Raises: Busy.
    """
    partner = _read_partner(context.table, me)
    state = _begin(change.to, connections.id_of(me), context.now)
    actions = (
        _build_parting(me, partner, state, change, context.now)
        if partner
        else [_leave(me, state, change, context.now)]
    )
    if is_in_pool(me):
        actions.append({"Delete": {"Key": waiting_pool.entry_key(me["lobby"], me["state_id"])._asdict()}})
    if change.to == "waiting":
        entry = waiting_pool.build_entry(me["lobby"], state.id, connections.profile(me), _former(me))
        actions.append({"Put": {"Item": entry}})
    if context.table.transact([*actions, *change.extra]):
        return None
    after = _after(me, state) | ({"former": _former(me)} if _former(me) else {})
    if notice := _find_notice(me, change):
        after["notices"] = [*me.get("notices", ()), notice]
    return Changed(after, connections.id_of(partner) if partner else "")


def _read_again(table: Table, me: Item) -> Item:
    """Return a connection as it is now. One that has expired is gone."""
    return table.get(connections.key(connections.id_of(me)), consistent=True) or me | {"state": "gone"}


def _read_partner(table: Table, me: Item) -> Item | None:
    """Return the connection of the partner; None without a partner or if it has expired."""
    partner = table.get(connections.key(me["partner"]["id"]), consistent=True) if "partner" in me else None
    return partner if partner and partner["state_id"] == me["state_id"] else None


def _save_block(table: Table, id: str, who: str) -> None:
    """Block a visitor for a connection whose person does, to save futile attempts."""
    table.update(
        connections.key(id),
        "ADD blocked :blocks",
        condition="attribute_exists(pk) AND (attribute_not_exists(blocked) OR size(blocked) < :most)",
        values={":blocks": {who}, ":most": connections.BLOCKED},
        idempotent=True,
    )


def _busy() -> Busy:
    return Busy("The connection is being changed by other requests. Please retry.")


# -- the actions of these transactions -----------------------------------------------------------------


def as_partner(profile: Item, id: str) -> connections.Partner:
    """Return the attributes of a partner that a connection stores."""
    return {name: profile[name] for name in connections.PROFILE if name in profile} | {"id": id}


def name_pair(state: State) -> str:
    """Return the name of a new pair, by its state id."""
    return state.id.removeprefix("PAIR#")


def is_unchanged(item: Item, *names: str) -> Condition:
    """Return the condition that a list or a set of a connection has not grown."""
    parts = [
        f" AND size({name}) = :size_{name}" if name in item else f" AND attribute_not_exists({name})"
        for name in names
    ]
    return "".join(parts), {f":size_{name}": len(item[name]) for name in names if name in item}


def has_not_blocked(who: str) -> Condition:
    """Return the condition that a connection may be matched with a visitor."""
    return " AND NOT contains(blocked, :who)", {":who": who}


def _build_match(pair: State, me: Item, other: Item) -> list[Action]:
    """Build the transaction that matches two waiting connections."""
    mine = as_partner(connections.profile(me), connections.id_of(me))
    theirs = as_partner(other, waiting_pool.id_of(other))

    def build(id: str, before: str, partner: connections.Partner) -> Action:
        sets = {"partner": partner, "pair": name_pair(pair)}
        condition = has_not_blocked(partner["who"])
        return Update(id, before, pair, sets, CONNECTED, removes=("said",), condition=condition).action

    return [
        build(mine["id"], me["state_id"], theirs),
        build(theirs["id"], other["sk"], mine),
        {"Delete": {"Key": waiting_pool.entry_key(me["lobby"], me["state_id"])._asdict()}},
        {"Delete": {"Key": {"pk": other["pk"], "sk": other["sk"]}}},
        *([blocks.build_check(me["who"], other["who"])] if "subject" in me else []),
    ]


def _build_parting(me: Item, partner: Item, state: State, change: Change, now: datetime) -> list[Action]:
    """Build the actions that part a pair. The partner joins the pool, or is kept for the other's return."""
    id = connections.id_of(partner)
    freed = _begin("waiting", id, now)
    theirs: dict[str, Any] = {"former": me["who"], "last_pair": me["pair"]}
    kept: Item = {}
    if change.keep_until:
        kept = {"partner": as_partner(connections.profile(partner), id), "state_id": freed.id}
        kept["until"] = change.keep_until
        theirs["kept"] = {"id": connections.id_of(me), "until": change.keep_until}
    blocks = me["who"] if change.blocks and connections.can_block(partner) else ""
    condition = is_unchanged(partner, "said")
    free = Update(id, me["state_id"], freed, theirs, DISCONNECTED, blocks, condition=condition)
    actions = [
        _leave(me, state, change, now, kept),
        free.action,
        {"Put": {"Item": evidence.build(me, partner, now)}},
    ]
    if not kept:
        profile = connections.profile(partner)
        entry = waiting_pool.build_entry(me["lobby"], freed.id, profile, me["who"])
        actions.append({"Put": {"Item": entry}})
    return actions


def _leave(me: Item, state: State, change: Change, now: datetime, kept: Item | None = None) -> Action:
    """Build the update of a connection that leaves its state."""
    sets: dict[str, Any] = {"former": _former(me)} if _former(me) and state.name != "gone" else {}
    if "pair" in me:
        sets["last_pair"] = me["pair"]
    if state.name == "gone":
        sets |= {"ttl": times.epoch(now + connections.GONE), "last_state": change.last_state or me["state"]}
        sets |= {"kept": kept} if kept else {}
    notice = _find_notice(me, change)
    blocks = change.blocks if connections.can_block(me) else ""
    removes = connections.ENDS if state.name == "gone" else ()
    condition = is_unchanged(me, "said") if "pair" in me else ALWAYS
    return Update(
        connections.id_of(me), me["state_id"], state, sets, notice, blocks, removes, condition
    ).action


def _find_notice(me: Item, change: Change) -> str:
    """Return the notice of a change, and of the end of a pair that was announced in the meantime."""
    is_pending = me["state"] == "matched" and me.get("notices")
    return DISCONNECTED if is_pending and change.to != "gone" else change.notice


def _build_block(me: Item, who: str) -> list[Action]:
    """Build the update by which a connection blocks a visitor and keeps its state. None if it cannot."""
    if not connections.can_block(me):
        return []
    update = {
        "Key": connections.key(connections.id_of(me))._asdict(),
        "UpdateExpression": "ADD blocked :blocks",
        "ConditionExpression": "state_id = :before",
        "ExpressionAttributeValues": {":blocks": {who}, ":before": me["state_id"]},
    }
    return [{"Update": update}]


def _former(me: Item) -> str:
    """Return the visitor that was the last partner, or an empty text."""
    return str(me["partner"]["who"] if "partner" in me else me.get("former", ""))


def _begin(name: str, id: str, now: datetime) -> State:
    return State(name, waiting_pool.new_state_id(id, now), times.to_sort_key(now))


def _after(me: Item, state: State) -> Item:
    """Return a connection as it is after a change of state."""
    return {name: value for name, value in me.items() if name not in OF_A_STATE} | state.attributes
