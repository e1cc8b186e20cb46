"""The treasure hunt itself, on real engines: many at once, and a stream that comes again in any portions."""

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

from chalicelib.aggregates import engine as aggregates
from chalicelib.challenges import answers, definitions, progress, submissions
from chalicelib.challenges import queries as challenge_queries
from chalicelib.challenges.schemas import ChallengeBody, Finder, FindersQuery, FoundPath, PlayerPath
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy, HubbubError, NotFound
from chalicelib.settings import current
from local.engines.conflicts import InFlight
from local.engines.engine import Engine
from tests.support.records import Reader, drift, record, scan
from tests.support.tables import store_on

FEATURES = (definitions.contribution,)
PATHS = [f"path {i}" for i in range(60)]
AT_ONCE = 50
PATIENCE = 20  # times that a client sends again, or a batch is delivered, after 503


class Hunt:
    """A table with a challenge, and its stream."""

    def __init__(self, table: Table, stream: Reader) -> None:
        self.table = table
        self.stream = stream

    def define(self, limit: int = 12, paths: Sequence[str] = PATHS, ranked: bool = False) -> int | None:
        body = ChallengeBody(title="Hunt", paths=list(paths), limit=limit, ranked=ranked)
        return definitions.define(self.table, "hunt", body).status

    def submit(self, player: str, path: str, now: datetime | None = None) -> str:
        """Submit as a client does, which sends again what was answered 503; answer what came of it."""
        for _ in range(PATIENCE):
            try:
                answer = submissions.submit(self.table, "hunt", player, path, now or datetime.now(UTC))
                return str(answer.status)
            except Busy:
                continue
            except HubbubError as error:
                return type(error).__name__
        return "Busy"

    def at_once(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """Make all calls at the same time."""
        gate = threading.Barrier(len(calls))

        def begin(call: Callable[[], Any]) -> Any:
            gate.wait(30)
            return call()

        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(begin, calls))

    def paths(self) -> Counter[str]:
        """Count each player's path items; check that each progress says the same."""
        items = scan(self.table)
        found = Counter(i["pk"].split("#")[-1] for i in items if i["sk"].startswith("PATH#"))
        said = {i["pk"].split("#")[-1]: i["found"] for i in items if i["sk"] == "PROGRESS"}
        assert said == dict(found)
        return found

    def settle(self) -> None:
        """Apply the stream, and compare the statistics with a recount, and that with the path items."""
        while records := self.stream.read():
            aggregates.apply(self.table, FEATURES, records)
        self.compare()

    def compare(self) -> None:
        assert drift(self.table, FEATURES) == {}
        found = Counter(self.paths().values())
        statistics = definitions.statistics(self.table, "hunt")
        assert statistics.players == found.total()
        assert statistics.paths == sum(n * players for n, players in found.items())
        for n in statistics.exactly:
            assert statistics.exactly[n] == found[int(n)]
            assert statistics.reached[n] == sum(p for m, p in found.items() if m >= int(n))

    def compare_leaders(self) -> None:
        """Compare the leaders, page by page, with the sorted progress of all players."""
        progress = {i["pk"].split("#")[-1]: i for i in scan(self.table) if i["sk"] == "PROGRESS"}
        worth = {player: (-i["found"], i["latest"] // 1000) for player, i in progress.items()}
        ranks = {one: rank for rank, one in reversed(list(enumerate(sorted(worth.values()), 1)))}
        listed: list[Finder] = []
        cursor = None
        while cursor or not listed:
            page = challenge_queries.list_finders(
                self.table, "hunt", FindersQuery(limit=100, cursor=cursor), current()
            )
            listed, cursor = listed + page.items, page.cursor
        assert [one.rank for one in listed] == sorted(ranks[one] for one in worth.values())
        assert {one.player: (one.rank, one.found) for one in listed} == {
            player: (ranks[one], -one[0]) for player, one in worth.items()
        }


@pytest.fixture(autouse=True)
def cheap_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "COST", 2)


@pytest.fixture
def hunt(engine: Engine) -> Iterator[Hunt]:
    with store_on(engine) as made:
        yield Hunt(*made)


@pytest.fixture
def hunt_on_engine(engine: Engine) -> Iterator[Hunt]:
    with store_on(engine) as made:
        yield Hunt(*made)


# -- races ---------------------------------------------------------------------------------------------


def test_fifty_submissions_of_a_player_at_once_never_exceed_the_limit(hunt: Hunt) -> None:
    hunt.define(limit=12)
    done = Counter(hunt.at_once([partial(hunt.submit, "ann", p) for p in PATHS[:AT_ONCE]]))
    assert done == {"201": 12, "LimitReached": AT_ONCE - 12}
    assert hunt.paths() == {"ann": 12}
    hunt.settle()


def test_fifty_submissions_of_a_player_at_once_lose_no_path_under_conflicts(hunt: Hunt) -> None:
    """Conflicts as AWS has them: a transaction that meets another on the player's progress is cancelled."""
    hunt.define(limit=AT_ONCE)
    in_flight = InFlight()
    with in_flight.attached(hunt.table.client):
        done = Counter(hunt.at_once([partial(hunt.submit, "ann", p) for p in PATHS[:AT_ONCE]]))
    assert done == {"201": AT_ONCE}
    assert in_flight.refused > 0
    assert hunt.paths() == {"ann": AT_ONCE}
    hunt.settle()


def test_the_same_path_fifty_times_at_once_is_found_once(hunt: Hunt) -> None:
    hunt.define(limit=1)
    done = Counter(hunt.at_once([partial(hunt.submit, "ann", "PATH  7")] * AT_ONCE))
    assert done == {"201": 1, "200": AT_ONCE - 1}
    hunt.settle()


def test_of_fifty_wrong_guesses_at_once_ten_are_answered(hunt: Hunt) -> None:
    hunt.define()
    now = datetime.now(UTC)
    done = Counter(hunt.at_once([partial(hunt.submit, "ann", f"guess {i}", now) for i in range(AT_ONCE)]))
    assert done == {"InvalidPath": 10, "SlowDown": AT_ONCE - 10}
    assert hunt.submit("ann", PATHS[0], now) == "SlowDown"
    assert hunt.submit("bob", PATHS[0], now) == "201"


def test_a_right_path_that_meets_the_last_guesses_is_found_or_told_to_wait(
    hunt: Hunt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bucket fills after it was read: the transaction sees it."""
    hunt.define()
    now = datetime.now(UTC)
    find = submissions._find

    def filled(*given: Any) -> Any:
        for i in range(10):
            hunt.submit("ann", f"guess {i}", now)
        return find(*given)

    monkeypatch.setattr(submissions, "_find", filled)
    assert hunt.submit("ann", PATHS[0], now) == "SlowDown"
    assert hunt.paths() == {}


def test_admins_who_make_a_challenge_at_once_make_it_once(hunt: Hunt) -> None:
    done: Counter[Any] = Counter(hunt.at_once([partial(hunt.define, i + 1) for i in range(4)]))
    assert done == {201: 1, 200: 3}
    assert definitions.definition(hunt.table, "hunt").edition == 4


def test_withdrawing_while_a_player_submits_leaves_a_progress_that_counts_the_paths(hunt: Hunt) -> None:
    hunt.define(limit=40)

    def withdraw(path: str) -> str:
        try:
            if path:
                progress.withdraw_path(hunt.table, FoundPath(challenge="hunt", player="ann", path=path))
            else:
                progress.withdraw_player(hunt.table, PlayerPath(challenge="hunt", player="ann"))
        except HubbubError as error:  # found too late, or too busy: nothing is half done
            return type(error).__name__
        return "204"

    calls: list[Callable[[], str]] = [partial(hunt.submit, "ann", p) for p in PATHS[:20]]
    calls += [partial(withdraw, p) for p in [*PATHS[:8], ""]]
    done = Counter(hunt.at_once(calls))
    assert set(done) <= {"201", "204", "NotFound", "Busy"}
    hunt.settle()


def test_what_begins_after_a_limit_was_lowered_obeys_it(hunt: Hunt) -> None:
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
        while not hunt.table.get(definitions.progress_key("hunt", "ann")):
            pass
        hunt.define(limit=1)
        lowered.set()

    hunt.at_once([submit_all, lower])
    assert set(late) == {"LimitReached"}
    hunt.settle()


# -- the game ------------------------------------------------------------------------------------------


def portions(records: Sequence[Any], chance: random.Random) -> Iterator[list[Any]]:
    """Part records into batches as an event source does that fails now and then: whole, halved, repeated."""
    start = 0
    while start < len(records):
        batch = list(records[start : start + chance.choice([1, 2, 10, 100])])
        start += len(batch)
        for _ in range(chance.choice([1, 1, 1, 2])):
            middle = chance.randrange(len(batch) + 1)
            yield batch
            if chance.random() < 0.3:
                yield from (half for half in (batch[middle:], batch[:middle]) if half)


def pump(table: Table, batches: Sequence[list[Any]]) -> None:
    for batch in batches:
        for attempt in range(PATIENCE):
            try:
                aggregates.apply(table, FEATURES, batch)
                break
            except Busy:
                assert attempt < PATIENCE - 1


def play(hunt: Hunt, players: int, seed: int) -> None:
    """Play with real submissions in 8 threads: duplicates, wrong guesses, and paths past the limit."""
    hunt.define(limit=12, ranked=True)
    chance = random.Random(seed)
    sent = []
    for player in range(players):
        wanted = min(14, int(chance.expovariate(0.4)) + 1)
        chosen = chance.sample(PATHS, wanted)
        sent += [(f"p{player}", path) for path in chosen + chance.choices(chosen, k=wanted // 2)]
        sent += [(f"p{player}", "a wrong guess")] * chance.choice([0, 0, 1])
    chance.shuffle(sent)
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda one: hunt.submit(*one), sent))
    truth = Counter(player for (player, _), status in zip(sent, done, strict=True) if status == "201")
    assert hunt.paths() == truth
    assert max(truth.values()) <= 12
    records = []
    while more := hunt.stream.read():
        records += more
    batches = list(portions(records, chance))
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda i: pump(hunt.table, batches[i::3] + batches[:5]), range(3)))
    hunt.settle()
    hunt.compare_leaders()


@pytest.mark.parametrize("seed", [1])
def test_a_game_of_real_submissions_and_concurrent_pumps_is_counted_exactly(hunt: Hunt, seed: int) -> None:
    play(hunt, 60, seed)


@pytest.mark.long
def test_a_game_of_thousands_of_real_players_is_counted_exactly(hunt_on_engine: Hunt) -> None:
    play(hunt_on_engine, 3000, 7)


def changes(players: int, limit: int, chance: random.Random) -> tuple[list[Any], Counter[int]]:
    """Make the records that a game of many players leaves in the stream, and how many found how many."""
    found: Counter[str] = Counter()
    records = []
    left = [f"p{i}" for i in range(players) for _ in range(min(limit, int(chance.expovariate(0.5)) + 1))]
    chance.shuffle(left)
    for place, player in enumerate(left):
        key, second = definitions.progress_key("hunt", player)._asdict(), 1_700_000_000 + place // 500
        old: Item | None = {**key, "found": found[player], "latest": place} if found[player] else None
        found[player] += 1
        path = {**definitions.path_key("hunt", player, f"path {found[player]}")._asdict(), "time": place}
        new = {**key, "found": found[player], "latest": place + 1}
        records += [record(None, path, second=second), record(old, new, second=second)]
    return records, Counter(found.values())


def test_five_thousand_players_are_counted_exactly_however_their_records_are_delivered(
    hunt_on_engine: Hunt,
) -> None:
    """Two paths of a player in a batch, batches that come again whole and in parts, four pumps at a time."""
    hunt, chance = hunt_on_engine, random.Random(5)
    hunt.define(limit=12)
    records, truth = changes(5000, 12, chance)
    for i in range(0, len(records), 1000):  # out of order, as far as shards allow
        window = records[i : i + 1000]
        chance.shuffle(window)
        records[i : i + 1000] = window
    batches = [records[i : i + 1000] for i in range(0, len(records), 1000)]
    again = chance.sample(batches, len(batches) // 3) + [batch[:500] for batch in batches[::4]]
    again += [batch[300:303] for batch in batches]
    delivered = batches + again
    chance.shuffle(delivered)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: pump(hunt.table, delivered[i::4]), range(4)))
    statistics = definitions.statistics(hunt.table, "hunt")
    assert statistics.players == truth.total() == 5000
    assert statistics.paths == sum(n * players for n, players in truth.items())
    assert statistics.exactly == {str(n): truth[n] for n in range(1, 13)}


# -- a twin --------------------------------------------------------------------------------------------

NAMES = [f"path {i}" for i in range(6)]
PLAYERS = ["ann", "bob", "eve"]


class Twin(RuleBasedStateMachine):
    """The feature beside sets, under whatever players, admins and the stream do."""

    hunt: Hunt

    @initialize()
    def begin(self) -> None:
        for item in scan(self.hunt.table):
            self.hunt.table.delete(Key(item["pk"], item["sk"]))
        while self.hunt.stream.read():  # another example's
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
        self.now += timedelta(minutes=1)  # guesses are tested elsewhere
        mine = self.found[player]
        right = "201" if path in self.valid else "InvalidPath"
        right = "LimitReached" if right == "201" and len(mine) >= self.limit else right
        expected = "200" if path in mine else right
        assert self.hunt.submit(player, write(path), self.now) == expected
        if expected == "201":
            mine.add(path)

    @rule(player=st.sampled_from(PLAYERS), path=st.sampled_from(NAMES))
    def withdraw_path(self, player: str, path: str) -> None:
        gone = FoundPath(challenge="hunt", player=player, path=path)
        if path not in self.found[player]:
            with pytest.raises(NotFound):
                progress.withdraw_path(self.hunt.table, gone)
            return
        progress.withdraw_path(self.hunt.table, gone)
        self.found[player].discard(path)

    @rule(player=st.sampled_from(PLAYERS))
    def withdraw_player(self, player: str) -> None:
        gone = PlayerPath(challenge="hunt", player=player)
        if not self.found[player]:
            with pytest.raises(NotFound):
                progress.withdraw_player(self.hunt.table, gone)
            return
        progress.withdraw_player(self.hunt.table, gone)
        self.found[player].clear()

    @rule(limit=st.integers(1, 5), valid=st.sets(st.sampled_from(NAMES), min_size=1))
    def redefine(self, limit: int, valid: set[str]) -> None:
        self.limit, self.valid = limit, valid
        assert self.hunt.define(limit, sorted(valid)) == 200

    @rule(places=st.lists(st.integers(0, 999), min_size=1, max_size=8))
    def deliver_some(self, places: list[int]) -> None:
        self.records += self.hunt.stream.read()
        if self.records:
            chosen = [place % len(self.records) for place in places]
            aggregates.apply(self.hunt.table, FEATURES, [self.records[place] for place in chosen])
            self.applied |= set(chosen)

    @rule()
    def deliver_the_rest(self) -> None:
        while more := self.hunt.stream.read():
            self.records += more
        rest = [one for place, one in enumerate(self.records) if place not in self.applied]
        aggregates.apply(self.hunt.table, FEATURES, rest)
        self.applied = set(range(len(self.records)))
        counts = Counter(len(paths) for paths in self.found.values() if paths)
        statistics = definitions.statistics(self.hunt.table, "hunt")
        assert statistics.players == counts.total()
        assert {int(n): players for n, players in statistics.exactly.items() if players} == counts
        assert len(statistics.exactly) == max(self.limit, *counts, 1)
        for player, paths in self.found.items():
            kept = progress.held(self.hunt.table, "hunt", player)
            assert {item["sk"].removeprefix("PATH#") for item in kept} == paths
            number = self.hunt.table.get(definitions.progress_key("hunt", player), consistent=True) or {}
            assert number.get("found", 0) == len(paths)

    def teardown(self) -> None:
        if hasattr(self, "records"):
            self.deliver_the_rest()


@pytest.mark.parametrize("examples", [12, pytest.param(200, marks=pytest.mark.long)])
def test_the_feature_equals_a_naive_twin_whatever_is_done_and_delivered(
    hunt_on_engine: Hunt, examples: int
) -> None:
    """The long run draws anew each time; hypothesis prints how to repeat a failure."""
    twin = type("HuntTwin", (Twin,), {"hunt": hunt_on_engine})
    config = settings(
        max_examples=examples,
        stateful_step_count=25,
        derandomize=examples < 100,
        deadline=None,
        database=None,
        print_blob=True,
    )
    run_state_machine_as_test(twin, settings=config)
