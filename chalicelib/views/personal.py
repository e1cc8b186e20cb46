"""Find and erase the views of a person, by the ids of its clients."""

from chalicelib.dynamo.items import Item
from chalicelib.feature import Person, Personal


def find(item: Item, person: Person) -> str:
    """Return `views` or `visitors` for an item of one of the person's clients."""
    pk, sk = str(item["pk"]), str(item["sk"])
    if pk.startswith("URL#") and sk.startswith(("T#", "GOAL#", "CLOCK#")):
        client = sk.partition("#CID#")[2].partition(" ")[0]
        return "views" if client in person.clients else ""
    if pk.startswith("URL#") and sk.startswith("VISITOR#"):
        return "visitors" if sk.split("#", 2)[2] in person.clients else ""
    if pk.startswith("SITE#") and sk.startswith("VISITOR#"):
        return "visitors" if pk.partition("#CLIENT#")[2] in person.clients else ""
    return ""


PERSONAL = Personal(find)
