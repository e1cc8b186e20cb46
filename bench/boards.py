"""Boards with any number of players, in memory: items follow from the scores, and scores from a seed."""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, cached_property, lru_cache
from uuid import UUID

from bench.tables import recounted
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.leaderboards import boards
from chalicelib.leaderboards import scores as leaderboards
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.schemas import BoardBody
from chalicelib.ranking import ranking, tree
from chalicelib.ranking.tree import DIGITS
from local.engines.memory import Memory

HIGHEST = 999_999  # scores lie from 0 to here
SEED = 20261121
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LONG_AGO = 1_700_000_000  # epoch seconds of the last change of a settled score
POINTS = BoardBody(title="Points", operator="increment")
LEVELS = BoardBody(title="Levels", operator="set", max=Decimal(HIGHEST))
BEST = BoardBody(title="Best", operator="best", max=Decimal(HIGHEST))
SHARDED = BoardBody(title="Points, 8 shards", operator="increment", shards=8)
BODIES = {body.title: body for body in (POINTS, LEVELS, BEST, SHARDED)}
MAGNITUDES = {f"{tree.ZERO + pairs * sign:02}" for pairs in range(1, 10) for sign in (1, -1)}

# Clustered: nine of ten within one percent of the range. Tied: ten different scores. Zipf with exponent 1 is
# uniform in its logarithm: half of the players have less than 1,000.
DISTRIBUTIONS: dict[str, Callable[[random.Random], int]] = {
    "uniform": lambda rng: rng.randint(0, HIGHEST),
    "normal": lambda rng: min(HIGHEST, max(0, round(rng.gauss(HIGHEST / 2, HIGHEST / 8)))),
    "Zipf": lambda rng: int((HIGHEST + 1) ** rng.random()) - 1,
    "clustered": lambda rng: rng.randint(500_000, 509_999) if rng.random() < 0.9 else rng.randint(0, HIGHEST),
    "tied": lambda rng: 100_000 * rng.randint(0, 9),
}


@cache
def name(number: int) -> str:
    """Return the name of a player or a board: a UUID."""
    return str(UUID(bytes=hashlib.blake2b(f"{SEED}-{number}".encode(), digest_size=16).digest(), version=4))


@lru_cache(maxsize=1)
def players(distribution: str, count: int) -> Mapping[str, int]:
    """Return players with their scores. The last ones are kept."""
    rng, draw = random.Random(SEED), DISTRIBUTIONS[distribution]
    return {name(number): draw(rng) for number in range(count)}


class LargeBoard:
    """A board and its players."""

    def __init__(self, body: BoardBody, scores: Mapping[str, int]) -> None:
        self.name = name(-1)
        self.scores = scores
        self._body = body
        self.memory = Memory(self._item)
        with self.memory.client() as client:
            self.board = self.define(Table("memory", client))
        of = self.board.ranking
        self._of = of
        shards: dict[str, list[tuple[int, str]]] = {ranking.shard_key(of, n): [] for n in range(of.shards)}
        for player, score in scores.items():
            entry = ranking.index_key(of, player, of.scale.merit(score))
            shards[entry["gsi1pk"]].append((entry["gsi1sk"], f"PLAYER#{player}"))
        sk = leaderboards.score_key(self.name, self.board.season, "").sk
        for key, entries in shards.items():
            self.memory.put_partition(key, sorted(entries), sk)
        self._numbers = sorted(number for entries in shards.values() for number, _ in entries)

    def define(self, table: Table) -> Board:
        """Define the board on a table, and forget the season of other boards of that name."""
        boards._cached_boards().clear()
        boards.define(table, self.name, self._body, NOW)
        return boards.find(table, self.name, NOW)

    def score(self, player: str) -> Item:
        """Return the item of a player's score, as it is once its bucket has been deepened."""
        key = leaderboards.score_key(self.name, self.board.season, player)
        entry = ranking.index_key(self._of, player, self._of.scale.merit(self.scores[player]))
        path, depth = self._of.scale.path(entry["gsi1sk"]), 1
        while self._count(tree.bucket(path, depth)) > tree.LIMIT:
            depth += 1
        fields = {
            "score": self.scores[player],
            "scale": list(self.board.scale),
            "shards": self.board.shards,
            "time": "2023-11-14T22:13:20.000000Z",
            "at": LONG_AGO * 1000,
            "depth": depth,
        }
        return key._asdict() | entry | fields

    def _count(self, prefix: str) -> int:
        """Return the number of players of a prefix."""
        if prefix[:DIGITS] not in MAGNITUDES:
            return 0
        least, most = self._of.scale.numbers(prefix)
        return max(0, bisect_right(self._numbers, most) - bisect_left(self._numbers, least))

    def items(self) -> Iterator[Item]:
        """Yield all items, the aggregates by a recount: for some thousand players."""
        scores = [self.score(player) for player in self.scores]
        yield from scores
        for key, node in recounted((leaderboards.contribution,), scores).items():
            yield node | ({} if key == ranking.node_key(self._of, "") else {"full": 1})

    def scores_and_nodes(self) -> Iterator[Item]:
        """Yield all items, each node by itself: for a million players."""
        yield from map(self.score, self.scores)
        yield from self.nodes()

    def nodes(self) -> Iterator[Item]:
        """Yield all nodes: some hundred for a million players."""
        prefixes = [""]
        while prefixes:
            prefix = prefixes.pop()
            if item := self._node(ranking.node_key(self._of, prefix), prefix):
                yield item
                full = [digits for digits, n in item.items() if digits.isdigit() and n >= tree.DEEP]
                prefixes += [prefix + digits for digits in full]

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
        if (player := key.pk.removeprefix("PLAYER#")) in self.scores:
            is_score = key == leaderboards.score_key(self.name, self.board.season, player)
            return self.score(player) if is_score else None
        root = ranking.node_key(self._of, "")
        is_node = key.sk == root.sk and key.pk.startswith(root.pk)
        return self._node(key, key.pk.removeprefix(root.pk)) if is_node else None

    def _node(self, key: Key, prefix: str) -> Item | None:
        """Count the children of a node, which a prefix has if it is the root or has too many players."""
        ancestors = (prefix[:end] for end in range(DIGITS, len(prefix) + 1, DIGITS))
        if not all(self._count(one) > tree.LIMIT for one in ancestors):
            return None
        counts = {f"{number:02}": self._count(f"{prefix}{number:02}") for number in range(100)}
        found = {digits: n * (tree.DEEP if n > tree.LIMIT else 1) for digits, n in counts.items() if n}
        return key._asdict() | found | ({"full": 1} if prefix else {}) if found else None


@lru_cache(maxsize=1)
def uniform_board(title: str, count: int) -> LargeBoard:
    """Return a board of players with uniform scores. The last one is kept: a million take ten seconds."""
    return LargeBoard(BODIES[title], players("uniform", count))
