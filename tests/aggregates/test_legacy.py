"""Records from before an upgrade keep the protection of version 0.1.0, and those from after it are tagged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chalicelib.aggregates import engine, legacy
from chalicelib.aggregates.sums import Amount
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from local.engines.engine import Engine
from tests.support.records import record
from tests.support.tables import store_on

UPGRADE = 1_800_000_000  # the second of the first batch of this version
SINCE = UPGRADE + legacy.OVERLAP
SUM = Key("SUM", "all")


def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    return {(SUM, "n"): 1} if item["pk"] == "X" else {}


@pytest.fixture
def table(engine: Engine) -> Iterator[Table]:
    """Return a table as 0.1.0 leaves it: without the item that says when the tags begin."""
    with store_on(engine, pause=lambda _: None) as (made, _):
        made.delete(legacy.START_KEY)
        yield made


def records(second: int, count: int = 3) -> list[dict[str, object]]:
    return [record(None, {"pk": "X", "sk": f"{second} {i}"}, second=second) for i in range(count)]


def apply(table: Table, some: list[dict[str, object]], now: int = UPGRADE) -> tuple[int, int]:
    """Apply a batch; return the numbers of new records and of duplicates."""
    report = engine.apply(table, [contribution], some, now=lambda: now)
    return report.applied, report.duplicates


def apply_old(table: Table, some: list[dict[str, object]]) -> int:
    """Apply a batch as version 0.1.0 does; return the number of new records."""
    counted: set[bytes] = set()
    differences = [engine.compute([contribution], one) for one in some]
    legacy.add(table, differences, 1, UPGRADE, counted, set())
    return len(counted)


def count(table: Table) -> tuple[int, int]:
    """Return the sum, and the number of tags beside it."""
    item = table.get(SUM, consistent=True) or {}
    return item["n"], len(item.get("applied", ()))


def test_tags_begin_when_no_function_of_0_1_0_runs_any_more(table: Table) -> None:
    apply(table, records(UPGRADE))
    assert table.get(legacy.START_KEY) == {**legacy.START_KEY._asdict(), "since": SINCE}
    legacy.start_tags(table, 5)
    assert (table.get(legacy.START_KEY) or {})["since"] == SINCE


def test_a_record_counts_once_whichever_versions_it_is_delivered_to(table: Table) -> None:
    first, second = records(UPGRADE - 5), records(UPGRADE + 5)
    assert apply_old(table, first) == 3
    assert apply(table, first) == (0, 3)
    assert apply(table, [*first, *second]) == (3, 3)
    assert apply_old(table, second) == 0
    assert count(table) == (6, 0)


def test_a_batch_may_have_records_of_both_kinds(table: Table) -> None:
    old, new = records(SINCE - 1), records(SINCE)
    apply(table, records(UPGRADE))
    now = SINCE + 10
    assert apply(table, [*old, *new], now) == (6, 0)
    assert apply(table, [*new, *old], now) == (0, 6)
    assert count(table) == (9, 3)


def test_an_operator_can_end_the_tags_before_a_rollback(table: Table) -> None:
    legacy.start_tags(table)
    until = UPGRADE + 900
    table.update(legacy.START_KEY, "SET ends = :ends", values={":ends": until})
    before, after = records(until - 1), records(until)
    assert apply(table, [*before, *after], until + 1) == (6, 0)
    assert apply_old(table, after) == 0
    assert apply(table, before, until + 2) == (0, 3)
    assert count(table) == (6, 3)


def test_a_process_notices_within_a_minute_that_the_tags_end(table: Table) -> None:
    legacy.start_tags(table)
    apply(table, records(UPGRADE))
    table.update(legacy.START_KEY, "SET ends = :ends", values={":ends": UPGRADE + 900})
    later = records(UPGRADE + 900)
    assert apply(table, later, UPGRADE + 900) == (3, 0)
    assert count(table) == (6, 3)
