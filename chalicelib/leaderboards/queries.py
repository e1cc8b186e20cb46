"""Read leaderboards: a player's rank ("211th of 1539"), entries, distribution, submissions, and live data.

This module writes nothing. The items belong to `boards.py`, `scores.py` and `chalicelib/ranking/ranking.py`.

Invariants of a read:

- A score is visible as soon as its submission returns.
- The stream updates a player's entry and the tree in one transaction. Entries, places and ranks are therefore
  of one state, at most one stream delay old, and they agree for every player without a pending change.
- A player's own pending change never makes the rank worse than both the old and the new rank. A gain is
  ranked by the new score. On a board where scores can worsen, a pending or recent change is read in one
  transaction, and the player's own old entry is not counted.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from chalicelib import times
from chalicelib.api import cursors
from chalicelib.api.auth import Caller
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy, NotFound
from chalicelib.leaderboards import boards, scores
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.schemas import (
    Activities,
    ActivitiesQuery,
    Activity,
    BoardEntry,
    BoardQuery,
    Distribution,
    Entries,
    EntriesQuery,
    ScoreBucket,
    Standing,
    StandingQuery,
    TopEntries,
)
from chalicelib.ranking import entries, ranking
from chalicelib.ranking.entries import EntriesPage, Entry
from chalicelib.ranking.ranking import Position
from chalicelib.ranking.tree import TIE
from chalicelib.settings import Settings

REPLICA_LAG = 60  # seconds: an upper bound of the delay of an eventually consistent read
MAX_ATTEMPTS = 5  # of a snapshot, while the score changes
NODES_PER_LEVEL = 10  # read at most, to find the first level with more ranges than this
MAX_BUCKETS = 50
ROUND_NUMBERS = [step * 10**power for power in range(19) for step in (1, 2, 5)]


# -- one player ----------------------------------------------------------------------------------------


def get_standing(table: Table, name: str, player: str, query: StandingQuery, now: datetime) -> Standing:
    """Return a player's score, rank, and distance to the next better score.

    Cost: 0.5 RCU each for the board, the score, the index and every two digits of the scale. That is 3 RCU
    for scores from 0 to 999,999, and 5.5 for sums. It takes two round trips. On a board where scores can
    worsen, the player's entry costs 0.5 RCU more. After a recent change, and with `consistent`, the score,
    the entry and the digits cost 2 RCU each instead, as they are read in one transaction. With `consistent`,
    the board and the score also cost 1 RCU each.
    Raises: NotFound, Busy if the score changes repeatedly.
    """

    def keys(board: Board) -> list[Key]:
        own = [scores.score_key(name, board.season, player)]
        return [*own, ranking.entry_key(board.ranking.name, player)] if board.scores_can_worsen else own

    board, items = boards.find_with_items(table, name, now, query.season, keys, consistent=query.consistent)
    score = items.get(keys(board)[0])
    if score is None:
        raise _no_score(player, name)
    next_better = _begin_next_better(table, board, score)
    if query.consistent or (board.scores_can_worsen and _is_pending(board, player, score, items, now)):
        before, (score, position) = score, _read_snapshot(table, board, player, score)
        if score["score"] != before["score"]:
            next_better = _begin_next_better(table, board, score)
    else:
        merit = board.scale.merit(score["score"])
        nodes = table.get_many(ranking.path_keys(board.ranking, merit))
        position = ranking.compute_position(board.ranking, merit, nodes)
    of = max(position.of, position.rank)
    better_scores = (board.scale.score(entry.merit) for entry in next_better() if entry.player != player)
    next_score = next(better_scores, None)
    return Standing(
        player=player,
        score=score["score"],
        rank=position.rank,
        of=of,
        percentile=round(100 * (of - position.rank + 1) / of, 2),
        to_next=None if next_score is None or position.rank == 1 else abs(next_score - score["score"]),
    )


def _begin_next_better(table: Table, board: Board, score: Item) -> Callable[[], list[Entry]]:
    """Begin to read the next two entries above a score. One of them may be the player's own old entry."""
    return entries.start_listing_above(
        table, board.ranking, 2, (board.scale.merit(score["score"]) + 1) * TIE - 1
    )


def _is_pending(board: Board, player: str, score: Item, items: Mapping[Key, Item], now: datetime) -> bool:
    """Return whether the entry and the tree may not contain a score yet."""
    entry = items.get(ranking.entry_key(board.ranking.name, player), {})
    expected = board.ranking.entry_number(board.scale.merit(score["score"]), player)
    return bool(entry.get("gsi1sk") != expected or times.epoch(now) - score["changed"] < REPLICA_LAG)


def _read_snapshot(table: Table, board: Board, player: str, score: Item) -> tuple[Item, Position]:
    """Read a score and its position in one transaction. The player's own old entry is not counted.

    Cost: 2 RCU per item.
    Raises: NotFound, Busy if the score changes repeatedly.
    """
    score_key = scores.score_key(board.name, board.season, player)
    entry_key = ranking.entry_key(board.ranking.name, player)
    for _ in range(MAX_ATTEMPTS):
        merit = board.scale.merit(score["score"])
        path = ranking.path_keys(board.ranking, merit)
        items = table.get_snapshot([score_key, entry_key, *path])
        if score_key not in items:
            raise _no_score(player, board.name)
        if items[score_key]["score"] == score["score"]:
            position = ranking.compute_position(board.ranking, merit, items)
            old_number = items.get(entry_key, {}).get("gsi1sk", 0)
            is_old_better = old_number // TIE > merit
            is_unranked = old_number == 0
            rank, of = position.rank - is_old_better, position.of + is_unranked
            return items[score_key], position._replace(rank=rank, of=of)
        score = items[score_key]
    raise Busy("Other submissions of this player are being written. Please retry.")


