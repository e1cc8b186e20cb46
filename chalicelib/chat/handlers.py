"""The handlers of a socket's events, and the actions of its frames.

| event | handler | then |
|---|---|---|
| `$connect` | `connect` adds the connection to the pool and looks for a partner | `matchmaker.reconcile` |
| frame | `receive_frame` checks the rate and runs the action | `matchmaker.reconcile` |
| `$disconnect` | `disconnect` marks the connection as gone | `matchmaker.reconcile` |

A frame is a JSON object with an `action`. A frame with a `ref` gets an `ack` once it has taken effect, or an
error with the same `ref`. An action returns the ids of the connections that it concerns. After the action,
these connections get their pending notices, and a partner if they are waiting.

A frame may name the pair that it is meant for. It is `not_matched`, and has no effect, when its sender is no
longer in that pair. Only a report may name a pair that has just parted.

A message passes this module, `evidence.record`, `connections.count_frame`, which reads the partner and checks
the rate in one write, and `gateway.deliver_frame`. The first message of a pair also passes outbox.py. A
message between two clients with receipts also passes receipts.py.

Invariant: no text of a conversation is stored, and nothing that identifies a person: no address, subject,
token or user agent. A connection has keyed digests of its address and its subject, which a report keeps for a
ban (bans.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from chalicelib import times
from chalicelib.api import codec
from chalicelib.chat import (
    bans,
    blocks,
    connections,
    evidence,
    handshake,
    matching,
    matchmaker,
    outbox,
    receipts,
    reports,
    resume,
    subscriptions,
)
from chalicelib.chat.connections import Handshake, RefusalCache
from chalicelib.chat.gateway import TOO_FAST, UNRESPONSIVE, deliver_frame, endpoint_of
from chalicelib.chat.matching import DISCONNECTED, Change
from chalicelib.chat.matchmaker import ConnectionIds
from chalicelib.chat.schemas import Message, Receipt, ReportFrame, Subscription
from chalicelib.context import Context
from chalicelib.dynamo.items import Item
from chalicelib.errors import Busy
from chalicelib.telemetry import logs

T = TypeVar("T")

MAX_FRAME = 8_192  # bytes
MAX_LABEL = 64  # characters of a `ref` or a `pair`


# -- events --------------------------------------------------------------------------------------------


def connect(context: Context, event: Any) -> dict[str, int]:
    """Admit a client: it waits in its lobby, or resumes the connection of its token, and is matched.

    Returns the status of the handshake: 403 for a foreign origin, and for a banned address or subject. A
    token that is not valid counts as none, as on a public REST call. The client cannot receive frames yet, so
    it asks for its status when it is open. A duplicate event does nothing.

    Cost: 5 WCU and 1.5 RCU. Matched at once, 8 WCU more, and 2 WCU and 1 RCU to notify the partner. 2 WCU and
    0.5 RCU for a connection that only listens. With a token 1.5 RCU more.
    """
    if handshake.is_foreign_origin(event, context.settings):
        return {"statusCode": 403}
    try:
        opening = handshake.parse(event)
    except ValueError:
        return {"statusCode": 400}
    try:
        network = bans.find_network(context.settings, event["requestContext"])
        opening = opening._replace(
            network=network, subject=bans.find_subject(context.settings, opening.token)
        )
        if bans.is_banned(context, (opening.network, opening.subject)):
            return {"statusCode": 403}
        opening = opening._replace(blocked=blocks.read(context.table, opening.subject))
        if opening.listens:
            matching.stay_out(context, connections.build_item(opening, context.now))
            return {"statusCode": 200}
        item = _resume(context, opening) if opening.resume_token else None
        if item is None:
            item = connections.build_item(opening, context.now)
            if not matching.join_pool(context, item):
                return {"statusCode": 200}
    except Busy:
        return {"statusCode": 503}
    try:
        matched = matching.find_partner(context, item) if item["state"] == "waiting" else item
        if matched and "partner" in matched:
            matchmaker.reconcile(context, [matched["partner"]["id"]])
    except Busy:
        logs.logger().warning("a new connection is not matched yet: the table is busy")
    return {"statusCode": 200}


def _resume(context: Context, opening: Handshake) -> Item | None:
    """Move a resumed session to its new connection and close the old one. None if it has ended."""
    taken = resume.take_over(context, opening)
    if taken is None:
        return None
    item, before = taken
    subscriptions.unsubscribe_all(context.table, before)
    context.gateway.close(before["endpoint"], connections.id_of(before))
    return item


def receive_frame(
    context: Context,
    sources: subscriptions.Sources,
    event: Any,
    refusals: RefusalCache | None = None,
) -> None:
    """Handle a frame. The sender of a malformed frame gets an error, and its connection stays open.

    Every frame counts for the rate, by the time at which API Gateway received it. A connection whose frames
    are refused ten times in a row is closed. An unknown connection is closed too. It was taken for dead, and
    its client connects again.

    Cost: 1 WCU, and the cost of its action. A frame that is too fast costs at most 2 WCU, and nothing while
    `refusals` has its connection.
    """
    request = event["requestContext"]
    body = parse_frame(str(event.get("body")))
    frame = Frame(
        context,
        sources,
        request["connectionId"],
        endpoint_of(request),
        connections.received_at(request, context.now),
        ref=read_label(body, "ref"),
        pair=read_label(body, "pair"),
        address=request.get("identity", {}).get("sourceIp", ""),
    )
    refusals = refusals or RefusalCache()
    if refused := refusals.count_early(frame.id, frame.received):
        _refuse(frame, refused)
        return
    action = ACTIONS.get(body["action"]) if isinstance(body, dict) else None
    frame.payload = parse_payload(body, action.takes) if action and isinstance(body, dict) else None
    problem = body if isinstance(body, str) else "" if frame.is_well_formed else "bad_request"
    text = frame.payload.text if isinstance(frame.payload, Message) else ""
    if len(text) > context.settings.chat_length:
        text, problem = "", "too_long"
    message = evidence.record(context.settings, text, frame.received) if text else b""
    try:
        counted = connections.count_frame(context, frame.id, frame.received, message)
        refused = refusals.remember(frame.id, counted)
        if refused:
            _refuse(frame, refused)
        elif counted.sender is None:
            context.gateway.close(frame.endpoint, frame.id)
        elif problem or action is None or ("listening" in counted.sender and not action.is_for_listeners):
            frame.reject(problem or "bad_request")
        else:
            frame.sender = counted.sender
            is_stale = bool(frame.pair) and action.is_of_pair and frame.pair != frame.sender.get("pair")
            ids = frame.reject("not_matched") if is_stale else action.run(frame)
            frame.acknowledge()
            is_unsettled = frame.sender["state"] == "waiting" or frame.sender.get("notices")
            if concerned := (*ids, frame.id) if is_unsettled else ids:
                matchmaker.reconcile(context, concerned)
    except Busy:
        frame.reject("slow_down")


def _refuse(frame: Frame, refused: int) -> None:
    """Send `slow_down`. Close the connection with the tenth refusal in a row."""
    context = frame.context
    if refused <= connections.REFUSALS:
        frame.reject("slow_down")
    if refused == connections.REFUSALS:
        try:  # before its $disconnect, which would keep the partner for it
            lost = matchmaker.mark_gone(context, frame.id, may_return=False)
            matchmaker.reconcile(context, lost)
        except Busy:
            logs.logger().warning("a closed connection is left to its $disconnect or to the sweep")
        context.gateway.close(frame.endpoint, frame.id, TOO_FAST)


def disconnect(context: Context, event: Any) -> None:
    """Mark a closed connection as gone, and free its partner. Late and duplicate events do nothing.

    A client that closes with 1000 does not return.

    Cost: 1 RCU and 3 WCU. Of a waiting connection 2 WCU more; with a partner 4 WCU more, and the cost to
    notify and match it.
    """
    request = event["requestContext"]
    has_left = request.get("disconnectStatusCode") == 1000
    lost = matchmaker.mark_gone(context, request["connectionId"], may_return=not has_left)
    matchmaker.reconcile(context, lost)


# -- frames --------------------------------------------------------------------------------------------


def parse_frame(body: str) -> dict[str, Any] | str:
    """Return a frame, or the code of its problem: `too_long` or `bad_request`. Never raises."""
    raw = body.encode(errors="surrogatepass")
    if len(raw) > MAX_FRAME:
        return "too_long"
    try:
        frame: dict[str, Any] = codec.decode(raw, dict[str, Any])
    except ValueError:
        return "bad_request"
    return frame if isinstance(frame.get("action"), str) else "bad_request"


def parse_payload(frame: Mapping[str, Any], kind: type[T]) -> T | None:
    """Return the fields that an action takes from its frame, or None when one is missing or malformed."""
    try:
        return msgspec.convert(frame, kind)
    except msgspec.ValidationError:
        return None


def read_label(frame: Mapping[str, Any] | str, name: str) -> str | None:
    """Return the `ref` or the `pair` of a frame, an empty text without one, or None for a malformed one."""
    if not isinstance(frame, Mapping) or name not in frame:
        return ""
    label = frame[name]
    return label if isinstance(label, str) and 0 < len(label) <= MAX_LABEL else None


def error_frame(code: str, ref: str | None = "") -> str:
    """Build the frame that reports a problem to the sender of a frame, with the frame's `ref`."""
    return codec.encode({"type": "error", "code": code} | ({"ref": ref} if ref else {}))


