"""The dashboard on the imported log of a real site, whose paths are long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from tests.support.pages import (
    LOG_SITE,
    find_accessibility_violations,
    find_cut_labels,
    find_overlaps,
    import_log,
    measure_overflow,
    open_page,
    wait_until_live,
)
from tests.support.running import Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.long

WIDTHS = [320, 390, 768, 1024, 1280, 1920, 2560]
SHIFTS = """
window.shift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""

# Notes the time, since the page was asked for, at which the first view is there.
FIRST_VIEW = """
const PARTS = ["#total-views dd", "#views-plot .tick", "#pages tbody tr", "#referrers tbody tr"];
new MutationObserver(() => {
  if (PARTS.every((part) => document.querySelector(part))) window.shown ??= performance.now();
}).observe(document, { childList: true, subtree: true });
"""


@pytest.fixture(scope="module", autouse=True)
def imported(product: Run) -> None:
    import_log(product)


# -- the dashboard -------------------------------------------------------------------------------------

PAGE = f"http://{LOG_SITE}/projects/xdotool/"
TWO_DAYS = "period=range&from=2015-05-19&to=2015-05-20"


@contextmanager
def dashboard(browser: Browser, product: Run, query: str = TWO_DAYS, **options: Any) -> Iterator[Page]:
    address = f"{product.page}web/dashboard.html?site={LOG_SITE}&{query}"
    with open_page(browser, address, **options) as page:
        wait_until_live(page)
        yield page


@pytest.mark.parametrize("width", WIDTHS)
def test_the_dashboard_fits_every_width(browser: Browser, product: Run, width: int) -> None:
    size: dict[str, Any] = {"viewport": {"width": width, "height": 900}}
    with dashboard(browser, product, f"{TWO_DAYS}&page={PAGE}", **size) as page:
        page.wait_for_selector("#pages tbody tr:nth-child(12)")
        page.wait_for_selector("#views-plot .tick")
        assert measure_overflow(page) == 0
        parts = "main :is(h1, .choices > *, .filter > *, .figures > *, figure, .days, section)"
        assert find_overlaps(page, parts) == []
        assert find_overlaps(page, "#pages td > *:not(.bar), #pages td.number") == []
        assert find_overlaps(page, ".tick, .mark, .x-title") == []
        assert find_cut_labels(page) == []
        height: float = page.evaluate("document.querySelector('.top').getBoundingClientRect().height")
        assert height < 60


def test_a_page_is_compared_with_the_period_before(browser: Browser, product: Run) -> None:
    def views(first: str, last: str) -> int:
        query = f"url={PAGE}&interval=day&from={first}&to={last}"
        return sum(day["views"] for day in product.call("GET", f"/views/series?{query}")[1]["items"])

    now, before = views("2015-05-19", "2015-05-20"), views("2015-05-17", "2015-05-18")
    assert 0 < before < now
    with dashboard(browser, product, f"{TWO_DAYS}&page={PAGE}") as page:
        page.wait_for_selector(f"#total-views dd:has-text('{now}')")
        assert f"vs {before}" in page.inner_text("#total-views")
        assert f"+{round(100 * (now - before) / before)}%" in page.inner_text("#total-views")
        assert f"{now} views, " in page.inner_text("#summary")
        assert "19 May 2015 – 20 May 2015, compared with 17 May 2015 – 18 May 2015" in page.inner_text(
            ".days"
        )
        assert "19 May 2015" in page.locator("#views-plot .tick").all_inner_texts()
        page.uncheck(".choices [type=checkbox]")
        page.wait_for_selector("#total-views:not(:has-text('vs'))")


def test_a_site_is_compared_with_the_period_before_page_by_page(browser: Browser, product: Run) -> None:
    def views(url: str, first: str, last: str) -> int:
        query = f"url={url}&interval=day&from={first}&to={last}"
        return sum(day["views"] for day in product.call("GET", f"/views/series?{query}")[1]["items"])

    with dashboard(browser, product) as page:
        page.click("label:has-text('Fastest growing')")
        page.wait_for_selector("[name=order][value=grown]:checked")
        first = page.locator("#pages tbody tr").first
        url = str(first.locator(".choice").get_attribute("title"))
        now, before = views(url, "2015-05-19", "2015-05-20"), views(url, "2015-05-17", "2015-05-18")
        assert first.locator(".number").first.inner_text() == str(now)
        assert first.locator(".change").inner_text().split()[0] == f"+{now - before}"
        assert (
            f"Biggest gain: {url.removeprefix(f'http://{LOG_SITE}')} (+{now - before} views)."
            in page.inner_text("#summary")
        )
        changes = page.locator("#pages .change").all_inner_texts()
        by = [int(text.split()[0].replace("−", "-").replace("±", "")) for text in changes]
        assert by == sorted(by, reverse=True)
        hours = int(page.inner_text("#total-views dd").split()[0].replace(",", ""))
        assert f"{hours:,} views" in page.inner_text("figure .readout")


