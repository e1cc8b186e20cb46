"""Read challenges: statistics, ranked players, and live data.

This module writes nothing. The items belong to `definitions.py`, `progress.py` and
`chalicelib/ranking/ranking.py`. A player's progress adds to a ranking while the challenge is ranked.
"""

from collections.abc import Sequence

from chalicelib import times
from chalicelib.api import cursors, listing
from chalicelib.challenges import definitions, finders, progress
from chalicelib.challenges import ranking as challenge_ranking
from chalicelib.challenges.schemas import (
    MAX_FOUND,
    ChallengeLeader,
    ChallengeLeaders,
    ChallengeLeadersQuery,
    Challenges,
    ChallengeStatistics,
    ListedChallenge,
)
from chalicelib.context import Context
from chalicelib.dynamo.items import Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import NotFound
from chalicelib.ranking import positions
from chalicelib.ranking.positions import Start
from chalicelib.ranking.ranking import collect_nodes, node_key


def get_statistics(table: Table, challenge: str, *, consistent: bool = False) -> ChallengeStatistics:
    """Count the players of a challenge by the number of paths that they have found.

    The counts go from 1 to the limit, or to the most paths of any player if that is more: the limit may have
    been lowered since. None is below zero, also while images of players are in quarantine.

    Cost: 0.5 RCU, and 0.5 per 4 KB of the definition, or twice that if consistent. It does not depend on the
    number of players.
    Raises: NotFound.
    """
    definition_key = definitions.definition_key(challenge)
    statistics_key = finders.statistics_key(challenge)
    items = table.get_many((definition_key, statistics_key), consistent=consistent)
    if definition_key not in items:
        raise definitions.not_found(challenge)
    counters = items.get(statistics_key, {})
    exactly = {n: max(0, counters.get(f"n{n}", 0)) for n in range(1, MAX_FOUND + 1)}
    last = max([n for n, players in exactly.items() if players], default=1)
    last = max(last, items[definition_key]["limit"])
    reached, players = {}, 0
    for n in range(last, 0, -1):
        reached[n] = players = players + exactly[n]
    return ChallengeStatistics(
        players=max(0, counters.get("players", 0)),
        paths=max(0, counters.get("paths", 0)),
        reached={str(n): reached[n] for n in range(1, last + 1)},
        exactly={str(n): exactly[n] for n in range(1, last + 1)},
    )


def list_challenges(context: Context, query: listing.ListQuery) -> Challenges:
    """Return a page of the challenges, newest first.

    Cost: 0.5 RCU per 4 KB of index, and 0.5 RCU per 4 KB of each definition.
    Raises: BadCursor.
    """
    page = listing.read_entries(context, definitions.LIST, query)
    entries = {Key(entry["pk"], entry["sk"]): entry for entry in page.items}
    items = context.table.get_many(entries)
    return Challenges(
        items=[
            ListedChallenge(
                challenge=key.pk.removeprefix("CHALLENGE#"),
                title=items[key]["title"],
                created=times.to_iso(times.from_epoch(entry["gsi1sk"])),
            )
            for key, entry in entries.items()
            if key in items
        ],
        cursor=page.cursor,
    )


def list_leaders(context: Context, challenge: str, query: ChallengeLeadersQuery) -> ChallengeLeaders:
    """Return a part of a challenge's players, most paths first, then earliest.

    A challenge that is not ranked has no leaders. The ranking is kept, and is shown if it is ranked again.

    Cost: 0.5 RCU per 4 KB of the definition. A ranked challenge also costs 0.5 around a player or from a
    place, and what `positions.list_ranked` costs. The names cost 0.5 RCU for each player.
    Raises: NotFound, BadCursor.
    """
    definition_key, progress_key = definitions.definition_key(challenge), None
    cursor_scope = ("finders", challenge, str(query.place), query.around or "")
    cursor, around = cursors.decode(context.settings, cursor_scope, query.cursor), None
    below = [int(part) for part in cursor.split()]
    keys, ranking = [definition_key], challenge_ranking.build_ranking(challenge)
    if query.around and not below:
        keys.append(progress_key := progress.progress_key(challenge, query.around))
    elif query.place > 1 and not below:
        keys += [node_key(ranking, prefix) for prefix in positions.guess_nodes(ranking, query.place)]
    read = context.table.get_many(keys)
    definition = definitions.parse(challenge, read.get(definition_key))
    if progress_key:
        item = read.get(progress_key)
        around = progress.rank(item) if item and definition.ranked else None
        if not around:
            raise NotFound(f"{query.around} is not ranked in {challenge}.")
    if not definition.ranked:
        return ChallengeLeaders(items=[], cursor=None)
    nodes = collect_nodes(ranking, read.values())
    part = positions.list_ranked(
        context.table, ranking, query.limit, Start(below, query.place, nodes, around)
    )
    items = []
    names = _read_names(context.table, challenge, [entry.player for _, entry in part.items])
    for rank, entry in part.items:
        found, time = challenge_ranking.decode_merit(entry.merit)
        name = names.get(entry.player)
        items.append(ChallengeLeader(rank=rank, player=entry.player, name=name, found=found, time=time))
    next_place = f"{part.next} {part.depth}" if part.next else ""
    return ChallengeLeaders(items=items, cursor=cursors.encode(context.settings, cursor_scope, next_place))


def _read_names(table: Table, challenge: str, players: Sequence[str]) -> dict[str, str]:
    """Return the display names of the players that have one. The index of the ranking has no names.

    Cost: 0.5 RCU for each player.
    """
    keys = {progress.progress_key(challenge, player): player for player in players}
    items = table.get_many(keys)
    return {keys[key]: item["name"] for key, item in items.items() if "name" in item}


# -- live ----------------------------------------------------------------------------------------------


def topic(key: Key) -> str | None:
    """Return the name of the challenge whose statistics have this key, or None for any other key."""
    challenge = key.pk.removeprefix("CHALLENGE#")
    return challenge if key == finders.statistics_key(challenge) else None


def live(context: Context, challenge: str) -> ChallengeStatistics:
    """Return the statistics of a challenge, strongly consistent.

    Cost: 2 RCU.
    Raises: NotFound.
    """
    return get_statistics(context.table, challenge, consistent=True)
