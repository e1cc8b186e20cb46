"""The tree of version 0.1.0: one level for each two digits of the scale, entries as aggregates.

| item | pk | sk | holds |
|---|---|---|---|
| older entry | `PLAYER#<player>` | `RANKED#<ranking>` | `gsi1sk`: the number (0: not ranked), gsi1pk |
| older node | `RANK#<ranking>#<digits>` | `NODE` | `00`…`99`: number of players whose next digits are these |

`python -m ops convert` replaces it. Until then an item without a depth contributes to this tree alone, an
item with the mark `older` to both, and the reads of a board that is not converted descend this one.
"""

import zlib

from chalicelib.aggregates.sums import Amount, Constant
from chalicelib.dynamo.items import Key
from chalicelib.ranking.tree import DIGITS, TIE, Range, Scale

LEVELS = 4  # least number of levels with ties


class OlderScale(Scale):
    """A scale whose paths are the digits of merit - 1 and of the tie, all of one length."""

    @property
    def levels(self) -> int:
        """Return the number of levels, at which every player is counted."""
        return max(self.score_levels("") + 1, LEVELS)

    def score_levels(self, path: str) -> int:
        """Return the number of levels of the score's digits."""
        return -(-len(str(self.span - 1)) // DIGITS)

    def path(self, number: int) -> str:
        """Return the path of a number."""
        merit, tie = divmod(number, TIE)
        return f"{merit - 1:0{DIGITS * self.score_levels('')}}{tie:018}"

    def offsets(self, prefix: str) -> Range:
        """Return the first and last offset of a prefix."""
        length = DIGITS * self.score_levels(prefix)
        low, high = (int(prefix[:length].ljust(length, digit)) for digit in "09")
        return low + self.low, high + self.low


def shard_key(ranking: str, shard: int) -> str:
    """Return the gsi1 partition key of a shard of a ranking's entries."""
    return f"{ranking}#{shard}"


def contribution(
    ranking: str, scale: Scale, shards: int, player: str, number: int
) -> dict[tuple[Key, str], Amount]:
    """Return the amounts that a player adds to the tree of version 0.1.0: the entry, and 1 in each node."""
    of = OlderScale(*scale)
    path, entry = of.path(number), Key(f"PLAYER#{player}", f"RANKED#{ranking}")
    counts: dict[tuple[Key, str], Amount] = {
        (Key(f"RANK#{ranking}#{path[:start]}", "NODE"), path[start : start + DIGITS]): 1
        for start in range(0, DIGITS * of.levels, DIGITS)
    }
    shard = zlib.crc32(player.encode()) % shards
    return counts | {(entry, "gsi1sk"): number, (entry, "gsi1pk"): Constant(shard_key(ranking, shard))}
