"""Views of pages: every event counts once, in totals, in a series, among a site's top pages.

| item | pk | sk | holds |
|---|---|---|---|
| event | `URL#<url>` | `T#<instant>#CID#<client>` | one view, `ttl`; its key is what makes it count once |
| page | `URL#<url>` | `STATISTICS` | `gsi1sk` views, `uniques`; gsi1pk = `SITE#<host>`; `ttl`, `kept` |
| day | `URL#<url>` | `DAY#<date>` | `views`, `uniques`, and by hour `v00`…, `u00`…; `ttl`, `kept` |
| visitor | `URL#<url>` | `VISITOR#<date>#<client>` | `hours` in which this client viewed the page, `ttl` |

A unique is one client on one UTC day; a page's uniques are the sum of its days', an hour's are the clients
of that hour. A visitor is an aggregate itself, and what it contributes are the uniques.

A day lives for HUBBUB_PAGE_DAYS after the last view that was added to it, a page a week longer. So a page is
never removed before its days, nor a day before its events, and a page that comes back counts from 0. A page
or a day of an imported history, whose events have `kept`, has it too and lives for ever.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from msgspec import UNSET

from chalicelib import times, urls
from chalicelib.aggregates.sums import FOR_EVER, KEPT, Amount, Constant, Life
from chalicelib.api.auth import Caller
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest
from chalicelib.settings import QUEUE_DAYS, Settings
from chalicelib.telemetry import logs, metrics
from chalicelib.views import queue
from chalicelib.views.crawlers import is_crawler
from chalicelib.views.schemas import Accepted, PageQuery, PageViews, QueuedViews, Rejection, ViewsBody
from chalicelib.views.validation import ANONYMOUS, EVENTS, MALFORMED, NOT_COUNTED, View, checked

GRACE = timedelta(
    days=QUEUE_DAYS
)  # an event may wait in the queue and among its dead letters: 14 days in all
MARKER_LIFE = 2 * 86_400  # seconds: ops/maintenance/forget.py
LONGER = 7 * 86_400  # seconds that a page lives beyond its days: TTL may be some days late
MARGIN = timedelta(hours=1)  # between the last time that an item is written and its expiry


# -- keys ----------------------------------------------------------------------------------------------


def page_key(url: str) -> Key:
    """Key a page's totals."""
    return Key(f"URL#{url}", "STATISTICS")


def day_key(url: str, day: str) -> Key:
    """Key a page's day, written as 2026-11-21."""
    return Key(f"URL#{url}", f"DAY#{day}")


def event_key(view: View) -> Key:
    """Key one view: the same url, instant and client is the same item."""
    return Key(f"URL#{view.url}", f"T#{times.to_sort_key(view.time)}#CID#{view.client}")


def visitor_key(url: str, day: str, client: str) -> Key:
    """Key one client's visits of a page on a day."""
    return Key(f"URL#{url}", f"VISITOR#{day}#{client}")


def marker_key(url: str) -> Key:
    """Key the marker that `ops forget-page` sends through the stream behind a page's deletions."""
    return Key(f"URL#{url}", "SENT")


def echo_key(url: str) -> Key:
    """Key the tokens of the markers that the stream has brought."""
    return Key(f"URL#{url}", "COUNTED")


def site_key(host: str) -> str:
    """Key a site's pages in gsi1, by views."""
    return f"SITE#{host}"


# -- write ---------------------------------------------------------------------------------------------


def take(
    table: Table, body: ViewsBody, caller: Caller, user_agent: str, settings: Settings, now: datetime
) -> Accepted:
    """Take one event or a batch: write the events that count, or queue them where the stage has a queue.

    The events of a batch that do not count are named in the answer, each with its reason. A single one raises
    BadRequest when it is malformed, and else the error of its reason (TooOld, InTheFuture, SiteNotAllowed,
    Bot). Raises TooLarge for more than 25 events without a token, more than 500 with one.

    Cost: 1 WCU an event (2 where key and client are longer than 1 KB), or one SQS request per 250.
    """
    checks = checked(body, settings, now, most=EVENTS if caller.sub else ANONYMOUS)
    if is_crawler(user_agent):
        checks = [seen if isinstance(seen, str) else "bot" for seen in checks]
    taken = [seen for seen in checks if isinstance(seen, View)]
    if body.events is UNSET and isinstance(checks[0], str):
        metrics.count(ViewsRejected=1)
        kind, message = NOT_COUNTED[checks[0]]
        raise kind(message)
    rejected = [Rejection(index=i, reason=why) for i, why in enumerate(checks) if isinstance(why, str)]
    if settings.queue_url:
        queue.send(
            settings, [{"url": v.url, "time": times.to_iso(v.time), "clientId": v.client} for v in taken]
        )
    else:
        write(table, taken, settings, now)
    metrics.count(ViewsAccepted=len(taken), ViewsRejected=len(rejected))
    return Accepted(accepted=len(taken), rejected=rejected)


def write_queued(table: Table, body: QueuedViews, settings: Settings, now: datetime) -> None:
    """Write the events of one queue message; raises BadRequest for one that has a malformed event.

    What was taken at the door is written however long it waited, up to the grace of its TTL; of other
    producers' events, those that do not count are left out, and logged. Costs 1 WCU an event.
    """
    if body.taken:
        settings = settings._replace(views_window=settings.views_window + GRACE - MARGIN)
    checks = checked(body, settings, now)
    views = [seen for seen in checks if isinstance(seen, View)]
    write(table, views, settings, now)
    left_out = Counter(why for why in checks if isinstance(why, str))
    metrics.count(ViewsRejected=left_out.total())
    if left_out:
        logs.logger().warning("views of a message do not count", extra={"reasons": dict(left_out)})
    if malformed := [why for why in left_out if why in MALFORMED]:
        raise BadRequest(MALFORMED[malformed[0]])


