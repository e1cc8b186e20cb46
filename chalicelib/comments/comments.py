"""Comments on products, each in a language, with a rating from 1 to 5 or without one.

definitions.py says whether comments on a product have ratings, and how many an author may write.

| item | pk | sk | holds |
|---|---|---|---|
| comment | `PRODUCT#<product>` | `COMMENT#<ulid>` | author, name, rating, language, text, edited, revision |
| | | | `verified`; `single` if the author's item names it |
| hidden comment | `PRODUCT#<product>` | `HIDDEN#<ulid>` | the same, in no list of its product and no sum; |
| | | | `pending` while it waits for approval |
| author | `PRODUCT#<product>` | `AUTHOR#<author>` | `id` of the author's single comment, `key` of its post |
| statistics | `PRODUCT#<product>` | `S`, `S#<language>` | `count_1` … `count_5`, `count_total`, `size` |

The gsi1pk of a comment, hidden or not, is `COMMENTS#<shard>` of four shards, and its gsi1sk the first 108
bits of its ULID. An edit costs nothing there. A pending comment has `PENDING_COMMENTS#<shard>` until an admin
approves or hides it (moderation.py).

The gsi2pk of a comment is `PRODUCT#<product>#<language>#<rating>`, with 0 for no rating. Statistics that
count a rating of 5 are in gsi1, under `LEADERS` or `LEADERS#<language>`, sorted by the last step that the
number of such ratings has reached (toplist.py).

A product's comments are read newest first by reading their keys backwards. gsi2 has the same order within one
language and rating. It holds whole items, so a page needs no second read.

Invariant: `revision` grows with each change, and every change is conditional on the revision that was read.
Votes and replies are counted beside the comment (counters.py), so they conflict with no change of it.
"""

import re
from collections.abc import Container, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import UNSET

from chalicelib import times, ulids
from chalicelib.aggregates import toplist
from chalicelib.aggregates.sums import Amount, Constant, FirstStep
from chalicelib.api.auth import Caller
from chalicelib.api.schemas import INVISIBLE
from chalicelib.comments import counters, definitions, idempotency, languages, moderation, products, screening
from chalicelib.comments.counters import ABSENT
from chalicelib.comments.schemas import Comment, CommentBody, CommentPatch, ReplyPatch, State
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import (
    BadRequest,
    Busy,
    Conflict,
    Forbidden,
    NotFound,
    PreconditionFailed,
    Unprocessable,
)

TRIES = 8  # attempts at a write that conflicts with other writes of the same comment
OVERHEAD = 160  # bytes of a comment beside its text: keys, attribute names, numbers
COMMENT, HIDDEN = "COMMENT#", "HIDDEN#"
COMMENTS, REPLIES = "COMMENTS", "REPLIES"  # the lists of the stage
PENDING_COMMENTS, PENDING_REPLIES = "PENDING_COMMENTS", "PENDING_REPLIES"
SHARDS = 4  # partitions of the lists of comments and replies: about 4,000 a second
CLEANUP = "CLEANUP#"
VISIBLE = re.compile(f"[^{INVISIBLE}]")
CONFLICTS = "The comment is being changed by other requests. Please retry."


class Revised(NamedTuple):
    """A comment, and the number of its revision. Votes and replies do not change it."""

    comment: Comment
    revision: int


# -- keys ----------------------------------------------------------------------------------------------


def comment_key(product: str, id: str, *, hidden: bool = False) -> Key:
    """Build the key of a comment. A hidden comment has a prefix that no list reads."""
    return Key(f"PRODUCT#{product}", f"{HIDDEN if hidden else COMMENT}{id}")


def author_key(product: str, author: str) -> Key:
    """Build the key of the item that names an author's one comment on a product."""
    return Key(f"PRODUCT#{product}", f"AUTHOR#{author}")


def cleanup_key(product: str, id: str) -> Key:
    """Build the key of the item that removes the replies and votes of a deleted comment (cleanup.py)."""
    return Key(f"PRODUCT#{product}", f"{CLEANUP}{id}")


def statistics_key(product: str, language: str = "") -> Key:
    """Build the key of a product's counts, in one language or in all."""
    return Key(f"PRODUCT#{product}", f"S#{language}" if language else "S")


def cell_key(product: str, language: str, rating: int) -> str:
    """Build the gsi2 key of a product's comments in one language with one rating. 0 is no rating."""
    return f"PRODUCT#{product}#{language}#{rating}"


