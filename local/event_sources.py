"""Pumps, which do the work of Lambda's event source mappings on one machine.

A pump reads its source in a thread and calls the app's handler with batches in AWS's format. It reads again
when it is woken after a write (`local/engines/writes.py`), and otherwise after `idle` seconds. As on AWS a
batch is delivered at least once: it is retried when its handler raises. The records of a shard stay in order,
because a stream waits for the retry. A queue continues with other messages, and the failed ones return after
their visibility timeout.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from ops.maintenance.streams import Stream, to_lambda_record

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

    from local.queue import LocalQueue
    from ops.aws.template import Queue

LOGGER = logging.getLogger("hubbub.local")
IDLE = 0.05  # seconds between two reads of an empty source whose writes are unknown
GATHER = 0.005  # seconds from a write to the read, which gets the writes close to it too
LONGEST_PAUSE = 5.0  # seconds before a failed batch is retried

Handler = Callable[[dict[str, Any], Any], Any]


class Position(NamedTuple):
    """The last record of a shard that was delivered."""

    sequence_number: str
    event_id: str


class Pump:
    """Calls `step` in a thread, again and again, until it is stopped and its source is empty."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.idle = IDLE
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._is_drained = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def step(self) -> bool:
        """Deliver one batch and return whether there was one. The caller logs an exception and retries."""
        raise NotImplementedError

    def start(self) -> None:
        """Start to deliver."""
        self._thread.start()

    def stop(self, patience: float = 10.0) -> bool:
        """Drain the source and end. Return whether it was empty within `patience` seconds.

        A batch that fails now is left for the next start, because its engine may have stopped.
        """
        self._stopping.set()
        self._woken.set()
        self._thread.join(patience)
        return self._is_drained

    def wake(self) -> None:
        """Read the source soon, because it may have new records."""
        self._woken.set()

    def _run(self) -> None:
        pause = IDLE
        while True:
            # Before the source is read: what comes later is read again.
            self._woken.clear()
            is_last = self._stopping.is_set()
            try:
                if self.step():
                    pause = IDLE
                    continue
                pause, failed = IDLE, False
            except Exception as error:
                pause, failed = min(LONGEST_PAUSE, pause * 2), True
                reason = error if isinstance(error, ClientError | BotoCoreError) else repr(error)
                LOGGER.warning("%s: a batch failed and will be retried: %s", self.name, reason)
                LOGGER.debug("%s", self.name, exc_info=True)
            if is_last:
                self._is_drained = not failed
                return
            if failed:
                self._stopping.wait(pause)
            elif self._woken.wait(self.idle):
                self._stopping.wait(GATHER)


@dataclass
class Shard:
    """An open shard: its iterator, and the batch that is not delivered yet."""

    iterator: str | None
    batch: list[dict[str, Any]] = field(default_factory=list)


