"""Read a table's stream: a range of records as Lambda delivers them, or new records as they are written."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient

    from chalicelib.dynamo.table import Table
from chalicelib.dynamo.retries import retry

PAGE = 100  # records per read
# Consecutive empty pages, and their minimum duration in seconds, that mean the end of a shard.
EMPTY_PAGES, EMPTY_SECONDS = 8, 2.0
# Seconds: creation times and dates have a resolution of one second and only approximate order.
CLOCK_SLACK = 2.0
POLL_SECONDS = 60.0


class Stream(NamedTuple):
    """A table's stream, and the client that reads it."""

    client: DynamoDBStreamsClient
    arn: str

    def shards(self) -> list[Any]:
        """Return all shards."""
        pages: list[Any] = [self.client.describe_stream(StreamArn=self.arn)["StreamDescription"]]
        while last := pages[-1].get("LastEvaluatedShardId"):
            page = self.client.describe_stream(StreamArn=self.arn, ExclusiveStartShardId=last)
            pages.append(page["StreamDescription"])
        return [shard for page in pages for shard in page["Shards"]]

    def iterator(self, shard: str, kind: str, sequence_number: str = "") -> str:
        """Return an iterator of a shard, for a type that needs it from a sequence number on."""
        request: Any = {"StreamArn": self.arn, "ShardId": shard, "ShardIteratorType": kind}
        request |= {"SequenceNumber": sequence_number} if sequence_number else {}
        return self.client.get_shard_iterator(**request)["ShardIterator"]


def read_range(stream: Stream, shard: str, first: str, last: str) -> Iterator[list[dict[str, Any]]]:
    """Yield pages of a shard's records between two sequence numbers, both included.

    Raises: TrimmedDataAccessException when the first record is older than the 24 hours that a stream keeps.
    """
    iterator: str | None = stream.iterator(shard, "AT_SEQUENCE_NUMBER", first)
    while iterator:
        response = stream.client.get_records(ShardIterator=iterator, Limit=PAGE)
        numbers = [int(record["dynamodb"]["SequenceNumber"]) for record in response["Records"]]
        records = zip(response["Records"], numbers, strict=True)
        yield [to_lambda_record(record, stream.arn) for record, number in records if number <= int(last)]
        if numbers and numbers[-1] >= int(last):
            return
        iterator = response.get("NextShardIterator")


