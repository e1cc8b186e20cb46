"""Pages that nobody views expire with their sums; a page that is viewed, and an imported history, stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

from chalicelib import settings
from chalicelib.aggregates import engine
from chalicelib.aggregates.sums import FOR_EVER
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from chalicelib.views import events
from chalicelib.views import queries as view_queries
from chalicelib.views.schemas import PageQuery, TopQuery
from chalicelib.views.validation import View
from local.engines.meter import Meter
from ops.aws import template
from ops.maintenance import audit
from ops.maintenance.recount import drift
from ops.maintenance.streams import follow
from tests.support.records import Reader, record, scan

PAGE = "https://example.org/a"
START = datetime(2026, 11, 1, 12, tzinfo=UTC)
STAGE = Settings()
DAY = 86_400
FEATURES = (events.contribution,)


class Aging:
    """A table whose clock a test sets: what TTL would have removed by then is removed as DynamoDB does it."""

    def __init__(self, table: Table, stream: Reader) -> None:
        self.table, self._stream = table, stream
        self.now = START

    def view(self, client: str, *, ago: float = 0, stage: Settings = STAGE, imported: bool = False) -> None:
        seen = View(PAGE, self.now - timedelta(days=ago), client)
        expiry = (lambda _: int(self.now.timestamp()) + 30 * DAY) if imported else None
        events.write(self.table, [seen], stage, self.now, expiry=expiry)
        self.apply()

    def apply(self) -> None:
        while records := self.new():
            engine.apply(self.table, FEATURES, records, now=lambda: self.now.timestamp())
        assert drift(FEATURES, scan(self.table)) == {} or self.has_expired

    def new(self) -> list[Any]:
        """Read what is new: a whole stream each time, for moto's iterators lose their place at its end."""
        records = self._stream.again().read()
        self._read, records = len(records), records[self._read :]
        return records

    has_expired, _read = False, 0

    def later(self, days: float) -> None:
        """Let time pass; what expires leaves records of DynamoDB's own, which the engine sees."""
        self.now += timedelta(days=days)
        gone = [item for item in scan(self.table) if item.get("ttl", 10**12) < self.now.timestamp()]
        for item in gone:
            self.table.delete(Key(item["pk"], item["sk"]))
        self.has_expired |= bool(gone)
        self.new()  # the records of these deletions have no userIdentity here
        service = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
        records = [record(item, None, userIdentity=service) for item in gone]
        report = engine.apply(self.table, FEATURES, records, now=lambda: self.now.timestamp())
        assert report.ignored == len(records)

    def page(self) -> Item:
        return self.table.get(events.page_key(PAGE), consistent=True) or {}

    def kinds(self) -> set[str]:
        return {item["sk"].split("#")[0] for item in scan(self.table) if item["pk"].startswith("URL#")}

    def count(self) -> tuple[int, int]:
        found = events.count(self.table, PageQuery(url=PAGE))
        return found.views, found.uniques


@pytest.fixture
def aging(moto_table: template.Table) -> Aging:
    table = Table(moto_table.name, boto3.client("dynamodb"))
    return Aging(table, Reader(boto3.client("dynamodbstreams"), moto_table.stream_arn))


def test_a_page_without_a_view_expires_with_all_that_is_of_it_and_comes_back_from_0(aging: Aging) -> None:
    aging.view("a")
    aging.view("b")
    aging.later(60)
    assert aging.kinds() == {"STATISTICS", "DAY"}
    aging.later(339.9)
    assert aging.count() == (2, 2)
    aging.later(1)  # the days go first
    assert (aging.kinds(), aging.count()) == ({"STATISTICS"}, (2, 2))
    aging.later(7)
    assert aging.kinds() == set()
    assert aging.count() == (0, 0)
    assert view_queries.top(aging.table, TopQuery(site="example.org")).items == []
    aging.view("a")
    assert aging.count() == (1, 1)


def test_a_page_that_is_viewed_lives_on_and_its_total_goes_on(aging: Aging) -> None:
    for _ in range(5):
        aging.view("a")
        aging.later(390)
    assert aging.count() == (5, 5)
    aging.view("a")
    assert aging.count() == (6, 6)


def test_a_view_that_comes_late_never_shortens_a_life(aging: Aging) -> None:
    aging.view("a")
    before = aging.page()["ttl"]
    aging.view("b", ago=6.9)
    assert aging.page()["ttl"] == before == START.timestamp() + 407 * DAY
    aging.later(400)
    assert aging.count() == (2, 2)


def test_a_page_outlives_its_days_and_a_day_its_events(aging: Aging) -> None:
    """Whatever the settings: else a series could be more than its total, or a fact outlive its sum."""
    least = settings.read({"HUBBUB_VIEWS_WINDOW_DAYS": "20", "HUBBUB_PAGE_DAYS": "43"})
    for stage in (STAGE, least):
        aging.view("c", ago=3, stage=stage)
        aging.view("d", ago=-stage.views_ahead / timedelta(days=1), stage=stage)
        week = 7 * DAY
        ttl: dict[str, list[int]] = {}
        for item in scan(aging.table):
            if item["pk"].startswith("URL#"):
                ttl.setdefault(item["sk"].split("#")[0], []).append(int(item["ttl"]))
        assert max(ttl["T"] + ttl["VISITOR"]) + week <= min(ttl["DAY"])
        assert max(ttl["DAY"]) + week <= min(ttl["STATISTICS"])
        for item in scan(aging.table):
            aging.table.delete(Key(item["pk"], item["sk"]))
        aging.has_expired = True
        aging.new()


