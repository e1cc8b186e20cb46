"""Read the exports of other counters: their pages, days, visitors, sources and goals.

| export | file | a row is |
|---|---|---|
| GoatCounter's | CSV, whose header begins with `2Path` | a view, or an event, of a session |
| Umami's | `website_event.csv`, or the zip with it | a view, or an event, of a session |
| Plausible's | `imported_pages….csv`, or the zip with `imported_visitors….csv` | a page's day |

A session is a visitor of a day, and an event is one of a goal. Views of a session that a file has several
times in one second are several views.

Plausible's rows have no views, so as many views and visitors as they count are made, at noon of the day in
the site's zone. The visitors of a day view the pages in turn. So the days have the site's visitors where the
file with them is in the zip, otherwise those of the page that has most.

Invariant: a file gives the same views each time, so it counts once, as a log does (access_log.py).
"""

from __future__ import annotations

import csv
import hmac
import io
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from chalicelib import times, urls
from chalicelib.dynamo.items import Key
from chalicelib.views import sites, traits
from chalicelib.views.events import View, event_key
from chalicelib.views.traits import Traits
from ops.imports import access_log
from ops.imports.access_log import Log, Skip

GOATCOUNTER, UMAMI, PAGES, VISITORS = "GoatCounter's", "Umami's", "Plausible's pages", "Plausible's visitors"
COLUMNS = {
    GOATCOUNTER: {"Path", "Event", "Session", "Bot", "Date"},
    UMAMI: {"session_id", "url_path", "created_at"},
    PAGES: {"date", "page", "visitors", "pageviews"},
}
OF_VISITORS = {"date", "visitors", "pageviews", "bounces", "visits", "visit_duration"}
NOON = timedelta(hours=12)
STEP = timedelta(milliseconds=1)  # between the views of a visitor that are made
MAX_VIEWS = 10_000_000  # of a row

Row = Mapping[str, str]


class NoExport(Exception):
    """The archive has no file of an export, or a file ends within a row."""


class Hit(NamedTuple):
    """A row that has a view or an event of a goal. `source` has the fields of an event's source."""

    host: str
    target: str
    time: datetime
    visitor: str
    source: Mapping[str, str]
    goal: str = ""
    traits: Traits = traits.NONE


def read(lines: Iterable[bytes], log: Log, key: bytes) -> Iterator[View | Skip]:
    """Yield a view or a skip reason for each line of a log, or for each row of an export.

    Raises: NoSite, NoExport.
    """
    found = iter(lines)
    first = next(found, b"")
    header = read_header(first)
    kind = find_kind(header)
    if kind in (GOATCOUNTER, UMAMI, PAGES):
        text = (line.decode("utf-8-sig", "replace") for line in found)
        yield from read_rows(kind, _to_rows(header, text), log, key)
    else:
        yield from access_log.read(chain([first] if first else [], found), log, key)


def read_archive(file: Path, log: Log, key: bytes) -> Iterator[View | Skip]:
    """Yield a view or a skip reason for each row of the files of an export.

    Raises: NoSite, NoExport.
    """
    files: dict[str, list[str]] = defaultdict(list)
    with zipfile.ZipFile(file) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".csv"):
                with archive.open(name) as opened:
                    files[find_kind(read_header(opened.readline()))].append(name)

        def rows(kind: str) -> Iterator[Row | None]:
            for name in files[kind]:
                with archive.open(name) as opened:
                    header = read_header(opened.readline())
                    yield from _to_rows(header, io.TextIOWrapper(opened, "utf-8", "replace", newline=""))

        visitors = Counter[str]()
        for row in rows(VISITORS):
            if row and row["visitors"].isdecimal():
                visitors[row["date"]] += int(row["visitors"])
        kinds = [kind for kind in (GOATCOUNTER, UMAMI, PAGES) if files[kind]]
        if not kinds:
            raise NoExport("the archive has no export of GoatCounter, Plausible or Umami")
        for kind in kinds:
            yield from read_rows(kind, rows(kind), log, key, visitors)


