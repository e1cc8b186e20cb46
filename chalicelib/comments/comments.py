"""Comments on products, with ratings from 1 to 5, in many languages; and what they add up to.

| item | pk | sk | holds |
|---|---|---|---|
| comment | `PRODUCT#<product>` | `COMMENT#<ulid>` | author, rating, language, text, edited, revision |
| hidden comment | `PRODUCT#<product>` | `HIDDEN#<ulid>` | the same, out of every list, index and sum |
| author | `PRODUCT#<product>` | `AUTHOR#<author>` | `id` of the author's one comment, `key` of its post |
| statistics | `PRODUCT#<product>` | `S`, `S#<language>` | `count_1` … `count_5`, `count_total`, `size` |

A comment's gsi2pk is `PRODUCT#<product>#<language>#<rating>`; statistics with a rating of 5 are in gsi1, as
`LEADERS` or `LEADERS#<language>` by the number of such ratings.

Newest first is the order of the keys, backwards. gsi2 has the same order within one language and rating, and
whole items, so that a page needs no second read. `counted` is the version of the sums that a comment is in:
one that was written before there were any has none, and counts once `ops backfill` has touched it.
"""

from datetime import datetime

from chalicelib import times, ulids
from chalicelib.aggregates.sums import Amount, Constant
from chalicelib.api.auth import Caller
from chalicelib.api.router import Response
from chalicelib.comments import languages
from chalicelib.comments.schemas import Comment, CommentBody
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest, Busy, Conflict, NotFound

COUNTED = 1  # the version of the sums
TRIES = 8  # of a write that meets other writes of the same comment
OVERHEAD = 160  # bytes of a comment beside its text: keys, names, numbers
ABSENT = "attribute_not_exists(pk)"
COMMENT, HIDDEN = "COMMENT#", "HIDDEN#"


# -- keys ----------------------------------------------------------------------------------------------


def comment_key(product: str, id: str, *, hidden: bool = False) -> Key:
    """Key a comment; one that is hidden lies apart, where no list comes."""
    return Key(f"PRODUCT#{product}", f"{HIDDEN if hidden else COMMENT}{id}")


def author_key(product: str, author: str) -> Key:
    """Key an author's one comment on a product."""
    return Key(f"PRODUCT#{product}", f"AUTHOR#{author}")


def statistics_key(product: str, language: str = "") -> Key:
    """Key a product's counts, in one language or in all."""
    return Key(f"PRODUCT#{product}", f"S#{language}" if language else "S")


def cell_key(product: str, language: str, rating: int) -> str:
    """Key a product's comments of one language and rating in gsi2, by time."""
    return f"PRODUCT#{product}#{language}#{rating}"


def leaders_key(language: str = "") -> str:
    """Key the products in gsi1, by their ratings of 5 in one language or in all."""
    return f"LEADERS#{language}" if language else "LEADERS"


# -- write ---------------------------------------------------------------------------------------------


def post(
    table: Table, product: str, body: CommentBody, caller: Caller, idempotency_key: str | None, now: datetime
) -> Response[Comment]:
    """Write an author's comment on a product; the same idempotency key again answers what it has written.

    Raises Conflict when the author has another comment on the product, BadRequest. Costs 4 WCU up to 1 KB,
    2 for each further one, and as much as 2 per KB of index.
    """
    for _ in range(TRIES):
        item = made(product, ulids.new(now), caller.sub, body)
        author = {**author_key(product, caller.sub)._asdict(), "id": ident(item)}
        if idempotency_key:
            author["key"] = idempotency_key
        puts = [{"Put": {"Item": one, "ConditionExpression": ABSENT}} for one in (item, author)]
        if not (refused := table.transact(puts)):
            return answer(item)
        there = table.get(author_key(product, caller.sub), consistent=True) if 1 in refused else None
        if there is None:
            continue  # the id was another comment's, or the author's comment has gone meanwhile
        again = idempotency_key and there.get("key") == idempotency_key
        if again and (written := stored(table, product, there["id"])):
            return answer(written)
        raise Conflict(f"product: you have commented on it already: change or delete {there['id']}")
    raise Busy("Several writes meet on your comment: try again in a moment.")


def made(product: str, id: str, author: str, body: CommentBody) -> Item:
    """Make the item of a comment. Raises BadRequest for a language that is none."""
    rating, language = body.rating, tag(body.language)
    return {
        **comment_key(product, id)._asdict(),
        "author": author,
        "rating": rating,
        "language": language,
        "text": plain(body.text),
        "revision": 1,
        **stamp(product, language, rating),
    }


