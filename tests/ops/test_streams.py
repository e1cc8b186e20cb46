"""A stream follower yields each record once, whatever happens to shards and iterators."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import formatdate
from typing import Any

import pytest

from local.engines.engine import start
from ops.maintenance import streams
from ops.maintenance.streams import (
    CLOCK_SLACK,
    EMPTY_PAGES,
    EMPTY_SECONDS,
    POLL_SECONDS,
    Stream,
    StreamFollower,
)
from tests.conftest import EngineTable
from tests.support.live import following as follow


class ExpiredIteratorException(Exception):
    """The error of GetRecords after 15 minutes."""


class FakeStream:
    """A stream in memory, as its client answers; an iterator is a shard and a place in it."""

    class exceptions:  # noqa: N801 (as the SDK's clients have it)
        ExpiredIteratorException = ExpiredIteratorException

    def __init__(self) -> None:
        self.empties = 0  # pages that come before each page with records
        self.gets: list[str] = []
        self.now = 1_800_000_000.0  # AWS's clock
        self.created: dict[str, float] = {}  # by record
        self._left: dict[str, int] = {}  # empty pages that are still to come, by iterator
        self.shards: dict[str, list[str]] = {}
        self.ended: set[str] = set()
        self.expired: set[str] = set()

    def describe_stream(self, *, StreamArn: str, ExclusiveStartShardId: str = "") -> Any:  # noqa: N803
        """Return one shard per page."""
        names = list(self.shards)
        name = names[names.index(ExclusiveStartShardId) + 1 if ExclusiveStartShardId else 0]
        numbers = {"StartingSequenceNumber": "0"} | (
            {"EndingSequenceNumber": "9"} if name in self.ended else {}
        )
        page: dict[str, Any] = {"Shards": [{"ShardId": name, "SequenceNumberRange": numbers}]}
        return {"StreamDescription": page | ({"LastEvaluatedShardId": name} if name != names[-1] else {})}

    def get_shard_iterator(self, *, ShardId: str, ShardIteratorType: str, **asked: str) -> Any:  # noqa: N803
        """Return an iterator."""
        records = self.shards[ShardId]
        places = {"LATEST": len(records), "TRIM_HORIZON": 0}
        last = asked.get("SequenceNumber", "")
        place = records.index(last) + 1 if last else places[ShardIteratorType]
        return {"ShardIterator": f"{ShardId} {place}"}

    def get_records(self, *, ShardIterator: str) -> Any:  # noqa: N803
        """Return at most two records, after the configured number of empty pages."""
        self.gets.append(ShardIterator)
        answer = self._records(ShardIterator)
        dated = {"HTTPHeaders": {"date": formatdate(self.now, usegmt=True)}}
        if not answer["Records"]:
            return answer | {"ResponseMetadata": dated}
        left = self._left.setdefault(ShardIterator, self.empties)
        if left:
            self._left[ShardIterator] = left - 1
            answer = {"Records": [], "NextShardIterator": ShardIterator}
        return answer | {"ResponseMetadata": dated}

    def _records(self, ShardIterator: str) -> dict[str, Any]:  # noqa: N803
        if ShardIterator in self.expired:
            self.expired.remove(ShardIterator)
            raise ExpiredIteratorException
        name, place = ShardIterator.split()
        found = self.shards[name][int(place) : int(place) + 2]
        next_ = int(place) + len(found)
        is_over = name in self.ended and next_ == len(self.shards[name])
        records = [{"SequenceNumber": record} | self._created(record) for record in found]
        answer: dict[str, Any] = {"Records": [{"dynamodb": record} for record in records]}
        return answer if is_over else answer | {"NextShardIterator": f"{name} {next_}"}

    def _created(self, record: str) -> dict[str, Any]:
        if record not in self.created:
            return {}
        return {"ApproximateCreationDateTime": datetime.fromtimestamp(self.created[record], UTC)}


def read(following: StreamFollower) -> list[str]:
    return [record["dynamodb"]["SequenceNumber"] for record in following.records()]


@pytest.fixture
def stream() -> Any:
    made = FakeStream()
    made.shards = {"old": ["a1"], "open": ["b1", "b2"]}
    made.ended = {"old"}
    return made


def test_only_records_written_after_the_start_are_yielded_each_once(stream: Any) -> None:
    following = follow(Stream(stream, "arn"))
    assert read(following) == []
    stream.shards["open"] += ["b3", "b4", "b5"]
    assert read(following) == ["b3", "b4", "b5"]
    assert read(following) == []


def test_the_children_of_a_shard_that_ends_are_followed_from_their_beginning(stream: Any) -> None:
    following = follow(Stream(stream, "arn"))
    stream.shards["open"] += ["b3"]
    stream.ended |= {"open", "child"}
    stream.shards |= {"child": ["c1", "c2", "c3"], "grandchild": ["d1"]}
    assert sorted(read(following)) == ["b3", "c1", "c2", "c3", "d1"]  # each shard in its own order
    stream.shards["grandchild"] += ["d2"]
    assert read(following) == ["d2"]


def test_an_iterator_that_expired_is_made_anew_and_nothing_is_missing(stream: Any) -> None:
    following = follow(Stream(stream, "arn"))
    stream.expired.add("open 2")
    stream.shards["open"] += ["b3"]
    assert read(following) == ["b1", "b2", "b3"]  # nobody knows where it was: rather too much
    stream.expired.add("open 3")
    stream.shards["open"] += ["b4"]
    assert read(following) == ["b4"]


# -- pages without records -----------------------------------------------------------------------------


@pytest.mark.parametrize("empties", [1, 3, EMPTY_PAGES - 1])
def test_empty_pages_before_records_are_not_the_end_of_a_shard(stream: Any, empties: int) -> None:
    """A page may be empty where records follow (GetRecords, DynamoDB Streams API Reference)."""
    following = follow(Stream(stream, "arn"))
    stream.empties = empties
    stream.shards["open"] += ["b3", "b4", "b5", "b6"]
    assert read(following) == ["b3", "b4", "b5", "b6"]
    assert read(following) == []


def test_a_shard_without_records_is_read_several_times_over_some_seconds(stream: Any) -> None:
    pauses: list[float] = []
    now = 0.0

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds
        pauses.append(seconds)

    following = StreamFollower(Stream(stream, "arn"), pause, lambda: now)
    assert read(following) == []
    assert len(stream.gets) >= EMPTY_PAGES
    assert EMPTY_SECONDS <= sum(pauses) <= 2 * EMPTY_SECONDS


def test_many_quiet_shards_take_no_longer_than_one(stream: Any) -> None:
    stream.shards |= {f"quiet-{i}": [] for i in range(20)}
    stream.ended = {"old"}
    now = 0.0

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds

    assert read(StreamFollower(Stream(stream, "arn"), pause, lambda: now)) == []
    assert now <= 2 * EMPTY_SECONDS


def test_a_shard_that_is_always_written_to_is_read_up_to_the_call(stream: Any) -> None:
    """A record that is younger than the call, by AWS's clock, has all that was before it."""
    following = follow(Stream(stream, "arn"))
    pages = 0
    honest = stream.get_records

    def busy(**asked: str) -> Any:
        nonlocal pages
        pages += 1
        stream.now += 0.5
        stream.shards["open"].append(f"n{pages}")
        stream.created[f"n{pages}"] = stream.now
        assert pages < 50, "it reads for ever"
        return honest(**asked)

    stream.get_records = busy
    found = read(following)
    assert found[0] == "n1"
    assert max(stream.created[record] for record in found) >= stream.created["n1"] + CLOCK_SLACK - 1


