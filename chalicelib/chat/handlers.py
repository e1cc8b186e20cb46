"""Chat: two strangers, matched at once, exactly once.

    connect -> pairs.join, pairs.seek -> lobby.settle: whoever was matched, or lost a partner, is told
    frame   -> connections.touch -> frames.ACTIONS -> lobby.settle; too fast: refused, then closed

| what | where |
|---|---|
| a connection's item, and how often it may speak | `connections.py` |
| who waits, and who suits whom | `pool.py` |
| the transactions between waiting, matched, idle and gone | `pairs.py` |
| telling a connection of its state, once and in order | `notes.py` |
| telling, matching and freeing whom a change concerns; the sweep | `lobby.py` |
| what each frame does | `frames.py` |
| coming back with a token; reports; live topics | `resume.py`, `reports.py`, `topics.py` |

Nothing of a conversation is stored, and of a person nothing at all: no address, no token, no agent. Reports
alone leave a keyed digest of their sender's address behind, for half an hour (reports.py).
"""

from datetime import datetime
from typing import Any

from chalicelib.chat import connections, matching, matchmaker, protocol, reports, resume, subscriptions
from chalicelib.chat.actions import ACTIONS, Frame
from chalicelib.chat.connections import Arrival, Refusals
from chalicelib.chat.gateway import TOO_FAST, Posts, endpoint
from chalicelib.chat.schemas import Message
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy
from chalicelib.settings import Settings
from chalicelib.telemetry import logs


def connect(table: Table, posts: Posts, event: Any, now: datetime, settings: Settings) -> dict[str, int]:
    """Let a client in: it waits in its lobby, or takes the place that its token is for, and is matched.

    It cannot be told yet, for it is not open: it asks for its status as soon as it is. Answers the status of
    the handshake. A repeated event does nothing. Costs 6 WCU and 1 RCU; matched at once, 8 WCU more, and 2
    WCU and 1 RCU for telling the other.
    """
    if protocol.is_foreign(event, settings):
        return {"statusCode": 403}
    try:
        arrival = protocol.arrival(event)
    except ValueError:
        return {"statusCode": 400}
    try:
        item = _resumed(table, posts, arrival, now, settings) if arrival.resume else None
        if item is None:
            item = connections.newcomer(arrival, now)
            if not matching.join(table, item, now):
                return {"statusCode": 200}
    except Busy:
        return {"statusCode": 503}
    try:
        matched = matching.seek(table, item, now, settings) if item["state"] == "waiting" else item
        if matched and "partner" in matched:
            matchmaker.settle(table, posts, [matched["partner"]["id"]], now, settings)
    except Busy:
        logs.logger().warning("a newcomer waits, for the table is busy: its status looks again")
    return {"statusCode": 200}


def _resumed(table: Table, posts: Posts, arrival: Arrival, now: datetime, settings: Settings) -> Item | None:
    """Let a newcomer take the place that its token is for; close the connection that had it."""
    taken = resume.take_over(table, arrival, now, settings)
    if taken is None:
        return None
    item, before = taken
    subscriptions.forget(table, before)
    posts.close(before["at"], connections.id_of(before))
    return item


def hear(
    table: Table,
    posts: Posts,
    sources: subscriptions.Sources,
    event: Any,
    now: datetime,
    settings: Settings,
    refusals: Refusals | None = None,
) -> None:
    """Handle a frame. The sender is told what is wrong with it, and its connection stays.

    Every frame counts for the rate, by the time at which API Gateway took it. A connection whose frames are
    refused ten times in a row is closed. So is one that nobody knows, which a client has only when it was
    taken for dead: its client connects again.

    Cost: 1 WCU, and the cost of its action; too fast 2 WCU, and nothing while `refusals` knows of it.
    """
    id, at = event["requestContext"]["connectionId"], endpoint(event["requestContext"])
    arrived, refusals = connections.arrived(event["requestContext"], now), refusals or Refusals()
    if refused := refusals.count(id, arrived):
        _refuse(table, posts, at, id, refused, now, settings)
        return
    frame = protocol.read(str(event.get("body")))
    action = ACTIONS.get(frame["action"]) if isinstance(frame, dict) else None
    said = protocol.part(frame, action.takes) if action and isinstance(frame, dict) else None
    wrong = frame if isinstance(frame, str) else "bad_request" if action is None or said is None else ""
    text = said.text if isinstance(said, Message) else ""
    if len(text) > settings.chat_length:
        text, wrong = "", "too_long"
    proof = reports.digest(settings, text) if text else b""
    try:
        touched = connections.touch(table, id, arrived, settings, proof)
        refused = refusals.take(id, touched)
        if refused:
            _refuse(table, posts, at, id, refused, now, settings)
        elif touched.me is None:
            posts.close(at, id)
        elif wrong or action is None:
            posts.send(at, id, protocol.error(wrong))
        else:
            me, address = touched.me, event["requestContext"].get("identity", {}).get("sourceIp", "")
            todo = action.take(Frame(table, posts, sources, settings, now, me, said, address))
            is_unsettled = me["state"] == "waiting" or me.get("untold")
            matchmaker.settle(table, posts, (*todo, id) if is_unsettled else todo, now, settings)
    except Busy:
        posts.send(at, id, protocol.error("slow_down"))


def _refuse(
    table: Table, posts: Posts, at: str, id: str, refused: int, now: datetime, settings: Settings
) -> None:
    """Tell a connection to slow down, or close it when it has been told often enough."""
    if refused < connections.REFUSALS:
        posts.send(at, id, protocol.error("slow_down"))
    elif refused == connections.REFUSALS:
        posts.send(at, id, protocol.error("slow_down"))
        posts.close(at, id, TOO_FAST)
        try:  # $disconnect does the same, if it comes
            lost = matchmaker.lose(table, id, now, settings, may_return=False)
            matchmaker.settle(table, posts, lost, now, settings)
        except Busy:
            logs.logger().warning("a connection that was closed is freed by its disconnect, or the sweep")


def disconnect(table: Table, posts: Posts, event: Any, now: datetime, settings: Settings) -> None:
    """Free whoever was with a connection that is closed. Late and repeated events do nothing.

    A client that closes with 1000 has left for good. Costs 1 RCU and 4 WCU, of one who waits 2 more, with a
    partner 4 more and what it costs to tell and match it.
    """
    context = event["requestContext"]
    left = context.get("disconnectStatusCode") == 1000
    lost = matchmaker.lose(table, context["connectionId"], now, settings, may_return=not left)
    matchmaker.settle(table, posts, lost, now, settings)
