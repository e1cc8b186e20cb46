"""The drop-ins in a real browser: the lines of docs/embed.md on another site, with a strict CSP."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pytest

from local.engines.engine import ROOT
from tests.support import running
from tests.support.other_site import OtherSite
from tests.support.pages import (
    KEEP_SOCKETS,
    find_accessibility_violations,
    find_cut_labels,
    find_overlaps,
    measure_overflow,
    open_page,
)
from tests.support.running import Run, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

pytestmark = pytest.mark.long


EVIL = '<img src=x onerror="document.title=1"><script>document.title=1</script>'


@pytest.fixture(scope="module")
def shop() -> Iterator[OtherSite]:
    """Another site that uses the drop-ins."""
    with OtherSite() as site:
        yield site


@pytest.fixture(scope="module")
def product(browser: Browser, shop: OtherSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The product, whose CORS allows only the shop's origin. The shop has a strict policy."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setitem(running.ENVIRONMENT, "HUBBUB_ORIGINS", f"{shop.origin},https://other.example")
        with Run(tmp_path_factory.mktemp("data") / "run", "--no-reload") as run:
            own, socket = run.page.rstrip("/"), f"ws://127.0.0.1:{run.socket_port}"
            shop.policy = f"default-src 'none'; script-src {own}; img-src {own}; connect-src {own} {socket}"
            yield run


DROP_INS = (ROOT / "docs" / "embed.md").read_text()
TITLE = "A page of the shop"


def example(product: Run, name: str, edit: Callable[[str], str] = str) -> str:
    """Return a page with the lines of the document that name a file, as another site uses them."""
    blocks: list[str] = re.findall(r"```html\n(.*?)```", DROP_INS, re.DOTALL)
    [lines] = [block for block in blocks if f"/{name}" in block.splitlines()[0]]
    head = f'<meta name="viewport" content="width=device-width"><title>{TITLE}</title><main><h1>Shop</h1>'
    lines = lines.replace("HUBBUB/", product.page)
    local = lines.replace("<script async", "<script async data-local")  # the shop is on localhost
    return edit(f'<!doctype html><html lang="en">{head}\n{local}')


def views(product: Run, url: str) -> tuple[int, int]:
    answer = product.call("GET", f"/views?url={quote(url, safe='')}")[1]
    return answer["views"], answer["visitors"]


LOSE = """
navigator.sendBeacon = () => false;
const { fetch } = window;
window.answers = 0;
window.fetch = async (...given) => {
  const answer = await fetch(...given);
  window.answers += 1;
  if (window.answers === 1) throw new TypeError("the answer was lost");
  return answer;
};
"""
GROUND = "getComputedStyle(document.querySelector('[data-state]')).backgroundColor"


# -- the beacon ----------------------------------------------------------------------------------------


class Visit:
    """A page of the shop with the beacon. The test controls its clock."""

    def __init__(self, page: Page, url: str, referrer: str = "") -> None:
        self.page, self.url = page, url
        self._posts: list[Request] = []
        page.on("request", lambda request: self._posts.append(request) if request.method == "POST" else None)
        now = datetime.now(UTC)
        page.clock.install(time=now)
        page.clock.pause_at(now + timedelta(seconds=1))
        with page.expect_response("**/beacon.js*"):
            page.goto(url, referer=referrer or None)
        page.wait_for_load_state()

    def posts(self) -> list[Any]:
        """The requests sent so far. An evaluation returns after the requests before it were recorded."""
        self.page.evaluate("1")
        return [json.loads(post.post_data or "") for post in self._posts]

    def see(self, visibility: str) -> None:
        self.page.evaluate(
            """state => {
              const value = { get: () => state, configurable: true };
              Object.defineProperty(Document.prototype, "visibilityState", value);
              document.dispatchEvent(new Event("visibilitychange"));
            }""",
            visibility,
        )


def test_a_view_counts_once_after_three_visible_seconds(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    with open_page(browser, "about:blank") as page:
        beacon = Visit(page, shop.publish("/once", example(product, "beacon.js")))
        before = page.evaluate("Date.now()")
        page.clock.run_for(2_900)
        assert beacon.posts() == []
        page.clock.run_for(200)
        [event] = beacon.posts()
        assert (event["url"], event.keys()) == (beacon.url, {"url", "time", "sent", "timezone"})
        assert 0 <= datetime.fromisoformat(event["time"]).timestamp() * 1000 - before <= 3_200
        until(lambda: views(product, beacon.url) == (1, 1), "the view counts")
        page.clock.run_for(3_600_000)
        assert len(beacon.posts()) == 1
        assert page.context.cookies() == []
        assert page.evaluate("localStorage.length + sessionStorage.length") == 0


def test_a_reload_is_a_new_view(browser: Browser, product: Run, shop: OtherSite) -> None:
    with open_page(browser, "about:blank") as page:
        beacon = Visit(page, shop.publish("/reload", example(product, "beacon.js")))
        page.clock.run_for(3_100)
        page.reload()
        page.wait_for_load_state()
        page.clock.run_for(3_100)
        assert len({event["time"] for event in beacon.posts()}) == 2
        until(lambda: views(product, beacon.url) == (2, 1), "one visitor has both views")


def test_a_hidden_tab_counts_only_after_enough_visible_time(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    with open_page(browser, "about:blank") as page:
        beacon = Visit(page, shop.publish("/hidden", example(product, "beacon.js")))
        page.clock.run_for(2_000)
        beacon.see("hidden")
        page.clock.run_for(60_000)
        assert beacon.posts() == []
        beacon.see("visible")
        page.clock.run_for(900)
        assert beacon.posts() == []
        page.clock.run_for(200)
        assert len(beacon.posts()) == 1


@pytest.mark.parametrize("wish", ["doNotTrack: '1'", "globalPrivacyControl: true"])
def test_visitors_who_opted_out_of_tracking_are_not_counted(
    browser: Browser, product: Run, shop: OtherSite, wish: str
) -> None:
    with open_page(browser, "about:blank") as page:
        name, value = wish.split(": ")
        page.add_init_script(f"Object.defineProperty(navigator, '{name}', {{ value: {value} }})")
        beacon = Visit(page, shop.publish("/private", example(product, "beacon.js")))
        page.clock.run_for(60_000)
        assert beacon.posts() == []


def test_a_restored_page_and_a_new_route_are_new_views(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    with open_page(browser, "about:blank") as page:
        beacon = Visit(page, shop.publish("/again", example(product, "beacon.js")))
        page.clock.run_for(3_100)
        page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
        page.clock.run_for(3_100)
        page.evaluate("dispatchEvent(new Event('hubbub:view'))")
        page.clock.run_for(3_100)
        assert [event["url"] for event in beacon.posts()] == [beacon.url] * 3
        assert len({event["time"] for event in beacon.posts()}) == 3


def post_urls(beacon: Visit, page: Page, *steps: str) -> list[str]:
    """Return the addresses that the beacon sends when a page runs each step and waits."""
    page.clock.run_for(3_100)
    for step in steps:
        page.evaluate(step)
        page.clock.run_for(3_100)
    return [event["url"] for event in beacon.posts()]


@pytest.mark.parametrize(
    ("attributes", "head", "seen"),
    [
        ("", "", ["/spa", "/next", "/spa"]),
        ('data-auto="off"', "", ["/spa"]),
        ("", '<link rel="canonical" href="/">', ["/", "/next", "/spa"]),
        ("", '<link rel="canonical" href="https://elsewhere.example/">', ["/spa", "/next", "/spa"]),
    ],
    ids=["history", "off", "canonical", "foreign"],
)
def test_the_beacon_follows_the_history_of_a_page(
    browser: Browser, product: Run, shop: OtherSite, attributes: str, head: str, seen: list[str]
) -> None:
    html = example(product, "beacon.js", lambda html: html.replace(" async", f" async {attributes}"))
    with open_page(browser, "about:blank") as page:
        beacon = Visit(page, shop.publish("/spa", html.replace("<title>", f"{head}<title>")))
        steps = ("history.pushState({}, '', '/next')", "history.pushState({ open: 1 }, '', '/next')")
        urls = post_urls(beacon, page, *steps, "history.go(-2)", "history.replaceState({}, '', location)")
        assert urls == [shop.origin + path for path in seen]
        # Only the first view may be direct: the page itself led to the others.
        assert [post.get("referrer") for post in beacon.posts()] == [None] + [shop.origin] * (len(urls) - 1)


def test_hash_routes_are_pages_on_request(browser: Browser, product: Run, shop: OtherSite) -> None:
    with open_page(browser, "about:blank") as page:
        html = example(product, "beacon.js", lambda html: html.replace(" async", " async data-hash"))
        beacon = Visit(page, shop.publish("/hash", html))
        urls = post_urls(beacon, page, "location.hash = '#/list?x=1'", "location.hash = '#part'")
        assert urls == [beacon.url, f"{beacon.url}#/list?x=1", beacon.url]


@pytest.mark.parametrize(
    "load",
    [
        '<script type="module" data-local src="FILE"></script>',
        '<script type="0a1b-text/javascript" data-local src="FILE"></script>'
        "<script>fetch('FILE').then((file) => file.text()).then((text) => (0, eval)(text))</script>",
        "<script>const tag = document.createElement('script'); tag.src = 'FILE'; tag.dataset.local = '';"
        "tag.async = true; document.head.append(tag)</script>",
        '<script data-local src="FILE?v=2" defer></script>',
    ],
    ids=["module", "rocket loader", "tag manager", "defer"],
)
def test_the_beacon_finds_its_script_however_it_is_loaded(
    browser: Browser, product: Run, shop: OtherSite, monkeypatch: pytest.MonkeyPatch, load: str
) -> None:
    own = f"script-src 'unsafe-inline' 'unsafe-eval' {product.page}"
    monkeypatch.setattr(shop, "policy", f"{own}; connect-src {product.page}")
    html = f"<!doctype html><title>t</title>{load.replace('FILE', f'{product.page}web/beacon.js')}"
    with open_page(browser, "about:blank") as page:
        beacon = Visit(page, shop.publish("/loaded", html))
        page.wait_for_function("window.hubbub")
        page.clock.run_for(3_100)
        assert [event["url"] for event in beacon.posts()] == [beacon.url]


def test_the_beacon_has_a_path_of_the_operators_choice(
    browser: Browser, shop: OtherSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(running.ENVIRONMENT, "HUBBUB_BEACON", "/js/hello.js")
    with Run(tmp_path / "run", "--no-reload") as run:
        own = run.page.rstrip("/")
        monkeypatch.setattr(shop, "policy", f"default-src 'none'; script-src {own}; connect-src {own}")
        script = f'<script async data-local src="{own}/js/hello.js"></script>'
        url = shop.publish("/blocked", f'<!doctype html><html lang="en"><title>Shop</title>{script}')
        with open_page(browser, "about:blank") as page:
            paths: list[str] = []
            page.on("request", lambda request: paths.append(urlsplit(request.url).path))
            page.clock.install()
            page.goto(url)
            page.wait_for_function("window.hubbub")
            page.clock.run_for(3_100)
            until(lambda: views(run, url) == (1, 1), "the view is counted")
        assert set(paths) == {"/blocked", "/js/hello.js"}


@pytest.mark.parametrize("case", ["localhost", "frame", "hash", "storage", "automated"])
def test_a_view_that_is_none_is_not_counted(
    browser: Browser, product: Run, shop: OtherSite, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    html = example(product, "beacon.js")
    with open_page(browser, "about:blank") as page:
        url = shop.publish(f"/none-{case}", html.replace(" data-local", "") if case == "localhost" else html)
        if case == "frame":
            monkeypatch.setattr(shop, "policy", f"{shop.policy}; frame-src {shop.origin}")
            url = shop.publish("/frames", f'<iframe src="{url}"></iframe>')
        if case == "storage":
            page.add_init_script("localStorage.hubbubIgnore = '1'")
        if case == "automated":
            page.add_init_script("Object.defineProperty(navigator, 'webdriver', { value: true })")
        beacon = Visit(page, url + ("#hubbub-ignore" if case == "hash" else ""))
        page.clock.run_for(10_000)
        assert [event.get("automated") for event in beacon.posts()] == [True] * (case == "automated")
        if case == "hash":
            assert page.evaluate("localStorage.hubbubIgnore") == "1"


def test_a_page_with_a_count_makes_one_request(browser: Browser, product: Run, shop: OtherSite) -> None:
    html = example(product, "beacon.js") + "<b data-hubbub-views></b> and <i data-hubbub-views></i>"
    with open_page(browser, "about:blank") as page:
        beacon = Visit(page, shop.publish("/shown", html))
        page.clock.run_for(3_100)
        until(lambda: page.text_content("b") == "1", "the count is shown")
        assert page.text_content("i") == "1"
        assert len(beacon.posts()) == 1
        until(lambda: views(product, beacon.url) == (1, 1), "the view counts")


def test_goals_and_links_are_events_of_their_own(browser: Browser, product: Run, shop: OtherSite) -> None:
    elements = (
        '<button data-hubbub-goal="sign up"><b>go</b></button>'
        '<a id="out" href="https://elsewhere.example/x">out</a><a id="file" href="/a.pdf">file</a>'
        '<form data-hubbub-goal="order"><button id="order">order</button></form>'
    )
    html = example(product, "beacon.js", lambda html: html.replace(" async", " async data-links"))
    with open_page(browser, "about:blank") as page:
        beacon = Visit(page, shop.publish("/goals", html + elements))
        page.evaluate("addEventListener('click', (event) => event.preventDefault())")
        page.evaluate("addEventListener('submit', (event) => event.preventDefault())")
        for selector in ("button b", "#out", "#file"):
            page.locator(selector).click()
        page.evaluate("document.querySelector('form').requestSubmit()")
        page.evaluate("hubbub.goal('by call')")
        goals = [event["goal"] for event in beacon.posts()]
        assert goals == ["sign up", "Outbound: elsewhere.example", "Download: a.pdf", "order", "by call"]


def test_the_first_view_names_the_other_site_and_the_campaign(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    with open_page(browser, "about:blank") as page:
        address = shop.publish("/led?utm_campaign=spring+sale&utm_source=mail", example(product, "beacon.js"))
        beacon = Visit(page, address, "http://news.example:8080/secret?token=1")
        page.clock.run_for(3_100)
        page.evaluate("dispatchEvent(new Event('hubbub:view'))")
        page.clock.run_for(3_100)
        assert beacon.posts()[0]["source"] == "mail"
        first, second = beacon.posts()
        assert (first["referrer"], first["campaign"]) == ("http://news.example:8080", "spring sale")
        assert second["referrer"] == shop.origin, "the page itself led to it"
        assert not {"campaign", "source"} & second.keys()
        until(lambda: views(product, f"{shop.origin}/led") == (2, 1), "both views count")
    site = urlsplit(shop.origin).hostname
    for path, found in (
        ("referrers", {"referrer": "news.example", "views": 1}),
        ("campaigns", {"campaign": "spring sale", "views": 1}),
    ):
        listed = product.call("GET", f"/views/{path}?site={site}&limit=100")[1]["items"]
        assert found in listed


def test_its_attributes_set_the_duration_the_page_and_the_client(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    said = 'data-seconds="1" data-url="https://shop.example/p" data-client="c-7" data-api="API"'

    def edit(html: str) -> str:
        return html.replace(" async", f" async {said.replace('API', product.page)}")

    with open_page(browser, "about:blank") as page:
        beacon = Visit(page, shop.publish("/said", example(product, "beacon.js", edit)))
        page.clock.run_for(1_100)
        [event] = beacon.posts()
        assert (event["url"], event["clientId"]) == ("https://shop.example/p", "c-7")


def test_the_canonical_address_is_counted(browser: Browser, product: Run, shop: OtherSite) -> None:
    link = '<link rel="canonical" href="/p">'
    with open_page(browser, "about:blank") as page:
        html = example(product, "beacon.js", lambda html: html.replace("<title>", f"{link}<title>"))
        beacon = Visit(page, shop.publish("/p?utm_source=mail", html))
        page.clock.run_for(3_100)
        assert beacon.posts()[0]["url"] == f"{shop.origin}/p"


def test_without_send_beacon_it_retries_with_fetch_and_counts_once(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    with open_page(browser, "about:blank") as page:
        page.add_init_script(LOSE)
        beacon = Visit(page, shop.publish("/fetched", example(product, "beacon.js")))
        page.clock.run_for(3_100)
        until(lambda: page.evaluate("window.answers === 1"), "the first answer is lost")
        page.clock.run_for(5_100)
        until(lambda: page.evaluate("window.answers === 2"), "it is sent again")
        [first, again] = beacon.posts()
        assert first == again
        until(lambda: views(product, beacon.url) == (1, 1), "the view counts once")
        page.clock.run_for(60_000)
        assert len(beacon.posts()) == 2


SECRET = "reset=s3cret"
TRACKED = "utm_source=mail&UTM_Medium=x&gclid=1&gbraid=2&fbclid=3&msclkid=4&mc_eid=5&_gl=6&mtm_campaign=7"


@pytest.mark.security
@pytest.mark.parametrize("canonical", ["", f"/token?{SECRET}"], ids=["location", "canonical"])
def test_a_query_is_neither_sent_nor_published(
    browser: Browser, product: Run, shop: OtherSite, canonical: str
) -> None:
    link = f'<link rel="canonical" href="{canonical}">' if canonical else ""
    html = example(product, "beacon.js", lambda html: html.replace("<title>", f"{link}<title>"))
    shop.publish(f"/token?{SECRET}", html)
    with open_page(browser, "about:blank") as page:
        beacon = Visit(page, f"{shop.origin}/token?{SECRET}#{SECRET}")
        page.clock.run_for(3_100)
        [event] = beacon.posts()
        assert event["url"] == f"{shop.origin}/token"
        published = partial(product.call, "GET", "/views/top?site=localhost&limit=100")
        until(lambda: event["url"] in json.dumps(published()), "the page is in the list")
        assert "s3cret" not in json.dumps(published())


@pytest.mark.security
@pytest.mark.parametrize(
    ("attributes", "query", "sent"),
    [
        ("", "?id=5", ""),
        ('data-query="keep"', f"?id=5&{TRACKED}&q=a%20b&flag", "?id=5&q=a%20b&flag"),
        ('data-query="keep"', f"?{TRACKED}", ""),
        ('data-query="keep"', "?next=/a?b=c&identity=utm_source", "?next=/a?b=c&identity=utm_source"),
        ('data-query="keep"', "?%E0%A4%A=1&utm%5Fsource=mail", "?%E0%A4%A=1"),
        (f'data-url="ORIGIN/query?page=2&{TRACKED}#part"', "?id=5", "?page=2"),
    ],
)
def test_a_query_is_kept_on_request_without_tracking_parameters(
    browser: Browser, product: Run, shop: OtherSite, attributes: str, query: str, sent: str
) -> None:
    said = attributes.replace("ORIGIN", shop.origin).replace("&", "&amp;")
    html = example(product, "beacon.js", lambda html: html.replace(" async", f" async {said}"))
    shop.publish(f"/query{query}", html)
    with open_page(browser, "about:blank") as page:
        beacon = Visit(page, f"{shop.origin}/query{query}")
        page.clock.run_for(3_100)
        [event] = beacon.posts()
        assert event["url"] == f"{shop.origin}/query{sent}"


OPTIONS = 'data-api="STRANGER" data-query="keep" data-seconds="1"'
DOCUMENT = ("referrer", "querySelector", "visibilityState", "addEventListener", "head", "body", "baseURI")


@pytest.mark.security
@pytest.mark.parametrize(
    "html",
    [
        f'<img name="currentScript" {OPTIONS}>',
        f'<form name="currentScript" {OPTIONS}></form>',
        f'<object name="currentScript" {OPTIONS}></object><embed name="currentScript" {OPTIONS}>',
        f'<link rel="canonical" href="STRANGER/?{SECRET}">',
        "".join(f'<img name="{name}">' for name in DOCUMENT)
        + '<a id="addEventListener"></a><a id="doNotTrack"></a>',
        '<a id="hubbub"></a><a id="hubbub" name="goal"></a><a id="hubbub" name="counts"></a>',
        '<iframe name="hubbub" sandbox="allow-scripts" srcdoc="x"></iframe>',
    ],
    ids=["img", "form", "two", "canonical", "others", "hubbub", "frame"],
)
def test_no_element_of_a_page_can_stand_for_the_beacons_own_script(
    browser: Browser, product: Run, shop: OtherSite, html: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop, "policy", f"{shop.policy} {shop.foreign_origin}")
    html = html.replace("STRANGER", shop.foreign_origin)
    text = example(product, "beacon.js", lambda page: page.replace("<script", f"{html}<script"))
    shop.publish(f"/clobbered?{SECRET}", text)
    with open_page(browser, "about:blank") as page:
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
        beacon = Visit(page, f"{shop.origin}/clobbered?{SECRET}", referrer=f"{shop.other_origin}/before")
        page.clock.run_for(3_100)
        [event] = beacon.posts()
        assert (event["url"], event["referrer"]) == (f"{shop.origin}/clobbered", shop.other_origin)
        assert sent == [f"{product.page}views"]


# -- the badge -----------------------------------------------------------------------------------------


def test_the_badge_is_an_image_on_any_page(browser: Browser, product: Run, shop: OtherSite) -> None:
    product.post(running.view("badge"))
    with open_page(browser, "about:blank") as page:
        page.goto(shop.publish("/page", example(product, "badge.svg")))
        assert page.evaluate("document.images[0].decode().then(() => document.images[0].naturalWidth > 40)")
        assert find_accessibility_violations(page) == []


def test_a_list_of_pages_keeps_long_and_right_to_left_paths_in_their_lines(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    for path in ("/" + "x" * 300, "/مرحبا/بالعالم"):
        product.post({"url": f"https://paths.example{quote(path)}", "clientId": "one"})
    until(lambda: product.call("GET", "/views/top?site=paths.example")[1]["items"][1:], "both are counted")
    html = example(
        product, "views.js", lambda html: html.replace('site="example.org"', 'site="paths.example"')
    )
    with open_page(browser, shop.publish("/page", html), viewport={"width": 320, "height": 740}) as page:
        links = page.locator("[part=page] a")
        links.nth(1).wait_for()
        heights = links.evaluate_all("all => all.map((link) => link.offsetHeight)")
        assert max(heights) < 50
        boxes = links.locator("bdi").evaluate_all("all => all.map((path) => path.getBoundingClientRect().x)")
        assert boxes[0] == boxes[1], "a path begins at the left"
        assert measure_overflow(page) <= 0


# -- comments ------------------------------------------------------------------------------------------


def comment(
    product: Run, author: str, item: str, rating: int = 5, text: str = "Fits.", language: str = "en"
) -> Any:
    body = {"rating": rating, "language": language, "text": text}
    status, made = product.call("POST", f"/products/{item}/comments", body, product.token(author))
    assert status == 201, made
    return made


def comments(product: Run, item: str, author: str = "", **said: str) -> Any:
    """Return the example with another product and an optional token, as a site's server would write it."""
    said |= {"token": product.token(author)} if author else {}
    attributes = "".join(f' {name}="{value}"' for name, value in said.items())
    return example(
        product,
        "comments.js",
        lambda html: html.replace('product="garment-767"', f'product="{item}"{attributes}'),
    )


