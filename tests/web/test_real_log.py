"""The page on the imported log of a real site, whose paths are long."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.pages import (
    LOG_SITE,
    choose,
    find_cut_labels,
    find_overlaps,
    import_log,
    measure_overflow,
    open_page,
    open_tools,
    token,
    wait_until_live,
)
from tests.support.running import Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

WIDTHS = [320, 390, 768, 1024, 1280, 1920, 2560]
SHIFTS = """
window.shift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture(scope="module", autouse=True)
def imported(product: Run) -> None:
    import_log(product)


@pytest.fixture
def page(browser: Browser, product: Run) -> Iterator[Page]:
    with open_page(browser, product.page, script=remembering(LOG_SITE)) as page:
        yield wait_until_live(page)


def remembering(site: str) -> str:
    """Return a script after which the page shows a site, as if it had been chosen on an earlier visit."""
    return f"""if (location.protocol !== "about:" && !localStorage.getItem("hubbub.site"))
      localStorage.setItem("hubbub.site", "{site}");"""


# -- the front page ------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_overlaps_and_nothing_is_cut_at_any_width(browser: Browser, product: Run, width: int) -> None:
    size: dict[str, Any] = {"viewport": {"width": width, "height": 900}}
    with open_page(browser, product.page, script=remembering(LOG_SITE), **size) as page:
        wait_until_live(page)
        page.wait_for_selector("#views .ranked tr:nth-child(8)")
        page.wait_for_selector("#series .tick")
        assert measure_overflow(page) == 0
        parts = "#views :is(.address, .figures, .plot, figcaption, .ranked td, .beside, .row > *)"
        assert find_overlaps(page, parts) == []
        assert find_overlaps(page, ".tick, .mark, .x-title") == []
        assert find_cut_labels(page) == []
        links = page.locator(".top nav a")
        assert links.count() == 5
        boxes = links.evaluate_all("all => all.map((one) => one.getBoundingClientRect().toJSON())")
        assert all(box["left"] >= 0 and box["right"] <= width and box["height"] >= 24 for box in boxes)
        height: float = page.evaluate("document.querySelector('.top').getBoundingClientRect().height")
        assert height < 60


def test_an_update_that_overtakes_the_first_row_moves_it_and_keeps_its_bar_off_the_digits(
    browser: Browser, product: Run
) -> None:
    def view(path: str, *clients: str) -> None:
        now = datetime.now(UTC).isoformat()
        url = f"https://race.example.org{path}"
        product.post(*({"url": url, "time": now, "clientId": f"client-{name}"} for name in clients))

    view("/first", "a", "b", "c")
    view("/second", "a")
    with open_page(browser, product.page, script=remembering("race.example.org")) as page:
        wait_until_live(page)
        page.click("#views .choice >> text=/second")
        page.wait_for_selector("#count-views:text-is('1')")
        product.wait_for_listener("views:https://race.example.org/second")
        view("/second", *"bcdefghij")
        page.wait_for_selector("#count-views:text-is('10')")
        assert page.inner_text("#views .ranked tr:first-child .choice") == "/second"
        assert find_overlaps(page, "#views .ranked :is(.bar, .number)") == []


def test_the_plot_says_what_it_shows(page: Page) -> None:
    assert page.inner_text("#series .x-title") == "Hour (UTC)"
    assert page.inner_text("#series .y-title") == "Views per hour"
    days = page.locator("#series .tick").all_inner_texts()
    assert f"{datetime.now(UTC):%Y}" in " ".join(days)
    assert "00:00" in days


def test_scores_are_plotted_in_ranges_with_round_edges(page: Page, product: Run) -> None:
    admin = token(product, "a", "admin")
    board = {"title": "Laps", "unit": "laps", "max": 100_000, "operator": "set"}
    assert product.call("PUT", "/leaderboards/laps", board, admin)[0] == 201
    for number in range(40):
        score = {"id": str(number), "value": 37 + number * 73, "player": f"p{number}"}
        assert product.call("POST", "/leaderboards/laps/scores", score, admin)[0] == 201
    choose(page, "leaderboard", "laps")
    page.wait_for_selector("#leaderboard h3:has-text('40 players')")
    page.wait_for_selector("#distribution .tick >> nth=2")
    page.wait_for_function(
        "document.querySelector('#leaderboard .readout').textContent.startsWith('Scores from 0 to')"
    )
    edges = [int(text.replace(",", "")) for text in page.locator("#distribution .tick").all_inner_texts()]
    assert all(edge % 100 == 0 for edge in edges), edges
    assert page.inner_text("#distribution .x-title") == "Score (laps)"
    assert page.inner_text("#distribution .y-title") == "Players"


def test_a_slow_load_shows_its_shape_and_nothing_moves_when_it_ends(browser: Browser, product: Run) -> None:
    waiting: list[Route] = []
    with open_page(browser, "about:blank", script=SHIFTS + remembering(LOG_SITE)) as page:
        page.route("**/views/top?**", lambda route: waiting.append(route))
        page.goto(product.page)
        page.wait_for_selector("#views .skeleton")
        assert page.locator("#views .skeleton").get_attribute("aria-busy") == "true"
        page.unroute("**/views/top?**")  # which continues the calls that wait
        wait_until_live(page)
        page.wait_for_selector("#series .tick")
        assert page.evaluate("window.shift") < 0.1


def test_a_product_without_comments_takes_two_calls(page: Page) -> None:
    asked: list[str] = []
    page.on(
        "request", lambda request: asked.append(request.url) if "/products/quiet" in request.url else None
    )
    choose(page, "comments", "quiet")
    page.wait_for_selector("#comments .empty:has-text('No comments on quiet yet.')")
    with page.expect_response(lambda answer: "/products/quiet" in answer.url):
        pass  # the one that catches a change between the load and the subscription
    assert len([url for url in asked if "/products/quiet" in url]) == 2, asked


def test_the_calls_are_closed_until_they_are_opened_and_stay_as_they_were_left(page: Page) -> None:
    assert page.locator(".tools[open]").count() == 0
    open_tools(page, "views")
    page.wait_for_selector("#views .calls li >> nth=0")
    page.reload()
    page.wait_for_selector("#views .tools[open]")
    page.click("#views .tools summary")
    page.reload()
    wait_until_live(page)
    assert page.locator(".tools[open]").count() == 0


def test_the_page_speaks_german(browser: Browser, product: Run) -> None:
    with open_page(browser, product.page, script=remembering(LOG_SITE), locale="de-DE") as page:
        page.wait_for_selector("#state:text-is('Live')")
        assert page.get_attribute("html", "lang") == "de"
        assert page.locator(".top nav a").all_inner_texts() == [
            "Aufrufe",
            "Rangliste",
            "Rätsel",
            "Kommentare",
            "Chat",
        ]
        page.select_option("#language", "en")
        page.wait_for_selector(".top nav a:text-is('Leaderboard')")
        assert page.get_attribute("html", "lang") == "en"
        page.reload()
        page.wait_for_selector(".top nav a:text-is('Leaderboard')")


def test_both_languages_have_the_same_keys(page: Page) -> None:
    keys = """async () => {
      const keys = (words, path = "") => Object.entries(words).flatMap(([name, value]) => (
        typeof value === "object" ? keys(value, `${path}${name}.`) : [`${path}${name} ${typeof value}`]));
      const [english, german] = await Promise.all([import("./web/lib/words.js"), import("./web/lib/words.de.js")]);
      return [keys(english.words), keys(german.words)];
    }"""
    english, german = page.evaluate(keys)
    assert english == german
    assert len(english) > 150
