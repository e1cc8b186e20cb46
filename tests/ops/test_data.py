"""An export has exactly the items of the table, and a replay counts everything once."""

from __future__ import annotations

import base64
import io
import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

import pytest
from click.testing import CliRunner

import app
from chalicelib.aggregates import quarantine
from chalicelib.dynamo import table
from chalicelib.dynamo.items import Item, Key, unpack
from chalicelib.dynamo.table import Table
from chalicelib.feature import owner_of
from chalicelib.settings import Settings, read
from chalicelib.views import events, queue
from chalicelib.views.events import View
from local.engines.engine import Engine
from local.event_sources import QueuePump, StreamPump
from ops import table as item_table
from ops.cli.main import main
from ops.maintenance import export, replay
from ops.maintenance.pace import Pace
from ops.maintenance.streams import Stream
from tests.conftest import EngineTable
from tests.ops.test_erase import PAGE, plant
from tests.support.contexts import new_context
from tests.support.faults import instead
from tests.support.live import Live
from tests.support.records import drift, scan
from tests.support.tables import create_queue, table_on

ROOT = Path(__file__).parents[2]
NOW = datetime.now(UTC)


@pytest.fixture(autouse=True)
def connection() -> Iterator[None]:
    """Do not wait for messages of a local queue, and connect to the table of the environment."""
    with (
        mock.patch.object(replay, "WAIT", 0),
        mock.patch.object(app, "connect", connect_anew),
    ):
        yield


def connect_anew() -> Table:
    """Connect to the table of the environment. The app keeps the one that it connected to first."""
    return table.connect(read(os.environ))


def lived(engine_table: EngineTable) -> Live:
    live = Live(engine_table, app.CONTRIBUTIONS)
    os.environ.update(HUBBUB_ENDPOINT=live.engine.endpoint, HUBBUB_TABLE=live.table.name)
    return live


@pytest.fixture
def live(engine_table: EngineTable) -> Live:
    return lived(engine_table)


@pytest.fixture
def account_table(account: Engine) -> Iterator[EngineTable]:
    with table_on(account) as made:
        yield account, made.name, made.stream_arn


@pytest.fixture
def queued(account_table: EngineTable) -> Live:
    """A table on the engine that has queues as well."""
    return lived(account_table)


def run(*command: str) -> Any:
    return CliRunner().invoke(main, command)


# -- export --------------------------------------------------------------------------------------------


def items(text: str) -> list[Item]:
    """Read an export back, as DynamoDB's import does."""

    def binary(value: Any) -> Any:
        if isinstance(value, dict) and len(value) == 1:
            [(kind, held)] = value.items()
            if kind == "B":
                return {"B": base64.b64decode(held)}
            if kind == "BS":
                return {"BS": [base64.b64decode(item) for item in held]}
        return value

    lines = [json.loads(line, object_hook=binary) for line in text.splitlines()]
    return [unpack(line["Item"]) for line in lines]


def by_key(found: list[Item]) -> dict[tuple[str, str], Item]:
    assert len({(item["pk"], item["sk"]) for item in found}) == len(found)
    return {(item["pk"], item["sk"]): item for item in found}


def test_an_export_has_every_item_as_it_is_and_each_feature_its_own(live: Live, tmp_path: Path) -> None:
    plant(live.table)
    live.table.put(quarantine.build_item(b"x" * 12, 1, quarantine.Poison("no\n\u2028item", 1, "no"), 1))
    live.drain()
    everything, whole = by_key(scan(live.table)), tmp_path / "all.jsonl"
    done = run("export", "--output", str(whole), "--segments", "3", "--json")
    assert (done.exit_code, done.stdout) == (0, "")
    assert json.loads(done.stderr) == {"read": len(everything), "written": len(everything)}
    assert by_key(items(whole.read_text())) == everything
    parts: dict[tuple[str, str], Item] = {}
    for feature in (feature.name for feature in app.FEATURES):
        printed = run("export", "--feature", feature, "--rate", "100000")
        exported = by_key(items(printed.stdout))
        assert not parts.keys() & exported.keys()
        assert {owner_of(app.FEATURES, Key(item["pk"], item["sk"])) for item in exported.values()} <= {
            feature
        }
        parts |= exported
    assert parts == everything


