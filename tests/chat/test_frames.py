"""Frames with a `ref`, the first value of a topic, connections that only listen, and bans."""

from __future__ import annotations

import json
from typing import Any

import pytest

import app
from chalicelib.api import auth, rates
from chalicelib.chat import bans, connections, handlers, reports, subscriptions
from chalicelib.chat.schemas import Message, Report, ReportAction, ReportFrame, ReportsQuery
from chalicelib.comments import comments
from chalicelib.comments.schemas import CommentBody
from chalicelib.dynamo.items import Key
from chalicelib.errors import Busy, Conflict, NotFound
from chalicelib.views import events
from tests.conftest import EngineTable
from tests.support.chatting import DISCONNECTED, Chat
from tests.support.contexts import SETTINGS, new_context
from tests.support.live import Live

PAGE = "https://example.org/a"


def test_a_frame_may_have_any_number_in_a_field_that_its_action_does_not_have() -> None:
    frame = handlers.parse_frame('{"action":"message","text":"a","n":1e-999,"reason":1e400}')
    assert isinstance(frame, dict)
    assert handlers.parse_payload(frame, Message) == Message("a")
    assert handlers.parse_payload(frame, ReportFrame) is None


@pytest.fixture
def live(engine_table: EngineTable) -> Live:
    return Live(engine_table, app.CONTRIBUTIONS)


@pytest.fixture
def chat(live: Live) -> Chat:
    return Chat(live.table, sources=app.TOPICS)


@pytest.fixture
def pair(chat: Chat) -> Chat:
    """Two matched connections, which have read their notices."""
    for id in ("a", "b"):
        chat.enter(id)
    for id in ("a", "b"):
        chat.wire.read(id)
    return chat


# -- ref, ack and errors ---------------------------------------------------------------------------------


def test_a_message_is_acknowledged_after_it_was_handed_to_the_partner(pair: Chat) -> None:
    assert pair.send("a", "message", text="hello", ref="m-1") == [{"type": "ack", "ref": "m-1"}]
    [message] = pair.wire.read("b")
    assert (message["type"], message["text"], "ref" in message) == ("message", "hello", False)


def test_a_frame_without_a_ref_gets_no_ack(pair: Chat) -> None:
    assert pair.send("a", "message", text="hello") == []
    assert pair.send("a", "typing") == []


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("typing", {}),
        ("next", {}),
        ("leave", {}),
        ("find", {}),
        ("report", {"reason": "no"}),
        ("unsubscribe", {"topic": "views:example.org/a"}),
    ],
)
def test_every_action_is_acknowledged(pair: Chat, action: str, fields: dict[str, str]) -> None:
    assert {"type": "ack", "ref": "r"} in pair.send("a", action, ref="r", **fields)


@pytest.mark.parametrize("action", ["status", "ping", "resume"])
def test_the_reply_of_an_action_comes_before_its_ack(pair: Chat, action: str) -> None:
    first, second = pair.send("a", action, ref="r")
    assert first["type"] == {"ping": "pong"}.get(action, action)
    assert second == {"type": "ack", "ref": "r"}


