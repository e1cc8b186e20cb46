"""Read leaderboards: entries, distribution, submissions, and live data. `standings.py` ranks one player.

This module writes nothing. The items belong to `boards.py`, `scores.py` and `chalicelib/ranking/ranking.py`.

Invariants of a read:

- A score is visible as soon as its submission returns.
- The index has the scores of some milliseconds ago, and the counters those that the stream has applied.
  Lists, places and ranks agree for every player once the board is quiet.
- A player's own pending change never makes the rank worse than both the old and the new rank. The new score
  is ranked among the others. A better position that the counters may still have is not counted.
- Each change that the counters lack moves a rank by one place at most. A rank is at least 1 and at most the
  number of players of the same response.
"""

import json
from collections.abc import Sequence

from chalicelib import times
from chalicelib.api import cursors
from chalicelib.api.auth import Caller
from chalicelib.context import Context
from chalicelib.dynamo.items import Key, Range
from chalicelib.dynamo.table import Table
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
    TopEntries,
)
from chalicelib.ranking import positions
from chalicelib.ranking.positions import EntriesPage, Start
from chalicelib.ranking.ranking import collect_nodes, count_players, node_key

# -- submissions ---------------------------------------------------------------------------------------


def list_activities(
    context: Context,
    name: str,
    player: str,
    query: ActivitiesQuery,
    caller: Caller,
) -> Activities:
    """Return a page of a player's submissions, ordered by id.

    Cost: 0.5 RCU, and 0.5 per 4 KB (about 30 submissions).
    Raises: NotFound, Forbidden, BadCursor.
    """
    boards.find(context, name)
    scores.check_player(player, caller)
    first, cursor_scope = scores.activity_key(name, player, ""), ("activities", name, player)
    after = cursors.decode(context.settings, cursor_scope, query.cursor)
    page = context.table.query(
        Range(first.pk, (first.sk, first.sk[:-1] + "$")),  # `$` follows `#` in ASCII
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
    return Activities(items=items, cursor=cursors.encode(context.settings, cursor_scope, next_place))


# -- entries -------------------------------------------------------------------------------------------


def list_entries(context: Context, name: str, query: EntriesQuery) -> Entries:
    """Return a part of a leaderboard, best score first: its top, a cursor, a place, or around a player.

    A place inside a tie begins there, with the shared rank. A cursor stays in the season of its first page.

    Cost: 0.5 RCU for the board, 0.5 around a player, and the cost of `positions.list_ranked`. 0.5 more for
    each entry of a board where players have display names or metadata.
    Raises: NotFound, BadCursor.
    """
    cursor_scope = ("entries", name, str(query.season), str(query.place), query.around or "")
    place = cursors.decode(context.settings, cursor_scope, query.cursor)
    season, *below = json.loads(place or f"[{query.season}]")
    above = below.pop() if len(below) == 1 else 0

    is_first = not (below or above)

    def keys(board: Board) -> list[Key]:
        if query.around and is_first:
            return [scores.score_key(name, board.season, query.around)]
        ranking = board.ranking
        prefixes = positions.guess_nodes(ranking, query.place) if query.place > 1 and is_first else []
        return [node_key(ranking, prefix) for prefix in prefixes]

    board, items = boards.find_with_items(context, name, season, keys)
    ranking, around, nodes = board.ranking, None, {}
    if query.around and is_first:
        item = items.get(keys(board)[0])
        if not (around := scores.rank(item) if item else None):
            raise boards.no_score(query.around, name)
    else:
        nodes = collect_nodes(ranking, items.values())
    start = Start(below, query.place, nodes, around, above)
    part = positions.list_ranked(context.table, ranking, query.limit, start)

    def encode(place: Sequence[int]) -> str | None:
        text = json.dumps((board.season, *place)) if place[0] else ""
        return cursors.encode(context.settings, cursor_scope, text)

    return Entries(
        items=_to_board_entries(context.table, board, part),
        cursor=encode((part.next, part.depth)),
        previous=encode((part.first,)),
    )


def _to_board_entries(table: Table, board: Board, part: EntriesPage) -> list[BoardEntry]:
    """Build the entries of a page, with the display names and metadata of the players, which the index lacks.

    Cost: 0.5 RCU for each entry of a board where players have names or metadata, else nothing.
    """
    players = [entry.player for _, entry in part.items] if board.has_names or board.metadata else []
    found = table.get_many(scores.score_key(board.name, board.season, player) for player in players)
    items = {key.pk: item for key, item in found.items()}
    return [
        BoardEntry(
            rank=rank,
            player=entry.player,
            name=(item := items.get(f"PLAYER#{entry.player}", {})).get("name"),
            score=board.scale.score(entry.merit),
            metadata=scores.show_metadata(board, item),
        )
        for rank, entry in part.items
    ]


# -- all scores ----------------------------------------------------------------------------------------


def get_distribution(context: Context, name: str, query: BoardQuery) -> Distribution:
    """Count the players in ranges of scores of one round width, from the least score to the greatest.

    There are at most 50 ranges, and empty ranges are included.

    Cost: 0.5 RCU for the board, and the cost of `positions.distribution`.
    Raises: NotFound.
    """
    board = boards.find(context, name, query.season)
    rows = positions.distribution(context.table, board.ranking)
    write = board.scale.write
    return Distribution(
        items=[ScoreBucket(from_=write(least), to=write(most), players=n) for least, most, n in rows]
    )


# -- live ----------------------------------------------------------------------------------------------


def topic(key: Key) -> str | None:
    """Return the name of the board that a score or a node belongs to, or None for any other item."""
    if key.pk.startswith("PLAYER#") and key.sk.startswith("BOARD#"):
        return key.sk.split("#")[1]
    return key.pk.split("#")[2] if key.pk.startswith("TREE#BOARD#") and key.sk == "NODE" else None


def live(context: Context, name: str) -> TopEntries:
    """Return the ten best players of a board, and the number of ranked players.

    Cost: 2 RCU, and 0.5 RCU for each entry of a board where players have display names or metadata.
    Raises: NotFound.
    """
    board = boards.find(context, name)
    items = _to_board_entries(context.table, board, positions.list_ranked(context.table, board.ranking, 10))
    players = max(len(items), count_players(context.table, board.ranking))
    return TopEntries(board=name, season=board.season, players=players, items=items)
