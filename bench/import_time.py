"""How long the app takes to import, beside the least that any Chalice app on DynamoDB imports.

It is the part of a Lambda function's cold start that is ours.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from bench.report import Figures, Report, Target

ROOT = Path(__file__).parents[1]
BARE = "import chalice, boto3; boto3.client('dynamodb')"
APP = "import app"
CONNECTED = "import app, chalicelib.table; chalicelib.table.connect()"
TIMED = """
import sys, time
begin = time.perf_counter()
exec(sys.argv[1])
print(time.perf_counter() - begin)
"""
BOUND = 1.25
METHOD = f"""Import time. Each run is a new Python process that times one statement, without Python's own \
start: `{BARE}` (bare), `{APP}`, and `{CONNECTED}` (connected); the three take turns, from compiled files, \
and the median of each counts. Nothing is sent to any engine. Bare and connected both end with a DynamoDB \
client, so they are what is compared."""


class ImportTimes(NamedTuple):
    """Median seconds of each statement."""

    bare: float
    app: float
    connected: float


def measure(runs: int) -> ImportTimes:
    """Time each statement in `runs` processes (about 0.5 s each), after one that does not count."""
    seconds: dict[str, list[float]] = {BARE: [], APP: [], CONNECTED: []}
    for _ in range(runs + 1):
        for statement, taken in seconds.items():
            taken.append(_timed(statement))
    return ImportTimes(*(statistics.median(taken[1:]) for taken in seconds.values()))


def report(times: ImportTimes, runs: int) -> Report:
    """Show the medians in milliseconds. The target is the ratio of connected to bare, not of one run."""
    rows = [
        ("bare: chalice, boto3, client", 1000 * times.bare, 1.0),
        ("app", 1000 * times.app, times.app / times.bare),
        ("connected: app and its client", 1000 * times.connected, times.connected / times.bare),
    ]
    return Report(
        [METHOD],
        [Figures(f"Import, median of {runs} runs", ("what", "ms", "times bare"), list(rows))],
        [
            Target(
                "import of the app and its client, times bare",
                times.connected / times.bare,
                BOUND,
                strict=runs > 1,
            )
        ],
    )


def _timed(statement: str) -> float:
    # Credentials in the environment, as on Lambda: without, the client would look for them elsewhere.
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "HUBBUB_STAGE": "local",
    }
    ran = subprocess.run(  # noqa: S603 (our own statements)
        [sys.executable, "-c", TIMED, statement],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(ran.stdout)
