"""Compute a player's score in the ranking of a challenge: more paths first, then an earlier last path."""

from datetime import UTC, datetime

from chalicelib import times
from chalicelib.challenges.schemas import MAX_FOUND
from chalicelib.ranking.ranking import Ranking
from chalicelib.ranking.tree import Scale

EPOCH, SECONDS = 1_577_836_800, 10**9  # the score distinguishes seconds for 31 years, from 2020 on
SCALE = Scale(0, (MAX_FOUND + 1) * SECONDS - 1, 0, True)


def build_ranking(challenge: str) -> Ranking:
    """Return the ranking of a challenge's players."""
    return Ranking(f"CHALLENGE#{challenge}", SCALE)


def encode_score(found: int, latest: int) -> int:
    """Return the score of a number of paths, the last of them found at `latest` milliseconds since 1970.

    >>> encode_score(2, 1_577_836_800_000), encode_score(1, 1_577_836_800_000)
    (2999999999, 1999999999)
    >>> encode_score(1, 1_577_836_801_999)
    1999999998
    """
    second = min(max(latest // 1000 - EPOCH, 0), SECONDS - 1)
    return found * SECONDS + SECONDS - 1 - second


def decode_merit(merit: int) -> tuple[int, str]:
    """Return the number of paths, and the time of the last one to the second, of a player's merit."""
    found, left = divmod(int(SCALE.score(merit)), SECONDS)
    return found, times.to_iso(datetime.fromtimestamp(EPOCH + SECONDS - 1 - left, UTC))
