"""View events: each one is checked, written once, and added to its page, its day and its site.

| item | pk | sk | holds |
|---|---|---|---|
| event | `URL#<url>` | `T#<instant>#CID#<client>` | one view, `ttl`; its key makes it count once |
| clock | `URL#<url>` | `CLOCK#<claimed time>#CID#<client>` | `time` of a view by a wrong clock; `ttl` |
| goal event | `URL#<url>` | `GOAL#<instant>#CID#<client> <goal>` | one goal reached on the page, `ttl` |
| page | `URL#<url>` | `STATISTICS` | `views`, `visitors`; gsi1pk = `SITE#<host>`, gsi1sk; `ttl` |
| day | `URL#<url>` | `DAY#<date>` | `views`, `visitors`, and by hour `v00`…, `c00`…; gsi1pk, gsi1sk; `ttl` |
| visitor | `URL#<url>` | `VISITOR#<date>#<client>` | `hours` in which this client viewed the page, `ttl` |

The days and hours are those of the site's zone (definitions.py). An event of a site with another zone than
UTC has its `day` and `hour`. A visitor is one client on one day. An event without a client's id has the
digest of visitors.py as its client. A page's visitors are the sum of those of its days. The visitors of an
hour are the clients of that hour. The item of a visitor is written after its events by a union of sets, which
is idempotent.

The entry of a page among the top pages of its site moves in steps: the index key `gsi1sk` is the last step
that `views` has reached (aggregates/toplist.py).

An event may say when it was `sent` by the page's clock. If that clock is wrong, the event counts at the
server's time of its first delivery. The item of the clock keeps that time for the same event sent again.

An event adds to the sums of its site too (sites.py). The day of its page is in the list of the site's pages
of that day.

Lifetimes. A day expires HUBBUB_PAGE_DAYS after the last view was added to it, and a page a week later. So a
page never expires before its days, and a day never before its events. A page that is viewed again after it
has expired counts from 0. The events of an imported history have `kept`. The pages and days that they
are added to have it too, and never expire.

Invariant: a page's views are the number of events that were written since the page came into being. An event
that expires stays counted. An event that is deleted does not. An accepted view has an event and a visitor. A
request that failed may have written the event alone, until it is repeated.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from msgspec import UNSET, structs

from chalicelib import times, urls
from chalicelib.aggregates.sums import FOREVER, KEPT, Amount, Lifetime
from chalicelib.api import rates
from chalicelib.api.auth import Caller
from chalicelib.concurrency import map_concurrently
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import (
    BadRequest,
    Bot,
    Busy,
    HubbubError,
    InTheFuture,
    SiteNotAllowed,
    TooLarge,
    TooOld,
)
from chalicelib.settings import QUEUE_DAYS, Settings
from chalicelib.telemetry import logs, metrics
from chalicelib.views import definitions, queue, sites, sources, traits, visitors
from chalicelib.views.crawlers import is_crawler
from chalicelib.views.schemas import Accepted, Counted, QueuedViews, Reason, Rejection, ViewsBody
from chalicelib.views.sources import Source
from chalicelib.views.traits import Traits

MAX_EVENTS = 500  # in one request with a token, or in one message of the queue
MAX_ANONYMOUS_EVENTS = 25  # in one request without a token: docs/decisions.md has the cost of such a request
LATE = timedelta(hours=24)  # the greatest age of a view without a token
AHEAD = timedelta(minutes=5)  # that a client's clock may be ahead
SURE = AHEAD - timedelta(minutes=1)  # a clock that is wrong by less is right for each copy of an event
CLIENT_ID = re.compile("[!-~]{1,128}")  # printable ASCII without a space; it ends its keys, so it may hold #

QUEUE_GRACE = timedelta(
    days=QUEUE_DAYS
)  # an event may wait in the queue and in its dead-letter queue: 14 days
EXPIRY_MARGIN = timedelta(hours=1)  # between the last moment at which an item may be written and its expiry
PAGE_EXTRA_LIFETIME = 7 * 86_400  # seconds that a page outlives its days: TTL may be some days late
MARKER_LIFETIME = 2 * 86_400  # seconds: ops/maintenance/forget.py

MALFORMED: dict[Reason, str] = {
    "bad_url": f"`url` must be the http(s) address of a page, at most {urls.MAX_LENGTH:,} bytes",
    "bad_time": "`time` and `sent` must be ISO 8601 times with an offset, such as 2026-11-21T10:00:00Z",
    "bad_goal": "`goal` must be 1 to 64 visible characters",
    "bad_client": "`clientId` must be 1 to 128 printable ASCII characters without a space",
}
NOT_COUNTED: dict[Reason, tuple[type[HubbubError], str]] = {
    "too_old": (TooOld, "`time` is older than the period in which this stage counts views"),
    "in_the_future": (InTheFuture, "`time` is in the future; check the client's clock"),
    "site_not_allowed": (SiteNotAllowed, "`url` is a page whose views this stage does not count"),
    "bot": (Bot, "`User-Agent` or `automated` is that of a program, or `referrer` is spam"),
}


class View(NamedTuple):
    """One valid view, with its url in normal form. `campaign` may be empty.

    `client` is empty until the visitor is identified. `claimed` is the time that the event has, if its clock
    is wrong, until the view's time is settled. With a `goal` it is an event of the goal, and not a view.
    `place` is the day and the hour in the zone of the site, if that is not UTC.
    """

    url: str
    time: datetime
    client: str
    source: Source = sources.UNKNOWN
    campaign: str = ""
    claimed: datetime | None = None
    goal: str = ""
    place: tuple[str, int] | None = None
    traits: Traits = traits.NONE

    @property
    def day(self) -> str:
        """Return the day of the view in the site's zone, such as 2026-11-21."""
        return self.place[0] if self.place else self.time.date().isoformat()

    @property
    def hour(self) -> int:
        """Return the number of whole hours since the beginning of the day."""
        return self.place[1] if self.place else self.time.hour


