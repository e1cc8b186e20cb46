"""Writes what was measured as one document: machine, a table for each question, plots, methods, details."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from bench.plots import svg
from bench.report import Figures, Report, text

FILE = "RESULTS.md"
PLOTS = "plots"
HEAD = """# What it costs, and how fast it is

Written by `make bench` on {date}, in {minutes:.0f} minutes; nothing in it is written by hand. \
*Ours* is this repository, *published* the design that was published for the same question, in the \
least form that does what its description says (`bench/published_*.py`), *floor* the least that \
DynamoDB could charge anybody for the same: storing the fact once, or reading the answer once. All \
three are of this one run. Units are write and read units (WCU, RCU; on demand WRU, RRU), computed \
from the items by the rules that AWS publishes (`bench/capacity.py`); times are this machine's, and \
no figure of AWS's.
"""


def write(folder: Path, facts: Mapping[str, str], reports: Mapping[str, Report], seconds: float) -> Path:
    """Write the document and its plots into a folder; answer the document's path."""
    (folder / PLOTS).mkdir(parents=True, exist_ok=True)
    for report in reports.values():
        for plot in report.plots:
            (folder / PLOTS / f"{plot.name}.svg").write_text(svg(plot), encoding="utf-8")
    file = folder / FILE
    file.write_text("\n".join(_lines(facts, reports, seconds)), encoding="utf-8")
    return file


def _lines(facts: Mapping[str, str], reports: Mapping[str, Report], seconds: float) -> Iterator[str]:
    yield HEAD.format(date=datetime.now(UTC).strftime("%d %B %Y"), minutes=seconds / 60)
    yield "| | |\n|---|---|"
    yield from (f"| {name} | {fact} |" for name, fact in facts.items())
    for report in reports.values():
        for question in report.questions:
            yield f"\n## {question.title}\n"
            yield from _table(question.figures)
        yield from (f"\n![{plot.title}]({PLOTS}/{plot.name}.svg)" for plot in report.plots)
    yield "\n## Targets\n\n| target | measured | bound | |\n|---|---:|---:|---|"
    for report in reports.values():
        for one in report.targets:
            bound = f"{'≤' if one.at_most else '≥'} {text(one.bound)}"
            word = ("met" if one.met else "**missed**") + ("" if one.strict else ", for information")
            yield f"| {one.name} | {text(one.measured)} | {bound} | {word} |"
    yield "\n# Methods and details"
    for name, report in reports.items():
        yield f"\n## {name}\n"
        yield from (
            f"{paragraph.replace(chr(10) + '  ', chr(10) + chr(10))}\n" for paragraph in report.method
        )
        for figures in report.figures:
            yield f"**{figures.title}**\n"
            yield from _table(figures)
            yield ""


def _table(figures: Figures) -> Iterator[str]:
    yield f"| {' | '.join(figures.columns)} |"
    yield f"|---|{'---:|' * (len(figures.columns) - 1)}"
    yield from (f"| {' | '.join(text(cell).replace('|', '¦') for cell in row)} |" for row in figures.rows)
