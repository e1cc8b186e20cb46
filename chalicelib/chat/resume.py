"""Resuming: a client that was cut off takes over its connection with a new one.

A signed token names the connection that it was given to. It is valid while that connection is open, and a
minute longer.

- **Before a cut** (API Gateway closes a connection after two hours) the client opens a second connection with
  the token. It takes over the first one in one transaction, and the partner does not notice.
- **After a cut** the partner gets `partner_disconnected` and waits. When the lost connection had a token and
  was not closed by its client, the partner is kept for it, for a minute at most. After that the partner's
  first frame or the sweep puts it into the pool, and its `next` or `find` does so at any time.

The items are those of connections.py. Invariant: a connection that is taken over is `gone` afterwards, so a
token can be used once.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from chalicelib import times
from chalicelib.api.auth import decode, derive_key, derive_keys
from chalicelib.chat import connections, matching, waiting_pool
from chalicelib.chat.connections import Handshake
from chalicelib.context import Context
from chalicelib.dynamo.items import Item
from chalicelib.settings import Settings

# Attributes of the resumed connection. A new token has its own subject, and is the visitor of that subject.
INHERITED = ("lobby", "interests", "former", "last_pair", "said")
OF_A_PERSON = ("who", "subject")
PURPOSE = "resume"
LONGEST = 512  # characters of a token that is verified: a real one has about 150

Takeover = tuple[Item, list[matching.Action]]
"""The new connection, and the transaction that writes it."""


def create_token(settings: Settings, id: str, now: datetime) -> str:
    """Sign the token with which another connection can take over this one.

    It expires when this connection has certainly ended, and a minute later.

    Raises: OSError without a secret.
    """
    import jwt

    claims = {"c": id, "until": times.epoch(now + connections.LONGEST + connections.RESUMABLE)}
    return jwt.encode(claims, derive_key(settings, PURPOSE), algorithm="HS256")


def read_token(settings: Settings, text: str, now: datetime) -> str:
    """Return the connection that a token names, or an empty text for one that is invalid or expired."""
    if len(text) > LONGEST:
        return ""
    try:
        claims = decode(text, derive_keys(settings, PURPOSE), algorithms=["HS256"])
        return str(claims["c"]) if times.epoch(now) <= claims["until"] else ""
    except Exception:  # a malformed token, or no secret
        return ""


def take_over(context: Context, handshake: Handshake) -> tuple[Item, Item] | None:
    """Move the session that a token names to a new connection. Return the items of both connections.

    Returns None when the connection cannot be resumed any more. Then the new one joins the pool as usual.

    Cost: 1 RCU, and 2 WCU for each item: the new connection (1 more for its index entry), the one before, and
    the partner or the pool entry.
    """
    for _ in range(matching.TRIES):
        id = read_token(context.settings, handshake.resume_token, context.now)
        before = context.table.get(connections.key(id), consistent=True) if id else None
        if before is None or id == handshake.id or not _is_in_time(before, context.now):
            return None
        inherited = INHERITED if handshake.subject else (*INHERITED, *OF_A_PERSON)
        new = connections.build_item(handshake, context.now) | {
            n: before[n] for n in inherited if n in before
        }
        if blocked := {*before.get("blocked", ()), *handshake.blocked}:
            new["blocked"] = blocked
        new |= connections.inherit_rate(before)
        for item, actions in _takeovers(before, new, context.now):
            refused = context.table.transact(actions)
            if not refused:
                return item, before
            if 1 in refused:
                return None  # a duplicate event
            if 0 in refused:
                break  # another request has changed the connection
        else:
            return None
    return None


def _is_in_time(before: Item, now: datetime) -> bool:
    if before["state"] != "gone":
        return True
    return (
        before.get("last_state") not in ("resumed", "left")
        and connections.time_in_state(before, now) <= connections.RESUMABLE
    )


def _takeovers(before: Item, new: Item, now: datetime) -> Iterator[Takeover]:
    """Build the possible takeovers of a connection, best first. A matched one includes its partner."""
    if pair := _take_pair(before, new, now):
        yield pair
    if before["state"] != "matched":
        yield _take_alone(before, new, now)


def _take_pair(before: Item, new: Item, now: datetime) -> Takeover | None:
    """Build the takeover of a connection with a partner or a kept partner. None without either."""
    partner, kept = before.get("partner"), before.get("kept")
    pair, state_id, notice = before.get("pair"), before["state_id"], ""
    if before["state"] == "gone":
        if not kept or kept["until"] < times.epoch(now):
            return None
        partner, pair, state_id = kept["partner"], before["last_pair"], kept["state_id"]
        notice = matching.CONNECTED
    if partner is None or partner["who"] in (new["who"], *new.get("blocked", ())):
        return None
    state = matching.new_pair(now)
    mine = matching.as_partner(connections.profile(new), connections.id_of(new))
    item = new | state.attributes | {"partner": partner, "pair": pair, "notices": [matching.CONNECTED]}
    sets = {"partner": mine, "pair": pair}
    condition = matching.has_not_blocked(new["who"])
    change = matching.Update(partner["id"], state_id, state, sets, notice, condition=condition)
    return item, [_build_leave(before, now), _build_put(item), change.action]


def _take_alone(before: Item, new: Item, now: datetime) -> Takeover:
    """Build the takeover of an idle or waiting connection. A waiting one keeps its position in the pool."""
    state = before.get("last_state", "waiting") if before["state"] == "gone" else before["state"]
    is_waiting = before["state"] == "waiting"
    since = times.parse(before["since"]) if is_waiting else now
    state_id = waiting_pool.new_state_id(connections.id_of(new), since)
    item = new | {"state": "idle" if state == "idle" else "waiting", "state_id": state_id}
    item |= {"since": times.to_sort_key(since)}
    actions = [_build_leave(before, now), _build_put(item)]
    if is_waiting and "kept" not in before:
        actions.append(
            {"Delete": {"Key": waiting_pool.entry_key(before["lobby"], before["state_id"])._asdict()}}
        )
    if item["state"] == "waiting":
        profile, former = connections.profile(item), item.get("former", "")
        entry = waiting_pool.build_entry(item["lobby"], state_id, profile, former)
        actions.append({"Put": {"Item": entry}})
    return item, actions


def _build_put(item: Item) -> matching.Action:
    return {"Put": {"Item": item, "ConditionExpression": "attribute_not_exists(pk)"}}


def _build_leave(before: Item, now: datetime) -> matching.Action:
    id = connections.id_of(before)
    state = matching.State("gone", waiting_pool.new_state_id(id, now), times.to_sort_key(now))
    sets: dict[str, Any] = {"ttl": times.epoch(now + connections.GONE), "last_state": "resumed"}
    condition = matching.is_unchanged(before, "said", "blocked")  # the new connection has inherited them
    return matching.Update(
        id, before["state_id"], state, sets, removes=connections.ENDS, condition=condition
    ).action
