"""Live topics: subscribers get changes a few times a second, and always the last one."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError

import app
from chalicelib.aggregates import engine
from chalicelib.api.rates import Limit
from chalicelib.chat import subscriptions
from chalicelib.dynamo.items import pack
from chalicelib.dynamo.table import connect
from chalicelib.views import events, queries
from chalicelib.views.events import View
from local.filters import passes
from ops.aws import template
from tests.histories.world import BEGIN
from tests.support.capacity import item_size
from tests.support.chatting import Chat, is_subscribed
from tests.support.contexts import new_context
from tests.support.meter import Meter
from tests.support.records import Reader, record, scan
from tests.support.site import Site

PAGE = "https://example.org/a"
TOPIC = f"views:{PAGE}"


class Pages:
    """A chat whose clients subscribe to views, on a stream that the test delivers."""

    def __init__(self, stream_arn: str) -> None:
        self.chat = Chat(connect(), sources=app.TOPICS)
        self.stream = Reader(boto3.client("dynamodbstreams"), stream_arn)
        self.views = 0

    def view(self, url: str = PAGE) -> None:
        self.views += 1
        seen = View(url, BEGIN - timedelta(seconds=1), f"client-{self.views}")
        events.write(new_context(self.chat.table, BEGIN), [seen])

    def deliver(self) -> list[Any]:
        """Deliver one batch to the two consumers of the stream, as app.apply and app.push do."""
        records = self.stream.read("apply", "push")
        counted, shown = (
            [record for record in records if passes(record, name)] for name in ("apply", "push")
        )
        engine.apply(self.chat.table, app.CONTRIBUTIONS, counted, derivations=app.DERIVATIONS)
        subscriptions.push(self.chat.context(), app.TOPICS, shown)
        return records

    def settle(self) -> None:
        """Deliver until nothing changes any more. The clock advances, as it does on AWS."""
        while self.deliver():
            self.chat.wait(0.1)

    def heard(self, id: str) -> list[int]:
        return [frame["value"]["views"] for frame in self.chat.wire.read(id) if frame["type"] == "update"]


@pytest.fixture
def pages(dev_table: template.Table) -> Pages:
    return Pages(dev_table.stream_arn)


def test_a_push_has_the_value_that_the_rest_call_returns(pages: Pages) -> None:
    pages.chat.enter("a")
    assert is_subscribed(pages.chat.send("a", "subscribe", topic=TOPIC))
    pages.view()
    pages.settle()
    update = {"type": "update", "topic": TOPIC, "value": {"url": PAGE, "views": 1, "visitors": 1}}
    assert pages.chat.wire.read("a")[-1] == update


def test_a_topic_in_another_notation_is_the_same_and_pushed_in_the_clients_notation(pages: Pages) -> None:
    pages.chat.enter("a")
    pages.chat.send("a", "subscribe", topic="views:HTTPS://EXAMPLE.org:443/x/../a#top")
    pages.view()
    pages.settle()
    update = pages.chat.wire.read("a")[-1]
    assert update["topic"] == "views:HTTPS://EXAMPLE.org:443/x/../a#top"
    assert update["value"]["url"] == PAGE


def test_many_changes_at_once_are_few_pushes_with_the_last_value(pages: Pages) -> None:
    pages.chat.enter("a")
    pages.chat.send("a", "subscribe", topic=TOPIC)
    for _ in range(12):
        pages.view()
        pages.deliver()
    heard = pages.heard("a")
    assert len(heard) == 1  # no time has passed
    pages.settle()
    heard += pages.heard("a")
    assert len(heard) <= 4
    assert heard[-1] == 12
    assert heard == sorted(heard)


def test_redelivered_records_are_harmless(pages: Pages) -> None:
    pages.chat.enter("a")
    pages.chat.send("a", "subscribe", topic=TOPIC)
    pages.view()
    pages.deliver()
    records = pages.stream.read("push")
    for _ in range(2):
        subscriptions.push(pages.chat.context(), app.TOPICS, records)
        pages.chat.wait(1)
    assert pages.heard("a") == [1, 1]


def test_a_change_is_pushed_only_to_subscribers_of_its_page(pages: Pages) -> None:
    for id in "ab":
        pages.chat.enter(id)
    pages.chat.send("a", "subscribe", topic=TOPIC)
    pages.chat.send("a", "subscribe", topic=TOPIC)
    pages.view("https://example.org/b")
    pages.settle()
    assert (pages.heard("a"), pages.heard("b")) == ([], [])


def test_unsubscribe_ends_the_pushes(pages: Pages) -> None:
    pages.chat.enter("a")
    pages.chat.send("a", "subscribe", topic=TOPIC)
    pages.chat.send("a", "unsubscribe", topic=TOPIC)
    pages.view()
    pages.settle()
    assert pages.heard("a") == []
    assert [item for item in scan(pages.chat.table) if item["pk"].startswith("TOPIC#")] == []


def test_a_disconnect_removes_the_subscriptions(pages: Pages) -> None:
    pages.chat.enter("a")
    pages.chat.send("a", "subscribe", topic=TOPIC)
    pages.chat.disconnect("a")
    pages.view()
    pages.settle()
    assert [item for item in scan(pages.chat.table) if item["pk"].startswith("TOPIC#")] == []


def test_a_dead_listener_is_removed_and_delays_no_other(pages: Pages) -> None:
    for id in "ab":
        pages.chat.enter(id)
        pages.chat.send(id, "subscribe", topic=TOPIC)
    pages.chat.die("a")
    pages.view()
    pages.settle()
    assert pages.heard("b")[-1] == 1
    left = [item["sk"] for item in scan(pages.chat.table) if item["pk"].startswith("TOPIC#")]
    assert sorted(left) == ["CONN#b", "HEAD"]


def test_a_connection_subscribes_to_at_most_ten_topics(pages: Pages) -> None:
    pages.chat.enter("a")
    for number in range(10):
        assert is_subscribed(pages.chat.send("a", "subscribe", topic=f"{TOPIC}/{number}"))
    assert is_subscribed(pages.chat.send("a", "subscribe", topic=f"{TOPIC}/0"))
    assert pages.chat.send("a", "subscribe", topic=TOPIC) == [{"type": "error", "code": "bad_request"}]


def test_a_change_without_subscribers_costs_one_read(pages: Pages) -> None:
    pages.view()
    pages.deliver()
    records = pages.stream.read("push")
    with Meter(pages.chat.table.client) as meter:
        subscriptions.push(pages.chat.context(), app.TOPICS, records)
    assert (meter.write_units, meter.read_units) == (0, 1)


def test_a_malformed_record_changes_no_topic() -> None:
    assert (
        subscriptions.changed_topics(app.TOPICS, [None, {}, {"dynamodb": {"Keys": {"pk": {"S": "URL#x"}}}}])
        == {}
    )


def test_a_failing_source_does_not_stop_counting(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    pages.chat.enter("a")
    pages.chat.send("a", "subscribe", topic=TOPIC)
    pages.view()

    def fail(*_: Any) -> None:
        raise LookupError("a planted failure")

    monkeypatch.setitem(app.TOPICS, "views", app.TOPICS["views"]._replace(value=fail))
    pages.settle()
    assert queries.live(pages.chat.context(), PAGE).views == 1


# -- pushes are not counting -----------------------------------------------------------------------------


class Metrics:
    """A replacement for CloudWatch that keeps the metrics of `subscriptions.push`."""

    def __init__(self) -> None:
        self.amounts: Counter[str] = Counter()

    def count(self, **amounts: int) -> None:
        self.amounts.update(amounts)

    def publish(self, service: str) -> None:
        assert service == "chat"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    metrics = Metrics()
    monkeypatch.setattr(subscriptions, "metrics", metrics)
    return metrics.amounts


class Clock:
    """A clock that advances by `each` seconds with each post."""

    def __init__(self, pages: Pages, each: float) -> None:
        self.now = 0.0

        def post(id: str) -> None:
            self.now += each

        pages.chat.wire.before_post = post

    def __call__(self) -> float:
        return self.now


def push(pages: Pages, records: list[Any], **options: Any) -> None:
    subscriptions.push(pages.chat.context(), app.TOPICS, records, **options)


PAGE_CHANGED = record(None, {"pk": f"URL#{PAGE}", "sk": "STATISTICS", "gsi1sk": 1})


def listeners(pages: Pages, count: int, name: str = "c") -> list[str]:
    ids = [f"{name}{number}" for number in range(count)]
    for id in ids:
        pages.chat.enter(id)
        pages.chat.send(id, "leave")
        assert is_subscribed(pages.chat.send(id, "subscribe", topic=TOPIC))
    return ids


def changed(pages: Pages, url: str = PAGE) -> list[Any]:
    """Count a view of a page, and return the records of the change."""
    pages.view(url)
    engine.apply(pages.chat.table, app.CONTRIBUTIONS, pages.stream.read(), derivations=app.DERIVATIONS)
    return pages.stream.read("push")


@pytest.mark.security
def test_counting_reads_no_topics_and_posts_nothing(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    listeners(pages, 3)
    pages.stream.read()
    pages.view()
    keys: list[str] = []

    def see(params: Any, **_: Any) -> None:
        keys.append(repr(params))

    monkeypatch.setattr(app, "connect", lambda: pages.chat.table)
    monkeypatch.setattr(app.app.websocket_api, "session", pages.chat.wire)
    posts = pages.chat.wire.posts
    pages.chat.table.client.meta.events.register("before-parameter-build.dynamodb", see)
    while records := pages.stream.read():
        app.apply({"Records": records}, None)
    assert queries.live(pages.chat.context(), PAGE).views == 1
    assert keys
    assert [key for key in keys if "TOPIC#" in key or "CONN#" in key] == []
    assert pages.chat.wire.posts == posts


def test_after_a_gateway_failure_the_next_change_brings_the_value(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    [id] = listeners(pages, 1)
    records = changed(pages)

    def fail(_: str) -> None:
        raise EndpointConnectionError(endpoint_url="https://gateway.invalid")

    pages.chat.wire.before_post = fail
    push(pages, records)
    assert queries.live(pages.chat.context(), PAGE).views == 1
    pages.chat.wire.before_post = lambda _: None
    pages.chat.wait(1)
    push(pages, changed(pages))
    assert pages.heard(id) == [2]


@pytest.mark.security
def test_listeners_beyond_the_time_budget_get_the_value_of_the_next_change(
    pages: Pages, counted: Counter[str]
) -> None:
    ids = listeners(pages, 5)
    records, clock = changed(pages), Clock(pages, each=1)
    push(pages, records, seconds=2, clock=clock)
    assert sorted(pages.heard(id) for id in ids) == [[], [], [], [1], [1]]
    assert counted == {"PushesDropped": 3}
    pages.chat.wait(1)
    push(pages, changed(pages), clock=Clock(pages, each=0))
    assert [pages.heard(id) for id in ids] == [[2]] * 5


def test_a_topic_beyond_the_time_budget_comes_again_through_the_stream(
    pages: Pages, counted: Counter[str]
) -> None:
    other = "https://example.org/b"
    [id] = listeners(pages, 1)
    pages.chat.send(id, "subscribe", topic=f"views:{other}")
    records = changed(pages) + changed(pages, other)
    push(pages, records, seconds=1, clock=Clock(pages, each=1))
    assert len(pages.chat.wire.read(id)) == 1
    assert counted == {"PushesDeferred": 1}
    again = pages.stream.read("push")
    push(pages, again, clock=Clock(pages, each=0))
    assert [frame["topic"] for frame in pages.chat.wire.read(id)] == [f"views:{other}"]


def test_a_full_topic_accepts_a_listener_after_another_has_left(pages: Pages) -> None:
    pages.chat.settings = pages.chat.settings._replace(topic_listeners=3)
    ids = listeners(pages, 3)
    pages.chat.enter("late")
    full = [{"type": "error", "code": "slow_down"}]

    def tries() -> Any:
        frames = pages.chat.send("late", "subscribe", topic=TOPIC)
        return [frame for frame in frames if frame["type"] == "error"]

    assert tries() == full
    assert is_subscribed(pages.chat.send(ids[0], "subscribe", topic=TOPIC))  # a repeated subscription

    def dies() -> None:
        pages.chat.die(ids[2])
        push(pages, [PAGE_CHANGED])  # which removes the dead listener

    for leave in (
        lambda: pages.chat.send(ids[0], "unsubscribe", topic=TOPIC),
        lambda: pages.chat.disconnect(ids[1]),
        dies,
    ):
        assert tries() == full
        leave()
        assert tries() == []
        assert pages.chat.send("late", "unsubscribe", topic=TOPIC) == []
        listeners(pages, 1, name=f"after-{leave.__code__.co_firstlineno}")


def test_a_push_corrects_a_wrong_number_of_listeners(pages: Pages) -> None:
    listeners(pages, 2)
    key, table = subscriptions.head_key(TOPIC), pages.chat.table
    table.update(key, "SET listeners = :many", values={":many": 99})
    push(pages, changed(pages))
    assert (table.get(key) or {})["listeners"] == 2


@pytest.mark.security
def test_a_process_sends_a_limited_number_of_posts(
    pages: Pages, counted: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each post is paid for, and anyone can follow many topics with many connections."""
    monkeypatch.setattr(subscriptions, "POSTS", Limit(at_once=3, interval=1_000))
    other, ids = "https://example.org/b", listeners(pages, 3)
    pages.chat.send(ids[0], "subscribe", topic=f"views:{other}")
    push(pages, changed(pages) + changed(pages, other))
    assert counted == {"PushesDeferred": 1}
    assert [pages.heard(id) for id in ids] == [[1]] * 3
    again = pages.stream.read("push")
    pages.chat.wait(1)
    push(pages, again)
    assert [frame["topic"] for frame in pages.chat.wire.read(ids[0])] == [f"views:{other}"]


