"""The five published designs in the same histories: same seeds, same wishes, same faults on the way.

Their clients never give up, so that what is right is known. The wishes that a design knows nothing of are
left out: what an admin does, seasons, whatever a chat does but come, talk and go.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

from bench import (
    published_challenges,
    published_comments,
    published_rank,
    published_reckoning,
    published_views,
)
from bench.deliveries import Queue, Stream
from bench.histories import table_of
from bench.network import Network, client_of
from bench.plans import PAGES, Plan, Step, plan
from bench.published_chat import PublishedChat
from bench.simulation import BEGIN, World
from chalicelib import times
from local.engine import Engine
from ops.recount import scan

EVENT = "race"  # the one ranking; of the plan's boards, the one that adds up
TTL = 4_102_444_800 + 10**9


class Client:
    """Does one thing after the other, each again and again until it is answered."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.left: list[Callable[[], Any]] = []
        self.waits = False

    def act(self) -> None:
        """Do the next thing, unless an answer is waited for."""
        if self.left and not self.waits:
            self._try(self.left.pop(0))

    def _try(self, call: Callable[[], Any]) -> None:
        self.waits = True

        def done(_: Any) -> None:
            self.waits = False

        self.world.start(self.name, call, done, lambda error: self._try(call))


class Chatter(Client):
    """A client with a socket: comes, is told, goes; nothing is done again but coming."""

    def __init__(self, world: World, name: str, chat: PublishedChat, steps: list[Step]) -> None:
        super().__init__(world, name)
        self.id, self._lives, self._chat, self._steps = "", 0, chat, list(steps)
        self.is_open = False

    def act(self) -> None:
        """Come if it is not there; else do the next thing that the design knows."""
        if self.waits or not self._steps:
            return
        step = self._steps.pop(0)
        if not self.is_open:
            self._come()
        elif step.kind in ("disconnect", "die", "again"):
            id, self.is_open = self.id, False
            for _ in range({"disconnect": 1, "again": 2, "die": 0}[step.kind]):
                self.world.start(self.name, partial(self._chat.disconnect, id))
        elif step.kind == "message":
            self.world.start(self.name, partial(self._chat.partner, self.id))

    def _come(self) -> None:
        self.waits = True
        self._lives += 1
        self.id = f"{self.name}-{self._lives}"
        at = times.key(self.world.now)

        def done(_: Any) -> None:
            self.waits, self.is_open = False, True

        self.world.start(self.name, partial(self._chat.connect, self.id, at), done, lambda _: self._come())


def live(engine: Engine, seed: int) -> Counter[str]:
    """Live one history with all five designs; count what there is, and what of it is wrong."""
    random.seed(seed)
    world, wishes = World(seed), plan(seed)
    world.is_calm = wishes.is_calm
    client = client_of(engine)
    with table_of(client) as (name, arn), Network(world, engine).attached(client):
        store = SimpleNamespace(client=client, name=name)

        def count(event: Any, _: object) -> None:
            for message in event["Records"]:
                url, time, who = json.loads(message["body"])
                published_views.count_view(client, name, url, time, who, TTL)

        def handle(event: Any, _: object) -> None:
            published_challenges.handle(client, name, event["Records"])
            published_comments.handle(client, name, event["Records"])

        queue = Queue(world, count)
        stream = Stream(world, engine.client("dynamodbstreams"), arn, handle)
        people, views, scores = _people(world, store, queue, wishes)
        chat = PublishedChat(client, name)
        chatters = [Chatter(world, f"chatter-{i}", chat, steps) for i, steps in enumerate(wishes.chatters)]
        _run(world, stream, queue, [*people, *chatters])
        world.is_calm = True
        found = published_reckoning.reckon(scan(client, name), views, {c.id for c in chatters if c.is_open})
        return found + published_reckoning.ranks(client, name, EVENT, scores)


def _people(
    world: World, store: Any, queue: Queue, wishes: Plan
) -> tuple[list[Client], set[published_reckoning.View], published_reckoning.Scores]:
    """Make the people, with what each will do; and what is right afterwards."""
    views: set[published_reckoning.View] = set()
    scores: published_reckoning.Scores = {}
    people = []
    for number, steps in enumerate(wishes.people):
        who = f"person-{number}"
        person = Client(world, who)
        people.append(person)
        person.left.append(
            partial(store.client.put_item, TableName=store.name, Item=published_rank.runner(who, EVENT, 0))
        )
        for step in steps:
            what = step.what
            match step.kind:
                case "views":
                    for one in what["events"]:
                        at = times.key(BEGIN + timedelta(seconds=one["seconds"]))
                        view = (PAGES[one["page"]], at, f"client-{one['client']}")
                        views.add(view)
                        person.left.append(partial(queue.put, json.dumps(view)))
                case "score" if (who, what["id"]) not in scores:
                    scores[who, what["id"]] = what["value"]
                    run = partial(published_rank.run, store.client, store.name, who, EVENT, what["value"])
                    person.left.append(run)
                case "path":
                    if what["path"] != "a wrong one":  # "a valid one is stored"
                        submit = published_challenges.submit
                        person.left.append(partial(submit, store.client, store.name, who, what["path"]))
                case "comment" | "edit":
                    put = partial(published_comments.put, store.client, store.name, what["product"], who)
                    person.left.append(partial(put, what["rating"], what["language"]))
                case "uncomment":
                    delete = published_comments.delete
                    person.left.append(partial(delete, store.client, store.name, what["product"], who))
    return people, views, scores


def _run(world: World, stream: Stream, queue: Queue, clients: list[Any]) -> None:
    """Let all do what they want, and deliver until nothing is left."""
    while True:
        draw = world.chance.random()
        if draw < 0.8:
            world.step()
        elif draw < 0.9:
            world.chance.choice(clients).act()
        elif draw < 0.96:
            stream.deliver()
        elif draw < 0.98:
            queue.deliver()
        elif draw < 0.99:
            world.pass_time(0.5)
        elif not stream.poll():
            idle = stream.is_empty and not queue.waiting and not world.tasks
            if idle and not any(one.left or one.waits or getattr(one, "_steps", ()) for one in clients):
                return
