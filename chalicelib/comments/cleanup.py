"""Removal of the replies, votes and reports of deleted comments, behind the stream.

| item | pk | sk | holds |
|---|---|---|---|
| cleanup | `PRODUCT#<product>` | `CLEANUP#<comment>` | `author`; `steps`: how many steps have been taken |

The transaction that deletes a comment with replies or votes puts a cleanup. From then on nobody can read the
replies. The stream delivers the cleanup, and each step deletes up to STEP items. When more may be left, the
step raises `steps`, which the stream delivers too. The last step deletes the cleanup. `ops repair` and `ops
erase` finish every cleanup at once.

Invariant: no reply or vote is added to a deleted comment, because their transactions require its counters,
which are deleted with it (counters.py). So after the last step there are none.
"""

from collections.abc import Iterable

from chalicelib.comments.comments import CLEANUP
from chalicelib.comments.counters import COUNTERS, counters_key
from chalicelib.comments.moderation import REPORTED
from chalicelib.comments.replies import REPLY
from chalicelib.comments.reports import REPORT
from chalicelib.comments.votes import VOTE
from chalicelib.concurrency import map_concurrently
from chalicelib.context import Context
from chalicelib.dynamo.items import Images, Item, Key, Range
from chalicelib.dynamo.table import Table

STEP = 100  # items that one step deletes


def follow(context: Context, changes: Iterable[Images]) -> None:
    """Take the next step of each cleanup in a batch of the stream.

    Idempotent: the same changes may come again.

    Cost: nothing without a cleanup. See `step`.
    """
    cleanups: dict[Key, Item] = {}
    for key, _, new in changes:
        if key.pk.startswith("PRODUCT#") and key.sk.startswith(CLEANUP) and new:
            cleanups[key] = new
    for key, item in cleanups.items():
        step(context.table, key, item["steps"])


def step(table: Table, key: Key, steps: int) -> None:
    """Delete the next replies and votes of a deleted comment. `steps` have been taken before.

    Cost: that of `_delete_some`, and 1 WCU for the step.
    """
    if _delete_some(table, key) < STEP:
        table.delete(key)
        return
    table.update(
        key,
        "SET #steps = :next",
        condition="#steps = :steps",
        names={"#steps": "steps"},
        values={":steps": steps, ":next": steps + 1},
        idempotent=True,
    )


def finish(table: Table, counters: Key) -> bool:
    """Delete the replies and votes of a deleted comment. Return False if the comment exists.

    Cost: 1 RCU, that of `_delete_some` for each STEP of items, and 1 WCU.
    """
    if table.get(counters, consistent=True):
        return False
    key = Key(counters.pk, counters.sk.replace(COUNTERS, CLEANUP, 1))
    while _delete_some(table, key) == STEP:
        pass
    table.delete(key)
    return True


def _delete_some(table: Table, key: Key) -> int:
    """Delete up to STEP replies, votes and reports, and return their number.

    Cost: 1 RCU per 4 KB of each kind, at least 4; 1 WCU per KB for each item, and 1 for gsi1 for each reply.
    """
    id = key.sk.removeprefix(CLEANUP)
    found: list[Item] = []
    for prefix in (REPLY, VOTE, REPORT, REPORTED):
        if len(found) < STEP:
            bounds = (f"{prefix}{id}#", f"{prefix}{id}$")  # `$` follows `#`
            found += table.query(Range(key.pk, bounds), limit=STEP - len(found), consistent=True).items
    map_concurrently(lambda item: table.delete(Key(item["pk"], item["sk"])), found)
    return len(found)


def find_parent(item: Item) -> Key | None:
    """Return the key of the comment's counters for what is removed with the comment, else None."""
    kind, *parts = str(item["sk"]).split("#", 2)
    length = {REPLY: 2, VOTE: 2, REPORT: 2, REPORTED: 2, CLEANUP: 1}.get(f"{kind}#")
    is_ours = item["pk"].startswith("PRODUCT#") and len(parts) == length
    return counters_key(item["pk"].removeprefix("PRODUCT#"), parts[0]) if is_ours else None