def test_a_topic_with_many_listeners_is_pushed_less_often(pages: Pages) -> None:
    [id] = listeners(pages, 1)
    key, table = subscriptions.head_key(TOPIC), pages.chat.table
    push(pages, changed(pages))
    table.update(key, "SET listeners = :many", values={":many": 1_000})
    pages.chat.wait(3.9)
    push(pages, changed(pages))
    assert pages.heard(id) == [1]
    pages.chat.wait(0.1)
    push(pages, changed(pages))
    assert pages.heard(id) == [3]


@pytest.mark.security
def test_ten_topics_with_the_longest_names_keep_a_connections_item_small(pages: Pages) -> None:
    pages.chat.enter("a")
    for number in range(10):
        url = f"https://example.org/{number}{'x' * 1479}"
        assert is_subscribed(pages.chat.send("a", "subscribe", topic=f"views:{url}"))
    for _ in range(19):
        pages.chat.send("a", "ping")
    assert item_size(pack(pages.chat.item("a"))) < 1024
    pages.view(url)
    pages.settle()
    assert {frame["topic"] for frame in pages.chat.wire.read("a")} == {f"views:{url}"}
    pages.chat.disconnect("a")
    left = [item["sk"] for item in scan(pages.chat.table) if item["pk"].startswith("TOPIC#")]
    assert set(left) == {"HEAD"}


