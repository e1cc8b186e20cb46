"""The REST contract of challenges, from the request to the statistics."""

from __future__ import annotations

import contextlib
import json
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock
from urllib.parse import quote

import pytest
from chalice.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st

import app
from chalicelib.api.auth import Caller
from chalicelib.challenges import definitions, finders, progress, submissions
from chalicelib.challenges import ranking as challenge_ranking
from chalicelib.challenges.schemas import BLANKS, FoundPathParams, Normalization
from chalicelib.dynamo.items import Item, Key
from chalicelib.errors import BadRequest, Forbidden, InvalidPath, NotOpen
from chalicelib.ranking import ranking, tree
from local.engines.engine import Engine
from ops.maintenance.audit import read_sums
from tests.challenges.dearest import dearest  # noqa: F401 (for the tests of the whole app)
from tests.challenges.story import COSTS, story  # noqa: F401 (for the tests of the whole app)
from tests.histories.world import Killed
from tests.support.contexts import new_context
from tests.support.faults import hooked, instead, refused
from tests.support.meter import Meter
from tests.support.records import scan
from tests.support.site import Site
from tests.support.tables import store_on

PATHS = [f"Oak / Path {i}" for i in range(20)]
HUNT = {"title": "Treasure hunt", "paths": PATHS, "limit": 12}
PLAYER = ("CHALLENGE#hunt#PLAYER#ann", "PROGRESS")


class Hunt(Site):
    """The app as the players of a challenge see it."""

    def define(self, **fields: Any) -> tuple[int, Any]:
        return self.call("PUT", "/challenges/hunt", HUNT | fields, "admin")

    def submit(self, caller: str, path: str) -> tuple[int, Any]:
        return self.call("POST", "/challenges/hunt/paths", {"path": path}, caller)

    def find(self, caller: str, count: int, first: int = 0) -> None:
        for path in PATHS[first : first + count]:
            status, response = self.submit(caller, path)
            assert status == 201, response

    def apply_stream(self) -> dict[str, Any]:
        """Apply the whole stream, compare with a recount, and return the statistics."""
        self.settle()
        found: dict[str, Any] = self.get("/challenges/hunt/statistics")
        return found


@pytest.fixture
def hunt(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hunt]:
    with store_on(engine, pause=lambda _: None) as (table, stream), Client(app.app) as http:
        monkeypatch.setattr(app, "connect", lambda: table)
        yield Hunt(table, stream, http.http)


def counts(exactly: dict[int, int], last: int = 12) -> dict[str, Any]:
    """Return the statistics for a number of players by the number of paths that they found."""
    return {
        "players": sum(exactly.values()),
        "paths": sum(n * players for n, players in exactly.items()),
        "reached": {str(n): sum(p for m, p in exactly.items() if m >= n) for n in range(1, last + 1)},
        "exactly": {str(n): exactly.get(n, 0) for n in range(1, last + 1)},
    }


# -- the definition ------------------------------------------------------------------------------------

RULES = {"case": "fold", "spaces": "collapse", "unicode": "NFKC"}
SHOWN = {
    "challenge": "hunt",
    "title": "Treasure hunt",
    "limit": 12,
    "opens": None,
    "closes": None,
    "ranked": False,
    "guests": True,
    "normalization": RULES,
}


def test_an_admin_creates_and_replaces_a_challenge(hunt: Hunt) -> None:
    assert hunt.define() == (201, SHOWN)
    assert hunt.define() == (200, SHOWN)
    assert hunt.define(title="Another") == (200, SHOWN | {"title": "Another"})
    assert hunt.call("GET", "/challenges/hunt") == (200, SHOWN | {"title": "Another"})


def test_the_default_limit_is_12(hunt: Hunt) -> None:
    assert hunt.call("PUT", "/challenges/hunt", {"title": "t", "paths": ["a"]}, "admin")[1]["limit"] == 12


def test_answers_are_neither_stored_nor_returned(hunt: Hunt) -> None:
    returned = json.dumps([hunt.define(), hunt.define(), hunt.call("GET", "/challenges/hunt")])
    [kept] = scan(hunt.table)
    for text in (returned, repr(kept)):
        assert not [
            path for path in PATHS if path in text or definitions.normalize(path, Normalization()) in text
        ]
    assert all(isinstance(digest, bytes) for digest in kept["answers"])
    assert len(kept["answers"]) == len(PATHS)


