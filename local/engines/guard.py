"""Stands in front of an engine: refuses what a browser brings from elsewhere, and mends dynoxide's answers.

An engine answers whoever reaches its port, and a browser on the same machine reaches it for every page that
it shows. `refusal` decides which requests are a browser's on behalf of a foreign page. The launcher asks it
for ministack. For dynoxide this module runs as a process between the clients and the engine:

    python -m local.engines.guard --port 8002 --program DYNOXIDE --state FOLDER

dynoxide itself listens on a random address of 127.0.0.0/8 and a random port, where no page finds it. The
guard also does what AWS does and dynoxide 1.2.1 does not:

| on AWS | dynoxide | here |
|---|---|---|
| shard ids have 28 characters or more, sequence numbers 21 | fewer | zeros are added |
| an open shard has no ending sequence number | has one | it is left out |
| an unknown shard is an error | it is read as the one there is | it is an error |
| a write that changes nothing leaves no stream record | leaves one | it is left out |
| time to live deletes items, as the service | never deletes | `Sweep` |
| a stream keeps its records for 24 hours | for ever | `Upkeep` deletes them |
| a write takes the same time however long the stream is | reads the whole stream | `Upkeep` adds an index |
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import http.client
import json
import os
import re
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")
DATABASE = "dynoxide.db"
DAY = 86_400  # seconds
FIVE_YEARS = 5 * 365 * DAY  # seconds: AWS leaves an item that expired before that alone
SHARD, LONG_SHARD = "shardId-00000001-", "shardId-00000000000000000001-"
EXPIRED = "expired#"
"""An attribute that the sweep puts on an item just before deleting it. No stream record shows it."""
STREAMS = "DynamoDBStreams_20120810."
LONGEST_HEAD = 65_536  # bytes


def refusal(headers: Iterable[tuple[str, str]]) -> str:
    """Return why a request with these headers is refused, or nothing.

    No page can change what a browser sends in them:

    - `Host` must name this machine, or a page's own name was made to point here (DNS rebinding).
    - `Origin` must be the engine's own address. Browsers send it with every request that could change
      anything or whose answer a page could read.
    - `Sec-Fetch-Site` must not say that another site's page asks, as for an image or a link.
    """
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name.lower(), []).append(value.strip())
    hosts = found.get("host", [])
    if len(hosts) != 1 or not LOOPBACK.fullmatch(hosts[0].lower()):
        return "Host: it must be 127.0.0.1 or localhost"
    if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in found.get("origin", [])):
        return "Origin: pages of other origins may not use this engine"
    if any(site not in ("same-origin", "none") for site in found.get("sec-fetch-site", [])):
        return "Sec-Fetch-Site: pages of other sites may not use this engine"
    return ""


FIELD = re.compile(
    rb"^(host|origin|sec-fetch-site|content-length|transfer-encoding|x-amz-target):"
    rb"[ \t]*([^\r\n]*?)[ \t]*\r$",
    re.IGNORECASE | re.MULTILINE,
)
LENGTH = re.compile(rb"^content-length:[^\r]*", re.IGNORECASE | re.MULTILINE)
CHECKSUM = re.compile(rb"^x-amz-crc32:[^\r]*", re.IGNORECASE | re.MULTILINE)
EXPECT = re.compile(rb"^expect:[^\n]*\n", re.IGNORECASE | re.MULTILINE)  # nobody waits before a body is sent


class Message(NamedTuple):
    """A request or an answer: its head up to the empty line, the fields of it that are read, and its body."""

    head: bytes
    fields: list[tuple[str, str]]
    body: bytes

    def get(self, name: str) -> str:
        """Return a field's value, or nothing."""
        return next((value for field, value in self.fields if field == name), "")

    def having(self, body: bytes) -> Message:
        """Return the same message with another body."""
        head = LENGTH.sub(b"Content-Length: %d" % len(body), self.head)
        return Message(CHECKSUM.sub(b"x-amz-crc32: %d" % zlib.crc32(body), head), self.fields, body)


