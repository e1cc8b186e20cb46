"""Reads while the counters are behind the scores: a naive twin bounds what each answer may be.

The requests are HTTP requests. The stream is applied in any part: some records, to some of their nodes.
"""

from __future__ import annotations

import contextlib
import zlib
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import app
from chalicelib.leaderboards import queries
from chalicelib.ranking import deepening, entries, positions, tree
from tests.histories.world import Killed
from tests.support.contexts import new_context
from tests.support.faults import instead
from tests.support.site import Site


@pytest.fixture
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make buckets of at most two players, so that five need a deep tree."""
    monkeypatch.setattr(tree, "LIMIT", 2)
    monkeypatch.setattr(deepening, "STEP", 2)


def define(site: Site, **body: Any) -> None:
    status, answer = site.call("PUT", "/leaderboards/b", {"title": "b"} | body, who="admin")
    assert status == 201, answer


def submit(site: Site, player: str, id: str, value: Any, minute: int = 0) -> None:
    body = {"player": player, "id": id, "value": value, "time": f"2026-01-01T10:{minute:02}:00Z"}
    status, answer = site.call("POST", "/leaderboards/b/scores", body, who="admin")
    assert status == 201, answer


LOSSES: dict[str, tuple[dict[str, Any], tuple[int, int]]] = {
    "set": ({"operator": "set"}, (100, 50)),
    "set asc": ({"operator": "set", "order": "asc"}, (50, 100)),
    "increment": ({"operator": "increment", "min": -100}, (100, -50)),
    "increment asc": ({"operator": "increment", "order": "asc"}, (50, 50)),
}


@pytest.mark.security
@pytest.mark.parametrize("consistent", ["", "?consistent=true"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_standing_after_a_loss_that_is_not_counted_is_right(site: Site, loss: str, consistent: str) -> None:
    body, values = LOSSES[loss]
    define(site, **body)
    for minute, value in enumerate(values):
        submit(site, "ann", f"{minute}", value, minute)
    found = site.get(f"/leaderboards/b/players/ann{consistent}")
    assert (found["rank"], found["of"], found["percentile"], found["toNext"]) == (1, 1, 100, None)
    submit(site, "bob", "1", {"set": 1, "increment": -90}.get(loss, 101), 2)
    found = site.get(f"/leaderboards/b/players/ann{consistent}")
    assert (found["rank"], found["percentile"], found["toNext"]) == (1, 100, None)


def test_a_distribution_whose_only_player_moves_between_its_reads_has_one_range(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(site, operator="set")
    submit(site, "ann", "1", 100)
    above, below = entries.start_listing_above, entries.start_listing_below

    def read_worst(*given: Any) -> Any:
        found = above(*given)()
        return lambda: found

    def read_best(*given: Any) -> Any:
        submit(site, "ann", "2", 3, 1)
        return below(*given)

    monkeypatch.setattr(positions, "start_listing_above", read_worst)
    monkeypatch.setattr(positions, "start_listing_below", read_best)
    ranges = site.get("/leaderboards/b/distribution")["items"]
    assert (ranges[0]["from"], ranges[-1]["to"]) == (2, 101)


# -- any part of the stream ----------------------------------------------------------------------------


class Step(NamedTuple):
    """A step of a game: a submission, a removal (`value` None), or a delivery (`player` "").

    A delivery takes up to `value` records of a shard. Without an `end` its function dies at a counter.
    """

    player: str
    value: int | None
    shard: int
    end: int | None


PLAYERS = ["ann", "bob", "cem", "dee", "eve"]
SHARDS = 2
STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(PLAYERS),
        st.sampled_from([0, 1, 5, 50, 99, 100, 5000, None]),
        st.just(0),
        st.none(),
    )
    | st.builds(
        Step, st.just(""), st.integers(1, 9), st.integers(0, SHARDS - 1), st.none() | st.integers(0, 5)
    ),
    min_size=2,
    max_size=24,
)


class Game:
    """A board behind HTTP, its naive twin, and a stream of which the test applies any part."""

    def __init__(self, site: Site, operator: str, order: str) -> None:
        self.site, self.operator, self.sign = site, operator, 1 if order == "asc" else -1
        self.board, self.scores = f"b-{uuid4().hex}", dict[str, int]()
        self.shards: list[list[Any]] = [[] for _ in range(SHARDS)]
        body = {"title": "b", "operator": operator, "order": order, "min": -5000, "max": 5000}
        self._call("PUT", "", body)

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        url = f"/leaderboards/{self.board}{path}"
        status, answer = self.site.call(method, url, body, who="admin")
        assert status < 300, (method, path, answer)
        return answer

    def play(self, number: int, step: Step) -> None:
        if not step.player:
            self.deliver(self.shards[step.shard], step.value or 0, step.end)
        elif step.value is None:
            self._call("DELETE", f"/players/{step.player}")
            self.scores.pop(step.player, None)
        else:
            value = step.value if number % 2 else -step.value
            body = {"player": step.player, "id": f"{number}", "value": value}
            body |= {"time": f"2026-01-01T10:{number:02}:00Z"}
            pending, standing = self.pending(), self._call("POST", "/scores?standing=true", body)
            before, best = self.scores.get(step.player), min if self.sign > 0 else max
            after = {"set": value, "increment": value + (before or 0)}
            self.scores[step.player] = after.get(
                self.operator, best(value, value if before is None else before)
            )
            self.bound(len(pending))
            self.check_standing(standing)
        for record in self.site.stream.read():
            self.shards[zlib.crc32(record["dynamodb"]["Keys"]["pk"]["S"].encode()) % SHARDS].append(record)

    def deliver(self, shard: list[Any], size: int, end: int | None) -> None:
        """Deliver the first records of a shard. They stay in it when their function dies."""
        died = [] if end is None else [*[None] * end, Killed()]
        with instead(self.site.table, "UpdateItem", *died), contextlib.suppress(Killed):
            app.apply({"Records": shard[:size]}, None)
            del shard[:size]

    def pending(self) -> set[str]:
        """Return the players whose changes the counters may lack."""
        keys = [record["dynamodb"]["Keys"] for shard in self.shards for record in shard]
        return {key["pk"]["S"].removeprefix("PLAYER#") for key in keys if key["sk"]["S"].startswith("BOARD#")}

    def check(self) -> None:
        """Check each answer: what is pending moves a rank by one place for each player, and no further."""
        self.bound(len(self.pending()))
        for player in self.scores:
            for query in ("", "?consistent=true"):
                self.check_standing(self._call("GET", f"/players/{player}{query}"))

    def bound(self, slack: int) -> None:
        """Set how many places the next answers may be wrong by, and the scores to compare them with."""
        self.slack, self.ordered = slack, sorted(self.sign * score for score in self.scores.values())

    def check_standing(self, found: Any) -> None:
        assert 1 <= found["rank"] <= found["of"]
        assert 0 < found["percentile"] <= 100
        assert (found["toNext"] or 1) > 0
        assert abs(found["of"] - len(self.scores)) <= self.slack
        self.check_ranks([found])

    def check_lists(self) -> None:
        """Check everything else that has a rank or counts players."""
        whole = self._call("GET", "/entries?limit=100")["items"]
        assert {entry["player"]: entry["score"] for entry in whole} == self.scores
        assert [entry["rank"] for entry in whole] == [1 + self.ordered.index(score) for score in self.ordered]
        live = queries.live(new_context(self.site.table), self.board)
        assert live.players >= len(live.items) == len(whole)
        assert 0 <= self._call("GET", "")["players"] <= len(whole) + self.slack
        for place, entry in enumerate(whole, 1):
            around = self._call("GET", f"/entries?limit=3&around={entry['player']}")["items"]
            assert entry["player"] in {other["player"] for other in around}
            self.check_ranks(around)
            self.check_ranks(self._call("GET", f"/entries?limit=2&place={place + 1}")["items"])
        cursor, paged = "", list[Any]()
        while cursor is not None:
            page = self._call("GET", f"/entries?limit=2{cursor and '&cursor='}{cursor}")
            cursor, paged = page["cursor"], [*paged, *page["items"]]
            self.check_ranks(page["items"])
        assert [entry["player"] for entry in paged] == [entry["player"] for entry in whole]
        ranges = self._call("GET", "/distribution")["items"]
        assert len({span["to"] - span["from"] for span in ranges}) == min(1, len(whole))
        assert all(span["players"] >= 0 for span in ranges)
        assert abs(sum(span["players"] for span in ranges) - len(whole)) <= self.slack

    def check_ranks(self, page: list[Any]) -> None:
        ranks = [entry["rank"] for entry in page]
        assert ranks == sorted(ranks)
        for entry in page:
            assert entry["rank"] >= 1
            assert entry["score"] == self.scores[entry["player"]]
            assert abs(entry["rank"] - 1 - self.ordered.index(self.sign * entry["score"])) <= self.slack


def play(site: Site, operator: str, order: str, steps: list[Step]) -> None:
    """Check the answers after each step, and that all are exact once the stream is applied."""
    game = Game(site, operator, order)
    for number, step in enumerate(steps):
        game.play(number, step)
        game.check()
    game.check_lists()
    for shard in game.shards:
        game.deliver(shard, len(shard), None)
        shard.clear()
    while records := site.stream.read():
        app.apply({"Records": records}, None)
    game.check()
    game.check_lists()


FEW = settings(
    max_examples=8, deadline=None, database=None, print_blob=True, suppress_health_check=list(HealthCheck)
)
any_game = given(st.sampled_from(["set", "increment", "best"]), st.sampled_from(["asc", "desc"]), STEPS)


@FEW
@any_game
def test_each_answer_is_possible_whatever_part_of_the_stream_is_applied(
    site: Site, small_buckets: None, operator: str, order: str, steps: list[Step]
) -> None:
    play(site, operator, order, steps)


@pytest.mark.long
@settings(FEW, max_examples=300)
@any_game
def test_each_answer_is_possible_in_300_games(
    site: Site, small_buckets: None, operator: str, order: str, steps: list[Step]
) -> None:
    play(site, operator, order, steps)
