"""Pairs: frames that name theirs, receipts of messages, and what an acknowledgement means in a race."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from chalicelib.api import auth
from chalicelib.chat import connections, evidence, handlers, outbox, reports
from chalicelib.chat.schemas import Report, ReportAction, ReportsQuery
from chalicelib.dynamo.table import connect
from ops.aws import template
from tests.chat.test_chat import claim_delivery, request_token
from tests.support.chatting import CONNECTED, DISCONNECTED, NOT_MATCHED, Chat, text, without_time
from tests.support.contexts import SETTINGS

ACK = {"type": "ack", "ref": "r"}
STALE = {**NOT_MATCHED, "ref": "r"}
INSULT = [{"text": "insult"}, {"text": "a lie"}]


@pytest.fixture
def chat(dev_table: template.Table) -> Chat:
    return Chat(connect())


def meet(chat: Chat, *ids: str, **query: str) -> None:
    """Make two connections meet, and read what they were sent."""
    for id in ids:
        chat.enter(id, **query)
    for id in ids:
        chat.wire.read(id)


@pytest.fixture
def pair(chat: Chat) -> Chat:
    """Two matched connections of clients as they were before pairs had names."""
    meet(chat, "a", "b")
    return chat


@pytest.fixture
def modern(chat: Chat) -> Chat:
    """Two matched connections whose clients confirm messages."""
    meet(chat, "a", "b", receipts="1")
    return chat


def pair_of(chat: Chat, id: str) -> str:
    return str(chat.item(id)["pair"])


def during_transaction(chat: Chat, act: Callable[[], Any]) -> None:
    """Do something once, before the next transaction is sent."""
    events = chat.table.client.meta.events

    def once(**_: Any) -> None:
        events.unregister("before-call.dynamodb.TransactWriteItems", once)
        act()

    events.register("before-call.dynamodb.TransactWriteItems", once)


def stored_reports(chat: Chat) -> list[Report]:
    return reports.list_reports(chat.context(), ReportsQuery()).items


# -- what an `ack` means in a race -------------------------------------------------------------------------


@pytest.mark.security
@pytest.mark.parametrize("how", ["next", "leave", "disconnect"])
def test_an_acknowledged_leave_is_idle_when_the_partner_parts_meanwhile(pair: Chat, how: str) -> None:
    pair.enter("c")
    part = (lambda: pair.disconnect("b")) if how == "disconnect" else (lambda: pair.send_only("b", how))
    during_transaction(pair, part)
    frames = pair.send("a", "leave", ref="r")
    assert frames[-1] == ACK
    assert [frame for frame in frames if frame["type"] == "system"][-1:] != [CONNECTED]
    assert (pair.state("a"), pair.item("a").get("notices", [])) == ("idle", [])
    pair.send("c", "ping")
    assert pair.state("a") == "idle"


def test_an_acknowledged_next_keeps_a_partner_that_has_come_meanwhile(pair: Chat) -> None:
    pair.enter("c")
    during_transaction(pair, lambda: pair.send_only("b", "leave"))
    assert ACK in pair.send("a", "next", ref="r")
    assert (pair.partner("a"), pair.state("b")) == ("c", "idle")


def test_a_leave_that_waits_for_another_handlers_notice_is_not_acknowledged_before_it(
    pair: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "WAITS", (0.01,))
    pair.enter("c")

    def fail(id: str) -> None:
        if id == "a":
            raise EndpointConnectionError(endpoint_url="https://a")

    pair.wire.before_post = fail
    pair.send("b", "leave")
    pair.wire.before_post = lambda id: None
    claim_delivery(pair, "a")
    assert pair.item("a")["notices"] == ["partner_disconnected", "partner_connected"]
    assert pair.send("a", "leave", ref="r") == [{"type": "error", "code": "slow_down", "ref": "r"}]
    assert pair.state("a") == "idle"
    pair.wait(outbox.CLAIM + 1)
    *_, last, ack = pair.send("a", "leave", ref="r")
    assert (last, ack) == (DISCONNECTED, ACK)


@pytest.mark.security
@pytest.mark.parametrize("how", ["next", "leave", "disconnect"])
def test_an_acknowledged_report_is_kept_when_the_partner_parts_meanwhile(pair: Chat, how: str) -> None:
    pair.send("b", "message", text="insult")
    part = (lambda: pair.disconnect("b")) if how == "disconnect" else (lambda: pair.send_only("b", how))
    during_transaction(pair, part)
    assert ACK in pair.send("a", "report", reason="rude", messages=INSULT, ref="r")
    [report] = stored_reports(pair)
    assert (report.reported, [message.proved for message in report.messages]) == (
        pair.item("b")["who"],
        [True, False],
    )
    never_meet(pair, "a", "b")


def test_a_report_is_kept_when_a_new_partner_comes_meanwhile(pair: Chat) -> None:
    pair.enter("c")
    during_transaction(pair, lambda: pair.send_only("b", "leave"))
    assert ACK in pair.send("a", "report", reason="rude", ref="r")
    assert stored_reports(pair)[0].reported == pair.item("b")["who"]
    assert pair.partner("a") == "c"


def never_meet(chat: Chat, first: str, other: str) -> None:
    """Check that two who are alone are not matched, whoever looks for a partner."""
    for id in (first, other, first):
        chat.wait(3600)
        if chat.state(id) != "gone":
            chat.send(id, "find")
    assert chat.partner(first) is None


# -- reports of the last partner ---------------------------------------------------------------------------


@pytest.mark.security
@pytest.mark.parametrize("how", ["next", "leave", "disconnect", "leave of the victim", "next of the victim"])
def test_the_last_partner_can_be_reported_for_a_minute(chat: Chat, how: str) -> None:
    meet(chat, "a", "b")
    for message in ("insult", *map(str, range(20))):
        chat.send("b", "message", text=message)
    match how.split():
        case ["disconnect"]:
            chat.disconnect("b", 1000)
        case [action, "of", *_]:
            chat.send("a", action)
        case [action]:
            chat.send("b", action)
    before = chat.state("a")
    chat.wait(59)
    chat.wire.read("a")
    assert chat.send("a", "report", reason="rude", messages=INSULT, ref="r") == [ACK]
    [report] = stored_reports(chat)
    assert (report.reporter, report.reported) == (chat.item("a")["who"], chat.item("b")["who"])
    assert [message.proved for message in report.messages] == [True, False]
    assert chat.state("a") == before
    chat.wait(2)
    assert chat.send("a", "report", reason="rude", ref="r") == [STALE]
    never_meet(chat, "a", "b")


def test_the_last_partner_is_reported_by_the_name_of_the_pair_beside_a_new_one(pair: Chat) -> None:
    name = pair_of(pair, "a")
    pair.send("b", "message", text="insult")
    pair.enter("c")
    pair.send("b", "leave")
    assert pair.partner("a") == "c"
    assert ACK in pair.send("a", "report", reason="rude", messages=INSULT, pair=name, ref="r")
    assert (pair.partner("a"), stored_reports(pair)[0].reported) == ("c", pair.item("b")["who"])
    assert STALE in pair.send("c", "report", reason="not mine", pair=name, ref="r")


def test_a_report_parts_two_who_were_matched_again_since(pair: Chat) -> None:
    name = pair_of(pair, "a")
    pair.send("a", "next")
    pair.wait(11)
    pair.send("a", "ping")
    assert pair.partner("a") == "b"
    assert ACK in pair.send("a", "report", reason="rude", pair=name, ref="r")
    never_meet(pair, "a", "b")


@pytest.mark.parametrize("first", ["the report", "the resume"])
def test_a_reported_partner_that_resumes_does_not_return(pair: Chat, first: str) -> None:
    token = request_token(pair, "b")
    pair.disconnect("b", 1001)
    steps = [lambda: pair.send("a", "report", reason="rude"), lambda: pair.enter("b2", resume=token)]
    for step in steps if first == "the report" else reversed(steps):
        step()
    never_meet(pair, "a", "b2")


@pytest.mark.parametrize("has_parted", [False, True])
def test_a_reporter_that_resumes_does_not_return(pair: Chat, has_parted: bool) -> None:
    token = request_token(pair, "a")
    name = pair_of(pair, "a")
    if has_parted:
        pair.send("a", "next")
    during_transaction(pair, lambda: pair.send_only("a", "report", reason="rude", pair=name))
    pair.enter("a2", resume=token)  # has read its connection before it was reported
    assert len(stored_reports(pair)) == 1
    pair.table.update(connections.key("b"), "REMOVE blocked")
    never_meet(pair, "a2", "b")


def test_the_block_of_one_side_keeps_two_apart(pair: Chat) -> None:
    pair.send("a", "report", reason="rude")
    pair.table.update(connections.key("b"), "REMOVE blocked")
    never_meet(pair, "b", "a")


@pytest.mark.security
def test_a_message_is_proved_for_a_minute_however_many_follow(pair: Chat) -> None:
    """And the number of its sender's digests is bounded by the rate of frames."""
    pair.send("b", "message", text="insult")
    for number in range(150):
        pair.wait(0.39)
        pair.send("b", "message", text=str(number))
    pair.send("a", "report", reason="rude", messages=INSULT)
    assert [message.proved for message in stored_reports(pair)[0].messages] == [True, False]
    meet(pair, "c", "d", lobby="slow")
    for number in range(60):
        pair.wait(10)
        pair.send("c", "message", text=str(number))
        assert len(pair.item("c")["said"]) <= evidence.MOST
    said = [{"text": str(number)} for number in (59, 52, 30)]
    pair.send("d", "report", reason="rude", messages=said)
    assert [message.proved for message in stored_reports(pair)[0].messages] == [True, True, False]


