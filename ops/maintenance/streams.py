"""Records of a table's stream: read again as Lambda hands them over, or followed as they are written."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from chalicelib.dynamo.retries import retry

if TYPE_CHECKING:
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient

    from chalicelib.dynamo.table import Table

PAGE = 100  # records that are handed over at a time
EMPTY_PAGES, EMPTY_SECONDS = 8, 2.0  # empty pages in a row, and over what time, that are the tip of a shard
YOUNGER = 2.0  # seconds: creation times and dates are whole seconds, and only nearly in order
POLL_SECONDS = 60.0


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
    """Follows a stream from now on, beside the function that applies it: AWS lets two read a shard.

    An empty page is not the end of a shard: "Note that it might take multiple calls to get to a portion of
    the shard that contains stream records" (GetRecords, DynamoDB Streams API Reference). A shard has been
    read up to the moment of a call when

    - it is closed, and has no next iterator; or
    - a record was read that is younger than the call, by AWS's own clock: a shard is in order; or
    - at least EMPTY_PAGES pages in a row, over at least EMPTY_SECONDS, were empty.

    An iterator that has expired, after 15 minutes, is replaced by one behind the last record that was read.
    Where there is none, the shard is read from its beginning: older records may come too, none is missing.
    `poll` keeps iterators from expiring.
    """

    def __init__(
        self,
        streams: DynamoDBStreamsClient,
        stream_arn: str,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._streams, self._arn = streams, stream_arn
        self._pause, self._clock = pause, clock
        self._iterators: dict[str, str | None] = {}  # by shard; None: it has been read to its end
        self._last: dict[str, str] = {}
        self._now = 0.0  # what AWS's clock showed last
        self._polled = clock()
        for shard in shards(streams, stream_arn):
            is_over = "EndingSequenceNumber" in shard["SequenceNumberRange"]
            self._iterators[shard["ShardId"]] = (
                None if is_over else self._iterator(shard["ShardId"], "LATEST")
            )

    def records(self) -> Iterator[Any]:
        """Yield what was written between the last call and this one, in no order, as GetRecords has it.

        Records that are written meanwhile may come too. Takes at least EMPTY_SECONDS while a shard is quiet.
        """
        until: float | None = None
        empty: dict[str, tuple[int, float]] = {}  # pages in a row, and when the first of them came
        behind = {name for name, iterator in self._iterators.items() if iterator}
        while behind:
            is_quiet = True
            for name in sorted(behind):
                found = self._page(name)
                yield from found
                until = self._now + YOUNGER if until is None else until
                if found:
                    is_quiet = False
                    empty.pop(name, None)
                    is_read = any(_created(record) >= until for record in found)
                else:
                    pages, since = empty.get(name, (0, self._clock()))
                    empty[name] = pages + 1, since
                    is_read = pages + 1 >= EMPTY_PAGES and self._clock() - since >= EMPTY_SECONDS
                if is_read or self._iterators[name] is None:
                    behind.remove(name)
            if behind and is_quiet:
                self._pause(EMPTY_SECONDS / EMPTY_PAGES)
            if not behind:  # a shard that has ended has children, which may have ended too
                names = [shard["ShardId"] for shard in shards(self._streams, self._arn)]
                behind = {name for name in names if name not in self._iterators}
                self._iterators |= {name: self._iterator(name, "TRIM_HORIZON") for name in behind}
        self._polled = self._clock()

    def poll(self) -> Iterator[Any]:
        """Yield what has come, if the last look is a minute ago: so no iterator expires in a long time."""
        if self._clock() - self._polled < POLL_SECONDS:
            return
        self._polled = self._clock()
        for name in list(self._iterators):
            while self._iterators[name] and (found := self._page(name)):
                yield from found

    def _page(self, name: str) -> list[Any]:
        """Read a shard's next page."""
        while iterator := self._iterators[name]:
            get = partial(self._streams.get_records, ShardIterator=iterator)
            try:
                answer = retry(get, time.sleep)
            except self._streams.exceptions.ExpiredIteratorException:
                self._iterators[name] = self._behind_last(name)
                continue
            self._now = _date(answer) or self._clock()
            self._iterators[name] = answer.get("NextShardIterator")
            if answer["Records"]:
                self._last[name] = answer["Records"][-1]["dynamodb"]["SequenceNumber"]
            return list(answer["Records"])
        return []

    def _behind_last(self, name: str) -> str:
        if name in self._last:
            return self._iterator(name, "AFTER_SEQUENCE_NUMBER", SequenceNumber=self._last[name])
        return self._iterator(name, "TRIM_HORIZON")

    def _iterator(self, name: str, kind: str, **position: str) -> str:
        asked: Any = {"StreamArn": self._arn, "ShardId": name, "ShardIteratorType": kind, **position}
        return self._streams.get_shard_iterator(**asked)["ShardIterator"]


def _date(answer: Any) -> float | None:
    """Read when AWS answered, in seconds, from the Date header; None where an engine sends none."""
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    try:
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        return None


def _created(record: Any) -> float:
    """Read the second in which a record was made; 0 for a record without it."""
    created = record["dynamodb"].get("ApproximateCreationDateTime")
    return float(created.timestamp()) if created else 0.0


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
