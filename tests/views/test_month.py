"""A month of simulated visitors agrees with a naive count in the zones of the sites.

The visitors share addresses, have several browsers, view several pages, repeat requests and reach goals. One
site has a day of 25 hours, one a day of 23, and that one changes its zone.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

from chalicelib import settings, times
from chalicelib.api.auth import Caller
from chalicelib.context import Context
from chalicelib.views import definitions, events, queries, site_queries
from chalicelib.views.schemas import (
    ReferrersQuery,
    SeriesQuery,
    SiteBody,
    SiteSeriesQuery,
    SourcesQuery,
    TopQuery,
    TraitsQuery,
    ViewsBody,
)
from tests.support.contexts import new_context
from tests.support.site import Site

BEGIN, END = datetime(2100, 10, 1, tzinfo=UTC), datetime(2100, 11, 1, tzinfo=UTC)
CHANGE = datetime(2100, 10, 17, 11, 30, tzinfo=UTC)
ZONES = {"berlin.example": "Europe/Berlin", "moved.example": "Australia/Sydney", "plain.example": "UTC"}
MOVED_TO = "Asia/Tehran"
BROWSERS = {
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0": "desktop",
    "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/1": "desktop",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/1 Safari/1": "mobile",
}
ADDRESSES = ("192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1")
NETWORKS = dict(zip(ADDRESSES, "abccd", strict=True))  # an IPv6 visitor is its /64
SOURCES = {
    "": "direct",
    "https://www.google.de/": "google",
    "https://www.google.com/": "google",
    "https://m.facebook.com/": "facebook.com",
    "https://news.example.net/x": "news.example.net",
}
GOALS = ("signup", "download")


class Place(NamedTuple):
    """The day of an instant, and its hour, as they are on the calendar of a site."""

    day: date
    hour: datetime


def begin(day: date, zone: str) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)


def find_place(site: str, moment: datetime, since: date) -> Place:
    """Return the naive place of an instant: another zone begins with the day `since`."""
    zone = ZONES[site]
    if site == "moved.example" and moment >= begin(since, MOVED_TO):
        zone = MOVED_TO
        day = moment.astimezone(ZoneInfo(zone)).date()
    else:
        day = moment.astimezone(ZoneInfo(zone)).date()
        if site == "moved.example":
            day = min(day, since - times.DAY)
    start = begin(day, zone)
    return Place(day, start + (moment - start) // times.HOUR * times.HOUR)


@dataclass
class Naive:
    """The naive count of a site."""

    views: Counter[date] = field(default_factory=Counter)
    hours: Counter[datetime] = field(default_factory=Counter)
    visitors: dict[date, set[Any]] = field(default_factory=lambda: defaultdict(set))
    pages: Counter[str] = field(default_factory=Counter)
    days_of_pages: Counter[tuple[str, date]] = field(default_factory=Counter)
    visitors_of_pages: dict[tuple[str, date], set[Any]] = field(default_factory=lambda: defaultdict(set))
    sources: Counter[str] = field(default_factory=Counter)
    devices: Counter[str] = field(default_factory=Counter)
    goals: Counter[str] = field(default_factory=Counter)
    visitors_of_goals: dict[str, set[Any]] = field(default_factory=lambda: defaultdict(set))


class Hit(NamedTuple):
    """A view, or an event of a goal."""

    site: str
    path: str
    moment: datetime
    address: str
    agent: str
    source: str | None  # None: a page of the site led to it
    goal: str = ""


def simulate(rng: random.Random, visits: int) -> Iterator[Hit]:
    """Yield the hits of visits at random instants; a third of them are near a midnight of some zone."""
    for _ in range(visits):
        site, address, agent = rng.choice([*ZONES]), rng.choice(ADDRESSES), rng.choice([*BROWSERS])
        moment = BEGIN + timedelta(seconds=rng.randrange(int((END - BEGIN).total_seconds()) - 7200))
        if rng.random() < 0.34:
            zone = ZoneInfo(rng.choice([*ZONES.values(), MOVED_TO]))
            midnight = moment.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
            moment = max(BEGIN, midnight.astimezone(UTC) + timedelta(seconds=rng.randrange(-90, 90)))
        source: str | None = rng.choice([*SOURCES])
        for _ in range(rng.randint(1, 3)):
            path = rng.choice(["/", "/a", "/b", "/blog/c"])
            yield Hit(site, path, moment, address, agent, source)
            source = None
            moment += timedelta(seconds=rng.randrange(1, 90), milliseconds=rng.randrange(1000))
        if rng.random() < 0.3:
            yield Hit(site, "/a", moment, address, agent, None, rng.choice(GOALS))


def count(naive: Naive, hit: Hit, since: date) -> None:
    place, url = find_place(hit.site, hit.moment, since), f"https://{hit.site}{hit.path}"
    visitor = (NETWORKS[hit.address], hit.agent)
    if hit.goal:
        naive.goals[hit.goal] += 1
        naive.visitors_of_goals[hit.goal].add((place.day, visitor))
        return
    naive.views[place.day] += 1
    naive.hours[place.hour] += 1
    naive.visitors[place.day].add(visitor)
    naive.pages[url] += 1
    naive.days_of_pages[url, place.day] += 1
    naive.visitors_of_pages[url, place.day].add(visitor)
    naive.devices[BROWSERS[hit.agent]] += 1
    if hit.source is not None:
        naive.sources[SOURCES[hit.source]] += 1


def send(site: Site, hit: Hit, rng: random.Random) -> None:
    """Post a hit as the beacon does, often again after some seconds, and sometimes by a wrong clock."""
    stage = settings.current()._replace(views_rate=0)
    wrong = timedelta(days=rng.choice((0, 0, 0, -400, 3)))
    fields: dict[str, Any] = {"url": f"https://{hit.site}{hit.path}?utm_medium={rng.choice('xy')}"}
    fields |= {"time": times.to_iso(hit.moment + wrong), "sent": times.to_iso(hit.moment + wrong)}
    fields["referrer"] = f"https://{hit.site}/before" if hit.source is None else hit.source
    fields |= {"goal": hit.goal} if hit.goal else {}
    if hit.source == "":
        fields["url"] = f"https://{hit.site}{hit.path}"
    for delay in (0, 2) if rng.random() < 0.3 and not wrong else (0,):
        context = new_context(site.table, hit.moment + timedelta(seconds=delay), stage)
        headers = {"user-agent": hit.agent}
        events.accept(context, ViewsBody(**fields), Caller(address=hit.address), headers)


def check(context: Context, host: str, naive: Naive) -> None:
    """Compare all reads of a month with a naive count."""
    first, last = min(naive.views), max(naive.views)
    period: dict[str, Any] = {"from_": first.isoformat(), "to": last.isoformat()}
    site = definitions.find(context.table, host)
    days = site_queries.read_site(context, SiteSeriesQuery(site=host, **period), Caller())
    shown = {item.time: (item.views, item.visitors) for item in days.items if item.views or item.visitors}
    right = {times.to_iso(site.begin(day)): (n, len(naive.visitors[day])) for day, n in naive.views.items()}
    assert shown == right
    assert (days.views, days.visitors) == (naive.views.total(), sum(map(len, naive.visitors.values())))
    hourly: dict[str, int] = {}
    for day in sorted(naive.views):
        query = SiteSeriesQuery(site=host, interval="hour", from_=day.isoformat(), to=day.isoformat())
        found = site_queries.read_site(context, query, Caller()).items
        hourly |= {item.time: item.views for item in found if item.views}
    assert hourly == {times.to_iso(hour): views for hour, views in naive.hours.items()}
    for url, views in naive.pages.items():
        items = queries.read_series(context, SeriesQuery(url=url, **period)).items
        assert {item.time: (item.views, item.visitors) for item in items if item.views} == {
            times.to_iso(site.begin(day)): (count, len(naive.visitors_of_pages[url, day]))
            for (page, day), count in naive.days_of_pages.items()
            if page == url
        }
        assert queries.live(context, url).views == views
    listed: dict[str, Any] = {"site": host, "limit": 100, **period}
    top = site_queries.list_top_pages(context, TopQuery(**listed), Caller())
    assert {page.url: page.views for page in top.items} == naive.pages
    sources = site_queries.list_referrers(context, ReferrersQuery(**listed), Caller())
    assert {source.referrer: source.views for source in sources.items} == naive.sources
    goals = site_queries.list_goals(context, SourcesQuery(**listed), Caller())
    assert {goal.goal: (goal.events, goal.visitors) for goal in goals.items} == {
        name: (number, len(naive.visitors_of_goals[name])) for name, number in naive.goals.items()
    }
    devices = site_queries.count_traits(context, TraitsQuery(site=host, by="device", **period), Caller())
    assert {device.name: device.views for device in devices.items} == naive.devices


@pytest.mark.parametrize(("seed", "visits"), [(1, 80), pytest.param(2, 1_500, marks=pytest.mark.long)])
def test_a_month_of_visitors_agrees_with_a_naive_count(site: Site, seed: int, visits: int) -> None:
    rng = random.Random(seed)
    for host, zone in ZONES.items():
        definitions.define(site.table, host, SiteBody(timezone=zone), BEGIN - 9 * times.DAY)
    naive = {host: Naive() for host in ZONES}
    since = date.max
    # The same visitor may view the same page in the same instant only once.
    hits = {hit._replace(source=None, address=NETWORKS[hit.address]): hit for hit in simulate(rng, visits)}
    for hit in sorted(hits.values(), key=lambda hit: hit.moment):
        if hit.moment >= CHANGE and since == date.max:
            site.settle()
            body = SiteBody(timezone=MOVED_TO)
            changed, _ = definitions.define(site.table, "moved.example", body, CHANGE)
            since = date.fromisoformat(changed.since or "")
        send(site, hit, rng)
        count(naive[hit.site], hit, since)
    site.settle()
    for host, counted in naive.items():
        check(new_context(site.table, END + times.DAY), host, counted)
