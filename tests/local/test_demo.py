"""Tests of the demo data (local/demo.py)."""

from datetime import UTC, datetime
from typing import Any, cast
from unittest.mock import patch

import pytest

from local import demo


@pytest.mark.parametrize("hour", range(0, 24, 5))
def test_the_demo_has_the_same_scores_answers_and_comments_at_every_hour(hour: int) -> None:
    assert _sent(hour) == _sent(12)


def _sent(hour: int) -> list[list[object]]:
    """Return the bodies that the demo sends of each feature but views, whose times follow the clock."""
    sent: list[list[object]] = []
    with patch.object(demo, "datetime", wraps=datetime) as clock:
        clock.now.return_value = datetime(2026, 11, 26, hour, tzinfo=UTC)
        for calls in list(demo.Demo("http://localhost", lambda sub, _scope: sub)._calls(1))[1:]:
            sent.append([cast(Any, call).args for call in calls])
    return sent
