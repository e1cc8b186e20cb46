"""Reads of a page's views: its totals, its series and events, the value of its live topic.

The items are those of `events.py`. Nothing here writes.
"""

import json
from datetime import UTC, datetime, timedelta

from chalicelib import times, urls
from chalicelib.api import cursors
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest
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
    ViewEvent,
    ViewEvents,
)

MAX_UNITS = 100.0  # RCU of a series

RangeQuery = SeriesQuery | EventsQuery | SiteSeriesQuery | SourcesQuery | TopQuery


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
    url = parse_url(query.url)
    return _page_views(url, table.get(page_key(url)))


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
    """Return every hour or day that begins before `to`, with 0 for gaps.

    The series begins with the hour or day that `from` lies in. It has at most 31 days of hours, or 366 days.

    Cost: 0.5 RCU per 4 KB of days (about ten).
    """
    url = parse_url(query.url)
    _, items = read_intervals(context, f"URL#{url}", query)
    return Series(items=items)


def read_intervals(
    context: Context, pk: str, query: SeriesQuery | SiteSeriesQuery
) -> tuple[list[Item], list[Bucket]]:
    """Return the items of the days of a partition in a query's range, and its hours or days.

    Cost: 0.5 RCU per 4 KB of days, at most 100 RCU.
    Raises: BadRequest, also for days that cost more. Those of a year do if the address is very long.
    """
    hourly = query.interval == "hour"
    interval, default, most = (times.HOUR, 1, 31) if hourly else (times.DAY, 30, 366)
    start, end = read_range(query, context.now, default * times.DAY, most * times.DAY)
    start = times.floor(start, interval)
    last = end - timedelta(microseconds=1)
    bounds = (f"DAY#{start.date().isoformat()}", f"DAY#{last.date().isoformat()}")
    found, left = list[Item](), MAX_UNITS
    for page in context.table.query_pages(pk, bounds, limit=100):
        found += page.items
        left -= page.units
        if page.next and left < page.units:
            raise BadRequest(f"`from` must be at most {len(found)} days before `to` for so long an address")
    days = {item["sk"].removeprefix("DAY#"): item for item in found}
    buckets = []
    while start < end:
        day = days.get(start.date().isoformat(), {})
        names = (f"v{start.hour:02}", f"c{start.hour:02}") if hourly else ("views", "visitors")
        views, visitors = (int(day.get(name, 0)) for name in names)
        buckets.append(Bucket(time=times.to_iso(start), views=views, visitors=visitors))
        start += interval
    return found, buckets


def list_events(context: Context, query: EventsQuery) -> ViewEvents:
    """Return a page's view events, oldest first.

    Cost: 0.5 RCU per 4 KB (about 35 events).
    """
    url = parse_url(query.url)
    pk, cursor_scope = f"URL#{url}", ("views/events", url, query.from_ or "", query.to or "")
    position = cursors.decode(context.settings, cursor_scope, query.cursor)
    if position:  # the range of the first page holds for all: "up to now" must not move between two pages
        low, high, after = json.loads(position)
    else:
        start, end = read_range(query, context.now, context.settings.views_window, 100 * 366 * times.DAY)
        low, high, after = f"T#{times.to_sort_key(start)}", f"T#{times.to_sort_key(end)}", ""
    page = context.table.query(
        pk,
        (low, high),
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
    sources = {name: item[name] for name in ("referrer", "campaign") if name in item}
    return ViewEvent(url=view.url, time=times.to_iso(view.time), client_id=view.client, **sources)


def read_range(
    query: RangeQuery, now: datetime, default: timedelta, longest: timedelta
) -> tuple[datetime, datetime]:
    """Return `from` and `to` of a query. By default the range is `default` long and ends now.

    Raises:
        BadRequest: a bound is malformed, or `from` is not before `to`, or the range is longer than `longest`.
    """
    name, given = "to", query.to
    try:
        end = times.parse_bound(query.to, end=True) if query.to else now
        name, given = "from", query.from_
        start = times.parse_bound(query.from_) if query.from_ else end - default
    except (ValueError, OverflowError) as error:
        hint = " (in a query, + is written %2B)" if " " in (given or "") else ""
        raise BadRequest(f"`{name}` {error}{hint}") from None
    if end > datetime.max.replace(tzinfo=UTC) - times.DAY:
        raise BadRequest("`to` must be before 9999-12-31")
    is_backwards = start > end or (start == end and times.is_date(query.to or ""))  # a date ends a day later
    if is_backwards or end - start > longest:
        raise BadRequest(f"`from` must be before `to`, and at most {longest.days:,} days before it")
    return start, end
