"""A treasure hunt on real engines: concurrent requests, and redelivery of the stream in any batches."""

from __future__ import annotations

import random
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

from chalicelib import times
from chalicelib.aggregates import engine as aggregates
from chalicelib.api.auth import Caller
from chalicelib.challenges import definitions, progress, submissions
from chalicelib.challenges import queries as challenge_queries
from chalicelib.challenges.schemas import (
    ChallengeBody,
    ChallengeLeader,
    ChallengeLeadersQuery,
    FoundPathParams,
    PlayerParams,
)
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy, HubbubError, NotFound
from chalicelib.ranking import deepening
from chalicelib.settings import current
from local.engines.engine import Engine
from tests.support.conflicts import InFlight
from tests.support.contexts import new_context
from tests.support.records import Reader, drift, record, scan
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

    def compare_leaders(self) -> None:
        """Compare all pages of the leaders with the sorted progress of all players."""
        progress = {i["pk"].split("#")[-1]: i for i in scan(self.table) if i["sk"] == "PROGRESS"}
        worth = {player: (-i["found"], i["latest"] // 1000) for player, i in progress.items()}
        ranks = {one: rank for rank, one in reversed(list(enumerate(sorted(worth.values()), 1)))}
        listed: list[ChallengeLeader] = []
        cursor, is_last = None, False
        while not is_last:
            page = challenge_queries.list_leaders(
                new_context(self.table, settings=current()),
                "hunt",
                ChallengeLeadersQuery(limit=100, cursor=cursor),
            )
            listed, cursor = listed + page.items, page.cursor
            is_last = cursor is None
        assert [one.rank for one in listed] == sorted(ranks[one] for one in worth.values())
        assert {one.player: (one.rank, one.found) for one in listed} == {
            player: (ranks[one], -one[0]) for player, one in worth.items()
        }


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


def test_concurrent_definitions_of_a_challenge_create_it_once(hunt: Hunt) -> None:
    done: Counter[Any] = Counter(hunt.run_concurrently([partial(hunt.define, i + 1) for i in range(4)]))
    assert done == {True: 1, False: 3}
    assert definitions.load(hunt.table, "hunt").edition == 4


def test_withdrawals_during_submissions_leave_a_progress_that_counts_the_paths(hunt: Hunt) -> None:
    hunt.define(limit=40)

    def withdraw(path: str) -> str:
        try:
            if path:
                progress.withdraw_path(hunt.table, FoundPathParams(challenge="hunt", player="ann", path=path))
            else:
                progress.withdraw_player(hunt.table, PlayerParams(challenge="hunt", player="ann"))
        except HubbubError as error:  # the path is not found yet, or the request is retried too often
            return type(error).__name__
        return "204"

    calls: list[Callable[[], str]] = [partial(hunt.submit, "ann", p) for p in PATHS[:20]]
    calls += [partial(withdraw, p) for p in [*PATHS[:8], ""]]
    done = Counter(hunt.run_concurrently(calls))
    assert set(done) <= {"201", "204", "NotFound", "Busy"}
    hunt.apply_stream()


def test_a_submission_that_begins_after_the_limit_was_lowered_obeys_it(hunt: Hunt) -> None:
    hunt.define(limit=50)
    lowered = threading.Event()
    late: list[str] = []

    def submit_all() -> None:
        for path in PATHS[:50]:
            was_lowered = lowered.is_set()
            done = hunt.submit("ann", path)
            if was_lowered:
                late.append(done)

    def lower() -> None:
        while not hunt.table.get(progress.progress_key("hunt", "ann")):
            pass
        hunt.define(limit=1)
        lowered.set()

    hunt.run_concurrently([submit_all, lower])
    assert set(late) == {"LimitReached"}
    hunt.apply_stream()


# -- the game ------------------------------------------------------------------------------------------


def split_into_batches(records: Sequence[Any], rng: random.Random) -> Iterator[list[Any]]:
    """Yield batches of records as an event source with failures does: whole, halved and repeated."""
    start = 0
    while start < len(records):
        batch = list(records[start : start + rng.choice([1, 2, 10, 100])])
        start += len(batch)
        for _ in range(rng.choice([1, 1, 1, 2])):
            middle = rng.randrange(len(batch) + 1)
            yield batch
            if rng.random() < 0.3:
                yield from (half for half in (batch[middle:], batch[:middle]) if half)


def apply_batches(table: Table, batches: Sequence[list[Any]]) -> None:
    for batch in batches:
        for attempt in range(MAX_ATTEMPTS):
            try:
                apply(table, batch)
                break
            except Busy:
                assert attempt < MAX_ATTEMPTS - 1


def play(hunt: Hunt, players: int, seed: int) -> None:
    """Submit in 8 threads, with duplicates, wrong guesses, and paths past the limit."""
    hunt.define(limit=12, ranked=True)
    rng = random.Random(seed)
    sent = []
    for player in range(players):
        wanted = min(14, int(rng.expovariate(0.4)) + 1)
        chosen = rng.sample(PATHS, wanted)
        sent += [(f"p{player}", path) for path in chosen + rng.choices(chosen, k=wanted // 2)]
        sent += [(f"p{player}", "a wrong guess")] * rng.choice([0, 0, 1])
    rng.shuffle(sent)
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda one: hunt.submit(*one), sent))
    truth = Counter(player for (player, _), status in zip(sent, done, strict=True) if status == "201")
    assert hunt.paths() == truth
    assert max(truth.values()) <= 12
    records = []
    while more := hunt.stream.read():
        records += more
    batches = list(split_into_batches(records, rng))
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda i: apply_batches(hunt.table, batches[i::3] + batches[:5]), range(3)))
    hunt.apply_stream()
    hunt.compare_leaders()


