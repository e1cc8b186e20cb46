"""Find and erase the scores and activities of a person."""

from chalicelib.dynamo.items import Item
from chalicelib.feature import Person, Personal

KINDS = {"BOARD": "scores", "ACTIVITY": "activities"}


def find(item: Item, person: Person) -> str:
    """Return `scores` or `activities` for an item of the player."""
    is_theirs = item["pk"] == f"PLAYER#{person.name}"
    return KINDS.get(str(item["sk"]).partition("#")[0], "") if is_theirs else ""


PERSONAL = Personal(find)