class NoPayload(Struct):
    """The payload of an action without fields of its own."""


@dataclass
class Frame:
    """A frame that is being handled. `sender` and `payload` are set when it is accepted."""

    context: Context
    sources: subscriptions.Sources
    id: str  # the sender's
    endpoint: str
    received: datetime
    ref: str | None
    pair: str | None  # the one that it is meant for
    address: str
    payload: Any = None
    sender: Item = field(default_factory=dict)
    is_answered: bool = False  # with an error, or by a receipt later on: it gets no `ack` now

    @property
    def is_well_formed(self) -> bool:
        """Return whether the frame has an action, with its payload, and no malformed label."""
        return self.payload is not None and self.ref is not None and self.pair is not None

    @property
    def has_receipts(self) -> bool:
        """Return whether the clients of the sender and of its partner confirm messages."""
        return "receipts" in self.sender and "receipts" in self.sender.get("partner", {})

    def reply(self, **fields: Any) -> None:
        """Post a frame to the sender."""
        self.context.gateway.send(self.endpoint, self.id, codec.encode(fields))

    def acknowledge(self) -> None:
        """Post the `ack` of a frame that has taken effect."""
        if self.ref and not self.is_answered:
            self.reply(type="ack", ref=self.ref)
        self.ref = ""  # whatever happens now

    def reject(self, code: str) -> ConnectionIds:
        """Post an error to the sender. It concerns no other connection."""
        self.is_answered = True
        self.context.gateway.send(self.endpoint, self.id, error_frame(code, self.ref))
        return ()

    def drop(self, code: str) -> None:
        """Note that the frame has had no effect. Only a sender that waits for an `ack` gets an error."""
        if self.ref:
            self.reject(code)

    def settle(self, decide: Callable[[Item], Change | None]) -> ConnectionIds:
        """Change the sender's state as `decide` says. Return the sender and its lost partner."""
        changed = matching.settle(self.context, self.sender, decide)
        self.sender = changed.item
        return (self.id, changed.lost) if changed.lost else ()


