"""The list of the products that have had a comment or a definition.

| item | pk | sk | holds |
|---|---|---|---|
| listed product | `PRODUCT#<product>` | `LISTED` | gsi1 = `PRODUCTS`, by the second in which it was entered |
"""

from functools import cache
from weakref import WeakKeyDictionary

from chalicelib.api import listing
from chalicelib.comments.counters import ABSENT
from chalicelib.context import Context
from chalicelib.dynamo.items import Key
from chalicelib.dynamo.table import Table

PRODUCTS = "PRODUCTS"  # the list
CACHED = 10_000  # products that a process knows to be listed


def listed_key(product: str) -> Key:
    """Build the key of the item that lists a product."""
    return Key(f"PRODUCT#{product}", "LISTED")


def enter(context: Context, product: str) -> None:
    """Put a product into the list, unless it is there.

    After a crash before this, the product's next comment or definition puts it there.

    Cost: 0.5 RCU once for a product in a process; 2 WCU for a new product.
    """
    known = _known().setdefault(context.table, set())
    if product in known:
        return
    if context.table.get(listed_key(product)) is None:
        item = listed_key(product)._asdict() | listing.entry(PRODUCTS, context.now)
        context.table.put(item, condition=ABSENT)
    if len(known) >= CACHED:
        known.clear()
    known.add(product)


@cache
def _known() -> WeakKeyDictionary[Table, set[str]]:
    """Return the products that this process knows to be listed in each table."""
    return WeakKeyDictionary()
