"""The page as deployed: bundled, below the path of a stage."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Iterator
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local.engines.engine import ROOT
from ops.aws import page_bundle
from tests.support.other_site import OtherSite
from tests.support.pages import open_page, show, wait_until_live
from tests.support.running import Run, until

pytestmark = pytest.mark.long  # the page's tests again, on the bundle of a package

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Request, Response

MOST = 6  # files, the HTML, the icon and the configuration among them
REQUESTS = 20  # of the front page until its first features are shown, with calls of the API
SLOW_PHONE = 1500  # ms until the largest contentful paint of the front page
SCRIPTS = 5  # of a widget: itself, what all share, its words, and two for a chart of scores
SHIPPED = 15 * 1024, 40 * 1024  # bytes that a browser loads for a widget, and for all of them together


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
        page.wait_for_selector("#chat .snippet")
        page.locator("#views [data-state=ready]").first.wait_for()
        assert page.url.startswith(f"{below(deployed)}/")
        assert page.url.partition("?")[2] == address.partition("?")[2]
        found = files([answer for answer in answers if answer.status != 302])
        assert set(found.values()) == {200}, found
        assert len(found) <= MOST + 1, sorted(found)  # the beacon is a file of its own
        assert len(answers) <= REQUESTS, [answer.url for answer in answers]
        assert all(answer.url.startswith(below(deployed)) for answer in answers)
        assert sum("/web/page-" in url for url in found) == 2
        for link in page.locator(".foot a").all():
            assert page.request.get(str(link.evaluate("a => a.href"))).ok


# A phone as Chrome emulates it on "fast 3G": 1.6 Mbit/s, 150 ms, and a processor four times slower.
NETWORK = {"offline": False, "latency": 150, "downloadThroughput": 200_000, "uploadThroughput": 94_000}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2}
PAINTS = """
window.painted = [];
window.moved = 0;
new PerformanceObserver((list) => window.painted.push(...list.getEntries().map((entry) => entry.startTime)))
  .observe({ type: "largest-contentful-paint", buffered: true });
new PerformanceObserver((list) => list.getEntries().forEach((entry) => { window.moved += entry.value; }))
  .observe({ type: "layout-shift", buffered: true });
"""


@pytest.mark.parametrize("locale", ["en-GB", "de-DE"])
@pytest.mark.parametrize("served", ["bundled", "in single modules"])
def test_the_front_page_is_there_within_one_and_a_half_seconds_on_a_slow_phone(
    browser: Browser, filled: Run, product: Run, served: str, locale: str
) -> None:
    """The largest contentful paint is that of the text. The counts come after it and move nothing."""
    paints: list[float] = []
    for _ in range(10):
        requests: list[Request] = []

        def note(request: Request, requests: list[Request] = requests) -> None:
            requests.append(request)

        with open_page(browser, "about:blank", script=PAINTS, locale=locale, **PHONE) as page:
            page.on("request", note)
            session = page.context.new_cdp_session(page)
            session.send("Network.enable")
            session.send("Network.emulateNetworkConditions", NETWORK)
            session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
            page.goto(f"{below(filled)}/" if served == "bundled" else product.page)
            page.wait_for_selector("#views [data-state=ready]")
            page.wait_for_function("window.painted.length")
            paints.append(page.evaluate("window.painted.at(-1)"))
            assert page.evaluate("window.moved") < 0.02
        assert len(requests) < REQUESTS, [request.url for request in requests]
        if paints[-1] < SLOW_PHONE:
            return
    pytest.fail(f"{paints} ms, although this machine cannot have been busy each time")


def test_a_page_names_the_modules_that_it_imports_so_that_they_load_together() -> None:
    html = (ROOT / "web" / "index.html").read_text(encoding="utf-8")
    imported: set[Path] = set()
    modules = [ROOT / "web" / "page.js"]
    while modules:
        module = modules.pop()
        found = re.findall(r'^import (?:.* from )?"(\..*)";', module.read_text(encoding="utf-8"), re.M)
        paths = {(module.parent / name).resolve() for name in found} - imported
        imported |= paths
        modules += paths
    named = {ROOT / name for name in re.findall(r'rel="modulepreload" href="(.*)"', html)}
    assert named == imported


def test_its_features_work(browser: Browser, deployed: Run) -> None:
    with open_page(browser, f"{below(deployed)}/", locale="de-DE") as page:
        page.click("#fill")
        show(page)
        for filled in (
            "#views [part=page]",
            "#leaderboard tbody tr",
            "#challenge .plot path",
            "#comments li",
        ):
            page.locator(filled).first.wait_for()
        page.get_by_text("Du hast 0 von 12 gefunden.").wait_for()


def test_paths_outside_the_stage_are_not_found(deployed: Run) -> None:
    for path in ("/", "/health", "/apihealth", "/ap"):
        status, answer = deployed.call("GET", path)
        assert (status, answer["code"]) == (404, "NotFound")
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
        page.fill("#token", deployed.token("admin-1", "admin"))
        page.click("#sign-in button")
        page.wait_for_selector("#signed-in")
        page.wait_for_selector("#reports .list:has-text('report')")
        found = files(answers)
    assert set(found.values()) == {200}, found
    assert len(found) <= MOST, sorted(found)


NAMES = {"leaderboard": 'board="demo"', "challenge": 'challenge="demo"', "comments": 'product="demo"'}
VALUES = {"url": "https://demo.example.org/", "site": "demo.example.org", "language": "en", "interests": "go"}
LEFT_OUT = {"api", "lang", "limit", "socket", "board", "challenge", "product", "lobby"}  # load no scripts


def attribute_sets(widget: str) -> Iterator[tuple[str, ...]]:
    """Return every set of a widget's attributes that may make it load something."""
    script = (ROOT / "web" / "widgets" / f"{widget}.js").read_text(encoding="utf-8")
    [observed] = re.findall(r"observedAttributes = \[(.*)\]", script)
    names = [name for name in re.findall(r'"([\w-]+)"', observed) if name not in LEFT_OUT]
    return chain.from_iterable(combinations(names, count) for count in range(len(names) + 1))


