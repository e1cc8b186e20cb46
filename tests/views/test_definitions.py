"""Sites that are defined: days in their zone, privacy, addresses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

import app
from chalicelib import settings, times
from chalicelib.api import auth
from chalicelib.api.auth import Caller
from chalicelib.chat import bans
from chalicelib.views import definitions, events, queries, site_queries
from chalicelib.views.definitions import Definition
from chalicelib.views.schemas import SeriesQuery, SiteSeriesQuery, TopQuery, ViewsBody
from tests.support.contexts import new_context
from tests.support.site import Site

HOST = "example.org"
PAGE = f"https://{HOST}/a"
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Tehran", "Asia/Kathmandu", "Pacific/Kiritimati"]


def define(site: Site, **fields: Any) -> Any:
    return site.call("PUT", f"/sites/{HOST}", fields, who="admin")


def view(site: Site, moment: datetime, client: str = "c", address: str = "192.0.2.1") -> None:
    """Write a view as at its own time."""
    body = ViewsBody(url=PAGE, time=moment.isoformat(), client_id=client)
    stage = settings.current()._replace(views_rate=0)  # a test goes back in time, which a bucket never does
    events.accept(new_context(site.table, moment, stage), body, Caller(address=address), {})


def series(site: Site, interval: str, first: str, last: str) -> dict[str, int]:
    query = SiteSeriesQuery(site=HOST, interval=interval, from_=first, to=last)  # type: ignore[arg-type]
    found = site_queries.read_site(new_context(site.table), query, Caller(admin=True))
    return {item.time: item.views for item in found.items}


# -- zones ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "day", "begin", "hours"),
    [
        ("Europe/Berlin", "2100-03-28", "2100-03-27T23:00:00Z", 23),
        ("Europe/Berlin", "2100-10-31", "2100-10-30T22:00:00Z", 25),
        ("Asia/Tehran", "2100-01-02", "2100-01-01T20:30:00Z", 24),
        ("Asia/Kathmandu", "2100-01-02", "2100-01-01T18:15:00Z", 24),
    ],
)
def test_a_day_has_the_hours_of_its_zone(site: Site, zone: str, day: str, begin: str, hours: int) -> None:
    assert define(site, timezone=zone)[0] == 201
    start = times.parse(begin)
    for hour in range(-1, hours + 1):
        view(site, start + hour * times.HOUR, f"c{hour}")
    site.settle()
    by_hour = series(site, "hour", day, day)
    assert list(by_hour) == [times.to_iso(start + hour * times.HOUR) for hour in range(hours)]
    assert set(by_hour.values()) == {1}
    assert series(site, "day", day, day) == {begin: hours}
    query = SeriesQuery(url=PAGE, interval="day", from_=day, to=day)
    found = queries.read_series(new_context(site.table), query)
    assert (found.timezone, [item.visitors for item in found.items]) == (zone, [hours])
    top = TopQuery(site=HOST, from_=day, to=day)
    listed = site_queries.list_top_pages(new_context(site.table), top, Caller(admin=True))
    assert (listed.timezone, [page.views for page in listed.items]) == (zone, [hours])


def test_weeks_and_months_are_those_of_the_zone(site: Site) -> None:
    define(site, timezone="America/New_York")
    for day in ("2100-01-31T12", "2100-02-01T04", "2100-02-01T06", "2100-02-07T12"):
        view(site, times.parse(f"{day}:00:00Z"))
    site.settle()
    assert series(site, "month", "2100-01-31", "2100-02-07") == {
        "2100-01-01T05:00:00Z": 2,
        "2100-02-01T05:00:00Z": 2,
    }
    assert series(site, "week", "2100-01-31", "2100-02-07") == {
        "2100-01-25T05:00:00Z": 2,
        "2100-02-01T05:00:00Z": 2,
    }


@given(
    st.lists(st.sampled_from(ZONES), min_size=1, max_size=4),
    st.lists(st.integers(0, 20 * 24 * 60), min_size=1, max_size=30),
)
def test_every_instant_lies_in_one_day_after_any_changes(zones: list[str], minutes: list[int]) -> None:
    begin = datetime(2026, 3, 25, tzinfo=UTC)
    found: tuple[tuple[str, str], ...] = (("", "UTC"),)
    for number, zone in enumerate(zones):
        found = definitions._change_zone(found, zone, begin + 4 * number * times.DAY, has_views=True)
    site = Definition(HOST, found)
    for minute in minutes:
        moment = begin + timedelta(minutes=minute)
        day = site.find_day(moment)
        assert site.begin(day) <= moment < site.begin(day + times.DAY)
        assert 0 <= site.place(moment)[1] < 60


def test_a_change_of_the_zone_changes_later_days_only(site: Site) -> None:
    now = datetime.now(UTC)
    define(site)
    view(site, now, "before")
    site.settle()
    status, answer = define(site, timezone="Asia/Kathmandu")
    assert (status, answer["timezone"]) == (200, "Asia/Kathmandu")
    assert answer["since"] > now.date().isoformat()
    view(site, now, "after")
    site.settle()
    day = now.date().isoformat()
    assert series(site, "day", day, day) == {f"{day}T00:00:00Z": 2}
    after = times.parse(f"{answer['since']}T12:00:00+05:45") + times.DAY
    view(site, after)
    site.settle()
    local = after.astimezone(ZoneInfo("Asia/Kathmandu")).date()
    assert series(site, "day", local.isoformat(), local.isoformat()) == {f"{local - times.DAY}T18:15:00Z": 1}


# -- privacy -------------------------------------------------------------------------------------------


READS = ("site", "top", "referrers", "campaigns", "goals")


@pytest.mark.security
@pytest.mark.parametrize("route", READS)
def test_a_private_site_is_read_with_a_token_for_it(site: Site, route: str) -> None:
    define(site, statistics="private")
    path = f"/views/{route}?site={HOST}"

    def read(**headers: str) -> tuple[int, Any]:
        status, answer = site.call("GET", path, **headers)
        return status, answer.get("code")

    own = auth.mint(settings.current(), "me", scope="statistics", claims={"site": HOST})
    other = auth.mint(settings.current(), "me", scope="statistics", claims={"site": "shop.example"})
    unscoped = auth.mint(settings.current(), "me", claims={"site": HOST})
    assert read() == (401, "Unauthorized")
    assert read(Authorization=f"Bearer {other}") == (403, "Forbidden")
    assert read(Authorization=f"Bearer {unscoped}") == (403, "Forbidden")
    assert read(who="ann") == (403, "Forbidden")
    assert read(Authorization=f"Bearer {own}") == (200, None)
    assert read(who="admin") == (200, None)


@pytest.mark.security
def test_a_link_reads_a_private_site_until_it_expires(site: Site) -> None:
    define(site, statistics="private")
    soon = times.to_iso(datetime.now(UTC) + times.HOUR)
    path = f"/sites/{HOST}/links"
    status, link = site.call("POST", path, {"expires": soon}, who="admin")
    assert status == 201
    address, token = link["url"].split("#token=")
    assert address.endswith(f"/web/dashboard.html?site={HOST}")
    assert site.get(f"/views/site?site={HOST}", Authorization=f"Bearer {token}")["timezone"] == "UTC"
    past = times.to_iso(datetime.now(UTC) - times.HOUR)
    for expires, refused in ((past, 422), ("2999-01-01T00:00:00Z", 422), ("soon", 400)):
        assert site.call("POST", path, {"expires": expires}, who="admin")[0] == refused
    assert site.call("POST", path, {"expires": soon}, who="ann")[0] == 403
    assert site.call("POST", "/sites/other.example/links", {"expires": soon}, who="admin")[0] == 404


@pytest.mark.security
def test_a_link_makes_no_user(site: Site) -> None:
    for host in (HOST, "other.example"):
        body = {"statistics": "private"}
        assert site.call("PUT", f"/sites/{host}", body, who="admin")[0] == 201
    soon = times.to_iso(datetime.now(UTC) + times.HOUR)
    url = site.call("POST", f"/sites/{HOST}/links", {"expires": soon}, who="admin")[1]["url"]
    token = url.partition("#token=")[2]
    bearer = {"Authorization": f"Bearer {token}"}
    for route in app.router.routes:
        if route.access != "public":
            path = route.path.replace("{site}", HOST).replace("{", "").replace("}", "")
            status, answer = site.call(route.method, path, **bearer)
            assert (status, "of a link" in answer["message"]) == (401, True), route
    batch = [{"url": PAGE, "clientId": str(number)} for number in range(events.MAX_ANONYMOUS_EVENTS + 1)]
    assert site.call("POST", "/views", {"events": batch}, **bearer)[0] == 413
    assert site.call("GET", "/views/site?site=other.example", **bearer)[0] == 403
    assert bans.find_subject(settings.current(), token) == ""


# -- definitions ---------------------------------------------------------------------------------------


def test_a_site_is_defined_changed_and_removed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "stage", app.stage._replace(sites=frozenset({"elsewhere.example"})))
    event = {"url": PAGE, "clientId": "c"}
    assert site.post(event)[1]["code"] == "site_not_allowed"
    assert define(site, timezone="Europe/Berlin", ignore=["192.0.2.0/24"])[0] == 201
    assert site.post(event)[0] == 202
    assert define(site)[0] == 200
    found = site.get(f"/sites/{HOST}", who="admin")
    assert (found["site"], found["timezone"], found["ignore"]) == (HOST, "UTC", [])
    admin = site.token("admin")
    assert site.call("DELETE", f"/sites/{HOST}", Authorization=admin)[0] == 204
    assert site.call("DELETE", f"/sites/{HOST}", Authorization=admin)[0] == 404
    assert site.call("GET", f"/sites/{HOST}", Authorization=admin)[0] == 404
    assert site.post(event)[1]["code"] == "site_not_allowed"
    for wrong in (
        {"timezone": "Mars"},
        {"ignore": ["x"]},
        {"paths": ["a"]},
        {"hosts": ["a/b"]},
        {"slash": "x"},
    ):
        status, answer = define(site, **wrong)
        assert (status, answer["message"].startswith(f"`{next(iter(wrong))}`")) == (400, True), wrong


def test_a_defined_site_is_listed_once_with_or_without_views(site: Site) -> None:
    def listed() -> list[tuple[str, int]]:
        found, cursor = [], ""
        while True:
            page = site.get(f"/sites?limit=1{cursor}", who="admin")
            found += [(item["site"], item["views"]) for item in page["items"]]
            if not page["cursor"]:
                return found
            cursor = f"&cursor={page['cursor']}"

    define(site)
    assert site.call("PUT", "/sites/other.example", {}, who="admin")[0] == 201
    assert sorted(listed()) == sorted([(HOST, 0), ("other.example", 0)])
    site.post({"url": PAGE, "clientId": "c"})
    site.settle()
    assert listed() == [(HOST, 1), ("other.example", 0)]
    define(site, timezone="Europe/Berlin")
    assert site.call("DELETE", "/sites/other.example", who="admin")[0] == 204
    assert site.call("DELETE", f"/sites/{HOST}", who="admin")[0] == 204
    assert listed() == [(HOST, 1)]


@pytest.mark.parametrize(
    ("fields", "sent", "counted"),
    [
        ({"query": ["page"]}, "https://example.org/a?page=2&x=1", "https://example.org/a?page=2"),
        ({"query": []}, "https://example.org/a?page=2", "https://example.org/a"),
        ({"slash": "strip"}, "https://example.org/a/", "https://example.org/a"),
        ({"slash": "strip"}, "https://example.org/", "https://example.org/"),
        ({"hash": True}, "https://example.org/#/b", "https://example.org/#/b"),
        ({"hash": True}, "https://example.org/#top", "https://example.org/"),
        ({}, "https://example.org/#/b", "https://example.org/"),
        ({"hosts": ["www.example.org"]}, "https://www.example.org/a", "https://example.org/a"),
        ({"paths": ["/blog/*", "/a"]}, "https://example.org/blog/x", "https://example.org/blog/x"),
        ({"paths": ["/blog/*", "/a"]}, "https://example.org/a?x", "https://example.org/a?x"),
        ({"paths": ["/blog/*"]}, "https://example.org/a", None),
    ],
)
def test_addresses_are_those_of_the_definition(
    site: Site, fields: dict[str, Any], sent: str, counted: str | None
) -> None:
    define(site, **fields)
    assert (site.post({"url": sent, "clientId": "c"})[0] == 202) == (counted is not None)
    site.settle()
    if counted:
        assert site.get(f"/views/top?site={HOST}")["items"] == [{"url": counted, "views": 1}]
        found = site.get(f"/views?url={sent.replace('#', '%23').replace('&', '%26')}")
        assert found == {"url": counted, "views": 1, "visitors": 1}


def test_addresses_that_a_site_ignores_are_not_counted(site: Site) -> None:
    define(site, ignore=["192.0.2.0/25", "2001:db8::/32"])
    body = ViewsBody(url=PAGE)
    for address, accepted in (("192.0.2.1", 0), ("192.0.2.200", 1), ("2001:db8::7", 0), ("", 1)):
        batch = ViewsBody(events=[{"url": PAGE}])
        context = new_context(site.table, settings=settings.current())
        reply = events.accept(context, batch, Caller(address=address), {})
        assert reply.accepted == accepted, address
    assert body.url == PAGE


def test_a_further_host_belongs_to_one_site(site: Site) -> None:
    define(site, hosts=["www.example.org"])
    admin = site.token("admin")
    assert site.call("PUT", "/sites/www.example.org", {}, Authorization=admin)[0] == 409
    taken = {"hosts": ["www.example.org"]}
    assert site.call("PUT", "/sites/other.example", taken, Authorization=admin)[0] == 409
    define(site)
    assert site.call("PUT", "/sites/other.example", taken, Authorization=admin)[0] == 201


def test_views_of_several_hosts_at_once_are_counted_as_those_of_the_site(site: Site) -> None:
    hosts = ("www.example.org", "m.example.org", HOST)
    define(site, hosts=list(hosts[:2]))
    assert site.post({"events": [{"url": f"https://{host}/a", "clientId": host} for host in hosts]})[0] == 202
    site.settle()
    assert site.get(f"/views?url={PAGE}") == {"url": PAGE, "views": 3, "visitors": 3}


# -- the pixel -----------------------------------------------------------------------------------------


def test_the_pixel_counts_a_view_without_a_script(site: Site) -> None:
    for _ in range(2):
        status, image = site.call("GET", f"/views/pixel.gif?url={PAGE}&random=7")
        assert (status, image[:6]) == (200, "GIF89a")
    assert site.call("GET", f"/views/pixel.gif?url={PAGE}", User_Agent="Googlebot/2.1")[0] == 422
    site.settle()
    assert site.get(f"/views?url={PAGE}") == {"url": PAGE, "views": 2, "visitors": 1}
