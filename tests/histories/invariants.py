"""The invariants of a history. Each yields what violates it, as text.

They are counted from the items and from the clients' knowledge, and not by the code that keeps the sums.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints
from zoneinfo import ZoneInfo

import app
from chalicelib import times
from chalicelib.aggregates import quarantine, tags
from chalicelib.api.auth import Caller
from chalicelib.challenges import finders as challenge_finders
from chalicelib.challenges import progress as challenge_progress
from chalicelib.challenges import ranking as placing
from chalicelib.chat import connections, waiting_pool
from chalicelib.chat.matching import CONNECTED, DISCONNECTED
from chalicelib.comments import comments as comments_of
from chalicelib.comments import counters as counters_of
from chalicelib.comments.schemas import CommentsQuery
from chalicelib.dynamo.items import Item, Key, unpack
from chalicelib.errors import Forbidden, NotFound
from chalicelib.leaderboards import boards
from chalicelib.leaderboards import scores as scores_of
from chalicelib.ranking import ranking, tree
from chalicelib.ranking.ranking import Ranking
from chalicelib.views import traits
from chalicelib.views.sites import derive_listing
from ops.maintenance import audit
from tests.histories.clients import ODD, PLANTED, SENDER, call
from tests.histories.scenario import BLOCKED, BOARDS, LIMIT, PATHS, PRODUCTS, SERVER, TALK, ZONE, ZONED
from tests.histories.world import BEGIN
from tests.support.contexts import new_context

if TYPE_CHECKING:
    from tests.histories.history import History

STRANGER = Caller("stranger")
PLAYER_OF_HUNT = "CHALLENGE#hunt#PLAYER#"
SITE_SUM = re.compile("views|visitors|events|direct|(co|de|br|os|la):.+|[cv][0-9]{2}")


def _find(history: History, pk: str, sk: str) -> Iterator[tuple[str, str, Item]]:
    """Yield the items whose keys begin like this, each with the rests of its keys.

    The expired views are included. The planted items are not, nor are those that the admin has corrected.
    """
    for item in (*history.items, *history.expired):
        is_odd = PLANTED in item or item["pk"] == f"PRODUCT#{ODD}"
        if item["pk"].startswith(pk) and item["sk"].startswith(sk) and not is_odd:
            yield item["pk"].removeprefix(pk), item["sk"].removeprefix(sk), item


def _by_key(history: History) -> dict[Key, Item]:
    return {Key(item["pk"], item["sk"]): item for item in history.items}


# -- sums: each aggregate is counted again from the items and the clients' knowledge


def recounts(history: History) -> Iterator[str]:
    """Compare every aggregate with a recount of the items, the expired views included."""
    items = [item for item in history.items if PLANTED not in item]
    for (key, name), pair in audit.find_drift(app.CONTRIBUTIONS, [*items, *history.expired]).items():
        yield str(((key, name), pair))


def listings(history: History) -> Iterator[str]:
    """Check that every index key that follows from sums is the right one."""
    for key, item in _by_key(history).items():
        update = derive_listing(key, item) or comments_of.derive_rank(key, item)
        if PLANTED not in item and update:
            yield f"{item} should be updated with {update}"


def views(history: History) -> Iterator[str]:
    """Count events and visitors. Accepted events are stored with their visitors, and no others.

    A request that failed and was not repeated may have stored an event without its visitor.
    """
    known, items = history.known, _by_key(history)
    names = _senders(history)
    stored = {(url, time, names.get(client, client), goal) for url, time, client, goal, _ in _events(history)}
    found = _find(history, "URL#", "VISITOR#")
    visits = {(url, *rest.split("#", 1)) for url, rest, _ in found}
    named = {(url, day, names.get(client, client)) for url, day, client in visits}
    for url, time, client, goal in known.views_accepted:
        if not goal and (url, _day(url, time), client) not in named:
            yield f"accepted and without a visitor: {(url, time, client)}"
    yield from (f"accepted and lost: {event}" for event in known.views_accepted - stored)
    yield from (f"never sent: {event}" for event in stored - known.views_sent)
    events = [(url, _day(url, time), client) for url, time, client, goal in stored if not goal]
    yield from (f"never sent: the visitor {visit}" for visit in named - {*events})
    for url in {url for url, *_ in events}:
        page = items.get(Key(f"URL#{url}", "STATISTICS"), {})
        checked = [("", page, page.get("views", 0))]
        for day in {day for page, day, _ in events if page == url}:
            item = items.get(Key(f"URL#{url}", f"DAY#{day}"), {})
            checked.append((day, item, item.get("views", 0)))
        for day, item, count in checked:
            right = [
                sum(page == url and at.startswith(day) for page, at, _ in rows) for rows in (events, visits)
            ]
            if [count, item.get("visitors") or 0] != right:
                yield f"{url} {day} has {item}, not {right[0]} views of {right[1]}"


def senders(history: History) -> Iterator[str]:
    """Check that a sender without an id is one visitor of a site on a day, and nobody else is."""
    clients: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for url, time, client, _, item in _events(history):
        if item.get("campaign", "").startswith(SENDER):
            clients[url.split("/")[2], _day(url, time), item["campaign"]].add(client)
    for sender, found in clients.items():
        if len(found) > 1:
            yield f"{sender} has the digests {found}"
    each = [client for found in clients.values() for client in found]
    yield from (f"{client} is several visitors" for client, n in Counter(each).items() if n > 1)


def _events(history: History) -> Iterator[tuple[str, str, str, str, Item]]:
    """Yield the address, the instant, the client, the goal if there is one, and the item of each event."""
    for prefix in ("T#", "GOAL#"):
        for url, rest, item in _find(history, "URL#", prefix):
            time, _, client = rest.partition("#CID#")
            yield url, time, *client.partition(" ")[::2], item


def _senders(history: History) -> dict[str, str]:
    """Return the sender's name of each digest that a visitor without an id has."""
    return {
        client: item["campaign"]
        for _, _, client, _, item in _events(history)
        if item.get("campaign", "").startswith(SENDER)
    }


def _local(url: str, time: str) -> datetime:
    """Return the instant of an event in the zone of its site."""
    return times.from_sort_key(time).astimezone(ZoneInfo(ZONE if url.split("/")[2] == ZONED else "UTC"))


def _day(url: str, time: str) -> str:
    return _local(url, time).date().isoformat()


