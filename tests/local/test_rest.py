"""The local REST server follows HTTP for any request, and its errors have the contract's format."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest
from chalice.app import AuthResponse, Chalice, Response

from local.engines.engine import ROOT
from local.rest import LEAST_COMPRESSED, MAX_BODY_BYTES, Rest

Answer = tuple[int, dict[str, str], bytes]


class Slow:
    """A handler that runs until it is released."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.release = threading.Event()


SLOW = Slow()


def small_app() -> Chalice:
    app = Chalice("small")
    app.api.cors = True

    @app.authorizer()
    def identify(request: Any) -> AuthResponse:
        return AuthResponse(routes=["*"], principal_id="someone", context={"token": request.token})

    @app.route("/echo", methods=["POST", "PUT"], content_types=[])
    def echo() -> Response:
        request: Any = app.current_request
        return Response(request.raw_body.decode(errors="replace"), {"Content-Type": "text/plain"})

    @app.route("/items/{name}", methods=["GET"])
    def item(name: str) -> dict[str, Any]:
        request: Any = app.current_request
        return {"name": name, "query": (request.query_params or {}).get("q")}

    @app.route("/client", methods=["GET"])
    def client() -> dict[str, str]:
        request: Any = app.current_request
        return {"address": request.context["identity"]["sourceIp"]}

    @app.route("/private/{name}", methods=["GET"], authorizer=identify)
    def private(name: str) -> dict[str, str]:
        return {"name": name}

    @app.route("/nothing", methods=["DELETE"])
    def nothing() -> Response:
        return Response("", status_code=204)

    @app.route("/slow", methods=["GET"])
    def slow() -> dict[str, str]:
        SLOW.entered.set()
        SLOW.release.wait(10)
        return {"slow": "but sure"}

    @app.route("/broken", methods=["GET"])
    def broken() -> Any:
        raise RuntimeError("a bug")

    app.debug = False
    return app


@pytest.fixture(scope="module")
def server() -> Iterator[Rest]:
    running = Rest(small_app(), 0)
    running.start()
    yield running
    running.stop()


def address(server: Rest) -> tuple[str, int]:
    where = urlsplit(server.url)
    assert where.hostname
    assert where.port
    return where.hostname, where.port


def call(server: Rest, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    with closing(http.client.HTTPConnection(*address(server), timeout=60)) as connection:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, names)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()


def raw(server: Rest, request: bytes) -> bytes:
    """Send bytes, and return everything received until the server closes the connection."""
    with socket.create_connection(address(server), timeout=60) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


def refused(answer: bytes) -> tuple[int, str, str]:
    """Parse a response that is one error, and check its format."""
    head, _, body = answer.partition(b"\r\n\r\n")
    said = json.loads(body)
    assert set(said) == {"code", "message"}
    assert b"Content-Type: application/json" in head
    assert b"Connection: close" in head
    return int(head.split()[1]), said["code"], said["message"]


def test_a_chunked_body_is_assembled(server: Rest) -> None:
    assert call(server, "POST", "/echo", iter([b"one ", b"and ", b"two"]))[2] == b"one and two"


