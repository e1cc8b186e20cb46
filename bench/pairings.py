"""What must hold of chat: in each state that a connection was ever in, and when all has come to rest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from bench.histories import History
from chalicelib import connections, pool
from chalicelib.items import Item, unpack
from chalicelib.pairs import CONNECTED, DISCONNECTED


def states(records: Iterable[Any]) -> list[Item]:
    """Read from a stream every state that every connection was in, each connection's in order."""
    images = [unpack(r["dynamodb"]["NewImage"]) for r in records if "NewImage" in r["dynamodb"]]
    return [image for image in images if image["sk"] == "STATE"]


def pairs(states: Iterable[Item], *, meet_again: bool = False) -> dict[str, list[str]]:
    """Assert what always holds; answer who was in each pair. Some may `meet_again`, after a while."""
    members: dict[str, dict[str, Item]] = defaultdict(dict)
    before: dict[str, Item] = {}
    for state in states:
        id, last = state["pk"], before.get(state["pk"])
        if state["state"] == "matched":
            partner = state["partner"]
            assert partner["id"] != id.removeprefix("CONN#"), "somebody is matched with itself"
            assert partner["who"] not in state.get("blocked", ()), "a report was forgotten"
            members[state["turn"]][id] = state
            if last and last["turn"] != state["turn"]:
                # Its partner may have been taken over by another connection of the same person.
                came_back = last.get("partner", {}).get("who") == partner["who"]
                assert came_back or last["state"] == "waiting", f"{id} came into a pair from {last['state']}"
                assert meet_again or last.get("former") != partner["who"], "the same partner again"
        before[id] = state
    for turn, pair in members.items():
        assert len(pair) == 2, f"{turn} has {sorted(pair)}"
        (one, his), (other, hers) = pair.items()
        assert (f"CONN#{his['partner']['id']}", f"CONN#{hers['partner']['id']}") == (other, one)
    return {turn: sorted(id.removeprefix("CONN#") for id in pair) for turn, pair in members.items()}


def at_once(history: History) -> Iterator[str]:
    """Check before any sweep, where all came to talk and nothing failed: nobody waits beside another."""
    if history.plan.theme.name == "arrivals" and history.plan.is_calm:
        for item in history.items:
            if item["sk"] == "STATE" and item["state"] == "waiting":
                yield from _alone(connections.id_of(item), item, history)


def chat(history: History) -> Iterator[str]:
    """Check every state on the way, and the rest that all has come to."""
    partners: set[frozenset[str]] = set()
    seen = states(history.stream.records)
    notes, added = _expected(seen), _added(seen)
    try:
        known = pairs(seen, meet_again=True)
        partners = {frozenset(pair) for pair in known.values()}
    except AssertionError as error:
        yield f"on the way: {error}"
    there = {
        item["pk"].removeprefix("CONN#"): item
        for item in history.items
        if item["sk"] == "STATE" and item["state"] != "gone"
    }
    is_open = history.wire.open
    yield from (f"{id} is dead, and still {item['state']}" for id, item in there.items() if id not in is_open)
    yield from (f"{id} is open, and nobody knows it" for id in is_open - there.keys())
    for id, item in there.items():
        yield from _one(id, item, there, history)
        told = [f["code"] for f in history.wire.frames[id] if f["type"] == "system"]
        if item.get("untold") or (notes.get(id) and told[-1:] != [notes[id]]):
            yield f"{id} is {item['state']} and was told {told}, not {item.get('untold', notes.get(id))}"
        if history.plan.is_calm and (twice := Counter(told) - added[id]):
            yield f"{id} was told {dict(twice)} more than there was to tell"
    places = {item["sk"] for item in history.items if item["pk"].startswith("WAITING#")}
    waiting = {item["turn"] for item in there.values() if item["state"] == "waiting"}
    if places != waiting:
        yield f"there wait {sorted(waiting)}, and their places are {sorted(places)}"
    yield from _heard(history, partners)
    yield from _parted(history, seen)


def _expected(states: Iterable[Item]) -> dict[str, str]:
    """Work out the last note that each connection must have been told; none of it where it left by itself."""
    last: dict[str, Item] = {}
    notes: dict[str, str] = {}
    for state in states:
        id, before = state["pk"].removeprefix("CONN#"), last.get(state["pk"], {})
        if state["turn"] != before.get("turn"):
            added = len(state.get("untold", ())) > len(before.get("untold", ()))
            if state["state"] == "matched":
                notes[id] = CONNECTED
            else:
                # A partner that came and went before it was told of is not spoken of.
                notes[id] = DISCONNECTED if added and not before.get("untold") else ""
        last[state["pk"]] = state
    return notes


def _added(states: Iterable[Item]) -> dict[str, Counter[str]]:
    """Count the notes that each connection was ever to be told."""
    before: dict[str, list[str]] = defaultdict(list)
    added: dict[str, Counter[str]] = defaultdict(Counter)
    for state in states:
        id, untold = connections.id_of(state), list(state.get("untold", ()))
        added[id].update(untold[len(before[id]) :])
        before[id] = untold
    return added


def _one(id: str, item: Item, there: dict[str, Item], history: History) -> Iterator[str]:
    """Check one connection at rest: matched with one who knows it, or waiting for want of anybody."""
    if item["state"] == "matched":
        other = there.get(item["partner"]["id"], {})
        if other.get("partner", {}).get("id") != id or other.get("turn") != item["turn"]:
            yield f"{id} is matched with {item['partner']['id']}, who is not with it"
    if item["state"] == "waiting":
        if "kept" in item:
            yield f"{id} is still kept for {item['kept']}"
        else:
            yield from _alone(id, item, history)


def _alone(id: str, item: Item, history: History) -> Iterator[str]:
    """Check that nobody else waits who suits one who waits."""
    if found := pool.suitable(history.table, item, history.world.clock(), history.settings):
        yield f"{id} waits, and so does {[pool.id_of(one) for one in found]}"


def _parted(history: History, states: Iterable[Item]) -> Iterator[str]:
    """Check that no two whom a report has parted met again."""
    parted = {
        frozenset((item["reporter"], item["reported"])): item["sk"].partition("#")[2]
        for item in history.items
        if item["pk"] == "REPORTS"
    }
    over: set[frozenset[str]] = set()  # those whose last turn together, the reported one, has begun
    turns: dict[frozenset[str], str] = {}
    for state in (state for state in states if state["state"] == "matched"):
        both = frozenset((state["who"], state["partner"]["who"]))
        if both in over and state["turn"] != turns[both]:
            yield f"{state['pk']} met whom a report had parted it from"
        turns[both] = state["turn"]
        if parted.get(both) == state["turn"]:
            over.add(both)


def _heard(history: History, partners: set[frozenset[str]]) -> Iterator[str]:
    """Check what was heard: from nobody but partners, once, and in order."""
    for id, frames in history.wire.frames.items():
        said: dict[str, list[int]] = defaultdict(list)
        for frame in frames:
            if frame["type"] == "message":
                sender, number = frame["text"].split()
                said[sender].append(int(number))
                if frozenset((sender, id)) not in partners:
                    yield f"{id} heard a stranger, {sender}"
        for sender, numbers in said.items():
            if numbers != sorted(set(numbers)):
                yield f"{id} heard {sender} twice, or out of order: {numbers}"