def sites(history: History) -> Iterator[str]:
    """Count the views, visitors, sources and goals of each site and day from the stored items."""
    right: Counter[tuple[str, str, str]] = Counter()  # by partition key, sort key and attribute
    visits: set[tuple[str, str, int, str]] = set()  # of a site or a goal, on a day, in an hour, by a client
    views: set[tuple[str, str, int, str]] = set()
    names = _senders(history)
    for rest, day, item in _find(history, "SITE#", "VISITOR#"):
        owner, client = rest.split("#CLIENT#")
        visits |= {(owner, day, int(hour), names.get(client, client)) for hour in item["hours"]}
        counted = ("visitors", *(f"c{hour:02}" for hour in item["hours"]))
        right.update((f"SITE#{owner}", f"DAY#{day}", name) for name in counted)
    for url, time, client, goal, item in _events(history):
        host, day, hour = url.split("/")[2], _day(url, time), _local(url, time).hour
        of_goal = f"{host}#GOAL#{goal.replace('#', '%23')}"
        if (url, time, names.get(client, client), goal) in history.known.views_accepted:
            views.add((of_goal if goal else host, day, hour, names.get(client, client)))
        if goal:
            right.update((f"SITE#{owner}", f"DAY#{day}", "events") for owner in (host, of_goal))
            continue
        right[f"SITE#{host}", "TOTAL", "views"] += 1
        right.update((f"SITE#{host}", f"DAY#{day}", name) for name in ("views", f"v{hour:02}"))
        for kind in {"referrer", "campaign"} & item.keys():
            right[f"SITE#{host}#{kind.upper()}#{item[kind]}", f"DAY#{day}", "views"] += 1
        if "host" in item:
            right[f"SITE#{host}#HOST#{item['host']}#{item['referrer']}", f"DAY#{day}", "views"] += 1
        known = traits.from_text(item["traits"]) if "traits" in item else traits.NONE
        words = [traits.attribute(name, word) for name, word in known._asdict().items() if word]
        right.update((f"SITE#{host}", f"DAY#{day}", name) for name in words)
        right[f"SITE#{host}", f"DAY#{day}", "direct"] += "direct" in item
    yield from (f"accepted and without a visitor of the site or goal: {view}" for view in views - visits)
    stored = {
        (item["pk"], item["sk"], name): value
        for _, sk, item in _find(history, "SITE#", "")
        for name, value in item.items()
        if SITE_SUM.fullmatch(name) and value and not sk.startswith("VISITOR#")
    }
    stored |= {(f"SITE#{host}", "TOTAL", "views"): views for host, views in _totals(history).items()}
    for at in stored.keys() | right.keys():
        if stored.get(at, 0) != right[at]:
            yield f"{at} is {stored.get(at, 0)}, not {right[at]}"


def _totals(history: History) -> dict[str, int]:
    """Return the views of each site: its total, and those of its newest day."""
    items = _by_key(history)
    totals = {host: item for host, _, item in _find(history, "SITE#", "TOTAL")}
    return {
        host: int(total["gsi1sk"] + items[Key(f"SITE#{host}", total["newest"])]["views"])
        for host, total in totals.items()
    }


def scores(history: History) -> Iterator[str]:
    """Add up each player's submissions. Each id counts once, and accepted submissions are stored."""
    known = history.known
    ids: set[tuple[str, str, str]] = set()
    submitted: dict[tuple[str, str, str], list[Item]] = defaultdict(list)  # by board, player and season
    for player, rest, item in _find(history, "PLAYER#", "ACTIVITY#"):
        board, id = rest.split("#")
        ids.add((board, player, id))
        submitted[board, player, str(item["season"])].append(item)
    stored: dict[tuple[str, str, str], Item] = {}
    for player, rest, item in _find(history, "PLAYER#", "BOARD#"):
        board, season = rest.split("#")
        stored[board, player, season] = item
    removed = _list_removed(history)
    yield from (f"accepted and lost: {id}" for id in known.scores_accepted - ids)
    yield from (f"refused and stored: {id}" for id in known.scores_refused & ids - known.scores_accepted)
    yield from (f"never sent: {id}" for id in ids - known.scores_sent.keys())
    for board, player, season in submitted.keys() | stored.keys():
        item = stored.get((board, player, season), {})
        score, since = item.get("score"), item.get("since", 0)  # what came before a removal is void
        scores = [activity for activity in submitted[board, player, season] if activity["version"] > since]
        void = removed[f"PLAYER#{player}", f"BOARD#{board}#{season}"] if board != "sum" else ()
        certain = [activity for activity in scores if activity["sk"] not in void]
        unsure = [activity for activity in scores if activity["sk"] in void]
        chosen = (part for size in range(len(unsure) + 1) for part in combinations(unsure, size))
        if all(score not in _possible_scores(board, [*certain, *part]) for part in chosen):
            values = [item["value"] for item in scores]
            yield f"{player} has {score} on {board} in season {season} of {values}"
        elif board == "first" and scores and not unsure:
            time = min(other["time"] for other in scores if other["value"] == score)
            counting = [other for other in scores if (other["value"], other["time"]) == (score, time)]
            if item["time"] != time or item.get("metadata") not in [o.get("metadata") for o in counting]:
                yield f"{player} has {item} in season {season}, and {counting} count"


def seasons(history: History) -> Iterator[str]:
    """Check that seasons with scores are stored, and that the recurring board's end at its border."""
    known = {
        (key.pk.removeprefix("BOARD#"), int(key.sk.removeprefix("SEASON#"))): item["ended"]
        for key, item in _by_key(history).items()
        if key.sk.startswith("SEASON#")
    }
    latest = {name: boards.parse(_by_key(history)[boards.definition_key(name)]).season for name in BOARDS}
    for _, rest, item in _find(history, "PLAYER#", "ACTIVITY#"):
        season = rest.split("#")[0], int(item["season"])
        if season not in known and season[1] != latest[season[0]]:
            yield f"{season} has {item} and is not stored"
    if (ended := known.get(("first", 1))) and times.parse(ended) > BEGIN:
        yield f"a season that ends at {BEGIN} ended at {ended}"


def _list_removed(history: History) -> dict[tuple[str, str], set[str]]:
    """Return, for each score, the keys of the activities that were there before its player was last removed.

    One that changed nothing left no trace in the score. If the clock of the removal is behind, the version of
    such an activity is the later one, and the stream may still apply it.
    """
    stored: dict[str, set[str]] = defaultdict(set)
    removed: dict[tuple[str, str], set[str]] = defaultdict(set)
    for pk, sk, old, new in _list_changes(history):
        if sk.startswith("ACTIVITY#"):
            stored[pk].add(sk)
        elif sk.startswith("BOARD#") and new.get("since") != old.get("since"):
            removed[pk, sk] = set(stored[pk])
    return removed


