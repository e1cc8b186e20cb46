"""Interrupts Chalice after each of its calls, and checks that the next command completes its work.

Chalice runs in its own process, which is killed after a number of calls that change something. The kill is in
a `sitecustomize.py` of a temporary folder on the process's path, so the commands themselves have no hook.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ops.aws import deploy
from ops.aws.record import rebuild_record, record_path

KILL = """
import os, re, signal
import botocore.client
call, calls = botocore.client.BaseClient._make_api_call, []
def counted(self, operation, arguments):
    try:
        return call(self, operation, arguments)
    finally:
        if not re.match("Get|List|Describe", operation):
            calls.append(operation)
            with open(os.environ["CALLS"], "a") as log:
                log.write(operation + "\\n")
            if len(calls) == int(os.environ["KILL_AFTER"]):
                os.kill(os.getpid(), signal.SIGKILL)
botocore.client.BaseClient._make_api_call = counted
"""
NEVER = 1_000_000


class Chalice:
    """Chalice's commands for one stage of a copy of the project."""

    def __init__(
        self, root: Path, stage: str, environment: Mapping[str, str], client: Callable[[str], Any]
    ) -> None:
        self.root, self.stage, self._client = root, stage, client
        folder = root.parent / "interrupts"
        folder.mkdir(exist_ok=True)
        (folder / "sitecustomize.py").write_text(KILL)
        self._log = folder / "calls"
        self._environment = {
            **environment,
            "PYTHONPATH": str(folder),
            "HUBBUB_OPS": "1",
            "CALLS": str(self._log),
        }

    def run(self, command: str, kill_after: int = NEVER) -> list[str]:
        """Run a command until it ends or is killed, and return the calls that it has made.

        Raises: RuntimeError with its output when it fails.
        """
        self._log.write_text("")
        done = subprocess.run(
            [*deploy.CHALICE, command, "--stage", self.stage],
            cwd=self.root,
            env=self._environment | {"KILL_AFTER": str(kill_after)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, -9):
            raise RuntimeError(f"chalice {command} failed:\n{done.stdout}{done.stderr}")
        return self._log.read_text().split()

    def resume(self, command: str) -> None:
        """Rebuild the record as `ops` does, and run a command to its end, if there is anything to delete."""
        if rebuild_record(self._client, self.root, self.stage) or command == "deploy":
            self.run(command)


def interrupt_everywhere(
    chalice: Chalice, inventory: Callable[[], object], *, is_every_call: bool
) -> Iterator[str]:
    """Interrupt two deployments and a deletion, after each call or after the first of each operation.

    Yields a line for each position.

    Raises: AssertionError for a stage that differs afterwards.
    """
    nothing = inventory()
    first = chalice.run("deploy")
    everything = inventory()
    for title, command, calls in (
        ("a second deployment", "deploy", chalice.run("deploy")),
        ("a deletion", "delete", chalice.run("delete")),
        ("a first deployment", "deploy", first),
    ):
        for position, operation in enumerate(calls, 1):
            if not is_every_call and operation in calls[: position - 1]:
                continue
            if title != "a first deployment":
                chalice.resume("deploy")
            chalice.run(command, kill_after=position)
            if command == "deploy":
                record_path(chalice.root, chalice.stage).unlink(missing_ok=True)  # as in another directory
                chalice.resume("deploy")
                assert inventory() == everything, f"{position}: {operation}: {inventory()} != {everything}"
            if title != "a second deployment":
                chalice.resume("delete")
                assert inventory() == nothing, f"{position}: {operation}: {inventory()} != {nothing}"
            yield f"{title} continues after {operation}, call {position} of {len(calls)}"
        chalice.resume("delete")
