"""Lambda's event sources, as bad as AWS allows them to be: a table's stream and the views queue, in a world.

A stream's records keep their order within a shard. A batch is any number of records from where the shard
stands; one that fails comes again, shorter or longer; one that is done may come again at any time, whole or
in part; one may come while the one before is still at work. A queue knows no order, and delivers at least
once.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from bench.simulation import BEGIN, Killed, World
from chalicelib.errors import Busy
from ops.streams import lambda_record

if TYPE_CHECKING:
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient

Handler = Callable[[dict[str, Any], Any], Any]
SHARDS = 3
LONGEST = 60  # records in a batch
REPEATS = 60  # deliveries of what is done, in one history at most
TTL = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
RECEIVES = 5  # of a message that fails, before it is put aside


@dataclass
class Shard:
    """A shard: its records, how many of them are done, and how many batches are at work."""

    log: list[dict[str, Any]] = field(default_factory=list)
    done: int = 0
    flying: int = 0
    asked: int = 0  # records of the last batch from here, which failed
    held: datetime = BEGIN
    again: list[tuple[int, int]] = field(default_factory=list)


class Stream:
    """A table's stream, and the handler that it is delivered to."""

    def __init__(
        self, world: World, streams: DynamoDBStreamsClient, arn: str, handler: Handler, seconds: float = 60
    ) -> None:
        self.records: list[dict[str, Any]] = []
        self.shards = [Shard() for _ in range(SHARDS)]
        self._world, self._streams, self._arn = world, streams, arn
        self._handler, self._seconds = handler, seconds
        found = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
        self._iterators = [
            streams.get_shard_iterator(
                StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            for shard in found
        ]
        self.expiring: set[tuple[str, str]] = set()  # whose removal is TTL's
        self._repeats = 0

    def poll(self) -> int:
        """Read what is new; answer how much. Names and times of records follow from the history alone."""
        before = len(self.records)
        for i, iterator in enumerate(self._iterators):
            answer = self._streams.get_records(ShardIterator=iterator)
            self._iterators[i] = answer.get("NextShardIterator", iterator)
            for record in answer["Records"]:
                one = lambda_record(record, self._arn)
                one["eventID"] = f"record-{len(self.records)}"
                one["dynamodb"]["ApproximateCreationDateTime"] = float(int(self._world.now.timestamp()))
                self.records.append(one)
                pk, sk = (one["dynamodb"]["Keys"][name]["S"] for name in ("pk", "sk"))
                if (pk, sk) in self.expiring:
                    one["userIdentity"] = TTL
                self.shards[zlib.crc32(pk.encode()) % SHARDS].log.append(one)
        return len(self.records) - before

    @property
    def is_empty(self) -> bool:
        """Tell whether all that was read is delivered, and nothing is to come again."""
        return all(s.done == len(s.log) and not s.again and not s.flying for s in self.shards)

    def deliver(self) -> bool:
        """Begin a delivery, if there is anything to deliver; tell whether."""
        world = self._world
        ready = [s for s in self.shards if s.done < len(s.log) or s.again]
        if not ready:
            return False
        shard = world.chance.choice(ready)
        if shard.held > world.now and not world.is_calm:
            return False
        if shard.again and (shard.done == len(shard.log) or world.chance.random() < 0.3):
            world.fault("a batch that was done, again")
            self._begin(shard, *shard.again.pop(), again=True)
            return True
        if shard.done == len(shard.log):
            return False
        if shard.flying and not (shard.flying == 1 and world.strikes(world.rates.beside)):
            return False
        if world.strikes(0.1):
            world.fault("a shard delayed")
            shard.held = world.now + timedelta(seconds=world.chance.randint(1, 5))
            return False
        if shard.flying:
            world.fault("a batch beside the one before")
        left = len(shard.log) - shard.done
        size = min(left, world.chance.choice((1, 2, 3, 5, 10, LONGEST)))
        if shard.asked and size != shard.asked:
            world.fault(
                "a batch that failed, split" if size < shard.asked else "a batch that failed, regrown"
            )
        self._begin(shard, shard.done, shard.done + size)
        return True

    def _begin(self, shard: Shard, start: int, end: int, *, again: bool = False) -> None:
        batch = shard.log[start:end]
        shard.flying += 1

        def done(_: Any) -> None:
            shard.flying -= 1
            if again:
                return
            shard.asked = 0
            if start <= shard.done:
                shard.done = max(shard.done, end)
            if self._repeats < REPEATS and self._world.strikes(self._world.rates.again):
                self._repeats += 1
                first = self._world.chance.randint(0, end - 1)
                shard.again.append((first, self._world.chance.randint(first + 1, end)))

        def failed(error: BaseException) -> None:
            shard.flying -= 1
            shard.asked = 0 if again else end - start
            surprised(self._world, "apply", error)

        work = self._handler
        self._world.start("apply", lambda: work({"Records": batch}, None), done, failed, self._seconds)


def surprised(world: World, name: str, error: BaseException) -> None:
    """Note an error that no handler may raise: not a death, not a table that is busy."""
    if not isinstance(error, Killed | Busy):
        world.surprises.append(f"{name} raised {type(error).__name__}: {error}")


class Queue:
    """The views queue, in the SDK's place at the door, and before the handler that writes."""

    def __init__(self, world: World, handler: Handler) -> None:
        self.waiting: list[dict[str, Any]] = []
        self.aside: list[str] = []
        self._world, self._handler = world, handler
        self._sent = 0
        self.flying = 0

    def send_message_batch(self, QueueUrl: str, Entries: list[Any]) -> dict[str, Any]:  # noqa: N803
        """Take messages, all or a part of them, or take them and say nothing."""
        world = self._world
        world.hand_over()
        failed: list[Any] = []
        if world.strikes(world.rates.call):
            world.fault("the queue takes a part")
            failed = [world.chance.choice(Entries)]
        self.put(*(entry["MessageBody"] for entry in Entries if entry not in failed))
        if world.strikes(world.rates.call):
            world.fault("killed after the queue took it")
            world.kill()
        return {"Failed": failed} if failed else {}

    def put(self, *bodies: str) -> None:
        """Put messages into the queue."""
        for body in bodies:
            self._sent += 1
            self.waiting.append({"messageId": f"m{self._sent}", "body": body, "failures": 0})

    def deliver(self) -> bool:
        """Begin a delivery of some messages, if there are any; tell whether."""
        if not self.waiting:
            return False
        count = self._world.chance.randint(1, min(10, len(self.waiting)))
        batch = self._world.chance.sample(self.waiting, count)
        for message in batch:
            self.waiting.remove(message)
        self.flying += 1

        def done(report: Any) -> None:
            self.flying -= 1
            failed = {one["itemIdentifier"] for one in (report or {}).get("batchItemFailures", ())}
            for message in batch:
                if message["messageId"] in failed:
                    self._again(message)
                elif self._world.strikes(self._world.rates.again):
                    self._world.fault("a message that was done, again")
                    self.waiting.append(message)

        def failed(error: BaseException) -> None:
            self.flying -= 1
            self.waiting += batch
            surprised(self._world, "write_views", error)

        records = [{"messageId": one["messageId"], "body": one["body"]} for one in batch]
        event = {"Records": records}
        self._world.start("write_views", lambda: self._handler(event, None), done, failed)
        return True

    def _again(self, message: dict[str, Any]) -> None:
        """Let a message that failed come again, or put it aside: those who look after it look at why."""
        message["failures"] += 1
        if message["failures"] < RECEIVES or '"taken": true' in message["body"]:
            self.waiting.append(message)
        else:
            self.aside.append(message["body"])
