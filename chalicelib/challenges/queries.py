"""Who has found most of a challenge's paths, and of those with as many, who was there first.

A challenge's players are ranked by what leaderboards are ranked by (`ranking.py`): progress adds to a ranking
where the challenge says that it is ranked. Nothing here writes.
"""

from chalicelib.api import cursors
from chalicelib.challenges import definitions
from chalicelib.challenges import ranking as placing
from chalicelib.challenges.schemas import Finder, Finders, FindersQuery
from chalicelib.dynamo.table import Table
from chalicelib.errors import NotFound
from chalicelib.ranking import listing, ranking
from chalicelib.settings import Settings


def list_finders(table: Table, challenge: str, query: FindersQuery, settings: Settings) -> Finders:
    """Answer a part of a challenge's players, most paths first, then earliest; none where it is not ranked.

    Costs 0.5 RCU per 4 KB of the definition, and where it is ranked 0.5 around a player, and what
    `listing.read` says: 0.5 for the top, and 3 more for any other part. Raises NotFound, BadCursor.
    """
    is_ranked = definitions.find(table, challenge).ranked
    held = placing.ranking_of(challenge)
    cursor_scope = ("finders", challenge, str(query.place), query.around or "")
    below, around = int(cursors.decode(settings, cursor_scope, query.cursor) or 0), 0
    if query.around and not below:
        around = (table.get(ranking.entry_key(held.name, query.around)) or {}).get("gsi1sk", 0)
        if not around or not is_ranked:
            raise NotFound(f"around: {query.around} is not ranked in {challenge}")
    if not is_ranked:  # any more: who was is kept, for the day when it is again
        return Finders(items=[], cursor=None)
    found = listing.read(table, held, query.limit, below=below, place=query.place, around=around)
    items = []
    for rank, entry in found.items:
        paths, time = placing.standing(entry.merit)
        items.append(Finder(rank=rank, player=entry.player, found=paths, time=time))
    more = str(found.items[-1].entry.number) if found.goes_on else ""
    return Finders(items=items, cursor=cursors.encode(settings, cursor_scope, more))