async def read(reader: asyncio.StreamReader) -> Message:
    """Read one message. Raises ValueError when its end is not certain, EOFError or OSError at the end."""
    try:
        head = EXPECT.sub(b"", await reader.readuntil(b"\r\n\r\n"))
    except asyncio.LimitOverrunError:
        raise ValueError("the head is too long") from None
    fields = [(name.lower().decode(), value.decode("latin-1")) for name, value in FIELD.findall(head)]
    lengths = [value for name, value in fields if name == "content-length"]
    if head.count(b"\n") != head.count(b"\r\n") or any(name == "transfer-encoding" for name, _ in fields):
        raise ValueError("lines must end with CR and LF, and a body must have a Content-Length")
    if len(lengths) > 1 or not all(length.isascii() and length.isdecimal() for length in lengths):
        raise ValueError("Content-Length: it must be one number")
    length = int(lengths[0]) if lengths else 0
    return Message(head, fields, await reader.readexactly(length) if length else b"")


class Front:
    """Takes the clients' connections, and has one to the engine for each."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a client's requests until it leaves."""
        with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError):
            try:
                await self._requests(reader, writer)
            except ValueError as error:
                await _refuse(writer, 400, "SerializationException", str(error))
        with contextlib.suppress(OSError):
            writer.close()
            await writer.wait_closed()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        engine: Connection | None = None
        try:
            while True:
                request = await read(reader)
                if reason := refusal(request.fields):
                    await _refuse(writer, 403, "AccessDeniedException", reason)
                    return
                if not request.head.startswith((b"POST ", b"GET ")):
                    await _refuse(writer, 405, "UnknownOperationException", "The method must be GET or POST")
                    return
                if engine is None:
                    engine = await Connection.open(*self._address)
                target = request.get("x-amz-target")
                ask = ask_stream if target.startswith(STREAMS) else Connection.ask
                answer = await ask(engine, request)
                writer.write(answer.head + answer.body)
                await writer.drain()
        finally:
            if engine is not None:
                engine.close()


class Connection(NamedTuple):
    """A connection to the engine."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @staticmethod
    async def open(host: str, port: int) -> Connection:
        """Connect to the engine."""
        return Connection(*await asyncio.open_connection(host, port, limit=LONGEST_HEAD))

    async def ask(self, request: Message) -> Message:
        """Send a request and return the answer."""
        self.writer.write(request.head + request.body)
        return await read(self.reader)

    def close(self) -> None:
        """End the connection."""
        self.writer.close()


def error(status: int, code: str, message: str, connection: str = "keep-alive") -> Message:
    """Build an answer that says what was wrong, as DynamoDB words it."""
    body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}).encode()
    lines = [
        f"HTTP/1.1 {status} {http.client.responses[status]}",
        "Content-Type: application/x-amz-json-1.0",
        f"Content-Length: {len(body)}",
        f"Connection: {connection}",
    ]
    return Message("\r\n".join([*lines, "", ""]).encode(), [], body)


async def _refuse(writer: asyncio.StreamWriter, status: int, code: str, message: str) -> None:
    answer = error(status, code, message, "close")
    writer.write(answer.head + answer.body)
    await writer.drain()


async def ask_stream(engine: Connection, request: Message) -> Message:
    """Send a request for a stream and return the answer as AWS would give it.

    Pages of records that are all left out are read over, so an empty page means that nothing more is there.
    """
    operation = request.get("x-amz-target").removeprefix(STREAMS)
    body = request.body.replace(LONG_SHARD.encode(), SHARD.encode())
    if operation == "GetShardIterator" and not _names_a_shard(body):
        return error(400, "ResourceNotFoundException", "Requested resource not found: Shard does not exist")
    while True:
        answer = await engine.ask(request.having(body))
        is_good = b" 200 " in answer.head.partition(b"\r")[0]
        if not is_good or operation not in ("DescribeStream", "GetRecords"):
            return answer
        given = json.loads(answer.body)
        if operation == "DescribeStream":
            for shard in given["StreamDescription"]["Shards"]:
                shard["ShardId"] = shard["ShardId"].replace(SHARD, LONG_SHARD)
                shard["SequenceNumberRange"] = {"StartingSequenceNumber": f"{1:021}"}
        else:
            records = [record for one in given["Records"] if (record := corrected(one))]
            if given["Records"] and not records:
                body = json.dumps({**json.loads(body), "ShardIterator": given["NextShardIterator"]}).encode()
                continue
            given["Records"] = records
        return answer.having(json.dumps(given, separators=(",", ":"), ensure_ascii=False).encode())


def _names_a_shard(body: bytes) -> bool:
    """Tell whether a request names the one shard that its table's stream has. Raises ValueError."""
    asked = json.loads(body)
    if not isinstance(asked, dict):
        raise ValueError("the body must be a JSON object")
    table = str(asked.get("StreamArn", "")).split("/")[1:2]
    return [asked.get("ShardId")] == [SHARD + name for name in table]


