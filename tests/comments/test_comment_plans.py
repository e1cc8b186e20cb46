"""Plans of a page of comments: the least expected cost, and an upper bound in every case."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest

from chalicelib import ulids
from chalicelib.aggregates import sums
from chalicelib.aggregates.updates import Update
from chalicelib.api.auth import Caller
from chalicelib.comments import comments, counters, planner
from chalicelib.comments import pages as comment_pages
from chalicelib.comments.planner import SUB_QUERIES, Decision, Statistics
from chalicelib.comments.schemas import CommentBody, CommentsQuery
from chalicelib.dynamo.items import Item, Range
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from local.engines.engine import Engine
from tests.support.contexts import new_context
from tests.support.meter import Meter
from tests.support.tables import table_on

STAGE = Settings(secret="0123456789abcdef0123456789abcdef")
ADMIN = Caller("admin", admin=True)
START = datetime(2026, 1, 1, tzinfo=UTC)
ALL = frozenset(range(1, 6))


def decide(
    whole: Item, languages: dict[str, Item], ratings: frozenset[int], limit: int, *, complete: bool = True
) -> Decision:
    return planner.decide(Statistics(whole, languages, complete), ratings, limit)


def statistics(*votes: int, size: int = 500) -> Item:
    """Build a statistics item from the number of comments with each rating."""
    counts = {f"count_{rating}": n for rating, n in enumerate(votes, 1)}
    return counts | {"count_total": sum(votes), "size": size * sum(votes)}


def test_ratings_and_languages_without_comments_are_not_queried() -> None:
    whole = statistics(0, 0, 10, 0, 1000)
    found = decide(whole, {"en": statistics(0, 0, 10, 0, 0), "de": whole}, frozenset({2, 3, 4}), 21)
    assert [(cell.language, cell.rating) for cell in found.cells] == [("de", 3), ("en", 3)]
    assert found.skipped == 4
    assert decide(whole, {"fr": {}}, ALL, 21).way == "none"
    assert decide({}, {}, ALL, 21).way == "none"


def test_a_common_match_is_filtered_and_a_rare_one_merged() -> None:
    whole = statistics(100, 100, 200, 1000, 8600)
    assert decide(whole, {"en": whole}, frozenset({4, 5}), 21).way == "filter"
    assert decide(whole, {"en": whole}, ALL, 21).way == "filter"
    assert decide(whole, {"en": whole}, frozenset({1}), 21).way == "merge"
    assert decide(whole, {"en": whole}, frozenset({1, 2, 3}), 21).way == "merge"


def test_many_languages_are_merged_only_when_few_comments_match() -> None:
    each = statistics(1, 0, 0, 0, 1)
    few, many = {f"x-{i}": each for i in range(8)}, {f"x-{i}": each for i in range(60)}
    assert decide(statistics(8, 0, 0, 0, 100_000), few, frozenset({1}), 21).way == "merge"
    found = decide(statistics(60, 0, 0, 0, 60), many, frozenset({1}), 21)
    assert (found.way, set(found.expected)) == ("filter", {"filter"})
    assert found.budget == planner.MOST
    found = decide(statistics(8, 0, 0, 0, 8), few, frozenset({1}), 21, complete=False)
    assert (found.way, set(found.expected)) == ("filter", {"filter"})


def test_without_a_merge_the_cost_is_bounded_for_comments_of_any_length() -> None:
    many = {f"x-{i}": statistics(1, 0, 0, 0, 0) for i in range(60)}
    for size in (160, 1_000, 20_000):
        found = decide(statistics(60, 0, 0, 0, 10**6, size=size), many, frozenset({1}), 21)
        assert (found.way, set(found.expected)) == ("filter", {"filter"})
        assert found.budget == planner.MOST


def test_the_plan_with_the_least_expected_cost_is_chosen_for_random_counts() -> None:
    chance = random.Random(1)
    for _ in range(500):
        languages = {
            f"x-{i}": statistics(*(chance.choice([0, 1, 50, 2000]) for _ in range(5)))
            for i in range(chance.randint(1, 12))
        }
        whole: Item = {}
        for item in languages.values():
            whole = {name: whole.get(name, 0) + n for name, n in item.items()}
        asked = frozenset(chance.sample(range(1, 6), chance.randint(1, 5)))
        found = decide(whole, languages, asked, 21)
        if found.way == "none":
            assert found.matching == 0
            continue
        assert found.expected[found.way] == min(found.expected.values())
        assert ("merge" in found.expected) == (len(found.cells) <= SUB_QUERIES)
        assert found.matching == sum(item[f"count_{r}"] for item in languages.values() for r in asked)


# -- cost ---------------------------------------------------------------------------------------------


@pytest.fixture
def table(engine: Engine) -> Iterator[Table]:
    """Yield a table on an engine that counts reads as AWS does."""
    with table_on(engine) as made:
        yield Table(made.name, engine.client("dynamodb"))


def product(table: Table, count: int, way: Callable[[int], tuple[int, str]]) -> None:
    """Write comments, oldest first, and their sums."""
    items = []
    for i in range(count):
        rating, language = way(i)
        body = CommentBody(rating=rating, language=language, text="x" * 340)
        items.append(comments.build_item("p", ulids.new(START + timedelta(seconds=i)), f"a-{i}", body))
    table.batch_put(items)
    for key, amounts in sums.group_by_key(sums.recount([comments.contribution], items)).items():
        table.update(key, **Update(amounts).arguments())


def cost(table: Table, rating: str = "", language: str = "", cursor: str | None = None) -> tuple[float, Any]:
    query = CommentsQuery(
        rating=rating or None, language=language or None, limit=20, cursor=cursor, explain=True
    )
    with Meter(table.client) as meter:
        page = comment_pages.list_comments(new_context(table, settings=STAGE), "p", query, ADMIN)
    return meter.read_units, page


@pytest.mark.parametrize("count", [300, 3000])
def test_the_cost_of_a_page_does_not_grow_with_the_product(table: Table, count: int) -> None:
    chance = random.Random(1)
    ways = [(chance.choice([5] * 4 + [4, 4, 3, 2, 1]), chance.choice(["en", "de"])) for _ in range(count)]
    product(table, count, lambda i: ways[i])
    bounds = {
        ("", ""): 2,
        ("5", ""): 4,
        ("4,5", ""): 4,
        ("1", ""): 4.5,
        ("1", "de"): 5,
        ("", "de"): 5,
        ("1,2,3", "en"): 5,
    }
    for asked, most in bounds.items():
        assert cost(table, *asked)[0] <= most, asked


def test_the_worst_case_costs_at_most_twice_the_merge(table: Table) -> None:
    """Half of the comments match, and all of them are older than the others."""
    product(table, 600, lambda i: (5, f"x-{i % 8}") if i < 300 else (4, "en"))
    units, page = cost(table, "5")
    assert page.plan.way == "filter"
    assert [item.rating for item in page.items] == [5] * 20
    assert page.plan.expected["filter"] <= page.plan.expected["merge"]
    assert units <= 2 * page.plan.expected["merge"] + 1.5
    assert units == page.plan.rru  # the engine and the pricing rules agree


@pytest.mark.parametrize("languages", [SUB_QUERIES + 20, comment_pages.LANGUAGES + 30])
def test_without_a_merge_a_page_ends_early_with_a_cursor(
    table: Table, languages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "MOST", 3.0)
    product(table, 400, lambda i: (1 if i < 60 else 5, f"x-{i % languages}"))
    found, cursor, pages, most = [], None, 0, 0.0
    while cursor or not pages:
        units, page = cost(table, "1", cursor=cursor)
        found += [item.id for item in page.items]
        cursor, pages, most = page.cursor, pages + 1, max(most, units)
    assert (len(found), sorted(set(found), reverse=True) == found) == (60, True)
    assert pages > 60 // 20
    assert most <= 2 + 3 + 1


def test_every_combination_of_filters_returns_the_right_comments(table: Table) -> None:
    chance = random.Random(2)
    ways = [(chance.choice([5] * 20 + [1, 2, 3, 4]), chance.choice(["en"] * 9 + ["de"])) for _ in range(300)]
    product(table, 300, lambda i: ways[i])
    used = {cost(table)[1].plan.way}
    for ratings in (c for n in range(1, 6) for c in combinations(range(1, 6), n)):
        for language in ("", "en", "de", "fr"):
            page = cost(table, ",".join(map(str, ratings)), language)[1]
            used.add(page.plan.way)
            right = [(r, lang) for r, lang in ways[::-1] if r in ratings and language in ("", lang)][:20]
            assert [(item.rating, item.language) for item in page.items] == right
    assert used == {"all", "filter", "merge", "none"}


@pytest.mark.parametrize("rating", ["", "1", "5"])
def test_comments_have_their_counts_however_many_others_are_between_them(table: Table, rating: str) -> None:
    """One in 40 comments has the rating 1, and 500 hidden ones with votes are between the newest two."""
    product(table, 800, lambda i: (5 if i % 40 else 1, "en"))
    stored = table.query(Range("PRODUCT#p", ("COMMENT#", "COMMENT#~")), limit=1_000).items
    votes = {comments.id_of(item): number for number, item in enumerate(stored, 1)}
    between = [ulids.new(START + timedelta(seconds=798, milliseconds=1 + n)) for n in range(500)]
    counted = [
        *(counters.build_item("p", id, "a", {"votes": number}) for id, number in votes.items()),
        *(counters.build_item("p", id, "a", {"votes": 9}, hidden=True) for id in between),
    ]
    table.batch_put(counted)
    found: list[Any] = []
    cursor = None
    while cursor or not found:
        units, page = cost(table, rating, cursor=cursor)
        assert units <= 20
        found, cursor = found + page.items, page.cursor
    wanted = [item for item in stored[::-1] if rating in ("", str(item["rating"]))]
    assert [item.id for item in found] == [comments.id_of(item) for item in wanted]
    assert all(item.votes == votes[item.id] for item in found)
