"""Alarms and the dashboard use metrics that exist, and the runbook has a section for each alarm."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

import app
from chalicelib.telemetry.metrics import SMALL
from local.engines.engine import Engine
from ops.aws import chalice_config
from ops.aws.template import read_template
from tests.support.running import until

ROOT = Path(__file__).parents[2]
TEMPLATE = yaml.safe_load((ROOT / ".chalice" / "resources.yaml").read_text())["Resources"]
ALARMS = {
    re.sub(r"hubbub-\$\{Stage\}-", "", resource["Properties"]["AlarmName"]["Fn::Sub"]): resource["Properties"]
    for resource in TEMPLATE.values()
    if resource["Type"] == "AWS::CloudWatch::Alarm"
}
# AWS's own metrics, by namespace.
OF_AWS = {
    "AWS/ApiGateway": {"Count", "Latency", "5XXError"},
    "AWS/Lambda": {"IteratorAge", "Errors", "Throttles"},
    "AWS/SQS": {"ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"},
    "AWS/DynamoDB": {
        *("WriteThrottleEvents", "ReadThrottleEvents"),
        *("ConsumedWriteCapacityUnits", "ConsumedReadCapacityUnits"),
    },
}


def ours() -> set[str]:
    """Return the name of every metric that the app's code counts."""
    code = "\n".join(path.read_text() for path in (ROOT / "chalicelib").rglob("*.py"))
    counted = re.findall(r"metrics\.count\((.*?)\)\n", code, re.DOTALL)
    names = set(re.findall(r"\b([A-Z][A-Za-z]+)=", "\n".join(counted)))
    return names | {"Conflicts", "Throttles", "Unreachable"}  # the code chooses one of these by the error


def functions() -> set[str]:
    """Return the names that Chalice gives to the stage's functions."""
    config = json.loads((ROOT / ".chalice" / "config.json").read_text())
    names = config["stages"]["dev"]["lambda_functions"]
    return {"hubbub-${Stage}"} | {f"hubbub-${{Stage}}-{name}" for name in names if name != "api_handler"}


def text(value: Any) -> str:
    return str(value["Fn::Sub"] if isinstance(value, dict) else value)


def test_every_alarm_is_on_a_metric_that_is_published() -> None:
    assert len(ALARMS) > 10
    for alarm in ALARMS.values():
        namespace = text(alarm["Namespace"])
        names = OF_AWS.get(namespace, ours())
        assert alarm["MetricName"] in names, alarm
        assert namespace in OF_AWS or namespace == "Hubbub/${Stage}"
        dimensions = {dimension["Name"]: text(dimension["Value"]) for dimension in alarm["Dimensions"]}
        assert len(dimensions) == 1 or set(dimensions) == {"TableName", "GlobalSecondaryIndexName"}
        if "FunctionName" in dimensions:
            assert dimensions["FunctionName"] in functions()


def test_a_small_stage_has_the_five_alarms_that_are_worth_waking_for() -> None:
    always = {
        re.sub(r"hubbub-\$\{Stage\}-", "", resource["Properties"]["AlarmName"]["Fn::Sub"])
        for resource in TEMPLATE.values()
        if resource["Type"] == "AWS::CloudWatch::Alarm" and "Condition" not in resource
    }
    assert always == {"server-errors", "stream-lag", "stream-failures", "quarantine", "throttles"}
    assert {
        resource["MetricName"] for resource in ALARMS.values() if "Hubbub" in text(resource["Namespace"])
    } <= SMALL


def test_a_probe_that_does_not_run_is_an_alarm() -> None:
    """A disabled or missing mapping publishes no IteratorAge, and missing data was fine: Amazon CloudWatch
    User Guide, "Configuring how CloudWatch alarms treat missing data"."""
    lag = ALARMS["stream-lag"]
    assert (lag["TreatMissingData"], lag["ComparisonOperator"]) == ("breaching", "GreaterThanThreshold")
    assert text(lag["Dimensions"][0]["Value"]) == "hubbub-${Stage}-probe"
    others = {name for name, resource in ALARMS.items() if resource["TreatMissingData"] != "notBreaching"}
    assert others == {"stream-lag"}


def test_the_apis_of_two_stages_have_metrics_of_their_own() -> None:
    """API Gateway's metrics have the API's name: API Gateway Developer Guide, metrics and dimensions."""
    assert text(ALARMS["server-errors"]["Dimensions"][0]["Value"]) == "hubbub-${Stage}"
    assert app.app.app_name == "hubbub-local"


def test_a_percentile_of_few_requests_is_no_alarm() -> None:
    """Amazon CloudWatch User Guide, "Percentile-based alarms and low data samples"."""
    assert ALARMS["slow-answers"]["EvaluateLowSampleCountPercentile"] == "ignore"


def test_the_dashboard_is_json_and_shows_metrics_that_are_published() -> None:
    body = json.loads(TEMPLATE["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"])
    shown = [metric for widget in body["widgets"] for metric in widget["properties"]["metrics"]]
    for namespace, name, *_ in (metric for metric in shown if metric[0] != "..."):
        assert name in OF_AWS.get(namespace, ours()), name
    places = [(widget["x"], widget["y"]) for widget in body["widgets"]]
    assert len(set(places)) == len(places) > 8


def test_cloudformation_makes_alarms_dashboard_and_topic_in_one_stack(account: Engine) -> None:
    functions = chalice_config.read(ROOT)["stages"]["dev"]["lambda_functions"]
    cloudformation, cloudwatch = account.client("cloudformation"), account.client("cloudwatch")
    cloudformation.create_stack(
        StackName="watched",
        TemplateBody=json.dumps(read_template(functions)),
        Parameters=[
            {"ParameterKey": "Stage", "ParameterValue": "watched"},
            {"ParameterKey": "TableName", "ParameterValue": "hubbub-watched"},
            {"ParameterKey": "AlarmEmail", "ParameterValue": "operator@example.org"},
            {"ParameterKey": "Size", "ParameterValue": "full"},
            {"ParameterKey": "Queue", "ParameterValue": "on"},
        ],
    )

    def status() -> str:
        return str(cloudformation.describe_stacks(StackName="watched")["Stacks"][0]["StackStatus"])

    try:
        until(lambda: not status().endswith("IN_PROGRESS"), "the stack is made")
        assert status() == "CREATE_COMPLETE", cloudformation.describe_stack_events(StackName="watched")
        alarms = cloudwatch.describe_alarms(AlarmNamePrefix="hubbub-watched-")["MetricAlarms"]
        assert {alarm["AlarmName"].removeprefix("hubbub-watched-") for alarm in alarms} == set(ALARMS)
        [topic] = {action for alarm in alarms for action in alarm["AlarmActions"]}
        [told] = account.client("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
        assert (told["Protocol"], told["Endpoint"]) == ("email", "operator@example.org")
        board = json.loads(cloudwatch.get_dashboard(DashboardName="hubbub-watched")["DashboardBody"])
        assert "hubbub-watched" in json.dumps(board)
        [budget] = account.client("budgets").describe_budgets(AccountId="000000000000")["Budgets"]
        assert (budget["BudgetName"], float(budget["BudgetLimit"]["Amount"])) == ("hubbub-watched", 5)
        assert "${" not in json.dumps(board)
    finally:
        cloudformation.delete_stack(StackName="watched")
        dynamodb = account.client("dynamodb")  # the stack leaves the table
        dynamodb.update_table(TableName="hubbub-watched", DeletionProtectionEnabled=False)
        dynamodb.delete_table(TableName="hubbub-watched")
