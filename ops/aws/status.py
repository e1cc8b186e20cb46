"""Looks at a stage: its table, how far the sums are behind, what waits in quarantine and in the queues.

On AWS the lag is what Lambda itself measures (the metric IteratorAge), and the event source mappings are
compared with the table: one that reads another stream than the table has now counts nothing. On a local
engine there are no mappings; the lag is the age of the oldest record that the run's pump has not delivered.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from chalicelib.aggregates.quarantine import PARTITIONS
from chalicelib.dynamo.retries import error_code
from chalicelib.settings import Settings
from ops.aws import event_sources, template

LATE = 60.0  # seconds: the alarm's
QUEUES = {"views": "", "deadViews": "-dead"}

Client = Callable[[str], Any]


def look(settings: Settings, client: Client, checkpoint: Path | None) -> dict[str, Any]:
    """Answer what there is, and under `problems` what somebody should do something about, a line each.

    `client` makes a client of an AWS service; `checkpoint` is where a local run notes how far it is. Costs
    0.5 RCU for 4 KB of quarantine.
    """
    dynamodb = client("dynamodb")
    table = dynamodb.describe_table(TableName=settings.table)["Table"]
    stream = str(table.get("LatestStreamArn", ""))
    found: dict[str, Any] = {"stage": settings.stage, "table": _table(table, settings)}
    if checkpoint is not None:
        found["lagSeconds"] = local_lag(client("dynamodbstreams"), stream, checkpoint)
        found["mappings"] = None
    else:
        found["lagSeconds"] = _lag(client("cloudwatch"), f"hubbub-{settings.stage}-apply")
        found["mappings"] = list(_drift(client, settings, stream))
    found["quarantine"] = sum(_count(dynamodb, settings.table, f"QUARANTINE#{n}") for n in range(PARTITIONS))
    names = {name: settings.queue_name + end for name, end in QUEUES.items()}
    names["streamFailures"] = f"hubbub-{settings.stage}-stream-failures"
    found["queues"] = {name: _depth(client("sqs"), queue) for name, queue in names.items()}
    found["problems"] = list(problems(found, stream))
    return found


def problems(found: dict[str, Any], stream: str) -> Iterator[str]:
    """Say what is not as it should be."""
    for name in found["table"]["missing"]:
        yield f"the table has no index {name}, or not yet: docs/upgrading.md"
    if not stream:
        yield "the table has no stream: nothing is counted"
    if (found["lagSeconds"] or 0) > LATE:
        yield f"sums are {found['lagSeconds']:.0f} seconds behind their items: docs/operations.md, stream-lag"
    if found["quarantine"]:
        yield f"{found['quarantine']:,} images are in quarantine: docs/operations.md, quarantine"
    for name, alarm in (("deadViews", "dead-views"), ("streamFailures", "stream-failures")):
        if depth := found["queues"][name]:
            yield f"{depth:,} messages are dead letters: docs/operations.md, {alarm}"
    for function, problem in found["mappings"] or ():
        yield f"{function}: {problem}: python -m ops deploy --stage {found['stage']}"


def local_lag(streams: Any, stream: str, checkpoint: Path) -> float | None:
    """Say how old the oldest record is that a local run has not delivered; None where none has run."""
    try:
        last = json.loads(checkpoint.read_text(encoding="utf-8"))[stream]
    except (OSError, ValueError, KeyError):
        return None
    lags = [0.0]
    for shard, (number, *_) in last.items():
        position = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": number}
        try:
            there = streams.get_shard_iterator(StreamArn=stream, ShardId=shard, **position)
            records = streams.get_records(ShardIterator=there["ShardIterator"], Limit=1)["Records"]
        except ClientError:  # the engine was begun anew, and knows no such record
            return None
        lags += [time.time() - one["dynamodb"]["ApproximateCreationDateTime"].timestamp() for one in records]
    return round(max(lags), 1)


def _lag(cloudwatch: Any, function: str) -> float | None:
    """Answer the greatest lag of the last five minutes in seconds; None without any record in that time."""
    now = datetime.now(UTC)
    answer = cloudwatch.get_metric_statistics(
        Namespace="AWS/Lambda",
        MetricName="IteratorAge",
        Dimensions=[{"Name": "FunctionName", "Value": function}],
        StartTime=now - timedelta(minutes=5),
        EndTime=now,
        Period=60,
        Statistics=["Maximum"],
    )
    return max((one["Maximum"] / 1000 for one in answer["Datapoints"]), default=None)


def _table(table: Any, settings: Settings) -> dict[str, Any]:
    active = {
        one["IndexName"]
        for one in table.get("GlobalSecondaryIndexes", ())
        if one.get("IndexStatus", "ACTIVE") == "ACTIVE"
    }
    wanted = {one["IndexName"] for one in template.definition(settings.stage).table["GlobalSecondaryIndexes"]}
    return {
        "name": settings.table,
        "state": table["TableStatus"],
        "items": table["ItemCount"],
        "bytes": table["TableSizeBytes"],
        "missing": sorted(wanted - active),
    }


def _drift(client: Client, settings: Settings, stream: str) -> Iterator[tuple[str, str]]:
    """Name each function whose event source mapping is not as it should be, and say what is wrong."""
    sqs = client("sqs")
    urls = (_url(sqs, name) for name in (settings.queue_name, f"hubbub-{settings.stage}-stream-failures"))
    arns = [event_sources.arn(sqs, url) if url else "" for url in urls]
    for one in event_sources.drift(client("lambda"), event_sources.expected(settings.stage, stream, *arns)):
        yield one.function, one.problem


def _count(dynamodb: Any, table: str, pk: str) -> int:
    pages = dynamodb.get_paginator("query").paginate(
        TableName=table,
        Select="COUNT",
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": pk}},
    )
    return sum(page["Count"] for page in pages)


def _depth(sqs: Any, name: str) -> int | None:
    """Answer how many messages a queue has; None where there is no such queue."""
    if not (url := _url(sqs, name)):
        return None
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(attributes[name]) for name in names)


def _url(sqs: Any, name: str) -> str:
    """Look up a queue; empty where there is no such queue."""
    try:
        return str(sqs.get_queue_url(QueueName=name)["QueueUrl"])
    except ClientError as error:
        if error_code(error) in ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"):
            return ""
        raise
