"""Lambda's event sources in a simulated world: a table's stream and the views queue.

They give AWS's guarantees and no more. A stream's records keep their order within a shard. A batch is any
number of records from the shard's position. A failed batch is delivered again, shorter or longer. A batch
that succeeded may be delivered again at any time, whole or in part, and one may start while the one before is
still running. A queue has no order and delivers each message at least once.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from local.event_sources import Handler, StreamPump
from ops.maintenance import streams
from tests.histories.world import BEGIN, Rates, World

if TYPE_CHECKING:
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient

SHARDS = 4
PAGE = 1000  # records that are read at a time
LONGEST = 60  # records in a batch
MAX_REPEATS = 60  # deliveries of batches that are done, in one history
TTL = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
RECEIVES = 5  # of a message that fails, before it goes to the dead letters


@dataclass
class Shard:
    """A shard: its records, how many of them are done, and how many batches are running."""

    log: list[dict[str, Any]] = field(default_factory=list)
    done: int = 0
    running: int = 0
    failed_size: int = 0  # records of the last batch from this position, which failed
    delayed_until: datetime = BEGIN
    repeats: list[tuple[int, int]] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Return whether every record was delivered at least once."""
        return self.done == len(self.log)


class Stream:
    """A table's stream and the handler that it is delivered to."""

    def __init__(self, world: World, client: DynamoDBStreamsClient, arn: str, handler: Handler) -> None:
        self.records: list[dict[str, Any]] = []
        self.shards = [Shard() for _ in range(SHARDS)]
        self._world, self._handler = world, handler
        self._pump = StreamPump(streams.Stream(client, arn), self._receive, PAGE)
        self.expiring: set[tuple[str, str]] = set()  # keys whose removal is TTL's
        self._repeats = 0

    def poll(self) -> int:
        """Read the new records and return their number."""
        before = len(self.records)
        self._pump.step()
        return len(self.records) - before

    def _receive(self, event: dict[str, Any], _: Any) -> None:
        """Put records into their shards. Their ids and times follow from the history alone."""
        for record in event["Records"]:
            record["eventID"] = f"record-{len(self.records)}"
            record["dynamodb"]["ApproximateCreationDateTime"] = float(int(self._world.now.timestamp()))
            self.records.append(record)
            pk, sk = (record["dynamodb"]["Keys"][name]["S"] for name in ("pk", "sk"))
            if (pk, sk) in self.expiring:
                record["userIdentity"] = TTL
            self.shards[zlib.crc32(pk.encode()) % SHARDS].log.append(record)

    @property
    def is_empty(self) -> bool:
        """Return whether every record read is delivered, and no batch is to be repeated."""
        return all(s.is_done and not s.repeats and not s.running for s in self.shards)

    def deliver(self) -> bool:
        """Start a delivery. Return False when there is nothing to deliver, or the shard is not ready."""
        world = self._world
        ready = [s for s in self.shards if not s.is_done or s.repeats]
        if not ready:
            return False
        shard = world.rng.choice(ready)
        if shard.delayed_until > world.now and not world.is_calm:
            return False
        if shard.repeats and (shard.is_done or world.rng.random() < 0.3):
            world.fault("a batch that was done, again")
            self._start(shard, *shard.repeats.pop(), is_repeat=True)
            return True
        if shard.is_done:
            return False
        if shard.running and not (shard.running == 1 and world.occurs(Rates.beside)):
            return False
        if world.occurs(0.1):
            world.fault("a shard delayed")
            shard.delayed_until = world.now + timedelta(seconds=world.rng.randint(1, 5))
            return False
        if shard.running:
            world.fault("a batch beside the one before")
        size = min(len(shard.log) - shard.done, world.rng.choice((1, 2, 3, 5, 10, LONGEST)))
        if shard.failed_size and size != shard.failed_size:
            change = "split" if size < shard.failed_size else "regrown"
            world.fault(f"a batch that failed, {change}")
        self._start(shard, shard.done, shard.done + size)
        return True

    def _start(self, shard: Shard, start: int, end: int, *, is_repeat: bool = False) -> None:
        batch = shard.log[start:end]
        shard.running += 1

        def done(_: Any) -> None:
            shard.running -= 1
            if is_repeat:
                return
            shard.failed_size = 0
            if start <= shard.done:
                shard.done = max(shard.done, end)
            if self._repeats < MAX_REPEATS and self._world.occurs(Rates.again):
                self._repeats += 1
                first = self._world.rng.randint(0, end - 1)
                shard.repeats.append((first, self._world.rng.randint(first + 1, end)))

        def failed(error: BaseException) -> None:
            shard.running -= 1
            shard.failed_size = 0 if is_repeat else end - start
            self._world.check_error("apply", error)

        handler = self._handler
        self._world.start("apply", lambda: handler({"Records": batch}, None), done, failed, seconds=60)


class Queue:
    """The views queue: replaces the SQS client of `POST /views`, and delivers to the handler that writes."""

    def __init__(self, world: World, handler: Handler) -> None:
        self.waiting: list[dict[str, Any]] = []
        self.dead_letters: list[str] = []
        self._world, self._handler = world, handler
        self._sent = 0

    def send_message_batch(self, QueueUrl: str, Entries: list[Any]) -> dict[str, Any]:  # noqa: N803
        """Receive all messages, or a part of them, or kill the sender after receiving them."""
        world = self._world
        world.switch()
        failed: list[Any] = []
        if world.occurs(Rates.call):
            world.fault("the queue takes a part")
            failed = [world.rng.choice(Entries)]
        self.put(*(entry["MessageBody"] for entry in Entries if entry not in failed))
        if world.occurs(Rates.call):
            world.fault("killed after the queue took it")
            world.kill()
        return {"Failed": failed} if failed else {}

    def put(self, *bodies: str) -> None:
        """Put messages into the queue."""
        for body in bodies:
            self._sent += 1
            self.waiting.append({"messageId": f"m{self._sent}", "body": body, "failures": 0})

    def deliver(self) -> bool:
        """Start a delivery of some messages. Return False when there are none."""
        if not self.waiting:
            return False
        count = self._world.rng.randint(1, min(10, len(self.waiting)))
        batch = self._world.rng.sample(self.waiting, count)
        for message in batch:
            self.waiting.remove(message)

        def done(report: Any) -> None:
            failed = {failure["itemIdentifier"] for failure in (report or {}).get("batchItemFailures", ())}
            for message in batch:
                if message["messageId"] in failed:
                    self._retry(message)
                elif self._world.occurs(Rates.again):
                    self._world.fault("a message that was done, again")
                    self.waiting.append(message)

        def failed(error: BaseException) -> None:
            self.waiting += batch
            self._world.check_error("write_views", error)

        event = {
            "Records": [{"messageId": mapping["messageId"], "body": mapping["body"]} for mapping in batch]
        }
        self._world.start("write_views", lambda: self._handler(event, None), done, failed)
        return True

    def _retry(self, message: dict[str, Any]) -> None:
        """Deliver a failed message again. After five failures one that can never be written is set aside."""
        message["failures"] += 1
        if message["failures"] < RECEIVES or '"taken": true' in message["body"]:
            self.waiting.append(message)
        else:
            self.dead_letters.append(message["body"])
