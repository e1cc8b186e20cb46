"""Ranks beside a player's own: of any score, at a percentile, and of some players among each other.

The guarantees are those of `queries.py`.
"""

import math
from decimal import Decimal

from chalicelib.concurrency import map_concurrently
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key
from chalicelib.errors import BadRequest, Unprocessable
from chalicelib.leaderboards import boards, scores
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.schemas import (
    MAX_STANDINGS,
    PercentileQuery,
    PercentileScore,
    RankQuery,
    ScoreRank,
    SharedStanding,
    Standings,
    StandingsQuery,
)
from chalicelib.ranking import positions, tree
from chalicelib.ranking.positions import Point, Start
from chalicelib.ranking.ranking import collect_nodes, node_key, read_nodes
from chalicelib.ranking.tree import Node


def find_rank(context: Context, name: str, query: RankQuery) -> ScoreRank:
    """Return the rank that a score has or would have, and the number of players who have it.

    Cost: 0.5 RCU for the board, and the cost of `positions.locate_merit`: 5 RCU at most among a million
    players with uniform scores.
    Raises: NotFound; Unprocessable for a score that the board does not have.
    """
    board = boards.find(context, name, query.season)
    try:
        merit = board.scale.merit(Decimal(query.score))
    except ValueError as error:
        raise Unprocessable(f"`score` {error}") from None
    crowd = positions.locate_merit(context.table, board.ranking, merit)
    return ScoreRank(score=board.scale.score(merit), rank=crowd.rank, players=crowd.equal, of=crowd.players)


def find_score(context: Context, name: str, query: PercentileQuery) -> PercentileScore:
    """Return the worst score whose player has a percentile or a better one, as in a standing.

    Cost: 0.5 RCU for the board and for the root, and the cost of a list of one entry from a place.
    Raises: NotFound.
    """

    def keys(board: Board) -> list[Key]:
        return [node_key(board.ranking, "")]

    board, items = boards.find_with_items(context, name, query.season, keys)
    nodes = collect_nodes(board.ranking, items.values())
    players = nodes.get("", Node()).total()
    behind = math.ceil(Decimal(str(query.percentile)) * players / 100)  # players that are not better
    start = Start(place=min(players, players - behind + 1), nodes=nodes)
    found = positions.list_ranked(context.table, board.ranking, 1, start).items if players else []
    score = board.scale.score(found[0].entry.merit) if found else None
    return PercentileScore(percentile=query.percentile, score=score, of=players)


def compare(context: Context, name: str, query: StandingsQuery) -> Standings:
    """Return the ranks of up to 100 players on a board, and among each other.

    Cost: 0.5 RCU for the board, for each player's score, and for each node on the way to any of them. To
    count the better players of a bucket, 0.5 to 2 RCU more for each player.
    Raises: NotFound; BadRequest for too many players.
    """
    players = [player for player in dict.fromkeys(query.players.split(",")) if player]
    if len(players) > MAX_STANDINGS:
        raise BadRequest(f"`players` must name at most {MAX_STANDINGS} players")

    def keys(board: Board) -> list[Key]:
        return [scores.score_key(name, board.season, player) for player in players]

    board, found = boards.find_with_items(context, name, query.season, keys)
    ranking = board.ranking
    items = [item for key in keys(board) if "score" in (item := found.get(key, {}))]
    paths = {item["pk"]: ranking.scale.path(item["gsi1sk"]) for item in items}
    steps = {
        prefix
        for item in items
        for prefix, _ in tree.steps(paths[item["pk"]], min(item["depth"], ranking.levels(paths[item["pk"]])))
    }
    nodes = read_nodes(context.table, ranking, {"", *steps})  # the root has the number of players

    def rank(item: Item) -> int:
        point = Point(item["gsi1sk"], item["depth"], scores.rank(item), nodes)
        return positions.locate(context.table, ranking, point, has_ties=False).rank

    ranks = map_concurrently(rank, items, pool="standings")
    listed = sorted(zip(ranks, items, strict=True), key=lambda pair: (-pair[1]["gsi1sk"], pair[0]))
    rank_keys = [ranking.rank_key(item["gsi1sk"]) for _, item in listed]
    return Standings(
        items=[
            SharedStanding(
                player=item["pk"].removeprefix("PLAYER#"),
                name=item.get("name"),
                score=item["score"],
                rank=place,
                among=rank_keys.index(rank_keys[i]) + 1,
                metadata=scores.show_metadata(board, item),
            )
            for i, (place, item) in enumerate(listed)
        ],
        of=max([nodes.get("", Node()).total(), *ranks]),
    )
