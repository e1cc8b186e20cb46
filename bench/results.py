"""All measurements in one run, written as one document with tables, plots and methods."""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from bench.report import Figures, Report, target_row
from local.engines.engine import ROOT, start

FILE = "RESULTS.md"
PACKAGES = ("boto3", "botocore", "chalice", "msgspec", "ministack", "redis")
IDLE = 0.25  # the load of a core up to which the machine counts as idle
ENGINE = "dynoxide"
# The time of handlers is measured first, while the machine is idle.
MEASUREMENTS = ("profile", "views", "leaderboards", "challenges", "comments", "chat", "sites", "shards")
HEAD = """# Costs and times

Written by `make bench` on {date}, in {minutes:.0f} minutes; nothing in it is written by hand. \
*Ours* is this repository, *published* the published design for the same question, in the least form \
that does what its description says (`bench/published/`), *floor* the least that DynamoDB could charge \
for the same: storing the fact once, or reading the result once. All three are of this one run. Units are \
write and read units (WCU, RCU; on demand WRU, RRU), computed from the items by AWS's published rules \
(`local/engines/capacity.py`); times are those of this machine, and not of AWS.
"""


def run(folder: Path, quick: bool, console: Console) -> bool:
    """Measure everything and write the document. Return whether every strict target is met.

    `quick` measures small numbers, all on one embedded engine. Raises EngineUnavailable.
    """
    numbers = "**small**, of `make bench ARGS=--quick`: times say little" if quick else "full"
    facts, begun = machine() | {"numbers": numbers}, time.monotonic()
    reports: dict[str, Report] = {}
    with contextlib.ExitStack() as stack:
        shared = stack.enter_context(start(ENGINE, data=None)) if quick else None
        for name in MEASUREMENTS:
            console.print(f"{time.monotonic() - begun:5.0f} s  {name}")
            measure = importlib.import_module(f"bench.{name}").measure
            with contextlib.nullcontext(shared) if shared else start(ENGINE, data=None) as engine:
                reports[name] = measure(engine, quick)
    console.print(f"written: {write(folder, facts, reports, time.monotonic() - begun)}")
    targets = [target for report in reports.values() for target in report.targets]
    missed = [target for target in targets if target.strict and not target.met]
    for target in missed:
        console.print(" ".join(target_row(target)))
    return not missed


def write(folder: Path, facts: Mapping[str, str], reports: Mapping[str, Report], seconds: float) -> Path:
    """Write the document into a folder, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
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
            yield from (*question.figures.markdown(), *question.plot())
    yield "\n## Targets\n"
    targets = [target_row(one) for report in reports.values() for one in report.targets]
    yield from Figures("", ("target", "measured", "bound", ""), list(targets)).markdown()
    yield "\n# Methods and details"
    for name, report in reports.items():
        yield f"\n## {name}\n"
        yield from (f"{paragraph}\n" for paragraph in report.method)
        for figures in report.figures:
            yield f"**{figures.title}**\n"
            yield from figures.markdown()
            yield ""


def is_idle(load: float) -> bool:
    """Return whether a load of this machine is too small to make times longer."""
    return load / (os.cpu_count() or 1) < IDLE


def machine() -> dict[str, str]:
    """Return the processor, the versions, the commit and the load of this machine; never its name."""
    load, commit = os.getloadavg()[0], _output("git", "rev-parse", "--short", "HEAD")
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores, {gigabytes:.0f} GB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}, {platform.machine()}",
        "Python": platform.python_version(),
        "packages": ", ".join(f"{name} {version(name)}" for name in PACKAGES),
        "redis-server": _output("redis-server", "--version").partition(" sha=")[0],
        "commit": commit + (" with changes" if _output("git", "status", "--porcelain") != "none" else ""),
        "other work": ("none" if is_idle(load) else "**some**: times are too long")
        + f" (load {load:.1f} at the start)",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown")


def _output(*command: str) -> str:
    """Return the first line that a command prints, "none" when there is none."""
    if not shutil.which(command[0]):
        return "none"
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 (ours)
    return ((done.stdout or done.stderr).strip().splitlines() or ["none"])[0].strip()
