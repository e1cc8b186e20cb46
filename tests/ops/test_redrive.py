"""A quarantined entry is applied exactly once, after a correction of the code, the item or the entry."""

from __future__ import annotations

import json
import os
import random
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest
from click.testing import CliRunner

from chalicelib.aggregates import engine as aggregates
from chalicelib.aggregates import quarantine, sums
from chalicelib.aggregates.sums import Amount
from chalicelib.challenges import finders as challenge_finders
from chalicelib.challenges import progress as challenge_progress
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table
from local.engines.engine import Engine
from ops.cli.main import main
from ops.maintenance.audit import NO_SUMS
from ops.maintenance.redrive import Summary, redrive
from tests.histories.world import Killed
from tests.support.faults import after, instead
from tests.support.records import record, scan
from tests.support.tables import store_on

STRICT = (challenge_progress.contribution,)
STATISTICS = challenge_finders.statistics_key("hunt")


def lenient_contribution(item: Item) -> Mapping[tuple[Key, str], Amount]:
    """A later version, which has learned to read numbers that are written as texts."""
    found = item.get("found")
    return challenge_progress.contribution(item | {"found": int(found)} if isinstance(found, str) else item)


LENIENT = (lenient_contribution,)


@pytest.fixture
def table(engine: Engine) -> Iterator[Table]:
    with store_on(engine, pause=lambda _: None) as (made, _):
        yield made


def progress(player: str, found: Any) -> Item:
    return {**challenge_progress.progress_key("hunt", player)._asdict(), "found": found}


def change(table: Table, old: Item | None, new: Item | None) -> None:
    """Deliver a change through the stream to the strict version."""
    aggregates.apply(table, STRICT, [record(old, new)])


def spoil(table: Table, count: int, first: int = 0) -> None:
    """Bring players whose progress the strict version cannot read."""
    records = [record(None, progress(f"p{i}", "2")) for i in range(first, first + count)]
    aggregates.apply(table, STRICT, records)


def counted(table: Table) -> dict[str, int]:
    item = table.get(STATISTICS, consistent=True) or {}
    return {name: value for name, value in item.items() if name not in NO_SUMS and value}


def entries(table: Table) -> list[Item]:
    return [item for item in scan(table) if item["pk"].startswith("QUARANTINE#")]


def twos(players: int) -> dict[str, int]:
    return {"players": players, "paths": 2 * players, "n2": players}


# -- repaired by code ----------------------------------------------------------------------------------


def test_an_image_that_the_code_can_read_now_is_added_once(table: Table) -> None:
    spoil(table, 7)
    change(table, None, progress("good", 2))
    assert (counted(table), len(entries(table))) == (twos(1), 7)
    assert redrive(table, STRICT).left.total() == 7
    assert redrive(table, LENIENT) == Summary(entries=7, applied=7)
    assert (counted(table), entries(table)) == (twos(8), [])
    assert redrive(table, LENIENT) == Summary()
    assert counted(table) == twos(8)


def test_a_malformed_entry_stays_and_does_not_block_others(table: Table) -> None:
    spoil(table, 3)
    change(table, None, progress("bad", "many"))
    change(table, None, progress("worse", [2]))
    summary = redrive(table, LENIENT)
    assert (summary.entries, summary.applied, summary.left.total()) == (5, 3, 2)
    assert sorted(reason.partition(":")[0] for reason in summary.left) == ["ValueError", "ValueError"]
    assert counted(table) == twos(3)
    assert len(entries(table)) == 2


def test_an_image_that_was_written_and_left_again_adds_and_takes_away(table: Table) -> None:
    change(table, None, progress("ann", "2"))
    change(table, progress("ann", "2"), progress("ann", "5"))
    change(table, progress("ann", "5"), None)
    change(table, None, progress("bob", "2"))
    assert redrive(table, LENIENT).applied == 5
    assert counted(table) == twos(1)


