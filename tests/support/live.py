"""A table on a real engine whose stream is applied while a test runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import app
from chalicelib.aggregates import engine as aggregates
from chalicelib.aggregates.sums import Contribution
from chalicelib.comments import comments
from chalicelib.dynamo.items import Item
from chalicelib.dynamo.table import Table, connect
from chalicelib.settings import Settings
from chalicelib.views import events
from local.engines.engine import Engine
from local.event_sources import StreamPump
from local.filters import filtered
from ops.maintenance.streams import Stream, StreamFollower
from tests.conftest import EngineTable
from tests.support.contexts import new_context
from tests.support.records import scan


def following(stream: Stream) -> StreamFollower:
    """Follow a stream by a clock of its own, which its pauses move."""
    now = time.time()

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds

    return StreamFollower(stream, pause, lambda: now)


FEATURES = (events.contribution, comments.contribution)


class Live:
    """A table whose stream is applied in a thread, as Lambda does."""

    def __init__(self, engine_table: EngineTable, features: Sequence[Contribution] = FEATURES) -> None:
        engine, name, stream_arn = engine_table
        self.features = features
        self.engine: Engine = engine
        self.table = Table(name, connect(Settings(endpoint=engine.endpoint, table=name)).client)
        self._stream = Stream(engine.client("dynamodbstreams"), stream_arn)

    def apply(self, event: Any, _: object = None) -> None:
        report = aggregates.apply(self.table, self.features, event["Records"], derivations=app.DERIVATIONS)
        app.complete(new_context(self.table), report.changes)

    @contextmanager
    def applied(self, apply: Callable[[Any, Any], None] | None = None) -> Iterator[None]:
        """Apply the stream during the block, and the rest of it at the end."""
        pump = StreamPump(self._stream, filtered(apply or self.apply, "apply"), 100)
        pump.start()
        try:
            yield
        finally:
            assert pump.stop(120)

    def drain(self, *_: float) -> None:
        """Apply all writes so far, as if the test had waited for longer than the lag."""
        pump = StreamPump(self._stream, filtered(self.apply, "apply"), 100)
        while pump.step():
            pass

    def follow(self) -> StreamFollower:
        """Follow its stream from now on; the waits for more than an empty page take no time."""
        return following(self._stream)

    def counted(self, product: str) -> int:
        return int(
            (self.table.get(comments.statistics_key(product), consistent=True) or {}).get("count_total", 0)
        )

    def comments(self) -> list[Item]:
        return [item for item in scan(self.table) if item["sk"].startswith(comments.COMMENT)]