def test_an_export_asks_for_each_megabyte_once(live: Live) -> None:
    """A page of 1 MB at a time, as an audit does: local engines walk over the table for each request."""
    live.table.batch_put({"pk": f"URL#{i % 50}", "sk": f"T#{i}", "text": "x" * 1_500} for i in range(2_000))
    count = len(scan(live.table))

    def requests(segments: int, rate: float | None = None) -> int:
        text = io.StringIO()
        with instead(live.table, "Scan") as scans:
            done = export.export_items(live.table, lambda _: True, text, Pace(segments, rate), lambda _: None)
        assert done["written"] == text.getvalue().count("\n") == count
        return len(scans)

    megabytes = 3
    assert requests(1) <= megabytes + 1
    assert requests(4) <= megabytes + 4
    assert requests(1, rate=1e6) >= 2_000 / 200  # with a pace, in small steps


def test_an_exported_file_is_complete_or_missing(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(live.table)
    monkeypatch.setattr(export, "format_line", lambda _: 1 // 0)
    kept = tmp_path / "kept.jsonl"
    kept.write_text("of before")
    assert run("export", "--output", str(kept)).exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["kept.jsonl"]
    assert kept.read_text() == "of before"
    monkeypatch.undo()
    refused = run("export", "--output", str(tmp_path / "no" / "such.jsonl"))
    assert refused.exit_code == 1


def test_every_kind_of_item_has_a_feature() -> None:
    rows = item_table.text().partition("## Items")[2].partition("## Access")[0]
    keys = re.findall(r"^\| [^|]+ \| [^|`]*`([^`]+)`(?:, `([^`]+)`)? \| `([^`]+)`", rows, re.MULTILINE)
    assert len(keys) > 20
    for *partitions, sk in keys:
        for pk in filter(None, partitions):
            key = Key(*(re.sub("^<instant>", "2026", text) for text in (pk, sk)))
            key = Key(*(text.replace("<ranking>", "CHALLENGE#c") for text in key))
            assert owner_of(app.FEATURES, key), key


# -- replay --------------------------------------------------------------------------------------------


def view(number: int) -> dict[str, str]:
    return {"url": PAGE, "time": NOW.isoformat(), "clientId": f"c{number}"}


def test_dead_letters_of_views_are_written_in_the_end_and_count_once(
    queued: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, sqs = queued, queued.engine.client("sqs")
    name = f"test-{uuid4().hex}"
    os.environ["HUBBUB_QUEUE_NAME"] = name
    made = create_queue(sqs, "dev", name)
    dead = sqs.get_queue_url(QueueName=f"{name}-dead")["QueueUrl"]
    for number in range(25):
        sqs.send_message(QueueUrl=dead, MessageBody=json.dumps(view(number % 20)))
    done = run("replay", "views", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"sent": 25, "left": 0})
    assert run("replay", "views").stdout == "0 sent, 0 left\n"

    def write(event: Any, _: object) -> Any:
        return queue.consume(event, lambda body: events.write_queued(new_context(live.table), body))

    pump = QueuePump(sqs, made, write)
    while pump.step():
        pass
    live.drain()
    page = live.table.get(events.page_key(PAGE), consistent=True) or {}
    assert page["views"] == 20
    os.environ["HUBBUB_QUEUE_NAME"] = "no-such-queue"
    missing = run("replay", "views")
    assert (missing.exit_code, missing.stderr) == (1, "Error: no queue named no-such-queue-dead\n")


@pytest.mark.parametrize("source", ["views", "stream"])
def test_a_replay_says_that_an_engine_has_no_queues(live: Live, source: str) -> None:
    done = run("replay", source)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "Error: this engine has no queues, so there is nothing to replay\n"


def given_up(live: Live, engine_table: EngineTable, size: int = 7) -> list[str]:
    """Fail every batch of the stream and return what Lambda sends to its failure destination."""
    _, _, stream_arn = engine_table
    streams = live.engine.client("dynamodbstreams")
    [shard] = streams.describe_stream(StreamArn=stream_arn)["StreamDescription"]["Shards"]
    messages: list[str] = []

    def give_up(event: Any, _: object) -> None:
        numbers = [record["dynamodb"]["SequenceNumber"] for record in event["Records"]]
        batch = {"shardId": shard["ShardId"], "streamArn": stream_arn, "batchSize": len(numbers)}
        batch |= {"startSequenceNumber": numbers[0], "endSequenceNumber": numbers[-1]}
        messages.append(json.dumps({"requestContext": {}, "version": "1.0", "DDBStreamBatchInfo": batch}))

    pump = StreamPump(Stream(streams, stream_arn), give_up, size)
    while pump.step():
        pass
    return messages


class Queue:
    """A queue of SQS, as far as a replay knows it, for engines without one."""

    def __init__(self, bodies: list[str]) -> None:
        self.messages = {str(i): body for i, body in enumerate(bodies)}

    def receive_message(self, MaxNumberOfMessages: int, **_: Any) -> Any:  # noqa: N803 (boto3's names)
        received = list(self.messages.items())[:MaxNumberOfMessages]
        return {"Messages": [{"MessageId": id, "ReceiptHandle": id, "Body": body} for id, body in received]}

    def delete_message_batch(self, Entries: list[Any], **_: Any) -> None:  # noqa: N803
        for entry in Entries:
            del self.messages[entry["ReceiptHandle"]]


def test_batches_of_the_stream_that_were_given_up_are_applied_once(
    live: Live, engine_table: EngineTable
) -> None:
    views = [View(PAGE, NOW, f"c{i}") for i in range(30)]
    events.write(new_context(live.table, NOW), views)
    messages = given_up(live, engine_table)
    assert len(messages) == 13  # of 30 views and their visitors, of the page and of the site
    dead: Any = Queue([*messages, *messages[:2]])  # SQS may hold one twice
    streams = live.engine.client("dynamodbstreams")

    done = replay.replay_batches(dead, "q", streams, app.apply_records, lambda _: None)
    assert (done["batches"], done["records"], done["lost"], dead.messages) == (15, 104, 0, {})
    live.drain()
    assert drift(live.table, app.CONTRIBUTIONS) == {}
    page = live.table.get(events.page_key(PAGE), consistent=True) or {}
    assert page["views"] == 30


def test_a_batch_whose_records_have_left_the_stream_is_reported_as_lost(live: Live) -> None:
    streams = live.engine.client("dynamodbstreams")
    arn = "arn:aws:dynamodb:us-east-1:000000000000:table/gone/stream/2026-01-01T00:00:00.000"
    batch = {"shardId": f"shardId-{'0' * 20}-{'1' * 8}", "streamArn": arn}
    batch |= {f"{end}SequenceNumber": "100000000000000000000001" for end in ("start", "end")}
    bodies = [{"DDBStreamBatchInfo": batch}, {"DDBStreamBatchInfo": batch | {"shardId": "short"}}, "nothing"]
    dead: Any = Queue([json.dumps(body) for body in bodies])
    done = replay.replay_batches(dead, "q", streams, lambda _: None, lambda _: None)
    assert (done["lost"], done["left"], len(dead.messages)) == (1, 2, 3)
    done = replay.replay_batches(dead, "q", streams, lambda _: None, lambda _: None, discards=True)
    assert (done["lost"], len(dead.messages)) == (1, 2)


def test_the_command_brings_batches_back_from_the_stages_queue(
    queued: Live, account_table: EngineTable
) -> None:
    live = queued
    live.table.put(events.build_item(View(PAGE, NOW, "c"), Settings()))
    sqs = live.engine.client("sqs")
    url = sqs.create_queue(QueueName="hubbub-local-stream-failures")["QueueUrl"]
    try:
        for body in (*given_up(live, account_table), "no position"):
            sqs.send_message(QueueUrl=url, MessageBody=body)
        done = run("replay", "stream", "--json")
        assert done.exit_code == 3, done.output
        assert json.loads(done.stdout) == {"batches": 1, "records": 1, "lost": 0, "left": 1}
    finally:
        sqs.delete_queue(QueueUrl=url)
    live.drain()
    assert drift(live.table, app.CONTRIBUTIONS) == {}
