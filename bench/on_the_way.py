"""What must hold at every moment of a history, read from the table's stream: what heals later shows here.

Each check yields what is not as it should be, as text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from bench.admins import ODD
from bench.histories import History
from chalicelib import comments, connections
from chalicelib.items import Item, unpack


class Change(NamedTuple):
    """A change of an item: what it was and what it is, none where it was not there."""

    pk: str
    sk: str
    was: Item
    is_: Item


def on_the_way(history: History) -> Iterator[str]:
    """Check scores, paths, comments and places as they were from one change to the next."""
    changes = [_change(record["dynamodb"]) for record in history.stream.records]
    yield from _scores(changes)
    yield from _paths(changes)
    yield from _comments(changes)
    yield from _places(changes)


def _change(body: Any) -> Change:
    keys = unpack(body["Keys"])
    return Change(keys["pk"], keys["sk"], unpack(body.get("OldImage", {})), unpack(body.get("NewImage", {})))


def _scores(changes: list[Change]) -> Iterator[str]:
    """A best score only gets better, and the latest only later, while the player is on the board."""
    for pk, sk, was, is_ in changes:
        if not (pk.startswith("PLAYER#person-") and was and is_):
            continue
        if sk.startswith("BOARD#best#") and is_["score"] >= was["score"]:
            yield f"{pk} had {was['score']} as its least, then {is_['score']}"
        if sk.startswith("BOARD#latest#") and is_["time"] < was["time"]:
            yield f"{pk} had a score of {was['time']}, then one of {is_['time']}"


def _paths(changes: list[Change]) -> Iterator[str]:
    """A player's progress is the number of paths that were there when it was written.

    The stream does not say where a transaction ends, so the paths may have been as many at any moment from
    the progress before it to the one after it.
    """
    there: dict[str, int] = defaultdict(int)
    window: dict[str, set[int]] = defaultdict(lambda: {0})
    written: dict[str, tuple[int, set[int]]] = {}

    def wrong(pk: str) -> Iterator[str]:
        found, counts = written.get(pk, (0, {0}))
        if found not in counts | window[pk]:
            yield f"{pk} has {found} paths by its progress, and there were {sorted(counts | window[pk])}"

    for pk, sk, was, is_ in changes:
        if not pk.startswith("CHALLENGE#hunt#PLAYER#person-"):
            continue
        if sk.startswith("PATH#"):
            there[pk] += bool(is_) - bool(was)
            window[pk].add(there[pk])
        elif sk == "PROGRESS":
            yield from wrong(pk)
            written[pk] = int(is_.get("found", 0)), window[pk]
            window[pk] = {there[pk]}
    for pk in written:
        yield from wrong(pk)


def _comments(changes: list[Change]) -> Iterator[str]:
    """Each edit is of the revision that is there, and nobody brings back what was hidden meanwhile."""
    there: set[tuple[str, str]] = set()
    for pk, sk, was, is_ in changes:
        is_comment = pk.startswith("PRODUCT#") and sk.startswith((comments.COMMENT, comments.HIDDEN))
        if not is_comment or pk == f"PRODUCT#{ODD}":
            continue
        if was and is_ and is_["revision"] != was["revision"] + 1:
            yield f"{sk} of revision {was['revision']} became {is_['revision']}"
        if is_ and not was and {(pk, sk), _elsewhere(pk, sk)} & there:
            yield f"{sk} is there twice"
        if is_:
            there.add((pk, sk))
        else:
            there.discard((pk, sk))


def _elsewhere(pk: str, sk: str) -> tuple[str, str]:
    """Name the other place of a comment: hidden, or in sight."""
    if sk.startswith(comments.COMMENT):
        return pk, sk.replace(comments.COMMENT, comments.HIDDEN, 1)
    return pk, sk.replace(comments.HIDDEN, comments.COMMENT, 1)


def _places(changes: list[Change]) -> Iterator[str]:
    """Whoever waits, and is not kept for somebody, has a place in the pool for it."""
    places = {change.sk for change in changes if change.pk.startswith("WAITING#") and change.is_}
    for _, sk, _, is_ in changes:
        if (
            sk == "STATE"
            and is_.get("state") == "waiting"
            and "kept" not in is_
            and is_["turn"] not in places
        ):
            yield f"{connections.id_of(is_)} waits without a place, at {is_['turn']}"
