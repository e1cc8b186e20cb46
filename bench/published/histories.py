"""The five published designs in the faulty histories of the proof: same seeds, same actions, same faults.

Their clients never give up, so that the right result is known. Actions that a design does not describe are
left out: what an admin does, seasons, and in chats everything but coming, talking and going.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

from bench.published import challenges, comments, ranking, views
from bench.published.chat import POOL, PublishedChat
from chalicelib import times
from chalicelib.dynamo.items import Item
from local.engines.engine import Engine
from local.engines.in_process import client_of
from ops.maintenance.audit import scan
from proof import cli, runner
from proof.event_sources import Queue, Stream
from proof.history import created_table
from proof.network import Network
from proof.scenario import PAGES, Action, Scenario, scenario
from proof.world import BEGIN, World

EVENT = "race"  # the one ranking, a sum
TTL = 4_102_444_800 + 10**9
FIGURES = (
    ("views: lost", "views lost", "views"),
    ("views: counted twice", "views counted twice", "views"),
    ("ranking: wrong distances", "wrong distances", "players"),
    ("ranking: wrong ranks", "wrong ranks", "players"),
    ("game: wrong numbers", "wrong numbers of the game", "numbers of the game"),
    ("comments: wrong counts", "wrong counts of ratings", "counts of ratings"),
    ("chat: waiting for ever beside another", "waiting beside another", "connected"),
    ("chat: with a partner that is gone", "with a partner that is gone", "connected"),
    ("chat: in two chats, or in one and waiting", "in two chats", "connected"),
    ("chat: neither waiting nor talking", "neither waiting nor talking", "connected"),
)


class Client:
    """Makes one call after the other, and repeats each until it succeeds."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.left: list[Any] = []
        self.waits = False

    @property
    def is_done(self) -> bool:
        """Return whether no call is left."""
        return not self.left and not self.waits

    def act(self) -> None:
        """Make the next call, unless a result is awaited."""
        if self.left and not self.waits:
            self._try(self.left.pop(0))

    def _try(self, call: Callable[[], Any]) -> None:
        self.waits = True

        def done(_: Any) -> None:
            self.waits = False

        self.world.start(self.name, call, done, lambda error: self._try(call))


class Chatter(Client):
    """A socket client that connects, talks and leaves. Only connecting is repeated."""

    def __init__(self, world: World, name: str, chat: PublishedChat, actions: list[Action]) -> None:
        super().__init__(world, name)
        self.id, self._connections, self._chat, self.left = "", 0, chat, list(actions)
        self.is_open = False

    def act(self) -> None:
        """Connect if it is not connected; else take the next action that the design describes."""
        if self.waits or not self.left:
            return
        action = self.left.pop(0)
        if not self.is_open:
            self._connect()
        elif action.kind in ("disconnect", "die", "again"):
            id, self.is_open = self.id, False
            for _ in range({"disconnect": 1, "again": 2, "die": 0}[action.kind]):
                self._send(partial(self._chat.disconnect, id))
        elif action.kind == "message":
            self._send(partial(self._chat.partner, self.id))

    def _send(self, event: Callable[[], Any]) -> None:
        self.world.start(self.name, event, failed=lambda error: None)

    def _connect(self) -> None:
        self.waits = True
        self._connections += 1
        self.id = f"{self.name}-{self._connections}"
        at = times.to_sort_key(self.world.now)

        def done(_: Any) -> None:
            self.waits, self.is_open = False, True

        self.world.start(self.name, partial(self._chat.connect, self.id, at), done, lambda _: self._connect())


