"""Sums of whole sites over REST: views and visitors over time, and the lists of a period."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

import app
from chalicelib.aggregates import engine
from chalicelib.settings import Settings
from chalicelib.views import events, queue, sites, sources
from chalicelib.views.events import View, check, day_key
from ops.stage import ROOT
from tests.support.records import drift, scan
from tests.support.site import Site
from tests.views.dearest import full

HOST = "example.org"
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
NOON = TODAY - timedelta(hours=12)  # of yesterday


def event(time: datetime = NOON, *, path: str = "a", client: str = "c-1", **more: Any) -> dict[str, Any]:
    return {"url": f"https://{HOST}/{path}", "time": time.isoformat(), "clientId": client, **more}


def day(days_ago: int) -> str:
    return (TODAY - timedelta(days=days_ago)).date().isoformat()


# -- over time -----------------------------------------------------------------------------------------


def test_a_visitor_of_several_pages_is_one_visitor_of_the_site(site: Site) -> None:
    site.post(event(path="a"))
    site.post(event(path="b", client="c-1"))
    site.post(event(NOON + timedelta(hours=2), path="b", client="c-2"))
    site.post(event(NOON - timedelta(days=1), path="a"))
    site.settle()
    found = site.get(f"/views/site?site={HOST}&from={day(2)}&to={day(1)}")
    assert (found["views"], found["visitors"]) == (4, 3)
    assert [(item["views"], item["visitors"]) for item in found["items"]] == [(1, 1), (3, 2)]
    hours = site.get(f"/views/site?site={HOST}&interval=hour&from={day(1)}&to={day(1)}")
    assert (hours["views"], hours["visitors"], len(hours["items"])) == (3, 2, 24)
    assert {item["time"][11:13]: item["visitors"] for item in hours["items"] if item["views"]} == {
        "12": 1,
        "14": 1,
    }


def test_a_site_without_views_has_zeros(site: Site) -> None:
    found = site.get(f"/views/site?site=quiet.example&from={day(1)}&to={day(1)}")
    assert found == {
        "timezone": "UTC",
        "views": 0,
        "visitors": 0,
        "items": [{"time": f"{day(1)}T00:00:00Z", "views": 0, "visitors": 0}],
    }


def test_a_view_that_is_sent_and_delivered_again_counts_once_for_its_site(site: Site) -> None:
    for _ in range(2):
        site.post(event(referrer="https://news.example/", campaign="spring"))
    records = site.stream.read()
    for delivered in (records, records, records[::-1]):
        app.apply({"Records": delivered}, None)
    assert drift(site.table, app.CONTRIBUTIONS) == {}
    site.settle()
    assert site.get(f"/views/site?site={HOST}")["views"] == 1
    assert site.get(f"/views/referrers?site={HOST}")["items"] == [{"referrer": "news.example", "views": 1}]
    assert site.get(f"/views/campaigns?site={HOST}")["items"] == [{"campaign": "spring", "views": 1}]


def test_a_view_that_comes_again_with_another_source_counts_for_the_last_one(site: Site) -> None:
    site.post(event(referrer="https://one.example/"))
    site.settle()
    site.post({"events": [event(), event(referrer="https://two.example/")]})
    site.settle()
    assert site.get(f"/views/referrers?site={HOST}")["items"] == [{"referrer": "two.example", "views": 1}]
    assert site.get(f"/views/site?site={HOST}")["views"] == 1


def test_a_request_that_failed_before_its_visitors_were_written_is_complete_when_it_is_repeated(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the function ended")

    with monkeypatch.context() as broken:
        broken.setattr(events, "_write_visitor", fail)
        assert site.post(event())[0] == 500
    site.settle()
    assert site.get(f"/views/site?site={HOST}")["visitors"] == 0
    assert site.post(event())[0] == 202
    site.settle()
    found = site.get(f"/views/site?site={HOST}")
    assert (found["views"], found["visitors"]) == (1, 1)


# -- sources -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("referrer", "host"),
    [
        ("https://News.Example:8443/a?q=secret#x", "news.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("http://[::1]/", ""),
        ("http://192.168.0.1/", ""),
        ("http://intranet/", ""),
        ("http://127.0.0.1:8000/", ""),
        ("https://l.facebook.com/l.php?u=x", "facebook.com"),
        ("https://m.facebook.com/", "facebook.com"),
        ("https://www.facebook.com/", "facebook.com"),
        ("https://www.google.co.uk/", "google"),
        ("https://google.de/", "google"),
        ("https://www.google.com/", "google"),
        ("android-app://com.google.android.gm/", "gmail"),
        ("https://t.co/abc", "x.com"),
        ("https://old.reddit.com/r/a", "reddit.com"),
        ("https://en.wikipedia.org/wiki/A", "wikipedia.org"),
        ("https://www.news.example/", "news.example"),
        (f"https://{HOST}/b", ""),
        (f"https://www.{HOST}/b", ""),
        ("android-app://com.example/", "com.example"),
        ("about:client", ""),
        ("", ""),
        ("x" * 2_000, ""),
        (None, ""),
        (7, ""),
        (["https://a.example/"], ""),
        ("https://user:secret@a.example/", ""),
    ],
)
def test_only_the_host_of_another_sites_address_is_a_referrer(referrer: Any, host: str) -> None:
    found = check(event(referrer=referrer), Settings(), NOON)
    assert isinstance(found, View)
    assert found.source.name == host


@pytest.mark.parametrize(
    ("campaign", "name"),
    [
        (" spring sale ", "spring sale"),
        ("Frühling#1", "Frühling#1"),
        ("x" * 100, "x" * 100),
        ("x" * 101, ""),
        ("two\nlines", ""),
        ("\ud800", ""),
        ("", ""),
        (None, ""),
        ({}, ""),
    ],
)
def test_a_campaign_is_a_short_printable_name(campaign: Any, name: str) -> None:
    found = check(event(campaign=campaign), Settings(), NOON)
    assert isinstance(found, View)
    assert found.campaign == name


def test_an_event_shows_its_source_to_admins(site: Site) -> None:
    site.post(event(referrer="https://news.example/a?b", campaign="spring"))
    [seen] = site.get(f"/views/events?url=https://{HOST}/a", who="admin")["items"]
    assert (seen["referrer"], seen["campaign"]) == ("news.example", "spring")


def test_the_queue_carries_the_source(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(queue, "send", lambda _, events: sent.extend(events))
    monkeypatch.setattr(app, "stage", app.stage._replace(queue_url="https://queue.example/"))
    site.post(event(referrer="http://www.google.de/a", campaign="spring"))
    site.post(event(path="b") | {"source": "News Letter"})
    for shown in sent:
        found = check(shown, Settings(), NOON)
        assert isinstance(found, View)
        assert found.source.name == ("google" if found.campaign else "news letter")
    assert [shown.get("campaign", "") for shown in sent] == ["spring", ""]


def test_a_source_beside_a_list_of_events_is_refused(site: Site) -> None:
    assert site.post({"events": [event()], "referrer": "https://a.example/"})[0] == 400


# -- lists of a period ---------------------------------------------------------------------------------


def test_the_lists_of_a_period_are_those_of_a_naive_twin(site: Site) -> None:
    """Views of six days, posted in batches that overlap and applied in any order and again."""
    rng = random.Random(7)
    sent = [
        event(
            TODAY - timedelta(days=rng.randint(1, 6), seconds=-i),
            path=f"{int(rng.paretovariate(0.7)) % 40}",
            client=f"c-{rng.randrange(9)}",
            referrer=f"https://r{int(rng.paretovariate(1)) % 12}.example/",
            campaign=rng.choice(("spring", "summer", "")),
        )
        for i in range(80)
    ]
    for i in range(0, len(sent), 20):
        assert site.post({"events": sent[i : i + 25]})[1]["rejected"] == []
    records = site.stream.read()
    for _ in range(2):
        rng.shuffle(records)
        for i in range(0, len(records), 100):
            engine.apply(site.table, app.CONTRIBUTIONS, records[i : i + 100], derivations=app.DERIVATIONS)
    assert drift(site.table, app.CONTRIBUTIONS) == {}
    for start, end in ((6, 1), (4, 2), (1, 1)):
        days = {day(n) for n in range(end, start + 1)}
        chosen = [shown for shown in sent if shown["time"][:10] in days]
        query = f"site={HOST}&from={day(start)}&to={day(end)}"
        for path, name, values in (
            ("top", "url", Counter(shown["url"] for shown in chosen)),
            ("referrers", "referrer", Counter(shown["referrer"][8:-1] for shown in chosen)),
            ("campaigns", "campaign", Counter(shown["campaign"] for shown in chosen if shown["campaign"])),
        ):
            right = sorted(values.items(), key=lambda row: (-row[1], row[0]))
            found = site.get(f"/views/{path}?{query}&limit=100")
            assert [(item[name], item["views"]) for item in found["items"]] == right
            assert "complete" not in found
            few = site.get(f"/views/{path}?{query}&limit=3")
            assert [item["views"] for item in few["items"]] == [views for _, views in right[:3]]
        whole = site.get(f"/views/site?{query}")
        visitors = {(shown["time"][:10], shown["clientId"]) for shown in chosen}
        assert (whole["views"], whole["visitors"]) == (len(chosen), len(visitors))


def test_a_period_is_of_whole_days_and_by_default_of_thirty(site: Site) -> None:
    for ago in (0, 3, 6):
        site.post(event(TODAY - timedelta(days=ago) + timedelta(seconds=1), referrer="https://a.example/"))
    site.settle()

    def count(query: str) -> int:
        return sum(item["views"] for item in site.get(f"/views/referrers?site={HOST}{query}")["items"])

    assert count("") == count(f"&from={day(29)}") == 3
    assert count(f"&from={day(3)}T23:00:00Z&to={day(3)}T23:00:01Z") == 1
    assert count(f"&to={day(1)}") == 2
    assert count(f"&from={day(6)}&to={day(4)}") == 1


def test_a_period_that_is_too_long_or_malformed_is_refused(site: Site) -> None:
    for path in ("top", "referrers", "campaigns", "site"):
        for query in (
            *("from=2020-01-01&to=2021-06-01", "from=2026-02-02&to=2026-02-01"),
            *("from=x", "to=9999-12-31"),
        ):
            status, reply = site.call("GET", f"/views/{path}?site={HOST}&{query}")
            assert (status, reply["code"]) == (400, "BadRequest"), (path, query)


@pytest.mark.parametrize("written", ["a.example/page", "a.example?x", "a.example#top", "a.example:81", "a b"])
def test_a_site_is_a_host_alone(site: Site, written: str) -> None:
    status, answer = site.call("GET", f"/views/site?site={quote(written)}")
    assert (status, answer["code"]) == (400, "BadRequest")
    assert answer["message"].startswith("`site` must ")


def test_the_longest_period_is_read(site: Site) -> None:
    site.post(event(referrer="https://a.example/"))
    site.settle()
    found = site.get(f"/views/referrers?site={HOST}&from={day(399)}&to={day(0)}")
    assert found["items"] == [{"referrer": "a.example", "views": 1}]


# -- the list of sites ---------------------------------------------------------------------------------


def test_admins_list_the_sites_largest_first_page_by_page(site: Site) -> None:
    for i, host in enumerate(("small.example", "large.example", "middle.example")):
        count = (1, 40, 9)[i]
        chosen = [event(client=f"c-{n}") | {"url": f"https://{host}/"} for n in range(count)]
        for time in (NOON - timedelta(days=1), NOON):  # a place follows from the days before the newest
            several = [shown | {"time": time.isoformat()} for shown in chosen]
            site.post({"events": several}, who="admin")
            site.settle()
    assert site.call("GET", "/sites")[0] == 401
    assert site.call("GET", "/sites", who="ann")[0] == 403
    found, cursor = [], ""
    while cursor is not None:
        page = site.get(f"/sites?limit=1&cursor={cursor}", who="admin")
        found += [(item["site"], item["views"]) for item in page["items"]]
        cursor = page["cursor"]
    assert found == [("large.example", 80), ("middle.example", 18), ("small.example", 2)]


# -- the entry of a list -------------------------------------------------------------------------------


def test_an_entry_that_was_not_moved_before_a_crash_is_moved_by_the_redelivery(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for second in range(4):
        site.post(event(NOON + timedelta(seconds=second), referrer="https://a.example/"))
    site.settle()
    site.post(event(NOON + timedelta(seconds=5), referrer="https://a.example/"))
    records, key = site.stream.read(), sites.referrer_key(HOST, "a.example", day(1))
    with monkeypatch.context() as crashing:
        crashing.setattr(engine, "_derive", lambda *_: None)
        app.apply({"Records": records}, None)
    assert (site.table.get(key) or {})["gsi1sk"] == 1
    app.apply({"Records": records}, None)
    assert (site.table.get(key) or {})["gsi1sk"] == 5


def test_the_first_view_of_a_referrer_is_listed_by_the_update_that_counts_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_derive", lambda *_: None)
    site.post(event(referrer="https://a.example/"))
    site.settle()
    items = [{"referrer": "a.example", "views": 1}]
    assert site.get(f"/views/referrers?site={HOST}")["items"] == items


def test_an_entry_leaves_its_list_when_its_views_are_deleted(site: Site) -> None:
    for n in range(7):
        site.post(event(NOON + timedelta(seconds=n), referrer="https://a.example/"))
    site.settle()
    for n in range(7):
        site.table.delete(events.event_key(View(f"https://{HOST}/a", NOON + timedelta(seconds=n), "c-1")))
    site.settle()
    assert site.get(f"/views/referrers?site={HOST}")["items"] == []
    assert site.get(f"/views/top?site={HOST}&from={day(1)}")["items"] == []
    assert site.get("/sites", who="admin")["items"] == []
    assert [item["sk"] for item in scan(site.table) if "gsi1sk" in item] == ["TOTAL"]


def test_an_entry_is_on_the_last_step_of_its_views_and_moves_rarely() -> None:
    key = sites.referrer_key(HOST, "a.example", day(1))
    item: dict[str, Any] = {"gsi1pk": sites.list_key(HOST, sites.REFERRERS, day(1))}
    moves = 0
    for views in [*range(1, 1001), *range(999, -1, -1)]:
        item["views"] = views
        if update := sites.derive_listing(key, item):
            moves += 1
            item["gsi1sk"] = update["values"].get(":step", 0)
        assert sites.derive_listing(key, item) is None
    assert moves < 100
    assert sites.derive_listing(key, {"views": 9}) is None, "an aggregate that is in no list"
    assert sites.derive_listing(sites.day_key(HOST, day(1)), {"views": 9, "gsi1pk": "x"}) is None


def test_an_audit_finds_and_repairs_every_sum_of_a_site(site: Site) -> None:
    site.post(event(referrer="https://a.example/", campaign="spring"))
    site.settle()
    keys = {
        "day": sites.day_key(HOST, day(1)),
        "referrer": sites.referrer_key(HOST, "a.example", day(1)),
        "campaign": sites.campaign_key(HOST, "spring", day(1)),
    }
    damaged: dict[str, set[str]] = defaultdict(set)
    for name, key in keys.items():
        site.table.update(key, "ADD #v :one", names={"#v": "views"}, values={":one": -1})
        damaged[name] = {attribute for at, attribute in drift(site.table, app.CONTRIBUTIONS) if at == key}
        site.table.update(key, "ADD #v :one", names={"#v": "views"}, values={":one": 1})
    assert all("views" in names for names in damaged.values()), damaged
    for name in ("referrer", "campaign"):
        site.table.update(keys[name], "SET gsi1sk = :step", values={":step": 5})
        assert (keys[name], "gsi1sk") in drift(site.table, app.CONTRIBUTIONS)
        site.table.update(keys[name], "SET gsi1sk = :step", values={":step": 1})
    assert drift(site.table, app.CONTRIBUTIONS) == {}


# -- a busy site ---------------------------------------------------------------------------------------


def test_the_ten_most_viewed_pages_of_a_busy_month_are_exact(site: Site) -> None:
    days = [day(number) for number in range(30)]
    views = {f"https://{HOST}/{number:03}": 2_000 // (number + 1) for number in range(100)}
    items = [full(sites.day_key(HOST, day), 10**6) for day in days]
    items += [
        full(day_key(url, day), count + number, sites.list_key(HOST, sites.PAGES, day))
        for number, day in enumerate(days)
        for url, count in views.items()
    ]
    site.table.batch_put(items)
    right = [{"url": url, "views": 30 * count + 29 * 15} for url, count in views.items()]
    period = f"/views/top?site={HOST}&from={days[-1]}&to={days[0]}"
    assert site.get(period) == {"timezone": "UTC", "items": right[:10]}
    partial = site.get(f"{period}&limit=100")
    assert partial["complete"] is False
    assert partial["items"] == right[: len(partial["items"])]
    assert len(partial["items"]) >= 10
    assert site.get(f"{period}&limit=100", who="admin") == {"timezone": "UTC", "items": right}


@pytest.mark.parametrize(
    ("query", "source"),
    [
        ("?utm_source=Mail&utm_medium=x&id=4", "mail"),
        ("?ref=producthunt.com&id=4&gclid=1", "producthunt.com"),
        ("?id=4&source=a&fbclid=2", "a"),
        ("?utm_medium=email&id=4", "email"),
        ("?id=4", ""),
    ],
)
def test_parameters_name_the_source_and_those_that_track_are_removed(query: str, source: str) -> None:
    found = check(event() | {"url": f"https://{HOST}/a{query}"}, Settings(), NOON)
    assert isinstance(found, View)
    assert found.source.name == source
    assert "utm_" not in found.url
    assert "clid" not in found.url
    assert "id=4" in found.url
    led = check(event(referrer="https://a.example/") | {"url": f"https://{HOST}/a{query}"}, Settings(), NOON)
    assert isinstance(led, View)
    assert led.source.name == "a.example"


@pytest.mark.parametrize(
    ("sent", "campaign"),
    [({}, "Spring sale"), ({"campaign": "x"}, "x"), ({"campaign": ""}, ""), ({"campaign": 4}, "")],
)
def test_a_parameter_names_the_campaign_where_the_event_does_not(sent: dict[str, Any], campaign: str) -> None:
    url = f"https://{HOST}/a?utm_source=mail&utm_campaign=Spring%20sale"
    found = check(event() | sent | {"url": url}, Settings(), NOON)
    assert isinstance(found, View)
    assert (found.campaign, found.source.name) == (campaign, "mail")


def test_the_beacon_and_the_server_remove_the_same_parameters() -> None:
    beacon = (ROOT / "web" / "beacon.js").read_text(encoding="utf-8")
    assert f"/^{sources.TRACKING.pattern}$/i" in beacon
