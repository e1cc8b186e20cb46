"""A stream follower yields each record once, whatever happens to shards and iterators."""

from __future__ import annotations

from collections.abc import Iterable
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
from tests.support.streams import FakeStream


def names(records: Iterable[Any]) -> list[str]:
    return [record["dynamodb"]["Keys"]["pk"]["S"] for record in records]


def read(following: StreamFollower) -> list[str]:
    return names(following.records())


@pytest.fixture
def stream() -> Any:
    made = FakeStream(old=["a1"], open=["b1", "b2"])
    made.closed = {"old"}
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
    stream.closed |= {"open", "child"}
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
    stream.closed = {"old"}
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
    assert names(following.poll()) == ["b3"]
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
