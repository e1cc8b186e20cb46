"""Live topics: who listens is told of changes, a few times a second, and always of the last one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import boto3
import pytest

import app
from bench.meter import Meter
from chalicelib import aggregates, lobby, topics, views
from chalicelib.events import View
from chalicelib.settings import Settings
from chalicelib.table import connect
from ops import definition
from proof.world import BEGIN
from tests.chatting import Chat
from tests.records import Reader, scan
from tests.site import Site as Clients

PAGE = "https://example.org/a"
TOPIC = f"views:{PAGE}"


class Site:
    """A chat whose clients listen to views, on a stream that is delivered when a test says so."""

    def __init__(self, stream_arn: str) -> None:
        self.chat = Chat(connect(), sources=app.TOPICS)
        self.stream = Reader(boto3.client("dynamodbstreams"), stream_arn)
        self.views = 0

    def view(self, url: str = PAGE) -> None:
        self.views += 1
        seen = View(url, BEGIN - timedelta(seconds=1), f"client-{self.views}")
        views.write(self.chat.table, [seen], Settings(), BEGIN)

    def deliver(self) -> list[Any]:
        """Hand one batch to the handlers of the stream, as app.apply does."""
        records = self.stream.read()
        aggregates.apply(self.chat.table, app.CONTRIBUTIONS, records)
        topics.push(self.chat.table, self.chat.posts, app.TOPICS, records, self.chat.now)
        return records

    def settle(self) -> None:
        """Deliver until nothing changes any more; the clock goes on, as it does on AWS."""
        while self.deliver():
            self.chat.wait(0.1)

    def heard(self, id: str) -> list[int]:
        return [frame["value"]["views"] for frame in self.chat.wire.read(id) if frame["type"] == "update"]


@pytest.fixture
def site(moto_table: definition.Table, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    connect.cache_clear()
    for module in (lobby, topics):
        monkeypatch.setattr(module, "at_once", lambda work, things: [work(thing) for thing in things])
    yield Site(moto_table.stream_arn)
    connect.cache_clear()


def test_who_listens_is_told_of_each_change_in_the_words_of_the_rest_call(site: Site) -> None:
    site.chat.come("a")
    assert site.chat.say("a", "subscribe", topic=TOPIC) == []
    site.view()
    site.settle()
    update = {"type": "update", "topic": TOPIC, "value": {"url": PAGE, "views": 1, "uniques": 1}}
    assert site.chat.wire.read("a")[-1] == update


def test_a_topic_is_the_same_in_another_notation_and_answered_in_the_clients_own(site: Site) -> None:
    site.chat.come("a")
    site.chat.say("a", "subscribe", topic="views:HTTPS://EXAMPLE.org:443/x/../a#top")
    site.view()
    site.settle()
    update = site.chat.wire.read("a")[-1]
    assert update["topic"] == "views:HTTPS://EXAMPLE.org:443/x/../a#top"
    assert update["value"]["url"] == PAGE


def test_many_changes_in_a_moment_are_few_pushes_and_the_last_value_is_among_them(site: Site) -> None:
    site.chat.come("a")
    site.chat.say("a", "subscribe", topic=TOPIC)
    for _ in range(12):
        site.view()
        site.deliver()
    heard = site.heard("a")
    assert len(heard) == 1  # no time has passed
    site.settle()
    heard += site.heard("a")
    assert len(heard) <= 4
    assert heard[-1] == 12
    assert heard == sorted(heard)


def test_the_same_records_again_do_no_harm(site: Site) -> None:
    site.chat.come("a")
    site.chat.say("a", "subscribe", topic=TOPIC)
    site.view()
    site.deliver()
    records = site.stream.read()
    for _ in range(2):
        topics.push(site.chat.table, site.chat.posts, app.TOPICS, records, site.chat.now)
        site.chat.wait(1)
    assert site.heard("a") == [1, 1]


def test_other_pages_and_other_people_are_not_told(site: Site) -> None:
    for id in "ab":
        site.chat.come(id)
    site.chat.say("a", "subscribe", topic=TOPIC)
    site.chat.say("a", "subscribe", topic=TOPIC)
    site.view("https://example.org/b")
    site.settle()
    assert (site.heard("a"), site.heard("b")) == ([], [])


def test_unsubscribe_is_the_end_of_it(site: Site) -> None:
    site.chat.come("a")
    site.chat.say("a", "subscribe", topic=TOPIC)
    site.chat.say("a", "unsubscribe", topic=TOPIC)
    site.view()
    site.settle()
    assert site.heard("a") == []
    assert [item for item in scan(site.chat.table) if item["pk"].startswith("TOPIC#")] == []


def test_with_the_connection_goes_what_it_listened_to(site: Site) -> None:
    site.chat.come("a")
    site.chat.say("a", "subscribe", topic=TOPIC)
    site.chat.disconnect("a")
    site.view()
    site.settle()
    assert [item for item in scan(site.chat.table) if item["pk"].startswith("TOPIC#")] == []


def test_a_listener_that_died_in_silence_is_taken_away_and_holds_up_nobody(site: Site) -> None:
    for id in "ab":
        site.chat.come(id)
        site.chat.say(id, "subscribe", topic=TOPIC)
    site.chat.die("a")
    site.view()
    site.settle()
    assert site.heard("b")[-1] == 1
    left = [item["sk"] for item in scan(site.chat.table) if item["pk"].startswith("TOPIC#")]
    assert sorted(left) == ["CONN#b", "HEAD"]


def test_a_connection_listens_to_ten_topics_at_most(site: Site) -> None:
    site.chat.come("a")
    for number in range(10):
        assert site.chat.say("a", "subscribe", topic=f"{TOPIC}/{number}") == []
    assert site.chat.say("a", "subscribe", topic=f"{TOPIC}/0") == []
    assert site.chat.say("a", "subscribe", topic=TOPIC) == [{"type": "error", "code": "bad_request"}]


def test_a_change_that_nobody_listens_to_costs_one_read(site: Site) -> None:
    site.view()
    site.deliver()
    records = site.stream.read()
    with Meter(site.chat.table.client) as meter:
        topics.push(site.chat.table, site.chat.posts, app.TOPICS, records, site.chat.now)
    assert (meter.write_units, meter.read_units) == (0, 1)


def test_what_is_no_record_changes_no_topic() -> None:
    assert topics.changes(app.TOPICS, [None, {}, {"dynamodb": {"Keys": {"pk": {"S": "URL#x"}}}}]) == {}


def test_a_source_that_fails_is_logged_and_counting_goes_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.chat.come("a")
    site.chat.say("a", "subscribe", topic=TOPIC)
    site.view()

    def fail(*_: Any) -> None:
        raise LookupError("as told")

    monkeypatch.setitem(app.TOPICS, "views", app.TOPICS["views"]._replace(value=fail))
    site.settle()
    assert views.live(site.chat.table, PAGE).views == 1


# -- the other features' topics, on real engines ---------------------------------------------------------


class Listener:
    """One who listens to a topic of the app, whose stream is applied by the app's own handler."""

    def __init__(self, site: Clients, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chat, self.topic = Chat(site.table, sources=app.TOPICS), topic
        monkeypatch.setattr(app.app.websocket_api, "session", self.chat.wire)
        self.chat.come("a")
        assert self.chat.say("a", "subscribe", topic=topic) == []
        site.settle()
        assert self.chat.wire.read("a") == []

    def last(self) -> Any:
        """Answer the value that came last."""
        update = self.chat.wire.read("a")[-1]
        assert (update["type"], update["topic"]) == ("update", self.topic)
        return update["value"]


def test_a_score_pushes_the_first_ten_and_the_number_of_players(
    live_site: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, admin = live_site, live_site.admin()
    for board in ("points", "others"):
        assert site.call("PUT", f"/leaderboards/{board}", {"title": "Points"}, Authorization=admin)[0] == 201
    listener = Listener(site, "leaderboard:points", monkeypatch)

    def score(board: str, player: str, value: int) -> None:
        body = {"id": f"{board}-{player}", "value": value, "player": player}
        answer = site.call("POST", f"/leaderboards/{board}/scores", body, Authorization=admin)
        assert answer[0] == 201, answer

    for number in range(12):
        score("points", f"p{number}", number % 7)
        if number in (0, 9, 11):
            site.settle()
            assert listener.last() == _board(site, players=number + 1)
    score("others", "p0", 1)
    site.settle()
    assert listener.chat.wire.read("a") == []
    assert site.call("DELETE", "/leaderboards/points/players/p6", Authorization=admin)[0] == 204
    site.settle()
    assert listener.last() == _board(site, players=11)


def _board(site: Clients, players: int) -> dict[str, Any]:
    """Answer what the board's GETs answer, in the form in which it is pushed."""
    board, entries = (site.get(f"/leaderboards/points{path}") for path in ("", "/entries?limit=10"))
    assert board["players"] == players
    assert len(entries["items"]) == min(players, 10)
    return {"board": "points", "season": board["season"], "players": players, "items": entries["items"]}


def test_a_path_pushes_the_statistics_of_its_challenge(
    live_site: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = live_site
    for name in ("hunt", "other"):
        body = {"title": "Treasure hunt", "paths": ["Oak", "Elm", "Ash"]}
        assert site.call("PUT", f"/challenges/{name}", body, Authorization=site.admin())[0] == 201
    listener = Listener(site, "challenge:hunt", monkeypatch)
    for players, path in enumerate(("Oak", "Elm", "Ash"), start=1):
        answer = site.call(
            "POST", "/challenges/hunt/paths", {"path": path}, Authorization=site.token(f"player-{players}")
        )
        assert answer[0] == 201, answer
        site.settle()
        value = listener.last()
        assert value == site.get("/challenges/hunt/statistics")
        assert value["players"] == players
    site.call("POST", "/challenges/other/paths", {"path": "Oak"}, Authorization=site.token("player-1"))
    site.settle()
    assert listener.chat.wire.read("a") == []


def test_a_comment_pushes_the_statistics_of_its_product(
    live_site: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = live_site
    listener = Listener(site, "product:coat", monkeypatch)
    for count, rating in enumerate((5, 2, 4), start=1):
        body = {"rating": rating, "language": "en", "text": "Fits."}
        answer = site.call("POST", "/products/coat/comments", body, Authorization=site.token(f"user-{count}"))
        assert answer[0] == 201, answer
        site.settle()
        value = listener.last()
        assert value == site.get("/products/coat/statistics")
        assert value["total"] == count
    body = {"rating": 1, "language": "en", "text": "No."}
    site.call("POST", "/products/hat/comments", body, Authorization=site.token("user-1"))
    site.settle()
    assert listener.chat.wire.read("a") == []


@pytest.mark.parametrize(
    "topic",
    [
        *(
            "",
            ":",
            "views",
            "views:",
            "views:nowhere",
            "views:ftp://example.org/",
            "Views:https://example.org/",
        ),
        *("leaderboard", "leaderboard:", "leaderboard:a b", "leaderboards:points", " leaderboard:points"),
        *("challenge:", "challenge:a#b", "product:", "product:\n", f"product:{'p' * 1000}", "nothing:points"),
    ],
)
def test_a_topic_that_cannot_be_is_refused_and_leaves_nothing(site: Site, topic: str) -> None:
    site.chat.come("a")
    for action in ("subscribe", "unsubscribe"):
        assert site.chat.say("a", action, topic=topic) == [{"type": "error", "code": "bad_request"}]
    assert "topics" not in site.chat.item("a")
    assert [item for item in scan(site.chat.table) if item["pk"].startswith("TOPIC#")] == []