def test_two_challenges_store_different_digests_of_the_same_answer(hunt: Hunt) -> None:
    hunt.define()
    hunt.call("PUT", "/challenges/other", HUNT, "admin")
    first, two = scan(hunt.table)
    assert first["salt"] != two["salt"]
    assert not set(first["answers"]) & set(two["answers"])


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"limit": 1.5}, "limit"),
        ({"limit": "12"}, "limit"),
        ({"paths": []}, "paths"),
        ({"paths": ["a"] * 1001}, "paths"),
        ({"paths": ["x" * 201]}, "paths"),
        ({"paths": [""]}, "paths"),
        ({"paths": [" \t"]}, "paths"),
        ({"paths": ["ﷺ" * 200]}, "paths"),
        ({"paths": "a"}, "paths"),
        ({"title": ""}, "title"),
        ({"opens": "tomorrow"}, "opens"),
        ({"opens": "2026-11-21T10:00:00"}, "opens"),
        ({"opens": "2026-11-21T10:00:00Z", "closes": "2026-11-21T10:00:00Z"}, "closes"),
        ({"normalization": {"case": "upper"}}, "case"),
    ],
)
def test_a_malformed_definition_is_400_and_names_the_field(
    hunt: Hunt, fields: dict[str, Any], field: str
) -> None:
    status, response = hunt.define(**fields)
    assert (status, response["code"]) == (400, "BadRequest")
    assert field in response["message"]
    assert scan(hunt.table) == []


def test_the_normalization_cannot_be_changed(hunt: Hunt) -> None:
    keep = {"case": "keep", "spaces": "keep", "unicode": "NFC"}
    assert hunt.define(normalization=keep)[0] == 201
    assert hunt.define()[1]["normalization"] == keep
    assert hunt.define(normalization=RULES)[1]["code"] == "Conflict"


def test_a_thousand_answers_fit_into_one_item_and_are_all_accepted(
    hunt: Hunt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "SCRYPT_COST", 2)
    many = [f"{i:04}" + "x" * 196 for i in range(1000)]
    assert hunt.define(paths=many, limit=100)[0] == 201
    assert [hunt.submit("ann", path)[0] for path in (many[0], many[999])] == [201, 201]
    with Meter(hunt.table.client) as meter:
        definitions.load(hunt.table, "hunt")
    assert meter.read_units == 3


def test_a_change_is_retried_after_a_concurrent_change(hunt: Hunt) -> None:
    hunt.define()
    with instead(hunt.table, "PutItem", refused("ConditionalCheckFailedException")) as calls:
        assert hunt.define(title="Mine")[0] == 200
    assert len(calls) == 2
    assert definitions.load(hunt.table, "hunt").title == "Mine"


# -- submitting ----------------------------------------------------------------------------------------


def test_a_path_counts_once_and_the_response_has_the_number_and_the_limit(hunt: Hunt) -> None:
    hunt.define()
    assert hunt.submit("ann", PATHS[0]) == (201, {"path": PATHS[0], "found": 1, "limit": 12})
    assert hunt.submit("ann", PATHS[1]) == (201, {"path": PATHS[1], "found": 2, "limit": 12})
    assert hunt.submit("ann", PATHS[0]) == (200, {"path": PATHS[0], "found": 2, "limit": 12})
    assert hunt.apply_stream() == counts({2: 1})


def test_another_notation_is_the_same_path(hunt: Hunt) -> None:
    hunt.define(paths=["Straße nach Süd"])
    assert hunt.submit("ann", " STRASSE  nach Su\u0308d ")[0] == 201
    assert hunt.submit("ann", "straße nach süd")[0] == 200
    assert hunt.call("GET", "/challenges/hunt/players/ann", who="ann")[1]["paths"] == [" STRASSE  nach Süd "]


def test_a_wrong_path_is_422_and_counts_nothing(hunt: Hunt) -> None:
    hunt.define()
    status, response = hunt.submit("ann", "the wrong one")
    assert (status, response["code"]) == (422, "InvalidPath")
    assert hunt.apply_stream() == counts({})


