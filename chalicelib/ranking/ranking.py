"""Rankings on the table: the amounts that a player's score adds to a ranking, and positions read from it.

A season of a board is a ranking, and so is a challenge. The stream adds entry and tree in one transaction,
so a list of entries agrees with the counts of the tree.

| item | pk | sk | holds |
|---|---|---|---|
| entry | `PLAYER#<player>` | `RANKED#<ranking>` | `gsi1sk`: merit and tie (0: not ranked), gsi1pk |
| node | `RANK#<ranking>#<digits>` | `NODE` | `00`…`99`: number of players whose next digits are these |

`gsi1pk` is `<ranking>#<shard>`. An index partition takes 1,000 writes per second, so a ranking with more
writes has its entries in several shards. `entries.py` merges them in order.

Invariant: the counters of a node add up to the counter of its prefix in the node above (`tree.check`).
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
    """A set of players with scores: its name in the keys, its scale, and its number of shards."""

    name: str
    scale: Scale
    shards: int = 1

    def entry_number(self, merit: int, player: str) -> int:
        """Return the number that orders a player's entry among all. A better entry has a greater number."""
        return merit * TIE + tree.tie(self.name, player)


class Position(NamedTuple):
    """The position of a merit: its rank, the number of all players, the number of players with this merit."""

    rank: int
    of: int
    equal: int


class Place(NamedTuple):
    """The start of a list that begins at a place.

    The list begins `skipped` entries after the number `below`. Its first entry has this merit and position.
    """

    below: int
    skipped: int
    merit: int
    position: Position


# -- keys ----------------------------------------------------------------------------------------------


def entry_key(ranking: str, player: str) -> Key:
    """Return the key of a player's entry in a ranking."""
    return Key(f"PLAYER#{player}", f"RANKED#{ranking}")


def player_of(entry: Item) -> str:
    """Return the player of an entry."""
    return str(entry["pk"].removeprefix("PLAYER#"))


def node_key(ranking: str, prefix: str) -> Key:
    """Return the key of a node of a ranking's tree. The root has the empty prefix."""
    return Key(f"RANK#{ranking}#{prefix}", "NODE")


def path_keys(ranking: Ranking, merit: int) -> list[Key]:
    """Return the keys of the nodes that determine a merit's rank, one for each two digits of the scale."""
    return [node_key(ranking.name, prefix) for prefix, _ in tree.path(ranking.scale, merit)]


def shard_key(ranking: str, shard: int) -> str:
    """Return the gsi1 partition key of a shard of a ranking's entries, which are sorted best last."""
    return f"{ranking}#{shard}"


# -- contribution --------------------------------------------------------------------------------------


def contribution(ranking: Ranking, player: str, score: Any) -> dict[tuple[Key, str], Amount]:
    """Return the amounts that a score adds to a ranking: the entry, and 1 in each node of the path.

    A change of score subtracts the amounts of the old score. Where both paths share nodes the amounts cancel,
    so a small gain writes only the lower nodes.

    Raises:
        ValueError: the score is off the scale.
        TypeError: the score is no number.
    """
    merit = ranking.scale.merit(score)
    entry = entry_key(ranking.name, player)
    shard = zlib.crc32(player.encode()) % ranking.shards
    path = tree.path(ranking.scale, merit, tree.tie(ranking.name, player))
    counts: dict[tuple[Key, str], Amount] = {
        (node_key(ranking.name, prefix), digits): 1 for prefix, digits in path
    }
    return counts | {
        (entry, "gsi1sk"): ranking.entry_number(merit, player),
        (entry, "gsi1pk"): Constant(shard_key(ranking.name, shard)),
    }


# -- reads ---------------------------------------------------------------------------------------------


def compute_position(ranking: Ranking, merit: int, items: Mapping[Key, Item]) -> Position:
    """Return the position of a merit, computed from the items of `path_keys`. Read nothing."""
    return _position_in_tree(
        ranking,
        merit,
        {
            prefix: read_counters(items.get(node_key(ranking.name, prefix)))
            for prefix, _ in tree.path(ranking.scale, merit)
        },
    )


def _position_in_tree(ranking: Ranking, merit: int, nodes: Nodes) -> Position:
    return Position(
        tree.rank(ranking.scale, merit, nodes),
        tree.count_players(nodes[""]),
        tree.count_equal(ranking.scale, merit, nodes),
    )


def read_counters(node: Item | None) -> dict[str, int]:
    """Return the counters of a node's item; none for a node that does not exist."""
    return {name: count for name, count in (node or {}).items() if name.isdigit()}


def count_players(table: Table, ranking: Ranking) -> int:
    """Return the number of players of a ranking.

    Cost: 0.5 RCU.
    """
    return tree.count_players(read_counters(table.get(node_key(ranking.name, ""))))


def find_place(table: Table, ranking: Ranking, place: int) -> Place | None:
    """Return the start of the list at a place (from 1, best first), or None past the last place.

    The tree is descended from the root. Players under the same digits of its last level are skipped one by
    one: on average a 200th of a tie of many players.

    Cost: 0.5 RCU and one round trip per level, whatever the number of players.
    """
    prefix, left, nodes = "", place - 1, tree.Nodes()
    for _ in range(ranking.scale.levels):
        nodes[prefix] = read_counters(table.get(node_key(ranking.name, prefix)))
        step = tree.descend(nodes[prefix], left)
        if step is None:
            return None
        prefix, left = prefix + step[0], step[1]
    digits = tree.DIGITS * ranking.scale.depth
    below = (int(prefix) + 1) * 10 ** (digits + len(str(TIE)) - 1 - len(prefix)) + TIE
    merit = int(prefix[:digits]) + 1
    return Place(below, left, merit, _position_in_tree(ranking, merit, nodes))


def count_by_merit(table: Table, ranking: Ranking, limit: int) -> dict[range, int]:
    """Return the number of players by ranges of merits, without empty ranges.

    The ranges are those of the first level of the tree that has more than `limit` of them, or else of the
    last level.

    Cost: 0.5 RCU per node, of which at most `limit` are read per level.
    """
    scale, found = ranking.scale, {"": 0}
    for level in range(1, scale.depth + 1):
        nodes = table.get_many(node_key(ranking.name, prefix) for prefix in found)
        found = {
            prefix + digits: count
            for prefix in found
            for digits, count in read_counters(nodes.get(node_key(ranking.name, prefix))).items()
            if count > 0
        }
        if len(found) > limit or level == scale.depth:
            break
    width = 10 ** (tree.DIGITS * (scale.depth - level))
    return {
        range(int(prefix) * width + 1, (int(prefix) + 1) * width + 1): count
        for prefix, count in sorted(found.items())
    }


def collect_nodes(ranking: Ranking, items: Iterable[Item]) -> Nodes:
    """Return a ranking's whole tree, found among items, for `tree.check`."""
    start = node_key(ranking.name, "").pk
    return {
        item["pk"].removeprefix(start): read_counters(item)
        for item in items
        if item["sk"] == "NODE" and item["pk"].startswith(start)
    }