def test_a_site_without_recent_views_leads_to_its_latest(browser: Browser, product: Run) -> None:
    with dashboard(browser, product, "period=7d") as page:
        page.wait_for_selector(".empty:has-text('No views in')")
        page.click("text=Show the latest views")
        page.wait_for_selector("#views-plot .tick")
        assert (page.input_value("[name=from]"), page.input_value("[name=to]")) == (
            "2015-05-17",
            "2015-05-20",
        )


def test_a_link_keeps_the_view_and_the_back_button_returns(browser: Browser, product: Run) -> None:
    with dashboard(browser, product) as page:
        page.click("#pages .choice >> text=/projects/xdotool/ >> nth=0")
        page.wait_for_selector("#total-views")
        page.click("label:has-text('30 days')")
        page.wait_for_url("**period=30d**")
        link = page.url
        page.go_back()
        page.wait_for_selector("[name=period][value=range]:checked")
        assert page.input_value("[name=from]") == "2015-05-19"
    with open_page(browser, link) as page:
        wait_until_live(page)
        assert page.inner_text(".filter a") == PAGE
        assert page.is_checked("[value='30d']")


def test_the_pages_are_searched_and_saved_as_csv(browser: Browser, product: Run) -> None:
    with dashboard(browser, product) as page:
        page.fill("[name=sought]", "PUPPET")
        page.wait_for_function("() => document.querySelectorAll('#pages tbody tr').length < 12")
        shown = page.locator("#pages .choice").all_inner_texts()
        assert shown
        assert all("puppet" in path for path in shown)
        with page.expect_download() as download:
            page.click("#pages .csv")
        rows = download.value.path().read_text().splitlines()
        assert rows[0].startswith('"url","views"')
        assert len(rows) == len(shown) + 1
        assert rows[1].startswith(f'"http://{LOG_SITE}{shown[0]}"')
        page.fill("[name=sought]", "no such page")
        page.wait_for_selector("#pages:has-text('No pages match.')")


@pytest.mark.security
@pytest.mark.parametrize("address", ["javascript:alert(1)", "JaVa%0aScRiPt:alert(1)", "data:text/html,x"])
def test_only_the_address_of_a_web_page_becomes_a_link(browser: Browser, product: Run, address: str) -> None:
    with dashboard(browser, product, f"{TWO_DAYS}&page={address}") as page:
        page.wait_for_selector("#pages tbody tr")
        protocols = page.evaluate("[...document.links].map((one) => one.protocol)")
        assert {*protocols} == {"http:"}
        assert page.locator(".filter").count() == 0


def test_a_new_view_reaches_the_dashboard_at_once(browser: Browser, product: Run) -> None:
    url = "https://now.example.org/a"
    now = datetime.now(UTC).isoformat()
    product.post({"url": url, "time": now, "clientId": "one"})
    address = f"{product.page}web/dashboard.html?site=now.example.org&period=today&page={url}"
    with open_page(browser, address) as page:
        wait_until_live(page)
        page.wait_for_selector("#total-views dd:has-text('1')")
        product.wait_for_listener(f"views:{url}")
        product.post({"url": url, "time": now, "clientId": "two"})
        page.wait_for_selector("#total-views dd:has-text('2')")
        page.wait_for_selector(".now:has-text('2 visitors and 2 views this hour')")


def test_sources_open_to_their_hosts_beside_goals_countries_and_devices(
    browser: Browser, product: Run
) -> None:
    for number, referrer in enumerate(
        ("", "https://www.google.de/", "https://google.com/", "https://a.example/")
    ):
        event = {"url": "https://led.example.org/a", "clientId": f"c-{number}", "referrer": referrer}
        product.post(event | {"timezone": "Europe/Vienna"})
    product.post({"url": "https://led.example.org/a", "clientId": "c-1", "goal": "signup"})
    address = f"{product.page}web/dashboard.html?site=led.example.org&period=today"
    with open_page(browser, address) as page:
        wait_until_live(page)
        page.wait_for_selector("#goals tbody tr:has-text('signup')")

        def rows(card: str) -> list[str]:
            return [" ".join(row.split()) for row in page.locator(f"#{card} tbody tr").all_inner_texts()]

        page.wait_for_function("document.querySelectorAll('#referrers tbody tr').length === 3")
        assert rows("referrers") == ["google 2", "a.example 1", "Direct 1"]
        page.click("#referrers button:has-text('google')")
        page.wait_for_selector("#referrers .inner")
        assert rows("referrers") == ["google 2", "google.com 1", "www.google.de 1", "a.example 1", "Direct 1"]
        assert rows("goals") == ["signup 1 1 25%"]
        assert rows("countries") == ["Austria 4"]
        assert rows("devices") == ["Unknown 4"]
        page.click("#devices label:has-text('Browser')")
        page.wait_for_url("**by=browser**")
        assert find_accessibility_violations(page) == []