def test_what_was_said_to_one_partner_is_not_proved_to_another(pair: Chat) -> None:
    pair.send("b", "message", text="insult")
    pair.enter("c")
    pair.send("a", "leave")
    assert pair.partner("b") == "c"
    pair.send("c", "report", reason="rude", messages=INSULT)
    assert [message.proved for message in stored_reports(pair)[0].messages] == [False, False]


@pytest.mark.security
@pytest.mark.parametrize("reporter", ["a", "b"])
def test_two_persons_with_tokens_never_meet_again_in_new_connections(chat: Chat, reporter: str) -> None:
    tokens = {id: auth.mint(SETTINGS, f"person-{id}") for id in "ab"}
    for id in "ab":
        chat.enter(id, token=tokens[id])
    chat.send(reporter, "report", reason="rude")
    for id in "ab":
        chat.disconnect(id, 1000)
        chat.enter(id + id, token=tokens[id])
    never_meet(chat, "aa", "bb")


def test_two_persons_never_meet_again_in_connections_that_were_open_at_the_report(
    chat: Chat,
) -> None:
    for id in ("a", "b"):
        chat.enter(id, token=auth.mint(SETTINGS, f"person-{id}"))
    for id in ("aa", "bb"):
        chat.enter(id, token=auth.mint(SETTINGS, f"person-{id[0]}"))
        chat.send(id, "leave")
    chat.send("a", "report", reason="rude")
    for id in ("aa", "bb"):
        chat.send(id, "find")
    never_meet(chat, "aa", "bb")
    assert chat.item("bb")["blocked"] == {chat.item("a")["who"]}