def leaders_key(language: str = "") -> str:
    """Build the gsi1 key of the products with ratings of 5, in one language or in all."""
    return f"LEADERS#{language}" if language else "LEADERS"


def id_of(item: Item) -> str:
    """Return a comment's id."""
    return str(item["sk"]).partition("#")[2]


def product_of(item: Item) -> str:
    """Return the product that a comment or a statistics item belongs to."""
    return str(item["pk"]).removeprefix("PRODUCT#")


def is_hidden(item: Item) -> bool:
    """Return whether a comment is hidden or pending, from the comment or from its counters."""
    return str(item["sk"]).startswith(HIDDEN) or bool(item.get("hidden"))


# -- write ---------------------------------------------------------------------------------------------


def post(
    context: Context,
    product: str,
    body: CommentBody,
    caller: Caller,
    idempotency_key: str | None,
) -> Revised:
    """Write an author's comment on a product. A repeated idempotency key returns the comment it has written.

    Cost: 6 WCU up to 1 KB, 2 for each further KB, and at most 2 per KB for gsi2. 3 WCU up to 1 KB, and 1 for
    each further one, where an author may write many, without an idempotency key. The first comment on a
    product 2 WCU and 0.5 RCU more, and 0.5 RCU the first one in a process. That of `moderation.admit` and
    `definitions.find`. 2 WCU more for a pending comment of an author whose last text was approved.
    Raises: Conflict when the author's single comment on the product is another one, or when the comment of
    the idempotency key was deleted; Forbidden for a banned author; BadRequest, Unprocessable; Busy.
    """
    standing = moderation.admit(context, caller)
    definition = definitions.find(context, product)
    definition.check_rating(body.rating)
    check_content(body.rating, body.text)
    for _ in range(TRIES):
        item = build_item(product, ulids.new(context.now), caller.sub, body, caller.name)
        item |= {"verified": True} if caller.verified else {}
        item |= {"single": True} if definition.per_author == "one" else {}
        waits = moderation.must_wait(context, product, caller, standing, item["text"])
        item = _set_state(item, "pending") if waits else item
        actions: list[Any] = [{"Put": {"Item": item, "ConditionExpression": ABSENT}}]
        if claim := _build_claim(context, item, idempotency_key):
            actions.append(claim)
        if waits and standing.get("approved"):
            actions.append(moderation.set_approved(caller.sub, approved=False))
        refused: tuple[int, ...] = ()
        if len(actions) > 1:
            refused = context.table.transact(actions)
        else:
            context.table.put(item, condition=ABSENT)  # a false condition is a retry: nobody else has its id
        if not refused:
            products.enter(context, product)
            return _to_revised(item)
        if claim and 1 in refused and (written := _find_claimed(context.table, claim, idempotency_key)):
            return _read_counts(context.table, written)
    raise Busy(CONFLICTS)


def add(context: Context, product: str, id: str, body: CommentBody, author: Caller) -> bool:
    """Write a comment whose id its importer has derived. Return False when it has been written before.

    An author may have any number of them, and no admin has to approve them.

    Cost: 6 WCU up to 1 KB, and 4 for each further KB. That of `products.enter`.
    Raises: BadRequest.
    """
    item, hidden = (
        build_item(product, id, author.sub, body, author.name),
        comment_key(product, id, hidden=True),
    )
    put: Any = {"Put": {"Item": item, "ConditionExpression": ABSENT}}
    check: Any = {"ConditionCheck": {"Key": hidden._asdict(), "ConditionExpression": ABSENT}}
    is_new = not context.table.transact([put, check])
    products.enter(context, product)
    return is_new


def _build_claim(context: Context, item: Item, idempotency_key: str | None) -> dict[str, Any] | None:
    """Build the put that refuses a second comment of the author, or of the idempotency key, if any is."""
    product, author, id = product_of(item), item["author"], id_of(item)
    if "single" in item:
        claim = author_key(product, author)._asdict() | {"id": id}
        claim |= {"key": idempotency_key} if idempotency_key else {}
        return {"Put": {"Item": claim, "ConditionExpression": ABSENT}}
    if not idempotency_key:
        return None
    return idempotency.put(idempotency.build_key(product, author, idempotency_key), id, context.now)


def _find_claimed(table: Table, claim: dict[str, Any], idempotency_key: str | None) -> Item | None:
    """Return the comment of the claim that was there before, or None if the claim is gone in the meantime.

    Raises: Conflict when it is not the comment of this idempotency key, or was deleted.
    """
    wanted = claim["Put"]["Item"]
    found = table.get(Key(wanted["pk"], wanted["sk"]), consistent=True)
    if found is None:
        return None
    is_key = "ttl" in found
    if is_key or (idempotency_key and found.get("key") == idempotency_key):
        if written := find_stored(table, product_of(found), found["id"]):
            return written
        if is_key:
            raise Conflict("The comment of this `Idempotency-Key` was deleted. Send another key.")
    raise Conflict(f"You have commented on this product already: change or delete {found['id']}.")


