"""Positions in a ranking: the rank of a number, lists with ranks, the player at a place, the distribution.

A read adds up the counters of better buckets, and counts inside one bucket through the index. It uses a node
only if it is full. Otherwise it counts the larger bucket through the index, so a read is exact at any depth.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from chalicelib.dynamo.table import Table
from chalicelib.ranking import tree
from chalicelib.ranking.entries import Entry, start_listing_above, start_listing_below
from chalicelib.ranking.ranking import Ranked, Ranking, read_nodes
from chalicelib.ranking.tree import DIGITS, TIE, Node, Nodes

OVERFULL = 2  # times the limit of a bucket are read before its node is tried
ALL = 10**9
MAX_RANGES = 50  # of a distribution
SEEN = 256  # nodes that a process remembers, of 10 KB each
MAX_NODES = 10  # that a distribution opens on its last level


class Point(NamedTuple):
    """A number to locate, and the depth of a player near it, or 0 if it is not known.

    The entry of the player `own` is not counted, nor is an earlier position that the counters may still
    contain. `nodes` are those on the path that are already read.
    """

    number: int
    depth: int = 0
    own: Ranked | None = None
    nodes: Mapping[str, Node] = {}


class Crowd(NamedTuple):
    """The rank of a merit, the number of players who have exactly that, and the number of all players."""

    rank: int
    equal: int
    players: int


class Position(NamedTuple):
    """The position of a number: its rank, its place among equals too, and the number of all players.

    `ahead` are the players of its `bucket` above it, the nearest first. `nodes` are those that were read.
    """

    rank: int
    place: int
    players: int
    ahead: list[Entry]
    bucket: str
    nodes: Nodes


class Start(NamedTuple):
    """Where a page of entries begins: at the top by default.

    `below` is the `next` of a page and its `depth` if that is known. The page follows that page. `above` is
    the `first` of a page, which the page precedes. With `place` it begins at a place (from 1) of the tree,
    and `nodes` are those of `guess_nodes`, the root among them. With `around`, that player is in the middle,
    as far as there are enough entries on both sides. The first that is given counts.
    """

    below: Sequence[int] = ()
    place: int = 0
    nodes: Mapping[str, Node] = {}
    around: Ranked | None = None
    above: int = 0


TOP = Start()


class RankedEntry(NamedTuple):
    """An entry with its rank."""

    rank: int
    entry: Entry


class EntriesPage(NamedTuple):
    """Consecutive entries, and the number of the last one if others follow, or 0.

    The number is negative if the next entry has the same merit. `depth` is that of a player near the last
    one, or 0 if it is not known. `first` is the number of the first entry if others precede it, or 0.
    """

    items: list[RankedEntry]
    next: int
    depth: int
    first: int = 0


# -- one position --------------------------------------------------------------------------------------


def locate(
    table: Table, ranking: Ranking, point: Point, *, has_ties: bool = True, consistent: bool = False
) -> Position:
    """Return the position of a number. Without `has_ties` the place among equals is not read.

    If the depth is not known, the nodes are read before the bucket, in one more round trip, and in a crowd of
    equal scores in one more for each level of ties.

    Cost: 0.5 RCU for each level (1 if consistent), and 0.5 per 30 players ahead in the bucket, of which there
    are at most about 120. While a bucket is deepened, all players of the larger bucket ahead are read.
    """
    (number, depth, own, known), scale = point, ranking.scale
    path = scale.path(number)
    levels = ranking.levels(path)
    lowest = len(path) // DIGITS if has_ties else levels
    after = number if has_ties or not ranking.is_shared else number // TIE * TIE + TIE - 1
    nodes = dict(known)
    if not depth:
        last = min(lowest, scale.score_levels(path) + 1)
        prefixes = [prefix for prefix, _ in tree.steps(path, last)]
        nodes = read_nodes(table, ranking, prefixes, consistent=consistent)
        while (depth := tree.usable_depth(path, last, nodes)) == last < lowest:
            bucket = tree.bucket(path, last)
            if not tree.is_full(bucket, nodes):
                break
            nodes |= read_nodes(table, ranking, [bucket], consistent=consistent)
            last += 1
    depth = min(depth, lowest)
    while True:
        bucket = tree.bucket(path, depth)
        most = scale.numbers(bucket)[1]
        limit = OVERFULL * tree.LIMIT + 1 if depth < lowest else ALL
        listing = start_listing_above(table, ranking, limit, after, most)
        missing = [prefix for prefix, _ in tree.steps(path, depth) if prefix not in nodes]
        nodes |= read_nodes(table, ranking, missing, consistent=consistent) if missing else {}
        ahead, usable = listing(), tree.usable_depth(path, depth, nodes)
        if usable < depth:
            lowest = depth = usable
        elif depth < lowest and len(ahead) > OVERFULL * tree.LIMIT:
            depth += 1
        else:
            break
    ahead = [entry for entry in ahead if not own or entry.player != own.player]
    better = tree.count_better(path, min(depth, levels), nodes)
    key = ranking.rank_key(number)
    better += sum(ranking.rank_key(entry.number) > key for entry in ahead) if depth < levels else 0
    counted = tree.count_better(path, depth, nodes)
    earlier, levels = own.before if own else (), min(depth, levels)
    if any(tree.is_counted_better(scale.path(old), at, path, levels, nodes) for old, at in earlier):
        better, counted = better - 1, counted - 1
    place = counted + len(ahead) + 1
    return Position(better + 1, place, nodes.get("", Node()).total(), ahead, bucket, nodes)


def locate_merit(table: Table, ranking: Ranking, merit: int) -> Crowd:
    """Return the rank that a merit has or would have, and the number of players who have it.

    Where equal scores do not share a rank, the next player with this merit would be behind all of them.

    Cost: that of `locate`. A merit without a counter of its own is counted through the index, for 0.5 to
    2 RCU more.
    """
    position = locate(table, ranking._replace(is_shared=True), Point(merit * TIE), has_ties=False)
    path = ranking.scale.path(merit * TIE)
    levels = ranking.scale.score_levels(path)
    if tree.usable_depth(path, levels, position.nodes) == levels:
        equal = _count_equal(ranking, merit, position.nodes)
    else:
        equal = len(start_listing_below(table, ranking, ALL, (merit + 1) * TIE, merit * TIE)())
    rank = position.rank if ranking.is_shared else position.rank + equal
    return Crowd(rank, equal, max(position.players, position.rank - 1 + equal))


# -- lists with ranks ----------------------------------------------------------------------------------


def list_ranked(table: Table, ranking: Ranking, limit: int, start: Start = TOP) -> EntriesPage:
    """Return up to `limit` entries with their ranks, best first.

    Cost: 0.5 RCU per 30 entries. A page that does not begin at the top also costs what `locate` does, or
    0.5 RCU for each node on the way to a place. Around a player both sides cost 0.5 RCU per 30 entries.
    """
    if start.below:
        return _list_below(table, ranking, limit, *start.below)
    if start.above:
        return _list_above(table, ranking, limit, start.above)
    if start.around:
        return _list_around(table, ranking, limit, start.around)
    if start.place > 1:
        return _list_from_place(table, ranking, limit, start.place, start.nodes)
    return _to_page(ranking, start_listing_below(table, ranking, limit + 1)(), limit, 1, 1, depth=1)


def _list_below(table: Table, ranking: Ranking, limit: int, below: int, depth: int) -> EntriesPage:
    """List the entries below a number, and locate the number in parallel to rank the first entry.

    Within a long tie the shared rank suffices, so the nodes of the tie are not read.
    """
    read_entries = start_listing_below(table, ranking, limit + 1, abs(below))
    number, scale = max(abs(below) - 1, TIE), ranking.scale
    levels, key = ranking.levels(scale.path(number)), ranking.rank_key(number)
    has_ties = depth < levels if depth else below > 0
    start, entries = locate(table, ranking, Point(number, depth), has_ties=has_ties), read_entries()
    tied = sum(ranking.rank_key(entry.number) == key for entry in entries[:limit])
    depth, place, leaves_tie = len(start.bucket) // DIGITS, start.place, tied < len(entries[:limit])
    if leaves_tie and not has_ties:
        equal = _count_equal(ranking, number // TIE, start.nodes)
        whole = None if equal else locate(table, ranking, Point(number, depth))
        place = whole.place if whole else start.rank + max(0, equal - tied)
    page = _to_page(ranking, entries, limit, start.rank if tied else place, place, depth)
    is_crowded = len(start.ahead) + len(page.items) > tree.LIMIT
    if is_crowded and tree.bucket(scale.path(abs(page.next)), depth) == start.bucket:
        return page._replace(depth=0)
    return page


def _list_above(table: Table, ranking: Ranking, limit: int, above: int) -> EntriesPage:
    """List the entries above a number, and locate the first of them to rank it.

    Fewer than a page are the top of the ranking: the page has these alone, so that no entry is listed twice.
    """
    better = start_listing_above(table, ranking, limit, above)()
    if not better:
        return EntriesPage([], above + 1, 0)
    following = start_listing_below(table, ranking, 1, better[0].number)
    rank = place = depth = 1
    if len(better) == limit:
        start = locate(table, ranking, Point(better[-1].number))
        rank, place, depth = start.rank, start.place, len(start.bucket) // DIGITS
    return _to_page(ranking, [*reversed(better), *following()], len(better), rank, place, depth)


def _list_around(table: Table, ranking: Ranking, limit: int, own: Ranked) -> EntriesPage:
    """List the neighbors of a player on both sides, and locate the player in parallel.

    The ranks of the neighbors follow from the player's rank. A tie that begins before the page is counted by
    its counter, or by another read. A neighbor who passes the player between the reads is listed once.
    """
    number, depth, scale, merit = own.number, own.depth, ranking.scale, own.number // TIE
    levels = ranking.levels(scale.path(number))
    read_better = start_listing_above(table, ranking, limit, number)
    read_worse = start_listing_below(table, ranking, limit + 1, number + 1)
    start = locate(table, ranking, Point(number, depth, own), has_ties=depth < levels)
    worse, better = read_worse(), read_better()
    is_whole, has_bucket = len(better) < limit, depth < levels and len(start.bucket) <= DIGITS * levels
    better = max(better, start.ahead if has_bucket else [], key=len)
    below = {entry.player for entry in worse}
    better = [entry for entry in better if entry.player not in below]
    ahead = min(max(limit // 2, limit - len(worse)), len(better))
    entries = [*reversed(better[:ahead]), *worse][: limit + 1]
    if is_whole and ahead == len(better):
        return _to_page(ranking, entries, limit, 1, 1, depth)
    if not ranking.is_shared:
        return _to_page(ranking, entries, limit, start.rank - ahead, start.rank - ahead, depth)

    def count_ties(merit: int, others: Sequence[Entry], listed: Sequence[Entry]) -> int | None:
        """Count the ties that begin before the page."""
        is_in_bucket = has_bucket and scale.path(merit * TIE).startswith(start.bucket)
        if is_whole or is_in_bucket or not better or better[-1].merit > merit:
            return sum(entry.merit == merit for entry in others)
        equal = _count_equal(ranking, merit, start.nodes)
        return max(0, equal - sum(entry.merit == merit for entry in listed)) if equal else None

    rank, place, first = start.rank, start.rank - ahead, entries[0].merit
    if any(entry.merit != merit for entry in entries[:limit]):
        ties = count_ties(merit, better, worse)
        place += locate(table, ranking, Point(number, depth, own)).place - rank if ties is None else ties
    if first != merit:
        ties = count_ties(first, better[ahead:], better[:ahead])
        if ties is None:
            rank = locate(table, ranking, Point(entries[0].number, depth, own), has_ties=False).rank
        else:
            rank = place - ties
    return _to_page(ranking, entries, limit, rank, place, depth)


def _count_equal(ranking: Ranking, merit: int, nodes: Nodes) -> int:
    """Return the number of players with a merit, or 0 if the counter of the merit is not among the nodes."""
    path = ranking.scale.path(merit * TIE)
    levels = ranking.scale.score_levels(path)
    is_read = tree.usable_depth(path, levels, nodes) == levels
    return sum(tree.count_above(tree.bucket(path, levels), nodes)) if is_read else 0


def guess_nodes(ranking: Ranking, place: int) -> list[str]:
    """Return the prefixes of the root and of the nodes that led to a place when this process last looked.

    Reading them at once saves round trips. A node that leads elsewhere now costs one more.
    """
    prefix, node, left = "", _seen_nodes().get((ranking.name, "")), place - 1
    prefixes = [prefix]
    while node and (step := tree.descend(node, left)):
        prefix, left = prefix + step[0], step[1]
        node = _seen_nodes().get((ranking.name, prefix))
        prefixes += [prefix] if node else []
    return prefixes


@cache
def _seen_nodes() -> dict[tuple[str, str], Node]:
    """Return the full nodes that places have led to, by ranking and prefix."""
    return {}


def _list_from_place(table: Table, ranking: Ranking, limit: int, place: int, nodes: Nodes) -> EntriesPage:
    """Descend to the bucket of a place, list it from its top, and skip the entries before the place.

    Beyond the last place is an empty page, which the last entries precede.
    A node that is not among those that were guessed costs a round trip.
    """
    prefix, left, better, scale = "", place - 1, 0, ranking.scale
    node = nodes.get("", Node())
    while True:
        if len(_seen_nodes()) >= SEEN:
            _seen_nodes().clear()
        _seen_nodes()[ranking.name, prefix] = node
        step = tree.descend(node, left)
        if step is None:
            return EntriesPage([], 0, 0, first=1 if node.total() else 0)
        crowd, prefix, left = node.count(step[0]), prefix + step[0], step[1]
        levels = scale.score_levels(prefix)
        if len(prefix) == DIGITS * levels:
            better = place - 1 - left
        if crowd <= tree.LIMIT or len(prefix) == DIGITS * (levels + tree.TIE_LEVELS):
            break
        if step[0] not in node.full:
            break
        child = nodes.get(prefix) or read_nodes(table, ranking, [prefix]).get(prefix)
        if child is None:
            break
        node = child
    top = scale.numbers(prefix)[1] + 1
    listed = start_listing_below(table, ranking, left + limit + 1, top)()
    entries = listed[left:]
    if not entries:
        return EntriesPage([], 0, 0, first=1)
    ahead = sum(entry.merit > entries[0].merit for entry in listed[:left])
    is_tied = len(prefix) >= DIGITS * levels and entries[0].merit == (top - 1) // TIE
    rank = 1 + better if is_tied else place - left + ahead
    return _to_page(ranking, entries, limit, rank, place, len(prefix) // DIGITS)


def _to_page(
    ranking: Ranking, entries: Sequence[Entry], limit: int, rank: int, place: int, depth: int
) -> EntriesPage:
    """Build a page of consecutive entries, the first of which has this rank and place.

    Rank and place come from several reads, and the counters may be behind the index. The ranks are at least 1
    and never decrease.
    """
    ranks = _ranks(entries, max(1, rank), place) if ranking.is_shared else itertools.count(max(1, place))
    items = [RankedEntry(rank, entry) for rank, entry in zip(ranks, entries[:limit], strict=False)]
    first = entries[0].number if items and place > 1 else 0
    if len(entries) <= limit:
        return EntriesPage(items, 0, 0, first)
    last, following = (entry.number for entry in entries[limit - 1 : limit + 1])
    is_tied = ranking.rank_key(last) == ranking.rank_key(following)
    return EntriesPage(items, -last if is_tied else last, depth, first)


def _ranks(entries: Sequence[Entry], rank: int, place: int) -> Iterator[int]:
    for i, entry in enumerate(entries):
        if i and entry.merit != entries[i - 1].merit:
            rank = max(rank, place + i)
        yield rank


# -- all players ---------------------------------------------------------------------------------------


def distribution(table: Table, ranking: Ranking) -> list[tuple[int, int, int]]:
    """Return the least and most units of each of at most 50 ranges of one width, and the number of players.

    The width is a round number. A prefix inside a range is counted by its counter. Another prefix is opened,
    and a bucket is read through the index.

    Cost: 1 RCU for the ends, 0.5 for each node, of which about ten are opened on the last level, and up to
    2 for each bucket that is read.
    """
    scale, read_worst = ranking.scale, start_listing_above(table, ranking, 1, 0)
    best, worst = start_listing_below(table, ranking, 1)(), read_worst()
    if not best or not worst:
        return []
    low, high = sorted(entry.merit - 1 + scale.low for entry in (worst[0], best[0]))
    unit = 1
    while (high - low) // (100 * unit) > MAX_NODES:
        unit *= 100
    widths = (unit * by for by in (1, 2, 5, 10, 20, 50, 100))
    width = next(width for width in widths if (high - low) // width < MAX_RANGES - 1)
    counts = dict.fromkeys(range(low // width, high // width + 1), 0)

    def add(offset: int, count: int) -> None:
        place = min(max(offset // width, low // width), high // width)  # the index may be ahead of the tree
        counts[place] += count

    opened = {"": read_nodes(table, ranking, [""]).get("", Node())}
    while opened:
        wide = {}
        for above, node in opened.items():
            for digits in node.counters:
                prefix, count = above + digits, node.count(digits)
                first, last = scale.offsets(prefix)
                if first // width == last // width:
                    add(first, count)
                elif count:
                    wide[prefix] = digits in node.full
        full = [prefix for prefix, is_full in wide.items() if is_full]
        opened = read_nodes(table, ranking, full) if full else {}
        for prefix in wide.keys() - opened.keys():
            least, most = scale.numbers(prefix)
            for entry in start_listing_above(table, ranking, ALL, least - 1, most)():
                add(entry.merit - 1 + scale.low, 1)
    ends = ((place * width, place * width + width - 1, count) for place, count in counts.items())
    rows = [(first, last, n) if scale.descending else (~last, ~first, n) for first, last, n in ends]
    return sorted(rows)
