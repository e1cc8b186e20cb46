"""docs/embed.md as a newcomer follows it: its commands and its page, on another port."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import jwt
import pytest

from tests.api.test_auth import RSA, Issuer
from tests.api.test_sign_in import COGNITO_ACCESS, COGNITO_ID, COGNITO_SUB, documented, sign
from tests.support import running
from tests.support.other_site import OtherSite
from tests.support.pages import open_page
from tests.support.running import ENVIRONMENT, Run, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.long


ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "embed.md").read_text()


def block(language: str) -> str:
    return str(re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)[0])


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    found = Issuer()
    found.publish(key=RSA)
    yield found
    found.server.shutdown()
    found.server.server_close()


def define_board(run: Run) -> None:
    """Run the document's commands."""
    script = (
        block("sh")
        .replace("127.0.0.1:8000", f"127.0.0.1:{run.port}")
        .replace(".venv/bin/python", sys.executable)
    )
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["title"] == "Game", done


def publish(site: OtherSite, run: Run, get_token: str = "null") -> str:
    """Publish the page on another site, with the two settings that it has: the address, and the token."""
    site.policy = ""
    html = block("html").replace("http://127.0.0.1:8000", run.page.rstrip("/"))
    assert "const getToken = null;" in html
    return site.publish("/my-page", html.replace("const getToken = null;", f"const getToken = {get_token};"))


def play(page: Page, run: Run, name: str) -> None:
    """Use everything on the page: its counter, a score, the ranking, a comment, and the live value."""
    page.wait_for_function("document.querySelector('#views').textContent === '1'")  # its own view
    page.fill("#play input", "Ann Lee")
    page.click("#play button")
    standing = f"/^{name}: \\d+ points, place 1 of 1$/.test(document.querySelector('#rank').textContent)"
    page.wait_for_function(standing)
    page.wait_for_function(
        "name => document.querySelector('#top').textContent.startsWith(`${name}: `)", arg=name
    )
    widget = page.locator("hubbub-comments")
    widget.locator("textarea").fill("Good page.")
    widget.locator("label:has(input[value='5'])").click()
    widget.locator("form button").click()
    widget.locator("[part~=comment]", has_text="Good page.").wait_for()
    assert widget.locator("[part=author]").text_content() == name
    run.post({"url": page.url, "time": datetime.now(UTC).isoformat(), "clientId": "another"})
    page.wait_for_function("document.querySelector('#views').textContent === '2'")


def test_the_page_has_at_most_forty_lines() -> None:
    assert len(block("html").splitlines()) <= 40


def test_the_page_counts_ranks_names_comments_and_follows(browser: Browser, tmp_path: Path) -> None:
    with Run(tmp_path / "run", "--no-reload") as run, OtherSite() as site:
        define_board(run)
        with open_page(browser, publish(site, run)) as page:
            play(page, run, "Ann Lee")


def test_the_same_page_works_with_a_token_of_cognito_and_settings_alone(
    browser: Browser, issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (documented("cognito") | {"HUBBUB_JWKS_URL": issuer.url}).items():
        monkeypatch.setitem(running.ENVIRONMENT, name, value)
    token = sign(COGNITO_ID, typ=None)
    with Run(tmp_path / "run", "--no-reload") as run, OtherSite() as site:
        define_board(run)  # an operator's token beside the issuer
        with open_page(browser, publish(site, run, f'async () => "{token}"')) as page:
            play(page, run, "Jane Roe")
            assert page.evaluate("localStorage.length") == 0, "no guest"


def test_cognitos_tokens_work_with_settings_alone(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (documented("cognito") | {"HUBBUB_JWKS_URL": issuer.url}).items():
        monkeypatch.setitem(running.ENVIRONMENT, name, value)
    with Run(tmp_path / "run", "--no-reload") as run:
        define_board(run)  # an operator's token beside the issuer
        for claims, score in ((COGNITO_ID, 5), (COGNITO_ACCESS, 7)):
            body = {"id": str(score), "value": score}
            status, made = run.call("POST", "/leaderboards/game/scores", body, sign(claims, typ=None))
            assert (status, made["player"]) == (201, COGNITO_SUB)
        comment = {"rating": 5, "language": "en", "text": "Good."}
        status, made = run.call("POST", "/products/shoe/comments", comment, sign(COGNITO_ID, typ=None))
        assert (status, made["name"]) == (201, "Jane Roe")
        admin = sign(COGNITO_ACCESS | {"cognito:groups": ["admin"]}, typ=None)
        assert run.call("GET", "/comments", token=admin)[1]["items"][0]["author"] == COGNITO_SUB
        until(lambda: run.call("GET", f"/leaderboards/game/players/{COGNITO_SUB}")[0] == 200, "a standing")
        code, refused = run.call("GET", "/comments", token=jwt.encode({"a": 1}, "x" * 32, algorithm="HS256"))
        assert (code, refused["code"]) == (401, "Unauthorized")
