"""The dearest requests of challenges: a thousand answers, and ranked players with long names."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

from chalicelib.challenges import definitions, progress
from tests.support.dearest import Dearest
from tests.support.deployed import Deployed

CHALLENGE = "𝕏" * 60
PLAYERS = 150


def dearest(site: Deployed) -> Iterator[Dearest]:
    """Rank players, and read the challenge."""
    path = {"challenge": CHALLENGE}
    paths = [f"answer {number}" for number in range(1_000)]
    body = {"title": "🦉" * 200, "paths": paths, "limit": 100, "ranked": True}
    with mock.patch.object(definitions, "SCRYPT_COST", 2):
        site.rest("PUT /challenges/{challenge}", "", path=path, body=body, sub="admin").run()
    for number in range(PLAYERS):
        key = progress.progress_key(CHALLENGE, f"{number:03}{'𝕏' * 57}")
        sums = {"found": 1 + number % 100, "latest": 1_700_000_000_000 + number, "ranked": True}
        site.table.put({**key._asdict(), **sums, "name": "🦉" * 60})
    site.drain()
    yield Dearest(site.rest("GET /challenges/{challenge}", "1,000 answers", path=path), read=4)
    route = "/challenges/{challenge}/statistics"
    yield Dearest(site.rest(f"GET {route}", "players with each number of paths", path=path), read=4)
    for name, more in (
        ("the first 100", {}),
        ("100 from the middle", {"place": "50"}),
        ("100 around a player", {"around": f"075{'𝕏' * 57}"}),
    ):
        query = {"limit": "100", **more}
        yield Dearest(site.rest("GET /challenges/{challenge}/leaders", name, path=path, query=query))