def run(engine: Engine, seed: int) -> Counter[str]:
    """Run one history with all five designs; count their numbers, and the wrong ones among them."""
    random.seed(seed)
    world, plan = World(seed), scenario(seed)
    world.is_calm = plan.is_calm
    client = client_of(engine)
    with created_table(client) as (name, arn), Network(world, engine).attached(client):

        def count(event: Any, _: object) -> None:
            for message in event["Records"]:
                url, time, visitor = json.loads(message["body"])
                views.count_view(client, name, url, time, visitor, TTL)

        def handle(event: Any, _: object) -> None:
            challenges.handle(client, name, event["Records"])
            comments.handle(client, name, event["Records"])

        queue = Queue(world, count)
        stream = Stream(world, engine.client("dynamodbstreams"), arn, handle)
        store = SimpleNamespace(client=client, name=name)
        visitors, sent, scores = _visitors(world, store, queue, plan)
        chat = PublishedChat(client, name)
        chatters = [Chatter(world, f"chatter-{i}", chat, actions) for i, actions in enumerate(plan.chatters)]
        _play(world, stream, queue, visitors, chatters)
        world.is_calm = True
        items, is_open = scan(client, name), {one.id for one in chatters if one.is_open}
        found = _views(items, sent) + _game(items) + _comments(items) + _chat(items, is_open)
        return found + _ranks(client, name, scores)


def _visitors(
    world: World, store: Any, queue: Queue, plan: Scenario
) -> tuple[list[Client], set[tuple[str, ...]], dict[tuple[str, int], int]]:
    """Return the REST clients with their calls, the views that are sent, and each submission of a player."""
    sent: set[tuple[str, ...]] = set()
    scores: dict[tuple[str, int], int] = {}
    visitors = []
    for number, actions in enumerate(plan.visitors):
        visitor = Client(world, f"person-{number}")
        visitors.append(visitor)
        where, left, name = (store.client, store.name), visitor.left, visitor.name
        runner_item = ranking.runner(name, EVENT, 0)
        left.append(partial(store.client.put_item, TableName=store.name, Item=runner_item))
        for action in actions:
            given = action.arguments
            match action.kind:
                case "views":
                    for one in given["events"]:
                        at = times.to_sort_key(BEGIN + timedelta(seconds=one["seconds"]))
                        view = (PAGES[one["page"]], at, f"client-{one['client']}")
                        sent.add(view)
                        left.append(partial(queue.put, json.dumps(view)))
                case "score" if (name, given["id"]) not in scores:
                    scores[name, given["id"]] = given["value"]
                    left.append(partial(ranking.run, *where, name, EVENT, given["value"]))
                case "path" if given["path"] != "a wrong one":  # the design stores valid paths
                    left.append(partial(challenges.submit, *where, name, given["path"]))
                case "comment" | "edit":
                    body = (given["product"], name, given["rating"], given["language"])
                    left.append(partial(comments.put, *where, *body))
                case "uncomment":
                    left.append(partial(comments.delete, *where, given["product"], name))
    return visitors, sent, scores


def _play(
    world: World, stream: Stream, queue: Queue, visitors: list[Client], chatters: list[Chatter]
) -> None:
    """Run the clients, then deliver until nothing is left.

    The handlers of these designs let any error of the table escape, and the batch comes again.
    """
    clients = [*visitors, *chatters]
    while True:
        world.unexpected.clear()
        draw = world.rng.random()
        if draw < 0.8:
            world.step()
        elif draw < 0.9:
            world.rng.choice(clients).act()
        elif draw < 0.96:
            stream.deliver()
        elif draw < 0.98:
            queue.deliver()
        elif draw < 0.99:
            world.advance(0.5)
        elif not stream.poll():
            is_idle = stream.is_empty and not queue.waiting and not world.tasks
            if is_idle and all(one.is_done for one in clients):
                return


# -- the results beside the right ones ---------------------------------------------------------------


def _ranks(client: Any, name: str, scores: Mapping[tuple[str, int], int]) -> Counter[str]:
    right: Counter[str] = Counter()
    for (player, _), value in scores.items():
        right[player] += value
    found: Counter[str] = Counter()
    for player, distance in right.items():
        item = client.get_item(TableName=name, Key=ranking.runner_key(player, EVENT))["Item"]
        rank = 1 + sum(other > distance for other in right.values())
        found["players"] += 1
        found["wrong distances"] += int(item["gsi1sk"]["N"]) != distance
        found["wrong ranks"] += ranking.position(client, name, player, EVENT) != rank
    return found


