"""The admin page signs in with the stage's identity provider: authorization code flow with PKCE."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import requests

from chalicelib import settings
from tests.api.test_auth import RSA
from tests.api.test_sign_in import COGNITO_ID, documented
from tests.support import running
from tests.support.pages import open_page
from tests.support.provider import Provider
from tests.support.running import Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

COGNITO = documented("cognito")
ADMIN = COGNITO_ID | {"cognito:groups": ["admin"]}
CLIENT = COGNITO["HUBBUB_AUDIENCE"]


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider(RSA, {}) as running_provider:
        yield running_provider


@pytest.fixture(scope="module")
def stage(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A run with the settings of Cognito in docs/deployment.md, whose provider is on this machine."""
    variables = COGNITO | {
        "HUBBUB_JWKS_URL": f"{provider.url}/jwks.json",
        "HUBBUB_AUTHORIZE_URL": f"{provider.url}/authorize",
        "HUBBUB_TOKEN_URL": f"{provider.url}/token",
        "HUBBUB_CLIENT_ID": CLIENT,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setitem(running.ENVIRONMENT, name, value)
        with Run(tmp_path_factory.mktemp("data") / "run", "--no-reload") as run:
            yield run


@pytest.fixture
def page(browser: Browser, provider: Provider, stage: Run) -> Iterator[Page]:
    """The admin page before the sign-in."""
    provider.claims, provider.overrides = _without(ADMIN, "nonce", "aud"), {}
    with open_page(browser, f"{stage.page}web/admin.html#leaderboard/none") as opened:
        opened.get_by_role("button", name="Sign in with your account").wait_for()
        yield opened


def _without(claims: dict[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in claims.items() if name not in names}


def sign_in(page: Page) -> None:
    page.get_by_role("button", name="Sign in with your account").click()


def test_an_admin_of_the_provider_signs_in(page: Page) -> None:
    sign_in(page)
    page.get_by_text(f"Signed in as {ADMIN['sub']}").wait_for()
    page.get_by_text("The quarantine is empty.").wait_for()
    assert page.evaluate("location.search + location.hash") == "#leaderboard/none", "the code is gone"
    assert page.evaluate("Object.keys(sessionStorage)") == ["hubbub.admin"]
    page.reload()
    page.get_by_text(f"Signed in as {ADMIN['sub']}").wait_for()


def test_a_user_of_the_provider_is_no_admin(page: Page, provider: Provider) -> None:
    provider.claims["cognito:groups"] = ["readers"]
    sign_in(page)
    page.locator("#notice").get_by_text("This token lacks the admin scope.").wait_for()
    page.get_by_role("button", name="Sign in with your account").wait_for()


def test_a_reply_of_another_sign_in_is_refused(page: Page, provider: Provider) -> None:
    claims = provider.claims
    for overrides, changed, said in (
        ({"state": "of-another"}, {}, "`state` is that of another sign-in."),
        ({}, {"nonce": "of-another"}, "`nonce` is that of another sign-in."),
        ({"code": "stolen"}, {}, "The code is not valid."),
        ({"error": "access_denied"}, {}, "access_denied"),
    ):
        provider.overrides, provider.claims = overrides, claims | changed
        sign_in(page)
        page.locator("#notice").get_by_text(f"The sign-in failed. {said}").wait_for()
        assert page.evaluate("sessionStorage.length") == 0
        assert page.evaluate("location.search") == ""
        assert not page.locator("#signed-in").is_visible()


def test_a_link_with_a_code_signs_nobody_in(browser: Browser, stage: Run) -> None:
    """An attacker's code would sign the visitor in as the attacker (RFC 6749, 10.12)."""
    with open_page(browser, f"{stage.page}web/admin.html?code=x&state=y") as page:
        page.locator("#notice").get_by_text("`state` is that of another sign-in.").wait_for()
        assert page.evaluate("sessionStorage.length") == 0


def test_only_the_admin_page_may_call_the_token_endpoint(stage: Run, provider: Provider) -> None:
    def policy(path: str) -> str:
        return requests.get(f"{stage.page}{path}", timeout=60).headers["Content-Security-Policy"]

    assert f"connect-src 'self' ws://127.0.0.1:{stage.socket_port} {provider.url};" in policy(
        "web/admin.html"
    )
    assert provider.url not in policy("")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"HUBBUB_CLIENT_ID": ""}, "HUBBUB_CLIENT_ID is not set"),
        ({"HUBBUB_TOKEN_URL": "ftp://example.org"}, "HUBBUB_TOKEN_URL is 'ftp://example.org': it must begin"),
        ({"HUBBUB_AUTHORIZE_URL": "http://example.org"}, "HUBBUB_AUTHORIZE_URL is 'http://example.org'"),
    ],
)
def test_incomplete_and_insecure_settings_are_refused(changed: dict[str, str], said: str) -> None:
    right = {
        "HUBBUB_AUTHORIZE_URL": "https://a.example/authorize",
        "HUBBUB_TOKEN_URL": "https://a.example/token",
        "HUBBUB_CLIENT_ID": "console",
    }
    assert settings.read(right).sign_in == settings.SignIn(*right.values())
    assert settings.read({}).sign_in is None
    with pytest.raises(ValueError, match=re.escape(said)):
        settings.read(right | changed)
