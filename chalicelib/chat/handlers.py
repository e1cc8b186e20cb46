"""The handlers of a socket's events, and the actions of its frames.

| event | handler | then |
|---|---|---|
| `$connect` | `connect` adds the connection to the pool and looks for a partner | `matchmaker.reconcile` |
| frame | `receive_frame` checks the rate and runs the action | `matchmaker.reconcile` |
| `$disconnect` | `disconnect` marks the connection as gone | `matchmaker.reconcile` |

A frame is a JSON object with an `action`. A frame with a `ref` gets an `ack` once it has taken effect, or an
error with the same `ref`. An action returns the ids of the connections that it concerns. They
get their pending notices, and a partner if they are waiting, when the action has returned.

A message passes this module, `connections.count_frame`, which reads the partner and checks the rate in one
write, and `gateway.deliver_frame`. The first message of a pair also passes outbox.py.

Invariant: no text of a conversation is stored, and nothing that identifies a person: no address, subject,
token or user agent. A connection has keyed digests of its address and its subject, which a report keeps for a
ban (bans.py).
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from chalicelib import times
from chalicelib.api import codec
from chalicelib.chat import (
    bans,
    connections,
    handshake,
    matching,
    matchmaker,
    outbox,
    reports,
    resume,
    subscriptions,
)
from chalicelib.chat.connections import Handshake, RefusalCache
from chalicelib.chat.gateway import TOO_FAST, ConnectionGateway, deliver_frame, endpoint_of
from chalicelib.chat.matching import DISCONNECTED
from chalicelib.chat.matchmaker import ConnectionIds
from chalicelib.chat.schemas import Message, ReportFrame, Subscription
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy
from chalicelib.settings import Settings
from chalicelib.telemetry import logs

T = TypeVar("T")

MAX_FRAME = 8_192  # bytes
MAX_REF = 64  # characters


# -- events --------------------------------------------------------------------------------------------


def connect(
    table: Table, gateway: ConnectionGateway, event: Any, now: datetime, settings: Settings
) -> dict[str, int]:
    """Admit a client: it waits in its lobby, or resumes the connection of its token, and is matched.

    Returns the status of the handshake: 403 for a foreign origin, and for a banned address or subject. A
    token that is not valid counts as none, as on a public REST call. The client cannot receive frames yet, so
    it asks for its status when it is open. A duplicate event does nothing.

    Cost: 5 WCU and 1.5 RCU. Matched at once, 8 WCU more, and 2 WCU and 1 RCU to notify the partner. 2 WCU and
    0.5 RCU for a connection that only listens. With a token 0.5 RCU more.
    """
    if handshake.is_foreign_origin(event, settings):
        return {"statusCode": 403}
    try:
        opening = handshake.parse(event)
    except ValueError:
        return {"statusCode": 400}
    try:
        network = bans.find_network(settings, event["requestContext"])
        opening = opening._replace(network=network, subject=bans.find_subject(settings, opening.token))
        if bans.is_banned(table, (opening.network, opening.subject), now):
            return {"statusCode": 403}
        if opening.listens:
            matching.stay_out(table, connections.build_item(opening, now), now)
            return {"statusCode": 200}
        item = _resume(table, gateway, opening, now, settings) if opening.resume_token else None
        if item is None:
            item = connections.build_item(opening, now)
            if not matching.join_pool(table, item, now):
                return {"statusCode": 200}
    except Busy:
        return {"statusCode": 503}
    try:
        matched = matching.find_partner(table, item, now, settings) if item["state"] == "waiting" else item
        if matched and "partner" in matched:
            matchmaker.reconcile(table, gateway, [matched["partner"]["id"]], now, settings)
    except Busy:
        logs.logger().warning("a new connection is not matched yet: the table is busy")
    return {"statusCode": 200}


def _resume(
    table: Table, gateway: ConnectionGateway, opening: Handshake, now: datetime, settings: Settings
) -> Item | None:
    """Move a resumed session to its new connection and close the old one. None if it has ended."""
    taken = resume.take_over(table, opening, now, settings)
    if taken is None:
        return None
    item, before = taken
    subscriptions.unsubscribe_all(table, before)
    gateway.close(before["at"], connections.id_of(before))
    return item


def receive_frame(
    table: Table,
    gateway: ConnectionGateway,
    sources: subscriptions.Sources,
    event: Any,
    now: datetime,
    settings: Settings,
    refusals: RefusalCache | None = None,
) -> None:
    """Handle a frame. The sender of a malformed frame gets an error, and its connection stays open.

    Every frame counts for the rate, by the time at which API Gateway received it. A connection whose frames
    are refused ten times in a row is closed. An unknown connection is closed too. It was taken for dead, and
    its client connects again.

    Cost: 1 WCU, and the cost of its action. A frame that is too fast costs 2 WCU, and nothing while
    `refusals` has its connection.
    """
    id, endpoint = event["requestContext"]["connectionId"], endpoint_of(event["requestContext"])
    received = connections.received_at(event["requestContext"], now)
    refusals = refusals or RefusalCache()
    frame = parse_frame(str(event.get("body")))
    ref = read_ref(frame)
    if refused := refusals.count_early(id, received):
        _refuse(table, gateway, endpoint, id, refused, now, settings, ref)
        return
    action = ACTIONS.get(frame["action"]) if isinstance(frame, dict) else None
    payload = parse_payload(frame, action.takes) if action and isinstance(frame, dict) else None
    problem = frame if isinstance(frame, str) else "bad_request" if action is None or payload is None else ""
    problem = "bad_request" if ref is None else problem
    text = payload.text if isinstance(payload, Message) else ""
    if len(text) > settings.chat_length:
        text, problem = "", "too_long"
    proof = connections.digest_message(settings, text) if text else b""
    try:
        counted = connections.count_frame(table, id, received, settings, proof)
        refused = refusals.remember(id, counted)
        if refused:
            _refuse(table, gateway, endpoint, id, refused, now, settings, ref)
        elif counted.sender is None:
            gateway.close(endpoint, id)
        elif problem or action is None or ("listening" in counted.sender and not action.of_listeners):
            gateway.send(endpoint, id, error_frame(problem or "bad_request", ref))
        else:
            sender = counted.sender
            address = event["requestContext"].get("identity", {}).get("sourceIp", "")
            run = Frame(table, gateway, sources, settings, now, sender, payload, address, ref or "", [])
            ids = action.run(run)
            if ref and not run.problems:
                run.reply(type="ack", ref=ref)
                ref = ""  # it has taken effect, whatever happens now
            is_unsettled = sender["state"] == "waiting" or sender.get("untold")
            if concerned := (*ids, id) if is_unsettled else ids:
                matchmaker.reconcile(table, gateway, concerned, now, settings)
    except Busy:
        gateway.send(endpoint, id, error_frame("slow_down", ref))


def _refuse(
    table: Table,
    gateway: ConnectionGateway,
    endpoint: str,
    id: str,
    refused: int,
    now: datetime,
    settings: Settings,
    ref: str | None,
) -> None:
    """Send `slow_down`. Close the connection with the tenth refusal in a row."""
    if refused <= connections.REFUSALS:
        gateway.send(endpoint, id, error_frame("slow_down", ref))
    if refused == connections.REFUSALS:
        gateway.close(endpoint, id, TOO_FAST)
        try:  # $disconnect does the same, if it comes
            lost = matchmaker.mark_gone(table, id, now, settings, may_return=False)
            matchmaker.reconcile(table, gateway, lost, now, settings)
        except Busy:
            logs.logger().warning("a closed connection is left to its $disconnect or to the sweep")


def disconnect(
    table: Table, gateway: ConnectionGateway, event: Any, now: datetime, settings: Settings
) -> None:
    """Mark a closed connection as gone, and free its partner. Late and duplicate events do nothing.

    A client that closes with 1000 does not return.

    Cost: 1 RCU and 3 WCU. Of a waiting connection 2 WCU more; with a partner 4 WCU more, and the cost to
    notify and match it.
    """
    context = event["requestContext"]
    has_left = context.get("disconnectStatusCode") == 1000
    lost = matchmaker.mark_gone(table, context["connectionId"], now, settings, may_return=not has_left)
    matchmaker.reconcile(table, gateway, lost, now, settings)


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


def read_ref(frame: Mapping[str, Any] | str) -> str | None:
    """Return the `ref` of a frame, an empty text for a frame without one, or None for a malformed one."""
    ref = frame.get("ref", "") if isinstance(frame, Mapping) else ""
    if (
        isinstance(frame, Mapping)
        and "ref" in frame
        and not (isinstance(ref, str) and 0 < len(ref) <= MAX_REF)
    ):
        return None
    return str(ref)


def error_frame(code: str, ref: str | None = "") -> str:
    """Build the frame that reports a problem to the sender of a frame, with the frame's `ref`."""
    return codec.encode({"type": "error", "code": code} | ({"ref": ref} if ref else {}))


