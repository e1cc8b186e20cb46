"""The front page in a real browser, with the whole product: its widgets, and the lines that it gives away."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import pytest

import app
from chalicelib.api.openapi import describe
from chalicelib.api.static import WEB
from chalicelib.comments.schemas import CommentsQuery
from tests.support.other_site import OtherSite
from tests.support.pages import (
    FEATURES,
    choose,
    find_accessibility_violations,
    find_cut_labels,
    find_overlaps,
    measure_overflow,
    open_page,
    show,
)
from tests.support.running import Run, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SHIFTS = """
[window.shift, window.moved] = [0, []];
new PerformanceObserver((list) => {
  for (const { value, sources } of list.getEntries().filter((entry) => !entry.hadRecentInput)) {
    window.shift += value;
    window.moved.push([value, scrollY, ...sources.map(({ node, previousRect, currentRect }) => [
      node?.outerHTML?.slice(0, 80), JSON.stringify(previousRect), JSON.stringify(currentRect)])]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture(scope="module", autouse=True)
def demo(browser: Browser, product: Run) -> None:
    """Fill the product with the button of the page."""
    with open_page(browser, product.page) as page:
        page.locator("#leaderboard").scroll_into_view_if_needed()
        page.get_by_text("There is no leaderboard named demo.").wait_for()
        page.click("#fill")
        page.locator("#leaderboard tbody tr:nth-child(5)").wait_for()
        page.locator("#views [part=page]:nth-child(6)").wait_for()
    until(lambda: product.call("GET", "/leaderboards/demo")[1]["players"] == 110, "the players", 120)


@pytest.fixture
def page(browser: Browser, product: Run) -> Iterator[Page]:
    with open_page(browser, product.page) as page:
        page.wait_for_selector("#chat .snippet")
        yield page
        print(page.inner_text("body"))  # pytest shows it after a failure


def read(page: Page, part: str) -> list[str]:
    """Return the texts of the elements that match in a page, also in its shadow trees."""
    page.locator(part).first.wait_for()
    return page.locator(part).all_inner_texts()


def are_alike(page: Page, other: Page, feature: str, part: str) -> bool:
    """Return whether both pages list the same. The demo's views continue, so both lists may still change."""
    here = read(page, f"#{feature} {part}")
    return len(here) >= 2 and here == read(other, part)


def test_the_lines_beside_a_feature_show_the_same_on_another_site(browser: Browser, page: Page) -> None:
    parts = {
        "views": "[part=page] a",
        "leaderboard": "[part=table] tbody tr",
        "challenge": "[part=leaders] tbody tr",
        "comments": "[part~=comment] [part=text]",
    }
    show(page, *parts)
    with OtherSite() as site:
        for feature, part in parts.items():
            with open_page(browser, pasted(site, page, feature)) as other:
                until(partial(are_alike, page, other, feature, part), f"the same {feature}")


def pasted(site: OtherSite, page: Page, feature: str) -> str:
    """Publish the lines beside a feature on another site, as its only content."""
    lines = page.inner_text(f"#{feature} .snippet code")
    return site.publish("/pasted", f'<!doctype html><html lang="en"><title>Pasted</title>{lines}')


def test_the_lines_count_the_page_on_which_they_stand(browser: Browser, page: Page, product: Run) -> None:
    from playwright.sync_api import expect

    with OtherSite() as site:
        address = pasted(site, page, "views")
        with open_page(browser, address) as other:
            other.locator("dd:text-is('1')").first.wait_for()
            expect(other.locator("[part=chart] .y-title")).to_have_text("Views per hour")
    assert product.call("GET", f"/views?url={address}")[1]["views"] == 1


def test_a_visitor_plays_and_chats_with_the_lines_of_the_page(browser: Browser, page: Page) -> None:
    from playwright.sync_api import expect

    with OtherSite() as site:
        with open_page(browser, pasted(site, page, "leaderboard")) as other:
            other.get_by_label("Your score").fill("1999.5")
            assert other.locator("input:invalid").count() > 0, "the board has no decimals"
            other.get_by_label("Your score").fill("1999")
            other.get_by_label("Your name").fill("Ann Lee")
            other.get_by_role("button", name="Submit").click()
            other.get_by_text("Your score is 1,999.").wait_for()
            other.get_by_text("You are 1st of 111.").wait_for()
            row = ["1", "Ann", "Lee", "(you)", "1,999"]
            until(lambda: read(other, "tbody tr")[0].split() == row, "the row of the visitor")
            other.press(".plot", "End")
            expect(other.locator(".readout")).to_have_text(re.compile(": 1 player$"))
        with open_page(browser, pasted(site, page, "chat")) as first, open_page(browser, first.url) as other:
            for visitor in (first, other):
                visitor.get_by_role("button", name="Start chatting").click()
            first.get_by_text("You are chatting with a stranger").wait_for()


def test_another_name_is_shown_in_the_widget_and_in_its_lines_and_remembered(page: Page) -> None:
    from playwright.sync_api import expect

    choose(page, "comments", "quiet")
    page.locator("#comments").get_by_text("No comments yet.").wait_for()
    page.reload()
    expect(page.locator("#comments .snippet code")).to_contain_text('product="quiet"')
    show(page, "comments")
    page.locator("#comments").get_by_text("No comments yet.").wait_for()
    choose(page, "comments", "demo")
    page.locator("#comments [part~=comment]").first.wait_for()


def test_the_copied_lines_are_those_that_are_shown(browser: Browser, product: Run) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    with open_page(browser, product.page, permissions=permissions) as page:
        page.locator("#chat .copy").click()
        page.locator("#chat .copy:text-is('Copied')").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == page.inner_text("#chat .snippet code")


def test_a_browser_without_the_other_language_sees_the_page_in_its_own(
    browser: Browser, product: Run
) -> None:
    with open_page(browser, product.page, locale="de-DE") as page:
        show(page, "challenge")
        assert page.get_attribute("html", "lang") == "de"
        assert page.locator("nav a").all_inner_texts() == [
            "Aufrufe",
            "Rangliste",
            "Rätsel",
            "Kommentare",
            "Chat",
        ]
        page.locator("#challenge").get_by_text("Du hast 0 von 12 gefunden.").wait_for()
        page.select_option("#language", "en")
        page.locator("nav a:text-is('Leaderboard')").wait_for()
        page.reload()
        page.locator("nav a:text-is('Leaderboard')").wait_for()


KEYS = """
async (file) => {
  const keys = (words, path = "") => Object.entries(words).flatMap(([name, value]) => (
    typeof value === "object" ? keys(value, `${path}${name}.`) : [`${path}${name} ${typeof value}`]));
  return keys((await import(file)).words);
}
"""


def test_each_language_has_the_same_words(page: Page) -> None:
    files = {folder.name: {file.name for file in folder.glob("*.js")} for folder in WEB.glob("words-*")}
    assert len(files) >= 2
    for name in files["words-en"]:
        english, *others = (
            page.evaluate(KEYS, f"./web/{folder}/{name}") for folder in sorted(files, reverse=True)
        )
        assert all(words == english for words in others), name
    assert all(names == files["words-en"] for names in files.values())


def test_each_language_names_the_orders_of_comments(page: Page) -> None:
    for folder in WEB.glob("words-*"):
        file = f"./web/{folder.name}/comments.js"
        named = page.evaluate("async (file) => Object.keys((await import(file)).words.orders)", file)
        assert named == list(get_args(get_type_hints(CommentsQuery)["order"])), folder.name


ERRORS = """
async (file) => {
  const { shared, words } = await import(file);
  return { ...shared?.errors, ...words.errors };
}
"""
OWN = {"Offline", "BadResponse"}  # codes of the client itself
FRAMES = {"bad_request", "too_long", "slow_down", "not_matched", "unconfirmed"}  # of the chat


def widget_codes() -> dict[str, set[str]]:
    """Return the codes with which the API can answer the calls of each widget, by the words of the widget."""
    description = describe(app.router, app.VERSION)
    named = re.compile(r'(GET|POST|PUT|PATCH|DELETE)"?.*? ([a-z][\w/{}-]+)')
    scripts = {name: (WEB / "widgets" / f"{name}.js").read_text() for name in FEATURES}
    scripts["comments"] += "".join(
        (WEB / "widgets" / f"{part}.js").read_text() for part in ("reactions", "opened")
    )
    found: dict[str, set[str]] = {}
    for name, script in scripts.items():
        found[name] = set(OWN)
        for line in re.findall(r"\b(?:call|react|send)\(.*", script):
            for verb, path in named.findall(line.replace('" : "', '" ')):
                responses = description["paths"][f"/{path}"][verb.lower()]["responses"]
                for status in responses.keys() - {"200", "201", "202", "204"}:
                    found[name] |= responses[status]["content"]["application/json"]["examples"].keys()
    found["challenge"].remove("InvalidPath")  # the widget names the answer that is wrong
    found["chat"] |= FRAMES
    return found


def test_a_view_that_cannot_be_sent_says_so(page: Page) -> None:
    page.route("**/views", lambda route: route.abort())
    page.click("#send")
    page.get_by_role("alert").get_by_text("No response from the server.").wait_for()


def test_every_error_has_a_sentence_for_the_reader(page: Page) -> None:
    description = describe(app.router, app.VERSION)
    every = set(description["components"]["schemas"]["Error"]["properties"]["code"]["enum"]) | OWN
    named = {**widget_codes(), "pages": every}
    folders = [path.name for path in WEB.glob("words-*")]
    for folder, (name, codes) in itertools.product(folders, named.items()):
        sentences = page.evaluate(ERRORS, f"./web/{folder}/{name}.js")
        assert codes <= sentences.keys(), (name, codes - sentences.keys())
        for sentence in sentences.values():
            assert re.fullmatch(r"[^\W\d_][^`_{}]+\.", sentence), sentence


TICKS = """
async () => {
  const [{ histogram }, { formatsFor }] = await Promise.all([
    import("./web/lib/histogram.js"), import("./web/lib/dom.js")]);
  const buckets = Array.from({ length: COUNT }, (_, i) => (
    { from: FIRST + i * 40_000, to: FIRST + 39_999 + i * 40_000, players: 1 }));
  const shown = { unit: "", text: { scores: String }, words: {}, formats: formatsFor("en") };
  return histogram(buckets, shown).ticks(600, (text) => 7 * text.length);
}
"""


def test_scores_that_are_close_have_different_labels(page: Page) -> None:
    ticks = page.evaluate(TICKS.replace("COUNT", "12").replace("FIRST", "987_200_000"))
    labels = [tick["text"] for tick in ticks]
    assert len(labels) >= 3
    assert len(set(labels)) == len(labels)


def test_the_labels_of_scores_are_equally_far_apart(page: Page) -> None:
    # Ranges are merged in twos, and the first has no neighbour to merge with.
    ticks = page.evaluate(TICKS.replace("COUNT", "45").replace("FIRST", "1_000_000"))
    gaps = {second["at"] - first["at"] for first, second in itertools.pairwise(ticks)}
    assert len(ticks) >= 3
    assert len(gaps) == 1


def test_the_keyboard_reaches_every_feature_and_the_first_link_skips_the_header(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    seen: set[str] = set()
    for _ in range(200):  # a widget that has loaded has more to focus
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.closest('section')?.id"))
        if set(FEATURES) <= seen:
            break
    assert set(FEATURES) <= seen


def test_axe_finds_nothing(page: Page) -> None:
    show(page)
    page.locator("#comments [aria-expanded]").first.click()
    page.locator("#comments [part=thread] textarea").wait_for()
    assert find_accessibility_violations(page) == []


@pytest.mark.parametrize(
    "width",
    [320, 1280, *(pytest.param(width, marks=pytest.mark.long) for width in (390, 768, 1024, 1920, 2560))],
)
def test_nothing_overlaps_is_cut_or_moves_at_any_width(browser: Browser, product: Run, width: int) -> None:
    size: dict[str, Any] = {"viewport": {"width": width, "height": 900}}
    with open_page(browser, product.page, script=SHIFTS, **size) as page:
        show(page)
        assert measure_overflow(page) == 0
        assert find_overlaps(page, "section :is(header, .shown > *, aside > *)") == []
        assert find_cut_labels(page) == []
        links = page.locator("nav a").evaluate_all(
            "all => all.map((first) => first.getBoundingClientRect().toJSON())"
        )
        assert all(box["left"] >= 0 and box["right"] <= width and box["height"] >= 24 for box in links)
        assert page.evaluate("document.querySelector('.top').getBoundingClientRect().height") < 60
        assert page.evaluate("window.shift") < 0.02, page.evaluate("window.moved")
