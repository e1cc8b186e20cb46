"""The days of other counters' exports are right, and importing a file twice counts once."""

from __future__ import annotations

import csv
import io
import zipfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from chalicelib.aggregates import sums
from chalicelib.dynamo.table import Table
from chalicelib.views import definitions, events
from chalicelib.views.schemas import SiteBody
from ops.cli.main import main
from tests.support.records import scan

SITE = "https://example.org"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
GOATCOUNTER = (
    "2Path,Title,Event,UserAgent,Browser,System,Session,Bot,Referrer,Referrer scheme,Screen size,Location,"
    "FirstVisit,Date"
)
UMAMI = (
    "website_id,session_id,visit_id,event_id,hostname,browser,os,device,screen,language,country,region,city,"
    "url_path,url_query,utm_source,utm_medium,utm_campaign,utm_content,utm_term,referrer_path,referrer_query,"
    "referrer_domain,page_title,event_type,event_name,tag,distinct_id,created_at,job_id"
)
PAGES = "date,hostname,page,visits,visitors,pageviews,total_scroll_depth,total_time_on_page"
VISITORS = "date,visitors,pageviews,bounces,visits,visit_duration"


def write_csv(header: str, *rows: dict[str, Any]) -> str:
    """Return a file with rows of these columns; the others are empty."""
    out = io.StringIO()
    names = [name.lstrip("2") for name in header.split(",")]
    writer = csv.DictWriter(out, names, restval="", lineterminator="\r\n")
    writer.writerows(rows)
    return f"{header}\r\n{out.getvalue()}"


def write_zip(file: Path, **members: str) -> Path:
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in members.items():
            archive.writestr(f"{name}.csv", text)
    return file


def run(file: Path, *options: str) -> Result:
    words = ["import-log", str(file), "--stage", "dev", "--no-wait", "--json", *(options or ("--site", SITE))]
    return CliRunner().invoke(main, words)


def run_twice(file: Path, *options: str) -> None:
    for _ in range(2):
        done = run(file, *options)
        assert done.exit_code == 0, done.output


