"""Deepen crowded buckets: count their players one level further down, behind the stream.

| item | pk | sk | holds |
|---|---|---|---|
| deepening | `TREE#<ranking>#<digits>` | `DEEPEN` | the ranking; `below`: where the next step begins; |
| | | | `last`: it is the second pass; `ttl` |

When the stream has counted a player in a crowded bucket, it puts a deepening. The stream delivers the
deepening too. Each step raises `depth` of up to STEP players of the bucket, best first, and moves `below`
behind them. The counters follow through the stream, as for any other change. A second pass finds the players
who joined during the first pass. A player who joins during the second pass gets the new depth immediately.

Invariants: a new depth does not change a number, so no rank changes. A bucket is marked `full` in the item of
its counter, on condition that the counter is unchanged and contains no shallow player. A shallow player that
is counted before the mark makes this condition false. A shallow player that is counted after the mark gets
the new depth, because the stream reads the mark. So a full node lacks a player no longer than the stream
lags, even if a worker pauses between its read and its mark (tests/ranking/test_model.py).

The stream keeps the order of an item's changes, so an arrival is counted before the departure. After a batch
was lost, or was replayed late, `ops repair` finds the players that a full node lacks.

Cost: 1 RCU and 1 WCU for each player of the bucket, once per level, and 1 WCU for each step. A mark is one
update of a node.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from chalicelib import times
from chalicelib.concurrency import map_concurrently
from chalicelib.context import Context
from chalicelib.dynamo.items import Images, Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy
from chalicelib.ranking import tree
from chalicelib.ranking.entries import start_listing_below
from chalicelib.ranking.ranking import Ranked, Ranking, choose_depth, node_key, read_nodes
from chalicelib.ranking.tree import DIGITS, Node, Nodes, Scale

STEP = 250  # players in one step
PAUSE = timedelta(
    minutes=1
)  # from the beginning of a deepening until another one of the same bucket may begin
LIFETIME = timedelta(days=1)  # of the item of a deepening
TRIES = 12  # of a mark, while changes of its counter come between the read and the write

Rank = Callable[[Item], Ranked | None]
"""Returns the player that an item ranks, or None for an item that ranks nobody."""


def key_of(ranking: Ranking, prefix: str) -> Key:
    """Return the key of the deepening of a prefix."""
    return Key(node_key(ranking, prefix).pk, "DEEPEN")


def follow(context: Context, ranks: Iterable[Rank], changes: Iterable[Images]) -> None:
    """Begin and continue deepenings after a batch of the stream, which the aggregates have counted.

    Idempotent: the same changes may come again.

    Cost: nothing for changes inside a bucket. Else 1 RCU for each node that counts the player, and 1 for the
    node that counted the bucket that a player has left, also for a deeper one.
    Raises: Busy. The batch can then be delivered again.
    """
    ranks = tuple(ranks)
    arrived: dict[Key, Ranked] = {}
    left: dict[Ranking, set[str]] = {}
    for key, *images in changes:
        if key.sk == "DEEPEN" and images[1]:
            _step(context.table, images[1])
        old, new = (find_ranked(ranks, image) for image in images)
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
        _settle(context, ranking, players)
    for ranking, buckets in left.items():
        _mark_left(context.table, ranking, buckets - {""})


def prepare(table: Table, ranking: Ranking, numbers: Iterable[int]) -> None:
    """Mark the empty buckets that many new players will crowd, so that the players begin at the right depth.

    A bucket that already counts a player is not marked. Its players are deepened as usual.

    Cost: 1 RCU for the root and for each bucket that the new players crowd, and 1 WCU for each mark.
    """
    paths = [ranking.scale.path(number) for number in numbers]
    crowded, level = {""}, 1
    while crowded:
        nodes = read_nodes(table, ranking, crowded, consistent=True)
        below = Counter(tree.bucket(path, level) for path in paths if len(path) > DIGITS * level)
        reached = {prefix for prefix, n in below.items() if n > tree.LIMIT and prefix[:-DIGITS] in crowded}
        deep = {prefix for prefix in reached if tree.is_deep(prefix, nodes)}
        empty = [prefix for prefix in reached - deep if tree.count_above(prefix, nodes) == (0, 0)]
        marked = map_concurrently(partial(_mark_full, table, ranking, nodes), empty, "deepen")
        crowded = deep | {prefix for prefix, is_marked in zip(empty, marked, strict=True) if is_marked}
        level += 1


def find_ranked(ranks: Iterable[Rank], item: Item) -> Ranked | None:
    """Return the player that an item ranks. A missing image ranks nobody."""
    return next((ranked for rank in ranks if item and (ranked := rank(item))), None)


def _settle(context: Context, ranking: Ranking, players: Mapping[Key, Ranked]) -> None:
    """Mark complete buckets, raise the depth of shallow players, and deepen crowded buckets."""
    prefixes = {
        tree.bucket(ranked.path, n) for ranked in players.values() for n in range(1, ranked.depth + 1)
    }
    nodes = _read_above(context.table, ranking, prefixes)
    crowded = {
        ranked.bucket for ranked in players.values() if tree.is_crowded(ranked.path, ranked.depth, nodes)
    }
    for key, ranked in players.items():
        if ranked.bucket in crowded and tree.is_deep(ranked.bucket, nodes):
            depth = max(ranked.depth + 1, choose_depth(context.table, ranking, ranked.number))
            _stamp(context.table, ranking, key, ranked.bucket, depth)
    incomplete = prefixes - _mark_complete(context.table, ranking, prefixes, nodes)
    pending = {prefix for prefix in incomplete if prefix in crowded or tree.is_deep(prefix, nodes)}
    passed = _begin(context, ranking, pending) if pending else set()
    for key, ranked in players.items():
        if ranked.bucket in crowded & passed:
            _stamp(context.table, ranking, key, ranked.bucket, ranked.depth + 1)


def _mark_left(table: Table, ranking: Ranking, buckets: set[str]) -> None:
    """Mark the buckets whose last shallow player has left.

    Cost: 1 RCU for each node that counts one of the buckets.
    """
    if buckets:
        _mark_complete(table, ranking, buckets, _read_above(table, ranking, buckets))


def _read_above(table: Table, ranking: Ranking, prefixes: Iterable[str]) -> Nodes:
    """Return the nodes that have the counters and the marks of prefixes."""
    return read_nodes(table, ranking, {prefix[:-DIGITS] for prefix in prefixes}, consistent=True)


def _mark_complete(table: Table, ranking: Ranking, prefixes: Iterable[str], nodes: Nodes) -> set[str]:
    """Mark those prefixes whose players are all counted one level down. Return those that are marked."""
    marked = set()
    for prefix in prefixes:
        seen = nodes
        for attempt in range(TRIES):
            is_marked = tree.is_full(prefix, seen)
            if is_marked or not tree.is_complete(prefix, seen):
                break
            if is_marked := _mark_full(table, ranking, seen, prefix):
                break
            table.back_off(attempt)
            seen = _read_above(table, ranking, [prefix])
        else:
            raise Busy("Other requests are changing this ranking. Please retry.")
        marked |= {prefix} if is_marked else set()
    return marked


def _mark_full(table: Table, ranking: Ranking, nodes: Nodes, prefix: str) -> bool:
    """Mark a prefix as full, unless its counter has changed since `nodes` were read. Return whether it is."""
    above, digits = prefix[:-DIGITS], prefix[-DIGITS:]
    counter = nodes.get(above, Node()).counters.get(digits)
    item = table.update(
        node_key(ranking, above),
        "ADD #full :digits",
        condition="attribute_not_exists(#counter)" if counter is None else "#counter = :counter",
        names={"#full": "full", "#counter": digits},
        values={":digits": {digits}} | ({} if counter is None else {":counter": counter}),
        idempotent=True,
    )
    return item is not None


def _begin(context: Context, ranking: Ranking, prefixes: Iterable[str]) -> set[str]:
    """Put a deepening of each prefix, unless one has begun within the last minute.

    Return the prefixes that are in their second pass, which may already have passed the new player.
    """
    ago = times.epoch(context.now - PAUSE)
    keys = {key_of(ranking, prefix): prefix for prefix in prefixes}
    found = context.table.get_many(keys, consistent=True)
    begun = {key: item for key, item in found.items() if item["began"] >= ago}
    for key, prefix in keys.items():
        if key in begun:
            continue
        condition: Any = {"condition": "attribute_not_exists(pk) OR began < :ago", "values": {":ago": ago}}
        begin(context, ranking, prefix, **condition)
    return {keys[key] for key, item in begun.items() if "last" in item}


def begin(context: Context, ranking: Ranking, prefix: str, **condition: Any) -> None:
    """Put a deepening of a prefix in place of an earlier one.

    Cost: 1 WCU.
    """
    item = key_of(ranking, prefix)._asdict() | {
        "ranking": ranking.name,
        "scale": list(ranking.scale),
        "shards": ranking.shards,
        "prefix": prefix,
        "below": ranking.scale.numbers(prefix)[1] + 1,
        "began": times.epoch(context.now),
        "ttl": times.epoch(context.now + LIFETIME),
    }
    context.table.put(item, **condition)


def _step(table: Table, item: Item) -> None:
    """Raise the depth of the next players of a bucket, and move `below`. The second pass begins at the top.

    Cost: 0.5 RCU for each player, 0.5 per 30 for the index, and 1 WCU for each player and for the step.
    """
    ranking = Ranking(item["ranking"], Scale(*item["scale"]), item["shards"])
    prefix, below = item["prefix"], item["below"]
    depth = len(prefix) // DIGITS
    least, most = ranking.scale.numbers(prefix)
    entries = start_listing_below(table, ranking, STEP, below, least)()
    found = table.get_many(entry.key for entry in entries)
    shallow = [
        key for key, item in found.items() if item.get("depth") == depth and least <= item["gsi1sk"] <= most
    ]
    map_concurrently(lambda key: _stamp(table, ranking, key, prefix, depth + 1), shallow, "deepen")
    if len(entries) == STEP:
        table.update(
            Key(item["pk"], item["sk"]),
            "SET below = :next",
            condition="below = :below",
            values={":next": entries[-1].number, ":below": below},
            idempotent=True,
        )
    elif "last" not in item:
        table.update(
            Key(item["pk"], item["sk"]),
            "SET below = :top, #last = :yes",
            condition="below = :below AND attribute_not_exists(#last)",
            names={"#last": "last"},
            values={":top": most + 1, ":yes": 1, ":below": below},
            idempotent=True,
        )


def _stamp(table: Table, ranking: Ranking, key: Key, bucket: str, depth: int) -> None:
    """Write a greater depth to a player's item, unless the player has left the bucket or is deeper already.

    A player who has moved inside the bucket also gets the new depth, because no other step would find it.
    """
    least, most = ranking.scale.numbers(bucket)
    table.update(
        key,
        "SET #depth = :deeper",
        condition="#depth = :depth AND gsi1sk BETWEEN :least AND :most",
        names={"#depth": "depth"},
        values={":deeper": depth, ":depth": len(bucket) // DIGITS, ":least": least, ":most": most},
        idempotent=True,
    )
