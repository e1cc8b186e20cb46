"""A proxy in front of an engine that refuses requests from other sites and corrects dynoxide's responses.

An engine serves every client that reaches its port. `local/origins.py` decides which requests come from a
page of another site. This module runs as a process between the clients and the engine:

    python -m local.engines.guard --listener DESCRIPTOR --program DYNOXIDE --state FOLDER

dynoxide itself listens on a random address of 127.0.0.0/8 and a random port, which no page can guess. The
guard also corrects these differences between AWS and dynoxide 1.2.1:

| AWS | dynoxide | guard |
|---|---|---|
| shard ids have 28 characters or more, sequence numbers 21 | fewer | adds zeros |
| an open shard has no ending sequence number | has one | removes it |
| an unknown shard is an error | it is read as the only shard | returns the error |
| a write that changes nothing leaves no stream record | leaves one | removes it |
| time to live deletes items, as the service | never deletes | `Sweep` deletes them |
| a stream keeps its records for 24 hours | for ever | `Maintenance` deletes them |
| the time of a write does not depend on the stream | it does | `Maintenance` adds an index |
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from local.engines.writes import PATH, Writes
from local.origins import refusal

DATABASE = "dynoxide.db"
DAY = 86_400  # seconds
FIVE_YEARS = 5 * 365 * DAY  # seconds: AWS does not delete items that expired longer ago
SHARD, LONG_SHARD = "shardId-00000001-", "shardId-00000000000000000001-"
EXPIRED = "expired#"
"""An attribute that the sweep adds to an item before it deletes the item. Stream records do not show it."""
STREAMS = "DynamoDBStreams_20120810."
MAX_HEAD_BYTES = 65_536


FIELD = re.compile(
    rb"^(host|origin|sec-fetch-site|content-length|transfer-encoding|x-amz-target):"
    rb"[ \t]*([^\r\n]*?)[ \t]*\r$",
    re.IGNORECASE | re.MULTILINE,
)
LENGTH = re.compile(rb"^content-length:[^\r]*", re.IGNORECASE | re.MULTILINE)
CHECKSUM = re.compile(rb"^x-amz-crc32:[^\r]*", re.IGNORECASE | re.MULTILINE)
EXPECT = re.compile(
    rb"^expect:[^\n]*\n", re.IGNORECASE | re.MULTILINE
)  # no client here waits for 100 Continue


class Message(NamedTuple):
    """A request or a response: its head up to the empty line, the headers that are used, and its body."""

    head: bytes
    fields: list[tuple[str, str]]
    body: bytes

    def get(self, name: str) -> str:
        """Return the value of a header, or ""."""
        return next((value for field, value in self.fields if field == name), "")

    def with_body(self, body: bytes) -> Message:
        """Return the same message with another body."""
        head = LENGTH.sub(b"Content-Length: %d" % len(body), self.head)
        return Message(CHECKSUM.sub(b"x-amz-crc32: %d" % zlib.crc32(body), head), self.fields, body)


async def read(reader: asyncio.StreamReader) -> Message:
    """Read one message.

    Raises: ValueError when its length is ambiguous, EOFError or OSError when the connection has ended.
    """
    try:
        head = EXPECT.sub(b"", await reader.readuntil(b"\r\n\r\n"))
    except asyncio.LimitOverrunError:
        raise ValueError("the head is too long") from None
    fields = [(name.lower().decode(), value.decode("latin-1")) for name, value in FIELD.findall(head)]
    lengths = [value for name, value in fields if name == "content-length"]
    if head.count(b"\n") != head.count(b"\r\n") or any(name == "transfer-encoding" for name, _ in fields):
        raise ValueError("lines must end with CR and LF, and a body must have a Content-Length")
    if len(lengths) > 1 or not all(length.isascii() and length.isdecimal() for length in lengths):
        raise ValueError("`Content-Length` must be one number")
    length = int(lengths[0]) if lengths else 0
    return Message(head, fields, await reader.readexactly(length) if length else b"")


class Proxy:
    """Accepts the clients' connections and opens a connection to the engine for each of them."""

    def __init__(self, address: tuple[str, int], writes: Writes) -> None:
        self._address = address
        self._writes = writes

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a client's requests until it disconnects."""
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
                path = request.head.split(b" ", 2)[1].decode("latin-1")
                if path.startswith(PATH):
                    response = respond(200, await self._writes.wait(path))
                    writer.write(response.head + response.body)
                    await writer.drain()
                    continue
                if engine is None:
                    engine = await Connection.open(*self._address)
                target = request.get("x-amz-target")
                send = send_to_stream if target.startswith(STREAMS) else Connection.send
                response = await send(engine, request)
                self._writes.add(target)
                writer.write(response.head + response.body)
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
        return Connection(*await asyncio.open_connection(host, port, limit=MAX_HEAD_BYTES))

    async def send(self, request: Message) -> Message:
        """Send a request and return the response."""
        self.writer.write(request.head + request.body)
        return await read(self.reader)

    def close(self) -> None:
        """Close the connection."""
        self.writer.close()


