"""The page API of a local run serves its own page and refuses everything else."""

from __future__ import annotations

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
    return PageApi(CountingDemo(url, lambda sub, scope: ""))


def ask(page_api: PageApi, path: str, headers: dict[str, str] = HERE) -> tuple[int, object]:
    status, answer = page_api.respond(path, headers)
    return status, answer.get("code", answer)


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
    assert ask(page_api, "/local/demo", HERE | other) == (403, "Forbidden")


def test_a_form_submission_is_refused(page_api: PageApi) -> None:
    assert ask(page_api, "/local/demo", HERE | {"Content-Type": "text/plain"})[0] == 400


@pytest.mark.parametrize("path", ["/local/secret", "/local/token"])
def test_any_other_path_is_not_found(page_api: PageApi, path: str) -> None:
    assert ask(page_api, path) == (404, "NotFound")
