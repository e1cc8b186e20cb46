"""A list of sums is read once in some seconds for everybody without a token, and always for the others."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from chalice.test import Client

import app
from chalicelib import settings
from chalicelib.api import caching
from chalicelib.api.caching import ResponseCache
from chalicelib.errors import Busy
from chalicelib.views import site_queries
from tests.support.meter import Meter
from tests.support.site import Site

TOP = "/views/top?site=example.org"
PAGE = "https://example.org/a"


class Clock:
    """A clock that goes on only when a test says so."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(app.router, "cache", ResponseCache(5, clock))
    return clock


def get(path: str, **headers: str) -> tuple[int, str, Mapping[str, Any]]:
    with Client(app.app) as client:
        answer = client.http.get(path, headers=headers)
    return answer.status_code, answer.body.decode(), answer.headers


def view(site: Site, url: str = PAGE) -> None:
    time = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    assert site.post({"url": url, "time": time, "clientId": "c"})[0] == 202
    site.settle()


def test_a_list_is_read_once_in_five_seconds(site: Site, clock: Clock) -> None:
    view(site)
    status, first, headers = get(TOP)
    assert (status, headers["Cache-Control"], headers["Vary"]) == (
        200,
        "public, max-age=5",
        "Accept, Authorization",
    )
    assert "Age" not in headers
    view(site, f"{PAGE}2")
    clock.now += 4.5
    with Meter(site.table.client) as meter:
        status, kept, headers = get(TOP)
    assert (status, kept, headers["Age"], meter.read_units) == (200, first, "4", 0)
    clock.now += 0.5
    status, fresh, headers = get(TOP)
    assert (f"{PAGE}2" in fresh, "Age" in headers) == (True, False)


def test_a_clock_that_goes_back_makes_nothing_fresh(site: Site, clock: Clock) -> None:
    get(TOP)
    view(site)
    clock.now -= 1
    assert PAGE in get(TOP)[1]


@pytest.mark.security
def test_a_request_with_a_token_is_neither_answered_from_memory_nor_kept(site: Site, clock: Clock) -> None:
    before = get(TOP)[1]
    view(site)
    for token in (site.token("admin"), site.token("ann"), "Bearer x", ""):
        _, body, headers = get(TOP, Authorization=token)
        assert (PAGE in body, headers["Cache-Control"]) == (True, "no-store"), token
        assert headers["Vary"] == "Accept, Authorization"
    assert get(TOP)[1] == before


def test_each_query_and_each_form_has_its_own_response(site: Site, clock: Clock) -> None:
    view(site)
    forms = [get(TOP), get(f"{TOP}&limit=1"), get(TOP, Accept="text/csv"), get("/views/top?site=example.com")]
    assert len({(body, headers["Content-Type"]) for _, body, headers in forms}) == 3
    assert get(TOP, Accept="text/csv")[1].startswith('"url"')
    assert get("/views/top?site=example.com")[1] == forms[3][1]


def test_an_error_is_not_kept(site: Site, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def be_busy(*_: object) -> None:
        raise Busy("The table is busy.")

    with monkeypatch.context() as busy:
        busy.setattr(site_queries, "read_site", be_busy)
        assert get("/views/site?site=example.org")[0] == 503
    assert get("/views/site?site=example.org")[0] == 200
    for query in ("&limit=0", "&site=a.example", "&other=1"):
        status, _, headers = get(TOP + query)
        assert (status, headers["Cache-Control"]) == (400, "no-store")


def test_a_process_keeps_a_hundred_responses() -> None:
    cache = ResponseCache(5, Clock())
    for number in range(caching.MOST + 1):
        cache.keep(number, str(number), {})
    cache.keep(1, "again", {})
    assert [cache.find(number) for number in (0, 1, 2)] == [
        None,
        ("again", {"Age": "0"}),
        ("2", {"Age": "0"}),
    ]
    assert len(cache._kept) == caching.MOST


def test_no_list_of_what_people_wrote_and_no_route_of_users_is_cached() -> None:
    cached = {route.path for route in app.router.routes if route.media.is_cached}
    assert all(route.access == "public" for route in app.router.routes if route.media.is_cached)
    assert not [path for path in cached if path.endswith(("comments", "replies", "entries", "{player}"))]
    assert {
        "/views/site",
        "/views/top",
        "/views/referrers",
        "/views/campaigns",
        "/products/leaders",
    } <= cached


def test_a_stage_says_for_how_long_its_lists_are_kept() -> None:
    assert settings.read({}).cache_seconds == 1
    assert settings.read({"HUBBUB_STAGE": "dev"}).cache_seconds == 5
    assert settings.read({"HUBBUB_CACHE_SECONDS": "0"}).cache_seconds == 0
    with pytest.raises(ValueError, match="HUBBUB_CACHE_SECONDS"):
        settings.read({"HUBBUB_CACHE_SECONDS": "61"})
