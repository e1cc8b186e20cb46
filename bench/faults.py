"""Thousands of faulty histories, each of which follows from its seed, and what they found."""

from __future__ import annotations

import random
import time
import traceback

from bench import pairings, reckonings
from bench.histories import Outcome, history, prepare
from bench.network import client_of
from bench.on_the_way import on_the_way
from bench.simulation import Rates, Stuck, World
from local.engine import Engine
from ops.recount import scan

CHECKS = reckonings.CHECKS | {"chat": pairings.chat, "on the way": on_the_way}
WORDS = 400  # letters of a difference


def live(engine: Engine, seed: int, rates: Rates | None = None) -> Outcome:
    """Live one history, and reckon; whatever is raised on the way is a difference too."""
    began = time.perf_counter()
    client = client_of(engine)
    world = World(seed, rates or Rates())
    outcome = Outcome(seed)
    random.seed(seed)  # the product's own chance: whom of many, how long to wait
    with history(engine, client, world) as (one, network):
        try:
            world.is_calm = True
            prepare(one.table, world.now)
            world.is_calm = one.plan.is_calm
            one.live()
            one.drain()
            one.items = scan(client, one.table.name)
            outcome.differences += [f"chat: {what}" for what in pairings.at_once(one)]
            one.settle()
            one.expire(client)
            world.is_calm = one.plan.is_calm
            one.drain()
            world.is_calm = True
            one.items = scan(client, one.table.name)
            for name, check in CHECKS.items():
                outcome.differences += [f"{name}: {what}"[:WORDS] for what in check(one)]
        except Stuck as error:
            outcome.differences += [f"handlers: {what}"[:WORDS] for what in (*world.surprises[:3], error)]
        except Exception:
            outcome.differences.append(f"handlers: {traceback.format_exc()[-1500:]}")
        outcome.faults, outcome.calls = world.faults, network.calls
        outcome.records, outcome.invocations = len(one.stream.records), world.invocations
    outcome.seconds = time.perf_counter() - began
    outcome.trace = world.trace
    return outcome
