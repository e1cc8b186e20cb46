"""The comment bench: exact costs, bounded pages, and the published designs' items."""

from __future__ import annotations

import pytest

from bench import comments as bench
from local.engines.engine import Engine

pytestmark = pytest.mark.long


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_comment_costs_exactly_this_to_write(engine: Engine, is_listed: bool) -> None:
    price = bench.LIST * is_listed
    posted, alone = bench.write_costs(engine, 1, is_listed)
    assert posted == 4 + 1 + price  # comment and author's item in a transaction, and the index entries
    assert alone == posted + 2 <= bench.BOUNDS[1] + price  # two sums
    posted, many = bench.write_costs(engine, 100, is_listed)
    assert posted == 5 + price
    assert many <= bench.BOUNDS[100] + price


def test_every_page_is_within_its_bound(engine: Engine) -> None:
    figures, question, dearest = bench.pages(engine, 1000)
    costs = {str(row[0]): float(row[3]) for row in figures.rows}
    assert dearest == max(costs.values()) <= bench.BOUND
    assert costs["all"] == costs["5 in en"] - 1 == 1.5  # the page itself, and 1 for two statistics items
    assert {row[1] for row in figures.rows} >= {"all", "filter", "merge"}
    assert all(one.floor is not None and one.floor <= one.ours for one in question.results)


def test_the_published_designs_are_counted_by_their_items_and_requests() -> None:
    assert bench.published(bench.Filter("all"), 1000, 400) == (1.0, 1.0)
    assert bench.published(bench.Filter("", (4, 5)), 1000, 400) == (1.0, 2.0)
    assert bench.published(bench.Filter("", (1,), "fi"), 100, 400) == (0.5, 0.5)
    assert bench.Filter("", (1, 2, 3)).cells() == 3


def test_the_same_number_makes_the_same_comment() -> None:
    made = [bench.body(i) for i in range(300)]
    assert made == [bench.body(i) for i in range(300)]
    assert {one.language for one in made} == set(bench.LANGUAGES)
