"""What must hold after a history, counted by hand: from the facts and the items, not by the code that counts.

Each check yields what is not as it should be, as text; its name stands before it.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import app
from bench import rank_reckoning
from bench.admins import ODD, PLANTED
from bench.histories import History
from bench.plans import LIMIT, PATHS, PRODUCTS
from chalicelib import challenges, comments, quarantine
from chalicelib.items import Item, Key, unpack
from ops import recount

Check = Callable[[History], Iterator[str]]


def sums(history: History) -> Iterator[str]:
    """Compare every aggregate with a recount of the items, the expired views among them."""
    items = [item for item in history.items if PLANTED not in item]
    yield from map(str, recount.drift(app.CONTRIBUTIONS, [*items, *history.expired]).items())


def views(history: History) -> Iterator[str]:
    """Count events and visitors by hand; what was accepted is there, and nothing that was not sent."""
    facts = history.facts
    events: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for item in (*history.items, *history.expired):
        if item["pk"].startswith("URL#") and item["sk"].startswith("T#") and PLANTED not in item:
            time, _, client = item["sk"].removeprefix("T#").partition("#CID#")
            events[item["pk"].removeprefix("URL#")].append((time, client))
    there = {(url, *event) for url, some in events.items() for event in some}
    yield from (f"accepted and lost: {one}" for one in facts.counted - there)
    yield from (f"never sent: {one}" for one in there - facts.viewed)
    stored = {Key(item["pk"], item["sk"]): item for item in history.items}
    for url, some in events.items():
        page = stored.get(Key(f"URL#{url}", "STATISTICS"), {})
        visits = {(time[:10], client) for time, client in some}
        if (page.get("gsi1sk"), page.get("uniques")) != (len(some), len(visits)):
            yield f"{url} has {page}, not {len(some)} views of {len(visits)}"
        for day in {time[:10] for time, _ in some}:
            of_day = stored.get(Key(f"URL#{url}", f"DAY#{day}"), {})
            count = sum(time.startswith(day) for time, _ in some)
            uniques = len({client for time, client in some if time.startswith(day)})
            if (of_day.get("views"), of_day.get("uniques")) != (count, uniques):
                yield f"{url} on {day} has {of_day}, not {count} views of {uniques}"


def scores(history: History) -> Iterator[str]:
    """Add up each player's submissions by hand: each id counts once, and what was taken is there."""
    facts = history.facts
    activities: dict[tuple[str, str], dict[str, Item]] = defaultdict(dict)
    held: dict[tuple[str, str, int], Item] = {}
    for item in history.items:
        player = item["pk"].removeprefix("PLAYER#")
        if item["sk"].startswith("ACTIVITY#"):
            _, board, id = item["sk"].split("#")
            activities[board, player][id] = item
        elif item["pk"].startswith("PLAYER#") and item["sk"].startswith("BOARD#") and PLANTED not in item:
            _, board, season = item["sk"].split("#")
            held[board, player, int(season)] = item
    ids = {(board, player, id) for (board, player), some in activities.items() for id in some}
    yield from (f"taken and lost: {one}" for one in facts.scored - ids)
    yield from (f"refused, and there: {one}" for one in facts.off_range & ids)
    yield from (f"never sent: {one}" for one in ids if one not in facts.sent)
    seasons = {(*who, int(one["season"])) for who, some in activities.items() for one in some.values()}
    for board, player, season in seasons | held.keys():
        if player in facts.removed:
            continue
        some = [one for one in activities[board, player].values() if one["season"] == season]
        score = held.get((board, player, season), {}).get("score")
        if not some or score != _worth(board, some):
            yield f"{player} has {score} on {board} in season {season} of {[one['value'] for one in some]}"


def _worth(board: str, some: list[Item]) -> Decimal:
    """Compute a score from its submissions, as the board says."""
    values = [Decimal(one["value"]) for one in some]
    if board == "sum":
        return sum(values, Decimal())
    return min(values) if board == "best" else max((one["time"], Decimal(one["value"])) for one in some)[1]


