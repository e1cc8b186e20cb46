"""Live topics: a changed aggregate is pushed to the connections that subscribe to it.

| item | pk | sk | holds |
|---|---|---|---|
| listener | `TOPIC#<digest>` | `CONN#<id>` | `endpoint`, `ttl`; `name`: the client's notation if it differs |
| head | `TOPIC#<digest>` | `HEAD` | `topic`, `listeners`, `joined`, `pushed`, `missed`, `ttl` |

A topic is `<kind>:<name>`. A feature has a `Topic` for each kind, which maps aggregates to names and reads
their values. A change of an aggregate without a head costs one read and nothing else.

`push` is a stream consumer of its own, apart from `apply`, which counts. The head's `pushed` allows one push
in 0.4 s, and fewer for a topic with many listeners. A change that comes sooner sets `missed` on the head.
This write is itself a stream record, so the stream is the timer and no handler sleeps. The value is read
after the decision, so it is always the newest.

Pushes are best effort. A batch has a time budget. A topic that is not begun within the budget is set to
`missed` and is pushed later. A listener that is not reached within the budget gets the next value.

Invariant: after a dropped push, the next push of the topic sends the current value to every listener.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import cache, partial
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from chalicelib import times
from chalicelib.api import codec
from chalicelib.api.rates import Limit
from chalicelib.chat import connections
from chalicelib.concurrency import map_concurrently
from chalicelib.context import Context, Gateway
from chalicelib.dynamo.items import Item, Key, Range, unpack
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest, Busy, NotFound
from chalicelib.feature import Topic
from chalicelib.telemetry import logs, metrics

PAUSE = timedelta(milliseconds=400)  # between two pushes of a topic, at least
EACH = timedelta(milliseconds=4)  # of pause for each listener: a topic has at most 250 posts a second
POSTS = Limit(at_once=1_000, interval=4)  # of a process: those of a full topic at once, and 250 a second
BUDGET = 5.0  # seconds that the posts of one batch may take
TRIES = 2  # of one post
TRIES_TO_SUBSCRIBE = 5  # while other requests of the connection unsubscribe it
MOST = 10  # topics of one connection
PAGE = 1_000  # listeners that are read at a time
HEAD = "HEAD"

Subscribed = Literal["yes", "too_many_topics", "too_many_listeners"]


Sources = Mapping[str, Topic]


# -- keys ----------------------------------------------------------------------------------------------


def digest_topic(topic: str) -> bytes:
    """Return a digest of 16 bytes for a topic, whose name may have 1,500 bytes."""
    return hashlib.blake2b(topic.encode(), digest_size=16).digest()


def _partition(digest: bytes) -> str:
    return f"TOPIC#{digest.hex()}"


def listener_key(topic: str, id: str) -> Key:
    """Build the key of one listener of a topic."""
    return Key(_partition(digest_topic(topic)), f"CONN#{id}")


def head_key(topic: str) -> Key:
    """Build the key of a topic's head, which exists while the topic may have listeners."""
    return Key(_partition(digest_topic(topic)), HEAD)


def canonical(sources: Sources, name: str) -> str | None:
    """Return a topic in its canonical notation, or None for an unknown kind or a malformed name."""
    kind, _, rest = name.partition(":")
    try:
        return f"{kind}:{sources[kind].canonical(rest)}"
    except (KeyError, BadRequest):
        return None


# -- write ---------------------------------------------------------------------------------------------


