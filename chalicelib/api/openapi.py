"""The OpenAPI 3.1 document, generated from the routes that are registered at the router.

A route's description is the docstring of its handler, and its types are the handler's annotations. Its errors
are those that it declares and those that the router itself can return. The schemas describe the types.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from chalicelib.api.router import CODES, JSON, SERVICE, Response, Route, Router
from chalicelib.errors import (
    BadRequest,
    Busy,
    Forbidden,
    HubbubError,
    SlowDown,
    TooLarge,
    Unauthorized,
    UnsupportedMediaType,
    UriTooLong,
)

REFERENCE = "#/components/schemas/{name}"
Schema = dict[str, Any]

HEADERS: dict[str, Any] = {
    "X-Request-Id": {
        "description": "The id of this request in the logs.",
        "schema": {"type": "string"},
        "example": "0b3f6f0e-6a0b-4d8c-9d4e-3c1f2d6f9a11",
    },
    "Cache-Control": {
        "description": "How long the response may be cached: not at all (`no-store`), or for some seconds.",
        "schema": {"type": "string"},
        "example": "no-store",
    },
    "Retry-After": {
        "description": "Seconds to wait before a retry.",
        "schema": {"type": "integer"},
        "example": 1,
    },
}
IDEMPOTENCY_KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Your id of this write. A retry with the same id writes nothing and returns the same.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,128}$"},
    "example": "order-1539",
}
IF_MATCH: dict[str, Any] = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "description": "The ETag that you have read. If the resource has changed since, the result is 412.",
    "schema": {"type": "string"},
    "example": '"1"',
}
BEARER = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "JWT",
    "description": "`hubbub token --sub me` prints one for a local run. `--scope admin` makes it an admin's.",
}


def describe(router: Router, version: str) -> Schema:
    """Describe the routes of a router as one OpenAPI document."""
    routes, paths = router.routes, dict[str, Schema]()
    summaries = {tag: text for feature in router.enabled for tag, text in feature.paths.items()}
    summaries[SERVICE] = "The app itself."
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    bodies = [route.arguments.get("body") for route in routes]
    kinds = [*bodies, *(kind for route in routes for _, kind in route.results)]
    tags = {route.tag for route in routes}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hubbub",
            "version": version,
            "summary": "Live numbers for a web site",
            "description": "JSON, camelCase, UTF-8. Times are ISO 8601; responses are in UTC. An error is "
            '`{"code", "message"}`. The code is stable, and the message names the field or the resource.',
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": ".", "description": "The stage that served this document"}],
        "tags": [{"name": tag, "description": text} for tag, text in summaries.items() if tag in tags],
        "paths": paths,
        "components": {
            "schemas": {"Error": _error()}
            | _without_defaults(_schemas([kind for kind in kinds if _is_struct(kind)])),
            "headers": HEADERS,
            "securitySchemes": {"bearer": BEARER},
        },
    }


def _schemas(types: Sequence[Any]) -> dict[str, Schema]:
    """Describe types and the types of their fields, by name."""
    types = [*types, *(part for kind in types for part in getattr(kind, "ONE_OF", ()))]
    _, schemas = msgspec.json.schema_components(types, ref_template=REFERENCE)
    for kind in types:
        described = schemas[kind.__name__]
        described |= getattr(kind, "MORE", {})
        if parts := getattr(kind, "ONE_OF", {}):
            described["oneOf"] = [{"$ref": REFERENCE.format(name=part.__name__)} for part in parts]
            for name in ("type", "properties", "required"):
                del described[name]
        for part, own in parts.items():
            others = [{"required": [name]} for names in parts.values() for name in names if name not in own]
            schemas[part.__name__]["not"] = {"anyOf": others}
    return {name: _clean(schema) for name, schema in sorted(schemas.items())}


def _without_defaults(schemas: dict[str, Schema]) -> dict[str, Schema]:
    """Move the defaults of fields to their descriptions.

    Generators such as openapi-typescript take a field with a default for one that is always there, which is
    wrong for a body.
    """
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            default = field.pop("default", None)
            if default is not None:
                text = f"Default: {json.dumps(default)}"
                field["description"] = f"{field['description']}. {text}" if "description" in field else text
    return schemas


def _clean(value: Any, key: str = "") -> Any:
    """Join the lines of descriptions, and translate patterns and decimals to JSON Schema.

    In JSON Schema `$` matches only at the very end, and half of a surrogate pair is not a character.
    """
    if isinstance(value, dict):
        texts = {"type": "string"} if isinstance(value.get("enum"), list) else {}
        if value.get("format") == "decimal":  # a decimal is a JSON number
            own = {name: part for name, part in value.items() if name not in ("type", "format", "default")}
            default = {"default": json.loads(value["default"])} if "default" in value else {}
            value = own | {"type": "number"} | default
        return texts | {name: _clean(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [_clean(part) for part in value]
    if key == "pattern":
        # Half of a surrogate pair is rejected before patterns are matched. Not every validator accepts it.
        return value.replace("$(?!\\n)", "$").replace(r"\ud800-\udfff", "")
    return " ".join(value.split()) if key == "description" else value


def _error() -> Schema:
    codes = sorted({kind.code for kind in _below(HubbubError)} | set(CODES.values()))
    return {
        "title": "Error",
        "type": "object",
        "description": "A stable code, and a message that names the field or the resource.",
        "properties": {
            "code": {"description": "The error", "type": "string", "enum": codes},
            "message": {"description": "The cause, and what is accepted", "type": "string"},
        },
        "required": ["code", "message"],
    }


def _operation(route: Route) -> Schema:
    summary, _, text = route.description.partition("\n\n")
    operation: Schema = {
        "operationId": route.name,
        "summary": " ".join(summary.split()),
        "tags": [route.tag],
        "parameters": [
            *_parameters("path", route.arguments.get("path")),
            *_parameters("query", route.arguments.get("query")),
            *([IDEMPOTENCY_KEY] if "idempotency_key" in route.arguments else []),
            *([IF_MATCH] if "if_match" in route.arguments else []),
        ],
        "responses": _responses(route),
        "security": [{"bearer": ["admin"] if route.access == "admin" else []}]
        if route.access != "public"
        else [],
    }
    if text:
        operation["description"] = " ".join(text.split())
    if body := route.arguments.get("body"):
        operation["requestBody"] = {
            "description": f"{_text(body)} {_body_limit(route)}",
            "required": True,
            "content": {JSON: _content(body)},
        }
    return operation


def _body_limit(route: Route) -> str:
    text, fewer = f"At most {route.body.max_bytes:,} bytes", route.body.max_anonymous_bytes
    return f"{text}, and {fewer:,} without a token or with a guest's." if fewer else f"{text}."


def _parameters(place: str, kind: Any) -> Iterable[Schema]:
    if kind is None:
        return
    described = _schemas([kind])[kind.__name__]
    for name, schema in described["properties"].items():
        schema = dict(schema)
        parameter = {"name": name, "in": place, "required": name in described.get("required", ())}
        # A query has no null: a parameter is present or absent.
        if {"type": "null"} in schema.get("anyOf", ()):
            [present] = [kind for kind in schema.pop("anyOf") if kind != {"type": "null"}]
            schema |= present
        if schema.get("default", ...) is None:
            del schema["default"]
        if text := schema.pop("description", ""):
            parameter["description"] = text
        if parameter["required"] and "examples" in schema:
            parameter["example"] = schema.pop("examples")[0]  # the API reference fills it in
        yield parameter | {"schema": schema}


def _responses(route: Route) -> Schema:
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-Id", "Cache-Control")}
    responses: dict[str, Schema] = {}
    for status, kind in route.results:
        responses[str(status)] = {"description": _text(kind) or "Done.", "headers": headers}
        if status != 204:
            media = route.media.type.partition(";")[0]
            media = "text/*" if media == "text/plain" else media  # the `Response` sets the type
            content = _content(kind) if _is_struct(kind) else {}
            responses[str(status)]["content"] = {media: content}
            for other in route.media.others:
                responses[str(status)]["content"][other] = {"schema": {"type": "string"}}
    for error in list_errors(route):
        code, text = error.code, _text(error)
        response = responses.setdefault(
            str(error.STATUS_CODE),
            {
                "description": "",
                "headers": dict(headers),
                "content": {JSON: {"schema": {"$ref": REFERENCE.format(name="Error")}, "examples": {}}},
            },
        )
        response["description"] = f"{response['description']} `{code}`: {text}".lstrip()
        response["content"][JSON]["examples"][code] = {"value": {"code": code, "message": text}}
        if error.STATUS_CODE in (429, 503):
            response["headers"]["Retry-After"] = {"$ref": "#/components/headers/Retry-After"}
    return dict(sorted(responses.items()))


def _content(kind: Any) -> Schema:
    """Describe a body of a type, with its examples."""
    schema: Schema = {"$ref": REFERENCE.format(name=kind.__name__)}
    examples = {name: {"value": value} for name, value in getattr(kind, "EXAMPLES", {}).items()}
    return {"schema": schema} | ({"examples": examples} if examples else {})


def list_errors(route: Route) -> list[type[HubbubError]]:
    """List every error that a route can return: its own errors and the router's."""
    found: dict[type[HubbubError], None] = {}
    if {"body", "query", "path"} & set(route.arguments) or route.media.type == JSON:
        found[BadRequest] = None
    if route.access != "public":
        found[Unauthorized] = None
        if "path" in route.arguments:
            found[UriTooLong] = None
    if route.access == "admin":
        found[Forbidden] = None
    if "body" in route.arguments:
        found[TooLarge] = None
        found[UnsupportedMediaType] = None
    if route.is_limited:
        found[SlowDown] = None
    return [
        *found,
        *(error for error in route.errors if error not in found),
        *([Busy] if route.arguments else []),
    ]


def _text(kind: Any) -> str:
    """Return the first paragraph of a type's docstring."""
    own = _is_struct(kind) or (isinstance(kind, type) and issubclass(kind, HubbubError))
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split()) if own else ""


def _below(kind: type[HubbubError]) -> Iterable[type[HubbubError]]:
    for child in (child for child in kind.__subclasses__() if child.__module__ == HubbubError.__module__):
        yield from (child, *_below(child))


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not Response
