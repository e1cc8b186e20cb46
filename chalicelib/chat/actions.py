"""Frames: what a client may say, and what that does.

Each action answers whom it concerns: they are told and matched afterwards (lobby.py).
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct

from chalicelib import times
from chalicelib.api import codec
from chalicelib.chat import (
    connections,
    matching,
    matchmaker,
    outbox,
    protocol,
    reports,
    resume,
    subscriptions,
)
from chalicelib.chat.gateway import Posts
from chalicelib.chat.matching import DISCONNECTED
from chalicelib.chat.matchmaker import Turns
from chalicelib.chat.schemas import Message, ReportFrame, Subscription
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from chalicelib.telemetry import logs


class Nothing(Struct):
    """What an action without a field of its own takes."""


class Frame(NamedTuple):
    """A frame, who has sent it, and what its action needs."""

    table: Table
    posts: Posts
    sources: subscriptions.Sources
    settings: Settings
    now: datetime
    me: Item
    said: Any
    address: str = ""

    @property
    def id(self) -> str:
        """The sender."""
        return connections.id_of(self.me)

    def answer(self, **fields: Any) -> None:
        """Post a frame to the sender."""
        self.posts.send(self.me["at"], self.id, codec.encode(fields))

    def refuse(self, code: str) -> Turns:
        """Tell the sender what is wrong; nobody else is concerned."""
        self.posts.send(self.me["at"], self.id, protocol.error(code))
        return ()

    def move(self, to: matching.Target, **more: Any) -> Turns:
        """Bring the sender into another state, unless its turn is over; answer it and whom it has left."""
        moved = matching.move(self.table, self.me, to, self.now, **more)
        return (self.id, moved.lost) if moved and moved.lost else (self.id,)


def status(frame: Frame) -> Turns:
    """Answer the sender's state. What it was not told comes after; whoever is at telling it is waited for.

    While the answer is on its way somebody else may change the state, and tell: then the answer comes late,
    and another one follows. So the last status is always true. Costs 1 RCU.
    """
    me: Item | None = frame.me
    turn = ""
    while me and me["turn"] != turn:
        turn = me["turn"]
        frame.answer(type="status", state=me["state"], since=times.to_iso(times.parse(me["since"])))
        me = connections.find(frame.table, frame.id)
        if me and me.get("untold") and "telling" not in me:  # what is new is told after this answer
            break
    if me and me.get("untold"):
        outbox.wait_until_told(frame.table, frame.posts, frame.id, frame.now)
    return ()


def message(frame: Frame) -> Turns:
    """Hand a text to the partner: one write, which has found the partner and decided on the rate, one post.

    It is refused while the partner cannot be told of the pair: `partner_connected` comes before any message.
    The first of a pair makes sure of that, for 1 WCU and 1 RCU. When the partner is dead,
    the sender is told that it has lost it, and waits; when another connection has taken the partner's place
    meanwhile, the text goes there.
    """
    text = {"type": "message", "text": frame.said.text, "time": times.to_iso(frame.now)}
    return _relay(frame, codec.encode(text))


def typing(frame: Frame) -> Turns:
    """Tell the partner that the sender is typing, if the partner knows of the pair already."""
    return _relay(frame, codec.encode({"type": "typing"}))


def _relay(frame: Frame, sent: str) -> Turns:
    me, table, now = frame.me, frame.table, frame.now
    if me["state"] != "matched":
        return frame.refuse("not_matched")
    id, at = me["partner"]["id"], me["partner"]["at"]
    if "met" not in me and not _introduce(frame, id):
        return frame.refuse("slow_down") if isinstance(frame.said, Message) else ()
    outcome = outbox.deliver(table, frame.posts, id, at, sent, now)
    if outcome == "later":
        return frame.refuse("slow_down")
    if outcome != "gone":
        return ()
    if lost := matchmaker.lose(table, id, now, frame.settings):
        return lost
    after = connections.find(table, frame.id)
    partner = after["partner"] if after and "partner" in after else me["partner"]
    if after and partner["id"] != id and partner["who"] == me["partner"]["who"]:  # over another connection
        return _relay(frame._replace(me=after), sent)
    return frame.move("waiting", note=DISCONNECTED)  # its item had expired, or it left just now


def _introduce(frame: Frame, partner: str) -> bool:
    """Make sure that the partner knows of the pair, and note that it does; return whether it does.

    Only a message waits for that. Frames of one connection may be handled side by side, so each looks until
    the note is there.
    """
    table, me = frame.table, frame.me
    if (connections.find(table, partner) or {}).get("untold") and not (
        isinstance(frame.said, Message) and outbox.wait_until_told(table, frame.posts, partner, frame.now)
    ):
        return False
    values = {":yes": True, ":turn": me["turn"]}
    table.update(connections.key(frame.id), "SET met = :yes", condition="turn = :turn", values=values)
    return True


def next(frame: Frame) -> Turns:
    """Leave the partner, and wait for another; who waits already goes on, and is kept for nobody."""
    return (frame.id,) if frame.me["state"] == "waiting" and "kept" not in frame.me else frame.move("waiting")


def leave(frame: Frame) -> Turns:
    """Leave partner and pool, and be idle."""
    return () if frame.me["state"] == "idle" else frame.move("idle")


def find(frame: Frame) -> Turns:
    """Wait for a partner, unless there is one."""
    return () if frame.me["state"] == "matched" else next(frame)


def report(frame: Frame) -> Turns:
    """Part from the partner for ever; both wait again.

    Whoever reports too often is parted all the same, so that nobody has to stay with anybody. The report is
    not kept then, and the sender is told `slow_down`.

    Cost: 1 RCU, 9 WCU, and 2 per KB of the report.
    """
    me, table = frame.me, frame.table
    if me["state"] != "matched":
        return frame.refuse("not_matched")
    partner = connections.find(table, me["partner"]["id"])
    is_kept = reports.has_room(table, me, frame.address, frame.now, frame.settings)
    kept = [reports.action(me, partner, frame.said, frame.now, frame.settings)] if is_kept else []
    if not is_kept:
        frame.refuse("slow_down")
    # Nobody can make a stranger's item grow without end: the oldest hundred partings of each are remembered.
    sides = {side for side, one in (("mine", me), ("theirs", partner or {})) if reports.may_block(one)}
    return frame.move("waiting", block=sides, extra=kept)


def subscribe(frame: Frame) -> Turns:
    """Listen to a topic."""
    name = frame.said.topic
    topic = subscriptions.canonical(frame.sources, name)
    if topic is None:
        return frame.refuse("bad_request")
    most = frame.settings.topic_listeners
    match subscriptions.subscribe(frame.table, frame.me, topic, name, frame.now, most):
        case "too_many_topics":
            return frame.refuse("bad_request")
        case "too_many_listeners":
            return frame.refuse("slow_down")
    return ()


def unsubscribe(frame: Frame) -> Turns:
    """Listen to a topic no more."""
    topic = subscriptions.canonical(frame.sources, frame.said.topic)
    if topic is None:
        return frame.refuse("bad_request")
    subscriptions.unsubscribe(frame.table, frame.id, topic)
    return ()


def ping(frame: Frame) -> Turns:
    """Answer; the connection is not idle, and who waits is looked after."""
    frame.answer(type="pong")
    return ()


def come_back(frame: Frame) -> Turns:
    """Give the token with which another connection takes this one's place. Costs 1 WCU."""
    try:
        token = resume.token(frame.settings, frame.id, frame.now)
    except Exception as error:  # no secret, or SSM does not answer
        logs.log_error("a token cannot be signed", error)
        return frame.refuse("slow_down")
    frame.answer(type="resume", token=token)
    values = {":yes": True}
    frame.table.update(
        connections.key(frame.id),
        "SET resumable = :yes",
        condition="attribute_exists(pk)",
        values=values,
        idempotent=True,
    )
    return ()


class Action(NamedTuple):
    """What an action takes from its frame, and what it does."""

    takes: type[Struct]
    take: Callable[[Frame], Turns]


ACTIONS = {
    "status": Action(Nothing, status),
    "message": Action(Message, message),
    "typing": Action(Nothing, typing),
    "next": Action(Nothing, next),
    "leave": Action(Nothing, leave),
    "find": Action(Nothing, find),
    "report": Action(ReportFrame, report),
    "subscribe": Action(Subscription, subscribe),
    "unsubscribe": Action(Subscription, unsubscribe),
    "ping": Action(Nothing, ping),
    "resume": Action(Nothing, come_back),
}
