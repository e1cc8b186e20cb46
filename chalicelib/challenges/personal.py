"""Find and erase the found paths and guesses of a person."""

import contextlib

from chalicelib.challenges import progress
from chalicelib.challenges.schemas import PlayerParams
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import NotFound
from chalicelib.feature import Person, Personal


def find(item: Item, person: Person) -> str:
    """Return `paths` for an item of the player."""
    pk = str(item["pk"])
    is_theirs = pk.startswith("CHALLENGE#") and pk.partition("#PLAYER#")[2] == person.name
    return "paths" if is_theirs else ""


def erase(table: Table, item: Item, person: Person) -> None:
    """Withdraw a player's paths when the first one is found, as an admin does."""
    key = Key(item["pk"], item["sk"])
    if key.sk == "PROGRESS" and item.get("found") == 0:  # wrong guesses alone
        table.delete(key, condition="found = :none", values={":none": 0})
    elif table.get(key, consistent=True) is not None:
        challenge = key.pk.partition("#PLAYER#")[0].removeprefix("CHALLENGE#")
        with contextlib.suppress(NotFound):
            progress.withdraw_player(table, PlayerParams(challenge=challenge, player=person.name))


PERSONAL = Personal(find, erase)