@pytest.mark.parametrize("seed", range(4))
def test_the_aggregates_match_the_items_in_the_end_whatever_was_malformed(table: Table, seed: int) -> None:
    """Entries are redriven by the strict version too, in between: what it cancels is worth nothing."""
    chance = random.Random(seed)
    items: dict[str, Item] = {}
    for _ in range(120):
        player = f"p{chance.randrange(12)}"
        old = items.pop(player, None)
        found = chance.choice([1, 2, 3, "1", "2", "3", None])
        new = None if found is None else progress(player, found)
        if new:
            items[player] = new
        if old or new:
            change(table, old, new)
        if chance.random() < 0.1:
            redrive(table, STRICT)
    redrive(table, LENIENT)
    recount = sums.recount(LENIENT, items.values())
    assert counted(table) == {name: amount for (_, name), amount in recount.items()}
    assert entries(table) == []


# -- repaired by mending the item, or the entry --------------------------------------------------------


def test_a_corrected_item_counts_once_and_its_entries_cancel(table: Table) -> None:
    change(table, None, progress("ann", 1))
    change(table, progress("ann", 1), progress("ann", "broken"))
    assert counted(table) == {}
    change(table, progress("ann", "broken"), progress("ann", 2))
    assert counted(table) == twos(1)
    assert sorted(entry["sign"] for entry in entries(table)) == [-1, 1]
    assert redrive(table, STRICT) == Summary(entries=2, cancelled=2)
    assert (counted(table), entries(table)) == (twos(1), [])


def test_entries_of_different_items_or_of_one_sign_do_not_cancel(table: Table) -> None:
    change(table, None, progress("ann", "broken"))
    change(table, progress("bob", "broken"), None)
    change(table, None, progress("eve", "broken"))
    change(table, None, progress("eve", "broken"))
    assert redrive(table, STRICT).left.total() == 4
    assert len(entries(table)) == 4


@pytest.mark.parametrize("as_text", [True, False])
def test_a_corrected_entry_is_added_once_and_cancels_with_its_corrected_counterpart(
    table: Table, as_text: bool
) -> None:
    def mend(sign: int) -> None:
        [entry] = [entry for entry in entries(table) if entry["sign"] == sign]
        image = quarantine.read_image(entry)
        image["found"] = {"N": "2"}
        text = json.dumps(image)
        table.put(entry | {"image": text if as_text else zlib.compress(text.encode())})

    change(table, None, progress("ann", "broken"))
    mend(1)
    assert redrive(table, STRICT) == Summary(entries=1, applied=1)
    assert counted(table) == twos(1)
    change(table, progress("ann", "broken"), progress("ann", 2))
    assert redrive(table, STRICT).left.total() == 1
    mend(-1)
    assert redrive(table, STRICT).applied == 1
    assert (counted(table), entries(table)) == (twos(1), [])


@pytest.mark.parametrize(
    "fields", [{"sign": 2}, {"sign": "1"}, {"image": b"?"}, {"image": "{"}, {"image": 7}, {"image": "[1]"}]
)
def test_an_entry_that_is_damaged_itself_stays(table: Table, fields: dict[str, Any]) -> None:
    spoil(table, 1)
    [entry] = entries(table)
    table.put(entry | fields)
    spoil(table, 2, first=1)
    summary = redrive(table, LENIENT)
    assert (summary.applied, summary.left.total()) == (2, 1)
    assert counted(table) == twos(2)


def test_an_entry_that_was_too_large_for_its_image_stays(table: Table) -> None:
    spoil(table, 1)
    [entry] = entries(table)
    del entry["image"]
    table.put(entry | {"image_bytes": 400_000})
    [reason] = redrive(table, LENIENT).left
    assert "too large to keep" in reason


# -- exactly once --------------------------------------------------------------------------------------


def test_more_entries_than_a_page_or_a_transaction_holds_are_all_added(table: Table) -> None:
    many = 150 * quarantine.PARTITIONS // 8
    spoil(table, many)
    seen: list[int] = []
    assert redrive(table, LENIENT, advance=seen.append) == Summary(entries=many, applied=many)
    assert (sum(seen), counted(table)) == (many, twos(many))