def days(table: Table) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the views and visitors of each page and site by day, recounted from the items."""
    found: dict[tuple[str, str], list[int]] = {}
    for (key, name), amount in sums.recount([events.contribution], scan(table)).items():
        of_site = key.pk.startswith("SITE#") and key.pk.count("#") == 1
        if key.sk.startswith("DAY#") and name in ("views", "visitors") and (of_site or key.pk[:3] == "URL"):
            place = found.setdefault((key.pk.partition("#")[2].removeprefix(SITE), key.sk[4:]), [0, 0])
            assert isinstance(amount, int)
            place[name == "visitors"] = amount
    return {place: (views, visitors) for place, (views, visitors) in found.items()}


def summed(table: Table, start: str) -> dict[str, int]:
    """Return the views, or the events, of each sum of a site of this kind."""
    found = Counter[str]()
    for (key, name), amount in sums.recount([events.contribution], scan(table)).items():
        if name in ("views", "events") and f"#{start}#" in key.pk and isinstance(amount, int):
            found[key.pk.rpartition(f"#{start}#")[2]] += amount
    return dict(found)


def goatcounter(
    path: str = "/a", date: str = "2026-05-17T10:05:03Z", session: str = "s1", **more: str
) -> Any:
    of_browser = {"UserAgent": FIREFOX, "Location": "DE-BY"}
    return {"Path": path, "Event": "false", "Session": session, "Bot": "0", "Date": date} | of_browser | more


def test_the_days_of_goatcounter_are_imported(table: Table, tmp_path: Path) -> None:
    rows = [
        goatcounter(),
        goatcounter(),  # a second view in the same second
        goatcounter(session="s2", Title='a "title",\nof two lines'),
        goatcounter("/b?utm_source=x&id=1", Referrer="www.google.de", **{"Referrer scheme": "h"}),
        goatcounter(date="2026-05-18T01:00:00+02:00"),
        goatcounter(Bot="5"),
        goatcounter("signup", Event="true"),
        goatcounter(date="yesterday"),
    ]
    file = tmp_path / "export.csv"
    file.write_text(write_csv(GOATCOUNTER, *rows))
    run_twice(file)
    assert days(table) == {
        ("/a", "2026-05-17"): (4, 2),
        ("/b?id=1", "2026-05-17"): (1, 1),
        ("example.org", "2026-05-17"): (5, 2),
    }
    assert summed(table, "REFERRER") == {"google": 1}
    assert summed(table, "GOAL") == {"signup": 1}
    assert '"malformed": 1' in run(file).stdout
    assert '"crawler": 1' in run(file).stdout


def umami(path: str = "/a", created: str = "2026-05-17 10:05:03", session: str = "s1", **more: str) -> Any:
    of_browser = {"hostname": "example.org", "browser": "edge-chromium", "os": "Mac OS", "device": "laptop"}
    event = {"session_id": session, "url_path": path, "event_type": "1", "created_at": created}
    return event | of_browser | {"country": "AT", "language": "de-AT"} | more


@pytest.mark.parametrize("zipped", [False, True])
def test_the_days_of_umami_are_imported(table: Table, tmp_path: Path, zipped: bool) -> None:
    rows = [
        umami(),
        umami(),
        umami("/b", url_query="id=1&fbclid=2", referrer_domain="l.facebook.com"),
        umami(session="s2", created="2026-05-18 00:00:00"),
        umami(hostname="shop.example.org"),
        umami(event_type="2", event_name="Sign up"),
    ]
    text = write_csv(UMAMI, *rows)
    file = tmp_path / "website_event.csv"
    file.write_text(text)
    if zipped:
        file = write_zip(tmp_path / "umami.zip", website_event=text, session_data="a,b\n1,2\n")
    run_twice(file, "--site", SITE)
    assert days(table) == {
        ("/a", "2026-05-17"): (2, 1),
        ("/b?id=1", "2026-05-17"): (1, 1),
        ("/a", "2026-05-18"): (1, 1),
        ("example.org", "2026-05-17"): (3, 1),
        ("example.org", "2026-05-18"): (1, 1),
        ("https://shop.example.org/a", "2026-05-17"): (1, 1),
        ("shop.example.org", "2026-05-17"): (1, 1),
    }
    assert summed(table, "GOAL") == {"Sign up": 1}
    [first, *_] = [item for item in scan(table) if item["sk"].startswith("T#")]
    assert first["traits"] == "AT|desktop|Edge|macOS|de"


def page(date: str, path: str, visitors: int, views: int, hostname: str = "example.org") -> dict[str, Any]:
    return {"date": date, "hostname": hostname, "page": path, "visitors": visitors, "pageviews": views}


def test_the_days_of_plausible_are_imported(table: Table, tmp_path: Path) -> None:
    """In the zone of the site. The visitors of the site are those of the file with visitors."""
    body = SiteBody(timezone="America/Los_Angeles")
    definitions.define(table, "example.org", body, datetime(2026, 5, 1, tzinfo=UTC))
    pages = [
        page("2026-05-17", "/a", 5, 12),
        page("2026-05-17", "/b", 3, 3),
        page("2026-05-17", "/b?utm_source=x", 1, 2),
        page("2026-05-18", "/a", 2, 2),
        page("2026-05-18", "/c", 4, 0),
        {"date": "none", "page": "/a", "visitors": 1, "pageviews": 1},
    ]
    visitors = [{"date": "2026-05-17", "visitors": 7}, {"date": "2026-05-18", "visitors": 9}]
    file = write_zip(
        tmp_path / "plausible.zip",
        imported_pages_20260517_20260518=write_csv(PAGES, *pages),
        imported_visitors_20260517_20260518=write_csv(VISITORS, *visitors),
        imported_sources_20260517_20260518="date,source,visitors,pageviews\n2026-05-17,google,99,99\n",
    )
    run_twice(file)
    assert days(table) == {
        ("/a", "2026-05-17"): (12, 5),
        ("/b", "2026-05-17"): (5, 4),
        ("example.org", "2026-05-17"): (17, 7),
        ("/a", "2026-05-18"): (2, 2),
        ("example.org", "2026-05-18"): (2, 2),
    }


def test_a_file_of_pages_alone_has_the_visitors_of_its_largest_page(table: Table, tmp_path: Path) -> None:
    file = tmp_path / "imported_pages.csv"
    rows = [page("2026-05-17", "/a", 5, 12), page("2026-05-17", "/b", 3, 3, "shop.example.org")]
    file.write_text(write_csv(PAGES, *rows, page("2026-05-17", "/c", 4, 4)))
    run_twice(file)
    found = days(table)
    assert found["example.org", "2026-05-17"] == (16, 5)
    assert found["shop.example.org", "2026-05-17"] == (3, 3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (GOATCOUNTER, "the file is empty"),
        (f"{GOATCOUNTER}\na,b\n", "no line is in a known format"),
        (f'{GOATCOUNTER}\n"/a', "a row is malformed"),
        ("name,visitors,pageviews\n/a,1,2\n", "no line is in a known format"),
    ],
)
def test_a_file_that_is_no_export_is_one_clear_sentence(
    table: Table, tmp_path: Path, data: str, message: str
) -> None:
    (tmp_path / "a.csv").write_text(data)
    done = run(tmp_path / "a.csv")
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert message in done.stderr


def test_an_archive_without_an_export_is_one_clear_sentence(table: Table, tmp_path: Path) -> None:
    done = run(write_zip(tmp_path / "a.zip", top_pages="name,visitors\n/a,1\n"))
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "the archive has no export of GoatCounter, Plausible or Umami" in done.stderr