def test_a_pair_of_persons_that_a_report_overtakes_is_not_matched(chat: Chat) -> None:
    for id in ("a", "b"):
        chat.enter(id, token=auth.mint(SETTINGS, f"person-{id}"))
    for id in ("aa", "bb"):
        chat.enter(id, token=auth.mint(SETTINGS, f"person-{id[0]}"))
        chat.send(id, "leave")
    chat.send("aa", "find")
    during_transaction(chat, lambda: chat.send_only("a", "report", reason="rude"))
    chat.send("bb", "find")
    never_meet(chat, "aa", "bb")


# -- one person --------------------------------------------------------------------------------------------


@pytest.mark.security
def test_two_connections_of_one_person_are_never_matched(chat: Chat) -> None:
    for id in "ab":
        chat.enter(id, token=auth.mint(SETTINGS, "ann", seconds=60 if id == "a" else 90))
    chat.wait(3600)
    for id in "abab":
        chat.send(id, "next")
    assert (chat.state("a"), chat.state("b")) == ("waiting", "waiting")
    chat.enter("c")
    assert chat.partner("c") == "a"


def test_a_person_that_signs_in_does_not_resume_a_talk_with_itself(chat: Chat) -> None:
    chat.enter("a", token=auth.mint(SETTINGS, "ann"))
    chat.enter("b")
    token = request_token(chat, "b")
    assert chat.enter("b2", resume=token, token=auth.mint(SETTINGS, "ann"))[0]["state"] == "waiting"
    assert (chat.partner("a"), chat.partner("b2")) == ("b", None)