def write(
    table: Table,
    views: Iterable[View],
    settings: Settings,
    now: datetime,
    *,
    expiry: Callable[[View], int] | None = None,
) -> int:
    """Write views, each with one plain put; answer how many are written.

    The same view again writes the same item, which changes nothing. A view whose item TTL may already have
    removed is left out, for it could count twice: one that came out of the queue days after it was taken.
    `expiry` gives the TTL of a view that is imported, in epoch seconds; else it follows from the view's time.
    Costs 1 WCU a view, in batches of 25.
    """
    items = [_item(view, settings, expiry) for view in views]
    items = [item for item in items if item["ttl"] > times.epoch(now + MARGIN)]
    table.batch_put(items)
    return len(items)


def _item(view: View, settings: Settings, expiry: Callable[[View], int] | None = None) -> Item:
    item: Item = event_key(view)._asdict()
    if expiry:  # imported: the sums that it is in stay
        item |= {"ttl": expiry(view), "kept": True}
    else:
        item |= {"ttl": times.epoch(view.time + settings.views_window + GRACE), "days": settings.page_days}
    if settings.views_series:
        item["series"] = True
    if settings.views_uniques:
        item["uniques"] = True
    return item


# -- contribution --------------------------------------------------------------------------------------


def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    """Say what an event, or a visitor, adds to its page, its day and its site.

    What a setting switches off is written on the event, so that this follows from the item alone.
    """
    pk, sk = item["pk"], item["sk"]
    if not pk.startswith("URL#"):
        return {}
    url = pk.removeprefix("URL#")
    if sk.startswith("T#"):
        return _of_event(url, sk, item)
    if sk == marker_key(url).sk:
        echo = echo_key(url)
        return {(echo, "seen"): frozenset({item["token"]}), (echo, "ttl"): Life(MARKER_LIFE)}
    return _of_visitor(url, sk, item) if sk.startswith("VISITOR#") and item.get("hours") else {}


def _of_event(url: str, sk: str, item: Item) -> dict[tuple[Key, str], Amount]:
    seen = view(url, sk)
    page, hour = page_key(url), seen.time.hour
    day = seen.time.date().isoformat()
    amounts: dict[tuple[Key, str], Amount] = {
        (page, "gsi1sk"): 1,
        (page, "gsi1pk"): Constant(site_key(urls.host(url))),
        **_life(page, item, LONGER),
    }
    if item.get("series"):
        amounts |= {(day_key(url, day), "views"): 1, (day_key(url, day), f"v{hour:02}"): 1}
        amounts |= _life(day_key(url, day), item)
    if item.get("uniques"):
        visitor = visitor_key(url, day, seen.client)
        amounts[visitor, "hours"] = frozenset({hour})
        if item.get("series"):
            amounts[visitor, "series"] = Constant(1)
        if "ttl" in item:  # it outlives every event of its day
            life = timedelta(seconds=int(item["ttl"])) - timedelta(seconds=times.epoch(seen.time))
            amounts[visitor, "ttl"] = Constant(
                times.epoch(times.floor(seen.time, times.DAY) + times.DAY + life)
            )
    return amounts


def _life(key: Key, item: Item, longer: int = 0) -> dict[tuple[Key, str], Amount]:
    """Compute how long an event lets one of its sums live; nothing for an event of version 0.1.0.

    An event that was imported has `kept`, or in version 0.1.0 no `ttl`: the sums that it is in stay.
    """
    if item.get("kept") or "ttl" not in item:
        return {(key, KEPT): FOR_EVER, (key, "ttl"): FOR_EVER}
    if "days" not in item:
        return {}
    days = int(item["days"])
    return {(key, "ttl"): Life(days * 86_400 + longer if days else 0)}


def _of_visitor(url: str, sk: str, item: Item) -> dict[tuple[Key, str], Amount]:
    date = sk.split("#")[1]
    page, day = page_key(url), day_key(url, date)
    amounts: dict[tuple[Key, str], Amount] = {(page, "uniques"): 1}
    if item.get("series"):
        amounts[day, "uniques"] = 1
        amounts |= {(day, f"u{hour:02}"): 1 for hour in item["hours"]}
    return amounts


# -- read ----------------------------------------------------------------------------------------------


def count(table: Table, query: PageQuery) -> PageViews:
    """Answer a page's views and uniques; 0 and 0 for a page never seen. Costs 0.5 RCU."""
    url = address(query.url)
    page = table.get(page_key(url)) or {}
    return PageViews(url=url, views=page.get("gsi1sk", 0), uniques=page.get("uniques", 0))


def address(url: str, field: str = "url") -> str:
    """Read an address that a client asks about. Raises BadRequest naming the field."""
    try:
        return urls.canonical(url)
    except ValueError as error:
        raise BadRequest(f"{field}: {error}") from None


def view(url: str, sk: str) -> View:
    """Read a view event back from its key. Raises ValueError for what is none."""
    time, client = sk.removeprefix("T#").split("#CID#", 1)
    return View(url, times.from_sort_key(time), client)


# -- live ----------------------------------------------------------------------------------------------


def topic(key: Key) -> str | None:
    """Name the page whose totals lie under a key, for who listens to it; None for any other key."""
    return key.pk.removeprefix("URL#") if key == page_key(key.pk.removeprefix("URL#")) else None


def live(table: Table, url: str) -> PageViews:
    """Answer what is pushed of a page: the same as `count`, strongly consistent. Costs 1 RCU."""
    page = table.get(page_key(url), consistent=True) or {}
    return PageViews(url=url, views=page.get("gsi1sk", 0), uniques=page.get("uniques", 0))