@pytest.fixture(scope="module")
def scripts(browser: Browser, filled: Run) -> dict[tuple[str, ...], dict[str, int]]:
    """Return the scripts that a browser loads for each widget with each set of attributes, with their bytes.

    They are compressed, as API Gateway sends them.
    """
    found: dict[tuple[str, ...], dict[str, int]] = {}
    values = VALUES | {"token": filled.token("me"), "player": "me"}
    with OtherSite() as site:
        for name in page_bundle.WIDGETS:
            for attributes in attribute_sets(name):
                sizes = found[name, *attributes] = {}

                def note(answer: Response, sizes: dict[str, int] = sizes) -> None:
                    if answer.url.endswith(".js"):
                        sizes[answer.url] = len(gzip.compress(answer.body(), 9))

                given = " ".join(f'{attribute}="{values.get(attribute, "")}"' for attribute in attributes)
                url = site.publish(
                    f"/{name}",
                    f'<!doctype html><html lang="en"><title>Shop</title>'
                    f'<script type="module" src="{below(filled)}/web/widgets/{name}.js"></script>'
                    f"<hubbub-{name} {NAMES.get(name, '')} {given}></hubbub-{name}>",
                )
                with open_page(browser, "about:blank") as page:
                    page.on("response", note)
                    page.goto(url)
                    page.locator(
                        f"hubbub-{name}:is([data-state=ready], [data-state=empty], [data-state=idle])"
                    ).wait_for()
    return found


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_widgets_are_small_and_share_what_they_have_in_common(
    scripts: dict[tuple[str, ...], dict[str, int]], web: Path, language: str
) -> None:
    """A widget loads its words in one file, so another language replaces that file."""
    all_of_them: dict[str, int] = {}
    for (name, *attributes), sizes in scripts.items():
        assert len(sizes) <= SCRIPTS, sorted(sizes)
        [words] = [url for url in sizes if "/words-" in url]
        assert words.endswith(f"/words-en/{name}.js")
        path = f"words-{language}/{name}.js"
        own = {url: size for url, size in sizes.items() if url != words}
        own[path] = len(gzip.compress((web / path).read_bytes(), 9))
        assert sum(own.values()) < SHIPPED[0], (name, attributes, own)
        all_of_them |= own
    assert sum(all_of_them.values()) < SHIPPED[1], all_of_them


@pytest.fixture(scope="module")
def filled(deployed: Run) -> Run:
    """The deployed product with the demo data."""
    assert deployed.call("POST", "/api/local/demo", {})[0] == 202

    def has_items(path: str) -> Any:
        return deployed.call("GET", f"/api{path}")[1].get("items")

    until(lambda: has_items("/leaderboards/demo/distribution"), "scores")
    until(lambda: has_items("/products/demo/comments"), "comments")
    until(lambda: deployed.call("GET", "/api/challenges/demo/statistics")[1].get("players"), "answers")
    return deployed


def test_a_widget_names_calls_of_the_api() -> None:
    """A widget does not load the names of the client, so no name may stand in its calls."""
    calls = set(re.findall(r'^  \w+: "(\w+)!? ([^"]+)",$', (ROOT / "web/lib/calls.js").read_text(), re.M))
    named = re.compile(r"""\b(?:call|react|send|request)\(("[^"]*"|`[^`]*`)""")
    for path in [*(ROOT / "web" / "widgets").glob("*.js"), ROOT / "web/lib/core.js"]:
        for text in named.findall(path.read_text()):
            verbs, _, address = text[1:-1].rpartition(" ")  # two verbs in `${isCast ? "PUT" : "DELETE"} …`
            assert verbs, f"{path.name} names a call as the client does: {text}"
            for verb in re.findall("[A-Z]{3,}", verbs):
                assert (verb, address) in calls, f"{path.name}: {text}"


def test_the_beacon_is_less_than_5_kb(web: Path) -> None:
    assert (web / "beacon.js").stat().st_size < 5_000


def test_the_client_is_one_file_of_less_than_5_kb(web: Path) -> None:
    script = (web / "lib" / "hubbub.js").read_bytes()
    assert len(gzip.compress(script, 9)) < 5 * 1024
    assert not re.search(rb"""(from|import\()\s*["'][./]""", script)


def test_licences_stay_in_the_bundles(web: Path) -> None:
    [script] = web.glob("dashboard-*.js")
    text = script.read_text(encoding="utf-8")
    assert re.search(r"/\*! lit-html [\d.]+, BSD-3-Clause", text)
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
    (changed / "lib" / "pages.js").write_text(
        (changed / "lib" / "pages.js").read_text() + "\nwindow.changed = true;\n"
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
