"""The algebra of aggregates: the amounts of a contribution, and how they are added up.

| amount | is |
|---|---|
| number | added; subtracted for an old image |
| set | united with the set of the aggregate; a union is idempotent, and nothing is ever removed from a set |
| `Constant` | written as it is, such as an index partition; it must follow from the aggregate's key alone |
| `Lifetime` | written as a moment that many seconds after the addition, so each addition extends it |
| `FirstStep` | written once, when a sum begins: the index key, which a derivation moves from then on |

Invariant: the result does not depend on the order or the grouping of additions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

from boto3.dynamodb.types import DYNAMODB_CONTEXT

from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table

LIMIT = Decimal("1e38")  # DynamoDB holds numbers below it exactly; NaN and infinity are not below it


class Constant(NamedTuple):
    """An attribute value that is written, not added."""

    value: str | int


class Lifetime(Constant):
    """Seconds until an aggregate expires after an addition; 0 means never.

    The TTL attribute is written by the addition itself, so it costs nothing. The longest lifetime of a batch
    wins, and a `Constant` (FOREVER) wins over any lifetime. An aggregate that has the attribute KEPT keeps
    its TTL. A recount cannot compute a lifetime, so it never reports a drift of one.
    """


class FirstStep(Constant):
    """The name of the sum whose step is the index key, written by the addition that begins the sum.

    It costs no update of its own. An index key that is there stays, and a derivation moves it.
    """


KEPT = "kept"
FOREVER = Constant(253_402_300_799)  # the last second of the year 9999, as a TTL

Amount = int | Decimal | frozenset[Any] | Constant
Amounts = Mapping[str, Amount]  # of one aggregate, by attribute
Sums = dict[tuple[Key, str], Amount]
Contribution = Callable[[Item], Mapping[tuple[Key, str], Amount]]
Derivation = Callable[[Table, Key, Item], None]
"""Updates what follows from the sums of an aggregate, unless it is current. Idempotent."""


def merge(sums: Sums, amounts: Mapping[tuple[Key, str], Amount], sign: int = 1) -> None:
    """Add (1) or subtract (-1) amounts in place, all or none. An amount of zero is removed.

    Raises:
        TypeError: a value is no amount (a float, a bool), or of another kind than the amount it is added to.
        decimal.DecimalException: a sum has more than DynamoDB's 38 digits.
    """
    changed = {target: _after(target, sums.get(target), amount, sign) for target, amount in amounts.items()}
    for target, after in changed.items():
        if after:
            sums[target] = after
        else:
            sums.pop(target, None)


def _after(target: tuple[Key, str], before: Any, amount: Any, sign: int) -> Any:
    """Return the sum of one amount and the amount before it, if any. Zero or an empty set is falsy."""
    if isinstance(amount, Constant) and isinstance(before, Constant | None):
        return _longest(before, amount) if sign > 0 else before
    if isinstance(amount, frozenset) and isinstance(before, frozenset | None):
        return (before or amount) | amount if sign > 0 else before
    is_number = isinstance(amount, int | Decimal) and not isinstance(amount, bool)
    if not is_number or not -LIMIT < amount < LIMIT or not isinstance(before, int | Decimal | None):
        raise TypeError(f"{target[1]} of {target[0]}: {amount!r} cannot be added to {before!r}")
    with localcontext(DYNAMODB_CONTEXT) as exact:
        after = (before or 0) + sign * amount
        exact.plus(after)  # ints have no limit of precision, so their sum is checked here
    return after


def _longest(before: Constant | None, amount: Constant) -> Constant:
    """Return the constant that wins: the later one, or the longest of two lifetimes."""
    if not isinstance(before, Lifetime):
        return before if before and isinstance(amount, Lifetime) else amount
    return max(before, amount, key=_length)


def _length(constant: Constant) -> tuple[bool, bool, str | int]:
    return not isinstance(constant, Lifetime), constant.value == 0, constant.value


def group_by_key(sums: Sums) -> dict[Key, Amounts]:
    """Return the amounts of each aggregate, without the aggregates to which nothing is added."""
    found: dict[Key, dict[str, Amount]] = {}
    for (key, name), amount in sums.items():
        found.setdefault(key, {})[name] = amount
    return {key: amounts for key, amounts in found.items() if is_added(amounts)}


def is_added(amounts: Amounts) -> bool:
    """Return whether amounts are more than constants."""
    return not all(isinstance(amount, Constant) for amount in amounts.values())


def is_idempotent(amounts: Mapping[Any, Amount]) -> bool:
    """Return whether adding the amounts twice equals adding them once."""
    return all(isinstance(amount, frozenset | Constant) for amount in amounts.values())


def sum_contributions(contributions: Sequence[Contribution], item: Item) -> Sums:
    """Return the sum of the contributions of all features for one item."""
    sums: Sums = {}
    for contribution in contributions:
        merge(sums, contribution(item))
    return sums


def recount(contributions: Sequence[Contribution], items: Iterable[Item]) -> Sums:
    """Return every aggregate, computed from all items. Tests and the audit compare the table with it."""
    sums: Sums = {}
    for item in items:
        merge(sums, sum_contributions(contributions, item))
    return sums
