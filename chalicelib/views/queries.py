"""Reads of a page's views: its totals, its series and events, the value of its live topic.

The items are those of `events.py`. Nothing here writes.
"""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from chalicelib import times, urls
from chalicelib.api import cursors
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key, Range
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest
from chalicelib.views import definitions, sources
from chalicelib.views.definitions import Definition
from chalicelib.views.events import View, page_key, parse_event_key
from chalicelib.views.schemas import (
    Bucket,
    EventsQuery,
    PageQuery,
    PageViews,
    Series,
    SeriesQuery,
    SiteSeriesQuery,
    SourcesQuery,
    TopQuery,
    TraitsQuery,
    ViewEvent,
    ViewEvents,
)

BEYOND = "`from` and `to` must be between 0001-01-02 and 9999-12-30"
MAX_UNITS = 99.5  # RCU of a series, and 100 with its site

RangeQuery = SeriesQuery | EventsQuery | SiteSeriesQuery | SourcesQuery | TopQuery | TraitsQuery


def parse_url(url: str, field: str = "url") -> str:
    """Return an address in normal form. Raises BadRequest, which names the field."""
    try:
        return urls.canonical(url)
    except ValueError as error:
        raise BadRequest(f"`{field}` {error}") from None


# -- totals --------------------------------------------------------------------------------------------


def count_views(table: Table, query: PageQuery) -> PageViews:
    """Return a page's views and visitors, which are 0 for a page without views.

    Cost: 0.5 RCU.
    """
    url = find_page(table, query.url)[0]
    return _page_views(url, table.get(page_key(url)))


def find_page(table: Table, text: str) -> tuple[str, Definition]:
    """Return the address of a page as its site counts it, and the definition of the site.

    Cost: that of `definitions.find`.
    Raises: BadRequest.
    """
    url = parse_url(text)
    site = definitions.find(table, urls.host(url))
    return site.normalize(sources.strip_tracking(url), text), site


def topic(key: Key) -> str | None:
    """Return the page whose totals have this key, as the id of its live topic; None for any other key."""
    url = key.pk.removeprefix("URL#")
    return url if key == page_key(url) else None


def live(context: Context, url: str) -> PageViews:
    """Return the totals of a page that are pushed to its subscribers, read strongly consistent.

    Cost: 1 RCU.
    """
    return _page_views(url, context.table.get(page_key(url), consistent=True))


def _page_views(url: str, page: Item | None) -> PageViews:
    page = page or {}
    return PageViews(url=url, views=page.get("views", 0), visitors=page.get("visitors", 0))


# -- series and events ---------------------------------------------------------------------------------


def read_series(context: Context, query: SeriesQuery) -> Series:
    """Return the intervals of a page's series, with 0 for gaps (`read_intervals`).

    Cost: 0.5 RCU per 4 KB of days (about ten).
    """
    url, site = find_page(context.table, query.url)
    _, items = read_intervals(context, f"URL#{url}", query, site)
    return Series(timezone=site.timezone, items=items)


class Interval(NamedTuple):
    """The days of a series by default and at most, and the day that begins the interval of a day."""

    default: int
    most: int
    begin: Callable[[date], date] = lambda day: day


INTERVALS = {
    "hour": Interval(1, 31),
    "day": Interval(30, 366),
    "week": Interval(12 * 7, 3 * 366, lambda day: day - day.weekday() * times.DAY),
    "month": Interval(366, 10 * 366, lambda day: day.replace(day=1)),
}


