"""A leaderboard with as many players as one likes, in memory: its items follow from the scores."""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property

from bench import crowds
from bench.memory import Memory
from chalicelib import boards, leaderboards, ranking, sums
from chalicelib.board_schemas import BoardBody
from chalicelib.boards import Board
from chalicelib.items import Item, Key
from chalicelib.ranktree import DIGITS, TIE
from chalicelib.sums import Constant
from chalicelib.table import Table

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LONG_AGO = 1_700_000_000  # when all scores changed last: settled

POINTS = BoardBody(title="Points", operator="increment")
LEVELS = BoardBody(title="Levels", operator="set", max=Decimal(crowds.MOST))
BEST = BoardBody(title="Best", operator="best", max=Decimal(crowds.MOST))
SHARDED = BoardBody(title="Points, 8 shards", operator="increment", shards=8)


class CrowdedBoard:
    """A board and its players, whose last change was at `changed` (epoch seconds)."""

    def __init__(self, body: BoardBody, scores: Mapping[str, int], changed: int = LONG_AGO) -> None:
        self.name = crowds.name(-1)
        self.scores = scores
        self._body = body
        self._changed = changed
        self.memory = Memory(self._computed)
        with self.memory.client() as client:
            self.board = self.define(Table("memory", client))
        held = self.board.ranking
        self._units = len(str(TIE)) - 1 + DIGITS * held.scale.depth  # digits of an entry's number
        shards: list[list[tuple[int, str]]] = [[] for _ in range(held.shards)]
        for player, score in scores.items():
            entry = held.entry(held.scale.merit(score), player), f"PLAYER#{player}"
            shards[zlib.crc32(player.encode()) % held.shards].append(entry)
        for shard, entries in enumerate(shards):
            sk = ranking.entry_key(held.name, "").sk
            self.memory.put_partition(ranking.shard_key(held.name, shard), sorted(entries), sk)
        self._numbers = sorted(number for entries in shards for number, _ in entries)

    def define(self, table: Table) -> Board:
        """Make the board on a table, and forget what other boards of that name were like."""
        boards._met().clear()
        boards.define(table, self.name, self._body, NOW)
        return boards.find(table, self.name, NOW)

    def score(self, player: str) -> Item:
        """Answer the item of a player's score, as `leaderboards.submit` leaves it."""
        key = leaderboards.score_key(self.name, self.board.season, player)
        return key._asdict() | {
            "score": self.scores[player],
            "scale": list(self.board.scale),
            "shards": self.board.shards,
            "time": "2023-11-14T22:13:20.000000Z",
            "changed": self._changed,
        }

    def entry(self, player: str) -> Item:
        """Answer the item of a player's entry."""
        held = self.board.ranking
        amounts = ranking.amounts(held, player, self.scores[player])
        key = ranking.entry_key(held.name, player)
        return key._asdict() | {
            attribute: amount.value if isinstance(amount, Constant) else amount
            for (of, attribute), amount in amounts.items()
            if of == key
        }

    def items(self) -> Iterator[Item]:
        """Yield all items, the aggregates by a recount: for boards of some thousand players."""
        scores = [self.score(player) for player in self.scores]
        found: dict[Key, Item] = {}
        for (key, attribute), amount in sums.recount((leaderboards.contribution,), scores).items():
            value = amount.value if isinstance(amount, Constant) else amount
            found.setdefault(key, dict(key._asdict()))[attribute] = value
        yield from scores
        yield from found.values()

    def player_at(self, place: int) -> str:
        """Answer a player by place, from 1, among equal ones in no order."""
        return self._by_score[place - 1]

    def rank(self, player: str) -> int:
        """Count the strictly better scores, and one: what a rank must be."""
        return len(self.scores) - bisect_right(self._ordered, self.scores[player]) + 1

    @cached_property
    def _by_score(self) -> list[str]:
        return sorted(self.scores, key=lambda player: -self.scores[player])

    @cached_property
    def _ordered(self) -> list[int]:
        return sorted(self.scores.values())

    def _computed(self, key: Key) -> Item | None:
        held = self.board.ranking if hasattr(self, "board") else None
        if held is None:
            return None
        if (player := key.pk.removeprefix("PLAYER#")) in self.scores:
            if key == leaderboards.score_key(self.name, self.board.season, player):
                return self.score(player)
            return self.entry(player) if key == ranking.entry_key(held.name, player) else None
        root = ranking.node_key(held.name, "").pk
        return self._node(key, key.pk.removeprefix(root)) if key.pk.startswith(root) else None

    def _node(self, key: Key, prefix: str) -> Item | None:
        """Count a node from the sorted entries: how many begin with its digits and each two more."""
        if len(prefix) >= DIGITS * self.board.scale.levels:
            return None
        width = 10 ** (self._units - len(prefix) - DIGITS)
        first = int(prefix or 0) * 10 ** (self._units - len(prefix)) + TIE
        counts = {}
        begin = bisect_left(self._numbers, first)
        for digits in range(10**DIGITS):
            end = bisect_left(self._numbers, first + (digits + 1) * width, lo=begin)
            if end > begin:
                counts[f"{digits:0{DIGITS}}"] = end - begin
            begin = end
        return key._asdict() | counts if counts else None
