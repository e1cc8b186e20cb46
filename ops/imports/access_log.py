"""Counts a site's history from an access log in Apache's combined format.

A view is a GET that a page answered with 200 or 304. No page is a file with an extension of ASSETS, or a feed
(an extension of FEEDS, a last path segment such as `/feed`, a parameter such as `flav=rss20`); every other
address is one. A crawler's request is no view, nor is that of an HTTP library or a test browser, or of a
program that does not name itself.

A log's times are whole seconds, so several requests of one client for one page in the same second are one
view. A view that the app took itself at the time has another client, so import only what came before the app
counted.

**Clients.** A client is an address with a User-Agent, on one UTC day of one site, under a hash whose key is
derived from the stage's secret. The table, a backup or an export alone does not lead back to an address, and
two days of a client cannot be linked.

| item | pk | sk | holds |
|---|---|---|---|
| imported day | `IMPORT#<host>` | `<date>` | `expires`, and `key`, a fingerprint of the key |

**Once.** Imported views expire 30 days after their day was first imported, and the day's item says when.
Until a day before that, importing a log again writes the same items, which counts nothing. After that, or
under another secret, the day is left out (`imported_already`): its views may be gone, or have other clients.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from functools import lru_cache, partial
from itertools import islice
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from chalicelib import times, urls
from chalicelib.aggregates import sums
from chalicelib.api import auth
from chalicelib.dynamo.items import Key
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from chalicelib.views import events as views
from chalicelib.views.crawlers import is_crawler
from chalicelib.views.validation import View
from ops.waiting import PATIENCE, until_counted

LINE = re.compile(
    r"(?P<address>\S+) \S+ .+? \[(?P<time>[^\]]{20,40})\]"
    r' "(?P<request>(?:[^"\\]|\\.)*)" (?P<status>\d{3}) \S+'
    r' "(?:[^"\\]|\\.)*" "(?P<agent>(?:[^"\\]|\\.)*)"(?: .*)?'  # a log may go on after the format's fields
)
TIME = re.compile(r"(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)", re.ASCII)
MONTHS = {name: i for i, name in enumerate(re.findall("...", "JanFebMarAprMayJunJulAugSepOctNovDec"), 1)}
ASSETS = frozenset(
    """
    png jpg jpeg jpe gif svg svgz ico cur bmp webp avif apng tif tiff psd eps
    css less scss xsl xslt js mjs cjs map wasm swf class ttf otf eot woff woff2
    mp3 m4a ogg oga wav flac aac mp4 m4v mpg mpeg mov avi mkv webm ogv wmv flv vtt
    zip gz tgz bz2 tbz xz txz zst 7z rar tar jar war deb rpm apk gem whl exe msi dmg pkg iso img bin
    pdf ps doc docx xls xlsx ppt pptx odt ods odp rtf epub mobi csv
    txt log json jsonld webmanifest wsdl pcap torrent md5 sha1 sha256 sig asc
    """.split()  # noqa: SIM905 (a list of 90 is no easier to read); robots.txt is among them
)
FEEDS = frozenset({"rss", "atom", "rdf", "xml"})
FEED_NAMES = frozenset({"feed", "rss", "rss2", "atom", "rdf"})
FEED_QUERY = re.compile(r"(^|[&;])(feed=|(flav|format|type|output)=(rss|atom|rdf|feed))")
GROUP = 500
LIFE = timedelta(days=30)  # of an imported view's item, from the first import of its day
MARGIN = timedelta(days=1)  # before its end: an import takes hours, and TTL begins
OLD_KEY = Key("IMPORT", "CLIENT-KEY")  # where version 0.1.0 kept the key, beside what it hashed
ALL = 2**31 - 1  # the most items that a query can be asked for


class Skip(StrEnum):
    """Why a line is no view; the first reason that holds is the one that is counted."""

    MALFORMED = "malformed"
    NOT_A_GET = "not_a_get"
    ERROR_OR_REDIRECT = "error_or_redirect"  # any status but 200 and 304
    BAD_URL = "bad_url"
    ASSET = "asset"
    FEED = "feed"
    CRAWLER = "crawler"
    IMPORTED_ALREADY = "imported_already"  # its day was, and may have expired since


class Request(NamedTuple):
    """A request that is a view."""

    url: str
    time: datetime
    address: str
    agent: str


# -- read ----------------------------------------------------------------------------------------------


def read(lines: Iterable[bytes], site: str, key: bytes) -> Iterator[View | Skip]:
    """Read the lines of a log, each as a view or a reason; `key` hashes the clients, each day anew.

    A byte that is not UTF-8 becomes what Apache itself writes for it, `\\xff`.
    """
    for line in lines:
        found = parse(line.decode("utf-8", "backslashreplace").rstrip("\r\n"), site)
        if isinstance(found, Request):
            whose = f"{urls.host(found.url)} {found.time.date()} {found.address} {found.agent}"
            client = hmac.digest(key, whose.encode(), "sha256").hex()[:24]
            yield View(found.url, found.time, client)
        else:
            yield found


# -- parse ---------------------------------------------------------------------------------------------


def client_key(settings: Settings) -> bytes:
    """Derive the key that hashes a log's clients. Raises OSError when the secret cannot be read."""
    return auth.derive_key(settings, "import-log")


