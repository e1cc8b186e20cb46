"""Records of a table's stream: read again as Lambda hands them over, or followed as they are written."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from chalicelib.attempts import attempt

if TYPE_CHECKING:
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient

    from chalicelib.table import Table

PAGE = 100  # records that are handed over at a time


def between(
    streams: DynamoDBStreamsClient, stream_arn: str, shard: str, first: str, last: str
) -> Iterator[list[dict[str, Any]]]:
    """Read a shard's records from one sequence number to another, both included, a page at a time.

    A stream keeps its records for 24 hours: TrimmedDataAccessException when the first is gone.
    """
    iterator: str | None = streams.get_shard_iterator(
        StreamArn=stream_arn, ShardId=shard, ShardIteratorType="AT_SEQUENCE_NUMBER", SequenceNumber=first
    )["ShardIterator"]
    while iterator:
        answer = streams.get_records(ShardIterator=iterator, Limit=PAGE)
        numbers = [int(record["dynamodb"]["SequenceNumber"]) for record in answer["Records"]]
        records = zip(answer["Records"], numbers, strict=True)
        yield [lambda_record(record, stream_arn) for record, number in records if number <= int(last)]
        if numbers and numbers[-1] >= int(last):
            return
        iterator = answer.get("NextShardIterator")


def shards(streams: DynamoDBStreamsClient, stream_arn: str) -> list[Any]:
    """List the shards of a stream."""
    pages: list[Any] = [streams.describe_stream(StreamArn=stream_arn)["StreamDescription"]]
    while last := pages[-1].get("LastEvaluatedShardId"):
        page = streams.describe_stream(StreamArn=stream_arn, ExclusiveStartShardId=last)
        pages.append(page["StreamDescription"])
    return [shard for page in pages for shard in page["Shards"]]


class Following:
    """Follows a stream from now on, beside the one who applies it: AWS lets two read a shard.

    An iterator that has expired, after 15 minutes, is made anew behind the last record that was read; where
    none was, the shard is read from its beginning: what was written earlier may come too, nothing is missing.
    """

    def __init__(self, streams: DynamoDBStreamsClient, stream_arn: str) -> None:
        self._streams, self._arn = streams, stream_arn
        self._iterators: dict[str, str | None] = {}  # by shard; None: it has been read to its end
        self._last: dict[str, str] = {}
        for shard in shards(streams, stream_arn):
            is_over = "EndingSequenceNumber" in shard["SequenceNumberRange"]
            self._iterators[shard["ShardId"]] = (
                None if is_over else self._iterator(shard["ShardId"], "LATEST")
            )

    def records(self) -> Iterator[Any]:
        """Yield what was written since the last call, of no certain order, as GetRecords answers it."""
        is_new = True
        while is_new:  # a shard that ends has children, which may have ended too
            for name in self._iterators:
                yield from self._read(name)
            names = [shard["ShardId"] for shard in shards(self._streams, self._arn)]
            new = [name for name in names if name not in self._iterators]
            self._iterators |= {name: self._iterator(name, "TRIM_HORIZON") for name in new}
            is_new = bool(new)

    def _read(self, name: str) -> Iterator[Any]:
        while iterator := self._iterators[name]:
            get = partial(self._streams.get_records, ShardIterator=iterator)
            try:
                answer = attempt(get, time.sleep)
            except self._streams.exceptions.ExpiredIteratorException:
                self._iterators[name] = self._behind_last(name)
                continue
            self._iterators[name] = answer.get("NextShardIterator")
            if not answer["Records"]:
                return
            self._last[name] = answer["Records"][-1]["dynamodb"]["SequenceNumber"]
            yield from answer["Records"]

    def _behind_last(self, name: str) -> str:
        if name in self._last:
            return self._iterator(name, "AFTER_SEQUENCE_NUMBER", SequenceNumber=self._last[name])
        return self._iterator(name, "TRIM_HORIZON")

    def _iterator(self, name: str, kind: str, **position: str) -> str:
        asked: Any = {"StreamArn": self._arn, "ShardId": name, "ShardIteratorType": kind, **position}
        return self._streams.get_shard_iterator(**asked)["ShardIterator"]


def follow(table: Table, streams: DynamoDBStreamsClient) -> Following:
    """Follow the stream of a table from now on."""
    found = table.client.describe_table(TableName=table.name)["Table"]
    return Following(streams, found["LatestStreamArn"])


def lambda_record(record: Any, stream_arn: str) -> dict[str, Any]:
    """Write a record of GetRecords as Lambda hands it over: epoch seconds, binary as base64, its source."""
    plain: dict[str, Any] = json.loads(json.dumps(record, default=_as_lambda_writes))
    if who := plain.get("userIdentity"):
        plain["userIdentity"] = {key[0].lower() + key[1:]: value for key, value in who.items()}
    return plain | {"eventSourceARN": stream_arn}


def _as_lambda_writes(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value.timestamp()
