"""CSV of lists and statistics, for clients that prefer it."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import shutil
import subprocess
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.api import codec
from chalicelib.api.schemas import IDENTIFIER, Schema
from chalicelib.leaderboards.boards import Board
from chalicelib.leaderboards.schemas import BoardEntry, Entries
from chalicelib.leaderboards.scores import Submission
from ops.imports import comments, scores
from ops.imports.formats import Columns
from tests.support.site import Site

CSV = {"Accept": "text/csv"}


def rows(site: Site, path: str, **headers: str) -> list[dict[str, str]]:
    status, text = site.call("GET", path, **(CSV | headers))
    assert (status, type(text)) == (200, str), text
    return list(csv.DictReader(io.StringIO(text)))


def prepare(site: Site) -> None:
    """Write something of each kind, with names that a spreadsheet would take for formulas."""
    now = datetime.now(UTC).isoformat()
    for path in ("a", "b,c"):
        site.post({"url": f"https://example.org/{path}", "time": now, "clientId": "c-1"})
    site.call("PUT", "/leaderboards/race", {"title": "Race", "decimals": 2}, who="admin")
    for player, value in (("=1+1", 7.25), ("ann", 3)):
        body = {"id": "1", "value": value}
        site.call("POST", "/leaderboards/race/scores", body, who=player)
    hunt = {"title": "Hunt", "paths": ["oak", "elm"], "limit": 2, "ranked": True}
    site.call("PUT", "/challenges/hunt", hunt, who="admin")
    for path in ("oak", "elm"):
        site.call("POST", "/challenges/hunt/paths", {"path": path}, who="ann")
    body = {"rating": 5, "language": "en", "text": ""}
    site.call("POST", "/products/shoe/comments", body, who="ann")
    site.settle()
    site.settle()


def test_each_list_has_the_rows_of_its_json(site: Site) -> None:
    prepare(site)
    found = rows(site, "/views/series?url=example.org/a&interval=hour")
    wanted = site.get("/views/series?url=example.org/a&interval=hour")["items"]
    assert found == [{name: str(value) for name, value in row.items()} for row in wanted]
    assert {row["url"] for row in rows(site, "/views/top?site=example.org")} == {
        "https://example.org/a",
        "https://example.org/b,c",
    }
    entries = rows(site, "/leaderboards/race/entries")
    assert [(entry["rank"], entry["player"], entry["score"]) for entry in entries] == [
        ("1", "'=1+1", "7.25"),
        ("2", "ann", "3"),
    ]
    assert sum(int(row["players"]) for row in rows(site, "/leaderboards/race/distribution")) == 2
    [leader] = rows(site, "/challenges/hunt/leaders")
    assert (leader["player"], leader["name"], leader["found"]) == ("ann", "", "2")
    assert rows(site, "/challenges/hunt/statistics") == [
        {"found": "1", "reached": "1", "exactly": "0"},
        {"found": "2", "reached": "1", "exactly": "1"},
    ]
    assert rows(site, "/products/shoe/statistics")[-1] == {"rating": "5", "comments": "1"}
    assert rows(site, "/products/leaders") == [{"product": "shoe", "fiveStar": "1"}]


def test_a_page_of_csv_names_the_cursor_of_the_next_one(site: Site) -> None:
    prepare(site)
    path = "/leaderboards/race/entries?limit=1"
    answer = site.http.request("GET", path, headers=CSV, body=b"")
    headers = {name.lower(): value for name, value in answer.headers.items()}
    assert headers["content-type"] == "text/csv; charset=utf-8"
    assert headers["vary"] == "Accept"
    assert "x-next-cursor" in headers["access-control-expose-headers"].lower()
    [second] = rows(site, f"{path}&cursor={headers['x-next-cursor']}")
    assert second["player"] == "ann"


@pytest.mark.parametrize(
    ("accept", "is_csv"),
    [
        ("text/csv", True),
        ("TEXT/CSV; charset=utf-8", True),
        ("text/csv, application/json;q=0.5", True),
        ("text/html, text/csv, */*;q=0.1", True),
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("text/csv;q=0", False),
        ("text/csv;q=0.2, application/json", False),
        ("text/csv, application/json", False),
        ("text/*", False),
    ],
)
def test_a_client_gets_what_it_prefers(site: Site, accept: str, is_csv: bool) -> None:
    status, answer = site.call("GET", "/products/leaders", Accept=accept)
    assert (status, isinstance(answer, str)) == (200, is_csv)


def test_an_error_and_a_route_without_rows_are_json(site: Site) -> None:
    status, answer = site.call("GET", "/leaderboards/none/entries", **CSV)
    assert (status, answer["code"]) == (404, "NotFound")
    status, health = site.call("GET", "/health", **CSV)
    assert (status, health["status"]) == (200, "ok")


def test_every_list_of_the_document_describes_its_csv() -> None:
    import app
    from chalicelib.api.openapi import describe

    described: Any = describe(app.router, "0")["paths"]
    paths = {
        path
        for path, operation in described.items()
        if "text/csv" in str(operation.get("get", {}).get("responses"))
    }
    assert paths >= {"/views/series", "/views/top", "/leaderboards/{board}/entries"}
    assert paths == {route.path for route in app.router.routes if "text/csv" in route.media.others}


# -- formulas ------------------------------------------------------------------------------------------

FORMULA = "=+-@\uff1d\uff0b\uff0d\uff20"
HOSTILE = [
    *(
        f"{lead}{sign}1"
        for sign in FORMULA
        for lead in ("", "'", "''", " ", "\t", "\r\n", "\xa0", '"', "\ufeff", "x;", "x\t")
    ),
    *(
        "x;=cmd|' /C calc'!A0",
        'x;"=1',
        "x; \t=1",
        ";;=1",
        "x\n=1",
        "\tx",
        "\r",
        "'",
        "''x",
        "x'=1",
        "a=b",
        "x;'=1",
        "",
        "ann",
    ),
]
LETTERS = "=+-@\uff1d;\t\r\n \xa0\"'ax,"
TEXTS = st.text(st.sampled_from(LETTERS), max_size=12) | st.text(max_size=12)


class Line(Schema):
    product: str
    author: str
    rating: int
    language: str
    text: str


class Lines(Schema):
    items: list[Line]


class Row(Schema):
    n: int
    text: str


class Rows(Schema):
    items: list[Row]


def line(product: str, author: str, text: str) -> Line:
    return Line(product=product, author=author, rating=5, language="en", text=text)


def split(text: str, separator: str) -> list[str]:
    """Split CSV into cells as a spreadsheet does: a quote counts only where a cell begins."""
    return [cell for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) for cell in row]


@pytest.mark.security
@given(st.lists(TEXTS | st.sampled_from(HOSTILE), min_size=2, max_size=2))
def test_no_cell_is_a_formula_wherever_a_spreadsheet_splits(texts: list[str]) -> None:
    text = codec.encode_csv(Lines(items=[line(texts[0], texts[1], texts[0])]))
    for separator in ",;\t":
        for cell in split(text, separator):
            assert not re.match(rf"[\s\"\ufeff\x00-\x1f\x7f-\x9f]*[{re.escape(FORMULA)}]", cell), (
                cell,
                separator,
            )


@pytest.mark.security
@pytest.mark.parametrize("text", [f"{sign}x" for sign in (*FORMULA, "\t", "\r", " =", "'=")])
def test_the_guard_is_an_apostrophe_in_front_in_a_quoted_cell(text: str) -> None:
    row = codec.encode_csv(
        Entries(items=[BoardEntry(rank=1, player=text, name=None, score=Decimal("-7.5"))], cursor=None)
    )
    assert row == f'"rank","player","name","score"\r\n1,"\'{text}","",-7.5\r\n'


@pytest.mark.security
@given(TEXTS | st.sampled_from(HOSTILE))
def test_exactly_one_guard_is_taken_off(text: str) -> None:
    assert codec.unguard_cell(codec.guard_cell(text)) == text


@settings(max_examples=25)
@given(
    st.lists(TEXTS.filter(IDENTIFIER.search) | st.just("@ann") | st.just("'@ann"), min_size=1, unique=True)
)
def test_exported_entries_are_imported_as_the_same_players(players: list[str]) -> None:
    items = [BoardEntry(rank=1, player=player, name=None, score=Decimal(-7)) for player in players]
    lines = codec.encode_csv(Entries(items=items, cursor=None)).encode().splitlines(keepends=True)
    board = Board("b", "t", "", 0, Decimal(-10), Decimal(10), "desc", "set", 1, 1, "", None)
    found = scores.read(lines, Columns("player", "score"), board, datetime.now(UTC))
    normal = [codec.normalize(player, "player").strip() for player in players]
    assert [row.player if isinstance(row, Submission) else row for row in found] == normal


@settings(max_examples=25)
@given(st.lists(st.tuples(TEXTS.filter(IDENTIFIER.search), st.sampled_from(HOSTILE)), min_size=1))
def test_exported_comments_are_imported_with_the_same_texts(pairs: list[tuple[str, str]]) -> None:
    text = codec.encode_csv(Lines(items=[line(name, name, said) for name, said in pairs]))
    found = comments.read(io.StringIO(text, newline=""))
    wanted = [(codec.normalize(name, "name"), said) for name, said in pairs]
    assert [(row.author, row.body.text) for row in found if isinstance(row, comments.Row)] == wanted


@pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")
def test_the_page_writes_the_same_cells() -> None:
    module = Path(__file__).parents[2] / "web/lib/csv.js"
    short = ("".join(letters) for size in range(4) for letters in itertools.product(LETTERS, repeat=size))
    rows = list(enumerate([*HOSTILE, *short]))
    script = (
        f"import {{ encode }} from {json.dumps(module.as_uri())};"
        f"process.stdout.write(encode(['n', 'text'], {json.dumps(rows)}));"
    )
    done = subprocess.run(
        ["node", "--input-type=module"], input=script.encode(), capture_output=True, check=True, timeout=60
    )
    wanted = codec.encode_csv(Rows(items=[Row(text=text, n=n) for n, text in rows]))
    assert done.stdout.decode() == wanted
