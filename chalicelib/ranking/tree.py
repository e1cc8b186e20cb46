"""Ranks by counting digits: a radix tree over scores whose nodes hold counters, as pure functions.

A score becomes a *merit*: a whole number from 1 (the worst that the scale allows) up, the better the greater.
One less than it, written with two decimal digits a level, is a path from the root. The node of a prefix
counts, by the next two digits, the players that go on with them:

    merit 12,346      node ""     counts "01"
                      node "01"   counts "23"
                      node "0123" counts "45"

A rank is one plus, at each level of the path, the counters of greater digits: strictly better players alone,
so equal scores share a rank ("1224"). Below the last digits of the merit the tree goes on with those of a
*tie*, a number that follows from the player: it orders players of equal score, and finds one place among
thousands of them. The keys of a path's nodes follow from the score, so one batch reads them all.

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

The counters are an order-statistic tree (Cormen et al., Introduction to Algorithms, 14.1) over fixed digits.
"""

import hashlib
from collections.abc import Iterator, Mapping
from decimal import Context, Decimal
from typing import NamedTuple

DIGITS = 2  # of a level: 100 counters of up to 7 bytes fit into an item of 1 KB
MOST = 10**15  # units either way: whole numbers that every JSON reader holds exactly
TIE = 10**18  # ties lie below it: among a million equal scores two meet once in two million boards
EXACT = Context(prec=64)  # a DynamoDB number has 38 digits
LEVELS = 4  # at least, those of ties included: 100 million leaves, however few scores there are

Counters = Mapping[str, int]
Nodes = dict[str, dict[str, int]]


class Scale(NamedTuple):
    """The scores that there may be, in units of the last decimal, and which end of them is best."""

    least: int
    most: int
    decimals: int
    descending: bool

    @property
    def span(self) -> int:
        """Count the scores that there may be: the best merit."""
        return self.most - self.least + 1

    @property
    def depth(self) -> int:
        """Count the levels that a merit takes."""
        return -(-len(str(self.span - 1)) // DIGITS)

    @property
    def levels(self) -> int:
        """Count all levels, those of ties included."""
        return max(self.depth + 1, LEVELS)

    def units(self, score: Decimal | int) -> int:
        """Write a score in units. Raises ValueError for one with too many decimals, or off the scale."""
        exact = Decimal(score)
        if exact.adjusted() > len(str(MOST)):
            raise ValueError(f"it must be from {self.write(self.least)} to {self.write(self.most)}")
        units = exact.scaleb(self.decimals, EXACT)
        if units != int(units):
            raise ValueError(f"it must have at most {self.decimals} decimals")
        if not self.least <= units <= self.most:
            raise ValueError(f"it must be from {self.write(self.least)} to {self.write(self.most)}")
        return int(units)

    def merit(self, score: Decimal | int) -> int:
        """Answer a score's merit, from 1 for the worst. Raises ValueError as `units` does."""
        units = self.units(score)
        return units - self.least + 1 if self.descending else self.most - units + 1

    def score(self, merit: int) -> Decimal:
        """Answer the score of a merit."""
        return self.write(self.least + merit - 1 if self.descending else self.most - merit + 1)

    def write(self, units: int) -> Decimal:
        """Write units as a score, without an exponent."""
        score = Decimal(units).scaleb(-self.decimals)
        return Decimal(int(score)) if score == int(score) else score.normalize()


def tie(ranking: str, player: str) -> int:
    """Answer the number that orders a player among those of equal score: as good as random, and lasting."""
    digest = hashlib.blake2b(f"{ranking}\n{player}".encode(), digest_size=16).digest()
    return int.from_bytes(digest) % TIE


def path(scale: Scale, merit: int, tie: int | None = None) -> Iterator[tuple[str, str]]:
    """Yield each node of a path with the digits that lead on; with a tie down to the last level.

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
    """Answer the rank of a merit: one plus the strictly better ones. A node that is not there is empty."""
    return 1 + sum(
        count
        for prefix, digits in path(scale, merit)
        for other, count in nodes.get(prefix, {}).items()
        if other > digits
    )


def equal(scale: Scale, merit: int, nodes: Mapping[str, Counters]) -> int:
    """Count the players of a merit."""
    *_, (prefix, digits) = path(scale, merit)
    return nodes.get(prefix, {}).get(digits, 0)


def players(root: Counters) -> int:
    """Count all players, from the root alone."""
    return sum(root.values())


def descend(node: Counters, place: int) -> tuple[str, int] | None:
    """Answer the digits under which a place (from 0, best first) lies, and its place there.

    None when the node holds no such place.
    """
    for digits in sorted(node, reverse=True):
        if place < node[digits]:
            return digits, place
        place -= max(node[digits], 0)
    return None


def check(scale: Scale, nodes: Mapping[str, Counters]) -> None:
    """Assert that every counter is what its node below adds up to, and that no node hangs in the air."""
    leads = {
        prefix + digits: count
        for prefix, node in nodes.items()
        for digits, count in node.items()
        if count and len(prefix) < DIGITS * (scale.levels - 1)
    }
    for prefix, node in nodes.items():
        assert len(prefix) < DIGITS * scale.levels, f"{prefix!r} lies below the last level"
        for digits, count in node.items():
            assert len(digits) == DIGITS, f"{prefix!r} counts {digits!r}"
            assert count >= 0, f"{prefix!r} counts {count} of {digits!r}"
        if prefix:
            total = sum(node.values())
            assert total == leads.get(prefix, 0), f"{prefix!r} holds {total}, not {leads.get(prefix, 0)}"
    for prefix in leads:
        assert prefix in nodes, f"{prefix!r} is counted, and not there"