class NoPayload(Struct):
    """The payload of an action without fields of its own."""


class Frame(NamedTuple):
    """A frame with its sender, and the means that its action needs."""

    table: Table
    gateway: ConnectionGateway
    sources: subscriptions.Sources
    settings: Settings
    now: datetime
    sender: Item
    payload: Any
    address: str
    ref: str
    problems: list[str]  # the errors that the sender got. A frame with none is acknowledged.

    @property
    def id(self) -> str:
        """The sender's id."""
        return connections.id_of(self.sender)

    def reply(self, **fields: Any) -> None:
        """Post a frame to the sender."""
        self.gateway.send(self.sender["at"], self.id, codec.encode(fields))

    def reject(self, code: str) -> ConnectionIds:
        """Post an error to the sender. It concerns no other connection."""
        self.problems.append(code)
        self.gateway.send(self.sender["at"], self.id, error_frame(code, self.ref))
        return ()

    def drop(self, code: str) -> None:
        """Note that the frame has had no effect. Only a sender that waits for an `ack` gets an error."""
        if self.ref:
            self.reject(code)

    def change_state(self, to: matching.Target, **more: Any) -> ConnectionIds:
        """Change the sender's state, unless it has changed since. Return the sender and its lost partner."""
        changed = matching.change_state(self.table, self.sender, to, self.now, **more)
        return (self.id, changed.lost) if changed and changed.lost else (self.id,)


