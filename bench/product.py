"""The whole product as a process of its own, which a measurement may kill and start again."""

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

from chalicelib import auth
from chalicelib.settings import Settings
from local.engine import ROOT, Engine

SETTINGS = Settings(secret="0123456789abcdef0123456789abcdef")  # noqa: S106 (of tokens that nobody else takes)
PATIENCE = 120.0  # seconds that a start, or an answer with all its repeats, may take
PASSING = {429, 500, 502, 503}


class Product:
    """`python -m local` on an engine that outlives it."""

    def __init__(self, engine: Engine, data: Path, queue: bool) -> None:
        with contextlib.ExitStack() as probes:
            found = [probes.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
            self.port, self.socket_port = (probe.getsockname()[1] for probe in found)
        options = ["--engine", engine.endpoint, "--data", str(data), "--no-reload"]
        ports = ["--port", str(self.port), "--socket-port", str(self.socket_port)]
        self._command = [sys.executable, "-m", "local", *options, *ports, *(["--queue"] if queue else [])]
        self._log = data / "soak.log"
        data.mkdir(parents=True, exist_ok=True)
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("AWS_", "HUBBUB_"))}
        with self._log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 (our own command)
                self._command,
                cwd=ROOT,
                env=kept | {"HUBBUB_SECRET": SETTINGS.secret},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._wait(process)
        return process

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the product did not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> float:
        """Kill it, pumps and all, and start it again; answer the seconds until it answered."""
        begun = time.monotonic()
        self.process.kill()
        self.process.wait()
        self.process = self._start()
        return time.monotonic() - begun

    def memory(self) -> float:
        """Answer the megabytes that the process holds, 0 where that cannot be read."""
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
    """An HTTP client that sends a request again until it is answered: whatever it sends may come twice."""

    def __init__(self, product: Product) -> None:
        self.repeats = 0
        self._product = product
        self._connection: http.client.HTTPConnection | None = None

    def call(
        self, method: str, path: str, body: Any = None, sub: str = "", headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send a request as somebody; answer its status and JSON. Raises TimeoutError after two minutes."""
        sent = {"Content-Type": "application/json", "User-Agent": "a browser", **(headers or {})}
        if sub:
            token = auth.mint(SETTINGS, sub, scope="admin" if sub == "admin" else "")
            sent["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self._connection is None:
                    self._connection = http.client.HTTPConnection("127.0.0.1", self._product.port, timeout=30)
                self._connection.request(method, path, data, sent)
                answer = self._connection.getresponse()
                text = answer.read()
                if answer.status not in PASSING:
                    return answer.status, json.loads(text) if text[:1] in (b"{", b"[") else None
                self._again(0.1)
                continue
            self._again(0.05)
            self._connection = None
        raise TimeoutError(f"{method} {path} was not answered")

    def _again(self, pause: float) -> None:
        self.repeats += 1
        time.sleep(pause)
