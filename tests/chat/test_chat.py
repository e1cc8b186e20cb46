"""The contract of chat: its frames, and every event in every state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError
from chalice.test import Client

import app
from chalicelib import settings, times
from chalicelib.api import auth, rates
from chalicelib.chat import evidence, matchmaker, outbox, resume, waiting_pool
from chalicelib.chat.connections import BLOCKED, RefusalCache, key, received_at
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Range
from chalicelib.dynamo.table import connect
from chalicelib.errors import Busy
from ops.aws import template
from tests.chat.dearest import dearest  # noqa: F401 (for the tests of the whole app)
from tests.chat.story import COSTS, story  # noqa: F401 (for the tests of the whole app)
from tests.histories.world import BEGIN
from tests.support.chatting import CONNECTED, DISCONNECTED, NOT_MATCHED, Chat, text, without_time
from tests.support.contexts import SETTINGS
from tests.support.meter import Meter
from tests.support.records import scan


@pytest.fixture
def admin(chat: Chat) -> Iterator[Callable[[str], Any]]:
    """Yield a function that calls the API as an admin."""
    bearer = "Bearer " + auth.mint(settings.current(), "admin-1", scope="admin")
    with Client(app.app) as client:

        def get(path: str) -> Any:
            answer = client.http.get(path, headers={"Authorization": bearer})
            assert answer.status_code == 200, answer.body
            return answer.json_body

        yield get


@pytest.fixture
def chat(dev_table: template.Table) -> Chat:
    return Chat(connect())


# -- matched at once -----------------------------------------------------------------------------------


def test_two_new_connections_are_matched_and_both_are_notified(chat: Chat) -> None:
    [status] = chat.enter("a")
    assert {**status, "since": ""} == {"type": "status", "state": "waiting", "since": ""}
    status, note = chat.enter("b")
    assert (status["type"], status["state"], note) == ("status", "matched", CONNECTED)
    assert chat.wire.read("a") == [CONNECTED]
    assert (chat.partner("a"), chat.partner("b")) == ("b", "a")
    assert chat.pool() == []


def test_a_third_connection_waits_and_a_fourth_is_matched_with_it(chat: Chat) -> None:
    for id in "abcd":
        chat.enter(id)
    assert [chat.partner(id) for id in "abcd"] == ["b", "a", "d", "c"]


def test_the_longest_waiting_connection_is_matched_first(chat: Chat) -> None:
    chat.enter("a", interests="chess")
    chat.enter("b", interests="music")
    chat.wait(6)
    chat.enter("c")
    assert chat.partner("c") == "a"


def test_connections_of_two_lobbies_are_not_matched(chat: Chat) -> None:
    chat.enter("a", lobby="red")
    chat.enter("b", lobby="blue")
    chat.enter("c", lobby="red")
    assert [chat.partner(id) for id in "abc"] == ["c", None, "a"]


@pytest.mark.parametrize("lobby", ["a b", ""])
def test_a_handshake_with_a_malformed_lobby_is_refused(chat: Chat, lobby: str) -> None:
    assert chat.connect("a", query={"lobby": lobby}) == 400
    assert chat.item("a") == {}


@pytest.mark.security
def test_a_handshake_from_a_foreign_origin_is_refused(chat: Chat) -> None:
    chat.settings = SETTINGS._replace(stage="prod", origins=("https://www.example.org",))
    assert chat.connect("a", headers={"Origin": "https://evil.example"}) == 403
    assert chat.item("a") == {}
    assert chat.connect("a", headers={"Origin": "https://www.example.org"}) == 200


def test_a_duplicate_connect_event_joins_once(chat: Chat) -> None:
    chat.enter("a")
    before = chat.item("a")
    assert chat.connect("a") == 200
    assert chat.item("a") == before
    assert chat.pool() == ["a"]


def test_a_connect_event_after_the_disconnect_does_not_join(chat: Chat) -> None:
    chat.enter("a")
    chat.disconnect("a")
    assert chat.connect("a", opens=False) == 200
    assert (chat.state("a"), chat.pool()) == ("gone", [])


# -- messages ------------------------------------------------------------------------------------------


@pytest.fixture
def pair(chat: Chat) -> Chat:
    chat.enter("a")
    chat.enter("b")
    chat.wire.read("a")
    return chat


def test_messages_reach_only_the_partner_and_in_order(pair: Chat) -> None:
    pair.enter("c")
    assert [pair.send("a", "message", text=each) for each in ("one", "two", "three")] == [[]] * 3
    assert without_time(pair.wire.read("b")) == [text("one"), text("two"), text("three")]
    assert pair.send("b", "message", text="ö") == []
    assert without_time(pair.wire.read("a")) == [text("ö")]
    assert pair.wire.read("c") == []


def test_typing_reaches_the_partner(pair: Chat) -> None:
    assert pair.send("a", "typing") == []
    assert pair.wire.read("b") == [{"type": "typing"}]


@pytest.mark.parametrize("action", ["message", "typing", "report"])
def test_an_action_that_needs_a_partner_is_rejected_without_one(chat: Chat, action: str) -> None:
    chat.enter("a")
    assert chat.send("a", action, text="hello", reason="why") == [NOT_MATCHED]


MALFORMED = {
    "{}": "bad_request",
    '{"action": "fly"}': "bad_request",
    '{"action": "message"}': "bad_request",
    '{"action": "message", "text": ""}': "bad_request",
    '{"action": "message", "text": 7}': "bad_request",
    '{"action": "report"}': "bad_request",
    '{"action": "report", "reason": "' + "x" * 501 + '"}': "bad_request",
    '{"action": "subscribe", "topic": "nothing:at-all"}': "bad_request",
    '{"action": "unsubscribe"}': "bad_request",
    '{"action": "message", "text": "' + "x" * 2001 + '"}': "too_long",
    '{"action": "message", "text": "' + "x" * 9000 + '"}': "too_long",
}


def test_a_malformed_frame_gets_an_error_and_the_connection_stays_open(pair: Chat) -> None:
    for frame, code in MALFORMED.items():
        pair.send_raw("a", frame)
        assert pair.wire.read("a") == [{"type": "error", "code": code}], frame
        pair.send("a", "message", text="still here")
        assert without_time(pair.wire.read("b")) == [text("still here")], frame


def test_a_text_of_2000_characters_is_accepted(pair: Chat) -> None:
    pair.send_raw("a", json.dumps({"action": "message", "text": "ü" * 2000}, ensure_ascii=False))
    assert len(pair.wire.read("b")[0]["text"]) == 2000


def test_a_connection_sends_30_frames_at_once_and_three_more_a_second(chat: Chat) -> None:
    chat.enter("a")
    answers = [chat.send("a", "ping") for _ in range(32)]
    assert answers[:29] == [[{"type": "pong"}]] * 29  # the first frame was the status
    assert answers[29:] == [[{"type": "error", "code": "slow_down"}]] * 3
    chat.wait(0.25)
    assert chat.send("a", "ping") == [{"type": "error", "code": "slow_down"}]
    chat.wait(0.75)
    assert [chat.send("a", "ping")[0]["type"] for _ in range(5)] == ["pong"] * 3 + ["error"] * 2
    chat.wait(10)
    assert [chat.send("a", "ping")[0]["type"] for _ in range(32)] == ["pong"] * 30 + ["error"] * 2


SLOW_DOWN = {"type": "error", "code": "slow_down"}
TOO_FAST = {"type": "close", "code": 4008, "reason": "keeps sending after slow_down"}


def flood(chat: Chat, id: str) -> None:
    """Send frames until the next one is too fast."""
    while chat.send(id, "ping") == [{"type": "pong"}]:
        pass


@pytest.mark.security
def test_ten_refused_frames_in_a_row_close_the_connection(pair: Chat) -> None:
    pair.enter("c")
    flood(pair, "a")  # the first refusal
    for _ in range(8):
        assert pair.send("a", "ping") == [SLOW_DOWN]
    assert pair.wire.closed == []
    assert pair.send("a", "ping") == [SLOW_DOWN, TOO_FAST]
    assert pair.wire.closed == ["a"]
    assert (pair.state("a"), pair.partner("b")) == ("gone", "c")  # nobody has to wait for $disconnect
    posts = pair.wire.posts
    pair.send("a", "ping")  # on its way when the connection was closed
    pair.disconnect("a")
    assert (pair.wire.posts, pair.partner("b")) == (posts, "c")


def test_refusals_of_several_processes_are_counted_together(chat: Chat) -> None:
    """On AWS several processes may handle the frames of one connection."""
    chat.enter("a")
    flood(chat, "a")
    for _ in range(9):
        assert chat.wire.closed == []
        chat.refusals = RefusalCache()
        chat.send("a", "ping")
    assert chat.wire.closed == ["a"]


def test_an_accepted_frame_resets_the_count_of_refusals(chat: Chat) -> None:
    chat.enter("a")
    for _ in range(3):
        flood(chat, "a")
        for _ in range(8):
            assert chat.send("a", "ping") == [SLOW_DOWN]
        chat.wait(10)
    assert "refused" in chat.item("a")
    assert chat.send("a", "ping") == [{"type": "pong"}]
    assert "refused" not in chat.item("a")
    assert chat.wire.closed == []


@pytest.mark.security
def test_a_frame_that_is_refused_again_costs_no_access_to_the_table(chat: Chat) -> None:
    chat.enter("a")
    for _ in range(29):
        chat.send("a", "ping")
    costs = []
    for _ in range(3):
        with Meter(chat.table.client) as meter:
            assert chat.send("a", "ping") == [SLOW_DOWN]
        costs.append((meter.write_units, meter.read_units))
    assert costs == [(1, 0), (0, 0), (0, 0)]


def test_malformed_frames_count_for_the_rate(chat: Chat) -> None:
    chat.enter("a")
    for _ in range(29):
        chat.send_raw("a", "{")
        assert chat.wire.read("a") == [{"type": "error", "code": "bad_request"}]
    for _ in range(10):
        chat.send_raw("a", '{"action": "message", "text": "' + "x" * 9000 + '"}')
    assert chat.wire.read("a") == [SLOW_DOWN] * 10 + [TOO_FAST]
    assert chat.wire.closed == ["a"]


def test_the_rate_is_measured_at_the_arrival_of_a_frame(chat: Chat) -> None:
    chat.enter("a")
    chat.wait(60)
    begun = times.milliseconds(chat.now) - 40_000
    for second in range(40):  # one a second, which an overloaded server handles all at once
        chat.send_raw("a", '{"action": "ping"}', requestTimeEpoch=begun + 1000 * second)
    assert chat.wire.read("a") == [{"type": "pong"}] * 40
    chat.enter("b")
    begun = times.milliseconds(chat.now) + 500
    for _ in range(31):  # all at once, which it handles one a second
        chat.wait(1)
        chat.send_raw("b", '{"action": "ping"}', requestTimeEpoch=begun)
    assert chat.wire.read("b") == [{"type": "pong"}] * 30 + [SLOW_DOWN]


@pytest.mark.parametrize("epoch", [None, "1", 0, 10**14, -(10**14)])
def test_the_time_of_arrival_is_within_the_last_minute_for_any_event(epoch: Any) -> None:
    found = received_at({"requestTimeEpoch": epoch}, BEGIN)
    assert BEGIN - timedelta(minutes=1) <= found <= BEGIN


@pytest.mark.security
def test_a_resumed_connection_inherits_the_rate(chat: Chat) -> None:
    chat.enter("a")
    resume_token = request_token(chat, "a")
    flood(chat, "a")
    assert chat.connect("a2", query={"resume": resume_token}) == 200
    assert chat.send("a2", "status") == [SLOW_DOWN]
    assert chat.item("a2")["refused"] == 2
    chat.wait(10)
    assert chat.send("a2", "status")[0]["type"] == "status"


def test_a_resumed_connection_that_has_sent_no_frame_may_still_be_opening(pair: Chat) -> None:
    resume_token = request_token(pair, "a")
    assert pair.connect("a2", opens=False, query={"resume": resume_token}) == 200
    pair.send("b", "typing")  # a 410, for it is opening
    assert pair.state("a2") == "matched"


# -- next, leave, find ---------------------------------------------------------------------------------


def test_next_separates_two_partners_who_are_not_matched_again_at_once(pair: Chat) -> None:
    assert pair.send("a", "next") == []
    assert pair.wire.read("b") == [DISCONNECTED]
    for id in "ab":
        assert pair.send(id, "status")[0]["state"] == "waiting"
    pair.enter("c")
    assert pair.partner("c") in ("a", "b")


def test_next_matches_one_of_the_two_with_a_waiting_connection(pair: Chat) -> None:
    """The two look for a partner concurrently, so either may find the third."""
    pair.enter("c")
    frames = {"a": pair.send("a", "next"), "b": pair.wire.read("b")}
    first, other = ("a", "b") if pair.partner("c") == "a" else ("b", "a")
    assert pair.partner(first) == "c"
    assert pair.state(other) == "waiting"
    wanted = {"a": [], "b": [DISCONNECTED]}
    wanted[first] = [*wanted[first], CONNECTED]
    assert frames == wanted


def test_former_partners_are_matched_again_after_a_while(pair: Chat) -> None:
    pair.send("a", "next")
    pair.wait(9)
    assert pair.send("a", "ping") == [{"type": "pong"}]
    pair.wait(2)
    assert pair.send("a", "ping") == [{"type": "pong"}, CONNECTED]
    assert pair.partner("a") == "b"


def add_entry(chat: Chat, id: str, **profile: Any) -> Item:
    """Write the pool entry of a connection that has no item."""
    entry = waiting_pool.build_entry(
        "main", waiting_pool.new_state_id(id, chat.tick()), {"who": id, "endpoint": "", "born": 0, **profile}
    )
    chat.table.put(entry)
    return entry


def test_the_former_partner_is_no_candidate_while_another_waits(pair: Chat) -> None:
    """Nor is it after a lost race, when one of several candidates is chosen at random."""
    pair.send("a", "next")
    pair.wait(11)
    for id in "cd":
        add_entry(pair, id)
    found = waiting_pool.find_candidates(pair.context(), pair.item("a"))
    assert [waiting_pool.id_of(item) for item in found] == ["c", "d"]


def test_the_former_partner_is_no_candidate_while_another_waits_on_the_next_page(pair: Chat) -> None:
    """The first page has the former partner, and many connections that do not accept anyone yet."""
    pair.send("a", "next")
    pair.wait(11)
    for number in range(waiting_pool.PAGE):
        add_entry(pair, f"w{number}", interests={"music"})
    me = pair.item("a")
    assert [
        waiting_pool.id_of(candidate) for candidate in waiting_pool.find_candidates(pair.context(), me)
    ] == ["b"]
    add_entry(pair, "c")
    assert [
        waiting_pool.id_of(candidate) for candidate in waiting_pool.find_candidates(pair.context(), me)
    ] == ["c"]


def test_after_a_lost_race_only_candidates_with_a_shared_interest_are_tried(chat: Chat) -> None:
    chat.enter("a", interests="chess,film")
    chat.wait(6)
    for id, interest in (("b", "chess"), ("c", "none"), ("d", "film")):
        add_entry(chat, id, interests={interest})
    chat.wait(6)
    found = waiting_pool.find_candidates(chat.context(), chat.item("a"))
    assert [waiting_pool.id_of(item) for item in found] == ["b", "d"]


def test_next_keeps_the_position_of_a_waiting_connection(chat: Chat) -> None:
    chat.enter("a", interests="chess")
    chat.enter("b", interests="music")
    chat.send("a", "next")
    chat.send("a", "find")
    assert chat.pool() == ["a", "b"]


@pytest.mark.parametrize("before", ["waiting", "matched"])
def test_leave_makes_a_connection_idle_and_find_makes_it_wait(chat: Chat, before: str) -> None:
    chat.enter("a")
    if before == "matched":
        chat.enter("b")
        chat.wire.read("a")
    assert chat.send("a", "leave") == []
    assert chat.send("a", "leave") == []
    assert chat.send("a", "status")[0]["state"] == "idle"
    assert "a" not in chat.pool()
    assert chat.send("a", "message", text="hello") == [NOT_MATCHED]
    chat.enter("c")
    assert chat.partner("a") is None
    chat.send("a", "find")
    assert chat.send("a", "find") == []
    assert chat.state("a") != "idle"


def test_leave_frees_the_partner_and_it_is_matched_again(pair: Chat) -> None:
    pair.enter("c")
    pair.send("a", "leave")
    assert pair.wire.read("b") == [DISCONNECTED, CONNECTED]
    assert pair.wire.read("c") == [CONNECTED]
    assert (pair.state("a"), pair.partner("b"), pair.partner("c")) == ("idle", "c", "b")


# -- the end of a connection ---------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["waiting", "idle", "matched", "gone"])
def test_a_disconnect_is_idempotent_in_every_state(chat: Chat, before: str) -> None:
    chat.enter("a")
    if before == "matched":
        chat.enter("b")
        chat.wire.read("a")
    elif before == "idle":
        chat.send("a", "leave")
    elif before == "gone":
        chat.disconnect("a")
    chat.disconnect("a")
    chat.disconnect("a")
    assert (chat.state("a"), chat.partner("a")) == ("gone", None)
    assert chat.pool() == (["b"] if before == "matched" else [])
    if before == "matched":
        assert chat.wire.read("b") == [DISCONNECTED]
        assert chat.send("b", "status")[0]["state"] == "waiting"


def test_a_disconnect_of_an_unknown_connection_writes_nothing(chat: Chat) -> None:
    chat.disconnect("nobody")
    assert chat.item("nobody") == {}


def test_a_late_frame_of_a_connection_that_has_left_does_nothing(pair: Chat) -> None:
    pair.disconnect("a")
    pair.wire.read("b")
    for action in ("message", "next", "find", "leave", "report", "status"):
        pair.send("a", action, text="too late", reason="late")
    assert pair.wire.read("b") == []
    assert (pair.state("a"), pair.pool()) == ("gone", ["b"])


def test_an_unknown_connection_is_closed_so_that_its_client_reconnects(chat: Chat) -> None:
    chat.wire.open.add("stranger")
    chat.send("stranger", "status")
    assert chat.wire.closed == ["stranger"]


@pytest.mark.parametrize("action", ["message", "typing"])
def test_a_frame_to_a_dead_partner_frees_the_sender(pair: Chat, action: str) -> None:
    pair.enter("c")
    pair.die("b")
    assert pair.send("a", action, text="hello?") == [DISCONNECTED, CONNECTED]
    assert (pair.state("b"), pair.partner("a")) == ("gone", "c")


def test_a_message_to_a_partner_whose_item_has_expired_frees_the_sender(pair: Chat) -> None:
    pair.die("b")
    pair.table.delete(key("b"))
    assert pair.send("a", "message", text="hello?") == [DISCONNECTED]
    assert pair.state("a") == "waiting"


def test_a_dead_waiting_connection_is_removed_when_it_is_matched(chat: Chat) -> None:
    chat.enter("a")
    chat.die("a")
    chat.wait(11)
    assert [frame["type"] for frame in chat.enter("b")] == ["status"]
    assert (chat.state("a"), chat.state("b"), chat.pool()) == ("gone", "waiting", ["b"])


def test_a_connection_that_is_opening_is_not_dead_after_a_410(chat: Chat) -> None:
    chat.connect("a", opens=False)
    chat.enter("b")  # is matched with a, which cannot receive posts yet
    assert (chat.partner("a"), chat.partner("b")) == ("b", "a")
    chat.wire.open.add("a")
    status, note = chat.send("a", "status")
    assert (status["state"], note) == ("matched", CONNECTED)


def test_a_connection_that_never_opens_is_dead_after_ten_seconds(chat: Chat) -> None:
    chat.connect("a", opens=False)
    chat.enter("b")
    chat.wait(11)
    assert chat.send("b", "message", text="hello?") == [DISCONNECTED]
    assert (chat.state("a"), chat.pool()) == ("gone", ["b"])


def test_a_partner_is_notified_of_the_pair_before_the_first_message(chat: Chat) -> None:
    chat.enter("a")
    chat.connect("b")  # it has not asked for its status yet
    chat.send("a", "message", text="hello")
    assert without_time(chat.wire.read("b")) == [CONNECTED, text("hello")]


def claim_delivery(chat: Chat, id: str) -> None:
    """Claim the delivery of a connection's notices for a handler that does not end."""
    until = times.epoch(chat.now) + outbox.CLAIM
    chat.table.update(
        key(id),
        "SET claimed_until = :until, claim = :claim",
        values={":until": until, ":claim": "another"},
    )


