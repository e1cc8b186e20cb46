"""What a leaderboard costs a month, from measured units, a stated traffic and list prices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bench import crowds, published_rank
from bench.capacity import HUBBUB, Item, item_size
from bench.crowded_boards import POINTS, CrowdedBoard
from bench.rank_reads import Reads
from bench.rank_writes import Cost
from bench.report import Figures, Report
from chalicelib import leaderboards
from chalicelib.items import pack

SIZES = (1_000, 100_000, 1_000_000)
DAYS, HOURS = 30, 730  # of a month
CHANGES, RANKS, TOPS = 5, 5, 2  # of each player and day
CHANGE = "small gains, increment"
SUBMISSION_READS = 3  # RRU of a score's submission
POLLS = 4  # a second: how often Lambda asks a stream for records, without a batching window
OVERHEAD = 100  # bytes of each item, and each index entry, that are billed beside its size

# List prices, on demand, us-east-1, as known when this was written. They may have changed: see
# "Amazon DynamoDB pricing", "AWS Lambda pricing" and "Amazon ElastiCache pricing" (Redis OSS nodes).
PRICED = "November 2026"
WRITES, READS, STORED = 0.625e-6, 0.125e-6, 0.25  # dollars a WRU, a RRU, a GB and month
INVOCATION = 0.20e-6 + 0.1 * 0.25 * 16.67e-6  # of the aggregator: 100 ms in 256 MB, which is an assumption


class Node(NamedTuple):
    """A node of a managed Redis: its memory in GB, dollars an hour."""

    name: str
    memory: float
    hourly: float


NODES = (
    Node("cache.t4g.micro", 0.5, 0.016),
    Node("cache.t4g.small", 1.37, 0.032),
    Node("cache.t4g.medium", 3.09, 0.065),
    Node("cache.m7g.large", 6.38, 0.158),
)
USABLE = 0.75  # of a node's memory: the rest is reserved for its replica and snapshots

METHOD = f"""Dollars. The units above at {CHANGES} score changes, {RANKS} ranks and {TOPS} top tens for \
each player and day, evenly over it, {DAYS} days a month; changes are small gains, in batches as large as \
a stream that is asked {POLLS} times a second then has (one, or ten of them). Storage is that of the \
month's last day: ours keeps every submission's id, so it grows by as much each month. List prices of \
{PRICED}, on demand, us-east-1, as known at writing and perhaps changed since: DynamoDB ${1e6 * WRITES:g} \
a million WRU, ${1e6 * READS:g} a million RRU, ${STORED:g} a GB; ElastiCache nodes by the hour, a primary \
and a replica of the smallest that holds the board in {USABLE:.0%} of its memory. API Gateway and the \
API's Lambda are left out, for all three need them; ours has the aggregator's besides, taken as 100 ms in \
256 MB a batch. COUNT's ranks cost what the one in the middle does. Free tiers and discounts are left out."""


def _stored(item: Item) -> int:
    """Count the bytes that are billed for an item and its index entry."""
    entry = HUBBUB.entry(HUBBUB.indexes["gsi1"], item)
    return sum(item_size(one) + OVERHEAD for one in (item, entry) if one)


def our_bytes() -> tuple[float, float]:
    """Count the bytes of a player, tree included, and of a submission: on a board of a thousand."""
    board = CrowdedBoard(POINTS, crowds.crowd("uniform", SIZES[0]))
    player = next(iter(board.scores))
    key = leaderboards.activity_key(board.name, player, crowds.name(-2))
    activity = key._asdict() | {"value": 10, "time": board.score(player)["time"], "season": 1}
    items = sum(_stored(pack(item)) for item in board.items())
    return items / len(board.scores), _stored(pack(activity))


def node(memory: float) -> Node:
    """Answer the smallest node that holds so many bytes; the greatest when none does."""
    return next((one for one in NODES if memory <= USABLE * one.memory * 2**30), NODES[-1])


def report(reads: Reads, writes: Mapping[tuple[str, int], Cost], memory: Mapping[int, int]) -> Report:
    """Show the dollars of the sizes that were measured; Redis's where it was."""
    figures = Figures(
        f"Dollars a month, list prices of {PRICED}",
        (
            "players",
            *("changes/s", "batch", "ours: writes", "reads", "Lambda", "storage", "ours", "COUNT: writes"),
            *("reads", "COUNT", "Redis", "nodes"),
        ),
    )
    player_bytes, activity_bytes = our_bytes()
    runner_bytes = _stored(published_rank.runner(crowds.name(0), crowds.name(-1), 500_000))
    for size in SIZES:
        if size not in reads.published:
            continue
        changes, ranks, tops = (size * DAYS * a_day for a_day in (CHANGES, RANKS, TOPS))
        rate = size * CHANGES / 86_400
        batch = max(known for name, known in writes if name == CHANGE and known <= max(1, rate / POLLS))
        mine = reads.ours["uniform", size]
        ours = (
            changes * writes[CHANGE, batch].total * WRITES,
            (changes * SUBMISSION_READS + ranks * mine["rank"].units + tops * mine["top 10"].units) * READS,
            changes / batch * INVOCATION,
            (size * player_bytes + changes * activity_bytes) / 1e9 * STORED,
        )
        count_writes = changes * 3 * WRITES
        count_reads = (ranks * reads.published[size][0].units + tops * 0.5) * READS
        count = count_writes + count_reads + size * runner_bytes / 1e9 * STORED
        held = node(memory[size]) if size in memory else None
        redis = (2 * held.hourly * HOURS, f"2 {held.name}") if held else ("-", "-")
        figures.rows.append(
            (f"{size:,}", rate, batch, *ours, sum(ours), count_writes, count_reads, count, *redis)
        )
    return Report([METHOD], [figures])
