"""A bill uses units that this test measures again, and prices with a publication date."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from local.engines.engine import Engine
from ops import costs
from ops.cli.main import main
from ops.stage import ROOT
from tests.support import units
from tests.support.operations import UNITS

WRITTEN = json.loads((costs.HERE / "units.json").read_text())
QUICK = {"count of a page", "top ten", "statistics of a product"}


def run(*options: str) -> Any:
    done = CliRunner().invoke(main, ["cost", *options])
    assert done.exit_code == 0, done.output
    return done


def bill(*options: str) -> Any:
    return json.loads(run(*options, "--json").stdout)


def lines(found: Any, feature: str) -> dict[str, float]:
    return {line["what"]: line["amount"] for line in found["lines"] if line["feature"] == feature}


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in UNITS],
)
def test_an_operation_consumes_the_units_in_units_json(engine: Engine, name: str) -> None:
    assert units.compare(units.measure(engine, name), WRITTEN[name]) == {}


def test_every_operation_is_written_down_and_no_other() -> None:
    assert list(WRITTEN) == list(UNITS)


def test_the_writes_of_the_table_of_access_patterns_are_those_that_are_measured() -> None:
    """The two documents were made apart: a view, a path and a message cost what ops/table.md says.

    A view and a path cost 1 WCU more, for the limit of their sender.
    """
    assert WRITTEN["view, returning visitor"]["write"] == 1 + 3  # the event, and the visitor of page and site
    assert (WRITTEN["path"]["write"], WRITTEN["path"]["read"]) == (1 + 4, 4)
    assert (WRITTEN["count of a page"]["read"], WRITTEN["message"]["write"]) == (0.5, 1)


def test_a_million_views_cost_the_sum_of_their_units() -> None:
    found = bill("--views", "1M", "--returning", "0", "--counts", "0")
    unit = WRITTEN["view, new visitor"]
    each = unit["write"] + unit["stream"]["1"]["write"]
    views = lines(found, "views")
    assert views["write"] == pytest.approx(1e6 * each)
    assert views["request"] == 1e6
    written = next(line for line in found["lines"] if (line["feature"], line["what"]) == ("views", "write"))
    assert written["usd"] == pytest.approx(each * 0.625)
    assert found["usd"] == pytest.approx(sum(line["usd"] for line in found["lines"]))
    assert found["features"]["views"] < found["usd"] == pytest.approx(sum(found["features"].values()))


def test_a_busier_site_pays_less_for_each_and_twice_as_much_is_twice_the_price() -> None:
    million = bill("--views", "1M")["features"]["views"]
    assert bill("--views", "1000k", "--batch", "100")["features"]["views"] < 0.7 * million
    assert bill("--views", "2M")["features"]["views"] == pytest.approx(2 * million)
    assert bill("--views", "1M", "--queue")["features"]["views"] > million


def test_each_feature_has_its_own_lines() -> None:
    found = bill("--players", "50k", "--paths", "10k", "--comments", "1k", "--chats", "2k", "--minutes", "5")
    assert set(found["features"]) == {"leaderboards", "challenges", "comments", "chat", "always"}
    assert lines(found, "leaderboards")["request"] == 50_000 * 20 * 3
    assert lines(found, "challenges")["request"] == 20_000
    assert lines(found, "comments")["request"] == 51_000
    chat = lines(found, "chat")
    assert (chat["minute"], chat["frame"]) == (2_000 * 2 * 5, 2_000 * 6 + 40_000 * 2)
    assert "request" not in chat


def test_an_idle_stage_costs_nothing_but_its_probe() -> None:
    """Its alarms, invocations and logs are within AWS's always-free tier: https://aws.amazon.com/free."""
    found = bill()
    assert set(found["features"]) == {"always"}
    always = lines(found, "always")
    assert always["alarm"] == 5
    assert not {"acl", "dashboard", "message", "metric", "rule"} & set(always)
    assert always["invocation"] == 2 * 8_640 + 43_200  # the probe and its record, the sweep
    assert found["usd"] < 1
    free = bill("--free-tier")
    assert set(lines(free, "always")) == {"write", "read"}
    assert free["usd"] < 0.03
    without = bill("--no-chat")
    assert lines(without, "always")["invocation"] == 2 * 8_640


