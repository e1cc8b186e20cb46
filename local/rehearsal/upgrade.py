"""Rehearses an upgrade under traffic: an earlier version, this one, the earlier one again, and this one.

The project's files are replaced in place, as a checkout does, and Chalice's record of the deployment stays.
Clients send views, scores and comments all the time. A client repeats a request with the same id until it
succeeds, so at the end every request is counted exactly once.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
import threading
import urllib.error
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from local.engines.engine import ROOT
from local.rehearsal.walk import PATIENCE, Stage
from ops.waiting import wait_until

PAUSE = 0.2  # seconds between two requests of a client
SOME = 20  # requests of each kind between two deployments
KEPT = ("deployed", "deployments")  # folders of .chalice that a checkout does not change


class Traffic:
    """Clients of a stage, one thread for each kind of request, and the numbers of their acknowledgements."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._stop = threading.Event()
        self.done = {"views": 0, "scores": 0, "comments": 0}
        self.repeats = 0
        self.errors: list[str] = []
        self._begun = datetime.now(UTC).isoformat()  # of every view, so that a repeated one is the same event
        kinds = (("views", self._view), ("scores", self._score), ("comments", self._comment))
        self._threads = [threading.Thread(target=self._send, args=one) for one in kinds]

    @contextlib.contextmanager
    def flowing(self) -> Iterator[None]:
        """Send requests until the block ends, and then complete those that have begun."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()

    def wait(self) -> None:
        """Wait for some requests of each kind."""
        goals = {kind: count + SOME for kind, count in self.done.items()}

        def is_reached() -> bool:
            return bool(self.errors) or all(self.done[kind] >= goal for kind, goal in goals.items())

        wait_until(is_reached, "requests of each kind", PATIENCE)

    def _send(self, kind: str, request: Callable[[int], Any]) -> None:
        for number in itertools.count():
            if self._stop.is_set() or self.errors:
                return
            try:
                self._repeat(partial(request, number))
            except (urllib.error.HTTPError, click.ClickException) as error:
                self.errors.append(f"{kind}: {error}")
                return
            self.done[kind] += 1
            self._stop.wait(PAUSE)

    def _repeat(self, request: Callable[[], Any]) -> None:
        """Send a request until it succeeds. A client error, which no retry mends, is raised."""

        def succeeds() -> bool:
            try:
                request()
            except (OSError, ValueError) as error:
                if isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code != 403:
                    raise
                self.repeats += 1  # 403 and 5xx: a function that is being replaced
                return False
            return True

        wait_until(succeeds, "a request succeeds", PATIENCE)

    def _view(self, number: int) -> Any:
        event = self._stage.view("upgrade", f"client-{number}") | {"time": self._begun}
        return self._stage.call("POST", "/views", event)

    def _score(self, number: int) -> Any:
        body = {"id": f"upgrade-{number}", "value": 1}
        return self._stage.call("POST", "/leaderboards/upgrade/scores", body, self._stage.player)

    def _comment(self, number: int) -> Any:
        path = f"/products/upgrade-{number}/comments"
        body = {"rating": 4, "language": "en", "text": "still there"}
        try:
            return self._stage.call("POST", path, body, self._stage.player)
        except urllib.error.HTTPError as error:
            if error.code == 409:  # an earlier try has written it
                return None
            raise


def check_counts(stage: Stage, done: dict[str, int]) -> str:
    """Wait until everything is counted, and check that nothing is counted twice."""

    def counts() -> dict[str, int]:
        standing = stage.call("GET", "/leaderboards/upgrade/players/player-1")
        products = range(done["comments"])
        path = "/products/upgrade-{}/statistics"
        return {
            "views": stage.views("upgrade"),
            "scores": int(standing["score"]) if (standing["rank"], standing["of"]) == (1, 1) else -1,
            "comments": sum(stage.call("GET", path.format(one))["total"] for one in products),
        }

    try:
        wait_until(lambda: counts() == done, "every request is counted", PATIENCE)
    except click.ClickException:
        raise ValueError(f"counted are {counts()}, not {done}") from None
    return ", ".join(f"{count} {kind}" for kind, count in done.items()) + " are counted once each"


def install(root: Path, source: Path, names: tuple[str, ...], configure: Callable[[Path], None]) -> None:
    """Replace the project's files, and keep Chalice's record of what is deployed."""
    for name in names:
        old, new = root / name, source / name
        if old.is_dir():
            for path in old.iterdir():
                if path.name not in KEPT:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif old.exists():
            old.unlink()
        if new.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", *KEPT)
            shutil.copytree(new, old, ignore=ignored, dirs_exist_ok=True)
        elif new.is_file():
            shutil.copy(new, old)
    configure(root)


def extract(revision: str, folder: Path) -> Path:
    """Write the files of a revision into a folder. Raises OSError for a revision that is not there."""
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        raise OSError(f"git archive {revision}: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder
