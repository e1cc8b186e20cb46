"""Challenges: who found which of a challenge's paths, and how many players found how many.

| item | pk | sk | holds |
|---|---|---|---|
| definition | `CHALLENGE#<challenge>` | `DEFINITION` | `title`, `limit`, …; `answers` (digests), `salt` |
| statistics | `CHALLENGE#<challenge>` | `STATISTICS` | `players`, `paths`; `n1`…`n100`: found so many |
| progress | `CHALLENGE#<c…>#PLAYER#<p…>` | `PROGRESS` | `found`: how many; `latest`: the last; `ranked` |
| found path | `CHALLENGE#<c…>#PLAYER#<p…>` | `PATH#<normalized>` | `path` as submitted, `time` |
| guesses | `CHALLENGE#<c…>#PLAYER#<p…>` | `GUESSES` | `drained`: when no wrong guess weighs; `ttl` |

`latest`, `time` and `drained` are milliseconds since 1970. Found paths are the facts; a player's progress is
how many there are, written in one transaction with each. The statistics are a sum over progress alone, so it
does not matter how many paths a batch of the stream holds. What submissions are judged by is in
challenge_rules.py, submitting in submissions.py.
"""

import secrets
from typing import Any

import msgspec

from chalicelib import times
from chalicelib.aggregates.sums import Amount
from chalicelib.api.router import Response
from chalicelib.challenges import answers
from chalicelib.challenges import ranking as placing
from chalicelib.challenges import rules as challenge_rules
from chalicelib.challenges.rules import Definition
from chalicelib.challenges.schemas import MOST, Challenge, ChallengeBody, ChallengeStatistics, Normalization
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import BadRequest, Busy, Conflict, NotFound
from chalicelib.ranking import ranking

TRIES = 20  # of admins who change one challenge at once


# -- keys ----------------------------------------------------------------------------------------------


def definition_key(challenge: str) -> Key:
    """Key a challenge's definition."""
    return Key(f"CHALLENGE#{challenge}", "DEFINITION")


def statistics_key(challenge: str) -> Key:
    """Key a challenge's statistics."""
    return Key(f"CHALLENGE#{challenge}", "STATISTICS")


def progress_key(challenge: str, player: str) -> Key:
    """Key a player's progress; neither name has a `#` in it."""
    return Key(f"CHALLENGE#{challenge}#PLAYER#{player}", "PROGRESS")


def path_key(challenge: str, player: str, path: str) -> Key:
    """Key a path, normalized, that a player found: the same path is the same item."""
    return Key(progress_key(challenge, player).pk, f"PATH#{path}")


def guesses_key(challenge: str, player: str) -> Key:
    """Key what a player's wrong guesses weigh."""
    return Key(progress_key(challenge, player).pk, "GUESSES")


# -- write ---------------------------------------------------------------------------------------------


def define(table: Table, challenge: str, body: ChallengeBody) -> Response[Challenge]:
    """Make a challenge (201) or replace it (200); what players have found stays found.

    Whoever sends what is there already is answered, and nothing is written. The salt stays while the
    challenge does, for only digests under one salt can be compared.

    Costs 1 RCU per 4 KB and 1 WCU per KB of the definition: 12 answers are half a KB, 1,000 are 13. Raises
    BadRequest, Conflict for another normalization than it was made with (found paths are keyed by it), and
    Busy when others change it again and again.
    """
    opens, closes = _instant("opens", body.opens), _instant("closes", body.closes)
    if opens and closes and times.parse(opens) >= times.parse(closes):
        raise BadRequest("closes: it must be after `opens`")
    new_salt = secrets.token_bytes(answers.SALT)
    digests: dict[tuple[Any, ...], frozenset[bytes]] = {}
    for number in range(TRIES):
        item = table.get(definition_key(challenge), consistent=True) or {}
        kept = challenge_rules.lasting(item)
        rules = body.normalization or kept or Normalization()
        if rules != (kept or rules):
            raise Conflict("normalization: it is fixed when the challenge is made; make another challenge")
        stored = challenge_rules.readable(item)
        salt = stored.salt if stored and stored.cost == answers.COST else new_salt
        way = (salt, *msgspec.structs.astuple(rules))
        if way not in digests:
            try:
                found = answers.digests(body.paths, rules, salt, answers.COST)
            except ValueError as error:
                raise BadRequest(str(error)) from None
            digests[way] = frozenset(found)
        edition = item.get("edition")
        made = Definition(
            *(challenge, body.title, body.limit, rules, salt, answers.COST, digests[way]),
            *(edition + 1 if isinstance(edition, int) else 1, opens, closes, body.ranked),
        )
        if stored and stored == made._replace(edition=stored.edition):
            return Response(_shown(made), status=200)
        changed = {**definition_key(challenge)._asdict(), **challenge_rules.written(made)}
        condition = "edition = :seen" if "edition" in item else "attribute_not_exists(edition)"
        values = {":seen": edition} if "edition" in item else None
        if table.put(changed, condition=condition, values=values):
            return Response(_shown(made), status=200 if item else 201)
        table.back_off(number)
    raise Busy(f"{challenge} is being changed by others: try again in a moment.")


def _instant(field: str, text: str | None) -> str | None:
    """Write an instant as answers carry it. Raises BadRequest naming the field."""
    try:
        return times.to_iso(times.parse(text)) if text is not None else None
    except ValueError as error:
        raise BadRequest(f"{field}: {error}") from None


# -- contribution --------------------------------------------------------------------------------------


def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    """Say what a player's progress adds to the statistics: a player, the paths, one of exactly so many.

    And to the ranking, where it is ranked: first by paths, then by who had them first. A player without a
    path (all withdrawn) is none. Raises ValueError for what is no progress.
    """
    pk, sk = item["pk"], item["sk"]
    if sk != "PROGRESS" or not pk.startswith("CHALLENGE#"):
        return {}
    challenge, parted, player = pk.removeprefix("CHALLENGE#").partition("#PLAYER#")
    found = item.get("found")
    if not parted or not is_count(found):
        raise ValueError(f"found is {found!r}: it must be a whole number from 0 to {MOST}")
    if not found:
        return {}
    key = statistics_key(challenge)
    amounts: dict[tuple[Key, str], Amount] = {
        (key, "players"): 1,
        (key, "paths"): found,
        (key, f"n{found}"): 1,
    }
    if item.get("ranked"):
        score = placing.score(found, item["latest"])
        amounts |= ranking.amounts(placing.ranking_of(challenge), player, score)
    return amounts


def is_count(found: Any) -> bool:
    """Tell whether a value can be how many paths a player has found."""
    return isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= MOST


# -- read ----------------------------------------------------------------------------------------------


def definition(table: Table, challenge: str) -> Definition:
    """Read a challenge for what follows from it; what an admin was answered before holds.

    Costs 1 RCU per 4 KB: up to 300 answers 1, for 1,000 answers 3. Raises NotFound, Busy for a damaged one.
    """
    item = table.get(definition_key(challenge), consistent=True)
    if item is None:
        raise _unknown(challenge)
    return challenge_rules.read(item)


def find(table: Table, challenge: str) -> Challenge:
    """Answer a challenge without its answers. Costs 0.5 RCU per 4 KB. Raises NotFound."""
    item = table.get(definition_key(challenge))
    if item is None:
        raise _unknown(challenge)
    return _shown(challenge_rules.read(item))


def statistics(table: Table, challenge: str, *, consistent: bool = False) -> ChallengeStatistics:
    """Answer how many players found how many paths, in one read of two items, whatever the numbers.

    From 1 to the limit, and beyond it as far as somebody got before it was lowered. Costs 0.5 RCU, and 0.5
    for each 4 KB of the definition, consistent twice that. Raises NotFound.
    """
    asked = definition_key(challenge), statistics_key(challenge)
    there = table.get_many(asked, consistent=consistent)
    if asked[0] not in there:
        raise _unknown(challenge)
    counts = {name: n for name, n in there.get(asked[1], {}).items() if isinstance(n, int)}
    exactly = {n: counts.get(f"n{n}", 0) for n in range(1, MOST + 1)}
    limit = there[asked[0]].get("limit", 1)
    last = max([n for n, players in exactly.items() if players], default=1)
    last = max(last, limit) if is_count(limit) else last
    reached, players = {}, 0
    for n in range(last, 0, -1):
        reached[n] = players = players + exactly[n]
    return ChallengeStatistics(
        players=counts.get("players", 0),
        paths=counts.get("paths", 0),
        reached={str(n): reached[n] for n in range(1, last + 1)},
        exactly={str(n): exactly[n] for n in range(1, last + 1)},
    )


def topic(key: Key) -> str | None:
    """Name the challenge whose statistics lie under a key; None for any other key."""
    challenge = key.pk.removeprefix("CHALLENGE#")
    return challenge if key == statistics_key(challenge) else None


def live(table: Table, challenge: str) -> ChallengeStatistics:
    """Answer the statistics for who listens to them, strongly consistent. Costs 2 RCU."""
    return statistics(table, challenge, consistent=True)


def _shown(seen: Definition) -> Challenge:
    return Challenge(**{name: getattr(seen, name) for name in Challenge.__struct_fields__})


def _unknown(challenge: str) -> NotFound:
    return NotFound(f"challenge: there is none of the name {challenge}")
