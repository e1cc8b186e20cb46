"""Addresses and instants: every form of one value has the same canonical form."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from ipaddress import IPv6Address
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib import settings, times, urls
from chalicelib.views import site_queries
from tests.support.site import Site

MESSAGE = r"^must (be|have|start|not have) [^'\"]*$"  # in our words, none of Python's
PARTS = st.text(st.sampled_from("aßü.:[]@%25eC1/?=&+-\u0301\u0338\u3002\u00ad\u2024\u200d"), max_size=20)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("http://example.org", "http://example.org/"),
        ("HTTP://EXAMPLE.ORG/", "http://example.org/"),
        ("http://example.org:80/", "http://example.org/"),
        ("https://example.org:443/a", "https://example.org/a"),
        ("http://example.org/a/./b/../c", "http://example.org/a/c"),
        ("http://example.org/%7euser/%c3%a9", "http://example.org/~user/é"),
        ("http://example.org/a#part", "http://example.org/a"),
        ("http://example.org/?q=%c3%a4%7E", "http://example.org/?q=ä~"),
        ("http://example.org/?a=%", "http://example.org/?a=%25"),
        ("http://example.org/?", "http://example.org/"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://example.org./", "https://example.org/"),
        ("http://example.org/a?#b", "http://example.org/a"),
        ("myblog.com/article1", "https://myblog.com/article1"),
        ("MyBlog.com", "https://myblog.com/"),
        ("myblog.com?u=http://x.org/:1", "https://myblog.com/?u=http://x.org/:1"),
        ("myblog.com#http://x", "https://myblog.com/"),
        ("myblog.com/Talk:1", "https://myblog.com/Talk:1"),
        ("myblog.com:8080/x", "https://myblog.com:8080/x"),
        ("myblog.com:443", "https://myblog.com/"),
        ("localhost:8000/x", "https://localhost:8000/x"),
        ("localhost/x", "https://localhost/x"),
        ("intranet:8080", "https://intranet:8080/"),
        ("192.0.2.1:8080/x", "https://192.0.2.1:8080/x"),
        ("[::1]:8080/x", "https://[::1]:8080/x"),
        ("//myblog.com/a", "https://myblog.com/a"),
        ("bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
        ("straße.example", "xn--strae-oqa.example"),
        ("http://example\u3002org\uff0e/", "http://example.org/"),
        ("http://example.org:0080/", "http://example.org/"),
        ("http://@example.org:/", "http://example.org/"),
        ("http://[::1]/", "http://[0:0:0:0:0:0:0:1]/"),
        ("http://[2001:DB8:0:0::A]:80/a", "http://[2001:db8::a]/a"),
        ("http://example.org/e\u0301", "http://example.org/\u00e9"),
        ("http://example.org/e%CC%81", "http://example.org/%c3%a9"),
        ("http://example.org/?q=e\u0301", "http://example.org/?q=%C3%A9"),
        ("http://example.org/?q=e%CC%81", "http://example.org/?q=\u00e9"),
        ("http://example.org/\U0001fae8\u200d", "http://example.org/%F0%9F%AB%A8%E2%80%8D"),
    ],
)
def test_the_same_page_has_one_address(first: str, other: str) -> None:
    assert urls.canonical(first) == urls.canonical(other)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("http://example.org/", "https://example.org/"),
        ("http://example.org/a", "http://example.org/a/"),
        ("http://example.org/?a=1", "http://example.org/?a=2"),
        ("http://example.org/?a=b=c", "http://example.org/?a=b%3Dc"),
        ("http://example.org/?a&b", "http://example.org/?a%26b"),
        ("http://example.org/a%2Fb", "http://example.org/a/b"),
        ("http://example.org/A", "http://example.org/a"),
        ("http://example.org:8080/", "http://example.org/"),
        ("http://example.org/?a=%2541", "http://example.org/?a=A"),
        ("http://example.org/?a=1%23b", "http://example.org/?a=1"),
        ("http://example.org/?a=1%2Bb", "http://example.org/?a=1+b"),
        ("http://[::1]/", "http://[::2]/"),
        ("https://straße.example", "https://strasse.example"),
    ],
)
def test_other_pages_have_other_addresses(first: str, other: str) -> None:
    assert urls.canonical(first) != urls.canonical(other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "//",
        "/a",
        "/a.html",
        "../a",
        "?a=b.c",
        "#a.b",
        "undefined",
        "http://",
        "http:/example.org/a",
        "https:example.org/a",
        "ftp://example.org/",
        "javascript:alert(1)",
        "javascript:1",
        "mailto:a@example.org",
        "a@example.org",
        "urn:isbn:0451450523",
        "example.org:/a",
        "example.org:99999/a",
        "user:8080@example.org/a",
        "user:secret@example.org/a",
        "http://user:secret@example.org/",
        "http://a b/",
        "http://ex<script>ample.org/",
        "http://[zz]/",
        "http://example.org/\x00",
        "http://example.org/\ud800",
        " http://example.org/",
        "http://example.org/" + "a" * 1500,
        "http://example.org/" + "\u0301\u0327" * 500_000,
        f"http://{'a' * 64}.org/",
        f"http://{'a.' * 127}org/",
        "http://" + "ü." * 127 + "org/",
        "http://example..com/",
        ".example.com/",
        "http://example.com../",
        "http://example\u3002\u3002com/",
        "http://\u3002example.com/",
        "http://./",
        "http://\u00ad.example.com/",
        "http://a\u2024\u2024b.example/",
        "http://[::1/",
        "http://::1/",
        "http://[::1]x/",
        "http://[fe80::1%25eth0]/",
        "http://[192.0.2.1]/",
        "http://[::ffff:192.0.2.1]/",
        "http://[v1.x]/",
        "http://1.2.3/",
        "http://192.0.2.01/",
        "http://192.0.2.256/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://example.org:-1/",
        "http://example.org\\@example.com/",
    ],
)
def test_a_text_that_is_not_an_address_of_a_page_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=MESSAGE):
        urls.canonical(text)


@pytest.mark.parametrize(
    "url",
    [
        "http://" + "ü." * 480 + "b/",
        "http://" + "a." * 740 + "b/",
        "ü." * 480 + "b/",
        "http://" + "ü" * 300,
        "http://a@" + "ü." * 200 + "b",
        "http://example.org/" + "ü" * 750,
        "http://example.org/" + "\U0001f600" * 400,
        "http://example.org/" + "a" * 2_000_000,
    ],
)
def test_an_address_that_is_too_long_is_refused_before_any_of_it_is_normalized(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def normalize(*_: str) -> str:
        raise AssertionError("it is normalized")

    for name in ("normalize_host", "normalize_path", "normalize_component"):
        monkeypatch.setattr(urls, name, normalize)
    with pytest.raises(ValueError, match=r"at most|user name"):
        urls.canonical(url)


@pytest.mark.security
def test_a_host_longer_than_a_dns_name_is_never_normalized(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each label is encoded separately, so the length of a host bounds the work."""
    seen: list[str] = []

    def normalize(host: str) -> str:
        seen.append(host)
        raise ValueError("not now")

    monkeypatch.setattr(urls, "normalize_host", normalize)
    for count in range(1, 700):
        for url in (f"https://{'ü.' * count}b/a/b", f"{'ü.' * count}b:8080", f"http://a@{'ü.' * count}b"):
            with pytest.raises(ValueError, match=r"."):
                urls.canonical(url)
    assert max(map(len, seen)) <= urls.MAX_HOST