@pytest.mark.parametrize("seed", [1])
def test_a_game_with_concurrent_batches_is_counted_exactly(hunt: Hunt, seed: int) -> None:
    play(hunt, 60, seed)


@pytest.mark.long
def test_a_game_of_thousands_of_players_is_counted_exactly(hunt: Hunt) -> None:
    play(hunt, 3000, 7)


def build_records(players: int, limit: int, rng: random.Random) -> tuple[list[Any], Counter[int]]:
    """Return the stream records of a game, and the number of players by the number of paths found.

    The records are recent, because a stream delivers none that is older than a day.
    """
    start = times.epoch(datetime.now(UTC)) - 3600
    found: Counter[str] = Counter()
    records = []
    left = [f"p{i}" for i in range(players) for _ in range(min(limit, int(rng.expovariate(0.5)) + 1))]
    rng.shuffle(left)
    for place, player in enumerate(left):
        key, second = progress.progress_key("hunt", player)._asdict(), start + place // 500
        old: Item | None = {**key, "found": found[player], "latest": place} if found[player] else None
        found[player] += 1
        path = {**progress.path_key("hunt", player, f"path {found[player]}")._asdict(), "time": place}
        new = {**key, "found": found[player], "latest": place + 1}
        records += [record(None, path, second=second), record(old, new, second=second)]
    return records, Counter(found.values())


@pytest.mark.long
def test_five_thousand_players_are_counted_exactly_with_any_delivery_of_their_records(
    hunt: Hunt,
) -> None:
    """Batches hold several paths of a player, are redelivered whole and in parts, and run four at a time."""
    rng = random.Random(5)
    hunt.define(limit=12)
    records, truth = build_records(5000, 12, rng)
    for i in range(0, len(records), 1000):  # out of order, within the limits of shards
        window = records[i : i + 1000]
        rng.shuffle(window)
        records[i : i + 1000] = window
    batches = [records[i : i + 1000] for i in range(0, len(records), 1000)]
    again = rng.sample(batches, len(batches) // 3) + [batch[:500] for batch in batches[::4]]
    again += [batch[300:303] for batch in batches]
    delivered = batches + again
    rng.shuffle(delivered)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: apply_batches(hunt.table, delivered[i::4]), range(4)))
    statistics = challenge_queries.get_statistics(hunt.table, "hunt")
    assert statistics.players == truth.total() == 5000
    assert statistics.paths == sum(n * players for n, players in truth.items())
    assert statistics.exactly == {str(n): truth[n] for n in range(1, 13)}


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
        rest = [one for place, one in enumerate(self.records) if place not in self.applied]
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
