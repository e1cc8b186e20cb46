"""Views: what they cost and how fast they are counted, beside the published design; and the app's import."""

from __future__ import annotations

from bench import import_time, view_costs, view_rates
from bench.report import Report
from local.engine import Engine


def measure(engine: Engine, quick: bool) -> Report:
    """Measure it all on one engine; `quick` takes seconds rather than minutes, and judges no rate."""
    runs = 9 if quick else 21
    imports = import_time.report(import_time.measure(runs), runs)  # first: while the engine is idle
    return view_costs.report(engine, quick) + view_rates.report(engine, quick) + imports