HOST_ALONE = "`site` must be a host alone, such as www.example.org"


def refusal(text: str) -> str:
    try:
        urls.canonical(text)
    except ValueError as error:
        return str(error)
    return ""


@given(st.text(max_size=60) | PARTS)
def test_canonicalization_is_idempotent(text: str) -> None:
    for candidate in (
        text,
        f"http://{text}",
        f"{text}.org/",
        f"http://[{text}]/",
        f"https://example.org/{text}",
        f"https://example.org/?{text}",
    ):
        problem = refusal(candidate)
        if problem:
            assert re.match(MESSAGE, problem)
            continue
        once = urls.canonical(candidate)
        assert urls.canonical(once) == once
        assert len(once.encode()) <= urls.MAX_LENGTH
        assert "#" not in once
        assert urls.host(once)


@given(st.integers(2**48, 2**128 - 1).map(IPv6Address))
def test_an_ipv6_address_has_one_notation(address: IPv6Address) -> None:
    notations = {str(address), address.exploded, str(address).upper()}
    assert {urls.canonical(f"http://[{notation}]/") for notation in notations} == {
        f"http://[{address.compressed}]/"
    }


@pytest.mark.security
def test_the_list_of_sites_and_the_calls_read_a_host_as_addresses_do(site: Site) -> None:
    for host in ("straße.de", "STRASSE.de", "bücher.example.", "[0:0::1]", "::1"):
        url = urls.canonical(f"http://{f'[{host}]' if host == '::1' else host}/")
        stage = settings.read({"HUBBUB_STAGE": "dev", "HUBBUB_SITES": host})
        assert stage.sites == {urls.host(url)}
        assert site_queries.parse_site(host) == urls.host(url)
    for host in ("a..b", ".a", "a:80", "a b", "https://a", "a#b", "*.*", "a/b", "", "@a", "[::1", "1.2"):
        status, answer = site.call("GET", f"/views/top?site={quote(host, safe='')}")
        assert (status, answer["message"]) == (400, HOST_ALONE) or not host
        if host and "/" not in host:
            with pytest.raises(ValueError, match="HUBBUB_SITES"):
                settings.read({"HUBBUB_STAGE": "dev", "HUBBUB_SITES": host})