# -- keys ----------------------------------------------------------------------------------------------


def page_key(url: str) -> Key:
    """Return the key of a page's totals."""
    return Key(f"URL#{url}", "STATISTICS")


def day_key(url: str, day: str) -> Key:
    """Return the key of a page's day. The day is written as 2026-11-21."""
    return Key(f"URL#{url}", f"DAY#{day}")


def event_key(view: View) -> Key:
    """Return the key of a view. The same url, instant, client and goal always have the same key."""
    if view.goal:
        return Key(f"URL#{view.url}", f"GOAL#{times.to_sort_key(view.time)}#CID#{view.client} {view.goal}")
    return Key(f"URL#{view.url}", f"T#{times.to_sort_key(view.time)}#CID#{view.client}")


def clock_key(view: View) -> Key:
    """Return the key of the item that keeps the time of a view whose clock is wrong."""
    claimed = times.to_sort_key(view.claimed or view.time)
    return Key(f"URL#{view.url}", f"CLOCK#{claimed}#CID#{view.client} {view.goal}".rstrip())


def parse_event_key(url: str, sk: str) -> View:
    """Return the view that has this sort key. Raises ValueError for any other sort key."""
    time, client = sk.removeprefix("T#").split("#CID#", 1)
    return View(url, times.from_sort_key(time), client)


def visitor_key(url: str, day: str, client: str) -> Key:
    """Return the key of one client's visits of a page on one day."""
    return Key(f"URL#{url}", f"VISITOR#{day}#{client}")


def marker_key(url: str) -> Key:
    """Return the key of the marker that `ops forget-page` sends through the stream after its deletions."""
    return Key(f"URL#{url}", "SENT")


