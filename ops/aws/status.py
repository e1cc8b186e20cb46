"""Report the status of a stage: its table, the lag of the aggregates, quarantine and queues.

On AWS the lag is Lambda's metric IteratorAge, and the event source mappings are compared with the table's
current stream. A local engine has no mappings. There the lag is the age of the oldest record that the local
run has not delivered.
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
from chalicelib.settings import Settings
from ops.aws import adopt, event_sources, template

LATE = 60.0  # seconds, as in the alarm stream-lag
QUEUES = {"views": "", "deadViews": "-dead"}

Client = Callable[[str], Any]


def read_status(settings: Settings, client: Client, checkpoint: Path | None) -> dict[str, Any]:
    """Return the status of a stage, with a line under `problems` for each problem.

    `client` creates a client of an AWS service. `checkpoint` is the file with a local run's stream position.

    Cost: 0.5 RCU per 4 KB of quarantine.
    """
    dynamodb = client("dynamodb")
    table = dynamodb.describe_table(TableName=settings.table)["Table"]
    stream = str(table.get("LatestStreamArn", ""))
    found: dict[str, Any] = {"stage": settings.stage, "table": _table(table, settings)}
    if checkpoint is not None:
        found["lagSeconds"] = read_local_lag(client("dynamodbstreams"), stream, checkpoint)
        found["mappings"] = None
    else:
        found["lagSeconds"] = _lag(client("cloudwatch"), f"hubbub-{settings.stage}-apply")
        found["mappings"] = list(_mapping_drift(client, settings, stream))
    found["quarantine"] = sum(_count(dynamodb, settings.table, f"QUARANTINE#{n}") for n in range(PARTITIONS))
    names = {name: settings.queue_name + end for name, end in QUEUES.items()}
    names["streamFailures"] = f"hubbub-{settings.stage}-stream-failures"
    found["queues"] = {name: _depth(client("sqs"), queue) for name, queue in names.items()}
    found["problems"] = list(find_problems(found, stream))
    return found


def find_problems(found: dict[str, Any], stream: str) -> Iterator[str]:
    """Yield a line for each problem."""
    for name in found["table"]["missing"]:
        command = f"make provision STAGE={found['stage']}"
        yield f"the table has no index {name}, or it is still being filled: run {command}"
    if not stream:
        yield f"the table has no stream, so nothing is counted: run make provision STAGE={found['stage']}"
    if (found["lagSeconds"] or 0) > LATE:
        yield f"sums are {found['lagSeconds']:.0f} seconds behind: see docs/operations.md, stream-lag"
    if found["quarantine"]:
        yield f"{found['quarantine']:,} images are in quarantine: see docs/operations.md, quarantine"
    for name, alarm in (("deadViews", "dead-views"), ("streamFailures", "stream-failures")):
        if depth := found["queues"][name]:
            yield f"{depth:,} messages are dead letters: see docs/operations.md, {alarm}"
    for function, problem in found["mappings"] or ():
        yield f"{function}: {problem}; run make deploy STAGE={found['stage']}"


def read_local_lag(streams: Any, stream: str, checkpoint: Path) -> float | None:
    """Return the age of the oldest record that a local run has not delivered; None without a run."""
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
        except ClientError:  # the engine has restarted without its data
            return None
        lags += [
            time.time() - record["dynamodb"]["ApproximateCreationDateTime"].timestamp() for record in records
        ]
    return round(max(lags), 1)


def _lag(cloudwatch: Any, function: str) -> float | None:
    """Return the maximum lag of the last five minutes in seconds; None without records in that time."""
    now = datetime.now(UTC)
    response = cloudwatch.get_metric_statistics(
        Namespace="AWS/Lambda",
        MetricName="IteratorAge",
        Dimensions=[{"Name": "FunctionName", "Value": function}],
        StartTime=now - timedelta(minutes=5),
        EndTime=now,
        Period=60,
        Statistics=["Maximum"],
    )
    return max((point["Maximum"] / 1000 for point in response["Datapoints"]), default=None)


def _table(table: Any, settings: Settings) -> dict[str, Any]:
    active = {
        index["IndexName"]
        for index in table.get("GlobalSecondaryIndexes", ())
        if index.get("IndexStatus", "ACTIVE") == "ACTIVE"
    }
    wanted = {
        index["IndexName"] for index in template.definition(settings.stage).table["GlobalSecondaryIndexes"]
    }
    return {
        "name": settings.table,
        "state": table["TableStatus"],
        "items": table["ItemCount"],
        "bytes": table["TableSizeBytes"],
        "missing": sorted(wanted - active),
    }


def _mapping_drift(client: Client, settings: Settings, stream: str) -> Iterator[tuple[str, str]]:
    """Yield each function with a problem of its event source mapping, and the problem."""
    sqs = client("sqs")
    urls = (
        adopt.find_queue_url(sqs, name)
        for name in (settings.queue_name, f"hubbub-{settings.stage}-stream-failures")
    )
    arns = [event_sources.find_queue_arn(sqs, url) if url else "" for url in urls]
    wanted = event_sources.expect_mappings_on(settings, stream, *arns)
    for mapping in event_sources.find_drift(client("lambda"), wanted):
        yield mapping.function, mapping.problem


def _count(dynamodb: Any, table: str, pk: str) -> int:
    pages = dynamodb.get_paginator("query").paginate(
        TableName=table,
        Select="COUNT",
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": pk}},
    )
    return sum(page["Count"] for page in pages)


def _depth(sqs: Any, name: str) -> int | None:
    """Return the number of messages of a queue; None if it does not exist."""
    if not (url := adopt.find_queue_url(sqs, name)):
        return None
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(attributes[name]) for name in names)
