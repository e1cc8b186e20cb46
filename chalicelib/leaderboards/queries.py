"""Where players stand on a leaderboard: "211th of 1539", the entries around, the spread of scores.

The items are those of boards.py, leaderboards.py and ranking.py. Nothing here writes.

What a read guarantees. A score is there as soon as its submission is answered; entries and tree follow with
the stream, both in one transaction. So a list, a place and a rank are of one state, at most as far behind as
the stream, and agree for all whose scores are settled. One's own pending change never makes a rank worse
than both before and after: a gain is ranked by the new score among the others, and where scores can fall,
a change that is pending or fresh is read as it was at one moment, without one's own old entry.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from chalicelib import times
from chalicelib.api import cursors
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy, NotFound
from chalicelib.leaderboards import boards, scores
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.schemas import BoardQuery
from chalicelib.leaderboards.score_schemas import (
    BoardEntry,
    Distribution,
    Entries,
    EntriesQuery,
    Live,
    ScoreBucket,
    Standing,
    StandingQuery,
)
from chalicelib.ranking import entries as ladder
from chalicelib.ranking import listing, ranking
from chalicelib.ranking.entries import Entry
from chalicelib.ranking.listing import Part
from chalicelib.ranking.ranking import Position
from chalicelib.ranking.tree import TIE
from chalicelib.settings import Settings

FRESH = 60  # seconds in which a replica of the table may lag behind, with much to spare
TRIES = 5  # of a snapshot, while the score itself goes on changing
NODES = 10  # read of a level at most, to find one that shows a spread
BUCKETS = 50
ROUND = [step * 10**power for power in range(19) for step in (1, 2, 5)]


# -- one player ----------------------------------------------------------------------------------------


def standing(table: Table, name: str, player: str, query: StandingQuery, now: datetime) -> Standing:
    """Answer a player's score, rank, and what is missing to the next place.

    Raises NotFound. Costs 0.5 RCU for board, score, index and each two digits of the scale (3 from 0 to
    999,999; 5.5 for sums), in two round trips. A score that can fall reads its entry too, and while it may
    be unsettled, score, entry and digits as at one moment: 2 RCU each more, instead of the digits' 0.5. So
    it is when it is asked for `consistent`; board and score are read strongly first then, 1 RCU each.
    """

    def keys(board: Board) -> list[Key]:
        own = [scores.score_key(name, board.season, player)]
        return [*own, ranking.entry_key(board.ranking.name, player)] if board.falls else own

    board, items = boards.find_with(table, name, now, query.season, keys, consistent=query.consistent)
    score = items.get(keys(board)[0])
    if score is None:
        raise NotFound(f"player: {player[:40]} has no score on {name[:40]}")
    better = _better(table, board, score)
    if query.consistent or (board.falls and _is_unsettled(board, player, score, items, now)):
        seen, (score, position) = score, _snapshot(table, board, player, score)
        if score["score"] != seen["score"]:
            better = _better(table, board, score)
    else:
        merit = board.scale.merit(score["score"])
        nodes = table.get_many(ranking.path_keys(board.ranking, merit))
        position = ranking.position(board.ranking, merit, nodes)
    of = max(position.of, position.rank)
    following = next((board.scale.score(entry.merit) for entry in better() if entry.player != player), None)
    return Standing(
        player=player,
        score=score["score"],
        rank=position.rank,
        of=of,
        percentile=round(100 * (of - position.rank + 1) / of, 2),
        to_next=None if following is None or position.rank == 1 else abs(following - score["score"]),
    )


def _better(table: Table, board: Board, score: Item) -> Callable[[], list[Entry]]:
    """Begin to read the two entries next above a score: one of them may be the player's own old one."""
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
    held, own = board.ranking, scores.score_key(board.name, board.season, player)
    at = ranking.entry_key(held.name, player)
    for _ in range(TRIES):
        merit = held.scale.merit(score["score"])
        items = table.get_snapshot([own, at, *ranking.path_keys(held, merit)])
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
    began. Raises NotFound, BadCursor. Costs 0.5 RCU for the board (around a player 1.5), and what
    `listing.read` says.
    """
    cursor_scope = ("entries", name, str(query.season), str(query.place), query.around or "")

    def read_page(position: str) -> tuple[list[BoardEntry], str]:
        season, below = json.loads(position or f"[{query.season}, 0]")
        if query.around and not below:
            board, around = _number(table, name, query.around, season, now)
        else:
            board, around = boards.find(table, name, now, season), 0
        found = listing.read(table, board.ranking, query.limit, below=below, place=query.place, around=around)
        more = json.dumps((board.season, found.items[-1].entry.number)) if found.goes_on else ""
        return _shown(board, found), more

    items, cursor = cursors.paginate(settings, cursor_scope, query.cursor, read_page)
    return Entries(items=items, cursor=cursor)


def _number(table: Table, name: str, player: str, season: int, now: datetime) -> tuple[Board, int]:
    """Answer a board and the number of a player's entry; of one who is not listed yet, as it will be.

    Raises NotFound.
    """

    def keys(board: Board) -> list[Key]:
        entry = ranking.entry_key(board.ranking.name, player)
        return [entry, scores.score_key(name, board.season, player)]

    board, items = boards.find_with(table, name, now, season, keys)
    entry, score = (items.get(key) for key in keys(board))
    if score is None:
        raise NotFound(f"player: {player[:40]} has no score on {name[:40]}")
    merit = board.scale.merit(score["score"])
    return board, (entry or {}).get("gsi1sk") or board.ranking.entry(merit, player)


def _shown(board: Board, found: Part) -> list[BoardEntry]:
    return [
        BoardEntry(rank=rank, player=entry.player, score=board.scale.score(entry.merit))
        for rank, entry in found.items
    ]


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


# -- live ----------------------------------------------------------------------------------------------


def topic(key: Key) -> str | None:
    """Name the board that an entry is on; None for any other item."""
    return key.sk.split("#")[2] if key.sk.startswith("RANKED#BOARD#") else None


def live(table: Table, name: str) -> Live:
    """Answer a board's first ten and how many players it ranks. Costs 2 RCU."""
    now = datetime.now(UTC)
    board = boards.find(table, name, now)
    items = _shown(board, listing.read(table, board.ranking, 10))
    return Live(board=name, season=board.season, players=ranking.players(table, board.ranking), items=items)
