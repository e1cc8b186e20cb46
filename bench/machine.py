"""What a run was made on: the processor, the versions, the commit, and whether anything else was running."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

from local import dynoxide

ROOT = Path(__file__).parents[1]
PACKAGES = ("boto3", "botocore", "chalice", "msgspec", "ministack", "redis")
BUSY = 0.25  # of the load a core can bear, before the run begins: more than that is other work


def facts() -> dict[str, str]:
    """Say what this machine is; never its name."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores, {_memory():.0f} GB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}, {platform.machine()}",
        "Python": platform.python_version(),
        "packages": ", ".join(f"{name} {version(name)}" for name in PACKAGES),
        "redis-server": _first_line(["redis-server", "--version"]).partition(" sha=")[0],
        "dynoxide": dynoxide.VERSION,
        "commit": commit(),
        "other work": load(),
    }


def load() -> str:
    """Say whether something else was running when this was asked."""
    each = os.getloadavg()[0] / (os.cpu_count() or 1)
    if each < BUSY:
        return f"none to speak of (load {os.getloadavg()[0]:.1f} when it began)"
    return f"**other work ran beside it** (load {os.getloadavg()[0]:.1f} when it began): times are too long"


def commit() -> str:
    """Name the commit that was measured, and whether the tree was as it is there."""
    name = _first_line(["git", "rev-parse", "--short", "HEAD"])
    return f"{name} with changes" if _first_line(["git", "status", "--porcelain"]) != "none" else name


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "?")


def _memory() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _first_line(command: list[str]) -> str:
    if not shutil.which(command[0]):
        return "none"
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 (ours)
    return ((ran.stdout or ran.stderr).strip().splitlines() or ["none"])[0].strip()
