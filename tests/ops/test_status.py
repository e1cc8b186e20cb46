"""The status reports each problem and nothing else."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

from click.testing import CliRunner

import app
from chalicelib.aggregates import quarantine
from chalicelib.settings import Settings
from chalicelib.views import events
from chalicelib.views.events import View
from local.engines.engine import Engine
from local.event_sources import StreamPump
from ops.aws import status
from ops.cli.main import main
from ops.maintenance.streams import Stream
from tests.conftest import EngineTable
from tests.support.contexts import new_context
from tests.support.live import Live
from tests.support.tables import create_function, create_queue, table_on

NOW = datetime.now(UTC)


def looked(settings: Settings, engine: Engine, checkpoint: Path | None) -> dict[str, Any]:
    return status.read_status(settings, engine.client, checkpoint)


def test_a_local_run_is_behind_by_the_oldest_record_it_has_not_delivered(
    engine_table: EngineTable, tmp_path: Path
) -> None:
    live, (engine, _, stream_arn) = Live(engine_table, app.CONTRIBUTIONS), engine_table
    streams, checkpoint = engine.client("dynamodbstreams"), tmp_path / "stream.json"
    pump = StreamPump(Stream(streams, stream_arn), live.apply, 100, checkpoint)
    assert status.read_local_lag(streams, stream_arn, checkpoint) is None
    events.write(new_context(live.table, NOW), [View("https://example.org/a", NOW, "one")])
    while pump.step():
        pass
    assert status.read_local_lag(streams, stream_arn, checkpoint) == 0
    events.write(new_context(live.table, NOW), [View("https://example.org/a", NOW, "two")])
    with mock.patch("time.time", return_value=time.time() + 500):
        lag = status.read_local_lag(streams, stream_arn, checkpoint) or 0
        assert 400 < lag <= 560  # some engines write down the minute
    assert status.read_local_lag(streams, f"{stream_arn}2", checkpoint) is None
    checkpoint.write_text(json.dumps({stream_arn: {f"shardId-{'0' * 20}-{'9' * 8}": ["1" * 21, "x"]}}))
    assert status.read_local_lag(streams, stream_arn, checkpoint) is None


def test_the_command_reports_no_problem_until_there_is_one(account: Engine, tmp_path: Path) -> None:
    queue = create_queue(account.client("sqs"), "dev", "status-views")
    dead = account.client("sqs").get_queue_url(QueueName="status-views-dead")["QueueUrl"]
    with table_on(account) as made:
        os.environ.update(HUBBUB_ENDPOINT=account.endpoint, HUBBUB_TABLE=made.name)
        os.environ["HUBBUB_QUEUE_NAME"] = queue.name

        def run(*options: str) -> Any:
            return CliRunner().invoke(main, ["status", "--data", str(tmp_path), *options])

        done = run("--json")
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        assert (found["problems"], found["lagSeconds"], found["mappings"], found["quarantine"]) == (
            [],
            None,
            None,
            0,
        )
        assert found["queues"] == {"views": 0, "deadViews": 0, "streamFailures": None}
        assert found["table"]["missing"] == []
        store = Live((account, made.name, made.stream_arn)).table
        for number in range(3):
            entry = quarantine.build_item(bytes([number]) * 12, 1, quarantine.Poison("x", 1, "no"), 1)
            store.put(entry)
        account.client("sqs").send_message(QueueUrl=dead, MessageBody="x")
        done = run()
        assert done.exit_code == 3
        assert "quarantine 3 images\n" in done.stdout
        assert "! " in done.stdout
        assert [line.split("docs/")[1] for line in done.stdout.splitlines() if line.startswith("!")] == [
            "operations.md, quarantine",
            "operations.md, dead-views",
        ]


def test_a_deployed_stage_has_the_lag_that_lambda_measured_and_mappings_on_the_tables_stream(
    account: Engine,
) -> None:
    functions, metrics = account.client("lambda"), account.client("cloudwatch")
    queue = create_queue(account.client("sqs"), "dev", "deployed-views")
    made_here = []
    with table_on(account) as made:
        settings = Settings(stage="deployed", table=made.name, queue_name=queue.name, queue=True)
        problems = looked(settings, account, None)["problems"]
        assert [problem.partition(" on ")[0] for problem in problems] == [
            "hubbub-deployed-apply: no mapping",
            "hubbub-deployed-push: no mapping",
            "hubbub-deployed-write_views: no mapping",
        ]
        try:
            other = made.stream_arn.replace("stream/", "stream/1999-")
            for name, source in (("apply", other), ("write_views", queue.arn)):
                create_function(account, f"hubbub-deployed-{name}")
                where = {} if "sqs" in source else {"StartingPosition": "TRIM_HORIZON"}
                mapping = functions.create_event_source_mapping(
                    FunctionName=f"hubbub-deployed-{name}",
                    EventSourceArn=source,
                    Enabled=name == "write_views",
                    **where,
                )
                made_here.append(mapping["UUID"])
            lag: dict[str, Any] = {"MetricName": "IteratorAge", "Value": 90_000.0, "Unit": "Milliseconds"}
            lag |= {"Dimensions": [{"Name": "FunctionName", "Value": "hubbub-deployed-apply"}]}
            metrics.put_metric_data(
                Namespace="AWS/Lambda", MetricData=[lag | {"Timestamp": datetime.now(UTC)}]
            )
            found = looked(settings, account, None)
        finally:
            for uuid in made_here:
                functions.delete_event_source_mapping(UUID=uuid)
    assert found["lagSeconds"] == 90
    late, *drifted = found["problems"]
    assert late.startswith("sums are 90 seconds behind")
    assert drifted[0].startswith(f"hubbub-deployed-apply: reads {other}, which is no longer its source")
    assert drifted[1].startswith("hubbub-deployed-apply: no mapping on")
    assert drifted[2].startswith("hubbub-deployed-push: no mapping on")
    assert "hubbub-deployed-write_views: FunctionResponseTypes is misconfigured" in drifted[3]


def test_a_missing_index_is_reported(account: Engine) -> None:
    with table_on(account) as made:
        dynamodb = account.client("dynamodb")
        drop: Any = [{"Delete": {"IndexName": "gsi2"}}]
        dynamodb.update_table(TableName=made.name, GlobalSecondaryIndexUpdates=drop)
        settings = Settings(table=made.name)
        [problem, *_] = looked(settings, account, Path("nowhere"))["problems"]
        command = f"make provision STAGE={settings.stage}"
        assert problem == f"the table has no index gsi2, or it is still being filled: run {command}"


def test_the_status_of_an_engine_without_queues_is_printed(engine: Engine, engine_table: EngineTable) -> None:
    """The default engine of `make run` has no SQS."""
    settings = Settings(endpoint=engine.endpoint, table=engine_table[1])
    found = status.read_status(settings, engine.client, Path("no such run"))
    assert found["queues"] == {"views": None, "deadViews": None, "streamFailures": None}
