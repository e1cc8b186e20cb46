"""Invariants of every change in a history, read from the table's stream, so that healed errors show too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from chalicelib.chat import connections
from chalicelib.comments import comments
from chalicelib.dynamo.items import Item, unpack
from proof.clients import ODD

if TYPE_CHECKING:
    from proof.history import History


class Change(NamedTuple):
    """A change of an item: its old and new image, empty where there is none."""

    pk: str
    sk: str
    old: Item
    new: Item


def transitions(history: History) -> Iterator[str]:
    """Check scores, paths, comments and pool entries from one change to the next."""
    changes = [_change(record["dynamodb"]) for record in history.stream.records]
    yield from _scores(changes)
    yield from _paths(changes)
    yield from _comments(changes)
    yield from _pool(changes)


def _change(body: Any) -> Change:
    keys = unpack(body["Keys"])
    return Change(keys["pk"], keys["sk"], unpack(body.get("OldImage", {})), unpack(body.get("NewImage", {})))


def _scores(changes: list[Change]) -> Iterator[str]:
    """Check that a best score only gets better, and a latest score only later."""
    for pk, sk, old, new in changes:
        if not (pk.startswith("PLAYER#person-") and old and new):
            continue
        if sk.startswith("BOARD#best#") and new["score"] >= old["score"]:
            yield f"{pk} had the best score {old['score']}, then {new['score']}"
        if sk.startswith("BOARD#latest#") and new["time"] < old["time"]:
            yield f"{pk} had a score of {old['time']}, then one of {new['time']}"


def _paths(changes: list[Change]) -> Iterator[str]:
    """Check that a player's progress is the number of the paths when it was written.

    The stream does not show where a transaction ends, so any number of paths between the progress before and
    the progress after is accepted.
    """
    stored: dict[str, int] = defaultdict(int)
    window: dict[str, set[int]] = defaultdict(lambda: {0})
    written: dict[str, tuple[int, set[int]]] = {}

    def check(pk: str) -> Iterator[str]:
        found, counts = written.get(pk, (0, {0}))
        if found not in counts | window[pk]:
            yield f"{pk} has a progress of {found}, and had {sorted(counts | window[pk])} paths"

    for pk, sk, old, new in changes:
        if not pk.startswith("CHALLENGE#hunt#PLAYER#person-"):
            continue
        if sk.startswith("PATH#"):
            stored[pk] += bool(new) - bool(old)
            window[pk].add(stored[pk])
        elif sk == "PROGRESS":
            yield from check(pk)
            written[pk] = int(new.get("found", 0)), window[pk]
            window[pk] = {stored[pk]}
    for pk in written:
        yield from check(pk)


def _comments(changes: list[Change]) -> Iterator[str]:
    """Check that each edit raises the revision by one, and that no comment is both shown and hidden."""
    stored: set[tuple[str, str]] = set()
    other = {comments.COMMENT: comments.HIDDEN, comments.HIDDEN: comments.COMMENT}
    for pk, sk, old, new in changes:
        prefix = next((one for one in other if sk.startswith(one)), None)
        if not pk.startswith("PRODUCT#") or prefix is None or pk == f"PRODUCT#{ODD}":
            continue
        if old and new and new["revision"] != old["revision"] + 1:
            yield f"{sk} of revision {old['revision']} became {new['revision']}"
        if new and not old and {(pk, sk), (pk, sk.replace(prefix, other[prefix], 1))} & stored:
            yield f"{sk} is stored twice"
        if new:
            stored.add((pk, sk))
        else:
            stored.discard((pk, sk))


def _pool(changes: list[Change]) -> Iterator[str]:
    """Check that each waiting connection, unless it is kept for a partner, has had an entry in the pool."""
    entries = {change.sk for change in changes if change.pk.startswith("WAITING#") and change.new}
    for _, sk, _, new in changes:
        is_waiting = sk == "STATE" and new.get("state") == "waiting" and "kept" not in new
        if is_waiting and new["turn"] not in entries:
            yield f"{connections.id_of(new)} waits without an entry in the pool, at {new['turn']}"
