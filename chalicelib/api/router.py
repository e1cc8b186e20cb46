"""The one door: decodes and validates what enters, checks who it is, encodes what leaves.

    @door("GET", "/boards/{board}", errors=(NotFound,))
    def get_board(path: BoardPath, caller: Caller) -> Board:
        return boards.find(connect(), path.board)

A handler says by its annotations what it takes: `body`, `query` and `path` as structs of the schemas,
`caller` (of a public call: maybe nobody), `headers`, `idempotency_key` (a client's own name for a write that
it may repeat), `if_match` (the ETag of what it means to change). It returns a struct, or an `Answer` for
another status or headers; what it raises from errors.py becomes its status and `{"Code", "Message"}`. The
registered calls are what openapi.py describes.
"""

import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_origin, get_type_hints
from urllib.parse import quote, unquote

from chalice.app import Chalice, CORSConfig, Response

from chalicelib import settings
from chalicelib.api import auth, codec
from chalicelib.api.auth import Caller
from chalicelib.api.responses import JSON, Answer, Call, Who
from chalicelib.dynamo import capacity
from chalicelib.errors import BadRequest, Forbidden, HubbubError, TooLarge, Unauthorized, UriTooLong
from chalicelib.telemetry import logs

BODY = 1_000_000  # bytes
# API Gateway refuses a request to a method with an authorizer when the method's ARN is longer than 1,600
# bytes. The ARN ends in the path. The rest (partition, region, account, API, stage, method) has at most 100.
# Source: "Amazon API Gateway quotas", Method ARN length of a method with authorization.
AUTHORIZED_PATH = 1_500  # bytes, percent-encoded
KEY = re.compile("[!-~]{1,128}")
SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Strict-Transport-Security": "max-age=31536000",
}
# What Chalice calls its own refusals, and what a client reads.
CODES = {"MethodNotAllowedError": "MethodNotAllowed", "InternalServerError": "InternalError"}