def error(status: int, code: str, message: str, connection: str = "keep-alive") -> Message:
    """Build an error response in the format of DynamoDB."""
    body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}).encode()
    return respond(status, body, connection)


def respond(status: int, body: bytes, connection: str = "keep-alive") -> Message:
    """Build a response."""
    lines = [
        f"HTTP/1.1 {status} {http.client.responses[status]}",
        "Content-Type: application/x-amz-json-1.0",
        f"Content-Length: {len(body)}",
        f"Connection: {connection}",
    ]
    return Message("\r\n".join([*lines, "", ""]).encode(), [], body)


async def _refuse(writer: asyncio.StreamWriter, status: int, code: str, message: str) -> None:
    response = error(status, code, message, "close")
    writer.write(response.head + response.body)
    await writer.drain()


async def send_to_stream(engine: Connection, request: Message) -> Message:
    """Send a request of DynamoDB Streams and return the response in AWS's form.

    A page whose records are all removed is skipped, so an empty page means that there are no more records.
    """
    operation = request.get("x-amz-target").removeprefix(STREAMS)
    body = request.body.replace(LONG_SHARD.encode(), SHARD.encode())
    if operation == "GetShardIterator" and not _names_a_shard(body):
        return error(400, "ResourceNotFoundException", "Requested resource not found: Shard does not exist")
    while True:
        response = await engine.send(request.with_body(body))
        is_good = b" 200 " in response.head.partition(b"\r")[0]
        if not is_good or operation not in ("DescribeStream", "GetRecords"):
            return response
        content = json.loads(response.body)
        if operation == "DescribeStream":
            for shard in content["StreamDescription"]["Shards"]:
                shard["ShardId"] = shard["ShardId"].replace(SHARD, LONG_SHARD)
                shard["SequenceNumberRange"] = {"StartingSequenceNumber": f"{1:021}"}
        else:
            records = [record for stored in content["Records"] if (record := correct_record(stored))]
            if content["Records"] and not records:
                body = json.dumps(
                    {**json.loads(body), "ShardIterator": content["NextShardIterator"]}
                ).encode()
                continue
            content["Records"] = records
        return response.with_body(json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode())


def _names_a_shard(body: bytes) -> bool:
    """Return whether a request names the only shard of its table's stream. Raises ValueError."""
    request = json.loads(body)
    if not isinstance(request, dict):
        raise ValueError("the body must be a JSON object")
    table = str(request.get("StreamArn", "")).split("/")[1:2]
    return [request.get("ShardId")] == [SHARD + name for name in table]