@pytest.mark.parametrize("path", ["\0", "ﷺ" * 200, "#", "PROGRESS", "é" * 200, "\U0001f600" * 200])
def test_any_unusual_path_is_a_wrong_guess(hunt: Hunt, path: str) -> None:
    hunt.define()
    assert hunt.submit("ann", path)[0] == 422


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b'{"path":7}',
        b'{"path":""}',
        b'{"path":" \\t"}',
        b'{"path":null}',
        b"{}",
        b"\xff",
    ],
)
def test_a_malformed_submission_is_400(hunt: Hunt, body: bytes) -> None:
    hunt.define()
    assert hunt.call("POST", "/challenges/hunt/paths", body, "ann")[0] == 400
    assert hunt.submit("ann", "x" * 201)[0] == 400


def test_an_error_states_the_rule_of_a_path_and_no_regular_expression(hunt: Hunt) -> None:
    hunt.define()
    message = "`path` must contain a character that is not blank, and must not be `.` or `..`"
    assert hunt.submit("ann", " \t") == (400, {"code": "BadRequest", "message": message})


def test_a_path_past_the_limit_is_409_and_a_found_one_is_still_200(hunt: Hunt) -> None:
    hunt.define(limit=3)
    hunt.find("ann", 3)
    status, response = hunt.submit("ann", PATHS[3])
    assert (status, response["code"]) == (409, "LimitReached")
    assert hunt.submit("ann", PATHS[2])[0] == 200
    assert hunt.apply_stream() == counts({3: 1}, 3)


def test_a_challenge_accepts_paths_from_its_opening_until_its_closing(hunt: Hunt) -> None:
    now = datetime.now(UTC)
    hour = timedelta(hours=1)
    for opens, closes, status in (
        (now - hour, now + hour, 201),
        (now + hour, None, 409),
        (None, now - hour, 409),
    ):
        fields = {"opens": opens and opens.isoformat(), "closes": closes and closes.isoformat()}
        assert hunt.define(**fields)[0] in (200, 201)
        assert hunt.submit("ann", PATHS[0])[0] == status
    assert hunt.submit("ann", PATHS[0])[1]["code"] == "NotOpen"
    seen = definitions.load(hunt.table, "hunt")._replace(opens="2026-11-21T10:00:00Z", closes=None)
    seen.check_open(datetime(2026, 11, 21, 10, tzinfo=UTC))
    with pytest.raises(NotOpen):
        seen._replace(closes=seen.opens).check_open(datetime(2026, 11, 21, 10, tzinfo=UTC))


def test_an_unknown_challenge_player_or_path_is_404(hunt: Hunt) -> None:
    assert hunt.call("GET", "/challenges/hunt")[0] == 404
    assert hunt.call("GET", "/challenges/hunt/statistics")[0] == 404
    assert hunt.submit("ann", "x")[0] == 404
    assert hunt.call("GET", "/challenges/hunt/players/ann", who="ann")[0] == 404
    assert hunt.call("DELETE", "/challenges/hunt/players/ann", who="admin")[0] == 404
    assert hunt.call("DELETE", "/challenges/hunt/players/ann/paths/x", who="admin")[0] == 404
    hunt.define()
    assert hunt.call("DELETE", "/challenges/hunt/players/ann/paths/x", who="admin")[0] == 404


# -- guessing ------------------------------------------------------------------------------------------


def test_after_ten_wrong_guesses_only_that_player_is_throttled(hunt: Hunt) -> None:
    hunt.define()
    assert [hunt.submit("ann", f"guess {i}")[0] for i in range(12)] == [422] * 10 + [429] * 2
    assert 1 <= int(hunt.headers["Retry-After"]) <= submissions.GUESSES.interval / 1000
    assert hunt.submit("bob", "guess")[0] == 422
    assert hunt.submit("bob", PATHS[0])[0] == 201


@pytest.mark.security
def test_a_challenge_without_guests_takes_no_path_of_one(hunt: Hunt) -> None:
    guest = Caller("guest-1", guest=True)
    hunt.define()
    for allowed in (True, False, True):
        assert hunt.define(guests=allowed)[1]["guests"] is allowed
        outcome = pytest.raises(InvalidPath if allowed else Forbidden)
        with outcome:
            submissions.submit(new_context(hunt.table), "hunt", guest, "wrong")
    assert hunt.define(guests=False)[0] == 200
    assert hunt.submit("ann", PATHS[0])[0] == 201


