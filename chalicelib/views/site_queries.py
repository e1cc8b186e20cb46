"""Reads of whole sites: top pages, totals over time, referrers and campaigns, the list of sites.

The items are those of `sites.py` and `events.py`. Nothing here writes.
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from math import ceil
from typing import Any, NamedTuple

from msgspec import UNSET

from chalicelib import times, urls
from chalicelib.aggregates import toplist
from chalicelib.aggregates.toplist import Largest
from chalicelib.api import listing
from chalicelib.api.auth import Caller
from chalicelib.concurrency import map_concurrently
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key, Range
from chalicelib.errors import BadRequest, Forbidden, Unauthorized
from chalicelib.views import definitions, sites, totals, traits
from chalicelib.views.definitions import Definition
from chalicelib.views.events import site_key
from chalicelib.views.queries import read_days, read_intervals, read_range
from chalicelib.views.schemas import (
    Campaigns,
    CampaignViews,
    GoalEvents,
    Goals,
    ListedSite,
    Referrers,
    ReferrersQuery,
    ReferrerViews,
    Sites,
    SiteSeries,
    SiteSeriesQuery,
    SourcesQuery,
    TopPage,
    TopPages,
    TopQuery,
    TraitsQuery,
    TraitViews,
    TraitViewsList,
)

LONGEST = 400 * times.DAY  # a period of a list
DEFAULT = 30 * times.DAY
GOAL_DAYS = 8  # days of a goal in 4 KB, at least
LISTED = 20  # values of a trait
DIRECT = "direct"  # the name of the views without a source
ADMIN_UNITS = 10 * toplist.UNITS  # RCU of a list of a period with an admin's token: those of a busy year


def parse_site(site: str) -> str:
    """Return a host in normal form. Raises BadRequest."""
    try:
        return urls.canonical_host(site)
    except ValueError:
        raise BadRequest("`site` must be a host alone, such as www.example.org") from None


def open_site(context: Context, site: str, caller: Caller) -> Definition:
    """Return the definition of a site whose numbers the caller may read.

    Those of a private site need a token of an admin, or one with the scope `statistics` and the site's host
    as `site`.

    Cost: that of `definitions.find`.
    Raises: BadRequest, Unauthorized, Forbidden.
    """
    found = definitions.find(context.table, parse_site(site))
    if not found.is_private or caller.admin or (caller.site and caller.site == found.site):
        return found
    if not (caller.sub or caller.site):
        raise Unauthorized(
            f"The statistics of {found.site} are private. Send a bearer token. {caller.problem}".strip()
        )
    raise Forbidden(f"This call needs a token with the scope `statistics` and the `site` {found.site}.")


# -- over time -----------------------------------------------------------------------------------------


def read_site(context: Context, query: SiteSeriesQuery, caller: Caller) -> SiteSeries:
    """Return the intervals of a site's series, with 0 for gaps (`read_intervals`), and their totals.

    A client is a visitor of each hour in which it views the site, so the visitors of hours do not add up. The
    total of visitors is that of all days which the series touches.

    Cost: 0.5 RCU per 4 KB of days (about four).
    Raises: BadRequest.
    """
    site = open_site(context, query.site, caller)
    days, items = read_intervals(context, sites.day_key(site.site, "").pk, query, site)
    return SiteSeries(
        timezone=site.timezone,
        views=sum(item.views for item in items),
        visitors=sum(int(day.get("visitors", 0)) for day in days),
        items=items,
    )


# -- lists ---------------------------------------------------------------------------------------------


class Period(NamedTuple):
    """The days of a list, written as 2026-11-21."""

    days: tuple[str, ...]

    @property
    def bounds(self) -> tuple[str, str]:
        """Return the sort keys of the first and the last day."""
        return f"DAY#{self.days[0]}", f"DAY#{self.days[-1]}"


def read_period(query: TopQuery | SourcesQuery | TraitsQuery, now: datetime, site: Definition) -> Period:
    """Return the site's days of a query, each in whole. Raises BadRequest for more than 400 days."""
    start, end = read_range(query, now, DEFAULT, LONGEST, site)
    last = site.find_day(end - timedelta(microseconds=1))
    first = site.find_day(start) if query.from_ else last - DEFAULT + times.DAY
    count = max(0, (last - first).days) + 1
    return Period(tuple((first + i * times.DAY).isoformat() for i in range(count)))


def list_top_pages(context: Context, query: TopQuery, caller: Caller) -> TopPages:
    """Return a site's most viewed pages, of all time or of a period of its days.

    `complete` is false if another page may have as many views as the last one, or if there are more than
    64 KB of addresses.

    Cost: that of `toplist.read_largest`, about 0.8 RCU a page. Of a period, that of `_read_largest`.
    Raises: BadRequest.
    """
    site = open_site(context, query.site, caller)
    if query.from_ or query.to:
        found = _read_largest(context, site, sites.PAGES, query, _find_units(caller))
        pages = [TopPage(url=pk.removeprefix("URL#"), views=views) for pk, views in found.items]
        return _fit(pages, found.complete, site)
    top = toplist.read_largest(context.table, site_key(site.site), query.limit, "views")
    items = [TopPage(url=item["pk"].removeprefix("URL#"), views=views) for item, views in top.items]
    return _fit(items, top.complete, site)


