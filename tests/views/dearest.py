"""The dearest requests of views: full days of a busy year, many ties, and the longest addresses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from chalicelib import urls
from chalicelib.aggregates import engine
from chalicelib.aggregates.toplist import step_of
from chalicelib.dynamo.items import Item, Key
from chalicelib.views import sites, traits
from chalicelib.views.events import MAX_ANONYMOUS_EVENTS, day_key, page_key, site_key
from tests.support.dearest import Dearest
from tests.support.deployed import Deployed, Invocation

BUSY, WORLD, LONG = "busy.example.org", "world.example.org", ".".join(["x" * 60] * 4)
YEAR, MONTH = 400, 31  # days
PAGES = 1_500  # of each of the last two days
TAGS = {bytes([number]) * 12 for number in range(engine.TAGS)}
LONGEST = f"https://{LONG}/" + "a" * (urls.MAX_LENGTH - len(f"https://{LONG}/") - 4)


def full(key: Key, views: int, partition: str = "") -> Item:
    """Return a day with views in every hour, and with every tag that it may have."""
    hours = {f"{kind}{hour:02}": 10_000 + views for kind in "vc" for hour in range(24)}
    listed = {"gsi1pk": partition, "gsi1sk": step_of(views)} if partition else {}
    sums = {"views": views, "visitors": views, "events": views, "ttl": 2**32}
    return {**key._asdict(), **hours, **sums, **listed, "applied": TAGS}


def dearest(site: Deployed) -> Iterator[Dearest]:
    """Post 25 new pages, and read the numbers of a busy site and of one with the longest addresses."""
    now = datetime.now(UTC)
    days = [(now - timedelta(days=number)).date().isoformat() for number in range(YEAR)]
    events = [
        {
            "url": f"{LONGEST}{i:02}",
            "time": now.isoformat(),
            "clientId": f"{'c' * 126}{i:02}",
            "referrer": f"https://r{i}.{LONG[:-4]}/",
            "campaign": f"{i:02}{'ü' * 98}",
        }
        for i in range(MAX_ANONYMOUS_EVENTS)
    ]
    post = site.rest("POST /views", "25 new pages, referrers and campaigns", body={"events": events})
    yield Dearest(post, read=1.5, write=500, kilobytes=1)
    url = f"https://{BUSY}/" + "a" * 200
    pixel = site.rest("GET /views/pixel.gif", "a new page", query={"url": f"{LONGEST}99"})
    yield Dearest(pixel, read=8, write=40, kilobytes=1)
    _fill(site, url, days)
    for route in ("/views", "/views/badge.svg"):
        yield Dearest(site.rest(f"GET {route}", "any page", query={"url": url}), read=1)
    year = {"from": days[365], "to": days[0]}
    months = {"interval": "hour", "from": days[30], "to": days[0]}
    for name, period in (("366 busy days", year), ("31 busy days by the hour", months)):
        yield Dearest(site.rest("GET /views/series", name, query={"url": url, **period}))
        yield Dearest(site.rest("GET /views/site", name, query={"site": BUSY, **period}))
    yield from _lists(site, days)
    yield from _traits(site, days)


def _traits(site: Deployed, days: Sequence[str]) -> Iterator[Dearest]:
    """Count the views of a site that every day has readers of every country, in every language."""
    words = {
        "country": sorted(set(traits.countries())),
        "device": [*traits.DEVICES, traits.OTHER],
        "browser": [*traits.BROWSERS, traits.OTHER],
        "os": [*traits.SYSTEMS, traits.OTHER],
        "language": [*traits.LANGUAGES, traits.OTHER],
    }
    sums = {traits.attribute(name, word): 10_001 for name, found in words.items() for word in found}
    site.table.batch_put(full(sites.day_key(WORLD, day), 10**6) | sums for day in days[:MONTH])
    query = {"site": WORLD, "from": days[MONTH - 1], "to": days[0]}
    yield Dearest(_get(site, "/views/visitors", "31 days of all countries", query | {"by": "country"}))


def _fill(site: Deployed, url: str, days: Sequence[str]) -> None:
    """Write the days of a page and of a busy site with its lists, and pages with the longest addresses."""
    items: list[Item] = [full(day_key(url, day), 1) for day in days]
    for host in (BUSY, LONG):
        items += [full(sites.day_key(host, day), 10**6 - number) for number, day in enumerate(days)]
    for number, day in enumerate(days[:MONTH]):
        for host, count in ((BUSY, PAGES if number < 2 else 40), (LONG, 40)):
            pages = [f"https://{host}/{i:04}" if host == BUSY else f"{LONGEST}{i:04}" for i in range(count)]
            listed = sites.list_key(host, sites.PAGES, day)
            items += [full(day_key(page, day), 1 + i % 4, listed) for i, page in enumerate(pages)]
        for kind, key, name in (
            (sites.REFERRERS, sites.referrer_key, "r" * 240),
            (sites.CAMPAIGNS, sites.campaign_key, "🦉" * 96),
            (sites.GOALS, sites.goal_key, "🦉" * 61),
        ):
            listed = sites.list_key(BUSY, kind, day)
            items += [full(key(BUSY, f"{name}{i:03}", day), 1 + i % 4, listed) for i in range(PAGES // 10)]
    for host in (BUSY, LONG):
        pages = [f"https://{host}/{i:04}" if host == BUSY else f"{LONGEST}{i:04}" for i in range(300)]
        items += [full(page_key(page), 1 + i % 4, site_key(host)) for i, page in enumerate(pages)]
    site.table.batch_put(items)


def _lists(site: Deployed, days: Sequence[str]) -> Iterator[Dearest]:
    def top(name: str, host: str, **period: Any) -> Dearest:
        query = {"site": host, "limit": "100", **period}
        return Dearest(site.rest("GET /views/top", name, query=query))

    # The definitions of both sites are read here, for a minute.
    for host in (BUSY, LONG):
        yield Dearest(_get(site, "/views/site", "30 busy days", {"site": host}))
    yield top("300 pages, of all time", BUSY)
    yield top("300 of the longest addresses", LONG)
    yield top("two days of 1,500 pages", BUSY, **{"from": days[1], "to": days[0]})
    yield top("31 days of the longest addresses", LONG, **{"from": days[30], "to": days[0]})
    yield top("400 busy days", BUSY, **{"from": days[399], "to": days[0]})
    empty: dict[str, str] = {"site": "empty.example", "from": days[399], "to": days[0]}
    for route in ("/views/referrers", "/views/campaigns", "/views/goals"):
        for name, days_of in (("31", days[30]), ("400", days[399])):
            query = {"site": BUSY, "limit": "100", "from": days_of, "to": days[0]}
            yield Dearest(site.rest(f"GET {route}", f"{name} busy days", query=query))
        yield Dearest(_get(site, route, "400 days of an empty site", empty), read=1)


def _get(site: Deployed, route: str, name: str, query: dict[str, str]) -> Invocation:
    return site.rest(f"GET {route}", name, query=query)