def patch(
    context: Context,
    product: str,
    id: str,
    body: CommentPatch,
    caller: Caller,
    revisions: Container[int] | None,
) -> Revised:
    """Change a comment's rating, language or text as its author, or hide, show or approve it as an admin.

    An edit of the text may make it pending again. No change is lost. A change that conflicts with another one
    is computed again from the newer comment. A change that has no effect writes nothing.

    Cost: 1.5 RCU, 2.5 for a hidden comment; 1 WCU per KB, and for the index 2 where the rating or the
    language changes, else 1. To hide or to show: 1 RCU; 4 WCU per KB, 2 for the counters, 3 for the indexes,
    and that of `moderation.settle`. To approve: 3 WCU more. That of `moderation.admit` for an author.
    Raises: PreconditionFailed when the comment has none of the `revisions`; BadRequest, Unprocessable,
    Forbidden, NotFound, Busy.
    """
    edits = read_edits(body, "rating", "language", "text")
    if edits:
        moderation.admit(context, caller)
    wanted: Item | None = None
    for number in range(TRIES):
        item = require_visible(find_stored(context.table, product, id), product, id, caller)
        if item == wanted:  # the conflicting write was our own, whose response was lost
            return _read_counts(context.table, item)
        if not (caller.sub == item["author"] if edits else caller.admin):
            raise Forbidden("Only the author may edit a comment, and only an admin may hide or approve it.")
        if revisions is not None and item["revision"] not in revisions:
            raise PreconditionFailed("The comment has changed since it was read: read it again.")
        if "rating" in edits:
            definitions.find(context, product).check_rating(edits["rating"])
        if edits:
            edited = item | edits
            check_content(edited.get("rating"), edited["text"])
        state = moderation.choose_state(context, caller, state_of(item), body, edits.get("text"))
        wanted = _apply_edits(item, edits, state, context.now)
        standings = moderation.follow_state(context, product, item["author"], state_of(item), state)
        if wanted == item or _replace(context.table, item, wanted, standings):
            if not edits:
                moderation.settle(context.table, product, id)
            return _read_counts(context.table, wanted)
        context.table.back_off(number)
    raise Busy(CONFLICTS)


def delete(table: Table, product: str, id: str, caller: Caller) -> None:
    """Delete a comment, as its author or as an admin. The author may then comment on the product again.

    An author who deletes a comment that an admin has hidden may not comment again. The replies and votes of
    the comment are gone with it. The stream removes their items (cleanup.py).

    Cost: 2 RCU, 3 for a hidden comment; 2 WCU per KB, 2 each for the author's item and the counters, and at
    most 3 for the indexes. 2 WCU more for a comment that has had votes or replies.
    Raises: Forbidden, NotFound, Busy.
    """
    for _ in range(TRIES):
        item = require_visible(find_stored(table, product, id), product, id, caller)
        if not caller.admin and caller.sub != item["author"]:
            raise Forbidden("Only the author or an admin may delete a comment.")
        key, counted = {"pk": item["pk"], "sk": item["sk"]}, counters.counters_key(product, id)
        actions: list[Any] = [{"Delete": {"Key": key, "ConditionExpression": "attribute_exists(pk)"}}]
        if table.get(counted, consistent=True):
            cleanup = cleanup_key(product, id)._asdict() | {"author": item["author"], "steps": 0}
            actions += [{"Delete": {"Key": counted._asdict()}}, {"Put": {"Item": cleanup}}]
        else:
            actions.append(counters.require_none(product, id))
        if "single" in item and (caller.admin or state_of(item) != "hidden"):
            actions.append({"Delete": {"Key": author_key(product, item["author"])._asdict()}})
        if not table.transact(actions):
            return
    raise Busy(CONFLICTS)


def build_item(product: str, id: str, author: str, body: CommentBody, name: str | None = None) -> Item:
    """Build the item of a comment. `name` is the author's display name, if there is one.

    Raises: BadRequest for a malformed language tag.
    """
    rating, language = body.rating, parse_language(body.language)
    return {
        **comment_key(product, id)._asdict(),
        "author": author,
        **({"name": name} if name else {}),
        **({"rating": rating} if rating else {}),
        "language": language,
        "text": normalize_text(body.text),
        "revision": 1,
        **list_attributes(id),
        "gsi2pk": cell_key(product, language, rating or 0),
    }


