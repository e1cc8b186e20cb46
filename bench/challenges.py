"""Challenges: what their statistics answer for one sequence of records, and what a path costs."""

from __future__ import annotations

from bench import challenge_answers, challenge_costs
from bench.report import Report
from local.engine import Engine


def measure(engine: Engine, quick: bool) -> Report:
    """Measure both on one engine; `quick` plays a smaller game."""
    return challenge_answers.report(engine, quick) + challenge_costs.report(engine, quick)
