"""The files of the pages and drop-ins, as the app serves them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from chalice.deploy.packager import LambdaDeploymentPackager
from chalice.test import Client
from chalice.utils import OSUtils

import app
from chalicelib import pages
from local.engine import ROOT


def get(path: str, **headers: str) -> Any:
    with Client(app.app) as client:
        return client.http.get(path, headers=headers)


def test_every_file_is_served_with_its_kind() -> None:
    files = [file for file in pages.WEB.rglob("*") if file.is_file()]
    assert len(files) > 10
    for file in files:
        answer = get(f"/web/{file.relative_to(pages.WEB)}")
        assert (answer.status_code, answer.body) == (200, file.read_bytes())
        assert answer.headers["Content-Type"] == pages.KINDS[file.suffix]


def test_the_page_is_at_the_root() -> None:
    answer = get("/")
    assert (answer.status_code, answer.body) == (200, (pages.WEB / "index.html").read_bytes())


def test_a_page_may_be_framed_by_nobody_and_a_script_be_loaded_by_all() -> None:
    headers = get("/web/beacon.js", Origin="https://www.example.org").headers
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "public, max-age=300"


def test_nothing_beside_them_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = tmp_path / "web"
    web.mkdir()
    (tmp_path / "secret.html").write_text("hidden")
    (web / "link.html").symlink_to(tmp_path / "secret.html")
    (web / "folder").symlink_to(tmp_path)
    (web / "notes.md").write_text("hidden")
    monkeypatch.setattr(pages, "WEB", web)
    names = ("link.html", "notes.md", "none.html", "folder", "folder/secret.html", "none/none.html")
    assert {name: get(f"/web/{name}").status_code for name in names} == dict.fromkeys(names, 404)
    for name in ("%2e%2e", "..%2fsecret.html", "..", "%00.html", "a b.html", "%2e%2e/secret.html"):
        assert get(f"/web/{name}").status_code in (400, 404), name


def test_a_package_carries_them(tmp_path: Path) -> None:
    packed = tmp_path / "packed.zip"
    packager = LambdaDeploymentPackager(OSUtils(), None, None)  # type: ignore[arg-type]
    with zipfile.ZipFile(packed, "w") as zipped:
        packager._add_vendor_files(zipped, str(ROOT / "vendor"))
    inside = {Path(name) for name in zipfile.ZipFile(packed).namelist()}
    assert {file.relative_to(ROOT) for file in pages.WEB.rglob("*") if file.is_file()} <= inside