def stamp(product: str, language: str, rating: int) -> Item:
    """Make the attributes that put a comment into the sums and into gsi2."""
    return {"counted": COUNTED, "gsi2pk": cell_key(product, language, rating)}


def tag(language: str) -> str:
    """Read a language tag. Raises BadRequest naming the field."""
    try:
        return languages.canonical(language)
    except ValueError as error:
        raise BadRequest(f"language: {error}") from None


def plain(text: str) -> str:
    """Write a text as it is kept: line ends as line feeds, no blanks around it."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


# -- contribution --------------------------------------------------------------------------------------


def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    """Say what a comment adds to its product's counts, in all languages and in its own, and to the leaders.

    A hidden comment adds nothing; nor does one without the stamp, which the backfill has yet to touch.
    Raises ValueError for a rating, a language or a stamp that is none.
    """
    pk, sk = item["pk"], item["sk"]
    if not pk.startswith("PRODUCT#") or not sk.startswith(COMMENT) or "counted" not in item:
        return {}
    rating, language, product = item["rating"], item["language"], product_of(item)
    if item["counted"] != COUNTED or type(rating) is not int or rating not in range(1, 6):
        raise ValueError(f"a comment with the rating {rating!r} in version {item['counted']!r} of the sums")
    if languages.canonical(language) != language:
        raise ValueError(f"a comment in the language {language!r}")
    amounts: dict[tuple[Key, str], Amount] = {
        (statistics_key(product), "size"): OVERHEAD + len(item["text"].encode())
    }
    for scope in ("", language):
        key = statistics_key(product, scope)
        amounts |= {(key, f"count_{rating}"): 1, (key, "count_total"): 1}
        if rating == 5:
            amounts |= {(key, "gsi1sk"): 1, (key, "gsi1pk"): Constant(leaders_key(scope))}
    return amounts


# -- read ----------------------------------------------------------------------------------------------


def find(table: Table, product: str, id: str, caller: Caller) -> Response[Comment]:
    """Answer one comment; a hidden one to its author and to admins alone. Raises NotFound.

    Costs 0.5 RCU per 4 KB. With a token it costs as much again for a hidden comment, and 5 RCU for none.
    """
    item = table.get(comment_key(product, id))
    if item is None and caller.sub:
        item = table.get(comment_key(product, id, hidden=True)) or _seen_together(table, product, id)
    return answer(visible(item, product, id, caller))


def shown(item: Item) -> Comment:
    """Show a comment as answers have it."""
    return Comment(
        id=ident(item),
        author=item["author"],
        rating=item["rating"],
        language=item["language"],
        text=item["text"],
        created=times.to_iso(ulids.created_at(ident(item))),
        edited=times.to_iso(times.parse(item["edited"])) if "edited" in item else None,
        hidden=is_hidden(item),
    )


def is_hidden(item: Item) -> bool:
    """Tell whether an admin has hidden a comment."""
    return str(item["sk"]).startswith(HIDDEN)


def ident(item: Item) -> str:
    """Answer a comment's id."""
    return str(item["sk"]).partition("#")[2]


def product_of(item: Item) -> str:
    """Answer whose comment, or whose counts, an item is."""
    return str(item["pk"]).removeprefix("PRODUCT#")


def answer(item: Item) -> Response[Comment]:
    """Answer a comment with its ETag."""
    return Response(shown(item), headers={"ETag": etag(item)})


def etag(item: Item) -> str:
    """Name what a comment is now: another name after each change."""
    return f'"{item.get("revision", 0)}"'


def stored(table: Table, product: str, id: str) -> Item | None:
    """Read a comment as it is now, in sight or hidden.

    It may be hidden and shown between any two reads, so only a read of both places at one moment says that
    there is none. Costs 1 RCU per 4 KB of one in sight, 2 of one that is hidden, 6 of none.
    """
    for hidden in (False, True):
        if item := table.get(comment_key(product, id, hidden=hidden), consistent=True):
            return item
    return _seen_together(table, product, id)


def _seen_together(table: Table, product: str, id: str) -> Item | None:
    """Read a comment's two places as they are at one moment. Costs 2 RCU each."""
    places = [comment_key(product, id, hidden=hidden) for hidden in (False, True)]
    return next(iter(table.get_snapshot(places).values()), None)


def visible(item: Item | None, product: str, id: str, caller: Caller) -> Item:
    """Answer a comment that its caller may see. Raises NotFound."""
    if item is None or (is_hidden(item) and not caller.admin and caller.sub != item["author"]):
        raise NotFound(f"id: there is no comment {id} on {product}")
    return item