COUNT = """
count => {
  scrollTo(0, document.body.scrollHeight);
  return document.querySelector("hubbub-comments").shadowRoot.querySelectorAll("li").length == count;
}
"""


def shows(page: Page, count: int) -> None:
    """Scroll to the end until this number of comments is shown."""
    page.wait_for_function(COUNT, arg=count)


def rate(page: Page, rating: int, text: str, button: str) -> None:
    page.get_by_role("radio", name=f"{rating} star").check(force=True)
    page.get_by_label("Your comment").fill(text)
    page.get_by_role("button", name=button, exact=True).click()


def test_a_comment_is_written_edited_and_deleted_on_a_foreign_page(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    from playwright.sync_api import expect

    comment(product, "other", "coat", 1, EVIL)
    with open_page(browser, "about:blank") as page:
        page.goto(shop.publish("/page", comments(product, "coat", "me")))
        page.get_by_text(EVIL).wait_for()
        rate(page, 4, f"Fits {EVIL}", "Comment")
        mine = page.locator("[part~=mine]")
        mine.get_by_text(f"Fits {EVIL}").wait_for()
        expect(page.locator("form")).to_have_count(0)
        page.get_by_text("2.5 of 5, 2 comments").wait_for()
        mine.get_by_role("button", name="Edit").click()
        rate(page, 5, "Fits well.", "Save")
        mine.get_by_text("edited").wait_for()
        page.get_by_text("3.0 of 5, 2 comments").wait_for()
        mine.get_by_role("button", name="Delete").click()
        mine.get_by_role("button", name="Delete this comment?").click()
        page.get_by_text("1.0 of 5, 1 comment").wait_for()
        expect(mine).to_have_count(0)
        expect(page.locator("form")).to_have_count(1)
        assert page.title() == TITLE
        assert page.locator("hubbub-comments img, hubbub-comments script").count() == 0
        style = "getComputedStyle(document.querySelector('hubbub-comments')).borderRadius"
        assert page.evaluate(style) == "12px"  # styled, though the page allows no styles


def define(product: Run, item: str, **fields: str) -> None:
    assert product.call("PUT", f"/products/{item}", fields, product.token("admin", "admin"))[0] == 201


def test_a_discussion_has_no_stars_and_takes_many_comments_of_an_author(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    define(product, "post-7", ratings="off", perAuthor="many")
    with open_page(browser, "about:blank") as page:
        page.goto(shop.publish("/page", comments(product, "post-7", "me")))
        for number, text in enumerate(("First.", "Second."), 1):
            page.get_by_label("Your comment").fill(text)
            page.get_by_role("button", name="Comment", exact=True).click()
            page.locator("[part~=mine]").get_by_text(text).wait_for()
            page.get_by_text(f"{number} comment").wait_for()
        assert page.get_by_role("radio").count() == page.locator(".stars").count() == 0
        assert page.get_by_role("button", name="stars").count() == 0
        texts = page.locator("li [part=text]")
        assert texts.all_inner_texts() == ["Second.", "First."]
        order = page.get_by_label("Order")
        assert order.locator("option").all_inner_texts() == ["Newest first", "Oldest first", "Most helpful"]
        order.select_option("Oldest first")
        page.wait_for_function(
            "() => document.querySelector('hubbub-comments').shadowRoot"
            ".querySelector('li [part=text]')?.textContent == 'First.'"
        )


def test_stars_may_be_optional_and_the_page_gets_the_rating_for_search_engines(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    define(product, "lamp-9", ratings="optional")
    comment(product, "other", "lamp-9", 4, "Bright.")
    html = comments(product, "lamp-9", "me", **{"structured-data": "Lamp"})
    with open_page(browser, "about:blank") as page:
        page.goto(shop.publish("/page", html))
        page.get_by_text("Bright.").wait_for()
        page.get_by_role("radio", name="2 star").check(force=True)
        page.get_by_role("button", name="No rating").click()
        page.get_by_label("Your comment").fill("No idea.")
        page.get_by_role("button", name="Comment", exact=True).click()
        mine = page.locator("[part~=mine]")
        mine.get_by_text("No idea.").wait_for()
        assert mine.locator(".stars").count() == 0
        page.get_by_text("4.0 of 5, 2 comments").wait_for()
        mine.get_by_role("button", name="Edit").click()
        rate(page, 2, "Dark.", "Save")
        page.get_by_text("3.0 of 5, 2 comments").wait_for()
        page.get_by_label("Order").select_option("Worst rating")
        page.wait_for_function(
            "() => document.querySelector('hubbub-comments').shadowRoot"
            ".querySelector('li [part=text]')?.textContent == 'Dark.'"
        )
        described = page.locator("head script[type='application/ld+json']")
        until(lambda: '"ratingValue":3,' in described.inner_text(), "the new rating for search engines")
        found = json.loads(described.inner_text())
        assert found["itemReviewed"] == {"@type": "Product", "name": "Lamp"}
        assert (found["ratingValue"], found["ratingCount"], found["reviewCount"]) == (3, 2, 2)
        page.evaluate("document.querySelector('hubbub-comments').remove()")
        assert page.locator("head script[type='application/ld+json']").count() == 0


def test_more_comments_load_on_scrolling_and_filters_apply(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    for i in range(24):
        comment(product, f"author-{i}", "hat", i % 5 + 1, f"text {i}", "de" if i % 2 else "en")
    with open_page(browser, "about:blank", viewport={"width": 600, "height": 600}) as page:
        page.goto(shop.publish("/page", comments(product, "hat", limit="5")))
        shown = page.locator("[part~=comment]")
        page.get_by_text("text 23").wait_for()
        assert shown.count() < 24
        while shown.count() < 24:
            count = shown.count()
            page.mouse.wheel(0, 10_000)
            shown.nth(count).wait_for()
        assert [item.get_attribute("data-author") for item in shown.all()] == [
            f"author-{i}" for i in range(23, -1, -1)
        ]
        page.get_by_role("button", name="5 stars").locator("span:text-is('4')").wait_for()
        page.get_by_role("button", name="5 stars").press("Enter")
        page.get_by_role("button", name="1 star,").press("Enter")
        shows(page, 9)
        page.get_by_label("Language").select_option("English")
        shows(page, 5)
        page.get_by_role("button", name="5 stars").locator("span:text-is('2')").wait_for()


def test_a_visitor_who_has_already_commented_sees_that_comment(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    from playwright.sync_api import expect

    comment(product, "me", "sock", 2, "mine, long ago")
    for i in range(3):
        comment(product, f"author-{i}", "sock")
    with open_page(browser, "about:blank", viewport={"width": 600, "height": 330}) as page:
        page.goto(shop.publish("/page", comments(product, "sock", "me", limit="1")))
        rate(page, 5, "again", "Comment")
        page.locator("[part~=mine]").get_by_text("mine, long ago").wait_for()
        expect(page.locator("form")).to_have_count(0)


def test_a_visitor_finds_a_comment_helpful_and_replies_on_a_foreign_page(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    from playwright.sync_api import expect

    path = f"/products/boot/comments/{comment(product, 'other', 'boot')['id']}"
    for number in range(11):
        body = {"text": f"reply {number} {EVIL}"}
        assert product.call("POST", f"{path}/replies", body, product.token("replier"))[0] == 201
    with open_page(browser, shop.publish("/page", comments(product, "boot", "me"))) as page:
        helpful = page.get_by_role("button", name="Helpful")
        expect(helpful).to_have_attribute("aria-pressed", "false")
        before = helpful.bounding_box()
        helpful.press("Enter")
        expect(helpful).to_have_attribute("aria-pressed", "true")
        expect(helpful).to_have_text("Helpful 1")
        assert helpful.bounding_box() == before, "nothing has moved"
        page.reload()
        expect(helpful).to_have_attribute("aria-pressed", "true")
        helpful.press("Enter")
        expect(helpful).to_have_text("Helpful 0")
        assert product.call("GET", path)[1]["votes"] == 0
        replies = page.locator("[part=reply]")
        opens = page.get_by_role("button", name="11 replies")
        opens.press("Enter")
        expect(replies).to_have_count(10)
        page.get_by_role("button", name="Show more replies").press("Enter")
        expect(replies).to_have_count(11)
        expect(replies.nth(10)).to_be_focused()
        assert replies.get_by_role("button", name="Delete").count() == 0
        page.get_by_label("Your reply").fill(EVIL)
        page.get_by_role("button", name="Post reply").press("Enter")
        expect(replies).to_have_count(12)
        expect(replies.nth(11).locator("[part=text]")).to_have_text(EVIL)
        replies.nth(11).get_by_role("button", name="Delete").press("Enter")
        replies.nth(11).get_by_role("button", name="Delete this reply?").press("Enter")
        expect(replies).to_have_count(11)
        expect(opens).to_be_focused()
        assert product.call("GET", path)[1]["replies"] == 11
        opens.press("Enter")
        expect(replies).to_have_count(0)


def test_a_guest_votes_and_replies_under_one_name(browser: Browser, product: Run, shop: OtherSite) -> None:
    from playwright.sync_api import expect

    comment(product, "other", "mitten")
    with open_page(browser, shop.publish("/page", comments(product, "mitten", guest=""))) as page:
        page.get_by_label("Your name").fill("Bo Smith")
        page.get_by_role("button", name="Helpful").click()
        expect(page.get_by_role("button", name="Helpful")).to_have_attribute("aria-pressed", "true")
        page.get_by_role("button", name="Reply", exact=True).click()
        page.get_by_label("Your reply").fill("Thank you.")
        page.get_by_role("button", name="Post reply").click()
        expect(page.locator("[part=reply] [part=author]")).to_have_text("Bo Smith")


def test_a_visitor_without_a_token_sees_votes_and_replies_without_buttons_that_fail(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    from playwright.sync_api import expect

    path = f"/products/belt/comments/{comment(product, 'other', 'belt')['id']}"
    assert product.call("PUT", f"{path}/vote", {}, product.token("reader"))[0] == 201
    assert product.call("POST", f"{path}/replies", {"text": "Yes."}, product.token("reader"))[0] == 201
    comment(product, "another", "belt")
    with open_page(browser, shop.publish("/page", comments(product, "belt"))) as page:
        expect(page.get_by_text("1 person found this helpful")).to_be_visible()
        assert page.locator("[part=vote]").count() == 0
        assert page.get_by_role("button", name="Reply", exact=True).count() == 0
        page.get_by_role("button", name="1 reply").click()
        expect(page.locator("[part=reply] [part=text]")).to_have_text("Yes.")
        expect(page.get_by_text("Sign in to reply.")).to_be_visible()


def test_a_widget_shows_that_it_is_empty_refused_or_offline(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    with open_page(browser, shop.publish("/page", comments(product, "empty"))) as page:
        page.get_by_text("No comments yet.").wait_for()
        page.get_by_text("Sign in to comment.").wait_for()
        page.evaluate("document.querySelector('hubbub-comments').setAttribute('product', 'a b')")
        page.locator("hubbub-comments[data-state=error]").get_by_text("This was not accepted.").wait_for()
        page.route("**/products/**", lambda route: route.abort())
        page.reload()
        page.locator("hubbub-comments[data-state=offline]").wait_for()
        page.unroute("**/products/**")
        page.get_by_text("No comments yet.").wait_for()


def test_a_site_that_is_not_listed_gets_no_widget(browser: Browser, product: Run, shop: OtherSite) -> None:
    shop.publish("/page", comments(product, "empty"))
    with browser.new_context() as context:
        page = context.new_page()
        with page.expect_event("console", lambda said: "CORS policy" in said.text):
            page.goto(f"{shop.other_origin}/page")
        assert page.evaluate("customElements.get('hubbub-comments') === undefined")


def test_a_token_can_come_from_a_function_and_the_page_is_notified_when_it_expires(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    with open_page(browser, "about:blank") as page:
        page.goto(shop.publish("/page", comments(product, "glove")))
        page.get_by_text("Sign in to comment.").wait_for()
        page.evaluate(
            """old => {
              const widget = document.querySelector("hubbub-comments");
              window.asked = new Promise((done) => widget.addEventListener("hubbub-unauthorized", done));
              widget.getToken = async () => old;
              widget.setAttribute("language", "de");
            }""",
            product.token("me")[:-4] + "AAAA",
        )
        rate(page, 3, "Geht so.", "Comment")
        page.evaluate("window.asked.then(() => true)")
        page.get_by_role("alert").filter(has_text="Please sign in again.").wait_for()
        page.evaluate(
            "new_ => { document.querySelector('hubbub-comments').getToken = async () => new_ }",
            product.token("me"),
        )
        page.get_by_role("button", name="Comment", exact=True).click()
        page.locator("[part~=mine] [lang=de]:has-text('Geht so.')").wait_for()


def test_a_new_comment_of_another_visitor_is_announced_over_the_socket(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    comment(product, "first", "scarf")
    html = comments(product, "scarf", socket=f"ws://127.0.0.1:{product.socket_port}")
    with open_page(browser, shop.publish("/page", html)) as page:
        page.get_by_text("5.0 of 5, 1 comment").wait_for()
        product.wait_for_listener("product:scarf")
        comment(product, "second", "scarf", text="just now")
        page.get_by_role("button", name="Show new comments").click()
        page.get_by_text("just now").wait_for()


# -- the leaderboard -----------------------------------------------------------------------------------


def board(product: Run, name: str, players: int, title: str = "City marathon", max_: int = 600) -> None:
    body = {"title": title, "unit": "minutes", "decimals": 2, "max": max_, "order": "asc", "operator": "best"}
    assert product.call("PUT", f"/leaderboards/{name}", body, product.token("admin-1", "admin"))[0] == 201
    for i in range(players):
        score(product, name, f"R{i + 1}", 120 + i)
    wanted = {"players": players}
    until(lambda: product.call("GET", f"/leaderboards/{name}")[1].items() >= wanted.items(), "all are ranked")


def score(product: Run, name: str, player: str, value: float) -> None:
    body = {"id": f"{player}-{value}", "value": value, "player": player}
    assert (
        product.call("POST", f"/leaderboards/{name}/scores", body, product.token("admin-1", "admin"))[0]
        == 201
    )


def leaderboard(product: Run, name: str, **said: str) -> Any:
    attributes = "".join(f' {key}="{value}"' for key, value in ({"limit": "5"} | said).items())
    return example(
        product,
        "leaderboard.js",
        lambda html: html.replace('board="race" player="R1301" limit="5"', f'board="{name}"{attributes}'),
    )


def ranks(page: Page) -> list[str]:
    return [" ".join(row.inner_text().split()) for row in page.locator("tbody tr").all()]


def test_it_shows_the_top_and_the_players_neighbours_and_updates_over_the_socket(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    board(product, "race", 20, EVIL)
    socket = f"ws://127.0.0.1:{product.socket_port}"
    html = leaderboard(product, "race", player="R12", socket=socket)
    with open_page(browser, shop.publish("/page", html), script=KEEP_SOCKETS) as page:
        page.get_by_text("You are 12th of 20, 1.00 minutes to the next place.").wait_for()
        assert ranks(page) == [
            *[f"{i} R{i} {119 + i}.00" for i in range(1, 6)],
            "…",
            "10 R10 129.00",
            "11 R11 130.00",
            "12 R12 (you) 131.00",
            "13 R13 132.00",
            "14 R14 133.00",
        ]
        assert page.get_by_role("heading", level=3).inner_text() == EVIL
        product.wait_for_listener("leaderboard:race")
        score(product, "race", "R12", 100.25)
        page.get_by_text("You are 1st of 20.").wait_for()
        page.locator("tr.mine:has-text('100.25')").wait_for()
        assert ranks(page)[0] == "1 R12 (you) 100.25"
        assert len(ranks(page)) == 5
        assert page.title() == TITLE
        page.evaluate("window.sockets[0].close()")
        until(lambda: page.evaluate("window.sockets.length === 2"), "it connects again")
        score(product, "race", "R20", 99)
        page.locator("tr:has-text('R20'):has-text('99.00')").wait_for()


def test_the_note_on_the_visitor_stands_beside_the_name(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    board(product, "beside", 3)
    size: dict[str, Any] = {"viewport": {"width": 800, "height": 600}}
    html = leaderboard(product, "beside", player="R2")
    with open_page(browser, shop.publish("/page", html), **size) as page:
        page.get_by_text("(you)").wait_for()
        heights = page.locator("tbody tr").evaluate_all("all => all.map((row) => row.offsetHeight)")
        assert max(heights) - min(heights) <= 1


def test_more_entries_are_shown_on_request_and_stay(browser: Browser, product: Run, shop: OtherSite) -> None:
    from playwright.sync_api import expect

    board(product, "long", 14)
    html = leaderboard(product, "long", player="R14", socket=f"ws://127.0.0.1:{product.socket_port}")
    with open_page(browser, shop.publish("/page", html)) as page:
        page.get_by_text("You are 14th of 14").wait_for()
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(5 + 1 + 5)  # the top, a gap, and the neighbours
        page.get_by_role("button", name="Show more").click()
        expect(rows).to_have_count(10)
        product.wait_for_listener("leaderboard:long")
        score(product, "long", "R7", 99)
        expect(rows.first).to_contain_text("R7")
        expect(rows).to_have_count(10 + 1 + 4)


def test_without_a_socket_it_polls(browser: Browser, product: Run, shop: OtherSite) -> None:
    board(product, "polled", 2)
    with open_page(browser, "about:blank") as page:
        page.clock.install()
        page.goto(shop.publish("/page", leaderboard(product, "polled")))
        page.get_by_text("2 players").wait_for()
        score(product, "polled", "<b>R3</b>", 99)
        until(lambda: product.call("GET", "/leaderboards/polled")[1]["players"] == 3, "the third is ranked")
        page.clock.run_for(5_100)
        page.get_by_text("3 players").wait_for()
        assert ranks(page)[0] == "1 <b>R3</b> 99.00"


@pytest.mark.security
def test_no_element_of_a_page_can_stop_a_widget(browser: Browser, product: Run, shop: OtherSite) -> None:
    board(product, "named", 2)
    named = "".join(
        f'<img name="{name}">'
        for name in (*DOCUMENT, "createElement", "removeEventListener", "hidden", "currentScript", "location")
    )
    with open_page(browser, "about:blank") as page:
        page.goto(shop.publish("/page", leaderboard(product, "named").replace("<hub", f"{named}<hub")))
        page.get_by_text("2 players").wait_for()


def test_a_leaderboard_can_be_empty_or_missing(browser: Browser, product: Run, shop: OtherSite) -> None:
    board(product, "new", 0)
    with open_page(browser, "about:blank") as page:
        page.goto(shop.publish("/page", leaderboard(product, "new", player="me")))
        page.get_by_text("No scores yet.").wait_for()
        page.get_by_text("You do not have a score yet.").wait_for()
        page.evaluate("document.querySelector('hubbub-leaderboard').setAttribute('board', 'none')")
        page.locator("hubbub-leaderboard[data-state=error] [part=state]:has-text('none')").wait_for()
        assert visible(page, "hubbub-leaderboard") == ["state"], "it shows nothing of the leaderboard before"


# -- the challenge -------------------------------------------------------------------------------------


def test_a_season_that_recurs_shows_its_end_and_equal_scores_their_own_places(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    resets = {"every": "month", "timezone": "Europe/Berlin"}
    board = {"title": "Of the month", "operator": "best", "ties": "first", "resets": resets}
    admin = product.token("admin-1", "admin")
    assert product.call("PUT", "/leaderboards/monthly", board, admin)[0] == 201
    for player in ("second", "first", "third"):
        time = f"2026-11-21T10:00:0{('first', 'second', 'third').index(player)}Z"
        score = {"player": player, "id": "1", "value": 7, "time": time}
        assert product.call("POST", "/leaderboards/monthly/scores", score, admin)[0] == 201
    with open_page(browser, shop.publish("/page", leaderboard(product, "monthly"))) as page:
        page.get_by_text("third").wait_for()
        assert ranks(page) == ["1 first 7", "2 second 7", "3 third 7"]
        assert re.search(r"3 players · until \w+ \d+, 20\d\d at", page.locator("[part=facts]").inner_text())


def hunt(product: Run, name: str, **said: object) -> None:
    body = {"title": "Treasure hunt", "paths": ["oak/well", "oak/mill", "elm"], "limit": 3, "ranked": True}
    admin = product.token("admin-1", "admin")
    assert product.call("PUT", f"/challenges/{name}", body | said, admin)[0] == 201


def find(product: Run, name: str, player: str, *paths: str) -> None:
    for path in paths:
        made = product.call("POST", f"/challenges/{name}/paths", {"path": path}, product.token(player))
        assert made[0] == 201, made


def challenge(product: Run, name: str, **said: str) -> Any:
    """Return the example with another challenge. `guest` is an attribute of it."""
    attributes = "".join(f' {key}="{value}"' for key, value in said.items())
    return example(
        product,
        "challenge.js",
        lambda html: html.replace('challenge="hunt"', f'challenge="{name}"{attributes}'),
    )


def guess(page: Page, path: str) -> None:
    page.get_by_label("Your answer").fill(path)
    page.get_by_label("Your answer").press("Enter")


def axes(page: Page) -> tuple[str, str]:
    """Return the titles of a chart's axes."""
    return page.inner_text(".plot .y-title"), page.inner_text(".plot .x-title")


def test_a_guest_plays_a_challenge_on_a_foreign_page(browser: Browser, product: Run, shop: OtherSite) -> None:
    from playwright.sync_api import expect

    hunt(product, "hunt", title=EVIL)
    find(product, "hunt", "R1", "elm")
    with open_page(browser, shop.publish("/page", challenge(product, "hunt"))) as page:
        page.get_by_text("1 player found 1 answer").wait_for()
        assert page.get_by_role("heading", level=3).inner_text() == EVIL
        assert page.evaluate("localStorage.length") == 0, "no guest before the first answer"
        page.get_by_label("Your name").fill("Ann Lee")
        guess(page, "nonsense")
        page.get_by_text("nonsense is not a correct answer.").wait_for()
        guess(page, " OAK/well ")
        page.get_by_text("You have found 1 of 3.").wait_for()
        guess(page, "oak/well")
        page.get_by_text("You have already found this answer.").wait_for()
        guess(page, "oak/mill")
        page.get_by_text("You have found 2 of 3.").wait_for()
        listed = page.locator("[part=found] bdi").all_inner_texts()
        assert [text.strip() for text in listed] == ["OAK/well", "oak/mill"]
        page.get_by_text("2 players found 3 answers").wait_for()
        page.locator("[part~=mine]:has-text('Ann Lee (you)'):has-text('2')").wait_for()
        assert axes(page) == ("Players", "Answers found")
        bar = page.locator("[part=statistics] .readout")
        for key, text in (
            ("Home", "At least 1 answer: 2 players. Exactly 1: 1 player."),
            ("End", "At least 3 answers: 0 players. Exactly 3: 0 players."),
        ):
            page.press(".plot", key)
            expect(bar).to_have_text(text)
        page.reload()
        page.get_by_text("You have found 2 of 3.").wait_for()
        page.locator("[part=found] li:has-text('found first, 1 player')").first.wait_for()
        guess(page, "elm")
        page.get_by_text("You have found 3 of 3.").wait_for()
        expect(page.get_by_label("Your answer"), "the limit is reached").to_be_hidden()
        assert page.title() == TITLE


def test_a_challenge_follows_other_players_over_the_socket(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    hunt(product, "followed")
    html = challenge(product, "followed", socket=f"ws://127.0.0.1:{product.socket_port}")
    with open_page(browser, shop.publish("/page", html)) as page:
        page.get_by_text("No answers found yet.").wait_for()
        product.wait_for_listener("challenge:followed")
        find(product, "followed", "R1", "elm", "oak/mill")
        page.get_by_text("1 player found 2 answers").wait_for()
        page.locator("tbody tr:has-text('R1'):has-text('2')").wait_for()


def test_a_challenge_needs_a_token_where_guests_are_not_wanted(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    from playwright.sync_api import expect

    hunt(product, "members", ranked=False)
    html = challenge(product, "members").replace(" guest>", ">")
    with open_page(browser, shop.publish("/page", html)) as page:
        page.get_by_text("Sign in to play.").wait_for()
        expect(page.get_by_label("Your answer")).to_be_hidden()
        page.evaluate(
            """old => {
              const widget = document.querySelector("hubbub-challenge");
              window.asked = new Promise((done) => widget.addEventListener("hubbub-unauthorized", done));
              widget.token = old;
            }""",
            product.token("me")[:-4] + "AAAA",
        )
        page.evaluate("window.asked.then(() => true)")
        page.evaluate(
            "now => { document.querySelector('hubbub-challenge').token = now }", product.token("me")
        )
        guess(page, "elm")
        page.get_by_text("elm is correct.").wait_for()
        expect(page.get_by_role("table"), "its players are not ranked").to_be_hidden()
    assert product.call("GET", "/challenges/members/players/me", token=product.token("me"))[1]["found"] == 1


def test_where_guests_may_not_play_a_visitor_is_asked_to_sign_in(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    from playwright.sync_api import expect

    hunt(product, "no-guests", guests=False)
    admin = product.token("admin-1", "admin")
    for name, body in (("no-guests", {"guests": False}), ("server", {"submit": "server"})):
        assert product.call("PUT", f"/leaderboards/{name}", {"title": "Race"} | body, admin)[0] == 201
    boards = [leaderboard(product, name, submit="", guest="") for name in ("no-guests", "server")]
    with open_page(browser, shop.publish("/page", challenge(product, "no-guests") + "".join(boards))) as page:
        page.get_by_text("Sign in to play.").wait_for()
        page.get_by_text("No scores yet.").last.wait_for()
        expect(page.get_by_text("Sign in to submit a score.").locator("visible=true")).to_have_count(1)
        expect(page.locator("input:visible")).to_have_count(0)


def test_too_many_guesses_are_refused_until_the_pause_is_over(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    hunt(product, "fast")
    slow = {"code": "SlowDown", "message": "Too many guesses."}
    headers = {"Retry-After": "60", "Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "*"}
    with open_page(browser, "about:blank") as page:
        page.clock.install()
        page.goto(shop.publish("/page", challenge(product, "fast")))
        page.get_by_text("No answers found yet.").wait_for()
        page.route("**/paths", lambda route: route.fulfill(status=429, json=slow, headers=headers))
        guess(page, "elm")
        page.get_by_text("You are going too fast. Please wait a moment.").wait_for()
        assert page.get_by_role("button", name="Wait …").get_attribute("aria-disabled") == "true"
        page.unroute("**/paths")
        page.clock.run_for(61_000)
        page.get_by_role("button", name="Submit").click()
        page.get_by_text("elm is correct.").wait_for()


def test_a_challenge_that_is_missing_or_closed_takes_no_answers(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    from playwright.sync_api import expect

    hunt(product, "open")
    find(product, "open", "R1", "elm")
    hunt(product, "over", closes="2020-01-01T00:00:00Z")
    hunt(product, "later", opens="2100-01-01T00:00:00Z")
    with open_page(browser, shop.publish("/page", challenge(product, "open"))) as page:
        show = "name => document.querySelector('hubbub-challenge').setAttribute('challenge', name)"
        page.get_by_role("cell", name="R1").wait_for()
        page.evaluate(show, "none")
        page.locator("hubbub-challenge[data-state=error] [part=state]:has-text('none')").wait_for()
        assert visible(page, "hubbub-challenge") == ["state"], "it shows nothing of the challenge before"
        for name, said in (("over", "Closed on January 1, 2020"), ("later", "Opens on January 1, 2100")):
            page.evaluate(show, name)
            page.get_by_text(said).wait_for()
            expect(page.get_by_label("Your answer")).to_be_hidden()
            expect(page.get_by_text("Sign in to play.")).to_be_hidden()


def visible(page: Page, widget: str) -> list[str]:
    """Return the parts of a widget that show a text."""
    found: list[str] = page.evaluate(
        """name => [...document.querySelector(name).shadowRoot.querySelectorAll("[part]")]
          .filter((first) => first.checkVisibility() && first.innerText.trim())
          .map((first) => first.getAttribute("part"))""",
        widget,
    )
    return found


# -- the chat ------------------------------------------------------------------------------------------


def chat(product: Run, lobby: str, **said: str) -> Any:
    attributes = "".join(f' {key}="{value}"' for key, value in said.items())
    return example(
        product, "chat.js", lambda html: html.replace('lobby="main"', f'lobby="{lobby}"{attributes}')
    )


def start_chat(*pages: Page) -> None:
    for page in pages:
        page.get_by_role("button", name="Start chatting").click()
    for page in pages:
        page.get_by_text("You are chatting with a stranger").wait_for()


def say(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.get_by_label("Message", exact=True).press("Enter")


# Resolves when the widget says that the stranger is typing, which it does for two seconds.
TYPING = """() => {
  const note = document.querySelector("hubbub-chat").shadowRoot.querySelector("[part=note]");
  window.typing = new Promise((resolve) => new MutationObserver(() => (
    note.textContent === "The stranger is typing …" && resolve(true))).observe(note, { childList: true }));
}"""


def offered(page: Page) -> list[str]:
    return page.locator("hubbub-chat button:enabled:visible").all_inner_texts()


def test_two_visitors_of_a_foreign_page_chat(browser: Browser, product: Run, shop: OtherSite) -> None:
    from playwright.sync_api import expect

    address = shop.publish("/page", chat(product, "two"))
    sockets: list[str] = []
    with (
        open_page(browser, "about:blank") as page,
        open_page(browser, address) as other,
        open_page(browser, address) as third,
    ):
        page.on("websocket", lambda socket: sockets.append(socket.url))
        page.goto(address)
        page.get_by_role("button", name="Start chatting").wait_for()
        assert sockets == [], "nothing is sent before the visitor starts"
        start_chat(page, other)
        other.evaluate(TYPING)
        place = "document.querySelector('hubbub-chat').shadowRoot.querySelector('form').offsetTop"
        before = other.evaluate(place)
        page.get_by_label("Message", exact=True).press_sequentially("h")
        other.evaluate("window.typing")
        assert other.evaluate(place) == before, "the form stays in its place"
        say(page, EVIL)
        other.locator("[part~=theirs]", has_text=EVIL).wait_for()
        assert re.fullmatch(r"\d\d:\d\d", other.inner_text("[part~=theirs] time"))
        say(page, "w" * 2000)
        fits = (
            "line => [line.scrollWidth <= line.clientWidth, line.offsetWidth < line.parentNode.clientWidth]"
        )
        assert other.locator("[part~=theirs]").nth(1).evaluate(fits) == [True, True]
        say(other, "hi")
        page.locator("[part~=theirs]", has_text="hi").wait_for()
        say(other, "مرحبا 123")
        line = page.locator("[part~=theirs]", has_text="123")
        line.wait_for()
        lefts = "line => ['bdi', 'time'].map((part) => line.querySelector(part).getBoundingClientRect().left)"
        text, time = line.evaluate(lefts)
        assert text < time, "the time stands after the text"
        assert page.title() == TITLE
        assert offered(page) == ["Send", "Next", "Leave", "Report"]
        page.get_by_role("button", name="Leave").click()
        page.get_by_text("You have left the chat.").wait_for()
        other.get_by_text("The stranger has left.").wait_for()
        assert offered(page) == ["Start chatting", "Report"]
        assert offered(other) == ["Next", "Leave", "Report"]
        other.get_by_role("button", name="Leave").click()  # the same two do not meet again at once
        third.get_by_role("button", name="Start chatting").click()
        page.get_by_role("button", name="Start chatting").click()
        page.get_by_text("You are chatting with a stranger").wait_for()
        expect(page.locator("[part~=message]"), "a new partner").to_have_count(0)


def test_a_reload_keeps_the_partner_and_a_lost_connection_returns(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    address = shop.publish("/page", chat(product, "kept"))
    with (
        open_page(browser, address, script=KEEP_SOCKETS) as first,
        open_page(browser, address) as other,
    ):
        start_chat(first, other)
        say(first, "before")
        other.locator("[part~=theirs]", has_text="before").wait_for()
        first.reload()
        for page in (first, other):
            page.get_by_text("You are back with the same stranger.").wait_for()
        assert other.locator("[part~=theirs]").count() == 1, "it is the same conversation"
        say(first, "back again")
        other.locator("[part~=theirs]", has_text="back again").wait_for()
        first.evaluate("window.sockets.at(-1).close(3000)")
        first.locator("hubbub-chat[data-state=offline]").wait_for()
        first.get_by_text("You are chatting with a stranger").wait_for()
        other.get_by_text("You are chatting with a stranger").wait_for()
        say(first, "still there?")
        other.locator("[part~=theirs]", has_text="still there?").wait_for()


def test_a_message_that_was_refused_can_be_sent_again_and_a_stranger_reported(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    address = shop.publish("/page", chat(product, "told"))
    with open_page(browser, address) as page, open_page(browser, address) as other:
        start_chat(page, other)
        for number in range(31):  # one more than a connection may send in ten seconds
            say(page, f"line {number}")
        refused = page.locator("[part~=mine]:has(.problem)")
        refused.first.wait_for()
        assert "Not sent. You are sending too fast." in refused.first.inner_text()
        settled = "() => !document.querySelector('hubbub-chat').shadowRoot.querySelector('.sending')"
        page.wait_for_function(settled)
        before = refused.count()
        page.wait_for_timeout(10_000)  # the window of the rate: ten refusals in a row close the connection
        refused.first.get_by_role("button", name="Send again").click()
        page.wait_for_function(settled)
        assert refused.count() == before - 1
        other.get_by_role("button", name="Report").click()
        other.get_by_label("Reason").select_option("Advertising")
        other.get_by_role("button", name="Send report").click()
        other.get_by_text("Your report was sent.").wait_for()
        page.get_by_text("Waiting for a stranger").wait_for()
    reports = product.call("GET", "/chat/reports", token=product.token("a", "admin"))[1]["items"]
    assert [report["reason"] for report in reports if report["lobby"] == "told"] == ["Advertising"]


def test_a_report_has_the_last_messages_that_fit(browser: Browser, product: Run, shop: OtherSite) -> None:
    address = shop.publish("/page", chat(product, "spam"))
    texts = ("買" * 1500, "買" * 1400, "buy this")  # together more bytes than a frame may have
    with open_page(browser, address) as first, open_page(browser, address) as other:
        start_chat(first, other)
        for text in texts:
            say(other, text)
        first.locator("[part~=theirs]", has_text="buy this").wait_for()
        first.get_by_role("button", name="Report").click()
        first.get_by_role("button", name="Send report").click()
        for page in (first, other):
            page.get_by_text("Waiting for a stranger").wait_for()
    reports = product.call("GET", "/chat/reports", token=product.token("a", "admin"))[1]["items"]
    [report] = [report for report in reports if report["lobby"] == "spam"]
    assert report["messages"] == [{"author": "reported", "text": text, "proved": True} for text in texts[1:]]


def test_a_stranger_that_has_left_can_be_reported(browser: Browser, product: Run, shop: OtherSite) -> None:
    address = shop.publish("/page", chat(product, "gone"))
    with open_page(browser, address) as page, open_page(browser, address) as other:
        start_chat(page, other)
        say(other, "an insult")
        page.locator("[part~=theirs]", has_text="an insult").wait_for()
        page.get_by_role("button", name="Report").click()
        other.get_by_role("button", name="Leave").click()
        page.get_by_text("The stranger has left.").wait_for()
        page.get_by_role("button", name="Send report").click()
        page.get_by_text("Your report was sent.").wait_for()
        assert offered(page) == ["Next", "Leave"]
    reports = product.call("GET", "/chat/reports", token=product.token("a", "admin"))[1]["items"]
    [report] = [report for report in reports if report["lobby"] == "gone"]
    assert report["messages"] == [{"author": "reported", "text": "an insult", "proved": True}]


def test_a_stage_without_sockets_has_no_chat(browser: Browser, product: Run, shop: OtherSite) -> None:
    with open_page(browser, shop.publish("/page", chat(product, "none"))) as page:
        config = {"stage": "dev", "socket": "", "guests": False}
        allowed = {"Access-Control-Allow-Origin": "*"}
        page.route("**/web/config.json", lambda route: route.fulfill(json=config, headers=allowed))
        page.get_by_role("button", name="Start chatting").click()
        page.locator("hubbub-chat[data-state=error]").get_by_text(
            "Chat is not available right now."
        ).wait_for()
        page.unroute("**/web/config.json")
        page.get_by_role("button", name="Start chatting").click()
        page.get_by_text("Waiting for a stranger").wait_for()


# -- all of them ---------------------------------------------------------------------------------------


FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"  # an emoji of several joined code points
PERSIAN = "\u0645\u06cc\u200c\u0631\u0648\u0645"  # with a joiner between two letters


@pytest.mark.parametrize("name", ["Bo Smith ", f"{FAMILY} Bo", PERSIAN], ids=["blank", "emoji", "Persian"])
def test_a_guest_has_one_name_in_all_widgets_and_can_change_it(
    browser: Browser, product: Run, shop: OtherSite, name: str
) -> None:
    from playwright.sync_api import expect

    item = f"shared-{len(name)}-{ord(name[0])}"
    hunt(product, item)
    other = comment(product, "other", item)["id"]
    signed_in: list[str] = []
    with open_page(browser, shop.publish("/page", together(product, item))) as page:
        page.on("request", lambda sent: signed_in.append(sent.url) if "/guests" in sent.url else None)
        game, texts = page.locator("hubbub-challenge"), page.locator("hubbub-comments")
        texts.get_by_label("Your name").first.fill(name)
        expect(game.get_by_label("Your name")).to_have_value(name)
        for path in ("nonsense", "elm", "oak/mill"):
            guess(page, path)
            page.get_by_text(path if path == "nonsense" else f"{path} is correct.").first.wait_for()
        texts.get_by_role("button", name="Helpful").click()
        rate(page, 4, "Nice hunt.", "Comment")
        mine = texts.locator("[part~=mine]")
        expect(mine.locator("[part=author]")).to_have_text(name.strip())
        expect(game.locator("[part~=mine] td").nth(1)).to_have_text(f"{name.strip()} (you)")
        assert len(signed_in) == 1, "one guest"
        game.get_by_label("Your name").fill("Ann Lee")
        guess(page, "oak/well")
        page.get_by_text("oak/well is correct.").wait_for()
        texts.get_by_role("button", name="Reply", exact=True).first.click()
        expect(texts.get_by_label("Your name").first).to_have_value("Ann Lee")
        assert len(signed_in) == 2, "its other name"
        assert mine.get_by_role("button", name="Edit").is_visible(), "the comment is still the guest's own"
    listed = product.call("GET", f"/products/{item}/comments")[1]["items"]
    assert [item["name"] for item in listed if item["id"] != other] == [name.strip()]


def test_a_widget_that_comes_later_has_the_name_that_the_visitor_has_typed(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    from playwright.sync_api import expect

    hunt(product, "latecomer")
    with open_page(browser, shop.publish("/page", together(product, "latecomer"))) as page:
        page.locator("hubbub-comments").get_by_label("Your name").first.fill("Bo")
        page.evaluate("document.body.append(document.querySelector('hubbub-challenge').cloneNode())")
        expect(page.locator("hubbub-challenge").nth(1).get_by_label("Your name")).to_have_value("Bo")


def together(product: Run, name: str) -> Any:
    """Return a page with a challenge and comments for guests."""
    widget = f'<hubbub-comments product="{name}" guest></hubbub-comments>'
    script = f'<script type="module" src="{product.page}web/widgets/comments.js"></script>'
    return challenge(product, name).replace("</hubbub-challenge>", f"</hubbub-challenge>{script}{widget}")


def test_a_page_that_signs_a_guest_in_itself_names_the_guest_in_its_widgets(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    from playwright.sync_api import expect

    hunt(product, "own-code")
    with open_page(browser, shop.publish("/page", challenge(product, "own-code"))) as page:
        expect(page.get_by_label("Your name")).to_have_value("")
        code = "async (url) => new (await import(url + 'web/lib/hubbub.js')).Hubbub(url).signInAsGuest('Ann')"
        page.evaluate(code, product.page)
        expect(page.get_by_label("Your name")).to_have_value("Ann")
        guess(page, "elm")
        page.locator("[part~=mine]:has-text('Ann (you)')").wait_for()


NO_STORAGE = """
Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("forbidden", "SecurityError"); },
});
"""


def test_a_guest_lasts_as_long_as_the_page_where_storage_is_forbidden(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    hunt(product, "private")
    with open_page(browser, shop.publish("/page", challenge(product, "private")), script=NO_STORAGE) as page:
        for number, path in enumerate(("elm", "oak/mill"), 1):
            guess(page, path)
            page.get_by_text(f"You have found {number} of 3.").wait_for()


@pytest.mark.parametrize("language", ["de", "de_AT", "de-CH"])
def test_the_widgets_speak_the_language_of_the_page(
    browser: Browser, product: Run, shop: OtherSite, language: str
) -> None:
    name = f"german-{language}"
    board(product, name, 2)
    hunt(product, name)
    texts = {
        comments(product, name): "Noch keine Kommentare.",
        leaderboard(product, name, submit="", guest=""): "2 Spieler",
        challenge(product, name): "Noch keine Antwort gefunden.",
        example(product, "views.js"): "Aufrufe dieser Seite",
        chat(product, name): "Chat beginnen",
    }
    html = "".join(texts).replace('lang="en"', f'lang="{language}"', 1)
    with open_page(browser, shop.publish("/page", html)) as page:
        for text in texts.values():
            page.mouse.wheel(0, 500)
            page.get_by_text(text).wait_for()
        assert page.locator(".root").evaluate_all("all => all.every((root) => root.lang.startsWith('de'))")


def test_a_language_that_the_widgets_do_not_speak_leaves_them_english_and_readable(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    board(product, "arabic", 2)
    html = leaderboard(product, "arabic").replace('lang="en"', 'lang="ar" dir="rtl"')
    with open_page(browser, shop.publish("/page", html)) as page:
        page.get_by_text("2 players").wait_for()
        style = (
            "getComputedStyle(document.querySelector('hubbub-leaderboard').shadowRoot.querySelector('h3'))"
        )
        assert page.evaluate(f"{style}.direction") == "ltr"
        page.evaluate(
            "document.querySelector('hubbub-leaderboard').words = { players: (n) => `${n} لاعبين` }"
        )
        page.get_by_text("2 لاعبين").wait_for()
        assert page.evaluate(f"{style}.direction") == "rtl", "the words of the site have its direction"


def test_a_widget_in_a_shadow_tree_finds_the_language_around_it(
    browser: Browser, product: Run, shop: OtherSite
) -> None:
    with open_page(browser, shop.publish("/page", comments(product, "shadow"))) as page:
        page.get_by_text("No comments yet.").wait_for()
        page.evaluate(
            """() => {
              const host = document.body.appendChild(document.createElement("div"));
              host.lang = "de";
              host.attachShadow({ mode: "open" }).append(document.querySelector("hubbub-comments"));
            }"""
        )
        page.get_by_text("Noch keine Kommentare.").wait_for()


def test_a_guest_plays_where_a_sandbox_forbids_forms(
    browser: Browser, product: Run, shop: OtherSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    hunt(product, "sandbox")
    monkeypatch.setattr(shop, "policy", f"{shop.policy}; sandbox allow-scripts allow-same-origin")
    with open_page(browser, shop.publish("/page", challenge(product, "sandbox"))) as page:
        guess(page, "elm")
        page.get_by_text("elm is correct.").wait_for()


def test_the_widgets_are_accessible_and_fit_a_phone(browser: Browser, product: Run, shop: OtherSite) -> None:
    comment(product, "me", "shoe", 4, "w" * 300)
    comment(product, "other", "shoe", 1, "Too small.")
    board(product, "phone", 8, max_=999_999_999)
    score(product, "phone", "W" * 60, 123_456_789.25)
    hunt(product, "phone")
    find(product, "phone", "me", "elm", "oak/well")
    both = '<meta name="color-scheme" content="light dark"><title>'
    for html, ready in (
        (comments(product, "shoe", "me"), "Too small."),
        (comments(product, "shoe", "newcomer"), "Too small."),
        (
            leaderboard(product, "phone", player="W" * 60, submit="", distribution="", guest=""),
            "123,456,789.25",
        ),
        (challenge(product, "phone", token=product.token("me")), "You have found 2 of 3."),
        (challenge(product, "phone"), "Your name"),
        (challenge(product, "missing"), "There is no challenge named missing."),
        (leaderboard(product, "missing"), "There is no leaderboard named missing."),
        (chat(product, "phone"), "Start chatting"),
        (example(product, "views.js"), "Views of this page"),
    ):
        with open_page(browser, "about:blank", viewport={"width": 320, "height": 740}) as page:
            page.goto(shop.publish("/phone", html.replace("<title>", both)))
            page.get_by_text(ready).wait_for()
            for opens in page.locator("[part=reactions] [aria-expanded]").all():
                opens.click()
                page.locator("[part=thread] textarea").last.wait_for()
            assert find_accessibility_violations(page) == []
            assert page.evaluate(GROUND) == "rgb(23, 29, 26)"  # dark, as axe saw it last
            page.emulate_media(color_scheme="light")
            assert page.evaluate(GROUND) == "rgb(255, 255, 255)"
            assert measure_overflow(page) <= 0
            assert find_overlaps(page, "td, button, input, dd, dt, .key, .readout") == []
            assert find_cut_labels(page) == []
