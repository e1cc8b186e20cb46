"""The socket's door: what a frame is answered, and the client that answers it."""

from __future__ import annotations

import json
from typing import Any

import pytest

import app
from chalicelib import sockets


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("", "bad_request"),
        ("None", "bad_request"),
        ("7", "bad_request"),
        ('{"action": 7}', "bad_request"),
        ('{"action": "fly"}', "bad_request"),
        ('{"action": "message", "text": "' + "x" * sockets.FRAME + '"}', "too_long"),
    ],
)
def test_a_frame_that_no_feature_takes_is_told_why(frame: str, code: str) -> None:
    assert json.loads(sockets.answer(frame)) == {"type": "error", "code": code}


def test_the_app_has_a_client_of_its_own_for_connections() -> None:
    """Chalice makes none: without a session every frame that is sent would raise."""
    session: Any = app.app.websocket_api.session
    client = session.client(
        "apigatewaymanagementapi", endpoint_url="https://id.execute-api.us-east-1.amazonaws.com/api"
    )
    assert client.meta.config.read_timeout == 2
    assert session.region_name == "us-east-1"
