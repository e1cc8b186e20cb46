"""Read table and queue from `.chalice/resources.yaml`, and create them on engines without CloudFormation.

Invariant: the template is the only definition of the table. CloudFormation creates it on AWS. The local run
and the tests create it from the template with the functions of this module, without a ceiling of write units.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TEMPLATE = Path(__file__).parents[2] / ".chalice" / "resources.yaml"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, where PyYAML has it, is ten times as fast

Properties = dict[str, Any]


def read_yaml(path: Path) -> Properties:
    """Read a template."""
    template: Properties = yaml.load(path.read_text(encoding="utf-8"), LOADER)  # noqa: S506 (both are safe)
    return template


@dataclass(frozen=True)
class Definition:
    """The properties of each resource for one stage, as CloudFormation names them.

    A reference to another resource (`Fn::GetAtt`) is not resolved, because its value is known only when that
    resource exists.
    """

    table: Properties
    views_queue: Properties
    views_dead_letters: Properties


@dataclass(frozen=True)
class Table:
    """An existing table and the ARN of its current stream."""

    name: str
    stream_arn: str


@dataclass(frozen=True)
class Queue:
    """An existing queue."""

    name: str
    url: str
    arn: str


def read_template(functions: Collection[str]) -> Properties:
    """Read the template for a stage with some functions, named as in Chalice's configuration.

    Each function gets a log group with a retention. A group that Lambda creates keeps its lines for ever. The
    alarms of a function that the stage does not have are left out, because they would never see anything.
    """
    template = read_yaml(TEMPLATE)
    names = {function: function_name("${Stage}", function) for function in functions}
    for name, resource in list(template["Resources"].items()):
        watched = {
            dimension["Value"]["Fn::Sub"]
            for dimension in resource["Properties"].get("Dimensions", ())
            if dimension["Name"] == "FunctionName"
        }
        if watched - set(names.values()):
            del template["Resources"][name]
    for function, name in names.items():
        template["Resources"][f"{logical_name(function)}Logs"] = {
            "Type": "AWS::Logs::LogGroup",
            "DeletionPolicy": "Delete",
            "UpdateReplacePolicy": "Delete",
            "Properties": {
                "LogGroupName": {"Fn::Sub": f"/aws/lambda/{name}"},
                "RetentionInDays": {"Ref": "LogDays"},
            },
        }
    return template


def function_name(stage: str, function: str) -> str:
    """Return the name of a function on AWS.

    >>> function_name("dev", "api_handler"), function_name("dev", "apply")
    ('hubbub-dev', 'hubbub-dev-apply')
    """
    return f"hubbub-{stage}" if function == "api_handler" else f"hubbub-{stage}-{function}"


def logical_name(function: str) -> str:
    """Return the name of a function in the template that Chalice packages.

    >>> logical_name("write_views"), logical_name("api_handler")
    ('WriteViews', 'APIHandler')
    """
    return "".join(part.title() for part in function.split("_")).replace("ApiHandler", "APIHandler")


def definition(stage: str, parameters: Mapping[str, str] = MappingProxyType({})) -> Definition:
    """Return the template's resources for a stage, with parameters and conditions resolved.

    Without `parameters` the table has the stage's name, and no ceiling.
    """
    template = read_yaml(TEMPLATE)
    resources, conditions = template["Resources"], template.get("Conditions", {})
    defaults = {"TableName": table_name(stage), "Size": "full", "MaxWriteUnits": "0"}
    values = {**defaults, **parameters, "Stage": stage}
    kept = ("Table", "ViewsQueue", "ViewsDeadLetters")
    return Definition(*(resolve(resources[name]["Properties"], values, conditions) for name in kept))


def read_conditions() -> Properties:
    """Return the template's conditions."""
    conditions: Properties = read_yaml(TEMPLATE)["Conditions"]
    return conditions


def table_name(stage: str) -> str:
    """Return the name of a stage's table, unless the stage has a restored one (HUBBUB_TABLE)."""
    return f"hubbub-{stage}"


def resolve(node: Any, parameters: Mapping[str, str], conditions: Mapping[str, Any]) -> Any:
    """Resolve the intrinsic functions of a template's value.

    Supports the functions that the table and the queues use: `Ref` and `Fn::Sub` of parameters, `Condition`,
    `Fn::If`, `Fn::Equals`, `Fn::Not` and `Fn::Or`. A property whose value is `AWS::NoValue` is left out.
    `Fn::GetAtt` is not resolved.

    Raises: ValueError for any other function.

    >>> resolve({"Fn::Sub": "hubbub-${Stage}"}, {"Stage": "dev"}, {})
    'hubbub-dev'
    >>> resolve({"Fn::If": ["Protected", True, False]}, {}, {"Protected": False})
    False
    >>> resolve({"Ceiling": {"Ref": "AWS::NoValue"}}, {}, {})
    {}
    """
    if isinstance(node, list):
        return [resolve(part, parameters, conditions) for part in node]
    if not isinstance(node, dict):
        return node
    match list(node.items()):
        case [("Ref", "AWS::NoValue")]:
            return None
        case [("Ref", str(name))] if name in parameters:
            return parameters[name]
        case [("Fn::Sub", str(text))]:
            return text.replace("${Stage}", parameters["Stage"])
        case [("Condition", str(name))]:
            return resolve(conditions[name], parameters, conditions)
        case [("Fn::If", [name, then, otherwise])]:
            is_true = resolve(conditions[name], parameters, conditions)
            return resolve(then if is_true else otherwise, parameters, conditions)
        case [("Fn::Equals", parts)]:
            left, right = resolve(parts, parameters, conditions)
            return str(left) == str(right)
        case [("Fn::Not", [part])]:
            return not resolve(part, parameters, conditions)
        case [("Fn::Or", parts)]:
            return any(resolve(parts, parameters, conditions))
        case [("Fn::GetAtt", _)]:
            return node
        case [(str(name), _)] if name == "Ref" or name.startswith("Fn::"):
            raise ValueError(f"{TEMPLATE.name}: unsupported intrinsic function {node}")
    resolved = {key: resolve(value, parameters, conditions) for key, value in node.items()}
    return {key: value for key, value in resolved.items() if value is not None}


def table_request(properties: Properties) -> dict[str, Any]:
    """Return the request that creates a table, without the settings that are calls of their own."""
    separate = ("TimeToLiveSpecification", "PointInTimeRecoverySpecification")
    request = {name: value for name, value in properties.items() if name not in separate}
    # In CloudFormation a view type enables the stream; the API needs StreamEnabled.
    return request | {"StreamSpecification": {"StreamEnabled": True, **properties["StreamSpecification"]}}


def create_table(dynamodb: DynamoDBClient, stage: str, name: str | None = None) -> Table:
    """Create the stage's table, optionally with another `name`, and return it once it is ACTIVE.

    An existing table does not change, except that time to live is enabled. This is a separate call, so an
    interrupted creation is completed. Point-in-time recovery is left out, because a local engine has none.
    """
    properties = definition(stage).table
    name = name or str(properties["TableName"])
    with contextlib.suppress(dynamodb.exceptions.ResourceInUseException):
        dynamodb.create_table(**table_request(properties) | {"TableName": name})
    dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 2, "MaxAttempts": 90})
    # DynamoDB refuses a second change within an hour.
    expiry = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    if expiry["TimeToLiveStatus"] not in ("ENABLED", "ENABLING"):
        specification: Any = properties["TimeToLiveSpecification"]
        dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=specification)
    return Table(name, dynamodb.describe_table(TableName=name)["Table"]["LatestStreamArn"])
