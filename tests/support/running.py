"""Runs the product as a user does: `python -m local` in its own process."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import quote

import pytest

from chalicelib.api import auth
from chalicelib.settings import Settings
from local.engines.engine import ROOT, start
from local.ports import free_ports

PATIENCE = 30.0  # seconds until a test gives up waiting
PAGE = "https://example.org/a"
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("AWS_", "HUBBUB_", "POWERTOOLS_", "PYTEST_"))
}
# Without a secret, a run would create one in the tree.
ENVIRONMENT["HUBBUB_SECRET"] = "0123456789abcdef0123456789abcdef"


def addresses_of(*processes: int) -> set[str]:
    """Return the addresses on which processes listen, as Linux writes them. OSError: a process has ended."""
    sockets = set()
    for process in processes:
        for file in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):  # it was closed meanwhile
                sockets.add(str(file.readlink()))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in sockets:
                found.add(local)
    return found


def until(condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """Wait until a condition returns a true value, and return that value."""
    deadline = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {patience} s: {what}"
        time.sleep(0.01)
    return found


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def view(client: str) -> dict[str, str]:
    return {"url": PAGE, "time": datetime.now(UTC).isoformat(), "clientId": client.replace(" ", "-")}


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Callable[[int], int]]:
    """Mount a small disk at a folder, and give a function that resizes it. Skip if that is not allowed."""
    folder.mkdir()

    def mount(options: str) -> int:
        return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]).returncode

    if mount(f"size={megabytes}m"):
        pytest.skip("this user cannot mount a small disk")
    try:
        yield lambda size: mount(f"remount,size={size}m")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


class Run:
    """A run of the command in its own process group, like a foreground process of a terminal."""

    def __init__(
        self,
        data: Path,
        *options: str,
        names_engine: bool = True,
        root: Path = ROOT,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.port, self.socket_port, self.engine_port = free_ports(3)
        ports = ["--port", self.port, "--socket-port", self.socket_port]
        ports += ["--engine-port", self.engine_port] if names_engine else []
        self.stderr = data.with_suffix(".stderr")
        self._command = [sys.executable, "-m", "local", *map(str, ports), "--data", str(data), *options]
        self._root = root
        self.environment = {**ENVIRONMENT, **environment}
        self.begin()

    def begin(self) -> None:
        """Start or restart the command."""
        with self.stderr.open("ab") as stderr:
            self.process = subprocess.Popen(
                self._command,
                cwd=self._root,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        self.lines: list[str] = []
        self._coming: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(self._coming,), daemon=True).start()

    @property
    def page(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.port}/"

    def __enter__(self) -> Self:
        self.wait_for("ready")
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.interrupt()

    def _read(self, coming: queue.Queue[str]) -> None:
        assert self.process.stdout
        with self.process.stdout as lines:
            for line in lines:
                coming.put(line.rstrip("\n"))
        coming.put("(the end)")

    def wait_for(self, line: str) -> None:
        """Wait for a line on standard output."""
        while line not in self.lines:
            try:
                self.lines.append(self._coming.get(timeout=PATIENCE))
            except queue.Empty:
                pytest.fail(f"no {line!r}: {self.lines} {self.stderr.read_text()}")
            if self.lines[-1] == "(the end)":
                pytest.fail(f"the run ended before {line!r}: {self.stderr.read_text()}")
        self.lines.remove(line)

    def interrupt(self) -> int:
        """Press Ctrl-C, and return the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(PATIENCE)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        token: str = "",
        port: int = 0,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[int, Any]:
        """Send a request. Return the status and the JSON or text of the response."""
        with closing(http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=60)) as connection:
            sent = {"Content-Type": "application/json", **headers}
            sent |= {"Authorization": f"Bearer {token}"} if token else {}
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            response = connection.getresponse()
            text = response.read().decode()
            is_json = response.getheader("Content-Type", "").startswith("application/json")
            return response.status, json.loads(text) if is_json and text else text

    def token(self, sub: str, scope: str = "", **claims: Any) -> str:
        """Sign a token that the run accepts."""
        return auth.mint(Settings(secret=ENVIRONMENT["HUBBUB_SECRET"]), sub, scope=scope, **claims)

    def post(self, *views: dict[str, str], port: int = 0) -> None:
        for first in range(0, len(views), 25):  # the limit of a request without a token
            events = list(views[first : first + 25])
            answer = self.call("POST", "/views", {"events": events}, port=port)
            assert answer == (202, {"accepted": len(events), "rejected": []}), answer

    def views(self) -> int:
        status, page = self.call("GET", f"/views?url={quote(PAGE, safe='')}")
        assert status == 200, page
        return int(page["views"])

    def wait_for_views(self, count: int) -> None:
        until(lambda: self.views() >= count, f"{count} views")
        assert self.views() == count

    def keys(self) -> list[tuple[str, str]]:
        """Return the keys of all items in the table."""
        client = start(f"http://127.0.0.1:{self.engine_port}", None).client("dynamodb")
        pages = client.get_paginator("scan").paginate(TableName="hubbub-local", ConsistentRead=True)
        return [(item["pk"]["S"], item["sk"]["S"]) for page in pages for item in page["Items"]]

    def events(self) -> int:
        """Count the event items in the table."""
        return sum(sk.startswith("T#") for _, sk in self.keys())

    def wait_for_listener(self, topic: str) -> None:
        """Wait until a connection is subscribed to a topic."""
        partition = f"TOPIC#{hashlib.blake2b(topic.encode(), digest_size=16).hexdigest()}"
        until(
            lambda: any(pk == partition and sk.startswith("CONN#") for pk, sk in self.keys()),
            f"a subscription to {topic}",
        )

    def ports(self) -> list[int]:
        return [self.port, self.socket_port, self.engine_port]

    def processes(self) -> set[int]:
        """Return the ids of the processes of this run: the command, the app and the engine."""
        parents = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            except OSError:  # it has just ended
                continue
            if state != "Z":
                parents[int(stat.parent.name)] = int(parent)
        found = {self.process.pid}
        while more := {child for child, parent in parents.items() if parent in found} - found:
            found |= more
        return found

    def commands(self) -> dict[str, int]:
        """Return the processes of this run by a word of their command: local, guard and dynoxide."""
        found = {}
        for process in self.processes():
            command = Path(f"/proc/{process}/cmdline").read_text().split("\0")
            name = command[2].rpartition(".")[2] if "-m" in command else Path(command[0]).name
            found[name] = process
        return found


def copied(tmp_path: Path) -> Path:
    """Copy the project, for a test that changes its sources."""
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(ROOT / "app.py", copy)
    for folder in ("chalicelib", "local", "ops", ".chalice", "web"):
        if (ROOT / folder).exists():
            shutil.copytree(
                ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "deploy*")
            )
    return copy