def _possible_scores(board: str, activities: list[Item]) -> set[Any]:
    """Return what a player may have after some submissions, by the operator of the board.

    Of several values with the latest time on a board of `set`, the last to arrive counts.
    """
    values = [Decimal(item["value"]) for item in activities]
    latest = max((item["time"] for item in activities), default=None)
    if not values:
        return {None}
    return {
        "sum": {sum(values, Decimal())},
        "best": {min(values)},
        "first": {max(values)},
        "latest": {Decimal(item["value"]) for item in activities if item["time"] == latest},
    }[board]


def challenge(history: History) -> Iterator[str]:
    """Count the challenge's players and paths. No player is past the limit, and no path is lost."""
    known = history.known
    stored = {(player, path) for player, path, _ in _find(history, PLAYER_OF_HUNT, "PATH#")}
    found = {player: item["found"] for player, _, item in _find(history, PLAYER_OF_HUNT, "PROGRESS")}
    progress = {player: count for player, count in found.items() if count}  # 0: there are wrong guesses alone
    accepted, refused = (
        {path for path in paths if path[0] not in known.moderated_players}
        for paths in (known.paths_accepted, known.paths_refused - known.paths_accepted)
    )
    yield from (f"accepted and lost: {path}" for path in accepted - stored)
    yield from (f"past the limit and stored: {path}" for path in refused & stored)
    yield from (f"not a path of the challenge: {path}" for path in stored if path[1] not in PATHS)
    counts = Counter(player for player, _ in stored)
    if progress != counts or max(counts.values(), default=0) > LIMIT:
        yield f"progress is {progress}, and the stored paths are {counts}"
    statistics = _by_key(history).get(challenge_finders.statistics_key("hunt"), {})
    exactly = Counter(counts.values())
    expected = {"players": len(counts), "paths": len(stored)}
    expected |= {f"n{n}": exactly[n] for n in range(1, LIMIT + 1)}
    if any(statistics.get(name, 0) != count for name, count in expected.items()):
        yield f"statistics are {statistics}, not {expected}"
    yield from _finders(history)


def _finders(history: History) -> Iterator[str]:
    """Count the finders of each path. Its first has the earliest time, unless one was withdrawn."""
    paths = {(path, player): item["time"] for player, path, item in _find(history, PLAYER_OF_HUNT, "PATH#")}
    for player in {player for _, player in paths}:
        place = {"challenge": "hunt", "player": player}
        for item in call("get_challenge_player", path=place, caller=Caller(player))().items:
            times_of = {other: time for (path, other), time in paths.items() if path == item.path}
            if item.players != len(times_of):
                yield f"{item} of {player} has {len(times_of)} finders"
            own = times_of.pop(player)
            if item.first and any(time < own for time in times_of.values()):
                yield f"{player} of {own} is not the first finder of {item}: {times_of}"
            is_first = all(own < time for time in times_of.values())
            if is_first and not item.first and not history.known.moderated_players:
                yield f"{player} of {own} is the first finder of {item}: {times_of}"


def comments(history: History) -> Iterator[str]:
    """Count ratings. Each author has one comment, and it is the last one acknowledged."""
    known = history.known
    stored: dict[tuple[str, str], list[Item]] = defaultdict(list)
    for prefix in (comments_of.COMMENT, comments_of.HIDDEN):
        for product, _, item in _find(history, "PRODUCT#", prefix):
            if product != TALK:
                stored[product, item["author"]].append(item)
    of_authors = _find(history, "PRODUCT#", "AUTHOR#")
    authors = {(product, author): item["id"] for product, author, item in of_authors}
    for key, found in stored.items():
        if [comments_of.id_of(item) for item in found] != [authors.get(key)]:
            sks = [item["sk"] for item in found]
            yield f"{key} has {sks}, and the author's item names {authors.get(key)}"
    missing = authors.keys() - stored - known.moderated_comments
    yield from (f"the author's item of {key} names a comment that is not stored" for key in missing)
    for key, expected in known.comments.items():
        names = ("rating", "language", "text")
        found = [{name: item[name] for name in names} for item in stored.get(key, [])]
        if expected is not None and found != ([expected] if expected else []):
            yield f"{key} was acknowledged as {expected}, and {found} is stored"
    items, shown = _by_key(history), [*_find(history, "PRODUCT#", comments_of.COMMENT)]
    for product in PRODUCTS:
        for language in ("", "en", "de"):
            own = [
                comment
                for commented, _, comment in shown
                if commented == product and language in ("", comment["language"])
            ]
            statistics = items.get(comments_of.statistics_key(product, language), {})
            counts = [statistics.get(f"count_{rating}", 0) for rating in range(1, 6)]
            right = [sum(comment["rating"] == rating for comment in own) for rating in range(1, 6)]
            if counts != right or statistics.get("count_total", 0) != len(own):
                yield f"{product} {language or 'in all'} counts {counts}, not {right}"


def discussions(history: History) -> Iterator[str]:
    """Count the comments without ratings. Each acknowledged one is stored, and once if it has a key."""
    known = history.known
    shown = [item for product, _, item in _find(history, "PRODUCT#", comments_of.COMMENT) if product == TALK]
    hidden = [item for product, _, item in _find(history, "PRODUCT#", comments_of.HIDDEN) if product == TALK]
    texts = Counter(item["text"] for item in (*shown, *hidden))
    yield from (
        f"said and lost: {text}" for text, is_done in known.said.items() if is_done and not texts[text]
    )
    yield from (f"said twice: {text}" for text in known.said_with_key if texts[text] > 1)
    yield from (f"nobody has said {text}" for text in texts.keys() - known.said.keys())
    statistics = _by_key(history).get(comments_of.statistics_key(TALK), {})
    counts = {name: n for name, n in statistics.items() if name.startswith("count_") and n}
    if counts != ({"count_total": len(shown)} if shown else {}):
        yield f"the discussion counts {counts}, not {len(shown)} comments without ratings"
    yield from (f"{item} has a rating" for item in (*shown, *hidden) if "rating" in item)


