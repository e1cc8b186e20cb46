"""Every interleaving of requests about one pair: the product's own transactions on a table in memory.

Each request may also die at every point. Two who have parted may meet again at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from greenlet import getcurrent

from chalicelib.chat import blocks, connections, evidence, matching, reports, waiting_pool
from chalicelib.chat.connections import Handshake
from chalicelib.chat.matching import CONNECTED, Change
from chalicelib.chat.schemas import Quotation, ReportFrame
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key, Range
from chalicelib.dynamo.table import Page
from tests.histories.world import BEGIN
from tests.support.contexts import SETTINGS, new_context
from tests.support.interleavings import Memory, explore

EAGER = SETTINGS._replace(chat_again=timedelta(0))
INSULT = ReportFrame(reason="rude", messages=[Quotation("insult")])


class Forgotten(dict[Any, Any]):
    """The changes of a table, which no worker follows: a state is the same however it was reached."""

    def setdefault(self, key: Any, default: Any = None) -> Any:
        return default


class Pool(Memory):
    """A table with connections and a pool, whose reads are consistent. `acks` has what was acknowledged."""

    def __init__(self, items: dict[Key, Item] | None = None) -> None:
        super().__init__()
        self.items = dict(items or {})
        self.acks: list[str] = []
        self.changes = Forgotten()

    def query(self, span: Range, **_: Any) -> Page:
        return self.request(
            lambda: Page([dict(item) for key, item in self.items.items() if key.pk == span.pk], None)
        )

    def item(self, id: str) -> Item:
        return self.items[connections.key(id)]

    @property
    def connections(self) -> dict[str, Item]:
        return {connections.id_of(item): item for key, item in self.items.items() if key.sk == "STATE"}


def token() -> str:
    """Return a token that depends on the worker alone, so that equal states are found to be equal."""
    worker: Any = getcurrent()
    worker.tokens = getattr(worker, "tokens", 0) + 1
    return f"{getattr(worker, 'name', 'setup')}{worker.tokens}"


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    with (
        mock.patch.object(connections, "new_token", token),
        mock.patch.object(waiting_pool, "os", SimpleNamespace(urandom=lambda _: token().encode())),
        mock.patch.object(matching, "random", SimpleNamespace(choice=lambda found: found[0])),
    ):
        yield


def begin(*ids: str) -> Callable[[], Pool]:
    """Return a table on which the first two of some connections are matched, and the others wait."""
    table = Pool()
    for id in ids:
        enter(table, id)
    return lambda: Pool(table.items)


def enter(table: Any, id: str, subject: str = "") -> None:
    """Do what `$connect` does."""
    item = connections.build_item(Handshake(id, "e", "main", subject=subject), BEGIN)
    assert matching.join_pool(new_context(table, BEGIN), item)
    matching.find_partner(new_context(table, BEGIN, EAGER), item)


def look(table: Any, id: str) -> None:
    """Do what `reconcile` does for a partner that was lost."""
    item = connections.find(table, id) if id else None
    if item and matching.is_in_pool(item):
        matching.find_partner(new_context(table, BEGIN, EAGER), item)


def settle(table: Any, id: str, decide: Callable[[Item], Change | None], ack: str = "") -> None:
    me = connections.find(table, id)
    if me:
        changed = matching.settle(new_context(table, BEGIN), me, decide)
        table.acks += [ack] if ack else []
        look(table, changed.lost)


def leave(table: Any, id: str) -> None:
    settle(table, id, lambda me: None if me["state"] == "idle" else Change("idle"), f"leave {id}")


def go_on(table: Any, id: str) -> None:
    settle(table, id, lambda me: None if matching.is_in_pool(me) else Change("waiting"))


def close(table: Any, id: str) -> None:
    settle(table, id, lambda me: Change("gone"))


def say(table: Any, id: str) -> None:
    """Send a message: note on the table in which pair it is posted."""
    entry = [evidence.record(SETTINGS, "insult", BEGIN)]
    sender = table.update(
        connections.key(id),
        "SET said = list_append(if_not_exists(said, :none), :entry)",
        condition="attribute_exists(pk)",
        values={":none": [], ":entry": entry},
        idempotent=True,
    )
    if sender["state"] == "matched":
        table.acks.append(sender["pair"])


def report(table: Any, id: str) -> None:
    sender = connections.find(table, id)
    assert sender
    pair = sender.get("pair") or sender["last_pair"]
    found = evidence.find(new_context(table, BEGIN), sender, pair)
    assert found, "the last partner cannot be reported"
    put = reports.build_put(sender, found, INSULT, BEGIN, SETTINGS)
    mine, theirs = evidence.read_members(found, sender)
    blocks.block(new_context(table, BEGIN), mine, theirs)
    matching.separate(new_context(table, BEGIN), sender, theirs, [put])
    table.acks += [f"report {id}", *(item["state_id"] for item in table.connections.values())]


def check_pairs(table: Any, ended: Sequence[bool], schedule: object) -> None:
    """Check what holds in every state, also when a worker has died."""
    found = table.connections
    for id, item in found.items():
        if item["state"] == "matched":
            partner = found[item["partner"]["id"]]
            assert (partner["state_id"], partner["partner"]["id"]) == (item["state_id"], id), schedule
            assert item["who"] != partner["who"], schedule
            assert partner["who"] not in item.get("blocked", ()), schedule
        elif item["state"] != "gone":
            assert item.get("notices", [])[-1:] != [CONNECTED], schedule
    pool = {key.sk for key in table.items if key.pk == "WAITING#main"}
    assert pool == {item["state_id"] for item in found.values() if matching.is_in_pool(item)}, schedule


def named(name: str, work: Callable[..., None], *given: str) -> Callable[[Any], None]:
    """Return a worker whose tokens have its name."""

    def run(table: Any) -> None:
        worker: Any = getcurrent()
        worker.name = name
        work(table, *given)

    return run


PARTINGS = {"next": go_on, "leave": leave, "close": close}


@pytest.mark.parametrize("how", PARTINGS)
def test_a_visitor_that_leaves_is_idle_whatever_its_partner_does(how: str) -> None:
    def check(table: Any, ended: Sequence[bool], schedule: object) -> None:
        check_pairs(table, ended, schedule)
        if "leave a" in table.acks:
            assert table.item("a")["state"] == "idle", schedule

    workers = named("x", leave, "a"), named("y", PARTINGS[how], "b")
    assert explore(workers, check, begin("a", "b", "c")) > 20


@pytest.mark.parametrize("how", PARTINGS)
def test_a_report_is_kept_and_final_whatever_the_partner_does(how: str) -> None:
    def check(table: Any, ended: Sequence[bool], schedule: object) -> None:
        check_pairs(table, ended, schedule)
        stored = [item for key, item in table.items.items() if key.pk == "REPORTS"]
        if "report a" in table.acks:
            assert [item["reported"] for item in stored] == [table.item("b")["who"]], schedule
        if stored and all(ended):
            assert table.item("a").get("partner", {}).get("id") != "b", schedule

    workers = named("x", report, "a"), named("y", PARTINGS[how], "b")
    assert explore(workers, check, begin("a", "b")) > 20


@pytest.mark.parametrize("parting", ["a", "b"])
def test_a_message_that_is_posted_is_proved_whoever_parts(parting: str) -> None:
    def check(table: Any, ended: Sequence[bool], schedule: object) -> None:
        for pair in table.acks if all(ended) else ():
            item = evidence.find(new_context(table, BEGIN), table.item("a"), pair)
            assert item
            _, theirs = evidence.read_members(item, table.item("a"))
            assert evidence.is_proved(SETTINGS, "insult", theirs), schedule

    workers = named("x", say, "b"), named("y", go_on, parting)
    assert explore(workers, check, begin("a", "b")) > 5


def test_two_tabs_of_one_person_are_never_matched() -> None:
    def check(table: Any, ended: Sequence[bool], schedule: object) -> None:
        check_pairs(table, ended, schedule)
        if all(ended):
            states = sorted(item["state"] for item in table.connections.values())
            assert states == ["matched", "matched", "waiting"], schedule

    workers = [named(id, enter, id, subject) for id, subject in (("t", "p"), ("u", "p"), ("v", ""))]
    assert explore(workers, check, Pool) > 100


def test_two_persons_do_not_meet_after_a_report_whichever_of_their_connections_look() -> None:
    def check(table: Any, ended: Sequence[bool], schedule: object) -> None:
        check_pairs(table, ended, schedule)
        for item in table.connections.values() if "report a" in table.acks else ():
            persons = {item["who"], item.get("partner", item)["who"]}
            assert item["state_id"] in table.acks or persons != {"p", "q"}, schedule

    table = Pool()
    for id, subject in (("a", "p"), ("b", "q"), ("c", "p")):
        enter(table, id, subject)
    workers = named("x", report, "a"), named("y", enter, "d", "q")
    assert explore(workers, check, lambda: Pool(table.items)) > 20


# -- planted faults: the model finds them --------------------------------------------------------------


def settle_once(context: Context, me: Item, decide: Any) -> Any:
    change = decide(me)
    return (change and matching.change_state(context, me, change)) or matching.Changed(me)


def separate_once(context: Context, me: Item, partner: evidence.Member, extra: Any) -> Any:
    change = Change("waiting", blocks=partner.who, extra=extra)
    return matching.change_state(context, me, change) or matching.Changed(me)


@pytest.mark.parametrize("how", PARTINGS)
def test_the_model_finds_a_leave_that_gives_up_after_a_lost_race(how: str) -> None:
    with mock.patch.object(matching, "settle", settle_once), pytest.raises(AssertionError):
        test_a_visitor_that_leaves_is_idle_whatever_its_partner_does(how)


@pytest.mark.parametrize("how", PARTINGS)
def test_the_model_finds_a_report_that_gives_up_after_a_lost_race(how: str) -> None:
    with mock.patch.object(matching, "separate", separate_once), pytest.raises(AssertionError):
        test_a_report_is_kept_and_final_whatever_the_partner_does(how)


def test_the_model_finds_evidence_that_was_read_too_early() -> None:
    always = mock.patch.object(matching, "is_unchanged", return_value=matching.ALWAYS)
    with always, pytest.raises(AssertionError):
        test_a_message_that_is_posted_is_proved_whoever_parts("a")


def test_the_model_finds_a_match_of_two_whom_a_report_has_parted() -> None:
    always = mock.patch.object(matching, "has_not_blocked", return_value=matching.ALWAYS)
    with always, pytest.raises(AssertionError):
        test_a_report_is_kept_and_final_whatever_the_partner_does("next")


def test_the_model_finds_a_match_of_two_persons_whom_a_report_has_parted() -> None:
    always = {"ConditionCheck": {"Key": {"pk": "", "sk": ""}}}
    with mock.patch.object(blocks, "build_check", return_value=always), pytest.raises(AssertionError):
        test_two_persons_do_not_meet_after_a_report_whichever_of_their_connections_look()
