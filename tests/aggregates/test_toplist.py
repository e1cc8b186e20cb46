"""Lists of the largest sums are exact although their index entries move in steps."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from chalicelib.aggregates.toplist import UNITS, next_step, read_largest, read_largest_of_days, step_of
from chalicelib.comments import comments
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from local.engines.engine import Engine
from tests.support.meter import Meter
from tests.support.tables import record_calls, store_on

LIST = "SITE#a"


def fill(table: Table, sums: list[int]) -> list[tuple[str, int]]:
    """Write sums with index keys that are steps. Return all of them, largest first."""
    names = [f"{i:04}" for i in range(len(sums))]
    table.batch_put(
        {"pk": name, "sk": "S", "gsi1pk": LIST, "gsi1sk": step_of(n), "n": n}
        for name, n in zip(names, sums, strict=True)
    )
    return sorted(zip(names, sums, strict=True), key=lambda row: (-row[1], row[0]))


@pytest.mark.parametrize("seed", range(3))
def test_a_list_is_exact_at_any_length(engine: Engine, seed: int) -> None:
    rng = random.Random(seed)
    with store_on(engine) as (table, _):
        right = fill(table, [int(rng.paretovariate(0.6)) for _ in range(150)])
        for limit in (1, 3, 10, 30):
            found = read_largest(table, LIST, limit, "n", ties=200)
            assert found.complete
            assert [(item["pk"], n) for item, n in found.items] == right[:limit]


def test_a_list_whose_end_is_among_many_small_sums_says_that_it_is_not_complete(engine: Engine) -> None:
    with store_on(engine) as (table, _):
        fill(table, [*range(2, 4), *[1] * 400, 1000])
        assert not read_largest(table, LIST, 10, "n").complete
        assert read_largest(table, LIST, 1, "n") == ([({**_item("0402", 1000)}, 1000)], True)


def _item(name: str, n: int) -> Item:
    return {"pk": name, "sk": "S", "gsi1pk": LIST, "gsi1sk": step_of(n), "n": n}


# -- periods -------------------------------------------------------------------------------------------

DAYS = [f"2026-11-{day:02}" for day in range(1, 8)]
LISTS = [f"{LIST}#{day}" for day in DAYS]
PERIOD = (f"DAY#{DAYS[0]}", f"DAY#{DAYS[-1]}")


def fill_days(table: Table, days: dict[str, dict[str, int]]) -> list[tuple[str, int]]:
    """Write the sums of each day with index keys that are steps. Return those of all days, largest first."""
    table.batch_put(
        {"pk": name, "sk": f"DAY#{day}", "gsi1pk": f"{LIST}#{day}", "gsi1sk": step_of(n), "n": n}
        for day, sums in days.items()
        for name, n in sums.items()
    )
    names = {name for day in DAYS for name in days.get(day, {})}
    right = [(name, sum(days.get(day, {}).get(name, 0) for day in DAYS)) for name in names]
    return sorted(right, key=lambda row: (-row[1], row[0]))


@pytest.mark.parametrize("seed", range(4))
def test_a_complete_list_of_a_period_is_exact(engine: Engine, seed: int) -> None:
    """Each day has other large entries, and days outside the period have larger ones."""
    rng = random.Random(seed)
    with store_on(engine) as (table, _):
        days = {
            day: {
                f"{rng.randrange(90):03}": int(rng.paretovariate(0.5)) for _ in range(rng.choice((0, 5, 60)))
            }
            for day in ["2026-10-31", *DAYS, "2026-11-08"]
        }
        right = fill_days(table, days)
        for limit in (1, 3, 10, 100):
            found = read_largest_of_days(table, LISTS, PERIOD, limit, "n")
            assert found.complete
            assert [n for _, n in found.items] == [n for _, n in right[:limit]]
            assert set(found.items) <= set(right)


def test_the_list_of_one_day_is_exact_and_takes_few_calls(engine: Engine) -> None:
    with store_on(engine) as (table, _):
        days = {day: {f"{i:03}": i * number for i in range(1, 151)} for number, day in enumerate(DAYS, 1)}
        fill_days(table, days)
        day, calls = DAYS[2], record_calls(table.client)
        found = read_largest_of_days(table, [f"{LIST}#{day}"], (f"DAY#{day}", f"DAY#{day}"), 100, "n")
        assert found == ([(f"{i:03}", 3 * i) for i in range(150, 50, -1)], True)
        assert len(calls) <= 8, calls


def test_the_entries_of_one_day_only_take_few_calls(engine: Engine) -> None:
    """The lists, read to their ends, show which entries have a sum on both days: 20 of 110."""
    with store_on(engine) as (table, _):
        days = {DAYS[n]: {f"{i:03}": 1 for i in range(45 * n, 45 * n + 65)} for n in range(2)}
        right, calls = fill_days(table, days), record_calls(table.client)
        found = read_largest_of_days(table, LISTS[:2], (f"DAY#{DAYS[0]}", f"DAY#{DAYS[1]}"), 110, "n")
        assert found == (right, True)
        assert Counter(calls) == {"Query": 2 + 20, "BatchGetItem": 1}


def test_an_entry_that_is_never_the_largest_of_a_day_leads_a_period(engine: Engine) -> None:
    with store_on(engine) as (table, _):
        days = {day: {f"day-{day}": 100, "steady": 90} | {f"x{i}": 3 for i in range(50)} for day in DAYS}
        fill_days(table, days)
        assert read_largest_of_days(table, LISTS, PERIOD, 1, "n") == ([("steady", 630)], True)


def test_a_period_with_too_many_entries_to_prove_its_list_says_so(engine: Engine) -> None:
    with store_on(engine) as (table, _):
        fill_days(table, {day: {f"{i:03}": 4 for i in range(60)} for day in DAYS})
        found = read_largest_of_days(table, LISTS, PERIOD, 5, "n")
        assert (len(found.items), {n for _, n in found.items}) == (5, {28})
        assert found.complete, "no other entry can have more than 4 a day"
        fill_days(table, {DAYS[0]: {"001": 3}})
        assert not read_largest_of_days(table, LISTS, PERIOD, 60, "n", 20).complete


@pytest.mark.security
@pytest.mark.parametrize("seed", range(6))
def test_a_list_costs_no_more_than_its_bound_and_is_exact_if_it_says_so(engine: Engine, seed: int) -> None:
    """Long names, long lists, many ties and few units."""
    rng = random.Random(seed)
    with store_on(engine) as (table, _):
        longest = rng.choice([0, 0, 1_500])
        names = [f"{i:03}".ljust(longest, "x") for i in range(rng.choice([40, 300]))]
        share, spread = rng.choice([0.2, 1]), rng.choice([0.5, 3])
        days = {
            day: {name: int(rng.paretovariate(spread)) for name in names if rng.random() < share}
            for day in DAYS
        }
        right = fill_days(table, days)
        table.batch_put(
            {"pk": name, "sk": "S", "gsi1pk": LIST, "gsi1sk": step_of(n), "n": n} for name, n in right if n
        )
        for limit, units in ((1, 8), (10, 16), (10, 100), (100, 100), (100, 1_000)):
            with Meter(table.client) as meter:
                found = read_largest_of_days(table, LISTS, PERIOD, limit, "n", units)
            assert meter.read_units <= units
            assert set(found.items) <= set(right)
            if found.complete:
                assert [n for _, n in found.items] == [n for _, n in right if n][:limit]
            with Meter(table.client) as meter:
                top = read_largest(table, LIST, limit, "n")
            assert meter.read_units <= UNITS
            if top.complete:
                assert [n for _, n in top.items] == [n for _, n in right if n][:limit]


def test_a_step_is_at_most_the_sum_and_the_next_one_is_above_it() -> None:
    for n in [*range(2000), 10**6, 10**12]:
        step = step_of(n)
        assert step <= n < next_step(step)
        assert next_step(step) - step <= max(4, step // 8)


def test_an_entry_of_a_product_is_moved_only_when_it_crosses_a_step() -> None:
    key, item, moves = comments.statistics_key("lamp"), Item(), 0
    for fives in [*range(1, 1001), *range(1000, -1, -1)]:
        item["count_5"] = fives
        if update := comments.derive_rank(key, item):
            moves += 1
            item["gsi1sk"] = update["values"].get(":step", 0)
        assert item["gsi1sk"] <= fives < next_step(item["gsi1sk"])
        assert comments.derive_rank(key, item) is None
    assert moves < 100
    assert comments.derive_rank(Key("PRODUCT#lamp", "AUTHOR#ann"), {"count_5": 9}) is None
