"""Limits at one instant, so that no bucket drains while a test fills it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from chalicelib.api import rates


def freeze(monkeypatch: pytest.MonkeyPatch) -> datetime:
    """Let all calls of a test happen at the same time, as far as limits are concerned. Return that time."""
    now, real = datetime.now(UTC), rates.take

    def take(table: Any, bucket: Any, limit: Any, _: datetime, count: int = 1) -> int:
        return real(table, bucket, limit, now, count)

    monkeypatch.setattr(rates, "take", take)
    return now