def applied_marker_key(url: str) -> Key:
    """Return the key of the item that collects the tokens of all markers that the stream has delivered."""
    return Key(f"URL#{url}", "COUNTED")


def site_key(host: str) -> str:
    """Return the gsi1 partition key of a site's pages, which are sorted by views."""
    return f"SITE#{host}"


# -- checks --------------------------------------------------------------------------------------------


def check(
    event: Any, settings: Settings, now: datetime, find: definitions.Find = definitions.Definition
) -> View | Reason:
    """Return the view of an event, or the reason why it does not count.

    A malformed referrer or campaign is ignored, and the view still counts.
    """
    fields = event if isinstance(event, Mapping) else {}
    try:
        written = _text(fields.get("url"))
        url = urls.canonical(written)
    except ValueError:
        return "bad_url"
    site = find(urls.host(url))
    given, url = url, site.normalize(sources.strip_tracking(url), written)
    try:
        time, claimed = read_time(fields, now)
    except ValueError:
        return "bad_time"
    client = fields.get("clientId", "")
    if "clientId" in fields and (not isinstance(client, str) or not CLIENT_ID.fullmatch(client)):
        return "bad_client"
    goal = sites.read_goal(fields["goal"]) if "goal" in fields else ""
    if goal is None:
        return "bad_goal"
    if not site.counts(url, settings):
        return "site_not_allowed"
    if time < now - settings.views_window:
        return "too_old"
    if time > now + AHEAD:
        return "in_the_future"
    if fields.get("automated") is True:
        return "bot"
    source = sources.read_source(fields, given, site.hosts)
    if source is None:
        return "bot"
    named = fields["campaign"] if "campaign" in fields else sources.find_parameter(given, "utm_campaign")
    of_browser = Traits(country=traits.read_zone(fields.get("timezone")))
    return View(url, time, client, source, sites.read_campaign(named), claimed, goal, traits=of_browser)


def read_time(fields: Mapping[str, Any], now: datetime) -> tuple[datetime, datetime | None]:
    """Return the time of an event, and the time that it claims if its clock is wrong.

    An event without a time has that of its sending, or of its arrival. A clock that says another time than
    the server's at the sending is wrong. The event is then as old as it was by that clock.

    Raises: ValueError for a malformed time.
    """
    sent = times.parse(_text(fields["sent"])) if "sent" in fields else None
    claimed = times.parse(_text(fields["time"])) if "time" in fields else sent or now
    if sent is None or abs(now - sent) <= SURE:
        return claimed, None
    if abs(now - sent) <= AHEAD:
        return claimed, claimed
    return now - max(sent - claimed, timedelta()), claimed


def check_all(
    body: ViewsBody,
    settings: Settings,
    now: datetime,
    find: definitions.Find = definitions.Definition,
    *,
    limit: int = MAX_EVENTS,
) -> list[View | Reason]:
    """Return the result of `check` for each event of a body.

    Raises:
        BadRequest: a single event is malformed, or the body has both an event and a list of events.
        TooLarge: the list has more than `limit` events.
    """
    if body.events is UNSET:
        if body.url is UNSET:
            raise BadRequest("`url` is required")
        checked = check(_single(body), settings, now, find)
        if isinstance(checked, str) and checked in MALFORMED:
            raise BadRequest(MALFORMED[checked])
        return [checked]
    if _single(body):
        raise BadRequest("The body must have either one event or `events`, not both")
    if len(body.events) > limit:
        more = "" if limit == MAX_EVENTS else f" without a user's token, and {MAX_EVENTS} with one"
        raise TooLarge(f"`events` must have at most {limit} events{more}; this list has {len(body.events)}")
    return [check(event, settings, now, find) for event in body.events]


