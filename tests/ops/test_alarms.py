"""Alarms and the dashboard use metrics that exist, and the runbook has a section for each alarm."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from local.engines.engine import Engine
from tests.support.running import until

ROOT = Path(__file__).parents[2]
TEMPLATE = yaml.safe_load((ROOT / ".chalice" / "resources.yaml").read_text())["Resources"]
ALARMS = {
    re.sub(r"hubbub-\$\{Stage\}-", "", one["Properties"]["AlarmName"]["Fn::Sub"]): one["Properties"]
    for one in TEMPLATE.values()
    if one["Type"] == "AWS::CloudWatch::Alarm"
}
# AWS's own metrics, by namespace.
OF_AWS = {
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
    return names | {"Conflicts", "Throttles"}  # the code chooses one of these by the error


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
        dimensions = {one["Name"]: text(one["Value"]) for one in alarm["Dimensions"]}
        assert len(dimensions) == 1 or set(dimensions) == {"TableName", "GlobalSecondaryIndexName"}
        if "FunctionName" in dimensions:
            assert dimensions["FunctionName"] in functions()


def throttles(metrics: list[tuple[str, dict[str, str]]]) -> set[tuple[str, str]]:
    """Return each throttling metric with an alarm and its index, which is empty for the table."""
    return {
        (name, dimensions.get("GlobalSecondaryIndexName", ""))
        for name, dimensions in metrics
        if name.endswith("ThrottleEvents") and dimensions["TableName"] == "hubbub-${Stage}"
    }


def test_throttling_of_the_table_and_of_every_index_is_watched() -> None:
    """DynamoDB counts an index's throttles under its own dimension, and not with the table's.

    Source: Amazon DynamoDB Developer Guide, DynamoDB metrics and dimensions, GlobalSecondaryIndexName.
    """
    indexes = [one["IndexName"] for one in TEMPLATE["Table"]["Properties"]["GlobalSecondaryIndexes"]]
    watched = {
        (name, index) for name in ("WriteThrottleEvents", "ReadThrottleEvents") for index in ("", *indexes)
    }
    alarms = [
        (str(one["MetricName"]), {part["Name"]: text(part["Value"]) for part in one["Dimensions"]})
        for one in ALARMS.values()
    ]
    assert throttles(alarms) == watched
    body = json.loads(TEMPLATE["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"])
    rows = [
        [part for part in metric if isinstance(part, str)]
        for widget in body["widgets"]
        for metric in widget["properties"]["metrics"]
    ]
    shown = [
        (row[1], dict(zip(row[2::2], row[3::2], strict=True))) for row in rows if row[0] == "AWS/DynamoDB"
    ]
    assert throttles(shown) == watched


def test_the_dashboard_is_json_and_shows_metrics_that_are_published() -> None:
    body = json.loads(TEMPLATE["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"])
    shown = [metric for widget in body["widgets"] for metric in widget["properties"]["metrics"]]
    for namespace, name, *_ in (metric for metric in shown if metric[0] != "..."):
        assert name in OF_AWS.get(namespace, ours()), name
    places = [(widget["x"], widget["y"]) for widget in body["widgets"]]
    assert len(set(places)) == len(places) > 8


def test_cloudformation_makes_alarms_dashboard_and_topic_in_one_stack(account: Engine) -> None:
    cloudformation, cloudwatch = account.client("cloudformation"), account.client("cloudwatch")
    cloudformation.create_stack(
        StackName="watched",
        TemplateBody=(ROOT / ".chalice" / "resources.yaml").read_text(),
        Parameters=[
            {"ParameterKey": "Stage", "ParameterValue": "watched"},
            {"ParameterKey": "AlarmEmail", "ParameterValue": "operator@example.org"},
        ],
    )

    def status() -> str:
        return str(cloudformation.describe_stacks(StackName="watched")["Stacks"][0]["StackStatus"])

    try:
        until(lambda: not status().endswith("IN_PROGRESS"), "the stack is made")
        assert status() == "CREATE_COMPLETE", cloudformation.describe_stack_events(StackName="watched")
        alarms = cloudwatch.describe_alarms(AlarmNamePrefix="hubbub-watched-")["MetricAlarms"]
        assert {one["AlarmName"].removeprefix("hubbub-watched-") for one in alarms} == set(ALARMS)
        [topic] = {action for one in alarms for action in one["AlarmActions"]}
        [told] = account.client("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
        assert (told["Protocol"], told["Endpoint"]) == ("email", "operator@example.org")
        board = json.loads(cloudwatch.get_dashboard(DashboardName="hubbub-watched")["DashboardBody"])
        assert "hubbub-watched" in json.dumps(board)
        assert "${" not in json.dumps(board)
    finally:
        cloudformation.delete_stack(StackName="watched")
        dynamodb = account.client("dynamodb")  # the stack leaves the table
        dynamodb.update_table(TableName="hubbub-watched", DeletionProtectionEnabled=False)
        dynamodb.delete_table(TableName="hubbub-watched")
