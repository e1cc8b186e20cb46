"""What views add up to over time and over a site: a page's series, its events, a site's top pages.

The items are those of views.py. Nothing here writes.
"""

import json
from datetime import UTC, datetime, timedelta

from chalicelib import times, urls
from chalicelib.api import cursors
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest
from chalicelib.settings import Settings
from chalicelib.views import events as views
from chalicelib.views.schemas import (
    Bucket,
    EventsQuery,
    Series,
    SeriesQuery,
    TopPage,
    TopPages,
    TopQuery,
    ViewEvent,
    ViewEvents,
)


def series(table: Table, query: SeriesQuery, now: datetime) -> Series:
    """Answer every hour or day that begins before `to`, gaps as 0; `from` is cut down to its interval.

    At most 31 days of hours, or 366 days. Costs 0.5 RCU per 4 KB of its days (about ten).
    """
    url = views.address(query.url)
    hourly = query.interval == "hour"
    interval, default, most = (times.HOUR, 1, 31) if hourly else (times.DAY, 30, 366)
    start, end = _frame(query, now, default * times.DAY, most * times.DAY)
    start = times.floor(start, interval)
    bounds = (views.day_key(url, start.date().isoformat()).sk, views.day_key(url, end.date().isoformat()).sk)
    page = table.query(f"URL#{url}", bounds, limit=most + 2)
    days = {item["sk"].removeprefix("DAY#"): item for item in page.items}
    buckets = []
    while start < end:
        day = days.get(start.date().isoformat(), {})
        of_views, of_uniques = (f"v{start.hour:02}", f"u{start.hour:02}") if hourly else ("views", "uniques")
        counts = {"views": day.get(of_views, 0), "uniques": day.get(of_uniques, 0)}
        buckets.append(Bucket(time=times.to_iso(start), **counts))
        start += interval
    return Series(items=buckets)


def events(table: Table, query: EventsQuery, settings: Settings, now: datetime) -> ViewEvents:
    """Answer a page's view events, oldest first. Costs 0.5 RCU per 4 KB (about 25 events)."""
    url = views.address(query.url)
    pk, cursor_scope = f"URL#{url}", ("views/events", url, query.from_ or "", query.to or "")

    def read_page(position: str) -> tuple[list[Item], str]:
        if position:  # the frame is that of the first page: "up to now" must not move between two pages
            low, high, after = json.loads(position)
        else:
            start, end = _frame(query, now, settings.views_window, 100 * 366 * times.DAY)
            low, high, after = f"T#{times.to_sort_key(start)}", f"T#{times.to_sort_key(end)}", ""
        page = table.query(
            pk,
            (low, high),
            limit=query.limit,
            start={"pk": pk, "sk": after} if after else None,
        )
        return page.items, json.dumps((low, high, page.next["sk"])) if page.next else ""

    items, cursor = cursors.paginate(settings, cursor_scope, query.cursor, read_page)
    seen = [views.view(url, item["sk"]) for item in items]
    return ViewEvents(
        items=[ViewEvent(url=v.url, time=times.to_iso(v.time), client_id=v.client) for v in seen],
        cursor=cursor,
    )


def top(table: Table, query: TopQuery) -> TopPages:
    """Answer a site's most viewed pages. Costs 0.5 RCU per 4 KB of index (about 25 pages)."""
    site = views.address(f"http://{query.site}/", "site")
    host = urls.host(site)
    if site not in (f"http://{host}/", f"http://[{host}]/"):
        raise BadRequest("site: it must be a host alone, such as www.example.org")
    page = table.query(views.site_key(host), (1, 10**30), index="gsi1", limit=query.limit, newest_first=True)
    found = [TopPage(url=item["pk"].removeprefix("URL#"), views=item["gsi1sk"]) for item in page.items]
    return TopPages(items=found)


def _frame(
    query: SeriesQuery | EventsQuery, now: datetime, default: timedelta, most: timedelta
) -> tuple[datetime, datetime]:
    """Read `from` and `to`; by default the last while up to now."""
    name, given = "to", query.to
    try:
        end = times.parse_bound(query.to, end=True) if query.to else now
        name, given = "from", query.from_
        start = times.parse_bound(query.from_) if query.from_ else end - default
    except (ValueError, OverflowError) as error:
        hint = " (in a query, + is written %2B)" if " " in (given or "") else ""
        raise BadRequest(f"{name}: {error}{hint}") from None
    if end > datetime.max.replace(tzinfo=UTC) - times.DAY:
        raise BadRequest("to: it is past the calendar's end")
    is_backwards = start > end or (start == end and len(query.to or "") == 10)  # a date ends a day later
    if is_backwards or end - start > most:
        raise BadRequest(f"from: it must be before `to`, and not more than {most.days} days before it")
    return start, end
