"""What admins have decided about authors: whether their texts need approval, and bans.

| item | pk | sk | holds |
|---|---|---|---|
| standing | `AUTHOR#<author>` | `STANDING` | `approved`: whether the last text was |
| | | | `banned`: the second at which a ban ends; gsi1 = `BANNED`, sorted by it |

A pending text is stored as a hidden one (comments.py, replies.py), with the attribute `pending` and in a list
of its own. So it is in no list of its product, in no sum, and takes no votes and no replies.

Invariant: a text is published at once, or it is pending until an admin approves it. The transaction that
writes a pending text, approves one or hides one also writes the author's standing.
"""

from datetime import datetime, timedelta
from typing import Any

from msgspec import UNSET

from chalicelib import times
from chalicelib.api import listing
from chalicelib.api.auth import Caller
from chalicelib.comments import definitions, screening
from chalicelib.comments.schemas import Ban, BanBody, Bans, CommentPatch, ReplyPatch, State
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import Forbidden, NotFound

BANNED = "BANNED"
REPORTED = "REPORTED#"


def standing_key(author: str) -> Key:
    """Build the key of an author's standing."""
    return Key(f"AUTHOR#{author}", "STANDING")


def reported_key(product: str, comment: str, reply: str = "") -> Key:
    """Build the key of the entry of a reported comment or reply (reports.py)."""
    return Key(f"PRODUCT#{product}", f"{REPORTED}{comment}#{reply}")


# -- write ---------------------------------------------------------------------------------------------


def settle(table: Table, product: str, comment: str, reply: str = "") -> None:
    """Take a text out of the list of reported texts, if it is there, because an admin has decided.

    Cost: 1 WCU, 2 for a reported text.
    """
    table.delete(reported_key(product, comment, reply))


def ban(context: Context, author: str, body: BanBody) -> tuple[Ban, bool]:
    """Refuse an author's texts for some hours. Return the ban, and whether the author was not banned before.

    A later ban replaces an earlier one.

    Cost: 1 RCU, 2 WCU.
    """
    before = context.table.get(standing_key(author), consistent=True) or {}
    until = times.epoch(context.now + timedelta(hours=body.hours))
    context.table.update(
        standing_key(author),
        "SET banned = :until, gsi1pk = :list, gsi1sk = :until",
        values={":until": until, ":list": BANNED},
        idempotent=True,
    )
    return _to_ban(author, until), not _is_banned(before, context.now)


def lift_ban(table: Table, author: str) -> None:
    """End the ban of an author.

    Cost: 2 WCU.
    Raises: NotFound for an author without a ban.
    """
    lifted = table.update(
        standing_key(author),
        "REMOVE banned, gsi1pk, gsi1sk",
        condition="attribute_exists(banned)",
    )
    if lifted is None:
        raise NotFound(f"{author[:40]} is not banned.")


def set_approved(author: str, *, approved: bool) -> dict[str, Any]:
    """Build the update of an author's standing for a transaction.

    Cost: 2 WCU.
    """
    return {
        "Update": {
            "Key": standing_key(author)._asdict(),
            "UpdateExpression": "SET approved = :approved",
            "ExpressionAttributeValues": {":approved": approved},
        }
    }


# -- read ----------------------------------------------------------------------------------------------


def admit(context: Context, caller: Caller) -> Item:
    """Return the standing of a caller that may write.

    Cost: 1 RCU; nothing for an admin.
    Raises: Forbidden for a banned author.
    """
    if caller.admin:
        return {}
    standing = context.table.get(standing_key(caller.sub), consistent=True) or {}
    require_allowed(standing, context.now)
    return standing


def require_allowed(standing: Item, now: datetime) -> None:
    """Raise Forbidden if a standing is that of a banned author."""
    if _is_banned(standing, now):
        until = times.to_iso(times.from_epoch(standing["banned"]))
        raise Forbidden(f"An admin has banned you from commenting until {until}.")


def must_wait(context: Context, product: str, caller: Caller, standing: Item, text: str) -> bool:
    """Return whether a new text must be approved. The texts of admins need no approval.

    Cost: that of `definitions.find`.
    """
    if caller.admin:
        return False
    is_unknown = needs_approval(context, product) and not standing.get("approved")
    return is_unknown or screening.must_wait(text, context.settings.comments_block)


def needs_approval(context: Context, product: str) -> bool:
    """Return whether the texts on a product must be approved, unless the author's last text was."""
    return bool(definitions.find(context, product).approve)


def choose_state(
    context: Context, caller: Caller, state: State, body: CommentPatch | ReplyPatch, text: str | None
) -> State:
    """Return the state of a comment or reply after a change. `text` is the edited one, if it is edited."""
    if body.state is not UNSET:
        return "approved"
    if body.hidden is not UNSET:
        return "hidden" if body.hidden else "approved" if state == "hidden" else state
    if text is None or caller.admin or state != "approved":
        return state
    return "pending" if screening.must_wait(text, context.settings.comments_block) else state


def follow_state(
    context: Context, product: str, author: str, before: State, after: State
) -> list[dict[str, Any]]:
    """Build the update of the author's standing that belongs to a change of a text's state, if any."""
    if before == after or not (before == "pending" or needs_approval(context, product)):
        return []
    return [set_approved(author, approved=after == "approved")]


def list_bans(context: Context, query: listing.ListQuery) -> Bans:
    """Return a page of the bans that have not ended, the last one to end first.

    Cost: 0.5 RCU for about 40 bans.
    Raises: BadCursor.
    """
    page = listing.read_entries(context, BANNED, query)
    found = [(entry["pk"].removeprefix("AUTHOR#"), entry["gsi1sk"]) for entry in page.items]
    current = [_to_ban(author, until) for author, until in found if until > times.epoch(context.now)]
    return Bans(items=current, cursor=page.cursor if len(current) == len(found) else None)


def _is_banned(standing: Item, now: datetime) -> bool:
    return bool(standing.get("banned", 0) > times.epoch(now))


def _to_ban(author: str, until: int) -> Ban:
    return Ban(author=author, until=times.to_iso(times.from_epoch(until)))
