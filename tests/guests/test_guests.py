"""Guests: a random subject and a token for anyone, within a limit for each address."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from chalice.app import Chalice

from app import FEATURES
from chalicelib import settings, times
from chalicelib.api import auth
from chalicelib.api.router import Body, Router
from chalicelib.dynamo.table import Table
from chalicelib.errors import SlowDown
from chalicelib.feature import select
from chalicelib.guests import guests
from chalicelib.guests.schemas import GuestBody
from chalicelib.settings import Settings
from tests.guests.dearest import dearest  # noqa: F401 (for the tests of the whole app)
from tests.guests.story import COSTS, story  # noqa: F401 (for the tests of the whole app)
from tests.support.contexts import new_context
from tests.support.site import Site

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
SETTINGS = Settings(secret="s" * 32)
ADDRESS = "192.0.2.1"


def sign_in(
    table: Table, address: str = ADDRESS, now: datetime = NOW, name: str | None = None
) -> auth.Caller:
    guest = guests.sign_in(
        new_context(table, now, SETTINGS), GuestBody(name=name), auth.Caller(address=address)
    )
    found = auth.read_context(auth.authenticate(SETTINGS, f"Bearer {guest.token}"))
    assert (found.sub, found.name) == (guest.sub, guest.name)
    return found


def test_a_guest_is_signed_in_under_a_random_subject(site: Site) -> None:
    status, ann = site.call("POST", "/guests", {"name": "  Ann\u200b Lee "})
    assert (status, ann["name"]) == (201, "Ann Lee")
    status, other = site.call("POST", "/guests", {"name": "Ann Lee"})
    assert ann["sub"] != other["sub"]
    caller = auth.read_context(auth.authenticate(settings.current(), f"Bearer {ann['token']}"))
    assert caller == auth.Caller(ann["sub"], False, "", "Ann Lee", guest=True)
    lasts = times.parse(ann["expires"]) - datetime.now(UTC)
    assert timedelta(days=29, hours=23) < lasts <= timedelta(days=30)


def test_a_guest_with_another_name_is_the_same_guest(site: Site) -> None:
    _, ann = site.call("POST", "/guests", {"name": "Ann"})
    bearer = {"Authorization": f"Bearer {ann['token']}"}
    status, renamed = site.call("POST", "/guests", {"name": "Ann Lee"}, **bearer)
    assert (status, renamed["sub"], renamed["name"]) == (201, ann["sub"], "Ann Lee")
    assert auth.read_context(auth.authenticate(settings.current(), f"Bearer {renamed['token']}")).guest


def test_a_token_of_no_guest_makes_a_new_guest(site: Site) -> None:
    for bearer in (site.token("ann"), site.token("admin"), "Bearer nonsense"):
        status, guest = site.call("POST", "/guests", {"name": "Ann"}, Authorization=bearer)
        assert (status, guest["sub"][:6], guest["name"]) == (201, "guest-", "Ann")


def test_a_guest_without_a_name_has_none(site: Site) -> None:
    for body in ({}, {"name": None}, {"name": ""}, {"name": "\u200b"}):
        status, guest = site.call("POST", "/guests", body)
        assert (status, guest["name"]) == (201, None), body


@pytest.mark.parametrize("body", [{"name": 7}, {"name": "x" * 61}, [], "", b""])
def test_a_malformed_name_is_400(site: Site, body: Any) -> None:
    status, answer = site.call("POST", "/guests", body)
    assert (status, answer["code"]) == (400, "BadRequest")


def test_a_guest_posts_a_score_under_its_own_subject(site: Site) -> None:
    site.call("PUT", "/leaderboards/points", {"title": "Points"}, who="admin")
    _, guest = site.call("POST", "/guests", {"name": "Ann"})
    bearer = {"Authorization": f"Bearer {guest['token']}"}
    status, made = site.call("POST", "/leaderboards/points/scores", {"id": "1", "value": 7}, **bearer)
    assert (status, made["player"], made["score"]) == (201, guest["sub"], 7)
    assert site.call("GET", "/quarantine", **bearer)[0] == 403


def test_a_guest_posts_as_many_views_as_an_anonymous_client(site: Site) -> None:
    _, guest = site.call("POST", "/guests", {})
    now = datetime.now(UTC).isoformat()
    events = [{"url": "https://example.org/", "time": now, "clientId": f"c-{n}"} for n in range(26)]
    as_guest = {"Authorization": f"Bearer {guest['token']}"}
    for headers in (as_guest, {"Authorization": ""}):
        assert site.post({"events": events}, **headers)[0] == 413
        assert site.post({"events": events[:25]}, **headers)[0] == 202
    assert site.post({"events": events}, who="ann")[0] == 202


def test_an_address_has_sixty_guests_at_once_and_one_more_every_ten_seconds(site: Site) -> None:
    table = site.table
    for _ in range(60):
        sign_in(table)
    with pytest.raises(SlowDown) as refused:
        sign_in(table)
    assert refused.value.retry_after == 10
    sign_in(table, "192.0.2.2")
    sign_in(table, now=NOW + timedelta(seconds=10))
    with pytest.raises(SlowDown):
        sign_in(table, now=NOW + timedelta(seconds=19))
    for _ in range(60):
        sign_in(table, now=NOW + timedelta(minutes=11))


def test_only_a_stage_that_allows_guests_has_the_path() -> None:
    assert settings.read({"HUBBUB_STAGE": "local"}).guests
    assert not settings.read({"HUBBUB_STAGE": "dev"}).guests
    assert settings.read({"HUBBUB_STAGE": "dev", "HUBBUB_GUESTS": "on"}).guests
    for stage, status in (({}, 404), ({"HUBBUB_GUESTS": "on"}, 201)):
        chosen = settings.read({"HUBBUB_STAGE": "dev", **stage})
        chalice = Chalice(app_name="small")
        router = Router(chalice, enabled=select(FEATURES, chosen), features=FEATURES)

        @router.route("POST /guests", status=201, body=Body(1))
        def post_guest(body: GuestBody) -> GuestBody:
            return body

        assert bool(router.routes) is (status == 201)
        assert ("/guests" in chalice.routes) is (status == 201)
