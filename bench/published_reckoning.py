"""What the published designs say after a history, beside what is right, counted by hand from the items."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from bench import published_challenges, published_rank
from bench.published_chat import POOL
from chalicelib.items import Item

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

View = tuple[str, ...]
Scores = dict[tuple[str, int], int]
"""Each submission of a person, by its number."""


def reckon(items: list[Item], views: set[View], is_open: set[str]) -> Counter[str]:
    """Count what the four designs that count and match have, and what of it is wrong."""
    return _views(items, views) + _hunt(items) + _comments(items) + _chat(items, is_open)


def ranks(client: DynamoDBClient, name: str, event: str, scores: Scores) -> Counter[str]:
    """Count the players, those whose distance is wrong, and those whose rank is."""
    right: Counter[str] = Counter()
    for (who, _), value in scores.items():
        right[who] += value
    found: Counter[str] = Counter()
    for who, distance in right.items():
        item = client.get_item(TableName=name, Key=published_rank.runner_key(who, event))["Item"]
        rank = 1 + sum(other > distance for other in right.values())
        found["players"] += 1
        found["distances wrong"] += int(item["gsi1sk"]["N"]) != distance
        found["ranks wrong"] += published_rank.position(client, name, who, event) != rank
    return found


def _views(items: Iterable[Item], views: set[View]) -> Counter[str]:
    counted = {item["pk"]: int(item["views"]) for item in items if item["sk"] == "STATISTICS"}
    sent = Counter(f"URL#{url}" for url, *_ in views)
    found = Counter({"views": len(views)})
    for page, count in sent.items():
        found["views lost"] += max(0, count - counted.get(page, 0))
        found["views counted twice"] += max(0, counted.get(page, 0) - count)
    return found


def _hunt(items: Iterable[Item]) -> Counter[str]:
    """Compare the numbers of the game: players, paths, and how many reached each number of paths."""
    paths = Counter(item["pk"] for item in items if item["sk"].startswith("PATH#"))
    right = {"PLAYERS": len(paths), "PATHS": sum(paths.values())}
    right |= {
        f"FOUND#{n}": sum(count >= n for count in paths.values())
        for n in range(1, published_challenges.LIMIT + 1)
    }
    said = {item["sk"]: int(item["total"]) for item in items if item["pk"] == "AGGREGATES"}
    used = {name for name in right if right[name] or said.get(name)}
    return Counter(
        {"numbers of the game": len(used), "game wrong": sum(said.get(n, 0) != right[n] for n in used)}
    )


def _comments(items: Iterable[Item]) -> Counter[str]:
    """Compare each count of ratings that there is, in all languages and in each."""
    right: Counter[tuple[str, str, str]] = Counter()
    said: dict[tuple[str, str, str], int] = {}
    for item in items:
        if item["sk"].startswith("COMMENT#"):
            for sk in ("S", f"S#{item['language']}"):
                right[item["pk"], sk, f"count_{item['rating']}"] += 1
                right[item["pk"], sk, "count_total"] += 1
        elif item["sk"] == "S" or item["sk"].startswith("S#"):
            said |= {(item["pk"], item["sk"], n): int(v) for n, v in item.items() if n.startswith("count_")}
    used = right.keys() | said.keys()
    wrong = sum(said.get(at, 0) != right[at] for at in used)
    return Counter({"counts of ratings": len(used), "ratings wrong": wrong})


def _chat(items: Iterable[Item], is_open: set[str]) -> Counter[str]:
    """Look at who is connected: with whom, waiting, or neither."""
    waits = {item["sk"].partition("#")[2] for item in items if item["pk"] == POOL}
    talks: Mapping[str, set[str]] = defaultdict(set)
    for item in items:
        if item["pk"].startswith("CHAT#"):
            talks[item["pk"].removeprefix("CHAT#")].add(item["sk"])
    found = Counter({"connected": len(is_open)})
    alone = is_open & waits
    found["waiting beside another"] += len(alone) if len(alone) > 1 else 0
    for one in is_open:
        found["with somebody who is gone"] += bool(talks[one]) and not talks[one] & is_open
        found["in two chats"] += len(talks[one]) + (one in waits) > 1
        found["neither waiting nor talking"] += not talks[one] and one not in waits
    found["the gone who wait, to be met"] += len(waits - is_open)
    return found