def _fit(pages: list[TopPage], is_complete: bool, site: Definition) -> TopPages:
    items = listing.fit(pages)
    return TopPages(
        timezone=site.timezone, items=items, complete=_complete(is_complete and len(items) == len(pages))
    )


def list_referrers(context: Context, query: ReferrersQuery, caller: Caller) -> Referrers:
    """Return the sources that led to a site in a period of its days, most views first, or a source's hosts.

    Cost: that of `_read_largest`, and 0.5 RCU per 4 KB of the site's days, or of the source's.
    Raises: BadRequest.
    """
    site = open_site(context, query.site, caller)
    period, units = read_period(query, context.now, site), _find_units(caller)
    if query.source:
        return _list_hosts(context, site, query, period, units)
    days = _read_site_days(context, site, period, units / 2)
    found = _read_largest(context, site, sites.REFERRERS, query, units, days)
    counts = {_name_referrer(pk, site.site): views for pk, views in found.items}
    direct = sum(int(day.get("direct", 0)) for day in days.items)
    return _to_referrers(counts | ({DIRECT: direct} if direct else {}), found.complete, query, site)


def _list_hosts(
    context: Context, site: Definition, query: ReferrersQuery, period: Period, units: float
) -> Referrers:
    """Return the hosts of a source. Its own name has the rest of its views, if all hosts are read."""
    name = query.source or ""
    key = sites.referrer_key(site.site, name, "")
    days = context.table.query(
        Range(key.pk, period.bounds), limit=toplist.fit_days(key.pk, units / 2), attributes=("views",)
    )
    found = _read_largest(context, site, f"{sites.HOSTS}#{name}", query, units - days.units)
    counts = {_name_referrer(pk, site.site): views for pk, views in found.items}
    is_whole = found.complete and days.next is None
    rest = sum(int(day.get("views", 0)) for day in days.items) - sum(counts.values())
    if rest > 0 and is_whole and len(counts) < query.limit:
        counts[name] = rest
    return _to_referrers(counts, is_whole, query, site)


def _to_referrers(
    counts: dict[str, int], is_complete: bool, query: ReferrersQuery, site: Definition
) -> Referrers:
    largest = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[: query.limit]
    items = [ReferrerViews(referrer=name, views=views) for name, views in largest]
    return Referrers(timezone=site.timezone, items=items, complete=_complete(is_complete))


def _name_referrer(pk: str, site: str) -> str:
    """Return the source, or the host of a source, whose days are in a partition."""
    kind, _, name = pk.removeprefix(f"SITE#{site}#").partition("#")
    return name if kind == "REFERRER" else name.partition("#")[0]


def count_traits(context: Context, query: TraitsQuery, caller: Caller) -> TraitViewsList:
    """Return a site's views in a period of its days by a trait. The items add up to all views.

    Cost: 0.5 RCU per 4 KB of the site's days (about three), at most 100 RCU.
    Raises: BadRequest.
    """
    site = open_site(context, query.site, caller)
    days = read_days(
        context.table, sites.day_key(site.site, "").pk, read_period(query, context.now, site).bounds
    )
    start, counts, views = traits.attribute(query.by), Counter[str](), 0
    for day in days:
        views += int(day.get("views", 0))
        for name, count in day.items():
            if name.startswith(start):
                counts[name.removeprefix(start)] += int(count)
    unknown, other = views - counts.total(), counts.pop(traits.OTHER, 0)
    named = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    listed = [*named[:LISTED], (traits.OTHER, other + sum(count for _, count in named[LISTED:]))]
    items = [
        TraitViews(name=name, views=count) for name, count in (*listed, (traits.UNKNOWN, unknown)) if count
    ]
    return TraitViewsList(timezone=site.timezone, items=items)


def list_campaigns(context: Context, query: SourcesQuery, caller: Caller) -> Campaigns:
    """Return the campaigns that led to a site in a period of its days, most views first.

    Cost: that of `_read_largest`.
    Raises: BadRequest.
    """
    site = open_site(context, query.site, caller)
    found = _read_sources(context, site, query, _find_units(caller), sites.CAMPAIGNS, sites.campaign_key)
    items = [CampaignViews(campaign=name, views=views) for name, views in found.items]
    return Campaigns(timezone=site.timezone, items=items, complete=_complete(found.complete))


