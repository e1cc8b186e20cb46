"""Find and erase the ban, the blocks and the reports of a person who signed in to the chat.

Connections and pairs that have parted have digests alone and end within two hours, so they are left to their
`ttl`.
"""

from chalicelib.chat import bans, blocks
from chalicelib.dynamo.items import Item
from chalicelib.feature import Person, Personal

ROLES = ("reporter", "reported", "subject")  # of a report: a visitor with a token is its subject's digest


def find(item: Item, person: Person) -> str:
    """Return `bans`, `blocks` or `reports` for an item with the digest of the person's subject."""
    if not person.digest:
        return ""
    if (item["pk"], item["sk"]) == bans.ban_key(person.digest):
        return "bans"
    if (item["pk"], item["sk"]) == blocks.key(person.digest):
        return "blocks"
    is_theirs = item["pk"] == "REPORTS" and person.digest in [item.get(role) for role in ROLES]
    return "reports" if is_theirs else ""


PERSONAL = Personal(find)
