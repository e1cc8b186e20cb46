"""Each invocation prints its metrics as one line, without any personal data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

import app
from chalicelib.api import router
from chalicelib.errors import Busy
from chalicelib.settings import Settings
from chalicelib.telemetry import metrics
from chalicelib.views import events as views
from chalicelib.views.events import View
from tests.support.faults import instead
from tests.support.records import record
from tests.support.site import Site
from tests.views.test_views import PAGE


@pytest.fixture(autouse=True)
def printed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Metrics as a deployed function prints them, without those of other tests."""
    monkeypatch.setenv("POWERTOOLS_METRICS_DISABLED", "false")
    use_size(monkeypatch, is_full=True)
    metrics.publish()
    yield
    metrics.publish()


def use_size(monkeypatch: pytest.MonkeyPatch, *, is_full: bool) -> None:
    stage = app.stage._replace(is_full=is_full)
    monkeypatch.setattr(metrics, "current", lambda: stage)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    return [line for line in printed if "_aws" in line]


def test_metrics_have_one_value_of_one_dimension(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """Each value is a metric that CloudWatch bills: Amazon CloudWatch pricing, custom metrics."""
    capsys.readouterr()
    site.get(f"/views?url={PAGE}")
    assert lines(capsys) == [], "API Gateway counts requests, and measures them, free of charge"
    assert site.post({"url": PAGE, "time": datetime.now(UTC).isoformat(), "clientId": "c"})[0] == 202
    [line] = lines(capsys)
    [directive] = line["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Hubbub/local"
    assert directive["Dimensions"] == [["service"]]
    assert (line["service"], line["ViewsAccepted"]) == ("hubbub", [1.0])
    assert PAGE not in json.dumps(line)


def test_a_small_stage_publishes_few_metrics_and_only_what_is_not_zero(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_size(monkeypatch, is_full=False)
    assert len(metrics.SMALL) <= 5
    capsys.readouterr()
    assert site.post({"url": PAGE, "time": datetime.now(UTC).isoformat(), "clientId": "c"})[0] == 202
    app.apply({"Records": []}, None)
    assert lines(capsys) == []
    app.apply({"Records": [record(None, {"pk": "PLAYER#p", "sk": "BOARD#b#1", "score": "many"})]}, None)
    [line] = lines(capsys)
    assert line["Quarantined"] == [1.0]
    assert [metric["Name"] for metric in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]] == ["Quarantined"]


def test_accepted_and_applied_views_are_counted(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    events = [{"url": PAGE, "time": "2020-01-01T00:00:00Z", "clientId": "old"}, {"url": "no"}]
    assert site.post({"events": events})[0] == 202
    [line] = lines(capsys)
    assert (line["ViewsAccepted"], line["ViewsRejected"]) == ([0.0], [2.0])
    broken = {"pk": "PLAYER#p", "sk": "BOARD#b#1", "score": "many"}
    app.apply({"Records": [record(None, broken)]}, None)
    [line] = lines(capsys)
    assert (line["Quarantined"], line["Applied"]) == ([1.0], [0.0])


def test_a_failed_attempt_is_counted_by_its_cause(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = site.table
    monkeypatch.setattr(table, "_pause", lambda _: None)
    conflict = ClientError({"Error": {"Code": "TransactionConflictException"}}, "UpdateItem")
    throttle = ClientError({"Error": {"Code": "ThrottlingException"}}, "T")
    view = views.build_item(View(PAGE, datetime.now(UTC), "c"), Settings())
    capsys.readouterr()
    with instead(table, "UpdateItem", conflict, throttle, throttle):
        app.apply({"Records": [record(None, view)]}, None)
    [line] = lines(capsys)
    assert [line[name] for name in ("Conflicts", "Throttles", "Applied")] == [[1], [2], [1]]
    with instead(table, "UpdateItem", *[conflict] * 999) as calls, pytest.raises(Busy):
        app.apply({"Records": [record(None, view)]}, None)
    [line] = lines(capsys)
    assert line["Conflicts"] == [float(len(calls))]
    assert "Applied" not in line
    lost = EndpointConnectionError(endpoint_url="x")
    with instead(table, "UpdateItem", lost):
        app.apply({"Records": [record(None, view)]}, None)
    assert [line["Unreachable"] for line in lines(capsys)] == [[1.0]]


def test_an_invocation_that_counts_nothing_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    metrics.publish()
    assert lines(capsys) == []
    metrics.count(Pairs=1)
    metrics.publish()
    assert [line["Pairs"] for line in lines(capsys)] == [[1.0]]


def test_every_parameter_of_a_call_that_an_admin_may_make_is_logged_or_left_out_on_purpose() -> None:
    """A new parameter that names a person belongs to router.UNLOGGED."""
    paths = [route.path for route in app.router.routes if route.access != "public"]
    named = {name for path in paths for name in re.findall("{(.*?)}", path)}
    assert named - {*router.UNLOGGED} == {"board", "challenge", "id", "product", "reply", "site"}
