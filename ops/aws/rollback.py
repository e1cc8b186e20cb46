"""Deploy an earlier version of the code to a stage, from a checkout of its revision.

The stage keeps its data and its variables. Code, policies and the template
are those of the earlier revision. It must have the same format of the table.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ops.aws import chalice_config
from ops.stage import write_atomically

Runner = Callable[[list[str], Path], int]


def run(command: list[str], folder: Path) -> int:
    """Run a command in a folder, and return its exit code."""
    return subprocess.run(command, cwd=folder, check=False).returncode  # noqa: S603 (our own arguments)


def roll_back(root: Path, stage: str, revision: str, runner: Runner = run) -> None:
    """Deploy a revision of the project to a stage.

    Raises: ClickException for an unknown revision, for one without the stage, and when the deployment fails.
    """
    with checkout(root, revision) as old:
        config = chalice_config.read(old)
        if stage not in config["stages"]:
            raise click.ClickException(f"{revision} has no stage named {stage} in .chalice/config.json")
        own = chalice_config.read(root)["stages"][stage]["environment_variables"]
        config["stages"][stage]["environment_variables"] = own
        write_atomically(old / chalice_config.CONFIG, chalice_config.format_config(config))
        code = runner([sys.executable, "-m", "ops", "deploy", "--stage", stage, "--yes"], old)
        if code:
            raise click.ClickException(
                f"the deployment of {revision} failed; correct the cause and run this again"
            )


@contextmanager
def checkout(root: Path, revision: str) -> Iterator[Path]:
    """Check a revision out into a temporary folder.

    Raises: ClickException for an unknown revision.
    """
    git = ["git", "-C", str(root)]
    with tempfile.TemporaryDirectory(prefix="hubbub-rollback-") as folder:
        target = Path(folder) / "hubbub"
        command = [*git, "worktree", "add", "--detach", str(target), revision]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["git failed"]
            raise click.ClickException(f"{revision} cannot be checked out: {lines[-1]}")
        try:
            yield target
        finally:
            removal = [*git, "worktree", "remove", "--force", str(target)]
            subprocess.run(removal, capture_output=True, check=False)  # noqa: S603
