"""`make bench`, in its quick form: one run, one document, every question answered and every target met."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from bench import results
from bench.__main__ import main
from bench.ledger import Ledger
from bench.plots import svg
from bench.report import Answer, Plot, Question, Report, Target
from bench.suite import ALL
from chalicelib.items import Key
from chalicelib.table import Table

QUESTIONS = [
    "What does a counted view cost?",
    "How many views of one page are counted, 10 ms added to each call?",
    "How many views of one page are counted, no latency added?",
    "What does each of 1,000 views cost?",
    "What does a rank cost, of a player in the middle?",
    "… and how many round trips, one after the other?",
    "What does a change of score cost?",
    "How many of 14 statistics are wrong?",
    "What does a found path cost, with the statistics?",
    "What does a comment cost, with all that it adds to?",
    "What does a page of 20 of 100 comments cost?",
    "What does a page of 20 of 1,000 comments cost?",
    "What does an event of chat write?",
    "16 come at once: how many are left alone, and for how many does it fail?",
]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    ran = CliRunner().invoke(main, ["all", "--quick", "--output", str(folder)])
    assert ran.exit_code == 0, ran.output
    return folder / results.FILE


def test_one_run_answers_every_question_and_meets_every_target(document: Path) -> None:
    text = document.read_text()
    assert [title for title in re.findall(r"^## (.*)$", text, re.M) if "?" in title] == QUESTIONS
    assert "**missed** |" not in text  # times are for information here: other work may go on
    for one in ALL:
        assert f"\n## {one.name}\n" in text


def test_the_document_says_on_what_it_was_made_and_how(document: Path) -> None:
    text = document.read_text()
    for word in ("processor", "cores", "Python", "boto3", "commit", "other work", "Capacity.", "Handlers."):
        assert word in text
    assert platform.node() not in text


def test_every_plot_is_an_svg_that_can_be_read(document: Path) -> None:
    named = re.findall(r"!\[.*\]\((.*)\)", document.read_text())
    assert named == ["plots/views.svg", "plots/throughput.svg", "plots/ranks.svg"]
    for name in named:
        assert ElementTree.parse(document.parent / name).getroot().tag.endswith("svg")


def test_a_plot_puts_each_point_where_it_belongs() -> None:
    drawn = svg(Plot("p", "A & B", "x", "y", {"one": [(1, 10), (10, 100), (100, 1000)]}))
    [points] = re.findall(r'points="([^"]*)"', drawn)
    assert points == "70.0,350.0 335.0,206.0 600.0,62.0"  # three corners of the paper and its middle
    assert "A &amp; B" in drawn


def test_an_answer_is_shown_with_both_ratios() -> None:
    question = Question("What?", "WCU", [Answer("alone", 2, 4, 1), Answer("nobody else", 3)])
    assert question.figures.rows == [("alone", 2, 4, 1, 0.5, 2), ("nobody else", 3, "–", "–", "–", "–")]


def test_a_missed_target_is_shown_as_missed(tmp_path: Path) -> None:
    reports = {"views": Report(["How."], targets=[Target("WCU", 2, 1), Target("ms", 2, 1, strict=False)])}
    text = results.write(tmp_path, {"processor": "none"}, reports, 60).read_text()
    assert "| WCU | 2 | ≤ 1 | **missed** |" in text
    assert "| ms | 2 | ≤ 1 | **missed**, for information |" in text


def test_a_ledger_refuses_what_it_has_no_rule_for() -> None:
    with Ledger().client() as client, pytest.raises(NotImplementedError, match="PutItem"):
        Table("memory", client).put({"pk": "P", "sk": "S"})


def test_a_ledger_adds_sets_and_numbers_and_charges_for_them() -> None:
    ledger, key = Ledger(), Key("URL#u", "STATISTICS")
    update = {
        "Update": {
            "Key": key._asdict(),
            "UpdateExpression": "ADD #0 :0 SET #1 = :1",
            "ExpressionAttributeNames": {"#0": "gsi1sk", "#1": "gsi1pk"},
            "ExpressionAttributeValues": {":0": 2, ":1": "SITE#s"},
        }
    }
    with ledger.client() as client:
        for _ in range(2):
            assert Table("memory", client).transact([update]) == ()
    assert ledger.items[key]["gsi1sk"] == {"N": "4"}
    assert ledger.units == {"STATISTICS": (2 + 1) + (2 + 2)}  # into the index, then from place to place
    assert [record["eventName"] for record in ledger.records] == ["INSERT", "MODIFY"]
