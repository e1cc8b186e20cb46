"""An erasure is complete, the aggregates follow, and interruptions and concurrent writes are safe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner

import app
from chalicelib import settings
from chalicelib.aggregates import quarantine
from chalicelib.api import rates
from chalicelib.api.auth import Caller
from chalicelib.challenges import definitions, submissions
from chalicelib.challenges.schemas import ChallengeBody
from chalicelib.chat import bans, blocks
from chalicelib.comments import comments, replies, votes
from chalicelib.comments.schemas import CommentBody, CommentPatch, ReplyBody
from chalicelib.dynamo.items import Item, Key, Range
from chalicelib.dynamo.table import Table
from chalicelib.errors import InvalidPath
from chalicelib.feature import Person
from chalicelib.leaderboards import boards, scores
from chalicelib.leaderboards.schemas import BoardBody, ScoreBody
from chalicelib.views import events
from chalicelib.views.events import View
from local.engines.engine import ROOT
from ops.aws import template
from ops.cli.main import main
from ops.maintenance import erase as work
from ops.maintenance import redrive
from ops.maintenance import scan as segments
from ops.maintenance.erase import Erased
from ops.maintenance.pace import Pace
from tests.conftest import EngineTable
from tests.histories.world import Killed
from tests.support.contexts import new_context
from tests.support.faults import instead
from tests.support.live import Live
from tests.support.records import drift, scan
from tests.support.running import ENVIRONMENT, until

PAGE = "https://example.org/a"
ANNA, BEN = Person("anna", frozenset({"phone-1", "tablet#2"})), Person("ben", frozenset({"phone-2"}))
NOW = datetime.now(UTC)


@pytest.fixture
def live(engine_table: EngineTable) -> Live:
    """A table with data, which is that of the local stage."""
    live = Live(engine_table, app.CONTRIBUTIONS)
    os.environ.update(HUBBUB_ENDPOINT=live.engine.endpoint, HUBBUB_TABLE=live.table.name)
    plant(live.table)
    live.drain()
    return live


def plant(table: Table) -> None:
    """Write something of every kind for Anna, and the same for Ben."""
    for board in ("kart", "golf"):
        boards.define(
            new_context(table, NOW), board, BoardBody(title=board, min=Decimal(0), max=Decimal(1000))
        )
    for challenge, ranked in (("hunt", True), ("quiz", False)):
        body = ChallengeBody(title=challenge, paths=["a", "b", "c"], limit=3, ranked=ranked)
        definitions.define(new_context(table, NOW), challenge, body)
    for person in (ANNA, BEN):
        write(table, person, "1")
        events.write(new_context(table, NOW), [View(PAGE, NOW, client) for client in person.clients])


def write(table: Table, person: Person, id: str) -> None:
    """Submit, find, guess and comment once more."""
    me = Caller(person.name)
    for board in ("kart", "golf"):
        scores.submit(new_context(table, NOW), board, ScoreBody(id=id, value=Decimal(7)), me)
    for challenge in ("hunt", "quiz"):
        for path in ("a", "b"):
            submissions.submit(new_context(table, NOW), challenge, me, path)
        with pytest.raises(InvalidPath):
            submissions.submit(new_context(table, NOW), challenge, me, f"wrong {id}")
    for product in (f"shoe-{id}", f"hat-{id}"):
        made = comments.post(
            new_context(table, NOW), product, CommentBody(rating=5, language="en", text="x"), me, None
        )
    patch, admin = CommentPatch(hidden=True), Caller("a", admin=True)
    comments.patch(new_context(table, NOW), f"hat-{id}", made.comment.id, patch, admin, None)


def erased(live: Live, person: Person, pause: Callable[[float], None] | None = None) -> Erased:
    return work.erase(live.table, person, Pace(3), settle=1, report=lambda _: None, pause=pause or live.drain)


def list_items(live: Live, person: Person) -> list[Item]:
    return [item for item in scan(live.table) if work.classify(item, person)]


def test_everything_of_a_person_goes_and_the_sums_follow_and_others_keep_theirs(live: Live) -> None:
    before = list_items(live, BEN)
    found = work.count_items(live.table, ANNA, Pace(2), lambda _: None)
    kinds = {"scores": 2, "activities": 2, "paths": 6, "comments": 2}
    assert found - Counter(read=found["read"]) == kinds | {"authors": 2, "views": 2, "visitors": 4}
    done = erased(live, ANNA)
    assert (done.left, list_items(live, ANNA)) == ({}, [])
    assert "anna" not in str(scan(live.table))
    live.drain()
    assert drift(live.table, app.CONTRIBUTIONS) == {}
    assert list_items(live, BEN) == before
    page = live.table.get(events.page_key(PAGE), consistent=True) or {}
    assert (page.get("views", 0), page["visitors"]) == (1, 1)
    assert live.counted("shoe-1") == 1
    assert not live.table.query(Range(work.progress_pk(ANNA))).items


def test_erasing_again_finds_nothing_and_writes_nothing(live: Live) -> None:
    erased(live, ANNA)
    before = scan(live.table)
    again = erased(live, ANNA)
    assert (again.erased, again.left, again.passes) == ({}, {}, 1)
    assert scan(live.table) == before


@pytest.mark.parametrize(
    "deletions", [3, *(pytest.param(number, marks=pytest.mark.long) for number in (0, 9))]
)
def test_an_interrupted_erasure_resumes_and_ends_with_a_full_pass(
    live: Live, deletions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "PAGE", 10)
    ready: list[Any] = [None] * deletions
    with instead(live.table, "DeleteItem", *ready, Killed()), pytest.raises(Killed):
        work.erase(live.table, ANNA, Pace(1), settle=0, report=lambda _: None, pause=lambda _: None)
    assert live.table.query(Range(work.progress_pk(ANNA)), consistent=True).items
    write(live.table, ANNA, f"after-{deletions}")  # perhaps where the first run has looked already
    done = erased(live, ANNA)
    assert (done.left, list_items(live, ANNA)) == ({}, [])
    assert done.passes >= 2
    live.drain()
    assert drift(live.table, app.CONTRIBUTIONS) == {}


def test_a_person_who_keeps_writing_is_reported_as_left_and_the_aggregates_are_exact(live: Live) -> None:
    stop, rounds = threading.Event(), 0

    def go_on() -> None:
        nonlocal rounds
        while not stop.is_set():
            scores.submit(
                new_context(live.table, NOW),
                "kart",
                ScoreBody(id=f"n{rounds}", value=Decimal(1)),
                Caller("anna"),
            )
            rounds += 1

    def more(_: float) -> None:
        at = rounds
        until(lambda: rounds > at, "writes")

    writer = threading.Thread(target=go_on)
    with live.applied():
        writer.start()
        try:
            until(lambda: rounds > 2, "writes")
            done = erased(live, ANNA, more)
        finally:
            stop.set()
            writer.join()
    assert done.left["scores"] == 1
    assert done.passes == work.MAX_PASSES
    assert drift(live.table, app.CONTRIBUTIONS) == {}
    done = erased(live, ANNA)
    assert (done.left, list_items(live, ANNA)) == ({}, [])
    live.drain()
    assert drift(live.table, app.CONTRIBUTIONS) == {}


def test_images_in_quarantine_are_left_until_a_redrive_cancels_them(live: Live) -> None:
    key = scores.score_key("kart", 1, "anna")
    live.table.update(key, "SET score = :many", values={":many": "many"})  # nobody can compute that
    live.drain()
    done = erased(live, ANNA)
    assert done.left == {"quarantine": 2}  # as it was written, and as it was deleted
    assert live.table.get(key, consistent=True) is None
    assert redrive.redrive(live.table, app.CONTRIBUTIONS).cancelled == 2
    assert erased(live, ANNA).left == {}
    assert "anna" not in str(scan(live.table))
    assert drift(live.table, app.CONTRIBUTIONS) == {}


def test_a_name_is_not_a_part_of_another_name(live: Live) -> None:
    others = [Person("ann"), Person("anna2"), Person("PLAYER"), Person("anna", frozenset({"2", "phone"}))]
    for person in others[:3]:
        count = work.count_items(live.table, person, Pace(1), lambda _: None)
        assert count == Counter(read=count["read"])
    found = work.count_items(live.table, others[3], Pace(1), lambda _: None)
    assert (found["views"], found["visitors"]) == (0, 0)


def test_an_authors_item_without_its_comment_goes_too(live: Live) -> None:
    live.table.put({**comments.author_key("cap", "anna")._asdict(), "id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"})
    assert erased(live, ANNA).left == {}
    assert live.table.get(Key("PRODUCT#cap", "AUTHOR#anna"), consistent=True) is None


def react(live: Live, to: Person, by: Person) -> str:
    """Let one person answer the other's comment and vote for it. Return the comment's id."""
    author = live.table.get(comments.author_key("shoe-1", to.name), consistent=True)
    assert author
    body = ReplyBody(text=f"Thank you, {to.name}!")
    replies.post(new_context(live.table, NOW), "shoe-1", author["id"], body, Caller(by.name), None)
    votes.cast(new_context(live.table, NOW), "shoe-1", author["id"], Caller(by.name))
    return str(author["id"])


@pytest.mark.parametrize("is_deleted", [False, True], ids=["comment", "comment that was deleted before"])
def test_the_replies_of_others_to_an_erased_comment_go_also_without_the_stream(
    live: Live, is_deleted: bool
) -> None:
    id = react(live, ANNA, BEN)
    react(live, BEN, ANNA)
    if is_deleted:
        comments.delete(live.table, "shoe-1", id, Caller("anna"))
    found = work.count_items(live.table, ANNA, Pace(1), lambda _: None)
    assert (found["cleanups"], found["replies"], found["votes"]) == (int(is_deleted), 1, 1)
    done = erased(live, ANNA, pause=lambda _: None)
    assert done.left == {}
    assert [item for item in scan(live.table) if "anna" in str(item) or id in str(item)] == []
    live.drain()
    assert drift(live.table, app.CONTRIBUTIONS) == {}


def test_a_reply_that_a_lost_deletion_has_left_is_erased(live: Live) -> None:
    id = react(live, BEN, ANNA)
    comments.delete(live.table, "shoe-1", id, Caller("ben"))
    live.table.delete(comments.cleanup_key("shoe-1", id))
    assert erased(live, ANNA, pause=lambda _: None).left == {}
    assert [item["sk"] for item in scan(live.table) if id in item["sk"]] == []


@pytest.mark.security
def test_an_export_of_a_person_has_what_an_erasure_would_erase(live: Live) -> None:
    react(live, BEN, ANNA)
    react(live, ANNA, BEN)
    clients = [part for client in sorted(ANNA.clients) for part in ("--client", client)]

    def run(*options: str) -> Any:
        return CliRunner().invoke(main, ["export", *options])

    done = run("--person", "anna", *clients)
    lines = [json.loads(line)["Item"] for line in done.stdout.splitlines()]
    keys = sorted((line["pk"]["S"], line["sk"]["S"]) for line in lines)
    assert keys == sorted((item["pk"], item["sk"]) for item in list_items(live, ANNA))
    assert {sk.partition("#")[0] for _, sk in keys} >= {"BOARD", "ACTIVITY", "PATH", "COMMENT", "HIDDEN"}
    assert {sk.partition("#")[0] for _, sk in keys} >= {"REPLY", "VOTE", "AUTHOR", "COUNTERS", "T", "VISITOR"}
    exported = run("--person", "anna", "--feature", "challenges").stdout.splitlines()
    assert len(exported) == sum(pk.startswith("CHALLENGE#") for pk, _ in keys)
    nobody = run("--person", "nobody")
    assert (nobody.exit_code, nobody.stdout) == (1, "")
    assert "no data of nobody found in local; nothing exported" in nobody.stderr


def test_the_command_asks_first_and_reports_the_items_left(live: Live) -> None:
    clients = [part for client in sorted(ANNA.clients) for part in ("--client", client)]

    def run(*options: str, answer: str = "") -> Any:
        return CliRunner().invoke(
            main, ["erase", "anna", *clients, "--settle", "0.2", *options], input=answer
        )

    dry = run("--dry-run", "--json")
    assert (dry.exit_code, json.loads(dry.stdout)["found"]["scores"]) == (0, 2)
    refused = run(answer="n\n")
    assert refused.exit_code == 1
    assert "Erase 20 items of anna in local? This cannot be undone." in refused.output
    assert len(list_items(live, ANNA)) == 20
    with live.applied():
        done = run("--yes", "--json")
    assert (done.exit_code, json.loads(done.stdout)["left"]) == (0, {})
    assert list_items(live, ANNA) == []
    image = {"pk": {"S": "PLAYER#anna"}, "sk": {"S": "BOARD#b#1"}}
    live.table.put(quarantine.build_item(b"x" * 12, 1, quarantine.Poison(image, 1, "no"), 1))
    left = run("--yes")
    assert (left.exit_code, left.stdout) == (3, "erased: nothing\nleft: 1 quarantine\n")


@pytest.mark.security
def test_a_persons_ban_and_reports_are_exported_and_erased(live: Live, tmp_path: Path) -> None:
    digests = {name: rates.digest_subject(settings.current(), name) for name in ("anna", "ben")}
    bans.ban(new_context(live.table, NOW), digests.values(), 1)
    live.table.put({**blocks.key(digests["anna"])._asdict(), "blocked": {digests["ben"]}})
    for name, role in (("anna", "reported"), ("anna", "reporter"), ("ben", "reported")):
        live.table.put({"pk": "REPORTS", "sk": f"{role}#{name}", role: digests[name], "reason": "spam"})
    file = tmp_path / "anna.jsonl"
    exported = CliRunner().invoke(main, ["export", "--person", "anna", "--output", str(file)])
    assert exported.exit_code == 0, exported.output
    items = [json.loads(line)["Item"] for line in file.read_text().splitlines()]
    assert Counter(item["pk"]["S"].partition("#")[0] for item in items)["REPORTS"] == 2
    assert {item["pk"]["S"] for item in items} >= {f"BAN#{digests['anna']}", "PLAYER#anna"}
    assert not [item for item in items if "ben" in item["pk"]["S"]]
    with live.applied():
        done = CliRunner().invoke(main, ["erase", "anna", "--yes", "--json", "--settle", "0.2"])
    erased = json.loads(done.stdout)["erased"]
    assert (done.exit_code, erased["bans"], erased["blocks"], erased["reports"]) == (0, 1, 1, 2)
    assert live.table.get(bans.ban_key(digests["ben"])) is not None
    assert [item["sk"] for item in live.table.query(Range("REPORTS")).items] == ["reported#ben"]


@pytest.mark.security
def test_a_name_in_any_notation_is_erased_and_one_that_nobody_has_is_a_failure(
    dev_table: template.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that was pasted from a file system or a mail is often not in NFC; the table always is."""
    table = Table(dev_table.name, boto3.client("dynamodb"))
    for name in [name for name in os.environ if name.startswith("HUBBUB_") and name != "HUBBUB_TABLE"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HUBBUB_SECRET", "0123456789abcdef0123456789abcdef")
    composed, decomposed = (unicodedata.normalize(form, "Zoë") for form in ("NFC", "NFD"))
    assert composed != decomposed

    def run(*words: str) -> Any:
        return CliRunner().invoke(main, ["erase", *words, "--stage", "dev", "--settle", "0"])

    def write() -> None:
        boards.define(
            new_context(table, NOW), "kart", BoardBody(title="kart", min=Decimal(0), max=Decimal(9))
        )
        scores.submit(new_context(table, NOW), "kart", ScoreBody(id="1", value=Decimal(7)), Caller(composed))
        events.write(new_context(table, NOW), [View(PAGE, NOW, composed)])

    write()
    for options in ("--dry-run",), ("--yes",), ("--dry-run", "--json"):
        nobody = run("Zoe", *options)
        assert nobody.exit_code == 1
        assert "no data of Zoe found in dev; nothing erased" in nobody.stderr
    assert "no data of Zoe" in run("Zoe").stderr  # it does not ask whether to erase nothing
    done = run(decomposed, "--client", decomposed, "--yes", "--json")
    assert (done.exit_code, json.loads(done.stdout)["left"]) == (0, {})
    assert json.loads(done.stdout)["erased"] == {"scores": 1, "activities": 1, "views": 1, "visitors": 2}
    assert composed not in str(scan(table))
    assert run(composed, "--yes").exit_code == 1  # there is nothing left
    refused = run("e" + "\u0301" * 40, "--yes")
    assert (refused.exit_code, "combining marks" in refused.stderr) == (2, True)


@pytest.mark.long
def test_the_command_may_be_killed_and_run_again(live: Live) -> None:
    environment = ENVIRONMENT | {"HUBBUB_ENDPOINT": live.engine.endpoint, "HUBBUB_TABLE": live.table.name}
    command = [sys.executable, "-m", "ops", "erase", "anna", "--yes", "--settle", "1", "--json"]
    whole = len(list_items(live, Person("anna")))
    with subprocess.Popen([*command, "--rate", "20"], cwd=ROOT, env=environment) as process:
        until(lambda: len(list_items(live, Person("anna"))) < whole, "something is erased")
        process.kill()
    with live.applied():
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert list_items(live, Person("anna")) == []
    live.drain()
    assert drift(live.table, app.CONTRIBUTIONS) == {}