def test_the_dashboard_is_accessible(browser: Browser, product: Run) -> None:
    with dashboard(browser, product, f"{TWO_DAYS}&page={PAGE}") as page:
        page.wait_for_selector("#views-plot .tick")
        assert find_accessibility_violations(page) == []


def test_nothing_moves_while_the_dashboard_loads(browser: Browser, product: Run) -> None:
    with dashboard(browser, product, f"{TWO_DAYS}&page={PAGE}", script=SHIFTS) as page:
        page.wait_for_selector("#views-plot .tick")
        assert page.evaluate("window.shift") < 0.1


@pytest.mark.alone
def test_the_first_view_of_the_dashboard_is_complete_within_a_second(browser: Browser, product: Run) -> None:
    """From a click on a link to totals, plot, pages and referrers, with an empty cache: best of five."""

    def visit() -> float:
        with dashboard(browser, product, script=FIRST_VIEW) as page:
            page.wait_for_function("() => window.shown")
            return float(page.evaluate("window.shown"))

    times = [visit() for _ in range(5)]
    print("ms until the first view:", *(f"{time:.0f}" for time in times))
    assert min(times) < 1000


# -- what the dashboard claims --------------------------------------------------------------------------


@contextmanager
def filled(browser: Browser, product: Run, query: str, scale: int, **options: Any) -> Iterator[Page]:
    """Open the dashboard with `scale` times the views that the API returns."""
    with open_page(browser, "about:blank", **options) as page:
        for path in ("site", "top", "referrers"):
            page.route(f"**/views/{path}?**", lambda route: _multiply(route, scale))
        page.goto(f"{product.page}web/dashboard.html?site={LOG_SITE}&{query}")
        wait_until_live(page)
        page.wait_for_selector("#pages tbody tr:nth-child(12)")
        yield page


def _multiply(route: Route, scale: int) -> None:
    answer = route.fetch()
    body = answer.json()
    for item in body["items"]:
        item.update({name: item[name] * scale for name in ("views", "visitors") if name in item})
    route.fulfill(response=answer, json=body)


LINES = """
all => all.map((figure) => {
  const range = document.createRange();
  range.selectNode([...figure.childNodes].find((node) => node instanceof Text && node.data.trim()));
  return new Set([...range.getClientRects()].map(({ top }) => top)).size;
})
"""


@pytest.mark.parametrize("locale", ["en-GB", "de-DE"])
@pytest.mark.parametrize(
    ("width", "scale", "digits"),
    [(320, 40, 5), (320, 300_000, 9), (390, 300_000, 9), (1280, 300_000, 9), (320, 3_000_000, 10)],
)
def test_large_numbers_fit(
    browser: Browser, product: Run, width: int, scale: int, digits: int, locale: str
) -> None:
    options: dict[str, Any] = {"viewport": {"width": width, "height": 900}, "locale": locale}
    with filled(browser, product, TWO_DAYS, scale, **options) as page:
        shown = page.inner_text("#total-views dd").split()[0]
        assert len(shown.replace(",", "").replace(".", "")) >= digits
        assert find_cut_labels(page) == []
        assert measure_overflow(page) == 0
        assert find_overlaps(page, "#pages td > *:not(.bar), #pages td.number, .figures dd") == []
        wide = "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.outerHTML)"
        assert page.locator(".figures div, .card, td.number").evaluate_all(wide) == []
        assert page.locator(".figures dd").evaluate_all(LINES) == [1, 1, 1]


def test_lists_name_their_days_where_they_are_fewer_than_those_of_the_period(
    browser: Browser, product: Run
) -> None:
    with dashboard(browser, product, "period=all") as page:
        assert page.inner_text(".view > .days").startswith("17 May 2015 – ")
        assert "Only the last 400 days: " in page.inner_text("#referrers .days")
        assert page.locator("#pages .days").count() == 0, "the list of pages is of all time"
    with dashboard(browser, product, "period=range&from=2014-01-01&to=2015-05-20") as page:
        assert page.inner_text("#pages .days") == "Only the last 400 days: 16 Apr 2014 – 20 May 2015"


def test_it_opens_on_a_site_of_the_stage_and_the_last_days_that_have_views(
    browser: Browser, product: Run
) -> None:
    with open_page(browser, f"{product.page}web/dashboard.html") as page:
        page.wait_for_selector("#views-plot .tick")
        assert page.inner_text("h1") == LOG_SITE
        assert page.input_value("[name=to]") == "2015-05-20"
        assert page.locator("#pages tbody tr").count() == 12


