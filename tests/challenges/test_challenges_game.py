"""A treasure hunt: concurrent requests, and a model under random actions and deliveries of the stream."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from chalicelib.aggregates import engine as aggregates
from chalicelib.api.auth import Caller
from chalicelib.challenges import definitions, progress, submissions
from chalicelib.challenges import queries as challenge_queries
from chalicelib.challenges.schemas import (
    ChallengeBody,
    FoundPathParams,
    PlayerParams,
)
from chalicelib.dynamo.items import Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy, HubbubError, NotFound
from chalicelib.ranking import deepening
from local.engines.engine import Engine
from tests.support.conflicts import InFlight
from tests.support.contexts import new_context
from tests.support.records import Reader, drift, scan
from tests.support.tables import store_on

CONTRIBUTIONS = (progress.contribution,)
PATHS = [f"path {i}" for i in range(60)]
AT_ONCE = 50
MAX_ATTEMPTS = 20  # attempts of a client, or of an event source, after Busy


def apply(table: Table, records: Sequence[Any]) -> None:
    """Apply a batch as the app does."""
    changes = aggregates.apply(table, CONTRIBUTIONS, records).changes
    now = datetime.now(UTC)
    progress.follow(new_context(table, now), changes)
    deepening.follow(new_context(table, now), [progress.rank], changes)


class Hunt:
    """A table with a challenge, and its stream."""

    def __init__(self, table: Table, stream: Reader) -> None:
        self.table = table
        self.stream = stream

    def define(self, limit: int = 12, paths: Sequence[str] = PATHS, ranked: bool = False) -> bool:
        body = ChallengeBody(title="Hunt", paths=list(paths), limit=limit, ranked=ranked)
        return definitions.define(new_context(self.table), "hunt", body)[1]

    def submit(self, player: str, path: str, now: datetime | None = None) -> str:
        """Submit as a client does, with retries after 503. Return the status, or the name of the error."""
        for _ in range(MAX_ATTEMPTS):
            try:
                _, is_new = submissions.submit(
                    new_context(self.table, now or datetime.now(UTC)), "hunt", Caller(player), path
                )
                return "201" if is_new else "200"
            except Busy:
                continue
            except HubbubError as error:
                return type(error).__name__
        return "Busy"

    def run_concurrently(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run all calls concurrently and return their results."""
        gate = threading.Barrier(len(calls))

        def begin(call: Callable[[], Any]) -> Any:
            gate.wait(30)
            return call()

        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(begin, calls))

    def paths(self) -> Counter[str]:
        """Count each player's path items, and check that each progress has that number."""
        items = scan(self.table)
        found = Counter(i["pk"].split("#")[-1] for i in items if i["sk"].startswith("PATH#"))
        stored = {i["pk"].split("#")[-1]: i["found"] for i in items if i["sk"] == "PROGRESS"}
        assert {player: number for player, number in stored.items() if number} == dict(found)
        return found

    def apply_stream(self) -> None:
        """Apply the whole stream, and compare the statistics with a recount and with the path items."""
        while records := self.stream.read():
            apply(self.table, records)
        self.compare()

    def compare(self) -> None:
        assert drift(self.table, CONTRIBUTIONS) == {}
        found = Counter(self.paths().values())
        statistics = challenge_queries.get_statistics(self.table, "hunt")
        assert statistics.players == found.total()
        assert statistics.paths == sum(n * players for n, players in found.items())
        for n in statistics.exactly:
            assert statistics.exactly[n] == found[int(n)]
            assert statistics.reached[n] == sum(p for m, p in found.items() if m >= int(n))


@pytest.fixture(autouse=True)
def fast_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "SCRYPT_COST", 2)


@pytest.fixture
def hunt(engine: Engine) -> Iterator[Hunt]:
    with store_on(engine) as made:
        yield Hunt(*made)


# -- races ---------------------------------------------------------------------------------------------


def test_fifty_concurrent_submissions_of_a_player_never_exceed_the_limit(hunt: Hunt) -> None:
    hunt.define(limit=12)
    done = Counter(hunt.run_concurrently([partial(hunt.submit, "ann", p) for p in PATHS[:AT_ONCE]]))
    assert done == {"201": 12, "LimitReached": AT_ONCE - 12}
    assert hunt.paths() == {"ann": 12}
    hunt.apply_stream()


def test_fifty_concurrent_submissions_of_a_player_lose_no_path_under_conflicts(hunt: Hunt) -> None:
    """As on AWS, a transaction is cancelled if another one is writing the player's progress."""
    hunt.define(limit=AT_ONCE)
    in_flight = InFlight()
    with in_flight.attached(hunt.table.client):
        done = Counter(hunt.run_concurrently([partial(hunt.submit, "ann", p) for p in PATHS[:AT_ONCE]]))
    assert done == {"201": AT_ONCE}
    assert in_flight.refused > 0
    assert hunt.paths() == {"ann": AT_ONCE}
    hunt.apply_stream()


def test_fifty_concurrent_submissions_of_one_path_count_once(hunt: Hunt) -> None:
    hunt.define(limit=1)
    done = Counter(hunt.run_concurrently([partial(hunt.submit, "ann", "PATH  7")] * AT_ONCE))
    assert done == {"201": 1, "200": AT_ONCE - 1}
    hunt.apply_stream()


def test_of_fifty_concurrent_wrong_guesses_ten_are_allowed(hunt: Hunt) -> None:
    hunt.define()
    now = datetime.now(UTC)
    done = Counter(
        hunt.run_concurrently([partial(hunt.submit, "ann", f"guess {i}", now) for i in range(AT_ONCE)])
    )
    assert done == {"InvalidPath": 10, "SlowDown": AT_ONCE - 10}
    assert hunt.submit("ann", PATHS[0], now) == "SlowDown"
    assert hunt.submit("bob", PATHS[0], now) == "201"


