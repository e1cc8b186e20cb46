"""Where players stand on a leaderboard: "211th of 1539", the entries around, the spread of scores.

The items are those of boards.py, leaderboards.py and ranking.py. Nothing here writes.

What a read guarantees. A score is there as soon as its submission is answered; entries and tree follow with
the stream, both in one transaction. So a list, a place and a rank are of one state, at most as far behind as
the stream, and agree for all whose scores are settled. One's own pending change never makes a rank worse
than both before and after: a gain is ranked by the new score among the others, and where scores can fall,
a change that is pending or fresh is read as it was at one moment, without one's own old entry.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

from chalicelib import boards, cursors, ladder, leaderboards, ranking, times
from chalicelib.board_schemas import BoardQuery
from chalicelib.boards import Board
from chalicelib.errors import Busy, NotFound
from chalicelib.items import Item, Key
from chalicelib.ladder import Entry
from chalicelib.ranking import Position, Ranking
from chalicelib.ranktree import TIE
from chalicelib.score_schemas import (
    BoardEntry,
    Distribution,
    Entries,
    EntriesQuery,
    ScoreBucket,
    Standing,
    StandingQuery,
)
from chalicelib.settings import Settings
from chalicelib.table import Table

FRESH = 60  # seconds in which a replica of the table may lag behind, with much to spare
TRIES = 5  # of a snapshot, while the score itself goes on changing
NODES = 10  # read of a level at most, to find one that shows a spread
BUCKETS = 50
ROUND = [step * 10**power for power in range(19) for step in (1, 2, 5)]


# -- one player ----------------------------------------------------------------------------------------


def standing(table: Table, name: str, player: str, query: StandingQuery, now: datetime) -> Standing:
    """Answer a player's score, rank, and what is missing to the next place.

    Raises NotFound. Costs 0.5 RCU for board, score, index and each two digits of the scale (3 from 0 to
    999,999; 5.5 for sums), in two round trips; 2 instead of each 0.5 when it is read as at one moment.
    """

    def keys(board: Board) -> list[Key]:
        own = [leaderboards.score_key(name, board.season, player)]
        return [*own, ranking.entry_key(board.ranking.name, player)] if board.falls else own

    board, items = boards.find_with(table, name, now, query.season, keys)
    score = items.get(keys(board)[0])
    if score is None:
        raise NotFound(f"player: {player[:40]} has no score on {name[:40]}")
    if query.consistent or (board.falls and _is_unsettled(board, player, score, items, now)):
        score, position = _snapshot(table, board, player, score)
        better = _better(table, board, score)
    else:
        ahead = ladder.begin(partial(_better, table, board, score))
        merit = board.scale.merit(score["score"])
        nodes = table.get_many(ranking.path_keys(board.ranking, merit))
        position, better = ranking.position(board.ranking, merit, nodes), ahead.result()
    of = max(position.of, position.rank)
    following = next((board.scale.score(entry.merit) for entry in better if entry.player != player), None)
    return Standing(
        player=player,
        score=score["score"],
        rank=position.rank,
        of=of,
        percentile=round(100 * (of - position.rank + 1) / of, 2),
        to_next=None if following is None or position.rank == 1 else abs(following - score["score"]),
    )


def _better(table: Table, board: Board, score: Item) -> list[Entry]:
    """Answer the two entries next above a score: one of them may be the player's own old one."""
    return ladder.up(table, board.ranking, 2, (board.scale.merit(score["score"]) + 1) * TIE - 1)


def _is_unsettled(board: Board, player: str, score: Item, items: Mapping[Key, Item], now: datetime) -> bool:
    """Tell whether a score has changed so lately that entry and tree may not have it."""
    entry = items.get(ranking.entry_key(board.ranking.name, player), {})
    settled = board.ranking.entry(board.scale.merit(score["score"]), player)
    return bool(entry.get("gsi1sk") != settled or times.epoch(now) - score["changed"] < FRESH)


def _snapshot(table: Table, board: Board, player: str, score: Item) -> tuple[Item, Position]:
    """Read a score and its position as of one moment; the player's own old entry is not counted against it.

    Raises NotFound, Busy when the score changes again and again. Costs 2 RCU an item.
    """
    held, own = board.ranking, leaderboards.score_key(board.name, board.season, player)
    at = ranking.entry_key(held.name, player)
    for _ in range(TRIES):
        merit = held.scale.merit(score["score"])
        items = table.get_together([own, at, *ranking.path_keys(held, merit)])
        if own not in items:
            raise NotFound(f"player: {player[:40]} has no score on {board.name[:40]}")
        if items[own]["score"] == score["score"]:
            position, old = ranking.position(held, merit, items), items.get(at, {}).get("gsi1sk", 0)
            ahead = old // TIE > merit
            return items[own], position._replace(rank=position.rank - ahead, of=position.of + (old == 0))
        score = items[own]
    raise Busy("The score goes on changing: try again in a moment.")


# -- lists ---------------------------------------------------------------------------------------------


