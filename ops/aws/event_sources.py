"""Configure the event source mappings: the stream and the queue that Lambda reads for each function.

`chalice deploy` creates a mapping and sets its batch size. The stream's filters follow from the features. All
other settings are in `.chalice/gateway.yaml`, which `ops package` uses too. This module applies them to
existing mappings. Chalice keeps a mapping as long as its own record has the same stream, so a mapping on a
former stream is detected here and deleted before the next deploy creates a new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chalicelib.feature import filter_patterns
from chalicelib.settings import Settings
from ops.aws import features, provision
from ops.aws.template import function_name, read_conditions, read_yaml, resolve
from ops.waiting import wait_until

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_sqs import SQSClient

GATEWAY = Path(__file__).parents[2] / ".chalice" / "gateway.yaml"
SOURCES = {"apply": ("Apply", "Stream"), "push": ("Push", "Stream"), "write_views": ("WriteViews", "Queue")}
"""The functions with an event source: their names in the template and the property of the source."""

STALE = "which is no longer its source"
TIMEOUT = 300.0  # seconds until a new or changed mapping can be changed again


class Mapping(NamedTuple):
    """The expected settings of a mapping."""

    function: str
    source: str
    settings: dict[str, Any]


class Drift(NamedTuple):
    """A problem with a mapping of a function. `id` is empty for a missing mapping."""

    function: str
    id: str
    problem: str


def expect_mappings(clients: provision.Clients, settings: Settings) -> list[Mapping]:
    """Return the expected mappings of a stage on its current stream and queue."""
    found = provision.find_resources(clients, settings)
    failures = clients.sqs.get_queue_url(QueueName=f"hubbub-{settings.stage}-stream-failures")["QueueUrl"]
    queue_arn = find_queue_arn(clients.sqs, found.queue_url) if found.queue_url else ""
    return expect_mappings_on(settings, found.stream_arn, queue_arn, find_queue_arn(clients.sqs, failures))


def expect_mappings_on(
    settings: Settings, stream_arn: str, queue_arn: str, failures_arn: str
) -> list[Mapping]:
    """Return the expected mappings of a stage on the given sources."""
    template = read_yaml(GATEWAY)
    parameters = {
        "Size": "full" if settings.is_full else "small",
        "Notices": features.notices_parameter(settings),
    }
    sources = {"Stream": stream_arn, "Queue": queue_arn}
    arns = {"StreamFailures": failures_arn}
    mappings = []
    for function, (name, source) in SOURCES.items():
        if not features.has_function(function, settings):
            continue
        [event] = template["Resources"][name]["Properties"]["Events"].values()
        conditions = read_conditions() | template["Conditions"]
        properties = resolve(event["Properties"], parameters, conditions)
        wanted = {key: value for key, value in properties.items() if key != source}
        if source == "Stream":
            wanted["FilterCriteria"] = filter_criteria(function, settings)
        if "DestinationConfig" in wanted:
            target = wanted["DestinationConfig"]["OnFailure"]["Destination"]["Fn::GetAtt"][0]
            wanted["DestinationConfig"] = {"OnFailure": {"Destination": arns[target]}}
        mappings.append(Mapping(function_name(settings.stage, function), sources[source], wanted))
    return mappings


def filter_criteria(function: str, settings: Settings) -> dict[str, Any]:
    """Return the stream's filter for `apply` or `push`, as Lambda takes it.

    Lambda takes five patterns of at most 4,096 characters each: AWS Lambda Developer Guide, "Control which
    events Lambda sends to your function".
    """
    patterns = filter_patterns(features.enabled(settings), function)
    return {"Filters": [{"Pattern": json.dumps(pattern)} for pattern in patterns]}


def find_queue_arn(client: SQSClient, url: str) -> str:
    """Return a queue's ARN."""
    return client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