def test_chunks_may_have_extensions_and_trailers_and_the_connection_stays_open(server: Rest) -> None:
    chunked = b"POST /echo HTTP/1.1\r\nHost: [::1]\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b'3;a="b"\r\nabc\r\n0\r\nX: y\r\n\r\n'
    answer = raw(server, chunked + body + b"GET /items/next HTTP/1.1\r\nHost: [::1]\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert b"\r\n\r\nabc" in answer
    assert answer.endswith(b'{"name":"next","query":null}\n')


@pytest.mark.parametrize(
    ("headers", "body", "status", "code"),
    [
        ("Content-Length: many", "", 400, "BadRequest"),
        ("Content-Length: -1", "", 400, "BadRequest"),
        ("Content-Length: +1", "a", 400, "BadRequest"),
        ("Content-Length: 1_0", "a", 400, "BadRequest"),
        ("Content-Length: 1\r\nContent-Length: 2", "ab", 400, "BadRequest"),
        ("Content-Length: 5", "abc", 400, "BadRequest"),
        ("Content-Length: 3\r\nTransfer-Encoding: chunked", "0\r\n\r\n", 400, "BadRequest"),
        ("Content-Length: 10485761", "", 413, "TooLarge"),
        ("Content-Length: " + 5000 * "9", "", 413, "TooLarge"),
        ("Transfer-Encoding: gzip", "", 501, "NotImplemented"),
        ("Transfer-Encoding: chunked", "many\r\n", 400, "BadRequest"),
        ("Transfer-Encoding: chunked", "-1\r\n", 400, "BadRequest"),
        ("Transfer-Encoding: chunked", "3\r\nabcdef\r\n0\r\n\r\n", 400, "BadRequest"),
        ("Transfer-Encoding: chunked", "3\r\nab", 400, "BadRequest"),
        ("Transfer-Encoding: chunked", "A00001\r\n", 413, "TooLarge"),
        ("Transfer-Encoding: chunked", "1" + 9000 * " ", 400, "BadRequest"),
    ],
)
def test_a_malformed_body_is_refused(server: Rest, headers: str, body: str, status: int, code: str) -> None:
    request = f"POST /echo HTTP/1.1\r\nHost: [::1]\r\n{headers}\r\n\r\n{body}"
    assert refused(raw(server, request.encode()))[:2] == (status, code)


def test_a_larger_body_is_refused_to_a_client_that_sends_all_of_it(server: Rest) -> None:
    status, _, body = call(server, "POST", "/echo", b"x" * (2 * MAX_BODY_BYTES))
    assert (status, json.loads(body)["code"]) == (413, "TooLarge")


def test_a_client_that_expects_100_continue_does_not_send_a_refused_body(server: Rest) -> None:
    for length, expected in ((MAX_BODY_BYTES + 1, b"HTTP/1.1 413 "), (3, b"HTTP/1.1 100 Continue\r\n\r\n")):
        with socket.create_connection(address(server), timeout=60) as client:
            client.sendall(
                b"PUT /echo HTTP/1.1\r\nHost: [::1]\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
                % length
            )
            assert client.recv(65536).startswith(expected)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("nonsense", 400),
        ("GET / / HTTP/1.1", 400),
        ("GET / HTTP/nine", 400),
        ("GET / HTTP/9.9", 505),
        ("GET /" + 70_000 * "a" + " HTTP/1.1", 414),
    ],
)
def test_a_malformed_request_line_is_refused(server: Rest, request_line: str, status: int) -> None:
    assert refused(raw(server, f"{request_line}\r\nHost: [::1]\r\n\r\n".encode()))[0] == status


def test_too_many_headers_are_refused(server: Rest) -> None:
    headers = b"".join(b"X-%d: y\r\n" % i for i in range(200))
    assert refused(raw(server, b"GET /items/a HTTP/1.1\r\nHost: [::1]\r\n" + headers + b"\r\n"))[:2] == (
        431,
        "TooLarge",
    )


def test_the_client_has_the_address_from_which_it_connects(server: Rest) -> None:
    for source in ("127.0.0.1", "127.0.0.2"):
        connection = http.client.HTTPConnection(*address(server), timeout=60, source_address=(source, 0))
        with closing(connection):
            connection.request("GET", "/client", headers={"X-Forwarded-For": "203.0.113.9"})
            assert json.loads(connection.getresponse().read()) == {"address": source}


@pytest.mark.parametrize("method", ["TRACE", "QUERY", "BREW"])
def test_a_method_that_no_route_has_is_405(server: Rest, method: str) -> None:
    status, headers, body = call(server, method, "/echo")
    assert (status, headers["allow"]) == (405, "POST, PUT")
    assert json.loads(body)["Code"] == "MethodNotAllowedError"  # of Chalice, without a router
    assert call(server, method, "/nowhere")[0] == 404