def list_activities(
    table: Table,
    name: str,
    player: str,
    query: ActivitiesQuery,
    caller: Caller,
    settings: Settings,
    now: datetime,
) -> Activities:
    """Return a page of a player's submissions, ordered by id.

    Cost: 0.5 RCU, and 0.5 per 4 KB (about 30 submissions).
    Raises: NotFound, Forbidden, BadCursor.
    """
    boards.find(table, name, now)
    scores.resolve_player(player, caller)
    first, cursor_scope = scores.activity_key(name, player, ""), ("activities", name, player)
    after = cursors.decode(settings, cursor_scope, query.cursor)
    page = table.query(
        first.pk,
        (first.sk, first.sk[:-1] + "$"),  # `$` follows `#` in ASCII
        limit=query.limit,
        start={"pk": first.pk, "sk": after} if after else None,
    )
    items = [
        Activity(
            id=item["sk"].removeprefix(first.sk),
            value=item["value"],
            time=times.to_iso(times.parse(item["time"])),
            season=item["season"],
        )
        for item in page.items
    ]
    next_place = page.next["sk"] if page.next else ""
    return Activities(items=items, cursor=cursors.encode(settings, cursor_scope, next_place))


# -- entries -------------------------------------------------------------------------------------------


def list_entries(table: Table, name: str, query: EntriesQuery, settings: Settings, now: datetime) -> Entries:
    """Return a part of a leaderboard, best score first: its top, a cursor, a place, or around a player.

    A place inside a tie begins there, with the shared rank. A cursor stays in the season of its first page.

    Cost: 0.5 RCU for the board, or 1.5 around a player, and the cost of `entries.list_ranked`.
    Raises: NotFound, BadCursor.
    """
    cursor_scope = ("entries", name, str(query.season), str(query.place), query.around or "")
    place = cursors.decode(settings, cursor_scope, query.cursor)
    season, below = json.loads(place or f"[{query.season}, 0]")
    if query.around and not below:
        board, around = _find_entry_number(table, name, query.around, season, now)
    else:
        board, around = boards.find(table, name, now, season), 0
    part = entries.list_ranked(
        table, board.ranking, query.limit, below=below, place=query.place, around=around
    )
    next_place = json.dumps((board.season, part.items[-1].entry.number)) if part.has_more else ""
    cursor = cursors.encode(settings, cursor_scope, next_place)
    return Entries(items=_to_board_entries(board, part), cursor=cursor)


def _find_entry_number(table: Table, name: str, player: str, season: int, now: datetime) -> tuple[Board, int]:
    """Return a board and the number of a player's entry.

    A player whose first entry is pending gets the number that the entry will have.

    Raises: NotFound.
    """

    def keys(board: Board) -> list[Key]:
        entry = ranking.entry_key(board.ranking.name, player)
        return [entry, scores.score_key(name, board.season, player)]

    board, items = boards.find_with_items(table, name, now, season, keys)
    entry, score = (items.get(key) for key in keys(board))
    if score is None:
        raise _no_score(player, name)
    merit = board.scale.merit(score["score"])
    return board, (entry or {}).get("gsi1sk") or board.ranking.entry_number(merit, player)


def _to_board_entries(board: Board, part: EntriesPage) -> list[BoardEntry]:
    return [
        BoardEntry(rank=rank, player=entry.player, score=board.scale.score(entry.merit))
        for rank, entry in part.items
    ]


def _no_score(player: str, name: str) -> NotFound:
    return NotFound(f"player: {player[:40]} has no score on {name[:40]}")


# -- all scores ----------------------------------------------------------------------------------------


def get_distribution(table: Table, name: str, query: BoardQuery, now: datetime) -> Distribution:
    """Count the players in ranges of scores of one round width, from the least score to the greatest.

    There are at most 50 ranges, and empty ranges are included. The resolution is that of the first level of
    the tree that shows more than ten ranges.

    Cost: 0.5 RCU for the board and for each node, of which there are at most ten per level.
    Raises: NotFound.
    """
    board = boards.find(table, name, now, query.season)
    counts = ranking.count_by_merit(table, board.ranking, NODES_PER_LEVEL)
    if not counts:
        return Distribution(items=[])
    width = len(next(iter(counts)))
    low, high = (end(merits.start for merits in counts) for end in (min, max))
    width *= next(by for by in ROUND_NUMBERS if (high - low) // (width * by) < MAX_BUCKETS - 1)
    by_bucket = dict.fromkeys(range((low - 1) // width, (high - 1) // width + 1), 0)
    for merits, count in counts.items():
        by_bucket[(merits.start - 1) // width] += count
    buckets = []
    for number, count in by_bucket.items():
        ends = (number * width + 1, min((number + 1) * width, board.scale.span))
        least, most = sorted(board.scale.score(merit) for merit in ends)
        buckets.append(ScoreBucket(from_=least, to=most, players=count))
    return Distribution(items=sorted(buckets, key=lambda bucket: bucket.from_))


# -- live ----------------------------------------------------------------------------------------------


def topic(key: Key) -> str | None:
    """Return the name of the board that an entry belongs to, or None for any other item."""
    return key.sk.split("#")[2] if key.sk.startswith("RANKED#BOARD#") else None


def live(table: Table, name: str) -> TopEntries:
    """Return the ten best players of a board, and the number of ranked players.

    Cost: 2 RCU.
    Raises: NotFound.
    """
    now = datetime.now(UTC)
    board = boards.find(table, name, now)
    items = _to_board_entries(board, entries.list_ranked(table, board.ranking, 10))
    count = ranking.count_players(table, board.ranking)
    return TopEntries(board=name, season=board.season, players=count, items=items)
