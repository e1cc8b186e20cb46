"""Builds the list of items and costs that `python -m ops table` prints, from docstrings.

A module that owns items has a table of them in its docstring, with the header `| item | pk | sk | holds |`.
A function that reads or writes the table has a `Cost:` line. ops/table.md is the frame: its text is written
by hand, and the lines `<!-- items -->` and `<!-- costs -->` in it stand for what is generated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FRAME = Path(__file__).with_suffix(".md")
HEADER = "| item | pk | sk | holds |"
PACKAGES = tuple(
    path.parent.relative_to(ROOT).as_posix()
    for top in ("chalicelib", "ops")
    for path in sorted((ROOT / top).glob("*/__init__.py"))
)


def text() -> str:
    """Return the list as Markdown."""
    modules = [path for package in PACKAGES for path in sorted((ROOT / package).glob("*.py"))]
    frame = FRAME.read_text(encoding="utf-8")
    frame = frame.replace("<!-- items -->\n", "\n".join(_items(modules)))
    return frame.replace("<!-- costs -->\n", "\n".join(_costs(modules)))


def _items(modules: list[Path]) -> Iterator[str]:
    """List the item tables, a section for each module that owns items."""
    for path in modules:
        lines = (ast.get_docstring(_parse(path)) or "").splitlines()
        if HEADER in lines:
            start = lines.index(HEADER)
            end = next((n for n in range(start, len(lines)) if not lines[n].startswith("|")), len(lines))
            yield f"### {path.relative_to(ROOT).as_posix()}\n\n" + "\n".join(lines[start:end]) + "\n"


def _costs(modules: list[Path]) -> Iterator[str]:
    """List the costs, a table for each package."""
    for package in PACKAGES:
        rows = [row for path in modules if path.parent == ROOT / package for row in _rows(path)]
        if rows:
            yield f"### {package}\n\n| function | cost |\n|---|---|\n" + "\n".join(rows) + "\n"


def _rows(path: Path) -> Iterator[str]:
    for node in ast.walk(_parse(path)):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        if cost := _cost(node):
            yield f"| `{path.stem}.{node.name}` | {cost} |"


def _cost(node: ast.FunctionDef | ast.ClassDef) -> str:
    """Return what follows `Cost:` in a docstring, to the end of its paragraph or the next such label."""
    found = re.search(r"\bCost: (.*?)(?=\n\n|\n[A-Z]\w+: |\Z)", ast.get_docstring(node) or "", re.DOTALL)
    return " ".join(found[1].split()).replace("|", "\\|") if found else ""


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
