"""A small world for histories: handlers that run a step at a time, in an order that follows from a seed.

A handler is a greenlet. Wherever it meets the outside (a call of the table, a post, a pause), it hands over
to the hub, which lets any handler go on: so whatever may happen side by side does, one step at a time, and
the same seed does it again. Time is a number that the hub moves; nobody sleeps.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from greenlet import greenlet

BEGIN = datetime(2100, 11, 21, 10, tzinfo=UTC)  # no engine takes what is written then for expired
STEPS = 12_000  # of a history at most: one that takes more does not end
SURPRISES = 30  # after which nothing more is to be learned


class Killed(BaseException):
    """The process ended here: nothing after this point ran."""


class Stuck(Exception):
    """A history does not come to its end."""


@dataclass
class Task:
    """One invocation of a handler; `done` hears what it answered, `failed` what it raised."""

    name: str
    ends: datetime
    skew: timedelta
    done: Callable[[Any], None]
    failed: Callable[[BaseException], None]
    wakes: datetime = BEGIN
    is_dead: bool = False
    is_doomed: bool = False  # it dies as soon as it has its reply
    is_cut_off: bool = False  # it cannot reach the table any more
    runs: greenlet | None = None
    error: BaseException | None = None
    answer: Any = None


@dataclass
class Rates:
    """How often what goes wrong: of a call, an invocation or a delivery."""

    call: float = 0.06  # a call is refused, lost, cut short, or its handler dies at it
    answer: float = 0.04  # an invocation is done, and nobody hears of it
    cut: float = 0.015  # a call is the first of those that do not reach the table any more
    page: float = 0.25  # a page of a query ends early: that is no fault, and comes in quiet times too
    skew: float = 0.3  # a handler's clock is wrong, by up to two seconds
    again: float = 0.25  # a batch that is done comes again, whole or in part
    beside: float = 0.15  # a batch comes while the one before it is still at work


@dataclass
class World:
    """The clock, the handlers that run, and the chance that decides; `faults` counts what went wrong."""

    seed: int
    rates: Rates = field(default_factory=Rates)

    def __post_init__(self) -> None:
        self.chance = random.Random(f"history {self.seed}")
        self.now = BEGIN
        self.faults: Counter[str] = Counter()
        self.surprises: list[str] = []
        self.is_calm = False
        self.tasks: list[Task] = []
        self.current: Task | None = None
        self.steps = self.invocations = 0
        self._hub = greenlet.getcurrent()
        self._trace = hashlib.blake2b(digest_size=8)

    # -- what happens by chance --------------------------------------------------------------------

    def strikes(self, share: float) -> bool:
        """Tell whether something goes wrong now that does so often."""
        return not self.is_calm and self.chance.random() < share

    def fault(self, kind: str) -> None:
        """Count what went wrong, and note it in the trace."""
        self.faults[kind] += 1
        self.note(kind)

    def note(self, what: str) -> None:
        """Note a step: the same seed has the same trace."""
        self._trace.update(what.encode())

    @property
    def trace(self) -> str:
        """Answer the digest of all that has happened."""
        return self._trace.hexdigest()

    # -- time --------------------------------------------------------------------------------------

    def clock(self, zone: Any = None) -> datetime:
        """Answer what the clock of whoever runs shows."""
        return self.now + (self.current.skew if self.current else timedelta())

    def monotonic(self) -> float:
        """Answer the seconds since the beginning."""
        return (self.now - BEGIN).total_seconds()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, at least a millisecond: no two events are at one time."""
        self.now += timedelta(milliseconds=max(1, int(seconds * 1000)))

    def sleep(self, seconds: float) -> None:
        """Let whoever runs wait."""
        if self.current:
            self.current.wakes = self.now + timedelta(seconds=seconds)
            self.hand_over()
        else:
            self.pass_time(seconds)

    # -- handlers ----------------------------------------------------------------------------------

    def start(
        self,
        name: str,
        work: Callable[[], Any],
        done: Callable[[Any], None] = lambda answer: None,
        failed: Callable[[BaseException], None] = lambda error: None,
        seconds: float = 30,
    ) -> Task:
        """Begin an invocation; it is killed when it takes longer than Lambda gives it."""
        skew = timedelta()
        if self.strikes(self.rates.skew):
            skew = timedelta(milliseconds=self.chance.randint(-2000, 2000))
            self.fault("clock skew")
        task = Task(name, self.now + timedelta(seconds=seconds), skew, done, failed, wakes=self.now)

        def run() -> None:
            try:
                task.answer = work()
            except BaseException as error:  # the hub hears of it; greenlets have no other way out
                task.error = error

        self.invocations += 1
        task.runs = greenlet(run, parent=self._hub)
        self.tasks.append(task)
        return task

    def hand_over(self) -> None:
        """Let others go on before whoever runs does; who is killed meanwhile, ends here."""
        task = self.current
        if task is None:
            self.pass_time(0.001)
            return
        self._hub.switch()
        if task.is_dead:
            raise Killed

    def kill(self) -> None:
        """End whoever runs, here and now."""
        if self.current:
            self.current.is_dead = True
            raise Killed

    def step(self) -> bool:
        """Let one handler go on, any; tell whether there was one."""
        if not self.tasks:
            return False
        self.steps += 1
        if self.steps > STEPS or len(self.surprises) > SURPRISES:
            raise Stuck(f"it does not end: these still run: {sorted({t.name for t in self.tasks})}")
        awake = [task for task in self.tasks if task.wakes <= self.now]
        if not awake:
            self.now = min(task.wakes for task in self.tasks)
            awake = [task for task in self.tasks if task.wakes <= self.now]
        task = self.chance.choice(awake)
        if self.now > task.ends and not task.is_dead:
            self.fault("invocation timed out")
            task.is_dead = True
        self.pass_time(self.chance.random() * 0.02)
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
            if self.strikes(self.rates.answer):
                self.fault("answer of an invocation lost")
                task.failed(Killed())
            else:
                task.done(task.answer)
        else:
            task.failed(task.error or Killed())

    def run(self) -> None:
        """Let all handlers come to their end."""
        while self.step():
            pass


class Sequential:
    """Does what threads would do, one after the other: stands in for the process's threads."""

    def submit(self, call: Callable[..., Any], *given: Any) -> Future[Any]:
        """Do it at once."""
        done: Future[Any] = Future()
        try:
            done.set_result(call(*given))
        except Exception as error:
            done.set_exception(error)
        return done

    def map(self, work: Callable[[Any], Any], things: Iterable[Any]) -> list[Any]:
        """Do it with each."""
        return [work(thing) for thing in things]
