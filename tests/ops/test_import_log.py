"""Each view of an access log counts once, and each other line has a skip reason."""

from __future__ import annotations

import calendar
import gzip
import importlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import unquote

import click
import pytest
from click.testing import CliRunner, Result
from crawleruseragents import CRAWLER_USER_AGENTS_DATA

from chalicelib.aggregates import engine, sums
from chalicelib.dynamo.items import Item, Key, pack
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from chalicelib.views import events as views
from chalicelib.views.events import CLIENT_ID, View
from chalicelib.views.sources import Source
from ops.cli import imports
from ops.cli.main import main
from ops.imports import access_log
from ops.imports.access_log import LIFE, Log, Request, Skip, derive_client_key, is_counted, wait
from tests.support.records import scan

LOG = Path(__file__).parents[1] / "data" / "access.log.gz"
SITE = "https://www.example.com"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def parse(text: str, site: str = SITE) -> Request | Skip | None:
    return access_log.parse(text, Log({site.partition("://")[2]: site}, Settings(stage="local")))


def read(lines: list[bytes], site: str, key: bytes) -> Iterator[View | Skip]:
    return access_log.read(lines, Log({site.partition("://")[2]: site}, Settings(stage="local")), key)


def line(
    request: str = "GET /a HTTP/1.1",
    status: str = "200",
    *,
    address: str = "192.0.2.1",
    time: str = "17/May/2015:10:05:03 +0000",
    referrer: str = "-",
    agent: str = FIREFOX,
) -> str:
    return f'{address} - - [{time}] "{request}" {status} 203023 "{referrer}" "{agent}"'


# -- one line ------------------------------------------------------------------------------------------


def test_a_successful_request_for_a_page_is_a_view() -> None:
    moment = datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)
    assert parse(line(), SITE) == Request(f"{SITE}/a", moment, "192.0.2.1", FIREFOX, Source(is_direct=True))
    assert isinstance(parse(line(status="304"), SITE), Request)


@pytest.mark.parametrize(
    ("referrer", "host"),
    [
        ("https://News.example/a?b", "news.example"),
        (f"{SITE}/b", ""),
        ("-", ""),
        ("", ""),
        ('https://a.example/\\"', "a.example"),
        ("not an address", ""),
    ],
)
def test_the_referrer_of_a_line_is_the_host_of_another_site(referrer: str, host: str) -> None:
    found = parse(line(referrer=referrer), SITE)
    assert isinstance(found, Request)
    assert found.source.name == host


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/", "/"),
        ("/a/../b/%7euser?q=1#top", "/b/~user?q=1"),
        (r"/caf\xc3\xa9", "/caf%C3%A9"),
        ("/café", "/caf%C3%A9"),
        (r"/a\"b\\c", "/a%22b%5Cc"),
        ("/%ff", "/%FF"),
        (f"{SITE}/absolute", "/absolute"),
        ("HTTPS://WWW.Example.com:443/absolute", "/absolute"),
        ("/blog/", "/blog/"),
        ("/archive.zip/", "/archive.zip/"),
        ("/v1.2", "/v1.2"),
        ("/index.php?format=html", "/index.php?format=html"),
        ("/feeding", "/feeding"),
        ("/a?image=x.png", "/a?image=x.png"),
        ("/a.pdf.html", "/a.pdf.html"),
    ],
)
def test_a_views_address_is_canonical(target: str, path: str) -> None:
    found = parse(line(f"GET {target} HTTP/1.1"), SITE)
    assert isinstance(found, Request)
    assert found.url == SITE + path


@pytest.mark.parametrize(
    "odd",
    [
        line(agent=r"Mozilla/5.0 (\"quoted\" \\) Firefox/140.0"),
        line(referrer=r"https://example.org/?q=\"a\" \"b\""),
        line(address="2001:db8::1"),
        line(address="host.example.org"),
        line().replace(" - - ", " - john doe [x] "),
        line("GET /a"),  # HTTP/0.9
        line("GET /a HTTP/2"),
        line() + ' "www.example.com" 1234',
    ],
)
def test_an_odd_line_may_be_a_view(odd: str) -> None:
    found = parse(odd, SITE)
    assert isinstance(found, Request)
    assert found.url == f"{SITE}/a"