def test_a_player_without_guesses_learns_nothing_from_a_right_path(hunt: Hunt) -> None:
    hunt.define()
    hunt.find("ann", 1)
    for i in range(10):
        hunt.submit("ann", f"guess {i}")
    assert hunt.submit("ann", PATHS[1])[0] == 429
    assert hunt.submit("ann", PATHS[0])[0] == 200  # a found path is not a guess
    assert hunt.apply_stream() == counts({1: 1})


def test_right_paths_use_no_guesses(hunt: Hunt) -> None:
    hunt.define()
    hunt.find("ann", 12)
    assert hunt.submit("ann", "a guess")[0] == 422
    assert hunt.submit("ann", "another guess")[0] == 422
    progress_of_ann = hunt.table.get(progress.progress_key("hunt", "ann")) or {}
    left = progress_of_ann["drained"] / 1000 - datetime.now(UTC).timestamp()
    assert left < 2 * submissions.GUESSES.interval / 1000


def guess(hunt: Hunt, now: datetime, path: str = "wrong") -> str:
    """Submit at an instant. Return the status, or the name of the error."""
    try:
        _, is_new = submissions.submit(new_context(hunt.table, now), "hunt", Caller("ann"), path)
        return "201" if is_new else "200"
    except Exception as error:
        return type(error).__name__


def test_one_guess_drains_each_interval_and_all_of_them_in_a_minute(hunt: Hunt) -> None:
    hunt.define()
    now = datetime(2026, 11, 21, tzinfo=UTC)
    interval = timedelta(milliseconds=submissions.GUESSES.interval)
    tick = timedelta(milliseconds=1)

    def admitted(at: datetime) -> int:
        return next(n for n in range(20) if guess(hunt, at) == "SlowDown")

    assert admitted(now) == 10
    assert admitted(now + interval - tick) == 0
    assert guess(hunt, now + interval - tick, PATHS[0]) == "SlowDown"
    assert guess(hunt, now + interval, PATHS[0]) == "201"
    assert admitted(now + interval) == 1
    assert admitted(now + 3 * interval) == 2
    assert admitted(now + 60 * interval) == 10


def test_guesses_expire(hunt: Hunt) -> None:
    hunt.define()
    now = datetime.now(UTC)
    guess(hunt, now)
    kept = hunt.table.get(progress.progress_key("hunt", "ann")) or {}
    assert now.timestamp() < kept["ttl"] < now.timestamp() + 3600


def test_a_progress_with_paths_never_expires(hunt: Hunt) -> None:
    hunt.define()
    now, key = datetime.now(UTC), progress.progress_key("hunt", "ann")
    assert guess(hunt, now) == "InvalidPath"
    assert guess(hunt, now, PATHS[0]) == "201"
    assert "ttl" not in (hunt.table.get(key) or {})
    assert guess(hunt, now) == "InvalidPath"
    assert (hunt.table.get(key) or {})["ttl"] > now.timestamp() * 100


def test_a_player_with_wrong_guesses_alone_is_not_in_the_statistics(hunt: Hunt) -> None:
    hunt.define()
    assert guess(hunt, datetime.now(UTC)) == "InvalidPath"
    assert hunt.apply_stream() == counts({})
    assert hunt.call("DELETE", "/challenges/hunt/players/ann", who="admin")[0] == 404


def test_a_clock_one_minute_behind_drops_no_guess(hunt: Hunt) -> None:
    hunt.define()
    now = datetime.now(UTC)
    assert [guess(hunt, now) for _ in range(10)] == ["InvalidPath"] * 10
    assert guess(hunt, now - timedelta(minutes=1)) == "SlowDown"


# -- progress ------------------------------------------------------------------------------------------


def test_only_the_player_and_admins_read_a_progress(hunt: Hunt) -> None:
    hunt.define()
    assert hunt.call("GET", "/challenges/hunt/players/ann", who="ann") == (
        200,
        {"found": 0, "paths": [], "items": []},
    )
    for path in (PATHS[5], PATHS[2], PATHS[9]):
        hunt.submit("ann", path)
    found = {"found": 3, "paths": [PATHS[5], PATHS[2], PATHS[9]]}
    assert hunt.call("GET", "/challenges/hunt/players/ann", who="ann")[1].items() >= found.items()
    assert hunt.call("GET", "/challenges/hunt/players/ann", who="admin")[1].items() >= found.items()
    status, response = hunt.call("GET", "/challenges/hunt/players/ann", who="bob")
    assert (status, response["code"]) == (403, "Forbidden")


