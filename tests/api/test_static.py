"""The static files that the app serves: only files of the page, only from its folders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from chalice.test import Client
from click.testing import CliRunner

import app
from chalicelib.api import static
from chalicelib.errors import NotFound
from chalicelib.settings import Settings, read
from local.__main__ import main

WEB = Path(__file__).parents[2] / "web"


def test_the_app_serves_the_page_and_the_address_of_its_sockets() -> None:
    with Client(app.app) as client:
        answer = client.http.get("/")
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.body.decode() == (WEB / "index.html").read_text(encoding="utf-8")
        assert client.http.get("/web/vendor/lit.js").headers["Content-Type"].startswith("text/javascript")
        assert client.http.get("/web/config.json").json_body == {
            "stage": "local",
            "socket": "",
            "guests": True,
            "sites": [],
            "signIn": None,
        }


def test_the_configuration_names_the_sites_of_the_stage_but_no_patterns() -> None:
    sites = "shop.example,*.example.org,blog.example/posts/*,*"
    assert static.configure_page(read({"HUBBUB_SITES": sites})).sites == ["blog.example", "shop.example"]


def asked_for(path: str, query: dict[str, list[str]] | None = None) -> dict[str, Any]:
    """Request the page with an event of API Gateway whose client sent this path."""
    context = {"httpMethod": "GET", "resourcePath": "/", "identity": {}, "path": path}
    event: dict[str, Any] = {
        "requestContext": context,
        "headers": {},
        "multiValueQueryStringParameters": query,
    }
    event |= {"pathParameters": None, "stageVariables": None, "body": "", "isBase64Encoded": False}
    return dict(app.app(event, None))


@pytest.mark.parametrize("path", ["/api", "/base/hub"])
def test_the_page_without_its_last_slash_is_redirected_to_it(path: str) -> None:
    """AWS: `path` in the request context is the path as it was sent; `/{stage}` is the resource `/` too.

    https://docs.aws.amazon.com/lambda/latest/dg/services-apigateway.html shows an event of `/Prod/`.
    """
    answer = asked_for(path, {"socket": ["a b", "c"]})
    assert answer["statusCode"] == 302
    address = answer["headers"]["Location"]
    assert urljoin(f"https://example.org{path}", address) == f"https://example.org{path}/?socket=a+b&socket=c"
    assert answer["headers"]["Cache-Control"] == "no-store"
    again = asked_for(f"{path}/")
    assert again["statusCode"] == 200
    assert "Location" not in again["headers"]


@pytest.mark.parametrize("prefix", ["api", "/api/", "/a b", "/api?x", "//evil.example"])
def test_a_prefix_is_a_path_without_a_last_slash(prefix: str) -> None:
    refused = CliRunner().invoke(main, ["--prefix", prefix])
    assert refused.exit_code == 2
    assert "is not a path such as /api" in refused.output


def test_a_path_never_redirects_to_another_host() -> None:
    for path in ("//evil.example", "/api//evil.example", "/x:y", "/https:"):
        address = urljoin(f"https://example.org{path}", asked_for(path)["headers"]["Location"])
        assert urlsplit(address).netloc == "example.org"


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("", "../app.py"),
        ("", "/etc/passwd"),
        ("..", "app.py"),
        ("vendor", "../../app.py"),
        ("vendor", "package.json"),  # what the files are made from is none of them
        ("", ""),
        ("", "vendor"),
        ("", "\0"),
        ("", 300 * "a"),
    ],
)
def test_only_files_of_the_page_are_served(folder: str, name: str) -> None:
    with pytest.raises(NotFound):
        static.serve_file(Settings(), name, folder)


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret.txt").write_text("hidden")
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "link.txt").symlink_to(tmp_path / "secret.txt")
    monkeypatch.setattr(static, "WEB", tmp_path / "web")
    with pytest.raises(NotFound):
        static.serve_file(Settings(), "link.txt")


def test_files_are_cached_for_five_minutes_when_deployed_and_never_locally() -> None:
    assert static.serve_file(Settings(), "page.js").headers["Cache-Control"] == "no-cache"
    assert (
        static.serve_file(Settings(stage="dev"), "page.js").headers["Cache-Control"] == "public, max-age=300"
    )


def test_a_bundle_is_cached_for_ever_and_html_never(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "WEB", tmp_path)
    for name in (
        "page-0123456789ab.js",
        "page-0123456789ab.css",
        "shared-AB2CD3EF.js",
        "index.html",
        "admin.html",
        "admin-calls.js",
    ):
        (tmp_path / name).write_text("")
    said = {
        path.name: static.serve_file(Settings(stage="dev"), path.name).headers["Cache-Control"]
        for path in tmp_path.iterdir()
    }
    assert said == {
        "page-0123456789ab.js": "public, max-age=31536000, immutable",
        "page-0123456789ab.css": "public, max-age=31536000, immutable",
        "shared-AB2CD3EF.js": "public, max-age=31536000, immutable",
        "index.html": "no-cache",
        "admin.html": "no-cache",
        "admin-calls.js": "public, max-age=300",
    }


def test_every_file_has_its_security_headers() -> None:
    with Client(app.app) as client:
        for path in ("/", "/web/admin.html", "/web/page.js", "/docs"):
            headers = client.http.get(path).headers
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"
            assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
            assert "base-uri 'none'" in headers["Content-Security-Policy"]
            if headers["Content-Type"].startswith("text/html") and path != "/docs":
                assert "default-src 'none'; script-src 'self';" in headers["Content-Security-Policy"]
                assert "unsafe" not in headers["Content-Security-Policy"]


def test_the_page_loads_nothing_from_elsewhere_and_runs_nothing_inline() -> None:
    html = (WEB / "index.html").read_text(encoding="utf-8")
    for address in re.findall(r'(?:src|href)="([^"]*)"', html):
        assert not address.startswith(("http", "/")), address  # relative: a stage lies below a path
    assert not re.search(r"<script(?![^>]*\bsrc=)|\bon\w+=|\bstyle=|<style", html)
    assert "script-src 'self'; style-src 'self'" in html


def test_no_script_of_the_page_makes_html_of_text() -> None:
    for file in (file for file in WEB.rglob("*.js") if file.parent.name != "vendor"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|insertAdjacentHTML|unsafeHTML|\beval\(|document\.write", text), file