def test_a_message_is_refused_while_the_partner_cannot_be_notified_of_the_pair(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An overloaded server may not deliver the notice within the time that a message waits."""
    monkeypatch.setattr(outbox, "WAITS", (0.01,))
    chat.enter("a")
    chat.connect("b")
    chat.wire.read("a")
    claim_delivery(chat, "b")
    assert chat.send("a", "typing") == []
    assert chat.send("a", "message", text="one") == [SLOW_DOWN]
    assert chat.send("a", "message", text="two") == [SLOW_DOWN]  # nor is any later one accepted
    assert chat.wire.read("b") == []
    chat.wait(outbox.CLAIM + 1)
    assert chat.send("a", "message", text="three") == []
    assert without_time(chat.wire.read("b")) == [CONNECTED, text("three")]


def test_a_stale_pool_entry_is_deleted_by_the_connection_that_tries_it(chat: Chat) -> None:
    chat.enter("a")
    [entry] = chat.table.query(Range("WAITING#main")).items
    chat.disconnect("a")
    chat.table.put(entry)
    chat.enter("b")
    assert chat.pool() == ["b"]
    chat.enter("c")
    assert chat.partner("b") == "c"


def test_the_last_status_is_true_when_a_partner_comes_during_the_post(chat: Chat) -> None:
    """A function that has just started may need a second for its first post."""
    chat.connect("a")

    def meet(id: str) -> None:
        chat.wire.before_post = lambda id: None
        chat.connect("b")

    chat.wire.before_post = meet
    frames = chat.send("a", "status")
    assert [frame.get("state") or frame["code"] for frame in frames] == [
        "partner_connected",
        "waiting",
        "matched",
    ]


def test_a_message_to_a_connection_that_is_resumed_meanwhile_reaches_the_new_one(pair: Chat) -> None:
    resume_token = request_token(pair, "b")

    def cut(id: str) -> None:
        pair.wire.before_post = lambda id: None
        pair.enter("b2", resume=resume_token)

    pair.wire.before_post = cut
    assert pair.send("a", "message", text="still there?") == []
    pair.wire.before_post = lambda id: None
    assert without_time(pair.wire.read("b2"))[-1:] == [text("still there?")]


# -- the sweep -----------------------------------------------------------------------------------------


def test_the_sweep_frees_the_partner_of_a_dead_connection(pair: Chat) -> None:
    pair.die("b")
    pair.sweep()
    assert pair.state("a") == "matched"  # the sweep does not ask about connections with a recent frame
    pair.wait(61)
    pair.sweep()
    assert (pair.state("a"), pair.state("b")) == ("waiting", "gone")
    assert pair.wire.read("a") == [DISCONNECTED]


def test_the_sweep_does_not_change_open_connections(pair: Chat) -> None:
    pair.wait(300)
    before = pair.item("a"), pair.item("b")
    pair.sweep()
    assert (pair.item("a"), pair.item("b")) == before


def test_the_sweep_marks_connections_older_than_two_hours_and_five_minutes_as_gone(pair: Chat) -> None:
    pair.wait(2 * 3600 + 400)
    pair.sweep()
    assert (pair.state("a"), pair.state("b")) == ("gone", "gone")


# -- interests -----------------------------------------------------------------------------------------


def test_a_shared_interest_ranks_above_a_longer_wait(chat: Chat) -> None:
    chat.enter("a", interests="chess")
    chat.enter("b", interests="music,film")
    chat.enter("c", interests="Film")
    assert (chat.partner("c"), chat.partner("a")) == ("b", None)


def test_after_some_seconds_connections_accept_anyone_and_any_frame_matches_them(chat: Chat) -> None:
    chat.enter("a", interests="chess")
    chat.enter("b", interests="music")
    chat.wait(4)
    assert chat.send("a", "ping") == [{"type": "pong"}]
    chat.wait(2)
    assert chat.send("a", "ping") == [{"type": "pong"}, CONNECTED]
    assert chat.partner("a") == "b"


def test_the_sweep_continues_until_waiting_connections_accept_anyone(chat: Chat) -> None:
    chat.enter("a", interests="chess")
    chat.enter("b", interests="music")
    chat.sweep(seconds=50)
    assert chat.partner("a") == "b"
    assert (chat.wire.read("a"), chat.wire.read("b")) == ([CONNECTED], [CONNECTED])


@pytest.mark.parametrize("before", [30, 0])
def test_the_sweep_continues_for_a_newcomer_beside_any_waiting_connection(chat: Chat, before: float) -> None:
    """Beside a connection that has waited for long, and beside one that the sweep itself has just freed."""
    chat.enter("a", interests="chess")
    if before:
        chat.wait(before)
    else:
        chat.enter("b", interests="chess")
        chat.die("b")
        chat.wait(61)
    chat.enter("c", interests="music")
    chat.sweep(seconds=50)
    assert (chat.partner("a"), chat.partner("c")) == ("c", "a")


def test_the_sweep_goes_on_when_the_table_is_busy_with_one_connection(
    pair: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mark_gone(context: Context, id: str) -> matchmaker.ConnectionIds:
        if id == "b":
            raise Busy("busy")
        return original(context, id)

    original = matchmaker.mark_gone
    pair.enter("c")
    pair.enter("d")
    for id in "bd":
        pair.die(id)
    pair.wait(61)
    with monkeypatch.context() as patched:
        patched.setattr(matchmaker, "mark_gone", mark_gone)
        pair.sweep()
    assert (pair.state("a"), pair.state("c")) == ("matched", "waiting")
    pair.sweep()
    assert pair.state("b") == "gone"


# -- reports -------------------------------------------------------------------------------------------


def test_a_report_separates_two_partners_for_good(pair: Chat) -> None:
    assert pair.send("a", "report", reason="insults") == []
    assert pair.wire.read("b") == [DISCONNECTED]
    pair.wait(3600)
    for id in "abab":
        assert pair.send(id, "status")[0]["state"] == "waiting"
    pair.enter("c")
    assert pair.partner("c") in ("a", "b")


def test_an_admin_reads_the_reason_and_the_proved_messages_of_a_report(
    pair: Chat, admin: Callable[[str], Any]
) -> None:
    pair.send("a", "message", text="hello")
    pair.send("b", "message", text="go away")
    quoted = [
        {"text": "hello", "mine": True},
        {"text": "go away"},
        {"text": "I never said that"},
        {"text": "go away", "mine": True},
    ]
    pair.send("a", "report", reason="rude", messages=quoted)
    [stored] = admin("/chat/reports")["items"]
    assert (stored["reason"], stored["lobby"]) == ("rude", "main")
    assert [(m["author"], m["text"], m["proved"]) for m in stored["messages"]] == [
        ("reporter", "hello", True),
        ("reported", "go away", True),
        ("reported", "I never said that", False),
        ("reporter", "go away", False),
    ]
    assert stored["reporter"] == pair.item("a")["who"]
    assert stored["reported"] == pair.item("b")["who"]


def test_reports_are_listed_newest_first_in_pages_and_expire(pair: Chat, admin: Callable[[str], Any]) -> None:
    for reason in ("first", "second", "third"):
        pair.send("a", "find")
        pair.enter(f"new-{reason}")
        assert pair.state("a") == "matched"
        pair.send("a", "report", reason=reason)
    page = admin("/chat/reports?limit=2")
    assert [item["reason"] for item in page["items"]] == ["third", "second"]
    last = admin(f"/chat/reports?limit=2&cursor={page['cursor']}")
    assert [item["reason"] for item in last["items"]] == ["first"]
    assert last["cursor"] is None
    for item in scan(pair.table):
        if item["pk"] == "REPORTS":
            assert item["ttl"] - times.epoch(pair.now) == 30 * 86400


def test_a_reported_stranger_is_matched_with_the_next_connection(pair: Chat) -> None:
    """A report does not keep the partner for the reporter, even when the reporter has a token."""
    request_token(pair, "a")
    pair.send("a", "report", reason="for fun")
    pair.disconnect("a")
    assert (pair.state("b"), pair.pool()) == ("waiting", ["b"])
    assert "kept" not in pair.item("b")
    pair.enter("c")
    assert (pair.partner("b"), pair.partner("c")) == ("c", "b")


def report(chat: Chat, stranger: str, address: str) -> list[Any]:
    """Match a stranger in a lobby of its own, and report it. Return the frames that the reporter gets."""
    for id in ("r" + stranger, stranger):
        chat.enter(id, lobby=stranger)
    chat.wire.read("r" + stranger)
    identity = {"sourceIp": address}
    chat.send_raw("r" + stranger, '{"action": "report", "reason": "no"}', identity=identity)
    assert chat.state(stranger) == "waiting"
    return chat.wire.read("r" + stranger)


def count_reports(chat: Chat) -> int:
    return len(chat.table.query(Range("REPORTS")).items)


@pytest.mark.security
def test_an_address_may_send_five_reports_and_one_more_every_five_minutes(chat: Chat) -> None:
    for number in range(5):
        assert report(chat, f"s{number}", "192.0.2.1") == []
    assert report(chat, "s5", "192.0.2.1") == [SLOW_DOWN]  # and is separated for good all the same
    assert chat.item("s5")["blocked"] == {chat.item("rs5")["who"]}
    assert count_reports(chat) == 5
    assert report(chat, "other", "192.0.2.2") == []
    chat.wait(301)
    assert report(chat, "s6", "192.0.2.1") == []
    assert report(chat, "s7", "192.0.2.1") == [SLOW_DOWN]
    assert count_reports(chat) == 7


def test_an_address_is_stored_as_a_keyed_digest_that_expires(chat: Chat) -> None:
    report(chat, "s", "192.0.2.1")
    [item] = [item for item in scan(chat.table) if item["pk"].startswith("BUCKET#reports#")]
    assert item["ttl"] - times.epoch(chat.now) <= 1500
    assert rates.address_key(SETTINGS, "reports", "192.0.2.1").pk == item["pk"]
    assert rates.address_key(OTHER, "reports", "192.0.2.1").pk != item["pk"]


@pytest.mark.security
def test_reports_do_not_block_more_than_a_hundred_visitors(chat: Chat) -> None:
    chat.enter("r")
    chat.enter("s")
    chat.wire.read("r")
    many = {f"{number:018}" for number in range(BLOCKED)}
    chat.table.update(key("s"), "SET blocked = :many", values={":many": many})
    assert chat.send("r", "report", reason="no") == []
    assert chat.item("s")["blocked"] == many
    assert chat.item("r")["blocked"] == {chat.item("s")["who"]}


OTHER = SETTINGS._replace(secret="x" * 32)


def test_without_a_secret_messages_arrive_with_random_digests(dev_table: template.Table, chat: Chat) -> None:
    chat.settings = SETTINGS._replace(secret="")
    for id in "ab":
        chat.enter(id)
    chat.wire.read("a")
    for _ in range(2):
        chat.send("a", "message", text="hello")
    assert without_time(chat.wire.read("b")) == [text("hello")] * 2
    first, second = map(evidence.digest_of, chat.item("a")["said"])
    assert first != second


def test_no_text_of_a_conversation_and_no_personal_data_is_stored(pair: Chat) -> None:
    secret = "my name is Ada, from 192.0.2.7"
    pair.send("a", "message", text=secret)
    pair.send("b", "message", text=secret)
    stored = repr(scan(pair.table))
    assert "Ada" not in stored
    assert "192.0.2.7" not in stored
    # A reader of the table cannot guess messages: a digest needs the stage's secret.
    digests = {evidence.digest_of(said) for id in "ab" for said in pair.item(id)["said"]}
    assert not digests & {hashlib.blake2b(secret.encode(), digest_size=4).digest()}
    assert digests == {evidence.digest_message(SETTINGS, secret)} != {evidence.digest_message(OTHER, secret)}
    assert "Mozilla" not in stored  # the user agent in context()


# -- resuming -----------------------------------------------------------------------------------------


def request_token(chat: Chat, id: str) -> str:
    """Return a resume token of a connection."""
    [answer] = chat.send(id, "resume")
    assert answer["type"] == "resume"
    return str(answer["token"])


def test_before_a_cut_a_second_connection_takes_over_without_notice_to_the_partner(pair: Chat) -> None:
    pair.enter("c")
    resume_token = request_token(pair, "a")
    status, note = pair.enter("a2", resume=resume_token)
    assert (status["state"], note) == ("matched", CONNECTED)
    assert (pair.partner("a2"), pair.partner("b"), pair.state("a")) == ("b", "a2", "gone")
    assert pair.wire.closed == ["a"]
    pair.disconnect("a")
    assert pair.wire.read("b") == []
    pair.send("b", "message", text="still there?")
    assert without_time(pair.wire.read("a2")) == [text("still there?")]


def test_after_a_cut_the_partner_is_kept_for_a_minute(pair: Chat) -> None:
    pair.enter("c")
    resume_token = request_token(pair, "a")
    pair.disconnect("a", code=1001)
    assert pair.wire.read("b") == [DISCONNECTED]
    assert pair.send("b", "status")[0]["state"] == "waiting"
    pair.wait(59)
    assert pair.send("b", "ping") == [{"type": "pong"}]
    assert [frame["type"] for frame in pair.enter("a2", resume=resume_token)] == ["status", "system"]
    assert (pair.partner("a2"), pair.partner("b")) == ("b", "a2")
    assert pair.wire.read("b") == [CONNECTED]


@pytest.mark.parametrize("released", ["its own frame", "the sweep", "its next"])
def test_a_kept_partner_is_released_after_a_minute_or_by_its_next(pair: Chat, released: str) -> None:
    pair.enter("c")
    resume_token = request_token(pair, "a")
    pair.disconnect("a", code=1001)
    if released == "its next":
        pair.send("b", "next")
    else:
        pair.wait(62)
        if released == "the sweep":
            pair.sweep()
        else:
            pair.send("b", "ping")
    assert (pair.partner("b"), pair.partner("c")) == ("c", "b")
    assert pair.enter("a2", resume=resume_token)[0]["state"] == "waiting"


@pytest.mark.parametrize("code", [1000, 1001])
def test_a_partner_is_not_kept_for_a_client_that_closes_or_has_no_token(pair: Chat, code: int) -> None:
    pair.enter("c")
    if code == 1000:
        request_token(pair, "a")
    pair.disconnect("a", code=code)
    assert pair.partner("b") == "c"


@pytest.mark.parametrize("before", ["idle", "matched"])
def test_a_token_of_a_client_that_has_left_is_ignored(pair: Chat, before: str) -> None:
    resume_token = request_token(pair, "a")
    if before == "idle":
        pair.send("a", "leave")
    pair.disconnect("a", code=1000)
    assert pair.enter("a2", lobby="red", resume=resume_token)[0]["state"] == "waiting"
    assert pair.item("a2")["lobby"] == "red"


def test_a_token_can_be_used_once(pair: Chat) -> None:
    resume_token = request_token(pair, "a")
    pair.disconnect("a", code=1001)
    pair.enter("a2", resume=resume_token)
    assert pair.enter("a3", resume=resume_token)[0]["state"] == "waiting"
    assert pair.partner("b") == "a2"


@pytest.mark.parametrize("wrong", ["", "nonsense", "of another key"])
def test_a_client_with_an_invalid_token_joins_as_usual(chat: Chat, wrong: str) -> None:
    if wrong == "of another key":
        wrong = resume.create_token(SETTINGS._replace(secret="x" * 32), "a", BEGIN)
    assert chat.enter("a", resume=wrong)[0]["state"] == "waiting"


@pytest.mark.parametrize("state", ["waiting", "idle"])
def test_a_connection_without_a_partner_can_be_resumed(chat: Chat, state: str) -> None:
    chat.enter("a", lobby="red", interests="chess")
    if state == "idle":
        chat.send("a", "leave")
    resume_token = request_token(chat, "a")
    chat.enter("b", lobby="red", interests="music")
    assert chat.enter("a2", resume=resume_token)[0]["state"] == state
    assert chat.pool("red") == (["a2", "b"] if state == "waiting" else ["b"])
    assert chat.item("a2")["interests"] == {"chess"}


def test_a_reported_visitor_who_resumes_is_not_matched_with_the_reporter(pair: Chat) -> None:
    pair.send("a", "report", reason="insults")
    assert pair.wire.read("b") == [DISCONNECTED]
    resume_token = request_token(pair, "b")
    assert pair.enter("b2", resume=resume_token)[0]["state"] == "waiting"
    pair.wait(3600)
    pair.send("a", "status")
    assert (pair.partner("a"), pair.partner("b2")) == (None, None)


# -- failed posts --------------------------------------------------------------------------------------


def test_an_unreachable_partner_is_not_dead(pair: Chat) -> None:
    def fail(id: str) -> None:
        if id == "b":
            raise EndpointConnectionError(endpoint_url="https://b")

    pair.wire.before_post = fail
    assert pair.send("a", "message", text="hello") == [{"type": "error", "code": "slow_down"}]
    pair.wire.before_post = lambda id: None
    assert pair.state("b") == "matched"


def test_a_post_whose_response_was_lost_is_not_retried(pair: Chat) -> None:
    calls = []

    def lost(id: str) -> None:
        calls.append(id)
        raise ReadTimeoutError(endpoint_url="https://b")

    pair.wire.before_post = lost
    pair.send("a", "message", text="hello")
    assert calls.count("b") == 1
