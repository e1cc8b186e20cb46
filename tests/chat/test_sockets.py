"""The socket's door: what a frame is answered, and the client that answers it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.loaders import create_loader
from botocore.model import ServiceModel

import app
from chalicelib.chat import protocol
from chalicelib.settings import Settings
from local.engines.gateway import context


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("", "bad_request"),
        ("None", "bad_request"),
        ("7", "bad_request"),
        ('{"action": 7}', "bad_request"),
        ('{"text": "hello"}', "bad_request"),
        ('{"action": "message", "text": "' + "x" * protocol.FRAME + '"}', "too_long"),
    ],
)
def test_a_frame_that_is_none_is_told_why(frame: str, code: str) -> None:
    assert protocol.read(frame) == code
    assert json.loads(protocol.error(code)) == {"type": "error", "code": code}


@pytest.mark.parametrize(
    ("query", "lobby", "interests"),
    [
        (None, "main", ()),
        ({"interests": ""}, "main", ()),
        ({"lobby": "café", "interests": " Music, chess ,music"}, "café", ("music", "chess")),
    ],
)
def test_who_comes_says_where_and_what_for(
    query: dict[str, str] | None, lobby: str, interests: tuple[str, ...]
) -> None:
    event = {"requestContext": context("c"), "queryStringParameters": query}
    arrival = protocol.arrival(event)
    assert (arrival.id, arrival.lobby, arrival.interests, arrival.resume) == ("c", lobby, interests, "")
    assert arrival.at == "https://local.execute-api.us-east-1.amazonaws.com/local"


@pytest.mark.parametrize(
    "query",
    [
        {"lobby": ""},
        {"lobby": "a#b"},
        {"lobby": "x" * 65},
        {"lobby": "a b"},
        {"interests": ",".join(map(str, range(11)))},
        {"interests": "x" * 33},
    ],
)
def test_who_says_it_wrongly_is_not_let_in(query: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"^(lobby|interests): "):
        protocol.arrival({"requestContext": context("c"), "queryStringParameters": query})


HERE = ("https://www.example.org",)


@pytest.mark.parametrize(
    ("stage", "origins", "origin", "is_foreign"),
    [
        ("prod", HERE, "https://www.example.org", False),
        ("prod", HERE, "https://evil.example", True),
        ("prod", HERE, "https://www.example.org.evil.example", True),
        ("prod", HERE, "http://www.example.org", True),
        ("prod", HERE, "null", True),
        ("prod", HERE, "", True),
        ("prod", HERE, None, False),  # no browser
        ("prod", ("*",), "https://evil.example", False),
        ("local", ("*",), "http://127.0.0.1:8000", False),
        ("local", ("*",), "http://localhost:5173", False),
        ("local", ("*",), "http://[::1]:8000", False),
        ("local", ("*",), "http://[::1", True),
        ("local", ("*",), "https://evil.example", True),
        ("local", ("*",), "http://127.0.0.1.evil.example", True),
        ("local", ("*",), "null", True),
        ("local", ("*", "https://dev.example"), "https://dev.example", False),
        ("local", ("*",), None, False),
    ],
)
@pytest.mark.parametrize("header", ["Origin", "origin"])
def test_a_page_of_another_origin_is_foreign(
    stage: str, origins: tuple[str, ...], origin: str | None, is_foreign: bool, header: str
) -> None:
    event = {"requestContext": context("c"), "headers": {} if origin is None else {header: origin}}
    assert protocol.is_foreign(event, Settings(stage=stage, origins=origins)) == is_foreign


def test_api_gateway_closes_a_connection_with_a_code_of_its_own_choice() -> None:
    """So 4008 is sent as a frame there (docs/contract.md). Source: the API's model in botocore."""
    service = create_loader().load_service_model("apigatewaymanagementapi", "service-2")
    shape = ServiceModel(service).operation_model("DeleteConnection").input_shape
    assert shape is not None
    assert list(shape.members) == ["ConnectionId"]


def test_the_app_has_a_client_of_its_own_for_connections() -> None:
    """Chalice makes none: without a session every frame that is sent would raise."""
    session: Any = app.app.websocket_api.session
    client = session.client(
        "apigatewaymanagementapi", endpoint_url="https://id.execute-api.us-east-1.amazonaws.com/api"
    )
    assert client.meta.config.read_timeout == 2
    assert session.region_name == "us-east-1"
