"""A log is read in its own format, its lines go to their sites, and the pages are those of posted views."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chalicelib.dynamo.table import Table
from chalicelib.views import definitions
from chalicelib.views.schemas import SiteBody
from ops.cli.main import main
from ops.imports.log_formats import FORMATS, Line, Parser
from tests.support.records import scan

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
AGENT = FIREFOX.replace(" ", "%20")
MOMENT = datetime(2026, 5, 17, 10, 5, 3, tzinfo=UTC)
COMMON = '198.51.100.7 - - [17/May/2026:12:05:03 +0200] "GET /a?x=1 HTTP/1.1" 200 900'
COMBINED = f'{COMMON} "https://news.example/" "{FIREFOX}"'
FIELDS = (
    "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) "
    "cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol"
)


def cloudfront(
    stem: str = "/a", query: str = "x=1", host: str = "www.example.org", agent: str = AGENT
) -> str:
    start = "2026-05-17\t10:05:03\tFRA56-C1\t900\t198.51.100.7\tGET\td111.cloudfront.net"
    return f"{start}\t{stem}\t200\thttps://news.example/\t{agent}\t{query}\t-\tHit\tid==\t{host}\thttps"


def alb(
    request: str = "GET https://www.example.org:443/a?x=1 HTTP/2.0",
    client: str = "198.51.100.7:46532",
    kind: str = "h2",
) -> str:
    start = f"{kind} 2026-05-17T10:05:03.000000Z app/lb/50dc6c495c0c9188 {client} 10.0.0.1:80"
    rest = 'TLS_AES_128_GCM_SHA256 TLSv1.3 arn:aws:x "Root=1-5" "www.example.org" "session-reused" 0'
    made = '2026-05-17T10:05:02Z "forward"'
    return f'{start} 0.0 0.1 0.0 200 200 34 900 "{request}" "{FIREFOX}" {rest} {made}'


BAD_TIMES: list[object] = ["yesterday", None, True, 1e300, -1e300, float("nan"), float("inf"), []]


def caddy(**changes: object) -> str:
    headers = {"User-Agent": [FIREFOX], "Referer": ["https://news.example/"]}
    request = {
        "remote_ip": "198.51.100.7",
        "method": "GET",
        "host": "www.example.org",
        "uri": "/a?x=1",
        "headers": headers,
        "tls": {"version": 772},
    }
    entry = {"level": "info", "ts": 1779012303.0, "request": {**request, **changes}, "status": 200}
    return json.dumps(entry | {key: changes[key] for key in ("ts", "status") if key in changes})


@pytest.mark.parametrize(
    ("lines", "host", "has"),
    [
        ([COMMON], "", ""),
        ([COMBINED], "", "referrer agent"),
        ([f'{COMBINED} "203.0.113.9"'], "", "referrer agent"),
        ([f"www.example.org:443 {COMBINED}"], "www.example.org", "referrer agent"),
        ([f"www.example.org:443 {COMMON}"], "www.example.org", ""),
        ([f"www.example.org {COMBINED}"], "www.example.org", "referrer agent"),
        ([f"- {COMBINED}"], "", "referrer agent"),
        ([caddy()], "www.example.org", "referrer agent"),
        ([caddy(client_ip="198.51.100.7", remote_ip="10.0.0.1")], "www.example.org", "referrer agent"),
        ([caddy(ts="2026-05-17T12:05:03.000+0200")], "www.example.org", "referrer agent"),
        ([caddy(ts="2026/05/17 10:05:03.000")], "www.example.org", "referrer agent"),
        ([caddy(ts="17/May/2026:12:05:03 +0200")], "www.example.org", "referrer agent"),
        ([caddy(ts=1779012303000)], "www.example.org", "referrer agent"),
        (["#Version: 1.0", FIELDS, cloudfront()], "www.example.org", "referrer agent"),
        ([FIELDS, cloudfront(host="-")], "d111.cloudfront.net", "referrer agent"),
        ([FIELDS, cloudfront(agent=AGENT.replace("%", "%25"))], "www.example.org", "referrer agent"),
        ([alb()], "www.example.org:443", "agent"),
        ([alb(kind="https")], "www.example.org:443", "agent"),
    ],
)
def test_a_line_of_each_format_is_read(lines: list[str], host: str, has: str) -> None:
    parser = Parser()
    *none, line = [parser.parse(text) for text in lines]
    assert none in ([], [None], [None, None])
    assert isinstance(line, Line)
    assert (line.address, line.time, line.method, line.status) == ("198.51.100.7", MOMENT, "GET", "200")
    assert line.target.removeprefix("https://www.example.org:443") == "/a?x=1"
    assert line.host == host
    assert line.referrer == ("https://news.example/" if "referrer" in has else None)
    assert line.agent == (FIREFOX if "agent" in has else None)


def test_each_format_reads_a_line_that_no_other_takes_and_is_named_in_the_help() -> None:
    columns = FIELDS.removeprefix("#Fields: ").split()
    lines = [COMMON, caddy(), cloudfront(), alb()]
    read = [[name for name, parse in FORMATS.items() if parse(line, columns)] for line in lines]
    assert sorted(read) == sorted([name] for name in FORMATS)
    text = CliRunner().invoke(main, ["import-log", "--help"]).output
    for name in FORMATS:
        assert name.partition("'")[0] in text


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (COMBINED.replace("198.51.100.7", "2001:db8::1"), "2001:db8::1"),
        (f"www.example.org:443 {COMBINED}".replace("198.51.100.7", "2001:db8::1"), "2001:db8::1"),
        (f"www.example.org:80 {COMBINED}".replace("198.51.100.7", "client.example"), "client.example"),
        (f"[2001:db8::9]:80 {COMBINED}", "198.51.100.7"),
        (alb(client="[2001:db8::1]:46532"), "2001:db8::1"),
        (alb(client="2001:db8::1:46532"), "2001:db8::1"),
        (caddy(remote_ip=None, remote_addr="[2001:db8::1]:46532"), "2001:db8::1"),
    ],
)
def test_the_client_is_known_by_its_address(text: str, address: str) -> None:
    line = Parser().parse(text)
    assert line
    assert (line.address, line.time) == (address, MOMENT)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "#Fields",
        COMMON[:70],
        COMBINED[:-1],
        cloudfront(),  # no columns before it
        alb()[:120],
        alb().replace("2026-05-17T10:05:03", "2026-05-17T10:65:03"),
        caddy()[:-1],
        "{}",
        '{"request": 7}',
        '{"level": "info", "ts": 1779012303.0, "msg": "server running"}',
        *(caddy(ts=ts) for ts in BAD_TIMES),
        *(caddy(uri=uri) for uri in (None, 7, ["/"])),
        caddy(headers={"User-Agent": [7]}),
        caddy(headers=[]),
        "{" * 100_000,
    ],
)
def test_a_line_of_no_format_is_malformed(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Parser().parse(text)


@pytest.mark.parametrize("text", [cloudfront() + "\tmore", cloudfront().replace("10:05:03", "-")])
def test_a_line_with_other_columns_than_its_header_is_malformed(text: str) -> None:
    parser = Parser()
    parser.parse(FIELDS)
    with pytest.raises(ValueError, match=r"\w"):
        parser.parse(text)
    parser.parse("#Fields: date time")
    with pytest.raises(ValueError, match="column"):
        parser.parse("2026-05-17\t10:05:03")


# -- the command ---------------------------------------------------------------------------------------


def run(folder: Path, data: str | bytes, *options: str) -> Result:
    (folder / "log").write_bytes(data.encode() if isinstance(data, str) else data)
    words = ["import-log", str(folder / "log"), "--stage", "dev", "--no-wait", "--json", *options]
    return CliRunner().invoke(main, words)


def pages(table: Table) -> Counter[str]:
    """Return how many views are written of each page."""
    return Counter(item["pk"].removeprefix("URL#") for item in scan(table) if item["sk"].startswith("T#"))


def visitors(table: Table, host: str) -> int:
    return sum(
        item["pk"].startswith(f"SITE#{host}#CLIENT#") and item["sk"].startswith("VISITOR#")
        for item in scan(table)
    )


def _hosted(start: str, second: str, target: str) -> str:
    request = f'[17/May/2026:12:{second} +0200] "GET {target} HTTP/1.1" 200 900'
    return f'{start} - - {request} "-" "{FIREFOX}"\n'


VIRTUAL_HOSTS = (
    _hosted("blog.example.org:443 198.51.100.7", "05:03", "/a")
    + _hosted("blog.example.org:443 198.51.100.8", "05:04", "/a")
    + _hosted("shop.example.org:80 198.51.100.7", "06:00", "/b?utm_source=mail&id=4")
)


@pytest.mark.parametrize(
    ("options", "shop"),
    [
        ((), "http"),
        (("--site", "https://blog.example.org"), "http"),
        (("--site", "https://blog.example.org", "--site", "https://shop.example.org"), "https"),
    ],
)
def test_the_host_of_a_line_chooses_its_site(
    table: Table, tmp_path: Path, options: tuple[str, ...], shop: str
) -> None:
    assert run(tmp_path, VIRTUAL_HOSTS, *options).exit_code == 0
    assert pages(table) == {"https://blog.example.org/a": 2, f"{shop}://shop.example.org/b?id=4": 1}
    assert [visitors(table, f"{name}.example.org") for name in ("blog", "shop")] == [2, 1]


def test_a_log_may_mix_formats_and_shows_its_first_malformed_line(table: Table, tmp_path: Path) -> None:
    lines = [
        "#Version: 1.0",
        FIELDS,
        cloudfront(),
        "no\x07 line",
        alb(),
        caddy(),
        COMBINED,
        COMMON,
        "{",
        COMBINED,
    ]
    done = run(tmp_path, gzip.compress("\r\n".join(lines).encode()), "--site", "https://www.example.org")
    assert done.exit_code == 0
    summary = json.loads(done.stdout)
    assert (summary["lines"], summary["skipped"]["malformed"], summary["views"]) == (8, 2, 6)
    assert pages(table) == {"https://www.example.org/a?x=1": 2}  # with a User-Agent, and without
    assert done.stderr.splitlines() == [r"malformed: line 4 is 'no\x07 line'"]


def test_files_of_several_distributions_are_one_log(table: Table, tmp_path: Path) -> None:
    other = FIELDS.replace("date time", "time date")
    line = "10:05:04\t2026-05-17\t" + cloudfront(host="shop.example.org").split("\t", 2)[2]
    data = gzip.compress(f"{FIELDS}\n{cloudfront()}\n".encode()) + gzip.compress(
        f"{other}\n{line}\n".encode()
    )
    assert run(tmp_path, data).exit_code == 0
    assert pages(table) == {"https://www.example.org/a?x=1": 1, "https://shop.example.org/a?x=1": 1}


@pytest.mark.parametrize(
    ("stem", "page"),
    [("/caf%25C3%25A9", "/caf%C3%A9"), ("/caf%C3%A9", "/caf%C3%A9"), ("/100%2525", "/100%25")],
)
def test_a_path_is_that_of_the_page(table: Table, tmp_path: Path, stem: str, page: str) -> None:
    assert run(tmp_path, f"{FIELDS}\n{cloudfront(stem, '-')}\n").exit_code == 0
    assert pages(table) == {f"https://www.example.org{page}": 1}


def test_a_line_without_a_host_needs_a_site(table: Table, tmp_path: Path) -> None:
    for options in ((), ("--site", "https://a.example", "--site", "https://b.example")):
        done = run(tmp_path, COMBINED, *options)
        assert done.exit_code == 2
        assert "give the site of such lines as --site" in done.stderr
    assert not pages(table)


def test_a_log_counts_pages_and_days_as_its_site_defines(table: Table, tmp_path: Path) -> None:
    """The zone, the paths, the parameters, the slash, the hosts and the ignored addresses of the site."""
    os.environ["HUBBUB_SITES"] = "other.example"
    body = SiteBody(
        timezone="Asia/Kathmandu",
        paths=["/blog/*"],
        query=["page"],
        slash="strip",
        ignore=["203.0.113.0/24"],
        hosts=["www.example.org"],
    )
    definitions.define(table, "example.org", body, datetime(2026, 5, 1, tzinfo=UTC))
    start = 'www.example.org:443 198.51.100.7 - - [17/May/2026:18:{:02}:03 +0000] "GET {} HTTP/1.1" 200 9'
    end = f' "https://example.org/" "{FIREFOX}"'
    lines = [
        start.format(5, "/blog/a/?page=2&fbclid=x&sort=up") + end,
        start.format(20, "/blog/a?page=2") + end,  # the next day in Kathmandu
        start.format(21, "/shop") + end,
        start.format(22, "/blog/a").replace("198.51.100.7", "203.0.113.5") + end,
        start.format(23, "/blog/a").replace("www.example.org", "evil.example") + end,
    ]
    done = run(tmp_path, "\n".join(lines))
    assert done.exit_code == 0
    assert json.loads(done.stdout)["skipped"]["site_not_allowed"] == 3
    assert pages(table) == {"https://example.org/blog/a?page=2": 2}
    events = [item for item in scan(table) if item["sk"].startswith("T#")]
    assert sorted((item["day"], item["hour"]) for item in events) == [("2026-05-17", 23), ("2026-05-18", 0)]
    assert len({item["sk"].partition("#CID#")[2] for item in events}) == 2
    assert not any("referrer" in item for item in events)
