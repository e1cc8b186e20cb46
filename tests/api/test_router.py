"""The router: decoded arguments, and one form of responses, errors, headers and log lines."""

from __future__ import annotations

import base64
import io
import json
import logging
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Annotated, Any

import pytest
from chalice.app import AuthResponse, Chalice
from chalice.config import Config
from chalice.local import LocalGateway
from chalice.test import Client
from msgspec import Meta

import app as hubbub
from chalicelib import settings
from chalicelib.api import auth, rates
from chalicelib.api import router as routing
from chalicelib.api.auth import Caller
from chalicelib.api.router import KB, MAX_BODY, Response, Router
from chalicelib.api.schemas import Identifier, Schema
from chalicelib.errors import Busy, HubbubError, NotFound, SlowDown
from chalicelib.telemetry import logs
from local.rest import Rest
from tests.support.site import Site

STAGE = settings.current()


class Unacceptable(HubbubError):
    """The request is well-formed, but its content is impossible."""

    STATUS_CODE = 422


class ThingPath(Schema):
    thing: Identifier


class PairPath(Schema):
    thing: Identifier
    part_id: Identifier


class ListQuery(Schema):
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    around: Identifier | None = None


class Body(Schema):
    name: Identifier
    score: float = 0


class HuntPath(Schema):
    hunt: Identifier
    path: str


class Echo(Schema):
    it: Any


class Log:
    """The log: the lines of the app's own logger, and the text of all loggers."""

    def __init__(self) -> None:
        self._lines = io.StringIO()
        self._all = io.StringIO()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._lines.getvalue().splitlines()]

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["message"] == "request"]

    @property
    def text(self) -> str:
        return self._lines.getvalue() + self._all.getvalue()


@contextmanager
def listening() -> Iterator[Log]:
    """Capture every logger at DEBUG."""
    log, ours, root = Log(), logging.getLogger(logs.logger().name), logging.getLogger()
    mine = logging.StreamHandler(log._lines)
    mine.setFormatter(logs.logger().registered_formatter)
    everything = logging.StreamHandler(log._all)
    levels = ours.level, root.level
    ours.setLevel("DEBUG")
    ours.addHandler(mine)
    root.setLevel("DEBUG")
    root.addHandler(everything)
    try:
        yield log
    finally:
        ours.removeHandler(mine)
        root.removeHandler(everything)
        ours.setLevel(levels[0])
        root.setLevel(levels[1])


def made(*origins: str, stage: settings.Settings = STAGE) -> Chalice:
    """Build an app with a router and a route of each kind."""
    app = Chalice("made", configure_logs=False)
    router = Router(app, origins or ("*",))
    app.api.cors = router.cors()

    @app.authorizer(ttl_seconds=300)
    def identify(request: Any) -> AuthResponse:
        context = auth.authenticate(stage, request.token)
        return AuthResponse(["*"], context.get("sub", "nobody"), context)

    router.authorizer = identify

    @router.route("GET /things/{thing}")
    def get_thing(path: ThingPath) -> Echo:
        return Echo(it=path.thing)

    @router.route("GET /things/{thing}/parts/{partId}")
    def get_part(path: PairPath) -> Echo:
        return Echo(it=[path.thing, path.part_id])

    @router.route("GET /things")
    def get_things(query: ListQuery) -> Echo:
        return Echo(it=[query.limit, query.around])

    @router.route("POST /things", status=(202, 200), body=routing.Body(MAX_BODY))
    def post_things(body: Body, idempotency_key: str | None) -> Any:
        return Response(Echo(it=[body.name, body.score, idempotency_key]), headers={"ETag": '"1"'})

    @router.route("DELETE /things", status=204, access="user")
    def delete_things(caller: Caller) -> None: ...

    @router.route("DELETE /hunts/{hunt}/paths/{path}", status=204, access="admin")
    def delete_path(path: HuntPath) -> None:
        if path.hunt == "missing":
            raise NotFound("hunt: there is none")

    @router.route("GET /secrets", access="admin")
    def get_secrets(caller: Caller) -> Echo:
        return Echo(it=caller.sub)

    @router.route("POST /errors/{thing}", body=routing.Body(KB))
    def post_error(path: ThingPath, body: Body, headers: Mapping[str, str]) -> Echo:
        found: dict[str, Exception] = {
            "missing": NotFound("thing: there is none"),
            "odd": Unacceptable("name: not this one"),
            "busy": Busy("Try again in a moment."),
            "fast": SlowDown("name: at most 1 a minute", retry_after=41.2),
            "soon": SlowDown("name: at most 9 a second", retry_after=0.01),
            "bug": RuntimeError(f"cannot use {body.name}"),
            "unwritable": RuntimeError(),
        }
        if path.thing == "unwritable":
            return Echo(it=object())
        raise found[path.thing]

    return app


