"""The description of a feature. Everything that enumerates features is derived from it.

Each package of a feature exports one `FEATURE`, and app.py lists the packages once. Routes stay decorators in
app.py. The router, the OpenAPI document, the stream and its filters, topics, policies, audit and export read
these records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from chalicelib.context import Context
    from chalicelib.dynamo.items import Images, Item, Key
    from chalicelib.dynamo.table import Table
    from chalicelib.settings import Settings


class Kind(NamedTuple):
    """A kind of item, by its keys. A key that ends in `*` stands for every key with that beginning.

    `is_sum` marks an aggregate, which the stream adds up. `is_applied` marks a kind whose changes a
    contribution or a follower reads. `is_live` marks a kind whose changes a live topic shows. If it is the
    name of an attribute, only images with that attribute are shown. `is_noticed` marks a kind whose changes
    may be a notice.
    """

    pk: str
    sk: str
    is_sum: bool = False
    is_applied: bool = False
    is_live: bool | str = False
    is_noticed: bool = False

    def has(self, key: Key) -> bool:
        """Return whether an item with this key is of this kind."""
        return _matches(self.pk, key.pk) and _matches(self.sk, key.sk)


class Topic(NamedTuple):
    """A kind of live topic. `name` maps the key of an aggregate to a topic's name, or to None.

    `canonical` returns a client's name in the notation of `name`, or raises BadRequest. `value` reads the
    value of a name, which is what GET returns.
    """

    name: Callable[[Key], str | None]
    canonical: Callable[[str], str]
    value: Callable[[Context, str], Any]


class Person(NamedTuple):
    """A person: a player and author, the ids of its clients in views, and the digest of its subject in chat.

    Name and ids are in NFC, as stored in the table.
    """

    name: str
    clients: frozenset[str] = frozenset()
    digest: str = ""


class Personal(NamedTuple):
    """The data of persons that a feature stores.

    `find` returns the kind of a person's item, in the plural, and an empty text for any other item. `erase`
    removes an item of a person so that the sums follow. Without it an item is just deleted.
    """

    find: Callable[[Item, Person], str]
    erase: Callable[[Table, Item, Person], None] | None = None


class Notice(NamedTuple):
    """Something that the team is told: a subject, a text for a person, and the same as names and values.

    `source` identifies the change among those of its kind. `author` is the person that wrote the text.
    """

    kind: str
    source: str
    subject: str
    text: str
    data: Mapping[str, str]
    author: str = ""


NOTHING = Personal(lambda item, person: "")
"""A feature that keeps nothing of persons."""


class Feature(NamedTuple):
    """One feature.

    `paths` has the first part of each path of its routes, with the summary of those routes. `items` are the
    kinds of items that it owns, and `personal` finds and erases those of a person. `actions` and `indexes`
    are those that its routes need of the table. `functions` are the Lambda functions that exist only for it.
    `consumers` are further functions, which a stage with a queue has. With them its routes send messages to
    the queue. `posts` tells whether its routes post to sockets.

    `contribution` returns the amounts that an item adds to aggregates. `derive` returns the update of an
    aggregate's index key, which follows from its sums. `rank` returns the player that an item ranks. `follow`
    completes what a batch of changes has begun, after the aggregates have counted it, and is idempotent.
    `notice` returns the notice of a change, or None. `publishes` marks the feature that publishes notices.

    `serves` marks a feature that no stage names: it is on when one of the others has a contribution.
    `is_on` decides instead of HUBBUB_FEATURES whether a stage has the feature.
    """

    name: str
    paths: Mapping[str, str]
    items: tuple[Kind, ...]
    personal: Personal
    actions: frozenset[str] = frozenset()
    indexes: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    posts: bool = False
    contribution: Callable[[Item], Mapping[tuple[Key, str], Any]] | None = None
    derive: Callable[[Table, Key, Item], None] | None = None
    rank: Callable[[Item], Any] | None = None
    follow: Callable[[Context, Sequence[Images]], None] | None = None
    notice: Callable[[Images, datetime], Notice | None] | None = None
    publishes: bool = False
    topics: Mapping[str, Topic] = {}
    serves: bool = False
    is_on: Callable[[Settings], bool] | None = None

    @property
    def is_named(self) -> bool:
        """Return whether a stage names the feature in HUBBUB_FEATURES."""
        return not self.serves and self.is_on is None


GET, MANY, QUERY = (f"dynamodb:{name}" for name in ("GetItem", "BatchGetItem", "Query"))
BATCH, PUT = (f"dynamodb:{name}" for name in ("BatchWriteItem", "PutItem"))
UPDATE, DELETE = (f"dynamodb:{name}" for name in ("UpdateItem", "DeleteItem"))
CHECK = "dynamodb:ConditionCheckItem"


def _matches(pattern: str, text: str) -> bool:
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def load(*packages: str) -> tuple[Feature, ...]:
    """Return the features of packages of chalicelib, each of which exports its `FEATURE`."""
    return tuple(import_module(f"chalicelib.{package}").FEATURE for package in packages)


def select(features: Iterable[Feature], settings: Settings) -> tuple[Feature, ...]:
    """Return the features of a stage: those that HUBBUB_FEATURES names, or all, and those that serve them.

    Raises: ValueError for a name that no feature has.
    """
    features = tuple(features)
    names = [feature.name for feature in features if feature.is_named]
    if unknown := settings.features.difference(names):
        raise ValueError(f"HUBBUB_FEATURES has {min(unknown)[:40]!r}: the features are {', '.join(names)}")
    wanted = settings.features or frozenset(names)
    counts = any(feature.contribution for feature in features if feature.name in wanted)

    def is_selected(feature: Feature) -> bool:
        if feature.is_on is not None:
            return feature.is_on(settings)
        return counts if feature.serves else feature.name in wanted

    return tuple(filter(is_selected, features))


def follow(context: Context, features: Iterable[Feature], changes: Sequence[Images]) -> None:
    """Let each feature follow a batch of changes. Idempotent."""
    for feature in features:
        if feature.follow:
            feature.follow(context, changes)


def find_notices(features: Iterable[Feature], change: Images, now: datetime) -> list[Notice]:
    """Return the notices of a change."""
    found = (feature.notice(change, now) for feature in features if feature.notice)
    return [notice for notice in found if notice]


def owner_of(features: Iterable[Feature], key: Key) -> str:
    """Return the name of the feature that owns an item; empty for an item of none."""
    owners = (feature.name for feature in features for kind in feature.items if kind.has(key))
    return next(owners, "")


def find_personal(features: Iterable[Feature], item: Item, person: Person) -> tuple[str, Feature] | None:
    """Return the kind of a person's item and the feature that keeps it, or None for any other item."""
    found = ((feature.personal.find(item, person), feature) for feature in features)
    return next((pair for pair in found if pair[0]), None)


