"""The published game statistics, for comparison: a stream handler that counts a player's paths and adds.

Written from the published description, faults included; Hubbub's own statistics do not work like this.

| pk | sk | holds |
|---|---|---|
| `USER#<player>` | `PATH#<path>` | a path that the player found; a valid one is stored |
| `AGGREGATES` | `PATHS` | `total`: paths found |
| `AGGREGATES` | `PLAYERS` | `total`: players |
| `AGGREGATES` | `FOUND#<n>` | `total`: players who found n paths, n from 1 to the limit |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LIMIT = 12
BATCH = 10  # records


def submit(client: DynamoDBClient, table_name: str, player: str, path: str) -> None:
    """Store a valid path. Costs 1 WCU; the limit is looked at later, by the stream."""
    client.put_item(TableName=table_name, Item={"pk": {"S": f"USER#{player}"}, "sk": {"S": f"PATH#{path}"}})


def handle(client: DynamoDBClient, table_name: str, records: Sequence[Any]) -> None:
    """Count the inserted paths of a batch, oldest first; everything else is ignored.

    A record that comes twice counts twice, and two paths of a player in one batch both read the count that
    includes the two: those are the design's faults. Costs 2 or 3 WCU and 0.5 RCU a record.
    """
    for record in records:
        keys = record["dynamodb"]["Keys"]
        if record["eventName"] != "INSERT" or not keys["sk"]["S"].startswith("PATH#"):
            continue
        found = client.query(
            TableName=table_name,
            KeyConditionExpression="pk = :pk AND begins_with(sk, :path)",
            ExpressionAttributeValues={":pk": keys["pk"], ":path": {"S": "PATH#"}},
        )["Count"]
        if found > LIMIT:
            continue
        for sk in ("PATHS", f"FOUND#{found}", *(["PLAYERS"] if found == 1 else [])):
            client.update_item(
                TableName=table_name,
                Key={"pk": {"S": "AGGREGATES"}, "sk": {"S": sk}},
                UpdateExpression="ADD #total :one",
                ExpressionAttributeNames={"#total": "total"},
                ExpressionAttributeValues={":one": {"N": "1"}},
            )
