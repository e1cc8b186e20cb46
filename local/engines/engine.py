"""Starts and stops an engine that stands in for DynamoDB, and where it can for SQS, on one machine.

| kind | what it is | queues | its state, given a data folder |
|---|---|---|---|
| `dynoxide` | one binary over SQLite, fetched on first use, behind a guard | no | on disk with each write |
| `ministack` | a Python package, run by `ministack.py` | yes | read when it starts, written when it stops |
| a URL | an engine that runs already; nothing is started | asked | its own affair |

An engine outlives Ctrl-C, which a terminal sends to all processes in its foreground, so that the application
can drain first. It does not outlive the process that started it, however that one ends. A data folder serves
one engine at a time. Every engine that is started here refuses requests of foreign pages (guard.py).
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, Self, overload

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from local.engines.locks import InUse, Lock, private

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodbstreams import DynamoDBStreamsClient
    from mypy_boto3_sqs import SQSClient

ROOT = Path(__file__).parents[2]
REGION = "us-east-1"
START_SECONDS = 60.0
STOP_SECONDS = 30.0  # for an engine with nothing to save
KINDS = ("dynoxide", "ministack")


class EngineUnavailable(Exception):
    """An engine cannot run here; the message says what is missing or in the way."""


@dataclass
class Engine:
    """An engine that answers at `endpoint`; leaving its context ends it if it was started here."""

    kind: str
    endpoint: str
    has_queues: bool
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
        """Return the engine's client for a service, always the same one; it may be shared by threads.

        It signs with credentials that mean nothing, and reads neither the machine's profiles nor its proxies.
        """
        with self._lock:
            if service not in self._clients:
                config = Config(
                    connect_timeout=3,
                    read_timeout=30,
                    retries={"mode": "standard", "total_max_attempts": 3},
                    max_pool_connections=50,
                    proxies={},
                )
                make: Any = _session().client
                self._clients[service] = make(service, endpoint_url=self.endpoint, config=config)
            return self._clients[service]

    def stop(self) -> None:
        """End the engine if it was started here, and wait for it. Stopping twice does nothing.

        ministack writes its state now, for as long as that takes.
        """
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def start(kind_or_url: str, data: Path | None, port: int | None = None, fresh: bool = False) -> Engine:
    """Start an engine of a kind, listening on `port` or on a free one, and return it once it answers.

    With `data` it keeps its state in the folder of that name and kind, which `fresh` empties first, and its
    log beside it; without, all is forgotten when it stops. Both are readable by their owner alone. The engine
    listens on the loopback interface alone.

    Raises EngineUnavailable when a program is missing, port or folder is taken, or it does not answer.
    """
    if kind_or_url.startswith(("http://", "https://")):
        return _at(kind_or_url)
    if kind_or_url not in KINDS:
        raise EngineUnavailable(f"{kind_or_url!r} is no engine: use {', '.join(KINDS)} or a URL")
    with contextlib.ExitStack() as opened:
        lock = None
        if data is None:
            folder = tempfile.TemporaryDirectory(prefix="hubbub-", dir=_memory())
            state = Path(opened.enter_context(folder))
            log: IO[bytes] = opened.enter_context(tempfile.TemporaryFile())
        else:
            state = data.resolve() / kind_or_url
            state.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                lock = opened.enter_context(Lock(state.with_suffix(".lock"), None, "its engine saves"))
            except InUse as holder:
                raise EngineUnavailable(f"another engine has this folder: {holder}") from None
            if fresh and state.exists():
                shutil.rmtree(state)
            state.mkdir(mode=0o700, exist_ok=True)
            state.chmod(0o700)
            written = private(state.with_suffix(".log"), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            log = opened.enter_context(os.fdopen(written, "wb+"))
        port = _free(port)
        has_state = data is not None
        command, environment = _COMMANDS[kind_or_url](port, state, has_state)
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            # Real credentials have no business in an engine.
            env={**{k: v for k, v in os.environ.items() if not k.startswith("AWS_")}, **environment},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,
            # The folder stays locked until the engine itself has ended and written its state.
            pass_fds=(lock.fileno(),) if lock else (),
        )
        opened.callback(_end, process, state if has_state else None)
        endpoint = f"http://127.0.0.1:{port}"
        ministack = kind_or_url == "ministack"
        _wait(kind_or_url, process, endpoint + ("/_ministack/ready" if ministack else "/"), log)
        return Engine(kind_or_url, endpoint, ministack, process, opened.pop_all())


def _memory() -> Path | None:
    """Return a folder in memory with room for a database that nobody keeps, or None."""
    folder = Path("/dev/shm")  # noqa: S108 (a folder of its own is made there)
    with contextlib.suppress(OSError):
        if os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 2**30:
            return folder
    return None


def default_kind(data: Path) -> str:
    """Return dynoxide where it can be had, else ministack, after one line on standard error that says so."""
    from local.engines import dynoxide  # which needs this module

    try:
        dynoxide.install()
    except EngineUnavailable as reason:
        kept = data / "dynoxide"
        aside = f"; what dynoxide has kept in {kept} is not used" if kept.exists() else ""
        print(f"using ministack, for dynoxide is not available: {reason}{aside}", file=sys.stderr, flush=True)
        return "ministack"
    if (data / "ministack").exists() and not (data / "dynoxide").exists():
        held = f"{data / 'ministack'} holds the data of a run on ministack"
        print(
            f"starting empty on dynoxide: {held}, which --engine ministack opens", file=sys.stderr, flush=True
        )
    return "dynoxide"


def _at(url: str) -> Engine:
    """Return the engine that answers at a URL."""
    engine = Engine("url", url, has_queues=False)
    try:
        engine.client("dynamodb").list_tables(Limit=1)
    except (BotoCoreError, ClientError, ValueError) as error:
        raise EngineUnavailable(f"there is no DynamoDB at {url}: {error}") from None
    with contextlib.suppress(BotoCoreError, ClientError):
        engine.client("sqs").list_queues(MaxResults=1)
        engine.has_queues = True
    return engine


def _ministack(port: int, state: Path, has_state: bool) -> tuple[list[str], dict[str, str]]:
    """Return ministack's command, and its environment beside this process's own."""
    environment = {
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        # Whom it takes for the account's root when AUTH=true makes it look at signatures and policies.
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        # Listeners of their own, on every interface.
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        # In reach of a Docker daemon it would remove the containers of every other ministack.
        "DOCKER_HOST": "unix:///nonexistent",
        "PERSIST_STATE": "1" if has_state else "0",
        "STATE_DIR": str(state) if has_state else "",
    }
    return [sys.executable, "-m", "local.engines.ministack"], environment


def _dynoxide(port: int, state: Path, has_state: bool) -> tuple[list[str], dict[str, str]]:
    """Return the command of dynoxide behind its guard, after fetching it if that was never done."""
    from local.engines import dynoxide

    program = str(dynoxide.install())
    options = ["--port", str(port), "--program", program, "--state", str(state)]
    return [sys.executable, "-m", "local.engines.guard", *options], {}


_COMMANDS = {"dynoxide": _dynoxide, "ministack": _ministack}


def _free(port: int | None) -> int:
    """Return `port` if nothing listens on it, or any port that is free now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port or 0))
        except OSError as error:
            raise EngineUnavailable(f"port {port} cannot be used: {error.strerror}") from error
        return int(probe.getsockname()[1])


