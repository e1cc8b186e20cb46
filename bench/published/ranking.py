"""The published rank, for comparison: the number of index entries that are greater, and one.

Written from the published description. It asks for one page alone, so that past 1 MB its rank is silently
too small; here every page is followed, because the cost of a right rank is compared.

| pk | sk | holds |
|---|---|---|
| `USER#<user>` | `EVENT#<event>` | `gsi1pk` = `EVENT#<event>`, `gsi1sk`: the distance |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def runner_key(user: str, event: str) -> dict[str, Any]:
    """Return the key of a user in an event."""
    return {"pk": {"S": f"USER#{user}"}, "sk": {"S": f"EVENT#{event}"}}


def runner(user: str, event: str, distance: int) -> dict[str, Any]:
    """Return the item of a user who has registered for an event, and run so far."""
    listed = {"gsi1pk": {"S": f"EVENT#{event}"}, "gsi1sk": {"N": str(distance)}}
    return runner_key(user, event) | listed


def run(client: DynamoDBClient, table_name: str, user: str, event: str, distance: int) -> None:
    """Add to a user's distance. Costs 3 WCU: the item, and its index entry, which moves."""
    client.update_item(
        TableName=table_name,
        Key=runner_key(user, event),
        UpdateExpression="ADD gsi1sk :distance",
        ConditionExpression="attribute_exists(pk)",
        ExpressionAttributeValues={":distance": {"N": str(distance)}},
    )


def position(client: DynamoDBClient, table_name: str, user: str, event: str) -> int:
    """Return a user's rank; equal distances share it.

    Costs 0.5 RCU, and as much for each 4 KB of entries ahead, in a round trip for each 1 MB.
    """
    own = client.get_item(TableName=table_name, Key=runner_key(user, event))["Item"]["gsi1sk"]
    request: Any = {
        "TableName": table_name,
        "IndexName": "gsi1",
        "Select": "COUNT",
        "KeyConditionExpression": "gsi1pk = :event AND gsi1sk > :own",
        "ExpressionAttributeValues": {":event": {"S": f"EVENT#{event}"}, ":own": own},
    }
    ahead = 0
    while True:
        page = client.query(**request)
        ahead += page["Count"]
        if "LastEvaluatedKey" not in page:
            return 1 + ahead
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]
