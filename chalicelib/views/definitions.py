"""The definitions of sites: zone, privacy, addresses. A site needs none.

| item | pk | sk | holds |
|---|---|---|---|
| definition | `SITE#<host>` | `DEFINITION` | `zones`; of a defined site `fields` and gsi1 = `SITES`, last |
| further host | `SITE#<host>` | `DEFINITION` | `site`: the host whose definition it shares |

`zones` are the zones of the site with the first day of each. A change of the zone begins with a later day, so
the days before it stay as they are counted. That day is the longer or the shorter by the difference. A
removed definition leaves its zones, because the days that are counted have them.

Invariant: an instant lies in one day, and in one hour since the beginning of that day. So a day has 23 or 25
hours when its zone's clock changes. Each process computes the same day, because a change begins later than
any process uses the definition before it.
"""

import ipaddress
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, partial
from typing import Any, NamedTuple

from chalicelib import times, urls
from chalicelib.api import rates
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.recent import Recent
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest, Conflict, NotFound
from chalicelib.settings import Settings
from chalicelib.views import totals
from chalicelib.views.schemas import SiteBody, SiteDefinition

RECENT = Recent["Definition"](seconds=60)
LEAD = timedelta(seconds=5 * RECENT.seconds)  # between a change of the zone and the day that begins it
ONE_DAY = timedelta(days=1)
UTC_ALWAYS = (("", "UTC"),)
ROUTE = re.compile("#!?/")


class Definition(NamedTuple):
    """A site as it is defined, or as every site is without a definition."""

    site: str
    zones: tuple[tuple[str, str], ...] = UTC_ALWAYS
    fields: Mapping[str, Any] | None = None

    @property
    def timezone(self) -> str:
        """Return the newest zone of the site."""
        return self.zones[-1][1]

    @property
    def is_private(self) -> bool:
        """Return whether the statistics of the site need a token."""
        return bool(self._field("statistics") == "private")

    @property
    def hosts(self) -> frozenset[str]:
        """Return the hosts of the site, whose pages are no source."""
        return frozenset((self.site, *self._field("hosts", ())))

    def _field(self, name: str, default: Any = None) -> Any:
        return (self.fields or {}).get(name, default)

    # -- days --

    def begin(self, day: date) -> datetime:
        """Return the beginning of a day in the zone that the site has on it."""
        place = bisect_right([first for first, _ in self.zones], day.isoformat()) - 1
        return times.midnight(day, self.zones[max(0, place)][1])

    def find_day(self, moment: datetime) -> date:
        """Return the day in which an instant lies: the last one that has begun."""
        if self.zones == UTC_ALWAYS:
            return moment.astimezone(UTC).date()
        day = moment.astimezone(UTC).date() + 2 * ONE_DAY
        while self.begin(day) > moment:
            day -= ONE_DAY
        return day

    def place(self, moment: datetime) -> tuple[str, int]:
        """Return the day of an instant, and the number of whole hours since the beginning of that day."""
        day = self.find_day(moment)
        return day.isoformat(), (moment - self.begin(day)) // times.HOUR

    # -- addresses --

    def counts(self, url: str, settings: Settings) -> bool:
        """Return whether the views of a page are counted: by the definition, otherwise by HUBBUB_SITES."""
        path = urls.page(url)
        if self.fields is None:
            return settings.allows(urls.host(url), path)
        paths = self._field("paths")
        return not paths or any(_matches(path, pattern) for pattern in paths)

    def ignores(self, address: str) -> bool:
        """Return whether the views of an address are not counted."""
        return any(_is_in(address, network) for network in self._field("ignore", ()))

    def normalize(self, url: str, written: str) -> str:
        """Return the address of a page as the site counts it. `written` is the address as it was sent."""
        if self.fields is None:
            return url
        host = urls.host(url)
        if host != self.site:
            url = url.replace(host, self.site, 1)
        place, _, query = url.partition("?")
        if (names := self._field("query")) is not None:
            query = urls.filter_query(query, lambda name: name in names)
        if self._field("slash") == "strip" and not place.endswith("://" + place.split("/")[2] + "/"):
            place = place.rstrip("/")
        hash = "#" + written.partition("#")[2] if self._field("hash") else ""
        return place + (f"?{query}" if query else "") + (hash if ROUTE.match(hash) else "")


