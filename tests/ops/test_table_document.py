"""docs/table.md is generated from the docstrings, and is current."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ops import table
from ops.cli.main import main

DOCUMENT = table.ROOT / "docs" / "table.md"


def test_the_document_is_current() -> None:
    hint = "run: .venv/bin/python -m ops table --output docs/table.md"
    assert DOCUMENT.read_text() == table.text(), hint


def test_the_command_prints_the_document_or_writes_it(tmp_path: Path) -> None:
    written = tmp_path / "table.md"
    assert CliRunner().invoke(main, ["table"]).output == table.text()
    assert CliRunner().invoke(main, ["table", "--output", str(written)]).exit_code == 0
    assert written.read_text() == table.text()
    assert CliRunner().invoke(main, ["table", "--output", str(tmp_path / "no" / "table.md")]).exit_code == 1


def test_every_module_with_an_item_table_is_in_the_document() -> None:
    owners = {
        path.relative_to(table.ROOT).as_posix()
        for folder in ("chalicelib", "ops")
        for path in (table.ROOT / folder).rglob("*.py")
        if path.name != "table.py" and table.HEADER in path.read_text().splitlines()
    }
    assert len(owners) > 10
    text = table.text()
    assert owners == {owner for owner in owners if f"### [{owner}](../{owner})\n" in text}


def test_items_and_costs_come_from_the_docstrings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "chalicelib" / "views"
    package.mkdir(parents=True)
    module = '''"""Views.

| item | pk | sk | holds |
|---|---|---|---|
| event | `URL#<url>` | `T#<instant>` | one view |

More.
"""

def read():
    """Read a view.

    Cost: 0.5 RCU,
    or 1.
    Raises: NotFound
    """

def free():
    """Compute a number."""
'''
    (package / "events.py").write_text(module)
    frame = tmp_path / "frame.md"
    frame.write_text("# T\n\n<!-- items -->\n\n<!-- costs -->\n")
    monkeypatch.setattr(table, "ROOT", tmp_path)
    monkeypatch.setattr(table, "FRAME", frame)
    assert table.text() == (
        "# T\n\n### [chalicelib/views/events.py](../chalicelib/views/events.py)\n\n"
        "| item | pk | sk | holds |\n|---|---|---|---|\n"
        "| event | `URL#<url>` | `T#<instant>` | one view |\n\n"
        "### chalicelib/views\n\n| function | cost |\n|---|---|\n| `events.read` | 0.5 RCU, or 1. |\n"
    )