def test_a_clock_that_is_wrong_here_does_not_matter(stream: Any) -> None:
    """The operator's clock is a day slow: records are not taken for younger than the call."""
    following = follow(Stream(stream, "arn"))
    stream.now += 86_400
    stream.shards["open"] += ["b3", "b4", "b5", "b6"]
    stream.created = dict.fromkeys(stream.shards["open"], stream.now - 1)
    stream.empties = 2
    assert read(following) == ["b3", "b4", "b5", "b6"]


def test_iterators_are_used_in_a_long_time_without_a_call(stream: Any) -> None:
    now = 0.0

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds

    following = StreamFollower(Stream(stream, "arn"), pause, lambda: now)
    stream.shards["open"] += ["b3"]
    assert list(following.poll()) == []
    now += POLL_SECONDS
    assert [record["dynamodb"]["SequenceNumber"] for record in following.poll()] == ["b3"]
    assert list(following.poll()) == []
    stream.shards["open"] += ["b4"]
    assert read(following) == ["b4"]


def test_records_that_are_kept_as_json_are_those_that_lambda_gets(engine_table: EngineTable) -> None:
    engine, name, arn = engine_table
    item: Any = {"pk": {"S": "a"}, "sk": {"S": "b"}, "ids": {"BS": [b"\x00\xff"]}, "n": {"N": "1.5"}}
    engine.client("dynamodb").put_item(TableName=name, Item=item)
    engine.client("dynamodb").delete_item(TableName=name, Key={"pk": item["pk"], "sk": item["sk"]})

    def read(client: Any) -> list[dict[str, Any]]:
        [shard] = Stream(client, arn).shards()
        begin = client.get_shard_iterator(
            StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )
        records = client.get_records(**{"ShardIterator": begin["ShardIterator"]})["Records"]
        found = [streams.to_lambda_record(record, arn) for record in records]
        return [record for record in found if record["dynamodb"]["Keys"]["pk"] == {"S": "a"}]

    parsed = read(engine.client("dynamodbstreams"))
    assert [record["eventName"] for record in parsed] == ["INSERT", "REMOVE"]
    assert parsed[0]["dynamodb"]["NewImage"]["ids"] == {"BS": ["AP8="]}
    # `keep_json` changes a client, and other tests share those of `engine`.
    own = start(engine.endpoint, None).client("dynamodbstreams")
    assert read(streams.keep_json(own)) == parsed
