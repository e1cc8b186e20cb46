"""Rankings on the table: what a player's score adds to them, and what they answer.

Whatever has players with scores is ranked by this: a board's season, a challenge. All of it is kept by the
stream, in one transaction, so the entries that are listed and the tree that counts them never disagree.

| item | pk | sk | holds |
|---|---|---|---|
| entry | `PLAYER#<player>` | `RANKED#<ranking>` | `gsi1sk`: merit and tie (0: not ranked), gsi1pk |
| node | `RANK#<ranking>#<digits>` | `NODE` | `00`…`99`: how many players go on with these digits |

`gsi1pk` is `<ranking>#<shard>`: an index partition takes 1,000 writes a second, and a ranking with more has
its entries spread over several, which are merged in order when they are read (ladder.py).
"""

import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from chalicelib import ranktree
from chalicelib.items import Item, Key
from chalicelib.ranktree import TIE, Nodes, Scale
from chalicelib.sums import Amount, Constant
from chalicelib.table import Table


class Ranking(NamedTuple):
    """A set of players with scores: its name in the keys, its scale, over how many shards it is listed."""

    name: str
    scale: Scale
    shards: int = 1

    def entry(self, merit: int, player: str) -> int:
        """Answer the number that orders a player's entry among all: greater is better."""
        return merit * TIE + ranktree.tie(self.name, player)


class Position(NamedTuple):
    """Where a merit stands: strictly better players and one, players in all, players of the same merit."""

    rank: int
    of: int
    equal: int


# -- keys ----------------------------------------------------------------------------------------------


def entry_key(ranking: str, player: str) -> Key:
    """Key a player's entry in a ranking."""
    return Key(f"PLAYER#{player}", f"RANKED#{ranking}")


def node_key(ranking: str, prefix: str) -> Key:
    """Key a node of a ranking's tree; the root has the empty prefix."""
    return Key(f"RANK#{ranking}#{prefix}", "NODE")


def shard_key(ranking: str, shard: int) -> str:
    """Key a shard of a ranking's entries in gsi1, best last."""
    return f"{ranking}#{shard}"


def player_of(entry: Item) -> str:
    """Read whose entry it is."""
    return str(entry["pk"].removeprefix("PLAYER#"))


# -- contribution --------------------------------------------------------------------------------------


def amounts(ranking: Ranking, player: str, score: Any) -> dict[tuple[Key, str], Amount]:
    """Say what a player with a score adds to a ranking: the entry, and a count in each node of the path.

    A change of score takes away what it added before; where both paths lead through the same digits that
    comes to nothing, so a small gain writes the lower nodes alone. Raises ValueError for a score that is off
    the scale, TypeError for what is no number.
    """
    merit = ranking.scale.merit(score)
    entry = entry_key(ranking.name, player)
    shard = zlib.crc32(player.encode()) % ranking.shards
    leads = ranktree.path(ranking.scale, merit, ranktree.tie(ranking.name, player))
    counts: dict[tuple[Key, str], Amount] = {(node_key(ranking.name, at), digits): 1 for at, digits in leads}
    return counts | {
        (entry, "gsi1sk"): ranking.entry(merit, player),
        (entry, "gsi1pk"): Constant(shard_key(ranking.name, shard)),
    }


# -- read ----------------------------------------------------------------------------------------------


def path_keys(ranking: Ranking, merit: int) -> list[Key]:
    """Key the nodes that a merit's rank follows from, one for each two digits of the scale."""
    return [node_key(ranking.name, prefix) for prefix, _ in ranktree.path(ranking.scale, merit)]


def position(ranking: Ranking, merit: int, items: Mapping[Key, Item]) -> Position:
    """Compute where a merit stands from the nodes of its path; reads nothing."""
    found = {
        prefix: counters(items.get(node_key(ranking.name, prefix)))
        for prefix, _ in ranktree.path(ranking.scale, merit)
    }
    return Position(
        ranktree.rank(ranking.scale, merit, found),
        ranktree.players(found[""]),
        ranktree.equal(ranking.scale, merit, found),
    )


def counters(node: Item | None) -> dict[str, int]:
    """Read a node's counters; none of a node that is not there."""
    return {name: count for name, count in (node or {}).items() if name not in ("pk", "sk")}


def players(table: Table, ranking: Ranking) -> int:
    """Count the players of a ranking. Costs 0.5 RCU."""
    return ranktree.players(counters(table.get(node_key(ranking.name, ""))))


def at_place(table: Table, ranking: Ranking, place: int) -> tuple[int, int] | None:
    """Answer below which entry number a place (from 1, best first) lies, and how many come before it there.

    None past the last place. Costs 0.5 RCU and a round trip for each level of the tree; the way down is the
    one that the counters show, whatever the number of players.
    """
    prefix, left = "", place - 1
    for _ in range(ranking.scale.levels):
        step = ranktree.descend(counters(table.get(node_key(ranking.name, prefix))), left)
        if step is None:
            return None
        prefix, left = prefix + step[0], step[1]
    digits = len(str(TIE)) - 1 + ranktree.DIGITS * ranking.scale.depth
    return (int(prefix) + 1) * 10 ** (digits - len(prefix)) + TIE, left


def spread(table: Table, ranking: Ranking, most: int) -> dict[range, int]:
    """Count the players by ranges of merits: the nodes of one level, the first that shows enough of them.

    A level has as many ranges as there are digits in use; while they are at most `most`, the next level is
    read, of every one of them. Costs 0.5 RCU a node: at most `most` a level.
    """
    scale, found = ranking.scale, {"": 0}
    for level in range(1, scale.depth + 1):
        nodes = table.get_many(node_key(ranking.name, prefix) for prefix in found)
        found = {
            prefix + digits: count
            for prefix in found
            for digits, count in counters(nodes.get(node_key(ranking.name, prefix))).items()
            if count > 0
        }
        if len(found) > most or level == scale.depth:
            break
    width = 10 ** (ranktree.DIGITS * (scale.depth - level))
    return {
        range(int(prefix) * width + 1, (int(prefix) + 1) * width + 1): count
        for prefix, count in sorted(found.items())
    }


def nodes(ranking: Ranking, items: Iterable[Item]) -> Nodes:
    """Pick a ranking's tree out of items, for `ranktree.check`."""
    start = node_key(ranking.name, "").pk
    return {
        item["pk"].removeprefix(start): counters(item)
        for item in items
        if item["sk"] == "NODE" and item["pk"].startswith(start)
    }
