"""Starts and stops the engine that stands in for DynamoDB on one machine.

dynoxide runs behind a guard (guard.py) and saves each write before it acknowledges it. A URL names an engine
that is already running, and is not managed here.

An engine ignores Ctrl-C, which a terminal sends to all processes in its foreground, so that the application
can drain first. It ends with the process that started it, however that process ends. A data folder is used by
one engine at a time. Every engine started here refuses requests from pages of other sites (origins.py).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, Self, overload

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from local.engines import EngineUnavailable, dynoxide
from local.engines.locks import InUse, Lock, open_private

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient
    from mypy_boto3_sqs import SQSClient

ROOT = Path(__file__).parents[2]
REGION = "us-east-1"
DYNOXIDE = "dynoxide"
START_SECONDS = 60.0
STOP_SECONDS = 30.0
LOCK_SECONDS = 60.0  # for an engine that outlives its killed owner by a moment


@dataclass
class Engine:
    """An engine at `endpoint`. Leaving its context stops it if it was started here."""

    endpoint: str
    process: subprocess.Popen[bytes] | None = None
    _opened: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _clients: dict[str, Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @overload
    def client(self, service: Literal["dynamodb"]) -> DynamoDBClient: ...
    @overload
    def client(self, service: Literal["dynamodbstreams"]) -> DynamoDBStreamsClient: ...
    @overload
    def client(self, service: Literal["sqs"]) -> SQSClient: ...
    @overload
    def client(self, service: str) -> Any: ...
    def client(self, service: str) -> Any:
        """Return the engine's client for a service. The client is cached and may be shared by threads.

        It signs with dummy credentials and ignores the machine's profiles and proxies.
        """
        with self._lock:
            if service not in self._clients:
                config = Config(
                    connect_timeout=3,
                    read_timeout=30,
                    retries={"mode": "standard", "total_max_attempts": 3},
                    max_pool_connections=50,
                    proxies={},
                    user_agent="hubbub",
                )
                create: Any = _session().client
                self._clients[service] = create(service, endpoint_url=self.endpoint, config=config)
            return self._clients[service]

    def has_ended(self) -> bool:
        """Return whether the engine was started here and has ended by itself."""
        return self.process is not None and self.process.poll() is not None

    def explain_end(self) -> str:
        """Return one line about an engine that has ended by itself."""
        code = self.process.poll() if self.process else None
        kept = "every acknowledged write is kept"
        return f"the engine has ended (exit code {code}), so the run ends; {kept}. Start it again."

    def stop(self) -> None:
        """Stop the engine if it was started here, and wait for its end. Idempotent."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def start(
    name_or_url: str,
    data: Path | None,
    port: int | None = None,
    fresh: bool = False,
    preferred: int | None = None,
) -> Engine:
    """Start dynoxide on `port`, or else on the `preferred` or another free port; return it once it responds.

    With `data` the engine keeps its state in a subfolder, which `fresh` empties first, and its log beside it.
    Without `data` the state is deleted when the engine stops. State and log are readable only by their owner.
    The engine listens only on the loopback interface.

    Raises: EngineUnavailable when a program is missing, the port or the folder is in use, or the engine does
        not respond.
    """
    if name_or_url.startswith(("http://", "https://")):
        return _connect(name_or_url)
    if name_or_url != DYNOXIDE:
        raise EngineUnavailable(f"{name_or_url!r} is not an engine: use {DYNOXIDE} or a URL")
    program = dynoxide.find()
    with contextlib.ExitStack() as opened:
        lock = None
        if data is None:
            folder = tempfile.TemporaryDirectory(prefix="hubbub-", dir=_memory_folder())
            state = Path(opened.enter_context(folder))
            log: IO[bytes] = opened.enter_context(tempfile.TemporaryFile())
        else:
            state = data.resolve() / DYNOXIDE
            state.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                lock = opened.enter_context(Lock(state.with_suffix(".lock"), LOCK_SECONDS))
            except InUse as holder:
                raise EngineUnavailable(f"another engine uses this folder: {holder}") from None
            if fresh and state.exists():
                shutil.rmtree(state)
            state.mkdir(mode=0o700, exist_ok=True)
            state.chmod(0o700)
            written = open_private(state.with_suffix(".log"), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            log = opened.enter_context(os.fdopen(written, "wb+"))
        listener = opened.enter_context(listen(port, preferred))
        command = [sys.executable, "-m", "local.engines.guard", "--listener", str(listener.fileno())]
        command += ["--program", str(program), "--state", str(state)]
        # The folder stays locked until the engine has ended.
        return launch(Program(command), listener, log, opened, [lock.fileno()] if lock else [])


class Program(NamedTuple):
    """The command of an engine, its part of the environment, and a path that it serves once it is ready."""

    command: list[str]
    environment: Mapping[str, str] = MappingProxyType({})
    ready: str = "/"


def launch(
    program: Program,
    listener: socket.socket,
    log: IO[bytes],
    opened: contextlib.ExitStack,
    inherited: Iterable[int] = (),
) -> Engine:
    """Start a process that serves on a listening socket, and return it as an engine once it responds.

    The engine closes what is `opened` when it stops, and keeps the `inherited` descriptors open.
    """
    process = subprocess.Popen(
        program.command,
        cwd=ROOT,
        # An engine must not see real credentials.
        env={**{k: v for k, v in os.environ.items() if not k.startswith("AWS_")}, **program.environment},
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        umask=0o077,
        # The engine inherits the socket, so no other process can get its port in between.
        pass_fds=(listener.fileno(), *inherited),
    )
    opened.callback(_stop_process, process)
    endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()  # an engine that has ended refuses connections
    _wait_until_ready(process, endpoint + program.ready, log)
    return Engine(endpoint, process, opened.pop_all())


def listen(port: int | None = None, preferred: int | None = None) -> socket.socket:
    """Listen on `port`, or if it is None on the preferred port, or on a free one if that is in use."""
    if port is None and preferred:
        with contextlib.suppress(OSError):
            return socket.create_server(("127.0.0.1", preferred), backlog=256)
    try:
        return socket.create_server(("127.0.0.1", port or 0), backlog=256)
    except OSError as error:
        raise EngineUnavailable(f"port {port} cannot be used: {error.strerror}") from error


def _connect(url: str) -> Engine:
    """Return the engine that is running at a URL."""
    engine = Engine(url)
    try:
        engine.client("dynamodb").list_tables(Limit=1)
    except (BotoCoreError, ClientError, ValueError) as error:
        raise EngineUnavailable(f"there is no DynamoDB at {url}: {error}") from None
    return engine


def _memory_folder() -> Path | None:
    """Return a folder in memory with space for a temporary database, or None."""
    folder = Path("/dev/shm")  # noqa: S108 (a private folder is created in it)
    with contextlib.suppress(OSError):
        if os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 2**30:
            return folder
    return None


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: IO[bytes]) -> None:
    """Wait until the engine responds to a GET. Raises EngineUnavailable with the end of its log."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            opener.open(url, timeout=2).close()
            return
        except urllib.error.HTTPError as response:
            if response.code < 500:
                return
        except OSError:
            pass
        time.sleep(0.02)
    state = "did not respond in time" if process.poll() is None else f"ended with {process.returncode}"
    log.seek(0)
    tail = log.read().decode(errors="replace").strip().splitlines()[-15:]
    raise EngineUnavailable("\n".join([f"the engine {state}; the end of its log:", *tail]))


def _stop_process(process: subprocess.Popen[bytes]) -> None:
    """Terminate the engine and wait for its end. Kill it after `STOP_SECONDS`."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    finally:
        if process.stdin:
            process.stdin.close()


def _session() -> boto3.session.Session:
    """Return a session with dummy credentials that ignores the profiles of the user."""
    nowhere = (None, None, os.devnull, None)
    settings = {"profile": (None, None, None, None), "config_file": nowhere, "credentials_file": nowhere}
    core = botocore.session.Session(session_vars=settings)
    return boto3.session.Session("local", "local", region_name=REGION, botocore_session=core)
