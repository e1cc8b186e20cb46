"""CSV of lists and statistics, for clients that prefer it."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import Any

import pytest

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
    site.call("PUT", "/leaderboards/race", {"title": "Race", "decimals": 2}, Authorization=site.admin())
    for player, value in (("=1+1", 7.25), ("ann", 3)):
        body = {"id": "1", "value": value}
        site.call("POST", "/leaderboards/race/scores", body, Authorization=site.token(player))
    hunt = {"title": "Hunt", "paths": ["oak", "elm"], "limit": 2, "ranked": True}
    site.call("PUT", "/challenges/hunt", hunt, Authorization=site.admin())
    for path in ("oak", "elm"):
        site.call("POST", "/challenges/hunt/paths", {"path": path}, Authorization=site.token("ann"))
    body = {"rating": 5, "language": "en", "text": ""}
    site.call("POST", "/products/shoe/comments", body, Authorization=site.token("ann"))
    site.settle()
    site.settle()


def test_each_list_has_the_rows_of_its_json(site: Site) -> None:
    prepare(site)
    found = rows(site, "/views/series?url=example.org/a&interval=hour")
    wanted = site.get("/views/series?url=example.org/a&interval=hour")["items"]
    assert found == [{name: str(value) for name, value in one.items()} for one in wanted]
    assert {one["url"] for one in rows(site, "/views/top?site=example.org")} == {
        "https://example.org/a",
        "https://example.org/b,c",
    }
    entries = rows(site, "/leaderboards/race/entries")
    assert [(one["rank"], one["player"], one["score"]) for one in entries] == [
        ("1", "'=1+1", "7.25"),
        ("2", "ann", "3"),
    ]
    assert sum(int(one["players"]) for one in rows(site, "/leaderboards/race/distribution")) == 2
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
    answer = site._http.request("GET", path, headers=CSV, body=b"")
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
    assert (status, answer["Code"]) == (404, "NotFound")
    status, health = site.call("GET", "/health", **CSV)
    assert (status, health["status"]) == (200, "ok")


def test_every_list_of_the_document_describes_its_csv() -> None:
    import app
    from chalicelib.api.openapi import describe

    described: Any = describe(app.router, "0")["paths"]
    paths = {
        path for path, one in described.items() if "text/csv" in str(one.get("get", {}).get("responses"))
    }
    assert paths >= {"/views/series", "/views/top", "/leaderboards/{board}/entries"}
    assert paths == {route.path for route in app.router.routes if route.has_csv}
