"""The local run as a process, which a measurement starts, kills and restarts, and an HTTP client."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

from chalicelib.api import auth
from chalicelib.settings import Settings
from local.engines.engine import ROOT
from local.ports import free_ports

SETTINGS = Settings(secret="0123456789abcdef0123456789abcdef")  # noqa: S106 (of tokens that nobody else reads)
PATIENCE = 120.0  # seconds that a stop, or a response with all its retries, may take
TRANSIENT = {429, 500, 502, 503}


class Product:
    """`python -m local` in a folder.

    `seconds` is the duration of the last start. `is_whole` is false while a process is killed or stopped.
    """

    def __init__(self, engine: str, data: Path, *options: str) -> None:
        self.port, self.socket_port = free_ports(2)
        ports = ["--port", str(self.port), "--socket-port", str(self.socket_port)]
        command = [sys.executable, "-m", "local", "--no-reload", "--engine", engine, "--data", str(data)]
        self._command = [*command, *ports, *options]
        data.mkdir(parents=True, exist_ok=True)
        self._log = data / "product.log"
        self.start()

    def start(self) -> None:
        """Start the process, and wait until it is ready. Raises RuntimeError when it ends before."""
        begun, [self.engine_port] = (
            time.monotonic(),
            free_ports(1),
        )  # a killed engine's port may still be taken
        command, output = [*self._command, "--engine-port", str(self.engine_port)], subprocess.PIPE
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=_environment(), stdout=output, stderr=log, text=True
            )
        assert self.process.stdout
        if "ready\n" not in self.process.stdout:
            raise RuntimeError(f"the product ended before it was ready: {self._log.read_text()[-2000:]}")
        self.seconds, self.is_whole = time.monotonic() - begun, True
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def kill_engine(self) -> None:
        """Kill the engine that the process has started, and its guard."""
        self.is_whole = False
        for pid in reversed(_descendants(self.process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill the process, with its pumps and sockets."""
        self.is_whole = False
        self.process.kill()
        self.process.wait()

    def interrupt(self) -> int:
        """Send SIGINT, as Ctrl-C does; return the exit code."""
        self.is_whole = False
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)

    def memory(self) -> float:
        """Return the resident megabytes of the process, 0 where they cannot be read."""
        try:
            lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        except OSError:
            return 0.0
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)

    def ops(self, *command: str) -> str:
        """Run a command of `python -m ops` on this run, and return its output."""
        environment = _environment() | {"HUBBUB_ENDPOINT": f"http://127.0.0.1:{self.engine_port}"}
        words = [sys.executable, "-m", "ops", *command]
        ran = subprocess.run(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True, text=True)
        return ran.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.interrupt()


def _environment() -> dict[str, str]:
    """Return this environment without AWS's and other stages' variables."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "HUBBUB_", "POWERTOOLS_"))}
    return kept | {"HUBBUB_SECRET": SETTINGS.secret}


def _descendants(pid: int) -> list[int]:
    """Return a process's children with their children: the engine's guard, and the engine."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [one for child in map(int, children) for one in (child, *_descendants(child))]


class Caller:
    """An HTTP client with one connection.

    `retries` counts the requests that `call` has sent again. `errors` counts the responses with status 500
    while all processes ran.
    """

    def __init__(self, product: Product) -> None:
        self.retries = self.errors = 0
        self._product = product
        self._connection: http.client.HTTPConnection | None = None

    def send(
        self, method: str, path: str, body: Any = None, sub: str = "", headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send a request once, as `sub`; return its status and JSON. Raises OSError, HTTPException."""
        sent = {"Content-Type": "application/json", "User-Agent": "a browser", **(headers or {})}
        if sub:
            token = auth.mint(SETTINGS, sub, scope="admin" if sub == "admin" else "")
            sent["Authorization"] = f"Bearer {token}"
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection("127.0.0.1", self._product.port, timeout=120)
            self._connection.request(method, path, None if body is None else json.dumps(body), sent)
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException):
            self._connection = None
            raise
        return response.status, json.loads(text) if text[:1] in (b"{", b"[") else None

    def call(self, *request: Any, **more: Any) -> tuple[int, Any]:
        """Send a request until there is a response, as `send`. Raises TimeoutError after two minutes."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                response = self.send(*request, **more)
                if response[0] not in TRANSIENT:
                    return response
                self.errors += response[0] == 500 and self._product.is_whole
            self.retries += 1
            time.sleep(0.1)
        raise TimeoutError(f"{request[:2]}: no response")
