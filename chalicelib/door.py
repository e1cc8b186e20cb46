"""The one door: decodes and validates what enters, checks who it is, encodes what leaves.

A handler says by its annotations what it takes: `body`, `query` and `path` as structs of schemas.py,
`caller`, `headers`. What it returns is encoded; what it raises from errors.py becomes its status and
`{"Code", "Message"}`.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Literal, get_type_hints
from urllib.parse import unquote

import msgspec
from chalice.app import Chalice, Response

from chalicelib import auth
from chalicelib.errors import BadRequest, Forbidden, TooLarge, Unauthorized

Who = Literal["public", "user", "admin"]

BODY = 1_000_000  # bytes
JSON = "application/json"


class Door:
    """Registers calls on a Chalice app."""

    def __init__(self, app: Chalice):
        self.app = app
        self.authorizer: Any = None

    def __call__(
        self, method: str, path: str, *, who: Who = "public", status: int = 200
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a handler for a method and path, for whoever may call it."""

        def register(handler: Callable[..., Any]) -> Callable[..., Any]:
            takes = get_type_hints(handler)
            takes.pop("return", None)

            @wraps(handler)
            def view(**captured: str) -> Response:
                request = self.app.current_request
                given = {name: self._decode(name, kind, request, captured) for name, kind in takes.items()}
                _admit(who, self._caller(request))
                answer = handler(**given)
                if isinstance(answer, Response):
                    return answer
                body = msgspec.json.encode(answer).decode()
                return Response(body, status_code=status, headers={"Content-Type": JSON})

            options = {"authorizer": self.authorizer} if who != "public" else {}
            self.app.route(path, methods=[method], name=handler.__name__, **options)(view)
            return handler

        return register

    def _decode(self, name: str, kind: Any, request: Any, captured: Mapping[str, str]) -> Any:
        """Decode one argument of a handler. Raises BadRequest naming the field."""
        if name == "headers":
            return request.headers
        if name == "caller":
            return self._caller(request)
        try:
            if name == "body":
                if len(request.raw_body) > BODY:
                    raise TooLarge(f"body: it has {len(request.raw_body)} bytes, more than {BODY}")
                return msgspec.json.decode(request.raw_body, type=kind)
            if name == "path":
                return msgspec.convert({k: unquote(v) for k, v in captured.items()}, kind, strict=False)
            return msgspec.convert(_single(request.query_params), kind, strict=False)
        except msgspec.ValidationError as error:
            raise BadRequest(_said(str(error))) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadRequest(f"body: it is not JSON: {error}") from None

    def _caller(self, request: Any) -> auth.Caller:
        return auth.caller(request.context.get("authorizer"))


def _admit(who: Who, caller: auth.Caller) -> None:
    if who == "public":
        return
    if not caller.sub:
        raise Unauthorized(f"This call needs a valid bearer token: {caller.problem}.")
    if who == "admin" and not caller.admin:
        raise Forbidden("This call needs a token with the scope admin.")


def _single(query: Any) -> dict[str, str]:
    """Take a query string in which every parameter stands once."""
    found = {}
    for name in query or {}:
        values = query.getlist(name)
        if len(values) > 1:
            raise BadRequest(f"{name}: it stands {len(values)} times in the query")
        found[name] = values[0]
    return found


def _said(message: str) -> str:
    """Turn msgspec's "Expected `int`, got `str` - at `$.limit`" into "limit: Expected …"."""
    what, _, where = message.partition(" - at `$")
    field = where.rstrip("`").lstrip(".") or "request"
    return f"{field}: {what}"