def test_a_preflight_is_answered_on_every_route(server: Rest) -> None:
    for path in ("/echo", "/items/a", "/private/a", "/nothing"):
        asks = {"Origin": "http://localhost:5173", "Access-Control-Request-Method": "POST"}
        status, headers, body = call(server, "OPTIONS", path, **asks)
        assert (status, body) == (200, b"")
        assert headers["access-control-allow-origin"] == "http://localhost:5173"
        assert "Authorization" in headers["access-control-allow-headers"]
        assert "OPTIONS" in headers["access-control-allow-methods"]


def test_head_is_answered_without_a_body(server: Rest) -> None:
    requests = b"HEAD /items/a HTTP/1.1\r\nHost: [::1]\r\n\r\n" + b"HEAD / HTTP/1.1\r\nHost: [::1]\r\n\r\n"
    answer = raw(server, requests + b"GET /items/a HTTP/1.1\r\nHost: [::1]\r\n\r\n")
    assert answer.count(b"HTTP/1.1 ") == 3
    assert answer.count(b"{") == 1


@pytest.mark.parametrize(
    ("size", "accepted", "encoding"),
    [
        (LEAST_COMPRESSED, "br, gzip", "gzip"),
        (LEAST_COMPRESSED, "identity", None),
        (LEAST_COMPRESSED - 1, "gzip", None),
    ],
)
def test_a_long_response_is_compressed_for_a_client_that_accepts_it(
    server: Rest, size: int, accepted: str, encoding: str | None
) -> None:
    config = json.loads((ROOT / ".chalice" / "config.json").read_text())
    assert config["minimum_compression_size"] == LEAST_COMPRESSED
    _, headers, body = call(server, "POST", "/echo", "a" * size, Accept_Encoding=accepted)
    assert headers.get("content-encoding") == encoding
    assert (gzip.decompress(body) if encoding else body) == b"a" * size


def test_no_content_has_neither_length_nor_type(server: Rest) -> None:
    answer = raw(
        server,
        b"DELETE /nothing HTTP/1.1\r\nHost: [::1]\r\n\r\nGET /items/a HTTP/1.1\r\nHost: [::1]\r\n\r\n",
    )
    first, _, second = answer.partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 204 ")
    assert b"\r\nContent-" not in first
    assert second.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("path", ["/private/a", "/nowhere"])
def test_a_token_that_is_not_ascii_is_refused(server: Rest, path: str) -> None:
    answer = raw(server, f"GET {path} HTTP/1.1\r\nHost: [::1]\r\nAuthorization: Bearer é\r\n\r\n".encode())
    assert refused(answer) == (400, "BadRequest", "`Authorization` must be ASCII")


def test_200_connections_stay_open_at_once(server: Rest) -> None:
    connections = [http.client.HTTPConnection(*address(server), timeout=60) for _ in range(200)]
    together = threading.Barrier(200)

    def ask_twice(i: int) -> list[str]:
        names = []
        for _ in range(2):
            connections[i].request("GET", f"/items/{i}")
            names.append(json.loads(connections[i].getresponse().read())["name"])
            together.wait(20)
        return names

    with ThreadPoolExecutor(200) as pool:
        assert list(pool.map(ask_twice, range(200))) == [[str(i), str(i)] for i in range(200)]
    for connection in connections:
        connection.close()


def test_stopping_completes_running_requests_and_closes_idle_connections() -> None:
    server = Rest(small_app(), 0)
    server.start()
    with (
        closing(http.client.HTTPConnection(*address(server), timeout=60)) as idle,
        closing(http.client.HTTPConnection(*address(server), timeout=60)) as busy,
    ):
        idle.request("GET", "/items/a")
        idle.getresponse().read()
        busy.request("GET", "/slow")
        assert SLOW.entered.wait(10)
        stopping = threading.Thread(target=server.stop)
        begin = time.monotonic()
        stopping.start()
        assert idle.sock
        assert idle.sock.recv(1) == b""
        SLOW.release.set()
        assert json.loads(busy.getresponse().read()) == {"slow": "but sure"}
        stopping.join(10)
        assert time.monotonic() - begin < 5
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address(server))
