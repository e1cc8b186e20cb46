"""Invariants of views, scores, the challenge, comments, the quarantine and the handlers."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import app
from chalicelib.aggregates import quarantine
from chalicelib.challenges import progress as challenge_progress
from chalicelib.comments import comments as comments_of
from chalicelib.dynamo.items import Item, Key, unpack
from ops.maintenance import audit
from proof.clients import ODD, PLANTED
from proof.scenario import LIMIT, PATHS, PRODUCTS

if TYPE_CHECKING:
    from proof.history import History


def recounts(history: History) -> Iterator[str]:
    """Compare every aggregate with a recount of the items, the expired views included."""
    items = [item for item in history.items if PLANTED not in item]
    yield from map(str, audit.find_drift(app.CONTRIBUTIONS, [*items, *history.expired]).items())


def views(history: History) -> Iterator[str]:
    """Count events and visitors. Accepted views are stored, and no others."""
    known = history.known
    events: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for item in (*history.items, *history.expired):
        if item["pk"].startswith("URL#") and item["sk"].startswith("T#") and PLANTED not in item:
            time, _, client = item["sk"].removeprefix("T#").partition("#CID#")
            events[item["pk"].removeprefix("URL#")].append((time, client))
    stored = {(url, *event) for url, some in events.items() for event in some}
    yield from (f"accepted and lost: {one}" for one in known.views_accepted - stored)
    yield from (f"never sent: {one}" for one in stored - known.views_sent)
    items = _by_key(history)
    for url, some in events.items():
        page = items.get(Key(f"URL#{url}", "STATISTICS"), {})
        visits = {(time[:10], client) for time, client in some}
        if (page.get("gsi1sk"), page.get("uniques")) != (len(some), len(visits)):
            yield f"{url} has {page}, not {len(some)} views of {len(visits)}"
        for day in {time[:10] for time, _ in some}:
            of_day = items.get(Key(f"URL#{url}", f"DAY#{day}"), {})
            count = sum(time.startswith(day) for time, _ in some)
            uniques = len({client for time, client in some if time.startswith(day)})
            if (of_day.get("views"), of_day.get("uniques")) != (count, uniques):
                yield f"{url} on {day} has {of_day}, not {count} views of {uniques}"


def scores(history: History) -> Iterator[str]:
    """Add up each player's submissions. Each id counts once, and accepted submissions are stored."""
    known = history.known
    activities: dict[tuple[str, str], dict[str, Item]] = defaultdict(dict)
    stored: dict[tuple[str, str, int], Item] = {}
    for item in history.items:
        player = item["pk"].removeprefix("PLAYER#")
        if item["sk"].startswith("ACTIVITY#"):
            _, board, id = item["sk"].split("#")
            activities[board, player][id] = item
        elif item["pk"].startswith("PLAYER#") and item["sk"].startswith("BOARD#") and PLANTED not in item:
            _, board, season = item["sk"].split("#")
            stored[board, player, int(season)] = item
    ids = {(board, player, id) for (board, player), some in activities.items() for id in some}
    yield from (f"accepted and lost: {one}" for one in known.scores_accepted - ids)
    yield from (f"refused and stored: {one}" for one in known.scores_refused & ids)
    yield from (f"never sent: {one}" for one in ids if one not in known.scores_sent)
    seasons = {(*who, int(one["season"])) for who, some in activities.items() for one in some.values()}
    for board, player, season in seasons | stored.keys():
        if player in known.moderated_players:
            continue
        some = [one for one in activities[board, player].values() if one["season"] == season]
        score = stored.get((board, player, season), {}).get("score")
        if not some or score != _score(board, some):
            yield f"{player} has {score} on {board} in season {season} of {[one['value'] for one in some]}"


def _score(board: str, some: list[Item]) -> Decimal:
    """Compute a score from its submissions, as the board's operator does."""
    values = [Decimal(one["value"]) for one in some]
    if board == "sum":
        return sum(values, Decimal())
    return min(values) if board == "best" else max((one["time"], Decimal(one["value"])) for one in some)[1]


