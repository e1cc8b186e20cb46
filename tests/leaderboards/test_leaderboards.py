"""Leaderboards over REST, from the submission to the rank: the contract, on both engines."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chalicelib import times
from chalicelib.leaderboards import boards
from chalicelib.leaderboards import scores as leaderboards
from chalicelib.leaderboards.schemas import SeasonBody
from local.engines.meter import Meter
from tests.support.site import Site

POINTS = {"title": "Points", "unit": "points", "min": 0, "max": 1000, "operator": "increment"}
RACE = {
    "title": "Race",
    "unit": "minutes",
    "decimals": 2,
    "min": 60,
    "max": 600,
    "order": "asc",
    "operator": "best",
}
LEVEL = {"title": "Level", "decimals": 1, "min": -5, "max": 5, "operator": "set"}


@pytest.fixture
def site(live_site: Site) -> Site:
    """On real engines: moto writes a made-up record when an update makes an item."""
    return live_site


def make(site: Site, board: str, **fields: Any) -> None:
    status, answer = site.call("PUT", f"/leaderboards/{board}", fields, Authorization=site.admin())
    assert status == 201, answer


def submit(site: Site, board: str, player: str, id: str, value: Any, **more: Any) -> tuple[int, Any]:
    body = {"id": id, "value": value, **more}
    return site.call("POST", f"/leaderboards/{board}/scores", body, Authorization=site.token(player))


def scores(site: Site, board: str, **values: Any) -> None:
    for player, value in values.items():
        status, answer = submit(site, board, player, f"first-{player}", value)
        assert status == 201, answer
    site.settle()


def standing(site: Site, board: str, player: str, query: str = "") -> Any:
    return site.get(f"/leaderboards/{board}/players/{player}{query}")


def entries(site: Site, board: str, query: str = "") -> list[tuple[int, str, Any]]:
    items = site.get(f"/leaderboards/{board}/entries{query}")["items"]
    return [(item["rank"], item["player"], item["score"]) for item in items]


# -- boards --------------------------------------------------------------------------------------------


def test_a_board_is_made_once_and_answered_as_it_was_defined(site: Site) -> None:
    make(site, "race", **RACE)
    found = site.get("/leaderboards/race")
    assert found.items() >= (RACE | {"board": "race", "players": 0, "season": 1, "shards": 1}).items()
    changed = RACE | {"title": "Marathon", "unit": "min"}
    status, answer = site.call("PUT", "/leaderboards/race", changed, Authorization=site.admin())
    assert (status, answer["title"], answer["unit"]) == (200, "Marathon", "min")


@pytest.mark.parametrize(
    "change",
    [{"order": "desc"}, {"operator": "set"}, {"decimals": 3}, {"min": 0}, {"max": 700}, {"shards": 4}],
)
def test_what_scores_depend_on_stays(site: Site, change: dict[str, Any]) -> None:
    make(site, "race", **RACE)
    status, answer = site.call("PUT", "/leaderboards/race", RACE | change, Authorization=site.admin())
    assert (status, answer["Code"]) == (409, "Conflict")
    assert next(iter(change)) in answer["Message"]


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
def test_a_board_that_cannot_be_is_refused(site: Site, change: dict[str, Any], status: int) -> None:
    answer = site.call("PUT", "/leaderboards/race", RACE | change, Authorization=site.admin())
    assert answer[0] == status, answer
    assert answer[1]["Message"].startswith(next(iter(change)))
    assert site.call("GET", "/leaderboards/race")[0] == 404


def test_boards_are_made_by_admins_and_read_by_all(site: Site) -> None:
    assert site.call("PUT", "/leaderboards/race", RACE)[0] == 401
    assert site.call("PUT", "/leaderboards/race", RACE, Authorization=site.token("player-1"))[0] == 403
    for path in ("", "/entries", "/distribution", "/players/a"):
        assert site.call("GET", f"/leaderboards/race{path}")[0] == 404


# -- submissions ---------------------------------------------------------------------------------------


def test_an_increment_adds_and_the_same_id_adds_nothing(site: Site) -> None:
    make(site, "points", **POINTS)
    assert submit(site, "points", "ann", "game-1", 10) == (201, {"player": "ann", "score": 10})
    assert submit(site, "points", "ann", "game-2", 5) == (201, {"player": "ann", "score": 15})
    assert submit(site, "points", "ann", "game-1", 10) == (200, {"player": "ann", "score": 15})
    assert submit(site, "points", "bob", "game-1", 7) == (201, {"player": "bob", "score": 7})
    site.settle()
    assert site.get("/leaderboards/points")["players"] == 2


def test_best_keeps_the_better_value(site: Site) -> None:
    make(site, "race", **RACE)
    assert submit(site, "race", "ann", "1", 130.5)[1]["score"] == 130.5
    assert submit(site, "race", "ann", "2", 140) == (201, {"player": "ann", "score": 130.5})
    assert submit(site, "race", "ann", "2", 100) == (200, {"player": "ann", "score": 130.5})
    assert submit(site, "race", "ann", "3", 125.87)[1]["score"] == 125.87
    site.settle()
    assert entries(site, "race") == [(1, "ann", 125.87)]


def test_set_keeps_the_value_of_the_latest_time(site: Site) -> None:
    make(site, "level", **LEVEL)
    assert submit(site, "level", "ann", "1", 4.5, time="2026-01-02T00:00:00Z")[1]["score"] == 4.5
    assert submit(site, "level", "ann", "2", -5, time="2026-01-03T01:00:00+01:00")[1]["score"] == -5
    late = submit(site, "level", "ann", "3", 1, time="2026-01-01T00:00:00Z")
    assert late == (201, {"player": "ann", "score": -5})
    assert submit(site, "level", "ann", "4", 3, time="2026-01-03T00:00:00Z")[1]["score"] == 3  # the last wins
    site.settle()
    assert entries(site, "level") == [(1, "ann", 3)]


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
        ("player", "somebody-else", 403),
    ],
)
def test_a_submission_that_is_not_acceptable_changes_nothing(
    site: Site, field: str, value: Any, status: int
) -> None:
    make(site, "points", **POINTS)
    body = {"id": "1", "value": 1, field: value}
    answer = site.call("POST", "/leaderboards/points/scores", body, Authorization=site.token("ann"))
    assert (answer[0], answer[1]["Message"].startswith(field)) == (status, True), answer
    site.settle()
    assert site.get("/leaderboards/points")["players"] == 0


def test_an_admin_submits_for_a_player(site: Site) -> None:
    make(site, "points", **POINTS)
    body = {"id": "1", "value": 3, "player": "ann"}
    answer = site.call("POST", "/leaderboards/points/scores", body, Authorization=site.admin())
    assert answer == (201, {"player": "ann", "score": 3})
    assert site.call("POST", "/leaderboards/points/scores", body)[0] == 401
    assert submit(site, "nowhere", "ann", "1", 1)[0] == 404


def test_a_sum_never_leaves_what_a_ranking_can_hold(site: Site) -> None:
    make(site, "big", **POINTS | {"max": 10**15})
    assert submit(site, "big", "ann", "1", 10**15)[0] == 201
    status, answer = submit(site, "big", "ann", "2", 1)
    assert (status, answer["Code"]) == (422, "Unprocessable")
    assert submit(site, "big", "ann", "2", 0) == (201, {"player": "ann", "score": 10**15})


def test_a_players_submissions_are_listed_for_the_player(site: Site) -> None:
    make(site, "points", **POINTS)
    for i in range(5):
        submit(site, "points", "ann", f"g{i}", i, time="2026-11-01T00:00:00Z")
    path = "/leaderboards/points/players/ann/activities"
    first = site.get(f"{path}?limit=3", Authorization=site.token("ann"))
    rest = site.get(f"{path}?limit=3&cursor={first['cursor']}", Authorization=site.admin())
    found = first["items"] + rest["items"]
    assert [item["id"] for item in found] == [f"g{i}" for i in range(5)]
    assert found[4] == {"id": "g4", "value": 4, "time": "2026-11-01T00:00:00Z", "season": 1}
    assert rest["cursor"] is None
    assert site.call("GET", path, Authorization=site.token("bob"))[0] == 403


# -- ranks ---------------------------------------------------------------------------------------------


def test_211th_of_1539(site: Site) -> None:
    """The published example: everyone's rank, at the size at which it still worked."""
    make(site, "points", **POINTS)
    board = boards.find(site.table, "points", datetime.now(UTC))
    site.table.batch_put(
        leaderboards.score_key("points", 1, f"p{i}")._asdict()
        | {"score": i % 700, "scale": list(board.scale), "shards": 1, "time": "", "changed": 0}
        for i in range(1539)
    )
    site.settle()
    found = standing(site, "points", "p595")  # 596 to 699 are better, each held by two of 1,539
    assert found == {
        "player": "p595",
        "score": 595,
        "rank": 209,
        "of": 1539,
        "percentile": 86.48,
        "toNext": 1,
    }
    assert standing(site, "points", "p595", "?consistent=true") == found


