"""Pages without views expire with their sums. Pages with views and imported histories stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

from chalicelib import settings
from chalicelib.aggregates import engine
from chalicelib.aggregates.sums import FOREVER
from chalicelib.api.auth import Caller
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from chalicelib.views import events, site_queries, sites
from chalicelib.views import queries as view_queries
from chalicelib.views.events import View
from chalicelib.views.schemas import PageQuery, TopQuery
from ops.aws import template
from ops.maintenance import audit
from ops.maintenance.audit import find_drift
from ops.maintenance.streams import follow_stream
from tests.support.contexts import new_context
from tests.support.meter import Meter
from tests.support.records import Reader, record, scan

pytestmark = pytest.mark.long


PAGE = "https://example.org/a"
START = datetime(2026, 11, 1, 12, tzinfo=UTC)
STAGE = Settings()
DAY = 86_400
FEATURES = (events.contribution,)


class Aging:
    """A table with a clock that a test sets. Expired items are removed as TTL removes them."""

    def __init__(self, table: Table, stream: Reader) -> None:
        self.table, self.new = table, stream.read
        self.now = START

    def view(self, client: str, *, ago: float = 0, stage: Settings = STAGE, imported: bool = False) -> None:
        seen = View(PAGE, self.now - timedelta(days=ago), client)
        expiry = (lambda _: int(self.now.timestamp()) + 30 * DAY) if imported else None
        events.write(new_context(self.table, self.now, stage), [seen], expiry=expiry)
        self.apply()

    def apply(self) -> None:
        while records := self.new():
            engine.apply(
                self.table,
                FEATURES,
                records,
                derivations=(sites.derive,),
                now=lambda: self.now.timestamp(),
            )
        assert find_drift(FEATURES, scan(self.table)) == {} or self.has_expired

    has_expired = False

    def later(self, days: float) -> None:
        """Move the clock. Expired items leave records of the TTL service, which the engine applies."""
        self.now += timedelta(days=days)
        gone = [item for item in scan(self.table) if item.get("ttl", 10**12) < self.now.timestamp()]
        for item in gone:
            self.table.delete(Key(item["pk"], item["sk"]))
        self.has_expired |= bool(gone)
        self.new()  # the records of these deletions have no userIdentity
        service = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
        records = [record(item, None, userIdentity=service) for item in gone]
        report = engine.apply(
            self.table,
            FEATURES,
            records,
            derivations=(sites.derive,),
            now=lambda: self.now.timestamp(),
        )
        assert report.ignored == len(records)

    def page(self) -> Item:
        return self.table.get(events.page_key(PAGE), consistent=True) or {}

    def kinds(self) -> set[str]:
        return {item["sk"].split("#")[0] for item in scan(self.table) if item["pk"].startswith("URL#")}

    def count(self) -> tuple[int, int]:
        found = view_queries.count_views(self.table, PageQuery(url=PAGE))
        return found.views, found.visitors


@pytest.fixture
def aging(dev_table: template.Table) -> Aging:
    table = Table(dev_table.name, boto3.client("dynamodb"))
    return Aging(table, Reader(boto3.client("dynamodbstreams"), dev_table.stream_arn))


def test_a_page_without_views_expires_with_all_its_items_and_counts_from_0_afterwards(aging: Aging) -> None:
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
    assert (
        site_queries.list_top_pages(
            new_context(aging.table, aging.now), TopQuery(site="example.org"), Caller()
        ).items
        == []
    )
    aging.view("a")
    assert aging.count() == (1, 1)


def test_each_view_extends_the_lifetime_of_its_page(aging: Aging) -> None:
    for _ in range(5):
        aging.view("a")
        aging.later(390)
    assert aging.count() == (5, 5)
    aging.view("a")
    assert aging.count() == (6, 6)


def test_a_late_view_never_shortens_a_lifetime(aging: Aging) -> None:
    aging.view("a")
    before = aging.page()["ttl"]
    aging.view("b", ago=6.9)
    assert aging.page()["ttl"] == before == START.timestamp() + 407 * DAY
    aging.later(400)
    assert aging.count() == (2, 2)


def test_a_page_outlives_its_days_and_a_day_its_events(aging: Aging) -> None:
    """Otherwise a series could be more than its total, or an event could outlive its sum."""
    least = settings.read({"HUBBUB_VIEWS_WINDOW_DAYS": "20", "HUBBUB_PAGE_DAYS": "43"})
    for stage in (STAGE, least):
        aging.view("c", ago=3, stage=stage)
        aging.view("d", ago=-events.AHEAD / timedelta(days=1), stage=stage)
        late, week = 6 * DAY, 7 * DAY  # more than DynamoDB takes to delete what has expired
        ttl: dict[str, list[int]] = {}
        for item in scan(aging.table):
            if item["pk"].startswith("URL#"):
                ttl.setdefault(item["sk"].split("#")[0], []).append(int(item["ttl"]))
        assert max(ttl["T"] + ttl["VISITOR"]) + late <= min(ttl["DAY"])
        assert max(ttl["DAY"]) + week <= min(ttl["STATISTICS"])
        for item in scan(aging.table):
            aging.table.delete(Key(item["pk"], item["sk"]))
        aging.has_expired = True
        aging.new()


@pytest.mark.parametrize("order", [(False, True), (True, False), (True,)])
def test_an_imported_history_and_its_sums_never_expire(aging: Aging, order: tuple[bool, ...]) -> None:
    for is_imported in order:
        aging.view(f"c{is_imported}", imported=is_imported)
    assert aging.page()["ttl"] == FOREVER.value
    aging.later(5000)
    assert aging.count() == (len(order), len(order))
    assert {"STATISTICS", "DAY"} <= aging.kinds()
    aging.view("later")
    aging.later(5000)
    assert aging.count()[0] == len(order) + 1


def test_a_page_with_imported_and_new_views_in_one_batch_never_expires(aging: Aging) -> None:
    events.write(new_context(aging.table, START, STAGE), [View(PAGE, START, "a")])
    expiry = int(START.timestamp()) + 30 * DAY
    events.write(new_context(aging.table, START, STAGE), [View(PAGE, START, "b")], expiry=lambda _: expiry)
    events.write(new_context(aging.table, START, STAGE), [View(PAGE, START, "c")])
    aging.apply()
    assert (aging.page()["ttl"], aging.page()["views"]) == (FOREVER.value, 3)


def test_with_0_days_pages_never_expire_once_they_are_viewed_again(
    aging: Aging,
) -> None:
    never = settings.read({"HUBBUB_PAGE_DAYS": "0"})
    aging.view("a")
    aging.view("b", stage=never)
    assert aging.page()["ttl"] == FOREVER.value
    aging.later(9000)
    assert aging.count() == (2, 2)
    aging.view("c")  # the setting is back
    aging.later(500)
    assert aging.count() == (0, 0)


def test_an_old_view_that_is_added_late_extends_the_lifetime(aging: Aging) -> None:
    """A lifetime begins when the view is added, and not at the view's time."""
    aging.view("a")
    aging.later(300)
    old = View(PAGE, START, "poison")
    item = events.build_item(old, STAGE)
    engine.apply(aging.table, FEATURES, [record(None, item)], now=lambda: aging.now.timestamp())
    assert aging.page()["ttl"] == int(aging.now.timestamp()) + 407 * DAY


