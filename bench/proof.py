"""What histories, mutants and published designs show: as reports, and as the tables of a document."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from bench.histories import Outcome
from bench.report import Figures, Report, Target, text
from bench.workers import Caught

FAULTS = """Faults. A history is four people, an admin and some chatters on one table, who do what they \
have in mind through the app's own handlers. Handlers run a step at a time in an order that follows from the \
seed, so any call of one may come between any two of another's. Each call may be refused, be lost, be done \
and unheard, or be done in part, and its handler may die at it; stream and queue deliver as badly as AWS \
allows. When all is delivered, everything is counted by hand from the items, and compared."""
MUTANTS = """Mutants. Each is a fault planted in the code by itself; histories are lived with it from the \
first seed on, until one has a difference. What is shown is the first difference."""
PUBLISHED = """The published designs. The same seeds, the same wishes and the same kinds of faults at the \
same rates; clients never give up. What a design does not describe is left out; an edit of a comment is \
counted as the old one's removal and a new one."""
SHOWN = 100  # letters of a difference
NOTHING: Counter[str] = Counter()
DESIGNS = (
    ("views: lost", "views lost", "views"),
    ("views: counted twice", "views counted twice", "views"),
    ("ranking: distances that are wrong", "distances wrong", "players"),
    ("ranking: ranks that are wrong", "ranks wrong", "players"),
    ("game: numbers that are wrong", "game wrong", "numbers of the game"),
    ("comments: counts that are wrong", "ratings wrong", "counts of ratings"),
    ("chat: waiting for ever beside another", "waiting beside another", "connected"),
    ("chat: with somebody who is gone", "with somebody who is gone", "connected"),
    ("chat: in two chats, or waiting besides", "in two chats", "connected"),
    ("chat: neither waiting nor talking", "neither waiting nor talking", "connected"),
)


def of_histories(outcomes: Iterable[Outcome], kind: str, seconds: float) -> Report:
    """Report what came of histories: what there was, what went wrong on the way, and what was wrong after."""
    faults: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    wrong: list[Outcome] = []
    for outcome in outcomes:
        faults += outcome.faults
        totals["histories"] += 1
        totals["invocations of handlers"] += outcome.invocations
        totals["calls of the table"] += outcome.calls
        totals["stream records"] += outcome.records
        if outcome.differences:
            wrong.append(outcome)
    lived = Figures("Lived", ("", "number"))
    lived.rows += totals.items()
    lived.rows += [("faults", faults.total()), ("minutes", round(seconds / 60, 1))]
    injected = Figures("Faults of each kind", ("fault", "times"))
    injected.rows += sorted(faults.items())
    differences = Figures("Differences; each seed replays alone", ("seed", "difference"))
    differences.rows = [
        (str(one.seed), what) for one in sorted(wrong, key=lambda o: o.seed) for what in one.differences[:5]
    ]
    figures = [lived, injected] + ([differences] if wrong else [])
    return Report([FAULTS, machine(kind)], figures, [Target("histories with a difference", len(wrong), 0)])


def of_mutants(found: Iterable[Caught], seeds: range, kind: str) -> Report:
    """Report which mutants were caught, by what, and after how many histories."""
    figures = Figures(
        f"Planted faults, hunted through {len(seeds)} histories at most",
        ("the code then", "caught by", "after", "what was seen"),
    )
    escaped = 0
    for one in found:
        check, _, what = one.difference.partition(": ")
        escaped += not one.difference
        figures.rows.append(
            (
                one.name,
                check or "NOT CAUGHT",
                one.histories,
                " ".join(what.split())[-110:] if check == "handlers" else " ".join(what.split())[:110],
            )
        )
    return Report(
        [MUTANTS, machine(kind)], [figures], [Target("planted faults that were not caught", escaped, 0)]
    )


def of_published(found: Counter[str], histories: int, ours: int, kind: str) -> Report:
    """Report what the published designs get wrong; `ours` are Hubbub's histories with any difference."""
    figures = Figures(f"Wrong after {histories:,} histories", ("what", "published", "of", "share", "Hubbub"))
    for name, wrong, of in DESIGNS:
        share = f"{100 * found[wrong] / max(1, found[of]):.1f} %"
        figures.rows.append((name, found[wrong], found[of], share, ours))
    return Report(
        [PUBLISHED, machine(kind)], [figures], [Target("Hubbub's histories with a difference", ours, 0)]
    )


def machine(kind: str) -> str:
    """Say what it ran on."""
    names = ("boto3", "chalice", "ministack", "greenlet")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    engine = "ministack, asked inside the process" if kind == "inside" else kind
    return f"Engine: {engine}. {os.cpu_count()} cores, Python {platform.python_version()}, {versions}."


def write(page: Path, mark: str, command: str, report: Report) -> None:
    """Write a report's tables into a page, between the marks of that name. Raises ValueError without them."""
    parts = [f"`{command}`", *report.method[1:]]
    parts += [_table(figures) for figures in report.figures]
    parts += [f"{target.name.capitalize()}: **{text(target.measured)}**." for target in report.targets]
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    old = page.read_text(encoding="utf-8")
    if old.count(begin) != 1 or old.count(end) != 1:
        raise ValueError(f"{page} has not the marks of {mark}, once each")
    before, _, rest = old.partition(begin)
    page.write_text(
        f"{before}{begin}\n\n" + "\n\n".join(parts) + f"\n\n{end}{rest.partition(end)[2]}", encoding="utf-8"
    )


def _table(figures: Figures) -> str:
    rows = [tuple(map(text, row)) for row in (figures.columns, *figures.rows)]
    cells = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([f"**{figures.title}**", "", cells[0], "|" + "---|" * len(figures.columns), *cells[1:]])
