"""Import page views from an access log in any of the formats of log_formats.py.

A view is a GET request for a page with status 200 or 304. A URL is a page unless it is an asset (an
extension in ASSETS) or a feed (an extension in FEEDS, a last path segment such as `/feed`, a parameter such
as `flav=rss20`). Requests of crawlers, HTTP libraries, test browsers and clients without a User-Agent are not
views. A log without User-Agents counts them.

The host of a line chooses its site, and that of the command is the site of a line without a host. The
definition of the site decides the address of a page, its day, and which pages count, as for a posted event.

Most logs have a resolution of one second, so several requests of one client for one page within a second are
one view. The app identifies clients differently, so a view that is both in the log and counted by the app
counts twice. Import only the time before the app counted.

**Clients.** A client is an address (of IPv6 its /64) with a User-Agent on one day of one site. It is
stored as a hash whose key is derived from the stage's secret. An address cannot be recovered from the
table, a backup or an export alone, and two days of a client cannot be linked.

| item | pk | sk | holds |
|---|---|---|---|
| imported day | `IMPORT#<host>` | `<date>` | `expires`, and `key`, a fingerprint of the key |

Invariant: an imported view counts once. Imported views expire 30 days after the first import of their day,
and the day's item stores the time. Until one day before, importing a log again writes the same items, which
counts nothing. Later, or with another secret, the day is skipped (`imported_already`), because its views may
have expired or have other client hashes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache, partial
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from chalicelib import times, urls
from chalicelib.aggregates import sums
from chalicelib.api import auth, rates
from chalicelib.dynamo.items import Key, Range, chunks
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from chalicelib.views import definitions, sources, traits
from chalicelib.views import events as views
from chalicelib.views.crawlers import is_crawler
from chalicelib.views.events import View
from ops.imports import log_formats
from ops.maintenance.audit import read_sums
from ops.stage import new_context
from ops.waiting import TIMEOUT, wait_until_counted

ASSETS = frozenset(
    """
    png jpg jpeg jpe gif svg svgz ico cur bmp webp avif apng tif tiff psd eps
    css less scss xsl xslt js mjs cjs map wasm swf class ttf otf eot woff woff2
    mp3 m4a ogg oga wav flac aac mp4 m4v mpg mpeg mov avi mkv webm ogv wmv flv vtt
    zip gz tgz bz2 tbz xz txz zst 7z rar tar jar war deb rpm apk gem whl exe msi dmg pkg iso img bin
    pdf ps doc docx xls xlsx ppt pptx odt ods odp rtf epub mobi csv
    txt log json jsonld webmanifest wsdl pcap torrent md5 sha1 sha256 sig asc
    """.split()  # noqa: SIM905 (a list of 90 is no easier to read); txt covers robots.txt
)
FEEDS = frozenset({"rss", "atom", "rdf", "xml"})
FEED_NAMES = frozenset({"feed", "rss", "rss2", "atom", "rdf"})
FEED_QUERY = re.compile(r"(^|[&;])(feed=|(flav|format|type|output)=(rss|atom|rdf|feed))")
GROUP = 500
LIFE = timedelta(days=30)  # of an imported view, from the first import of its day
MARGIN = timedelta(days=1)  # an import may take hours, so it must begin well before the expiry
ALL = 2**31 - 1  # a query without a limit


class Skip(StrEnum):
    """Why a line is not a view. A line counts under the first reason that applies."""

    MALFORMED = "malformed"
    NOT_A_GET = "not_a_get"
    ERROR_OR_REDIRECT = "error_or_redirect"  # any status but 200 and 304
    BAD_URL = "bad_url"
    ASSET = "asset"
    FEED = "feed"
    CRAWLER = "crawler"
    SPAM = "spam"  # known spam led to it
    SITE_NOT_ALLOWED = "site_not_allowed"  # a page that is not counted, or an address that its site ignores
    IMPORTED_ALREADY = "imported_already"  # its views may have expired since


class Request(NamedTuple):
    """A parsed request that is a view."""

    url: str
    time: datetime
    address: str
    agent: str
    source: sources.Source = sources.UNKNOWN


class NoSite(Exception):
    """A line has no host, and the command names no site or several."""


@dataclass
class Log:
    """A log that is being read. `sites` are the addresses that the command names, by their hosts.

    `find` finds the definition of a host's site. `malformed` is the first malformed line, with its number.
    """

    sites: Mapping[str, str]
    settings: Settings
    find: definitions.Find = definitions.Definition
    formats: log_formats.Parser = field(default_factory=log_formats.Parser)
    malformed: tuple[int, str] | None = None

    def base(self, host: str, scheme: str = "") -> str:
        """Return the scheme and the host of a line's address. The command decides the scheme of its sites.

        Raises: NoSite, ValueError for a malformed host.
        """
        if not host:
            if len(self.sites) != 1:
                raise NoSite
            return next(iter(self.sites.values()))
        scheme = scheme if scheme in ("http", "https") else "https"
        base = urls.canonical(f"{scheme}://{host}").removesuffix("/")
        return self.sites.get(urls.host(base), base)


# -- read ----------------------------------------------------------------------------------------------


def read(lines: Iterable[bytes], log: Log, key: bytes) -> Iterator[View | Skip]:
    """Yield a view or a skip reason for each line of a log. `key` hashes the clients, separately per day.

    A byte that is not UTF-8 becomes `\\xff`, as Apache itself writes it. A directive of a W3C log is no line.

    Raises: NoSite.
    """
    for number, line in enumerate(lines, 1):
        text = line.decode("utf-8-sig" if number == 1 else "utf-8", "backslashreplace").rstrip("\r\n")
        found = parse(text, log)
        if isinstance(found, Request):
            host = urls.host(found.url)
            day, _ = log.find(host).place(found.time)
            identity = f"{host} {day} {_network(found.address)} {found.agent}"
            client = hmac.digest(key, identity.encode(), "sha256").hex()[:24]
            yield View(
                found.url, found.time, client, found.source, traits=traits.read_user_agent(found.agent)
            )
        elif found:
            if found is Skip.MALFORMED and not log.malformed:
                log.malformed = (number, text)
            yield found


def _network(address: str) -> str:
    """Return the network that one client has, as for a posted view. The name of a client is its own."""
    try:
        return rates.network(address)
    except ValueError:
        return address


# -- parse ---------------------------------------------------------------------------------------------


def derive_client_key(settings: Settings) -> bytes:
    """Derive the key that hashes clients.

    Raises: OSError when the secret cannot be read.
    """
    return auth.derive_key(settings, "import-log")


def day_key(host: str, day: str) -> Key:
    """Build the key of an imported day of a site."""
    return Key(f"IMPORT#{host}", day)


def parse(text: str, log: Log) -> Request | Skip | None:
    """Parse a line of a log into a request or a skip reason; None for a directive.

    >>> agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    >>> log = Log({"b": "http://b"}, Settings(stage="local"))
    >>> seen = parse(f'::1 - - [17/May/2015:12:05:03 +0200] "GET /a HTTP/1.1" 200 9 "-" "{agent}"', log)
    >>> seen.url, seen.time.isoformat()
    ('http://b/a', '2015-05-17T10:05:03+00:00')

    Raises: NoSite.
    """
    try:
        line = log.formats.parse(text)
    except ValueError:
        return Skip.MALFORMED
    if line is None:
        return None
    if line.method != "GET":
        return Skip.NOT_A_GET
    if line.status not in ("200", "304"):
        return Skip.ERROR_OR_REDIRECT
    try:
        written, url = build_url(line.target, log.base(line.host, line.scheme))
    except ValueError:
        return Skip.BAD_URL
    if reason := _skip_reason(url):
        return reason
    if line.agent in ("", "-") or (line.agent and _is_crawler(line.agent)):
        return Skip.CRAWLER
    # The referrer of a log without referrers is unknown, as that of a page of the site is.
    referrer = url if line.referrer is None else line.referrer.removeprefix("-")
    found = count_page(log, written, url, {"referrer": referrer})
    if isinstance(found, Skip):
        return found
    if log.find(urls.host(url)).ignores(line.address):
        return Skip.SITE_NOT_ALLOWED
    return Request(found[0], line.time, line.address, line.agent or "", found[1])


def count_page(
    log: Log, written: str, url: str, origin: Mapping[str, str]
) -> tuple[str, sources.Source] | Skip:
    """Return the page that the site of an address counts, and the source of its view.

    `written` is the address as it is written. `origin` has the fields of an event that name its source.
    """
    site = log.find(urls.host(url))
    source = sources.read_source(origin, url, site.hosts)
    if source is None:
        return Skip.SPAM
    page = site.normalize(sources.strip_tracking(url), written)
    return (page, source) if site.counts(page, log.settings) else Skip.SITE_NOT_ALLOWED


def build_url(target: str, site: str) -> tuple[str, str]:
    """Build the URL of a request target, as it is written and in normal form.

    Raises: ValueError for a malformed target, or one of another host.
    """
    if not target or " " in target:
        raise ValueError("not a request target")
    target = re.sub(r"\\(?:x([0-9a-fA-F]{2})|(.))", lambda m: f"%{m[1]}" if m[1] else quote(m[2]), target)
    if not re.match("/|https?://", target, re.IGNORECASE):
        raise ValueError("neither a path nor an absolute URL")
    written = site + target if target.startswith("/") else target
    url = urls.canonical(written)
    if urls.host(url) != urls.host(site):
        raise ValueError("the URL of another host")
    return written, url


def _skip_reason(url: str) -> Skip | None:
    """Return the reason to skip a URL that is a feed or an asset; None for a page."""
    parts = urlsplit(url.lower())
    name = parts.path.rstrip("/").rpartition("/")[2]
    extension = "" if parts.path.endswith("/") else name.rpartition(".")[2] if "." in name else ""
    if extension in FEEDS or name in FEED_NAMES or FEED_QUERY.search(unquote(parts.query)):
        return Skip.FEED
    return Skip.ASSET if extension in ASSETS else None


_is_crawler = lru_cache(100_000)(partial(is_crawler, tools=True))  # cached: a check takes half a millisecond


# -- write ---------------------------------------------------------------------------------------------


@dataclass
class Summary:
    """Counts of a log's lines, and the pages and days that have views."""

    lines: int = 0
    views: int = 0
    distinct: int = 0
    skipped: Counter[Skip] = field(default_factory=Counter)
    days: set[tuple[str, str]] = field(default_factory=set)


