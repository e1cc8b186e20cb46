"""Ranks from counters of digits, as deep as the crowd needs: pure functions over prefixes of a path.

A score is mapped to a *merit*, a whole number from 1 (the worst of the scale) up, and with a *tie*, a number
below it, to the player's *number*. The tie follows from the player, or also from the time of the score where
the earlier of two equal scores is ahead. Numbers order all players of a ranking. The *path* of
a number is a text of two digits a level. It orders as the number does. It begins with the score's magnitude
(how many pairs of digits the score has, 50 and more for scores from 0 up), so short scores have short paths.
The digits of the score and of the tie follow.

    score 12,345 of a player with the tie 67…    path 53 01 23 45 67 …

A player has a `depth`: the number of levels of the path whose counters count the player. The players below
the last of these levels are the player's *bucket*. They are counted through the index.

    node ""      counts "53"     a rank is 1 + the counters of greater digits in each node
    node "53"    counts "01"         + the better players in the bucket "5301"

A counter adds 1 for each player whose bucket it counts (*shallow*), and DEEP for each one that is counted
below it too. So one number shows whether all players of a bucket are counted in the node below. When they
are, the digits of the counter are put into `full`, in its own node and on condition that it has not changed.

>>> scale = Scale(least=0, most=999_999, decimals=0, descending=True)
>>> scale.merit(12_345), scale.path(12_346 * TIE + 67 * 10**20)[:10]
(12346, '5301234567')
>>> amounts(scale, 12_346 * TIE, 2) == {("", "53"): DEEP, ("53", "01"): 1}
True

This is an order-statistic tree (Cormen et al., Introduction to Algorithms, 14.1) over digits, cut at the
buckets.
"""

import hashlib
from collections.abc import Iterator, Mapping, Set
from decimal import Context, Decimal
from typing import NamedTuple

DIGITS = 2  # per level: 100 counters of a node fit into an item of 1 KB
MOST = 10**15  # largest score in units, positive or negative: every JSON parser holds it exactly
TIE = 10**22  # ties are below it. The greatest merit has the other 16 of the 38 digits of a DynamoDB number.
TIE_DIGITS = 22
TIE_LEVELS = TIE_DIGITS // 2
SPREAD = 10**18  # a million equal scores have two equal ties in one of two million boards
MILLISECONDS = 10**13  # since 1970, until 2286
EXACT = Context(prec=64)  # a DynamoDB number has 38 digits
DEEP = 10**9  # more than a bucket has players. DynamoDB does not store the zeros of such a number.
LIMIT = 120  # players of a bucket: their index entries, with UUIDs as names, are 16 KB or 2 RRU
ZERO = 50  # the magnitude before those of scores from 0 up

