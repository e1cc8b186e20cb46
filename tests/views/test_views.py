"""Views over REST, from the request to the aggregate."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from moto import mock_aws

import app
from chalicelib import settings
from chalicelib.api import auth, cursors, rates
from chalicelib.api.auth import Caller
from chalicelib.chat import subscriptions
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadCursor, BadRequest, Busy, TooOld
from chalicelib.settings import Settings
from chalicelib.views import events as views
from chalicelib.views import queries as view_queries
from chalicelib.views.events import View, check
from chalicelib.views.schemas import EventsQuery, SeriesQuery, ViewsBody
from ops.aws.smoke import smoke_page
from tests.support.contexts import new_context
from tests.support.faults import instead
from tests.support.limits import freeze
from tests.support.records import scan
from tests.support.site import Site
from tests.support.tables import create_queue
from tests.views.dearest import dearest  # noqa: F401 (for the tests of the whole app)
from tests.views.story import COSTS, story  # noqa: F401 (for the tests of the whole app)

PAGE = "https://example.org/a"
LAST = SeriesQuery(url=PAGE, interval="hour", from_="9999-12-31", to="9999-12-31T23:59:59Z")


def event(seconds_ago: float = 0, *, url: str = PAGE, client: str = "c-1") -> dict[str, str]:
    time = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    return {"url": url, "time": time.isoformat(), "clientId": client}


def test_the_published_event_is_accepted_as_it_is_and_counted(site: Site) -> None:
    assert site.post(event()) == (202, {"accepted": 1, "rejected": []})
    site.settle()
    assert site.get(f"/views?url={PAGE}") == {"url": PAGE, "views": 1, "visitors": 1}


def test_an_address_without_a_scheme_is_accepted_by_every_route(site: Site) -> None:
    published = "myblog.com/article1"
    assert site.post(event(url=published)) == (202, {"accepted": 1, "rejected": []})
    assert site.post({"events": [event(1, url=published)]}) == (202, {"accepted": 1, "rejected": []})
    site.settle()
    url = f"https://{published}"
    assert site.get(f"/views?url={published}") == {"url": url, "views": 2, "visitors": 1}
    assert site.get(f"/views?url={url}")["views"] == 2
    assert site.get(f"/views/series?url={published}")["items"][-1]["views"] >= 1
    assert "views: 2" in site.get(f"/views/badge.svg?url={published}")
    events = site.get(f"/views/events?url={published}", who="admin")["items"]
    assert [event["url"] for event in events] == [url, url]
    assert site.get("/views/top?site=myblog.com")["items"] == [{"url": url, "views": 2}]
    assert subscriptions.canonical(app.TOPICS, f"views:{published}") == f"views:{url}"
    with_port = "localhost:8000/x"
    assert site.post(event(url=with_port))[0] == 202
    site.settle()
    assert site.get(f"/views?url={with_port}")["url"] == f"https://{with_port}"


def test_an_unknown_page_has_0_views(site: Site) -> None:
    assert site.get(f"/views?url={PAGE}") == {"url": PAGE, "views": 0, "visitors": 0}


def test_the_same_view_in_another_notation_counts_once(site: Site) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    there = now.astimezone(datetime.strptime("+0530", "%z").tzinfo)
    same = [
        {"url": "https://EXAMPLE.org:443/x/../a#top", "time": now.isoformat(), "clientId": "c"},
        {"url": PAGE, "time": there.isoformat(), "clientId": "c"},
        {"url": PAGE, "time": now.strftime("%Y-%m-%dT%H:%M:%SZ"), "clientId": "c"},
        {"url": PAGE, "time": now.strftime("%Y-%m-%dT%H:%M:%S.000Z"), "clientId": "c"},
    ]
    for notation in same:
        assert site.post(notation)[0] == 202
    assert site.post({"events": same})[1]["accepted"] == 4
    site.settle()
    assert site.get(f"/views?url={PAGE}")["views"] == 1


def test_a_batch_returns_a_reason_for_each_event_that_does_not_count(site: Site) -> None:
    day = 86_400
    good = event()
    batch = {
        "bad_url": good | {"url": "not an address"},
        "bad_time": good | {"time": "yesterday"},
        "bad_client": good | {"clientId": ""},
        "too_old": event(8 * day),
        "in_the_future": event(-3600),
    }
    status, reply = site.post({"events": [good, *batch.values()]})
    assert status == 202
    assert reply["accepted"] == 1
    assert reply["rejected"] == [{"index": i, "reason": reason} for i, reason in enumerate(batch, 1)]
    site.settle()
    assert site.get(f"/views?url={PAGE}")["views"] == 1


def test_a_single_event_without_an_address_is_400_and_says_so(site: Site) -> None:
    assert site.post({}) == (400, {"code": "BadRequest", "message": "`url` is required"})


def test_an_event_of_any_shape_gets_a_reason(site: Site) -> None:
    shapes: list[Any] = [None, 1, "text", [], {}, {"url": 1}, {"time": 1}, {"url": {"a": 1}}]
    for odd in shapes:
        status, reply = site.post({"events": [odd, event()]})
        assert (status, reply["accepted"]) == (202, 1), odd
        assert reply["rejected"][0]["reason"] == "bad_url", odd


@pytest.mark.parametrize("number", ["1e-999", "1e99999999999999999999", "9" * 50])
def test_an_event_may_have_any_number_in_a_field_that_views_do_not_have(site: Site, number: str) -> None:
    body = json.dumps(event() | {"screen": "?"}).replace('"?"', number)
    assert site.post(body.encode()) == (202, {"accepted": 1, "rejected": []})
    assert site.post(f'{{"events": [{body}]}}'.encode()) == (202, {"accepted": 1, "rejected": []})
    bad = f'{{"url": "{PAGE}", "time": {number}, "clientId": "c"}}'
    assert site.post(bad.encode())[1]["message"].startswith("`time` ")


MALFORMED: dict[str, tuple[Any, ...]] = {
    "url": ("example", "/a", "ftp://example.org/", "javascript:alert(1)", "mailto:a@example.org", None),
    "time": ("2026-11-21T10:00:00", 5),
    "clientId": ("a b", "ü", "x" * 129, 7, ""),
}


@pytest.mark.parametrize("field", MALFORMED)
def test_a_single_malformed_event_is_400_and_names_the_field(site: Site, field: str) -> None:
    for value in MALFORMED[field]:
        status, reply = site.post(event() | {field: value})
        assert (status, reply["code"]) == (400, "BadRequest"), value
        assert reply["message"].startswith(f"`{field}` "), value


CRAWLER = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://google.com/bot)"


@pytest.mark.parametrize(
    ("reason", "field", "seconds_ago", "sent"),
    [
        ("too_old", "time", 30 * 86_400, (PAGE, "a browser")),
        ("in_the_future", "time", -3600, (PAGE, "a browser")),
        ("site_not_allowed", "url", 0, ("https://elsewhere.example/", "a browser")),
        ("bot", "User-Agent", 0, (PAGE, CRAWLER)),
    ],
)
def test_a_single_event_that_is_not_counted_is_422_with_its_reason_and_in_a_batch_it_is_rejected(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    reason: str,
    field: str,
    seconds_ago: float,
    sent: tuple[str, str],
) -> None:
    url, agent = sent
    body = event(seconds_ago, url=url)
    monkeypatch.setattr(app, "stage", app.stage._replace(sites=frozenset({"example.org"})))
    status, reply = site.post(body, User_Agent=agent)
    assert (status, reply["code"]) == (422, reason)
    assert reply["message"].startswith(f"`{field}` ")
    rejected = {"accepted": 0, "rejected": [{"index": 0, "reason": reason}]}
    assert site.post({"events": [body]}, User_Agent=agent) == (202, rejected)
    site.settle()
    assert scan(site.table) == []


def test_views_of_crawlers_and_automation_do_not_count_and_views_of_libraries_do(site: Site) -> None:
    malformed = event() | {"url": "?"}
    assert site.post(malformed, User_Agent=CRAWLER)[0] == 400
    rejected = [{"index": 0, "reason": "bad_url"}, {"index": 1, "reason": "bot"}]
    batch = {"events": [malformed, event()]}
    assert site.post(batch, User_Agent=CRAWLER) == (202, {"accepted": 0, "rejected": rejected})
    for program in ("python-requests/2.32", "curl/8.5", "node", ""):
        assert site.post(event(), User_Agent=program)[1]["accepted"] == 1, program
    for program in ("HeadlessChrome/130.0", "PhantomJS/2.1.1", "Prerender (+https://prerender.io)"):
        status, reply = site.post(event(), User_Agent=f"Mozilla/5.0 (X11; Linux) {program} Safari/537.36")
        assert (status, reply["code"]) == (422, "bot"), program
    assert site.post(event() | {"automated": True})[1]["code"] == "bot"
    assert site.post(event() | {"automated": False})[0] == 202


@pytest.mark.long
def test_a_batch_with_a_token_has_at_most_500_events(site: Site) -> None:
    batch = [event(i, client=f"c{i}") for i in range(500)]
    token = site.token("somebody")
    with instead(site.table, "BatchWriteItem") as writes, instead(site.table, "GetItem") as reads:
        everything = {"accepted": 500, "rejected": []}
        assert site.post({"events": batch}, Authorization=token) == (202, everything)
    assert (len(writes), len(reads)) == (20, 0)
    assert site.post({"events": [*batch, event()]}, Authorization=token)[0] == 413
    assert site.post({"events": []}) == (202, {"accepted": 0, "rejected": []})
    assert site.post({"events": [], "url": PAGE})[0] == 400


@pytest.mark.security
def test_a_batch_without_a_valid_token_has_at_most_25_events(site: Site) -> None:
    batch = [event(i, client=f"c{i}") for i in range(25)]
    assert site.post({"events": batch}) == (202, {"accepted": 25, "rejected": []})
    expired = "Bearer " + auth.mint(settings.current(), "me", seconds=-1)
    with instead(site.table, "BatchWriteItem") as writes:
        for token in ("", expired, "Bearer x"):
            status, reply = site.post({"events": [*batch, event()]}, Authorization=token)
            assert (status, reply["code"]) == (413, "TooLarge")
            assert "26" in reply["message"]
            assert "25" in reply["message"]
            assert "token" in reply["message"]
    assert writes == []
    for token in (site.token("me"), site.token("admin")):
        assert site.post({"events": [*batch, event()]}, Authorization=token)[0] == 202


@pytest.mark.security
def test_an_address_without_a_token_sends_500_events_at_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze(monkeypatch)
    statuses = []
    for request in range(40):
        batch = [event(client=f"visitor-{request}-{n}") for n in range(25)]
        statuses.append(site.post({"events": batch}, Authorization="")[0])
    assert statuses == [202] * 20 + [429] * 20
    assert site.post(event(), Authorization="")[1]["code"] == "SlowDown"
    for token in (site.token("ann"), site.token("admin")):
        assert (
            site.post({"events": [event(client=f"c{n}") for n in range(500)]}, Authorization=token)[0] == 202
        )


@pytest.mark.security
def test_a_request_whose_events_do_not_count_fills_no_bucket(site: Site) -> None:
    for _ in range(30):
        site.post({"events": [event() | {"url": "ftp://x"}] * 25}, Authorization="")
    assert scan(site.table) == []
    assert site.post(event(), Authorization="")[0] == 202


def test_a_stage_may_count_every_view_of_an_address(site: Site) -> None:
    stage = settings.current()._replace(views_rate=0)
    body = ViewsBody(events=[event(client=f"c{n}") for n in range(25)])
    for _ in range(21):
        views.accept(new_context(site.table, settings=stage), body, Caller(address="192.0.2.1"), {})
    assert not [item for item in scan(site.table) if item["sk"] == "BUCKET"]


@pytest.mark.security
def test_without_a_token_a_view_is_at_most_a_day_late(site: Site) -> None:
    _, guest = site.call("POST", "/guests", {})
    tokens = {
        "nobody": "",
        "guest": f"Bearer {guest['token']}",
        "ann": site.token("ann"),
        "admin": site.token("admin"),
    }
    hour = 3600
    for name, token in tokens.items():
        is_trusted = name in ("ann", "admin")
        assert site.post(event(23 * hour), Authorization=token)[0] == 202, name
        status, answer = site.post(event(25 * hour), Authorization=token)
        assert (status == 202, answer.get("code")) == (is_trusted, None if is_trusted else "too_old"), name
        answer = site.post({"events": [event(6 * 24 * hour), event(1)]}, Authorization=token)[1]
        assert answer["accepted"] == (2 if is_trusted else 1), name
    short = settings.current()._replace(views_window=timedelta(hours=2))
    old = ViewsBody(url=PAGE, time=event(3 * hour)["time"], client_id="c")
    with pytest.raises(TooOld):
        views.accept(new_context(site.table, settings=short), old, Caller(), {})


def test_a_busy_table_delays_no_view_on_its_way_to_the_queue(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_busy(*_: Any) -> int:
        raise Busy("The table is busy.")

    sent: list[Any] = []
    monkeypatch.setattr(rates, "take", be_busy)
    monkeypatch.setattr("chalicelib.views.queue.send", lambda _, events: sent.extend(events))
    body, stage = ViewsBody(events=[event()]), settings.current()
    with pytest.raises(Busy):
        views.accept(new_context(site.table, settings=stage), body, Caller(), {})
    views.accept(
        new_context(site.table, settings=stage._replace(queue_url="https://queue")), body, Caller(), {}
    )
    assert len(sent) == 1


def test_only_configured_sites_count() -> None:
    now = datetime.now(UTC)
    only = Settings(stage="dev", sites=frozenset({"example.org", "*.example.com"}))

    def reason(url: str, stage: Settings) -> object:
        seen = check(event() | {"url": url}, stage, now)
        return seen if isinstance(seen, str) else None

    assert reason("https://example.org/", only) is None
    assert reason("https://a.b.example.com/", only) is None
    assert reason("https://example.com/", only) == "site_not_allowed"
    assert reason("https://evil-example.org/", only) == "site_not_allowed"
    assert reason("https://example.org/", Settings(stage="dev")) == "site_not_allowed"
    assert reason("https://example.org/", Settings(stage="local")) is None
    assert reason("https://example.org/", Settings(stage="dev", sites=frozenset({"*"}))) is None


@pytest.mark.security
def test_an_allowed_site_with_a_path_allows_only_these_pages() -> None:
    listed = "example.org/blog/*, example.org/%41bout, Example.com, *.example.net/a?*, [::1]/x"
    stage = settings.read({"HUBBUB_STAGE": "dev", "HUBBUB_SITES": listed})
    now = datetime.now(UTC)
    counted = {
        "https://example.org/blog/": True,
        "http://example.org:8080/blog/2026/a?b=c": True,
        "https://example.org/x/../blog/a": True,
        "https://example.org/blog": False,
        "https://example.org/blog/../admin": False,
        "https://example.org/blog/%2e%2e/admin": False,
        "https://example.org/About": True,
        "https://example.org/About?x": False,
        "https://example.org/About/": False,
        "https://example.org/": False,
        "https://example.com/any?thing": True,
        "https://www.example.net/a?x": True,
        "https://www.example.net/a": False,
        "https://www.example.net/abc": False,
        "https://example.net/a?x": False,
        "https://evil-example.org/blog/": False,
    }
    for url, is_counted in counted.items():
        seen = check(event() | {"url": url}, stage, now)
        assert (seen != "site_not_allowed") == is_counted, url
    assert stage.allows("example.org")
    assert not stage.allows("example.net")
    with pytest.raises(ValueError, match="HUBBUB_SITES"):
        settings.read({"HUBBUB_SITES": "example.org/a\x07b"})


def test_the_smoke_test_uses_a_page_that_the_stage_counts() -> None:
    for listed in ("example.org", "*", "*.example.org", "example.org/blog/*", "a.example/x, b.example/*", ""):
        stage = settings.read({"HUBBUB_STAGE": "dev", "HUBBUB_SITES": listed})
        page = smoke_page(stage)
        assert bool(page) == bool(listed)
        if page:
            assert isinstance(check(event() | {"url": page}, stage, datetime.now(UTC)), View), listed


def test_a_view_whose_item_may_have_expired_is_not_written_again() -> None:
    """The item of a view outlives the period in which the view is accepted or waits in the queue."""
    stage, now = Settings(), datetime.now(UTC)
    oldest = now - stage.views_window
    accepted = check(event() | {"time": oldest.isoformat()}, stage, now)
    assert isinstance(accepted, View)
    assert check(event() | {"time": (oldest - timedelta(seconds=1)).isoformat()}, stage, now) == "too_old"
    written: list[Item] = []

    class RecordingTable(Table):
        def batch_put(self, items: Any) -> None:
            written.extend(items)

        def get_many(self, *keys: Any, **how: Any) -> dict[Any, Item]:
            return {}

        def update(self, *key: Any, **expression: Any) -> Item:
            return {}

    table: Any = RecordingTable("t", None)  # type: ignore[arg-type]
    assert views.write(new_context(table, now, stage), [accepted]) == 1
    removed_from = datetime.fromtimestamp(written[0]["ttl"], UTC)
    assert removed_from > now + timedelta(days=14)  # no message waits longer in the queue
    assert views.write(new_context(table, removed_from, stage), [accepted]) == 0


def test_a_series_has_every_hour_with_0_for_gaps(site: Site) -> None:
    today = datetime.now(UTC).replace(minute=30, second=0, microsecond=0) - timedelta(days=1)
    start = today.replace(hour=10)
    for minutes, client in ((0, "a"), (5, "a"), (6, "b"), (125, "a")):
        site.post({"url": PAGE, "time": (start + timedelta(minutes=minutes)).isoformat(), "clientId": client})
    site.settle()
    frame = f"from={start:%Y-%m-%dT09:59:00Z}&to={start:%Y-%m-%dT13:00:00Z}"
    items = site.get(f"/views/series?url={PAGE}&interval=hour&{frame}")["items"]
    assert [(item["time"][11:], item["views"], item["visitors"]) for item in items] == [
        ("09:00:00Z", 0, 0),
        ("10:00:00Z", 3, 2),
        ("11:00:00Z", 0, 0),
        ("12:00:00Z", 1, 1),
    ]
    [day] = site.get(f"/views/series?url={PAGE}&interval=day&from={start:%Y-%m-%d}&to={start:%Y-%m-%d}")[
        "items"
    ]
    assert day == {"time": f"{start:%Y-%m-%d}T00:00:00Z", "views": 4, "visitors": 2}


def test_a_client_is_one_visitor_a_day(site: Site) -> None:
    for days in (0, 0.001, 1, 2):
        site.post(event(days * 86_400))
    site.settle()
    found = site.get(f"/views?url={PAGE}")
    items = site.get(f"/views/series?url={PAGE}")["items"]
    assert found["views"] == sum(item["views"] for item in items) == 4
    assert found["visitors"] == sum(item["visitors"] for item in items)
    assert found["visitors"] in (3, 4)  # 4 in the first 90 seconds after midnight
    assert len(items) in (30, 31)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?url=",
        "?url=x",
        f"?url={PAGE}&interval=year",
        f"?url={PAGE}&from=yesterday",
        f"?url={PAGE}&to=2026-13-01",
        f"?url={PAGE}&from=2026-02-01&to=2026-01-01",
        f"?url={PAGE}&from=2026-02-02&to=2026-02-01",
        f"?url={PAGE}&from=2020-01-01&to=2026-01-01",
        f"?url={PAGE}&interval=hour&from=2026-01-01&to=2026-03-01",
        f"?url={PAGE}&url={PAGE}",
        f"?url={PAGE}&from=2026-01-01T00:00:00",
    ],
)
def test_a_malformed_series_query_is_400(site: Site, query: str) -> None:
    status, reply = site.call("GET", f"/views/series{query}")
    assert (status, reply["code"]) == (400, "BadRequest")


def test_top_pages_are_those_of_one_site_most_viewed_first(site: Site) -> None:
    for n, path in ((3, "/three"), (1, "/one"), (2, "/two")):
        site.post({"events": [event(i, url=f"https://example.org{path}") for i in range(n)]})
    site.post(event(url="https://other.example/"))
    site.settle()
    items = site.get("/views/top?site=example.org&limit=2")["items"]
    assert items == [
        {"url": "https://example.org/three", "views": 3},
        {"url": "https://example.org/two", "views": 2},
    ]
    assert site.get("/views/top?site=EXAMPLE.org")["items"][2]["views"] == 1
    site.post(event(url="http://[::1]/"))
    site.settle()
    assert len(site.get("/views/top?site=[::1]")["items"]) == 1
    assert site.get("/views/top?site=nobody.example")["items"] == []
    for bad in (
        "",
        "?site=",
        "?site=a b",
        "?site=a/b",
        "?site=example.org&limit=0",
        "?site=example.org&limit=101",
    ):
        assert site.call("GET", f"/views/top{bad}")[0] == 400, bad


def test_an_admin_lists_the_events_of_a_time_range_oldest_first(site: Site) -> None:
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    for i in range(7):
        site.post({"url": PAGE, "time": (start + timedelta(minutes=i)).isoformat(), "clientId": f"c{i}"})
    frame = f"url={PAGE}&from={start:%Y-%m-%dT%H:%M:%SZ}&to={start + timedelta(minutes=6):%Y-%m-%dT%H:%M:%SZ}"
    seen, cursor = [], ""
    while True:
        page = site.get(f"/views/events?{frame}&limit=4{cursor}", who="admin")
        seen += page["items"]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"
    assert [view["clientId"] for view in seen] == [f"c{i}" for i in range(6)]
    assert seen[0] == {"url": PAGE, "time": f"{start:%Y-%m-%dT%H:%M:%SZ}", "clientId": "c0"}


def test_a_cursor_is_valid_only_for_its_own_query(site: Site) -> None:
    for i in range(3):
        site.post(event(i))
    page = site.get(f"/views/events?url={PAGE}&limit=1", who="admin")
    for query in (
        f"url={PAGE}/b&cursor={page['cursor']}",
        f"url={PAGE}&cursor=x",
        f"url={PAGE}&cursor={page['cursor']}x",
    ):
        status, reply = site.call("GET", f"/views/events?{query}", who="admin")
        assert (status, reply["code"]) == (400, "BadCursor")
    token = auth.mint(settings.current(), "me", scope="admin")
    with pytest.raises(BadCursor):
        cursors.decode(settings.current(), ("q",), token)


def test_the_time_range_of_the_first_page_holds_for_all_pages(site: Site) -> None:
    now = datetime.now(UTC)
    for seconds in (1, 50, 90):
        time = now - timedelta(days=7) + timedelta(seconds=seconds)
        site.post({"url": PAGE, "time": time.isoformat(), "clientId": f"c{seconds}"})
    seen, cursor = [], None
    for later in range(0, 120, 30):
        query = EventsQuery(url=PAGE, limit=1, cursor=cursor)
        page = view_queries.list_events(
            new_context(site.table, now + timedelta(seconds=later), settings.current()), query
        )
        seen += [item.client_id for item in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == ["c1", "c50", "c90"]


def test_a_visitor_expires_after_the_events_of_its_day(site: Site) -> None:
    for hours in (0, 30):
        site.post(event(hours * 3600))
    site.settle()
    items = scan(site.table)
    views_of = {item["sk"][2:12]: item["ttl"] for item in items if item["sk"].startswith("T#")}
    visitors = {item["sk"].split("#")[1]: item["ttl"] for item in items if item["sk"].startswith("VISITOR#")}
    assert visitors.keys() == views_of.keys()
    assert all(visitors[day] >= views_of[day] for day in visitors)


def test_a_badge_shows_the_count(site: Site) -> None:
    site.post({"events": [event(i) for i in range(3)]})
    site.settle()
    badge = site.get(f"/views/badge.svg?url={PAGE}")
    assert badge.startswith("<svg")
    assert "views: 3" in badge


def test_queued_views_count_once_and_failed_messages_are_reported_one_by_one(site: Site) -> None:
    late = {
        "taken": True,
        "events": [event(8 * 86_400, client="waited")],
    }  # accepted, then a day in the queue
    same = event(1)
    bodies = [
        json.dumps(event(client="single")),
        json.dumps({"events": [same, same, event(2)]}),
        "not json",
        json.dumps({"url": "x", "time": "y", "clientId": "z"}),
        json.dumps(late),
        json.dumps(event(8 * 86_400, client="another-producers")),
        json.dumps({"events": [event(3), event() | {"url": "x"}]}),
    ]
    messages = [{"messageId": f"m{i}", "body": body} for i, body in enumerate(bodies)]
    report = app.write_views({"Records": messages}, None)
    failed = [{"itemIdentifier": f"m{i}"} for i in (2, 3, 6)]
    assert report == {"batchItemFailures": failed}
    assert app.write_views({"Records": messages[:2]}, None) == {"batchItemFailures": []}
    site.settle()
    assert site.get(f"/views?url={PAGE}")["views"] == 5


@mock_aws  # the queue alone: the calls of the table reach its engine
def test_a_stage_with_a_queue_sends_events_to_it_and_writes_nothing(site: Site) -> None:
    queue = create_queue(boto3.client("sqs"), "dev")
    stage = settings.current()._replace(queue_url=queue.url)
    body = ViewsBody(events=[event(i, client=f"c{i}") for i in range(60)])
    reply = views.accept(new_context(site.table, settings=stage), body, Caller("me"), {})
    assert reply.accepted == 60
    assert {item["sk"] for item in scan(site.table)} == {"BUCKET"}
    messages: list[Any] = []
    while (
        found := boto3.client("sqs")
        .receive_message(QueueUrl=queue.url, MaxNumberOfMessages=10)
        .get("Messages")
    ):
        messages += found
    assert len(messages) == 3
    records = [{"messageId": message["MessageId"], "body": message["Body"]} for message in messages]
    assert app.write_views({"Records": records}, None) == {"batchItemFailures": []}
    site.settle()
    assert site.get(f"/views?url={PAGE}")["views"] == 60


def test_the_longest_events_fit_into_queue_messages() -> None:
    from chalicelib.views import queue

    longest = [{"url": "https://example.org/" + "a" * 1480, "time": "2" * 27, "clientId": "c" * 128}] * 500
    bodies = [json.dumps({"events": longest[i : i + queue.EVENTS]}) for i in range(0, 500, queue.EVENTS)]
    groups = list(queue._batches([{"Id": str(i), "MessageBody": body} for i, body in enumerate(bodies)]))
    assert sum(len(group) for group in groups) == len(bodies)
    assert all(sum(len(view["MessageBody"]) for view in group) < 256 * 1024 for group in groups)
    assert all(len(group) <= 10 for group in groups)


def test_a_client_id_may_contain_a_hash_sign(site: Site) -> None:
    for client in ("a#CID#b", "#", "a#b"):
        assert site.post(event(client=client))[1]["accepted"] == 1
    site.settle()
    seen = site.get(f"/views/events?url={PAGE}", who="admin")["items"]
    assert sorted(view["clientId"] for view in seen) == ["#", "a#CID#b", "a#b"]
    assert site.get(f"/views?url={PAGE}")["visitors"] == 3


def test_a_time_range_past_the_calendar_is_400(site: Site) -> None:
    now = datetime.now(UTC)
    for query in (SeriesQuery(url=PAGE, to="9999-12-31"), SeriesQuery(url=PAGE, to="0001-01-01"), LAST):
        with pytest.raises(BadRequest):
            view_queries.read_series(new_context(site.table, now), query)
    for bound in ("from=9999-12-31&to=9999-12-31", "to=0001-01-01", "from=0001-01-01T00:00:00%2B10:00"):
        status, reply = site.call("GET", f"/views/series?url={PAGE}&{bound}")
        assert (status, reply["code"]) == (400, "BadRequest")
        assert reply["message"].startswith("`from`"), bound
    with pytest.raises(BadRequest):
        view_queries.list_events(
            new_context(site.table, now, settings.current()), EventsQuery(url=PAGE, to="0001-01-01")
        )


@pytest.mark.parametrize(
    "path", ["hello.js", "/", "/a b.js", "/js/../x.js", "/a/b/c/d.js", "https://a.example/x.js"]
)
def test_the_beacons_second_path_is_a_short_one(path: str) -> None:
    assert settings.read({"HUBBUB_BEACON": "/js/hello.js"}).beacon == "/js/hello.js"
    with pytest.raises(ValueError, match="HUBBUB_BEACON"):
        settings.read({"HUBBUB_BEACON": path})