@given(st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29)), st.integers(-1439, 1439))
def test_an_instant_is_the_same_in_every_offset(naive: datetime, minutes: int) -> None:
    there = naive.replace(tzinfo=UTC).astimezone(timezone(timedelta(minutes=minutes)))
    assert times.parse(there.isoformat()) == there
    assert times.to_sort_key(there) == times.to_sort_key(naive.replace(tzinfo=UTC))
    assert times.parse(times.to_iso(there)) == there


@given(*[st.datetimes(timezones=st.just(UTC))] * 2)
def test_the_order_of_keys_is_the_order_of_time(first: datetime, other: datetime) -> None:
    assert (times.to_sort_key(first) < times.to_sort_key(other)) == (first < other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-11-21",
        "2026-11-21T10:00:00",
        "2026-02-30T10:00:00Z",
        "2026-11-21T10:00:60Z",
        "2026-11-21T23:59:60+01:00",
        "2026-11-21T23:59:61Z",
        "2026-11-21T24:00:01Z",
        "2026-11-21T24:01Z",
        "2026-11-21T25:00Z",
        "2026-11-21T10:60Z",
        "2026-11-21T10:00:00+01:60",
        "2026-11-21T10:00:00+0160",
        "2026-11-21T10:00:00+24:00",
        "2026-11-21T10:00:00+01:00:30",
        "2026-11-21T10:00:00 +01:00",
        "2026-11-21T10:00:00.Z",
        "2026-366T10:00Z",
        "2026-000T10:00Z",
        "2026-W54-1T10:00Z",
        "2026-W47-8T10:00Z",
        "2026-W47T10:00Z",
        "2026-11T10:00Z",
        "2026-1121T10:00Z",
        "+2026-11-21T10:00:00Z",
        "9999-12-31T24:00Z",
        "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-11-21x10:00:00Z",
        "2026-11-21T10:00:00Z\0",
        "2026-11-21T10:00:00\0Z",
        "1763719200",
        "２０２６-11-21T10:00:00Z",
    ],
)
def test_a_text_that_is_not_an_instant_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        times.parse(text)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("20261121T100000Z", "2026-11-21T10:00:00Z"),
        ("2026-11-21t10:00:00z", "2026-11-21T10:00:00Z"),
        ("2026-11-21 10:00Z", "2026-11-21T10:00:00Z"),
        ("2026-11-21T10Z", "2026-11-21T10:00:00Z"),
        ("2026-11-21T10:00:00,5Z", "2026-11-21T10:00:00.5Z"),
        ("2026-11-21T10:00:00-00:00", "2026-11-21T10:00:00Z"),
        ("2026-11-21T10:00:00+0530", "2026-11-21T04:30:00Z"),
        ("2026-11-21T10:00:00+05", "2026-11-21T05:00:00Z"),
        ("2026-325T10:00:00Z", "2026-11-21T10:00:00Z"),
        ("2026325T100000Z", "2026-11-21T10:00:00Z"),
        ("2024-366T00:00Z", "2024-12-31T00:00:00Z"),
        ("2026-W47-6T10:00:00Z", "2026-11-21T10:00:00Z"),
        ("2026W476T10:00:00Z", "2026-11-21T10:00:00Z"),
        ("2026-11-20T24:00:00Z", "2026-11-21T00:00:00Z"),
        ("2026-12-31T24:00:00.000+01:00", "2026-12-31T23:00:00Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
        ("2016-12-31T18:59:60.25-05:00", "2017-01-01T00:00:00.25Z"),
        ("2017-01-01T05:29:60+05:30", "2017-01-01T00:00:00Z"),
    ],
)
def test_an_instant_may_have_any_notation_of_iso_8601(text: str, same: str) -> None:
    assert times.parse(text) == datetime.fromisoformat(same)


@given(st.text(st.sampled_from("0123456789-:.+TZW "), max_size=30))
def test_what_is_accepted_is_read_as_python_reads_it(text: str) -> None:
    try:
        found = times.parse(text)
    except ValueError:
        return
    if "T24" not in text and ":60" not in text and not re.match(r"\d{4}-?\d{3}[T ]", text):
        assert found == datetime.fromisoformat(text)


def test_an_instant_is_truncated_to_microseconds() -> None:
    assert times.parse("2026-11-21T10:00:00.1234569Z").microsecond == 123456


def test_a_date_as_a_bound_stands_for_its_whole_day() -> None:
    day = datetime(2026, 11, 21, tzinfo=UTC)
    assert times.parse_bound("2026-11-21") == day
    assert times.parse_bound("2026-11-21", end=True) == day + timedelta(days=1)
    assert times.parse_bound("2026-11-21T00:00:00Z", end=True) == day
    for text in ("20261121", "2026-325", "2026325", "2026-W47-6", "2026W476"):
        assert times.parse_bound(text, end=True) == day + timedelta(days=1)
    for text in ("2026-11-31", "2026-11", "2026", "2026-11-2", "２０２６-11-21"):
        with pytest.raises(ValueError, match="ISO 8601"):
            times.parse_bound(text)
