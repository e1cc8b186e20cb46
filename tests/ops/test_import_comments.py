"""A row of a file is a comment or has a reason, and a malformed file is one line on standard error."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from chalicelib.dynamo.table import Table
from local.engines.engine import Engine
from ops.cli.main import main
from ops.imports import comments as import_comments
from ops.imports.comments import Skip, parse, read
from tests.conftest import EngineTable
from tests.support.live import Live

FILE = Path(__file__).parents[1] / "data" / "reviews.csv.gz"


def test_a_row_is_a_comment_or_has_a_reason() -> None:
    good = {"product": "p", "author": "a", "rating": "5", "language": "EN", "text": " x\ny "}
    row = parse(good)
    assert isinstance(row, import_comments.Row)
    assert (row.body.rating, row.body.language) == (5, "en")
    for field, odd, reason in (
        ("product", "a b", Skip.BAD_PRODUCT),
        ("product", "", Skip.BAD_PRODUCT),
        ("product", "..", Skip.BAD_PRODUCT),
        ("author", "a#b", Skip.BAD_AUTHOR),
        ("author", "%2E", Skip.BAD_AUTHOR),
        ("rating", "6", Skip.BAD_RATING),
        ("rating", "4.5", Skip.BAD_RATING),
        ("rating", "", Skip.BAD_RATING),
        ("language", "english language", Skip.BAD_LANGUAGE),
        ("text", "\u0000", Skip.BAD_TEXT),
        ("text", "x" * 5001, Skip.BAD_TEXT),
    ):
        assert parse(good | {field: odd}) == reason


def test_the_languages_go_round_row_by_row() -> None:
    lines = ["text,product,author,rating,language\n", *(f'"a\n{i}",p,a{i},5,en\n' for i in range(5))]
    rows = [row for row in read(lines, ["en", "de"]) if isinstance(row, import_comments.Row)]
    assert [row.body.language for row in rows] == ["en", "de", "en", "de", "en"]
    assert rows[0].body.text == "a\n0"


def test_of_an_authors_rows_about_a_product_the_first_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """However the writers overtake each other: the later rows are not sent beside it."""
    sent: list[import_comments.Row] = []

    def post(_: Table, row: import_comments.Row, **__: Any) -> bool:
        sent.append(row)
        return True

    monkeypatch.setattr(import_comments, "_post", post)
    lines = ["text,product,author,rating,language\n", *(f"{i},p,a{i % 3},5,en\n" for i in range(9))]
    summary = import_comments.write(cast("Table", None), read(lines), datetime.now(UTC))
    assert sorted(row.body.text for row in sent) == ["0", "1", "2"]
    assert (summary.rows, summary.written, summary.skipped[Skip.COMMENTED_ALREADY]) == (9, 3, 6)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"p,a,5,en", Skip.MALFORMED),
        (b"p", Skip.MALFORMED),
        (b"p,a,5,en,text,more", Skip.MALFORMED),
        (b"p,a,5,en,one, two", Skip.MALFORMED),
        (b"p,a,5,en,caf\xe9", Skip.BAD_TEXT),  # another encoding
        (b"\xff\xfe,a,5,en,text", Skip.BAD_PRODUCT),
    ],
)
def test_a_row_that_lost_or_changed_a_field_is_no_comment(
    tmp_path: Path, engine_table: EngineTable, row: bytes, reason: Skip
) -> None:
    engine, name, _ = engine_table
    (tmp_path / "a.csv").write_bytes(b"product,author,rating,language,text\n" + row + b"\n\nq,b,5,en,\n")
    environment = {"HUBBUB_ENDPOINT": engine.endpoint, "HUBBUB_TABLE": name}
    words = ["import-comments", str(tmp_path / "a.csv"), "--no-wait", "--json"]
    found = json.loads(CliRunner().invoke(main, words, env=environment).stdout)
    assert (found["rows"], found["written"], found["skipped"][reason.value]) == (2, 1, 1)
    assert [(comment["author"], comment["text"]) for comment in Live(engine_table, []).comments()] == [
        ("b", "")
    ]


def test_comments_that_are_yet_to_be_counted_are_reported(
    tmp_path: Path, engine_table: EngineTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_comments, "TIMEOUT", 0.0)
    (tmp_path / "a.csv").write_bytes(HEADER + b"p,a,5,en,text\n")
    environment = {"HUBBUB_ENDPOINT": engine_table[0].endpoint, "HUBBUB_TABLE": engine_table[1]}
    done = CliRunner().invoke(main, ["import-comments", str(tmp_path / "a.csv"), "--json"], env=environment)
    assert (done.exit_code, json.loads(done.stdout)["counted"]) == (3, False)
    assert "the stream has not counted all of them yet" in done.stderr


HEADER = b"product,author,rating,language,text\n"
AGAIN = "repair the file and run this again; nothing counts twice"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "the file is empty\n"),
        (b"product,author,rating,text\n", "no column 'language'; required columns: "),
        (b"text," + HEADER, "several columns 'text'"),
        (b"<rss></rss>\n", "no column 'product'"),
        (HEADER + b'"x', "line 2 is not CSV: a quote is not closed, or not doubled\n"),
        (
            HEADER + b'p,a,5,en,x\np,a,5,en,"x',
            f"line 3 is not CSV: a quote is not closed, or not doubled; {AGAIN}\n",
        ),
        (HEADER + b'p,a,5,en,"x" y\n', "line 2 is not CSV"),
        (HEADER + b"p,a,6,en,x\np\np", "no row is a comment; the most frequent reason is malformed\n"),
        (gzip.compress(b"product", mtime=0)[:-3], f"a.csv: the gzip data is damaged or cut off; {AGAIN}\n"),
        (gzip.compress(HEADER, mtime=0)[:-8] + bytes(8), "the gzip data is damaged"),
    ],
)
def test_a_malformed_file_is_a_one_line_error(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, text: bytes, says: str
) -> None:
    monkeypatch.setenv("HUBBUB_ENDPOINT", engine.endpoint)
    (tmp_path / "a.csv").write_bytes(text)
    done = CliRunner().invoke(main, ["import-comments", str(tmp_path / "a.csv"), "--no-wait"])
    assert (done.exit_code, says in done.output, len(done.output.splitlines())) == (1, True, 1), done.output
    assert CliRunner().invoke(main, ["import-comments", str(tmp_path / "none.csv")]).exit_code == 1
    assert CliRunner().invoke(main, ["import-comments", str(FILE), "--languages", "en,?"]).exit_code == 2