NO_VIEWS = [
    ("", "malformed"),
    ("-", "malformed"),
    (line()[:-1], "malformed"),
    (line()[:60], "malformed"),
    (line().rpartition(' "')[0], "malformed"),  # neither common nor combined
    (line(time="17/Mai/2015:10:05:03 +0000"), "malformed"),
    (line(time="31/Feb/2015:10:05:03 +0000"), "malformed"),
    (line(time="17/May/2015:10:05:60 +0000"), "malformed"),
    (line(time="17/May/2015:10:05:03 +2400"), "malformed"),
    (line(time="01/Jan/0001:00:05:03 +0100"), "malformed"),
    (line(time="2015-05-17T10:05:03+00:00"), "malformed"),
    (line(status="20"), "malformed"),
    (line("-", "408"), "not_a_get"),
    (line("", "400"), "not_a_get"),
    (line("HEAD / HTTP/1.1"), "not_a_get"),
    (line("POST / HTTP/1.1"), "not_a_get"),
    (line("OPTIONS * HTTP/1.0"), "not_a_get"),
    (line("CONNECT www.example.com:443 HTTP/1.1"), "not_a_get"),
    (line("get / HTTP/1.1"), "not_a_get"),
    (line(r"\x16\x03\x01\x02", "400"), "not_a_get"),
    *((line(status=status), "error_or_redirect") for status in ("206", "301", "404", "416", "500")),
    (line("GET /a.png HTTP/1.1", "404"), "error_or_redirect"),
    (line("GET http://other.example/ HTTP/1.1"), "bad_url"),
    (line("GET http://u:p@www.example.com/ HTTP/1.1"), "bad_url"),
    (line("GET ftp://www.example.com/ HTTP/1.1"), "bad_url"),
    (line("GET a HTTP/1.1"), "bad_url"),
    (line("GET * HTTP/1.1"), "bad_url"),
    (line("GET www.example.com/a HTTP/1.1"), "bad_url"),
    (line("GET /a b HTTP/1.1"), "bad_url"),
    (line("GET  HTTP/1.1"), "bad_url"),
    (line("GET"), "bad_url"),
    (line("GET /" + "a" * 2000), "bad_url"),
    (line("GET http://[::1 HTTP/1.1"), "bad_url"),
    *(
        (line(f"GET {target} HTTP/1.1"), "asset")
        for target in (
            "/a.png",
            "/a.JPG?width=3",
            "/style.css",
            "/a.min.js",
            "/a.woff2",
            "/a.tar.gz",
            "/robots.txt",
            "/favicon.ico",
            "/a%2Epng",
            "/a.pdf",
        )
    ),
    *(
        (line(f"GET {target} HTTP/1.1"), "feed")
        for target in (
            "/blog?flav=rss20",
            "/?flav=ATOM",
            "/?a=1;flav=rss",
            "/?feed=comments-rss2",
            "/feed",
            "/blog/feed/",
            "/feed/atom/",
            "/index.rss",
            "/sitemap.xml",
            "/a.atom?x=1",
            "/a?format=rss",
        )
    ),
    (line(referrer="https://www.semalt.com/a"), "spam"),
    *(
        (line(agent=agent), "crawler")
        for agent in (
            "",
            "-",
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            "curl/8.5.0",
            "python-requests/2.32.3",
        )
    ),
]


@pytest.mark.parametrize(("odd", "reason"), NO_VIEWS)
def test_a_line_that_is_not_a_view_has_a_skip_reason(odd: str, reason: str) -> None:
    assert parse(odd, SITE) == Skip(reason)


def test_every_reason_for_a_skip_is_tested() -> None:
    of_days = {Skip.IMPORTED_ALREADY.value, Skip.SITE_NOT_ALLOWED.value}  # below, and in test_log_formats.py
    assert {reason for _, reason in NO_VIEWS} == {reason.value for reason in Skip} - of_days