def is_sum(features: Iterable[Feature], key: Key) -> bool:
    """Return whether a key is one of an aggregate."""
    return any(kind.is_sum and kind.has(key) for feature in features for kind in feature.items)


def filter_patterns(features: Iterable[Feature], function: str) -> list[dict[str, Any]]:
    """Return the filter of the stream for `apply` or `push`: the patterns of the records that it needs.

    Records of other items (sums, tree nodes, connections, entries of the waiting pool) cost no invocation.
    Kinds are combined, so a record of a combination that no kind has may pass. One matching pattern is
    enough.
    """
    features = tuple(features)
    kinds = [kind for feature in features for kind in feature.items]
    if function == "apply":
        applied = [kind for kind in kinds if kind.is_applied]
        return [{"dynamodb": {"Keys": {"sk": {"S": _alternatives(kind.sk for kind in applied)}}}}]
    found = [
        {"dynamodb": {"Keys": _combine([kind]), "NewImage": {kind.is_live: {"S": [{"exists": True}]}}}}
        for kind in kinds
        if isinstance(kind.is_live, str)
    ]
    if any(feature.posts for feature in features):  # without sockets nobody waits for a value
        live = [kind for kind in kinds if kind.is_live is True]
        found.insert(0, {"dynamodb": {"Keys": _combine(live)}})
    if any(feature.publishes for feature in features):
        noticed = [kind for kind in kinds if kind.is_noticed]
        there = {"pk": {"S": [{"exists": True}]}}  # a deletion is no notice
        found.append({"dynamodb": {"Keys": _combine(noticed), "NewImage": there}})
    return found


def _combine(kinds: Sequence[Kind]) -> dict[str, Any]:
    """Return the pattern of the keys of several kinds."""
    return {
        "pk": {"S": _alternatives(kind.pk for kind in kinds)},
        "sk": {"S": _alternatives(kind.sk for kind in kinds)},
    }


def _alternatives(keys: Iterable[str]) -> list[Any]:
    return [{"prefix": key[:-1]} if key.endswith("*") else key for key in dict.fromkeys(keys)]