def read_intervals(
    context: Context, pk: str, query: SeriesQuery | SiteSeriesQuery, site: Definition
) -> tuple[list[Item], list[Bucket]]:
    """Return the items of the days of a partition in a query's range, and its intervals.

    The first interval is the one that `from` lies in, and the last one begins before `to`. They are those of
    the site's zone.

    Cost: 0.5 RCU per 4 KB of days, at most 100 RCU.
    Raises: BadRequest, also for days that cost more. Those of a year do if the address is very long.
    """
    interval = INTERVALS[query.interval]
    default, most = interval.default * times.DAY, interval.most * times.DAY
    start, end = read_range(query, context.now, default, most, site)
    last = site.find_day(end - timedelta(microseconds=1))
    first = interval.begin(site.find_day(start))
    bounds = (f"DAY#{first.isoformat()}", f"DAY#{last.isoformat()}")
    found = read_days(context.table, pk, bounds)
    days = {item["sk"].removeprefix("DAY#"): item for item in found}
    sums: dict[datetime, list[int]] = {}
    for day in (first + number * times.DAY for number in range((last - first).days + 1)):
        item, begin = days.get(day.isoformat(), {}), site.begin(day)
        if query.interval == "hour":
            hours = -((begin - site.begin(day + times.DAY)) // times.HOUR)
            for hour in range(hours):
                moment = begin + hour * times.HOUR
                if start < moment + times.HOUR and moment < end:
                    sums[moment] = [int(item.get(f"{kind}{hour:02}", 0)) for kind in "vc"]
        else:
            total = sums.setdefault(site.begin(interval.begin(day)), [0, 0])
            total[0] += int(item.get("views", 0))
            total[1] += int(item.get("visitors", 0))
    buckets = [
        Bucket(time=times.to_iso(moment), views=views, visitors=visitors)
        for moment, (views, visitors) in sums.items()
    ]
    return found, buckets


def read_days(table: Table, pk: str, bounds: tuple[str, str]) -> list[Item]:
    """Return the days of a partition between two sort keys.

    Cost: 0.5 RCU per 4 KB of days, at most 100 RCU.
    Raises: BadRequest for days that cost more.
    """
    found, left = list[Item](), MAX_UNITS
    for page in table.query_pages(Range(pk, bounds), limit=100):
        found += page.items
        left -= page.units
        if page.next and left < page.units:
            raise BadRequest(f"`from` must be at most {len(found)} days before `to` for days of so much data")
    return found


def list_events(context: Context, query: EventsQuery) -> ViewEvents:
    """Return a page's view events, oldest first.

    Cost: 0.5 RCU per 4 KB (about 35 events).
    """
    url, site = find_page(context.table, query.url)
    pk, cursor_scope = f"URL#{url}", ("views/events", url, query.from_ or "", query.to or "")
    position = cursors.decode(context.settings, cursor_scope, query.cursor)
    if position:  # the range of the first page holds for all: "up to now" must not move between two pages
        low, high, after = json.loads(position)
    else:
        longest = 100 * 366 * times.DAY
        start, end = read_range(query, context.now, context.settings.views_window, longest, site)
        low, high, after = f"T#{times.to_sort_key(start)}", f"T#{times.to_sort_key(end)}", ""
    page = context.table.query(
        Range(pk, (low, high)),
        limit=query.limit,
        start={"pk": pk, "sk": after} if after else None,
    )
    views = [parse_event_key(url, item["sk"]) for item in page.items]
    following = json.dumps((low, high, page.next["sk"])) if page.next else ""
    return ViewEvents(
        items=[_to_event(view, item) for view, item in zip(views, page.items, strict=True)],
        cursor=cursors.encode(context.settings, cursor_scope, following),
    )


def _to_event(view: View, item: Item) -> ViewEvent:
    origin = {name: item[name] for name in ("referrer", "campaign") if name in item}
    return ViewEvent(url=view.url, time=times.to_iso(view.time), client_id=view.client, **origin)


def _parse_bound(text: str, site: Definition, *, end: bool = False) -> datetime:
    """Return an instant, or the beginning or the end of a day of the site. Raises ValueError."""
    if not times.is_date(text):
        return times.parse(text)
    day = times.parse_bound(text).date()
    return site.begin(day + times.DAY if end else day)


def read_range(
    query: RangeQuery, now: datetime, default: timedelta, longest: timedelta, site: Definition
) -> tuple[datetime, datetime]:
    """Return `from` and `to` of a query. By default the range is `default` long and ends now.

    Raises:
        BadRequest: a bound is malformed, or `from` is not before `to`, or the range is longer than `longest`.
    """
    name, given = "to", query.to
    try:
        end = _parse_bound(query.to, site, end=True) if query.to else now
        name, given = "from", query.from_
        start = _parse_bound(query.from_, site) if query.from_ else end - default
    except OverflowError:
        raise BadRequest(BEYOND) from None
    except ValueError as error:
        hint = " (in a query, + is written %2B)" if " " in (given or "") else ""
        raise BadRequest(f"`{name}` {error}{hint}") from None
    if end > datetime.max.replace(tzinfo=UTC) - times.DAY:
        raise BadRequest(BEYOND)
    is_backwards = start > end or (start == end and times.is_date(query.to or ""))  # a date ends a day later
    if is_backwards or end - start > longest:
        raise BadRequest(f"`from` must be before `to`, and at most {longest.days:,} days before it")
    return start, end
