"""Boards with any number of players, in memory: items follow from the scores, and scores from a seed."""

from __future__ import annotations

import hashlib
import random
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from uuid import UUID

from chalicelib.aggregates import sums
from chalicelib.aggregates.sums import Constant
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.leaderboards import boards
from chalicelib.leaderboards import scores as leaderboards
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.schemas import BoardBody
from chalicelib.ranking import ranking
from chalicelib.ranking.tree import DIGITS, TIE
from local.engines.memory import Memory

HIGHEST = 999_999  # scores lie from 0 to here
SEED = 20261121
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LONG_AGO = 1_700_000_000  # epoch seconds of the last change of a settled score
POINTS = BoardBody(title="Points", operator="increment")
LEVELS = BoardBody(title="Levels", operator="set", max=Decimal(HIGHEST))
BEST = BoardBody(title="Best", operator="best", max=Decimal(HIGHEST))
SHARDED = BoardBody(title="Points, 8 shards", operator="increment", shards=8)

# Clustered: nine of ten within one percent of the range. Tied: ten different scores. Zipf with exponent 1 is
# uniform in its logarithm: half of the players have less than 1,000.
DISTRIBUTIONS: dict[str, Callable[[random.Random], int]] = {
    "uniform": lambda rng: rng.randint(0, HIGHEST),
    "normal": lambda rng: min(HIGHEST, max(0, round(rng.gauss(HIGHEST / 2, HIGHEST / 8)))),
    "Zipf": lambda rng: int((HIGHEST + 1) ** rng.random()) - 1,
    "clustered": lambda rng: rng.randint(500_000, 509_999) if rng.random() < 0.9 else rng.randint(0, HIGHEST),
    "tied": lambda rng: 100_000 * rng.randint(0, 9),
}


def name(number: int) -> str:
    """Return the name of a player or a board: a UUID."""
    return str(UUID(bytes=hashlib.blake2b(f"{SEED}-{number}".encode(), digest_size=16).digest(), version=4))


def players(distribution: str, count: int) -> dict[str, int]:
    """Return players with their scores."""
    rng, draw = random.Random(SEED), DISTRIBUTIONS[distribution]
    return {name(number): draw(rng) for number in range(count)}


class LargeBoard:
    """A board and its players, whose scores changed last at `changed` (epoch seconds)."""

    def __init__(self, body: BoardBody, scores: Mapping[str, int], changed: int = LONG_AGO) -> None:
        self.name = name(-1)
        self.scores = scores
        self._body, self._changed = body, changed
        self.memory = Memory(self._item)
        with self.memory.client() as client:
            self.board = self.define(Table("memory", client))
        of = self.board.ranking
        self._digits = len(str(TIE)) - 1 + DIGITS * of.scale.depth  # of an entry's number
        shards: list[list[tuple[int, str]]] = [[] for _ in range(of.shards)]
        for player, score in scores.items():
            entry = of.entry_number(of.scale.merit(score), player), f"PLAYER#{player}"
            shards[zlib.crc32(player.encode()) % of.shards].append(entry)
        for shard, entries in enumerate(shards):
            sk = ranking.entry_key(of.name, "").sk
            self.memory.put_partition(ranking.shard_key(of.name, shard), sorted(entries), sk)
        self._numbers = sorted(number for entries in shards for number, _ in entries)

    def define(self, table: Table) -> Board:
        """Define the board on a table, and forget the season of other boards of that name."""
        boards._cached_boards().clear()
        boards.define(table, self.name, self._body, NOW)
        return boards.find(table, self.name, NOW)

    def score(self, player: str) -> Item:
        """Return the item of a player's score, as a submission leaves it."""
        key = leaderboards.score_key(self.name, self.board.season, player)
        return key._asdict() | {
            "score": self.scores[player],
            "scale": list(self.board.scale),
            "shards": self.board.shards,
            "time": "2023-11-14T22:13:20.000000Z",
            "changed": self._changed,
        }

    def entry(self, player: str) -> Item:
        """Return the item of a player's entry."""
        of = self.board.ranking
        key = ranking.entry_key(of.name, player)
        amounts = ranking.contribution(of, player, self.scores[player])
        found = {attribute: amount for (owner, attribute), amount in amounts.items() if owner == key}
        return key._asdict() | {
            name: one.value if isinstance(one, Constant) else one for name, one in found.items()
        }

    def items(self) -> Iterator[Item]:
        """Yield all items, the aggregates by a recount: for some thousand players."""
        scores = [self.score(player) for player in self.scores]
        found: dict[Key, Item] = {}
        for (key, attribute), amount in sums.recount((leaderboards.contribution,), scores).items():
            value = amount.value if isinstance(amount, Constant) else amount
            found.setdefault(key, dict(key._asdict()))[attribute] = value
        yield from scores
        yield from found.values()

    def player_at(self, position: int) -> str:
        """Return the player at a position from 1; equal scores are in no order."""
        return self._by_score[position - 1]

    def rank(self, player: str) -> int:
        """Return 1 and the number of strictly better scores."""
        return len(self.scores) - bisect_right(self._ordered, self.scores[player]) + 1

    @cached_property
    def _by_score(self) -> list[str]:
        return sorted(self.scores, key=lambda player: -self.scores[player])

    @cached_property
    def _ordered(self) -> list[int]:
        return sorted(self.scores.values())

    def _item(self, key: Key) -> Item | None:
        """Compute the item of a key: a score, an entry or a node."""
        if not hasattr(self, "board"):
            return None
        of = self.board.ranking
        if (player := key.pk.removeprefix("PLAYER#")) in self.scores:
            if key == leaderboards.score_key(self.name, self.board.season, player):
                return self.score(player)
            return self.entry(player) if key == ranking.entry_key(of.name, player) else None
        root = ranking.node_key(of.name, "").pk
        return self._node(key, key.pk.removeprefix(root)) if key.pk.startswith(root) else None

    def _node(self, key: Key, prefix: str) -> Item | None:
        """Count a node's children from the sorted entries: the numbers with its digits and each two more."""
        if len(prefix) >= DIGITS * self.board.scale.levels:
            return None
        width = 10 ** (self._digits - len(prefix) - DIGITS)
        first = int(prefix or 0) * 10 ** (self._digits - len(prefix)) + TIE
        counts = {}
        begin = bisect_left(self._numbers, first)
        for digits in range(10**DIGITS):
            end = bisect_left(self._numbers, first + (digits + 1) * width, lo=begin)
            if end > begin:
                counts[f"{digits:0{DIGITS}}"] = end - begin
            begin = end
        return key._asdict() | counts if counts else None
