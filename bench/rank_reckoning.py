"""What must hold of rankings after a history: trees, lists and ranks, beside those of a sorted list."""

from __future__ import annotations

from collections.abc import Iterator

import app
from bench.admins import PLANTED
from bench.histories import History
from bench.plans import BOARDS
from chalicelib import board_schemas, boards, placing, ranking, ranktree, score_schemas
from chalicelib.ranking import Ranking


def ranks(history: History) -> Iterator[str]:
    """Check each tree, and compare each rank with that of a sorted list; ask the product for them, too."""
    now = history.world.clock()
    for name in BOARDS:
        board = boards.find(history.table, name, now)
        suffix = f"BOARD#{name}#{board.season}"
        held = {
            item["pk"].removeprefix("PLAYER#"): item["score"]
            for item in history.items
            if item["sk"] == suffix and PLANTED not in item
        }
        merits = {who: board.scale.merit(score) for who, score in held.items()}
        yield from _tree(history, board.ranking, merits)
        path = board_schemas.BoardPath(board=name)
        listed = app.get_entries(path, score_schemas.EntriesQuery(limit=100)).items
        ranked = sorted((1 + sum(other > merits[who] for other in merits.values()), who) for who in merits)
        if sorted((one.rank, one.player) for one in listed) != ranked:
            yield f"{name} is answered {[(one.rank, one.player) for one in listed]}, not {ranked}"
        for player, score in held.items():
            better = sum((s > score) if board.order == "desc" else (s < score) for s in held.values())
            whose = board_schemas.PlayerPath(board=name, player=player)
            said = app.get_player(whose, score_schemas.StandingQuery())
            if (said.rank, said.of, said.score) != (better + 1, len(held), score):
                yield f"{player} is answered {said} on {name}, not {better + 1} of {len(held)} with {score}"
    found = {
        item["pk"].partition("#PLAYER#")[2]: placing.score(item["found"], item["latest"])
        for item in history.items
        if item["sk"] == "PROGRESS" and item.get("ranked") and PLANTED not in item
    }
    merits = {player: placing.SCALE.merit(score) for player, score in found.items()}
    yield from _tree(history, placing.ranking_of("hunt"), merits)


def _tree(history: History, held: Ranking, merits: dict[str, int]) -> Iterator[str]:
    nodes = ranking.nodes(held, history.items)
    try:
        ranktree.check(held.scale, nodes)
    except AssertionError as error:
        yield f"{held.name}: {error}"
    for player, merit in merits.items():
        better = sum(other > merit for other in merits.values())
        if (rank := ranktree.rank(held.scale, merit, nodes)) != better + 1:
            yield f"{held.name}: the tree ranks {player} {rank}, not {better + 1}"
    listed = {
        ranking.player_of(item): item["gsi1sk"] // ranktree.TIE
        for item in history.items
        if item["sk"] == f"RANKED#{held.name}" and item["gsi1sk"]
    }
    if listed != merits:
        yield f"{held.name} lists {listed}, not {merits}"