def find_sites(table: Table, body: ViewsBody) -> definitions.Find:
    """Read the definitions of the sites of a body. Cost: that of `definitions.find_all`."""
    hosts = set[str]()
    for event in [_single(body)] if body.events is UNSET else body.events:
        with suppress(ValueError):
            hosts.add(
                urls.host(urls.canonical(_text(event.get("url") if isinstance(event, Mapping) else None)))
            )
    found = definitions.find_all(table, hosts) if hosts else {}
    found |= {definition.site: definition for definition in found.values()}
    return lambda host: found.get(host) or definitions.Definition(host)


def _single(body: ViewsBody) -> dict[str, Any]:
    """Return the fields of the single event of a body, as they were sent."""
    fields = ((field.encode_name, getattr(body, field.name)) for field in structs.fields(body))
    return {name: value for name, value in fields if value is not UNSET and name not in ("events", "taken")}


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > urls.MAX_LENGTH:
        raise ValueError("must be a string, not longer than an address")
    return value


# -- writes --------------------------------------------------------------------------------------------


def accept(
    context: Context, body: ViewsBody, caller: Caller, headers: Mapping[str, str], *, counts: bool = False
) -> Accepted | Counted:
    """Write the events of a request that count, or send them to the queue where the stage has one.

    The events of a list that do not count are returned with their index and reason. With `counts`, the
    result of a single event has the views and visitors of its page, this view included.

    Cost: 1 WCU per event, 1 per visitor of a page and 1 per visitor of a site, 2 where key and client are
    longer than 1 KB. With a queue, one SQS request per 250 events. That of `rates.admit`, usually 1 WCU.
    Without a client's id that of `_identify`, and for a wrong clock that of `settle_time`. 3 RCU with
    `counts`.

    Raises:
        BadRequest: a single event is malformed.
        TooOld, InTheFuture, SiteNotAllowed, Bot: a single event does not count.
        TooLarge: the list has more than 25 events without a token or with a guest's, or more than 500.
        SlowDown: the address, or the subject of the token, has sent too many events.
    """
    limit, window = MAX_EVENTS, context.settings.views_window
    if not caller.is_trusted:
        limit, window = MAX_ANONYMOUS_EVENTS, min(window, LATE)
    sender, find = visitors.read_sender(headers, caller.address), find_sites(context.table, body)
    checked = check_all(body, context.settings._replace(views_window=window), context.now, find, limit=limit)
    is_bot = is_crawler(sender.user_agent)
    for i, result in enumerate(checked):
        if isinstance(result, View):
            if find(urls.host(result.url)).ignores(sender.address):
                checked[i] = "site_not_allowed"
            elif is_bot:
                checked[i] = "bot"
    views = [result for result in checked if isinstance(result, View)]
    if body.events is UNSET and isinstance(checked[0], str):
        metrics.count(ViewsRejected=1)
        error_class, message = NOT_COUNTED[checked[0]]
        raise error_class(message)
    rejected = [
        Rejection(index=i, reason=result) for i, result in enumerate(checked) if isinstance(result, str)
    ]
    try:
        rates.admit(context, event_limits(context.settings), caller, len(views))
    except Busy:
        if not context.settings.queue_url:  # a queue takes views while the table is slow
            raise
    views = settle(context, views, sender)
    reply: Accepted | Counted = Accepted(accepted=len(views), rejected=rejected)
    if counts and body.events is UNSET:
        reply = count_page(context.table, views[0])
    if context.settings.queue_url:
        queue.send(context.settings, [_to_message(view) for view in views])
    else:
        write(context, views)
    metrics.count(ViewsAccepted=len(views), ViewsRejected=len(rejected))
    return reply


def settle(context: Context, views: Iterable[View], sender: visitors.Sender = visitors.UNKNOWN) -> list[View]:
    """Return views with their clients, traits and times: those of the sender, and of their first delivery."""
    settled = []
    for view in views:
        if sender.traits != traits.NONE:
            country = sender.traits.country or view.traits.country
            view = view._replace(traits=sender.traits._replace(country=country))
        view = view if view.client else _identify(context, view, sender)
        settled.append(settle_time(context, view) if view.claimed else view)
    return settled


