"""Leaky buckets hold under concurrent calls, and everything that guests and users write fills one."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import app
from chalicelib import times
from chalicelib.api import rates
from chalicelib.api.auth import Caller
from chalicelib.api.rates import Bucket, Limit, Limits, address_key, subject_key, take
from chalicelib.dynamo.items import Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import SlowDown
from chalicelib.settings import Settings
from local.engines.engine import Engine
from tests.support.contexts import new_context
from tests.support.limits import freeze
from tests.support.meter import Meter
from tests.support.site import Site
from tests.support.tables import store_on

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
SETTINGS = Settings(secret="s" * 32)
LIMIT = Limit(at_once=10, interval=6_000)
BUCKET = Bucket(Key("BUCKET#test", "BUCKET"))
SECOND = timedelta(seconds=1)


@pytest.fixture
def table(engine: Engine) -> Iterator[Table]:
    with store_on(engine) as (made, _):
        yield made


def other_process(table: Table) -> Table:
    """Return the same table as another process sees it, which remembers no level."""
    return Table(table.name, table.client)


def admitted(table: Table, now: datetime = NOW, limit: Limit = LIMIT, bucket: Bucket = BUCKET) -> int:
    """Return how many calls a bucket admits at one time."""
    return next(n for n in range(1_000) if take(new_context(table, now), bucket, limit))


# -- one bucket ----------------------------------------------------------------------------------------


def test_a_bucket_admits_its_number_at_once_and_one_more_each_interval(table: Table) -> None:
    assert admitted(table) == 10
    assert take(new_context(table, NOW), BUCKET, LIMIT) == 6_000
    assert take(new_context(table, NOW + 2 * SECOND), BUCKET, LIMIT) == 4_000
    assert admitted(table, NOW + 6 * SECOND) == 1
    assert admitted(table, NOW + 18 * SECOND) == 2
    assert admitted(table, NOW + timedelta(hours=1)) == 10


def test_a_call_may_count_several_times(table: Table) -> None:
    assert [take(new_context(table, NOW), BUCKET, LIMIT, 4) for _ in range(3)] == [0, 0, 12_000]
    assert take(new_context(table, NOW), BUCKET, LIMIT, 2) == 0
    assert take(new_context(table, NOW + 24 * SECOND), BUCKET, LIMIT, 4) == 0


@pytest.mark.security
@pytest.mark.parametrize("count", [1, 2])
def test_concurrent_calls_of_many_processes_are_admitted_as_often_as_one_after_the_other(
    table: Table, count: int
) -> None:
    for start in (NOW, NOW + timedelta(seconds=30), NOW + timedelta(hours=1)):
        level = (table.get(BUCKET.key) or {}).get("drained", 0)
        left = max(0, level - times.milliseconds(start)) // LIMIT.interval
        gate = threading.Barrier(30)

        def call(_: int, start: datetime = start, gate: threading.Barrier = gate) -> int:
            process = other_process(table)
            gate.wait()
            return take(new_context(process, start), BUCKET, LIMIT, count)

        with ThreadPoolExecutor(30) as pool:
            waits = list(pool.map(call, range(30)))
        assert waits.count(0) == (10 - left) // count
        assert min(wait for wait in waits if wait) >= LIMIT.interval


def test_a_stale_memory_admits_no_more(table: Table) -> None:
    """Two processes take turns, and each remembers a level that the other has changed."""
    first, other = other_process(table), other_process(table)
    waits = [take(new_context(process, NOW), BUCKET, LIMIT) for _ in range(8) for process in (first, other)]
    assert waits.count(0) == 10


def test_a_call_costs_one_write_unit_and_a_foreseen_refusal_nothing(table: Table) -> None:
    costs = []
    for _ in range(12):
        with Meter(table.client) as meter:
            take(new_context(table, NOW), BUCKET, LIMIT)
        costs.append((meter.write_units, meter.read_units))
    assert costs == [(1, 0)] * 10 + [(0, 0)] * 2
    with Meter(table.client) as meter:
        assert take(new_context(other_process(table), NOW + 6 * SECOND), BUCKET, LIMIT) == 0
    assert (meter.write_units, meter.read_units) == (2, 0), "the other process does not know the level"


def test_a_bucket_is_a_digest_that_expires_when_it_is_empty(table: Table) -> None:
    ann = Caller("ann", guest=True, address="192.0.2.1")
    rates.admit(new_context(table, NOW, SETTINGS), Limits("test", LIMIT, LIMIT), ann)
    for key in (address_key(SETTINGS, "test", "192.0.2.1"), subject_key(SETTINGS, "test", "ann")):
        item = table.get(key) or {}
        assert set(item) == {"pk", "sk", "drained", "ttl"}
        assert times.epoch(NOW) < item["ttl"] <= times.epoch(NOW) + 60
        assert not {"ann", "192"} & set(json.dumps([item["pk"], item["sk"]]).split('"#'))


@pytest.mark.parametrize(
    ("first", "other", "same"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::9", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("", "unknown", True),
        ("192.0.2.1, 198.51.100.7", "", True),
    ],
)
def test_an_ipv6_network_is_one_address_and_an_ipv4_address_is_one(
    first: str, other: str, same: bool
) -> None:
    keys = {address_key(SETTINGS, "test", address) for address in (first, other)}
    assert len(keys) == (1 if same else 2)


# -- who is limited ------------------------------------------------------------------------------------


def refused(table: Table, caller: Caller, now: datetime = NOW) -> int:
    """Return how many calls of a caller are admitted before one is refused, at most 100."""
    limits = Limits("test", Limit(20, 1000), Limit(5, 1000))
    for number in range(100):
        try:
            rates.admit(new_context(table, now, SETTINGS), limits, caller)
        except SlowDown:
            return number
    return 100


def test_guests_of_one_address_share_a_bucket_and_users_have_their_own(table: Table) -> None:
    assert refused(table, Caller("guest-1", guest=True, address="192.0.2.1")) == 5
    assert refused(table, Caller("guest-2", guest=True, address="192.0.2.1")) == 0
    assert refused(table, Caller("guest-2", guest=True, address="192.0.2.2")) == 5
    assert refused(table, Caller("ann", address="192.0.2.1")) == 20
    assert refused(table, Caller("bob", address="192.0.2.1")) == 20
    assert refused(table, Caller(address="192.0.2.3")) == 5
    assert refused(table, Caller("root", admin=True)) == 100
    assert refused(table, Caller("server", scores=True)) == 100


def test_a_guest_that_changes_its_address_is_still_one_subject(table: Table) -> None:
    guest = Caller("guest-1", guest=True)
    assert sum(refused(table, guest._replace(address=f"192.0.2.{n}")) for n in range(9)) == 20


def test_without_a_secret_calls_are_not_limited(table: Table) -> None:
    rates.admit(new_context(table, NOW), Limits("test", LIMIT, Limit(1, 1)), Caller(address="192.0.2.1"), 9)


# -- everything that guests write ----------------------------------------------------------------------


def sign_in(site: Site) -> dict[str, str]:
    status, guest = site.call("POST", "/guests", {})
    assert status == 201
    return {"Authorization": f"Bearer {guest['token']}"}


@pytest.fixture
def frozen(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The app with a board and a challenge, at one instant for all limits."""
    admin = {"who": "admin"}
    site.call("PUT", "/leaderboards/points", {"title": "Points"}, **admin)
    site.call("PUT", "/challenges/hunt", {"title": "Hunt", "paths": ["oak"], "limit": 1}, **admin)
    freeze(monkeypatch)
    return site


