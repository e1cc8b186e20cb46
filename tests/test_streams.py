"""A stream that is followed: each record once, whatever becomes of its shards and iterators."""

from __future__ import annotations

from typing import Any

import pytest

from ops.streams import Following


class ExpiredIteratorException(Exception):
    """What GetRecords raises after 15 minutes."""


class Stream:
    """A stream in memory, as its client answers; an iterator is a shard and a place in it."""

    class exceptions:  # noqa: N801 (as the SDK's clients have it)
        ExpiredIteratorException = ExpiredIteratorException

    def __init__(self) -> None:
        self.shards: dict[str, list[str]] = {}
        self.ended: set[str] = set()
        self.expired: set[str] = set()

    def describe_stream(self, *, StreamArn: str, ExclusiveStartShardId: str = "") -> Any:  # noqa: N803
        """Answer one shard a page."""
        names = list(self.shards)
        name = names[names.index(ExclusiveStartShardId) + 1 if ExclusiveStartShardId else 0]
        numbers = {"StartingSequenceNumber": "0"} | (
            {"EndingSequenceNumber": "9"} if name in self.ended else {}
        )
        page: dict[str, Any] = {"Shards": [{"ShardId": name, "SequenceNumberRange": numbers}]}
        return {"StreamDescription": page | ({"LastEvaluatedShardId": name} if name != names[-1] else {})}

    def get_shard_iterator(self, *, ShardId: str, ShardIteratorType: str, **asked: str) -> Any:  # noqa: N803
        """Answer an iterator."""
        records = self.shards[ShardId]
        places = {"LATEST": len(records), "TRIM_HORIZON": 0}
        last = asked.get("SequenceNumber", "")
        place = records.index(last) + 1 if last else places[ShardIteratorType]
        return {"ShardIterator": f"{ShardId} {place}"}

    def get_records(self, *, ShardIterator: str) -> Any:  # noqa: N803
        """Answer two records at most."""
        if ShardIterator in self.expired:
            self.expired.remove(ShardIterator)
            raise ExpiredIteratorException
        name, place = ShardIterator.split()
        found = self.shards[name][int(place) : int(place) + 2]
        next_ = int(place) + len(found)
        is_over = name in self.ended and next_ == len(self.shards[name])
        answer: dict[str, Any] = {"Records": [{"dynamodb": {"SequenceNumber": one}} for one in found]}
        return answer if is_over else answer | {"NextShardIterator": f"{name} {next_}"}


def read(following: Following) -> list[str]:
    return [record["dynamodb"]["SequenceNumber"] for record in following.records()]


@pytest.fixture
def stream() -> Any:
    made = Stream()
    made.shards = {"old": ["a1"], "open": ["b1", "b2"]}
    made.ended = {"old"}
    return made


def test_what_was_written_before_is_not_told_and_what_comes_is_told_once(stream: Any) -> None:
    following = Following(stream, "arn")
    assert read(following) == []
    stream.shards["open"] += ["b3", "b4", "b5"]
    assert read(following) == ["b3", "b4", "b5"]
    assert read(following) == []


def test_the_children_of_a_shard_that_ends_are_followed_from_their_beginning(stream: Any) -> None:
    following = Following(stream, "arn")
    stream.shards["open"] += ["b3"]
    stream.ended |= {"open", "child"}
    stream.shards |= {"child": ["c1", "c2", "c3"], "grandchild": ["d1"]}
    assert read(following) == ["b3", "c1", "c2", "c3", "d1"]
    stream.shards["grandchild"] += ["d2"]
    assert read(following) == ["d2"]


def test_an_iterator_that_expired_is_made_anew_and_nothing_is_missing(stream: Any) -> None:
    following = Following(stream, "arn")
    stream.expired.add("open 2")
    stream.shards["open"] += ["b3"]
    assert read(following) == ["b1", "b2", "b3"]  # nobody knows where it was: rather too much
    stream.expired.add("open 3")
    stream.shards["open"] += ["b4"]
    assert read(following) == ["b4"]
