"""An upgrade from version 0.1.0 in the middle of a history, while functions of both versions run.

The functions of 0.1.0 are those of this version with three differences: every record has the protection of
chalicelib/aggregates/legacy.py, an index key is itself the sum, and the stream writes the visitors of views.

Both versions run for some seconds. Then the last function of 0.1.0 ends, and some seconds later records begin
to be tagged. On AWS that takes 15 minutes (`legacy.OVERLAP`), and here as many seconds.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

import app
from chalicelib import times
from chalicelib.aggregates import engine, legacy
from chalicelib.aggregates.sums import Amount, Contribution
from chalicelib.comments import comments
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from chalicelib.views import events
from chalicelib.views.events import View
from proof.world import BEGIN, World

SHARE = 0.25  # of the histories have an upgrade
BOTH = timedelta(seconds=10)  # in which functions of both versions begin
LAST = timedelta(seconds=12)  # after which no function of 0.1.0 runs
OVERLAP = 15  # seconds; a clock may be two seconds behind


def view_contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    """Return the amounts of a view in 0.1.0, where the index key is the number of views."""
    amounts = events.contribution(item).items()
    return {(key, "gsi1sk" if name == "above" else name): amount for (key, name), amount in amounts}


def comment_contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    """Return the amounts of a comment in 0.1.0, where the index key is the number of ratings of 5."""
    amounts = comments.contribution(item)
    return amounts | {(key, "gsi1sk"): amount for (key, name), amount in amounts.items() if name == "count_5"}


OLD: dict[Contribution, Contribution] = {
    events.contribution: view_contribution,
    comments.contribution: comment_contribution,
}


class Upgrade:
    """The upgrade of a history, if its seed has one."""

    def __init__(self, world: World) -> None:
        self._world, self._rng = world, random.Random(f"upgrade {world.seed}")
        self.is_planned = self._rng.random() < SHARE
        self._begins = BEGIN + timedelta(seconds=self._rng.uniform(1, 25))

    def is_old(self) -> bool:
        """Decide whether a function that begins now is one of version 0.1.0."""
        now = self._world.now
        is_old = now < self._begins or (now < self._begins + BOTH and self._rng.random() < 0.5)
        if is_old and self._world.current:
            self._world.current.ends = min(self._world.current.ends, self._begins + LAST)
        return is_old

    @contextmanager
    def patched(self, table: Table) -> Iterator[None]:
        """Run the functions of both versions."""
        if not self.is_planned:
            yield
            return
        apply, write = app.apply, events.write

        def apply_either(event: Any, context: Any) -> None:
            if self.is_old():
                self._world.fault("a batch applied by 0.1.0")
                apply_old(table, event["Records"], self._world.now.timestamp())
            else:
                apply(event, context)

        def write_either(table: Table, views: Iterable[View], settings: Settings, now: datetime) -> int:
            # 0.1.0 knows no sums of sites, so they begin when none of its functions runs.
            has_old = self._world.now < self._begins + LAST
            settings = settings._replace(views_sites=settings.views_sites and not has_old)
            return (write_old if self.is_old() else write)(table, views, settings, now)

        with (
            mock.patch.object(app, "apply", apply_either),
            mock.patch.object(events, "write", write_either),
            mock.patch.object(legacy, "OVERLAP", OVERLAP),
        ):
            yield


def apply_old(table: Table, records: list[Any], now: float) -> None:
    """Apply a batch of records as version 0.1.0 does."""
    contributions = [OLD.get(one, one) for one in app.CONTRIBUTIONS]
    found = {one.tag: one for one in (engine.compute(contributions, record) for record in records)}
    differences = [one for one in found.values() if one.sums or one.poison]
    legacy.add(table, differences, app.stage.guard_pages, int(now), set(), set())
    app.complete(list(records))


def write_old(table: Table, views: Iterable[View], settings: Settings, now: datetime) -> int:
    """Write views as version 0.1.0 does: their visitors are written by the stream."""
    items = [events._item(view, settings) | {"uniques": True} for view in views]
    items = [item for item in items if item["ttl"] > times.epoch(now + events.EXPIRY_MARGIN)]
    table.batch_put(items)
    return len(items)
