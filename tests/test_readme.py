"""Console blocks of the README and the tour are run, and what the documents link and name exists."""

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
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]


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


def test_documents_do_not_define_one_thing_in_two_ways() -> None:
    """A reader may try the documents in any order, so each defines things of its own."""
    command = r"-X PUT \S+?/((?:leaderboards|challenges|products|sites)/[\w.-]+).*?-d '(.*?)'"
    defined: dict[str, set[str]] = {}
    for page in PAGES:
        for name, body in re.findall(command, page.read_text(), re.DOTALL):
            defined.setdefault(name, set()).add(body)
    assert len(defined) >= 2
    assert all(len(bodies) == 1 for bodies in defined.values()), defined


def test_every_make_target_that_a_document_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in PAGES:
        named = set(
            re.findall(r"^(?: {4})?make ([a-z-]+)|`make ([a-z-]+)", document.read_text(), re.MULTILINE)
        )
        assert {first or second for first, second in named} <= targets, document.name


def anchors(document: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a document."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_resolved(document: Path, name: str, path: str, anchor: str) -> bool:
    """Return whether a link leads to a file, to its heading, and to a function if its text is `name()`."""
    target = document.parent / path if path else document
    if not target.exists() or (anchor and anchor not in anchors(target)):
        return False
    function = re.fullmatch(r"`(\w+)\(\)`", name)
    return (
        not function or re.search(rf"^\s*def {function[1]}\(", target.read_text(), re.MULTILINE) is not None
    )


def test_every_link_between_documents_resolves() -> None:
    for document in (*PAGES, ROOT / "CHANGELOG.md", ROOT / "bench" / "RESULTS.md"):
        links = re.findall(r"\[([^\[\]]*)\]\((?!\w+:)([^)#\s]*)#?([^)\s]*)\)", document.read_text())
        broken = [link for link in links if not is_resolved(document, *link)]
        assert not broken, document.name


def test_the_readme_leads_to_every_page() -> None:
    linked = set(re.findall(r"\]\((docs/\w[\w-]*\.md)\)", README.read_text()))
    assert linked == {f"docs/{page.name}" for page in PAGES[1:]}


def test_each_setting_has_one_line_in_its_document() -> None:
    read = set(re.findall(r'"(HUBBUB_\w+)"', (ROOT / "chalicelib" / "settings.py").read_text()))
    settings = (
        (ROOT / "docs" / "deployment.md").read_text().partition("\n## Settings\n")[2].partition("\n## ")[0]
    )
    rows = [line for line in settings.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`(HUBBUB_\w+)`", row.split(" | ")[0])]
    assert sorted(listed) == sorted(read)
