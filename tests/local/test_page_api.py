"""The page API of a local run serves its own page and refuses everything else."""

from __future__ import annotations

import json

import pytest

from local.demo import Demo
from local.page_api import PageApi

HERE = {"Host": "127.0.0.1:8000", "Origin": "http://127.0.0.1:8000", "Content-Type": "application/json"}


class CountingDemo(Demo):
    """A demo that only counts its starts."""

    starts = 0

    def start(self) -> bool:
        self.starts += 1
        return self.starts == 1


@pytest.fixture
def page_api() -> PageApi:
    url = "http://127.0.0.1:8000"
    return PageApi(url, CountingDemo(url, lambda sub, scope: ""), lambda sub: f"token of {sub}")


def ask(
    page_api: PageApi, path: str, headers: dict[str, str] = HERE, body: object = None
) -> tuple[int, object]:
    status, answer = page_api.respond(path, headers, json.dumps(body).encode())
    return status, answer.get("Code", answer)


def test_the_page_of_this_server_gets_a_user_token(page_api: PageApi) -> None:
    answer = {"sub": "visitor-1", "token": "token of visitor-1"}
    assert ask(page_api, "/local/token", body={"sub": "visitor-1"}) == (200, answer)


@pytest.mark.parametrize("body", [None, [], {}, {"sub": 1}, {"sub": ""}, {"sub": "a b"}, {"sub": "a" * 65}])
def test_an_invalid_sub_is_a_bad_request(page_api: PageApi, body: object) -> None:
    assert ask(page_api, "/local/token", body=body) == (400, "BadRequest")


def test_the_demo_is_filled_once_at_a_time(page_api: PageApi) -> None:
    assert ask(page_api, "/local/demo") == (202, {"started": True})
    assert ask(page_api, "/local/demo") == (202, {"started": False})


@pytest.mark.parametrize(
    "other",
    [
        {"Host": "evil.example:8000", "Origin": "http://evil.example:8000"},  # DNS rebinding
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1:9000"},
        {"Host": "127.0.0.1"},
    ],
)
def test_pages_of_other_sites_are_refused(page_api: PageApi, other: dict[str, str]) -> None:
    assert ask(page_api, "/local/token", HERE | other, {"sub": "a"}) == (403, "Forbidden")


def test_a_form_submission_is_refused(page_api: PageApi) -> None:
    assert ask(page_api, "/local/token", HERE | {"Content-Type": "text/plain"}, {"sub": "a"})[0] == 400


def test_any_other_path_is_not_found(page_api: PageApi) -> None:
    assert ask(page_api, "/local/secret") == (404, "NotFound")