def _identify(context: Context, view: View, sender: visitors.Sender) -> View:
    """Return a view with the digest of its sender as its client.

    An event by a wrong clock that is sent again after midnight has the client of its first delivery.

    Cost: that of `visitors.read_salt`. For a wrong clock also 2 RCU, and that of `visitors.has_salt`.
    """
    site = definitions.find(context.table, urls.host(view.url))

    def identify(time: datetime) -> View:
        client = visitors.identify(context.table, sender, site.site, site.place(time)[0], context.now)
        return view._replace(client=client)

    if view.claimed and visitors.has_salt(context.table, site.place(view.time - times.DAY)[0]):
        former = identify(view.time - times.DAY)
        keys = [clock_key(former), event_key(former._replace(time=view.claimed))]
        if context.table.get_many(keys, consistent=True):
            return former
    return identify(view.time)


def settle_time(context: Context, view: View) -> View:
    """Return a view whose clock is wrong with the time of its first delivery.

    The same event may have come before, while its clock seemed to be right.

    Cost: 1 RCU and 1 WCU, and 1 RCU more when the event is sent again.
    """
    claimed = view._replace(time=view.claimed or view.time, claimed=None)
    if context.table.get(event_key(claimed), consistent=True):
        return claimed
    key = clock_key(view)
    ttl = times.epoch(context.now + context.settings.views_window + QUEUE_GRACE)
    item = {**key._asdict(), "time": times.to_sort_key(view.time), "ttl": ttl}
    if not context.table.put(item, condition="attribute_not_exists(pk)"):
        item = context.table.get(key, consistent=True) or item
    return view._replace(time=times.from_sort_key(item["time"]), claimed=None)


def count_page(table: Table, view: View) -> Counted:
    """Return the views and visitors of a page, with a view that is about to be written.

    A view that was written before may be counted already, so it is not added.

    Cost: 3 RCU.
    """
    page, event = page_key(view.url), event_key(view)
    [view] = place_all(table, [view])
    visitor = visitor_key(view.url, view.day, view.client)
    found = table.get_many([page, event, visitor], consistent=True)
    counts = [int(found.get(page, {}).get(name, 0)) for name in ("views", "visitors")]
    if not view.goal:
        pairs = zip(counts, (event, visitor), strict=True)
        counts = [max(1, count + (key not in found)) for count, key in pairs]
    return Counted(url=view.url, views=counts[0], visitors=counts[1])


def event_limits(settings: Settings) -> rates.Limits:
    """Return the limits of events. An address may be a proxy, so it may send those of 5 minutes at once."""
    of_address = rates.per_minute(settings.views_rate, minutes=5) if settings.views_rate else None
    return rates.Limits("views", rates.Limit(at_once=10_000, interval=10), of_address)


def _to_message(view: View) -> dict[str, str]:
    """Return a view as an event of a queue message, which is read as any other event."""
    message = {"url": view.url, "time": times.to_iso(view.time), "clientId": view.client}
    name, host, is_direct = view.source
    if host:
        message["referrer"] = host if host.startswith(sources.APP) else f"https://{host}/"
    elif name:
        message["source"] = name
    elif not is_direct:
        message["referrer"] = view.url
    message |= {"traits": traits.to_text(view.traits)} if view.traits != traits.NONE else {}
    message |= {"goal": view.goal} if view.goal else {}
    return message | ({"campaign": view.campaign} if view.campaign else {})