def _views(items: Iterable[Item], sent: set[tuple[str, ...]]) -> Counter[str]:
    counted = {item["pk"]: int(item["views"]) for item in items if item["sk"] == "STATISTICS"}
    found = Counter({"views": len(sent)})
    for page, count in Counter(f"URL#{url}" for url, *_ in sent).items():
        found["views lost"] += max(0, count - counted.get(page, 0))
        found["views counted twice"] += max(0, counted.get(page, 0) - count)
    return found


def _game(items: Iterable[Item]) -> Counter[str]:
    """Compare the players, the paths, and how many players reached each number of paths."""
    paths = Counter(item["pk"] for item in items if item["sk"].startswith("PATH#"))
    right = {"PLAYERS": len(paths), "PATHS": sum(paths.values())}
    for n in range(1, challenges.LIMIT + 1):
        right[f"FOUND#{n}"] = sum(count >= n for count in paths.values())
    totals = {item["sk"]: int(item["total"]) for item in items if item["pk"] == "AGGREGATES"}
    used = {name for name in right if right[name] or totals.get(name)}
    wrong = sum(totals.get(name, 0) != right[name] for name in used)
    return Counter({"numbers of the game": len(used), "wrong numbers of the game": wrong})


def _comments(items: Iterable[Item]) -> Counter[str]:
    """Compare each count of ratings, in all languages and in each."""
    right: Counter[tuple[str, str, str]] = Counter()
    counts: dict[tuple[str, str, str], int] = {}
    for item in items:
        if item["sk"].startswith("COMMENT#"):
            for sk in ("S", f"S#{item['language']}"):
                right[item["pk"], sk, f"count_{item['rating']}"] += 1
                right[item["pk"], sk, "count_total"] += 1
        elif item["sk"] == "S" or item["sk"].startswith("S#"):
            found = {name: value for name, value in item.items() if name.startswith("count_")}
            counts |= {(item["pk"], item["sk"], name): int(value) for name, value in found.items()}
    used = right.keys() | counts.keys()
    wrong = sum(counts.get(at, 0) != right[at] for at in used)
    return Counter({"counts of ratings": len(used), "wrong counts of ratings": wrong})


def _chat(items: Iterable[Item], is_open: set[str]) -> Counter[str]:
    waiting = {item["sk"].partition("#")[2] for item in items if item["pk"] == POOL}
    partners: Mapping[str, set[str]] = defaultdict(set)
    for item in items:
        if item["pk"].startswith("CHAT#"):
            partners[item["pk"].removeprefix("CHAT#")].add(item["sk"])
    found = Counter({"connected": len(is_open)})
    found["waiting beside another"] += len(is_open & waiting) if len(is_open & waiting) > 1 else 0
    for one in is_open:
        found["with a partner that is gone"] += bool(partners[one]) and not partners[one] & is_open
        found["in two chats"] += len(partners[one]) + (one in waiting) > 1
        found["neither waiting nor talking"] += not partners[one] and one not in waiting
    return found


def run_one(seed: int) -> Counter[str]:
    """Run one history in this process."""
    return run(runner.engine(runner.IN_PROCESS), seed)


def compare(seeds: range) -> str:
    """Run histories in two processes; return the wrong numbers of the published designs as a table."""
    found = sum(runner.in_processes(run_one, seeds, 2), start=Counter[str]())
    rows = [
        (name, found[wrong], found[of], f"{100 * found[wrong] / max(1, found[of]):.1f} %")
        for name, wrong, of in FIGURES
    ]
    return cli.table(f"Wrong after {len(seeds):,} histories", ("number", "published", "of", "share"), rows)
