"""The local gateway behaves like API Gateway for WebSocket clients and for an app's handlers."""

import json
import logging
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import ClientError
from chalice.app import Chalice, WebsocketDisconnectedError, WebsocketEvent
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from local.gateway import Gateway, Limits
from tests.support.running import until

PATIENCE = 30  # seconds until a test gives up waiting for what should happen at once


class Echo:
    """An app that echoes messages or executes them as commands, and keeps the events of its handlers."""

    def __init__(self) -> None:
        app = Chalice(app_name="echo")
        app.experimental_feature_flags.add("WEBSOCKETS")
        self.app = app
        self.connected: queue.Queue[dict[str, Any]] = queue.Queue()
        self.handled: queue.Queue[dict[str, Any]] = queue.Queue()
        self.disconnected: queue.Queue[dict[str, Any]] = queue.Queue()
        self.on_connect: Callable[[str], Any] = lambda connection_id: None
        self.on_disconnect: Callable[[str], Any] = lambda connection_id: None
        self.on_wait: Callable[[], Any] = lambda: None

        @app.on_ws_connect()
        def opened(event: WebsocketEvent) -> Any:
            self.connected.put(event.to_dict())
            return self.on_connect(event.connection_id)

        @app.on_ws_message()
        def said(event: WebsocketEvent) -> None:
            if event.body == "fail":
                raise LookupError("as told")
            if event.body == "exit":
                raise SystemExit(1)
            if event.body == "wait":
                self.on_wait()
            else:
                self.send(event.connection_id, event.body)
            self.handled.put(event.to_dict())

        @app.on_ws_disconnect()
        def closed(event: WebsocketEvent) -> None:
            self.on_disconnect(event.connection_id)
            self.disconnected.put(event.to_dict())

    def send(self, connection_id: str, text: str) -> None:
        self.app.websocket_api.send(connection_id, text)

    def is_gone(self, connection_id: str, text: str = "hello") -> bool:
        """Post to a connection. Return whether it is gone."""
        try:
            self.send(connection_id, text)
        except WebsocketDisconnectedError:
            return True
        return False

    def connection_id(self) -> str:
        """Wait for the next connection's $connect."""
        connection_id: str = self.connected.get(timeout=PATIENCE)["requestContext"]["connectionId"]
        return connection_id

    def disconnect(self) -> tuple[int, str]:
        """Wait for the next $disconnect. Return its code and its connection."""
        context = self.disconnected.get(timeout=PATIENCE)["requestContext"]
        return context["disconnectStatusCode"], context["connectionId"]


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def serve(echo: Echo) -> Iterator[Callable[..., Gateway]]:
    gateways = []

    def start(**limits: Any) -> Gateway:
        gateway = Gateway(echo.app, 0, Limits(**limits))
        echo.app.websocket_api.session = gateway.session()
        gateway.start()
        gateways.append(gateway)
        return gateway

    yield start
    for gateway in gateways:
        gateway.stop()


@pytest.fixture
def gateway(serve: Callable[..., Gateway]) -> Gateway:
    return serve()


def management(gateway: Gateway) -> Any:
    return gateway.session().client("apigatewaymanagementapi", endpoint_url="https://ignored")


def close_code(client: ClientConnection) -> int | None:
    """Read until the server closes, and return its close code."""
    try:
        while True:
            client.recv(timeout=PATIENCE)
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else None