def correct_record(record: dict[str, Any]) -> dict[str, Any] | None:
    """Return a stream record in AWS's form, or None if AWS would not write a record.

    The mark of the sweep is removed. The deletion of a marked item gets the identity of the service.
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


class Maintenance(threading.Thread):
    """Runs time to live and trims streams, in a thread, until the process ends."""

    def __init__(
        self, database: Path, address: tuple[str, int], pause: float, on_delete: Callable[[], None]
    ) -> None:
        super().__init__(name="maintenance", daemon=True)
        self._database = sqlite3.connect(database, timeout=30, check_same_thread=False, isolation_level=None)
        self._sweep = Sweep(self._database, address, on_delete)
        self._pause = pause

    def prepare(self) -> None:
        """Add the index without which every write reads the whole stream, and delete old stream records."""
        self._database.execute(
            "CREATE INDEX IF NOT EXISTS stream_sequence"
            " ON _stream_records (table_name, CAST(sequence_number AS INTEGER))"
        )
        self.trim(time.time())

    def trim(self, now: float) -> None:
        """Delete stream records older than 24 hours, except the last of each table, which has its number."""
        while self._database.execute(
            "DELETE FROM _stream_records WHERE id IN (SELECT id FROM _stream_records WHERE created_at < ?"
            " AND id NOT IN (SELECT MAX(id) FROM _stream_records GROUP BY table_name) LIMIT 1000)",
            [now - DAY],
        ).rowcount:
            pass

    def run(self) -> None:
        """Sweep repeatedly, for at most a hundredth of the time, and trim once an hour."""
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
            pause = max(self._pause, 100 * (time.monotonic() - begin))


class Sweep:
    """Deletes expired items within seconds. On AWS time to live takes minutes to days.

    The sweep first marks an item with its expiry and then deletes it. Both writes are conditional on that
    expiry, so a client that renews the item cancels the deletion. The mark is in the image of the deleted
    item, so the stream record shows that the service deleted it, even if the guard is killed in between.
    """

    def __init__(
        self, database: sqlite3.Connection, address: tuple[str, int], on_delete: Callable[[], None]
    ) -> None:
        self._database = database
        self._address = address
        self._on_delete = on_delete

    def run(self, now: float) -> None:
        """Delete the items that expired up to five years before `now`. Reads every item of these tables."""
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
        request = {"TableName": table, "Key": key, "ConditionExpression": "#ttl = :expiry"}
        names, values = {"#ttl": attribute}, {":expiry": expiry}
        mark = {
            "UpdateExpression": "SET #mark = :mark",
            "ExpressionAttributeNames": {**names, "#mark": EXPIRED},
            "ExpressionAttributeValues": {**values, ":mark": {"M": {attribute: expiry}}},
        }
        if self._write("UpdateItem", request | mark):
            delete = {"ExpressionAttributeNames": names, "ExpressionAttributeValues": values}
            self._write("DeleteItem", request | delete)
            self._on_delete()

    def _write(self, operation: str, request: Any) -> bool:
        """Send a conditional write, and return whether its condition held."""
        with contextlib.closing(http.client.HTTPConnection(*self._address, timeout=30)) as connection:
            headers = {
                "Content-Type": "application/x-amz-json-1.0",
                "X-Amz-Target": f"DynamoDB_20120810.{operation}",
                "X-Amz-Date": "20260101T000000Z",
                "Authorization": "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request,"
                " SignedHeaders=host, Signature=0",
            }
            connection.request("POST", "/", json.dumps(request), headers)
            response = connection.getresponse()
            text = response.read().decode()
        if response.status == 200:
            return True
        if "ConditionalCheckFailedException" in text or "ResourceNotFoundException" in text:
            return False
        raise RuntimeError(text)


def hidden_address() -> tuple[str, int]:
    """Return a random address and port for the engine, known only to its guard."""
    host = "127.0.0.1"
    if sys.platform == "linux":  # other systems route only 127.0.0.1
        host = f"127.{1 + secrets.randbelow(254)}.{secrets.randbelow(256)}.{1 + secrets.randbelow(254)}"
    while True:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", 1024 + secrets.randbelow(64_512)))  # dynoxide needs a port free on every address
            return host, int(probe.getsockname()[1])


def _die_with_parent() -> None:
    """Have the kernel kill the engine when the guard dies. The engine is durable and loses nothing."""
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


async def run(listener: socket.socket, program: str, state: Path) -> int:
    """Run the engine and the proxy until standard input ends, SIGTERM, SIGINT, or the end of the engine."""
    listener.set_inheritable(False)  # only the guard has it, so that it closes with the guard
    address = hidden_address()
    database = state / DATABASE
    command = [program, "serve", "--host", address[0], "--port", str(address[1]), "--db-path", str(database)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        close_fds=False,  # keeps the lock on the folder until the engine ends
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
        writes = Writes()
        pause = float(os.environ.get("TTL_SWEEP_SECONDS", "5"))
        maintenance = Maintenance(database, address, pause, writes.add_from_thread)
        maintenance.prepare()
        maintenance.start()
        proxy = Proxy(address, writes)
        server = await asyncio.start_server(proxy.serve, sock=listener, limit=MAX_HEAD_BYTES)
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
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description="Run dynoxide behind its guard.")
    parser.add_argument("--listener", type=int, required=True, help="descriptor of a listening socket")
    parser.add_argument("--program", required=True)
    parser.add_argument("--state", type=Path, required=True)
    options = parser.parse_args()
    listener = socket.socket(fileno=options.listener)
    code = asyncio.run(run(listener, options.program, options.state))
    sys.stdout.flush()
    os._exit(code)  # the threads above never end


if __name__ == "__main__":
    main()