def orders(history: History) -> Iterator[str]:
    """Read every list of comments in every order, and compare it with the stored comments."""
    stored: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    items = _by_key(history)
    for product, id, item in _find(history, "PRODUCT#", comments_of.COMMENT):
        votes = items.get(counters_of.counters_key(product, id), {}).get("votes", 0)
        stored[product].append((id, votes, item.get("rating", 0)))
    places: dict[str, Callable[[int, int], int]] = {
        "newest": lambda votes, rating: 0,
        "oldest": lambda votes, rating: 0,
        "helpful": lambda votes, rating: votes,
        "highest": lambda votes, rating: rating,
        "lowest": lambda votes, rating: -(rating or 6),
    }
    for product in (*PRODUCTS, TALK):
        newest = sorted(stored[product], reverse=True)
        for order in get_args(get_type_hints(CommentsQuery)["order"]):
            place, rows = places[order], newest[::-1] if order == "oldest" else newest
            right = [id for id, *_ in sorted(rows, key=lambda row: place(*row[1:]), reverse=True)]
            if (found := _walk(product, order)) != right:
                yield f"{order} on {product} lists {found}, not {right}"


def _walk(product: str, order: str) -> list[str]:
    """Read all pages of a product's comments, two at a time."""
    found, cursor = list[str](), None
    while True:
        query = {"order": order, "limit": 2, "cursor": cursor}
        page = call("get_comments", path={"product": product}, query=query)()
        found += [comment.id for comment in page.items]
        if (cursor := page.cursor) is None:
            return found


def reactions(history: History) -> Iterator[str]:
    """Count votes and replies. Each is as last acknowledged, and none is left of a deleted comment."""
    known = history.known
    stored: dict[str, Item] = {}
    counted: dict[str, Item] = {}
    votes: dict[str, set[str]] = defaultdict(set)
    replies: dict[str, dict[str, Item]] = defaultdict(dict)
    for _, sk, item in _find(history, "PRODUCT#", ""):
        kind, *parts = sk.split("#")
        if kind in ("COMMENT", "HIDDEN"):
            stored[parts[0]] = item
        elif kind == "COUNTERS":
            counted[parts[0]] = item
        elif kind == "VOTE":
            votes[parts[0]].add(parts[1])
        elif kind == "REPLY":
            replies[parts[0]][parts[1]] = item
        elif kind == "CLEANUP":
            yield f"the cleanup of {parts[0]} has not ended"
    yield from (f"{id} is deleted and has votes or replies" for id in {*votes, *replies} - stored.keys())
    yield from (f"{id} has counters and no comment" for id in counted.keys() - stored.keys())
    for id, item in stored.items():
        counters = counted.get(id, {})
        if counters and comments_of.is_hidden(item) != counters["hidden"]:
            yield f"{id} is hidden, or its counters are"
        if counters and counters["gsi1sk"] != counters_of.position(id, counters.get("votes", 0)):
            yield f"{id} is at another place than its votes"
        counts = (counters.get("votes", 0), counters.get("replies", 0))
        right = (len(votes[id]), sum("hidden" not in reply for reply in replies[id].values()))
        if counts != right:
            yield f"{id} counts {counts}, not {right}"
        if item["author"] in votes[id]:
            yield f"{item['author']} has voted for the own comment {id}"
    for (id, reader), is_cast in known.votes.items():
        if id in stored and is_cast not in (None, reader in votes[id]):
            yield f"the vote of {reader} for {id} was acknowledged as {is_cast}"
    for (_, id, reply), is_there in known.replies.items():
        if id in stored and is_there not in (None, reply in replies[id]):
            yield f"the reply {reply} to {id} was acknowledged as {is_there}"
    texts = Counter(reply["text"] for written in replies.values() for reply in written.values())
    yield from (f"twice: {text}" for text in known.texts_with_key if texts[text] > 1)


def moderation(history: History) -> Iterator[str]:
    """Check that no blocked text is published without approval, and that pending ones are in their list."""
    for product, sk, item in _find(history, "PRODUCT#", ""):
        kind, *parts = sk.split("#")
        if kind not in ("COMMENT", "HIDDEN", "REPLY") or product == ODD:
            continue
        is_shown = kind != "HIDDEN" and "hidden" not in item
        if is_shown and BLOCKED in item["text"] and parts[-1] not in history.known.approved_texts:
            yield f"{sk} is published without an approval"
        if is_shown and "pending" in item:
            yield f"{sk} is published and pending"
        if item["gsi1pk"].startswith("PENDING_") != ("pending" in item):
            yield f"{sk} is in the list {item['gsi1pk']}"


def notices(history: History) -> Iterator[str]:
    """Check that each new text, wait for approval, chat report and season's end is published.

    It is published once where nothing fails.
    """
    expected, known = Counter[tuple[str, str]](), set[str]()
    for record in history.stream.records:
        if notice := _announced(record, known):
            expected[notice] += 1
    names = ("reply", "comment", "report", "season")
    published = Counter[tuple[str, str]]()
    for kind, data in history.topic.published:
        published[kind, next(data[name] for name in names if name in data)] += 1
    for notice in expected.keys() | published.keys():
        number, right = published[notice], expected[notice]
        if not right or number < right or (history.scenario.is_calm and number > right):
            yield f"{notice} was published {number} times, not {right} times"


def _announced(record: Mapping[str, Any], known: set[str]) -> tuple[str, str] | None:
    """Return the kind and the id of the notice of a record, or None. `known` has the texts before it."""
    body = record["dynamodb"]
    old, new = (unpack(body.get(name, {})) for name in ("OldImage", "NewImage"))
    (owner, _, name), (kind, *ids) = new.get("pk", "").partition("#"), new.get("sk", "").split("#")
    if not new or PLANTED in new or name == ODD:
        return None
    if owner == "PRODUCT" and kind in ("COMMENT", "HIDDEN", "REPLY"):
        is_new = ids[-1] not in known
        known.add(ids[-1])
        text = "reply" if kind == "REPLY" else "comment"
        is_pending = "pending" in new and "pending" not in old
        return ("pending" if is_pending else text, ids[-1]) if is_new or is_pending else None
    if owner == "REPORTS" and not old:
        return "chat-report", "~".join((kind, *ids))
    return ("season", str(int(ids[0]))) if owner == "BOARD" and kind == "SEASON" and not old else None


