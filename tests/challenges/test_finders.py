"""For each found path, how many players have found it, and whether the player was the first."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest

from chalicelib import times
from chalicelib.aggregates import engine
from chalicelib.api.auth import Caller
from chalicelib.challenges import definitions, finders, progress, submissions
from chalicelib.challenges.schemas import FoundPathParams, PlayerParams
from tests.support.contexts import new_context
from tests.support.records import drift, scan
from tests.support.site import Site

NOW = times.parse("2026-11-21T10:00:00Z")
PLAYERS = ("ann", "bob", "cem", "dee")


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "SCRYPT_COST", 2)


def define(site: Site, answers: int, limit: int = 12) -> list[str]:
    paths = [f"path {number}" for number in range(answers)]
    body = {"title": "Hunt", "paths": paths, "limit": limit}
    assert site.call("PUT", "/challenges/hunt", body, who="admin")[0] == 201
    return paths


def find(site: Site, player: str, path: str, moment: datetime = NOW) -> None:
    caller = Caller(player, problem="")
    submissions.submit(new_context(site.table, moment), "hunt", caller, path)


def read(site: Site, player: str) -> dict[str, tuple[int, bool]]:
    status, found = site.call("GET", f"/challenges/hunt/players/{player}", who=player)
    assert status == 200
    assert found["paths"] == [item["path"] for item in found["items"]]
    return {item["path"]: (item["players"], item["first"]) for item in found["items"]}


def test_a_path_has_its_finders_and_its_first(site: Site) -> None:
    define(site, 3)
    find(site, "bob", "PATH  0", NOW + timedelta(seconds=1))
    find(site, "ann", "path 0", NOW)  # delivered later, and found earlier
    find(site, "bob", "path 1")
    assert read(site, "bob") == {"PATH  0": (1, False), "path 1": (1, False)}  # the stream is behind
    site.settle()
    assert read(site, "ann") == {"path 0": (2, True)}
    assert read(site, "bob") == {"PATH  0": (2, False), "path 1": (1, True)}
    assert read(site, "cem") == {}, "nothing is told of paths that are not found"


def test_a_withdrawn_path_has_no_first_any_more(site: Site) -> None:
    define(site, 3)
    for second, player in enumerate(("ann", "bob")):
        find(site, player, "path 0", NOW + timedelta(seconds=second))
    site.settle()
    progress.withdraw_player(site.table, PlayerParams(challenge="hunt", player="ann"))
    site.settle()
    assert read(site, "bob") == {"path 0": (1, False)}
    find(site, "ann", "path 0", NOW + timedelta(seconds=9))
    site.settle()
    assert read(site, "ann") == {"path 0": (2, False)}
    values = [value for item in scan(site.table) for value in item.values() if isinstance(value, bytes)]
    assert not [value for value in values if value.endswith(finders._digest("ann"))]


def test_the_items_of_a_challenge_with_a_thousand_answers_stay_small(site: Site) -> None:
    answers = [definitions.hash_answer(f"{number}", b"salt", 2) for number in range(1000)]
    pages = Counter(finders.counter("hunt", finders.identify(answer, 1000))[0] for answer in answers)
    assert len(pages) == finders.PAGES
    assert max(pages.values()) < 80  # of 13 bytes with their counters, and of 23 with their first finders
    few = {finders.counter("hunt", finders.identify(answer, finders.FEW))[0] for answer in answers}
    assert few == {finders.statistics_key("hunt")}


@pytest.mark.parametrize("answers", [5, 50])
@pytest.mark.parametrize("seed", range(4))
def test_finders_equal_those_of_a_twin_in_any_order_of_delivery(site: Site, answers: int, seed: int) -> None:
    """Records are delivered twice and shuffled, and the first finder is that of the earliest time."""
    paths, rng = define(site, answers)[:5], random.Random(seed)
    found: dict[tuple[str, str], datetime] = {}
    earliest: dict[str, tuple[datetime, str]] = {}
    delivered: list[Any] = []
    for number in range(40):
        player, path = rng.choice(PLAYERS), rng.choice(paths)
        moment = NOW + timedelta(seconds=(number * 7) % 40)
        if (player, path) not in found and len(found) < 16:
            find(site, player, path, moment)
            found[player, path] = moment
            earliest[path] = min((moment, player), earliest.get(path, (moment, player)))
        elif number % 5 == 0 and (player, path) in found and earliest[path][1] != player:
            params = FoundPathParams(challenge="hunt", player=player, path=path)
            deliver(site, rng, delivered)
            progress.withdraw_path(site.table, params)
            del found[player, path]
        if number % 6 == 0:
            deliver(site, rng, delivered)
    deliver(site, rng, delivered)
    site.settle()
    assert drift(site.table, [progress.contribution]) == {}
    counts = Counter(path for _, path in found)
    for player in PLAYERS:
        assert read(site, player) == {
            path: (counts[path], earliest[path] == (moment, player))
            for (finder, path), moment in found.items()
            if finder == player
        }


def deliver(site: Site, rng: random.Random, delivered: list[Any]) -> None:
    """Deliver the new records, and some of the earlier ones again, in any order."""
    new = site.stream.read()
    delivered += new
    batch = new + rng.sample(delivered, len(delivered) // 2)
    rng.shuffle(batch)
    changes = engine.apply(site.table, [progress.contribution], batch).changes
    finders.note_first(site.table, changes)
