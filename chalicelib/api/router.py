"""The router registers handlers as routes, validates requests and builds responses.

    @router.route("GET /boards/{board}", errors=(NotFound,))
    def get_board(path: BoardPath, caller: Caller) -> Board:
        return boards.find(connect(), path.board)

The annotations of a handler declare its arguments:

| argument | value |
|---|---|
| `path`, `query`, `body` | the decoded part of the request, as a struct of the schemas |
| `caller` | the authenticated caller with its address; on a public route the caller may be anonymous |
| `headers` | the headers of the request |
| `idempotency_key` | the Idempotency-Key header, or None |
| `if_match` | the If-Match header, or None |

A handler returns a struct, or a `Response` to set the status or headers. An error of errors.py becomes its
status and `{"code", "message"}`. Any other exception is logged and becomes 500. `openapi.describe` builds the
OpenAPI document from `Router.routes`.
"""

import contextlib
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from types import UnionType
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import quote, unquote

import msgspec
from chalice.app import Chalice, CORSConfig
from chalice.app import Response as ChaliceResponse

from chalicelib import settings
from chalicelib.api import auth, codec, rates
from chalicelib.api.auth import Caller
from chalicelib.api.caching import ResponseCache
from chalicelib.dynamo import capacity
from chalicelib.errors import BadRequest, Forbidden, HubbubError, TooLarge, Unauthorized, UriTooLong
from chalicelib.feature import Feature
from chalicelib.telemetry import logs

T = TypeVar("T")
Access = Literal["public", "user", "admin"]

JSON, CSV = "application/json", "text/csv"
SERVICE = "service"  # the tag of the routes of no feature
NEXT_CURSOR = "X-Next-Cursor"  # the cursor of the next page of a list as CSV
KB = 1024
MAX_BODY = 1_000_000  # bytes, of any route
# API Gateway refuses a request to a method with an authorizer when the method's ARN is longer than 1,600
# bytes. The ARN ends in the path. The rest (partition, region, account, API, stage, method) has at most 100.
# Source: "Amazon API Gateway quotas", Method ARN length of a method with authorization.
MAX_AUTHORIZED_PATH = 1_500  # bytes, percent-encoded
UNLOGGED = ("player", "path", "author")
IDEMPOTENCY_KEY = re.compile("[!-~]{1,128}")
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Strict-Transport-Security": "max-age=31536000",
}
REPRESENTATION = {"Preference-Applied": "return=representation"}
# Chalice's own error codes, and the codes that clients see instead.
CODES = {"MethodNotAllowedError": "MethodNotAllowed", "InternalServerError": "InternalError"}


class Response(NamedTuple, Generic[T]):
    """A handler's result with a status or headers. The status must be one that the route declares."""

    body: T
    status: int | None = None
    headers: Mapping[str, str] = {}


def created(value: T, is_new: bool) -> Response[T]:
    """Build the response to a request that creates something (201), or finds that it exists (200)."""
    return Response(value, status=201 if is_new else 200)


class Body(NamedTuple):
    """The bytes that the body of a request may have, fewer for anonymous callers if stated, and its types."""

    max_bytes: int
    max_anonymous_bytes: int = 0
    types: tuple[str, ...] = (JSON,)

    def limit(self, caller: Caller) -> int:
        """Return how many bytes a caller's body may have. A guest counts as anonymous."""
        return self.max_bytes if caller.is_trusted else self.max_anonymous_bytes or self.max_bytes


class Media(NamedTuple):
    """The type of a response, whether it may be cached, and the encoders of its other types.

    An encoder gets the result of the handler and the parameters of the path.
    A cached response to a request without a token may be some seconds old (caching.py).
    """

    type: str = JSON
    is_cached: bool = False
    others: Mapping[str, Callable[[Any, Any], str]] = {}


NO_BODY = Body(0)
PLAIN, CACHED = Media(), Media(is_cached=True)
LD_JSON = "application/ld+json"
AS_CSV: Mapping[str, Callable[[Any, Any], str]] = {CSV: lambda found, _: codec.encode_csv(found)}
ROWS, CACHED_ROWS = Media(others=AS_CSV), Media(is_cached=True, others=AS_CSV)
HTML, TEXT = Media("text/html; charset=utf-8"), Media("text/plain")


