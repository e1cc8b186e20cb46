"""The page as deployed: bundled, below the path of a stage."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from local.engines.engine import ROOT
from ops.aws import page_bundle
from tests.support.pages import choose, open_page, token, wait_until_live
from tests.support.running import Run, until

pytestmark = pytest.mark.long  # the page's tests again, on the bundle of a package

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Response

MOST = 6  # files, the HTML, the icon and the configuration among them


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with a bundled page. Skips the tests where Node is missing."""
    root = tmp_path_factory.mktemp("bundled") / "hubbub"
    left_out = shutil.ignore_patterns(
        ".git",
        ".venv",
        ".local",
        "__pycache__",
        "deployments",
        "deployed",
        ".*_cache",
        "docs",
        "tests",
        "out",
    )
    shutil.copytree(ROOT, root, ignore=left_out, symlinks=True)
    if not page_bundle.bundle(root / "web"):
        pytest.skip("esbuild cannot be had: it needs npm")
    return root / "web"


@pytest.fixture(scope="module")
def deployed(browser: Browser, web: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    data = tmp_path_factory.mktemp("data") / "run"
    with Run(data, "--no-reload", "--prefix", "/api", root=web.parent) as run:
        yield run


def below(run: Run) -> str:
    return f"{run.page}api"


def files(answers: list[Response]) -> dict[str, int]:
    """Return the files of a page with their status, without API calls."""
    kinds = ("document", "script", "stylesheet", "image", "other")
    return {
        answer.url: answer.status
        for answer in answers
        if answer.request.resource_type in kinds or "/web/" in answer.url
    }


@pytest.mark.parametrize("address", ["/api", "/api/", "/api?theme=none", "/api/#comments"])
def test_the_page_opens_below_a_stage_with_few_files(browser: Browser, deployed: Run, address: str) -> None:
    answers: list[Response] = []
    with open_page(browser, "about:blank") as page:
        page.on("response", lambda answer: answers.append(answer))
        page.goto(deployed.page.rstrip("/") + address)
        wait_until_live(page)
        assert page.url.startswith(f"{below(deployed)}/")
        assert page.url.partition("?")[2] == address.partition("?")[2]
        found = files([answer for answer in answers if answer.status != 302])
        assert set(found.values()) == {200}, found
        assert len(found) <= MOST, sorted(found)
        assert all(answer.url.startswith(below(deployed)) for answer in answers)
        assert sum("/web/page-" in url for url in found) == 2
        for link in page.locator(".ledger a, .foot a").all():
            assert page.request.get(str(link.evaluate("a => a.href"))).ok


def test_its_panels_work(browser: Browser, deployed: Run) -> None:
    with open_page(browser, f"{below(deployed)}/") as page:
        wait_until_live(page)
        page.click("#fill")
        for filled in ("#views .ranked", "#leaderboard .entries", "#challenge .plot canvas", "#comments li"):
            page.wait_for_selector(filled)
        # A call that takes longer than 8 s fails, so nothing is sent while the demo loads the machine.
        page.wait_for_selector("#fill:enabled")
        until(
            lambda: deployed.call("GET", "/api/products/demo/statistics")[1]["total"] == 60, "the demo", 120
        )
        choose(page, "views", "below.example.org")
        page.click("text=Send a view")
        page.wait_for_selector("#count-views:text-is('1')")


def test_paths_outside_the_stage_are_not_found(deployed: Run) -> None:
    for path in ("/", "/health", "/apihealth", "/ap"):
        status, answer = deployed.call("GET", path)
        assert (status, answer["Code"]) == (404, "NotFound")
    assert deployed.call("GET", "/api/health")[0] == 200
    assert deployed.call("POST", "/local/demo", {})[0] == 404


def test_the_dashboard_opens_with_few_files(browser: Browser, deployed: Run) -> None:
    answers: list[Response] = []
    with open_page(browser, "about:blank") as page:
        page.on("response", lambda answer: answers.append(answer))
        page.goto(f"{below(deployed)}/web/dashboard.html?site=below.example.org")
        wait_until_live(page)
        found = files(answers)
        assert page.get_attribute(".home", "href") == ".."
    assert set(found.values()) == {200}, found
    assert len(found) <= MOST, sorted(found)


def test_the_admin_page_works_with_few_files(browser: Browser, deployed: Run) -> None:
    answers: list[Response] = []
    with open_page(browser, "about:blank") as page:
        page.on("response", lambda answer: answers.append(answer))
        page.goto(f"{below(deployed)}/web/admin.html")
        page.fill("#token", token(deployed, "admin-1", "admin"))
        page.click("#sign-in button")
        page.wait_for_selector("#signed-in")
        page.wait_for_selector("#reports .list:has-text('report')")
        found = files(answers)
    assert set(found.values()) == {200}, found
    assert len(found) <= MOST, sorted(found)


@pytest.mark.parametrize("name", ["challenge", "chat", "comments", "leaderboard", "beacon"])
def test_a_drop_in_is_one_script(browser: Browser, deployed: Run, name: str) -> None:
    scripts: list[str] = []
    with open_page(browser, "about:blank") as page:
        page.on("response", lambda answer: scripts.append(answer.url) if answer.url.endswith(".js") else None)
        with page.expect_response(lambda answer: f"/{name}.js" in answer.url):
            page.goto(f"{below(deployed)}/web/examples/{name}.html")
        if name != "beacon":
            page.wait_for_selector(f"hubbub-{name}[data-state]:not([data-state=loading])")
            assert page.get_attribute(f"hubbub-{name}", "data-state") in ("ready", "empty", "error")
    assert len(scripts) == 1, scripts


def test_the_beacon_is_less_than_2_kb(web: Path) -> None:
    assert (web / "beacon.js").stat().st_size < 2_048


def test_licences_stay_in_the_bundles(web: Path) -> None:
    [script], [style] = web.glob("page-*.js"), web.glob("page-*.css")
    text = script.read_text(encoding="utf-8")
    assert re.search(r"/\*! lit-html [\d.]+, BSD-3-Clause", text)
    assert re.search(r"/\*! uPlot [\d.]+, MIT", text)
    assert re.search(r"/\*! uPlot [\d.]+, MIT", style.read_text(encoding="utf-8"))
    assert (web / "vendor" / "licences.txt").is_file()


def test_a_bundle_is_built_once_and_named_after_its_content(web: Path, tmp_path: Path) -> None:
    def content(folder: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }

    before = content(web)
    assert page_bundle.bundle(web)
    assert content(web) == before
    shutil.copytree(ROOT / "web", tmp_path / "web")
    assert page_bundle.bundle(tmp_path / "web")
    assert content(tmp_path / "web") == before, "the same source is the same bundle"
    changed = tmp_path / "changed"
    shutil.copytree(ROOT / "web", changed)
    (changed / "lib" / "words.js").write_text(
        (changed / "lib" / "words.js").read_text() + "\nwindow.changed = true;\n"
    )
    assert page_bundle.bundle(changed)
    names = [{path.name for path in folder.glob("page-*.js")} for folder in (web, changed)]
    assert not names[0] & names[1]
    assert {path.name for path in web.glob("page-*.css")} == {
        path.name for path in changed.glob("page-*.css")
    }


@pytest.mark.parametrize("npm", ["none", "one that fails"])
def test_without_node_the_page_is_not_bundled_and_a_warning_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], npm: str
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    if npm != "none":
        (folder / "npm").write_text("#!/bin/sh\necho no network\nexit 1\n")
        (folder / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("sys.executable", str(folder / "python"))
    shutil.copytree(ROOT / "web", tmp_path / "web")
    assert not page_bundle.bundle(tmp_path / "web")
    said = capsys.readouterr().err
    assert "single modules" in said
    assert ("npm is not on the PATH" if npm == "none" else "no network") in said
    assert sorted(path.name for path in (tmp_path / "web").rglob("*")) == sorted(
        path.name for path in (ROOT / "web").rglob("*")
    )
