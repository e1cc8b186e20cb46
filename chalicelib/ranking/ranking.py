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

from chalicelib.aggregates.sums import Amount, Constant
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.ranking import tree
from chalicelib.ranking.tree import TIE, Nodes, Scale


class Ranking(NamedTuple):
    """A set of players with scores: its name in the keys, its scale, over how many shards it is listed."""

    name: str
    scale: Scale
    shards: int = 1

    def entry(self, merit: int, player: str) -> int:
        """Answer the number that orders a player's entry among all: greater is better."""
        return merit * TIE + tree.tie(self.name, player)


class Position(NamedTuple):
    """Where a merit stands: strictly better players and one, players in all, players of the same merit."""

    rank: int
    of: int
    equal: int


class Place(NamedTuple):
    """A place in the order: so many entries down from a number; its merit, and where that stands."""

    below: int
    skipped: int
    merit: int
    position: Position


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
    leads = tree.path(ranking.scale, merit, tree.tie(ranking.name, player))
    counts: dict[tuple[Key, str], Amount] = {(node_key(ranking.name, at), digits): 1 for at, digits in leads}
    return counts | {
        (entry, "gsi1sk"): ranking.entry(merit, player),
        (entry, "gsi1pk"): Constant(shard_key(ranking.name, shard)),
    }


# -- read ----------------------------------------------------------------------------------------------


def path_keys(ranking: Ranking, merit: int) -> list[Key]:
    """Key the nodes that a merit's rank follows from, one for each two digits of the scale."""
    return [node_key(ranking.name, prefix) for prefix, _ in tree.path(ranking.scale, merit)]


def position(ranking: Ranking, merit: int, items: Mapping[Key, Item]) -> Position:
    """Compute where a merit stands from the nodes of its path; reads nothing."""
    found = {
        prefix: counters(items.get(node_key(ranking.name, prefix)))
        for prefix, _ in tree.path(ranking.scale, merit)
    }
    return standing(ranking, merit, found)


def standing(ranking: Ranking, merit: int, found: Nodes) -> Position:
    """Compute where a merit stands from its path."""
    return Position(
        tree.rank(ranking.scale, merit, found),
        tree.players(found[""]),
        tree.equal(ranking.scale, merit, found),
    )


def counters(node: Item | None) -> dict[str, int]:
    """Read a node's counters; none of a node that is not there."""
    return {name: count for name, count in (node or {}).items() if name not in ("pk", "sk")}


def players(table: Table, ranking: Ranking) -> int:
    """Count the players of a ranking. Costs 0.5 RCU."""
    return tree.players(counters(table.get(node_key(ranking.name, ""))))


def at_place(table: Table, ranking: Ranking, place: int) -> Place | None:
    """Answer where a place (from 1, best first) lies, by a walk down the tree; None past the last place.

    Costs 0.5 RCU and a round trip for each level, whatever the number of players. A tie of many shares its
    last node: then `skipped` entries, a hundredth of half the tie, are read before the place.
    """
    prefix, left, found = "", place - 1, tree.Nodes()
    for _ in range(ranking.scale.levels):
        found[prefix] = counters(table.get(node_key(ranking.name, prefix)))
        step = tree.descend(found[prefix], left)
        if step is None:
            return None
        prefix, left = prefix + step[0], step[1]
    digits = tree.DIGITS * ranking.scale.depth
    below = (int(prefix) + 1) * 10 ** (digits + len(str(TIE)) - 1 - len(prefix)) + TIE
    merit = int(prefix[:digits]) + 1
    return Place(below, left, merit, standing(ranking, merit, found))


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
    width = 10 ** (tree.DIGITS * (scale.depth - level))
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