class Route(NamedTuple):
    """A registered route, with everything that its OpenAPI description needs."""

    method: str
    path: str
    name: str
    access: Access
    statuses: tuple[int, ...]
    arguments: Mapping[str, Any]
    result: Any
    body: Body
    media: Media
    errors: tuple[type[HubbubError], ...]
    description: str
    tag: str

    @property
    def results(self) -> tuple[tuple[int, Any], ...]:
        """Return each status with the type of its body."""
        types = get_args(self.result) if get_origin(self.result) is UnionType else ()
        return tuple(zip(self.statuses, types or [self.result] * len(self.statuses), strict=True))

    @property
    def is_limited(self) -> bool:
        """Return whether each call counts for the limits of its sender: users write on this route."""
        return self.access == "user" and self.method != "GET"


class Router:
    """Registers routes on a Chalice app and completes every response of the app."""

    def __init__(
        self,
        app: Chalice,
        origins: tuple[str, ...] = ("*",),
        shows_capacity: bool = False,
        enabled: Iterable[Feature] = (),
        features: Iterable[Feature] = (),
    ):
        self.app = app
        self.origins = origins
        self.shows_capacity = shows_capacity
        self.enabled = tuple(enabled)
        self.features = {
            path: feature.name for feature in (*features, *self.enabled) for path in feature.paths
        }
        self.authorizer: Any = None
        self.limiter: Callable[[Caller], None] | None = None
        self.find_address: Callable[[Mapping[str, str], str], str] = lambda _, source: source
        self.cache = ResponseCache(0)
        self.routes: list[Route] = []
        app.register_middleware(self._finish, "http")

    def route(
        self,
        key: str,
        *,
        access: Access = "public",
        status: int | tuple[int, ...] = 200,
        body: Body = NO_BODY,
        media: Media = PLAIN,
        errors: tuple[type[HubbubError], ...] = (),
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a handler for a method and a path, such as `GET /views`.

        `access` is `public`, `user` or `admin`. The first `status` is the default. A handler whose result is
        a union has one status for each of its types, in their order. `errors` lists the handler's own errors.
        The errors that every route can return are added to the description.

        A path that belongs to a feature which is off is not registered, so it is 404.
        """
        method, path = key.split(" ")
        if not self.has(self.feature_of(path)):
            return lambda handler: handler
        statuses = status if isinstance(status, tuple) else (status,)

        def register(handler: Callable[..., Any]) -> Callable[..., Any]:
            arguments = get_type_hints(handler)
            if ("body" in arguments) != bool(body.max_bytes):
                raise ValueError(f"{key}: the `body` of a route belongs to an argument of its handler")
            result = arguments.pop("return", None)
            if get_origin(result) is Response:
                [result] = get_args(result)
            text = (handler.__doc__ or "").strip()
            name = handler.__name__
            first = path.split("/")[1]
            tag = first if first in self.features else SERVICE
            route = Route(
                method, path, name, access, statuses, arguments, result, body, media, errors, text, tag
            )
            self.routes.append(route)

            def view(**captured: str) -> ChaliceResponse:
                return self._serve(route, handler, captured)

            options = {"authorizer": self.authorizer} if access != "public" else {}
            types = list(body.types) if "body" in arguments else ["*/*"]
            self.app.route(path, methods=[method], name=name, content_types=types, **options)(view)
            return handler

        return register

    def feature_of(self, path: str) -> str:
        """Return the name of the feature that a path belongs to; empty for a path of none."""
        return self.features.get("".join(path.split("/")[1:2]), "")

    def has(self, feature: str) -> bool:
        """Return whether a feature is on. The one with an empty name always is."""
        return feature in {"", *(feature.name for feature in self.enabled)}

    def only(
        self, feature: str, register: Callable[[Any], Any], *, if_too: bool = True
    ) -> Callable[[Any], Any]:
        """Return a decorator that registers a handler if a feature is on, or leaves it as a function.

        `if_too` is another condition.
        """
        return register if if_too and self.has(feature) else lambda handler: handler

    def cors(self) -> CORSConfig:
        """Return the CORS configuration of the app.

        API Gateway can return only one origin, or any origin, in its response to a preflight request.
        """
        return CORSConfig(
            allow_origin=self.origins[0] if len(self.origins) == 1 else "*",
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "If-Match", "Prefer"],
            expose_headers=["ETag", "Retry-After", "X-Request-Id", NEXT_CURSOR]
            + [capacity.HEADER] * self.shows_capacity,
            max_age=600,
        )

    def _serve(
        self, route: Route, handler: Callable[..., Any], captured: Mapping[str, str]
    ) -> ChaliceResponse:
        """Call a handler, unless a cached response will do."""
        request: Any = self.app.current_request
        if not route.media.is_cached or not self.cache.seconds:
            return self._call(route, handler, captured)
        query: Any = request.query_params or {}
        key = (
            route.name,
            _choose_type(route, request.headers),
            tuple(sorted(captured.items())),
            tuple((name, *query.getlist(name)) for name in sorted(query)),
        )
        is_public = "authorization" not in request.headers
        if is_public and (kept := self.cache.find(key)):
            return ChaliceResponse(*kept, status_code=200)
        response = self._call(route, handler, captured)
        if response.status_code == 200:
            vary = [str(response.headers["Vary"])] if "Vary" in response.headers else []
            response.headers["Vary"] = ", ".join([*vary, "Authorization"])
            if is_public:
                response.headers.setdefault("Cache-Control", f"public, max-age={self.cache.seconds}")
                self.cache.keep(key, response.body, response.headers)
        return response

    def _call(
        self, route: Route, handler: Callable[..., Any], captured: Mapping[str, str]
    ) -> ChaliceResponse:
        """Authenticate the caller, decode the arguments, call the handler and encode its result."""
        request: Any = self.app.current_request
        try:
            _check_length(route, captured)
            _check_query(route, request.query_params)
            source = request.context.get("identity", {}).get("sourceIp", "")
            address = self.find_address(request.headers, source)
            caller = _authorize(route, request)._replace(address=address)
            limit = route.body.limit(caller)
            ready = {
                "caller": caller,
                "headers": request.headers,
                "if_match": request.headers.get("if-match"),
            }
            if "idempotency_key" in route.arguments:
                ready["idempotency_key"] = _read_idempotency_key(request.headers)
            arguments = {
                name: ready[name] if name in ready else _decode(name, kind, request, captured, limit)
                for name, kind in route.arguments.items()
            }
            if route.is_limited and self.limiter:
                self.limiter(caller)
            kind = _choose_type(route, request.headers)
            response = _encode(route, handler(**arguments), kind, arguments.get("path"))
            if caller.admin and route.access != "public" and route.method != "GET":
                _log_admin_write(route, request, caller, captured, response.status_code)
            return response
        except HubbubError as error:
            return _encode_error(error)
        except Exception as error:
            call = f"{route.method} {route.path}"
            logs.log_error("a call failed", error, request_id=_request_id(request), call=call)
            body = {"code": "InternalError", "message": "Internal error. Please retry."}
            return ChaliceResponse(body, status_code=500)

    def _finish(self, request: Any, handle: Callable[[Any], ChaliceResponse]) -> ChaliceResponse:
        """Add the common headers to every response, Chalice's own errors included, and log one line."""
        started = time.perf_counter()
        with capacity.count_units() as units:
            response = handle(request)
        context, request_id = request.context, _request_id(request)
        if isinstance(response.body, dict) and "Code" in response.body:  # Chalice's own error
            response.body = self._reword(response, context)
        cors = self._cors_headers(request)
        vary = ", ".join(str(headers["Vary"]) for headers in (response.headers, cors) if "Vary" in headers)
        headers = {
            "Content-Type": JSON,
            **SECURITY_HEADERS,
            **response.headers,
            **cors,
            "Vary": vary,
            "X-Request-Id": request_id,
            capacity.HEADER: str(units) if self.shows_capacity else "",
        }
        response.headers = {name: value for name, value in headers.items() if value}
        logs.logger().info(
            "request",
            extra={
                "request_id": request_id,
                "call": f"{context.get('httpMethod')} {context.get('resourcePath')}",
                "feature": self.feature_of(context.get("resourcePath") or "") or SERVICE,
                "status": response.status_code,
                "ms": round((time.perf_counter() - started) * 1000, 1),
            },
        )
        return response

    def _reword(self, response: ChaliceResponse, context: Mapping[str, Any]) -> dict[str, str]:
        """Return an error of Chalice as one of this interface, with what is accepted."""
        code, message = response.body["Code"], response.body["Message"]
        if response.status_code == 405:
            accepted = " and ".join(sorted(str(response.headers["Allow"]).split(", ")))
            message = f"This path accepts {accepted}, not {context['httpMethod']}."
        if response.status_code == 415:
            key = (context["httpMethod"], context["resourcePath"])
            types = next(route.body.types for route in self.routes if (route.method, route.path) == key)
            message = f"`Content-Type` must be {' or '.join(types)}"
        return {"code": CODES.get(code, code), "message": message}

    def _cors_headers(self, request: Any) -> dict[str, str]:
        """Return the CORS headers with the request's origin if it is allowed.

        They replace the single origin that Chalice sets.
        """
        headers: dict[str, str] = self.cors().get_access_control_headers()
        if "*" in self.origins:
            return headers | {"Access-Control-Allow-Origin": "*"}
        origin = request.headers.get("origin")
        allowed = origin if origin in self.origins else ""
        return headers | {"Access-Control-Allow-Origin": allowed, "Vary": "Origin"}


def _request_id(request: Any) -> str:
    """Return API Gateway's id of a request, or else Lambda's."""
    return str(request.context.get("requestId") or getattr(request.lambda_context, "aws_request_id", ""))


def _check_length(route: Route, captured: Mapping[str, str]) -> None:
    """Raise UriTooLong for a path that API Gateway would not pass to an authorizer."""
    if route.access == "public":
        return
    literal = re.sub("{.*?}", "", route.path)
    encoded = [quote(unquote(part), safe="", errors="replace") for part in captured.values()]
    size = len(literal) + sum(map(max, map(len, captured.values()), map(len, encoded)))
    if size > MAX_AUTHORIZED_PATH:
        raise UriTooLong(
            f"`path` must be at most {MAX_AUTHORIZED_PATH:,} bytes in percent-encoding, and has {size:,}"
        )


def _check_query(route: Route, query: Any) -> None:
    """Raise BadRequest for a query parameter that the call does not have. Files ignore their query."""
    if route.media.type not in (JSON, "image/svg+xml"):
        return
    fields = msgspec.structs.fields(route.arguments["query"]) if "query" in route.arguments else ()
    names = [field.encode_name for field in fields]
    for name in query or {}:
        if name not in names:
            accepted = f"accepts {', '.join(names)}" if names else "takes no query parameters"
            raise BadRequest(f"`{name[:40]}` is no query parameter of this call, which {accepted}")


def _authorize(route: Route, request: Any) -> Caller:
    """Return the caller of a request.

    API Gateway caches the authorizer's result. A cached refusal is checked again, because the token may be
    valid by now, or the keys readable again. A public route has no authorizer. If such a route takes a
    caller, the token of the request is checked here.

    Raises: Unauthorized, Forbidden.
    """
    caller = auth.read_context(request.context.get("authorizer"))
    token = request.headers.get("authorization", "")
    if not caller.sub and (route.access != "public" or ("caller" in route.arguments and token)):
        caller = auth.read_context(auth.authenticate(settings.current(), token))
    if route.access == "public":
        return caller
    if not caller.sub:
        problem = f"Send a valid bearer token: {caller.problem}." if caller.problem else ""
        raise Unauthorized(problem or "Send a bearer token.")
    if route.access == "admin" and not caller.admin:
        stage = settings.current()
        raise Forbidden(
            f"This call needs a token of an admin: its `{stage.admin_claim}` has `{stage.admin_value}`."
        )
    return caller


def _log_admin_write(
    route: Route, request: Any, admin: Caller, captured: Mapping[str, str], status: int
) -> None:
    """Log one line for a successful write by an admin, with a keyed digest of the admin's subject.

    Parameters in UNLOGGED are left out: names of persons and solutions of challenges.
    """
    target = {name: unquote(part) for name, part in captured.items() if name not in UNLOGGED}
    digest = ""
    with contextlib.suppress(Exception):  # no secret: the write is logged all the same
        digest = rates.digest_subject(settings.current(), admin.sub)
    logs.logger().info(
        "admin write",
        extra={
            "request_id": _request_id(request),
            "admin": digest,
            "call": f"{route.method} {route.path}",
            "target": target,
            "status": status,
        },
    )


def prefers_representation(headers: Mapping[str, str]) -> bool:
    """Return whether a client prefers a response with what its request has changed (RFC 7240, 4.2)."""
    preferences = re.split("[,;]", headers.get("prefer", "").replace(" ", "").replace('"', "").lower())
    return "return=representation" in preferences


def _choose_type(route: Route, headers: Mapping[str, str]) -> str:
    """Return the type that a client prefers, or that of the route if none is preferred (RFC 9110, 12.5.1)."""
    if not route.media.others:
        return route.media.type
    quality = dict.fromkeys((route.media.type, *route.media.others), 0.0)
    for part in headers.get("accept", "").split(","):
        kind, *parameters = (word.strip().lower() for word in part.split(";"))
        if kind in quality:
            values = [word[2:] for word in parameters if word.startswith("q=")]
            is_number = bool(values) and bool(re.fullmatch(r"[01](\.\d{0,3})?", values[0]))
            quality[kind] = float(values[0]) if is_number else 1.0
    return max(quality, key=lambda kind: quality[kind])  # the first of several, which is that of the route


def _encode(route: Route, result: Any, kind: str, path: Any) -> ChaliceResponse:
    """Encode the result of a handler as a type."""
    response = result if isinstance(result, Response) else Response(result)
    status = response.status or route.statuses[0]
    if encode := route.media.others.get(kind):
        cursor = getattr(response.body, "cursor", None)
        more = {NEXT_CURSOR: cursor} if cursor else {}
        own = {"Content-Type": f"{kind}; charset=utf-8", "Vary": "Accept", **more, **response.headers}
        return ChaliceResponse(encode(response.body, path), headers=own, status_code=status)
    is_json = route.media.type == JSON
    body = "" if status == 204 else codec.encode(response.body) if is_json else response.body
    vary = {"Vary": "Accept"} if route.media.others else {}
    headers: dict[str, str | list[str]] = {"Content-Type": route.media.type, **vary, **response.headers}
    return ChaliceResponse(body, headers=headers, status_code=status)


def _decode(name: str, kind: Any, request: Any, captured: Mapping[str, str], max_body: int) -> Any:
    """Decode one argument of a handler.

    Raises: BadRequest with a message that names the field, TooLarge.
    """
    try:
        if name == "path":
            parts = {key: codec.unquote_parameter(key, part) for key, part in captured.items()}
            return codec.decode_parameters(parts, kind)
        if name == "query":
            return codec.decode_parameters(_single_values(request.query_params), kind)
        if len(raw := request.raw_body) > max_body:
            raise TooLarge(f"The body must be at most {max_body:,} bytes, and has {len(raw):,}")
        return codec.decode(raw, kind)
    except UnicodeError:
        raise BadRequest("The body must be UTF-8") from None
    except ValueError as error:
        raise BadRequest(str(error)) from None


def _read_idempotency_key(headers: Mapping[str, str]) -> str | None:
    """Read the Idempotency-Key header, if there is one. Raises BadRequest."""
    key = headers.get("idempotency-key")
    if key is not None and not IDEMPOTENCY_KEY.fullmatch(key):
        raise BadRequest("`Idempotency-Key` must be 1 to 128 printable ASCII characters without spaces")
    return key


def _single_values(query: Any) -> dict[str, str]:
    """Return a query string as a dict. Raises BadRequest for a repeated parameter."""
    for name in query or {}:
        if len(values := query.getlist(name)) > 1:
            raise BadRequest(f"`{name[:40]}` must be given once, and is given {len(values)} times")
    return dict(query or {})


def _encode_error(error: HubbubError) -> ChaliceResponse:
    headers: dict[str, str | list[str]] = {"Content-Type": JSON}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    body = {"code": error.code, "message": str(error)}
    return ChaliceResponse(codec.encode(body), headers=headers, status_code=error.STATUS_CODE)