def quarantined(history: History) -> Iterator[str]:
    """Compare the quarantine with the planted images, one entry for each side of each record."""
    expected, items = set(), _by_key(history)
    for record in history.stream.records:
        body = record["dynamodb"]
        second = int(body["ApproximateCreationDateTime"])
        tag = tags.make_tag(record["eventID"], second)
        for side, sign in (("OldImage", -1), ("NewImage", 1)):
            if PLANTED in body.get(side, {}):
                expected.add(quarantine.item_key(tag, second, sign))
    found = {key: item for key, item in items.items() if key.pk.startswith("QUARANTINE#")}
    yield from (f"not in quarantine: {key}" for key in expected - found.keys())
    yield from (f"in quarantine, and not planted: {key}" for key in found.keys() - expected)
    for item in found.values():
        if PLANTED not in unpack(quarantine.read_image(item)):
            yield f"an image that was not planted: {item}"


def handlers(history: History) -> Iterator[str]:
    """Report unexpected errors and responses, and good messages among the dead letters."""
    yield from history.world.unexpected
    yield from history.known.errors
    if sorted(history.queue.dead_letters) != sorted(history.admin.messages):
        yield f"dead letters are {history.queue.dead_letters}, not {history.admin.messages}"


def ranks(history: History) -> Iterator[str]:
    """Check each tree, and compare each stored and returned rank with that of a sorted list."""
    now = history.world.clock()
    for name in BOARDS:
        board = boards.find(new_context(history.table, now), name)
        of_season = _find(history, "PLAYER#", f"BOARD#{name}#{board.season}")
        items = {player: item for player, rest, item in of_season if not rest and "score" in item}
        scores = {player: item["score"] for player, item in items.items()}
        numbers = {
            player: scores_of.number(board, player, item["score"], item["time"])
            for player, item in items.items()
        }
        yield from _tree(history, board.ranking, numbers)
        entries = call("get_entries", path={"board": name}, query={"limit": 100})().items
        keys = {player: board.ranking.rank_key(number) for player, number in numbers.items()}
        ranked = {player: 1 + sum(other > key for other in keys.values()) for player, key in keys.items()}
        if {entry.player: entry.rank for entry in entries} != ranked or len(entries) != len(ranked):
            yield f"{name} lists {[(entry.rank, entry.player) for entry in entries]}, not {ranked}"
        for player, rank in ranked.items():
            found = call("get_player", path={"board": name, "player": player}, query={})()
            right = (rank, len(scores), scores[player])
            if (found.rank, found.of, found.score) != right:
                yield f"{name} returns {found} for {player}, not {right}"
    results = {
        player: placing.SCALE.merit(placing.encode_score(item["found"], item["latest"]))
        for player, _, item in _find(history, PLAYER_OF_HUNT, "PROGRESS")
        if item.get("ranked")
    }
    hunt = placing.build_ranking("hunt")
    yield from _tree(history, hunt, {player: hunt.number(merit, player) for player, merit in results.items()})


def lists(history: History) -> Iterator[str]:
    """Compare the lists and the statistics of sites that calls return with the stored items."""
    pairs = {**_lists_of_sites(history), **_lists_of_all(history)}
    for name, (found, right) in pairs.items():
        if sorted(found) != sorted(right):
            yield f"{name} has {found}, and stored is {right}"


Rows = list[tuple[Any, ...]]


def _listed(operation: str, *names: str, **query: str) -> Rows:
    """Return these attributes of the items that a call returns, without those of the odd product."""
    rows = call(operation, query={"limit": 100, **query})().items
    return [row for row in (tuple(getattr(row, name) for name in names) for row in rows) if ODD not in row]


def _lists_of_sites(history: History) -> dict[str, tuple[Rows, Rows]]:
    """Return what calls return of each site, beside what is stored."""
    days: dict[str, Rows] = defaultdict(list)  # of a page, a site, a referrer or a campaign
    for owner, day, item in _find(history, "", "DAY#"):
        zone = ZoneInfo(ZONE if owner == f"SITE#{ZONED}" else "UTC")
        begin = datetime.fromisoformat(day).replace(tzinfo=zone)
        row = (times.to_iso(begin), int(item.get("views", 0)), int(item.get("visitors", 0)))
        days[owner] += [row] * any(row[1:])  # a day whose events were all removed is in no list
    pages = {url: int(item.get("views", 0)) for url, _, item in _find(history, "URL#", "STATISTICS")}
    sites = {ZONED: 0} | {host: views for host, views in _totals(history).items() if views}
    period = {"from_": times.to_iso(BEGIN - 3 * times.DAY), "to": times.to_iso(history.world.clock())}
    found = {"the list of sites": (_listed("get_sites", "site", "views"), list(sites.items()))}

    def count_period(prefix: str) -> dict[str, int]:
        matching = {owner: rows for owner, rows in days.items() if owner.startswith(prefix)}
        return {owner.removeprefix(prefix): sum(row[1] for row in rows) for owner, rows in matching.items()}

    def counted(views: dict[str, int]) -> Rows:
        return [(name, count) for name, count in views.items() if count]

    def own(views: dict[str, int], host: str) -> Rows:
        return counted({url: count for url, count in views.items() if url.split("/")[2] == host})

    for host in sites:
        series = call("get_views_site", query={"site": host, **period})()
        shown = [
            (item.time, item.views, item.visitors) for item in series.items if item.views or item.visitors
        ]
        found[f"the series of {host}"] = shown, days[f"SITE#{host}"]
        sums = tuple(sum(row[column] for row in days[f"SITE#{host}"]) for column in (1, 2))
        found[f"the totals of {host}"] = [(series.views, series.visitors)], [sums]
        rows = _listed("get_views_top", "url", "views", site=host)
        found[f"the pages of {host}"] = rows, own(pages, host)
        for kind in ("referrer", "campaign"):
            rows = _listed(f"get_views_{kind}s", kind, "views", site=host, **period)
            stored = count_period(f"SITE#{host}#{kind.upper()}#")
            if kind == "referrer":
                of_host = _find(history, f"SITE#{host}", "DAY#")
                stored["direct"] = sum(int(item.get("direct", 0)) for rest, _, item in of_host if not rest)
            found[f"the {kind}s of {host}"] = rows, counted(stored)
        rows = _listed("get_views_top", "url", "views", site=host, **period)
        found[f"the pages of a period of {host}"] = rows, own(count_period("URL#"), host)
    return found


