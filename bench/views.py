"""Views: what they cost and how fast they are counted, beside the published design."""

from __future__ import annotations

from bench import view_costs, view_rates
from bench.report import Report
from local.engine import Engine


def measure(engine: Engine, quick: bool) -> Report:
    """Measure it all on one engine; `quick` takes seconds rather than minutes, and judges no rate."""
    return view_costs.report(engine, quick) + view_rates.report(engine, quick)