def test_a_withdrawn_path_leaves_the_statistics_and_can_be_found_again(hunt: Hunt) -> None:
    hunt.define()
    hunt.find("ann", 3)
    hunt.find("bob", 1)
    before = hunt.table.get(Key(*PLAYER)) or {}
    gone = f"/challenges/hunt/players/ann/paths/{quote(PATHS[2].upper(), safe='')}"
    assert hunt.call("DELETE", gone, who="admin") == (204, None)
    assert hunt.call("DELETE", gone, who="admin")[0] == 404
    assert hunt.apply_stream() == counts({1: 1, 2: 1})
    after = hunt.table.get(Key(*PLAYER)) or {}
    assert (after["found"], after["latest"] < before["latest"]) == (2, True)
    assert hunt.submit("ann", PATHS[2])[0] == 201
    assert hunt.apply_stream() == counts({1: 1, 3: 1})


@pytest.mark.parametrize("page", [1, 2, 3])
def test_a_path_found_during_a_withdrawal_is_counted(hunt: Hunt, page: int) -> None:
    """DynamoDB may return a query in pages, with concurrent writes between them."""
    hunt.define()
    for path in (PATHS[0], PATHS[2]):
        assert hunt.submit("ann", path)[0] == 201
    pages: list[int] = []

    def shorten(params: Item, **_: Any) -> Item:
        pages.append(len(pages) + 1)
        if pages[-1] == page:
            assert hunt.submit("ann", PATHS[1])[0] == 201
        return params | {"Limit": 1}

    cut = hooked(hunt.table.client, {"provide-client-params.dynamodb.Query": shorten})
    gone = FoundPathParams(challenge="hunt", player="ann", path=PATHS[0])
    # Only the submission and the first write of the withdrawal are made. The progress must be right then too.
    with cut, contextlib.suppress(Killed), instead(hunt.table, "TransactWriteItems", None, None, Killed()):
        progress.withdraw_path(hunt.table, gone)
    paths = [item for item in scan(hunt.table) if item["sk"].startswith("PATH#")]
    assert (hunt.table.get(Key(*PLAYER)) or {})["found"] == len(paths)
    assert len(pages) >= page


def test_a_withdrawn_player_with_a_hundred_paths_leaves_the_statistics(
    hunt: Hunt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "SCRYPT_COST", 2)
    many = [f"path {i}" for i in range(100)]
    hunt.define(paths=many, limit=100)
    for path in many:
        assert hunt.submit("ann", path)[0] == 201
    hunt.submit("bob", many[0])
    assert hunt.apply_stream() == counts({1: 1, 100: 1}, 100)
    statistics = hunt.table.get(finders.statistics_key("hunt")) or {}
    assert {name for name, value in read_sums(statistics).items() if value} == {
        *("players", "paths", "n1", "n100")
    }
    assert hunt.call("DELETE", "/challenges/hunt/players/ann", who="admin") == (204, None)
    assert hunt.call("DELETE", "/challenges/hunt/players/ann", who="admin")[0] == 404
    assert hunt.apply_stream() == counts({1: 1}, 100)
    assert hunt.call("GET", "/challenges/hunt/players/ann", who="ann")[1]["found"] == 0


def test_the_statistics_stay_under_one_kilobyte(hunt: Hunt) -> None:
    from chalicelib.dynamo.items import pack
    from tests.support.capacity import item_size

    full = {f"n{n}": 10_000_000 for n in range(1, 101)} | {"players": 10**9, "paths": 10**10}
    item = {**finders.statistics_key("a-challenge-of-a-long-name")._asdict(), **full}
    assert item_size(pack(item)) <= 1024


# -- notations -----------------------------------------------------------------------------------------

rules = st.builds(
    Normalization,
    case=st.sampled_from(["fold", "keep"]),
    spaces=st.sampled_from(["collapse", "remove", "keep"]),
    unicode=st.sampled_from(["NFC", "NFKC"]),
)
letters = st.text(
    st.sampled_from("aAßẞſK\u212a\u0345ͅΐİıﬁǅ \t\u00a0\u2003\u0308\u0301éｅ½\u1e9b\u0323ﷺΣςσ"), max_size=9
)


@settings(max_examples=400, derandomize=True, deadline=None)
@given(letters | st.text(max_size=20), rules)
def test_normalization_is_idempotent(path: str, stated: Normalization) -> None:
    once = definitions.normalize(path, stated)
    assert definitions.normalize(once, stated) == once