def test_a_person_that_resumes_without_its_token_stays_the_same(chat: Chat) -> None:
    chat.enter("a", token=auth.mint(SETTINGS, "ann"))
    chat.enter("a2", resume=request_token(chat, "a"))
    assert chat.item("a2")["who"] == chat.item("a2")["subject"] == chat.item("a")["who"]


# -- frames that name their pair -----------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["message", "typing", "check", "next", "leave", "report"])
def test_a_frame_for_another_pair_has_no_effect(pair: Chat, action: str) -> None:
    fields = {"text": "for b", "reason": "rude", "ref": "r"}
    pair.wire.read("b")
    assert pair.send("a", action, pair="another", **fields) == [STALE]
    assert (pair.partner("a"), pair.wire.read("b"), stored_reports(pair)) == ("b", [], [])
    pair.enter("c")
    name = pair_of(pair, "a")
    pair.send("b", "leave")
    pair.wire.read("a")
    pair.wire.read("c")
    assert pair.partner("a") == "c"
    if action != "report":  # the last partner can be reported
        assert pair.send("a", action, pair=name, **fields) == [STALE]
        assert (pair.partner("a"), pair.wire.read("c")) == ("c", [])


@pytest.mark.parametrize("pair", ["", "x" * 65, 7, None, []])
def test_a_malformed_pair_is_a_bad_request(chat: Chat, pair: Any) -> None:
    chat.enter("a")
    assert chat.send("a", "ping", pair=pair) == [{"type": "error", "code": "bad_request"}]


def test_a_client_with_receipts_is_told_the_name_of_its_pair(chat: Chat) -> None:
    chat.enter("a", receipts="1")
    status, note = chat.enter("b", receipts="1")
    name = pair_of(chat, "a")
    assert (status["pair"], note, chat.wire.read("a")) == (
        name,
        CONNECTED | {"pair": name},
        [CONNECTED | {"pair": name}],
    )
    chat.send("a", "typing", pair=name)
    assert chat.wire.read("b") == [{"type": "typing", "pair": name}]
    [status] = chat.send("a", "status")
    assert status["pair"] == name
    chat.send("b", "leave")
    assert chat.wire.read("a") == [DISCONNECTED]
    assert "pair" not in chat.send("a", "status")[0]


def test_a_pair_keeps_its_name_when_it_is_resumed(modern: Chat) -> None:
    name = pair_of(modern, "a")
    assert modern.enter("a2", resume=request_token(modern, "a"), receipts="1")[0]["pair"] == name
    modern.send("b", "message", text="still there?", pair=name)
    assert modern.wire.read("a2")[-1]["pair"] == name
    token = request_token(modern, "b")
    modern.disconnect("b", 1001)
    assert modern.wire.read("a2") == [DISCONNECTED]
    assert modern.enter("b2", resume=token, receipts="1")[0]["pair"] == name
    assert modern.wire.read("a2") == [CONNECTED | {"pair": name}]


