"""The standing of a player ("211th of 1539"), read by itself or as the response to a submission.

The guarantees are those of `queries.py`. Beside them the standing of a submission includes the submission:
its counters are read before its write, so they count the player where the player was before. The player is
taken from there and placed at the new score. The standing is exact if the counters have the earlier changes.
"""

from typing import Any

from chalicelib.api.auth import Caller
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.leaderboards import boards, scores
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.schemas import ScoreBody, ScoreResult, Standing, StandingQuery
from chalicelib.ranking import entries, positions
from chalicelib.ranking.positions import Point, Position
from chalicelib.ranking.ranking import Ranked, find_kept_depth
from chalicelib.ranking.tree import TIE


def get(context: Context, name: str, player: str, query: StandingQuery) -> Standing:
    """Return a player's score, rank, and distance to the next better score.

    Cost: 0.5 RCU each for the board, the score and the next better player, and what `positions.locate` does.
    That is 5 RCU at most among a million players with uniform scores and UUIDs as names. It takes two round
    trips, and another one while the player's bucket is deepened. With `consistent` the board, the score and
    the nodes cost 1 RCU each. The index has no consistent reads.
    Raises: NotFound.
    """
    return find(context, name, player, query)[1]


def find(context: Context, name: str, player: str, query: StandingQuery) -> tuple[Board, Standing]:
    """Return a board, and a player's standing on it. Cost and errors are those of `get`."""

    def keys(board: Board) -> list[Key]:
        return [scores.score_key(name, board.season, player)]

    board, items = boards.find_with_items(context, name, query.season, keys, consistent=query.consistent)
    score = items.get(keys(board)[0], {})
    if not (own := scores.rank(score) if score else None):
        raise boards.no_score(player, name)
    own = own._replace(ranking=board.ranking)
    located = _locate(context.table, own, own.depth, consistent=query.consistent)
    return board, Standing(**_build(board, score, *located))


def submit(context: Context, name: str, body: ScoreBody, caller: Caller) -> tuple[ScoreResult, bool]:
    """Apply a submission. Return the player's standing with it, and whether its id is new.

    The result for a player who was removed has no standing.

    Cost: that of `scores.submit`, 0.5 RCU for the next better player, and what `positions.locate` does. The
    nodes that both read are read once. These reads are repeated if the score is not the expected one: for a
    known id, and after a concurrent submission of the player.
    Raises: as `scores.submit` does.
    """
    board, submission, score = scores.prepare(context, name, body, caller)
    number, ranking = scores.predict(context, board, submission, score), board.ranking
    depth, earlier = find_kept_depth(ranking, number, score or {}), scores.list_positions(score or {})
    own = Ranked(ranking, submission.player, number, depth, [(n, d) for n, d in earlier])
    position, next_merit = _locate(context.table, own, depth)
    is_new, after = scores.write(context, board, submission, score, position.nodes)
    if not after or not (ranked := scores.rank(after)):
        return ScoreResult(player=submission.player, score=None), is_new
    if ranked.number != number:
        ranked = ranked._replace(ranking=ranking)
        position, next_merit = _locate(context.table, ranked, ranked.depth)
    elif not earlier:
        position = position._replace(players=position.players + 1)
    return ScoreResult(**_build(board, after, position, next_merit)), is_new


def _locate(
    table: Table, own: Ranked, depth: int, *, consistent: bool = False
) -> tuple[Position, int | None]:
    """Return the position of a player, and the merit of the next better one. `depth` is 0 if not known."""
    merit = own.number // TIE
    read_better = entries.start_listing_above(table, own.ranking, 2, merit * TIE + TIE - 1)
    point = Point(own.number, depth, own)
    position = positions.locate(table, own.ranking, point, has_ties=False, consistent=consistent)
    ahead = (*position.ahead, *read_better())
    better = (entry.merit for entry in ahead if entry.player != own.player and entry.merit > merit)
    return position, next(better, None)


def _build(board: Board, score: Item, position: Position, next_merit: int | None) -> dict[str, Any]:
    """Build the fields of a standing from the item of the score and its position."""
    players, rank = max(position.players, position.rank), position.rank
    to_next = None if next_merit is None else abs(board.scale.score(next_merit) - score["score"])
    return {
        "player": score["pk"].removeprefix("PLAYER#"),
        "name": score.get("name"),
        "score": score["score"],
        "rank": rank,
        "of": players,
        "percentile": round(100 * (players - rank + 1) / players, 2),
        "to_next": None if rank == 1 else to_next,
        "metadata": scores.show_metadata(board, score),
    }