class Door:
    """Registers calls on a Chalice app, and stands around every answer that it gives."""

    def __init__(self, app: Chalice, origins: tuple[str, ...] = ("*",), shows_capacity: bool = False):
        self.app = app
        self.origins = origins
        self.shows_capacity = shows_capacity
        self.authorizer: Any = None
        self.calls: list[Call] = []
        app.register_middleware(self._finish, "http")

    def __call__(
        self,
        method: str,
        path: str,
        *,
        who: Who = "public",
        status: int | tuple[int, ...] = 200,
        produces: str = JSON,
        accepts: tuple[str, ...] = (JSON,),
        errors: tuple[type[HubbubError], ...] = (),
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a handler for a method and path, for whoever may call it.

        `status` is the answer's, the first of several unless an `Answer` says otherwise. `errors` are those
        of the handler's own; what every call may refuse is added to its description.
        """
        statuses = status if isinstance(status, tuple) else (status,)

        def register(handler: Callable[..., Any]) -> Callable[..., Any]:
            takes = get_type_hints(handler)
            answers = takes.pop("return", None)
            if get_origin(answers) is Answer:  # of a struct, with a status or headers of its own
                [answers] = get_args(answers)
            text = (handler.__doc__ or "").strip()
            call = Call(
                method, path, handler.__name__, who, statuses, accepts, takes, answers, produces, errors, text
            )
            self.calls.append(call)

            def view(**captured: str) -> Response:
                return self._serve(call, handler, captured)

            options = {"authorizer": self.authorizer} if who != "public" else {}
            kinds = list(accepts) if "body" in takes else ["*/*"]
            self.app.route(path, methods=[method], name=handler.__name__, content_types=kinds, **options)(
                view
            )
            return handler

        return register

    def cors(self) -> CORSConfig:
        """Say what a preflight answers. API Gateway answers it with one origin, or with any."""
        return CORSConfig(
            allow_origin=self.origins[0] if len(self.origins) == 1 else "*",
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "If-Match"],
            expose_headers=["ETag", "Retry-After", "X-Request-Id"] + [capacity.HEADER] * self.shows_capacity,
            max_age=600,
        )

    def _serve(self, call: Call, handler: Callable[..., Any], captured: Mapping[str, str]) -> Response:
        """Admit, decode, handle, encode; an error becomes its answer."""
        request: Any = self.app.current_request
        try:
            _check_length(call, captured)
            person = _admitted(call, request)
            ready = {
                "caller": person,
                "headers": request.headers,
                "if_match": request.headers.get("if-match"),
            }
            if "idempotency_key" in call.takes:
                ready["idempotency_key"] = _key(request.headers)
            given = {
                name: ready[name] if name in ready else _decode(name, kind, request, captured)
                for name, kind in call.takes.items()
            }
            answer = _answered(call, handler(**given))
            if person.admin and call.who != "public" and call.method != "GET":
                _log_admin_write(call, request, person, captured, answer.status_code)
            return answer
        except HubbubError as error:
            return _refusal(error)
        except Exception as error:
            logs.failure("a call failed", error, request_id=_id(request), call=f"{call.method} {call.path}")
            body = {"Code": "InternalError", "Message": "It is our fault: try again."}
            return Response(body, status_code=500)

    def _finish(self, request: Any, answer: Callable[[Any], Response]) -> Response:
        """Give every answer its headers, Chalice's own refusals included, and log one line of it."""
        started = time.perf_counter()
        with capacity.counted() as units:
            response = answer(request)
        context, id = request.context, _id(request)
        if isinstance(response.body, dict) and "Code" in response.body:
            response.body["Code"] = CODES.get(response.body["Code"], response.body["Code"])
        headers = {
            "Content-Type": JSON,
            **SECURITY,
            **response.headers,
            **self._cors(request),
            "X-Request-Id": id,
            capacity.HEADER: str(units) if self.shows_capacity else "",
        }
        response.headers = {name: value for name, value in headers.items() if value}
        logs.logger().info(
            "request",
            extra={
                "request_id": id,
                "call": f"{context.get('httpMethod')} {context.get('resourcePath')}",
                "status": response.status_code,
                "ms": round((time.perf_counter() - started) * 1000, 1),
            },
        )
        return response

    def _cors(self, request: Any) -> dict[str, str]:
        """Allow the asking origin if it is one of ours, whatever single one Chalice has put there."""
        headers: dict[str, str] = self.cors().get_access_control_headers()
        if "*" in self.origins:
            return headers | {"Access-Control-Allow-Origin": "*"}
        origin = request.headers.get("origin")
        allowed = origin if origin in self.origins else ""
        return headers | {"Access-Control-Allow-Origin": allowed, "Vary": "Origin"}


def _id(request: Any) -> str:
    """Name a request: as API Gateway does, or else as Lambda does."""
    return str(request.context.get("requestId") or getattr(request.lambda_context, "aws_request_id", ""))


def _check_length(call: Call, captured: Mapping[str, str]) -> None:
    """Raise UriTooLong for a path that API Gateway would not hand to an authorizer."""
    if call.who == "public":
        return
    literal = re.sub("{.*?}", "", call.path)
    encoded = [quote(unquote(part), safe="", errors="replace") for part in captured.values()]
    size = len(literal) + sum(map(max, map(len, captured.values()), map(len, encoded)))
    if size > AUTHORIZED_PATH:
        raise UriTooLong(f"path: it has {size} bytes in percent-encoding, more than {AUTHORIZED_PATH}")


def _admitted(call: Call, request: Any) -> Caller:
    """Answer who calls. Raises Unauthorized, Forbidden.

    The gateway keeps the authorizer's answer for a while. A refusal is checked again, for its cause may be
    gone: the token is valid by now, or the keys can be read again. A public call has no authorizer; if it
    takes its caller, a token that comes with it is checked here.
    """
    person = auth.caller(request.context.get("authorizer"))
    token = request.headers.get("authorization", "")
    if not person.sub and (call.who != "public" or ("caller" in call.takes and token)):
        person = auth.caller(auth.context(settings.current(), token))
    if call.who == "public":
        return person
    if not person.sub:
        raise Unauthorized(f"This call needs a valid bearer token: {person.problem}.")
    if call.who == "admin" and not person.admin:
        raise Forbidden("This call needs a token with the scope admin.")
    return person


def _log_admin_write(
    call: Call, request: Any, admin: Caller, captured: Mapping[str, str], status: int
) -> None:
    """Log who has written what with the scope admin: one line for each write that was done.

    The `path` of a challenge is left out, for it is one of the answers.
    """
    target = {name: unquote(part) for name, part in captured.items() if name != "path"}
    logs.logger().info(
        "admin write",
        extra={
            "request_id": _id(request),
            "subject": admin.sub,
            "call": f"{call.method} {call.path}",
            "target": target,
            "status": status,
        },
    )


def _answered(call: Call, answer: Any) -> Response:
    """Encode what a handler returned."""
    if not isinstance(answer, Answer):
        answer = Answer(answer)
    status = answer.status or call.statuses[0]
    body = "" if status == 204 else answer.body if call.produces != JSON else codec.encode(answer.body)
    return Response(body, headers={"Content-Type": call.produces, **answer.headers}, status_code=status)


def _decode(name: str, kind: Any, request: Any, captured: Mapping[str, str]) -> Any:
    """Decode one argument of a handler. Raises BadRequest naming the field, TooLarge."""
    try:
        if name == "path":
            return codec.texts({key: codec.unquoted(key, part) for key, part in captured.items()}, kind)
        if name == "query":
            return codec.texts(_single(request.query_params), kind)
        if len(raw := request.raw_body) > BODY:
            raise TooLarge(f"body: it has {len(raw)} bytes, more than {BODY}")
        return codec.decode(raw, kind)
    except UnicodeError:
        raise BadRequest("body: it is not UTF-8") from None
    except ValueError as error:
        raise BadRequest(str(error)) from None


def _key(headers: Mapping[str, str]) -> str | None:
    """Read the Idempotency-Key header, if there is one. Raises BadRequest."""
    key = headers.get("idempotency-key")
    if key is not None and not KEY.fullmatch(key):
        raise BadRequest("Idempotency-Key: it must be 1 to 128 printable ASCII characters without a blank")
    return key


def _single(query: Any) -> dict[str, str]:
    """Take a query string in which every parameter stands once."""
    for name in query or {}:
        if len(values := query.getlist(name)) > 1:
            raise BadRequest(f"{name[:40]}: it stands {len(values)} times in the query")
    return dict(query or {})


def _refusal(error: HubbubError) -> Response:
    headers: dict[str, str | list[str]] = {"Content-Type": JSON}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    body = {"Code": error.code, "Message": str(error)}
    return Response(codec.encode(body), headers=headers, status_code=error.STATUS_CODE)
