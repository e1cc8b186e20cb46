"""Rankings on the table: a ranked item carries its index key and its depth, and counters add up the crowd.

A season of a board is a ranking, and so is a challenge. A player's item (a score, a progress) is the entry in
the index. The stream adds what the item contributes to the counters (`tree.py`).

| item | pk | sk | holds |
|---|---|---|---|
| node | `TREE#<ranking>#<digits>` | `NODE` | `00`…`99`: counters of players by the next digits; |
| | | | `full`: the digits whose players are all counted one level down |

A ranked item has `gsi1pk`, `gsi1sk` (the number: merit and tie) and `depth`. `gsi1pk` is a digest of the
ranking and a shard: an index entry is read often, so it is short. An index partition takes 1,000 writes per
second, so a ranking with more writes has its entries in several shards. `entries.py` merges them in order.

Invariant: `tree.check` holds once the stream is applied.
"""

import base64
import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from chalicelib.aggregates.sums import Amount
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.ranking import tree
from chalicelib.ranking.tree import DIGITS, TIE, Node, Nodes, Scale


class Ranking(NamedTuple):
    """A set of players with scores: its name in the keys, its scale, and its number of shards.

    Equal scores share a rank if it `is_shared`. Otherwise the earlier score is ahead, and a rank is a place.
    """

    name: str
    scale: Scale
    shards: int = 1
    is_shared: bool = True

    def number(self, merit: int, player: str, time: int = 0) -> int:
        """Return the number that orders a player among all. A better player has a greater number.

        `time` is when the player reached the score, in milliseconds since 1970.
        """
        return merit * TIE + tree.tie(self.name, player, None if self.is_shared else time)

    def rank_key(self, number: int) -> int:
        """Return the value that is equal for players who share a rank, and greater for a better rank."""
        return number // TIE if self.is_shared else number

    def levels(self, path: str) -> int:
        """Return the number of levels of a path that decide a rank."""
        return self.scale.score_levels(path) if self.is_shared else len(path) // DIGITS


class Ranked(NamedTuple):
    """A player in a ranking, as an item has it.

    `before` are numbers and depths of earlier, better positions that the counters may still have.
    """

    ranking: Ranking
    player: str
    number: int
    depth: int
    before: Sequence[tuple[int, int]] = ()

    @property
    def path(self) -> str:
        """Return the path of the player's number."""
        return self.ranking.scale.path(self.number)

    @property
    def bucket(self) -> str:
        """Return the prefix of the player's bucket."""
        return tree.bucket(self.path, self.depth)


# -- keys ----------------------------------------------------------------------------------------------


def node_key(ranking: Ranking, prefix: str) -> Key:
    """Return the key of a node of a ranking's tree. The root has the empty prefix."""
    return Key(f"TREE#{ranking.name}#{prefix}", "NODE")


def shard_key(ranking: Ranking, shard: int) -> str:
    """Return the gsi1 partition key of a shard of a ranking's entries, which are sorted best last."""
    digest = hashlib.blake2b(ranking.name.encode(), digest_size=12).digest()
    return f"R#{base64.urlsafe_b64encode(digest).decode()}#{shard}"


def index_key(ranking: Ranking, player: str, number: int) -> dict[str, Any]:
    """Return the attributes that put a player's item into the index."""
    shard = zlib.crc32(player.encode()) % ranking.shards
    return {"gsi1pk": shard_key(ranking, shard), "gsi1sk": number}


# -- contribution --------------------------------------------------------------------------------------


def count_player(ranked: Ranked) -> dict[tuple[Key, str], Amount]:
    """Return the amounts that a player adds to a ranking: one counter in each node down to the depth.

    A change of score subtracts the amounts of the old score. The amounts of shared counters cancel, so a gain
    inside a bucket writes nothing.
    """
    ranking = ranked.ranking
    steps = tree.amounts(ranking.scale, ranked.number, ranked.depth)
    return {(node_key(ranking, prefix), digits): amount for (prefix, digits), amount in steps.items()}


# -- reads ---------------------------------------------------------------------------------------------


def read_nodes(
    table: Table, ranking: Ranking, prefixes: Iterable[str], *, consistent: bool = False
) -> dict[str, Node]:
    """Return the nodes of prefixes that exist.

    Cost: 0.5 RCU for each prefix, or 1 if consistent.
    """
    keys = {node_key(ranking, prefix): prefix for prefix in prefixes}
    items = table.get_many(keys, consistent=consistent)
    return {keys[key]: parse_node(item) for key, item in items.items()}


def parse_node(item: Item) -> Node:
    """Return the node of an item."""
    counters = {name: count for name, count in item.items() if len(name) == DIGITS and name.isdigit()}
    return Node(counters, item.get("full", frozenset()))


def count_players(table: Table, ranking: Ranking) -> int:
    """Return the number of players of a ranking.

    Cost: 0.5 RCU.
    """
    return read_nodes(table, ranking, [""]).get("", Node()).total()


def read_paths(table: Table, ranking: Ranking, numbers: Iterable[int]) -> dict[str, Node]:
    """Return the nodes on the paths of numbers, down to those that count the last digits of the scores.

    Cost: 0.5 RCU for each node.
    """
    paths = map(ranking.scale.path, numbers)
    return read_nodes(
        table,
        ranking,
        {tree.bucket(path, level) for path in paths for level in range(ranking.scale.score_levels(path))},
    )


def find_kept_depth(ranking: Ranking, number: int, before: Mapping[str, Any]) -> int:
    """Return the depth of a player whose new number is in the bucket of the item `before`, or else 0."""
    if "depth" not in before:
        return 0
    depth, path = int(before["depth"]), ranking.scale.path(number)
    old = ranking.scale.path(int(before["gsi1sk"]))
    return depth if tree.bucket(old, depth) == tree.bucket(path, depth) else 0


def choose_depth(
    table: Table,
    ranking: Ranking,
    number: int,
    before: Mapping[str, Any] | None = None,
    nodes: Nodes | None = None,
) -> int:
    """Return the depth of a player with a number, whose item was `before`.

    `nodes`: what `read_paths` has returned for the number among others.

    Cost: nothing within the bucket, else 0.5 RCU for every two digits of the score, and 0.5 more. In a crowd
    of equal scores also 0.5 for each level of ties.
    """
    if depth := find_kept_depth(ranking, number, before or {}):
        return depth
    path = ranking.scale.path(number)
    levels = ranking.scale.score_levels(path)
    nodes = read_paths(table, ranking, [number]) if nodes is None else nodes
    while (depth := tree.needed_depth(path, nodes)) > levels and depth * DIGITS < len(path):
        levels = depth  # a crowd of equal scores
        nodes = {**nodes, **read_nodes(table, ranking, [tree.bucket(path, depth - 1)])}
    return depth


def collect_nodes(ranking: Ranking, items: Iterable[Item]) -> dict[str, Node]:
    """Return a ranking's whole tree, found among items, for `tree.check`."""
    start = node_key(ranking, "").pk
    return {
        item["pk"].removeprefix(start): parse_node(item)
        for item in items
        if item["sk"] == "NODE" and item["pk"].startswith(start)
    }
