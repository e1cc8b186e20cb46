"""The newest comments as an Atom feed for admins."""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin, urlsplit
from xml.etree import ElementTree

import pytest

from tests.support.shop import P, Shop

ATOM = {"a": "http://www.w3.org/2005/Atom"}
FEED = "https://api.example.org/api/comments"


def read_feed(shop: Shop, query: str = "") -> Any:
    text = shop.get(f"/comments{query}", "admin", Accept="application/atom+xml")
    assert shop.headers["Content-Type"] == "application/atom+xml; charset=utf-8"
    return ElementTree.fromstring(text)


def test_a_feed_has_the_elements_that_atom_requires(shop: Shop) -> None:
    """RFC 4287, 4.1.1 and 4.1.2: id, title and updated; each entry has an author, or the feed has one."""
    hostile = '<script>alert("1")</script> & ]]> \ufffe\nline'
    made = [shop.write("me", text=hostile), shop.write("you", 3)]
    edited = shop.call("PATCH", f"{P}/comments/{made[1]['id']}", {"text": "Late."}, "you")[1]["edited"]
    feed = read_feed(shop)
    for part in (feed, *feed.findall("a:entry", ATOM)):
        for name in ("id", "title", "updated"):
            assert len(part.findall(f"a:{name}", ATOM)) == 1, name
    assert feed.findtext("a:updated", "", ATOM) == edited
    late, first = feed.findall("a:entry", ATOM)
    assert first.findtext("a:content", "", ATOM) == hostile.replace("\ufffe", "\ufffd")
    assert first.findtext("a:author/a:name", "", ATOM) == "me"
    assert late.findtext("a:updated", "", ATOM) == edited
    assert late.findtext("a:title", "", ATOM) == "garment-767, 3 of 5"


def test_the_links_of_a_feed_are_relative_to_its_address(shop: Shop) -> None:
    made = shop.write("me")
    [link] = read_feed(shop).findall("a:entry/a:link", ATOM)
    path = urlsplit(urljoin(FEED, link.attrib["href"])).path.removeprefix("/api")
    assert shop.get(path) == made


@pytest.mark.parametrize("state", ["approved", "pending"])
def test_a_feed_has_pages_without_repeated_ids(shop: Shop, state: str) -> None:
    assert shop.call("PUT", P, {"approve": state == "pending"}, "admin")[0] == 201
    for number in range(5):
        assert shop.write(f"author-{number}")["state"] == state
    ids, query = [], "?limit=2" + "&state=pending" * (state == "pending")
    while True:
        feed = read_feed(shop, query)
        ids += [entry.findtext("a:id", "", ATOM) for entry in feed.findall("a:entry", ATOM)]
        more = [link.attrib["href"] for link in feed.findall("a:link", ATOM) if link.attrib["rel"] == "next"]
        if not more:
            break
        query = f"?limit=2&{more[0].partition('?')[2]}"
    assert len(ids) == len(set(ids)) == 5
    assert all(id.startswith("urn:uuid:") for id in ids)


def test_an_empty_feed_is_valid_and_json_stays_the_default(shop: Shop) -> None:
    feed = read_feed(shop)
    assert feed.findtext("a:updated", "", ATOM) == "1970-01-01T00:00:00Z"
    assert shop.get("/comments", "admin") == {"items": [], "cursor": None}
    assert shop.call("GET", "/comments", who="me", Accept="application/atom+xml")[0] == 403