# -- actions -------------------------------------------------------------------------------------------


def send_status(frame: Frame) -> ConnectionIds:
    """Send the sender its state. Pending notices follow, and a handler that delivers them is waited for.

    Another handler may change the state, and notify the sender, while the status is on its way. Then the
    status is out of date and another one follows. So the last status is always true.

    Cost: 1 RCU.
    """
    item: Item | None = frame.sender
    sent_state = ""
    while item and item["turn"] != sent_state:
        sent_state = item["turn"]
        frame.reply(type="status", state=item["state"], since=times.to_iso(times.parse(item["since"])))
        item = connections.find(frame.table, frame.id)
        if item and item.get("untold") and "telling" not in item:  # new notices are sent after the status
            break
    if item and item.get("untold"):
        outbox.wait_until_delivered(frame.table, frame.gateway, frame.id, frame.now)
    return ()


def relay_message(frame: Frame) -> ConnectionIds:
    """Post a text to the partner. The write that has counted the frame has also read the partner.

    A message is refused while the partner cannot be notified of the pair, because `partner_connected` comes
    before any message. When the partner is dead, the sender gets `partner_disconnected` and waits. When
    another connection has resumed the partner's in the meantime, the text is posted there.

    Cost: one post. The first message of a pair costs 1 WCU and 1 RCU.
    """
    text = {"type": "message", "text": frame.payload.text, "time": times.to_iso(frame.now)}
    return _relay(frame, codec.encode(text))


def relay_typing(frame: Frame) -> ConnectionIds:
    """Notify the partner that the sender is typing, if the partner has been notified of the pair."""
    return _relay(frame, codec.encode({"type": "typing"}))


def _relay(frame: Frame, text: str) -> ConnectionIds:
    sender, table, now = frame.sender, frame.table, frame.now
    if sender["state"] != "matched":
        return frame.reject("not_matched")
    id, endpoint = sender["partner"]["id"], sender["partner"]["at"]
    if "met" not in sender and not _introduce(frame, id):
        if isinstance(frame.payload, Message):
            return frame.reject("slow_down")
        frame.drop("slow_down")
        return ()
    outcome = deliver_frame(table, frame.gateway, id, endpoint, text, now)
    if outcome == "later":
        return frame.reject("slow_down")
    if outcome != "gone":
        return ()
    if lost := matchmaker.mark_gone(table, id, now, frame.settings):
        frame.drop("not_matched")
        return lost
    after = connections.find(table, frame.id)
    partner = after["partner"] if after and "partner" in after else sender["partner"]
    if after and partner["id"] != id and partner["who"] == sender["partner"]["who"]:  # it was resumed
        return _relay(frame._replace(sender=after), text)
    frame.drop("not_matched")
    return frame.change_state("waiting", notice=DISCONNECTED)  # its item had expired, or it has just left


def _introduce(frame: Frame, partner: str) -> bool:
    """Ensure that the partner has been notified of the pair, and record that. Return whether it has been.

    Only a message waits for the notice. Frames of one connection may be handled in parallel, so each of them
    checks until `met` is recorded.
    """
    table, sender = frame.table, frame.sender
    if (connections.find(table, partner) or {}).get("untold") and not (
        isinstance(frame.payload, Message)
        and outbox.wait_until_delivered(table, frame.gateway, partner, frame.now)
    ):
        return False
    values = {":yes": True, ":turn": sender["turn"]}
    table.update(connections.key(frame.id), "SET met = :yes", condition="turn = :turn", values=values)
    return True


