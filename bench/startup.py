"""Cold start: the CPU time of importing the app, beside chalice and boto3 alone."""

from __future__ import annotations

import os
import subprocess
import sys

from bench.report import Answer
from local.engines.engine import ROOT, Engine

PROGRAMS = {
    "chalice and boto3": "import boto3, chalice; boto3.client('dynamodb', region_name='us-east-1')",
    "the app and its client": "import app; from chalicelib.dynamo.table import connect; connect()",
}
CLOCK = "import time; print(time.process_time())"


def measure(_: Engine, quick: bool) -> list[Answer]:
    """Measure the least CPU time of some processes for each program."""
    environment = os.environ | {"HUBBUB_SECRET": "x" * 32, "AWS_DEFAULT_REGION": "us-east-1"}
    rows = []
    for name, program in PROGRAMS.items():
        command = [sys.executable, "-c", f"{program}\n{CLOCK}"]
        times = [
            float(subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True).stdout)  # noqa: S603
            for _ in range(2 if quick else 10)
        ]
        rows.append((name, 1000 * min(times)))
    return [Answer("What does a cold start cost?", ("imports", "ms of CPU"), rows)]