def find_drift(client: LambdaClient, mappings: Sequence[Mapping]) -> list[Drift]:
    """Return the differences between the existing and the expected mappings, without changes."""
    found = []
    for mapping in mappings:
        there = _list_mappings(client, mapping.function)
        found += [
            Drift(mapping.function, it["UUID"], f"reads {it['EventSourceArn']}, {STALE}")
            for it in there
            if it["EventSourceArn"] != mapping.source
        ]
        own = [it for it in there if it["EventSourceArn"] == mapping.source]
        if not own:
            found.append(Drift(mapping.function, "", f"no mapping on {mapping.source}"))
        for it in own:
            found += [
                Drift(mapping.function, it["UUID"], f"{name} is misconfigured")
                for name in _differing_settings(it, mapping.settings)
            ]
            if it["State"] not in ("Enabled", "Creating", "Enabling", "Updating"):
                found.append(Drift(mapping.function, it["UUID"], f"state {it['State']}"))
    return found


def delete_stale(client: LambdaClient, mappings: Sequence[Mapping]) -> list[Drift]:
    """Delete the mappings on former sources, and return them."""
    found = [mapping for mapping in find_drift(client, mappings) if mapping.problem.endswith(STALE)]
    for mapping in found:
        wait_until_stable(client, mapping.id)
        client.delete_event_source_mapping(UUID=mapping.id)
        wait_until_stable(client, mapping.id)
    return found


def configure(client: LambdaClient, mappings: Sequence[Mapping]) -> list[Drift]:
    """Apply the settings of each mapping, enable it, and return the changed ones. Idempotent."""
    changed = []
    for mapping in mappings:
        for it in _list_mappings(client, mapping.function):
            if it["EventSourceArn"] != mapping.source:
                continue
            values = {name: mapping.settings[name] for name in _differing_settings(it, mapping.settings)}
            if it["State"] in ("Disabled", "Disabling"):
                values["Enabled"] = True
            if values:
                _update(client, it["UUID"], **values)
                changed.append(Drift(mapping.function, it["UUID"], ", ".join(values)))
    return changed


@contextmanager
def push_paused(client: LambdaClient, stage: str) -> Iterator[None]:
    """Disable the mapping of `push` meanwhile, which makes room for another reader of the stream.

    More than two readers of a shard are throttled: AWS Lambda Developer Guide, "Simultaneous readers in
    DynamoDB Streams". `apply` is the other one. The mapping is enabled at the end in any case, also after an
    error and when it was disabled before. A killed process leaves it disabled: `status` reports that, and the
    next call and the next deployment enable it.
    """
    function = function_name(stage, "push")
    try:
        for it in _list_mappings(client, function):
            _update(client, it["UUID"], Enabled=False)
        yield
    finally:
        for it in _list_mappings(client, function):
            _update(client, it["UUID"], Enabled=True)


def _update(client: LambdaClient, id: str, **values: Any) -> None:
    """Change a mapping, and wait until the change is complete."""
    wait_until_stable(client, id)
    client.update_event_source_mapping(UUID=id, **values)
    wait_until_stable(client, id)


def _list_mappings(client: LambdaClient, function: str) -> list[Any]:
    """Return a function's mappings; none for a function that does not exist."""
    try:
        pages = client.get_paginator("list_event_source_mappings").paginate(FunctionName=function)
        return [
            mapping
            for page in pages
            for mapping in page["EventSourceMappings"]
            if mapping["State"] != "Deleting"
        ]
    except client.exceptions.ResourceNotFoundException:
        return []


def _differing_settings(mapping: Any, settings: dict[str, Any]) -> list[str]:
    """Return the names of the settings in which a mapping differs."""
    return [name for name, value in settings.items() if _normalized(mapping.get(name)) != _normalized(value)]


def _normalized(value: Any) -> Any:
    """Normalize a setting: parse patterns, and replace empty values by None."""
    if isinstance(value, dict):
        inner = {
            key: json.loads(part) if key == "Pattern" else _normalized(part)
            for key, part in value.items()
            if part
        }
        return inner or None
    if isinstance(value, list):
        return [_normalized(part) for part in value] or None
    return value


def wait_until_stable(client: LambdaClient, id: str) -> None:
    """Wait until a mapping can be changed. Lambda refuses changes while one is in progress."""

    def is_settled() -> bool:
        try:
            return client.get_event_source_mapping(UUID=id)["State"] in ("Enabled", "Disabled")
        except client.exceptions.ResourceNotFoundException:
            return True

    wait_until(is_settled, f"the mapping {id} is ready", TIMEOUT)