def _wait(kind: str, process: subprocess.Popen[bytes], url: str, log: IO[bytes]) -> None:
    """Wait until the engine answers a plain GET."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            opener.open(url, timeout=2).close()
            return
        except urllib.error.HTTPError as answer:
            if answer.code < 500:
                return
        except OSError:
            pass
        time.sleep(0.02)
    state = "did not answer in time" if process.poll() is None else f"ended with {process.returncode}"
    log.seek(0)
    tail = log.read().decode(errors="replace").strip().splitlines()[-15:]
    raise EngineUnavailable("\n".join([f"{kind} {state}; its log ends:", *tail]))


def _end(process: subprocess.Popen[bytes], state: Path | None) -> None:
    """Ask the engine to end, and wait. One that has state to save is never killed; it says how far it is."""
    process.terminate()
    waited = 0.0
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
                return
            waited += 5
            if state is None and waited >= STOP_SECONDS:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return
            if state is not None:
                _say_that_it_saves(state, waited)
    finally:
        if process.stdin:
            process.stdin.close()


def _say_that_it_saves(state: Path, seconds: float) -> None:
    written = 0
    for file in state.rglob("*"):
        with contextlib.suppress(OSError):  # it was renamed meanwhile
            written += file.stat().st_size
    print(
        f"saving: the engine writes its state to {state} ({written / 1e6:.0f} MB there after"
        f" {seconds:.0f} s). It is not killed: wait, and nothing is lost.",
        file=sys.stderr,
        flush=True,
    )


def _session() -> boto3.session.Session:
    """Return a session with credentials that mean nothing, blind to the profiles of whoever runs it."""
    nowhere = (None, None, os.devnull, None)
    settings = {"profile": (None, None, None, None), "config_file": nowhere, "credentials_file": nowhere}
    core = botocore.session.Session(session_vars=settings)
    return boto3.session.Session("local", "local", region_name=REGION, botocore_session=core)
