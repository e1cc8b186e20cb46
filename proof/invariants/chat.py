"""Invariants of chat: in each state that a connection was ever in, and once the chat is at rest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from chalicelib.chat import connections, waiting_pool
from chalicelib.chat.matching import CONNECTED, DISCONNECTED
from chalicelib.dynamo.items import Item, unpack

if TYPE_CHECKING:
    from proof.history import History


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
            assert partner["who"] not in state.get("blocked", ()), f"{id} is matched with a blocked partner"
            members[state["turn"]][id] = state
            if last and last["turn"] != state["turn"]:
                # Another connection of the same person may have taken the partner's place.
                came_back = last.get("partner", {}).get("who") == partner["who"]
                assert came_back or last["state"] == "waiting", f"{id} was matched while {last['state']}"
                assert may_meet_again or last.get("former") != partner["who"], (
                    f"{id} has the same partner again"
                )
        before[id] = state
    for turn, pair in members.items():
        assert len(pair) == 2, f"{turn} has {sorted(pair)}"
        (one, first), (other, second) = pair.items()
        assert (f"CONN#{first['partner']['id']}", f"CONN#{second['partner']['id']}") == (other, one)
    return {turn: sorted(id.removeprefix("CONN#") for id in pair) for turn, pair in members.items()}


def unmatched(history: History) -> Iterator[str]:
    """Check, before any sweep, that of those who came at once without faults no two wait side by side."""
    if history.scenario.theme.name == "arrivals" and history.scenario.is_calm:
        for item in history.items:
            if item["sk"] == "STATE" and item["state"] == "waiting":
                yield from _waits_alone(connections.id_of(item), item, history)


def chat(history: History) -> Iterator[str]:
    """Check every state that occurred, and the state at rest."""
    partners: set[frozenset[str]] = set()
    seen = states(history.stream.records)
    expected, notices = _last_notices(seen), _notices(seen)
    try:
        partners = {frozenset(pair) for pair in pairs(seen, may_meet_again=True).values()}
    except AssertionError as error:
        yield f"in a state that occurred: {error}"
    stored = {
        connections.id_of(item): item
        for item in history.items
        if item["sk"] == "STATE" and item["state"] != "gone"
    }
    is_open = history.gateway.open
    yield from (f"{id} is dead and still {item['state']}" for id, item in stored.items() if id not in is_open)
    yield from (f"{id} is open and has no item" for id in is_open - stored.keys())
    for id, item in stored.items():
        yield from _at_rest(id, item, stored, history)
        sent = [f["code"] for f in history.gateway.frames[id] if f["type"] == "system"]
        if item.get("untold") or (expected.get(id) and sent[-1:] != [expected[id]]):
            yield f"{id} is {item['state']} and was sent {sent}, not {item.get('untold', expected.get(id))}"
        if history.scenario.is_calm and (twice := Counter(sent) - notices[id]):
            yield f"{id} was sent {dict(twice)} more often than noted"
    entries = {item["sk"] for item in history.items if item["pk"].startswith("WAITING#")}
    waiting = {item["turn"] for item in stored.values() if item["state"] == "waiting"}
    if entries != waiting:
        yield f"waiting are {sorted(waiting)}, and the pool has {sorted(entries)}"
    yield from _messages(history, partners)
    yield from _reported(history, seen)


def _last_notices(states: Iterable[Item]) -> dict[str, str]:
    """Return the last notice that each connection must be sent, "" for one that left by itself."""
    last: dict[str, Item] = {}
    notices: dict[str, str] = {}
    for state in states:
        id, before = connections.id_of(state), last.get(state["pk"], {})
        if state["turn"] != before.get("turn"):
            was_added = len(state.get("untold", ())) > len(before.get("untold", ()))
            if state["state"] == "matched":
                notices[id] = CONNECTED
            else:
                # A partner that came and went before the notice was sent is not mentioned.
                notices[id] = DISCONNECTED if was_added and not before.get("untold") else ""
        last[state["pk"]] = state
    return notices


def _notices(states: Iterable[Item]) -> dict[str, Counter[str]]:
    """Count the notices that were ever added for each connection."""
    before: dict[str, list[str]] = defaultdict(list)
    added: dict[str, Counter[str]] = defaultdict(Counter)
    for state in states:
        id, pending = connections.id_of(state), list(state.get("untold", ()))
        added[id].update(pending[len(before[id]) :])
        before[id] = pending
    return added


def _at_rest(id: str, item: Item, stored: dict[str, Item], history: History) -> Iterator[str]:
    """Check one connection at rest: its partner names it too, or nobody suitable waits beside it."""
    if item["state"] == "matched":
        other = stored.get(item["partner"]["id"], {})
        if other.get("partner", {}).get("id") != id or other.get("turn") != item["turn"]:
            yield f"{id} is matched with {item['partner']['id']}, which is not matched with it"
    if item["state"] == "waiting":
        if "kept" in item:
            yield f"{id} is still kept for {item['kept']}"
        else:
            yield from _waits_alone(id, item, history)


def _waits_alone(id: str, item: Item, history: History) -> Iterator[str]:
    """Check that no suitable partner of a waiting connection waits too."""
    if found := waiting_pool.find_candidates(history.table, item, history.world.clock(), history.settings):
        yield f"{id} waits, and so does {[waiting_pool.id_of(one) for one in found]}"


def _reported(history: History, states: Iterable[Item]) -> Iterator[str]:
    """Check that two who were parted by a report are not matched again."""
    parted = {
        frozenset((item["reporter"], item["reported"])): item["sk"].partition("#")[2]
        for item in history.items
        if item["pk"] == "REPORTS"
    }
    over: set[frozenset[str]] = set()  # pairs whose reported turn has begun: it must be their last
    turns: dict[frozenset[str], str] = {}
    for state in (state for state in states if state["state"] == "matched"):
        both = frozenset((state["who"], state["partner"]["who"]))
        if both in over and state["turn"] != turns[both]:
            yield f"{state['pk']} met a partner again after a report"
        turns[both] = state["turn"]
        if parted.get(both) == state["turn"]:
            over.add(both)


def _messages(history: History, partners: set[frozenset[str]]) -> Iterator[str]:
    """Check that messages came from partners only, once and in order."""
    for id, frames in history.gateway.frames.items():
        numbers: dict[str, list[int]] = defaultdict(list)
        for frame in frames:
            if frame["type"] == "message":
                sender, number = frame["text"].split()
                numbers[sender].append(int(number))
                if frozenset((sender, id)) not in partners:
                    yield f"{id} received a message from a stranger, {sender}"
        for sender, received in numbers.items():
            if received != sorted(set(received)):
                yield f"{id} received messages of {sender} twice or out of order: {received}"
