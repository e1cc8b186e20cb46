"""Reads of views: a page's totals, its series and events, a site's top pages, the value of a live topic.

The items are those of `events.py`. Nothing here writes.
"""

import json
from datetime import UTC, datetime, timedelta

from msgspec import UNSET

from chalicelib import times, urls
from chalicelib.aggregates import toplist
from chalicelib.api import cursors
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest
from chalicelib.settings import Settings
from chalicelib.views.events import count_page_views, day_key, page_key, parse_event_key, site_key
from chalicelib.views.schemas import (
    Bucket,
    EventsQuery,
    PageQuery,
    PageViews,
    Series,
    SeriesQuery,
    TopPage,
    TopPages,
    TopQuery,
    ViewEvent,
    ViewEvents,
)


def parse_url(url: str, field: str = "url") -> str:
    """Return an address in normal form. Raises BadRequest, which names the field."""
    try:
        return urls.canonical(url)
    except ValueError as error:
        raise BadRequest(f"{field}: {error}") from None


# -- totals --------------------------------------------------------------------------------------------


def count_views(table: Table, query: PageQuery) -> PageViews:
    """Return a page's views and uniques, which are 0 for a page without views.

    Cost: 0.5 RCU.
    """
    url = parse_url(query.url)
    return _page_views(url, table.get(page_key(url)))


def topic_id(key: Key) -> str | None:
    """Return the page whose totals have this key, as the id of its live topic; None for any other key."""
    url = key.pk.removeprefix("URL#")
    return url if key == page_key(url) else None


def topic_value(table: Table, url: str) -> PageViews:
    """Return the totals of a page that are pushed to its subscribers, read strongly consistent.

    Cost: 1 RCU.
    """
    return _page_views(url, table.get(page_key(url), consistent=True))


def _page_views(url: str, page: Item | None) -> PageViews:
    page = page or {}
    return PageViews(url=url, views=count_page_views(page), uniques=page.get("uniques", 0))


# -- series and events ---------------------------------------------------------------------------------


def read_series(table: Table, query: SeriesQuery, now: datetime) -> Series:
    """Return every hour or day that begins before `to`, with 0 for gaps.

    The series begins with the hour or day that `from` lies in. It has at most 31 days of hours, or 366 days.

    Cost: 0.5 RCU per 4 KB of days (about ten).
    """
    url = parse_url(query.url)
    hourly = query.interval == "hour"
    interval, default, most = (times.HOUR, 1, 31) if hourly else (times.DAY, 30, 366)
    start, end = _time_range(query, now, default * times.DAY, most * times.DAY)
    start = times.floor(start, interval)
    bounds = (day_key(url, start.date().isoformat()).sk, day_key(url, end.date().isoformat()).sk)
    page = table.query(f"URL#{url}", bounds, limit=most + 2)
    days = {item["sk"].removeprefix("DAY#"): item for item in page.items}
    buckets = []
    while start < end:
        day = days.get(start.date().isoformat(), {})
        views, uniques = (f"v{start.hour:02}", f"u{start.hour:02}") if hourly else ("views", "uniques")
        buckets.append(Bucket(time=times.to_iso(start), views=day.get(views, 0), uniques=day.get(uniques, 0)))
        start += interval
    return Series(items=buckets)


def list_events(table: Table, query: EventsQuery, settings: Settings, now: datetime) -> ViewEvents:
    """Return a page's view events, oldest first.

    Cost: 0.5 RCU per 4 KB (about 25 events).
    """
    url = parse_url(query.url)
    pk, cursor_scope = f"URL#{url}", ("views/events", url, query.from_ or "", query.to or "")
    position = cursors.decode(settings, cursor_scope, query.cursor)
    if position:  # the range of the first page holds for all: "up to now" must not move between two pages
        low, high, after = json.loads(position)
    else:
        start, end = _time_range(query, now, settings.views_window, 100 * 366 * times.DAY)
        low, high, after = f"T#{times.to_sort_key(start)}", f"T#{times.to_sort_key(end)}", ""
    page = table.query(
        pk,
        (low, high),
        limit=query.limit,
        start={"pk": pk, "sk": after} if after else None,
    )
    views = [parse_event_key(url, item["sk"]) for item in page.items]
    following = json.dumps((low, high, page.next["sk"])) if page.next else ""
    return ViewEvents(
        items=[ViewEvent(url=v.url, time=times.to_iso(v.time), client_id=v.client) for v in views],
        cursor=cursors.encode(settings, cursor_scope, following),
    )


def _time_range(
    query: SeriesQuery | EventsQuery, now: datetime, default: timedelta, longest: timedelta
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
        raise BadRequest(f"{name}: {error}{hint}") from None
    if end > datetime.max.replace(tzinfo=UTC) - times.DAY:
        raise BadRequest("to: must be before 9999-12-31")
    is_backwards = start > end or (start == end and len(query.to or "") == 10)  # a date ends a day later
    if is_backwards or end - start > longest:
        raise BadRequest(f"from: must be before `to`, and at most {longest.days:,} days before it")
    return start, end


# -- top pages -----------------------------------------------------------------------------------------


def list_top_pages(table: Table, query: TopQuery) -> TopPages:
    """Return a site's most viewed pages.

    `complete` is false if more than 200 other pages may have as many views as the last one.

    Cost: that of `toplist.read_largest`, about 0.8 RCU a page.
    """
    site = parse_url(f"http://{query.site}/", "site")
    host = urls.host(site)
    if site not in (f"http://{host}/", f"http://[{host}]/"):
        raise BadRequest("site: must be a host alone, such as www.example.org")
    found = toplist.read_largest(table, site_key(host), query.limit, count_page_views)
    items = [TopPage(url=item["pk"].removeprefix("URL#"), views=views) for item, views in found.items]
    return TopPages(items=items, complete=UNSET if found.complete else False)
