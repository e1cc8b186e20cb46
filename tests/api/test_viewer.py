"""Behind CloudFront a client has its own address, which only the distribution can state."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

import app
from chalicelib import settings
from chalicelib.api import auth, viewer
from chalicelib.settings import Settings
from ops.cli.main import main
from tests.support.site import Site

STAGE = Settings(secret="s" * 32)
SECRET = viewer.find_origin_secrets(STAGE)[0]
EDGE = "192.0.2.7"


def find(address: str, secret: str | None = SECRET) -> str:
    sent = {"x-origin-secret": secret} if secret is not None else {}
    return viewer.find_address(STAGE, {"cloudfront-viewer-address": address, **sent}, EDGE)


@pytest.mark.parametrize(
    ("header", "address"),
    [
        ("198.51.100.10:46532", "198.51.100.10"),
        ("2001:db8:85a3::8a2e:370:7334:46532", "2001:db8:85a3::8a2e:370:7334"),
        ("2001:0db8:0000:0000:0000:0000:0000:0001:443", "2001:db8::1"),
        ("[2001:db8::1]:46532", "2001:db8::1"),
        ("::ffff:198.51.100.10:46532", "198.51.100.10"),
        (" 198.51.100.10:1 ", "198.51.100.10"),
    ],
)
def test_the_address_is_read_with_its_port(header: str, address: str) -> None:
    assert find(header) == address


@pytest.mark.parametrize(
    "header",
    ["", ":", "46532", "198.51.100.10", "198.51.100.10:", "a:1", "198.51.100.10:x", "1.2.3.4, 5.6.7.8:1"],
)
def test_a_malformed_address_is_that_of_the_edge(header: str) -> None:
    assert find(header) == EDGE


@pytest.mark.security
@pytest.mark.parametrize(
    "secret",
    [None, "", "x", SECRET[:-1], SECRET.upper(), f" {SECRET}", f"{SECRET},{SECRET}", "s" * 32, "é\ud800"],
)
def test_without_the_origin_secret_the_header_is_ignored(secret: str | None) -> None:
    assert find("198.51.100.10:46532", secret) == EDGE


@pytest.mark.security
def test_an_origin_secret_of_another_stage_is_wrong() -> None:
    assert find("198.51.100.10:1", viewer.find_origin_secrets(Settings(secret="t" * 32))[0]) == EDGE


def test_the_origin_secret_before_a_new_one_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "read_secrets", lambda _: (b"n" * 32, b"s" * 32))
    assert find("198.51.100.10:1") == "198.51.100.10"


def test_while_the_secret_cannot_be_read_the_address_is_that_of_the_edge(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: Any) -> Any:
        raise ClientError({"Error": {"Code": "ThrottlingException", "Message": ""}}, "GetParameter")

    monkeypatch.setattr(auth, "read_secrets", refuse)
    with caplog.at_level(logging.ERROR):
        assert find("198.51.100.10:1") == EDGE
    assert SECRET not in caplog.text


def test_visitors_of_one_edge_have_limits_of_their_own(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The headers are those that API Gateway passes on, in any case of letters."""
    stage = settings.current()._replace(guests=True)
    monkeypatch.setattr(app, "stage", stage)
    secret = viewer.find_origin_secrets(settings.current())[0]

    def sign_in(number: int, secret: str) -> int:
        headers = {"CloudFront-Viewer-Address": f"198.51.100.{number}:1", "X-Origin-Secret": secret}
        return site.call("POST", "/guests", {}, **headers)[0]

    assert Counter(sign_in(1, secret) for _ in range(61)) == {201: 60, 429: 1}
    assert sign_in(2, secret) == 201
    assert Counter(sign_in(number, "forged") for number in range(61)) == {201: 60, 429: 1}


def test_visitors_of_one_edge_are_counted_one_by_one(site: Site) -> None:
    secret, page = viewer.find_origin_secrets(settings.current())[0], "https://www.example.org/edge"
    for number in (1, 2, 2):
        headers = {"cloudfront-viewer-address": f"198.51.100.{number}:1", "x-origin-secret": secret}
        assert site.call("POST", "/views", {"url": page}, **headers)[0] == 202
    site.settle()
    assert site.get(f"/views?url={page}")["visitors"] == 2


def test_the_command_prints_the_secret_of_a_stage() -> None:
    done = CliRunner().invoke(main, ["origin-secret", "--stage", "local"])
    assert (done.exit_code, len(done.output.strip())) == (0, 64)
    assert CliRunner().invoke(main, ["origin-secret", "--stage", "pord"]).exit_code
