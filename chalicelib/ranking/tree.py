"""Ranks from counters of digits: a radix tree over scores, as pure functions.

A score is mapped to a *merit*. This is a whole number: 1 is the worst score of the scale, and a better score
has a greater merit. The decimal digits of `merit - 1`, two per level, are a path from the root of the tree.
The node of a prefix holds a counter for each next two digits: the number of players on that path.

    merit 12,346      node ""     counts "01"
                      node "01"   counts "23"
                      node "0123" counts "45"

A rank is 1 plus the counters of greater digits on each level of the path. It counts only strictly better
players, so players with equal scores share a rank ("1224"). Below the digits of the merit, the tree continues
with the digits of a *tie*, a number that follows from the player. The tie orders players with equal scores,
and a place among thousands of them is found through it. The keys of all nodes of a path follow from the
score, so one batch reads them.

>>> scale = Scale(least=0, most=999, decimals=0, descending=True)
>>> scale.merit(999), scale.merit(0), scale.score(1000)
(1000, 1, Decimal('999'))
>>> nodes: Nodes = {}
>>> for player, score in (("a", 10), ("b", 20), ("c", 20), ("d", 5)):
...     for prefix, digits in path(scale, scale.merit(score), tie("a board", player)):
...         node = nodes.setdefault(prefix, {})
...         node[digits] = node.get(digits, 0) + 1
>>> [rank(scale, scale.merit(score), nodes) for score in (20, 10, 5)]
[1, 3, 4]
>>> check(scale, nodes)

Invariant: the counters of a node add up to the counter of its prefix in the node above (`check`).

This is an order-statistic tree (Cormen et al., Introduction to Algorithms, 14.1) over fixed digits.
"""

import hashlib
from collections.abc import Iterator, Mapping
from decimal import Context, Decimal
from typing import NamedTuple

DIGITS = 2  # per level: 100 counters of up to 7 bytes fit into an item of 1 KB
MOST = 10**15  # largest score in units, positive or negative: every JSON parser holds it exactly
TIE = 10**18  # ties are below it: a million equal scores have two equal ties in one of two million boards
EXACT = Context(prec=64)  # a DynamoDB number has 38 digits
LEVELS = 4  # least number of levels with ties: 100 million leaves, however few scores the scale has

Counters = Mapping[str, int]
Nodes = dict[str, dict[str, int]]


class Scale(NamedTuple):
    """The scores of a ranking: least and most in units of the last decimal, and which of the two is best."""

    least: int
    most: int
    decimals: int
    descending: bool

    @property
    def span(self) -> int:
        """Return the number of possible scores, which is also the best merit."""
        return self.most - self.least + 1

    @property
    def depth(self) -> int:
        """Return the number of levels for the digits of a merit."""
        return -(-len(str(self.span - 1)) // DIGITS)

    @property
    def levels(self) -> int:
        """Return the number of all levels, including those of ties."""
        return max(self.depth + 1, LEVELS)

    def units(self, score: Decimal | int) -> int:
        """Return a score in units. Raises ValueError for too many decimals, or for a score off the scale."""
        exact = Decimal(score)
        if exact.adjusted() > len(str(MOST)):
            raise ValueError(f"must be from {self.write(self.least)} to {self.write(self.most)}")
        units = exact.scaleb(self.decimals, EXACT)
        if units != int(units):
            raise ValueError(f"must have at most {self.decimals} decimals")
        if not self.least <= units <= self.most:
            raise ValueError(f"must be from {self.write(self.least)} to {self.write(self.most)}")
        return int(units)

    def merit(self, score: Decimal | int) -> int:
        """Return the merit of a score, from 1 for the worst. Raises ValueError as `units` does."""
        units = self.units(score)
        return units - self.least + 1 if self.descending else self.most - units + 1

    def score(self, merit: int) -> Decimal:
        """Return the score of a merit."""
        return self.write(self.least + merit - 1 if self.descending else self.most - merit + 1)

    def write(self, units: int) -> Decimal:
        """Return units as a score, which is printed without an exponent."""
        score = Decimal(units).scaleb(-self.decimals)
        return Decimal(int(score)) if score == int(score) else score.normalize()


def tie(ranking: str, player: str) -> int:
    """Return the number that orders a player among equal scores: pseudo-random, and always the same."""
    digest = hashlib.blake2b(f"{ranking}\n{player}".encode(), digest_size=16).digest()
    return int.from_bytes(digest) % TIE


def path(scale: Scale, merit: int, tie: int | None = None) -> Iterator[tuple[str, str]]:
    """Yield the prefix of each node of a path and the next digits; with a tie, down to the last level.

    >>> list(path(Scale(0, 9_999, 0, True), 1235, 560_000_000_000_000_000))
    [('', '12'), ('12', '34'), ('1234', '56'), ('123456', '00')]
    >>> list(path(Scale(0, 9_999, 0, True), 1235))
    [('', '12'), ('12', '34')]
    """
    text, levels = f"{merit - 1:0{DIGITS * scale.depth}}", scale.depth
    if tie is not None:
        text, levels = f"{text}{tie:018}", scale.levels
    for start in range(0, DIGITS * levels, DIGITS):
        yield text[:start], text[start : start + DIGITS]


def rank(scale: Scale, merit: int, nodes: Mapping[str, Counters]) -> int:
    """Return the rank of a merit: 1 plus the number of strictly better players. A missing node is empty."""
    return 1 + sum(
        count
        for prefix, digits in path(scale, merit)
        for other, count in nodes.get(prefix, {}).items()
        if other > digits
    )


def count_equal(scale: Scale, merit: int, nodes: Mapping[str, Counters]) -> int:
    """Return the number of players with a merit."""
    *_, (prefix, digits) = path(scale, merit)
    return nodes.get(prefix, {}).get(digits, 0)


def count_players(root: Counters) -> int:
    """Return the number of all players, from the root alone."""
    return sum(root.values())


def descend(node: Counters, place: int) -> tuple[str, int] | None:
    """Return the digits of the child that holds a place (from 0, best first), and the place in that child.

    Return None when the node has fewer players.
    """
    for digits in sorted(node, reverse=True):
        if place < node[digits]:
            return digits, place
        place -= max(node[digits], 0)
    return None


def check(scale: Scale, nodes: Mapping[str, Counters]) -> None:
    """Assert that each counter is the sum of the node below it, and that each node has a counter above it."""
    counted = {
        prefix + digits: count
        for prefix, node in nodes.items()
        for digits, count in node.items()
        if count and len(prefix) < DIGITS * (scale.levels - 1)
    }
    for prefix, node in nodes.items():
        assert len(prefix) < DIGITS * scale.levels, f"{prefix!r} is below the last level"
        for digits, count in node.items():
            assert len(digits) == DIGITS, f"{prefix!r} has a counter {digits!r}"
            assert count >= 0, f"{prefix!r} has {count} for {digits!r}"
        if prefix:
            total = sum(node.values())
            assert total == counted.get(prefix, 0), (
                f"{prefix!r} adds up to {total}, not {counted.get(prefix, 0)}"
            )
    for prefix in counted:
        assert prefix in nodes, f"{prefix!r} is counted and missing"
