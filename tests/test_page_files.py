"""The page's files as the app answers them: its own alone, from its own folders."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest
from chalice.test import Client

import app
from chalicelib import page
from chalicelib.errors import NotFound
from chalicelib.settings import Settings

WEB = Path(__file__).parents[1] / "web"


def test_the_app_answers_the_page_and_says_where_its_sockets_are() -> None:
    with Client(app.app) as client:
        answer = client.http.get("/")
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.body.decode() == (WEB / "index.html").read_text(encoding="utf-8")
        assert client.http.get("/web/vendor/lit.js").headers["Content-Type"].startswith("text/javascript")
        assert client.http.get("/web/config.json").json_body == {"stage": "local", "socket": ""}


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
def test_nothing_beside_the_files_is_answered(folder: str, name: str) -> None:
    with pytest.raises(NotFound):
        page.file(Settings(), name, folder)


def test_a_link_out_of_the_folder_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret.txt").write_text("hidden")
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "link.txt").symlink_to(tmp_path / "secret.txt")
    monkeypatch.setattr(page, "HERE", tmp_path / "web")
    with pytest.raises(NotFound):
        page.file(Settings(), "link.txt")


def test_browsers_keep_files_of_a_deployment_for_five_minutes_and_none_while_it_is_worked_on() -> None:
    assert page.file(Settings(), "page.js").headers["Cache-Control"] == "no-cache"
    assert page.file(Settings(stage="dev"), "page.js").headers["Cache-Control"] == "public, max-age=300"


def test_chalice_packs_the_page_with_the_app(tmp_path: Path) -> None:
    from chalice.deploy.packager import LambdaDeploymentPackager
    from chalice.utils import OSUtils

    packager = LambdaDeploymentPackager.__new__(LambdaDeploymentPackager)
    packager._osutils = OSUtils()
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as package:
        packager._add_vendor_files(package, str(WEB.parent / "vendor"))
    files = {f"web/{file.relative_to(WEB)}" for file in WEB.rglob("*") if file.is_file()}
    assert files <= set(package.namelist())


def test_the_page_loads_nothing_from_elsewhere_and_runs_nothing_inline() -> None:
    html = (WEB / "index.html").read_text(encoding="utf-8")
    for address in re.findall(r'(?:src|href)="([^"]*)"', html):
        assert not address.startswith(("http", "/")), address  # relative: a stage lies below a path
    assert not re.search(r"<script(?![^>]*\bsrc=)|\bon\w+=|\bstyle=|<style", html)
    assert "script-src 'self'; style-src 'self'" in html


@pytest.mark.parametrize("file", sorted(WEB.glob("*.js")) + sorted(WEB.glob("*.css")), ids=lambda f: f.name)
def test_a_module_of_the_page_is_short_enough_to_be_read(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 250
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|insertAdjacentHTML|unsafeHTML|\beval\(|document\.write", text)


def test_each_library_says_which_version_it_is_and_under_which_licence() -> None:
    made_from = json.loads((WEB / "vendor" / "package.json").read_text())["dependencies"]
    for file, name in (("lit.js", "lit-html"), ("uplot.js", "uPlot"), ("uplot.css", "uPlot")):
        first = (WEB / "vendor" / file).read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith(f"/* {name} {made_from[name.lower()]}, "), first
        assert "licences.txt" in first
