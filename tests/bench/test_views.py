"""The view bench: exact costs, conflicts as on AWS, no lost view, and the printed tables."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError
from click.testing import CliRunner

from bench import views as bench
from bench.__main__ import main
from bench.profile import import_report
from bench.report import Report
from bench.views import BOUNDS, BUSY, HOT, SCENARIOS, Cost, Scenario
from chalicelib.dynamo.table import Table as HubbubTable
from chalicelib.settings import Settings
from chalicelib.views import events
from chalicelib.views.events import View
from local.engines.conflicts import InFlight
from local.engines.engine import ROOT, Engine
from local.soak.target import Target
from ops.aws.template import Table
from ops.maintenance.audit import find_drift, scan

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

pytestmark = pytest.mark.long

# --- capacity ---

COSTS = [
    Cost(1, 0.04, 0.03, 0.02),
    Cost(1, 0.08, 0.05, 0.02),
    Cost(2, 0.16, 0.05, 0.02),
    Cost(2, 0.12, 0.05, 0.02),
    Cost(3, 0.28, 0.11, 0.06),
    Cost(1, 0, 1, 0),
    Cost(1, 0, 2, 0),
    Cost(2, 0, 2, 0),
    Cost(2, 0, 2, 0),
    Cost(3, 0.12, 2.05, 0.02),
    Cost(1, 0.04, 0.03, 0.02),
    Cost(1, 0, 1, 0),
    Cost(1, 0, 2, 0),
    Cost(2, 0, 2, 0),
    Cost(2, 0, 2, 0),
    Cost(3, 0, 4, 0),
]


@pytest.mark.long  # test_costs.py has the same in little
@pytest.mark.parametrize(
    ("scenario", "cost"), list(zip(SCENARIOS, COSTS, strict=True)), ids=range(len(COSTS))
)
def test_a_view_costs_exactly_this(ministack: Engine, scenario: Scenario, cost: Cost) -> None:
    assert bench.cost(ministack, scenario) == pytest.approx(cost, abs=0.0001)


def test_a_cost_does_not_depend_on_the_second_of_its_measurement(
    ministack: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_second = time.time() // 60 * 60 + 59
    monkeypatch.setattr(bench, "time", SimpleNamespace(time=lambda: last_second))
    assert bench.cost(ministack, SCENARIOS[9]) == pytest.approx(COSTS[9], abs=0.0001)


def test_a_view_of_a_hot_page_costs_at_most_1_1_write_units(ministack: Engine) -> None:
    assert bench.cost(ministack, HOT).total <= BOUNDS[HOT] == 1.1


@pytest.mark.long
def test_ten_batches_in_a_second_cost_little_more_than_one(ministack: Engine) -> None:
    assert bench.cost(ministack, BUSY) == pytest.approx(Cost(1, 0.14, 0.029, 0.018), abs=0.0001)


@pytest.mark.parametrize("pages", [1, 100])
def test_the_published_design_costs_four_write_units_a_view(ministack: Engine, pages: int) -> None:
    assert bench.published_cost(ministack, HOT._replace(pages=pages)) == 4


# --- conflicts ---

Call = Callable[["DynamoDBClient"], Any]


@pytest.fixture
def hubbub(dev_table: Table) -> str:
    return dev_table.name


@pytest.fixture
def in_flight(hubbub: str) -> InFlight:
    return InFlight()


@pytest.fixture
def client(in_flight: InFlight) -> Iterator[DynamoDBClient]:
    attached = boto3.client("dynamodb")
    with in_flight.attached(attached):
        yield attached


@pytest.fixture
def other(in_flight: InFlight) -> Iterator[DynamoDBClient]:
    attached = boto3.client("dynamodb")
    with in_flight.attached(attached):
        yield attached


def item(sk: str) -> dict[str, Any]:
    return {"pk": {"S": "P"}, "sk": {"S": sk}}


def transaction(
    table_name: str, *sks: str, condition: str = "attribute_exists(pk) OR attribute_not_exists(pk)"
) -> Call:
    actions: Any = [
        {"Put": {"TableName": table_name, "Item": item(sk), "ConditionExpression": condition}} for sk in sks
    ]
    return lambda dynamodb: dynamodb.transact_write_items(TransactItems=actions)


def refusal(first: Call, client: DynamoDBClient, second: Call, other: DynamoDBClient) -> ClientError | None:
    """Make the second call, through another client, while the first is under way; return its error."""
    errors: list[ClientError | None] = []

    def meanwhile(**_: object) -> None:
        try:
            second(other)
        except ClientError as error:
            errors.append(error)
        else:
            errors.append(None)

    client.meta.events.register("before-call.dynamodb", meanwhile)
    try:
        first(client)
    finally:
        client.meta.events.unregister("before-call.dynamodb", meanwhile)
    [error] = errors
    return error


def test_a_transaction_on_an_item_of_another_one_is_cancelled_and_says_which(
    hubbub: str, client: DynamoDBClient, other: DynamoDBClient, in_flight: InFlight
) -> None:
    error: Any = refusal(transaction(hubbub, "A", "B"), client, transaction(hubbub, "C", "B"), other)
    assert isinstance(error, other.exceptions.TransactionCanceledException)
    assert [reason["Code"] for reason in error.response["CancellationReasons"]] == [
        "None",
        "TransactionConflict",
    ]
    assert in_flight.refused == 1  # so the SDK has not tried again
    assert {one["sk"] for one in scan(client, hubbub) if one["pk"] == "P"} == {"A", "B"}


@pytest.mark.parametrize(
    "write",
    [
        lambda name, sk: lambda dynamodb: dynamodb.put_item(TableName=name, Item=item(sk)),
        lambda name, sk: lambda dynamodb: dynamodb.delete_item(TableName=name, Key=item(sk)),
        lambda name, sk: (
            lambda dynamodb: dynamodb.update_item(
                TableName=name, Key=item(sk), UpdateExpression="REMOVE nothing"
            )
        ),
        lambda name, sk: (
            lambda dynamodb: dynamodb.batch_write_item(
                RequestItems={name: [{"PutRequest": {"Item": item(sk)}}]}
            )
        ),
    ],
    ids=["put", "delete", "update", "batch"],
)
def test_a_plain_write_is_refused_on_an_item_of_a_transaction_and_on_no_other(
    hubbub: str, client: DynamoDBClient, other: DynamoDBClient, write: Callable[[str, str], Call]
) -> None:
    error = refusal(transaction(hubbub, "A", "B"), client, write(hubbub, "B"), other)
    assert error is not None
    assert error.response["Error"]["Code"] == "TransactionConflictException"
    assert refusal(transaction(hubbub, "A", "B"), client, write(hubbub, "C"), other) is None


def test_a_plain_write_under_way_cancels_no_transaction(
    hubbub: str, client: DynamoDBClient, other: DynamoDBClient
) -> None:
    put: Call = lambda dynamodb: dynamodb.put_item(TableName=hubbub, Item=item("A"))  # noqa: E731
    assert refusal(put, client, transaction(hubbub, "A"), other) is None


def test_an_item_is_free_again_once_its_transaction_has_ended_or_failed(
    hubbub: str, client: DynamoDBClient, other: DynamoDBClient, in_flight: InFlight
) -> None:
    transaction(hubbub, "A")(client)
    with pytest.raises(client.exceptions.TransactionCanceledException):
        transaction(hubbub, "A", condition="attribute_not_exists(pk)")(client)
    once = Config(retries={"mode": "standard", "total_max_attempts": 1})
    unreachable = boto3.client("dynamodb", config=once)
    unreachable.meta.events.register("before-send.dynamodb", fail)
    with in_flight.attached(unreachable), pytest.raises(EndpointConnectionError):
        transaction(hubbub, "A")(unreachable)
    transaction(hubbub, "A")(other)
    assert in_flight.refused == 0


def fail(**_: object) -> None:
    raise EndpointConnectionError(endpoint_url="http://nowhere")


def test_hubbub_waits_a_conflict_out(
    hubbub: str, client: DynamoDBClient, other: DynamoDBClient, in_flight: InFlight
) -> None:
    begun, release = threading.Event(), threading.Event()

    def hold(**_: object) -> None:
        begun.set()
        release.wait(10)

    def pause(_: float) -> None:
        release.set()
        holder.join(10)

    other.meta.events.register("before-call.dynamodb", hold)
    holder = threading.Thread(target=transaction(hubbub, "A"), args=(other,))
    holder.start()
    begun.wait(10)
    table = HubbubTable(hubbub, client, pause)
    assert table.transact([{"Put": {"Item": {"pk": "P", "sk": "A", "by": "hubbub"}}}]) == ()
    assert in_flight.refused == 1
    assert {"pk": "P", "sk": "A", "by": "hubbub"} in scan(client, hubbub)


# --- throughput ---


def test_the_published_design_loses_views_to_conflicts_and_ours_loses_none(ministack: Engine) -> None:
    theirs = bench.published_rate(ministack, 0.5, InFlight(latency=0.005))
    single = bench.rate(ministack, 0.5, InFlight(latency=0.005), 1)
    batched = bench.rate(ministack, 0.5, InFlight(latency=0.005), 25)
    assert theirs.lost == theirs.refused > theirs.counted > 0
    assert (single.lost, batched.lost) == (0, 0)
    assert min(single.counted, batched.counted) > 0


def test_one_writer_of_the_published_design_loses_nothing(ministack: Engine) -> None:
    assert bench.published_rate(ministack, 0.3, InFlight(), writers=1).lost == 0


def test_a_recount_finds_an_aggregate_that_is_wrong_missing_or_too_much(hubbub: str) -> None:
    dynamodb = boto3.client("dynamodb")
    table, now = HubbubTable(hubbub, dynamodb), datetime.now(UTC)
    settings = Settings(views_series=False, views_uniques=False, views_sites=False)
    events.write(
        table,
        [View("https://a.org/", now, "c1"), View("https://a.org/", now, "c2")],
        settings,
        now,
    )
    page = events.page_key("https://a.org/")
    contributions = bench.CONTRIBUTIONS
    assert find_drift(contributions, scan(dynamodb, hubbub)) == {
        (page, "above"): (None, 2),
        (page, "gsi1pk"): (None, "SITE#a.org"),
    }
    table.put({**page._asdict(), "gsi1sk": 3, "gsi1pk": "SITE#a.org", "uniques": 1})
    assert find_drift(contributions, scan(dynamodb, hubbub)) == {
        (page, "above"): (3, 2),
        (page, "uniques"): (1, None),
    }


# --- import ---


def test_importing_the_app_makes_no_client() -> None:
    forbid = "import boto3; boto3.client = boto3.resource = boto3.session.Session.client = None; import app"
    environment = {"AWS_DEFAULT_REGION": "us-east-1", "HUBBUB_STAGE": "local"}
    subprocess.run([sys.executable, "-c", forbid], cwd=ROOT, env=environment, check=True, timeout=300)


def test_the_import_target_compares_what_ends_with_a_client() -> None:
    [target] = import_report((0.2, 0.15, 0.26), 3).targets
    assert target.measured == pytest.approx(1.3)
    assert (target.bound, target.strict, target.met) == (1.25, True, False)


# --- what is printed ---


def test_a_missed_target_decides_only_when_it_is_strict() -> None:
    missed = Target("times", 2, 5, at_most=False)
    assert not Report(targets=[missed]).met
    assert Report(targets=[missed._replace(strict=False)]).met
    assert Target("bound", 5, 5).met


def test_the_json_has_method_figures_and_targets() -> None:
    said = json.loads(Report(["how"], targets=[Target("WCU", 1.1, 1.3)]).as_json())
    assert (said["method"], said["met"], said["targets"][0]["met"]) == (["how"], True, True)


@pytest.mark.parametrize(("measured", "code"), [(1.1, 0), (1.4, 1)])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_command_exits_with_1_when_a_target_is_missed(
    ministack: Engine, monkeypatch: pytest.MonkeyPatch, measured: float, code: int, options: list[str]
) -> None:
    told = Report(["how"], targets=[Target("WCU", measured, 1.3)])
    monkeypatch.setattr("bench.views.measure", lambda engine, quick: told)
    ran = CliRunner().invoke(main, ["views", "--engine", ministack.endpoint, *options])
    assert ran.exit_code == code
    assert "how" in ran.output


def test_an_unknown_engine_is_an_error_that_names_those_there_are() -> None:
    ran = CliRunner().invoke(main, ["views", "--engine", "postgres"])
    assert (ran.exit_code, "use dynoxide, ministack or a URL" in ran.output) == (1, True)


def test_help_imports_nothing_that_is_measured() -> None:
    script = "import sys; from bench.__main__ import main; main(['views', '--help'], standalone_mode=False); "
    script += "print({'boto3', 'chalice', 'rich', 'app'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.strip().endswith("set()")