JSON = {"content-type": "application/json"}


def call(
    app: Chalice, method: str, path: str, body: Any = b"", **headers: str
) -> tuple[int, Any, dict[str, str]]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = JSON | {name.replace("_", "-"): value for name, value in headers.items()}
    with Client(app) as client:
        answer = client.http.request(method, path, headers=sent, body=raw)
    text = answer.body.decode()
    return answer.status_code, json.loads(text) if text[:1] in ("{", "[") else text, answer.headers


# -- path parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "arrives"),
    [
        ("a%2Fb", "a/b"),
        ("%252F", "%2F"),
        ("a+b", "a+b"),
        ("👍🏽🇩🇪", "👍🏽🇩🇪"),
        ("e%CC%81", "é"),
        ("null", "null"),
    ],
)
def test_a_path_parameter_is_decoded(raw: str, arrives: str) -> None:
    assert call(made(), "GET", f"/things/{raw}")[:2] == (200, {"it": arrives})
    assert call(made(), "GET", f"/things/x/parts/{raw}")[:2] == (200, {"it": ["x", arrives]})


@pytest.mark.parametrize(
    "raw",
    [
        *("%23", "%20", "%00", "%E2%80%AE", "a" * 129),
        *("%", "%2", "a%zz", "%FF", "%ED%A0%80", "%C0%AF", "%F0%9F%98", "%%32%35"),  # not UTF-8
    ],
)
def test_a_path_parameter_that_is_not_an_identifier_is_400_and_named(raw: str) -> None:
    status, answer, _ = call(made(), "GET", f"/things/x/parts/{raw}")
    assert (status, answer["code"]) == (400, "BadRequest")
    assert answer["message"].startswith("`partId` ")


def test_an_unquoted_path_parameter_in_an_event_is_never_500() -> None:
    for raw in ("\ud800", "\0", "#", "", " "):
        status, answer, _ = raw_call(made(), "GET", "/things/{thing}", path={"thing": raw})
        assert (status, answer["code"]) == (400, "BadRequest")
        assert answer["message"].startswith("`thing` ")


# -- query, body, headers ------------------------------------------------------------------------------


def test_a_query_is_decoded_to_its_types_and_nfc() -> None:
    assert call(made(), "GET", "/things")[1] == {"it": [10, None]}
    assert call(made(), "GET", "/things?limit=7&around=e%CC%81")[1] == {"it": [7, "é"]}


@pytest.mark.parametrize(
    ("query", "field"),
    [("limit=0", "limit"), ("limit=1&limit=2", "limit"), ("around=a%23b", "around")],
)
def test_a_malformed_query_is_400_and_names_the_field(query: str, field: str) -> None:
    status, answer, _ = call(made(), "GET", f"/things?{query}")
    assert (status, answer["code"]) == (400, "BadRequest")
    assert answer["message"].startswith(f"`{field}` ")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "The body"),
        (b'{"name":"a","name":"b"}', "The body"),
        (b'{"name":"a","score":1e400}', "`score`"),
        (b'{"name":"a#b"}', "`name`"),
        (b"7", "The body"),
    ],
)
def test_a_malformed_body_is_400_and_names_the_field(body: bytes, field: str) -> None:
    status, answer, _ = call(made(), "POST", "/things", body)
    assert (status, answer["code"]) == (400, "BadRequest")
    assert answer["message"].startswith(f"{field} ")
    assert len(answer["message"]) < 300


BODIES = [route for route in hubbub.router.routes if "body" in route.arguments]