def write_queued(context: Context, body: QueuedViews) -> None:
    """Write the events of one queue message that count, and log the number of the others by reason.

    Events from `accept` count after any wait, up to the grace period of their TTL. Events of other producers
    are checked as if they had just been posted.

    Cost: that of `write`.

    Raises:
        BadRequest: the message has a malformed event. Its valid events are written.
    """
    settings = context.settings
    if body.taken:
        settings = settings._replace(views_window=settings.views_window + QUEUE_GRACE - EXPIRY_MARGIN)
    checked = check_all(body, settings, context.now, find_sites(context.table, body))
    checked = [
        "bad_client" if isinstance(result, View) and not result.client else result for result in checked
    ]
    given = [_single(body)] if body.events is UNSET else body.events
    views = [
        result._replace(traits=traits.from_text(event["traits"]))
        if body.taken and "traits" in event
        else result
        for event, result in zip(given, checked, strict=True)
        if isinstance(result, View)
    ]
    write(context, settle(context, views))
    rejected = Counter(result for result in checked if isinstance(result, str))
    metrics.count(ViewsRejected=rejected.total())
    if rejected:
        logs.logger().warning("events of a queue message were rejected", extra={"reasons": dict(rejected)})
    if malformed := [reason for reason in rejected if reason in MALFORMED]:
        raise BadRequest(MALFORMED[malformed[0]])


def write(
    context: Context,
    views: Iterable[View],
    *,
    expiry: Callable[[View], int] | None = None,
) -> int:
    """Write views and then their visitors. Return how many views were written.

    Writing a view is idempotent: the same view is the same item. A view whose item may have expired already,
    for example after days in the queue, is left out, because it could count twice.

    `expiry` returns the TTL of an imported view in epoch seconds. By default the TTL follows from the view's
    time.

    Cost: 1 WCU per view, in batches of 25, and 1 WCU per visitor of a page and of a site, concurrently.
    """
    # One view may come with different referrers.
    by_key = {event_key(view): view for view in place_all(context.table, views)}
    items = {view: build_item(view, context.settings, expiry) for view in by_key.values()}
    items = {
        view: item for view, item in items.items() if item["ttl"] > times.epoch(context.now + EXPIRY_MARGIN)
    }
    context.table.batch_put(items.values())
    seen: dict[Key, Item] = {}
    for view, item in items.items():
        for key in _visitor_keys(view):
            new = {"hours": set(), "ttl": _visitor_ttl(view, item)}
            seen.setdefault(key, new)["hours"].add(view.hour)
    map_concurrently(lambda visitor: _write_visitor(context.table, *visitor), seen.items())
    return len(items)


def place_all(table: Table, views: Iterable[View]) -> list[View]:
    """Return views with their days and hours in the zones of their sites. Cost: that of `find_all`."""
    views = list(views)
    found = definitions.find_all(table, {urls.host(view.url) for view in views})
    zoned = {host: site for host, site in found.items() if site.zones != definitions.UTC_ALWAYS}
    return [
        view._replace(place=zoned[host].place(view.time)) if (host := urls.host(view.url)) in zoned else view
        for view in views
    ]


def build_item(view: View, settings: Settings, expiry: Callable[[View], int] | None = None) -> Item:
    """Build the item of an event."""
    item: Item = event_key(view)._asdict()
    if expiry:  # imported: the sums that it is added to never expire
        item |= {"ttl": expiry(view), "kept": True}
    else:
        ttl = times.epoch(view.time + settings.views_window + QUEUE_GRACE)
        item |= {"ttl": ttl, "days": settings.page_days}
    item |= {"day": view.day, "hour": view.hour} if view.place else {}
    if not view.goal:
        item |= {"referrer": view.source.name} if view.source.name else {}
        item |= {"host": view.source.host} if view.source.host else {}
        item |= {"direct": True} if view.source.is_direct else {}
        item |= {"traits": traits.to_text(view.traits)} if view.traits != traits.NONE else {}
    return item | ({"campaign": view.campaign} if view.campaign else {})


def _write_visitor(table: Table, key: Key, visitor: Item) -> None:
    """Add the hours of a client's views to its visitor. A repetition changes nothing. Cost: 1 WCU."""
    table.update(
        key,
        "ADD hours :hours SET #ttl = :ttl",
        names={"#ttl": "ttl"},
        values={":hours": visitor["hours"], ":ttl": visitor["ttl"]},
        idempotent=True,
    )


