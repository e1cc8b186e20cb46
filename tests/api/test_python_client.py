"""A client in Python is generated from the OpenAPI document, and its calls work with the app."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from chalice.test import Client

import app
from chalicelib import settings
from chalicelib.api import auth
from ops.aws import template
from ops.openapi import format_openapi

PACKAGE = "hubbub_client"


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The output of the generator. Its package can be imported."""
    folder = tmp_path_factory.mktemp("python")
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
    (folder / "openapi.json").write_text(format_openapi())
    command += ["--path", str(folder / "openapi.json"), "--output-path", str(folder / PACKAGE)]
    # The generator formats its files with ruff, which is beside this Python.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=os.environ | {"PATH": path}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    yield done.stdout + done.stderr
    sys.path.remove(str(folder))


class ToTheApp(httpx.BaseTransport):
    """Sends the requests of a client to the app in this process."""

    def __init__(self, http: Any) -> None:
        self._http = http

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        answer = self._http.request(request.method, path, headers=dict(request.headers), body=request.read())
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.body)


def module(name: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{name}")


def test_the_generator_warns_of_nothing_but_the_image_that_it_cannot_type(output: str) -> None:
    assert re.findall(r"^WARNING parsing (.*) within", output, re.MULTILINE) == ["GET /views/badge.svg"]
    assert "ERROR" not in output
    assert "Skipping" not in output


def test_every_operation_has_a_function(output: str) -> None:
    description = json.loads(format_openapi())
    operations = [one for methods in description["paths"].values() for one in methods.values()]
    assert len(operations) == len(app.router.routes)
    for one in operations:
        assert callable(module(f"api.{one['tags'][0]}.{one['operationId']}").sync_detailed)


def test_calls_of_the_client_work_with_the_app(output: str, dev_table: template.Table) -> None:
    models = module("models")
    with Client(app.app) as http:
        options = {"base_url": "http://app", "httpx_args": {"transport": ToTheApp(http.http)}}
        client = module("client").AuthenticatedClient(token=auth.mint(settings.current(), "me"), **options)
        body = models.CommentBody(rating=5, language="en", text="Fits well.")
        posted = module("api.products.post_comment").sync("garment-767", client=client, body=body)
        assert isinstance(posted, models.Comment)
        anybody = module("client").Client(**options)
        page = module("api.products.get_comments").sync("garment-767", client=anybody, limit=10)
        assert [(one.id, one.text, one.votes) for one in page.items] == [(posted.id, "Fits well.", 0)]
        error = module("api.products.post_comment").sync("garment-767", client=client, body=body)
        assert isinstance(error, models.Error)
        assert error.code == "Conflict"
