"""Pumps: what Lambda's event source mappings do, on one machine.

Each reads its source in a thread and calls the app's own handler with a batch in AWS's shape. As on AWS a
batch is delivered at least once: one whose handler raises comes again, after a pause that grows.
"""

from __future__ import annotations

import base64
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient
    from mypy_boto3_sqs import SQSClient

    from ops.definition import Queue

LOGGER = logging.getLogger("hubbub.local")
IDLE = 0.05  # seconds between two looks at an empty source
LONGEST_PAUSE = 5.0  # seconds before a failed batch comes again

Handler = Callable[[dict[str, Any], Any], Any]


class Pump:
    """Calls `step` in a thread, again and again, until it is stopped and its source is empty."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def step(self) -> bool:
        """Deliver one batch; tell whether there was one. What it raises is logged, and tried again."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def stop(self, patience: float = 10.0) -> bool:
        """Deliver what is there, then end; tell whether the source was empty within `patience` seconds."""
        self._stopping.set()
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = IDLE
        while True:
            try:
                delivered = self.step()
                pause = IDLE
            except Exception as error:
                pause = min(LONGEST_PAUSE, pause * 2)
                reason = error if isinstance(error, ClientError | BotoCoreError) else repr(error)
                LOGGER.warning("%s: a batch failed and will come again: %s", self.name, reason)
                LOGGER.debug("%s", self.name, exc_info=True)
                delivered = False
            if not delivered:
                if self._stopping.is_set():
                    return
                self._stopping.wait(pause)


class StreamPump(Pump):
    """Delivers a table's stream, each shard in order; remembers in a file how far it got.

    The file is written after a batch, so a pump that is killed delivers its last batch again.
    """

    def __init__(
        self,
        streams: DynamoDBStreamsClient,
        stream_arn: str,
        handler: Handler,
        batch_size: int = 100,
        checkpoint: Path | None = None,
    ) -> None:
        super().__init__("stream pump")
        self._streams = streams
        self._arn = stream_arn
        self._handler = handler
        self._batch_size = batch_size
        self._checkpoint = checkpoint
        self._done: dict[str, str] = self._remembered()
        self._iterators: dict[str, str | None] = {}

    def step(self) -> bool:
        """Deliver one batch of each shard that has one."""
        if not any(self._iterators.values()):
            self._find_shards()
        delivered = [self._deliver(shard) for shard in list(self._iterators)]
        return any(delivered)

    def _deliver(self, shard: str) -> bool:
        iterator = self._iterators[shard]
        if iterator is None:
            return False
        try:
            answer = self._streams.get_records(ShardIterator=iterator, Limit=self._batch_size)
            records = [lambda_record(record, self._arn) for record in answer["Records"]]
            if records:
                self._handler({"Records": records}, None)
        except Exception:
            self._iterators.clear()  # begin again behind the last batch that was done
            raise
        self._iterators[shard] = answer.get("NextShardIterator")
        if records:
            self._done[shard] = records[-1]["dynamodb"]["SequenceNumber"]
            self._remember()
        return bool(records)

    def _find_shards(self) -> None:
        for shard in self._streams.describe_stream(StreamArn=self._arn)["StreamDescription"]["Shards"]:
            name = shard["ShardId"]
            where: dict[str, Any] = {"ShardIteratorType": "TRIM_HORIZON"}
            if name in self._done:
                where = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": self._done[name]}
            answer = self._streams.get_shard_iterator(StreamArn=self._arn, ShardId=name, **where)
            self._iterators[name] = answer["ShardIterator"]

    def _remembered(self) -> dict[str, str]:
        if self._checkpoint is None or not self._checkpoint.exists():
            return {}
        remembered = json.loads(self._checkpoint.read_text())
        return dict(remembered["shards"]) if remembered["stream"] == self._arn else {}

    def _remember(self) -> None:
        if self._checkpoint is not None:
            written = self._checkpoint.with_suffix(".new")
            written.write_text(json.dumps({"stream": self._arn, "shards": self._done}))
            written.replace(self._checkpoint)


class QueuePump(Pump):
    """Delivers a queue's messages, and deletes those that the handler does not report as failed."""

    def __init__(self, sqs: SQSClient, queue: Queue, handler: Handler, batch_size: int = 10) -> None:
        super().__init__("queue pump")
        self._sqs = sqs
        self._queue = queue
        self._handler = handler
        self._batch_size = batch_size

    def step(self) -> bool:
        """Deliver one batch; a failed message is received again after its visibility time-out."""
        answer = self._sqs.receive_message(
            QueueUrl=self._queue.url,
            MaxNumberOfMessages=self._batch_size,
            MessageSystemAttributeNames=["All"],
        )
        messages = answer.get("Messages", [])
        if not messages:
            return False
        report = self._handler({"Records": [self._record(message) for message in messages]}, None) or {}
        failed = {failure["itemIdentifier"] for failure in report.get("batchItemFailures", [])}
        done = [
            {"Id": str(i), "ReceiptHandle": message["ReceiptHandle"]}
            for i, message in enumerate(messages)
            if message["MessageId"] not in failed
        ]
        if done:
            self._sqs.delete_message_batch(QueueUrl=self._queue.url, Entries=done)  # type: ignore[arg-type]
        return True

    def _record(self, message: Any) -> dict[str, Any]:
        return {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message.get("Attributes", {}),
            "messageAttributes": {},
            "md5OfBody": message.get("MD5OfBody", ""),
            "eventSource": "aws:sqs",
            "eventSourceARN": self._queue.arn,
            "awsRegion": self._queue.arn.split(":")[3],
        }


def lambda_record(record: Any, stream_arn: str) -> dict[str, Any]:
    """Write a record of GetRecords as Lambda hands it over: epoch seconds, binary as base64, its source."""
    plain: dict[str, Any] = json.loads(json.dumps(record, default=_as_lambda_writes))
    return plain | {"eventSourceARN": stream_arn}


def _as_lambda_writes(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value.timestamp()