def find_next(frame: Frame) -> ConnectionIds:
    """Leave the partner and wait for another. A waiting connection keeps its entry in the pool.

    A connection that is kept for its lost partner enters the pool.
    """
    is_in_pool = frame.sender["state"] == "waiting" and "kept" not in frame.sender
    return (frame.id,) if is_in_pool else frame.change_state("waiting")


def leave(frame: Frame) -> ConnectionIds:
    """Leave the partner and the pool, and become idle."""
    return () if frame.sender["state"] == "idle" else frame.change_state("idle")


def find_partner(frame: Frame) -> ConnectionIds:
    """Wait for a partner, unless there is one."""
    return () if frame.sender["state"] == "matched" else find_next(frame)


def report_partner(frame: Frame) -> ConnectionIds:
    """Report the partner, and leave it for good. Both wait again.

    After too many reports the two are separated all the same. The report is not stored then, and the sender
    gets `slow_down`.

    Cost: 1 RCU, 9 WCU, and 2 WCU per KB of the report.
    """
    sender, table = frame.sender, frame.table
    if sender["state"] != "matched":
        return frame.reject("not_matched")
    partner = connections.find(table, sender["partner"]["id"])
    is_allowed = reports.count_report(table, sender, frame.address, frame.now, frame.settings)
    if is_allowed:
        puts = [reports.build_put(sender, partner, frame.payload, frame.now, frame.settings)]
    else:
        puts = []
        frame.reject("slow_down")
    # At most a hundred blocked visitors are kept, so no stranger can let an item grow without end.
    sides = {side for side, one in (("mine", sender), ("theirs", partner or {})) if reports.can_block(one)}
    return frame.change_state("waiting", block=sides, extra=puts)


def subscribe(frame: Frame) -> ConnectionIds:
    """Subscribe the sender to a topic, and send it the current value.

    A change after this read is pushed. The push may overtake the reply, and is newer then. The value of a
    board, a challenge or a product that does not exist yet is null.

    Cost: the read of the value.
    """
    name = frame.payload.topic
    topic = subscriptions.canonical(frame.sources, name)
    if topic is None:
        return frame.reject("bad_request")
    most = frame.settings.topic_listeners
    match subscriptions.subscribe(frame.table, frame.sender, topic, name, frame.now, most):
        case "too_many_topics":
            return frame.reject("bad_request")
        case "too_many_listeners":
            return frame.reject("slow_down")
    frame.reply(
        type="subscribed", topic=name, value=subscriptions.read_value(frame.table, frame.sources, topic)
    )
    return ()


def unsubscribe(frame: Frame) -> ConnectionIds:
    """Unsubscribe the sender from a topic."""
    topic = subscriptions.canonical(frame.sources, frame.payload.topic)
    if topic is None:
        return frame.reject("bad_request")
    subscriptions.unsubscribe(frame.table, frame.id, topic)
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
        token = resume.create_token(frame.settings, frame.id, frame.now)
    except Exception as error:  # no secret, or SSM is unavailable
        logs.log_error("a resume token cannot be signed", error)
        return frame.reject("slow_down")
    frame.reply(type="resume", token=token)
    frame.table.update(
        connections.key(frame.id),
        "SET resumable = :yes",
        condition="attribute_exists(pk)",
        values={":yes": True},
        idempotent=True,
    )
    return ()


class Action(NamedTuple):
    """The type of an action's payload, its function, and whether a connection that only listens has it."""

    takes: type[Struct]
    run: Callable[[Frame], ConnectionIds]
    of_listeners: bool = False


ACTIONS = {
    "status": Action(NoPayload, send_status, of_listeners=True),
    "message": Action(Message, relay_message),
    "typing": Action(NoPayload, relay_typing),
    "next": Action(NoPayload, find_next),
    "leave": Action(NoPayload, leave),
    "find": Action(NoPayload, find_partner),
    "report": Action(ReportFrame, report_partner),
    "subscribe": Action(Subscription, subscribe, of_listeners=True),
    "unsubscribe": Action(Subscription, unsubscribe, of_listeners=True),
    "ping": Action(NoPayload, send_pong, of_listeners=True),
    "resume": Action(NoPayload, send_resume_token),
}