class StreamPump(Pump):
    """Delivers a table's stream, each shard in order, and saves its positions in a checkpoint file.

    The checkpoint is written after a batch, so a pump that was killed delivers its last batch again. Without
    a checkpoint of this stream the handler gets the last 24 hours again, unless it begins with new records.
    """

    def __init__(
        self,
        stream: Stream,
        handler: Handler,
        batch_size: int = 100,
        checkpoint: Path | None = None,
        name: str = "stream pump",
        begins: Literal["TRIM_HORIZON", "LATEST"] = "TRIM_HORIZON",
    ) -> None:
        super().__init__(name)
        self._stream = stream
        self._handler = handler
        self._batch_size = batch_size
        self._checkpoint = checkpoint
        self._begins: str = begins
        self.saves = True  # after each batch
        self._saved = self._load_checkpoint()
        self._positions = self._saved or {}
        self._open: dict[str, Shard] = {}
        self._closed: set[str] = set()

    def step(self) -> bool:
        """Deliver one batch of each shard that has one."""
        if not self._open:
            self._find_shards()
        delivered = [self._deliver(name, shard) for name, shard in list(self._open.items())]
        return any(delivered)

    def is_continuous(self) -> bool:
        """Return whether the stream still has the last record that was delivered of each shard.

        False without a checkpoint. Records may then have left the stream undelivered.
        """
        shards = {shard["ShardId"] for shard in self._stream.shards()}
        return self._saved is not None and all(
            self._iterator_after(name, last) for name, last in self._positions.items() if name in shards
        )

    def save(self) -> None:
        """Write the checkpoint, if the pump has one."""
        if self._checkpoint is not None:
            written = self._checkpoint.with_suffix(".new")
            written.write_text(json.dumps({self._stream.arn: self._positions}), encoding="utf-8")
            written.replace(self._checkpoint)

    def _deliver(self, name: str, shard: Shard) -> bool:
        if not shard.batch and shard.iterator:
            self._read(name, shard, shard.iterator)
        records = shard.batch
        if records:
            self._handler({"Records": records}, None)
            self._positions[name] = Position(
                records[-1]["dynamodb"]["SequenceNumber"], records[-1]["eventID"]
            )
            if self.saves:
                self.save()
            shard.batch = []
        if shard.iterator is None:  # the shard is closed; its children continue
            self._closed.add(name)
            self._find_shards()
            del self._open[name]
            return True
        return bool(records)

    def _read(self, name: str, shard: Shard, iterator: str) -> None:
        try:
            response = self._stream.client.get_records(ShardIterator=iterator, Limit=self._batch_size)
        except ClientError:  # iterators expire after 15 minutes, and records are trimmed after 24 hours
            del self._open[name]
            raise
        shard.batch = [to_lambda_record(record, self._stream.arn) for record in response["Records"]]
        shard.iterator = response.get("NextShardIterator")

    def _find_shards(self) -> None:
        """Open every shard that is neither open nor finished. Children wait for their parents."""
        known = self._stream.shards()
        unread = {shard["ShardId"] for shard in known} - self._closed
        for shard in known:
            name = shard["ShardId"]
            if name in unread and name not in self._open and shard.get("ParentShardId") not in unread:
                self._open[name] = Shard(self._iterator(name))
        self._begins = "TRIM_HORIZON"  # later shards are read from their beginning

    def _iterator(self, name: str) -> str:
        last = self._positions.get(name)
        after = self._iterator_after(name, last) if last else ""
        return after or self._stream.iterator(name, self._begins)

    def _iterator_after(self, name: str, last: Position) -> str:
        """Return an iterator after a record if the stream still has that record, or "".

        An engine that was killed can have lost records and reused their numbers, so the event id is compared.
        """
        with contextlib.suppress(ClientError, ParamValidationError):
            number = last.sequence_number
            at = self._stream.iterator(name, "AT_SEQUENCE_NUMBER", number)
            found = self._stream.client.get_records(ShardIterator=at, Limit=1)["Records"]
            if found and found[0]["eventID"] == last.event_id:
                return self._stream.iterator(name, "AFTER_SEQUENCE_NUMBER", number)
        return ""

    def _load_checkpoint(self) -> dict[str, Position] | None:
        try:
            saved = json.loads(self._checkpoint.read_text(encoding="utf-8")) if self._checkpoint else {}
            return {name: Position(*map(str, last)) for name, last in saved[self._stream.arn].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None


class QueuePump(Pump):
    """Delivers a queue's messages, and deletes those that the handler does not report as failed."""

    def __init__(self, sqs: SQSClient | LocalQueue, queue: Queue, handler: Handler) -> None:
        super().__init__("queue pump")
        self._sqs = sqs
        self._queue = queue
        self._handler = handler

    def step(self) -> bool:
        """Deliver one batch; a failed message is received again after its visibility timeout."""
        messages = self._sqs.receive_message(
            QueueUrl=self._queue.url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
        ).get("Messages", [])
        if not messages:
            return False
        response = self._handler({"Records": [self._record(message) for message in messages]}, None) or {}
        failed = {failure["itemIdentifier"] for failure in response.get("batchItemFailures", [])}
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