def invoke(route: Any, body: str, caller: str, *, is_base64: bool = False) -> tuple[int, str]:
    """Send a body as API Gateway passes it. Return the status and the response's text."""
    context: dict[str, Any] = {"resourcePath": route.path, "httpMethod": route.method}
    context["identity"] = {"sourceIp": "192.0.2.1"}
    token = (
        ""
        if caller == "nobody"
        else auth.mint(STAGE, caller, scope="admin", claims={"guest": caller == "guest"})
    )
    context["authorizer"] = auth.authenticate(STAGE, f"Bearer {token}")
    names = re.findall("{(.*?)}", route.path)
    headers = {"content-type": route.body.types[-1], "authorization": f"Bearer {token}"}
    event = {
        "resource": route.path,
        "path": route.path,
        "httpMethod": route.method,
        "headers": headers,
        "multiValueHeaders": {name: [value] for name, value in headers.items()},
        "multiValueQueryStringParameters": None,
        "pathParameters": dict.fromkeys(names, "01KAJQF8G0Z9M4T3V7C2X5N8QR") if names else None,
        "stageVariables": None,
        "body": base64.b64encode(body.encode()).decode() if is_base64 else body,
        "isBase64Encoded": is_base64,
        "requestContext": context,
    }
    result = hubbub.app(event, None)
    return result["statusCode"], result["body"]


@pytest.mark.security
@pytest.mark.parametrize("is_base64", [False, True], ids=["text", "base64"])
@pytest.mark.parametrize("route", BODIES, ids=lambda route: route.name)
def test_a_body_may_have_as_many_bytes_as_its_route_says(route: Any, is_base64: bool) -> None:
    limits = {"admin": route.body.max_bytes}
    if route.access == "public":
        limits |= dict.fromkeys(("nobody", "guest"), route.body.limit(Caller("")))
    for caller, limit in limits.items():
        status, text = invoke(route, "[" + " " * (limit - 1), caller, is_base64=is_base64)
        assert (status, json.loads(text)["code"]) == (400, "BadRequest"), "it is read, and it is not JSON"
        status, text = invoke(route, "[" + " " * limit, caller, is_base64=is_base64)
        assert (status, json.loads(text)["code"]) == (413, "TooLarge")
        assert f"The body must be at most {limit:,} bytes, and has {limit + 1:,}" in text


def test_the_longest_valid_text_is_below_the_limit_of_its_body() -> None:
    """Each letter above U+FFFF has 12 bytes where it is escaped."""
    letter = json.dumps("🦉")[1:-1]
    for name, fields in {
        "post_guest": ["name"] * 60,
        "put_board": ["title"] * 200 + ["unit"] * 40,
        "post_score": ["id", "player"] * 60,
        "post_challenge_path": ["path"] * 200,
        "post_comment": ["text"] * 5_000,
        "patch_comment": ["text"] * 5_000,
        "post_reply": ["text"] * 5_000,
        "patch_reply": ["text"] * 5_000,
    }.items():
        [route] = [route for route in BODIES if route.name == name]
        assert len(fields) * len(letter) + KB <= route.body.max_bytes, name
    event = {"url": "x" * 1_500, "referrer": "x" * 1_500, "clientId": "x" * 128, "campaign": "🦉" * 100}
    [views] = [route for route in BODIES if route.name == "post_views"]
    events = [event | {"time": "2026-11-21T10:00:00.000000+00:00"}] * 25
    assert len(json.dumps({"events": events})) <= views.body.limit(Caller(""))


def test_a_route_with_a_body_must_state_its_limit() -> None:
    router = Router(Chalice("made", configure_logs=False))
    with pytest.raises(ValueError, match="POST /things: the `body`"):

        @router.route("POST /things")
        def post_things(body: Body) -> None: ...


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/xml", "", "json", "application/json2", "multipart/form-data; boundary=x"],
)
def test_a_body_of_another_type_is_415(kind: str) -> None:
    status, answer, _ = call(made(), "POST", "/things", {"name": "a"}, content_type=kind)
    assert (status, answer["code"]) == (415, "UnsupportedMediaType")
    assert answer["message"] == "`Content-Type` must be application/json"