@pytest.mark.parametrize("month", range(1, 13))
def test_months_are_parsed_in_any_locale(month: int, monkeypatch: pytest.MonkeyPatch) -> None:
    name = calendar.month_abbr[month]
    monkeypatch.setattr(calendar, "month_abbr", ["", *(f"{i}. mois" for i in range(1, 13))])
    strptime = importlib.import_module("_strptime")  # where datetime keeps what it knows of the locale
    monkeypatch.setattr(strptime, "_TimeRE_cache", strptime.TimeRE())
    monkeypatch.setattr(strptime, "_regex_cache", {})
    with pytest.raises(ValueError, match="does not match"):
        datetime.strptime(name, "%b")  # so the stand-in for another locale works
    found = parse(line(time=f"02/{name}/2015:03:04:05 -0130"), SITE)
    assert isinstance(found, Request)
    assert found.time == datetime(2015, month, 2, 4, 34, 5, tzinfo=UTC)


def test_bytes_that_are_no_text_are_read_as_apache_writes_them() -> None:
    junk = line("GET /\u2603 HTTP/1.1").encode().replace("\u2603".encode(), b"\xff\xfe")
    escaped = line(r"GET /\xff\xfe HTTP/1.1").encode()
    assert list(read([junk + b"\r\n"], SITE, b"k")) == list(read([escaped], SITE, b"k"))
    assert list(read([b"\x00\xff\n", b"\n", bytes(range(256))], SITE, b"k")) == [Skip.MALFORMED] * 3


@pytest.mark.security
def test_a_client_is_an_address_with_an_agent_on_one_day_under_a_key() -> None:
    def client(text: str, key: bytes = b"k") -> str:
        [view] = read([text.encode()], SITE, key)
        assert isinstance(view, View)
        assert CLIENT_ID.fullmatch(view.client)
        return view.client

    visitor = client(line())
    assert len(visitor) == 24
    assert visitor == client(line("GET /b HTTP/1.1", time="17/May/2015:23:59:59 +0000"))
    assert visitor != client(line(time="18/May/2015:00:00:00 +0000"))  # two days cannot be linked
    assert client(line(address="2001:db8::1")) == client(line(address="2001:db8::2"))  # of one network
    assert (
        len({visitor, client(line(address="::1")), client(line(agent="Firefox")), client(line(), b"l")}) == 4
    )


# -- the command ---------------------------------------------------------------------------------------


