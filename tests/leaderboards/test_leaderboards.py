"""The REST contract of leaderboards, from the submission to the rank."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree

import pytest

from chalicelib import times
from chalicelib.dynamo.table import Table
from chalicelib.leaderboards import boards, card, scores
from chalicelib.leaderboards.schemas import BoardBody, SeasonBody, Standing
from tests.leaderboards.dearest import dearest  # noqa: F401 (for the tests of the whole app)
from tests.leaderboards.story import COSTS, story  # noqa: F401 (for the tests of the whole app)
from tests.support.contexts import new_context
from tests.support.meter import Meter
from tests.support.records import read_changes
from tests.support.site import Site

POINTS = {"title": "Points", "unit": "points", "min": 0, "max": 1000, "operator": "increment"}
RACE = BoardBody.EXAMPLES["a race"]
LEVEL = {"title": "Level", "decimals": 1, "min": -5, "max": 5, "operator": "set"}


def create_board(site: Site, board: str, **fields: Any) -> None:
    status, response = site.call("PUT", f"/leaderboards/{board}", fields, who="admin")
    assert status == 201, response


def submit(site: Site, board: str, player: str, id: str, value: Any, **more: Any) -> tuple[int, Any]:
    body = {"id": id, "value": value, **more}
    return site.call("POST", f"/leaderboards/{board}/scores", body, who=player)


def submit_first(site: Site, board: str, **values: Any) -> None:
    for player, value in values.items():
        status, response = submit(site, board, player, f"first-{player}", value)
        assert status == 201, response
    site.settle()


def get_standing(site: Site, board: str, player: str, query: str = "") -> Any:
    return site.get(f"/leaderboards/{board}/players/{player}{query}")


def list_entries(site: Site, board: str, query: str = "") -> list[tuple[int, str, Any]]:
    items = site.get(f"/leaderboards/{board}/entries{query}")["items"]
    return [(item["rank"], item["player"], item["score"]) for item in items]


# -- boards --------------------------------------------------------------------------------------------


def test_a_board_is_created_once_and_returned_as_defined(site: Site) -> None:
    create_board(site, "race", **RACE)
    found = site.get("/leaderboards/race")
    assert found.items() >= (RACE | {"board": "race", "players": 0, "season": 1, "shards": 1}).items()
    changed = RACE | {"title": "Marathon", "unit": "min"}
    status, response = site.call("PUT", "/leaderboards/race", changed, who="admin")
    assert (status, response["title"], response["unit"]) == (200, "Marathon", "min")


@pytest.mark.parametrize(
    "change",
    [{"order": "desc"}, {"operator": "set"}, {"decimals": 3}, {"min": 0}, {"max": 700}, {"shards": 4}],
)
def test_fields_that_scores_depend_on_cannot_be_changed(site: Site, change: dict[str, Any]) -> None:
    create_board(site, "race", **RACE)
    status, response = site.call("PUT", "/leaderboards/race", RACE | change, who="admin")
    assert (status, response["code"]) == (409, "Conflict")
    assert next(iter(change)) in response["message"]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"min": 700}, 422),
        ({"min": 0.001}, 422),
        ({"max": 1e16}, 422),
        ({"resets": "2020-01-01T00:00:00Z"}, 422),
        ({"resets": "tomorrow"}, 400),
        ({"decimals": 10}, 400),
        ({"order": "up"}, 400),
        ({"title": ""}, 400),
        ({"title": 5}, 400),
    ],
)
def test_an_invalid_board_is_refused(site: Site, change: dict[str, Any], status: int) -> None:
    response = site.call("PUT", "/leaderboards/race", RACE | change, who="admin")
    assert response[0] == status, response
    assert response[1]["message"].startswith(f"`{next(iter(change))}` ")
    assert site.call("GET", "/leaderboards/race")[0] == 404


# -- submissions ---------------------------------------------------------------------------------------


@pytest.mark.security
@pytest.mark.parametrize(
    ("board", "statuses"),
    [
        ({}, {"ann": 201, "guest": 201, "server": 201, "admin": 201}),
        ({"guests": False}, {"ann": 201, "guest": 403, "server": 201, "admin": 201}),
        ({"submit": "server"}, {"ann": 403, "guest": 403, "server": 201, "admin": 201}),
    ],
)
def test_a_board_says_who_may_submit(site: Site, board: dict[str, Any], statuses: dict[str, int]) -> None:
    create_board(site, "points", **POINTS)  # a later definition counts from now on
    assert site.call("PUT", "/leaderboards/points", POINTS | board, who="admin")[0] == 200
    tokens = {
        "ann": site.token("ann"),
        "server": site.token("server", "scores"),
        "admin": site.token("admin"),
    }
    tokens["guest"] = f"Bearer {site.call('POST', '/guests', {})[1]['token']}"
    for name, status in statuses.items():
        body = {"id": "1", "value": 5}
        sent, answer = site.call("POST", "/leaderboards/points/scores", body, Authorization=tokens[name])
        assert sent == status, (name, answer)
    details = site.get("/leaderboards/points")
    assert (details["submit"], details["guests"]) == (
        board.get("submit", "player"),
        board.get("guests", True),
    )


@pytest.mark.security
def test_a_server_submits_for_players_on_its_boards_only(site: Site) -> None:
    create_board(site, "arcade", **POINTS, submit="server")
    create_board(site, "points", **POINTS)
    server = {"Authorization": site.token("server", "scores")}
    body = {"id": "1", "value": 5, "player": "ann"}
    submitted = site.call("POST", "/leaderboards/arcade/scores", body, **server)
    assert submitted == (201, {"player": "ann", "score": 5})
    status, answer = site.call("POST", "/leaderboards/points/scores", body, **server)
    assert (status, answer["code"]) == (403, "Forbidden")
    status, answer = site.call("POST", "/leaderboards/arcade/scores", body, who="ann")
    assert (status, "`scores`" in answer["message"]) == (403, True)
    statuses = {
        site.call("POST", "/leaderboards/arcade/scores", body | {"id": f"{n}"}, **server)[0]
        for n in range(320)
    }
    assert statuses == {201, 200}, "a server is not limited"
    ann = {"who": "ann"}
    assert site.call("DELETE", "/leaderboards/arcade/players/ann", **ann)[0] == 204


def test_an_increment_adds_and_the_same_id_adds_nothing(site: Site) -> None:
    create_board(site, "points", **POINTS)
    assert submit(site, "points", "ann", "game-1", 10) == (201, {"player": "ann", "score": 10})
    assert submit(site, "points", "ann", "game-2", 5) == (201, {"player": "ann", "score": 15})
    assert submit(site, "points", "ann", "game-1", 10) == (200, {"player": "ann", "score": 15})
    assert submit(site, "points", "bob", "game-1", 7) == (201, {"player": "bob", "score": 7})
    site.settle()
    assert site.get("/leaderboards/points")["players"] == 2


def test_best_keeps_the_better_value(site: Site) -> None:
    create_board(site, "race", **RACE)
    assert submit(site, "race", "ann", "1", 130.5)[1]["score"] == 130.5
    assert submit(site, "race", "ann", "2", 140) == (201, {"player": "ann", "score": 130.5})
    assert submit(site, "race", "ann", "2", 100) == (200, {"player": "ann", "score": 130.5})
    assert submit(site, "race", "ann", "3", 125.87)[1]["score"] == 125.87
    site.settle()
    assert list_entries(site, "race") == [(1, "ann", 125.87)]


def test_set_keeps_the_value_of_the_latest_time(site: Site) -> None:
    create_board(site, "level", **LEVEL)
    assert submit(site, "level", "ann", "1", 4.5, time="2026-01-02T00:00:00Z")[1]["score"] == 4.5
    assert submit(site, "level", "ann", "2", -5, time="2026-01-03T01:00:00+01:00")[1]["score"] == -5
    late = submit(site, "level", "ann", "3", 1, time="2026-01-01T00:00:00Z")
    assert late == (201, {"player": "ann", "score": -5})
    assert (
        submit(site, "level", "ann", "4", 3, time="2026-01-03T00:00:00Z")[1]["score"] == 3
    )  # the latest time wins
    site.settle()
    assert list_entries(site, "level") == [(1, "ann", 3)]


@pytest.mark.parametrize(
    ("field", "value", "status"),
    [
        ("value", 1000.5, 422),
        ("value", 1001, 422),
        ("value", -1, 422),
        ("value", 1e30, 422),
        ("value", "5", 400),
        ("value", None, 400),
        ("id", "a#b", 400),
        ("id", "", 400),
        ("id", 5, 400),
        ("time", "AAA", 400),
        ("time", "2999-01-01T00:00:00Z", 422),
    ],
)
def test_an_invalid_submission_changes_nothing(site: Site, field: str, value: Any, status: int) -> None:
    create_board(site, "points", **POINTS)
    body = {"id": "1", "value": 1, field: value}
    response = site.call("POST", "/leaderboards/points/scores", body, who="ann")
    assert (response[0], response[1]["message"].startswith(f"`{field}` ")) == (status, True), response
    site.settle()
    assert site.get("/leaderboards/points")["players"] == 0


def test_an_admin_submits_for_a_player(site: Site) -> None:
    create_board(site, "points", **POINTS)
    body = {"id": "1", "value": 3, "player": "ann"}
    response = site.call("POST", "/leaderboards/points/scores", body, who="admin")
    assert response == (201, {"player": "ann", "score": 3})
    assert site.call("POST", "/leaderboards/points/scores", body)[0] == 401
    assert submit(site, "nowhere", "ann", "1", 1)[0] == 404


def test_a_sum_never_leaves_the_range_of_a_ranking(site: Site) -> None:
    create_board(site, "big", **POINTS | {"max": 10**15})
    assert submit(site, "big", "ann", "1", 10**15)[0] == 201
    status, response = submit(site, "big", "ann", "2", 1)
    assert (status, response["code"]) == (422, "Unprocessable")
    assert submit(site, "big", "ann", "2", 0) == (201, {"player": "ann", "score": 10**15})


def test_a_player_lists_their_own_submissions(site: Site) -> None:
    create_board(site, "points", **POINTS)
    for i in range(5):
        submit(site, "points", "ann", f"g{i}", i, time="2026-11-01T00:00:00Z")
    path = "/leaderboards/points/players/ann/activities"
    first = site.get(f"{path}?limit=3", who="ann")
    rest = site.get(f"{path}?limit=3&cursor={first['cursor']}", who="admin")
    found = first["items"] + rest["items"]
    assert [item["id"] for item in found] == [f"g{i}" for i in range(5)]
    assert found[4] == {"id": "g4", "value": 4, "time": "2026-11-01T00:00:00Z", "season": 1}
    assert rest["cursor"] is None
    assert site.call("GET", path, who="bob")[0] == 403


# -- ranks ---------------------------------------------------------------------------------------------


def test_each_page_continues_after_the_previous_one(site: Site) -> None:
    create_board(site, "points", **POINTS)
    submit_first(site, "points", **{f"p{i:02}": i // 3 for i in range(20)})
    whole = list_entries(site, "points", "?limit=100")
    for start in ("", "&place=5", "&around=p07"):
        found, cursor = [], ""
        while True:
            page = site.get(f"/leaderboards/points/entries?limit=3{start}{cursor}")
            found += [(item["rank"], item["player"], item["score"]) for item in page["items"]]
            assert len(found) <= len(whole)
            if page["cursor"] is None:
                break
            cursor = f"&cursor={page['cursor']}"
        assert found == whole[whole.index(found[0]) :]
        assert len(found) > 7
    assert site.call("GET", "/leaderboards/points/entries?cursor=abc")[1]["code"] == "BadCursor"


def test_the_first_player_has_no_distance_to_the_next_score(site: Site) -> None:
    create_board(site, "race", **RACE)
    submit_first(site, "race", a=125.87, b=126.5)
    first = {
        "player": "a",
        "name": None,
        "score": 125.87,
        "rank": 1,
        "of": 2,
        "percentile": 100.0,
        "toNext": None,
    }
    assert get_standing(site, "race", "a") == first
    assert get_standing(site, "race", "b")["toNext"] == 0.63


def test_a_board_answers_for_a_score_a_percentile_and_some_players(site: Site) -> None:
    create_board(site, "race", **RACE)
    submit_first(site, "race", ann=100, bob=120.5, cem=120.5, dee=300)
    rank = site.get("/leaderboards/race/rank?score=120.50")
    assert rank == {"score": 120.5, "rank": 2, "players": 2, "of": 4}
    assert site.get("/leaderboards/race/rank?score=600")["rank"] == 5
    found = [site.get(f"/leaderboards/race/score?percentile={p}")["score"] for p in (0, 25.1, 75, 75.1)]
    assert found == [300, 120.5, 120.5, 100]
    standings = site.get("/leaderboards/race/standings?players=dee,cem,eve,bob")
    listed = [(item["player"], item["rank"], item["among"]) for item in standings["items"]]
    assert sorted(listed) == [("bob", 2, 1), ("cem", 2, 1), ("dee", 4, 3)]
    assert standings["of"] == 4


def test_an_empty_board_answers_too(site: Site) -> None:
    create_board(site, "race", **RACE)
    assert site.get("/leaderboards/race/rank?score=60") == {"score": 60, "rank": 1, "players": 0, "of": 0}
    assert site.get("/leaderboards/race/score?percentile=50") == {"percentile": 50, "score": None, "of": 0}
    assert site.get("/leaderboards/race/standings?players=ann") == {"items": [], "of": 0}


@pytest.mark.parametrize(
    "query",
    [
        *("rank", "rank?score=", "rank?score=NaN", "rank?score=1e3"),
        *("score", "score?percentile=nan", "score?percentile=101", "score?percentile=-1"),
        *("standings", "standings?players=", "standings?players=a%20b"),
        "standings?players=" + ",".join(map(str, range(101))),
    ],
)
def test_a_malformed_question_is_refused_with_its_field(site: Site, query: str) -> None:
    create_board(site, "race", **RACE)
    status, response = site.call("GET", f"/leaderboards/race/{query}")
    field = {"rank": "`score`", "score": "`percentile`", "standings": "`players`"}[query.partition("?")[0]]
    assert (status, response["code"]) == (400, "BadRequest")
    assert field in response["message"]
    assert "Decimal" not in response["message"]


@pytest.mark.parametrize("score", ["59.99", "600.01", "60.001"])
def test_a_score_that_the_board_cannot_have_is_refused(site: Site, score: str) -> None:
    create_board(site, "race", **RACE)
    assert site.call("GET", f"/leaderboards/race/rank?score={score}")[0] == 422


def test_a_card_is_a_small_picture_of_a_rank(site: Site) -> None:
    create_board(site, "race", **RACE | {"title": '<&"' * 60})
    submit_first(site, "race", ann=100)
    svg = site.get("/leaderboards/race/players/ann/card.svg")
    assert len(svg.encode()) <= 2048
    texts = [element.text for element in ElementTree.fromstring(svg).iter() if element.text]
    assert "1st of 1" in texts
    assert texts[-1] == "ann"
    assert site.call("GET", "/leaderboards/race/players/bob/card.svg")[0] == 404


def test_the_longest_card_has_at_most_2_kb() -> None:
    standing = Standing(
        player="p", name='"' * 60, score=Decimal(1), rank=10**9, of=10**9, percentile=1, to_next=None
    )
    assert len(card.render('"' * 200, standing).encode()) <= 2048
    assert len(card.render("🦉" * 200, standing).encode()) <= 2048


@pytest.mark.parametrize(("rank", "told"), [(1, "1st"), (12, "12th"), (23, "23rd"), (1_002, "1,002nd")])
def test_a_rank_is_written_in_english(rank: int, told: str) -> None:
    assert card.ordinal(rank) == told


def test_a_distribution_counts_every_player_once_without_gaps(site: Site) -> None:
    create_board(site, "points", **POINTS)
    assert site.get("/leaderboards/points/distribution") == {"items": []}
    submit_first(site, "points", **{f"p{i:02}": i * i for i in range(32)})
    items = site.get("/leaderboards/points/distribution")["items"]
    assert sum(item["players"] for item in items) == 32
    for before, after in itertools.pairwise(items):
        assert after["from"] == before["to"] + 1
    assert len({item["to"] - item["from"] for item in items}) == 1
    for item in items:
        assert item["players"] == sum(item["from"] <= i * i <= item["to"] for i in range(32))
    assert 10 < len(items) <= 50


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_the_ranges_at_the_ends_of_a_board_are_as_wide_as_the_others(site: Site, order: str) -> None:
    create_board(site, "race", title="Race", operator="set", order=order, min=1, max=100)
    submit_first(site, "race", **{f"p{i}": i for i in (1, 50, 100)})
    items = site.get("/leaderboards/race/distribution")["items"]
    assert {item["to"] - item["from"] for item in items} == {4}
    assert (items[0]["from"], items[-1]["to"]) == (0, 104)


def test_a_removed_player_leaves_no_trace_in_ranks_and_counts(site: Site) -> None:
    create_board(site, "points", **POINTS)
    submit_first(site, "points", a=30, b=20, c=10)
    path = "/leaderboards/points/players/b"
    assert site.call("DELETE", path)[0] == 401
    assert site.call("DELETE", path, who="a")[0] == 403
    for _ in range(2):
        assert site.call("DELETE", path, who="b") == (204, None)
    site.settle()
    assert site.call("GET", path)[0] == 404
    assert list_entries(site, "points") == [(1, "a", 30), (2, "c", 10)]
    assert get_standing(site, "points", "c").items() >= {"rank": 2, "of": 2, "toNext": 20}.items()
    assert site.get("/leaderboards/points")["players"] == 2
    assert site.call("GET", "/leaderboards/points/entries?around=b")[0] == 404
    assert submit(site, "points", "b", "first-b", 20) == (200, {"player": "b", "score": None})
    submit(site, "points", "b", "again", 5)
    site.settle()
    assert list_entries(site, "points") == [(1, "a", 30), (2, "c", 10), (3, "b", 5)]


# -- while a change is pending -------------------------------------------------------------------------


def test_a_score_is_visible_before_the_stream_is_applied(site: Site) -> None:
    create_board(site, "points", **POINTS)
    submit_first(site, "points", a=30, b=20)
    submit(site, "points", "c", "1", 25)
    assert get_standing(site, "points", "c").items() >= {"score": 25, "rank": 2, "of": 2}.items()
    assert site.get("/leaderboards/points")["players"] == 2
    assert list_entries(site, "points", "?around=c") == [(1, "a", 30), (2, "c", 25), (3, "b", 20)]
    site.settle()
    assert get_standing(site, "points", "c").items() >= {"score": 25, "rank": 2, "of": 3, "toNext": 5}.items()


@pytest.mark.parametrize("query", ["", "?consistent=true"])
def test_a_pending_worse_score_is_not_ranked_below_the_players_own_old_entry(site: Site, query: str) -> None:
    create_board(site, "level", **LEVEL)
    submit_first(site, "level", a=5, b=3, c=1)
    for i, (value, rank, gap) in enumerate([(4, 1, None), (2, 2, 1), (3, 1, None), (-1, 3, 2)]):
        submit(site, "level", "a", f"later-{i}", value)
        before = get_standing(site, "level", "a", query)
        assert (before["rank"], before["of"], before["toNext"]) == (rank, 3, gap)
        if i % 2:
            site.settle()
            assert get_standing(site, "level", "a", query) == before


def test_a_player_removed_and_added_again_before_the_stream_is_ranked_by_the_new_score(site: Site) -> None:
    """Where scores only improve, this is the one case of an old entry above the new score."""
    create_board(site, "points", **POINTS)
    submit_first(site, "points", a=30, b=20, c=10)
    site.call("DELETE", "/leaderboards/points/players/a", who="a")
    submit(site, "points", "a", "again", 15)
    before = get_standing(site, "points", "a", "?consistent=true")
    assert before.items() >= {"score": 15, "rank": 2, "of": 3, "toNext": 5}.items()
    site.settle()
    assert (
        get_standing(site, "points", "a", "?consistent=true") == get_standing(site, "points", "a") == before
    )


# -- submissions that are interrupted ------------------------------------------------------------------


def test_an_activity_that_comes_again_later_does_not_count_again(site: Site) -> None:
    """The tags of the activities have moved to pages meanwhile."""
    create_board(site, "points", **POINTS)
    for number in range(2 * scores.TAGS + 5):
        submit(site, "points", "ann", f"game-{number}", 1)
    records = site.stream.read()
    score = site.table.get(scores.score_key("points", 1, "ann"))
    assert score is not None
    assert (score["score"], len(score["applied"]) < scores.TAGS) == (2 * scores.TAGS + 5, True)
    assert score["spilled"] > 0
    for first in range(0, len(records), 7):
        scores.follow(new_context(site.table), read_changes(records[first : first + 7][:1]))
    assert submit(site, "points", "ann", "game-3", 1)[1]["score"] == 2 * scores.TAGS + 5
    assert site.table.get(scores.score_key("points", 1, "ann")) == score


def test_a_sum_out_of_range_leaves_no_activity(site: Site) -> None:
    """Another submission of the player makes the sum too large after this one was put."""
    create_board(site, "big", **POINTS | {"max": 10**15})
    submit(site, "big", "ann", "1", 10**15 - 1)
    put = Table.put

    def put_and_race(self: Table, item: Any, **options: Any) -> bool:
        done = put(self, item, **options)
        if item["sk"] == "ACTIVITY#big#late":
            assert submit(site, "big", "ann", "2", 1)[0] == 201
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "put", put_and_race)
        assert submit(site, "big", "ann", "late", 1)[0] == 422
    site.settle()
    assert submit(site, "big", "ann", "late", 0) == (201, {"player": "ann", "score": 10**15})


# -- seasons -------------------------------------------------------------------------------------------


def test_an_admin_ends_a_season_and_it_stays_readable(site: Site) -> None:
    create_board(site, "points", **POINTS)
    submit_first(site, "points", a=30, b=20)
    for status in (201, 200):
        response = site.call("POST", "/leaderboards/points/seasons", {"season": 1}, who="admin")
        assert (response[0], response[1]["season"], response[1]["players"]) == (status, 2, 0)
    ahead = site.call("POST", "/leaderboards/points/seasons", {"season": 3}, who="admin")
    assert ahead[0] == 409
    assert list_entries(site, "points") == []
    assert site.call("GET", "/leaderboards/points/players/a")[0] == 404
    assert submit(site, "points", "b", "first-b", 20) == (200, {"player": "b", "score": None})
    assert submit(site, "points", "b", "second", 7) == (201, {"player": "b", "score": 7})
    site.settle()
    assert list_entries(site, "points") == [(1, "b", 7)]
    assert list_entries(site, "points", "?season=1") == [(1, "a", 30), (2, "b", 20)]
    assert get_standing(site, "points", "b", "?season=1")["rank"] == 2
    first, second = (site.get(f"/leaderboards/points?season={n}") for n in (1, 2))
    assert (first["players"], first["ended"], second["ended"]) == (2, second["started"], None)
    assert site.call("GET", "/leaderboards/points/entries?season=3")[0] == 404
    site.call("DELETE", "/leaderboards/points/players/b", who="b")
    site.settle()
    assert (list_entries(site, "points"), list_entries(site, "points", "?season=1")) == ([], [(1, "a", 30)])


def test_a_board_resets_at_its_date_without_a_write(site: Site) -> None:
    soon = datetime.now(UTC) + timedelta(days=1)
    create_board(site, "points", **POINTS, resets=soon.isoformat())
    submit_first(site, "points", a=30)
    later = soon + timedelta(seconds=1)
    table = site.table
    assert boards.find(new_context(table, soon - timedelta(seconds=1)), "points").season == 1
    assert boards.find(new_context(table, later), "points").season == 2
    described = boards.describe(new_context(table, later), "points")
    assert (described.season, described.players, described.resets) == (2, 0, None)
    over = boards.describe(new_context(table, later), "points", 1)  # nothing has been written since
    assert (over.players, over.ended, over.resets) == (1, described.started, None)
    body = SeasonBody(season=2)
    assert boards.end_season(new_context(table, later), "points", body)[0].season == 3
    for season, started in ((1, None), (2, described.started)):
        past = boards.describe(new_context(table, later), "points", season)
        assert past.ended == (described.started if season == 1 else times.to_iso(later))
        assert started is None or past.started == started


def test_ending_a_season_before_its_reset_date_removes_the_date(site: Site) -> None:
    soon = datetime.now(UTC) + timedelta(days=1)
    create_board(site, "points", **POINTS, resets=soon.isoformat())
    ended = boards.end_season(new_context(site.table), "points", SeasonBody(season=1))[0]
    assert (ended.season, ended.resets) == (2, None)
    assert boards.find(new_context(site.table, soon + timedelta(days=1)), "points").season == 2


# -- cost ----------------------------------------------------------------------------------------------


def test_a_list_reads_names_where_a_player_has_one(site: Site) -> None:
    """The first name is noted in the definition, which a later change of the definition keeps."""
    create_board(site, "points", **POINTS)
    submit_first(site, "points", a=30, b=20)
    _, ann = site.call("POST", "/guests", {"name": "Ann"})
    as_ann = {"Authorization": f"Bearer {ann['token']}"}
    with Meter(site.table.client) as meter:
        site.call("POST", "/leaderboards/points/scores", {"id": "1", "value": 10}, **as_ann)
        first = meter.write_units
        site.call("POST", "/leaderboards/points/scores", {"id": "2", "value": 1}, **as_ann)
        limits = 2  # those of a guest's address and subject
        # activity, score and index; the definition
        assert (first, meter.write_units - first) == (limits + 3 + 1, limits + 4)
    site.settle()
    definition = {**POINTS, "title": "Other"}
    assert site.call("PUT", "/leaderboards/points", definition, who="admin")[0] == 200
    with Meter(site.table.client) as meter:
        found = site.get("/leaderboards/points/entries")["items"]
    assert [(entry["player"], entry["name"]) for entry in found] == [
        ("a", None),
        ("b", None),
        (ann["sub"], "Ann"),
    ]
    assert meter.read_units == 0.5 + 0.5 + 3 * 0.5


def test_a_definition_that_is_put_beside_the_first_name_keeps_it(site: Site) -> None:
    create_board(site, "points", **POINTS)
    _, ann = site.call("POST", "/guests", {"name": "Ann"})
    as_ann = {"Authorization": f"Bearer {ann['token']}"}

    submitted: list[int] = []

    def submit_between(**_: Any) -> None:
        if not submitted:
            submitted.append(1)
            site.call("POST", "/leaderboards/points/scores", {"id": "1", "value": 10}, **as_ann)

    site.table.client.meta.events.register("before-call.dynamodb.TransactWriteItems", submit_between)
    definition = {**POINTS, "title": "Other"}
    assert site.call("PUT", "/leaderboards/points", definition, who="admin")[0] == 200
    assert submitted
    assert [item["name"] for item in site.get("/leaderboards/points/entries")["items"]] == ["Ann"]


# -- metadata ------------------------------------------------------------------------------------------


METADATA = {"level": 3, "replay": {"seed": 0.125, "moves": ["e4", None]}, "Ü": True}


def shown_metadata(site: Site, player: str) -> list[Any]:
    """Return the metadata of a player as every call shows it."""
    board = "/leaderboards/m"
    return [
        site.get(f"{board}/players/{player}")["metadata"],
        next(item for item in site.get(f"{board}/entries")["items"] if item["player"] == player)["metadata"],
        site.get(f"{board}/standings?players={player}")["items"][0]["metadata"],
    ]


@pytest.mark.parametrize(
    ("operator", "kept"),
    [("best", {"n": 1}), ("set", {"n": 2}), ("increment", {"n": 2})],
)
def test_metadata_are_those_of_the_submission_that_counts(site: Site, operator: str, kept: Any) -> None:
    """They do not depend on the order of arrival: the best value, or the latest one."""
    admin = {"who": "admin"}
    site.call("PUT", "/leaderboards/m", {"title": "m", "operator": operator, "metadata": True}, **admin)
    for player, order in (("ann", (0, 1, 2)), ("bob", (2, 1, 0)), ("cem", (1, 0, 2))):
        for n in order:
            body = {"player": player, "id": f"{n}", "value": (5, 9, 9)[n], "metadata": {"n": n}}
            body |= {"time": f"2026-11-20T10:00:0{n}Z"}
            status, answer = site.call("POST", "/leaderboards/m/scores?standing=true", body, **admin)
            assert status == 201
        assert answer["metadata"] == kept
    site.settle()
    assert [shown_metadata(site, player) for player in ("ann", "bob", "cem")] == [[kept] * 3] * 3


def test_metadata_are_shown_until_the_player_or_the_choice_goes(site: Site) -> None:
    admin = {"who": "admin"}
    board = {"title": "m", "operator": "best", "metadata": True}
    assert site.call("PUT", "/leaderboards/m", board, **admin)[1]["metadata"] is True
    for player, more in (("ann", {"metadata": METADATA}), ("bob", {}), ("cem", {"metadata": {}})):
        body = {"id": "1", "value": 5, "player": player} | more
        assert site.call("POST", "/leaderboards/m/scores", body, **admin)[0] == 201
    site.settle()
    assert [shown_metadata(site, player)[0] for player in ("ann", "bob", "cem")] == [METADATA, None, {}]
    assert shown_metadata(site, "ann") == [METADATA] * 3
    csv = site.call("GET", "/leaderboards/m/entries", Accept="text/csv")[1]
    assert csv.splitlines()[0] == '"rank","player","name","score","metadata"'
    assert '""level"":3' in csv
    site.call("DELETE", "/leaderboards/m/players/ann", **admin)
    body = {"id": "2", "value": 1, "player": "ann"}
    assert site.call("POST", "/leaderboards/m/scores", body, **admin)[0] == 201
    assert site.get("/leaderboards/m/players/ann")["metadata"] is None
    site.call("PUT", "/leaderboards/m", board | {"metadata": False}, **admin)
    assert "metadata" not in site.get("/leaderboards/m/players/cem")
    csv = site.call("GET", "/leaderboards/m/entries", Accept="text/csv")[1]
    assert csv.splitlines()[0] == '"rank","player","name","score"'


@pytest.mark.parametrize(
    ("takes", "metadata", "status"),
    [
        (True, {"x": "y" * 492}, 201),  # 500 bytes
        (True, {"x": "y" * 493}, 422),
        (True, {"x": "ü" * 247}, 422),
        (True, [1], 400),
        (True, "text", 400),
        (True, {"x": 1e300}, 400),
        (False, {"x": 1}, 422),
        (False, None, 201),
    ],
)
def test_metadata_that_a_board_does_not_take_are_refused(
    site: Site, takes: bool, metadata: Any, status: int
) -> None:
    admin = {"who": "admin"}
    site.call("PUT", "/leaderboards/m", {"title": "m", "metadata": takes}, **admin)
    body = {"id": "1", "value": 5, "metadata": metadata}
    assert site.call("POST", "/leaderboards/m/scores", body, **admin)[0] == status