@pytest.mark.security
@pytest.mark.parametrize("kind", ["guess", "vote", "reply", "comment", "score", "removal"])
def test_sixty_guests_of_one_address_write_thirty_times(frozen: Site, kind: str) -> None:
    made = {"rating": 5, "language": "en", "text": "It shines."}
    author = {"who": "author"}
    id = frozen.call("POST", "/products/lamp/comments", made, **author)[1]["id"]
    comment = f"/products/lamp/comments/{id}"
    calls: dict[str, Any] = {
        "guess": lambda n: ("POST", "/challenges/hunt/paths", {"path": f"elm {n}"}),
        "vote": lambda n: ("PUT", f"{comment}/vote", None),
        "reply": lambda n: ("POST", f"{comment}/replies", {"language": "en", "text": f"{n}"}),
        "comment": lambda n: (
            "POST",
            f"/products/invented-{n}/comments",
            {"rating": 5, "language": "en", "text": "x"},
        ),
        "score": lambda n: ("POST", "/leaderboards/points/scores", {"id": f"{n}", "value": 1_000_000}),
        "removal": lambda n: ("DELETE", f"{comment}/vote", None),
    }
    guests = [sign_in(frozen) for _ in range(20)]
    statuses = [frozen.call(*calls[kind](n), **guests[n % 20])[0] for n in range(60)]
    accepted = {"guess": 422, "removal": 204}.get(kind, 201)
    done = Counter(statuses)
    assert done[429] == 30
    assert done[accepted] + done[200] == 30


def test_a_user_is_not_limited_by_the_guests_of_its_address_and_an_admin_not_at_all(frozen: Site) -> None:
    guest, score = sign_in(frozen), "/leaderboards/points/scores"
    for number in range(31):
        status, answer = frozen.call("POST", score, {"id": f"{number}", "value": 1}, **guest)
    assert (status, answer["code"]) == (429, "SlowDown")
    ann, admin = {"who": "ann"}, {"who": "admin"}
    assert frozen.call("POST", score, {"id": "1", "value": 1}, **ann)[0] == 201
    table, at = frozen.table, datetime.now(UTC)
    bucket = Bucket(subject_key(app.stage, "writes", "ann"))
    assert take(new_context(table, at), bucket, rates.write_limits(app.stage).of_subject, 290) == 0
    statuses = [frozen.call("POST", score, {"id": "2", "value": 1}, **ann)[0] for _ in range(12)]
    assert statuses[0] == 201
    assert statuses[-1] == 429
    assert frozen.call("POST", score, {"id": "2", "value": 1, "player": "ann"}, **admin)[0] == 200


def test_a_malformed_request_and_a_read_count_for_nobody(frozen: Site) -> None:
    guest = sign_in(frozen)
    for _ in range(40):
        assert frozen.call("POST", "/leaderboards/points/scores", {"id": ""}, **guest)[0] == 400
        assert frozen.call("GET", "/leaderboards/points/players/ann", **guest)[0] == 404
    assert frozen.call("POST", "/leaderboards/points/scores", {"id": "1", "value": 1}, **guest)[0] == 201


def test_every_call_with_which_users_write_is_limited() -> None:
    limited = {route.name for route in app.router.routes if route.is_limited}
    written = {route.name for route in app.router.routes if route.access == "user" and route.method != "GET"}
    assert limited == written
    assert {"post_score", "post_challenge_path", "post_comment", "post_reply", "put_vote"} <= limited
    assert app.router.limiter is app.limit_writer
