"""Records of a table's stream: read from it again, in the notation in which Lambda hands them over."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient

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


def lambda_record(record: Any, stream_arn: str) -> dict[str, Any]:
    """Write a record of GetRecords as Lambda hands it over: epoch seconds, binary as base64, its source."""
    plain: dict[str, Any] = json.loads(json.dumps(record, default=_as_lambda_writes))
    if who := plain.get("userIdentity"):
        plain["userIdentity"] = {key[0].lower() + key[1:]: value for key, value in who.items()}
    return plain | {"eventSourceARN": stream_arn}


def _as_lambda_writes(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value.timestamp()