def day_key(host: str, day: str) -> Key:
    """Key a day of a site that was imported."""
    return Key(f"IMPORT#{host}", day)


def parse(line: str, site: str) -> Request | Skip:
    """Read one line of the log of a site (`https://www.example.com`): a view, or why it is none.

    >>> agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    >>> seen = parse(f'::1 - - [17/May/2015:12:05:03 +0200] "GET /a HTTP/1.1" 200 9 "-" "{agent}"', "http://b")
    >>> seen.url, seen.time.isoformat()
    ('http://b/a', '2015-05-17T10:05:03+00:00')
    """
    fields = LINE.fullmatch(line)
    moment = fields and _time(fields["time"])
    if not fields or not moment:
        return Skip.MALFORMED
    method, _, target = fields["request"].partition(" ")
    if method != "GET":
        return Skip.NOT_A_GET
    if fields["status"] not in ("200", "304"):
        return Skip.ERROR_OR_REDIRECT
    try:
        url = _url(re.sub(r" HTTP/\d(\.\d)?$", "", target), site)
    except ValueError:
        return Skip.BAD_URL
    if not_a_page := _kind(url):
        return not_a_page
    if fields["agent"] in ("", "-") or _is_crawler(fields["agent"]):
        return Skip.CRAWLER
    return Request(url, moment, fields["address"], fields["agent"])


def _time(text: str) -> datetime | None:
    """Read `17/May/2015:10:05:03 +0000`, whatever the locale calls its months; None for what is no time."""
    match = TIME.fullmatch(text)
    if not match:
        return None
    day, year, hour, minute, second, *offset = (int(match[part]) for part in (1, 3, 4, 5, 6, 8, 9))
    east = timedelta(hours=offset[0], minutes=offset[1]) * (-1 if match[7] == "-" else 1)
    try:
        local = datetime(year, MONTHS[match[2]], day, hour, minute, second, tzinfo=timezone(east))
        return local.astimezone(UTC)
    except (KeyError, ValueError, OverflowError):
        return None


def _url(target: str, site: str) -> str:
    """Make the address of a request's target; ValueError for what is none, or another host's."""
    if not target or " " in target:
        raise ValueError("it is no request target")
    target = re.sub(r"\\(?:x([0-9a-fA-F]{2})|(.))", lambda m: f"%{m[1]}" if m[1] else quote(m[2]), target)
    if not re.match("/|https?://", target, re.IGNORECASE):
        raise ValueError("it is neither a path nor an address with its scheme")
    url = urls.canonical(site + target if target.startswith("/") else target)
    if urls.host(url) != urls.host(site):
        raise ValueError("it is another host's")
    return url


def _kind(url: str) -> Skip | None:
    """Tell whether an address is a feed's or an asset's; None for a page's."""
    parts = urlsplit(url.lower())
    name = parts.path.rstrip("/").rpartition("/")[2]
    extension = "" if parts.path.endswith("/") else name.rpartition(".")[2] if "." in name else ""
    if extension in FEEDS or name in FEED_NAMES or FEED_QUERY.search(unquote(parts.query)):
        return Skip.FEED
    return Skip.ASSET if extension in ASSETS else None


