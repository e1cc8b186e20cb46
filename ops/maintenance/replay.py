"""Brings back what Lambda has given up: messages of views, and batches of the stream.

**Views.** A message that could not be written five times lies among the dead letters, for 14 days. It is sent
to the queue again, then deleted: killed in between it is there twice, and a view counts once all the same.

**Batches of the stream.** Of a batch that could not be applied, Lambda sends the position to a queue; its
records stay in the stream for 24 hours. They are read from there and applied again; the guard pages know what
is in the sums already. Of a batch that is older its records are gone: it is lost for the sums, and a repair
finds what it would have added.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, ParamValidationError

from chalicelib.dynamo.retries import error_code
from ops.maintenance.streams import between

if TYPE_CHECKING:
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient
    from mypy_boto3_sqs import SQSClient

PAGE = 10  # messages that SQS hands over at most
WAIT = 1  # seconds that a look waits for messages
EMPTY = 3  # looks that find nothing: one alone may have asked the wrong ones of SQS's servers
GONE = {"TrimmedDataAccessException", "ResourceNotFoundException"}

Tick = Callable[[Counter[str]], None]


def views(sqs: SQSClient, dead: str, queue: str, tick: Tick) -> Counter[str]:
    """Send every dead letter of one queue's URL to the other's; answer how many were `sent`."""
    done: Counter[str] = Counter()
    for messages in _pages(sqs, dead):
        entries: Any = [{"Id": str(i), "MessageBody": one["Body"]} for i, one in enumerate(messages)]
        failed = sqs.send_message_batch(QueueUrl=queue, Entries=entries).get("Failed", [])
        refused = {int(one["Id"]) for one in failed}
        sent = [one for i, one in enumerate(messages) if i not in refused]
        _delete(sqs, dead, sent)
        done.update(sent=len(sent), left=len(refused))
        tick(done)
    return done


def batches(
    sqs: SQSClient,
    dead: str,
    streams: DynamoDBStreamsClient,
    apply: Callable[[list[dict[str, Any]]], None],
    tick: Tick,
    *,
    discards: bool = False,
) -> Counter[str]:
    """Apply the records of every batch whose position lies in a queue; answer `batches`, `records`, `lost`.

    A batch whose records the stream has no more is `lost`; its message stays, unless `discards`. What is no
    position is `left`.
    """
    done: Counter[str] = Counter()
    for messages in _pages(sqs, dead):
        for message in messages:
            try:
                batch = json.loads(message["Body"])["DDBStreamBatchInfo"]
                at = [batch[name] for name in ("streamArn", "shardId")]
                at += [batch[f"{end}SequenceNumber"] for end in ("start", "end")]
            except (ValueError, KeyError, TypeError):
                done["left"] += 1
                continue
            try:
                for records in between(streams, *at):
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
        tick(done)
    return done


def _pages(sqs: SQSClient, queue: str) -> Iterator[list[Any]]:
    """Receive messages until several looks find none that this run has not met."""
    met: set[str] = set()
    empty = 0
    while empty < EMPTY:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=PAGE, WaitTimeSeconds=WAIT)
        messages = [one for one in answer.get("Messages", []) if one["MessageId"] not in met]
        met |= {one["MessageId"] for one in messages}
        empty = 0 if messages else empty + 1
        if messages:
            yield messages


def _delete(sqs: SQSClient, queue: str, messages: list[Any]) -> None:
    if messages:
        entries: Any = [
            {"Id": str(i), "ReceiptHandle": one["ReceiptHandle"]} for i, one in enumerate(messages)
        ]
        sqs.delete_message_batch(QueueUrl=queue, Entries=entries)