def list_attributes(id: str, name: str = COMMENTS) -> Item:
    """Build the attributes that put a comment into the list of all comments, or a reply into that of replies.

    The number is that of the ULID without its last 20 bits, because a number of DynamoDB has 38 digits.
    """
    number = ulids.to_number(id)
    return {"gsi1pk": f"{name}#{number % SHARDS}", "gsi1sk": number >> 20}


def read_edits(body: CommentPatch | ReplyPatch, *names: str) -> dict[str, Any]:
    """Return the fields with these names that an author's change sets, normalized.

    Raises: BadRequest for a change that sets neither or both, and for a malformed language.
    """
    edits = {name: value for name in names if (value := getattr(body, name)) is not UNSET}
    if bool(edits) + (body.hidden is not UNSET) + (body.state is not UNSET) != 1:
        fields = f"{', '.join(names[:-1])} or {names[-1]}"
        raise BadRequest(f"The body must have {fields}, or hidden alone, or state alone")
    if "language" in edits:
        edits["language"] = parse_language(edits["language"])
    if "text" in edits:
        edits["text"] = normalize_text(edits["text"])
    return edits


def parse_language(language: str) -> str:
    """Return a language tag in its canonical notation.

    Raises: BadRequest, which names the field.
    """
    try:
        return languages.canonical(language)
    except ValueError as error:
        raise BadRequest(f"`language` {error}") from None


def normalize_text(text: str) -> str:
    """Return a text with line feeds as line ends, at most two in a row, and without white space around it."""
    return screening.clamp_lines(text.replace("\r\n", "\n").replace("\r", "\n")).strip()


def check_content(rating: int | None, text: str) -> None:
    """Raise Unprocessable for a comment or a reply that has neither a rating nor a visible character."""
    if rating is None and not VISIBLE.search(text):
        raise Unprocessable("`text` must not be empty where there is no rating.")


def state_of(item: Item) -> State:
    """Return whether a comment or a reply is approved, pending or hidden."""
    return "pending" if "pending" in item else "hidden" if is_hidden(item) else "approved"


def _set_state(item: Item, state: State) -> Item:
    """Return a comment in a state: its key, its lists and its mark."""
    product, id = product_of(item), id_of(item)
    after = {name: value for name, value in item.items() if name not in ("pending", "gsi2pk")}
    after |= comment_key(product, id, hidden=state != "approved")._asdict()
    after |= list_attributes(id, PENDING_COMMENTS if state == "pending" else COMMENTS)
    if state == "pending":
        return after | {"pending": True}
    if state == "hidden":
        return after
    return after | {"gsi2pk": cell_key(product, item["language"], item.get("rating", 0))}


def _apply_edits(item: Item, edits: dict[str, Any], state: State, now: datetime) -> Item:
    """Return the comment as it is after a change, or the same item if nothing changes."""
    if state == state_of(item) and all(item.get(name) == value for name, value in edits.items()):
        return item
    after: Item = item | edits | {"revision": item["revision"] + 1}
    if after.get("rating") is None:
        after.pop("rating", None)
    if edits:
        after["edited"] = times.to_sort_key(now)
    return _set_state(after, state)


def _replace(table: Table, item: Item, wanted: Item, standings: Sequence[Any]) -> bool:
    """Write the changed comment, and its counters if it moves. Return False for another revision."""
    condition, values = "attribute_exists(pk) AND revision = :seen", {":seen": item["revision"]}
    moves = wanted["sk"] != item["sk"]
    if not moves and not standings:
        return table.put(wanted, condition=condition, values=values)
    seen = {"ConditionExpression": condition, "ExpressionAttributeValues": values}
    if not moves:
        return not table.transact([{"Put": {"Item": wanted} | seen}, *standings])
    removed: Any = {"Delete": {"Key": {"pk": item["pk"], "sk": item["sk"]}} | seen}
    put: Any = {"Put": {"Item": wanted, "ConditionExpression": ABSENT}}
    product, id = product_of(item), id_of(item)
    counted = table.get(counters.counters_key(product, id), consistent=True)
    follow = counters.follow(product, id, counted, hidden=is_hidden(wanted))
    return not table.transact([removed, put, follow, *standings])


# -- contribution --------------------------------------------------------------------------------------


