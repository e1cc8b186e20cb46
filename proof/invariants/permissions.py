"""The permissions invariant: a stranger may not change or see what belongs to others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import app
from chalicelib.api.auth import Caller
from chalicelib.challenges import schemas as challenge_schemas
from chalicelib.comments import comments
from chalicelib.comments import schemas as comment_schemas
from chalicelib.errors import Forbidden, NotFound
from chalicelib.leaderboards import schemas as board_schemas
from proof.clients import ODD, PLANTED

if TYPE_CHECKING:
    from proof.history import History

STRANGER = Caller("stranger")


def permissions(history: History) -> Iterator[str]:
    """Try to act for others, and expect each request to be refused."""
    player = board_schemas.PlayerPath(board="sum", player="person-0")
    score = board_schemas.ScoreBody(id="stranger", value=Decimal(1), player="person-0")
    progress = challenge_schemas.PlayerParams(challenge="hunt", player="person-0")
    requests: dict[str, Callable[[], Any]] = {
        "submit a score": lambda: app.post_score(board_schemas.BoardPath(board="sum"), score, STRANGER),
        "remove a player": lambda: app.delete_player(player, STRANGER),
        "read a progress": lambda: app.get_challenge_player(progress, STRANGER),
    }
    for item in history.items:
        product = item["pk"].removeprefix("PRODUCT#")
        if (
            product in (item["pk"], ODD)
            or PLANTED in item
            or not item["sk"].startswith(("COMMENT#", "HIDDEN#"))
        ):
            continue
        path = comment_schemas.CommentPath(product=product, id=comments.id_of(item))
        patch = comment_schemas.CommentPatch(rating=1)
        requests[f"edit {path.id}"] = partial(app.patch_comment, path, patch, STRANGER, None)
        requests[f"delete {path.id}"] = partial(app.delete_comment, path, STRANGER)
        if comments.is_hidden(item):
            requests[f"read the hidden {path.id}"] = partial(app.get_comment, path, STRANGER)
    for name, request in requests.items():
        try:
            request()
        except (Forbidden, NotFound):
            continue
        yield f"a stranger may {name}"