@pytest.mark.parametrize("entered", [f"http://{LOG_SITE}:8080/a?b", f"{LOG_SITE}:443", f"{LOG_SITE}/a"])
def test_a_site_may_be_entered_as_an_address(browser: Browser, product: Run, entered: str) -> None:
    with dashboard(browser, product) as page:
        page.fill("[name=site]", entered)
        page.press("[name=site]", "Enter")
        page.wait_for_url(f"**site={LOG_SITE}&**")
        page.wait_for_selector("#pages tbody tr")
        assert page.locator("[role=alert]").count() == 0


def test_an_error_stands_alone_without_a_skeleton(browser: Browser, product: Run) -> None:
    address = f"{product.page}web/dashboard.html?site=no+host&period=7d"
    with open_page(browser, address, locale="de-DE") as page:
        page.get_by_text("Das wurde nicht angenommen. Bitte prüfe deine Eingabe.", exact=True).wait_for()
        assert page.locator(".skeleton").count() == 0


def test_a_private_site_says_so(browser: Browser, product: Run) -> None:
    with open_page(browser, "about:blank") as page:
        refusal = {"code": "Unauthorized", "message": "Send a bearer token."}
        page.route("**/views/**", lambda route: route.fulfill(status=401, json=refusal))
        page.goto(f"{product.page}web/dashboard.html?site={LOG_SITE}&{TWO_DAYS}")
        page.get_by_text(f"The statistics of {LOG_SITE} are private.").wait_for()
        page.wait_for_selector("#state:text-is('Private')")


def test_without_a_network_it_is_not_live(browser: Browser, product: Run) -> None:
    with dashboard(browser, product) as page:
        page.context.set_offline(True)
        page.wait_for_selector("#state:text-is('Offline')", timeout=5_000)
        page.get_by_text("No response from the server. Retrying …", exact=True).wait_for()
        assert find_accessibility_violations(page) == []
        page.context.set_offline(False)
        wait_until_live(page)
    with dashboard(browser, product) as page:  # a network whose loss the browser does not notice
        page.route("**/health", lambda route: route.abort())
        page.wait_for_selector("#state:text-is('Offline')", timeout=25_000)


@pytest.mark.parametrize("zone", ["Etc/GMT+12", "Pacific/Kiritimati"])
def test_days_and_hours_are_those_of_the_sites_clocks(browser: Browser, product: Run, zone: str) -> None:
    site = f"{zone.rpartition('/')[2].lower().replace('+', '')}.example"
    admin = product.token("admin-1", "admin")
    assert product.call("PUT", f"/sites/{site}", {"timezone": zone}, admin)[0] == 201
    product.post({"url": f"https://{site}/", "clientId": "one"})
    clock = datetime.now(ZoneInfo(zone))
    today = f"{clock.day} {clock:%b} {clock.year}".replace("Sep", "Sept")
    address = f"{product.page}web/dashboard.html?site={site}&period="
    with open_page(browser, f"{address}today", viewport={"width": 1280, "height": 900}) as page:
        page.wait_for_selector("#views-plot .tick")
        assert page.inner_text("#views-plot .tick >> nth=0") == "00:00"
        assert page.inner_text("#views-plot .x-title") == f"Hour ({zone})"
        assert page.inner_text(".view > .days").startswith(today)
        page.goto(f"{address}7d")
        page.wait_for_selector("#views-plot .x-title:has-text('Day')")
        assert f"– {today}" in page.inner_text(".view > .days").split(",")[0]
        page.goto(f"{address}12m")
        page.wait_for_selector("#views-plot .x-title:has-text('Month')")
        months = [text for text in page.locator("#views-plot .tick").all_inner_texts() if text.isalpha()]
        assert len(months) == 12
        assert months[-1][:3] == f"{clock:%b}"


def test_percent_encoded_paths_are_shown_as_text(browser: Browser, product: Run) -> None:
    now = datetime.now(UTC).isoformat()
    paths = [
        "/caf%C3%A9%20menu",
        "/a%2Fb",
        "/%E2%80%AEevil",
        "/%FF",
        "/%D9%85%DB%8C%E2%80%8C%D8%B1%D9%88%D9%85",
    ]
    for path in paths:
        product.post({"url": f"https://words.example{path}", "time": now, "clientId": "one"})
    with open_page(browser, f"{product.page}web/dashboard.html?site=words.example&period=today") as page:
        page.wait_for_selector("#pages tbody tr:nth-child(5)")
        shown = set(page.locator("#pages .choice").all_inner_texts())
    assert shown == {"/café menu", "/a%2Fb", "/%E2%80%AEevil", "/%FF", "/می\u200cروم"}