def test_thirty_thousand_views_cost_what_the_readme_says() -> None:
    usd = bill("--views", "30k", "--free-tier")["usd"]
    readme = (ROOT / "README.md").read_text()
    assert f"about USD {usd:.2f} for 30,000 views a month, and 0.02 at rest" in " ".join(readme.split())
    assert costs.describe_idle(costs.Assumed()).startswith("at rest about USD 0.02 a month")


def test_three_example_sites_pay_less_than_for_their_usual_choice() -> None:
    command = [sys.executable, "-m", "bench", "sites"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| a ")]
    assert len(rows) == 3
    for row in rows:
        usd, rest, price = float(row[1]), float(row[2]), float(row[5].strip(" |"))
        assert rest < 0.02 < usd < price
        assert " | ".join(row) in (ROOT / "bench" / "RESULTS.md").read_text()


def test_a_submission_that_returns_the_rank_is_cheaper_than_two_requests() -> None:
    two = bill("--scores", "1M", "--ranks", "1M")["features"]["leaderboards"]
    found = bill("--scores", "1M", "--standings", "1M", "--ranks", "0")["features"]["leaderboards"]
    assert found < 0.75 * two


def test_a_full_stage_and_a_queue_pay_for_alarms_metrics_and_polling() -> None:
    always = lines(bill("--size", "full", "--queue"), "always")
    assert always["alarm"] > 10
    assert always["metric"] == 15
    assert always["message"] == 15 * 43_200  # an idle queue: five pollers, each 20 s a receive
    assert (always["acl"], always["rule"], always["dashboard"]) == (1, 1, 1)
    assert lines(bill("--queue"), "always")["alarm"] == 6


def test_waf_costs_by_the_month_and_by_request() -> None:
    full, small = bill("--views", "1M", "--size", "full"), bill("--views", "1M")
    requests = lines(full, "views")["request"]
    assert lines(full, "views")["inspected"] == requests
    assert not {"acl", "rule", "inspected"} & {line["what"] for line in small["lines"]}
    assert "inspected" not in lines(bill("--chats", "1k", "--size", "full"), "chat")  # not sockets


def test_the_free_tier_is_taken_once_from_the_whole_bill() -> None:
    used = ("--views", "1M", "--players", "10k")
    paid, free = bill(*used), bill(*used, "--free-tier")
    price = costs.load_prices()["prices"]["invocation"]

    def invocations(found: Any) -> float:
        return sum(float(line["amount"]) for line in found["lines"] if line["what"] == "invocation")

    assert invocations(paid) - invocations(free) == pytest.approx(price["free"])
    assert free["usd"] < paid["usd"]


def test_a_view_is_paid_for_again_when_it_expires() -> None:
    """TTL's removals come through the stream, and pass the mapping's filter, as other changes do."""
    unit = WRITTEN["view, new visitor"]
    assert unit["removals"] == 3  # the view, and the visitor of page and site
    views = lines(bill("--views", "1M", "--returning", "0", "--counts", "0"), "views")
    assert views["invocation"] == pytest.approx(1e6 * (1 + unit["records"] + unit["removals"]))


def test_the_bill_prints_the_source_of_each_price_and_all_assumptions() -> None:
    said = run("--views", "1M").stdout
    prices = costs.load_prices()
    for price in prices["prices"].values():
        source, published = price["source"], price["published"]
        assert re.match(r"https://(pricing\.us-east-1\.amazonaws\.com/offers/|aws\.amazon\.com/)", source)
        assert published is None or re.fullmatch(r"20\d\d-\d\d-\d\d", published)
        assert f"{source}, {f'published {published}' if published else 'without a date'}" in said
    assert "could not be read" in prices["note"]
    assert prices["note"] in said
    assert "not measured on AWS" in said
    assert "endpoint is regional" in said
    assert re.search(r"^USD per month +[\d,]+\.\d\d  in us-east-1$", said, re.MULTILINE)


@pytest.mark.parametrize("number", ["", "x", "1kk", "-1", "1e9", "nan"])
def test_a_malformed_number_is_refused(number: str) -> None:
    done = CliRunner().invoke(main, ["cost", "--views", number])
    assert done.exit_code == 2
    assert "1.5M" in done.output