def run(*words: str, stage: str = "dev", stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(
        main, ["import-log", *words, "--site", SITE, "--stage", stage, "--no-wait"], input=stdin
    )


def items(table: Table) -> list[Item]:
    """Return the items of views."""
    return [item for item in scan(table) if item["sk"].startswith("T#")]


def log_file(folder: Path, *lines: str) -> str:
    (folder / "access.log").write_text("".join(f"{text}\n" for text in lines))
    return str(folder / "access.log")


def test_several_requests_of_a_client_in_a_second_are_one_view(table: Table, tmp_path: Path) -> None:
    other = line(time="17/May/2015:12:05:03 +0200")
    done = run(log_file(tmp_path, line(), line(), other, line(address="::1"), "x"), "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {
        "lines": 5,
        "views": 4,
        "distinct": 2,
        "pages": 1,
        "skipped": {reason.value: int(reason is Skip.MALFORMED) for reason in Skip},
        "counted": None,
    }
    assert [item["pk"] for item in items(table)] == [f"URL#{SITE}/a"] * 2


def test_the_table_does_not_lead_back_to_an_address(table: Table, tmp_path: Path) -> None:
    """An attacker with every item, who guesses an address and an agent, cannot confirm the guess."""
    run(log_file(tmp_path, line(address="198.51.100.77")))
    whole = scan(table)
    assert "198.51" not in str(whole)
    [view] = items(table)
    client = view["sk"].partition("#CID#")[2]
    parts = [value for item in whole for value in item.values() if isinstance(value, bytes | str)]
    keys = [part if isinstance(part, bytes) else part.encode() for part in parts] + [b""]
    text = line(address="198.51.100.77").encode()
    for key in keys:
        [guess] = read([text], SITE, key)
        assert isinstance(guess, View)
        assert guess.client != client
    [known] = read([text], SITE, derive_client_key(Settings(secret="s" * 32)))
    assert isinstance(known, View)
    assert known.client == client  # only with the stage's secret


def test_an_imported_view_and_its_visitor_expire(table: Table, tmp_path: Path) -> None:
    before = int(time.time())
    run(log_file(tmp_path, line(), line(time="17/May/2015:23:05:03 +0000")))
    first, second = items(table)
    assert set(first) == {"pk", "sk", "ttl", "kept", "direct", "traits"}
    ends = before + LIFE.total_seconds()
    assert ends <= first["ttl"] <= ends + 86_400 + 60
    assert second["ttl"] - first["ttl"] == 13 * 3600  # so that all of a day say the same of their visitors
    visitors = [item for item in scan(table) if item["sk"].startswith("VISITOR#")]
    assert {item["pk"].partition("#")[0] for item in visitors} == {"URL", "SITE"}
    for visitor in visitors:
        assert visitor["hours"] == {10, 23}
        assert visitor["ttl"] >= second["ttl"]


def test_a_day_that_may_have_expired_is_skipped_and_reported(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TTL may have taken its views away: written again, they would count again."""
    file = log_file(tmp_path, line(), line(address="::1"))
    assert run(file).exit_code == 0
    for item in items(table):
        table.delete(Key(item["pk"], item["sk"]))  # as TTL does
    day = access_log.day_key("www.example.com", "2015-05-17")
    soon = int(time.time()) + access_log.MARGIN.total_seconds()
    table.update(day, "SET expires = :soon", values={":soon": int(soon)})
    again = run(file, "--json")
    assert (again.exit_code, items(table)) == (0, [])
    summary = json.loads(again.stdout)
    assert (summary["views"], summary["skipped"]["imported_already"]) == (0, 2)
    assert "skipped 2 views: their days were imported 29 days ago or earlier" in again.stderr
    other = run(log_file(tmp_path, line(time="18/May/2015:10:05:03 +0000")), "--json")
    assert json.loads(other.stdout)["distinct"] == 1


def test_under_another_secret_a_day_is_left_out_too(table: Table, tmp_path: Path) -> None:
    file = log_file(tmp_path, line())
    assert run(file).exit_code == 0
    before = items(table)
    os.environ["HUBBUB_SECRET"] = "t" * 32
    assert json.loads(run(file, "--json").stdout)["skipped"]["imported_already"] == 1
    assert items(table) == before


@pytest.mark.parametrize("batches", [0, 1])
def test_an_import_that_was_killed_is_taken_up_and_counts_once(
    table: Table, tmp_path: Path, batches: int
) -> None:
    file = log_file(tmp_path, *(line(address=f"192.0.2.{i}") for i in range(60)))
    honest = Table.batch_put

    def killed(self: Table, items: Any) -> None:
        honest(self, list(items)[: 25 * batches])
        raise KeyboardInterrupt

    with mock.patch.object(Table, "batch_put", killed):
        assert run(file).exit_code == 130
    assert len(items(table)) == 25 * batches
    assert run(file).exit_code == 0
    whole = items(table)
    assert len(whole) == 60
    assert run(file).exit_code == 0
    assert items(table) == whole


def test_a_log_comes_from_standard_input_plain_or_compressed(table: Table) -> None:
    text = f"{line()}\n".encode()
    for stdin in (text, gzip.compress(text), gzip.compress(text) + gzip.compress(text)):
        done = run("-", "--json", stdin=stdin)
        assert (done.exit_code, json.loads(done.stdout)["distinct"]) == (0, 1)
    assert len(items(table)) == 1


def test_a_line_without_an_end_is_cut_in_malformed_ones(table: Table, tmp_path: Path) -> None:
    done = run(log_file(tmp_path, "x" * 200_000, line()), "--json")
    assert json.loads(done.stdout)["skipped"]["malformed"] == 4
    assert json.loads(done.stdout)["views"] == 1


def failure(done: Result) -> str:
    """The one line that a command failed with."""
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    return done.stderr


def test_an_unreadable_log_is_a_one_line_error(table: Table, tmp_path: Path) -> None:
    missing = str(tmp_path / "none.log")
    assert failure(run(missing)) == f"Error: {missing}: No such file or directory\n"
    assert "Is a directory" in failure(run(str(tmp_path)))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(f"{line()}\n".encode() * 99)[:-20])
    assert "damaged" in failure(run(str(tmp_path / "cut.gz")))
    shown = failure(run(log_file(tmp_path, "a\x1b[31m", "b")))
    assert "no line is in a known format" in shown
    assert r"line 1 is 'a\x1b[31m'" in shown
    for text in ((), ["#Fields: date time"]):
        assert "the file is empty" in failure(run(log_file(tmp_path, *text)))


def test_an_interrupted_import_says_that_it_may_run_again(table: Table, tmp_path: Path) -> None:
    with mock.patch.object(views, "write", side_effect=KeyboardInterrupt):
        done = run(log_file(tmp_path, line()))
    assert done.exit_code == 130
    assert "run it again" in done.stderr


@pytest.mark.parametrize("site", ["www.example.com/a", "example", "ftp://a", f"{SITE}/blog", f"{SITE}?a", ""])
def test_a_malformed_site_is_a_usage_error(table: Table, site: str) -> None:
    assert CliRunner().invoke(main, ["import-log", str(LOG), "--site", site]).exit_code == 2


def test_a_site_without_a_scheme_is_https() -> None:
    context, site = click.Context(click.Command("x")), click.Option(["--site"])
    assert imports._sites(context, site, ("Shop.example.com:443",)) == {
        "shop.example.com": "https://shop.example.com"
    }


def test_a_site_that_is_not_counted_is_a_usage_error(table: Table) -> None:
    os.environ["HUBBUB_SITES"] = "example.com"
    done = run(str(LOG))
    assert done.exit_code == 2
    assert "www.example.com is not a site of the stage (HUBBUB_SITES); example.com is one" in done.stderr
    assert not items(table)


# -- waiting -------------------------------------------------------------------------------------------


def count(table: Table) -> None:
    """Bring the aggregates up to date, as the stream does."""
    for step in range(2):  # the events, then the visitors that they made
        facts = [item for item in scan(table) if item["sk"].startswith(("T#", "VISITOR#")[step])]
        records = [
            {
                "eventID": f"{step}{number}",
                "eventName": "INSERT",
                "dynamodb": {
                    "Keys": pack({"pk": fact["pk"], "sk": fact["sk"]}),
                    "NewImage": pack(fact),
                    "ApproximateCreationDateTime": 1.0,
                },
            }
            for number, fact in enumerate(facts)
        ]
        assert engine.apply(table, [views.contribution], records).applied == len(records)


def test_a_day_is_counted_once_its_views_and_visitors_are(table: Table, tmp_path: Path) -> None:
    run(log_file(tmp_path, line(), line(time="17/May/2015:11:05:03 +0000"), line(address="::1")))
    day = (f"{SITE}/a", "2015-05-17")
    assert not is_counted(table, *day)
    count(table)
    assert is_counted(table, *day)
    table.client.update_item(
        TableName=table.name,
        Key=pack(views.day_key(*day)._asdict()),
        UpdateExpression="ADD c11 :less",
        ExpressionAttributeValues={":less": {"N": "-1"}},
    )
    assert not is_counted(table, *day)


def test_a_view_more_makes_a_day_uncounted_until_it_is(table: Table, tmp_path: Path) -> None:
    run(log_file(tmp_path, line()))
    count(table)
    run(log_file(tmp_path, line(time="17/May/2015:10:05:04 +0000")))  # the same client in the same hour
    assert not is_counted(table, f"{SITE}/a", "2015-05-17")


def test_waiting_ends_when_all_is_counted_or_nothing_moves(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(log_file(tmp_path, line(), line("GET /b HTTP/1.1")))
    days = [(f"{SITE}/a", "2015-05-17"), (f"{SITE}/b", "2015-05-17")]
    monkeypatch.setattr(access_log, "TIMEOUT", 0.0)
    ticks: list[None] = []
    assert not wait(table, days, lambda: ticks.append(None))
    assert not ticks
    count(table)
    assert wait(table, days, lambda: ticks.append(None))
    assert len(ticks) == 2


def test_views_that_are_yet_to_be_counted_are_reported(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_log, "TIMEOUT", 0.0)
    file = log_file(tmp_path, line())
    done = CliRunner().invoke(main, ["import-log", file, "--site", SITE, "--stage", "dev", "--json"])
    assert (done.exit_code, json.loads(done.stdout)["counted"]) == (3, False)
    assert "the stream has not counted all of them yet" in done.stderr


# -- a real log ----------------------------------------------------------------------------------------

# Counted here in another way than the module counts, from the same rule.
NO_PAGE = re.compile(
    r"\.(png|jpe?g|gif|ico|svg|css|js|xsl|ttf|woff|swf|txt|log|xml|pdf|doc|jar|gz|deb|exe|gem|pcap)$", re.I
)
FEED = re.compile(r"[?&]flav=(rss|atom)|/(feed|rss|atom)/?(\?|$)", re.I)
CRAWLERS = [re.compile(entry["pattern"]) for entry in CRAWLER_USER_AGENTS_DATA]

Seen = tuple[str, str, str]  # target, time, and address with User-Agent


@cache
def known_crawler(agent: str) -> bool:
    return agent in ("", "-") or any(pattern.search(agent) for pattern in CRAWLERS)


def counted_by_hand() -> list[Seen]:
    found = []
    for text in gzip.decompress(LOG.read_bytes()).decode().splitlines():
        parts = text.split('"')
        if len(parts) != 7:
            continue
        (start, request, status, _, _, agent, _) = parts
        method, target, *_ = [*request.split(), "", ""]
        if method != "GET" or status.split()[0] not in ("200", "304") or known_crawler(agent):
            continue
        if NO_PAGE.search(target.partition("?")[0]) or FEED.search(target):
            continue
        target = re.sub(r"[?&]utm_.*", "", target)  # of all parameters of such an address
        found.append((target, start[start.index("[") + 1 : start.index("]")], start.split()[0] + agent))
    return found


def per_page(found: set[Seen]) -> Counter[str]:
    return Counter(SITE + unquote(target) for target, _, _ in found)


def readable(pages: dict[str, Any]) -> Counter[str]:
    """Pages by their address without its percent-encoding, which is notation."""
    decoded: Counter[str] = Counter()
    for url, number in pages.items():
        decoded[unquote(url)] += number
    return decoded


@pytest.mark.long
def test_a_real_log_is_counted_as_it_is_by_hand(table: Table) -> None:
    by_hand = counted_by_hand()
    distinct = set(by_hand)
    done = run(str(LOG), "--json")
    summary: dict[str, Any] = json.loads(done.stdout)
    assert summary["lines"] == 10_000
    assert summary["views"] == len(by_hand)
    assert summary["distinct"] == len(distinct)
    assert summary["views"] + sum(summary["skipped"].values()) == summary["lines"]

    written = items(table)
    assert len(written) == len(distinct)
    assert readable(Counter(item["pk"].removeprefix("URL#") for item in written)) == per_page(distinct)

    added = sums.recount([views.contribution], written)
    pages = {
        key.pk[4:]: amount
        for (key, name), amount in added.items()
        if name == "views" and key.sk == "STATISTICS"
    }
    assert readable(pages) == per_page(distinct)
    assert sorted(pages.values(), reverse=True)[:10] == [n for _, n in per_page(distinct).most_common(10)]

    visits = [item for item in scan(table) if item["sk"].startswith("VISITOR#")]
    visitors = sums.recount([views.contribution], visits)
    daily = {(target, time[:11], client) for target, time, client in distinct}
    of_pages = {key.pk[4:]: n for (key, _), n in visitors.items() if key.sk == "STATISTICS"}
    assert readable(of_pages) == per_page(daily)