def challenge(history: History) -> Iterator[str]:
    """Count the challenge's players and paths. No player is past the limit, and no path is lost."""
    known = history.known
    paths: dict[str, set[str]] = defaultdict(set)
    progress: dict[str, Any] = {}
    for item in history.items:
        player = item["pk"].partition("#PLAYER#")[2]
        if item["pk"].startswith("CHALLENGE#hunt#PLAYER#") and PLANTED not in item:
            if item["sk"].startswith("PATH#"):
                paths[player].add(item["sk"].removeprefix("PATH#"))
            elif item["sk"] == "PROGRESS":
                progress[player] = item["found"]
    stored = {(player, path) for player, some in paths.items() for path in some}
    moderated = {
        one for one in known.paths_accepted | known.paths_refused if one[0] in known.moderated_players
    }
    yield from (f"accepted and lost: {one}" for one in known.paths_accepted - stored - moderated)
    yield from (f"past the limit and stored: {one}" for one in known.paths_refused & stored - moderated)
    yield from (f"not a path of the challenge: {one}" for one in stored if one[1] not in PATHS)
    counts = {player: len(some) for player, some in paths.items()}
    if progress != counts or max(counts.values(), default=0) > LIMIT:
        yield f"progress is {progress}, and the stored paths are {counts}"
    statistics = _by_key(history).get(challenge_progress.statistics_key("hunt"), {})
    exactly = Counter(counts.values())
    expected = {"players": len(counts), "paths": len(stored)}
    expected |= {f"n{n}": exactly[n] for n in range(1, LIMIT + 1)}
    if any(statistics.get(name, 0) != count for name, count in expected.items()):
        yield f"statistics are {statistics}, not {expected}"


def comments(history: History) -> Iterator[str]:
    """Count ratings. Each author has one comment, and it is the last one acknowledged."""
    known = history.known
    stored: dict[tuple[str, str], list[Item]] = defaultdict(list)
    authors: dict[tuple[str, str], str] = {}
    for item in history.items:
        product = item["pk"].removeprefix("PRODUCT#")
        if item["pk"].startswith("PRODUCT#") and PLANTED not in item and product != ODD:
            if item["sk"].startswith((comments_of.COMMENT, comments_of.HIDDEN)):
                stored[product, item["author"]].append(item)
            elif item["sk"].startswith("AUTHOR#"):
                authors[product, item["sk"].removeprefix("AUTHOR#")] = item["id"]
    for key, some in stored.items():
        if [comments_of.id_of(one) for one in some] != [authors.get(key)]:
            yield f"{key} has {[one['sk'] for one in some]}, and the author's item names {authors.get(key)}"
    missing = authors.keys() - stored - known.moderated_comments
    yield from (f"the author's item of {key} names a comment that is not stored" for key in missing)
    for key, expected in known.comments.items():
        if expected is not None:
            found = [
                {name: one[name] for name in ("rating", "language", "text")} for one in stored.get(key, [])
            ]
            if found != ([expected] if expected else []):
                yield f"{key} was acknowledged as {expected}, and {found} is stored"
    items = _by_key(history)
    for product in PRODUCTS:
        for language in ("", "en", "de"):
            ratings = [
                one["rating"]
                for (of, _), some in stored.items()
                for one in some
                if of == product and one["sk"].startswith(comments_of.COMMENT)
                if language in ("", one["language"])
            ]
            statistics = items.get(comments_of.statistics_key(product, language), {})
            counts = [statistics.get(f"count_{rating}", 0) for rating in range(1, 6)]
            right = [ratings.count(rating) for rating in range(1, 6)]
            if counts != right or statistics.get("count_total", 0) != len(ratings):
                yield f"{product} {language or 'in all'} counts {counts}, not {right}"


def quarantined(history: History) -> Iterator[str]:
    """Compare the quarantine with the planted images, one entry for each side of each record."""
    expected = set()
    for record in history.stream.records:
        body = record["dynamodb"]
        id = hashlib.blake2b(record["eventID"].encode(), digest_size=12).digest()
        for side, sign in (("OldImage", -1), ("NewImage", 1)):
            if PLANTED in body.get(side, {}):
                second = int(body["ApproximateCreationDateTime"])
                expected.add(quarantine.item_key(id, second, sign))
    items = {key: item for key, item in _by_key(history).items() if key.pk.startswith("QUARANTINE#")}
    yield from (f"not in quarantine: {one}" for one in expected - items.keys())
    yield from (f"in quarantine, and not planted: {one}" for one in items.keys() - expected)
    for item in items.values():
        if PLANTED not in unpack(quarantine.read_image(item)):
            yield f"an image that was not planted: {item}"


def handlers(history: History) -> Iterator[str]:
    """Report unexpected errors and responses, and good messages among the dead letters."""
    yield from history.world.unexpected
    yield from history.known.errors
    if sorted(history.queue.dead_letters) != sorted(history.admin.messages):
        yield f"dead letters are {history.queue.dead_letters}, not {history.admin.messages}"


def _by_key(history: History) -> dict[Key, Item]:
    return {Key(item["pk"], item["sk"]): item for item in history.items}