def _lists_of_all(history: History) -> dict[str, tuple[Rows, Rows]]:
    """Return the lists of boards, challenges, comments, replies and leaders, beside what is stored."""
    shown = list(_find(history, "PRODUCT#", comments_of.COMMENT))
    hidden = _find(history, "PRODUCT#", comments_of.HIDDEN)
    comments = {is_pending: list[tuple[Any, ...]]() for is_pending in (False, True)}
    for product, id, item in (*shown, *hidden):
        comments["pending" in item].append((product, id, item.get("rating")))
    replies = {is_pending: list[tuple[Any, ...]]() for is_pending in (False, True)}
    for product, rest, item in _find(history, "PRODUCT#", "REPLY#"):
        replies["pending" in item].append((product, *rest.split("#")))
    commented, replied = (
        ("get_all_comments", "product", "id", "rating"),
        ("get_all_replies", "product", "comment", "id"),
    )
    fives = Counter(product for product, _, item in shown if item.get("rating") == 5)
    return {
        "the list of boards": (_listed("get_boards", "board"), [(name,) for name in BOARDS]),
        "the list of challenges": (_listed("get_challenges", "challenge"), [("hunt",)]),
        "the list of comments": (_listed(*commented), comments[False]),
        "the list of pending comments": (_listed(*commented, state="pending"), comments[True]),
        "the list of replies": (_listed(*replied), replies[False]),
        "the list of pending replies": (_listed(*replied, state="pending"), replies[True]),
        "the list of leaders": (_listed("get_leaders", "product", "five_star"), list(fives.items())),
    }


def _tree(history: History, tested: Ranking, expected: dict[str, int]) -> Iterator[str]:
    """Check a tree, that the index and the depths follow the scores, and that no bucket is crowded."""
    nodes = ranking.collect_nodes(tested, history.items)
    try:
        tree.check(nodes)
    except AssertionError as error:
        yield f"{tested.name}: {error}"
    all_ranked = (
        scores_of.rank(item) or challenge_progress.rank(item) for _, _, item in _find(history, "", "")
    )
    found = [ranked for ranked in all_ranked if ranked and ranked.ranking.name == tested.name]
    numbers = {ranked.player: ranked.number for ranked in found}
    if numbers != expected:
        yield f"{tested.name} lists {numbers}, not {expected}"
    for ranked in found:
        depth = tree.usable_depth(ranked.path, ranked.depth, nodes)
        bucket = tree.bucket(ranked.path, depth)
        inside = sum(other.number > ranked.number and other.path.startswith(bucket) for other in found)
        place, right = tree.count_better(ranked.path, depth, nodes) + inside, sorted(numbers.values())[::-1]
        if right[place : place + 1] != [ranked.number]:
            yield f"{tested.name}: the tree has {ranked.player} at place {place + 1}"
        if depth != ranked.depth:
            yield f"{tested.name}: {bucket!r} is deepened, and its node is not full"
        if tree.is_crowded(ranked.path, ranked.depth, nodes):
            yield f"{tested.name}: the depth of {ranked.player} does not follow: {ranked.bucket!r} is crowded"
    for key, item in _by_key(history).items():
        if key.sk.endswith(tested.name.partition("#")[2]) and "before" in item:
            yield f"{key} still has earlier positions"


# -- changes, read from the stream, so that healed errors show too


class Change(NamedTuple):
    """A change of an item: its old and new image; a missing image is empty."""

    pk: str
    sk: str
    old: Item
    new: Item


def transitions(history: History) -> Iterator[str]:
    """Check scores, paths, comments and pool entries from one change to the next."""
    changes = _list_changes(history)
    yield from _scores(changes)
    yield from _paths(changes)
    yield from _comments(changes)
    yield from _pool(changes)


def _list_changes(history: History) -> list[Change]:
    return [_change(record["dynamodb"]) for record in history.stream.records]


def _change(body: Any) -> Change:
    keys = unpack(body["Keys"])
    return Change(keys["pk"], keys["sk"], unpack(body.get("OldImage", {})), unpack(body.get("NewImage", {})))


def _scores(changes: list[Change]) -> Iterator[str]:
    """Check that a best score only gets better, and a latest score only later."""
    for pk, sk, old, new in changes:
        if not (pk.startswith("PLAYER#person-") and old and new):
            continue
        if "score" not in old or "score" not in new:
            continue
        if sk.startswith("BOARD#best#") and new["score"] > old["score"]:
            yield f"{pk} had the best score {old['score']}, then {new['score']}"
        if sk.startswith("BOARD#first#") and int(new["gsi1sk"]) < int(old["gsi1sk"]):
            yield f"{pk} had the score {old['score']} of {old['time']}, then {new['score']} of {new['time']}"
        if sk.startswith("BOARD#latest#") and new["time"] < old["time"]:
            yield f"{pk} had a score of {old['time']}, then one of {new['time']}"


def _paths(changes: list[Change]) -> Iterator[str]:
    """Check that a player's progress is the number of the paths when it was written.

    The stream does not show where a transaction ends, so any number of paths between the progress before and
    the progress after is accepted.
    """
    stored: dict[str, int] = defaultdict(int)
    window: dict[str, set[int]] = defaultdict(lambda: {0})
    written: dict[str, tuple[int, set[int]]] = {}

    def check(pk: str) -> Iterator[str]:
        found, counts = written.get(pk, (0, {0}))
        if found not in counts | window[pk]:
            yield f"{pk} has a progress of {found}, and had {sorted(counts | window[pk])} paths"

    for pk, sk, old, new in changes:
        if not pk.startswith(f"{PLAYER_OF_HUNT}person-"):
            continue
        if sk.startswith("PATH#"):
            stored[pk] += bool(new) - bool(old)
            window[pk].add(stored[pk])
        elif sk == "PROGRESS":
            yield from check(pk)
            written[pk] = int(new.get("found", 0)), window[pk]
            window[pk] = {stored[pk]}
    for pk in written:
        yield from check(pk)


def _comments(changes: list[Change]) -> Iterator[str]:
    """Check that each edit raises the revision by one, and that no comment is both shown and hidden."""
    stored: set[tuple[str, str]] = set()
    other = {comments_of.COMMENT: comments_of.HIDDEN, comments_of.HIDDEN: comments_of.COMMENT}
    for pk, sk, old, new in changes:
        prefix = next((begin for begin in other if sk.startswith(begin)), None)
        if not pk.startswith("PRODUCT#") or prefix is None or pk == f"PRODUCT#{ODD}":
            continue
        names = {*(old or ()), *(new or ())}
        if old and new and new["revision"] != old["revision"] + any(old.get(n) != new.get(n) for n in names):
            yield f"{sk} of revision {old['revision']} became {new['revision']}"
        if new and not old and {(pk, sk), (pk, sk.replace(prefix, other[prefix], 1))} & stored:
            yield f"{sk} is stored twice"
        (stored.add if new else stored.discard)((pk, sk))