def subscribe(context: Context, me: Item, topic: str, name: str, listeners: int) -> Subscribed:
    """Subscribe a connection, unless it has ten topics or the topic has `listeners` already.

    A repeated subscription changes only the notation in which the topic is pushed.

    Cost: 6 WCU; 2 or 4 more for a topic or a notation of more than 900 bytes; 1 more when it is repeated.
    """
    id, own = connections.id_of(me), digest_topic(topic)
    listener = listener_key(topic, id)._asdict() | {"endpoint": me["endpoint"], "ttl": me["ttl"]}
    listener |= {"name": name} if name != topic else {}
    mine = {
        "Key": connections.key(id)._asdict(),
        "UpdateExpression": "ADD listens :set",
        "ConditionExpression": "attribute_exists(pk) AND #state <> :gone"
        " AND (attribute_not_exists(listens) OR contains(listens, :topic) OR size(listens) < :most)",
        "ExpressionAttributeNames": {"#state": "state"},
        "ExpressionAttributeValues": {":set": {own}, ":topic": own, ":most": MOST, ":gone": "gone"},
    }
    head = {
        "Key": head_key(topic)._asdict(),
        "UpdateExpression": "SET joined = :token, topic = :topic, #ttl = :ttl ADD listeners :one",
        "ConditionExpression": "attribute_not_exists(listeners) OR listeners < :most",
        "ExpressionAttributeNames": {"#ttl": "ttl"},
        "ExpressionAttributeValues": {
            ":token": connections.new_token(),
            ":topic": topic,
            ":ttl": connections.latest_end(times.epoch(context.now)) + 3600,
            ":one": 1,
            ":most": listeners,
        },
    }
    put = {"Item": listener, "ConditionExpression": "attribute_not_exists(pk)"}
    for _ in range(TRIES_TO_SUBSCRIBE):
        refused = context.table.transact([{"Update": mine}, {"Put": put}, {"Update": head}])
        if 0 in refused:
            return "too_many_topics"
        if 1 not in refused:
            return "too_many_listeners" if refused else "yes"
        if context.table.put(listener, condition="attribute_exists(pk)"):
            return "yes"
    raise Busy("The topic is being changed by other requests. Please retry.")


def unsubscribe(table: Table, id: str, topic: str) -> None:
    """Unsubscribe a connection from a topic.

    Cost: 3 WCU, and 1 more for a topic of more than 900 bytes.
    """
    _delete_listener(table, digest_topic(topic), id)
    table.update(
        connections.key(id),
        "DELETE listens :topic",
        condition="attribute_exists(pk)",
        values={":topic": {digest_topic(topic)}},
        idempotent=True,
    )


def unsubscribe_all(table: Table, item: Item) -> None:
    """Unsubscribe a connection that has left from all its topics.

    Cost: 2 WCU for each topic.
    """
    for topic in item.get("listens", ()):
        _delete_listener(table, topic, connections.id_of(item))


def _delete_listener(table: Table, topic: bytes, id: str) -> None:
    """Delete a listener, and decrement the head's count. The next push corrects the count after a crash."""
    if table.delete(Key(_partition(topic), f"CONN#{id}")):
        table.update(
            Key(_partition(topic), HEAD),
            "ADD listeners :less",
            condition="listeners > :none",
            values={":less": -1, ":none": 0},
        )


def read_value(context: Context, sources: Sources, topic: str) -> Any:
    """Return the current value of a topic, or None while its board, challenge or product does not exist."""
    kind, _, name = topic.partition(":")
    try:
        return sources[kind].value(context, name)
    except NotFound:
        return None


# -- push ----------------------------------------------------------------------------------------------


class Deadline(NamedTuple):
    """The end of a batch's time budget, on a monotonic clock."""

    at: float
    clock: Callable[[], float]

    @property
    def is_over(self) -> bool:
        """Return whether the budget is used up."""
        return self.clock() >= self.at