def _matches(path: str, pattern: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path.partition("?")[0] == pattern


@lru_cache(10_000)
def _is_in(address: str, network: str) -> bool:
    try:
        return rates.parse_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


# -- keys and reads ------------------------------------------------------------------------------------


def definition_key(host: str) -> Key:
    """Return the key of the definition of a host."""
    return Key(f"SITE#{host}", "DEFINITION")


def find(table: Table, host: str) -> Definition:
    """Return the definition of the site of a host, which may be up to a minute old.

    Cost: 0.5 RCU, or 1 of a further host, once a minute in each process.
    """
    return find_all(table, [host])[host]


def find_all(table: Table, hosts: Iterable[str]) -> dict[str, Definition]:
    """Return the definitions of the sites of hosts. Cost: that of `find` for each host."""
    return RECENT.find_all(table, hosts, partial(_read_definitions, table))


def _read_definitions(table: Table, hosts: Collection[str]) -> dict[str, Definition]:
    items = _read(table, hosts)
    sites = {item["site"] for item in items.values() if "site" in item}
    mains = _read(table, sites) if sites else {}
    found = {host: items.get(host, {}) for host in hosts}
    return {host: _build(host, mains.get(item.get("site", ""), item)) for host, item in found.items()}


def _read(table: Table, hosts: Iterable[str]) -> dict[str, Item]:
    found = table.get_many(definition_key(host) for host in hosts)
    return {key.pk.removeprefix("SITE#"): item for key, item in found.items()}


def _build(host: str, item: Item | None) -> Definition:
    if not item or "zones" not in item:
        return Definition(host)
    zones = tuple((str(first), str(zone)) for first, zone in item["zones"])
    return Definition(item["pk"].removeprefix("SITE#"), zones, item.get("fields"))


# -- writes --------------------------------------------------------------------------------------------


def define(table: Table, site: str, body: SiteBody, now: datetime) -> tuple[SiteDefinition, bool]:
    """Define a site, and return the definition and whether it is new.

    Cost: 1 WCU and 2 RCU, and 1 of each for a further host. 1 WCU more for a new site.
    Raises: BadRequest for a malformed field, Conflict if a further host is another site's.
    """
    fields = read_fields(body, site)
    before = table.get(definition_key(site), consistent=True) or {}
    if "site" in before:
        raise Conflict(f"{site} is a further host of {before['site']}. Define that site instead.")
    hosts: list[str] = fields["hosts"]
    others = _read(table, hosts) if hosts else {}
    for host, item in others.items():
        if item.get("site", site) != site or "zones" in item:
            raise Conflict(f"`hosts` has {host}, which is defined already")
    has_views = bool(before) or table.get(totals.total_key(site)) is not None
    zones = _change_zone(_build(site, before).zones, body.timezone, now, has_views)
    for host in set((before.get("fields") or {}).get("hosts", ())) - set(hosts):
        table.delete(definition_key(host))
    for host in hosts:
        table.put({**definition_key(host)._asdict(), "site": site})
    item = {**definition_key(site)._asdict(), "fields": fields, "zones": [list(zone) for zone in zones]}
    item |= {"gsi1pk": totals.SITES, "gsi1sk": -1}
    names, condition = {"#fields": "fields"}, "attribute_not_exists(#fields)"
    is_new = "fields" not in before and table.put(item, condition=condition, names=names)
    if not is_new:
        table.put(item)
    RECENT.forget(table)
    return describe(_build(site, item), now), is_new


def remove(table: Table, site: str, now: datetime) -> None:
    """Remove the definition of a site. Counted views stay, with their days.

    Cost: 2 WCU and 1 RCU, and 1 WCU for a further host.
    Raises: NotFound.
    """
    before = table.get(definition_key(site), consistent=True) or {}
    if "fields" not in before:
        raise NotFound(f"no site named {site} is defined")
    for host in before["fields"].get("hosts", ()):
        table.delete(definition_key(host))
    zones = _change_zone(_build(site, before).zones, "UTC", now, has_views=True)
    if zones == UTC_ALWAYS:
        table.delete(definition_key(site))
    else:
        table.put({**definition_key(site)._asdict(), "zones": [list(zone) for zone in zones]})
    RECENT.forget(table)


def get(table: Table, site: str, now: datetime) -> SiteDefinition:
    """Return the definition of a site. Cost: 1 RCU. Raises: NotFound."""
    item = table.get(definition_key(site), consistent=True) or {}
    if "fields" not in item:
        raise NotFound(f"no site named {site} is defined")
    return describe(_build(site, item), now)


def describe(definition: Definition, now: datetime) -> SiteDefinition:
    """Return a definition as a response. `since` is the later day with which a changed zone begins."""
    first, zone = definition.zones[-1]
    later = first > definition.find_day(now).isoformat()
    fields = dict(definition.fields or {})
    return SiteDefinition(site=definition.site, timezone=zone, since=first if later else None, **fields)


def _change_zone(
    zones: tuple[tuple[str, str], ...], zone: str, now: datetime, has_views: bool
) -> tuple[tuple[str, str], ...]:
    """Return the zones of a site after a change, which begins with the next day of both zones."""
    if not has_views:
        return (("", zone),)
    current = Definition("", zones)
    if zone == zones[-1][1]:
        return zones
    day = current.find_day(now + LEAD) + ONE_DAY
    while times.midnight(day, zone) <= now + LEAD:
        day += ONE_DAY
    kept = tuple(former for former in zones if former[0] < day.isoformat())
    if kept and kept[-1][1] == zone:
        return kept
    return (*kept, (day.isoformat(), zone))


def read_fields(body: SiteBody, site: str) -> dict[str, Any]:
    """Return the fields of a definition as they are stored. Raises BadRequest, which names the field."""
    if not times.is_zone(body.timezone):
        raise BadRequest("`timezone` must be the name of a zone, such as Europe/Berlin")
    for path in body.paths:
        if not path.startswith("/"):
            raise BadRequest("`paths` must be paths that begin with /, and may end with *")
    for network in body.ignore:
        try:
            ipaddress.ip_network(network, strict=False)
        except ValueError:
            raise BadRequest("`ignore` must be addresses or networks, such as 203.0.113.0/24") from None
    try:
        hosts = [urls.canonical_host(host) for host in body.hosts]
    except ValueError:
        raise BadRequest("`hosts` must be hosts alone, such as www.example.org") from None
    fields: dict[str, Any] = {"statistics": body.statistics, "slash": body.slash, "hash": body.hash}
    fields |= {"paths": body.paths, "ignore": body.ignore, "hosts": [host for host in hosts if host != site]}
    return fields | ({"query": body.query} if body.query is not None else {})


Find = Callable[[str], Definition]