def test_runs_at_the_same_time_add_every_entry_once(table: Table) -> None:
    spoil(table, 120)
    change(table, None, progress("ann", "broken"))
    change(table, progress("ann", "broken"), None)
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: redrive(table, LENIENT), range(4)))
    assert sum(summary.applied for summary in done) == 120
    redrive(table, LENIENT)
    assert (counted(table), entries(table)) == (twos(120), [])


def test_an_entry_that_another_run_took_is_dropped_and_the_others_are_added(table: Table) -> None:
    spoil(table, 3)
    transact, taken = table.transact, list[Key]()

    def one_is_taken(actions: Any) -> tuple[int, ...]:
        if not taken:
            taken.append(Key(**actions[0]["Delete"]["Key"]))
            table.delete(taken[0])
        return transact(actions)

    with mock.patch.object(table, "transact", one_is_taken):
        summary = redrive(table, LENIENT)
    assert (summary.gone, summary.applied, summary.left.total()) == (1, 2, 0)
    assert (counted(table), entries(table)) == (twos(2), [])


@pytest.mark.parametrize("fault", [instead, after])
def test_a_run_that_is_killed_is_taken_up_by_the_next(table: Table, fault: Any) -> None:
    spoil(table, 40)
    with pytest.raises(Killed), fault(table, "TransactWriteItems", Killed()):
        redrive(table, LENIENT)
    redrive(table, LENIENT)
    assert (counted(table), entries(table)) == (twos(40), [])


def test_an_entry_that_dynamodb_rejects_stays_and_takes_no_other_with_it(table: Table) -> None:
    spoil(table, 20)
    other = {**challenge_progress.progress_key("odd", "p")._asdict(), "found": "2"}
    aggregates.apply(table, STRICT, [record(None, other), record(None, {**other, "found": "3"})])
    table.put({**challenge_finders.statistics_key("odd")._asdict(), "players": "a text"})
    summary = redrive(table, LENIENT)
    assert (summary.applied, summary.left.total()) == (20, 2)
    assert all(reason.startswith("Rejected") for reason in summary.left)
    assert counted(table) == twos(20)


def test_a_pair_of_which_one_is_gone_keeps_the_other(table: Table) -> None:
    change(table, None, progress("ann", "broken"))
    change(table, progress("ann", "broken"), None)
    taken = table.transact

    def one_is_taken(actions: Any) -> tuple[int, ...]:
        table.delete(Key(**actions[0]["Delete"]["Key"]))
        return taken(actions)

    with mock.patch.object(table, "transact", one_is_taken):
        summary = redrive(table, STRICT)
    assert (summary.cancelled, summary.gone, summary.left.total()) == (0, 1, 1)
    assert len(entries(table)) == 1


def test_a_dry_run_says_the_same_and_writes_nothing(table: Table) -> None:
    spoil(table, 5)
    change(table, None, progress("ann", "broken"))
    change(table, progress("ann", "broken"), None)
    change(table, None, progress("eve", "broken"))
    before = scan(table)
    said = redrive(table, LENIENT, dry_run=True)
    assert scan(table) == before
    assert redrive(table, LENIENT) == said
    assert (said.applied, said.cancelled, said.left.total()) == (5, 2, 1)


# -- the command ---------------------------------------------------------------------------------------


@pytest.fixture
def stage(table: Table) -> Iterator[Table]:
    """The table as that of the local stage."""
    with mock.patch.dict(os.environ, HUBBUB_ENDPOINT=table.client.meta.endpoint_url, HUBBUB_TABLE=table.name):
        yield table


def run(*options: str) -> Any:
    return CliRunner().invoke(main, ["redrive", "--stage", "local", *options])


def test_the_command_exits_with_3_while_entries_stay_and_with_0_afterwards(stage: Table) -> None:
    assert (run().exit_code, counted(stage)) == (0, {})
    change(stage, None, progress("ann", "broken"))
    left = run()
    assert left.exit_code == 3
    assert "and is 'broken'" in left.output
    change(stage, progress("ann", "broken"), progress("ann", 2))
    assert run("--dry-run").exit_code == 0
    assert len(entries(stage)) == 2
    assert run().exit_code == 0
    assert (counted(stage), entries(stage)) == (twos(1), [])