def push(
    context: Context,
    sources: Sources,
    records: Iterable[Any],
    *,
    seconds: float = BUDGET,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Push the topics that a batch of stream records has changed to their listeners.

    Idempotent. No post begins after `seconds`: topics that are left are
    deferred (metric `PushesDeferred`), listeners that are left are dropped (`PushesDropped`). A topic is also
    deferred while the process has sent more posts than POSTS allows, because each one is paid for. A stage
    without sockets has no listeners.

    Cost: 1 RCU for each aggregate that changed; for one that has listeners 1 WCU, the read of its value,
    1 RCU per 4 KB of listeners (about 30), and a post each.
    Raises: Busy, before anything is sent. A failure of one topic is logged, and the others go on.
    """
    if not context.settings.has("chat"):
        return
    deadline = Deadline(clock() + seconds, clock)
    changed = changed_topics(sources, records)
    heads = context.table.get_many(map(head_key, changed), consistent=True)
    for topic, is_late in changed.items():
        if head := heads.get(head_key(topic)):
            try:
                level = _levels().get(context.table, 0)
                if deadline.is_over or POSTS.compute_wait(level, context.now):
                    metrics.count(PushesDeferred=1)
                    _set_missed(context.table, topic, is_late)
                else:
                    posts = _push_topic(context, sources, topic, head, is_late, deadline)
                    drained = max(level, times.milliseconds(context.now)) + posts * POSTS.interval
                    _levels()[context.table] = drained
            except Exception as error:
                metrics.count(PushesDropped=head.get("listeners", 1))
                logs.log_error("a topic was not pushed", error)


def changed_topics(sources: Sources, records: Iterable[Any]) -> dict[str, bool]:
    """Return the topics that some records change, with True for those that were missed. Never raises."""
    found: dict[str, bool] = {}
    for record in records:
        try:
            body = record["dynamodb"]
            key = Key(**unpack(body["Keys"]))
            if key.sk == HEAD and key.pk.startswith("TOPIC#"):
                if "missed" in body.get("NewImage", {}):
                    found[body["NewImage"]["topic"]["S"]] = True
                continue
            for kind, source in sources.items():
                if (name := source.name(key)) is not None:
                    found.setdefault(f"{kind}:{name}", False)
        except Exception:  # noqa: S112 (a malformed record changes no topic)
            continue
    return found


def push_interval(listeners: int) -> timedelta:
    """Return the time between two pushes of a topic, which grows with its number of listeners.

    >>> push_interval(1), push_interval(1_000)
    (datetime.timedelta(microseconds=400000), datetime.timedelta(seconds=4))
    """
    return max(PAUSE, listeners * EACH)


def _push_topic(
    context: Context,
    sources: Sources,
    topic: str,
    head: Item,
    is_late: bool,
    deadline: Deadline,
) -> int:
    """Push one topic unless it is too soon. Return the number of its listeners."""
    instant = times.milliseconds(context.now)
    won = context.table.update(
        head_key(topic),
        "SET pushed = :now REMOVE missed",
        condition="attribute_exists(pk) AND (attribute_not_exists(pushed) OR pushed <= :edge)",
        values={
            ":now": instant,
            ":edge": times.milliseconds(context.now - push_interval(head.get("listeners", 0))),
        },
    )
    if won is None:
        _set_missed(context.table, topic, is_late)
        return 0
    count, seen = _post_to_listeners(context, sources, topic, deadline), {":seen": head["joined"]}
    if not count:
        context.table.delete(head_key(topic), condition="joined = :seen", values=seen)
    elif count != won.get("listeners"):  # a crash, or a connection that died in silence
        values = seen | {":count": count}
        context.table.update(
            head_key(topic), "SET listeners = :count", condition="joined = :seen", values=values
        )
    return count


@cache
def _levels() -> WeakKeyDictionary[Table, int]:
    """Return the millisecond at which the process may have sent its posts, for each table."""
    return WeakKeyDictionary()


def _set_missed(table: Table, topic: str, is_late: bool) -> None:
    """Mark a topic so that the stream sends its value again. A topic marked `missed` is sent anyway.

    Cost: 1 WCU.
    """
    first = "" if is_late else " AND attribute_not_exists(missed)"
    table.update(
        head_key(topic),
        "SET missed = :token",
        condition=f"attribute_exists(pk){first}",
        values={":token": connections.new_token()},
    )


def _post_to_listeners(context: Context, sources: Sources, topic: str, deadline: Deadline) -> int:
    """Post a topic's value to its listeners, delete dead ones, and return the number of live ones.

    Each push begins with another listener, so a short budget does not always drop the same ones.
    """
    value = read_value(context, sources, topic)
    usual = codec.encode({"type": "update", "topic": topic, "value": value})
    count, bounds = 0, ("CONN#", "CONN#~")
    for page in context.table.query_pages(
        Range(_partition(digest_topic(topic)), bounds), limit=PAGE, consistent=True
    ):
        first = times.milliseconds(context.now) % max(1, len(page.items))
        listeners = page.items[first:] + page.items[:first]
        post = partial(_post_to_listener, context.gateway, topic, value, usual, deadline)
        for listener, outcome in zip(listeners, map_concurrently(post, listeners, "push"), strict=True):
            if outcome == "gone":
                context.table.delete(Key(listener["pk"], listener["sk"]))
            elif outcome == "dropped":
                metrics.count(PushesDropped=1)
            count += outcome != "gone"
    return count


def _post_to_listener(
    gateway: Gateway, topic: str, value: Any, usual: str, deadline: Deadline, listener: Item
) -> str:
    if deadline.is_over:
        return "dropped"
    other = listener.get("name")
    frame = codec.encode({"type": "update", "topic": other, "value": value}) if other else usual
    return gateway.send(listener["endpoint"], listener["sk"].removeprefix("CONN#"), frame, tries=TRIES)
