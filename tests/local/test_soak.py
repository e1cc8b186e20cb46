"""A soak kills the product and loses nothing; its audit sees what is missing and what is too much."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from chalicelib import times
from chalicelib.leaderboards import scores
from chalicelib.views import events
from chalicelib.views.events import View
from local.engines.engine import Engine
from local.soak import clients
from local.soak.__main__ import as_text, main
from local.soak.clients import Accepted, Pair, Storm
from local.soak.soak import Soak, compare
from local.soak.target import Target
from tests.support.tables import fresh_table

pytestmark = pytest.mark.long

PAGE, TIME = "https://www.example.org/0", "2026-11-21T10:00:00+00:00"


@pytest.mark.parametrize("minutes", [0.1, pytest.param(1, marks=pytest.mark.long)])
def test_nothing_is_lost_when_the_product_is_killed_under_load(minutes: float) -> None:
    ran = CliRunner().invoke(main, ["--minutes", str(minutes), "--rate", "10", "--json"])
    assert ran.exit_code == 0, ran.output
    said = json.loads(ran.stdout)
    assert said["met"]
    rows = said["figures"]
    assert rows["kills"] >= 1
    assert any(name.startswith("requests: storm: ") for name in rows)
    assert rows["requests: views"] > 0


def test_the_audit_of_a_soak_names_what_is_lost_and_what_is_too_much(engine: Engine) -> None:
    kept = View(PAGE, times.parse(TIME), "kept")
    accepted = Accepted(views={PAGE: {(TIME, "kept"), (TIME, "lost")}}, scores={"ann": {"1": 7}})
    with fresh_table(engine) as (table, _):
        table.put(dict(events.event_key(kept)._asdict()))
        table.put(dict(events.event_key(kept._replace(client="nobody sent it"))._asdict()))
        table.put(scores.activity_key("soak", "ann", "1")._asdict())
        table.put(scores.score_key("soak", 1, "ann")._asdict() | {"score": 14})
        missing, surplus = compare(table, accepted)
    assert missing == {
        events.event_key(kept._replace(client="lost")),
        scores.score_key("soak", 1, "ann"),  # 7, and not 14
    }
    assert surplus == {events.event_key(kept._replace(client="nobody sent it"))}


def test_a_soak_is_shown_with_its_targets_and_errors() -> None:
    missed = Target("ms", 2, 1, strict=False)
    shown = as_text(
        Soak("How.", [("lag, seconds", 0.123)], ["5 │█"], [Target("lost", 1, 0), missed], ["a 500"])
    )
    assert shown.splitlines() == [
        *("How.", "", "lag, seconds: 0.12", "", "5 │█", "", "target MISSED: lost is 1, at most 0"),
        *("target missed, for information: ms is 2, at most 1", "error: a 500"),
    ]


PRODUCT: Any = SimpleNamespace(port=1, socket_port=1)


def storm(monkeypatch: pytest.MonkeyPatch, status: int, body: Any) -> list[str]:
    """Send a storm of reads and scores to a product that always responds the same; return what is noted."""
    caller = SimpleNamespace(send=lambda *request: (status, body))
    monkeypatch.setattr(clients, "Caller", lambda product: caller)
    accepted = Accepted()
    Storm(PRODUCT, accepted, threading.Lock(), threading.Event())._around()
    return accepted.wrong


def test_a_wrong_response_in_a_storm_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert storm(monkeypatch, 200, {"items": [{"player": "ann"}, {"player": "bob"}]}) == []
    assert any("listed twice" in one for one in storm(monkeypatch, 200, {"items": [{"player": "ann"}] * 2}))
    assert any("503" in one for one in storm(monkeypatch, 503, {}))


@pytest.mark.parametrize("is_early", [True, False])
def test_a_message_before_partner_connected_is_noted(is_early: bool) -> None:
    connected, message = {"type": "system", "code": "partner_connected"}, {"type": "message", "text": "hello"}
    frames = iter(map(json.dumps, [message, connected] if is_early else [connected, message]))

    def receive(timeout: float) -> str:
        for frame in frames:
            return frame
        raise TimeoutError

    socket: Any = SimpleNamespace(send=lambda text: None, recv=receive)
    stop = threading.Event()
    stop.set()
    pair = Pair(PRODUCT, 1, stop)
    pair._talk(socket, socket)
    assert (pair.early, pair.received) == (int(is_early), 1)
