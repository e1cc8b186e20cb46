"""Every operation of the app, played on a table: what each costs in capacity units."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bench.invocations import Deployed, Invocation, deployed
from bench.meter import Meter
from bench.story import CHAPTERS
from chalicelib import boards
from local.engine import Engine


class Cost(NamedTuple):
    """What one invocation cost, and the status of its answer (0: it has none)."""

    operation: str
    name: str
    status: int
    writes: float
    reads: float


def play(engine: Engine, hear: Callable[[Deployed, Invocation], None]) -> None:
    """Play the story on a fresh table; `hear` runs each invocation."""
    with deployed(engine) as site:
        boards._met().clear()  # no other story's season
        for chapter in CHAPTERS:
            for invocation in chapter(site):
                hear(site, invocation)


def costs(engine: Engine) -> list[Cost]:
    """Measure the units of every invocation."""
    found: list[Cost] = []

    def hear(site: Deployed, invocation: Invocation) -> None:
        with Meter(site.table.client) as meter:
            answer = invocation.run()
        status = answer.get("statusCode", 0) if isinstance(answer, dict) else 0
        found.append(Cost(invocation.operation, invocation.name, status, meter.write_units, meter.read_units))

    play(engine, hear)
    return found
