"""The lag that admins read: a probe is written, and found in the aggregates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import app
from chalicelib.aggregates import lag
from chalicelib.aggregates.schemas import Lag
from chalicelib.dynamo.items import Key
from tests.support.meter import Meter
from tests.support.site import Site

START = datetime(2026, 11, 21, 10, tzinfo=UTC)


class Clock:
    """A clock that advances with each pause, and actions that run during the pauses."""

    def __init__(self, *meanwhile: Any) -> None:
        self.now = START
        self.meanwhile = list(meanwhile)

    def pause(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        if self.meanwhile:
            self.meanwhile.pop(0)()

    def measure(self, site: Site) -> Lag:
        return lag.measure_lag(site.table, lambda: self.now, self.pause)


def at(site: Site, key: Key) -> int:
    return int((site.table.get(key) or {}).get("sent_at", 0))


def test_a_probe_is_counted_as_soon_as_the_stream_has_delivered_it(site: Site) -> None:
    clock = Clock(lambda: None, lambda: None, site.settle)
    assert clock.measure(site) == Lag(sent="2026-11-21T10:00:00Z", seconds=0.3, counted=True)
    assert at(site, lag.SENT_KEY) == at(site, lag.COUNTED_KEY)


def test_the_applied_probe_is_the_newest_one(site: Site) -> None:
    for hour in range(3):
        clock = Clock(site.settle)
        clock.now += timedelta(hours=hour)
        assert clock.measure(site).counted
        assert at(site, lag.COUNTED_KEY) == (START + timedelta(hours=hour)).timestamp() * 1000


def test_the_lag_of_a_stream_that_stands_still_grows(site: Site) -> None:
    clock = Clock()
    first = clock.measure(site)
    assert (first.counted, first.seconds) == (False, 1.9)
    clock.now = START + timedelta(hours=5)
    assert clock.measure(site) == Lag(sent="2026-11-21T10:00:00Z", seconds=5 * 3600 + 1.9, counted=False)
    clock.meanwhile = [site.settle]
    assert clock.measure(site).counted
    assert clock.measure(site).sent == "2026-11-21T15:00:02Z"


def test_concurrent_requests_share_one_probe(site: Site) -> None:
    other = Clock()
    other.now += timedelta(milliseconds=50)
    found: list[Lag] = []
    clock = Clock(lambda: found.append(other.measure(site)), site.settle)
    assert clock.measure(site).sent == found[0].sent


def test_a_probe_is_sent_after_the_clock_went_back(site: Site) -> None:
    assert Clock(site.settle).measure(site).counted
    clock = Clock(site.settle)
    clock.now -= timedelta(minutes=1)
    assert clock.measure(site) == Lag(sent="2026-11-21T10:00:00.001000Z", seconds=0, counted=True)


def test_only_admins_can_measure_the_lag_and_it_costs_what_is_documented(site: Site) -> None:
    assert site.call("GET", "/lag")[0] == 401
    assert site.call("GET", "/lag", who="me")[0] == 403
    Clock(site.settle).measure(site)
    clock = Clock(lambda: None, site.settle)
    clock.now += timedelta(hours=1)
    with Meter(site.table.client) as meter:
        clock.measure(site)
    kinds = ("BatchGetItem", "PutItem", "GetItem", "UpdateItem", "Query")
    paid = {kind: meter.by_operation[kind] for kind in kinds if kind in meter.by_operation}
    assert paid == {"BatchGetItem": 2, "PutItem": 1, "GetItem": 3, "UpdateItem": 1}  # three attempts


def test_a_probe_changes_no_other_aggregate(site: Site) -> None:
    Clock(site.settle).measure(site)
    item = {"pk": "PULSE", "sk": "SENT", "sent_at": 1}
    assert [bool(contribution(item)) for contribution in app.CONTRIBUTIONS].count(True) == 1
