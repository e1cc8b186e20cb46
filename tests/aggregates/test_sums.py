"""The algebra of aggregates: amounts are added in any order, and subtracted again, exactly."""

from __future__ import annotations

from decimal import Decimal, DecimalException
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.aggregates.sums import (
    FOREVER,
    Amount,
    Constant,
    Lifetime,
    Sums,
    merge,
    recount,
    sum_contributions,
)
from chalicelib.dynamo.items import Key, pack, unpack

A, B = (Key("SUM", "a"), "n"), (Key("SUM", "b"), "n")
BIGGEST = 10**38 - 1  # 38 digits

# The kind of an attribute never changes, and a constant follows from the key.
whole = st.integers(-(10**26), 10**26)
numbers = whole | whole.map(lambda n: Decimal(n).scaleb(-8))
amounts: st.SearchStrategy[Sums] = st.fixed_dictionaries(
    {},
    optional={
        A: numbers,
        B: numbers,
        (Key("SUM", "a"), "set"): st.frozensets(st.integers(0, 23)),
        (Key("SUM", "a"), "constant"): st.just(Constant("a")),
    },
)
exactly = settings(max_examples=150, derandomize=True, database=None, deadline=None)


def added(*parts: tuple[Sums, int]) -> Sums:
    sums: Sums = {}
    for part, sign in parts:
        merge(sums, part, sign)
    return sums


@exactly
@given(st.lists(amounts, max_size=6), st.randoms(use_true_random=False))
def test_amounts_may_be_added_in_any_order_and_grouping(parts: list[Sums], rng: Any) -> None:
    mixed = rng.sample(parts, len(parts))
    cut = rng.randint(0, len(parts))
    portions = [added(*((part, 1) for part in portion)) for portion in (mixed[:cut], mixed[cut:])]
    once = added(*((part, 1) for part in parts))
    assert once == added(*((part, 1) for part in mixed)) == added(*((part, 1) for part in portions))


@exactly
@given(st.lists(st.dictionaries(st.sampled_from([A, B]), numbers), min_size=1, max_size=6))
def test_the_differences_of_an_items_history_add_up_to_its_last_image(history: list[dict[Any, Any]]) -> None:
    steps = zip([{}, *history], history, strict=False)
    assert added(*(side for old, new in steps for side in ((old, -1), (new, 1)))) == added((history[-1], 1))


@exactly
@given(amounts)
def test_an_amount_of_zero_is_removed_and_a_set_is_never_reduced(part: Sums) -> None:
    rest = added((part, 1), (part, -1))
    assert rest == {
        t: amount for t, amount in part.items() if amount and isinstance(amount, frozenset | Constant)
    }
    assert added((part, -1)) == added(({t: a for t, a in part.items() if t in (A, B)}, -1))


@exactly
@given(st.integers(-BIGGEST, BIGGEST), st.integers(-BIGGEST, BIGGEST))
def test_sums_of_38_digits_are_exact_and_longer_ones_are_refused(first: int, other: int) -> None:
    for kind in (int, Decimal):
        parts: list[Sums] = [{A: kind(first)}, {A: kind(other)}]
        if abs(first + other) <= BIGGEST:
            whole = added(*((part, 1) for part in parts))
            assert whole.get(A, 0) == first + other
            assert unpack(pack({"n": whole.get(A, 0)})) == {"n": first + other}
        else:
            with pytest.raises(DecimalException):
                added(*((part, 1) for part in parts))


def test_the_longest_lifetime_wins_and_a_constant_wins_over_any() -> None:
    ttl = (Key("SUM", "a"), "ttl")
    rising = [Lifetime(1), Lifetime(86_400), Lifetime(0), FOREVER]  # 0 is forever
    for i, shorter in enumerate(rising):
        for longer in rising[i:]:
            for first, other in ((shorter, longer), (longer, shorter)):
                [after] = added(({ttl: first}, 1), ({ttl: other}, 1)).values()
                assert (type(after), after) == (type(longer), longer)
                assert added(({ttl: first}, 1), ({ttl: other}, -1)) == {ttl: first}


@pytest.mark.parametrize(
    "bad",
    [
        1.5,
        True,
        None,
        "1",
        {1},
        Decimal("NaN"),
        Decimal("Infinity"),
        10**38,
        [1],
        frozenset({1}),
        Constant(1),
    ],
)
def test_a_value_that_is_no_amount_or_of_another_kind_changes_nothing(bad: Any) -> None:
    sums: Sums = {B: 7}
    with pytest.raises((TypeError, DecimalException)):
        merge(sums, {A: 1, B: bad})
    assert sums == {B: 7}
    for kept in (frozenset({1}), Constant("x")):
        sums = {B: kept}
        with pytest.raises(TypeError):
            merge(sums, {A: 1, B: 1})
        assert sums == {B: kept}


def test_a_recount_adds_up_the_contributions_of_all_features_for_all_items() -> None:
    def ones(item: dict[str, Any]) -> dict[tuple[Key, str], Amount]:
        return {A: 1}

    def values(item: dict[str, Any]) -> dict[tuple[Key, str], Amount]:
        return {A: item["n"], B: frozenset({item["n"]})}

    assert sum_contributions([ones, values], {"n": 4}) == {A: 5, B: frozenset({4})}
    assert recount([ones, values], [{"n": 4}, {"n": -6}]) == {B: frozenset({4, -6})}
