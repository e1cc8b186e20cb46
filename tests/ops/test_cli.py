"""The command line: help by subject with examples, errors as one line or as JSON, the version, completion."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from ops.cli.main import GROUPS, main
from ops.stage import ROOT

EXAMPLES = [example for group in GROUPS.values() for example in group.values()]


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.stdout, result.stderr


def test_help_lists_every_command_by_subject_with_its_whole_first_sentence() -> None:
    _, said, _ = run("--help")
    assert {name for group in GROUPS.values() for name in group} == set(main.commands)
    assert all(f"\n{title}:\n" in said for title in GROUPS)
    assert "..." not in said.partition("\n")[2]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_example_of_a_command_is_a_command(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, name, *arguments = shlex.split(example.partition(" >> ")[0])
    for argument in arguments:
        if argument.endswith((".log", ".csv", ".xml")):
            (tmp_path / argument).touch()
    command = main.commands[name]
    command.make_context(name, list(arguments))  # raises for a wrong option or argument
    assert f"Example: {example}" in " ".join(run(name, "--help")[1].split())


def test_only_a_command_that_creates_a_stage_says_so() -> None:
    says_so = {name for name in main.commands if "A new stage is created" in run(name, "--help")[1]}
    assert says_so == {"provision", "deploy", "package"}


def test_an_error_is_json_where_the_result_would_be() -> None:
    for arguments, code in (
        (("status", "--json", "--stag", "x"), "usage"),
        (("status", "--json", "--stage", "pord"), "usage"),
        (("replay", "views", "--json", "--stage", "local"), "failed"),
    ):
        _, said, problem = run(*arguments)
        assert (said, json.loads(problem)["code"]) == ("", code), arguments
        assert json.loads(problem)["message"]
    assert run("status", "--stage", "pord")[2].startswith("Error: ")


def test_the_version_is_the_same_everywhere() -> None:
    import app

    assert run("--version") == (0, f"hubbub {app.VERSION}\n", "")
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == app.VERSION
    assert json.loads((ROOT / "web/package.json").read_text())["version"] == app.VERSION
    released = re.findall(r"^## (\[.*?\]|Unreleased)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert f"[{app.VERSION}]" in released[:2], "the newest version, perhaps below Unreleased"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_names_the_command(shell: str) -> None:
    code, said, _ = run("completion", shell)
    assert (code, "_HUBBUB_COMPLETE" in said) == (0, True)


def test_the_command_works_in_any_directory_and_completes(tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "ops" / "__main__.py")]
    words = {"_HUBBUB_COMPLETE": "bash_complete", "COMP_WORDS": "hubbub era", "COMP_CWORD": "1"}
    for more, said in (({}, "Usage: hubbub "), (words, "plain,erase")):
        found = subprocess.run(
            [*script, "--help"],
            cwd=tmp_path,
            env=os.environ | more,
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.startswith(said)