def hunt(history: History) -> Iterator[str]:
    """Count the challenge's players and paths by hand; nobody is past the limit, and nothing is lost."""
    facts = history.facts
    paths: dict[str, set[str]] = defaultdict(set)
    progress: dict[str, Any] = {}
    for item in history.items:
        player = item["pk"].partition("#PLAYER#")[2]
        if item["pk"].startswith("CHALLENGE#hunt#PLAYER#") and PLANTED not in item:
            if item["sk"].startswith("PATH#"):
                paths[player].add(item["sk"].removeprefix("PATH#"))
            elif item["sk"] == "PROGRESS":
                progress[player] = item["found"]
    there = {(player, path) for player, some in paths.items() for path in some}
    touched = {one for one in facts.found | facts.past_limit if one[0] in facts.removed}
    yield from (f"found and lost: {one}" for one in facts.found - there - touched)
    yield from (f"past the limit, and there: {one}" for one in facts.past_limit & there - touched)
    yield from (f"no path at all: {one}" for one in there if one[1] not in PATHS)
    counts = {player: len(some) for player, some in paths.items()}
    if progress != counts or max(counts.values(), default=0) > LIMIT:
        yield f"progress is {progress}, of paths there are {counts}"
    key = challenges.statistics_key("hunt")
    stored = next((item for item in history.items if (item["pk"], item["sk"]) == key), {})
    exactly = Counter(counts.values())
    wanted = {"players": len(counts), "paths": len(there)}
    wanted |= {f"n{n}": exactly[n] for n in range(1, LIMIT + 1)}
    if any(stored.get(name, 0) != count for name, count in wanted.items()):
        yield f"statistics are {stored}, not {wanted}"


def reviews(history: History) -> Iterator[str]:
    """Count ratings by hand; each author has one comment, and it is what was last answered."""
    facts = history.facts
    there: dict[tuple[str, str], list[Item]] = defaultdict(list)
    places: dict[tuple[str, str], str] = {}
    for item in history.items:
        product = item["pk"].removeprefix("PRODUCT#")
        if item["pk"].startswith("PRODUCT#") and PLANTED not in item and product != ODD:
            if item["sk"].startswith((comments.COMMENT, comments.HIDDEN)):
                there[product, item["author"]].append(item)
            elif item["sk"].startswith("AUTHOR#"):
                places[product, item["sk"].removeprefix("AUTHOR#")] = item["id"]
    for key, some in there.items():
        if [comments.ident(one) for one in some] != [places.get(key)]:
            yield f"{key} has {[one['sk'] for one in some]}, and the author's item names {places.get(key)}"
    yield from (f"{key} names a comment that is not there" for key in places.keys() - there - facts.hidden)
    for key, known in facts.comments.items():
        if known is not None:
            is_ = [{name: one[name] for name in ("rating", "language", "text")} for one in there.get(key, [])]
            if is_ != ([known] if known else []):
                yield f"{key} was answered {known}, and there is {is_}"
    for product in PRODUCTS:
        for language in ("", "en", "de"):
            seen = [
                one["rating"]
                for (of, _), some in there.items()
                for one in some
                if of == product and one["sk"].startswith(comments.COMMENT)
                if language in ("", one["language"])
            ]
            at = comments.statistics_key(product, language)
            stored = next((item for item in history.items if (item["pk"], item["sk"]) == at), {})
            said = [stored.get(f"count_{rating}", 0) for rating in range(1, 6)]
            if said != [seen.count(r) for r in range(1, 6)] or stored.get("count_total", 0) != len(seen):
                yield f"{product} {language or 'in all'} counts {said}, and there are {sorted(seen)}"


def poison(history: History) -> Iterator[str]:
    """Compare the quarantine with the images that were planted, each once for each side of each record."""
    wanted = set()
    for record in history.stream.records:
        body = record["dynamodb"]
        id = hashlib.blake2b(record["eventID"].encode(), digest_size=12).digest()
        for side, sign in (("OldImage", -1), ("NewImage", 1)):
            if PLANTED in body.get(side, {}):
                second = int(body["ApproximateCreationDateTime"])
                wanted.add(quarantine.entry_key(id, second, sign))
    kept = {Key(item["pk"], item["sk"]) for item in history.items if item["pk"].startswith("QUARANTINE#")}
    yield from (f"not in quarantine: {one}" for one in wanted - kept)
    yield from (f"in quarantine, and not planted: {one}" for one in kept - wanted)
    for item in history.items:
        if item["pk"].startswith("QUARANTINE#") and PLANTED not in unpack(quarantine.image(item)):
            yield f"an image that was not planted: {item}"


def handlers(history: History) -> Iterator[str]:
    """No handler raises what it must not, nobody is answered what cannot be, no message given up in vain."""
    yield from history.world.surprises
    yield from history.facts.wrong
    if sorted(history.queue.aside) != sorted(history.admin.messages):
        yield f"put aside are {history.queue.aside}, planted were {history.admin.messages}"


CHECKS: dict[str, Check] = {
    "handlers": handlers,
    "views": views,
    "scores": scores,
    "ranks": rank_reckoning.ranks,
    "challenge": hunt,
    "comments": reviews,
    "quarantine": poison,
    "recount": sums,
}