# -- actions -------------------------------------------------------------------------------------------


def send_status(frame: Frame) -> ConnectionIds:
    """Send the sender its state. Wait until pending notices are delivered.

    Another handler may change the state, and notify the sender, while the status is on its way. Then the
    status is out of date and another one follows. So the last status is always true.

    Cost: 1 RCU.
    """
    context = frame.context
    item: Item | None = frame.sender
    sent_state = ""
    while item and item["state_id"] != sent_state:
        sent_state = item["state_id"]
        pair = {"pair": item["pair"]} if "pair" in item and "receipts" in item else {}
        since = times.to_iso(times.parse(item["since"]))
        frame.reply(type="status", state=item["state"], since=since, **pair)
        item = connections.find(context.table, frame.id)
        if (
            item and item.get("notices") and "claimed_until" not in item
        ):  # new notices are sent after the status
            break
    if item and item.get("notices"):
        outbox.wait_until_delivered(context, frame.id)
    return ()


def relay_message(frame: Frame) -> ConnectionIds:
    """Post a text to the partner. The write that has counted the frame has also read the partner.

    A message is refused while the partner cannot be notified of the pair, because `partner_connected` comes
    before any message. When the partner is dead, the sender gets `partner_disconnected` and waits. When
    another connection has resumed the partner's in the meantime, the text is posted there. Between clients
    with receipts the `ack` comes with the partner's receipt.

    Cost: one post. The first message of a pair costs 1 WCU and 1 RCU, and one in eight 1 WCU.
    """
    context = frame.context
    evidence.forget_old(context.table, frame.sender, frame.received)
    fields = {"type": "message", "text": frame.payload.text, "time": times.to_iso(context.now)}
    if frame.has_receipts and (id := receipts.new_id(context.settings, frame.sender, frame.ref or "")):
        concerned = _relay(frame, fields | {"id": id})
        frame.is_answered = True
        return concerned
    return _relay(frame, fields)


