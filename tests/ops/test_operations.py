"""The runbook has a section for each alarm, and its commands and options exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from ops.cli.main import main
from tests.ops.test_alarms import ALARMS

ROOT = Path(__file__).parents[2]
RUNBOOK = (ROOT / "docs" / "operations.md").read_text()
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(text: str) -> list[str]:
    """Find every `python -m ops …` of a text: a line, or what stands in backticks."""
    text = text.replace("\\\n", " ")
    found = re.findall(r"python -m ops ([a-z][^`\n|>$)]*)", text)
    return [command.partition(" #")[0].strip() for command in found]


def test_every_alarm_has_its_section_and_every_section_its_alarm() -> None:
    alarms = RUNBOOK.partition("## Alarms")[2].partition("\n## ")[0]
    headings = re.findall(r"^### (.+)$", alarms, re.MULTILINE)
    assert sorted(name for heading in headings for name in heading.split(", ")) == sorted(ALARMS)
    for name, alarm in ALARMS.items():
        assert alarm["AlarmDescription"].endswith(f": docs/operations.md, {name}")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_that_a_document_names_exists_with_these_options(document: Path) -> None:
    found = commands(document.read_text())
    for text in found:
        name, *given = shlex.split(text)
        command = main.commands[name]
        assert isinstance(command, click.Command)
        known = {option for parameter in command.params for option in parameter.opts}
        assert {option.partition("=")[0] for option in given if option.startswith("--")} <= known | {
            "--help"
        }, text
    assert found or document.name not in ("operations.md", "README.md")