class StreamFollower:
    """Reads the records that are written to a stream from now on.

    AWS allows two readers per shard: this one and the function `apply`. Its callers pause `push`.

    An empty page does not mean the end of a shard: "Note that it might take multiple calls to get to a
    portion of the shard that contains stream records" (GetRecords, DynamoDB Streams API Reference). A shard
    has been read up to the moment of a call when

    - it is closed and has no next iterator, or
    - a record was read that is newer than the call by AWS's own clock (the records of a shard are ordered),
    or
    - at least EMPTY_PAGES consecutive pages over at least EMPTY_SECONDS were empty.

    An iterator expires after 15 minutes and is replaced by one after the last record that was read. If no
    record was read, the shard is read from its beginning: older records may be included, none is missing.
    Calling `poll` regularly keeps iterators from expiring.
    """

    def __init__(
        self,
        stream: Stream,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stream = stream
        self._pause, self._clock = pause, clock
        self._iterators: dict[str, str | None] = {}  # by shard; None: read to its end
        self._last: dict[str, str] = {}
        self._now = 0.0  # AWS's time of the last response
        self._polled = clock()
        for shard in stream.shards():
            name, is_over = shard["ShardId"], "EndingSequenceNumber" in shard["SequenceNumberRange"]
            self._iterators[name] = None if is_over else stream.iterator(name, "LATEST")

    def records(self) -> Iterator[Any]:
        """Yield the records written since the last call, in no order, as GetRecords returns them.

        Records written during the call may be included. Takes at least EMPTY_SECONDS if a shard has no new
        records.
        """
        until: float | None = None
        # The number of consecutive empty pages of a shard, and the time of the first.
        empty: dict[str, tuple[int, float]] = {}
        behind = {name for name, iterator in self._iterators.items() if iterator}
        while behind:
            is_quiet = True
            for name in sorted(behind):
                found = self._page(name)
                yield from found
                until = self._now + CLOCK_SLACK if until is None else until
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
            if not behind:  # a closed shard has children, which may be closed too
                names = [shard["ShardId"] for shard in self._stream.shards()]
                behind = {name for name in names if name not in self._iterators}
                self._iterators |= {name: self._stream.iterator(name, "TRIM_HORIZON") for name in behind}
        self._polled = self._clock()

    def poll(self) -> Iterator[Any]:
        """Yield new records if the last read was a minute ago, so that no iterator expires."""
        if self._clock() - self._polled < POLL_SECONDS:
            return
        self._polled = self._clock()
        for name in list(self._iterators):
            while self._iterators[name] and (found := self._page(name)):
                yield from found

    def _page(self, name: str) -> list[Any]:
        """Read a shard's next page."""
        while iterator := self._iterators[name]:
            get = partial(self._stream.client.get_records, ShardIterator=iterator)
            try:
                response = retry(get, time.sleep)
            except self._stream.client.exceptions.ExpiredIteratorException:
                self._iterators[name] = self._behind_last(name)
                continue
            self._now = _date(response) or self._clock()
            self._iterators[name] = response.get("NextShardIterator")
            if response["Records"]:
                self._last[name] = response["Records"][-1]["dynamodb"]["SequenceNumber"]
            return list(response["Records"])
        return []

    def _behind_last(self, name: str) -> str:
        if name in self._last:
            return self._stream.iterator(name, "AFTER_SEQUENCE_NUMBER", self._last[name])
        return self._stream.iterator(name, "TRIM_HORIZON")


def _date(response: Any) -> float | None:
    """Return the time of a response from its Date header; None for an engine without one."""
    headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    try:
        return parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        return None


def _created(record: Any) -> float:
    """Return the creation time of a record in seconds; 0 if it has none."""
    created = record["dynamodb"].get("ApproximateCreationDateTime", 0)
    return float(created if isinstance(created, int | float) else created.timestamp())


def follow_stream(table: Table, streams: DynamoDBStreamsClient) -> StreamFollower:
    """Return a follower of a table's stream that starts now."""
    found = table.client.describe_table(TableName=table.name)["Table"]
    return StreamFollower(Stream(streams, found["LatestStreamArn"]))


def to_lambda_record(record: Any, stream_arn: str) -> dict[str, Any]:
    """Convert a record of GetRecords to Lambda's format: epoch seconds, base64 binary, and the source.

    A record that a client of `keep_json` has read is in this format but for the source.
    """
    is_json = isinstance(record["dynamodb"].get("ApproximateCreationDateTime"), int | float)
    plain: dict[str, Any] = record if is_json else json.loads(json.dumps(record, default=_as_lambda_writes))
    if identity := plain.get("userIdentity"):
        plain["userIdentity"] = {key[0].lower() + key[1:]: value for key, value in identity.items()}
    return plain | {"eventSourceARN": stream_arn}


def keep_json(streams: DynamoDBStreamsClient) -> DynamoDBStreamsClient:
    """Let a client return the records of GetRecords as they are in its JSON, and return the client.

    botocore's parser would take most of the time of a busy local run.
    """
    streams.meta.events.register("before-parse.dynamodb-streams.GetRecords", _keep_records)
    return streams


def _keep_records(response_dict: Any, customized_response_dict: dict[str, Any], **_: Any) -> None:
    if response_dict["status_code"] == 200:
        customized_response_dict |= json.loads(response_dict["body"])
        response_dict["body"] = b"{}"


def _as_lambda_writes(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value.timestamp()
