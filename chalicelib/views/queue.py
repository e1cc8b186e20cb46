"""The views queue: takes view events at the door, hands them to the function that writes them.

A message is what `POST /views` takes, one event or several, so that any producer may send the published
event as it is.
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

EVENTS = 25  # in one message: what one BatchWriteItem writes
MESSAGES = 10  # in one SendMessageBatch
REQUEST = 250_000  # bytes


def send(settings: Settings, events: Sequence[dict[str, str]]) -> None:
    """Send view events to the stage's queue. Raises Busy when a part is refused: send them all again.

    An event that is sent twice counts once, so a repeat after Busy does no harm. Costs one SQS request
    per 250 events (fewer of the longest), billed by 64 KB.
    """
    groups = [events[i : i + EVENTS] for i in range(0, len(events), EVENTS)]
    bodies = [json.dumps({"taken": True, "events": group}) for group in groups]
    for entries in _fitting([{"Id": str(i), "MessageBody": body} for i, body in enumerate(bodies)]):
        try:
            call = partial(_client(settings).send_message_batch, QueueUrl=settings.queue_url, Entries=entries)
            answer = retry(call, time.sleep)
        except (Busy, BotoCoreError, ClientError) as error:
            raise Busy("The queue cannot be reached: send the events again in a moment.") from error
        if answer.get("Failed"):
            raise Busy("The queue did not take every event: send them again in a moment.")


def consume(event: Any, write: Callable[[QueuedViews], None]) -> dict[str, list[dict[str, str]]]:
    """Hand each message of a batch to `write`; answer those that failed, for Lambda to deliver them again.

    A message that can never be written (it is no view event) fails each time, and its fifth failure puts it
    among the dead letters, where it can be looked at; it never holds up the others. One without an id, which
    SQS never hands over, cannot be named: a failure without a name would fail the whole batch.
    """
    failed = []
    for message in event["Records"]:
        try:
            write(codec.decode(message["body"].encode(), QueuedViews))
        except Exception as error:  # whatever one message does, the others are written
            logger().warning("a queue message failed", extra={"problem": type(error).__name__})
            id = message.get("messageId") if isinstance(message, dict) else None
            if id and isinstance(id, str):
                failed.append({"itemIdentifier": id})
    metrics.count(QueueFailures=len(failed))
    return {"batchItemFailures": failed}


def _fitting(entries: Sequence["Entry"]) -> Iterator[list["Entry"]]:
    """Part messages into requests: 10 at most, and below the 256 KB that a request may carry."""
    group: list[Entry] = []
    for entry in entries:
        length = sum(len(one["MessageBody"]) for one in (*group, entry))
        if group and (len(group) == MESSAGES or length > REQUEST):
            yield group
            group = []
        group.append(entry)
    if group:
        yield group


@cache
def _client(settings: Settings) -> "SQSClient":
    import boto3  # only a stage with a queue pays for this client
    from botocore.config import Config

    config = Config(
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=5 if settings.endpoint else READ_TIMEOUT,
        retries={"mode": "standard", "total_max_attempts": 1},
    )
    return boto3.session.Session().client("sqs", config=config, **settings.client_options())