# -- the other features' topics ---------------------------------------------------------------------------


class Listener:
    """A subscriber to a topic of the app, whose own handler applies the stream."""

    def __init__(self, site: Site, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chat, self.topic = Chat(site.table, sources=app.TOPICS), topic
        monkeypatch.setattr(app.app.websocket_api, "session", self.chat.wire)
        self.chat.enter("a")
        assert is_subscribed(self.chat.send("a", "subscribe", topic=topic))
        site.settle()
        assert self.chat.wire.read("a") == []

    def last(self) -> Any:
        """Return the last value that was pushed."""
        update = self.chat.wire.read("a")[-1]
        assert (update["type"], update["topic"]) == ("update", self.topic)
        return update["value"]


def test_a_score_pushes_the_first_ten_entries_and_the_number_of_players(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = site.token("admin")
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


def _board(site: Site, players: int) -> dict[str, Any]:
    """Return the responses of the board's GET calls in the form of a push."""
    board, entries = (site.get(f"/leaderboards/points{path}") for path in ("", "/entries?limit=10"))
    assert board["players"] == players
    assert len(entries["items"]) == min(players, 10)
    return {"board": "points", "season": board["season"], "players": players, "items": entries["items"]}


def test_a_path_pushes_the_statistics_of_its_challenge(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("hunt", "other"):
        body = {"title": "Treasure hunt", "paths": ["Oak", "Elm", "Ash"]}
        assert site.call("PUT", f"/challenges/{name}", body, who="admin")[0] == 201
    listener = Listener(site, "challenge:hunt", monkeypatch)
    for players, path in enumerate(("Oak", "Elm", "Ash"), start=1):
        answer = site.call("POST", "/challenges/hunt/paths", {"path": path}, who=f"player-{players}")
        assert answer[0] == 201, answer
        site.settle()
        value = listener.last()
        assert value == site.get("/challenges/hunt/statistics")
        assert value["players"] == players
    site.call("POST", "/challenges/other/paths", {"path": "Oak"}, who="player-1")
    site.settle()
    assert listener.chat.wire.read("a") == []


def test_a_comment_pushes_the_statistics_of_its_product(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(site, "product:coat", monkeypatch)
    for count, rating in enumerate((5, 2, 4), start=1):
        body = {"rating": rating, "language": "en", "text": "Fits."}
        answer = site.call("POST", "/products/coat/comments", body, who=f"user-{count}")
        assert answer[0] == 201, answer
        site.settle()
        value = listener.last()
        assert value == site.get("/products/coat/statistics")
        assert value["total"] == count
    body = {"rating": 1, "language": "en", "text": "No."}
    site.call("POST", "/products/hat/comments", body, who="user-1")
    site.settle()
    assert listener.chat.wire.read("a") == []


INVALID = (
    *("", ":", "views", "views:", "views:nowhere", "views:ftp://example.org/", "Views:https://example.org/"),
    *("leaderboard", "leaderboard:", "leaderboard:a b", "leaderboards:points", " leaderboard:points"),
    *("challenge:", "challenge:a#b", "product:", "product:\n", f"product:{'p' * 1000}", "nothing:points"),
)


@pytest.mark.parametrize("action", ["subscribe", "unsubscribe"])
def test_an_invalid_topic_is_refused_and_writes_nothing(pages: Pages, action: str) -> None:
    for number, topic in enumerate(INVALID):
        id = f"c{number // 9}"  # ten refused frames in a row close a connection
        if number % 9 == 0:
            pages.chat.enter(id)
        assert pages.chat.send(id, action, topic=topic) == [{"type": "error", "code": "bad_request"}], topic
        assert "listens" not in pages.chat.item(id), topic
    assert [item for item in scan(pages.chat.table) if item["pk"].startswith("TOPIC#")] == []