def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    """Return the amounts that a comment adds to its product's counts and to the leaders.

    It adds to the counts of all languages and of its own. A comment without a rating adds to the totals only,
    and a hidden one adds nothing.

    Raises: ValueError for an invalid rating or language.
    """
    pk, sk = item["pk"], item["sk"]
    if not pk.startswith("PRODUCT#") or not sk.startswith(COMMENT):
        return {}
    rating, language, product = item.get("rating"), item["language"], product_of(item)
    if "rating" in item and (type(rating) is not int or rating not in range(1, 6)):
        raise ValueError(f"a comment with the rating {rating!r}")
    if languages.canonical(language) != language:
        raise ValueError(f"a comment in the language {language!r}")
    amounts: dict[tuple[Key, str], Amount] = {
        (statistics_key(product), "size"): OVERHEAD + len(item["text"].encode())
    }
    for scope in ("", language):
        key = statistics_key(product, scope)
        amounts |= {(key, "count_total"): 1} | ({(key, f"count_{rating}"): 1} if rating else {})
        if rating == 5:
            amounts |= {(key, "gsi1pk"): Constant(leaders_key(scope)), (key, "gsi1sk"): FirstStep("count_5")}
    return amounts


def derive(table: Table, key: Key, item: Item) -> None:
    """Move a product among the leaders, if that is necessary."""
    if update := derive_rank(key, item):
        table.update(key, **update, idempotent=True)


def derive_rank(key: Key, item: Item) -> dict[str, Any] | None:
    """Return the update that moves a product among the leaders, or None if it is on the right step."""
    if not key.pk.startswith("PRODUCT#") or not (key.sk == "S" or key.sk.startswith("S#")):
        return None
    return toplist.derive_step(item, "count_5")


# -- read ----------------------------------------------------------------------------------------------


def find(table: Table, product: str, id: str, caller: Caller) -> Revised:
    """Return one comment. Only its author and admins may see a hidden comment.

    Cost: 0.5 RCU, and 0.5 RCU per 4 KB of the comment. With a token, that of `find_stored` for a hidden or
    absent comment.
    Raises: NotFound.
    """
    keys = comment_key(product, id), counters.counters_key(product, id)
    found = table.get_many(keys)
    item, counted = found.get(keys[0]), found.get(keys[1])
    if item is None and caller.sub:
        item = find_stored(table, product, id)
    return _to_revised(counters.with_counts(require_visible(item, product, id, caller), counted))


def find_stored(table: Table, product: str, id: str) -> Item | None:
    """Read a comment, hidden or not, strongly consistent.

    An admin may hide or show it between two reads. So only a read of both keys in one transaction proves that
    a comment does not exist.

    Cost: 1 RCU per 4 KB of a comment, 2 of a hidden one, 6 for an absent one.
    """
    for hidden in (False, True):
        if item := table.get(comment_key(product, id, hidden=hidden), consistent=True):
            return item
    return _read_both_keys(table, product, id)


def _read_both_keys(table: Table, product: str, id: str) -> Item | None:
    """Read both keys of a comment in one transaction.

    Cost: 2 RCU for each.
    """
    keys = [comment_key(product, id, hidden=hidden) for hidden in (False, True)]
    return next(iter(table.get_snapshot(keys).values()), None)


def require_visible(item: Item | None, product: str, id: str, caller: Caller) -> Item:
    """Return a comment that the caller may see, or the counters of one.

    Raises: NotFound for an absent comment, and for a hidden comment of another author.
    """
    if item is None or (is_hidden(item) and not caller.admin and caller.sub != item["author"]):
        raise NotFound(f"There is no comment {id} on {product}.")
    return item


def _to_revised(item: Item) -> Revised:
    return Revised(to_comment(item), item["revision"])


def _read_counts(table: Table, item: Item) -> Revised:
    """Return a comment with its current counts.

    Cost: 0.5 RCU.
    """
    found = table.get(counters.counters_key(product_of(item), id_of(item)))
    return _to_revised(counters.with_counts(item, found))


def to_comment(item: Item) -> Comment:
    """Build the API's representation of a comment with its counts."""
    return Comment(
        id=id_of(item),
        author=item["author"],
        name=item.get("name"),
        rating=item.get("rating"),
        language=item["language"],
        text=item["text"],
        created=times.to_iso(ulids.created_at(id_of(item))),
        edited=times.to_iso(times.parse(item["edited"])) if "edited" in item else None,
        hidden=state_of(item) == "hidden",
        state=state_of(item),
        votes=item.get("votes", 0),
        replies=item.get("replies", 0),
        verified="verified" in item,
    )
