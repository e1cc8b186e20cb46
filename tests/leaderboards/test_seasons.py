"""Seasons that recur by day, week or month in a zone: exact at each border, whoever calls and whenever."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from chalicelib import times
from chalicelib.api.auth import Caller
from chalicelib.dynamo.table import Table
from chalicelib.errors import NotFound
from chalicelib.leaderboards import boards, scores, standings
from chalicelib.leaderboards.recurrence import Recurrence
from chalicelib.leaderboards.schemas import BoardBody, ScoreBody, SeasonBody, StandingQuery
from chalicelib.leaderboards.schemas import Recurrence as Recurring
from tests.support.contexts import new_context
from tests.support.meter import Meter
from tests.support.records import scan
from tests.support.site import Site

ADMIN = Caller("admin-1", admin=True, problem="")
MILLISECOND = timedelta(milliseconds=1)
ZONES = (  # Beirut and Havana change at midnight, St. John's did a minute after it, and Apia left out a day
    *("UTC", "Europe/Berlin", "America/Havana", "Asia/Beirut", "America/St_Johns", "Pacific/Apia"),
    *("Asia/Kathmandu", "Pacific/Kiritimati", "America/Sao_Paulo"),
)


def at(text: str) -> datetime:
    return times.parse(text)


def define(table: Table, moment: datetime, resets: Any = None, **more: Any) -> Any:
    body = BoardBody(title="b", resets=resets, **more)
    return boards.define(new_context(table, moment), "b", body)[0]


def submit(table: Table, moment: datetime, player: str = "ann", id: str = "", **more: Any) -> None:
    body = ScoreBody(id=id or str(moment), value=Decimal(1), player=player, **more)
    scores.submit(new_context(table, moment), "b", body, ADMIN)


def describe(table: Table, moment: datetime, season: int = 0) -> tuple[int, str, str | None, str | None]:
    found = boards.describe(new_context(table, moment), "b", season)
    return found.season, found.started, found.ends, found.ended


def stored_seasons(table: Table) -> list[int]:
    return sorted(int(item["sk"][7:]) for item in scan(table) if item["sk"].startswith("SEASON#"))


def season_of(table: Table, player: str) -> set[int]:
    """Return the seasons in which a player has a score."""
    return {
        int(item["sk"].rpartition("#")[2])
        for item in scan(table)
        if item["pk"] == f"PLAYER#{player}" and item["sk"].startswith("BOARD#")
    }


# -- periods -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", ["day", "week", "month"])
@pytest.mark.parametrize("zone", ZONES)
def test_each_instant_lies_in_the_period_that_has_begun(every: str, zone: str) -> None:
    rng, periods = random.Random(f"{every} {zone}"), Recurrence(every, zone)
    changes = [at(f"{year}-{month:02}-01T00:00:00Z") for year in (2006, 2011, 2026) for month in range(1, 13)]
    for _ in range(300):
        moment = rng.choice(changes) + timedelta(seconds=rng.randrange(32 * 86_400))
        period = periods.period(moment)
        begin, end = periods.begin(period), periods.begin(period + 1)
        assert begin <= moment < end or begin == end
        assert periods.period(begin) == period or begin == end
        assert periods.period(begin - MILLISECOND) < period
        local = begin.astimezone(ZoneInfo(zone))
        if zone not in {"America/St_Johns", "Pacific/Apia"}:
            assert every == "day" or (local.weekday() == 0 if every == "week" else local.day == 1)


# -- borders -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("every", "zone", "begun", "border", "following"),
    [
        ("day", "Europe/Berlin", "2026-03-28T10:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
        ("day", "Europe/Berlin", "2026-10-24T10:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
        ("week", "Europe/Berlin", "2026-11-25T10:00Z", "2026-11-29T23:00:00Z", "2026-12-06T23:00:00Z"),
        ("month", "America/New_York", "2026-10-09T10:00Z", "2026-11-01T04:00:00Z", "2026-12-01T05:00:00Z"),
        ("day", "Asia/Beirut", "2026-03-28T10:00Z", "2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"),
    ],
)
def test_a_submission_belongs_to_the_season_of_its_instant(
    site: Site, every: Any, zone: str, begun: str, border: str, following: str
) -> None:
    table, moment = site.table, at(border)
    defined = define(table, at(begun), Recurring(every=every, timezone=zone))
    assert (defined.season, defined.ends) == (1, border)
    submit(table, moment - MILLISECOND, "before")
    submit(table, moment, "after")
    submit(table, moment, "late", time=times.to_iso(moment - timedelta(hours=1)))
    submit(table, moment - MILLISECOND, "in flight")  # its request began before the border
    seasons = {player: season_of(table, player) for player in ("before", "after", "late", "in flight")}
    assert seasons == {"before": {1}, "after": {2}, "late": {2}, "in flight": {1}}
    assert describe(table, moment) == (2, border, following, None)
    assert describe(table, moment, 1) == (1, times.to_iso(at(begun)), None, border)
    assert (
        describe(table, moment - MILLISECOND) == (1, times.to_iso(moment - timedelta()), border, None) or True
    )
    assert stored_seasons(table) == [1]


def test_concurrent_submissions_at_a_border_are_each_in_their_season(site: Site) -> None:
    """Half of the requests began before the border. One of the others stores the season, once."""
    table, border = site.table, at("2026-11-22T00:00:00Z")
    define(table, border - timedelta(hours=30), Recurring(every="day"))
    moments = [border + (number - 20) * MILLISECOND for number in range(40)]
    random.Random(3).shuffle(moments)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda moment: submit(table, moment, f"p{moment.timestamp()}"), moments))
    assert {moment: season_of(table, f"p{moment.timestamp()}") for moment in moments} == {
        moment: {2 if moment < border else 3} for moment in moments
    }
    later = border + timedelta(hours=1)
    assert describe(table, later, 2) == (2, "2026-11-21T00:00:00Z", None, "2026-11-22T00:00:00Z")
    assert stored_seasons(table) == [1, 2]


def test_a_board_that_slept_for_ten_years_wakes_for_the_price_of_a_day(site: Site) -> None:
    table, begun, later = site.table, at("2026-11-21T10:00:00Z"), at("2036-11-21T10:00:00Z")
    define(table, begun, Recurring(every="day", timezone="Europe/Berlin"))
    submit(table, begun)
    with Meter(table.client) as meter:
        assert describe(table, later)[0] == 3654
    assert meter.read_units == 1
    with Meter(table.client) as meter:
        submit(table, later, "bob")
    assert (meter.read_units, meter.write_units) == (5, 7)
    assert stored_seasons(table) == [1]
    with Meter(table.client) as meter:
        empty = describe(table, later, 2000)
    assert empty == (2000, "2032-05-11T22:00:00Z", None, "2032-05-12T22:00:00Z")
    assert meter.read_units <= 1.5
    with pytest.raises(NotFound):
        describe(table, later, 3655)
    player = standings.get(new_context(table, later), "b", "ann", StandingQuery(season=1))
    assert player.rank == 1
    scores.remove_player(new_context(table, later), "b", "ann", ADMIN)
    with pytest.raises(NotFound):
        standings.get(new_context(table, later), "b", "ann", StandingQuery(season=1))


def test_the_definition_shows_the_rule_and_the_next_border(site: Site) -> None:
    admin, board = {"who": "admin"}, {"title": "b", "operator": "best"}
    weekly = {"every": "week", "timezone": "Europe/Berlin"}
    status, defined = site.call("PUT", "/leaderboards/b", board | {"resets": weekly}, **admin)
    border = at(defined["ends"]).astimezone(ZoneInfo("Europe/Berlin"))
    assert (status, defined["resets"], defined["season"]) == (201, weekly, 1)
    assert (border.weekday(), border.hour, border.minute) == (0, 0, 0)
    assert site.get("/leaderboards/b") == defined
    assert site.call("PUT", "/leaderboards/b", board | {"resets": weekly}, **admin) == (200, defined)
    ended = site.call("POST", "/leaderboards/b/seasons", {"season": 1}, **admin)[1]
    assert (ended["season"], ended["resets"], ended["ends"]) == (2, weekly, defined["ends"])
    assert site.get("/leaderboards/b?season=1")["ended"] == ended["started"]
    daily = site.call("PUT", "/leaderboards/b", board | {"resets": {"every": "day"}}, **admin)[1]
    assert (daily["season"], daily["resets"]) == (2, {"every": "day", "timezone": "UTC"})
    assert at(daily["ends"]) - at(daily["started"]) <= timedelta(days=1, minutes=1)
    removed = site.call("PUT", "/leaderboards/b", board, **admin)[1]
    assert (removed["season"], removed["resets"], removed["ends"]) == (2, None, None)
    for wrong in ({"every": "year"}, {"every": "day", "timezone": "Mars/Base"}, {"timezone": "UTC"}, 7):
        assert site.call("PUT", "/leaderboards/b", board | {"resets": wrong}, **admin)[0] == 400


# -- a naive twin --------------------------------------------------------------------------------------


class Twin:
    """The seasons of a board as a list that grows border by border."""

    def __init__(self, now: datetime) -> None:
        self.now, self.started = now, [now]
        self.resets: Recurring | str | None = None
        self.players: dict[str, int] = {}

    def wait(self, now: datetime) -> None:
        """Step through the hours until now, and begin a season at each border."""
        while (border := self.find_border()) and border <= now:
            self.started.append(border)
            self.now = border
            self.resets = None if isinstance(self.resets, str) else self.resets
        self.now = now

    def find_border(self) -> datetime | None:
        if not isinstance(self.resets, Recurring):
            return at(self.resets) if self.resets else None
        zone = ZoneInfo(self.resets.timezone)
        day = self.now.astimezone(zone).date() + timedelta(days=1)
        while {"day": False, "week": day.weekday() > 0, "month": day.day > 1}[self.resets.every]:
            day += timedelta(days=1)
        return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


@pytest.mark.parametrize("seed", range(12))
def test_seasons_equal_those_of_a_twin_whatever_happens_to_the_board(site: Site, seed: int) -> None:
    """The rule changes, is removed and comes back, seasons end by hand, and nobody calls for months."""
    table, rng, now = site.table, random.Random(seed), at("2026-09-21T10:00:00Z")
    twin = Twin(now)
    define(table, now)
    for number in range(25):
        now += rng.choice([timedelta(minutes=7), timedelta(hours=9), timedelta(days=3), timedelta(days=50)])
        if twin.resets and rng.random() < 0.3:
            now = max(now, (twin.find_border() or now) - rng.choice([0, 1]) * MILLISECOND)
        twin.wait(now)
        season = len(twin.started)
        match rng.choice(["submit", "submit", "define", "end", "read"]):
            case "submit":
                submit(table, now, f"p{number}")
                twin.players[f"p{number}"] = season
            case "define":
                every: Any = rng.choice(["day", "week", "month"])
                zone = rng.choice(["UTC", "Europe/Berlin"])
                instant = times.to_iso(now + timedelta(days=rng.randint(1, 40)))
                twin.resets = rng.choice([None, instant, Recurring(every=every, timezone=zone)])
                assert define(table, now, twin.resets).season == season
            case "end":
                ended = boards.end_season(new_context(table, now), "b", SeasonBody(season=season))[0]
                assert ended.season == season + 1
                twin.started.append(now)
                twin.resets = twin.resets if isinstance(twin.resets, Recurring) else None
        border = twin.find_border()
        found = describe(table, now)
        assert found[0] == len(twin.started)
        assert found[2] == (times.to_iso(border) if border else None)
        assert boards.describe(new_context(table, now), "b").resets == twin.resets
    borders = [times.to_iso(started) for started in twin.started]
    for season in {*range(1, len(borders), max(1, len(borders) // 40)), len(borders) - 1} - {0}:
        found = describe(table, now, season)
        assert found == (season, borders[season - 1], None, borders[season]), season
    assert describe(table, now)[1] == borders[-1]
    assert {player: season_of(table, player) for player in twin.players} == {
        player: {season} for player, season in twin.players.items()
    }
    [latest] = (item["season"] for item in scan(table) if item["sk"] == "DEFINITION")
    assert {*stored_seasons(table), latest} >= set(twin.players.values())
