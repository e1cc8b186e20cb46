"""Limits at one instant, so that no bucket drains while a test fills it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from chalicelib.api import rates
from chalicelib.context import Context


def freeze(monkeypatch: pytest.MonkeyPatch) -> datetime:
    """Let all calls of a test happen at the same time, as far as limits are concerned. Return that time."""
    now, real = datetime.now(UTC), rates.take

    def take(context: Context, bucket: Any, limit: Any, count: int = 1) -> int:
        return real(context._replace(now=now), bucket, limit, count)

    monkeypatch.setattr(rates, "take", take)
    return now