def relay_typing(frame: Frame) -> ConnectionIds:
    """Notify the partner that the sender is typing, if the partner has been notified of the pair."""
    return _relay(frame, {"type": "typing"})


def _relay(frame: Frame, fields: dict[str, str]) -> ConnectionIds:
    sender, context = frame.sender, frame.context
    if sender["state"] != "matched":
        return frame.reject("not_matched")
    id, endpoint = sender["partner"]["id"], sender["partner"]["endpoint"]
    if "is_introduced" not in sender and not _introduce(frame, id):
        if isinstance(frame.payload, Message):
            return frame.reject("slow_down")
        frame.drop("slow_down")
        return ()
    pair = {"pair": sender["pair"]} if "receipts" in sender["partner"] else {}
    outcome = deliver_frame(context, id, endpoint, codec.encode(fields | pair))
    if outcome == "later":
        return frame.reject("slow_down")
    if outcome != "gone":
        return ()
    if lost := matchmaker.mark_gone(context, id):
        frame.drop("not_matched")
        return lost
    after = connections.find(context.table, frame.id)
    if after and after.get("pair") == sender["pair"] and after["partner"]["id"] != id:  # it was resumed
        frame.sender = after
        return _relay(frame, fields)
    frame.drop("not_matched")  # its item had expired, or it has just left
    lost_partner = Change("waiting", notice=DISCONNECTED)
    return frame.settle(lambda me: lost_partner if me["state_id"] == sender["state_id"] else None)


def _introduce(frame: Frame, partner: str) -> bool:
    """Ensure that the partner has been notified of the pair, and record that. Return whether it has been.

    Only a message waits for the notice. Frames of one connection may be handled in parallel, so each of them
    checks until `is_introduced` is recorded.
    """
    context = frame.context
    if (connections.find(context.table, partner) or {}).get("notices") and not (
        isinstance(frame.payload, Message) and outbox.wait_until_delivered(context, partner)
    ):
        return False
    values = {":yes": True, ":state_id": frame.sender["state_id"]}
    context.table.update(
        connections.key(frame.id), "SET is_introduced = :yes", condition="state_id = :state_id", values=values
    )
    return True


def confirm(frame: Frame) -> ConnectionIds:
    """Post the `ack` of messages that this client has received to their sender.

    Receipts of a pair that has parted, and of messages that were not posted to this connection, are ignored.

    Cost: one post for each message.
    """
    settings, partner = frame.context.settings, frame.sender.get("partner")
    if partner:
        for ref in (receipts.read_ref(settings, frame.sender, id) for id in frame.payload.ids):
            if ref:
                ack = codec.encode({"type": "ack", "ref": ref})
                frame.context.gateway.send(partner["endpoint"], partner["id"], ack)
    return ()


def check_partner(frame: Frame) -> ConnectionIds:
    """Close the partner's connection if it has not confirmed a message for four seconds. It may resume.

    Cost: 1 RCU.
    """
    context = frame.context
    if frame.sender["state"] != "matched":
        return frame.reject("not_matched")
    partner = connections.find(context.table, frame.sender["partner"]["id"])
    if partner is None or not receipts.is_unresponsive(frame.sender, partner, frame.received):
        return ()
    lost = matchmaker.mark_gone(context, connections.id_of(partner))
    context.gateway.close(partner["endpoint"], connections.id_of(partner), UNRESPONSIVE)
    return lost


def find_next(frame: Frame) -> ConnectionIds:
    """Leave the partner and wait for another. A waiting connection keeps its entry in the pool.

    A connection that is kept for its lost partner enters the pool. A partner that comes while the frame is
    being handled stays.
    """
    state_id = frame.sender["state_id"]

    def decide(me: Item) -> Change | None:
        is_new = me["state"] == "matched" and me["state_id"] != state_id
        return None if is_new or matching.is_in_pool(me) else Change("waiting")

    return frame.settle(decide)


def leave(frame: Frame) -> ConnectionIds:
    """Leave the partner and the pool, and become idle.

    A partner that has come while the frame is being handled is announced as disconnected. The frame is
    acknowledged when all notices are delivered, so no partner is announced after its `ack`.
    """
    context = frame.context
    state_id = frame.sender["state_id"]

    def decide(me: Item) -> Change | None:
        is_new = me["state"] == "matched" and me["state_id"] != state_id
        return None if me["state"] == "idle" else Change("idle", notice=DISCONNECTED if is_new else "")

    ids = frame.settle(decide)
    if frame.sender.get("notices") and not outbox.wait_until_delivered(context, frame.id):
        frame.drop("slow_down")
    return ids


