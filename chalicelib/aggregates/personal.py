"""Find and erase the limits of a person's calls (chalicelib/api/rates.py)."""

from chalicelib.dynamo.items import Item
from chalicelib.feature import Person, Personal


def find(item: Item, person: Person) -> str:
    """Return `limits` for a bucket of the person's subject."""
    pk = str(item["pk"])
    is_theirs = pk.startswith("BUCKET#") and person.digest and pk.endswith(f"#{person.digest}")
    return "limits" if is_theirs else ""


PERSONAL = Personal(find)
