"""Deepen crowded buckets: count their players one level further down, behind the stream.

| item | pk | sk | holds |
|---|---|---|---|
| deepening | `TREE#<ranking>#<digits>` | `DEEPEN` | the ranking; `below`: where the next step begins; |
| | | | `last`: it is the second pass; `ttl` |

When the stream has counted a player in a bucket that is crowded, it puts a deepening. The stream delivers
that too. Each step re-stamps `depth` on up to STEP players of the bucket, best first, and moves `below`,
until the bucket has been passed. What the new depths add to the counters comes through the stream as any
other change. A second pass finds the players who came during the first one. Who comes after its beginning is
re-stamped at once.

Invariants: a re-stamp does not change a number, so no rank changes. A node is marked `full` when its counter
above has no shallow player. A player who comes to a node that exists, and is not counted there, is re-stamped
by the stream at once. So a full node lacks a player no longer than the stream lags.

Cost: 1 WCU for each player of the bucket, once per level, and 1 for each step. 1 RCU for each player.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial

from chalicelib import times
from chalicelib.concurrency import map_concurrently
from chalicelib.dynamo.items import Images, Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.ranking import tree
from chalicelib.ranking.entries import start_listing_below
from chalicelib.ranking.ranking import Ranked, Ranking, choose_depth, node_key, read_nodes
from chalicelib.ranking.tree import DIGITS, LIMIT, Node, Scale

STEP = 250  # players that one step re-stamps
PAUSE = timedelta(
    minutes=1
)  # from the beginning of a deepening until another one of the same bucket may begin
LIFETIME = timedelta(days=1)  # of the item of a deepening

Rank = Callable[[Item], Ranked | None]
"""Returns the player that an item ranks, or None for an item that ranks nobody."""


def key_of(ranking: Ranking, prefix: str) -> Key:
    """Return the key of the deepening of a prefix."""
    return Key(node_key(ranking, prefix).pk, "DEEPEN")


def follow(table: Table, ranks: Iterable[Rank], changes: Iterable[Images], now: datetime) -> None:
    """Complete what a batch of the stream, which the aggregates have counted, makes necessary.

    Idempotent: the same changes may come again.

    Cost: nothing for changes inside a bucket. Else 1 RCU for each node of the path and the one below it, and
    1 for the bucket that a player has left, also for a deeper one.
    """
    ranks = tuple(ranks)
    arrived: dict[Key, Ranked] = {}
    left: dict[Ranking, set[str]] = {}
    for key, *images in changes:
        if key.sk == "DEEPEN" and images[1]:
            _step(table, images[1])
        old, new = (_ranked(ranks, image) for image in images)
        has_moved = not old or not new or (old.bucket, old.ranking) != (new.bucket, new.ranking)
        if has_moved and old:
            left.setdefault(old.ranking, set()).add(old.bucket)
        if not new:
            arrived.pop(key, None)
        elif has_moved or key in arrived:
            arrived[key] = new
    by_ranking: dict[Ranking, dict[Key, Ranked]] = {}
    for key, ranked in arrived.items():
        by_ranking.setdefault(ranked.ranking, {})[key] = ranked
    for ranking, players in by_ranking.items():
        _settle(table, ranking, players, now)
    for ranking, buckets in left.items():
        _mark_left(table, ranking, buckets - {""})


def prepare(table: Table, ranking: Ranking, numbers: Iterable[int]) -> None:
    """Create the nodes that many new players need, so that these come at their depth and none is re-stamped.

    A node is created full, which is right where the bucket has no shallow player. One who comes meanwhile is
    re-stamped by the stream.

    Cost: 1 RCU for the root and for each bucket that the new players crowd, and 1 WCU for each node.
    """
    paths = [ranking.scale.path(number) for number in numbers]
    nodes = read_nodes(table, ranking, [""], consistent=True)
    crowded, level = {""}, 1
    while crowded:
        below = Counter(tree.bucket(path, level) for path in paths if len(path) > DIGITS * level)
        reached = {prefix for prefix, n in below.items() if n > LIMIT and prefix[:-DIGITS] in crowded}
        nodes |= read_nodes(table, ranking, reached, consistent=True)
        empty = {prefix for prefix in reached - nodes.keys() if tree.count_above(prefix, nodes)[0] == 0}
        map_concurrently(partial(_mark_full, table, ranking), empty, "deepen")
        crowded, level = empty | (reached & nodes.keys()), level + 1


def _ranked(ranks: Iterable[Rank], item: Item) -> Ranked | None:
    """Return the player of an image. A malformed one, which is in quarantine, ranks nobody."""
    try:
        return next((found for rank in ranks if item and (found := rank(item))), None)
    except Exception:  # as in aggregates.engine.compute: an image may be malformed in any way
        return None


def _settle(table: Table, ranking: Ranking, players: Mapping[Key, Ranked], now: datetime) -> None:
    """Mark nodes that are complete, re-stamp players who are too shallow, and deepen crowded buckets."""
    prefixes = {tree.bucket(one.path, level) for one in players.values() for level in range(one.depth + 1)}
    nodes = read_nodes(table, ranking, prefixes, consistent=True)
    crowded = {
        ranked.bucket for ranked in players.values() if tree.is_crowded(ranked.path, ranked.depth, nodes)
    }
    for key, ranked in players.items():
        if ranked.bucket in crowded and ranked.bucket in nodes:
            depth = max(ranked.depth + 1, choose_depth(table, ranking, ranked.number))
            _stamp(table, key, ranked.number, ranked.depth, depth)
    pending = set()
    for prefix in prefixes - {""}:
        if prefix in nodes and not nodes[prefix].is_full and tree.is_complete(prefix, nodes):
            _mark_full(table, ranking, prefix)
        elif prefix in nodes or prefix in crowded:
            pending |= {prefix} if not nodes.get(prefix, Node()).is_full else set()
    passed = _begin(table, ranking, pending, now) if pending else set()
    for key, ranked in players.items():
        if ranked.bucket in crowded & passed:
            _stamp(table, key, ranked.number, ranked.depth, ranked.depth + 1)


def _mark_left(table: Table, ranking: Ranking, buckets: set[str]) -> None:
    """Mark the nodes of buckets whose last shallow player has left.

    Cost: 1 RCU for each bucket, and 1 more for one whose node is not full.
    """
    found = read_nodes(table, ranking, buckets, consistent=True) if buckets else {}
    nodes = {prefix: node for prefix, node in found.items() if not node.is_full}
    if nodes:
        above = read_nodes(table, ranking, {prefix[:-DIGITS] for prefix in nodes}, consistent=True)
        for prefix in nodes:
            if tree.is_complete(prefix, above | nodes):
                _mark_full(table, ranking, prefix)


def _mark_full(table: Table, ranking: Ranking, prefix: str) -> None:
    key, names = node_key(ranking, prefix), {"#full": "full"}
    table.update(key, "SET #full = :yes", names=names, values={":yes": 1}, idempotent=True)


def _begin(table: Table, ranking: Ranking, prefixes: Iterable[str], now: datetime) -> set[str]:
    """Put a deepening of each prefix, unless one has begun within the last minute.

    Return the prefixes of those that are in their second pass, which may have passed a player who comes now.
    """
    ago = times.epoch(now - PAUSE)
    keys = {key_of(ranking, prefix): prefix for prefix in prefixes}
    found = table.get_many(keys, consistent=True)
    begun = {key: item for key, item in found.items() if item["began"] >= ago}
    for key, prefix in keys.items():
        if key in begun:
            continue
        item = key._asdict() | {
            "ranking": ranking.name,
            "scale": list(ranking.scale),
            "shards": ranking.shards,
            "prefix": prefix,
            "below": ranking.scale.numbers(prefix)[1] + 1,
            "began": times.epoch(now),
            "ttl": times.epoch(now + LIFETIME),
        }
        table.put(item, condition="attribute_not_exists(pk) OR began < :ago", values={":ago": ago})
    return {keys[key] for key, item in begun.items() if "last" in item}


def _step(table: Table, item: Item) -> None:
    """Re-stamp the next players of a bucket, and move `below`, after the first pass to the top again.

    Cost: 0.5 RCU for each player, 0.5 per 30 for the index, and 1 WCU for each player and for the step.
    """
    ranking = Ranking(item["ranking"], Scale(*item["scale"]), item["shards"])
    prefix, below = item["prefix"], item["below"]
    depth = len(prefix) // DIGITS
    entries = start_listing_below(table, ranking, STEP, below, ranking.scale.numbers(prefix)[0])()
    found = table.get_many(entry.key for entry in entries)
    shallow = [
        entry for entry in entries if entry.key in found and _is_at(found[entry.key], entry.number, depth)
    ]
    map_concurrently(
        lambda entry: _stamp(table, entry.key, entry.number, depth, depth + 1), shallow, "deepen"
    )
    if len(entries) == STEP:
        table.update(
            Key(item["pk"], item["sk"]),
            "SET below = :next",
            condition="below = :below",
            values={":next": entries[-1].number, ":below": below},
            idempotent=True,
        )
    elif "last" not in item:
        top = ranking.scale.numbers(prefix)[1] + 1
        table.update(
            Key(item["pk"], item["sk"]),
            "SET below = :top, #last = :yes",
            condition="below = :below AND attribute_not_exists(#last)",
            names={"#last": "last"},
            values={":top": top, ":yes": 1, ":below": below},
            idempotent=True,
        )


def _is_at(item: Item, number: int, depth: int) -> bool:
    return bool(item.get("gsi1sk") == number and item.get("depth") == depth)


def _stamp(table: Table, key: Key, number: int, depth: int, deeper: int) -> None:
    """Write a greater depth to a player's item, unless the player has moved."""
    table.update(
        key,
        "SET #depth = :deeper",
        condition="gsi1sk = :number AND #depth = :depth",
        names={"#depth": "depth"},
        values={":deeper": deeper, ":number": number, ":depth": depth},
        idempotent=True,
    )
