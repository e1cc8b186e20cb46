"""`make bench`, in its quick form: one run, one document, every question answered and every target met."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import results
from bench.__main__ import main
from bench.report import Question, Report, Result
from local.soak.target import Target

QUESTIONS = [
    "What does a counted view cost?",
    "What does a rank cost, of a player in the middle?",
    "… and how many round trips, one after the other?",
    "What does a change of score cost?",
    "What does a found path cost, with the statistics?",
    "What does a comment cost, with all that it adds to?",
    "What does a page of 20 of 100 comments cost?",
    "What does a page of 20 of 1,000 comments cost?",
    "What does an event of chat write?",
]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    ran = CliRunner().invoke(main, ["all", "--quick", "--output", str(folder)])
    assert ran.exit_code == 0, ran.output
    return folder / results.FILE


@pytest.mark.long
def test_one_run_answers_every_question_and_meets_every_target(document: Path) -> None:
    text = document.read_text()
    assert [
        title for title in re.findall(r"^## (.*)$", text, re.M) if title.startswith(("What", "…"))
    ] == QUESTIONS
    assert text.count("\nWCU a view: bars are ours, P is published, F is the floor\n\n") == 1
    assert text.count("bars are ours") == len(re.findall(r"ours : floor", text))
    assert "**missed** |" not in text  # times are for information here: other work may go on
    for name in results.MEASUREMENTS:
        assert f"\n## {name}\n" in text


@pytest.mark.long
def test_the_document_says_on_what_it_was_made_and_how(document: Path) -> None:
    text = document.read_text()
    for word in ("processor", "cores", "Python", "boto3", "commit", "other work", "Capacity.", "Handlers."):
        assert word in text
    assert platform.node() not in text


def test_an_answer_is_shown_with_both_ratios() -> None:
    question = Question("What?", "WCU", [Result("alone", 2, 4, 1), Result("nobody else", 3)])
    assert question.figures.rows == [("alone", 2, 4, 1, 0.5, 2), ("nobody else", 3, "–", "–", "–", "–")]


def test_a_missed_target_is_shown_as_missed(tmp_path: Path) -> None:
    reports = {"views": Report(["How."], targets=[Target("WCU", 2, 1), Target("ms", 2, 1, strict=False)])}
    text = results.write(tmp_path, {"processor": "none"}, reports, 60).read_text()
    assert "| WCU | 2 | ≤ 1 | **missed** |" in text
    assert "| ms | 2 | ≤ 1 | **missed**, for information |" in text