def read_header(line: bytes) -> list[str]:
    """Return the names of columns. GoatCounter writes the version of its format before the first one."""
    names = next(csv.reader([line.decode("utf-8-sig", "replace")]), [])
    if names and names[0].strip().isdecimal():
        names = names[1:]
    return [name.strip().lstrip("0123456789") if not i else name.strip() for i, name in enumerate(names)]


def find_kind(header: list[str]) -> str:
    """Return the kind of a file by its columns; empty if it is none of an export."""
    if {"date", "visitors"} <= set(header) <= OF_VISITORS:
        return VISITORS
    return next((kind for kind, names in COLUMNS.items() if names <= set(header)), "")


def read_rows(
    kind: str, rows: Iterator[Row | None], log: Log, key: bytes, visitors: Mapping[str, int] | None = None
) -> Iterator[View | Skip]:
    """Yield a view or a skip reason for each row, and for those of Plausible as many as they count."""
    if kind == PAGES:
        yield from _read_days(rows, log, key, visitors or {})
        return
    parse = _parse_goatcounter if kind == GOATCOUNTER else _parse_umami
    seen = Counter[Key]()
    for number, row in enumerate(rows, 2):
        try:
            hit = parse(row) if row else Skip.MALFORMED
        except (ValueError, KeyError):
            hit = Skip.MALFORMED
        if hit is Skip.MALFORMED and not log.malformed:
            log.malformed = (number, ",".join((row or {}).values()))
        view = hit if isinstance(hit, Skip) else _to_view(hit, log, key)
        if isinstance(view, View):
            seen[same := event_key(view)] += 1
            view = view._replace(time=view.time + timedelta(microseconds=seen[same] - 1))
        yield view


def _to_rows(header: list[str], lines: Iterable[str]) -> Iterator[Row | None]:
    """Yield the rows of a file, None for one with another number of fields. Raises NoExport."""
    try:
        for values in csv.reader(lines, strict=True):
            if values:
                yield dict(zip(header, values, strict=True)) if len(values) == len(header) else None
    except csv.Error as error:
        raise NoExport(f"a row is malformed: {error}") from None


def _to_view(hit: Hit, log: Log, key: bytes) -> View | Skip:
    try:
        written, url = access_log.build_url(hit.target, log.base(hit.host))
    except ValueError:
        return Skip.BAD_URL
    found = access_log.count_page(log, written, url, hit.source)
    if isinstance(found, Skip):
        return found
    url, source = found
    client = _identify(log, key, url, hit.time, hit.visitor)
    return View(url, hit.time, client, source, goal=hit.goal, traits=hit.traits)


def _identify(log: Log, key: bytes, url: str, time: datetime, visitor: str) -> str:
    host = urls.host(url)
    day, _ = log.find(host).place(time)
    return hmac.digest(key, f"export {host} {day} {visitor}".encode(), "sha256").hex()[:24]


# -- formats -------------------------------------------------------------------------------------------


def _parse_goatcounter(row: Row) -> Hit | Skip:
    """Parse a row of GoatCounter. Raises ValueError, KeyError."""
    if row["Bot"] not in ("", "0"):
        return Skip.CRAWLER
    is_event = row["Event"].lower() in ("true", "1")
    goal = sites.read_goal(row["Path"]) if is_event else ""
    if goal is None or (is_event and not goal):
        raise ValueError("no goal")
    referrer = row.get("Referrer", "")
    if referrer and "://" not in referrer and row.get("Referrer scheme") in ("h", ""):
        referrer = f"https://{referrer}"
    known = traits.read_user_agent(row.get("UserAgent", ""))
    known = known._replace(country=_find_country(row.get("Location", "").partition("-")[0]))
    known = known._replace(
        browser=known.browser or _find_word(traits.BROWSERS, row.get("Browser", "")),
        os=known.os or _find_word(traits.SYSTEMS, row.get("System", "")),
    )
    target = "/" if is_event else "/" + row["Path"].lstrip("/")
    is_name = row.get("Referrer scheme") in ("g", "c", "o")  # a group, a campaign, another
    source = {"source" if is_name else "referrer": referrer}
    return Hit("", target, times.parse(row["Date"]), row["Session"], source, goal, known)


