"""What a player's progress in a challenge is worth among the others': more paths, then earlier."""

from datetime import UTC, datetime

from chalicelib import times
from chalicelib.challenges.schemas import MOST
from chalicelib.ranking.ranking import Ranking
from chalicelib.ranking.tree import Scale

EPOCH, SECONDS = 1_577_836_800, 10**9  # rankings know the seconds of 31 years from 2020 on
SCALE = Scale(0, (MOST + 1) * SECONDS - 1, 0, True)


def ranking_of(challenge: str) -> Ranking:
    """Answer the ranking of a challenge's players."""
    return Ranking(f"CHALLENGE#{challenge}", SCALE)


def score(found: int, latest: int) -> int:
    """Compute what so many paths are worth, the last of them found at a millisecond since 1970.

    >>> score(2, 1_577_836_800_000), score(1, 1_577_836_800_000), score(1, 1_577_836_801_999)
    (2999999999, 1999999999, 1999999998)
    """
    second = min(max(latest // 1000 - EPOCH, 0), SECONDS - 1)
    return found * SECONDS + SECONDS - 1 - second


def standing(merit: int) -> tuple[int, str]:
    """Read the number of paths that a merit stands for, and when the last was found, to the second."""
    found, left = divmod(int(SCALE.score(merit)), SECONDS)
    return found, times.to_iso(datetime.fromtimestamp(EPOCH + SECONDS - 1 - left, UTC))
