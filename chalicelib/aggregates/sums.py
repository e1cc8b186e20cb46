"""The algebra of aggregates: what a contribution may hold, and how contributions are added up.

A number is added. A set is united; a union is idempotent, so nothing is ever taken from a set. A `Constant`
is written as it is: an index key, a TTL; it must follow from the aggregate's key alone. A `Life` is
written as the moment so many seconds after the addition, so each addition lets the aggregate live on.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

from boto3.dynamodb.types import DYNAMODB_CONTEXT

from chalicelib.dynamo.items import Item, Key

LIMIT = Decimal("1e38")  # what DynamoDB holds exactly: NaN and infinity are not below it


class Constant(NamedTuple):
    """An attribute that is written, not added."""

    value: str | int


class Life(Constant):
    """Seconds that an aggregate lives on after an addition; 0 is for ever.

    It is written into a TTL attribute with the addition itself, so it costs nothing. The longest life in a
    batch holds, and a `Constant` (FOR_EVER) beats any. An aggregate that has the attribute KEPT keeps its
    TTL. A recount cannot know it, so it is never a drift.
    """


KEPT = "kept"
FOR_EVER = Constant(253_402_300_799)  # the last second of the year 9999, as a TTL

Amount = int | Decimal | frozenset[Any] | Constant
Sums = dict[tuple[Key, str], Amount]
Contribution = Callable[[Item], Mapping[tuple[Key, str], Amount]]


def merge(sums: Sums, amounts: Mapping[tuple[Key, str], Amount], sign: int = 1) -> None:
    """Add (1) or take away (-1) amounts in place, all or none; what comes to zero vanishes.

    Raises TypeError for what is no amount (a float, a bool) or of another kind than what it is added to, and
    decimal.DecimalException for a sum past DynamoDB's 38 digits.
    """
    changed = {target: _after(target, sums.get(target), amount, sign) for target, amount in amounts.items()}
    for target, after in changed.items():
        if after:
            sums[target] = after
        else:
            sums.pop(target, None)


def _after(target: tuple[Key, str], before: Any, amount: Any, sign: int) -> Any:
    """Add one amount to what is there (None: nothing); answer nothing for zero and for an empty set."""
    if isinstance(amount, Constant) and isinstance(before, Constant | None):
        return _longer(before, amount) if sign > 0 else before
    if isinstance(amount, frozenset) and isinstance(before, frozenset | None):
        return (before or amount) | amount if sign > 0 else before
    is_number = isinstance(amount, int | Decimal) and not isinstance(amount, bool)
    if not is_number or not -LIMIT < amount < LIMIT or not isinstance(before, int | Decimal | None):
        raise TypeError(
            f"{target[1]} of {target[0]}: {amount!r} is no amount that can be added to {before!r}"
        )
    with localcontext(DYNAMODB_CONTEXT) as exact:
        after = (before or 0) + sign * amount
        exact.plus(after)  # a sum of ints, which know no precision, is checked too
    return after


def _longer(before: Constant | None, amount: Constant) -> Constant:
    """Return the constant that holds of two: the later one, or of lives the longest."""
    if not isinstance(before, Life):
        return before if before and isinstance(amount, Life) else amount
    return max(before, amount, key=lambda life: (not isinstance(life, Life), life.value == 0, life.value))


def total(contributions: Sequence[Contribution], item: Item) -> Sums:
    """Add up what every feature says of one item."""
    sums: Sums = {}
    for contribution in contributions:
        merge(sums, contribution(item))
    return sums


def recount(contributions: Sequence[Contribution], items: Iterable[Item]) -> Sums:
    """Compute every aggregate from all items: the truth that a test, or an audit, compares with."""
    sums: Sums = {}
    for item in items:
        merge(sums, total(contributions, item))
    return sums