Range = tuple[int, int]


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
    def low(self) -> int:
        """Return the offset of merit 1. An offset is a score in units; `~units` where the least is best."""
        return self.least if self.descending else ~self.most

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

    def path(self, number: int) -> str:
        """Return the path of a number."""
        merit, tie = divmod(number, TIE)
        offset = merit - 1 + self.low
        size = offset if offset >= 0 else ~offset
        pairs = -(-len(str(size)) // DIGITS)
        if offset < 0:
            return f"{ZERO - pairs}{10 ** (DIGITS * pairs) - 1 - size:0{DIGITS * pairs}}{tie:0{TIE_DIGITS}}"
        return f"{ZERO + pairs}{size:0{DIGITS * pairs}}{tie:0{TIE_DIGITS}}"

    def offsets(self, prefix: str) -> Range:
        """Return the first and last offset of a prefix of at least one level."""
        code, digits = int(prefix[:DIGITS]), prefix[DIGITS:]
        length = DIGITS * abs(code - ZERO)
        known = digits[:length]
        low, high = int(known.ljust(length, "0")), int(known.ljust(length, "9"))
        shorter = 10 ** (length - DIGITS) if length > DIGITS else 0
        if code < ZERO:
            most = 10**length - 1
            return ~(most - low), min(~(most - high), ~shorter)
        return max(low, shorter), high

    def numbers(self, prefix: str) -> Range:
        """Return the least and greatest number of a prefix of at least one level, within the scale."""
        low, high = (min(max(offset - self.low + 1, 1), self.span) for offset in self.offsets(prefix))
        tie = prefix[self.score_levels(prefix) * DIGITS :]
        return low * TIE + int(tie.ljust(TIE_DIGITS, "0")), high * TIE + int(tie.ljust(TIE_DIGITS, "9"))

    def score_levels(self, path: str) -> int:
        """Return the number of levels of a path down to the last digits of the score."""
        return 1 + abs(int(path[:DIGITS]) - ZERO)


class Node(NamedTuple):
    """The counters of a prefix, by the next digits.

    `full` are the digits whose players are all counted one level down. When the digits were put there, their
    counter had no shallow player. The stream raises the depth of a player who joins later.
    """

    counters: Mapping[str, int] = {}
    full: Set[str] = frozenset()

    def count(self, digits: str) -> int:
        """Return the number of players on the path with the next digits.

        A counter is below zero while one player's departure is counted before another's arrival.
        """
        return max(0, sum(divide(self.counters.get(digits, 0))))

    def total(self) -> int:
        """Return the number of players of the prefix that are counted here."""
        return sum(map(self.count, self.counters))

    def better(self, digits: str) -> int:
        """Return the number of players with greater next digits."""
        return sum(self.count(other) for other in self.counters if other > digits)


Nodes = Mapping[str, Node]


def tie(ranking: str, player: str, time: int | None = None) -> int:
    """Return the number that orders a player among equal scores, which is always the same.

    It is pseudo-random, and ends with zeros, which DynamoDB does not store. With a `time` in milliseconds
    since 1970, the earlier score has the greater number. Scores of one millisecond are in a random order.
    """
    digest = hashlib.blake2b(f"{ranking}\n{player}".encode(), digest_size=16).digest()
    if time is None:
        return int.from_bytes(digest) % SPREAD * (TIE // SPREAD)
    left, spread = MILLISECONDS - 1 - min(max(time, 0), MILLISECONDS - 1), TIE // MILLISECONDS
    return left * spread + int.from_bytes(digest) % spread


def divide(counter: int) -> tuple[int, int]:
    """Return the shallow and the deep players of a counter. While changes are applied one may be negative.

    >>> divide(2 + 3 * DEEP), divide(3 * DEEP - 1)
    ((2, 3), (-1, 3))
    """
    deep = (counter + DEEP // 2) // DEEP
    return counter - deep * DEEP, deep


def steps(path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the prefix of each node of a path down to a depth, and the next digits.

    >>> list(steps("530123", 2))
    [('', '53'), ('53', '01')]
    """
    for start in range(0, DIGITS * depth, DIGITS):
        yield path[:start], path[start : start + DIGITS]


def bucket(path: str, depth: int) -> str:
    """Return the prefix whose players are not counted apart."""
    return path[: DIGITS * depth]


def amounts(scale: Scale, number: int, depth: int) -> dict[tuple[str, str], int]:
    """Return the amounts that a player adds to the counters along the path."""
    path = scale.path(number)
    return {step: 1 if level == depth else DEEP for level, step in enumerate(steps(path, depth), 1)}


def is_full(prefix: str, nodes: Nodes) -> bool:
    """Return whether the node above a prefix marks it as full."""
    return prefix[-DIGITS:] in nodes.get(prefix[:-DIGITS], Node()).full


def is_deep(prefix: str, nodes: Nodes) -> bool:
    """Return whether a new player of a prefix must be counted in its node."""
    return is_full(prefix, nodes) or count_above(prefix, nodes)[1] > 0


def usable_depth(path: str, depth: int, nodes: Nodes) -> int:
    """Return the depth to which counters may be added up: a node below it is incomplete."""
    levels = range(1, depth)
    return next((level for level in levels if not is_full(bucket(path, level), nodes)), depth)


def needed_depth(path: str, nodes: Nodes) -> int:
    """Return the depth of a new player of a path: below all nodes that count players, full or not."""
    depth = 1
    while depth < len(path) // DIGITS and is_deep(bucket(path, depth), nodes):
        depth += 1
    return depth


def is_crowded(path: str, depth: int, nodes: Nodes) -> bool:
    """Return whether a bucket has too many players, or a node that already counts some of them."""
    *_, (prefix, digits) = steps(path, depth)
    is_last = DIGITS * depth == len(path)
    crowd = nodes.get(prefix, Node()).count(digits)
    return not is_last and (crowd > LIMIT or is_deep(prefix + digits, nodes))


def is_complete(prefix: str, nodes: Nodes) -> bool:
    """Return whether all players of a prefix are counted in its node: its counter has no shallow ones."""
    shallow, deep = count_above(prefix, nodes)
    return shallow == 0 and deep > 0


def count_above(prefix: str, nodes: Nodes) -> tuple[int, int]:
    """Return the shallow and the deep players of a prefix, as the counter above its node has them."""
    above = nodes.get(prefix[:-DIGITS], Node())
    return divide(above.counters.get(prefix[-DIGITS:], 0))


def count_better(path: str, depth: int, nodes: Nodes) -> int:
    """Return the number of players in better buckets."""
    return sum(nodes.get(prefix, Node()).better(digits) for prefix, digits in steps(path, depth))


def is_counted_better(old: str, old_depth: int, path: str, depth: int, nodes: Nodes | None = None) -> bool:
    """Return whether the counters that rank a path count an older path of the same player as better.

    With `nodes`, return whether they can: the counter that would count the older path counts somebody.
    """
    for prefix, digits in steps(path, min(old_depth, depth)):
        older = old[len(prefix) :][:DIGITS]
        if older != digits:
            return older > digits and (nodes is None or nodes.get(prefix, Node()).count(older) > 0)
    return False


def descend(node: Node, place: int) -> tuple[str, int] | None:
    """Return the digits of the child that holds a place (from 0, best first), and the place in that child.

    Return None when the node has fewer players.
    """
    for digits in sorted(node.counters, reverse=True):
        count = node.count(digits)
        if place < count:
            return digits, place
        place -= count
    return None


def check(nodes: Nodes) -> None:
    """Assert that each counter is not negative, and that its deep players are counted in the node below."""
    deep = {}
    for prefix, node in nodes.items():
        for digits, counter in node.counters.items():
            shallow, deep[prefix + digits] = divide(counter)
            assert len(digits) == DIGITS, f"{prefix!r} has a counter {digits!r}"
            assert shallow >= 0 <= deep[prefix + digits], f"{prefix!r} has {counter} for {digits!r}"
            assert not (shallow and digits in node.full), f"{prefix + digits!r} is full"
    for prefix in deep.keys() | nodes.keys() - {""}:
        total = nodes.get(prefix, Node()).total()
        assert total == deep.get(prefix, 0), f"{prefix!r} adds up to {total}, not {deep.get(prefix, 0)}"
