"""A roll-back deploys the code of an earlier revision, with the stage's own variables."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import click
import pytest

from ops.aws import rollback


def git(root: Path, *arguments: str) -> str:
    own = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(root), *own, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def write_config(root: Path, **variables: str) -> None:
    stage = {"environment_variables": {"HUBBUB_STAGE": "prod", **variables}, "lambda_functions": {}}
    (root / ".chalice").mkdir(exist_ok=True)
    (root / ".chalice" / "config.json").write_text(json.dumps({"stages": {"prod": stage}}))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with two versions, whose stage was deployed from here."""
    git(tmp_path, "init", "--quiet")
    for version in ("1", "2"):
        (tmp_path / "app.py").write_text(f"VERSION = {version}\n")
        write_config(tmp_path, HUBBUB_SITES=f"version-{version}.example")
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "--quiet", "-m", f"version {version}")
        git(tmp_path, "tag", f"v{version}")
    return tmp_path


def test_the_code_is_of_the_revision_and_the_variables_are_the_stages_own(project: Path) -> None:
    seen: list[str] = []

    def deploys(command: list[str], folder: Path) -> int:
        assert command[1:] == ["-m", "ops", "deploy", "--stage", "prod", "--yes"]
        seen.append((folder / "app.py").read_text())
        config = json.loads((folder / ".chalice" / "config.json").read_text())
        seen.append(config["stages"]["prod"]["environment_variables"]["HUBBUB_SITES"])
        return 0

    rollback.roll_back(project, "prod", "v1", deploys)
    assert seen == ["VERSION = 1\n", "version-2.example"]
    assert (project / "app.py").read_text() == "VERSION = 2\n"
    assert git(project, "worktree", "list").count("\n") == 0


def test_a_failed_deployment_says_so(project: Path) -> None:
    with pytest.raises(click.ClickException, match="the deployment of v1 failed"):
        rollback.roll_back(project, "prod", "v1", lambda *_: 1)


@pytest.mark.parametrize(("revision", "stage"), [("v9", "prod"), ("v1", "beta")])
def test_an_unknown_revision_or_stage_deploys_nothing(project: Path, revision: str, stage: str) -> None:
    def never(command: list[str], folder: Path) -> int:
        raise AssertionError

    with pytest.raises(click.ClickException):
        rollback.roll_back(project, stage, revision, never)