def test_a_method_that_a_path_does_not_accept_is_405_with_those_that_it_accepts() -> None:
    status, answer, _ = call(made(), "PUT", "/secrets")
    message = "This path accepts GET, not PUT."
    assert (status, answer) == (405, {"code": "MethodNotAllowed", "message": message})


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_the_content_type_may_have_a_charset_and_any_case(kind: str) -> None:
    assert call(made(), "POST", "/things", {"name": "a"}, content_type=kind)[0] == 202


def test_an_idempotency_key_is_optional_and_reaches_the_handler() -> None:
    assert call(made(), "POST", "/things", {"name": "a"})[1]["it"][2] is None
    for key in ("a", "!~", "x" * 128, "3f1c-4b"):
        assert call(made(), "POST", "/things", {"name": "a"}, Idempotency_Key=key)[1]["it"][2] == key


@pytest.mark.parametrize("key", ["", " ", "a b", "a\tb", "é", "x" * 129, "a\n"])
def test_a_malformed_idempotency_key_is_400_and_named(key: str) -> None:
    status, answer, _ = call(made(), "POST", "/things", {"name": "a"}, Idempotency_Key=key)
    assert (status, answer["code"]) == (400, "BadRequest")
    assert answer["message"].startswith("`Idempotency-Key` ")


# -- answers -------------------------------------------------------------------------------------------

ADMIN = "Bearer " + auth.mint(STAGE, "admin-1", scope="admin", seconds=86_400)
USER = "Bearer " + auth.mint(STAGE, "user-1", seconds=86_400)
NAME = {"name": "Zaphod"}

# Each status that the app itself answers, its code, and a request for it.
STATUSES: list[tuple[int, str | None, str, str, Any, dict[str, str]]] = [
    (200, None, "GET", "/things?around=Zaphod", b"", {}),
    (200, None, "GET", "/secrets", b"", {"authorization": ADMIN}),
    (202, None, "POST", "/things", NAME, {}),
    (204, None, "DELETE", "/things", b"", {"authorization": USER}),
    (400, "BadRequest", "POST", "/things", b'{"name":"Zaphod#"}', {}),
    (401, "Unauthorized", "GET", "/secrets", b"", {"authorization": "Bearer Zaphod"}),
    (403, "Forbidden", "GET", "/secrets", b"", {"authorization": USER}),
    (404, "NotFound", "POST", "/errors/missing", NAME, {}),
    (405, "MethodNotAllowed", "PUT", "/things", b"", {}),
    (413, "TooLarge", "POST", "/things", b"Zaphod" * 200_000, {}),
    (415, "UnsupportedMediaType", "POST", "/things", b"Zaphod", {"content-type": "text/css"}),
    (422, "Unacceptable", "POST", "/errors/odd", NAME, {}),
    (429, "SlowDown", "POST", "/errors/fast", NAME, {}),
    (500, "InternalError", "POST", "/errors/bug", NAME, {}),
    (500, "InternalError", "POST", "/errors/unwritable", NAME, {}),
    (503, "Busy", "POST", "/errors/busy", NAME, {}),
]