def raw_client(gateway: Gateway) -> socket.socket:
    """A raw socket that has sent its handshake."""
    host, port = gateway.url.removeprefix("ws://").split(":")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(PATIENCE)
    client.connect((host, int(port)))
    client.sendall(
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    return client


def reset(client: socket.socket) -> None:
    """End a TCP connection with RST, without a closing handshake or FIN."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def test_a_message_reaches_the_handler_and_its_response_the_client(gateway: Gateway, echo: Echo) -> None:
    with connect(gateway.url) as client:
        client.send("hällo")
        assert client.recv(timeout=PATIENCE) == "hällo"
    event = echo.handled.get(timeout=PATIENCE)
    context = event["requestContext"]
    assert (context["routeKey"], context["eventType"]) == ("$default", "MESSAGE")
    assert context["messageId"]
    assert event["body"] == "hällo"
    assert event["isBase64Encoded"] is False


def test_connect_sees_the_query_string_and_the_headers(gateway: Gateway, echo: Echo) -> None:
    before = int(time.time() * 1000)
    headers = [("X-Color", "red"), ("X-Color", "blue")]
    with connect(f"{gateway.url}/local?lobby=a%20b&tag=1&tag=2&empty=", additional_headers=headers):
        event = echo.connected.get(timeout=PATIENCE)
        context = event["requestContext"]
    assert event["queryStringParameters"] == {"lobby": "a b", "tag": "2", "empty": ""}
    assert event["multiValueQueryStringParameters"]["tag"] == ["1", "2"]
    assert event["headers"]["X-Color"] == "blue"
    assert event["multiValueHeaders"]["X-Color"] == ["red", "blue"]
    assert (context["routeKey"], context["eventType"]) == ("$connect", "CONNECT")
    assert len(context["connectionId"]) == 16
    assert context["connectionId"].endswith("=")
    assert context["identity"]["sourceIp"] == "127.0.0.1"
    assert before <= context["connectedAt"] <= context["requestTimeEpoch"] <= time.time() * 1000
    assert {"domainName", "stage", "apiId", "requestId"} <= context.keys()


def test_a_post_during_its_own_connect_is_gone(gateway: Gateway, echo: Echo) -> None:
    gone: list[bool] = []
    echo.on_connect = lambda connection_id: gone.append(echo.is_gone(connection_id))
    with connect(gateway.url) as client:
        assert gone == [True]
        client.send("now it is open")
        assert client.recv(timeout=PATIENCE) == "now it is open"


def test_a_refused_connect_fails_the_handshake_with_its_status(gateway: Gateway, echo: Echo) -> None:
    echo.on_connect = lambda connection_id: {"statusCode": 403}
    with pytest.raises(InvalidStatus) as refused:
        connect(gateway.url)
    assert refused.value.response.status_code == 403
    gateway.stop()
    assert echo.disconnected.empty()


def test_a_raising_connect_fails_the_handshake_with_502(gateway: Gateway, echo: Echo) -> None:
    echo.on_connect = lambda connection_id: next(iter(()))
    with pytest.raises(InvalidStatus) as refused:
        connect(gateway.url)
    assert refused.value.response.status_code == 502
    gateway.stop()
    assert echo.disconnected.empty()


def test_a_plain_http_request_never_reaches_connect(gateway: Gateway, echo: Echo) -> None:
    host, port = gateway.url.removeprefix("ws://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 426 ")
    assert echo.connected.empty()


@pytest.mark.parametrize("order", ["fail", "exit"])
def test_a_raising_handler_is_logged_and_keeps_the_connection(
    order: str, gateway: Gateway, echo: Echo, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="hubbub.local"), connect(gateway.url) as client:
        client.send(order)
        answer = json.loads(client.recv(timeout=PATIENCE))
        assert answer.pop("requestId")
        assert answer == {"message": "Internal server error", "connectionId": echo.connection_id()}
        client.send("still here")
        assert client.recv(timeout=PATIENCE) == "still here"
    [record] = caplog.records
    assert record.exc_info


def test_disconnect_runs_once_when_the_client_closes(gateway: Gateway, echo: Echo) -> None:
    with connect(gateway.url) as client:
        client.close(4000, "enough")
    event = echo.disconnected.get(timeout=PATIENCE)
    context = event["requestContext"]
    assert (context["routeKey"], context["eventType"]) == ("$disconnect", "DISCONNECT")
    assert (context["disconnectStatusCode"], context["disconnectReason"]) == (4000, "enough")
    assert context["connectionId"] == echo.connection_id()
    gateway.stop()
    assert echo.disconnected.empty()


def test_disconnect_runs_once_when_the_network_drops(gateway: Gateway, echo: Echo) -> None:
    client = raw_client(gateway)
    assert client.recv(4096).startswith(b"HTTP/1.1 101 ")
    reset(client)
    assert echo.disconnect() == (1006, echo.connection_id())
    gateway.stop()
    assert echo.disconnected.empty()


def test_disconnect_runs_once_when_the_connection_is_deleted(gateway: Gateway, echo: Echo) -> None:
    with connect(gateway.url) as client:
        connection_id = echo.connection_id()
        echo.app.websocket_api.close(connection_id)
        assert echo.is_gone(connection_id)
        assert close_code(client) == 1000
    assert echo.disconnect() == (1000, connection_id)
    gateway.stop()
    assert echo.disconnected.empty()


def test_a_connection_may_be_closed_with_a_code_and_a_reason(gateway: Gateway, echo: Echo) -> None:
    with connect(gateway.url) as client:
        id = echo.connection_id()
        management(gateway).close_connection(ConnectionId=id, Code=4008, Reason="as told")
        assert close_code(client) == 4008
    assert echo.disconnect() == (4008, id)


def test_a_message_has_the_time_at_which_it_arrived_however_late_it_is_handled(
    gateway: Gateway, echo: Echo
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        may_end.wait(PATIENCE)

    echo.on_wait = wait
    with connect(gateway.url) as client:
        client.send("wait")
        assert begun.wait(PATIENCE)
        id, calls = echo.connection_id(), management(gateway)
        before = calls.get_connection(ConnectionId=id)["LastActiveAt"]
        client.send("later")
        until(lambda: calls.get_connection(ConnectionId=id)["LastActiveAt"] > before, "it has arrived")
        arrived = time.time()
        until(lambda: time.time() > arrived + 0.01, "the clock goes on")
        may_end.set()
        echo.handled.get(timeout=PATIENCE)
        context = echo.handled.get(timeout=PATIENCE)["requestContext"]
    assert context["requestTimeEpoch"] <= arrived * 1000


def test_an_idle_connection_is_closed_though_its_client_pings(
    serve: Callable[..., Gateway], echo: Echo
) -> None:
    gateway = serve(idle_seconds=0.2)
    with connect(gateway.url, ping_interval=0.05) as client:
        assert close_code(client) == 1001
    assert echo.disconnect() == (1001, echo.connection_id())
    gateway.stop()
    assert echo.disconnected.empty()


def test_a_busy_connection_is_closed_after_its_maximum_duration(
    serve: Callable[..., Gateway], echo: Echo
) -> None:
    gateway = serve(duration_seconds=0.2)
    with connect(gateway.url) as client:
        with suppress(ConnectionClosed):
            while True:
                client.send("still here")
                client.recv(timeout=PATIENCE)
        assert close_code(client) == 1001
    assert echo.disconnect() == (1001, echo.connection_id())
    gateway.stop()
    assert echo.disconnected.empty()


def test_disconnect_waits_for_the_last_message_and_its_posts_fail(gateway: Gateway, echo: Echo) -> None:
    waiting, resume = threading.Event(), threading.Event()
    order: list[str] = []

    def wait() -> None:
        waiting.set()
        assert resume.wait(PATIENCE)
        order.append("message")

    def note(connection_id: str) -> None:
        order.extend(["disconnect", "gone" if echo.is_gone(connection_id) else "open"])

    echo.on_wait, echo.on_disconnect = wait, note
    with connect(gateway.url) as client:
        client.send("wait")
        assert waiting.wait(PATIENCE)
    assert echo.is_gone(echo.connection_id())
    resume.set()
    echo.disconnect()
    assert order == ["message", "disconnect", "gone"]


def test_a_client_that_leaves_during_connect_is_disconnected_too(gateway: Gateway, echo: Echo) -> None:
    connecting, resume = threading.Event(), threading.Event()

    def wait(connection_id: str) -> None:
        connecting.set()
        assert resume.wait(PATIENCE)

    echo.on_connect = wait
    client = raw_client(gateway)
    assert connecting.wait(PATIENCE)
    reset(client)
    resume.set()
    assert echo.disconnect() == (1006, echo.connection_id())


def test_a_closed_or_unknown_connection_is_gone(gateway: Gateway, echo: Echo) -> None:
    with connect(gateway.url):
        connection_id = echo.connection_id()
    echo.disconnect()
    api = management(gateway)
    for name, arguments in [
        ("post_to_connection", {"Data": b"hello"}),
        ("get_connection", {}),
        ("delete_connection", {}),
    ]:
        for gone in (connection_id, "L0SM9cOFvHcCIhw="):
            with pytest.raises(api.exceptions.GoneException) as raised:
                getattr(api, name)(ConnectionId=gone, **arguments)
            assert isinstance(raised.value, ClientError)
            assert raised.value.response["Error"]["Code"] == "GoneException"
            assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 410
    with pytest.raises(WebsocketDisconnectedError) as disconnected:
        echo.send(connection_id, "hello")
    assert disconnected.value.connection_id == connection_id


def test_a_post_over_the_limit_is_too_large(gateway: Gateway, echo: Echo) -> None:
    api = management(gateway)
    with connect(gateway.url) as client:
        connection_id = echo.connection_id()
        with pytest.raises(api.exceptions.PayloadTooLargeException) as raised:
            api.post_to_connection(ConnectionId=connection_id, Data="ä" * (64 * 1024) + "!")
        assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 413
        api.post_to_connection(ConnectionId=connection_id, Data=b"x" * 128 * 1024)
        assert client.recv(timeout=PATIENCE) == "x" * 128 * 1024


def test_a_frame_over_the_limit_closes_with_1009(gateway: Gateway, echo: Echo) -> None:
    with connect(gateway.url) as client:
        client.send("x" * 32 * 1024)
        assert client.recv(timeout=PATIENCE) == "x" * 32 * 1024
        client.send("x" * (32 * 1024 + 1))
        assert close_code(client) == 1009
    assert echo.disconnect() == (1009, echo.connection_id())


def test_a_message_over_the_limit_closes_with_1009(gateway: Gateway, echo: Echo) -> None:
    frame = "x" * 32 * 1024
    with connect(gateway.url) as client:
        client.send([frame] * 4)
        assert client.recv(timeout=PATIENCE) == frame * 4
        with suppress(ConnectionClosed):  # the gateway may close before all of it is sent
            client.send([*[frame] * 4, "!"])
        assert close_code(client) == 1009
    assert echo.disconnect() == (1009, echo.connection_id())


def test_a_binary_frame_closes_with_1003(gateway: Gateway, echo: Echo) -> None:
    with connect(gateway.url) as client:
        client.send(b"hello")
        assert close_code(client) == 1003
    assert echo.disconnect() == (1003, echo.connection_id())
    assert echo.handled.empty()


def test_posts_arrive_in_the_order_they_are_made(gateway: Gateway, echo: Echo) -> None:
    with connect(gateway.url) as client:
        connection_id = echo.connection_id()
        with ThreadPoolExecutor(1) as poster:
            for n in range(500):
                poster.submit(echo.send, connection_id, str(n))
            assert [client.recv(timeout=PATIENCE) for _ in range(500)] == [str(n) for n in range(500)]


def test_messages_of_a_connection_are_handled_in_order(gateway: Gateway, echo: Echo) -> None:
    with connect(gateway.url) as client:
        for n in range(200):
            client.send(str(n))
        assert [client.recv(timeout=PATIENCE) for _ in range(200)] == [str(n) for n in range(200)]


def test_a_peer_that_does_not_read_is_disconnected(serve: Callable[..., Gateway], echo: Echo) -> None:
    gateway = serve(patience_seconds=0.2)
    client = raw_client(gateway)
    assert client.recv(4096).startswith(b"HTTP/1.1 101 ")
    connection_id = echo.connection_id()
    posted = 0
    while not echo.is_gone(connection_id, "x" * 100_000):
        posted += 1
    assert posted
    assert echo.disconnect() == (1006, connection_id)
    reset(client)


def test_stop_closes_the_connections_and_leaves_no_thread(serve: Callable[..., Gateway], echo: Echo) -> None:
    before = set(threading.enumerate())
    gateway = serve()
    with connect(gateway.url) as first, connect(gateway.url) as second:
        ids = {echo.connection_id(), echo.connection_id()}
        gateway.stop()
        assert (close_code(first), close_code(second)) == (1001, 1001)
    assert {echo.disconnect(), echo.disconnect()} == {(1001, connection_id) for connection_id in ids}
    until(lambda: set(threading.enumerate()) <= before, "every thread has ended")  # the clients' own as well
    assert all(echo.is_gone(connection_id) for connection_id in ids)
    with pytest.raises(ConnectionRefusedError):
        connect(gateway.url)


def test_stop_does_not_wait_for_a_peer_that_does_not_read(serve: Callable[..., Gateway], echo: Echo) -> None:
    gateway = serve(patience_seconds=0.2)
    client = raw_client(gateway)
    assert client.recv(4096).startswith(b"HTTP/1.1 101 ")
    gateway.stop()
    assert echo.disconnect() == (1001, echo.connection_id())
    reset(client)