def entries(table: Table, name: str, query: EntriesQuery, settings: Settings, now: datetime) -> Entries:
    """Answer a part of a leaderboard, best first: the top, after a cursor, from a place, around a player.

    A place inside a tie begins there, at the shared rank. A cursor stays in the season in which the list
    began. Raises NotFound, BadCursor. Costs 0.5 RCU for the board, as much per 4 KB of index
    (about 25 entries), and for each level of the tree: a place once more for each, in as many round trips.
    """
    asked = ("entries", name, str(query.season), str(query.place), query.around or "")
    season, below = json.loads(cursors.read(settings, asked, query.cursor) or f"[{query.season}, 0]")
    if below or not query.around:
        board = boards.find(table, name, now, season)
        found = _from(table, board.ranking, query.place, query.limit + 1, below)
    else:
        board, found = _around(table, name, query.around, query.limit, season, now)
    is_top = not (below or query.place > 1 or query.around)
    ranks = _ranks(table, board.ranking, found, is_top=is_top)
    items = [
        BoardEntry(rank=rank, player=entry.player, score=board.scale.score(entry.merit))
        for rank, entry in zip(ranks, found[: query.limit], strict=False)
    ]
    more = json.dumps((board.season, found[query.limit - 1].number)) if len(found) > query.limit else ""
    return Entries(items=items, cursor=cursors.write(settings, asked, more))


def _from(table: Table, held: Ranking, place: int, limit: int, below: int) -> list[Entry]:
    """Answer the entries below a number, from a place, or else from the top."""
    if below or place < 2:
        return ladder.down(table, held, limit, below or ladder.TOP)
    found = ranking.at_place(table, held, place)
    if found is None:
        return []
    below, skipped = found
    return ladder.down(table, held, limit + skipped, below)[skipped:]


def _around(
    table: Table, name: str, player: str, limit: int, season: int, now: datetime
) -> tuple[Board, list[Entry]]:
    """Answer a player's entry in the middle of the others, as far as there are so many on both sides.

    One more than the limit when others follow. A player whose first score is pending is not listed yet: then
    the others around that score. Raises NotFound.
    """

    def keys(board: Board) -> list[Key]:
        entry = ranking.entry_key(board.ranking.name, player)
        return [entry, leaderboards.score_key(name, board.season, player)]

    board, items = boards.find_with(table, name, now, season, keys)
    entry, score = (items.get(key) for key in keys(board))
    if score is None:
        raise NotFound(f"player: {player[:40]} has no score on {name[:40]}")
    number = (entry or {}).get("gsi1sk") or board.ranking.entry(board.scale.merit(score["score"]), player)
    better = ladder.begin(partial(ladder.up, table, board.ranking, limit, number))
    worse = ladder.down(table, board.ranking, limit + 1, number + 1)
    ahead = max(limit // 2, limit - len(worse))
    return board, [*reversed(better.result()[:ahead]), *worse][: limit + 1]


def _ranks(table: Table, held: Ranking, found: Sequence[Entry], *, is_top: bool) -> list[int]:
    """Rank entries that follow each other: the first by the tree, the others by counting on from it."""
    if not found:
        return []
    first = found[0].merit
    rank, equal = 1, sum(entry.merit == first for entry in found)
    if not is_top:
        nodes = table.get_many(ranking.path_keys(held, first))
        rank, _, counted = ranking.position(held, first, nodes)
        equal = max(equal, counted)
    ranks, started = [rank], 0
    for i, (before, entry) in enumerate(itertools.pairwise(found), 1):
        if entry.merit != before.merit:
            rank, started = rank + (equal if before.merit == first else i - started), i
        ranks.append(rank)
    return ranks


# -- all scores ----------------------------------------------------------------------------------------


def distribution(table: Table, name: str, query: BoardQuery, now: datetime) -> Distribution:
    """Count the players by ranges of scores of one round width, from the least score to the greatest.

    At most 50 ranges, gaps as 0; as fine as the tree is on the first level that shows more than ten ranges.
    Raises NotFound. Costs 0.5 RCU, and as much a node: at most ten a level.
    """
    board = boards.find(table, name, now, query.season)
    found = ranking.spread(table, board.ranking, NODES)
    if not found:
        return Distribution(items=[])
    width = len(next(iter(found)))
    low, high = (end(merits.start for merits in found) for end in (min, max))
    width *= next(by for by in ROUND if (high - low) // (width * by) < BUCKETS - 1)
    counted = dict.fromkeys(range((low - 1) // width, (high - 1) // width + 1), 0)
    for merits, count in found.items():
        counted[(merits.start - 1) // width] += count
    buckets = []
    for number, count in counted.items():
        ends = (number * width + 1, min((number + 1) * width, board.scale.span))
        least, most = sorted(board.scale.score(merit) for merit in ends)
        buckets.append(ScoreBucket(from_=least, to=most, players=count))
    return Distribution(items=sorted(buckets, key=lambda bucket: bucket.from_))