def test_an_audit_finds_no_drift_after_expiry_and_repairs_a_missing_kept(aging: Aging) -> None:
    following = follow_stream(aging.table, boto3.client("dynamodbstreams"))

    def look() -> audit.AuditResult:
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
    for key in (events.page_key(PAGE), events.day_key(PAGE, f"{aging.now:%Y-%m-%d}")):
        aging.table.update(key, "REMOVE kept SET #ttl = :soon", names=names, values={":soon": 2_000_000_000})
    list(following.records())
    found = look()
    assert {name for _, name in found.drifted} == {"kept", "ttl"}
    audit.repair(aging.table, found)
    assert (aging.page()["kept"], aging.page()["ttl"]) == (FOREVER.value, FOREVER.value)
    assert look().drifted == {}


def test_extending_a_lifetime_costs_no_extra_write(aging: Aging) -> None:
    """The update that adds also sets the TTL, so it costs the same as for pages that never expire."""

    def units(stage: Settings, url: str) -> tuple[float, int]:
        seen: list[Any] = [View(url, START - timedelta(minutes=i), f"c{i % 5}") for i in range(20)]
        events.write(new_context(aging.table, START, stage), seen[:10])
        aging.apply()
        with Meter(aging.table.client) as meter:
            events.write(new_context(aging.table, START, stage), seen[10:])
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
def test_the_page_days_setting_must_exceed_the_lifetime_of_events(
    environment: dict[str, str], days: int | None
) -> None:
    if days is None:
        with pytest.raises(ValueError, match="HUBBUB_PAGE_DAYS"):
            settings.read(environment)
    else:
        assert settings.read(environment).page_days == days
