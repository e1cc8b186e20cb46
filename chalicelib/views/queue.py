"""The SQS queue of view events: requests send to it, and the `write_views` function consumes it.

A message has the body of `POST /views`, one event or a list, so any producer may send events as published.
A message of `send` also has `taken`: its events were checked when they were posted.

Invariant: each message is written at least once or ends in the dead-letter queue. Writing is idempotent.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from chalicelib.api import codec
from chalicelib.dynamo.retries import CONNECT_TIMEOUT, READ_TIMEOUT, retry
from chalicelib.errors import Busy
from chalicelib.settings import Settings
from chalicelib.telemetry import metrics
from chalicelib.telemetry.logs import logger
from chalicelib.views.schemas import QueuedViews

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef as Entry

EVENTS = 25  # in one message: the number of items that one BatchWriteItem writes
MESSAGES = 10  # in one SendMessageBatch: the limit of SQS
REQUEST = 250_000  # bytes in one SendMessageBatch: below the 256 KB that SQS accepts


def send(settings: Settings, events: Sequence[dict[str, str]]) -> None:
    """Send view events to the stage's queue.

    Cost: one SQS request per 250 events, fewer for long events. SQS bills each 64 KB.

    Raises:
        Busy: a part of the events was not accepted. The caller may send all of them again, because an event
            that is sent twice counts once.
    """
    groups = [events[i : i + EVENTS] for i in range(0, len(events), EVENTS)]
    bodies = [json.dumps({"taken": True, "events": group}) for group in groups]
    for entries in _batches([{"Id": str(i), "MessageBody": body} for i, body in enumerate(bodies)]):
        try:
            call = partial(client(settings).send_message_batch, QueueUrl=settings.queue_url, Entries=entries)
            reply = retry(call, time.sleep)
        except (Busy, BotoCoreError, ClientError) as error:
            raise Busy("The queue is unavailable. Please send the events again.") from error
        if reply.get("Failed"):
            raise Busy("The queue did not accept every event. Please send them again.")


def consume(event: Any, write: Callable[[QueuedViews], None]) -> dict[str, list[dict[str, str]]]:
    """Call `write` with each message of a batch. Return the messages that failed, which Lambda retries.

    A failed message does not delay the others. SQS moves a message to the dead-letter queue after the fifth
    failure. A message without an id, which SQS never delivers, is not reported: a failure without an id would
    fail the whole batch.
    """
    failed = []
    for message in event["Records"]:
        try:
            write(codec.decode(message["body"].encode(), QueuedViews))
        except Exception as error:  # whatever fails in one message, the others are written
            logger().warning("a queue message failed", extra={"problem": type(error).__name__})
            id = message.get("messageId") if isinstance(message, dict) else None
            if id and isinstance(id, str):
                failed.append({"itemIdentifier": id})
    metrics.count(QueueFailures=len(failed))
    return {"batchItemFailures": failed}


def _batches(entries: Sequence["Entry"]) -> Iterator[list["Entry"]]:
    """Divide messages into requests within the limits of SQS."""
    batch: list[Entry] = []
    for entry in entries:
        length = sum(len(message["MessageBody"]) for message in (*batch, entry))
        if batch and (len(batch) == MESSAGES or length > REQUEST):
            yield batch
            batch = []
        batch.append(entry)
    if batch:
        yield batch


@cache
def client(settings: Settings) -> "SQSClient":
    """Return the client of SQS. A local run replaces this function."""
    import boto3  # lazily: only a stage with a queue needs this client
    from botocore.config import Config

    config = Config(
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=5 if settings.endpoint else READ_TIMEOUT,
        retries={"mode": "standard", "total_max_attempts": 1},
    )
    return boto3.session.Session().client("sqs", config=config, **settings.client_options())
