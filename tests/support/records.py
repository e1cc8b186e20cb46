"""Stream records for tests, in Lambda's notation: built from items, or read from an engine."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from chalicelib.aggregates import engine
from chalicelib.aggregates.sums import Contribution
from chalicelib.chat import subscriptions
from chalicelib.dynamo.items import Images, Item, pack
from chalicelib.dynamo.table import Table
from local import filters
from ops.maintenance import audit
from ops.maintenance.streams import to_lambda_record

if TYPE_CHECKING:
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient

    from local.engines.engine import Engine

_ids = itertools.count(1)


def record(
    old: Item | None, new: Item | None, *, second: int = 1_700_000_000, **fields: Any
) -> dict[str, Any]:
    """Build the record that a change from `old` to `new` leaves in the stream."""
    body: dict[str, Any] = {"ApproximateCreationDateTime": float(second)}
    keys = {name: value for name, value in (new or old or {}).items() if name in ("pk", "sk")}
    for name, item in (("Keys", keys), ("OldImage", old), ("NewImage", new)):
        if item is not None:
            body[name] = json.loads(json.dumps(pack(item), default=lambda b: base64.b64encode(b).decode()))
    event = "INSERT" if old is None else "REMOVE" if new is None else "MODIFY"
    return {"eventID": f"record-{next(_ids)}", "eventName": event, "dynamodb": body} | fields


class Reader:
    """A reader of a table's stream on an engine, which reads each record once, oldest first."""

    def __init__(self, streams: DynamoDBStreamsClient, stream_arn: str) -> None:
        self._streams = streams
        self._arn = stream_arn
        shards = streams.describe_stream(StreamArn=stream_arn)["StreamDescription"]["Shards"]
        self._iterators = [
            self._streams.get_shard_iterator(
                StreamArn=stream_arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            for shard in shards
        ]

    def again(self) -> Reader:
        """Return another reader of the same stream, which begins at the oldest record."""
        return Reader(self._streams, self._arn)

    def read(self, *functions: str) -> list[dict[str, Any]]:
        """Return the new records that Lambda delivers to one of these functions, by default to `apply`."""
        names = functions or ("apply",)
        return [record for record in self.read_all() if any(filters.passes(record, name) for name in names)]

    def read_all(self) -> list[dict[str, Any]]:
        """Return the records that are new since the last call, also those that no function gets."""
        found = []
        for i, iterator in enumerate(self._iterators):
            while True:
                reply = self._streams.get_records(ShardIterator=iterator)
                iterator = self._iterators[i] = reply.get("NextShardIterator", iterator)
                found += [to_lambda_record(record, self._arn) for record in reply["Records"]]
                if not reply["Records"]:
                    break
        assert_nothing_is_filtered_out(found)
        return found


def follow(engine: Engine, table: Table) -> Reader:
    """Return a reader of a table's stream."""
    described = table.client.describe_table(TableName=table.name)["Table"]
    return Reader(engine.client("dynamodbstreams"), described["LatestStreamArn"])


def new_images(reader: Reader) -> list[dict[str, Any]]:
    """Return the items that were written since the last read, in DynamoDB's typed JSON."""
    changes = (record["dynamodb"] for record in reader.read_all())
    return [change["NewImage"] for change in changes if change.get("NewImage")]


def assert_nothing_is_filtered_out(records: Sequence[Any]) -> None:
    """Assert that no contribution and no topic needs a record that Lambda's filters leave out."""
    import app

    for record in [record for record in records if not filters.passes(record, "apply")]:
        difference = engine.compute(app.CONTRIBUTIONS, record)
        assert not difference.sums, record
        assert not difference.poison, record
    left_out = [record for record in records if not filters.passes(record, "push")]
    assert subscriptions.changed_topics(app.TOPICS, left_out) == {}


def read_changes(records: Iterable[Any]) -> list[Images]:
    """Return the changes of stream records, as the followers of the app get them."""
    import app

    changes = (engine.compute(app.CONTRIBUTIONS, record).change for record in records)
    return [change for change in changes if change]


def scan(table: Table) -> list[Item]:
    """Return every item of a table."""
    return list(audit.read_items(table.client, table.name))


def drift(table: Table, contributions: Sequence[Contribution]) -> dict[Any, Any]:
    """Return the differences between the aggregates and a recount of the items."""
    return audit.find_drift(contributions, scan(table))