@pytest.mark.parametrize(
    ("first", "other", "stated", "same"),
    [
        ("Oak", "oAK", Normalization(), True),
        ("Oak", "oAK", Normalization(case="keep"), False),
        ("STRASSE", "straße", Normalization(), True),
        (" a \t b ", "a b", Normalization(), True),
        ("a b", "ab", Normalization(), False),
        ("a b", "ab", Normalization(spaces="remove"), True),
        ("a  b", "a b", Normalization(spaces="keep"), False),
        ("ｏａｋ", "oak", Normalization(), True),
        ("ｏａｋ", "oak", Normalization(unicode="NFC"), False),
        ("e\u0301", "é", Normalization(unicode="NFC"), True),
        ("oak", "oaks", Normalization(), False),
    ],
)
def test_two_notations_are_equal_by_the_rules_of_the_challenge(
    first: str, other: str, stated: Normalization, same: bool
) -> None:
    assert (definitions.normalize(first, stated) == definitions.normalize(other, stated)) == same


def test_the_pattern_of_a_path_has_the_blanks_that_normalization_removes() -> None:
    blanks = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    assert re.findall(f"[{BLANKS}]", "".join(map(chr, range(0x110000)))) == blanks


# -- leaders -------------------------------------------------------------------------------------------


def leaders(hunt: Hunt, query: str = "") -> list[tuple[int, str, int]]:
    status, response = hunt.call("GET", f"/challenges/hunt/leaders{query}")
    assert status == 200, response
    return [(item["rank"], item["player"], item["found"]) for item in response["items"]]


def test_a_record_of_before_a_deepening_that_comes_again_leaves_the_player_deep(hunt: Hunt) -> None:
    hunt.define(ranked=True)
    hunt.find("ann", 1)
    key = Key("CHALLENGE#hunt#PLAYER#ann", "PROGRESS")
    first = hunt.table.get(key, consistent=True) or {}
    hunt.apply_stream()
    names = {"#depth": "depth"}
    hunt.table.update(key, "SET #depth = #depth + :one", names=names, values={":one": 1})
    deepened = hunt.table.get(key, consistent=True)
    progress.follow(new_context(hunt.table), [(key, {}, first)])
    assert hunt.table.get(key, consistent=True) == deepened


def test_leaders_are_ordered_by_paths_and_then_by_time(hunt: Hunt) -> None:
    hunt.define(ranked=True)
    with mock.patch.object(app, "datetime") as clock:
        for second, (player, found) in enumerate([("ann", 2), ("bob", 3), ("cem", 3), ("dee", 1)]):
            clock.now.return_value = datetime(2026, 11, 21, 10, second, tzinfo=UTC)
            hunt.find(player, found)
    hunt.apply_stream()
    whole = [(1, "bob", 3), (2, "cem", 3), (3, "ann", 2), (4, "dee", 1)]
    assert leaders(hunt) == whole
    assert leaders(hunt, "?place=3") == whole[2:]
    assert leaders(hunt, "?around=cem&limit=2") == whole[:2]
    first = hunt.call("GET", "/challenges/hunt/leaders?limit=3")[1]
    assert first["items"][0]["time"] == "2026-11-21T10:01:00Z"
    assert leaders(hunt, f"?limit=3&cursor={first['cursor']}") == whole[3:]
    assert (
        hunt.call("DELETE", f"/challenges/hunt/players/bob/paths/{quote(PATHS[2], safe='')}", who="admin")[0]
        == 204
    )
    assert hunt.call("DELETE", "/challenges/hunt/players/cem", who="admin")[0] == 204
    hunt.apply_stream()
    assert [entry[1:] for entry in leaders(hunt)][1:] == [("bob", 2), ("dee", 1)]
    assert hunt.call("GET", "/challenges/hunt/leaders?around=cem")[0] == 404
    assert hunt.call("GET", "/challenges/nowhere/leaders")[0] == 404
    hunt_ranking = challenge_ranking.build_ranking("hunt")
    tree.check(ranking.collect_nodes(hunt_ranking, scan(hunt.table)))


