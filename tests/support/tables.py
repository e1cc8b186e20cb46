"""Tables on an engine, each for one test."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from chalicelib.dynamo.table import Table, connect
from chalicelib.settings import Settings
from local.engines.engine import Engine
from local.event_sources import StreamPump
from ops.aws import template
from tests.support.records import Reader

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


@cache
def _properties() -> template.Properties:
    """Return the properties of the table. Each of a thousand tests would parse the template."""
    return template.definition("dev").table


@contextmanager
def table_on(engine: Engine) -> Iterator[template.Table]:
    """Create a table with `template.create_table`'s properties, and delete it afterwards."""
    dynamodb, name = engine.client("dynamodb"), f"test-{uuid4().hex}"
    wanted = template.table_request(_properties()) | {"TableName": name}
    made = dynamodb.create_table(**wanted)["TableDescription"]  # an engine's table is active at once
    try:
        dynamodb.update_time_to_live(
            TableName=name, TimeToLiveSpecification=_properties()["TimeToLiveSpecification"]
        )
        yield template.Table(name, made["LatestStreamArn"])
    finally:
        dynamodb.delete_table(TableName=name)


@contextmanager
def store_on(engine: Engine, pause: Callable[[float], None] = time.sleep) -> Iterator[tuple[Table, Reader]]:
    """Create a table with a client of its own, whose calls a test may replace, and a reader of its stream."""
    with table_on(engine) as made:
        client = connect(Settings(endpoint=engine.endpoint, table=made.name)).client
        stream = Reader(engine.client("dynamodbstreams"), made.stream_arn)
        yield Table(made.name, client, pause=pause), stream


def record_calls(dynamodb: Any) -> list[str]:
    """Return a list to which each call of a client adds the operation's name from now on."""
    calls: list[str] = []
    dynamodb.meta.events.register("before-call.dynamodb", lambda model, **_: calls.append(model.name))
    return calls


@contextmanager
def fresh_table(engine: Engine) -> Iterator[tuple[Table, str]]:
    """Create a table and delete it afterwards; yield it with its stream's ARN."""
    with table_on(engine) as made:
        yield Table(made.name, engine.client("dynamodb")), made.stream_arn


def drain(pump: StreamPump) -> None:
    """Deliver until the stream is empty, including the changes that deliveries cause."""
    while pump.step():
        pass


def create_queue(sqs: SQSClient, stage: str, name: str | None = None) -> template.Queue:
    """Create the stage's queue and its dead-letter queue, optionally with another `name`; return the queue.

    The dead-letter queue of another `name` is `<name>-dead`. An existing queue does not change.
    """
    wanted = template.definition(stage)
    dead_name = f"{name}-dead" if name else str(wanted.views_dead_letters["QueueName"])
    dead_letters = _create(sqs, dead_name, wanted.views_dead_letters)
    redrive = {**wanted.views_queue["RedrivePolicy"], "deadLetterTargetArn": dead_letters.arn}
    properties = {**wanted.views_queue, "RedrivePolicy": redrive}
    return _create(sqs, name or str(properties["QueueName"]), properties)


def _create(sqs: SQSClient, name: str, properties: dict[str, Any]) -> template.Queue:
    """Create a queue unless it exists, and return it."""
    attributes: Any = {key: _text(value) for key, value in properties.items() if key != "QueueName"}
    try:
        url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    except sqs.exceptions.QueueNameExists:
        # It exists with other attributes.
        url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return template.Queue(name, url, arn)


def _text(value: Any) -> str:
    """Convert an attribute to SQS's format: policies and booleans as JSON, numbers as digits."""
    return value if isinstance(value, str) else json.dumps(value)


def create_function(account: Engine, name: str, **tags: str) -> None:
    """Create a function that does nothing, for tests of what belongs to it."""
    account.client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.13",
        Role="arn:aws:iam::000000000000:role/any",
        Handler="app.app",
        Code={"ZipFile": b"PK\x05\x06" + bytes(18)},  # an empty archive
        Tags=tags,
    )
