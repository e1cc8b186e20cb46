"""The hot paths: how long the app takes to import, and each of its handlers to run."""

from __future__ import annotations

from bench import cpu_times, import_time
from bench.report import Report
from local.engine import Engine


def measure(engine: Engine, quick: bool) -> Report:
    """Measure both; `quick` makes fewer runs."""
    runs = 1 if quick else 21
    imports = import_time.report(import_time.measure(runs), runs)  # first: while the engine is idle
    return imports + cpu_times.report(engine, 1 if quick else 50)