def _pool(changes: list[Change]) -> Iterator[str]:
    """Check that each waiting connection, unless it is kept for a partner, has had an entry in the pool."""
    entries = {change.sk for change in changes if change.pk.startswith("WAITING#") and change.new}
    for _, sk, _, new in changes:
        is_waiting = sk == "STATE" and new.get("state") == "waiting" and "kept" not in new
        if is_waiting and new["state_id"] not in entries:
            yield f"{connections.id_of(new)} waits without an entry in the pool, at {new['state_id']}"


# -- chat: partners agree, and each connection is sent its notices


def states(records: Iterable[Any]) -> list[Item]:
    """Read from a stream every state of every connection, each connection's in order."""
    images = [unpack(r["dynamodb"]["NewImage"]) for r in records if "NewImage" in r["dynamodb"]]
    return [image for image in images if image["sk"] == "STATE"]


def pairs(states: Iterable[Item], *, may_meet_again: bool = False) -> dict[str, list[str]]:
    """Assert the invariants of every state, and return the two members of each pair."""
    members: dict[str, dict[str, Item]] = defaultdict(dict)
    before: dict[str, Item] = {}
    for state in states:
        id, last = state["pk"], before.get(state["pk"])
        if state["state"] == "matched":
            partner = state["partner"]
            assert partner["id"] != id.removeprefix("CONN#"), f"{id} is matched with itself"
            members[state["state_id"]][id] = state
            if last and last["state_id"] != state["state_id"]:
                # A report through another connection of the partner comes later, and does not end this chat.
                is_blocked = partner["who"] in state.get("blocked", ())
                assert not is_blocked, f"{id} is matched with a blocked partner"
                # Another connection of the same person may have taken the partner's place.
                came_back = last.get("partner", {}).get("who") == partner["who"]
                assert came_back or last["state"] == "waiting", f"{id} was matched while {last['state']}"
                assert may_meet_again or last.get("former") != partner["who"], (
                    f"{id} has the same partner again"
                )
        before[id] = state
    for state_id, pair in members.items():
        assert len(pair) == 2, f"{state_id} has {sorted(pair)}"
        (id, first), (other, second) = pair.items()
        assert first["who"] != second["who"], f"{id} and {other} are one visitor"
        assert "subject" not in first or first["subject"] != second.get("subject"), (
            f"{id} is {other}'s person"
        )
        assert (f"CONN#{first['partner']['id']}", f"CONN#{second['partner']['id']}") == (other, id)
    return {state_id: sorted(id.removeprefix("CONN#") for id in pair) for state_id, pair in members.items()}


def unmatched(history: History) -> Iterator[str]:
    """Check, before any sweep, that of those who came at once without faults no two wait side by side.

    A jump of the clock may end a handler for its time. Then the sweep matches those it has left.
    """
    is_calm = history.scenario.is_calm and "invocation timed out" not in history.world.faults
    if history.scenario.theme.name == "arrivals" and is_calm:
        for id, _, item in _find(history, "CONN#", "STATE"):
            if item["state"] == "waiting":
                yield from _waits_alone(id, item, history)


def chat(history: History) -> Iterator[str]:
    """Check every state that occurred, and the state at rest."""
    partners: set[frozenset[str]] = set()
    seen = states(history.stream.records)
    expected, notices = _notices(seen)
    try:
        partners = {frozenset(pair) for pair in pairs(seen, may_meet_again=True).values()}
    except AssertionError as error:
        yield f"in a state that occurred: {error}"
    all_states = {id: item for id, _, item in _find(history, "CONN#", "STATE")}
    stored = {id: item for id, item in all_states.items() if item["state"] != "gone"}
    is_open = history.gateway.open
    yield from (f"{id} is dead and still {item['state']}" for id, item in stored.items() if id not in is_open)
    yield from (f"{id} is open and has no item" for id in is_open - stored.keys())
    for id, item in stored.items():
        yield from _at_rest(id, item, stored, history)
        sent = [f["code"] for f in history.gateway.frames[id] if f["type"] == "system"]
        if item.get("notices") or (expected.get(id) and sent[-1:] != [expected[id]]):
            yield f"{id} is {item['state']} and was sent {sent}, not {item.get('notices', expected.get(id))}"
        if history.scenario.is_calm and (twice := Counter(sent) - notices[id]):
            yield f"{id} was sent {dict(twice)} more often than noted"
    entries = {state_id for _, state_id, _ in _find(history, "WAITING#", "")}
    waiting = {item["state_id"] for item in stored.values() if item["state"] == "waiting"}
    if entries != waiting:
        yield f"waiting are {sorted(waiting)}, and the pool has {sorted(entries)}"
    yield from _messages(history, partners, seen)
    yield from _reported(history)
    yield from _acknowledged(history, stored, seen)


def _notices(states: Iterable[Item]) -> tuple[dict[str, str], dict[str, Counter[str]]]:
    """Return the last notice that each connection must be sent, and all that may be sent to it.

    The last one is "" for a connection that left by itself. Notices whose claim has expired may be sent
    again. A handler outlives its claim only in a simulation: Lambda ends it before.
    """
    before: dict[str, Item] = defaultdict(dict)
    last: dict[str, str] = {}
    added: dict[str, Counter[str]] = defaultdict(Counter)
    for state in states:
        id = connections.id_of(state)
        known, pending = before[id].get("notices", ()), list(state.get("notices", ()))
        added[id].update(pending[len(known) :])
        if state.get("tried") and state.get("claim") != before[id].get("claim"):
            added[id].update(pending)
        if state["state_id"] != before[id].get("state_id"):
            # A partner that came and went before the notice was sent is not mentioned.
            was_left = len(pending) > 0 and not known
            last[id] = CONNECTED if state["state"] == "matched" else DISCONNECTED if was_left else ""
        before[id] = state
    return last, added


def _at_rest(id: str, item: Item, stored: dict[str, Item], history: History) -> Iterator[str]:
    """Check one connection at rest: its partner names it too, or nobody suitable waits beside it."""
    if item["state"] == "matched":
        other = stored.get(item["partner"]["id"], {})
        if other.get("partner", {}).get("id") != id or other.get("state_id") != item["state_id"]:
            yield f"{id} is matched with {item['partner']['id']}, which is not matched with it"
    if item["state"] == "waiting":
        if "kept" in item:
            yield f"{id} is still kept for {item['kept']}"
        else:
            yield from _waits_alone(id, item, history)


