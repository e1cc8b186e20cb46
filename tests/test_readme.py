"""The commands of the documents are run, and what the documents link and name exists."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.running import ENVIRONMENT, Run

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TOUR = ROOT / "docs" / "tour.md"
OPERATIONS = ROOT / "docs" / "operations.md"
BLOCK = re.MULTILINE | re.DOTALL
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]


def steps(document: Path) -> list[tuple[str, str | None]]:
    """Return the commands of a document in their order, each with the output that it documents, if any."""
    found: list[tuple[str, str | None]] = []
    for kind, block in re.findall(r"^```(console|sh|js|python)\n(.*?)^```", document.read_text(), BLOCK):
        if kind == "console":
            found += re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
        elif kind == "sh" and not block.startswith("make run"):
            found.append((block.rstrip(), None))
        elif kind != "sh":
            program = "node --input-type=module -" if kind == "js" else "python3 -"
            found.append((f"{program} <<'END'\n{block}END", None))
    return found


def maintenance() -> list[tuple[str, str | None]]:
    """Return the commands of docs/operations.md that need no AWS, for the local stage."""
    written = re.findall(r"^ {4}\.venv/bin/python -m ops (.*)$", OPERATIONS.read_text(), re.MULTILINE)
    found = [command for command in written if command.split()[0] in ("audit", "repair", "redrive", "export")]
    assert len(found) > 5
    local = (re.sub(r"--settle \d+", "--settle 3", command) for command in found if "player-1" not in command)
    return [(f".venv/bin/python -m ops {line.replace('prod', 'local')}", None) for line in local]


DOCUMENTS = {
    "README": steps(README),
    "tour": steps(TOUR),
    "embed": steps(ROOT / "docs" / "embed.md"),
    "operations": maintenance(),
}


def run_document(name: str, run: Run, folder: Path) -> list[str]:
    """Run the commands of a document in one shell, and return what each has printed."""
    script = "\n".join(f"{command}\nprintf '\\036'" for command, _ in DOCUMENTS[name])
    client = (ROOT / "web" / "lib" / "hubbub.js").as_uri()
    for written, actual in (
        ("127.0.0.1:8000", f"127.0.0.1:{run.port}"),
        (".venv/bin/python", sys.executable),
        ('"hubbub-client"', f'"{client}"'),
    ):
        script = script.replace(written, actual)
    environment = {"HUBBUB_ENDPOINT": f"http://127.0.0.1:{run.engine_port}", "PYTHONPATH": str(ROOT)}
    shell = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env=ENVIRONMENT | environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert shell.returncode == 0, f"{name}\n{shell.stdout[-2000:]}\n{shell.stderr}"
    return shell.stdout.split("\x1e")[:-1]


def is_documented(expected: str | None, printed: str, *, is_first: bool, command: str) -> bool:
    """Return whether a command has printed what its document shows.

    The second time an import finds its rows and a page has another view, so numbers differ.
    """
    if expected is None:
        return '"code":' not in printed
    if not is_first and ("ops import-" in command or command.startswith("until ")):
        expected, printed = re.sub(r"\d+", "0", expected), re.sub(r"\d+", "0", printed)
    return printed.rstrip("\n") == expected.rstrip("\n")


@pytest.mark.long
def test_every_document_runs_after_every_other_and_twice(tmp_path: Path) -> None:
    """Run all documents in a random order, then again in another, on one table. The tour needs the README."""
    seed = time.time_ns()
    print("seed", seed)
    rng = random.Random(seed)
    order = rng.sample(sorted(DOCUMENTS), len(DOCUMENTS))
    readme, tour = sorted((order.index("README"), order.index("tour")))
    order[readme], order[tour] = "README", "tour"
    again = rng.sample(sorted(DOCUMENTS), len(DOCUMENTS))
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    with Run(tmp_path / "data", "--no-reload") as run:
        for number, name in enumerate(order + again):
            printed = run_document(name, run, tmp_path)
            for (command, expected), text in zip(DOCUMENTS[name], printed, strict=True):
                is_right = is_documented(expected, text, is_first=number < len(order), command=command)
                assert is_right, f"{order} {again} {name}\n{command}\n{text}"


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