def write(
    table: Table, found: Iterable[View | Skip], settings: Settings, now: datetime, key: bytes
) -> Summary:
    """Write the distinct views in groups of 500, and return the counts.

    `key` is the key that hashed the clients.

    Cost: 1 WCU per distinct view, per visitor of a page and of a site, and per day, and 1 RCU for a day that
    was imported before.
    Memory: 16 bytes per view, about 100 MB with overhead for a million.
    """
    summary = Summary()
    seen: set[bytes] = set()
    days: dict[Key, int | None] = {}  # expiry of the views of a day; None for a skipped day

    def expires(view: View) -> int | None:
        place = day_key(urls.host(view.url), view.day)
        if place not in days:
            days[place] = _expires(table, place, now, key)
        return days[place]

    def expiry(view: View) -> int:  # the same life for all views of a day, which determines a visitor's TTL
        midnight = times.floor(view.time, times.DAY)
        return (expires(view) or 0) + times.epoch(view.time) - times.epoch(midnight)

    for group in chunks(found, GROUP):
        new = []
        summary.skipped.update(row for row in group if isinstance(row, Skip))
        for placed in views.place_all(table, [view for view in group if isinstance(view, View)]):
            if expires(placed) is None:
                summary.skipped[Skip.IMPORTED_ALREADY] += 1
                continue
            summary.views += 1
            digest = hashlib.blake2b("\n".join(views.event_key(placed)).encode(), digest_size=16).digest()
            if digest not in seen:
                seen.add(digest)
                new.append(placed)
                summary.days.add((placed.url, placed.day))
        summary.lines += len(group)
        summary.distinct += views.write(new_context(table, now, settings), new, expiry=expiry)
    return summary