@pytest.mark.parametrize("receipts", ["", "0", "2"])
def test_any_other_value_of_receipts_is_refused(chat: Chat, receipts: str) -> None:
    assert chat.connect("a", query={"receipts": receipts}) == 400


# -- receipts ----------------------------------------------------------------------------------------------


def test_the_ack_of_a_message_comes_with_the_partners_receipt(modern: Chat) -> None:
    assert modern.send("a", "message", text="one", ref="r") == []
    assert modern.send("a", "message", text="two", ref="s") == []
    first, second = modern.wire.read("b")
    assert modern.send("b", "received", ids=[first["id"], second["id"]]) == []
    assert modern.wire.read("a") == [ACK, {"type": "ack", "ref": "s"}]


@pytest.mark.parametrize("modern_one", ["a", "b", ""])
def test_without_receipts_of_both_clients_a_message_is_acknowledged_when_it_is_posted(
    chat: Chat, modern_one: str
) -> None:
    for id in "ab":
        chat.enter(id, **({"receipts": "1"} if id == modern_one else {}))
    chat.wire.read("a")
    assert chat.send("a", "message", text="hello", ref="r") == [ACK]
    [message] = [frame for frame in chat.wire.read("b") if frame["type"] == "message"]
    assert "id" not in message


@pytest.mark.security
def test_a_client_can_only_confirm_a_message_that_was_posted_to_it(modern: Chat) -> None:
    modern.send("a", "message", text="hello", ref="r")
    [message] = modern.wire.read("b")
    modern.send("b", "message", text="hello", ref="r")
    [other] = modern.wire.read("a")
    for id in ("", "r", "r.", "r.000000000000", "report.ü", other["id"], message["id"] + "0"):
        modern.send("b", "received", ids=[id])
    assert modern.wire.read("a") == []
    modern.send("a", "next")
    meet(modern, "c", "d", receipts="1", lobby="other")
    modern.send("d", "received", ids=[message["id"]])
    modern.send("b", "received", ids=[message["id"]])
    assert modern.wire.read("c") == []


@pytest.mark.parametrize("ids", [[], ["x"] * 41, ["x" * 81], "r", None, [1]])
def test_a_malformed_receipt_is_a_bad_request(modern: Chat, ids: Any) -> None:
    assert modern.send("b", "received", ids=ids) == [{"type": "error", "code": "bad_request"}]


def test_a_message_without_a_partner_gets_no_late_ack(modern: Chat) -> None:
    modern.die("b")
    assert STALE in modern.send("a", "message", text="hello", ref="r")


def test_without_a_secret_a_message_is_acknowledged_when_it_is_posted(chat: Chat) -> None:
    chat.settings = SETTINGS._replace(secret="")
    meet(chat, "a", "b", receipts="1")
    assert chat.send("a", "message", text="hello", ref="r") == [ACK]


def test_a_partner_that_confirms_nothing_is_closed_when_the_sender_asks(modern: Chat) -> None:
    modern.wait(60)
    modern.send("a", "message", text="hello", ref="r")
    modern.wait(3)
    assert modern.send("a", "check", ref="r") == [ACK]  # it has four seconds
    modern.wait(1)
    assert modern.send("a", "check", ref="r") == [ACK, DISCONNECTED]
    assert (modern.wire.closed, modern.state("b"), modern.state("a")) == (["b"], "gone", "waiting")


