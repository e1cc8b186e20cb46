"""Find and erase the notices about a person that are not published yet."""

from chalicelib.dynamo.items import Item
from chalicelib.feature import Person, Personal


def find(item: Item, person: Person) -> str:
    """Return `notices` for a pending notice about a text of the person."""
    return "notices" if item["pk"].startswith("NOTICE#") and item.get("author") == person.name else ""


PERSONAL = Personal(find)
