"""Invariants of rankings: trees, lists and ranks agree with a sorted list of the scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import app
from chalicelib.challenges import ranking as challenge_ranking
from chalicelib.leaderboards import boards
from chalicelib.leaderboards import schemas as board_schemas
from chalicelib.ranking import ranking, tree
from chalicelib.ranking.ranking import Ranking
from proof.clients import PLANTED
from proof.scenario import BOARDS

if TYPE_CHECKING:
    from proof.history import History


def ranks(history: History) -> Iterator[str]:
    """Check each tree, and compare each stored and returned rank with that of a sorted list."""
    now = history.world.clock()
    for name in BOARDS:
        board = boards.find(history.table, name, now)
        suffix = f"BOARD#{name}#{board.season}"
        scores = {
            item["pk"].removeprefix("PLAYER#"): item["score"]
            for item in history.items
            if item["sk"] == suffix and PLANTED not in item
        }
        merits = {player: board.scale.merit(score) for player, score in scores.items()}
        yield from _tree(history, board.ranking, merits)
        path = board_schemas.BoardPath(board=name)
        entries = app.get_entries(path, board_schemas.EntriesQuery(limit=100)).items
        ranked = sorted((1 + sum(other > merits[one] for other in merits.values()), one) for one in merits)
        if sorted((one.rank, one.player) for one in entries) != ranked:
            yield f"{name} lists {[(one.rank, one.player) for one in entries]}, not {ranked}"
        for player, score in scores.items():
            better = sum((s > score) if board.order == "desc" else (s < score) for s in scores.values())
            player_path = board_schemas.PlayerPath(board=name, player=player)
            found = app.get_player(player_path, board_schemas.StandingQuery())
            if (found.rank, found.of, found.score) != (better + 1, len(scores), score):
                yield f"{name} returns {found} for {player}, not {better + 1} of {len(scores)} with {score}"
    results = {
        item["pk"].partition("#PLAYER#")[2]: challenge_ranking.encode_score(item["found"], item["latest"])
        for item in history.items
        if item["sk"] == "PROGRESS" and item.get("ranked") and PLANTED not in item
    }
    merits = {player: challenge_ranking.SCALE.merit(score) for player, score in results.items()}
    yield from _tree(history, challenge_ranking.build_ranking("hunt"), merits)


def _tree(history: History, of: Ranking, merits: dict[str, int]) -> Iterator[str]:
    nodes = ranking.collect_nodes(of, history.items)
    try:
        tree.check(of.scale, nodes)
    except AssertionError as error:
        yield f"{of.name}: {error}"
    for player, merit in merits.items():
        better = sum(other > merit for other in merits.values())
        if (rank := tree.rank(of.scale, merit, nodes)) != better + 1:
            yield f"{of.name}: the tree ranks {player} {rank}, not {better + 1}"
    listed = {
        ranking.player_of(item): item["gsi1sk"] // tree.TIE
        for item in history.items
        if item["sk"] == f"RANKED#{of.name}" and item["gsi1sk"]
    }
    if listed != merits:
        yield f"{of.name} lists {listed}, not {merits}"
