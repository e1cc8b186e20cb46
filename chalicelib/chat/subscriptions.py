"""Live topics: a changed aggregate is pushed to the connections that listen to it.

| item | pk | sk | holds |
|---|---|---|---|
| listener | `TOPIC#<digest>` | `CONN#<id>` | `at`, `ttl`; `name`, the client's notation where it is another |
| head | `TOPIC#<digest>` | `HEAD` | `topic`, `listeners`, `joined`, `pushed`, `missed`, `ttl` |

A topic is `<kind>:<name>`. A feature that has topics registers a `Source` in app.py: which aggregates it
shows, and what it returns for them. A change of an aggregate without a head costs one read and nothing else.

`push` is a consumer of the stream of its own: `apply`, which counts, knows nothing of topics. The head's
`pushed` allows one push in 0.4 s, and a slower pace for a topic with many listeners. A change that comes
sooner is noted as `missed` on the head. That note is itself a change which the stream hands over, so the
stream is the timer and no handler sleeps. The value is read after the decision, so it is always the newest.

Pushes are best effort. A batch has a time budget: a topic that is not begun when the budget is used up is
noted as `missed` and comes again; listeners that are not reached by then get the value of the next change.
Invariant: whatever is dropped, the next push of a topic sends its current value to every listener.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, NamedTuple

from chalicelib import times
from chalicelib.api import codec
from chalicelib.api.schemas import STORED
from chalicelib.chat import connections
from chalicelib.chat.gateway import Posts
from chalicelib.concurrency import map_concurrently
from chalicelib.dynamo.items import Item, Key, unpack
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest
from chalicelib.telemetry import logs, metrics

PAUSE = timedelta(milliseconds=400)  # between two pushes of a topic, at least
EACH = timedelta(milliseconds=4)  # between two pushes for each listener: at most 250 posts a second a topic
BUDGET = 5.0  # seconds that the posts of one batch may take
TRIES = 2  # of one post
MOST = 10  # topics that a connection may listen to
PAGE = 1_000  # listeners that are read at a time
HEAD = "HEAD"

Subscribed = Literal["yes", "too_many_topics", "too_many_listeners"]


class Source(NamedTuple):
    """What a feature shows: the name for an aggregate's key (None: it shows none), and what GET answers.

    `canonical` writes a name as `name` does, or raises BadRequest.
    """

    name: Callable[[Key], str | None]
    canonical: Callable[[str], str]
    value: Callable[[Table, str], Any]


Sources = Mapping[str, Source]


# -- keys ----------------------------------------------------------------------------------------------


def digest(topic: str) -> bytes:
    """Digest a topic, whose name may have 1,500 bytes, to the 16 bytes that a connection's item keeps."""
    return hashlib.blake2b(topic.encode(), digest_size=16).digest()


def _partition(digest: bytes) -> str:
    return f"TOPIC#{digest.hex()}"


def listener_key(topic: str, id: str) -> Key:
    """Key one listener of a topic."""
    return Key(_partition(digest(topic)), f"CONN#{id}")


def head_key(topic: str) -> Key:
    """Key the item which says that a topic may have listeners."""
    return Key(_partition(digest(topic)), HEAD)


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


def subscribe(table: Table, me: Item, topic: str, name: str, now: datetime, listeners: int) -> Subscribed:
    """Let a connection listen, unless it has ten topics or the topic has `listeners` already.

    A repeated subscription changes only the notation in which the topic is pushed.

    Cost: 6 WCU, for a topic or a notation of more than 900 bytes 2 or 4 more; repeated, 1 more.
    """
    id, own = connections.id_of(me), digest(topic)
    listener = listener_key(topic, id)._asdict() | {"at": me["at"], "ttl": me["ttl"]}
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
            ":token": connections.token(),
            ":topic": topic,
            ":ttl": connections.end(times.epoch(now)) + 3600,
            ":one": 1,
            ":most": listeners,
        },
    }
    put = {"Item": listener, "ConditionExpression": "attribute_not_exists(pk)"}
    refused = table.transact([{"Update": mine}, {"Put": put}, {"Update": head}])
    if 0 in refused:
        return "too_many_topics"
    if 1 in refused:
        table.put(listener, condition="attribute_exists(pk)")
    return "too_many_listeners" if refused == (2,) else "yes"


def unsubscribe(table: Table, id: str, topic: str) -> None:
    """Let a connection listen no more. Cost: 3 WCU, and 1 more for a topic of more than 900 bytes."""
    _remove(table, digest(topic), id)
    table.update(
        connections.key(id),
        "DELETE listens :topic",
        condition="attribute_exists(pk)",
        values={":topic": {digest(topic)}},
        idempotent=True,
    )


def forget(table: Table, item: Item) -> None:
    """Remove a connection that has left from its topics. Cost: 2 WCU a topic."""
    for topic in item.get("listens", ()):
        _remove(table, topic, connections.id_of(item))


def _remove(table: Table, topic: bytes, id: str) -> None:
    """Remove a listener, and count it off. A crash in between is healed by the next push, which counts."""
    if table.delete(Key(_partition(topic), f"CONN#{id}")):
        table.update(
            Key(_partition(topic), HEAD),
            "ADD listeners :less",
            condition="listeners > :none",
            values={":less": -1, ":none": 0},
        )