def list_goals(context: Context, query: SourcesQuery, caller: Caller) -> Goals:
    """Return the goals of a site in a period, most events first, and their visitors.

    A visitor counts for a goal once a day. The goals are read with one half of the units, and their visitors
    with the other, so a list of a long period has few goals and `"complete": false`.

    Cost: that of `_read_largest`, and 0.5 RCU per goal and 4 KB of its days (about ten). At most 100 RCU, and
    ten times as many with an admin's token.
    Raises: BadRequest.
    """
    site = open_site(context, query.site, caller)
    half, period = _find_units(caller) / 2, read_period(query, context.now, site)
    found = _read_sources(context, site, query, half, sites.GOALS, sites.goal_key)
    most = int(half / (0.5 * ceil(len(period.days) / GOAL_DAYS)))
    goals, is_whole = found.items[:most], len(found.items) <= most

    def count_visitors(name: str) -> int:
        pk = f"{sites.goal_key(site.site, '', '').pk}{name}"
        days = context.table.query(
            Range(pk, period.bounds), limit=LONGEST.days, attributes=("visitors",)
        ).items
        return sum(int(day.get("visitors", 0)) for day in days)

    visitors = map_concurrently(count_visitors, [name for name, _ in goals])
    items = [
        GoalEvents(goal=sites.unescape(name), events=events, visitors=count)
        for (name, events), count in zip(goals, visitors, strict=True)
    ]
    return Goals(timezone=site.timezone, items=items, complete=_complete(found.complete and is_whole))


def list_sites(context: Context, query: listing.ListQuery) -> Sites:
    """Return a page of the sites that have views, largest first, and then of those that are only defined.

    A site's place follows from its views before its newest day. The sites of a page are sorted by all their
    views. A site that moves between two pages may be in both or in none. A site has an entry as soon as it
    has views, and one when it is defined, of which one is shown.

    Cost: 0.5 RCU per 4 KB of index (about 40 sites), and 1 RCU a site.
    Raises: BadCursor.
    """
    page = listing.read_entries(context, totals.SITES, query)
    found = context.table.get_many(Key(entry["pk"], "TOTAL") for entry in page.items)
    days = context.table.get_many(map(totals.newest_key, found.values()))
    views = {
        key.pk: totals.count_views(total, days.get(totals.newest_key(total), {}))
        for key, total in found.items()
    }
    items = [
        ListedSite(site=entry["pk"].removeprefix("SITE#"), views=views.get(entry["pk"], 0))
        for entry in page.items
        if bool(views.get(entry["pk"])) == (entry["sk"] == "TOTAL")
    ]
    return Sites(items=sorted(items, key=lambda site: (-site.views, site.site)), cursor=page.cursor)


def _read_sources(
    context: Context,
    site: Definition,
    query: SourcesQuery,
    units: float,
    kind: str,
    key: Callable[..., Key],
) -> Largest:
    """Read the sources of one kind that led to a site, by their names."""
    found = _read_largest(context, site, kind, query, units)
    prefix = key(site.site, "", "").pk
    return found._replace(items=[(pk.removeprefix(prefix), views) for pk, views in found.items])


class SiteDays(NamedTuple):
    """The newest days of a site in a period, with the RCU that they cost, and whether they are all."""

    items: list[Item]
    units: float
    is_whole: bool


def _read_site_days(context: Context, site: Definition, period: Period, units: float) -> SiteDays:
    """Read the newest days of a period, as long as the next ones probably cost no more than is left."""
    names, found, left = ("sk", "views", "events", "direct"), list[Item](), units
    pages = context.table.query_pages(
        Range(sites.day_key(site.site, "").pk, period.bounds), limit=50, newest_first=True, attributes=names
    )
    for page in pages:
        found += page.items
        left -= page.units
        if page.next and left < page.units:
            return SiteDays(found, units - left, False)
    return SiteDays(found, units - left, True)


def _read_largest(
    context: Context,
    site: Definition,
    kind: str,
    query: TopQuery | SourcesQuery,
    units: float,
    site_days: SiteDays | None = None,
) -> Largest:
    """Read the largest entries of a site's lists of one kind in a period.

    A day without views has no lists. So the site's days are read first, and then the lists of those days, the
    most viewed first.

    Cost: 0.5 RCU per 4 KB of the site's days (about four), and that of `toplist.read_largest_of_days`. At
    most `units`.
    """
    attribute = "events" if kind == sites.GOALS else "views"
    period = read_period(query, context.now, site)
    days, is_whole = list(period.days), True
    if site_days or len(days) > 1:
        site_days = site_days or _read_site_days(context, site, period, units / 2)
        largest = sorted(site_days.items, key=lambda item: -item.get(attribute, 0))
        days = [item["sk"].removeprefix("DAY#") for item in largest if item.get(attribute, 0) > 0]
        units, is_whole = units - site_days.units, site_days.is_whole
    partitions = [sites.list_key(site.site, kind, day) for day in days]
    found = toplist.read_largest_of_days(
        context.table, partitions, period.bounds, query.limit, attribute, units
    )
    return found._replace(complete=found.complete and is_whole)


def _find_units(caller: Caller) -> float:
    """Return the RCU that a list of a period may cost: 100, and ten times as many with an admin's token."""
    return ADMIN_UNITS if caller.admin else toplist.UNITS


def _complete(is_complete: bool) -> Any:
    return UNSET if is_complete else False
