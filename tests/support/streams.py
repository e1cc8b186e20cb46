"""A stream in memory, for tests of its readers."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import formatdate
from typing import Any

from botocore.exceptions import ClientError


def failure(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": ""}}, "GetRecords")


class ExpiredIteratorException(Exception):
    """The error of GetRecords after 15 minutes."""


class FakeStream:
    """A stream as its client answers. Shard `a_b` is a child of `a`. An iterator is a shard and a place."""

    class exceptions:  # noqa: N801 (as the SDK's clients have it)
        ExpiredIteratorException = ExpiredIteratorException

    def __init__(self, **shards: list[str]) -> None:
        self.shards = shards
        self.closed: set[str] = set()
        self.expired: set[str] = set()  # iterators
        self.fails_once: list[ClientError] = []
        self.trimmed = 0  # records that have left each shard
        self.generation = 1
        self.empties = 0  # pages that come before each page with records
        self.gets: list[str] = []
        self.now = 1_800_000_000.0  # AWS's clock
        self.created: dict[str, float] = {}  # by record
        self._left: dict[str, int] = {}  # empty pages that are still to come, by iterator

    def describe_stream(self, *, StreamArn: str, ExclusiveStartShardId: str = "") -> Any:  # noqa: N803
        """Return one shard per page."""
        names = list(self.shards)
        name = names[names.index(ExclusiveStartShardId) + 1 if ExclusiveStartShardId else 0]
        ending = {"EndingSequenceNumber": "9"} if name in self.closed else {}
        shard: dict[str, Any] = {"ShardId": name, "SequenceNumberRange": ending}
        if parent := name.rpartition("_")[0]:
            shard["ParentShardId"] = parent
        page: dict[str, Any] = {"Shards": [shard]}
        return {"StreamDescription": page | ({"LastEvaluatedShardId": name} if name != names[-1] else {})}

    def get_shard_iterator(self, *, ShardId: str, ShardIteratorType: str, **more: str) -> Any:  # noqa: N803
        places = {"LATEST": len(self.shards[ShardId]), "TRIM_HORIZON": self.trimmed}
        if number := more.get("SequenceNumber"):
            places[ShardIteratorType] = int(number) + (ShardIteratorType == "AFTER_SEQUENCE_NUMBER")
        if places[ShardIteratorType] < self.trimmed:
            raise failure("TrimmedDataAccessException")
        return {"ShardIterator": f"{ShardId} {places[ShardIteratorType]}"}

    def get_records(self, *, ShardIterator: str, Limit: int = 2) -> Any:  # noqa: N803
        """Return a page, after the configured number of empty ones."""
        self.gets.append(ShardIterator)
        if self.fails_once:
            raise self.fails_once.pop()
        if ShardIterator in self.expired:
            self.expired.remove(ShardIterator)
            raise ExpiredIteratorException
        name, place = ShardIterator.split()
        begin = int(place)
        found = self.shards[name][begin : begin + Limit]
        if found and (left := self._left.setdefault(ShardIterator, self.empties)):
            self._left[ShardIterator] = left - 1
            found = []
        end = begin + len(found)
        answer: dict[str, Any] = {"Records": [self._record(name, begin + i, r) for i, r in enumerate(found)]}
        answer |= {"ResponseMetadata": {"HTTPHeaders": {"date": formatdate(self.now, usegmt=True)}}}
        is_over = name in self.closed and end >= len(self.shards[name])
        return answer if is_over else answer | {"NextShardIterator": f"{name} {end}"}

    def _record(self, shard: str, place: int, name: str) -> dict[str, Any]:
        change: dict[str, Any] = {"SequenceNumber": str(place), "Keys": {"pk": {"S": name}}}
        if name in self.created:
            change["ApproximateCreationDateTime"] = datetime.fromtimestamp(self.created[name], UTC)
        return {"eventID": f"{self.generation}-{shard}-{name}", "dynamodb": change}