# -- push ----------------------------------------------------------------------------------------------


class Deadline(NamedTuple):
    """The end of a batch's budget, on a clock that only goes forward."""

    at: float
    clock: Callable[[], float]

    @property
    def is_over(self) -> bool:
        """Return whether the budget is used up."""
        return self.clock() >= self.at


def push(
    table: Table,
    posts: Posts,
    sources: Sources,
    records: Iterable[Any],
    now: datetime,
    *,
    seconds: float = BUDGET,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Push the topics that a batch of stream records has changed to their listeners.

    May be called with the same records again. No post begins after `seconds`: topics that are left are
    deferred (metric `PushesDeferred`), listeners that are left are dropped (`PushesDropped`).

    Cost: 1 RCU for each aggregate that changed; for one that has listeners 1 WCU, the read of its value,
    1 RCU per 4 KB of listeners (about 30), and a post each.
    Raises: Busy, before anything is sent. A failure of one topic is logged, and the others go on.
    """
    deadline = Deadline(clock() + seconds, clock)
    changed = changes(sources, records)
    heads = table.get_many(map(head_key, changed), consistent=True)
    try:
        for topic, is_late in changed.items():
            if head := heads.get(head_key(topic)):
                try:
                    if deadline.is_over:
                        metrics.count(PushesDeferred=1)
                        _note_missed(table, topic, is_late)
                    else:
                        _push(table, posts, sources, topic, head, is_late, now, deadline)
                except Exception as error:
                    metrics.count(PushesDropped=head.get("listeners", 1))
                    logs.log_error("a topic was not pushed", error)
    finally:
        metrics.publish("chat")  # the middleware would take it for counting


def changes(sources: Sources, records: Iterable[Any]) -> dict[str, bool]:
    """Name the topics that some records change; True for those that were missed before. Never raises."""
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
        except Exception:  # noqa: S112 (what is no record of an item changes no topic)
            continue
    return found


def pause(listeners: int) -> timedelta:
    """Return how long a topic rests between two pushes: the longer, the more listeners it has.

    >>> pause(1), pause(1_000)
    (datetime.timedelta(microseconds=400000), datetime.timedelta(seconds=4))
    """
    return max(PAUSE, listeners * EACH)


def _push(
    table: Table,
    posts: Posts,
    sources: Sources,
    topic: str,
    head: Item,
    is_late: bool,
    now: datetime,
    deadline: Deadline,
) -> None:
    instant = times.milliseconds(now)
    won = table.update(
        head_key(topic),
        "SET pushed = :now REMOVE missed",
        condition="attribute_exists(pk) AND (attribute_not_exists(pushed) OR pushed <= :edge)",
        values={":now": instant, ":edge": times.milliseconds(now - pause(head.get("listeners", 0)))},
    )
    if won is None:
        _note_missed(table, topic, is_late)
        return
    count, seen = _send(table, posts, sources, topic, now, deadline), {":seen": head["joined"]}
    if not count:
        table.delete(head_key(topic), condition="joined = :seen", values=seen)
    elif count != won.get("listeners"):  # a crash, or a connection that died in silence
        values = seen | {":count": count}
        table.update(head_key(topic), "SET listeners = :count", condition="joined = :seen", values=values)


def _note_missed(table: Table, topic: str, is_late: bool) -> None:
    """Let the stream bring a topic again; one that is noted already has its turn coming. Cost: 1 WCU."""
    first = "" if is_late else " AND attribute_not_exists(missed)"
    table.update(
        head_key(topic),
        "SET missed = :token",
        condition=f"attribute_exists(pk){first}",
        values={":token": connections.token()},
    )


def _send(table: Table, posts: Posts, sources: Sources, topic: str, now: datetime, deadline: Deadline) -> int:
    """Post a topic's value to its listeners; return how many it has. Removes those that are gone.

    Each push begins with another listener, so that a budget which is too short drops others each time.
    """
    kind, _, name = topic.partition(":")
    value = sources[kind].value(table, name)
    usual = codec.encode({"type": "update", "topic": topic, "value": value})
    count = 0
    bounds = ("CONN#", "CONN#~")
    for page in table.query_pages(_partition(digest(topic)), bounds, limit=PAGE, consistent=True):
        first = times.milliseconds(now) % max(1, len(page.items))
        listeners = page.items[first:] + page.items[:first]
        post = partial(_post, posts, topic, value, usual, deadline)
        for listener, outcome in zip(listeners, map_concurrently(post, listeners, "push"), strict=True):
            if outcome == "gone":
                table.delete(Key(listener["pk"], listener["sk"]))
            elif outcome == "dropped":
                metrics.count(PushesDropped=1)
            count += outcome != "gone"
    return count


def _post(posts: Posts, topic: str, value: Any, usual: str, deadline: Deadline, listener: Item) -> str:
    if deadline.is_over:
        return "dropped"
    other = listener.get("name")
    frame = codec.encode({"type": "update", "topic": other, "value": value}) if other else usual
    return posts.send(listener["at"], listener["sk"].removeprefix("CONN#"), frame, tries=TRIES)