_is_crawler = lru_cache(100_000)(partial(is_crawler, tools=True))  # half a millisecond each


# -- write ---------------------------------------------------------------------------------------------


@dataclass
class Summary:
    """What became of a log's lines, and the pages and days that got views."""

    lines: int = 0
    views: int = 0
    distinct: int = 0
    skipped: Counter[Skip] = field(default_factory=Counter)
    days: set[tuple[str, str]] = field(default_factory=set)


def write(
    table: Table, found: Iterable[View | Skip], settings: Settings, now: datetime, key: bytes
) -> Summary:
    """Write the views among what was found, each distinct one once, in groups of 500; count everything.

    `key` is the one that hashed the clients. Costs 1 WCU a distinct view and a day, and 1 RCU for a day that
    was imported before. Remembers 16 bytes of each view (about 100 MB for a million).
    """
    summary = Summary()
    seen: set[bytes] = set()
    days: dict[Key, int | None] = {}  # when their views expire; None: nothing is written of them

    def expires(view: View) -> int | None:
        place = day_key(urls.host(view.url), view.time.date().isoformat())
        if place not in days:
            days[place] = _expires(table, place, now, key)
        return days[place]

    def expiry(view: View) -> int:  # one life for all views of a day: a visitor's TTL follows from it
        midnight = times.floor(view.time, times.DAY)
        return (expires(view) or 0) + times.epoch(view.time) - times.epoch(midnight)

    rest = iter(found)
    while group := list(islice(rest, GROUP)):
        new = []
        for one in group:
            if isinstance(one, Skip) or expires(one) is None:
                summary.skipped[one if isinstance(one, Skip) else Skip.IMPORTED_ALREADY] += 1
                continue
            summary.views += 1
            digest = hashlib.blake2b("\n".join(views.event_key(one)).encode(), digest_size=16).digest()
            if digest not in seen:
                seen.add(digest)
                new.append(one)
                summary.days.add((one.url, one.time.date().isoformat()))
        summary.lines += len(group)
        summary.distinct += views.write(table, new, settings, now, expiry=expiry)
    return summary


def _expires(table: Table, place: Key, now: datetime, key: bytes) -> int | None:
    """Return when a day's views expire, and note it where the day is new; None if it was imported before."""
    fingerprint = hmac.digest(key, b"fingerprint", "sha256")[:8]
    made = {**place._asdict(), "expires": times.epoch(now + LIFE), "key": fingerprint}
    if table.put(made, condition="attribute_not_exists(pk)"):
        return int(made["expires"])
    there = table.get(place, consistent=True) or made
    is_open = there["key"] == fingerprint and there["expires"] > times.epoch(now + MARGIN)
    return int(there["expires"]) if is_open else None


# -- wait ----------------------------------------------------------------------------------------------


def wait(table: Table, days: Iterable[tuple[str, str]], tick: Callable[[], None]) -> bool:
    """Wait until these pages' days are counted, a tick each; False after 60 s in which none was."""
    return until_counted(days, lambda day: is_counted(table, *day), lambda _: tick(), PATIENCE)


def is_counted(table: Table, url: str, day: str) -> bool:
    """Tell whether all views and visitors that a page has on a day are in its aggregates.

    Adds them up and looks whether the aggregates hold as much; more is right too, for TTL may have removed
    what was counted. Costs 1 RCU per 4 KB (about 25 views), and 2.
    """
    facts = [
        item
        for sk in (f"T#{day}", f"VISITOR#{day}#")
        for item in table.query(f"URL#{url}", (sk, f"{sk}~"), limit=ALL, consistent=True).items
    ]
    aggregates = table.get_many([views.page_key(url), views.day_key(url, day)], consistent=True)
    aggregates |= {Key(item["pk"], item["sk"]): item for item in facts}  # a visitor is both
    return all(
        attribute in aggregates.get(key, {}) and aggregates[key][attribute] >= amount  # a set: holds it
        for (key, attribute), amount in sums.recount([views.contribution], facts).items()
        if not isinstance(amount, sums.Constant)
    )
