"""The OpenAPI document agrees with routes, errors and contract."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema_rs import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

import app
from chalicelib import errors
from chalicelib.api.openapi import describe
from local.engines.engine import ROOT
from ops.cli.main import main

DESCRIPTION = describe(app.router, app.VERSION)
PARTS = {("GET", "/docs/{file}")}  # no call of their own: what the page of GET /docs is made of
OPERATIONS: dict[tuple[str, str], dict[str, Any]] = {
    (method.upper(), path): operation
    for path, methods in DESCRIPTION["paths"].items()
    for method, operation in methods.items()
}
each_operation = pytest.mark.parametrize(
    "operation", OPERATIONS.values(), ids=[" ".join(k) for k in OPERATIONS]
)


CALLS = {  # each call, and who may make it: written by hand, so that neither side follows the other
    "public": """
        GET /
        GET /challenges/{challenge}
        GET /challenges/{challenge}/leaders
        GET /challenges/{challenge}/statistics
        GET /docs
        GET /health
        GET /leaderboards/{board}
        GET /leaderboards/{board}/distribution
        GET /leaderboards/{board}/entries
        GET /leaderboards/{board}/players/{player}
        GET /leaderboards/{board}/players/{player}/card.svg
        GET /leaderboards/{board}/rank
        GET /leaderboards/{board}/score
        GET /leaderboards/{board}/standings
        GET /openapi.json
        GET /products/leaders
        GET /products/{product}
        GET /products/{product}/comments
        GET /products/{product}/comments/{id}
        GET /products/{product}/comments/{id}/replies
        GET /products/{product}/statistics
        GET /views
        GET /views/badge.svg
        GET /views/campaigns
        GET /views/goals
        GET /views/visitors
        GET /views/pixel.gif
        GET /views/referrers
        GET /views/series
        GET /views/site
        GET /views/top
        GET /web/config.json
        GET /web/{name}
        GET /web/{name}/{file}
        POST /guests
        POST /views
    """,
    "user": """
        DELETE /leaderboards/{board}/players/{player}
        DELETE /products/{product}/comments/{id}
        DELETE /products/{product}/comments/{id}/replies/{reply}
        DELETE /products/{product}/comments/{id}/vote
        GET /challenges/{challenge}/players/{player}
        GET /leaderboards/{board}/players/{player}/activities
        PATCH /products/{product}/comments/{id}
        PATCH /products/{product}/comments/{id}/replies/{reply}
        POST /challenges/{challenge}/paths
        POST /leaderboards/{board}/scores
        POST /products/{product}/comments
        POST /products/{product}/comments/{id}/reports
        POST /products/{product}/comments/{id}/replies
        PUT /products/{product}/comments/{id}/vote
    """,
    "admin": """
        DELETE /challenges/{challenge}/players/{player}
        DELETE /challenges/{challenge}/players/{player}/paths/{path}
        GET /challenges
        GET /chat/reports
        GET /comments
        GET /comments/bans
        GET /comments/reports
        DELETE /products/{product}/comments/{id}/reports
        PUT /comments/bans/{author}
        DELETE /comments/bans/{author}
        GET /leaderboards
        GET /lag
        GET /products
        GET /products/{product}/hidden
        PUT /products/{product}
        DELETE /products/{product}
        GET /quarantine
        GET /replies
        GET /sites
        PUT /sites/{site}
        GET /sites/{site}
        DELETE /sites/{site}
        POST /sites/{site}/links
        GET /views/events
        POST /chat/reports/{id}
        POST /leaderboards/{board}/seasons
        PUT /challenges/{challenge}
        PUT /leaderboards/{board}
    """,
}


def promised() -> dict[tuple[str, str], str]:
    """Return each call of the interface, and who may make it."""
    lines = [(line.split(), who) for who, text in CALLS.items() for line in text.strip().splitlines()]
    return {(method, path): who for (method, path), who in lines}


def problems(schema: dict[str, Any], value: Any) -> list[str]:
    within = schema | {"components": DESCRIPTION["components"]}  # where its references lead
    return [error.message for error in Draft202012Validator(within, validate_formats=True).iter_errors(value)]


def schemas(part: Any) -> Iterator[dict[str, Any]]:
    """Find every schema with examples, anywhere in the document."""
    if isinstance(part, dict):
        if isinstance(part.get("examples"), list):
            yield part
        for inner in part.values():
            yield from schemas(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from schemas(inner)


# -- the document --------------------------------------------------------------------------------------


def test_it_is_a_valid_openapi_document() -> None:
    assert list(OpenAPIV31SpecValidator(DESCRIPTION).iter_errors()) == []


def test_it_is_written_to_the_file_that_is_named(tmp_path: Path) -> None:
    assert CliRunner().invoke(main, ["openapi", "--output", str(tmp_path / "a.json")]).output == ""
    assert json.loads((tmp_path / "a.json").read_text()) == DESCRIPTION
    failed = CliRunner().invoke(main, ["openapi", "--output", str(tmp_path / "none" / "a.json")])
    assert (failed.exit_code, "No such file" in failed.output) == (1, True)


# -- true to the code, and to the interface ------------------------------------------------------------


def test_routes_and_description_name_the_calls_of_the_interface() -> None:
    routes = {(method, path) for path, methods in app.app.routes.items() for method in methods}
    assert routes == set(OPERATIONS)
    assert routes >= PARTS | set(promised())
    known = {path.split("/")[1] for _, path in promised()}
    more = routes - PARTS - set(promised())  # of a feature that the interface does not have
    assert not [path for _, path in more if path.split("/")[1] in known]


@pytest.mark.security
def test_who_may_call_is_what_the_interface_promises_and_what_the_route_asks() -> None:
    needs = {"public": [], "user": [{"bearer": []}], "admin": [{"bearer": ["admin"]}]}
    for (method, path), who in (dict.fromkeys(PARTS, "public") | promised()).items():
        operation = OPERATIONS[method, path]
        assert operation["security"] == needs[who], operation["operationId"]
        assert bool(app.app.routes[path][method].authorizer) == (who != "public")
        refusals = {"401", "403"} & set(operation["responses"])
        always, may = {"public": ("", "401 403"), "user": ("401", "403"), "admin": ("401 403", "")}[who]
        assert set(always.split()) <= refusals <= {*always.split(), *may.split()}


def test_exactly_the_errors_that_are_raised_are_documented() -> None:
    kinds = [kind for kind in vars(errors).values() if is_ours(kind)]
    ours = {kind.code: str(kind.STATUS_CODE) for kind in kinds}
    documented = {
        code: status
        for operation in OPERATIONS.values()
        for status, response in operation["responses"].items()
        if status >= "4"
        for code in response["content"]["application/json"]["examples"]
    }
    sources = "".join(path.read_text() for path in (ROOT / "chalicelib").rglob("*.py"))
    raised = {kind.code for kind in kinds if re.search(rf"(\braise |: \(){kind.__name__}[(,]", sources)}
    assert raised > {"too_old", "in_the_future", "site_not_allowed", "bot", "TooLarge", "NotFound"}
    assert raised <= set(documented)
    assert documented.items() <= ours.items()
    assert ours.keys() <= set(DESCRIPTION["components"]["schemas"]["Error"]["properties"]["code"]["enum"])


def is_ours(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, errors.HubbubError) and kind is not errors.HubbubError


# -- complete ------------------------------------------------------------------------------------------


def test_every_operation_has_a_name_of_its_own_and_a_tag_that_is_described() -> None:
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert len(set(names)) == len(names)
    tags = {tag["name"] for tag in DESCRIPTION["tags"] if tag["description"]}
    assert {tag for operation in OPERATIONS.values() for tag in operation["tags"]} == tags


@each_operation
def test_an_operation_has_a_summary_and_parameters(operation: dict[str, Any]) -> None:
    assert operation["summary"].endswith(".")
    assert all(parameter["description"] for parameter in operation["parameters"])
    if "requestBody" in operation:
        assert operation["requestBody"]["description"]
        assert operation["requestBody"]["content"]["application/json"]["examples"]


@each_operation
def test_every_error_response_has_the_error_schema_and_none_is_500(operation: dict[str, Any]) -> None:
    assert "500" not in operation["responses"]
    for status, response in operation["responses"].items():
        assert response["description"]
        assert "X-Request-Id" in response["headers"]
        assert ("Retry-After" in response["headers"]) == (status in ("429", "503"))
        if status >= "4":
            schema = response["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Error"}


def test_every_example_is_valid_against_its_schema() -> None:
    checked = 0
    for schema in schemas(DESCRIPTION):
        for example in schema["examples"]:
            assert problems(schema, example) == []
            checked += 1
    for operation in OPERATIONS.values():
        answers = [*operation["responses"].values(), operation.get("requestBody", {})]
        for content in (kind for answer in answers for kind in answer.get("content", {}).values()):
            for example in content.get("examples", {}).values():
                assert problems(content["schema"], example["value"]) == []
                checked += 1
        for parameter in operation["parameters"]:
            if "example" in parameter:
                assert problems(parameter["schema"], parameter["example"]) == []
                checked += 1
    assert checked > 50


def test_a_body_is_one_event_or_a_list_and_not_both() -> None:
    schema = {"$ref": "#/components/schemas/ViewsBody"}
    event = {"url": "https://example.org/a", "time": "2026-11-21T10:00:00Z", "clientId": "c-1"}
    assert problems(schema, event) == problems(schema, {"events": [event]}) == []
    url = {"url": event["url"]}
    assert problems(schema, url) == []  # the time is the server's, and the visitor the sender
    wrong: list[dict[str, Any]] = [{}, event | {"events": []}, {"events": [event]} | url]
    assert all(problems(schema, body) for body in wrong)
    assert problems(schema, {"events": [event] * 501})
