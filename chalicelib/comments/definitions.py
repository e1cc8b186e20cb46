"""The definitions of products: whether comments have ratings, and how many an author may write.

| item | pk | sk | holds |
|---|---|---|---|
| definition | `PRODUCT#<product>` | `DEFINITION` | `ratings`, `per_author`, `approve`, if set |

A product needs no definition. A field that is not set is as HUBBUB_COMMENTS_MODE says. What was written under
another definition stays as it is. With `per_author: one`, comments written under `many` do not count.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from chalicelib.comments import products
from chalicelib.comments.counters import ABSENT
from chalicelib.comments.schemas import Approve, PerAuthor, ProductBody, ProductDefinition, Ratings
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.recent import Recent
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest, NotFound, Unprocessable

RECENT = Recent[Item](seconds=10)
DISCUSSION: dict[str, Any] = {"ratings": "off", "per_author": "many"}
MODES: dict[str, dict[str, Any]] = {
    "reviews": {"ratings": "required", "per_author": "one"},
    "discussion": DISCUSSION,
}


class Definition(NamedTuple):
    """How a product takes comments."""

    ratings: Ratings
    per_author: PerAuthor
    approve: Approve = False

    def check_rating(self, rating: int | None) -> None:
        """Raise BadRequest for a missing rating, and Unprocessable for one where ratings are off."""
        if rating is None and self.ratings == "required":
            raise BadRequest("`rating` must be a number from 1 to 5: comments on this product have ratings")
        if rating is not None and self.ratings == "off":
            raise Unprocessable("`rating` must be left out: comments on this product have no ratings.")


def definition_key(product: str) -> Key:
    """Build the key of a product's definition."""
    return Key(f"PRODUCT#{product}", "DEFINITION")


# -- write ---------------------------------------------------------------------------------------------


def define(context: Context, product: str, body: ProductBody) -> tuple[ProductDefinition, bool]:
    """Define a product, and return the definition and whether it is new.

    Other processes follow within ten seconds.

    Cost: 1 RCU, 1 WCU, and that of `products.enter`.
    """
    key = definition_key(product)
    fields = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}
    item = key._asdict() | fields
    is_new = context.table.get(key, consistent=True) is None and context.table.put(item, condition=ABSENT)
    if not is_new:
        context.table.put(item)
    products.enter(context, product)
    RECENT.forget(context.table)
    return _describe(product, _build(context, fields)), is_new


def begin_discussion(table: Table, product: str) -> None:
    """Define a product without ratings and with many comments of an author, unless it is defined.

    Cost: 1 WCU.
    """
    table.put(definition_key(product)._asdict() | DISCUSSION, condition="attribute_not_exists(pk)")
    RECENT.forget(table)


def remove(table: Table, product: str) -> None:
    """Remove the definition of a product. Its comments stay.

    Cost: 1 WCU.
    Raises: NotFound.
    """
    removed = table.delete(definition_key(product), condition="attribute_exists(pk)")
    RECENT.forget(table)
    if removed is None:
        raise NotFound(f"no product named {product} is defined")


# -- read ----------------------------------------------------------------------------------------------


def describe(context: Context, product: str) -> ProductDefinition:
    """Return how a product takes comments, by its definition or by the stage's mode.

    Cost: that of `find`.
    """
    return _describe(product, find(context, product))


def find(context: Context, product: str) -> Definition:
    """Return how a product takes comments, as it was up to ten seconds ago.

    Cost: 0.5 RCU once in ten seconds for a product in a process.
    """

    def read(_: Collection[str]) -> Mapping[str, Item]:
        return {product: context.table.get(definition_key(product)) or {}}

    return _build(context, RECENT.find_all(context.table, [product], read)[product])


def _build(context: Context, item: Item) -> Definition:
    found = MODES[context.settings.comments_mode] | item
    return Definition(
        found["ratings"], found["per_author"], found.get("approve", context.settings.comments_approve)
    )


def _describe(product: str, definition: Definition) -> ProductDefinition:
    return ProductDefinition(product=product, **definition._asdict())
