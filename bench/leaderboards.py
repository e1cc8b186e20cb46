"""Leaderboards: what reads and changes cost, beside the published design and a Redis sorted set."""

from __future__ import annotations

from bench import rank_prices, rank_reads, rank_times, rank_writes
from bench.report import Report
from local.engine import Engine, start


def measure(engine: Engine, quick: bool) -> Report:
    """Measure time on an engine, and units on the embedded one; `quick` takes small boards, judges no time.

    DynamoDB Local writes many times slower once a table was deleted, so time comes first, and what does not
    depend on the engine has one of its own.
    """
    timed, memory = rank_times.report(engine, quick)
    with start("ministack", data=None) as embedded:
        reads = rank_reads.measure(embedded, quick)
        written, writes = rank_writes.report(embedded, quick)
    return rank_reads.report(reads) + written + timed + rank_prices.report(reads, writes, memory)
