"""Live topics: an aggregate is pushed to who listens to it, soon after the stream has changed it.

| item | pk | sk | holds |
|---|---|---|---|
| listener | `TOPIC#<topic>` | `CONN#<id>` | `at`, `name` as the client wrote it, `ttl` |
| head | `TOPIC#<topic>` | `HEAD` | that somebody may listen: `joined`, `pushed`, `missed`, `ttl` |

A topic is `<kind>:<name>`. A feature that has one says which aggregates it shows and what it answers: a
`Source`, registered in app.py. A change of an aggregate without a head costs one read and nothing else.

At most one push in 0.4 s for each topic: the head's `pushed` decides. A change that comes sooner is written
down as `missed`, and that is a change of the head, which the stream hands over in turn: it is the timer, so
the last value is never lost, and nobody sleeps. The value is read after the decision, so it is always the
newest.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from chalicelib import connections, logs, times, wire
from chalicelib.errors import BadRequest, Busy
from chalicelib.items import Item, Key, unpack
from chalicelib.posts import Posts
from chalicelib.schemas import STORED
from chalicelib.table import Table
from chalicelib.threads import at_once

PAUSE = timedelta(milliseconds=400)  # between two pushes of a topic
MOST = 10  # topics that a connection may listen to
LISTENERS = 1_000  # that are read at a time
HEAD = "HEAD"


class Source(NamedTuple):
    """What a feature shows: the name for an aggregate's key (None: it shows none), and what GET answers.

    `canonical` writes a name as `name` does, or raises BadRequest.
    """

    name: Callable[[Key], str | None]
    canonical: Callable[[str], str]
    value: Callable[[Table, str], Any]


Sources = Mapping[str, Source]


# -- keys ----------------------------------------------------------------------------------------------


def listener_key(topic: str, id: str) -> Key:
    """Key one listener of a topic."""
    return Key(f"TOPIC#{topic}", f"CONN#{id}")


def head_key(topic: str) -> Key:
    """Key what says that a topic may have listeners."""
    return Key(f"TOPIC#{topic}", HEAD)


def identifier(name: str) -> str:
    """Read the name of a board, a challenge or a product. Raises BadRequest."""
    if not STORED.search(name):
        raise BadRequest("topic: it names nothing that can be there")
    return name


def canonical(sources: Sources, name: str) -> str | None:
    """Write a topic in its one notation, or answer None for one that does not exist."""
    kind, _, rest = name.partition(":")
    try:
        return f"{kind}:{sources[kind].canonical(rest)}"
    except (KeyError, BadRequest):
        return None


# -- write ---------------------------------------------------------------------------------------------


def subscribe(table: Table, me: Item, topic: str, name: str, now: datetime) -> bool:
    """Let a connection listen; False when it listens to ten already. Again is no harm. Costs 6 WCU."""
    id, token = connections.id_of(me), connections.token()
    listener = listener_key(topic, id)._asdict() | {"at": me["at"], "name": name, "ttl": me["ttl"]}
    mine = {
        "Key": connections.key(id)._asdict(),
        "UpdateExpression": "ADD topics :topic",
        "ConditionExpression": "attribute_exists(pk) AND #state <> :gone"
        " AND (attribute_not_exists(topics) OR contains(topics, :name) OR size(topics) < :most)",
        "ExpressionAttributeNames": {"#state": "state"},
        "ExpressionAttributeValues": {":topic": {topic}, ":name": topic, ":most": MOST, ":gone": "gone"},
    }
    head = {
        "Key": head_key(topic)._asdict(),
        "UpdateExpression": "SET joined = :token, #ttl = :ttl",
        "ExpressionAttributeNames": {"#ttl": "ttl"},
        "ExpressionAttributeValues": {":token": token, ":ttl": connections.end(times.epoch(now)) + 3600},
    }
    return not table.transact([{"Update": mine}, {"Put": {"Item": listener}}, {"Update": head}])


def unsubscribe(table: Table, id: str, topic: str) -> None:
    """Let a connection listen no more. Costs 2 WCU."""
    table.delete(listener_key(topic, id))
    table.update(
        connections.key(id),
        "DELETE topics :topic",
        condition="attribute_exists(pk)",
        values={":topic": {topic}},
        idempotent=True,
    )


def forget(table: Table, item: Item) -> None:
    """Take away what a connection that has left listened to. Costs 1 WCU a topic."""
    for topic in item.get("topics", ()):
        table.delete(listener_key(topic, connections.id_of(item)))


# -- push ----------------------------------------------------------------------------------------------


def push(table: Table, posts: Posts, sources: Sources, records: Iterable[Any], now: datetime) -> None:
    """Push what a batch of stream records has changed to who listens.

    May be called with the same records again. Costs 1 RCU for each aggregate that changed; for one that has
    listeners 1 WCU, the read of its value, 0.5 RCU per 4 KB of listeners (about 30), and a post each. Raises
    Busy; whatever else goes wrong with a topic is logged, for counting must go on.
    """
    changed = changes(sources, records)
    heads = table.get_many(map(head_key, changed), consistent=True)
    for topic, is_late in changed.items():
        if head := heads.get(head_key(topic)):
            try:
                _push(table, posts, sources, topic, head, is_late, now)
            except Busy:
                raise
            except Exception as error:
                logs.failure("a topic was not pushed", error)


def changes(sources: Sources, records: Iterable[Any]) -> dict[str, bool]:
    """Name the topics that some records change; True for those that were missed before. Never raises."""
    found: dict[str, bool] = {}
    for record in records:
        try:
            body = record["dynamodb"]
            key = Key(**unpack(body["Keys"]))
            if key.sk == HEAD and key.pk.startswith("TOPIC#"):
                if "missed" in body.get("NewImage", {}):
                    found[key.pk.removeprefix("TOPIC#")] = True
                continue
            for kind, source in sources.items():
                if (name := source.name(key)) is not None:
                    found.setdefault(f"{kind}:{name}", False)
        except Exception:  # noqa: S112 (what is no record of an item changes no topic)
            continue
    return found


def _push(
    table: Table, posts: Posts, sources: Sources, topic: str, head: Item, is_late: bool, now: datetime
) -> None:
    instant = times.milliseconds(now)
    edge = instant - int(PAUSE.total_seconds() * 1000)
    won = table.update(
        head_key(topic),
        "SET pushed = :now REMOVE missed",
        condition="attribute_exists(pk) AND (attribute_not_exists(pushed) OR pushed <= :edge)",
        values={":now": instant, ":edge": edge},
    )
    if won is None:  # too soon; one that is noted already has its turn coming
        first = "" if is_late else " AND attribute_not_exists(missed)"
        table.update(
            head_key(topic),
            "SET missed = :token",
            condition=f"attribute_exists(pk){first}",
            values={":token": connections.token()},
        )
    elif not _send(table, posts, sources, topic):
        table.delete(head_key(topic), condition="joined = :seen", values={":seen": head["joined"]})


def _send(table: Table, posts: Posts, sources: Sources, topic: str) -> int:
    """Post a topic's value to all who listen; answer how many there are. Who is gone is taken away."""
    kind, _, name = topic.partition(":")
    value = sources[kind].value(table, name)
    count, start = 0, None
    while True:
        bounds = ("CONN#", "CONN#~")
        page = table.query(f"TOPIC#{topic}", bounds, limit=LISTENERS, start=start, consistent=True)

        def post(listener: Item) -> bool:
            frame = wire.encode({"type": "update", "topic": listener["name"], "value": value})
            return posts.send(listener["at"], listener["sk"].removeprefix("CONN#"), frame) == "gone"

        for listener, is_gone in zip(page.items, at_once(post, page.items), strict=True):
            if is_gone:
                table.delete(Key(listener["pk"], listener["sk"]))
            count += not is_gone
        if (start := page.next) is None:
            return count