def _parse_umami(row: Row) -> Hit | Skip:
    """Parse a row of Umami. Raises ValueError, KeyError."""
    goal = sites.read_goal(row["event_name"]) if row.get("event_name") else ""
    if goal is None:
        raise ValueError("no goal")
    query = row.get("url_query", "").lstrip("?")
    domain = row.get("referrer_domain", "")
    words = row.get("language", "").split("-")[0].lower()
    known = Traits(
        _find_country(row.get("country", "")),
        _find_word(traits.DEVICES, row.get("device", "").replace("laptop", "desktop")),
        _find_word(traits.BROWSERS, row.get("browser", "").replace("crios", "chrome")),
        _find_word(traits.SYSTEMS, row.get("os", "")),
        words if words in traits.LANGUAGES else "",
    )
    moment = row["created_at"].strip()
    is_local = not moment.endswith("Z") and "+" not in moment
    return Hit(
        row.get("hostname", ""),
        row["url_path"] + (f"?{query}" if query else ""),
        times.parse(f"{moment}Z" if is_local else moment),
        row["session_id"],
        {"referrer": f"https://{domain}/" if domain else "", "source": row.get("utm_source", "")},
        goal,
        known,
    )


def _find_word(words: Iterable[str], text: str) -> str:
    """Return the word of a vocabulary with which a name begins, without blanks."""
    name = text.lower().replace(" ", "")
    found = (word for word in words if name.startswith(word.lower().replace(" ", "")))
    return next(found, traits.OTHER if name else "")


def _find_country(code: str) -> str:
    return code if code in traits.countries() else ""


# -- days ----------------------------------------------------------------------------------------------


def _read_days(
    rows: Iterator[Row | None], log: Log, key: bytes, visitors: Mapping[str, int]
) -> Iterator[View | Skip]:
    """Yield the views that the rows of pages count. Memory: about 200 bytes per row."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)  # views by day, site and page
    clients: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)  # visitors
    for number, row in enumerate(rows, 2):
        try:
            if row is None:
                raise ValueError("another number of columns")
            day = date.fromisoformat(row["date"]).isoformat()
            numbers = [int(row[name]) for name in ("pageviews", "visitors")]
            if not all(0 <= number <= MAX_VIEWS for number in numbers):
                raise ValueError("no number of views")
        except ValueError:
            log.malformed = log.malformed or (number, ",".join((row or {}).values()))
            yield Skip.MALFORMED
            continue
        try:
            written, url = access_log.build_url(row["page"], log.base(row.get("hostname", "")))
        except ValueError:
            yield Skip.BAD_URL
            continue
        found = access_log.count_page(log, written, url, {"referrer": url})
        if isinstance(found, Skip):
            yield found
            continue
        place = day, urls.host(found[0])
        counts[place][found[0]] += numbers[0]
        clients[place][found[0]] += numbers[1]
    hosts = Counter(day for day, _ in counts)
    for (day, host), views in sorted(counts.items()):
        of_pages = clients[day, host]
        most = max(min(of_pages[url], count) for url, count in views.items())
        total = max(most, visitors.get(day, 0) if hosts[day] == 1 else 0)
        yield from _make_views(log, key, day, views, of_pages, total)


def _make_views(
    log: Log, key: bytes, day: str, views: Counter[str], visitors: Counter[str], total: int
) -> Iterator[View]:
    """Yield the views of a day's pages by `total` visitors, who view the pages in turn."""
    following = 0
    for url, count in sorted(views.items()):
        noon = log.find(urls.host(url)).begin(date.fromisoformat(day)) + NOON
        own = max(1, min(visitors[url], count))
        for number in range(count):
            turn, place = divmod(number, own)
            client = _identify(log, key, url, noon, f"{(following + place) % max(1, total)}")
            yield View(url, noon + turn * STEP, client)
        following += own if count else 0
