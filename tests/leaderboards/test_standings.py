"""The standing that a submission returns: exact before the stream has counted the submission."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from chalicelib.leaderboards import scores
from chalicelib.ranking import deepening, tree
from tests.support.site import Site


def define(site: Site, **body: Any) -> None:
    status, answer = site.call("PUT", "/leaderboards/b", {"title": "b"} | body, who="admin")
    assert status == 201, answer


def submit(site: Site, player: str, id: str, value: int, **more: Any) -> tuple[int, Any]:
    body = {"player": player, "id": id, "value": value} | more
    return site.call("POST", "/leaderboards/b/scores?standing=true", body, who="admin")


class Twin:
    """The scores of a board, and the standing of each player by counting all of them."""

    def __init__(self, operator: str, order: str, ties: str) -> None:
        self.operator, self.order, self.ties = operator, order, ties
        self.scores, self.times = dict[str, int](), dict[str, int]()

    def submit(self, player: str, value: int, time: int) -> None:
        before, better = self.scores.get(player), max if self.order == "desc" else min
        if before is not None and self.operator != "set":
            value = before + value if self.operator == "increment" else better(before, value)
        self.scores[player] = value
        if self.operator != "best" or value != before:
            self.times[player] = time

    def stand(self, player: str) -> dict[str, Any]:
        own, count = self.scores[player], len(self.scores)
        ahead = [abs(score - own) for score in self.scores.values() if self._is_better(score, own)]
        earlier = [
            other
            for other, score in self.scores.items()
            if score == own and self.times[other] < self.times[player]
        ]
        rank = 1 + len(ahead) + (len(earlier) if self.ties == "first" else 0)
        return {
            **{"player": player, "name": None, "score": own, "rank": rank, "of": count},
            "percentile": round(100 * (count - rank + 1) / count, 2),
            "toNext": min(ahead, default=None),
        }

    def _is_better(self, score: int, own: int) -> bool:
        return score > own if self.order == "desc" else score < own


GAMES = itertools.product(("best", "set", "increment"), ("asc", "desc"), (2, tree.LIMIT), ("shared", "first"))


QUICK = {1, 6, 10, 13, 19, 20}  # each pair of two values is in a game of these


@pytest.mark.parametrize(
    ("operator", "order", "limit", "ties"),
    [
        pytest.param(*game, marks=() if number in QUICK else pytest.mark.long)
        for number, game in enumerate(GAMES)
    ],
)
def test_a_submission_returns_the_standing_that_it_leads_to(
    site: Site, monkeypatch: pytest.MonkeyPatch, operator: str, order: str, limit: int, ties: str
) -> None:
    """Twelve players in shallow and in deep trees gain, fall, tie, leave and come back."""
    monkeypatch.setattr(tree, "LIMIT", limit)
    monkeypatch.setattr(deepening, "STEP", 2)
    define(site, operator=operator, order=order, min=-9999, max=9999, ties=ties)
    twin, rng = Twin(operator, order, ties), random.Random(f"{operator} {order}")
    players = [f"p{number}" for number in range(12)]
    for number in range(40):
        player = rng.choice(players)
        if player in twin.scores and not number % 9:
            path = f"/leaderboards/b/players/{player}"
            assert site.call("DELETE", path, who="admin")[0] == 204
            del twin.scores[player]
            if number % 2:
                site.settle()
        value = rng.choice([-900, -1, 0, 1, 5, 50, 51, 99, 100, 5000])
        twin.submit(player, value, number)
        time = f"2026-11-20T10:00:{number:02}Z"
        assert submit(site, player, f"{number}", value, time=time) == (201, twin.stand(player)), number
        site.settle()
        assert site.get(f"/leaderboards/b/players/{player}") == twin.stand(player)


def test_a_known_submission_returns_the_standing_and_changes_nothing(site: Site) -> None:
    define(site)
    for player, value in (("ann", 5), ("bob", 3)):
        submit(site, player, "1", value)
        site.settle()
    assert submit(site, "bob", "2", 4)[1]["rank"] == 1
    site.settle()
    known = {"score": 7, "rank": 1, "of": 2, "toNext": None}
    for id in ("1", "2"):
        status, answer = submit(site, "bob", id, 100)
        assert (status, answer | known) == (200, answer)


def test_a_value_that_changes_nothing_returns_the_standing_of_the_score(site: Site) -> None:
    define(site, operator="best")
    for player, value in (("ann", 9), ("bob", 5)):
        submit(site, player, "1", value)
        site.settle()
    assert submit(site, "bob", "2", 3)[1].items() >= {"score": 5, "rank": 2, "of": 2, "toNext": 4}.items()


def test_a_player_who_was_removed_meanwhile_has_no_standing(site: Site) -> None:
    define(site)
    submit(site, "ann", "1", 5)
    site.settle()
    assert site.call("DELETE", "/leaderboards/b/players/ann", who="admin")[0] == 204
    assert submit(site, "ann", "1", 5) == (200, {"player": "ann", "score": None})


def test_a_standing_after_a_concurrent_submission_has_both(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(site)
    for player, value in (("ann", 10), ("bob", 5)):
        submit(site, player, "1", value)
        site.settle()
    write, others = scores.write, [4]

    def write_later(*given: Any) -> Any:
        if others:
            submit(site, "bob", "other", others.pop())
        return write(*given)

    monkeypatch.setattr(scores, "write", write_later)
    answer = submit(site, "bob", "2", 3)[1]
    assert answer.items() >= {"score": 12, "rank": 1, "of": 2, "toNext": None}.items()


def test_a_standing_is_asked_for(site: Site) -> None:
    define(site)
    body = {"player": "ann", "id": "1", "value": 5}
    for query in ("", "?standing=false"):
        answer = site.call("POST", f"/leaderboards/b/scores{query}", body, who="admin")[1]
        assert answer == {"player": "ann", "score": 5}
    status, answer = site.call("POST", "/leaderboards/b/scores?standing=maybe", body, who="admin")
    assert (status, answer["code"]) == (400, "BadRequest")


def test_where_the_first_is_ahead_every_call_ranks_equal_scores_by_their_time(site: Site) -> None:
    """A late submission has the place of its time, in whatever order the submissions arrive."""
    define(site, operator="best", ties="first")
    for player, value, second in (
        *(("dee", 20, 4), ("bob", 20, 2), ("eve", 10, 0), ("ann", 30, 9), ("cem", 20, 7)),
        *(("cem", 20, 3), ("cem", 20, 8)),  # the same value earlier, and later
    ):
        answer = submit(site, player, f"{value}-{second}", value, time=f"2026-11-20T10:00:0{second}Z")[1]
    assert (answer["rank"], answer["toNext"]) == (3, 10)
    site.settle()
    board = "/leaderboards/b"
    whole = [(1, "ann"), (2, "bob"), (3, "cem"), (4, "dee"), (5, "eve")]

    def entries(query: str) -> list[tuple[int, str]]:
        found = site.get(f"{board}/entries?{query}")
        return [(item["rank"], item["player"]) for item in found["items"]]

    assert entries("") == whole
    assert entries("place=3&limit=2") == whole[2:4]
    assert entries("around=dee&limit=3") == whole[2:5]
    below = site.get(f"{board}/entries?limit=2")["cursor"]
    assert entries(f"limit=2&cursor={below}") == whole[2:4]
    above = site.get(f"{board}/entries?limit=2&cursor={below}")["previous"]
    assert entries(f"limit=2&cursor={above}") == whole[:2]
    assert [site.get(f"{board}/players/{player}")["rank"] for _, player in whole] == [1, 2, 3, 4, 5]
    assert site.get(f"{board}/rank?score=20") == {"score": 20, "rank": 5, "players": 3, "of": 5}
    listed = site.get(f"{board}/standings?players=eve,dee,bob")["items"]
    assert [(item["rank"], item["among"]) for item in listed] == [(2, 1), (4, 2), (5, 3)]
    assert "4th of 5" in str(site.get(f"{board}/players/dee/card.svg"))
    shared = {"title": "b", "operator": "best"}
    assert site.call("PUT", board, shared, who="admin")[0] == 409
