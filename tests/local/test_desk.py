"""What the page of one machine may ask of it, and nobody else."""

from __future__ import annotations

import json

import pytest

from local.demo import Demo
from local.page_api import Desk

HERE = {"Host": "127.0.0.1:8000", "Origin": "http://127.0.0.1:8000", "Content-Type": "application/json"}


class Filled(Demo):
    """A demo that only says that it was wanted."""

    wanted = 0

    def start(self) -> bool:
        self.wanted += 1
        return self.wanted == 1


@pytest.fixture
def desk() -> Desk:
    url = "http://127.0.0.1:8000"
    return Desk(url, Filled(url, lambda sub, scope: ""), lambda sub: f"token of {sub}")


def ask(desk: Desk, path: str, headers: dict[str, str] = HERE, body: object = None) -> tuple[int, object]:
    status, answer = desk.answer(path, headers, json.dumps(body).encode())
    return status, answer.get("Code", answer)


def test_its_own_page_gets_a_token_of_a_user(desk: Desk) -> None:
    answer = {"sub": "visitor-1", "token": "token of visitor-1"}
    assert ask(desk, "/local/token", body={"sub": "visitor-1"}) == (200, answer)


@pytest.mark.parametrize("body", [None, [], {}, {"sub": 1}, {"sub": ""}, {"sub": "a b"}, {"sub": "a" * 65}])
def test_what_is_no_name_is_a_bad_request(desk: Desk, body: object) -> None:
    assert ask(desk, "/local/token", body=body) == (400, "BadRequest")


def test_a_demo_is_filled_once_at_a_time(desk: Desk) -> None:
    assert ask(desk, "/local/demo") == (202, {"started": True})
    assert ask(desk, "/local/demo") == (202, {"started": False})


@pytest.mark.parametrize(
    "other",
    [
        {"Host": "evil.example:8000", "Origin": "http://evil.example:8000"},  # a name that leads here
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1:9000"},
        {"Host": "127.0.0.1"},
    ],
)
def test_pages_of_other_sites_get_nothing(desk: Desk, other: dict[str, str]) -> None:
    assert ask(desk, "/local/token", HERE | other, {"sub": "a"}) == (403, "Forbidden")


def test_a_form_gets_nothing(desk: Desk) -> None:
    assert ask(desk, "/local/token", HERE | {"Content-Type": "text/plain"}, {"sub": "a"})[0] == 400


def test_there_is_nothing_else(desk: Desk) -> None:
    assert ask(desk, "/local/secret") == (404, "NotFound")
