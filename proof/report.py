"""The results of a run as Markdown tables, for the terminal and for the marked parts of a page."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from proof.history import Outcome
from proof.runner import Caught

LENGTH = 110  # characters of a difference
Row = Sequence[str | int]


def table(title: str, columns: Row, rows: Iterable[Row]) -> str:
    """Return a Markdown table."""

    def line(cells: Row) -> str:
        texts = (f"{cell:,}" if isinstance(cell, int) else cell.replace("|", "\\|") for cell in cells)
        return f"| {' | '.join(texts)} |"

    return "\n".join([f"**{title}**", "", line(columns), "|---" * len(columns) + "|", *map(line, rows)])


def histories(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Return the totals of some histories, their faults, and the differences."""
    faults = sum((one.faults for one in outcomes), start=Counter[str]())
    totals: list[Row] = [
        ("histories", len(outcomes)),
        ("invocations of handlers", sum(one.invocations for one in outcomes)),
        ("calls of the table", sum(one.calls for one in outcomes)),
        ("stream records", sum(one.records for one in outcomes)),
        ("faults", faults.total()),
        ("minutes", f"{seconds / 60:.2f}"),
        ("histories with a difference", sum(bool(one.differences) for one in outcomes)),
    ]
    different = [(str(one.seed), text) for one in outcomes for text in one.differences[:5]]
    parts = [table("Run", ("", "number"), totals)]
    parts.append(table("Faults of each kind", ("fault", "times"), sorted(faults.items())))
    return "\n\n".join(parts + [table("Differences", ("seed", "difference"), different)] * bool(different))


def mutants(found: Iterable[Caught], histories: int) -> str:
    """Return which planted faults were caught, by which invariant, and after how many histories."""
    rows = []
    for one in found:
        invariant, _, text = one.difference.partition(": ")
        text = " ".join(text.split())
        shown = text[-LENGTH:] if invariant == "handlers" else text[:LENGTH]
        rows.append((one.name, invariant or "NOT CAUGHT", one.histories, shown))
    columns = ("planted fault", "caught by", "after", "first difference")
    return table(f"Planted faults, in {histories} histories at most", columns, rows)


def machine(kind: str) -> str:
    """Return the engine, the processor and the versions of a run."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("boto3", "chalice", "ministack", "greenlet"))
    return f"Engine: {kind}. {os.cpu_count()} cores, Python {platform.python_version()}, {versions}."


def write(page: Path, mark: str, text: str) -> None:
    """Replace the part of a page between the marks of this name. Raises ValueError without them."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    old = page.read_text(encoding="utf-8")
    if old.count(begin) != 1 or old.count(end) != 1:
        raise ValueError(f"{page} must have the marks of {mark} once each")
    head, tail = old.partition(begin)[0], old.partition(end)[2]
    page.write_text(f"{head}{begin}\n\n{text}\n\n{end}{tail}", encoding="utf-8")