def test_equal_scores_share_a_rank_everywhere(site: Site) -> None:
    make(site, "points", **POINTS)
    scores(site, "points", a=30, b=20, c=20, d=20, e=10)
    ranks = {player: standing(site, "points", player)["rank"] for player in "abcde"}
    assert ranks == {"a": 1, "b": 2, "c": 2, "d": 2, "e": 5}
    listed = entries(site, "points")
    assert [(rank, score) for rank, _, score in listed] == [(1, 30), (2, 20), (2, 20), (2, 20), (5, 10)]
    for place in range(1, 7):
        assert entries(site, "points", f"?place={place}") == listed[place - 1 :]
        assert entries(site, "points", f"?place={place}&limit=2") == listed[place - 1 : place + 1]
    for i, (_, player, _) in enumerate(listed):
        start = max(0, min(i - 1, len(listed) - 3))
        assert entries(site, "points", f"?around={player}&limit=3") == listed[start : start + 3]


def test_pages_go_on_where_the_one_before_ended(site: Site) -> None:
    make(site, "points", **POINTS)
    scores(site, "points", **{f"p{i:02}": i // 3 for i in range(20)})
    whole = entries(site, "points", "?limit=100")
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
    assert site.call("GET", "/leaderboards/points/entries?cursor=abc")[1]["Code"] == "BadCursor"


def test_the_first_has_nothing_to_the_next(site: Site) -> None:
    make(site, "race", **RACE)
    scores(site, "race", a=125.87, b=126.5)
    first = {"player": "a", "score": 125.87, "rank": 1, "of": 2, "percentile": 100.0, "toNext": None}
    assert standing(site, "race", "a") == first
    assert standing(site, "race", "b")["toNext"] == 0.63


def test_a_distribution_counts_every_player_once_without_gaps(site: Site) -> None:
    make(site, "points", **POINTS)
    assert site.get("/leaderboards/points/distribution") == {"items": []}
    scores(site, "points", **{f"p{i:02}": i * i for i in range(32)})
    items = site.get("/leaderboards/points/distribution")["items"]
    assert sum(item["players"] for item in items) == 32
    for before, after in itertools.pairwise(items):
        assert after["from"] == before["to"] + 1
    for item in items:
        assert item["players"] == sum(item["from"] <= i * i <= item["to"] for i in range(32))
    assert 10 < len(items) <= 50


def test_a_removed_player_leaves_no_trace_in_ranks_and_counts(site: Site) -> None:
    make(site, "points", **POINTS)
    scores(site, "points", a=30, b=20, c=10)
    path = "/leaderboards/points/players/b"
    assert site.call("DELETE", path)[0] == 401
    assert site.call("DELETE", path, Authorization=site.token("a"))[0] == 403
    for _ in range(2):
        assert site.call("DELETE", path, Authorization=site.token("b")) == (204, "")
    site.settle()
    assert site.call("GET", path)[0] == 404
    assert entries(site, "points") == [(1, "a", 30), (2, "c", 10)]
    assert standing(site, "points", "c").items() >= {"rank": 2, "of": 2, "toNext": 20}.items()
    assert site.get("/leaderboards/points")["players"] == 2
    assert site.call("GET", "/leaderboards/points/entries?around=b")[0] == 404
    assert submit(site, "points", "b", "first-b", 20) == (200, {"player": "b", "score": None})
    submit(site, "points", "b", "again", 5)
    site.settle()
    assert entries(site, "points") == [(1, "a", 30), (2, "c", 10), (3, "b", 5)]


# -- while a change is pending -------------------------------------------------------------------------


def test_a_score_is_there_before_the_stream_is(site: Site) -> None:
    make(site, "points", **POINTS)
    scores(site, "points", a=30, b=20)
    submit(site, "points", "c", "1", 25)
    assert standing(site, "points", "c").items() >= {"score": 25, "rank": 2, "of": 2}.items()
    assert site.get("/leaderboards/points")["players"] == 2
    assert entries(site, "points", "?around=c") == [(1, "a", 30), (2, "b", 20)]
    site.settle()
    assert standing(site, "points", "c").items() >= {"score": 25, "rank": 2, "of": 3, "toNext": 5}.items()


@pytest.mark.parametrize("query", ["", "?consistent=true"])
def test_a_pending_fall_is_not_counted_against_oneself(site: Site, query: str) -> None:
    make(site, "level", **LEVEL)
    scores(site, "level", a=5, b=3, c=1)
    for i, (value, rank, gap) in enumerate([(4, 1, None), (2, 2, 1), (3, 1, None), (-1, 3, 2)]):
        submit(site, "level", "a", f"later-{i}", value)
        before = standing(site, "level", "a", query)
        assert (before["rank"], before["of"], before["toNext"]) == (rank, 3, gap)
        if i % 2:
            site.settle()
            assert standing(site, "level", "a", query) == before


def test_who_comes_back_before_the_stream_is_ranked_by_the_new_score(site: Site) -> None:
    """Where scores only get better, the old entry is above the new score for once."""
    make(site, "points", **POINTS)
    scores(site, "points", a=30, b=20, c=10)
    site.call("DELETE", "/leaderboards/points/players/a", Authorization=site.token("a"))
    submit(site, "points", "a", "again", 15)
    before = standing(site, "points", "a", "?consistent=true")
    assert before.items() >= {"score": 15, "rank": 2, "of": 3, "toNext": 5}.items()
    site.settle()
    assert standing(site, "points", "a", "?consistent=true") == standing(site, "points", "a") == before


# -- seasons -------------------------------------------------------------------------------------------


def test_an_admin_ends_a_season_and_it_stays_readable(site: Site) -> None:
    make(site, "points", **POINTS)
    scores(site, "points", a=30, b=20)
    for status in (201, 200):
        answer = site.call("POST", "/leaderboards/points/seasons", {"season": 1}, Authorization=site.admin())
        assert (answer[0], answer[1]["season"], answer[1]["players"]) == (status, 2, 0)
    ahead = site.call("POST", "/leaderboards/points/seasons", {"season": 3}, Authorization=site.admin())
    assert ahead[0] == 409
    assert entries(site, "points") == []
    assert site.call("GET", "/leaderboards/points/players/a")[0] == 404
    assert submit(site, "points", "b", "first-b", 20) == (200, {"player": "b", "score": None})
    assert submit(site, "points", "b", "second", 7) == (201, {"player": "b", "score": 7})
    site.settle()
    assert entries(site, "points") == [(1, "b", 7)]
    assert entries(site, "points", "?season=1") == [(1, "a", 30), (2, "b", 20)]
    assert standing(site, "points", "b", "?season=1")["rank"] == 2
    first, second = (site.get(f"/leaderboards/points?season={n}") for n in (1, 2))
    assert (first["players"], first["ended"], second["ended"]) == (2, second["started"], None)
    assert site.call("GET", "/leaderboards/points/entries?season=3")[0] == 404
    site.call("DELETE", "/leaderboards/points/players/b", Authorization=site.token("b"))
    site.settle()
    assert (entries(site, "points"), entries(site, "points", "?season=1")) == ([], [(1, "a", 30)])


def test_a_date_resets_a_board_without_anybody(site: Site) -> None:
    soon = datetime.now(UTC) + timedelta(days=1)
    make(site, "points", **POINTS, resets=soon.isoformat())
    scores(site, "points", a=30)
    later = soon + timedelta(seconds=1)
    table = site.table
    assert boards.find(table, "points", soon - timedelta(seconds=1)).season == 1
    assert boards.find(table, "points", later).season == 2
    described = boards.describe(table, "points", later)
    assert (described.season, described.players, described.resets) == (2, 0, None)
    over = boards.describe(table, "points", later, 1)  # nobody has written anything since
    assert (over.players, over.ended, over.resets) == (1, described.started, None)
    body = SeasonBody(season=2)
    assert boards.reset(table, "points", body, later).body.season == 3
    for season, started in ((1, None), (2, described.started)):
        past = boards.describe(table, "points", later, season)
        assert past.ended == (described.started if season == 1 else times.answer(later))
        assert started is None or past.started == started


def test_who_ends_a_season_before_its_date_takes_the_date_away(site: Site) -> None:
    soon = datetime.now(UTC) + timedelta(days=1)
    make(site, "points", **POINTS, resets=soon.isoformat())
    ended = boards.reset(site.table, "points", SeasonBody(season=1), datetime.now(UTC)).body
    assert (ended.season, ended.resets) == (2, None)
    assert boards.find(site.table, "points", soon + timedelta(days=1)).season == 2


# -- cost ----------------------------------------------------------------------------------------------


def test_what_a_submission_and_a_rank_cost(site: Site) -> None:
    make(site, "points", **POINTS)
    scores(site, "points", a=30, b=20, c=10)
    standing(site, "points", "a")
    with Meter(site.table.client) as meter:
        submit(site, "points", "a", "second", 1)
    assert (meter.write_units, meter.read_units) == (4, 3)
    with Meter(site.table.client) as meter:
        submit(site, "points", "a", "second", 1)
    assert (meter.write_units, meter.read_units) == (4, 3)
    with Meter(site.table.client) as meter:
        standing(site, "points", "b")
    assert meter.read_units == 0.5 + 0.5 + 8 * 0.5 + 0.5  # board, score, nodes, the next better
    with Meter(site.table.client) as meter:
        standing(site, "points", "b", "?consistent=true")
    moment = 2 * (1 + 1 + 8)  # score, entry and nodes in one transaction
    assert meter.read_units == 1 + 1 + moment + 0.5  # board and score strongly before it
    with Meter(site.table.client) as meter:
        entries(site, "points")
    assert meter.read_units == 1


def test_a_look_at_a_past_season_makes_the_next_rank_no_dearer(site: Site) -> None:
    make(site, "points", **POINTS)
    scores(site, "points", a=30)
    site.call("POST", "/leaderboards/points/seasons", {"season": 1}, Authorization=site.admin())
    submit(site, "points", "a", "second", 5)
    site.settle()
    for query in ("", "?season=1"):
        standing(site, "points", "a", query)
    with Meter(site.table.client) as meter:
        standing(site, "points", "a")
    assert (meter.read_units, meter.calls) == (5.5, 3)
