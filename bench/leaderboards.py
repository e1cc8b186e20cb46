"""Leaderboards: what reads and changes cost, beside the published design and a Redis sorted set."""

from __future__ import annotations

from bench import rank_prices, rank_reads, rank_times, rank_writes
from bench.report import Report
from local.engine import Engine


def measure(engine: Engine, quick: bool) -> Report:
    """Measure time and units on an engine; `quick` takes small boards and judges no time."""
    timed, memory = rank_times.report(engine, quick)
    reads = rank_reads.measure(engine, quick)
    written, writes = rank_writes.report(engine, quick)
    return rank_reads.report(reads) + written + timed + rank_prices.report(reads, writes, memory)
