"""The README and the tour are true: their console blocks are run, in order, against the product."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running import ENVIRONMENT, Run

ROOT = Path(__file__).parents[1]


README = ROOT / "README.md"
TOUR = ROOT / "docs" / "tour.md"
WALKTHROUGH = ROOT / "docs" / "walkthrough.md"


def blocks() -> list[str]:
    """Return the console blocks of both documents, in the order in which a reader meets them."""
    return [
        block
        for document in (README, TOUR)
        for block in re.findall(r"```console\n(.*?)```", document.read_text(), re.DOTALL)
    ]


def steps(block: str) -> list[tuple[str, str]]:
    """Split a block into commands, each with its expected output."""
    found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    assert found, block
    return found


@pytest.mark.long
def test_every_console_block_prints_the_documented_output(tmp_path: Path) -> None:
    """One shell runs all commands, so a variable of one is set for the next."""
    commands = [step for block in blocks() for step in steps(block)]
    assert len(commands) > 15
    with Run(tmp_path / "data", "--no-reload") as run:
        script = "\n".join(f"{command}\nprintf '\\036'" for command, _ in commands)
        script = script.replace("127.0.0.1:8000", f"127.0.0.1:{run.port}").replace(
            ".venv/bin/python", sys.executable
        )
        shell = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=ROOT,
            env=ENVIRONMENT | {"HUBBUB_ENDPOINT": f"http://127.0.0.1:{run.engine_port}"},
            capture_output=True,
            text=True,
            timeout=600,
        )
    printed = shell.stdout.split("\x1e")
    for (command, expected), actual in zip(commands, printed, strict=False):
        assert actual.rstrip("\n") == expected.rstrip("\n"), f"{command}\n{shell.stderr}"
    assert shell.returncode == 0, shell.stderr


def test_the_two_commands_come_first_and_exist() -> None:
    shell = re.findall(r"```sh\n(.*?)```", README.read_text(), re.DOTALL)
    targets = re.findall(r"^make (\w+)", shell[0], re.MULTILINE)
    assert targets == ["run", "test"]
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_every_file_that_the_documents_link_to_exists() -> None:
    for document in (README, *(ROOT / "docs").rglob("*.md")):
        for link in re.findall(r"\]\((?!http|#)([^)#]+)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_the_readme_has_at_most_800_words() -> None:
    assert len(README.read_text().split()) <= 800


def test_the_walkthrough_names_functions_that_exist() -> None:
    found = re.findall(r"\[`(\w+)\(\)`\]\(\.\./([\w/]+\.py)\)", WALKTHROUGH.read_text())
    assert len(found) > 20
    for name, path in found:
        source = (ROOT / path).read_text()
        assert re.search(rf"^\s*def {name}\(", source, re.MULTILINE), (
            f"{WALKTHROUGH.name}: {path} has no {name}"
        )


def test_each_way_of_the_walkthrough_has_at_most_five_files() -> None:
    ways = re.findall(r"(?:^(?:\d\. |   ).*\n)+", WALKTHROUGH.read_text(), re.MULTILINE)
    assert len(ways) >= 8
    for way in ways:
        files = set(re.findall(r"\]\((\.\./[\w/]+\.py)\)", way))
        assert 2 <= len(files) <= 5, way


def test_each_setting_has_one_line_in_its_document() -> None:
    read = set(re.findall(r'"(HUBBUB_\w+)"', (ROOT / "chalicelib" / "settings.py").read_text()))
    rows = [
        line for line in (ROOT / "docs" / "settings.md").read_text().splitlines() if line.startswith("| `")
    ]
    listed = [name for row in rows for name in re.findall(r"`(HUBBUB_\w+)`", row.split(" | ")[0])]
    assert sorted(listed) == sorted(read)
