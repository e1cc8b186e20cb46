"""Coming back: a client that was cut off takes its place again, under another connection.

A token says which connection it was given to, and is good for as long as that one is open and a minute more.

- **Before a cut** (API Gateway cuts after two hours) the client opens a second connection with the token: it
  takes the first one's place in one transaction, and the partner notices nothing.
- **After it** the partner was told `partner_disconnected` and waits, as anybody who loses a partner. But whom
  it lost holds a token and did not close by itself: so it is kept for that one, for a minute at most. Its own
  first frame after that, its `next` or `find` at any time, or the sweep, lets it go.
"""

from datetime import datetime
from typing import Any

from chalicelib import times
from chalicelib.api.auth import derive_key
from chalicelib.chat import connections, matching, waiting_pool
from chalicelib.chat.connections import Arrival
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings

INHERITED = ("who", "lobby", "interests", "blocked", "former")  # by the connection that comes after
PURPOSE = "resume"
LONGEST = 512  # characters of a token that is looked at: ours have about 150

Taking = tuple[Item, list[matching.Action]]
"""The connection as it will be, and the transaction that makes it so."""


def token(settings: Settings, id: str, now: datetime) -> str:
    """Sign the token with which another takes this connection's place. Raises OSError without a secret.

    It expires when no connection of today can be open any more.
    """
    import jwt

    claims = {"c": id, "until": times.epoch(now + connections.LONGEST + settings.chat_resume)}
    return jwt.encode(claims, derive_key(settings, PURPOSE), algorithm="HS256")


def read(settings: Settings, text: str, now: datetime) -> str:
    """Read whose place a token is for; empty for one that was not made here, or has expired."""
    import jwt

    if len(text) > LONGEST:
        return ""
    try:
        claims = jwt.decode(text, derive_key(settings, PURPOSE), algorithms=["HS256"])
        return str(claims["c"]) if times.epoch(now) <= claims["until"] else ""
    except Exception:  # whatever a text does to its parser, or there is no secret
        return ""


def take_over(table: Table, arrival: Arrival, now: datetime, settings: Settings) -> tuple[Item, Item] | None:
    """Let a connection that has just come take the place of the one that its token was given to.

    Answers the items of both; None when there is no such place any more: then it joins as anybody does. The
    one before is `gone` afterwards, so that a token is good once. Costs 1 RCU, and 2 WCU for each item: the
    new connection (2 more for its index entry), the one before, the partner or the place in the pool.
    """
    for _ in range(matching.TRIES):
        id = read(settings, arrival.resume, now)
        before = table.get(connections.key(id), consistent=True) if id else None
        if before is None or id == arrival.id or not _is_in_time(before, now, settings):
            return None
        new = connections.newcomer(arrival, now) | {n: before[n] for n in INHERITED if n in before}
        new |= connections.inherited_window(before)
        for item, actions in filter(None, (_with_partner(before, new, now), _alone(before, new, now))):
            refused = table.transact(actions)
            if not refused:
                return item, before
            if 1 in refused:
                return None  # this very event has been here before
    return None


def _is_in_time(before: Item, now: datetime, settings: Settings) -> bool:
    if before["state"] != "gone":
        return True
    return (
        before.get("was") not in ("resumed", "left") and connections.age(before, now) <= settings.chat_resume
    )


def _with_partner(before: Item, new: Item, now: datetime) -> Taking | None:
    """Write down the taking over of a pair, or of the partner that was kept; None when there is none."""
    partner, kept = before.get("partner"), before.get("kept")
    if before["state"] == "gone":
        if not kept or kept["until"] < times.epoch(now):
            return None
        partner, was = kept["partner"], kept["turn"]
    elif partner:
        was = before["turn"]
    else:
        return None
    turn = matching.new_pair()
    note = "" if before["state"] == "matched" else matching.CONNECTED
    mine = matching.as_partner(connections.card(new), connections.id_of(new))
    item = new | {"state": "matched", "turn": turn, "since": times.to_sort_key(now), "partner": partner}
    item["untold"] = [matching.CONNECTED]
    return item, [
        _leave(before, now),
        _put(item),
        matching.change(partner["id"], was, "matched", turn, now, {"partner": mine}, note),
    ]


def _alone(before: Item, new: Item, now: datetime) -> Taking:
    """Write down the taking over of a place without a partner: idle, or waiting, for as long as before."""
    state = before.get("was", "waiting") if before["state"] == "gone" else before["state"]
    waits_already = before["state"] == "waiting"
    since = times.parse(before["since"]) if waits_already else now
    turn = waiting_pool.turn(connections.id_of(new), since)
    item = new | {
        "state": "idle" if state == "idle" else "waiting",
        "turn": turn,
        "since": times.to_sort_key(since),
    }
    actions = [_leave(before, now), _put(item)]
    if waits_already and "kept" not in before:
        actions.append({"Delete": {"Key": waiting_pool.entry_key(before["lobby"], before["turn"])._asdict()}})
    if item["state"] == "waiting":
        place = waiting_pool.entry(item["lobby"], turn, connections.card(item), item.get("former", ""))
        actions.append({"Put": {"Item": place}})
    return item, actions


def _put(item: Item) -> matching.Action:
    return {"Put": {"Item": item, "ConditionExpression": "attribute_not_exists(pk)"}}


def _leave(before: Item, now: datetime) -> matching.Action:
    turn = waiting_pool.turn(connections.id_of(before), now)
    sets: dict[str, Any] = {"ttl": times.epoch(now + connections.GONE), "was": "resumed"}
    return matching.change(
        connections.id_of(before), before["turn"], "gone", turn, now, sets, removes=connections.ENDS
    )