def _visitor_keys(view: View) -> list[Key]:
    """Return the keys of a view's visitor of its page and of its site, or of its goal."""
    host = urls.host(view.url)
    if view.goal:
        return [sites.goal_visitor_key(host, view.goal, view.day, view.client)]
    return [visitor_key(view.url, view.day, view.client), sites.visitor_key(host, view.day, view.client)]


def _visitor_ttl(view: View, item: Item) -> int:
    """Return the TTL of the visitor of an event: it outlives every event of its day."""
    lifetime = timedelta(seconds=int(item["ttl"])) - timedelta(seconds=times.epoch(view.time))
    return times.epoch(times.floor(view.time, times.DAY) + 2 * times.DAY + lifetime)  # of any zone


# -- contribution --------------------------------------------------------------------------------------


def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    """Return the amounts that an event, or a visitor, adds to its page, its day and its site."""
    pk, sk = item["pk"], item["sk"]
    if not pk.startswith("URL#"):
        return sites.contribution(item)
    url = pk.removeprefix("URL#")
    if sk.startswith("T#"):
        return _event_contribution(url, sk, item)
    if sk.startswith("GOAL#"):
        return _goal_contribution(url, sk, item)
    if sk == marker_key(url).sk:
        applied = applied_marker_key(url)
        return {(applied, "seen"): frozenset({item["token"]}), (applied, "ttl"): Lifetime(MARKER_LIFETIME)}
    return _visitor_contribution(url, sk, item) if sk.startswith("VISITOR#") and item.get("hours") else {}


def _event_contribution(url: str, sk: str, item: Item) -> dict[tuple[Key, str], Amount]:
    view = parse_event_key(url, sk)
    date, hour, host = item.get("day", view.day), int(item.get("hour", view.hour)), urls.host(url)
    page, day = page_key(url), day_key(url, date)
    site_amounts = sites.count_event(host, date, hour, item)
    for key in {key for key, _ in site_amounts}:
        site_amounts |= _lifetime(key, item)
    return {
        (page, "views"): 1,
        **sites.listed(page, site_key(host)),
        **_lifetime(page, item, PAGE_EXTRA_LIFETIME),
        (day, "views"): 1,
        (day, f"v{hour:02}"): 1,
        **sites.listed(day, sites.list_key(host, sites.PAGES, date)),
        **_lifetime(day, item),
        **site_amounts,
    }


def _goal_contribution(url: str, sk: str, item: Item) -> dict[tuple[Key, str], Amount]:
    """Return the amounts of an event of a goal. A client's id has no space, so the first one ends it."""
    time, _, named = sk.removeprefix("GOAL#").partition("#CID#")
    day = item.get("day", times.from_sort_key(time).date().isoformat())
    amounts = sites.count_goal(urls.host(url), day, named.partition(" ")[2])
    for key in {key for key, _ in amounts}:
        amounts |= _lifetime(key, item)
    return amounts


def _lifetime(key: Key, item: Item, extra: int = 0) -> dict[tuple[Key, str], Amount]:
    """Return the lifetime that an event gives to a sum, plus some extra seconds.

    The sums of an imported event, which has `kept`, never expire.
    """
    if item.get("kept"):
        return {(key, KEPT): FOREVER, (key, "ttl"): FOREVER}
    days = int(item["days"])
    return {(key, "ttl"): Lifetime(days * 86_400 + extra if days else 0)}


def _visitor_contribution(url: str, sk: str, item: Item) -> dict[tuple[Key, str], Amount]:
    page, day = page_key(url), day_key(url, sk.split("#")[1])
    hours = {(day, f"c{hour:02}"): 1 for hour in item["hours"]}
    return {(page, "visitors"): 1, (day, "visitors"): 1, **hours}