def find_partner(frame: Frame) -> ConnectionIds:
    """Wait for a partner, unless there is one."""
    return frame.settle(
        lambda me: None if me["state"] == "matched" or matching.is_in_pool(me) else Change("waiting")
    )


def report_partner(frame: Frame) -> ConnectionIds:
    """Report the partner, or the last partner within a minute. The two never meet again.

    The two are parted, and both wait again. After too many reports the report is not stored, and the sender
    gets `slow_down`.

    Cost: 2 RCU, 11 WCU, and 2 WCU per KB of the report. Of a pair that has parted 2 RCU and 5 WCU instead.
    2 WCU more for two that have tokens.
    """
    sender, context = frame.sender, frame.context
    pair = frame.pair or sender.get("pair") or sender.get("last_pair", "")
    found = evidence.find(context, sender, pair)
    if found is None:
        return frame.reject("not_matched")
    puts = []
    if reports.count_report(context, sender, frame.address):
        puts.append(reports.build_put(sender, found, frame.payload, context.now, context.settings))
    mine, theirs = evidence.read_members(found, sender)
    blocks.block(context, mine, theirs)
    changed = matching.separate(context, sender, theirs, puts)
    frame.sender = changed.item
    if not puts:
        frame.reject("slow_down")
    return (frame.id, changed.lost) if changed.lost else ()


def subscribe(frame: Frame) -> ConnectionIds:
    """Subscribe the sender to a topic, and send it the current value.

    A later change is pushed. The push may overtake the reply; it then has the newer value. The value is null
    while the board, challenge or product does not exist.

    Cost: the read of the value.
    """
    name = frame.payload.topic
    context = frame.context
    topic = subscriptions.canonical(frame.sources, name)
    if topic is None:
        return frame.reject("bad_request")
    match subscriptions.subscribe(context, frame.sender, topic, name, context.settings.topic_listeners):
        case "too_many_topics":
            return frame.reject("bad_request")
        case "too_many_listeners":
            return frame.reject("slow_down")
    frame.reply(type="subscribed", topic=name, value=subscriptions.read_value(context, frame.sources, topic))
    return ()


def unsubscribe(frame: Frame) -> ConnectionIds:
    """Unsubscribe the sender from a topic."""
    topic = subscriptions.canonical(frame.sources, frame.payload.topic)
    if topic is None:
        return frame.reject("bad_request")
    subscriptions.unsubscribe(frame.context.table, frame.id, topic)
    return ()


def send_pong(frame: Frame) -> ConnectionIds:
    """Reply to a ping, which keeps the connection from being idle and lets a waiting one be matched."""
    frame.reply(type="pong")
    return ()


def send_resume_token(frame: Frame) -> ConnectionIds:
    """Send the token with which another connection can resume this one.

    Cost: 1 WCU.
    """
    try:
        token = resume.create_token(frame.context.settings, frame.id, frame.context.now)
    except Exception as error:  # no secret, or SSM is unavailable
        logs.log_error("a resume token cannot be signed", error)
        return frame.reject("slow_down")
    frame.reply(type="resume", token=token)
    frame.context.table.update(
        connections.key(frame.id),
        "SET resumable = :yes",
        condition="attribute_exists(pk)",
        values={":yes": True},
        idempotent=True,
    )
    return ()


class Action(NamedTuple):
    """The type of an action's payload, and its function.

    A connection that only listens may send an action `is_for_listeners`. An action with `is_of_pair` has no
    effect when it names another pair than the sender's.
    """

    takes: type[Struct]
    run: Callable[[Frame], ConnectionIds]
    is_for_listeners: bool = False
    is_of_pair: bool = False


ACTIONS = {
    "status": Action(NoPayload, send_status, is_for_listeners=True),
    "message": Action(Message, relay_message, is_of_pair=True),
    "typing": Action(NoPayload, relay_typing, is_of_pair=True),
    "received": Action(Receipt, confirm),
    "check": Action(NoPayload, check_partner, is_of_pair=True),
    "next": Action(NoPayload, find_next, is_of_pair=True),
    "leave": Action(NoPayload, leave, is_of_pair=True),
    "find": Action(NoPayload, find_partner),
    "report": Action(ReportFrame, report_partner),
    "subscribe": Action(Subscription, subscribe, is_for_listeners=True),
    "unsubscribe": Action(Subscription, unsubscribe, is_for_listeners=True),
    "ping": Action(NoPayload, send_pong, is_for_listeners=True),
    "resume": Action(NoPayload, send_resume_token),
}
