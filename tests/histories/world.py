"""A simulated world for histories: a clock, a random generator, and handlers that run a step at a time.

A handler is a greenlet. At each call to the outside (a table call, a post, a pause) it yields to the hub,
which resumes any handler. So any interleaving of handlers can occur, and the same seed repeats it. Time is
a number that the hub advances; nothing sleeps.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from greenlet import greenlet

from chalicelib.errors import Busy

BEGIN = datetime(2100, 11, 21, 10, tzinfo=UTC)  # later than any engine's clock, so that no TTL has passed
MAX_STEPS = 12_000  # of a history: one that takes more does not end
MAX_UNEXPECTED = 30  # unexpected errors after which a history stops


class Killed(BaseException):
    """The process ended here. Nothing after this point ran."""


class Stuck(Exception):
    """A history does not end."""


@dataclass
class Task:
    """One invocation of a handler. `done` receives its result, `failed` its error."""

    name: str
    ends: datetime
    skew: timedelta
    done: Callable[[Any], None]
    failed: Callable[[BaseException], None]
    wakes: datetime = BEGIN
    is_dead: bool = False
    dies_after_reply: bool = False
    is_cut_off: bool = False  # it cannot reach the table any more
    runs: greenlet | None = None
    error: BaseException | None = None
    result: Any = None


class Rates:
    """The probability of each kind of fault, for a call, an invocation or a delivery."""

    call = 0.06  # a call is refused, lost or cut short, or its handler dies at it
    result = 0.04  # an invocation ends and its result is lost
    cut = 0.015  # a call is the first of those that no longer reach the table
    page = 0.25  # a page of a query ends early; this is no fault and also occurs in calm histories
    skew = 0.3  # a handler's clock is wrong, by up to two seconds
    again = 0.25  # a batch that is done is delivered again, whole or in part
    beside = 0.15  # a batch is delivered while the one before it is still running


class World:
    """The clock, the running handlers and the random generator. `faults` counts the injected faults."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(f"history {seed}")
        self.now = BEGIN
        self.faults: Counter[str] = Counter()
        self.unexpected: list[str] = []
        self.is_calm = False
        self.tasks: list[Task] = []
        self.current: Task | None = None
        self.steps = self.invocations = 0
        self._hub = greenlet.getcurrent()
        self._trace = hashlib.blake2b(digest_size=8)

    def occurs(self, probability: float) -> bool:
        """Decide by chance whether a fault of this probability occurs now."""
        return not self.is_calm and self.rng.random() < probability

    def fault(self, kind: str) -> None:
        """Count an injected fault, and add it to the trace."""
        self.faults[kind] += 1
        self.note(kind)

    def note(self, event: str) -> None:
        """Add an event to the trace: the same seed has the same trace."""
        self._trace.update(event.encode())

    @property
    def trace(self) -> str:
        """Return the digest of everything that has happened."""
        return self._trace.hexdigest()

    # -- time --------------------------------------------------------------------------------------

    def clock(self, zone: Any = None) -> datetime:
        """Return the time on the clock of the running handler."""
        return self.now + (self.current.skew if self.current else timedelta())

    def monotonic(self) -> float:
        """Return the seconds since the beginning."""
        return (self.now - BEGIN).total_seconds()

    def advance(self, seconds: float) -> None:
        """Advance the clock, by at least a millisecond: no two events have the same time."""
        self.now += timedelta(milliseconds=max(1, int(seconds * 1000)))

    def sleep(self, seconds: float) -> None:
        """Suspend the running handler."""
        if self.current:
            self.current.wakes = self.now + timedelta(seconds=seconds)
            self.switch()
        else:
            self.advance(seconds)

    # -- handlers ----------------------------------------------------------------------------------

    def start(
        self,
        name: str,
        work: Callable[[], Any],
        done: Callable[[Any], None] = lambda result: None,
        failed: Callable[[BaseException], None] | None = None,
        seconds: float = 30,
    ) -> Task:
        """Begin an invocation. It is killed when it takes longer than its Lambda timeout of `seconds`.

        An error that no handler may raise is noted, unless `failed` receives the errors.
        """
        skew = timedelta()
        if self.occurs(Rates.skew):
            skew = timedelta(milliseconds=self.rng.randint(-2000, 2000))
            self.fault("clock skew")
        failed = failed or partial(self.check_error, name)
        task = Task(name, self.now + timedelta(seconds=seconds), skew, done, failed, wakes=self.now)

        def run() -> None:
            try:
                task.result = work()
            except BaseException as error:  # the hub passes it on; a greenlet has no other way out
                task.error = error

        self.invocations += 1
        task.runs = greenlet(run, parent=self._hub)
        self.tasks.append(task)
        return task

    def check_error(self, name: str, error: BaseException) -> None:
        """Note an error that no handler may raise: any but its death and a busy table."""
        if not isinstance(error, Killed | Busy):
            self.unexpected.append(f"{name} raised {type(error).__name__}: {error}")

    def switch(self) -> None:
        """Yield to the other handlers. Raises Killed in a handler that was killed meanwhile."""
        task = self.current
        if task is None:
            self.advance(0.001)
            return
        self._hub.switch()
        if task.is_dead:
            raise Killed

    def kill(self) -> None:
        """Kill the running handler here."""
        if self.current:
            self.current.is_dead = True
            raise Killed

    def step(self) -> bool:
        """Resume one handler, chosen at random. Return False when none is running."""
        if not self.tasks:
            return False
        self.steps += 1
        if self.steps > MAX_STEPS or len(self.unexpected) > MAX_UNEXPECTED:
            raise Stuck(f"the history does not end; still running: {sorted({t.name for t in self.tasks})}")
        awake = [task for task in self.tasks if task.wakes <= self.now]
        if not awake:
            self.now = min(task.wakes for task in self.tasks)
            awake = [task for task in self.tasks if task.wakes <= self.now]
        task = self.rng.choice(awake)
        if self.now > task.ends and not task.is_dead:
            self.fault("invocation timed out")
            task.is_dead = True
        self.advance(self.rng.random() * 0.02)
        self.current = task
        assert task.runs is not None
        task.runs.switch()
        self.current = None
        if task.runs.dead:
            self._end(task)
        return True

    def _end(self, task: Task) -> None:
        self.tasks.remove(task)
        self.note(f"{task.name} {type(task.error).__name__}")
        if task.error is None and not task.is_dead:
            if self.occurs(Rates.result):
                self.fault("answer of an invocation lost")
                task.failed(Killed())
            else:
                task.done(task.result)
        else:
            task.failed(task.error or Killed())

    def run(self) -> None:
        """Run all handlers to their end."""
        while self.step():
            pass
