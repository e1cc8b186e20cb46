"""Challenges: the price of a found path with the statistics, beside a stream handler that counts and adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

from bench.report import Answer
from chalicelib.aggregates import engine as aggregates
from chalicelib.api.auth import Caller
from chalicelib.challenges import definitions, progress, submissions
from chalicelib.challenges.schemas import ChallengeBody
from chalicelib.dynamo.table import Table
from local.engines.engine import Engine
from local.event_sources import StreamPump
from ops.maintenance.streams import Stream
from tests.support.contexts import new_context
from tests.support.meter import Meter
from tests.support.tables import drain, fresh_table

LIMIT, BATCH, PUBLISHED_BATCH = 12, 200, 10  # paths of a player; records of a batch
ONE_EACH = [(f"p{i:03}", "path 00") for i in range(100)]
CASES = {
    "a path, alone": ONE_EACH[:1],
    "100 players, a path each": ONE_EACH,
    "10 players, 10 paths each": [(f"p{i % 10:03}", f"path {i // 10:02}") for i in range(100)],
}


def submit_published(table: Table, player: str, path: str) -> None:
    """Store a valid path, whose limit the stream looks at later. Cost: 1 WCU."""
    table.put({"pk": f"USER#{player}", "sk": f"PATH#{path}"})


def handle_published(table: Table, records: Sequence[Any]) -> None:
    """Count the inserted paths of a batch.

    A record that comes twice counts twice, and two paths of a player in one batch both read the count that
    includes the two: those are the design's faults.

    Cost: 2 or 3 WCU and 0.5 RCU for each record.
    """
    for record in records:
        keys = record["dynamodb"]["Keys"]
        if record["eventName"] != "INSERT" or not keys["sk"]["S"].startswith("PATH#"):
            continue
        found = table.client.query(
            TableName=table.name,
            KeyConditionExpression="pk = :pk AND begins_with(sk, :path)",
            ExpressionAttributeValues={":pk": keys["pk"], ":path": {"S": "PATH#"}},
        )["Count"]
        for sk in ("PATHS", f"FOUND#{found}", *(["PLAYERS"] if found == 1 else [])) if found <= LIMIT else ():
            table.client.update_item(
                TableName=table.name,
                Key={"pk": {"S": "AGGREGATES"}, "sk": {"S": sk}},
                UpdateExpression="ADD #total :one",
                ExpressionAttributeNames={"#total": "total"},
                ExpressionAttributeValues={":one": {"N": "1"}},
            )


def cost(engine: Engine, paths: list[tuple[str, str]], is_ours: bool) -> float:
    """Return the WCU of each path, from its submission to the last change of a sum."""
    with fresh_table(engine) as (table, stream_arn):

        def deliver(event: dict[str, Any], _: object) -> None:
            if is_ours:
                aggregates.apply(table, (progress.contribution,), event["Records"])
            else:
                handle_published(table, event["Records"])

        size = BATCH if is_ours else PUBLISHED_BATCH
        pump = StreamPump(Stream(engine.client("dynamodbstreams"), stream_arn), deliver, size)
        if is_ours:
            valid = sorted({path for _, path in paths})
            with mock.patch.object(definitions, "SCRYPT_COST", 2):  # hashing is not measured here
                body = ChallengeBody(title="Hunt", paths=valid, limit=LIMIT)
                definitions.define(new_context(table), "hunt", body)
        drain(pump)
        with Meter(table.client) as meter:
            for player, path in paths:
                if is_ours:
                    submissions.submit(new_context(table), "hunt", Caller(player), path)
                else:
                    submit_published(table, player, path)
            drain(pump)
    return meter.write_units / len(paths)


def measure(engine: Engine, quick: bool) -> list[Answer]:
    """Measure the price of a path in each case."""
    rows = [(name, cost(engine, paths, True), cost(engine, paths, False)) for name, paths in CASES.items()]
    note = (
        "Ours decides in one transaction whether the path is new, whether the player has guesses left, and "
        "whether the limit is reached. The published design stores the path and decides nothing."
    )
    columns = ("WCU a path", "ours", "published")
    return [
        Answer("What does a found path cost, with the statistics?", columns, rows[: 1 if quick else 3], note)
    ]