def test_an_error_carries_the_ref_of_its_frame(pair: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    def error(code: str) -> list[Any]:
        return [{"type": "error", "code": code, "ref": "r"}]

    assert pair.send("a", "dance", ref="r") == error("bad_request")
    assert pair.send("a", "message", ref="r") == error("bad_request")
    assert pair.send("a", "message", text="x" * 2001, ref="r") == error("too_long")
    assert pair.send("a", "subscribe", topic="stars:1", ref="r") == error("bad_request")
    pair.send("a", "leave")
    assert pair.send("a", "message", text="hello", ref="r") == error("not_matched")
    monkeypatch.setattr(connections, "FRAMES", rates.Limit(at_once=1, interval=10_000))
    pair.wait(60)
    pair.send("b", "ping")
    assert pair.send("b", "ping", ref="r")[-1:] == error("slow_down")


@pytest.mark.parametrize("ref", ["", "x" * 65, 7, None, [], {}])
def test_a_malformed_ref_is_a_bad_request_without_a_ref(pair: Chat, ref: Any) -> None:
    assert pair.send("a", "ping", ref=ref) == [{"type": "error", "code": "bad_request"}]
    assert pair.send("a", "ping", ref="x" * 64)[-1] == {"type": "ack", "ref": "x" * 64}


def test_a_message_to_a_partner_that_has_gone_is_an_error_for_a_sender_that_waits_for_an_ack(
    pair: Chat,
) -> None:
    pair.die("b")
    frames = pair.send("a", "message", text="hello", ref="r")
    assert {"type": "error", "code": "not_matched", "ref": "r"} in frames
    assert DISCONNECTED in frames
    assert {"type": "ack", "ref": "r"} not in frames


# -- live values -----------------------------------------------------------------------------------------


def test_a_subscription_sends_the_current_value_first(live: Live, chat: Chat) -> None:
    events.write(new_context(live.table, chat.now, SETTINGS), [events.View(PAGE, chat.now, "c")])
    live.drain()
    live.drain()
    body = CommentBody(rating=5, language="en", text="")
    live.table.batch_put([comments.build_item("shoe", "01KAJQF8G0Z9M4T3V7C2X5N8QR", "ann", body)])
    live.drain()
    chat.connect("a", query={"listen": "1"})
    [first] = chat.send("a", "subscribe", topic="views:example.org/a")
    assert (first["type"], first["topic"]) == ("subscribed", "views:example.org/a")
    assert first["value"]["views"] == 1
    first, ack = chat.send("a", "subscribe", topic="product:shoe", ref="s")
    assert (first["value"]["total"], ack) == (1, {"type": "ack", "ref": "s"})


@pytest.mark.parametrize("topic", ["leaderboard:none", "challenge:none", "product:none"])
def test_the_value_of_a_topic_that_does_not_exist_yet_is_null(chat: Chat, topic: str) -> None:
    chat.connect("a", query={"listen": "1"})
    assert chat.send("a", "subscribe", topic=topic) == [{"type": "subscribed", "topic": topic, "value": None}]


def test_a_value_that_cannot_be_read_is_slow_down_and_a_retry_subscribes(chat: Chat) -> None:
    def refuse(table: object, name: str) -> Any:
        raise Busy("throttled")

    sources, chat.sources = chat.sources, {"views": app.TOPICS["views"]._replace(value=refuse)}
    chat.connect("a", query={"listen": "1"})
    frames = chat.send("a", "subscribe", topic="views:example.org/a", ref="r")
    assert frames == [{"type": "error", "code": "slow_down", "ref": "r"}]
    chat.sources = sources
    assert chat.send("a", "subscribe", topic="views:example.org/a", ref="r")[-1] == {
        "type": "ack",
        "ref": "r",
    }
    assert chat.table.get(subscriptions.listener_key(f"views:{PAGE}", "a"))


def test_a_connection_that_listens_is_in_no_lobby(chat: Chat) -> None:
    assert chat.connect("a", query={"listen": "1"}) == 200
    chat.enter("b")
    assert (chat.state("a"), chat.state("b"), chat.pool()) == ("idle", "waiting", ["b"])
    [status] = chat.send("a", "status")
    assert status["state"] == "idle"
    for action in ("message", "typing", "next", "find", "leave", "report", "resume"):
        fields = {"text": "x", "reason": "x"}
        assert chat.send("a", action, **fields) == [{"type": "error", "code": "bad_request"}], action
    assert (chat.state("a"), chat.pool()) == ("idle", ["b"])
    chat.enter("c")
    assert chat.partner("b") == "c"
    chat.disconnect("a")
    assert chat.state("a") == "gone"


@pytest.mark.parametrize("listen", ["", "0", "true", "2"])
def test_any_other_value_of_listen_is_refused(chat: Chat, listen: str) -> None:
    assert chat.connect("a", query={"listen": listen}) == 400


def test_a_duplicate_connect_event_of_a_listener_changes_nothing(chat: Chat) -> None:
    chat.connect("a", query={"listen": "1"})
    before = chat.item("a")
    assert chat.connect("a", query={"listen": "1"}) == 200
    assert chat.item("a") == before


# -- bans ------------------------------------------------------------------------------------------------


def report_of(chat: Chat, reporter: str, stranger: str, address: str, token: str = "") -> Report:
    """Make a connection report a stranger of an address, and return the report."""
    chat.connect(stranger, address=address, query={"token": token} if token else None)
    chat.enter(reporter)
    chat.send(stranger, "status")
    chat.send(reporter, "report", reason="no")
    return reports.list_reports(chat.context(), ReportsQuery()).items[0]


def test_a_banned_address_cannot_connect_until_the_ban_ends(chat: Chat) -> None:
    report = report_of(chat, "a", "b", "192.0.2.1")
    reports.act(chat.context(), report.id, ReportAction(action="ban", hours=2))
    for query in ({}, {"listen": "1"}, {"lobby": "other"}):
        assert chat.connect("c", query=query, address="192.0.2.1") == 403
    assert chat.connect("d", address="192.0.2.2") == 200
    assert reports.list_reports(chat.context(), ReportsQuery()).items == []
    chat.wait(2 * 3600 + 1)
    assert chat.connect("e", address="192.0.2.1") == 200


def test_a_ban_covers_the_network_of_an_ipv6_address(chat: Chat) -> None:
    report = report_of(chat, "a", "b", "2001:db8:0:1::1")
    reports.act(chat.context(), report.id, ReportAction(action="ban"))
    assert chat.connect("c", address="2001:db8:0:1:ffff::") == 403
    assert chat.connect("d", address="2001:db8:0:2::1") == 200


def test_a_dismissed_report_is_gone_and_nobody_is_banned(chat: Chat) -> None:
    report = report_of(chat, "a", "b", "192.0.2.1")
    reports.act(chat.context(), report.id, ReportAction(action="dismiss"))
    assert chat.connect("c", address="192.0.2.1") == 200
    for action in ("dismiss", "ban"):
        with pytest.raises(NotFound):
            reports.act(chat.context(), report.id, ReportAction(action=action))


def test_a_report_of_an_unknown_address_cannot_ban(chat: Chat) -> None:
    chat.settings = SETTINGS._replace(secret="")  # the connection of the stranger gets no digest
    report = report_of(chat, "a", "b", "192.0.2.1")
    with pytest.raises(Conflict):
        reports.act(chat.context(), report.id, ReportAction(action="ban"))
    reports.act(chat.context(), report.id, ReportAction(action="dismiss"))


def test_a_connection_stores_a_digest_of_its_address(chat: Chat) -> None:
    chat.connect("a", address="192.0.2.1")
    item = chat.item("a")
    assert "192.0.2.1" not in json.dumps(item, default=str)
    assert item["network"] == bans.find_network(SETTINGS, {"identity": {"sourceIp": "192.0.2.1"}})


def test_a_banned_subject_cannot_connect_from_another_address_until_the_ban_ends(chat: Chat) -> None:
    ann = {"token": auth.mint(SETTINGS, "ann")}
    report = report_of(chat, "a", "b", "192.0.2.1", ann["token"])
    reports.act(chat.context(), report.id, ReportAction(action="ban", hours=2))
    for query in (ann, ann | {"listen": "1"}, {"token": auth.mint(SETTINGS, "ann", seconds=60)}):
        assert chat.connect("c", query=query, address="192.0.2.2") == 403
    assert chat.connect("d", query={"token": auth.mint(SETTINGS, "ben")}, address="192.0.2.2") == 200
    assert chat.connect("e", address="192.0.2.1") == 403
    chat.wait(2 * 3600 + 1)
    assert chat.connect("f", query=ann, address="192.0.2.2") == 200


def test_a_subject_of_an_unknown_address_can_be_banned(chat: Chat) -> None:
    ann = auth.mint(SETTINGS, "ann")
    report = report_of(chat, "a", "b", "192.0.2.1", ann)
    chat.table.update(Key(reports.PARTITION, report.id.replace("~", "#")), "REMOVE network")
    reports.act(chat.context(), report.id, ReportAction(action="ban"))
    assert chat.connect("c", query={"token": ann}) == 403
    assert chat.connect("d", address="192.0.2.1") == 200


@pytest.mark.parametrize(
    "token",
    [
        "",
        "nonsense",
        "a.b.c",
        pytest.param(auth.mint(SETTINGS._replace(stage="other"), "ann"), id="other stage"),
    ],
)
def test_a_token_that_is_not_valid_counts_as_none(chat: Chat, token: str) -> None:
    assert chat.connect("a", query={"token": token}) == 200
    assert "subject" not in chat.item("a")


def test_a_connection_stores_a_digest_of_its_subject(chat: Chat) -> None:
    token = auth.mint(SETTINGS, "ann-the-player", name="Ann")
    chat.connect("a", query={"token": token})
    text = json.dumps(chat.item("a"), default=str)
    assert chat.item("a")["subject"] == bans.find_subject(SETTINGS, token)
    assert not [secret for secret in ("ann-the-player", "Ann", token) if secret in text]
