"""Find and erase the found paths, guesses and ranking entries of a person."""

import contextlib

from chalicelib.challenges import progress
from chalicelib.challenges.schemas import PlayerParams
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import NotFound
from chalicelib.feature import Person, Personal


def find(item: Item, person: Person) -> str:
    """Return `entries` or `paths` for an item of the player."""
    pk, sk = str(item["pk"]), str(item["sk"])
    if pk == f"PLAYER#{person.name}" and sk.startswith("RANKED#"):
        return "entries"
    is_theirs = pk.startswith("CHALLENGE#") and pk.partition("#PLAYER#")[2] == person.name
    return "paths" if is_theirs else ""


def erase(table: Table, item: Item, person: Person) -> bool:
    """Withdraw a player's paths when the first one is found, as an admin does.

    An entry of a ranking is an aggregate, which may be deleted when it is 0.
    """
    key = Key(item["pk"], item["sk"])
    if key.sk.startswith("RANKED#"):
        at_zero = "gsi1sk = :none OR attribute_not_exists(gsi1sk)"
        return table.delete(key, condition=at_zero, values={":none": 0}) is not None
    if key.sk == "PROGRESS" and item.get("found") == 0:  # wrong guesses alone
        table.delete(key, condition="found = :none", values={":none": 0})
    elif table.get(key, consistent=True) is not None:
        challenge = key.pk.partition("#PLAYER#")[0].removeprefix("CHALLENGE#")
        with contextlib.suppress(NotFound):
            progress.withdraw_player(table, PlayerParams(challenge=challenge, player=person.name))
    return True


PERSONAL = Personal(find, erase)
