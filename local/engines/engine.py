"""Starts and stops an engine that stands in for DynamoDB, and where it can for SQS, on one machine.

| kind | engine | queues | state in a data folder |
|---|---|---|---|
| `dynoxide` | a binary over SQLite, downloaded on first use, behind a guard | no | saved with each write |
| `ministack` | a Python package, run by `ministack.py` | yes | saved when it stops |
| a URL | an engine that is already running | detected | not managed here |

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, Self, overload

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
START_SECONDS = 60.0
STOP_SECONDS = 30.0  # for an engine with nothing to save
KINDS = ("dynoxide", "ministack")


@dataclass
class Engine:
    """An engine at `endpoint`. Leaving its context stops it if it was started here."""

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
                )
                create: Any = _session().client
                self._clients[service] = create(service, endpoint_url=self.endpoint, config=config)
            return self._clients[service]

    def has_ended(self) -> bool:
        """Return whether the engine was started here and has ended by itself."""
        return self.process is not None and self.process.poll() is not None

    def explain_end(self) -> str:
        """Return one line about an engine that has ended by itself."""
        kept = "every acknowledged write is kept" if self.kind == "dynoxide" else "unsaved writes are lost"
        code = self.process.poll() if self.process else None
        return f"the engine has ended (exit code {code}), so the run ends; {kept}. Start it again."

    def stop(self) -> None:
        """Stop the engine if it was started here, and wait for its end. Idempotent.

        ministack writes its state before it ends, without a time limit.
        """
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def start(
    kind_or_url: str,
    data: Path | None,
    port: int | None = None,
    fresh: bool = False,
    preferred: int | None = None,
) -> Engine:
    """Start an engine on `port`, or else on the `preferred` or another free port; return it once it responds.

    With `data` the engine keeps its state in the subfolder of its kind, which `fresh` empties first, and its
    log beside it. Without `data` the state is deleted when the engine stops. State and log are readable only
    by their owner. The engine listens only on the loopback interface.

    Raises: EngineUnavailable when a program is missing, the port or the folder is in use, or the engine does
        not respond.
    """
    if kind_or_url.startswith(("http://", "https://")):
        return _connect(kind_or_url)
    if kind_or_url not in KINDS:
        raise EngineUnavailable(f"{kind_or_url!r} is not an engine: use {', '.join(KINDS)} or a URL")
    with contextlib.ExitStack() as opened:
        lock = None
        if data is None:
            folder = tempfile.TemporaryDirectory(prefix="hubbub-", dir=_memory_folder())
            state = Path(opened.enter_context(folder))
            log: IO[bytes] = opened.enter_context(tempfile.TemporaryFile())
        else:
            state = data.resolve() / kind_or_url
            state.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                lock = opened.enter_context(Lock(state.with_suffix(".lock"), None, "its engine is saving"))
            except InUse as holder:
                raise EngineUnavailable(f"another engine uses this folder: {holder}") from None
            if fresh and state.exists():
                shutil.rmtree(state)
            state.mkdir(mode=0o700, exist_ok=True)
            state.chmod(0o700)
            written = open_private(state.with_suffix(".log"), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            log = opened.enter_context(os.fdopen(written, "wb+"))
        # The engine inherits the socket, so no other process can get its port in between.
        listener = opened.enter_context(_listen(port, preferred))
        has_state = data is not None
        command, environment = _COMMANDS[kind_or_url](listener, state, has_state)
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            # An engine must not see real credentials.
            env={**{k: v for k, v in os.environ.items() if not k.startswith("AWS_")}, **environment},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,
            # The folder stays locked until the engine has written its state and ended.
            pass_fds=(listener.fileno(), *((lock.fileno(),) if lock else ())),
        )
        opened.callback(_stop_process, process, state if has_state else None)
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.close()  # an engine that has ended refuses connections
        ministack = kind_or_url == "ministack"
        _wait_until_ready(kind_or_url, process, endpoint + ("/_ministack/ready" if ministack else "/"), log)
        return Engine(kind_or_url, endpoint, ministack, process, opened.pop_all())


def _memory_folder() -> Path | None:
    """Return a folder in memory with space for a temporary database, or None."""
    folder = Path("/dev/shm")  # noqa: S108 (a private folder is created in it)
    with contextlib.suppress(OSError):
        if os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 2**30:
            return folder
    return None


def default_kind(data: Path) -> str:
    """Return dynoxide if it can be installed, otherwise ministack with a warning on standard error."""
    try:
        dynoxide.install()
    except EngineUnavailable as reason:
        stored = data / "dynoxide"
        aside = f"; the data of dynoxide in {stored} is not used" if stored.exists() else ""
        print(
            f"using ministack because dynoxide is not available: {reason}{aside}", file=sys.stderr, flush=True
        )
        return "ministack"
    if (data / "ministack").exists() and not (data / "dynoxide").exists():
        print(
            f"starting empty on dynoxide: {data / 'ministack'} holds the data of a run on ministack."
            " Use --engine ministack to open it.",
            file=sys.stderr,
            flush=True,
        )
    return "dynoxide"


def _connect(url: str) -> Engine:
    """Return the engine that is running at a URL."""
    engine = Engine("url", url, has_queues=False)
    try:
        engine.client("dynamodb").list_tables(Limit=1)
    except (BotoCoreError, ClientError, ValueError) as error:
        raise EngineUnavailable(f"there is no DynamoDB at {url}: {error}") from None
    with contextlib.suppress(BotoCoreError, ClientError):
        engine.client("sqs").list_queues(MaxResults=1)
        engine.has_queues = True
    return engine


def _ministack(listener: socket.socket, state: Path, has_state: bool) -> tuple[list[str], dict[str, str]]:
    """Return the command of ministack, and the variables to add to its environment."""
    environment = {
        "GATEWAY_PORT": str(listener.getsockname()[1]),
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        # The account's root user when AUTH=true makes ministack check signatures and policies.
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        # These services would listen on every interface.
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        # With access to a Docker daemon it would remove the containers of every other ministack.
        "DOCKER_HOST": "unix:///nonexistent",
        "PERSIST_STATE": "1" if has_state else "0",
        "STATE_DIR": str(state) if has_state else "",
        "S3_DATA_DIR": str(state / "s3"),
    }
    return [sys.executable, "-m", "local.engines.ministack", str(listener.fileno())], environment


def _dynoxide(listener: socket.socket, state: Path, has_state: bool) -> tuple[list[str], dict[str, str]]:
    """Return the command of dynoxide behind its guard. Download dynoxide if it is not installed."""
    program = str(dynoxide.install())
    options = ["--listener", str(listener.fileno()), "--program", program, "--state", str(state)]
    return [sys.executable, "-m", "local.engines.guard", *options], {}


_COMMANDS = {"dynoxide": _dynoxide, "ministack": _ministack}


def _listen(port: int | None, preferred: int | None) -> socket.socket:
    """Listen on `port`, or if it is None on the preferred port, or on a free one if that is in use."""
    if port is None and preferred:
        with contextlib.suppress(OSError):
            return socket.create_server(("127.0.0.1", preferred), backlog=256)
    try:
        return socket.create_server(("127.0.0.1", port or 0), backlog=256)
    except OSError as error:
        raise EngineUnavailable(f"port {port} cannot be used: {error.strerror}") from error


def _wait_until_ready(kind: str, process: subprocess.Popen[bytes], url: str, log: IO[bytes]) -> None:
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
    raise EngineUnavailable("\n".join([f"{kind} {state}; the end of its log:", *tail]))


def _stop_process(process: subprocess.Popen[bytes], state: Path | None) -> None:
    """Terminate the engine and wait for its end. An engine with state to save is never killed."""
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
                _report_saving(state, waited)
    finally:
        if process.stdin:
            process.stdin.close()


def _report_saving(state: Path, seconds: float) -> None:
    written = 0
    for file in state.rglob("*"):
        with contextlib.suppress(OSError):  # it was renamed in the meantime
            written += file.stat().st_size
    print(
        f"saving: the engine writes its state to {state} ({written / 1e6:.0f} MB there after"
        f" {seconds:.0f} s). Please wait, and free some space if the disk is full: no data is lost.",
        file=sys.stderr,
        flush=True,
    )


def _session() -> boto3.session.Session:
    """Return a session with dummy credentials that ignores the profiles of the user."""
    nowhere = (None, None, os.devnull, None)
    settings = {"profile": (None, None, None, None), "config_file": nowhere, "credentials_file": nowhere}
    core = botocore.session.Session(session_vars=settings)
    return boto3.session.Session("local", "local", region_name=REGION, botocore_session=core)
