"""The whole product as a process of its own, which a measurement may kill and restart, and an HTTP client."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from chalicelib.api import auth
from chalicelib.settings import Settings
from local.engines.engine import ROOT, Engine

SETTINGS = Settings(secret="0123456789abcdef0123456789abcdef")  # noqa: S106 (of tokens that nobody else reads)
PATIENCE = 120.0  # seconds that a start, or a response with all its retries, may take
TRANSIENT = {429, 500, 502, 503}


class Product:
    """`python -m local` on an engine that outlives it."""

    def __init__(self, engine: Engine, data: Path, queue: bool) -> None:
        with contextlib.ExitStack() as probes:
            found = [probes.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
            self.port, self.socket_port = (probe.getsockname()[1] for probe in found)
        options = ["--engine", engine.endpoint, "--data", str(data), "--no-reload"]
        options += ["--port", str(self.port), "--socket-port", str(self.socket_port)]
        self._command = [sys.executable, "-m", "local", *options, *(["--queue"] if queue else [])]
        self._log = data / "soak.log"
        data.mkdir(parents=True, exist_ok=True)
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("AWS_", "HUBBUB_"))}
        environment, none = kept | {"HUBBUB_SECRET": SETTINGS.secret}, subprocess.DEVNULL
        with self._log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 (our own command)
                self._command, cwd=ROOT, env=environment, stdin=none, stdout=log, stderr=log
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return process
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the product did not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> float:
        """Kill the process with its pumps, and restart it; return the seconds until it responds."""
        begun = time.monotonic()
        self.process.kill()
        self.process.wait()
        self.process = self._start()
        return time.monotonic() - begun

    def memory(self) -> float:
        """Return the resident megabytes of the process, 0 where they cannot be read."""
        try:
            lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        except OSError:
            return 0.0
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Caller:
    """An HTTP client that retries each request until there is a response: any request may arrive twice."""

    def __init__(self, product: Product) -> None:
        self.retries = 0
        self._product = product
        self._connection: http.client.HTTPConnection | None = None

    def call(
        self, method: str, path: str, body: Any = None, sub: str = "", headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send a request as `sub`; return its status and JSON. Raises TimeoutError after two minutes."""
        sent = {"Content-Type": "application/json", "User-Agent": "a browser", **(headers or {})}
        if sub:
            token = auth.mint(SETTINGS, sub, scope="admin" if sub == "admin" else "")
            sent["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if self._connection is None:
                    self._connection = http.client.HTTPConnection("127.0.0.1", self._product.port, timeout=30)
                self._connection.request(method, path, data, sent)
                response = self._connection.getresponse()
                text = response.read()
                if response.status not in TRANSIENT:
                    return response.status, json.loads(text) if text[:1] in (b"{", b"[") else None
            except (OSError, http.client.HTTPException):
                self._connection = None
            self.retries += 1
            time.sleep(0.1)
        raise TimeoutError(f"{method} {path}: no response")
