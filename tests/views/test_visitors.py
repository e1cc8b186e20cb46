"""Visitors without an id, and views of browsers whose clock is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chalicelib import settings, times
from chalicelib.api.auth import Caller
from chalicelib.views import events, queries, visitors
from chalicelib.views.schemas import EventsQuery, QueuedViews, ViewsBody
from tests.support.contexts import new_context
from tests.support.records import scan
from tests.support.site import Site

PAGE = "https://example.org/a"
NOON = datetime(2100, 1, 1, 12, tzinfo=UTC)
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
MINUTE = timedelta(minutes=1)


def send(
    site: Site,
    event: Mapping[str, Any],
    now: datetime = NOON,
    address: str = "192.0.2.1",
    agent: str = FIREFOX,
    *,
    counts: bool = False,
) -> Any:
    """Post an event at a time from an address."""
    body = ViewsBody(**{"client_id" if name == "clientId" else name: value for name, value in event.items()})
    stage = settings.current()._replace(views_rate=0)  # a test goes back in time, which a bucket never does
    context = new_context(site.table, now, stage)
    return events.accept(context, body, Caller(address=address), {"user-agent": agent}, counts=counts)


def count(site: Site, url: str = PAGE) -> tuple[int, int]:
    """Return the views and visitors of a page."""
    site.settle()
    page = queries.live(new_context(site.table), url)
    return page.views, page.visitors


def clients(site: Site) -> set[str]:
    return {item["sk"].partition("#CID#")[2] for item in scan(site.table) if item["sk"].startswith("T#")}


# -- visitors ------------------------------------------------------------------------------------------


def test_a_page_loaded_again_in_a_browser_has_one_visitor(site: Site) -> None:
    for minute in range(12):
        send(site, {"url": PAGE}, NOON + minute * MINUTE)
    assert count(site) == (12, 1)


@pytest.mark.parametrize(
    ("address", "agent", "is_same"),
    [
        ("192.0.2.1", FIREFOX, True),
        ("::ffff:192.0.2.1", FIREFOX, True),
        ("192.0.2.2", FIREFOX, False),
        ("192.0.2.1", "Mozilla/5.0 Safari/605.1.15", False),
        ("", FIREFOX, False),
    ],
)
def test_a_visitor_is_an_address_with_a_browser(site: Site, address: str, agent: str, is_same: bool) -> None:
    send(site, {"url": PAGE})
    send(site, {"url": f"{PAGE}/b"}, NOON + MINUTE, address, agent)
    assert len(clients(site)) == (1 if is_same else 2)
    site.settle()
    [day] = [item for item in scan(site.table) if item["pk"] == "SITE#example.org" and "visitors" in item]
    assert day["visitors"] == (1 if is_same else 2)


def test_an_ipv6_visitor_is_its_64_bit_network(site: Site) -> None:
    for host in ("1", "2", "aaaa:bbbb:cccc:dddd"):
        send(site, {"url": PAGE}, NOON, f"2001:db8:0:1::{host}".replace("::aaaa", ":aaaa"))
    assert len(clients(site)) == 1
    send(site, {"url": PAGE}, NOON, "2001:db8:0:2::1")
    assert len(clients(site)) == 2


def test_a_visitor_of_two_days_or_two_sites_cannot_be_linked(site: Site) -> None:
    send(site, {"url": PAGE})
    send(site, {"url": PAGE}, NOON + times.DAY)
    send(site, {"url": "https://shop.example/"})
    assert len(clients(site)) == 3


def test_every_process_uses_the_salt_that_was_made_first(site: Site) -> None:
    found = set()
    for _ in range(3):
        visitors._salts().clear()
        found.add(visitors.read_salt(site.table, "2100-01-01", NOON))
    assert len(found) == 1
    [salt] = [item for item in scan(site.table) if item["sk"] == "SALT"]
    assert {bytes(salt["salt"])} == found
    assert salt["ttl"] == times.epoch(datetime(2100, 1, 4, tzinfo=UTC))


def test_a_salt_is_forgotten_when_it_expires(site: Site) -> None:
    first = visitors.read_salt(site.table, "2100-01-01", NOON)
    site.table.delete(visitors.salt_key("2100-01-01"))
    assert visitors.read_salt(site.table, "2100-01-01", NOON + 2 * times.DAY) == first
    assert visitors.read_salt(site.table, "2100-01-01", NOON + 3 * times.DAY) != first


@pytest.mark.security
def test_neither_the_address_nor_the_browser_is_stored(site: Site) -> None:
    send(site, {"url": PAGE})
    site.settle()
    stored = repr(scan(site.table))
    assert "192.0.2" not in stored
    assert "Mozilla" not in stored


# -- clocks --------------------------------------------------------------------------------------------


def told(time: datetime, held: timedelta = timedelta(seconds=3)) -> dict[str, str]:
    """Return an event by a clock that says `time` at the view, and is sent `held` later."""
    return {"url": PAGE, "time": times.to_iso(time), "sent": times.to_iso(time + held)}


@pytest.mark.parametrize("error", [400 * times.DAY, -3000 * times.DAY, 6 * MINUTE, -6 * MINUTE, times.HOUR])
def test_a_view_by_a_wrong_clock_counts_once_at_the_servers_time(site: Site, error: timedelta) -> None:
    held = timedelta(seconds=3)
    for late in (timedelta(), timedelta(seconds=5), 2 * times.HOUR):
        send(site, told(NOON + error - held), NOON + late)
    again = told(NOON + error - held) | {"sent": times.to_iso(NOON + error + 3 * MINUTE)}
    send(site, again, NOON + 3 * MINUTE)
    assert count(site) == (1, 1)
    query = EventsQuery(url=PAGE, from_="2100-01-01", to="2100-01-01")
    [listed] = queries.list_events(new_context(site.table, NOON, settings.current()), query).items
    assert listed.time == times.to_iso(NOON - held)


def test_a_view_that_a_page_held_for_hours_is_as_old_as_it_was(site: Site) -> None:
    send(site, told(NOON - 700 * times.DAY, 2 * times.HOUR))
    [item] = [item for item in scan(site.table) if item["sk"].startswith("T#")]
    assert item["sk"].startswith("T#2100-01-01T10:00:00")


@pytest.mark.parametrize("seconds", [0, 239, 241, 299, 301])
def test_an_event_sent_again_minutes_later_counts_once(site: Site, seconds: int) -> None:
    event = told(NOON - timedelta(seconds=seconds), timedelta())
    for late in range(0, 20 * 60, 61):
        send(site, event, NOON + timedelta(seconds=late))
    assert count(site) == (1, 1)


@pytest.mark.parametrize("wrong", [timedelta(days=-900), timedelta(minutes=20)])
def test_an_event_by_a_wrong_clock_sent_again_after_midnight_counts_once(
    site: Site, wrong: timedelta
) -> None:
    midnight = datetime(2100, 1, 2, tzinfo=UTC)
    event = {"url": PAGE, "time": times.to_iso(midnight + wrong), "sent": times.to_iso(midnight + wrong)}
    for seconds in (-3, 2, 7):
        send(site, event, midnight + timedelta(seconds=seconds))
    assert count(site) == (1, 1)
    send(site, event | {"time": times.to_iso(midnight + wrong - MINUTE)}, midnight + timedelta(seconds=9))
    assert count(site)[0] == 2


def test_a_right_clock_costs_no_more(site: Site) -> None:
    send(site, told(NOON - MINUTE))
    assert not [item for item in scan(site.table) if item["sk"].startswith("CLOCK#")]
    assert "T#2100-01-01T11:59:00.000000Z" in repr(scan(site.table))


def test_a_queued_event_by_a_wrong_clock_counts_once(site: Site) -> None:
    event = told(NOON - 700 * times.DAY) | {"clientId": "c"}
    for late in (0, 100):
        context = new_context(site.table, NOON + timedelta(seconds=late), settings.current())
        events.write_queued(context, QueuedViews(events=[event]))
    assert count(site) == (1, 1)


# -- the counts of the page ----------------------------------------------------------------------------


def test_the_response_may_have_the_counts_with_this_view(site: Site) -> None:
    first = send(site, {"url": PAGE}, counts=True)
    assert (first.accepted, first.url, first.views, first.visitors) == (1, PAGE, 1, 1)
    site.settle()
    again = send(site, {"url": PAGE}, NOON + MINUTE, counts=True)
    assert (again.views, again.visitors) == (2, 1)
    site.settle()
    other = send(site, {"url": PAGE}, NOON + MINUTE, "192.0.2.9", counts=True)
    assert (other.views, other.visitors) == (3, 2)
    assert count(site) == (3, 2)
    same = send(site, {"url": PAGE}, NOON + MINUTE, "192.0.2.9", counts=True)
    assert (same.views, same.visitors) == (3, 2)


def test_a_client_asks_for_the_counts_with_prefer(site: Site) -> None:
    event = {"url": PAGE, "time": datetime.now(UTC).isoformat()}
    for number, wish in enumerate(("return=representation", 'respond-async, return="representation"'), 1):
        status, reply = site.post(event | {"clientId": f"c{number}"}, Prefer=wish)
        assert (status, reply) == (200, {"accepted": 1, "url": PAGE, "views": number, "visitors": number})
        site.settle()
    assert site.post(event, Prefer="return=minimal") == (202, {"accepted": 1, "rejected": []})
    assert site.post({"events": [event]}, Prefer="return=representation")[0] == 202
    assert site.post(event | {"url": "?"}, Prefer="return=representation")[0] == 400
