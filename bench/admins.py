"""The admin of a history, who hides, withdraws, removes and resets; and plants what cannot be computed."""

from __future__ import annotations

from typing import Any

import app
from bench.deliveries import Queue
from bench.people import Facts, Person, Request
from bench.plans import Step
from bench.simulation import World
from chalicelib import board_schemas, challenge_schemas, comment_schemas, comments
from chalicelib.auth import Caller
from chalicelib.items import Item, Key
from chalicelib.table import Table

PLANTED = "planted"  # an attribute that the product knows nothing of
ODD = "odd"  # the product that planted comments are on
GOOD = {"rating": 3, "language": "en", "text": "mended", "author": "somebody", "revision": 1}


class Admin(Person):
    """One who may do anything; planting is done behind the product's back."""

    def __init__(self, world: World, facts: Facts, steps: list[Step], table: Table, queue: Queue) -> None:
        super().__init__(world, facts, "admin", steps)
        self.caller = Caller("admin", admin=True)
        self.planted: dict[tuple[str, str], str] = {}
        self.messages: list[str] = []  # to the queue, that no one can take
        self._table, self._queue = table, queue

    def _hide(self, *, hidden: bool = True, **what: Any) -> Request | None:
        key = (what["product"], f"person-{what['person']}")
        if key not in self.facts.ids:
            return None
        self.facts.hidden.add(key)
        path = comment_schemas.CommentPath(product=key[0], id=self.facts.ids[key])
        body = comment_schemas.CommentPatch(hidden=hidden)
        return Request(lambda: app.patch_comment(path, body, self.caller, None))

    def _show(self, **what: Any) -> Request | None:
        return self._hide(hidden=False, **what)

    def _withdraw(self, **what: Any) -> Request:
        player = f"person-{what['person']}"
        self.facts.removed.add(player)
        if what["number"] % 3 == 2:
            whom = challenge_schemas.PlayerPath(challenge="hunt", player=player)
            return Request(lambda: app.delete_challenge_player(whom))
        path = challenge_schemas.FoundPath(challenge="hunt", player=player, path=what["path"])
        return Request(lambda: app.delete_challenge_path(path))

    def _remove(self, **what: Any) -> Request:
        player = f"person-{what['person']}"
        self.facts.removed.add(player)
        path = board_schemas.PlayerPath(board=what["board"], player=player)
        return Request(lambda: app.delete_player(path, self.caller))

    def _season(self, **what: Any) -> Request:
        path = board_schemas.BoardPath(board=what["board"])
        return Request(lambda: app.post_season(path, board_schemas.SeasonBody(season=1)))

    def _poison(self, **what: Any) -> None:
        number = what["number"]
        self.world.fault("poison planted")
        if what["what"] == "message":
            self.messages.append(f'{{"url": "nowhere", "clientId": "{number}"}}')
            self._queue.put(self.messages[-1])
            return
        bad: Item
        match what["what"]:
            case "comment":
                key = comments.comment_key(ODD, f"0{number:025}")._asdict()
                bad = key | GOOD | {"counted": comments.COUNTED, "rating": 9}
            case "progress":
                bad = {"pk": f"CHALLENGE#hunt#PLAYER#odd-{number}", "sk": "PROGRESS", "found": "many"}
            case "event":
                bad = {"pk": "URL#https://example.org/odd", "sk": f"T#never#CID#{number}", "series": True}
            case _:
                bad = {"pk": f"PLAYER#odd-{number}", "sk": "BOARD#sum#1", "scale": [0], "score": "much"}
        self._table.put(bad | {PLANTED: True})
        self.planted[bad["pk"], bad["sk"]] = what["what"]

    def _mend(self, **what: Any) -> None:
        if not self.planted:
            return
        # A comment first: where a good image takes a bad one's place, each half of a change has its own fate.
        place = max(self.planted, key=lambda key: self.planted[key] == "comment")
        kind, (pk, sk) = self.planted.pop(place), place
        key = {"pk": pk, "sk": sk}
        if kind == "comment":
            self._table.put(key | GOOD | comments.stamp(ODD, "en", 3))
        else:
            self._table.delete(Key(pk, sk))
        self.world.fault("poison mended or taken away")
