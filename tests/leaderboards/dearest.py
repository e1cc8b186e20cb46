"""The dearest requests of leaderboards: a crowd with long names, many of them with equal scores."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

from chalicelib.leaderboards import boards, scores
from chalicelib.leaderboards.scores import Submission, score_key
from chalicelib.times import to_sort_key
from tests.support.contexts import new_context
from tests.support.dearest import Dearest
from tests.support.deployed import Deployed
from tests.support.operations import ENTRIES

PLAYERS = 3_000
BOARD = "𝕏" * 60
PAGE = 112  # KB of 100 players with the longest names and the most metadata


def dearest(site: Deployed) -> Iterator[Dearest]:
    """Rank a crowd, and read parts of it."""
    path, now, rng = {"board": BOARD}, datetime.now(UTC), random.Random(7)
    context = new_context(site.table, now)
    definition = {"title": "🦉" * 200, "unit": "🦉" * 40, "max": 10**9, "decimals": 2, "metadata": True}
    site.rest("PUT /leaderboards/{board}", "", path=path, body=definition, sub="admin").run()
    board = boards.find(context, BOARD)
    boards.note_names(site.table, board)
    players = [f"{number:04}{'𝕏' * 56}" for number in range(PLAYERS)]
    values = [Decimal(rng.choice([rng.randrange(10**9), 500_000_000])) for _ in players]
    sent = [
        Submission(player, "1", value, to_sort_key(now))
        for player, value in zip(players, values, strict=True)
    ]
    for first in range(0, PLAYERS, 25):
        scores.write_first(context, board, sent[first : first + 25])
    site.drain()
    for player in players:
        key = score_key(BOARD, board.season, player)
        site.table.update(
            key,
            "SET #name = :name, metadata = :metadata",
            names={"#name": "name"},
            values={":name": "🦉" * 60, ":metadata": {"replay": "x" * 487}},
        )
    yield Dearest(site.rest("GET /leaderboards/{board}", "any board", path=path), read=2)
    for name, place in (("a player of 3,000", 1), ("one of many with equal scores", 500_000_000)):
        player = players[values.index(Decimal(place))] if place > 1 else players[0]
        route, query = "/leaderboards/{board}/players/{player}", {"consistent": "true"}
        yield Dearest(site.rest(f"GET {route}", name, path=path | {"player": player}, query=query), read=16)
    card = "/leaderboards/{board}/players/{player}/card.svg"
    yield Dearest(site.rest(f"GET {card}", "a long name", path=path | {"player": players[0]}), read=16)
    for name, value in (("of many", "500000000"), ("of nobody", "499999999.99")):
        query = {"score": value}
        yield Dearest(site.rest("GET /leaderboards/{board}/rank", name, path=path, query=query), read=16)
    query = {"percentile": "33.3"}
    yield Dearest(site.rest("GET /leaderboards/{board}/score", "a third", path=path, query=query), read=16)
    friends = ",".join(players[::30])
    query = {"players": friends}
    yield Dearest(
        site.rest("GET /leaderboards/{board}/standings", "100 players", path=path, query=query),
        kilobytes=PAGE,
    )
    for name, more in (
        ("the first 100", {}),
        ("100 from the middle", {"place": "1500"}),
        ("100 around a player", {"around": players[values.index(Decimal(500_000_000))]}),
    ):
        yield Dearest(
            site.rest(f"GET {ENTRIES}", name, path=path, query={"limit": "100", **more}), kilobytes=PAGE
        )
    yield Dearest(site.rest("GET /leaderboards/{board}/distribution", "3,000 players", path=path))