def corrected(record: dict[str, Any]) -> dict[str, Any] | None:
    """Return a stream record as AWS would write it, or None where it would write none.

    The sweep's mark is taken off. What is left of a deletion of a marked item is the service's own.
    """
    change = record["dynamodb"]
    change["SequenceNumber"] = change["SequenceNumber"].rjust(21, "0")
    old, new = change.get("OldImage"), change.get("NewImage")
    mark, _ = (image.pop(EXPIRED, None) if image else None for image in (old, new))
    if old is not None and old == new:
        return None
    if old is not None and new is None and mark and mark["M"].items() <= old.items():
        record["userIdentity"] = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}
    return record


class Upkeep(threading.Thread):
    """Keeps the engine's database as AWS keeps a table, in a thread, until the process ends."""

    def __init__(self, database: Path, address: tuple[str, int], pause: float) -> None:
        super().__init__(name="upkeep", daemon=True)
        self._database = sqlite3.connect(database, timeout=30, check_same_thread=False, isolation_level=None)
        self._sweep = Sweep(self._database, address)
        self._pause = pause

    def prepare(self) -> None:
        """Add the index without which every write reads the whole stream, and trim what is old."""
        self._database.execute(
            "CREATE INDEX IF NOT EXISTS stream_sequence"
            " ON _stream_records (table_name, CAST(sequence_number AS INTEGER))"
        )
        self.trim(time.time())

    def trim(self, now: float) -> None:
        """Delete stream records older than 24 hours; each table's last stays, for numbers go on from it."""
        while self._database.execute(
            "DELETE FROM _stream_records WHERE id IN (SELECT id FROM _stream_records WHERE created_at < ?"
            " AND id NOT IN (SELECT MAX(id) FROM _stream_records GROUP BY table_name) LIMIT 1000)",
            [now - DAY],
        ).rowcount:
            pass

    def run(self) -> None:
        """Sweep again and again, at most a twentieth of the time; trim once an hour."""
        trimmed = time.monotonic()
        pause = self._pause
        while True:
            time.sleep(pause)
            begin = time.monotonic()
            try:
                self._sweep.run(time.time())
                if begin - trimmed > 3600:
                    self.trim(time.time())
                    trimmed = begin
            except (OSError, http.client.HTTPException, sqlite3.Error, RuntimeError) as error:
                print(f"the sweep for expired items failed: {error}", flush=True)
            pause = max(self._pause, 20 * (time.monotonic() - begin))