def test_a_partner_that_responds_or_cannot_confirm_stays(chat: Chat) -> None:
    meet(chat, "a", "b", receipts="1")
    meet(chat, "c", "d", lobby="other")
    for id in "ac":
        chat.send(id, "check")  # nothing was sent yet
        chat.send(id, "message", text="hello")
    chat.wait(0.1)
    chat.send("b", "typing")
    chat.wait(60)
    for id in "ac":
        chat.send(id, "check")
    assert (chat.partner("a"), chat.partner("c"), chat.wire.closed) == ("b", "d", [])
    chat.send("a", "message", text="another")
    for _ in range(31):  # its frames are refused, its receipt too
        chat.send("b", "ping")
    chat.wait(5)
    chat.send("a", "check")
    assert chat.partner("a") == "b"


def test_a_partner_that_was_only_slow_takes_up_the_talk(modern: Chat) -> None:
    name, token = pair_of(modern, "a"), request_token(modern, "b")
    modern.wait(60)
    modern.send("a", "message", text="hello", ref="r")
    modern.wait(5)
    modern.send("a", "check")
    modern.disconnect("b", 1006)  # its client reconnects
    assert modern.enter("b2", resume=token, receipts="1")[0]["pair"] == name
    assert modern.wire.read("a")[-1] == CONNECTED | {"pair": name}


# -- bans --------------------------------------------------------------------------------------------------


@pytest.mark.security
def test_a_ban_closes_all_connections_of_the_address_and_of_the_subject(chat: Chat) -> None:
    ann = auth.mint(SETTINGS, "ann")
    chat.connect("b", address="192.0.2.1", query={"token": ann})
    chat.enter("a")
    chat.connect("same address", address="192.0.2.1", query={"lobby": "x"})
    chat.connect("same person", address="192.0.2.2", query={"token": ann, "listen": "1"})
    chat.connect("another", address="192.0.2.3", query={"lobby": "y"})
    assert chat.partner("a") == "b"
    chat.send("a", "report", reason="rude")
    chat.enter("c")
    chat.ban(stored_reports(chat)[0].id)
    assert sorted(chat.wire.closed) == ["b", "same address", "same person"]
    closed = {"type": "close", "code": 4003, "reason": "banned"}
    assert chat.wire.read("same person")[-1:] == [closed]
    assert [chat.state(id) for id in ("b", "same address", "same person")] == ["gone"] * 3
    assert chat.state("another") == "waiting"
    assert chat.partner("a") == "c"


def test_the_partner_of_a_banned_visitor_is_freed_and_not_kept(chat: Chat) -> None:
    chat.connect("b", address="192.0.2.1")
    chat.enter("a")
    chat.send("b", "resume")
    chat.send("a", "report", reason="rude")
    chat.send("a", "leave")
    chat.enter("c")
    assert chat.partner("c") == "b"
    chat.wire.read("c")
    chat.ban(stored_reports(chat)[0].id)
    assert chat.wire.read("c") == [DISCONNECTED]
    assert "kept" not in chat.item("c")


def test_the_sweep_closes_a_connection_that_has_opened_beside_its_ban(chat: Chat) -> None:
    chat.connect("b", address="192.0.2.1")
    chat.enter("a")
    chat.send("a", "report", reason="rude")
    reports.act(chat.context(), stored_reports(chat)[0].id, ReportAction(action="ban"))
    assert chat.wire.closed == []
    chat.sweep()
    assert (chat.wire.closed, chat.state("a")) == (["b"], "waiting")
    chat.wait(25 * 3600)
    chat.connect("c", address="192.0.2.1")
    chat.sweep()
    assert chat.wire.closed == ["b"]


def test_the_frames_of_clients_without_receipts_have_no_new_fields(pair: Chat) -> None:
    pair.send("b", "message", text="hello", ref="r")
    [message] = pair.wire.read("a")
    assert set(message) == {"type", "text", "time"}
    assert without_time([message]) == [text("hello")]
    pair.send("b", "typing")
    assert pair.wire.read("a") == [{"type": "typing"}]
    assert set(pair.send("a", "status")[0]) == {"type", "state", "since"}
    assert json.loads(handlers.error_frame("slow_down", "r")) == {
        "type": "error",
        "code": "slow_down",
        "ref": "r",
    }