@pytest.mark.parametrize("order", [(False, True), (True, False), (True,)])
def test_an_imported_history_stays_for_ever_with_its_sums(aging: Aging, order: tuple[bool, ...]) -> None:
    for is_imported in order:
        aging.view(f"c{is_imported}", imported=is_imported)
    assert aging.page()["ttl"] == FOR_EVER.value
    aging.later(5000)
    assert aging.count() == (len(order), len(order))
    assert {"STATISTICS", "DAY"} <= aging.kinds()
    aging.view("later")
    aging.later(5000)
    assert aging.count()[0] == len(order) + 1


def test_a_batch_of_both_is_kept(aging: Aging) -> None:
    events.write(aging.table, [View(PAGE, START, "a")], STAGE, START)
    expiry = int(START.timestamp()) + 30 * DAY
    events.write(aging.table, [View(PAGE, START, "b")], STAGE, START, expiry=lambda _: expiry)
    events.write(aging.table, [View(PAGE, START, "c")], STAGE, START)
    aging.apply()
    assert (aging.page()["ttl"], aging.page()["gsi1sk"]) == (FOR_EVER.value, 3)


def test_with_0_days_pages_never_expire_and_those_that_would_do_no_more_once_they_are_viewed(
    aging: Aging,
) -> None:
    never = settings.read({"HUBBUB_PAGE_DAYS": "0"})
    aging.view("a")
    aging.view("b", stage=never)
    assert aging.page()["ttl"] == FOR_EVER.value
    aging.later(9000)
    assert aging.count() == (2, 2)
    aging.view("c")  # the setting is back
    aging.later(500)
    assert aging.count() == (0, 0)


def test_a_redrive_of_an_old_image_lets_a_page_live_and_does_not_end_it(aging: Aging) -> None:
    """The life begins when a view is added, not when it was."""
    aging.view("a")
    aging.later(300)
    old = View(PAGE, START, "poison")
    item = events._item(old, STAGE)
    engine.apply(aging.table, FEATURES, [record(None, item)], now=lambda: aging.now.timestamp())
    assert aging.page()["ttl"] == int(aging.now.timestamp()) + 407 * DAY


def test_an_audit_finds_no_drift_in_what_has_expired_and_mends_what_should_be_kept(aging: Aging) -> None:
    following = follow(aging.table, boto3.client("dynamodbstreams"))

    def look() -> audit.Audit:
        return audit.audit(aging.table, FEATURES, following, 0, lambda _: None, lambda _: None)

    aging.view("a")
    aging.view("b", ago=3)
    for days in (0, 30, 371, 7):
        aging.later(days)
        assert look().drifted == {}
    assert aging.kinds() == set()
    aging.view("c")
    assert look().drifted == {}
    aging.view("d", imported=True)
    names = {"#ttl": "ttl"}
    for key in (
        events.page_key(PAGE),
        events.day_key(PAGE, f"{aging.now:%Y-%m-%d}"),
    ):  # as version 0.1.0 had it
        aging.table.update(key, "REMOVE kept SET #ttl = :soon", names=names, values={":soon": 2_000_000_000})
    list(following.records())
    found = look()
    assert {name for _, name in found.drifted} == {"kept", "ttl"}
    audit.repair(aging.table, found)
    assert (aging.page()["kept"], aging.page()["ttl"]) == (FOR_EVER.value, FOR_EVER.value)
    assert look().drifted == {}


def test_events_of_an_earlier_version_leave_the_life_of_a_page_alone(aging: Aging) -> None:
    item = events._item(View(PAGE, START, "a"), STAGE)
    del item["days"]
    aging.table.put(item)
    aging.apply()
    assert "ttl" not in aging.page()
    aging.view("b")
    assert "ttl" in aging.page()


def test_a_longer_life_costs_no_write(aging: Aging) -> None:
    """The TTL is set by the update that adds: the same units as for pages that never expire."""

    def units(stage: Settings, url: str) -> tuple[float, int]:
        seen: list[Any] = [View(url, START - timedelta(minutes=i), f"c{i % 5}") for i in range(20)]
        events.write(aging.table, seen[:10], stage, START)
        aging.apply()
        with Meter(aging.table.client) as meter:
            events.write(aging.table, seen[10:], stage, START)
            aging.apply()
        return meter.write_units, meter.calls

    assert units(STAGE, "https://example.org/b") == units(Settings(page_days=0), "https://example.org/c")


@pytest.mark.parametrize(
    ("environment", "days"),
    [
        ({}, 400),
        ({"HUBBUB_PAGE_DAYS": "0"}, 0),
        ({"HUBBUB_PAGE_DAYS": "30"}, 30),
        ({"HUBBUB_VIEWS_WINDOW_DAYS": "1000"}, 1023),
        ({"HUBBUB_PAGE_DAYS": "29"}, None),
        ({"HUBBUB_PAGE_DAYS": "-1"}, None),
        ({"HUBBUB_PAGE_DAYS": "400", "HUBBUB_VIEWS_WINDOW_DAYS": "378"}, None),
    ],
)
def test_a_page_has_to_live_longer_than_its_events(environment: dict[str, str], days: int | None) -> None:
    if days is None:
        with pytest.raises(ValueError, match="HUBBUB_PAGE_DAYS"):
            settings.read(environment)
    else:
        assert settings.read(environment).page_days == days
