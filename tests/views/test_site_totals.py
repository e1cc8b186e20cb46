"""The total of a site follows from its days, in every interleaving of workers and after any crash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import app
from chalicelib.aggregates import engine
from chalicelib.aggregates.sums import FOREVER, Amount
from chalicelib.dynamo.items import Item, Key
from chalicelib.views import events, sites, totals
from chalicelib.views.events import View
from tests.support.contexts import new_context
from tests.support.interleavings import Memory, Worker, explore
from tests.support.records import record
from tests.support.site import Site

HOST = "example.org"
SECOND = 1_800_000_000
TOTAL = totals.total_key(HOST)
TODAY = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
DAYS = ("2026-11-20", "2026-11-21", "2026-11-22")
RECORDS = {  # by name: a view of a day, or its removal
    f"{name}{number}": record(*pair, second=SECOND + number)
    for number, day in enumerate(DAYS)
    for name in "abc"
    for item in [{"pk": "X", "sk": f"{name}{number}", "day": day}]
    for pair in [(item, None) if name == "c" else (None, item)]
}


def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    return {(sites.day_key(HOST, item["day"]), "views"): 1}


def deliver(*batches: str) -> Worker:
    """A worker that receives batches of records, which are named in a text."""

    def work(table: Any) -> None:
        for batch in batches:
            records = [RECORDS[name] for name in batch.split()]
            engine.apply(table, [contribution], records, derivations=[sites.derive], now=lambda: SECOND + 10)

    return work


def check(table: Memory, has_ended: Sequence[bool], schedule: object) -> None:
    """Check the invariant, and the total of a reader once every batch is acknowledged."""
    days = {key.sk: item for key, item in table.items.items() if key.sk.startswith("DAY#")}
    total = table.items.get(TOTAL, {"gsi1sk": 0, "newest": ""})
    assert total["gsi1sk"] == sum(day.get("in_total", 0) for day in days.values()), schedule
    assert {sk for sk, day in days.items() if "is_newest" in day} == {total["newest"]} - {""}, schedule
    if all(has_ended) and days:
        views = totals.count_views(total, days.get(total["newest"], {}))
        assert views == sum(day["views"] for day in days.values()), schedule


SCENARIOS = [
    [("a0", "a1"), ("b0",)],
    [("a0", "a2"), ("a1",)],
    [("a1", "a1 c1"), ("a0",)],
    [("a0", "a1"), ("a0",)],
]


@pytest.mark.parametrize("workers", SCENARIOS, ids=str)
def test_a_total_is_exact_in_every_interleaving(workers: list[tuple[str, ...]]) -> None:
    assert explore([deliver(*batches) for batches in workers], check) > 20


def without_condition(key: Key, day: Item) -> dict[str, Any]:
    update = INCLUDE(key, day)["Update"]
    names = {name: value for name, value in update.items() if name != "ConditionExpression"}
    return {"Update": names}


INCLUDE: Callable[[Key, Item], dict[str, Any]] = totals._include
FAULTS: dict[str, tuple[str, Any]] = {
    "a day is included although it has changed": ("_include", without_condition),
    "a day is added again in whole": ("_missing", lambda day: day.get("views", 0)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_total_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, *FAULTS[fault])
    with pytest.raises(AssertionError):
        explore([deliver("a0", "a1"), deliver("b0")], check)


def views(site: Site) -> list[tuple[str, int]]:
    return [(item["site"], item["views"]) for item in site.get("/sites", who="admin")["items"]]


def send(site: Site, days_ago: int, client: str) -> None:
    time = (TODAY - timedelta(days=days_ago)).isoformat()
    site.post({"url": f"https://{HOST}/", "time": time, "clientId": client}, who="admin")
    site.settle()


def test_views_of_older_days_and_removed_ones_are_in_the_total(site: Site) -> None:
    for number, days_ago in enumerate((3, 1, 2, 3, 1, 1)):
        send(site, days_ago, f"c-{number}")
        assert views(site) == [(HOST, number + 1)]
    for number, days_ago in ((0, 3), (5, 1)):
        view = View(f"https://{HOST}/", TODAY - timedelta(days=days_ago), f"c-{number}")
        site.table.delete(events.event_key(view))
        site.settle()
    assert views(site) == [(HOST, 4)]


def test_a_total_outlives_the_day_that_changed_it_and_keeps_an_imported_history(site: Site) -> None:
    send(site, 2, "c-1")
    day = site.table.get(sites.day_key(HOST, f"{TODAY - timedelta(days=2):%Y-%m-%d}")) or {}
    total = site.table.get(TOTAL) or {}
    assert total["ttl"] == day["ttl"] + totals.EXTRA_LIFETIME
    imported = View(f"https://{HOST}/", TODAY - timedelta(days=4), "c-2")
    events.write(new_context(site.table, TODAY, app.stage), [imported], expiry=lambda _: int(day["ttl"]))
    site.settle()
    send(site, 1, "c-3")
    total = site.table.get(TOTAL) or {}
    assert (total["ttl"], total["kept"], views(site)) == (FOREVER.value, FOREVER.value, [(HOST, 3)])