def test_players_with_a_last_path_in_the_same_second_share_a_rank(hunt: Hunt) -> None:
    hunt.define(ranked=True)
    with mock.patch.object(app, "datetime") as clock:
        clock.now.return_value = datetime(2026, 11, 21, tzinfo=UTC)
        for player in ("ann", "bob"):
            hunt.find(player, 1)
    hunt.apply_stream()
    assert sorted(leaders(hunt)) == [(1, "ann", 1), (1, "bob", 1)]


def test_a_challenge_that_is_not_ranked_has_no_leaders_and_ranks_from_the_next_path(hunt: Hunt) -> None:
    hunt.define()
    hunt.find("ann", 2)
    hunt.apply_stream()
    assert leaders(hunt) == []
    hunt.define(ranked=True)
    hunt.apply_stream()
    assert leaders(hunt) == []
    assert hunt.submit("ann", PATHS[5])[0] == 201
    hunt.apply_stream()
    assert leaders(hunt) == [(1, "ann", 3)]


def test_no_count_is_below_zero_while_an_image_is_in_quarantine(hunt: Hunt) -> None:
    hunt.define()
    key = finders.statistics_key("hunt")
    hunt.table.update(key, "ADD n1 :less, players :less, paths :less", values={":less": -1})
    statistics = hunt.call("GET", "/challenges/hunt/statistics")[1]
    assert (statistics["players"], statistics["paths"], {*statistics["exactly"].values()}) == (0, 0, {0})


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_each_answer_is_possible_whatever_part_of_the_stream_is_applied(
    hunt: Hunt, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are delivered a few at a time, and half of the deliveries die at a counter and come again."""
    monkeypatch.setattr(tree, "LIMIT", 2)
    rng, found, records = random.Random(seed), dict.fromkeys("abcdef", 0), list[Any]()
    hunt.define(ranked=True)
    for _ in range(60):
        player, kind = rng.choice([*found]), rng.random()
        if kind < 0.4 and found[player] < 12:
            hunt.find(player, 1, found[player])
            found[player] += 1
        elif kind < 0.5 and found[player]:
            assert hunt.call("DELETE", f"/challenges/hunt/players/{player}", who="admin")[0] == 204
            found[player] = 0
        records += hunt.stream.read()
        size, dies = rng.randint(0, 4), rng.random() < 0.5
        died = [*[None] * rng.randint(0, 4), Killed()] if dies else []
        with contextlib.suppress(Killed), instead(hunt.table, "UpdateItem", *died):
            app.apply({"Records": records[:size]}, None)
            del records[:size]
        _, statistics = hunt.call("GET", "/challenges/hunt/statistics")
        assert min(*statistics["reached"].values(), *statistics["exactly"].values()) >= 0
        queries = ["", f"?place={rng.randint(2, 7)}&limit=2"]
        if hunt.call("GET", f"/challenges/hunt/leaders?around={player}")[0] == 200:
            queries.append(f"?around={player}&limit=3")
        for query in queries:
            listed = leaders(hunt, query)
            assert [rank for rank, *_ in listed] == sorted(max(1, rank) for rank, *_ in listed)
            assert len({name for _, name, _ in listed}) == len(listed)
    app.apply({"Records": records}, None)
    hunt.apply_stream()
    whole = leaders(hunt)
    assert {name: count for _, name, count in whole} == {name: n for name, n in found.items() if n}
    for place, entry in enumerate(whole, 1):
        assert leaders(hunt, f"?around={entry[1]}&limit=1") == [entry]
        assert leaders(hunt, f"?place={place}&limit=1") == [entry]


def test_a_challenge_that_is_no_longer_ranked_has_no_leaders(hunt: Hunt) -> None:
    hunt.define(ranked=True)
    hunt.find("ann", 2)
    hunt.find("bob", 3)
    hunt.apply_stream()
    first = hunt.call("GET", "/challenges/hunt/leaders?limit=1")[1]["cursor"]
    hunt.define()
    assert leaders(hunt) == leaders(hunt, f"?limit=1&cursor={first}") == []
    assert hunt.call("GET", "/challenges/hunt/leaders?around=ann")[0] == 404
    hunt.define(ranked=True)
    assert leaders(hunt) == [(1, "bob", 3), (2, "ann", 2)]


def test_a_path_that_is_too_long_is_named_as_it_was_written() -> None:
    with pytest.raises(BadRequest, match=r'`paths` has "سلام.*", which has more than 1,000 bytes'):
        definitions.hash_answers(["سلام" * 200], Normalization(), b"salt", 2)
