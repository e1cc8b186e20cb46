"""Engines keep what they are given, end with their owner, and behave as AWS where we corrected them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local import dynamodb_local
from local import engine as engines
from local.engine import Engine, EngineUnavailable, start
from ops.definition import create_queue, create_table

if TYPE_CHECKING:
    from tests.conftest import EngineTable

OWNER = """
import sys, time
from pathlib import Path
from local.engine import start
from ops.definition import create_table
engine = start(sys.argv[1], Path(sys.argv[2]))
dynamodb = engine.client("dynamodb")
name = create_table(dynamodb, "dev").name
dynamodb.put_item(TableName=name, Item={"pk": {"S": "a"}, "sk": {"S": "b"}})
print(engine.endpoint.rpartition(":")[2], flush=True)
time.sleep(600)
"""


def put(engine: Engine, sk: str, **attributes: Any) -> None:
    item = {"pk": {"S": "a"}, "sk": {"S": sk}, **attributes}
    engine.client("dynamodb").put_item(TableName="hubbub-dev", Item=item)


def records(engine: Engine, stream_arn: str, **position: Any) -> list[Any]:
    streams: Any = engine.client("dynamodbstreams")
    [shard] = streams.describe_stream(StreamArn=stream_arn)["StreamDescription"]["Shards"]
    where = {"ShardIteratorType": "TRIM_HORIZON", **position}
    iterator = streams.get_shard_iterator(StreamArn=stream_arn, ShardId=shard["ShardId"], **where)
    return list(streams.get_records(ShardIterator=iterator["ShardIterator"])["Records"])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.heavy
def test_items_and_unread_stream_records_survive_a_restart(engine: Engine, tmp_path: Path) -> None:
    with start(engine.kind, tmp_path) as before:
        table = create_table(before.client("dynamodb"), "dev")
        for sk in "123":
            put(before, sk, gsi1pk={"S": "BOARD"}, gsi1sk={"N": sk})
        written = records(before, table.stream_arn)
        assert [record["eventName"] for record in written] == ["INSERT"] * 3
        read_up_to = written[0]["dynamodb"]["SequenceNumber"]

    with start(engine.kind, tmp_path) as after:
        assert create_table(after.client("dynamodb"), "dev") == table
        unread = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": read_up_to}
        assert records(after, table.stream_arn, **unread) == written[1:]
        put(after, "4", gsi1pk={"S": "BOARD"}, gsi1sk={"N": "4"})
        everything = records(after, table.stream_arn)
        assert everything[:3] == written
        sequence = [record["dynamodb"]["SequenceNumber"] for record in everything]
        assert sequence == sorted(set(sequence))
        assert len({record["eventID"] for record in everything}) == 4
        by_number = after.client("dynamodb").query(
            TableName="hubbub-dev",
            IndexName="gsi1",
            KeyConditionExpression="gsi1pk = :board",
            ExpressionAttributeValues={":board": {"S": "BOARD"}},
            ScanIndexForward=False,
        )
        assert [item["sk"]["S"] for item in by_number["Items"]] == ["4", "3", "2", "1"]


def test_an_iterator_goes_on_where_it_was_after_a_restart(tmp_path: Path) -> None:
    with start("ministack", tmp_path) as before:
        stream_arn = create_table(before.client("dynamodb"), "dev").stream_arn
        put(before, "1")
        put(before, "2")
        streams: Any = before.client("dynamodbstreams")
        [shard] = streams.describe_stream(StreamArn=stream_arn)["StreamDescription"]["Shards"]
        first = streams.get_shard_iterator(
            StreamArn=stream_arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )
        page = streams.get_records(ShardIterator=first["ShardIterator"], Limit=1)

    with start("ministack", tmp_path) as after:
        put(after, "3")
        rest = after.client("dynamodbstreams").get_records(ShardIterator=page["NextShardIterator"])
        assert [record["dynamodb"]["Keys"]["sk"]["S"] for record in rest["Records"]] == ["2", "3"]


def test_messages_survive_a_restart_on_another_port(tmp_path: Path) -> None:
    with start("ministack", tmp_path) as before:
        sqs = before.client("sqs")
        sqs.send_message(QueueUrl=create_queue(sqs, "dev").url, MessageBody="a view")

    with start("ministack", tmp_path) as after:
        assert after.endpoint != before.endpoint
        sqs = after.client("sqs")
        [message] = sqs.receive_message(QueueUrl=create_queue(sqs, "dev").url)["Messages"]
        assert message["Body"] == "a view"


def test_a_fresh_engine_has_forgotten_everything(tmp_path: Path) -> None:
    (tmp_path / "another-file").touch()
    with start("ministack", tmp_path) as before:
        create_table(before.client("dynamodb"), "dev")
    with start("ministack", tmp_path, fresh=True) as after:
        assert after.client("dynamodb").list_tables()["TableNames"] == []
    assert (tmp_path / "another-file").exists()


def test_an_expired_item_is_deleted_by_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTL_SWEEP_SECONDS", "0.1")
    now = int(time.time())
    with start("ministack", None) as engine:
        dynamodb = engine.client("dynamodb")
        stream_arn = create_table(dynamodb, "dev").stream_arn
        put(engine, "expired", ttl={"N": str(now - 1)})
        put(engine, "not yet", ttl={"N": str(now + 3600)})
        put(engine, "six years ago", ttl={"N": str(now - 6 * 365 * 86_400)})
        put(engine, "not a number", ttl={"S": str(now - 1)})
        put(engine, "deleted by a client")
        dynamodb.delete_item(
            TableName="hubbub-dev", Key={"pk": {"S": "a"}, "sk": {"S": "deleted by a client"}}
        )
        removed: dict[str, Any] = {}
        deadline = time.monotonic() + 10
        while "expired" not in removed and time.monotonic() < deadline:
            removed = {
                record["dynamodb"]["OldImage"]["sk"]["S"]: record.get("userIdentity")
                for record in records(engine, stream_arn)
                if record["eventName"] == "REMOVE"
            }
        assert removed == {
            "expired": {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"},
            "deleted by a client": None,
        }
        left = {item["sk"]["S"] for item in dynamodb.scan(TableName="hubbub-dev")["Items"]}
        assert left == {"not yet", "six years ago", "not a number"}


@pytest.mark.heavy
def test_an_engine_saves_its_state_and_ends_when_its_owner_is_killed(engine: Engine, tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER, engine.kind, str(tmp_path)]
    owner = subprocess.Popen(command, cwd=engines.ROOT, stdout=subprocess.PIPE, text=True)
    assert owner.stdout
    with owner.stdout:
        port = int(owner.stdout.readline())
    owner.send_signal(signal.SIGKILL)
    owner.wait()

    with start(engine.kind, tmp_path) as after:
        assert not listens(port)
        assert after.client("dynamodb").scan(TableName="hubbub-dev")["Count"] == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ministack_listens_on_loopback_only(ministack: Engine) -> None:
    assert ministack.process
    open_files = Path(f"/proc/{ministack.process.pid}/fd").iterdir()
    sockets = {str(file.readlink()) for file in open_files}
    listening = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in sockets:
                listening.add(local)
    port = int(ministack.endpoint.rpartition(":")[2])
    assert listening == {f"0100007F:{port:04X}"}


def test_arithmetic_has_38_digits(engine_table: EngineTable) -> None:
    engine, name, _ = engine_table
    changed = engine.client("dynamodb")
    key = {"pk": {"S": "a"}, "sk": {"S": "b"}}
    changed.put_item(TableName=name, Item={**key, "n": {"N": "9" * 37 + "8"}})
    changed.update_item(
        TableName=name,
        Key=key,
        UpdateExpression="ADD n :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
    )
    assert changed.get_item(TableName=name, Key=key)["Item"]["n"] == {"N": "9" * 38}


def test_a_rest_api_is_imported_and_overwritten(ministack: Engine) -> None:
    def spec(path: str) -> bytes:
        return json.dumps(
            {"swagger": "2.0", "info": {"title": "hubbub"}, "paths": {path: {"get": {}}}}
        ).encode()

    gateway = ministack.client("apigateway")

    def paths(api_id: str) -> set[str]:
        return {str(item["path"]) for item in gateway.get_resources(restApiId=api_id)["items"]}

    api_id = gateway.import_rest_api(body=spec("/views"))["id"]
    assert paths(api_id) == {"/", "/views"}
    assert gateway.put_rest_api(restApiId=api_id, mode="overwrite", body=spec("/health"))["id"] == api_id
    assert paths(api_id) == {"/", "/health"}
    patch = [{"op": "replace", "path": "/minimumCompressionSize", "value": "1024"}]
    gateway.update_rest_api(restApiId=api_id, patchOperations=patch)
    assert gateway.get_rest_api(restApiId=api_id)["minimumCompressionSize"] == 1024


def test_a_url_is_used_as_it_is(ministack: Engine) -> None:
    with start(ministack.endpoint, None) as engine:
        assert (engine.kind, engine.endpoint, engine.has_queues) == ("url", ministack.endpoint, True)
    assert ministack.client("dynamodb").list_tables()


def test_a_dynamodb_at_a_url_has_no_queues(dynamodb_local: Engine) -> None:
    assert not start(dynamodb_local.endpoint, None).has_queues


def test_a_client_knows_nothing_of_profiles_and_proxies(
    ministack: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert start(ministack.endpoint, None).client("dynamodb").list_tables()


def test_two_engines_do_not_share_a_folder(tmp_path: Path) -> None:
    with start("ministack", tmp_path), pytest.raises(EngineUnavailable, match=f"process {os.getpid()} is"):
        start("ministack", tmp_path)


def test_a_port_in_use_is_refused(ministack: Engine) -> None:
    with pytest.raises(EngineUnavailable, match="cannot be used"):
        start("ministack", None, port=int(ministack.endpoint.rpartition(":")[2]))


def test_an_engine_that_dies_shows_the_end_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    dying = [sys.executable, "-c", "import sys; sys.exit('the disk is full')"], dict(os.environ)
    monkeypatch.setattr(engines, "_ministack", lambda port, state: dying)
    with pytest.raises(EngineUnavailable, match=r"ended with 1(?s:.)*the disk is full"):
        start("ministack", None)


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dynamodb_local, "CACHE", tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: None if name == "npm" else f"/bin/{name}")
    with pytest.raises(EngineUnavailable, match="npm"):
        start("dynamodb-local", None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(EngineUnavailable, match="java"):
        start("dynamodb-local", None)


def test_a_url_where_nothing_answers_is_refused() -> None:
    with pytest.raises(EngineUnavailable, match="there is no DynamoDB at"):
        start("http://127.0.0.1:9", None)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(EngineUnavailable, match="'localstack' is no engine"):
        start("localstack", None)