def test_a_right_path_is_throttled_if_the_bucket_fills_after_it_was_read(
    hunt: Hunt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The condition of the transaction covers the time after the bucket was read."""
    hunt.define()
    now = datetime.now(UTC)
    write_path = submissions._write_path

    def fill_bucket_first(*arguments: Any) -> Any:
        for i in range(10):
            hunt.submit("ann", f"guess {i}", now)
        return write_path(*arguments)

    monkeypatch.setattr(submissions, "_write_path", fill_bucket_first)
    assert hunt.submit("ann", PATHS[0], now) == "SlowDown"
    assert hunt.paths() == {}


# -- a model -------------------------------------------------------------------------------------------

NAMES = [f"path {i}" for i in range(6)]
PLAYERS = ["ann", "bob", "eve"]


class Model(RuleBasedStateMachine):
    """The model: a set of paths per player, under random actions of players, admins and the stream."""

    hunt: Hunt

    @initialize()
    def begin(self) -> None:
        for item in scan(self.hunt.table):
            self.hunt.table.delete(Key(item["pk"], item["sk"]))
        while self.hunt.stream.read():  # records of an earlier example
            pass
        self.records: list[Any] = []
        self.applied: set[int] = set()
        self.found: dict[str, set[str]] = {player: set() for player in PLAYERS}
        self.limit, self.valid = 3, set(NAMES)
        self.now = datetime(2026, 11, 21, tzinfo=UTC)
        self.hunt.define(self.limit, NAMES)

    @rule(
        player=st.sampled_from(PLAYERS),
        path=st.sampled_from(NAMES),
        write=st.sampled_from([str.upper, str.title, str.lower, "  {} ".format]),
    )
    def submit(self, player: str, path: str, write: Callable[[str], str]) -> None:
        self.now += timedelta(minutes=1)  # so that guesses are never throttled
        mine = self.found[player]
        right = "201" if path in self.valid else "InvalidPath"
        right = "LimitReached" if right == "201" and len(mine) >= self.limit else right
        expected = "200" if path in mine else right
        assert self.hunt.submit(player, write(path), self.now) == expected
        if expected == "201":
            mine.add(path)

    @rule(player=st.sampled_from(PLAYERS), path=st.sampled_from(NAMES))
    def withdraw_path(self, player: str, path: str) -> None:
        gone = FoundPathParams(challenge="hunt", player=player, path=path)
        if path not in self.found[player]:
            with pytest.raises(NotFound):
                progress.withdraw_path(self.hunt.table, gone)
            return
        progress.withdraw_path(self.hunt.table, gone)
        self.found[player].discard(path)

    @rule(player=st.sampled_from(PLAYERS))
    def withdraw_player(self, player: str) -> None:
        gone = PlayerParams(challenge="hunt", player=player)
        if not self.found[player]:
            with pytest.raises(NotFound):
                progress.withdraw_player(self.hunt.table, gone)
            return
        progress.withdraw_player(self.hunt.table, gone)
        self.found[player].clear()

    @rule(limit=st.integers(1, 5), valid=st.sets(st.sampled_from(NAMES), min_size=1))
    def redefine(self, limit: int, valid: set[str]) -> None:
        self.limit, self.valid = limit, valid
        assert not self.hunt.define(limit, sorted(valid))

    @rule(places=st.lists(st.integers(0, 999), min_size=1, max_size=8))
    def deliver_some(self, places: list[int]) -> None:
        self.records += self.hunt.stream.read()
        if self.records:
            chosen = [place % len(self.records) for place in places]
            aggregates.apply(self.hunt.table, CONTRIBUTIONS, [self.records[place] for place in chosen])
            self.applied |= set(chosen)

    @rule()
    def deliver_the_rest(self) -> None:
        while more := self.hunt.stream.read():
            self.records += more
        rest = [record for place, record in enumerate(self.records) if place not in self.applied]
        aggregates.apply(self.hunt.table, CONTRIBUTIONS, rest)
        self.applied = set(range(len(self.records)))
        counts = Counter(len(paths) for paths in self.found.values() if paths)
        statistics = challenge_queries.get_statistics(self.hunt.table, "hunt")
        assert statistics.players == counts.total()
        assert {int(n): players for n, players in statistics.exactly.items() if players} == counts
        assert len(statistics.exactly) == max(self.limit, *counts, 1)
        for player, paths in self.found.items():
            kept = progress.read_paths(self.hunt.table, "hunt", player)
            assert {item["sk"].removeprefix("PATH#") for item in kept} == paths
            number = self.hunt.table.get(progress.progress_key("hunt", player), consistent=True) or {}
            assert number.get("found", 0) == len(paths)

    def teardown(self) -> None:
        if hasattr(self, "records"):
            self.deliver_the_rest()


@pytest.mark.parametrize("examples", [12, pytest.param(200, marks=pytest.mark.long)])
def test_the_feature_equals_the_model_under_random_actions_and_deliveries(hunt: Hunt, examples: int) -> None:
    """The long run uses new random examples each time. Hypothesis prints how to reproduce a failure."""
    model = type("HuntModel", (Model,), {"hunt": hunt})
    config = settings(
        max_examples=examples,
        stateful_step_count=25,
        derandomize=examples < 100,
        deadline=None,
        database=None,
        print_blob=True,
    )
    run_state_machine_as_test(model, settings=config)