class Sweep:
    """Deletes expired items as time to live does on AWS, where it takes minutes to days.

    An item is marked with the expiry that it has, and then deleted, each on condition that it still has that
    expiry. The mark is in the deleted item's image, so the record of a deletion says by itself that it is the
    service's, whatever is killed in between. A client that renews an item makes its mark void.
    """

    def __init__(self, database: sqlite3.Connection, address: tuple[str, int]) -> None:
        self._database = database
        self._address = address

    def run(self, now: float) -> None:
        """Delete what has expired at `now` and not more than five years before. Reads all keys' items."""
        tables = "SELECT table_name, key_schema, ttl_attribute FROM _tables WHERE ttl_enabled = 1"
        for table, schema, attribute in self._database.execute(tables).fetchall():
            names = [key["AttributeName"] for key in json.loads(schema)]
            for item in list(self._expired(table, attribute, now)):
                self._delete(table, {name: item[name] for name in names}, attribute, item[attribute])

    def _expired(self, table: str, attribute: str, now: float) -> Iterator[Any]:
        quoted = table.replace('"', '""')
        value = "CAST(json_extract(item_json, ?) AS REAL)"
        path = f'$."{attribute}".N'
        rows = self._database.execute(
            f'SELECT item_json FROM "{quoted}" WHERE {value} > ? AND {value} <= ?',  # noqa: S608
            [path, now - FIVE_YEARS, path, now],
        )
        return (json.loads(text) for (text,) in rows)

    def _delete(self, table: str, key: Any, attribute: str, expiry: Any) -> None:
        one = {"TableName": table, "Key": key, "ConditionExpression": "#ttl = :expiry"}
        names, values = {"#ttl": attribute}, {":expiry": expiry}
        mark = {
            "UpdateExpression": "SET #mark = :mark",
            "ExpressionAttributeNames": {**names, "#mark": EXPIRED},
            "ExpressionAttributeValues": {**values, ":mark": {"M": {attribute: expiry}}},
        }
        if self._ask("UpdateItem", one | mark):
            delete = {"ExpressionAttributeNames": names, "ExpressionAttributeValues": values}
            self._ask("DeleteItem", one | delete)

    def _ask(self, operation: str, asked: Any) -> bool:
        """Send a conditional write; tell whether the condition was true."""
        with contextlib.closing(http.client.HTTPConnection(*self._address, timeout=30)) as connection:
            headers = {
                "Content-Type": "application/x-amz-json-1.0",
                "X-Amz-Target": f"DynamoDB_20120810.{operation}",
                "X-Amz-Date": "20260101T000000Z",
                "Authorization": "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request,"
                " SignedHeaders=host, Signature=0",
            }
            connection.request("POST", "/", json.dumps(asked), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        if answer.status == 200:
            return True
        if "ConditionalCheckFailedException" in text or "ResourceNotFoundException" in text:
            return False
        raise RuntimeError(text)


def hidden_address() -> tuple[str, int]:
    """Draw an address and a port on which the engine will be reached by its guard alone."""
    host = "127.0.0.1"
    if sys.platform == "linux":  # elsewhere the other addresses of 127.0.0.0/8 lead nowhere
        host = f"127.{1 + secrets.randbelow(254)}.{secrets.randbelow(256)}.{1 + secrets.randbelow(254)}"
    with socket.socket() as probe:
        while True:
            with contextlib.suppress(OSError):
                probe.bind((host, 1024 + secrets.randbelow(64_512)))
                return host, int(probe.getsockname()[1])


def _die_with_parent() -> None:
    """Let the engine be killed when the guard has gone, even by kill -9: it loses nothing by that."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


async def _wait(process: subprocess.Popen[bytes], address: tuple[str, int]) -> None:
    while True:
        with contextlib.suppress(OSError):
            connection = await Connection.open(*address)
            connection.close()
            return
        if process.poll() is not None:
            raise SystemExit(f"dynoxide ended with {process.returncode}")
        await asyncio.sleep(0.01)


async def run(port: int, program: str, state: Path) -> int:
    """Run the engine and its front until standard input ends, SIGTERM, SIGINT, or the engine's own end."""
    address = hidden_address()
    database = state / DATABASE
    command = [program, "serve", "--host", address[0], "--port", str(address[1]), "--db-path", str(database)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        close_fds=False,  # the lock on the folder is held for as long as anything writes there
        preexec_fn=_die_with_parent,
    )
    try:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)

        def wait_for_parent() -> None:
            while os.read(sys.stdin.fileno(), 1024):
                pass
            loop.call_soon_threadsafe(stopping.set)

        def wait_for_engine() -> None:
            process.wait()
            loop.call_soon_threadsafe(stopping.set)

        for wait in (wait_for_parent, wait_for_engine):
            threading.Thread(target=wait, daemon=True).start()
        await _wait(process, address)
        upkeep = Upkeep(database, address, float(os.environ.get("TTL_SWEEP_SECONDS", "5")))
        upkeep.prepare()
        upkeep.start()
        front = Front(address)
        server = await asyncio.start_server(front.serve, "127.0.0.1", port, limit=LONGEST_HEAD)
        await stopping.wait()
        server.close()
        return 0 if process.poll() is None else 1
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description="Run dynoxide behind its guard.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--state", type=Path, required=True)
    options = parser.parse_args()
    code = asyncio.run(run(options.port, options.program, options.state))
    sys.stdout.flush()
    os._exit(code)  # the threads above wait for ever


if __name__ == "__main__":
    main()
