"""The lag as an admin sees it: a pulse that is written, and seen in the sums."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import app
from chalicelib.aggregates import lag as pulse
from chalicelib.aggregates.schemas import Lag
from chalicelib.dynamo.items import Key
from local.engines.meter import Meter
from tests.support.site import Site

START = datetime(2026, 11, 21, 10, tzinfo=UTC)


class Clock:
    """Time that passes while somebody waits, and what happens meanwhile."""

    def __init__(self, *meanwhile: Any) -> None:
        self.now = START
        self.meanwhile = list(meanwhile)

    def pause(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        if self.meanwhile:
            self.meanwhile.pop(0)()

    def lag(self, site: Site) -> Lag:
        return pulse.lag(site.table, lambda: self.now, self.pause)


def at(site: Site, key: Key) -> int:
    return int((site.table.get(key) or {}).get("sent_at", 0))


def test_a_pulse_is_seen_in_the_sums_as_soon_as_the_stream_has_told_it(site: Site) -> None:
    clock = Clock(lambda: None, lambda: None, site.settle)
    assert clock.lag(site) == Lag(sent="2026-11-21T10:00:00Z", seconds=0.3, counted=True)
    assert at(site, pulse.SENT) == at(site, pulse.COUNTED)


def test_the_echo_is_that_of_the_newest_pulse(site: Site) -> None:
    for hour in range(3):
        clock = Clock(site.settle)
        clock.now += timedelta(hours=hour)
        assert clock.lag(site).counted
        assert at(site, pulse.COUNTED) == (START + timedelta(hours=hour)).timestamp() * 1000


def test_a_stream_that_stands_still_is_as_far_behind_as_it_is(site: Site) -> None:
    clock = Clock()
    first = clock.lag(site)
    assert (first.counted, first.seconds) == (False, 1.9)
    clock.now = START + timedelta(hours=5)
    assert clock.lag(site) == Lag(sent="2026-11-21T10:00:00Z", seconds=5 * 3600 + 1.9, counted=False)
    clock.meanwhile = [site.settle]
    assert clock.lag(site).counted
    assert clock.lag(site).sent == "2026-11-21T15:00:02Z"


def test_two_who_ask_at_once_measure_by_one_pulse(site: Site) -> None:
    other = Clock()
    other.now += timedelta(milliseconds=50)
    found: list[Lag] = []
    one = Clock(lambda: found.append(other.lag(site)), site.settle)
    assert one.lag(site).sent == found[0].sent


def test_a_clock_that_went_back_sends_a_pulse_all_the_same(site: Site) -> None:
    assert Clock(site.settle).lag(site).counted
    clock = Clock(site.settle)
    clock.now -= timedelta(minutes=1)
    assert clock.lag(site) == Lag(sent="2026-11-21T10:00:00.001000Z", seconds=0, counted=True)


def test_it_is_for_admins_and_costs_what_it_says(site: Site) -> None:
    assert site.call("GET", "/lag")[0] == 401
    assert site.call("GET", "/lag", Authorization=site.token("me"))[0] == 403
    Clock(site.settle).lag(site)
    clock = Clock(lambda: None, site.settle)
    clock.now += timedelta(hours=1)
    with Meter(site.table.client) as meter:
        clock.lag(site)
    kinds = ("BatchGetItem", "PutItem", "GetItem", "UpdateItem", "Query")
    paid = {kind: meter.by_operation[kind] for kind in kinds if kind in meter.by_operation}
    assert paid == {"BatchGetItem": 2, "PutItem": 1, "GetItem": 3}  # three looks
    assert [write.table for write in meter.writes if write.key["pk"] == {"S": "PULSE"}] == [1, 2]


def test_a_pulse_changes_no_other_sum(site: Site) -> None:
    Clock(site.settle).lag(site)
    item = {"pk": "PULSE", "sk": "SENT", "sent_at": 1}
    assert [bool(one(item)) for one in app.CONTRIBUTIONS].count(True) == 1
