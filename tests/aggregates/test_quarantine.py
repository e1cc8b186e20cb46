"""The quarantine that admins read: newest first, each image once, at a bounded cost."""

from __future__ import annotations

import random
from typing import Any

import pytest

from chalicelib import settings
from chalicelib.aggregates import engine, quarantine
from chalicelib.aggregates.quarantine import Poison
from chalicelib.dynamo.items import Item
from tests.support.records import record
from tests.support.site import Site

IMAGE = {"pk": {"S": "PRODUCT#a"}, "sk": {"S": "COMMENT#1"}, "text": {"S": "Fits."}}


def quarantined(second: int, sign: int = 1, image: Any = IMAGE) -> Item:
    poison = Poison(image, sign, "KeyError: 'rating'")
    return quarantine.build_item(random.Random(second).randbytes(12), second, poison, second)


def page(site: Site, query: str = "") -> Any:
    return site.get(f"/quarantine?{query}", who="admin")


def test_an_image_whose_contribution_failed_is_listed_with_the_error(site: Site) -> None:
    broken = {"pk": "PRODUCT#a", "sk": "COMMENT#1", "rating": "five", "language": "en"}

    def contribution(item: Item) -> Any:
        raise ValueError("no rating")

    engine.apply(site.table, (contribution,), [record(None, broken)], now=lambda: 1_700_000_000)
    [image] = page(site)["items"]
    assert image["time"] == "2023-11-14T22:13:20Z"
    assert (image["change"], image["reason"]) == ("written", "ValueError: no rating")
    assert (image["pk"], image["sk"]) == ("PRODUCT#a", "COMMENT#1")
    assert '"rating": {"S": "five"}' in image["image"]


@pytest.mark.parametrize("limit", [pytest.param(1, marks=pytest.mark.long), 7, 20])
def test_pages_list_every_image_once_newest_first(site: Site, limit: int) -> None:
    seconds = random.Random(7).sample(range(1_700_000_000, 1_700_100_000), 50)
    site.table.batch_put(quarantined(second, sign) for second in seconds for sign in (1, -1))
    found: list[tuple[str, str]] = []
    cursor, calls = "", 0
    while cursor is not None:
        reply = page(site, f"limit={limit}" + (f"&cursor={cursor}" if cursor else ""))
        assert len(reply["items"]) <= limit
        found += [(item["time"], item["change"]) for item in reply["items"]]
        cursor, calls = reply["cursor"], calls + 1
    times = [time for time, _ in found]
    assert times == sorted(times, reverse=True)
    assert len(set(found)) == len(found) == 100
    assert calls <= 100 / limit + 1


def test_an_item_that_an_operator_edited_is_listed_as_far_as_it_can_be_read(site: Site) -> None:
    key = {"pk": "QUARANTINE#3", "sk": "1700000000#ab#new"}
    for image, shown in (("{}", "{}"), ("[1]", "[1]"), ("nonsense", None), (7, None), (None, None)):
        site.table.put(key | {"quarantined": "yesterday", "image": image})
        [found] = page(site)["items"]
        assert (found["image"], found["pk"], found["time"], found["reason"]) == (shown, None, None, "")


def test_a_long_image_is_truncated(site: Site) -> None:
    site.table.put(quarantined(1_700_000_000, image={"text": {"S": "x" * 300_000}}))
    assert len(page(site)["items"][0]["image"]) == 2_000


def test_the_cursor_of_another_query_is_refused(site: Site) -> None:
    from chalicelib.api import cursors

    forged = cursors.encode(settings.current(), ("chat/reports",), "1")
    status, reply = site.call("GET", f"/quarantine?cursor={forged}", who="admin")
    assert (status, reply["code"]) == (400, "BadCursor")