@pytest.mark.parametrize(
    ("status", "code", "method", "path", "body", "headers"),
    STATUSES,
    ids=[f"{error[0]}-{error[3].split('/')[-1][:10]}" for error in STATUSES],
)
def test_every_response_has_its_headers_and_a_log_line_with_the_same_id(
    status: int, code: str | None, method: str, path: str, body: Any, headers: dict[str, str]
) -> None:
    origin = {"origin": "https://b.example"}
    with listening() as log:
        found, answer, got = call(
            made("https://a.example", "https://b.example"), method, path, body, **headers, **origin
        )
    assert found == status
    if code:
        assert set(answer) == {"code", "message"}
        assert answer["code"] == code
    assert got["Access-Control-Allow-Origin"] == "https://b.example"
    assert got["Vary"] == "Origin"
    assert "X-Request-Id" in got["Access-Control-Expose-Headers"]
    assert got["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'none'" in got["Content-Security-Policy"]
    assert got["Referrer-Policy"] == "no-referrer"
    assert got["Cache-Control"] == "no-store"
    assert got["Strict-Transport-Security"]
    assert got["Content-Type"].startswith("application/json")
    assert not {"Server", "X-Powered-By"} & got.keys()
    assert ("Retry-After" in got) == (status in (429, 503))
    [line] = log.requests
    assert line["request_id"] == got["X-Request-Id"] != ""
    assert line["call"] == f"{method} " + ("/errors/{thing}" if "errors" in path else path.partition("?")[0])
    assert line["status"] == status
    assert "Zaphod" not in log.text
    assert "127.0.0.1" not in log.text
    assert "eyJ" not in log.text


def test_a_write_of_an_admin_is_logged_with_a_digest_of_its_subject() -> None:
    app = made()
    with listening() as log:
        assert call(app, "DELETE", "/hunts/h%C3%BC/paths/the%20answer", authorization=ADMIN)[0] == 204
        assert call(app, "DELETE", "/hunts/missing/paths/x", authorization=ADMIN)[0] == 404
        assert call(app, "DELETE", "/things", authorization=USER)[0] == 204
        assert call(app, "GET", "/secrets", authorization=ADMIN)[0] == 200
        assert call(app, "POST", "/things", NAME, authorization=ADMIN)[0] == 202
    [line] = [line for line in log.lines if line["message"] == "admin write"]
    digest = rates.digest_subject(settings.current(), "admin-1")
    assert (line["level"], line["admin"], line["status"]) == ("INFO", digest, 204)
    assert "admin-1" not in log.text
    assert (line["call"], line["target"]) == ("DELETE /hunts/{hunt}/paths/{path}", {"hunt": "hü"})
    assert line["request_id"] == log.requests[0]["request_id"] != ""
    assert "answer" not in log.text


def test_the_log_of_an_admins_write_does_not_name_the_player(site: Site) -> None:
    site.call("PUT", "/leaderboards/kart", {"title": "Kart"}, who="admin")
    score = {"id": "1", "value": 7, "player": "zaphod"}
    site.call("POST", "/leaderboards/kart/scores", score, who="admin")
    with listening() as log:
        removed = site.call("DELETE", "/leaderboards/kart/players/zaphod", who="admin")
    assert removed[0] == 204
    [line] = [line for line in log.lines if line["message"] == "admin write"]
    assert line["target"] == {"board": "kart"}
    assert "zaphod" not in json.dumps(log.lines)


def test_an_unexpected_error_is_500_without_internals_and_logged_with_its_request() -> None:
    with listening() as log:
        status, answer, got = call(made(), "POST", "/errors/bug", NAME)
    assert (status, answer) == (500, {"code": "InternalError", "message": "Internal error. Please retry."})
    [line] = [line for line in log.lines if line["level"] == "ERROR"]
    assert line["request_id"] == got["X-Request-Id"]
    assert (line["error"], line["call"]) == ("RuntimeError", "POST /errors/{thing}")
    assert "post_error" in line["where"][-1]


def test_retry_after_is_in_whole_seconds() -> None:
    waits = {
        name: call(made(), "POST", f"/errors/{name}", NAME)[2]["Retry-After"]
        for name in ("fast", "soon", "busy")
    }
    assert waits == {"fast": "42", "soon": "1", "busy": "1"}


def test_the_headers_of_a_response_are_not_overwritten() -> None:
    got = call(made(), "POST", "/things", NAME)[2]
    assert got["ETag"] == '"1"'
    assert call(made(), "PUT", "/things")[2]["Allow"] == "GET, POST, DELETE"


@pytest.mark.parametrize(
    ("origins", "asking", "allowed"),
    [
        (("*",), "https://a.example", "*"),
        (("*",), None, "*"),
        (("https://a.example",), "https://a.example", "https://a.example"),
        (("https://a.example",), "https://evil.example", None),
        (("https://a.example", "https://b.example"), "https://b.example", "https://b.example"),
        (("https://a.example", "https://b.example"), "https://b.example.evil.example", None),
        (("https://a.example", "https://b.example"), "null", None),
        (("https://a.example", "https://b.example"), None, None),
    ],
)
@pytest.mark.parametrize("path", ["/things", "/things?limit=0", "/secrets"])
def test_only_a_configured_origin_is_allowed(
    path: str, origins: tuple[str, ...], asking: str | None, allowed: str | None
) -> None:
    headers = {"authorization": "Bearer x"} | ({"origin": asking} if asking else {})
    got = call(made(*origins), "GET", path, **headers)[2]
    assert got.get("Access-Control-Allow-Origin") == allowed
    assert got.get("Vary") == (None if origins == ("*",) else "Origin")


@pytest.mark.parametrize(
    ("origins", "allowed"),
    [(("*",), "*"), (("https://a.example",), "https://a.example"), (("https://a", "https://b"), "*")],
)
def test_a_preflight_is_answered_by_the_gateway(origins: tuple[str, ...], allowed: str) -> None:
    gateway = LocalGateway(made(*origins), Config())
    answer = gateway.handle_request("OPTIONS", "/things", {"origin": "https://a.example"}, b"")
    got = answer["headers"]
    assert (answer["statusCode"], got["Access-Control-Allow-Origin"]) == (200, allowed)
    assert set(got["Access-Control-Allow-Methods"].split(",")) == {"GET", "POST", "DELETE", "OPTIONS"}
    wanted = {"Authorization", "Content-Type", "Idempotency-Key", "If-Match"}
    assert wanted <= set(got["Access-Control-Allow-Headers"].split(","))


# -- deployed, and on one machine ----------------------------------------------------------------------


class Context:
    """The context object that Lambda passes with an event."""

    aws_request_id = "lambda-1"


def raw_call(
    app: Chalice,
    method: str,
    resource: str,
    *,
    path: dict[str, str] | None = None,
    authorizer: Any = None,
    **more: Any,
) -> tuple[int, Any, dict[str, str]]:
    """Invoke the function as API Gateway does."""
    context: dict[str, Any] = {"httpMethod": method, "resourcePath": resource, "requestId": "gateway-1"}
    context |= {"identity": {"sourceIp": "203.0.113.9"}, "authorizer": authorizer}
    event = {
        "requestContext": context,
        "headers": {"X-Forwarded-For": "203.0.113.9"},
        "multiValueQueryStringParameters": None,
        "pathParameters": path,
        "stageVariables": None,
        "body": None,
    }
    answer = app(event | more, Context())
    return answer["statusCode"], json.loads(answer["body"] or "null"), answer["headers"]


def test_a_deployed_response_has_the_gateways_id_and_logs_hold_no_address() -> None:
    with listening() as log:
        status, answer, got = raw_call(made(), "GET", "/things/{thing}", path={"thing": "a%2Fb"})
    assert (status, answer, got["X-Request-Id"]) == (200, {"it": "a/b"}, "gateway-1")
    assert log.requests[0]["request_id"] == "gateway-1"
    assert "203.0.113.9" not in log.text


def test_a_query_or_body_with_half_of_a_surrogate_pair_in_an_event_is_400() -> None:
    half: Any = {"multiValueQueryStringParameters": {"around": ["\ud800"]}}
    assert raw_call(made(), "GET", "/things", **half)[0] == 400
    status, answer, _ = raw_call(made(), "POST", "/things", body='{"name":"\ud800"}')
    assert (status, answer["message"]) == (400, "The body must be UTF-8")


def fetch(url: str, **headers: str) -> tuple[int, Any, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
            return answer.status, json.loads(answer.read()), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read()), error.headers


def test_the_local_server_gives_the_same_responses_and_each_request_its_own_id() -> None:
    server = Rest(made(), 0)
    server.start()
    try:
        paths = [
            f"/things/{name}" for name in ("a%2Fb", "%F0%9F%98%80", "e%CC%81", "a%23b", "%ff", "x" * 128)
        ]
        for path in paths:
            assert fetch(server.url + path)[:2] == call(made(), "GET", path)[:2]
        for token in (USER, ADMIN, "Bearer x", "Basic x"):
            there = fetch(f"{server.url}/secrets", Authorization=token)[:2]
            assert there == call(made(), "GET", "/secrets", authorization=token)[:2]
        assert fetch(f"{server.url}/secrets")[:2][0] == 401
        with listening() as log, ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(fetch, [f"{server.url}/things/t{i}" for i in range(40)]))
        assert [answer["it"] for _, answer, _ in answers] == [f"t{i}" for i in range(40)]
        ids = {headers["X-Request-Id"] for *_, headers in answers}
        assert len(ids) == 40
        assert {line["request_id"] for line in log.requests} == ids
    finally:
        server.stop()
