"""Aggregates are exact however the stream delivers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from chalicelib.aggregates import engine as aggregates
from chalicelib.aggregates import quarantine, tags
from chalicelib.aggregates.engine import Report
from chalicelib.aggregates.sums import Amount, Constant
from chalicelib.aggregates.updates import additions
from chalicelib.dynamo.items import Item, Key, Range
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy
from chalicelib.settings import Settings
from chalicelib.views import events, sites
from chalicelib.views.events import View
from local.engines.engine import Engine
from tests.aggregates.story import COSTS, story  # noqa: F401 (for the tests of the whole app)
from tests.support.contexts import new_context
from tests.support.faults import after, cancelled, instead, refused, timed_out
from tests.support.records import Reader, drift, record, scan
from tests.support.tables import store_on

URL = "https://example.org/a"
Source = tuple[Table, Reader]


def count_pages(item: Item) -> dict[tuple[Key, str], Amount]:
    """Return what an event or a visitor adds to its page and the day of its page."""
    amounts = events.contribution(item)
    return {at: amount for at, amount in amounts.items() if at[0].pk.startswith("URL#")}


FEATURES = (count_pages,)


@pytest.fixture
def source(engine: Engine) -> Iterator[Source]:
    """Return a table with a client of its own, whose calls a test may replace, and a reader of its stream."""
    with store_on(engine, pause=lambda _: None) as made:
        yield made


def write(table: Table, n: int, *, url: str = URL, clients: int = 0, ahead: int = 0) -> None:
    """Write views. Without clients no visitors are written, and each view is one record."""
    now = datetime.now(UTC).replace(microsecond=0)
    seen = [View(url, now - timedelta(seconds=i + ahead), f"c{i % max(1, clients)}") for i in range(n)]
    if clients:
        events.write(new_context(table, now), seen)
    else:
        table.batch_put(events.build_item(view, Settings()) for view in seen)


def apply(table: Table, records: list[Any]) -> Report:
    return aggregates.apply(table, FEATURES, records, derivations=(sites.derive,))


def drain(source: Source) -> Report:
    """Apply the stream until it is empty."""
    table, stream = source
    whole = Report()
    while records := stream.read():
        for i in range(0, len(records), 100):
            report = apply(table, records[i : i + 100])
            whole.applied += report.applied
            whole.duplicates += report.duplicates
            whole.quarantined += report.quarantined
    return whole


def counted(table: Table, url: str = URL) -> tuple[int, int]:
    page = table.get(events.page_key(url), consistent=True) or {}
    return page.get("views", 0), page.get("visitors", 0)


def settle(source: Source) -> None:
    """Apply the rest of the stream, and compare all aggregates with a recount."""
    drain(source)
    assert drift(source[0], FEATURES) == {}


def test_views_are_counted_in_total_by_day_by_hour_and_by_client(source: Source) -> None:
    write(source[0], 7, clients=3)
    drain(source)
    assert counted(source[0])[0] == 7
    settle(source)


def test_the_drift_check_finds_every_kind_of_drift(source: Source) -> None:
    """The other tests rest on this check. It finds sums that are too small, too great or superfluous."""
    table, _ = source
    write(table, 3)
    settle(source)
    page, day = events.page_key(URL), f"DAY#{datetime.now(UTC):%Y-%m-%d}"
    for pk, sk, name in (
        (page.pk, page.sk, "views"),
        (page.pk, page.sk, "visitors"),
        (page.pk, day, "v99"),
        (page.pk, "DAY#1999-01-01", "views"),
        ("URL#http://other/", "STATISTICS", "views"),
    ):
        for amount in (1, -1):
            [change] = additions({(Key(pk, sk), name): amount}, 0)
            assert (drift(table, FEATURES) == {}) == (amount == 1)
            table.transact([change])


def test_a_record_delivered_twice_counts_once(source: Source) -> None:
    table, stream = source
    write(table, 1)
    [record] = stream.read()
    report = apply(table, [record, record])
    assert (report.applied, report.duplicates) == (1, 1)
    assert apply(table, [record]).duplicates == 1
    assert counted(table)[0] == 1
    settle(source)


def test_a_conflict_is_retried_and_is_no_duplicate(source: Source) -> None:
    table, stream = source
    write(table, 3)
    records = stream.read()
    conflict = refused("TransactionConflictException")
    with instead(table, "UpdateItem", conflict, conflict) as calls:
        report = apply(table, records)
    assert (report.applied, report.duplicates) == (3, 0)
    assert len(calls) == 4  # the two that were refused, page and day
    settle(source)


def test_endless_conflicts_raise_busy_and_the_batch_can_be_redelivered(source: Source) -> None:
    table, stream = source
    write(table, 3)
    records = stream.read()
    with (
        instead(table, "UpdateItem", *[refused("TransactionConflictException")] * 999) as calls,
        pytest.raises(Busy),
    ):
        apply(table, records)
    assert 2 < len(calls) < 999
    assert apply(table, records).applied == 3
    settle(source)


def test_a_refusal_in_a_transaction_with_a_conflict_is_final(source: Source) -> None:
    """A false condition is final, whatever other reasons cancelled the move to guard pages."""
    table, stream = source
    write(table, aggregates.TAGS + 1)
    records = stream.read()
    both = cancelled("ConditionalCheckFailed", "TransactionConflict")
    with instead(table, "TransactWriteItems", both, cancelled("None", "TransactionConflict")):
        report = apply(table, records)
    assert (report.applied, report.duplicates) == (len(records), 0)
    assert apply(table, records).duplicates == len(records)
    settle(source)


@pytest.mark.parametrize("count", [4, 60])
def test_an_update_whose_reply_is_lost_counts_once(source: Source, count: int) -> None:
    table, stream = source
    write(table, count)
    records = stream.read()
    operation = "TransactWriteItems" if count > aggregates.TAGS else "UpdateItem"
    with after(table, operation, timed_out()):  # the condition, or the ClientRequestToken, decides the retry
        apply(table, records)
    assert counted(table)[0] == count
    assert apply(table, records).duplicates == count
    settle(source)


def test_a_poison_record_goes_to_quarantine_and_does_not_hold_up_others(source: Source) -> None:
    table, _ = source
    write(table, 2)
    table.put({"pk": f"URL#{URL}", "sk": "T#yesterday#CID#x"})
    write(table, 2, ahead=100)
    report = drain(source)
    assert report.quarantined == 1
    assert counted(table)[0] == 4
    [kept] = quarantined(table)
    assert "yesterday" in kept["reason"]
    assert kept["sign"] == 1


def test_a_repaired_item_counts_from_its_repair_on(source: Source) -> None:
    table, _ = source
    good: Item = {"pk": f"URL#{URL}", "sk": "T#2026-01-01T00:00:00.000000Z#CID#x", "days": 400}
    bad = good | {"days": "many"}
    records = [record(None, bad), record(bad, good)]
    report = apply(table, records)
    assert (report.applied, report.quarantined) == (0, 2)
    assert counted(table)[0] == 1
    assert sorted(item["sign"] for item in quarantined(table)) == [-1, 1]


@pytest.mark.parametrize("written", ["1700000000", "1700000000.25", "1.7E9", 1.7e9])
def test_a_creation_time_may_be_a_number_or_its_text(written: Any) -> None:
    """Otherwise the same record would have two tags, and could be counted twice."""
    item = {"pk": f"URL#{URL}", "sk": "T#2026-01-01T00:00:00.000000Z#CID#x", "days": 400}
    changed = record(None, item)
    changed["dynamodb"]["ApproximateCreationDateTime"] = written
    found = aggregates.compute(FEATURES, changed)
    assert (found.second, tags.second_of(found.tag)) == (1_700_000_000, 1_700_000_000)


@pytest.mark.parametrize(
    "written",
    ["", "soon", "-1", "١٧٠٠٠٠٠٠٠٠", "1e99", "NaN", "0x1", " 1", "1\n", True, [], float("nan"), 2**32],
)
def test_a_malformed_creation_time_is_ignored(written: Any) -> None:
    changed = record(None, {"pk": f"URL#{URL}", "sk": "T#2026-01-01T00:00:00.000000Z#CID#x", "days": 400})
    changed["dynamodb"]["ApproximateCreationDateTime"] = written
    assert aggregates.compute(FEATURES, changed).second == 0


def test_a_record_that_dynamodb_rejects_is_quarantined_and_its_batch_is_applied(source: Source) -> None:
    table, _ = source

    def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
        return {(Key("SUM", item["to"]), "n"): 1} if "to" in item else {}

    table.put({"pk": "SUM", "sk": "broken", "n": "text"})
    places = ["a", "b", "broken", "a", "c", "a"]
    batch = [record(None, {"pk": "X", "sk": str(i), "to": to}) for i, to in enumerate(places)]
    for expected in (Report(applied=5, quarantined=1), Report(duplicates=6)):
        report = aggregates.apply(table, [contribution], batch)
        assert (report.applied, report.quarantined, report.duplicates) == (
            expected.applied,
            expected.quarantined,
            expected.duplicates,
        )
    assert {sk: (table.get(Key("SUM", sk)) or {})["n"] for sk in "abc"} == {"a": 3, "b": 1, "c": 1}
    assert len(quarantined(table)) == 1


def test_an_expired_item_stays_counted_and_a_deleted_one_does_not(source: Source) -> None:
    table, stream = source
    write(table, 2)
    first, second = stream.read()
    apply(table, [first, second])
    expired, deleted = (
        {"eventID": uuid4().hex, "eventName": "REMOVE", "dynamodb": gone(item)} for item in (first, second)
    )
    expired["userIdentity"] = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    assert apply(table, [expired]).ignored == 1
    assert counted(table)[0] == 2
    assert apply(table, [deleted]).applied == 1
    assert counted(table)[0] == 1


def test_differences_that_cancel_write_no_sum_and_are_still_tagged(source: Source) -> None:
    table, _ = source

    def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
        return {(Key("SUM", "all"), "n"): item["n"]} if "n" in item else {}

    up = record({"pk": "X", "sk": "1", "n": 1}, {"pk": "X", "sk": "1", "n": 5})
    down = record({"pk": "X", "sk": "2", "n": 5}, {"pk": "X", "sk": "2", "n": 1})
    aggregates.apply(table, [contribution], [up, down])
    assert set(table.get(Key("SUM", "all")) or {}) == {"pk", "sk", "applied"}
    for change in (up, down):  # one of the two alone must not count either
        assert aggregates.apply(table, [contribution], [change]).duplicates == 1


def test_a_constant_is_written_and_sets_are_united(source: Source) -> None:
    table, _ = source

    def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
        place = Key("SUM", "all")
        if "hour" not in item:
            return {}
        return {(place, "hours"): frozenset({item["hour"]}), (place, "ttl"): Constant(99), (place, "n"): 1}

    batch = [record(None, {"pk": "X", "sk": str(i), "hour": i % 3}) for i in range(6)]
    aggregates.apply(table, [contribution], batch[:2])
    aggregates.apply(table, [contribution], batch[2:])
    found = table.get(Key("SUM", "all")) or {}
    assert len(found.pop("applied")) == 6
    assert found == {"pk": "SUM", "sk": "all", "hours": {0, 1, 2}, "ttl": 99, "n": 6}


def test_each_aggregate_of_a_batch_is_written_once_and_not_read(source: Source) -> None:
    table, stream = source
    for i in range(120):
        write(table, 2, url=f"{URL}/{i}")
    records = stream.read()
    with (
        instead(table, "UpdateItem") as updates,
        instead(table, "GetItem") as reads,
        instead(table, "TransactWriteItems") as transactions,
    ):
        report = apply(table, records)
    assert report.applied == 240
    assert len(updates) == 240  # page and day of each
    assert (reads, transactions) == ([], [])
    settle(source)


# -- tags ----------------------------------------------------------------------------------------------

ALL = Key("SUM", "all")
RECORDED = 1_700_000_000  # the second of the records below


def one_sum(item: Item) -> dict[tuple[Key, str], Amount]:
    return {(ALL, "n"): item["n"]} if "n" in item else {}


def numbers(count: int, second: int = RECORDED, apart: float = 0) -> list[Any]:
    """Make records of numbers, `apart` seconds after each other."""
    return [
        record(None, {"pk": "X", "sk": str(i), "n": 1}, second=int(second + i * apart)) for i in range(count)
    ]


def total(table: Table, records: list[Any], now: float = RECORDED + 60) -> tuple[Report, Item]:
    report = aggregates.apply(table, [one_sum], records, now=lambda: now)
    return report, table.get(ALL, consistent=True) or {}


def pages(table: Table) -> list[Item]:
    return [item for item in scan(table) if item["pk"].startswith("GUARD#") and "ids" in item]


@pytest.mark.parametrize("apart", [0, 1, 10, 700])
def test_tags_that_moved_to_guard_pages_are_still_known(source: Source, apart: float) -> None:
    table, _ = source
    records = numbers(2 * aggregates.TAGS + 20, apart=apart)
    now = RECORDED + apart * len(records)
    for delivered in records:
        total(table, [delivered], now=now)
    assert total(table, records, now=now)[1]["n"] == len(records)
    for delivered in records:
        assert total(table, [delivered], now=now)[0].duplicates == 1
    _, found = total(table, records[::-1], now=now)
    assert (found["n"], len(found.get("applied", ())) <= aggregates.TAGS) == (len(records), True)
    for page in pages(table):
        assert page["ttl"] > now + tags.RETENTION
        assert len(page["ids"]) <= tags.PAGE_TAGS


def test_a_batch_larger_than_the_set_of_tags_is_one_move(source: Source) -> None:
    table, _ = source
    records = numbers(400)
    report, found = total(table, records)
    assert (report.applied, report.moves, found["n"]) == (400, 1, 400)
    assert (found["spilled"], found["spills"], "applied" in found) == (RECORDED, 1, False)
    assert total(table, records)[0].duplicates == 400


def test_a_late_record_is_looked_for_on_guard_pages_and_counted_once(source: Source) -> None:
    table, _ = source
    total(table, numbers(60))
    late = record(None, {"pk": "X", "sk": "late", "n": 1}, second=RECORDED - 5)
    for expected in (1, 0):
        assert total(table, [late])[0].applied == expected
    assert total(table, [late])[1]["n"] == 61


def test_tags_older_than_the_stream_keeps_records_are_dropped_before_any_move(source: Source) -> None:
    table, _ = source
    total(table, numbers(aggregates.TAGS))
    later = RECORDED + tags.RETENTION + 1
    fresh = numbers(3, second=later)
    report, found = total(table, fresh, now=later)
    assert (report.applied, found["n"], len(found["applied"])) == (3, aggregates.TAGS + 3, 3)
    assert pages(table) == []
    assert total(table, fresh, now=later)[0].duplicates == 3


def test_a_tag_is_kept_for_as_long_as_its_record_can_come_again(source: Source) -> None:
    table, _ = source
    first = numbers(aggregates.TAGS)
    total(table, first)
    later = RECORDED + 25 * 3600
    total(table, numbers(3, second=later), now=later)
    assert total(table, first, now=later)[0].duplicates == aggregates.TAGS


def quarantined(table: Table) -> list[Item]:
    return [
        item for n in range(quarantine.PARTITIONS) for item in table.query(Range(f"QUARANTINE#{n}")).items
    ]


def gone(inserted: dict[str, Any]) -> dict[str, Any]:
    body = dict(inserted["dynamodb"])
    return body | {"OldImage": body.pop("NewImage")}