def _waits_alone(id: str, item: Item, history: History) -> Iterator[str]:
    """Check that no suitable partner of a waiting connection waits too."""
    states = {other: state for other, _, state in _find(history, "CONN#", "STATE")}
    for entry in waiting_pool.find_candidates(
        new_context(history.table, history.world.clock(), history.settings), item
    ):
        other = waiting_pool.id_of(entry)
        if item["who"] not in states[other].get("blocked", ()):
            yield f"{id} waits, and so does {other}"


def _images(history: History) -> list[Item]:
    """Return every image of the stream, in order."""
    records = (record["dynamodb"] for record in history.stream.records)
    return [unpack(record["NewImage"]) for record in records if "NewImage" in record]


def _reported(history: History) -> Iterator[str]:
    """Check that two are not matched any more once one has reported the other."""
    parted: set[frozenset[str]] = set()
    turns: dict[str, str] = {}
    for image in _images(history):
        if image["pk"] == "REPORTS":
            parted.add(frozenset((image["reporter"], image["reported"])))
        elif image["sk"] == "STATE":
            both = frozenset((image["who"], image.get("partner", image)["who"]))
            if both in parted and turns.get(image["pk"]) != image["state_id"]:
                yield f"{image['pk']} met a partner again after a report"
            turns[image["pk"]] = image["state_id"]


def _acknowledged(history: History, stored: Mapping[str, Item], states: Iterable[Item]) -> Iterator[str]:
    """Check what an `ack` means: a report is kept, a message has come, and a visitor that left is idle."""
    reasons = {image["reason"] for image in _images(history) if image["pk"] == "REPORTS"}
    unconfirmed = {state.get("pair") for state in states if "receipts" not in state}  # pairs
    received = {
        frame["text"] for frames in history.gateway.frames.values() for frame in frames if "text" in frame
    }
    for id, frames in history.known.frames.items():
        heard = history.gateway.frames[id]
        acks = {frame["ref"]: place for place, frame in enumerate(heard) if frame["type"] == "ack"}
        for sent in (frame for frame in frames if frame.ref in acks):
            if sent.action == "report" and sent.text not in reasons:
                yield f"{id} got an ack for a report that is not kept"
            if sent.action == "message" and sent.pair not in ("", *unconfirmed) and sent.text not in received:
                yield f"{id} got an ack for a message that nobody has received"
        changes = [frame for frame in frames if frame.action in ("next", "find", "report", "leave")]
        if changes and changes[-1].action == "leave" and changes[-1].ref in acks and changes[-1].is_alone:
            notices = [frame["code"] for frame in heard[acks[changes[-1].ref] :] if frame["type"] == "system"]
            state = stored.get(id, {"state": "gone"})["state"]
            if state not in ("idle", "gone") or notices[-1:] == [CONNECTED]:
                yield f"{id} is {state} after an acknowledged leave, and was told {notices}"


def _messages(history: History, partners: set[frozenset[str]], states: Iterable[Item]) -> Iterator[str]:
    """Check that messages came from partners only, in the pair that they name, once and in order."""
    members: dict[str, set[str]] = defaultdict(set)
    for state in (state for state in states if "pair" in state):
        members[state["pair"]].add(connections.id_of(state))
    for id, frames in history.gateway.frames.items():
        numbers: dict[str, list[int]] = defaultdict(list)
        for frame in frames:
            if frame["type"] == "message":
                sender, number, pair = frame["text"].split()
                numbers[sender].append(int(number))
                if frozenset((sender, id)) not in partners:
                    yield f"{id} received a message from a stranger, {sender}"
                if pair != "-" and id not in members[pair]:
                    yield f"{id} received a message that {sender} has sent to another partner"
        for sender, received in numbers.items():
            if received != sorted(set(received)):
                yield f"{id} received messages of {sender} twice or out of order: {received}"


def bans(history: History) -> Iterator[str]:
    """Check that nobody is connected after a ban of the address or subject, and nobody else is refused."""
    sent, done = history.known.bans_sent, history.known.bans_done
    for begun, digests, ended, status in history.known.openings:
        if status == 200 and any(done.get(digest, begun) < begun for digest in digests):
            yield f"a connection of {begun} was accepted after a ban"
        if status == 403 and not any(sent.get(digest, ended) < ended for digest in digests):
            yield f"a connection of {begun} was refused without a ban"
    for id, _, item in _find(history, "CONN#", "STATE"):
        if item["state"] != "gone" and {item.get("network"), item.get("subject")} & done.keys():
            yield f"{id} is open after a ban"


def permissions(history: History) -> Iterator[str]:
    """Try to act for others, and expect each request to be refused."""
    player = {"board": "sum", "player": "person-0"}
    score = {"id": "stranger", "value": Decimal(1), "player": "person-0"}
    own_score = score | {"player": STRANGER.sub}
    progress = {"challenge": "hunt", "player": "person-0"}
    attempt = partial(call, caller=STRANGER)
    requests = {
        "submit a score": attempt("post_score", path={"board": "sum"}, body=score),
        "submit an own score to a server's board": attempt(
            "post_score", path={"board": SERVER}, body=own_score
        ),
        "remove a player": attempt("delete_player", path=player),
        "read a progress": attempt("get_challenge_player", path=progress),
    }
    for product, sk, _ in _find(history, "PRODUCT#", ""):
        kind, _, rest = sk.partition("#")
        id, _, reply_id = rest.partition("#")
        path = {"product": product, "id": id}
        if kind == "REPLY":
            reply = path | {"reply": reply_id}
            requests[f"edit the reply {reply_id}"] = attempt("patch_reply", path=reply, body={"text": "no"})
            requests[f"delete the reply {reply_id}"] = attempt("delete_reply", path=reply)
        if kind in ("COMMENT", "HIDDEN"):
            requests[f"edit {id}"] = attempt("patch_comment", path=path, body={"rating": 1}, if_match=None)
            requests[f"delete {id}"] = attempt("delete_comment", path=path)
        if kind == "HIDDEN":
            requests[f"read the hidden {id}"] = attempt("get_comment", path=path)
    for name, request in requests.items():
        try:
            request()
        except (Forbidden, NotFound):
            continue
        yield f"a stranger may {name}"


CHECKS: dict[str, Callable[[History], Iterator[str]]] = {
    invariant.__name__: invariant
    for invariant in (
        *(
            handlers,
            views,
            senders,
            sites,
            scores,
            seasons,
            ranks,
            challenge,
            comments,
            reactions,
            moderation,
            lists,
        ),
        *(discussions, orders, notices),
        *(quarantined, recounts, listings, chat, bans, transitions, permissions),
    )
}
