"""The handshake of the socket, its origins, and how API Gateway closes it."""

from __future__ import annotations

import pytest
from botocore.loaders import create_loader
from botocore.model import ServiceModel

from chalicelib.chat import handshake
from chalicelib.settings import Settings
from tests.support.gateway import request


@pytest.mark.parametrize(
    ("query", "lobby", "interests"),
    [
        (None, "main", ()),
        ({"interests": ""}, "main", ()),
        ({"lobby": "café", "interests": " Music, chess ,music"}, "café", ("music", "chess")),
    ],
)
def test_a_handshake_has_a_lobby_and_interests(
    query: dict[str, str] | None, lobby: str, interests: tuple[str, ...]
) -> None:
    event = {"requestContext": request("c"), "queryStringParameters": query}
    opening = handshake.parse(event)
    assert (opening.id, opening.lobby, opening.interests, opening.resume_token) == ("c", lobby, interests, "")
    assert opening.endpoint == "https://local.execute-api.us-east-1.amazonaws.com/local"


@pytest.mark.parametrize(
    "query",
    [
        {"lobby": ""},
        {"lobby": "a#b"},
        {"lobby": "x" * 65},
        {"lobby": "a b"},
        {"interests": ",".join(map(str, range(11)))},
        {"interests": "x" * 33},
        {"interests": ",".join(f"{number}{'𝕏' * 8}" for number in range(10))},
    ],
)
def test_a_malformed_handshake_names_the_parameter(query: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"^`(lobby|interests)` must"):
        handshake.parse({"requestContext": request("c"), "queryStringParameters": query})


HERE = ("https://www.example.org",)


@pytest.mark.parametrize(
    ("origins", "origin", "is_foreign"),
    [
        (HERE, "https://www.example.org", False),
        (HERE, "https://evil.example", True),
        (HERE, "https://www.example.org.evil.example", True),
        (HERE, "http://www.example.org", True),
        (HERE, "null", True),
        (HERE, "", True),
        (HERE, None, False),  # not a browser
        (("*",), "https://evil.example", False),
    ],
)
@pytest.mark.parametrize("header", ["Origin", "origin"])
def test_an_origin_that_the_stage_does_not_allow_is_foreign(
    origins: tuple[str, ...], origin: str | None, is_foreign: bool, header: str
) -> None:
    event = {"requestContext": request("c"), "headers": {} if origin is None else {header: origin}}
    assert handshake.is_foreign_origin(event, Settings(origins=origins)) == is_foreign


def test_api_gateway_accepts_no_close_code() -> None:
    """So the code 4008 is sent in a frame (docs/api.md). Source: the API's model in botocore."""
    service = create_loader().load_service_model("apigatewaymanagementapi", "service-2")
    shape = ServiceModel(service).operation_model("DeleteConnection").input_shape
    assert shape is not None
    assert list(shape.members) == ["ConnectionId"]
