"""Retry what Lambda has given up: messages of views, and batches of the stream.

**Views.** A message that failed five times is a dead letter for 14 days. It is sent to the queue again, then
deleted. If the command is interrupted in between, the message exists twice and its views still count once.

**Batches of the stream.** Lambda sends the position of a failed batch to a queue, and the stream keeps the
records for 24 hours. The records are read from the stream and applied again. Guard pages make this
idempotent. An older batch is lost: its records have left the stream, and a repair corrects the aggregates.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, ParamValidationError

from chalicelib.dynamo.retries import error_code
from ops.maintenance.streams import Stream, read_range

if TYPE_CHECKING:
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient
    from mypy_boto3_sqs import SQSClient

PAGE = 10  # the maximum messages per receive
WAIT = 1  # seconds of long polling
EMPTY = 3  # consecutive empty receives that end the run: one receive may not ask all of SQS's servers
GONE = {"TrimmedDataAccessException", "ResourceNotFoundException"}

Progress = Callable[[Counter[str]], None]


def replay_views(sqs: SQSClient, dead: str, queue: str, report: Progress) -> Counter[str]:
    """Send every dead letter to a queue, both given as URLs. Return the numbers `sent` and `left`."""
    done: Counter[str] = Counter()
    for messages in _pages(sqs, dead):
        entries: Any = [{"Id": str(i), "MessageBody": message["Body"]} for i, message in enumerate(messages)]
        failed = sqs.send_message_batch(QueueUrl=queue, Entries=entries).get("Failed", [])
        refused = {int(failure["Id"]) for failure in failed}
        sent = [message for i, message in enumerate(messages) if i not in refused]
        _delete(sqs, dead, sent)
        done.update(sent=len(sent), left=len(refused))
        report(done)
    return done


def replay_batches(
    sqs: SQSClient,
    dead: str,
    streams: DynamoDBStreamsClient,
    apply: Callable[[list[dict[str, Any]]], None],
    report: Progress,
    *,
    discards: bool = False,
) -> Counter[str]:
    """Apply the records of every failed batch whose position is in a queue, and return the counts.

    A batch whose records have left the stream is `lost`. Its message is kept unless `discards` is set. A
    malformed message is `left`.
    """
    done: Counter[str] = Counter()
    for messages in _pages(sqs, dead):
        for message in messages:
            try:
                batch = json.loads(message["Body"])["DDBStreamBatchInfo"]
                stream = Stream(streams, batch["streamArn"])
                bounds = [batch[f"{end}SequenceNumber"] for end in ("start", "end")]
                shard = batch["shardId"]
            except (ValueError, KeyError, TypeError):
                done["left"] += 1
                continue
            try:
                for records in read_range(stream, shard, *bounds):
                    apply(records)
                    done["records"] += len(records)
            except ParamValidationError:
                done["left"] += 1
                continue
            except ClientError as error:
                if error_code(error) not in GONE:
                    raise
                done["lost"] += 1
                if not discards:
                    continue
            else:
                done["batches"] += 1
            _delete(sqs, dead, [message])
        report(done)
    return done


def _pages(sqs: SQSClient, queue: str) -> Iterator[list[Any]]:
    """Receive messages until several receives return none that are new to this run."""
    seen: set[str] = set()
    empty = 0
    while empty < EMPTY:
        response = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=PAGE, WaitTimeSeconds=WAIT)
        messages = [message for message in response.get("Messages", []) if message["MessageId"] not in seen]
        seen |= {message["MessageId"] for message in messages}
        empty = 0 if messages else empty + 1
        if messages:
            yield messages


def _delete(sqs: SQSClient, queue: str, messages: list[Any]) -> None:
    if messages:
        entries: Any = [
            {"Id": str(i), "ReceiptHandle": message["ReceiptHandle"]} for i, message in enumerate(messages)
        ]
        sqs.delete_message_batch(QueueUrl=queue, Entries=entries)
