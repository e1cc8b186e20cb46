"""Publishing a notice, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from unittest import mock

from chalicelib import ulids
from chalicelib.comments import comments
from chalicelib.comments.schemas import CommentBody
from chalicelib.notices import sns
from local.filters import filtered
from local.notices import ARN, LocalTopic
from tests.support.deployed import Deployed, Invocation
from tests.support.records import record

COSTS = {
    ("push", "a notice"): (0, 1, 1),
    ("push", "a notice again"): (0, 0, 1),
}
"""The status, WCU and RCU of each case; a handler without an answer has status 0."""


def story(site: Deployed) -> Iterator[Invocation]:
    """Deliver a new comment twice to `push` of a stage with notices."""
    stage = site.app.stage._replace(notices="on", notice_topic=ARN)
    topic = LocalTopic()

    def push(event: Any, context: Any) -> None:
        with (
            mock.patch.object(site.app, "stage", stage),
            mock.patch.object(sns, "client", return_value=topic),
        ):
            filtered(site.app.push, "push")(event, context)

    body = CommentBody(rating=5, language="en", text="Fits well.")
    item = comments.build_item("told", ulids.new(datetime.now(UTC)), "me", body)
    for name in ("a notice", "a notice again"):
        yield Invocation("push", name, push, {"Records": [record(None, item)]})