def _expires(table: Table, place: Key, now: datetime, key: bytes) -> int | None:
    """Return when a day's views expire, and record it for a new day; None for a day to skip."""
    fingerprint = hmac.digest(key, b"fingerprint", "sha256")[:8]
    made = {**place._asdict(), "expires": times.epoch(now + LIFE), "key": fingerprint}
    if table.put(made, condition="attribute_not_exists(pk)"):
        return int(made["expires"])
    there = table.get(place, consistent=True) or made
    is_open = there["key"] == fingerprint and there["expires"] > times.epoch(now + MARGIN)
    return int(there["expires"]) if is_open else None


# -- wait ----------------------------------------------------------------------------------------------


def wait(table: Table, days: Iterable[tuple[str, str]], report: Callable[[], None]) -> bool:
    """Wait until these days of pages are counted, and report each. False after 60 s without progress."""
    return wait_until_counted(days, lambda day: is_counted(table, *day), lambda _: report(), TIMEOUT)


def is_counted(table: Table, url: str, day: str) -> bool:
    """Return whether a page's aggregates include all its views and visitors of a day.

    The sums of the site are not read, because they have the days of all its pages. The aggregates may be
    larger than the sum over the items, because TTL may have deleted counted items.

    Cost: 1 RCU per 4 KB (about 25 views), and 2.
    """
    site, first = definitions.find(table, urls.host(url)), date.fromisoformat(day)
    begin, end = (times.to_sort_key(site.begin(first + number * times.DAY)) for number in (0, 1))
    facts = [
        item
        for bounds in ((f"T#{begin}", f"T#{end}"), (f"VISITOR#{day}#", f"VISITOR#{day}#~"))
        for item in table.query(Range(f"URL#{url}", bounds), limit=ALL, consistent=True).items
    ]
    amounts = sums.recount([views.contribution], facts)
    found = table.get_many({key for key, _ in amounts if not key.pk.startswith("SITE#")}, consistent=True)
    aggregates = {key: read_sums(item) for key, item in found.items()}
    return all(
        attribute in aggregates.get(key, {}) and aggregates[key][attribute] >= amount
        for (key, attribute), amount in amounts.items()
        if not isinstance(amount, sums.Constant) and not key.pk.startswith("SITE#")
    )
