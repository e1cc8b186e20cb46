"""The interface as OpenAPI 3.1, from the calls that are registered at the door: nothing is written twice.

A call's text is its handler's docstring, its types are its handler's annotations, its errors are those it
declares and those the door itself may answer. What a type says of itself beyond its fields is in the schemas.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from chalicelib.api.components import BEARER, HEADERS, IDEMPOTENCY_KEY, IF_MATCH, TAGS
from chalicelib.api.responses import JSON, Answer, Call
from chalicelib.api.router import CODES
from chalicelib.errors import (
    BadRequest,
    Busy,
    Forbidden,
    HubbubError,
    TooLarge,
    Unauthorized,
    UnsupportedMediaType,
    UriTooLong,
)

REFERENCE = "#/components/schemas/{name}"
Schema = dict[str, Any]


def describe(calls: Sequence[Call], version: str) -> Schema:
    """Describe the calls as one OpenAPI document."""
    paths: dict[str, Schema] = {}
    for call in calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call)
    sent = [kind for call in calls for kind in (call.takes.get("body"), call.answers) if _is_struct(kind)]
    tags = {_tag(call) for call in calls}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hubbub",
            "version": version,
            "summary": "Live numbers for a web site",
            "description": "JSON, camelCase, UTF-8. Times are ISO 8601; answers are in UTC. An error is "
            '`{"Code", "Message"}`: the code is stable, the message names the offender.',
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": ".", "description": "Where this description was found"}],
        "tags": [{"name": tag, "description": text} for tag, text in TAGS.items() if tag in tags],
        "paths": paths,
        "components": {
            "schemas": {"Error": _error()} | _schemas(sent),
            "headers": HEADERS,
            "securitySchemes": {"bearer": BEARER},
        },
    }


def _schemas(types: Sequence[Any]) -> dict[str, Schema]:
    """Describe types and what they are made of, by name."""
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
    return {name: _tidied(schema) for name, schema in sorted(schemas.items())}


def _tidied(value: Any, key: str = "") -> Any:
    """Write texts in one line, and patterns as JSON Schema reads them.

    There `$` is the very end, and half of a surrogate pair is no character.
    """
    if isinstance(value, dict):
        texts = {"type": "string"} if isinstance(value.get("enum"), list) else {}
        if value.get("format") == "decimal":  # on the wire a decimal is a number
            own = {name: part for name, part in value.items() if name not in ("type", "format", "default")}
            default = {"default": json.loads(value["default"])} if "default" in value else {}
            value = own | {"type": "number"} | default
        return texts | {name: _tidied(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [_tidied(part) for part in value]
    if key == "pattern":
        # Half of a surrogate pair is refused before any pattern is asked, and not every reader knows it.
        return value.replace("$(?!\\n)", "$").replace(r"\ud800-\udfff", "")
    return " ".join(value.split()) if key == "description" else value


def _error() -> Schema:
    codes = sorted({kind.code for kind in _below(HubbubError)} | set(CODES.values()))
    return {
        "title": "Error",
        "type": "object",
        "description": "What is wrong: a stable code, and a sentence for people that names the offender.",
        "properties": {
            "Code": {"description": "Which error it is", "type": "string", "enum": codes},
            "Message": {"description": "What to mend, and where", "type": "string"},
        },
        "required": ["Code", "Message"],
    }


def _operation(call: Call) -> Schema:
    summary, _, text = call.text.partition("\n\n")
    operation: Schema = {
        "operationId": call.name,
        "summary": " ".join(summary.split()),
        "tags": [_tag(call)],
        "parameters": [
            *_parameters("path", call.takes.get("path")),
            *_parameters("query", call.takes.get("query")),
            *([IDEMPOTENCY_KEY] if "idempotency_key" in call.takes else []),
            *([IF_MATCH] if "if_match" in call.takes else []),
        ],
        "responses": _responses(call),
        "security": [{"bearer": ["admin"] if call.who == "admin" else []}] if call.who != "public" else [],
    }
    if text:
        operation["description"] = " ".join(text.split())
    if body := call.takes.get("body"):
        content = {kind: _content(body, text=kind != JSON) for kind in call.accepts}
        operation["requestBody"] = {"description": _text(body), "required": True, "content": content}
    return operation


def _parameters(place: str, kind: Any) -> Iterable[Schema]:
    if kind is None:
        return
    described = _schemas([kind])[kind.__name__]
    for name, schema in described["properties"].items():
        schema = dict(schema)
        parameter = {"name": name, "in": place, "required": name in described.get("required", ())}
        # In a query nothing stands for null: a parameter is there or it is not.
        if {"type": "null"} in schema.get("anyOf", ()):
            [one] = [one for one in schema.pop("anyOf") if one != {"type": "null"}]
            schema |= one
        if schema.get("default", ...) is None:
            del schema["default"]
        if text := schema.pop("description", ""):
            parameter["description"] = text
        if parameter["required"] and "examples" in schema:
            parameter["example"] = schema.pop("examples")[0]  # the page of the calls fills it in
        yield parameter | {"schema": schema}


def _responses(call: Call) -> Schema:
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-Id", "Cache-Control")}
    responses: dict[str, Schema] = {}
    for done in call.statuses:
        responses[str(done)] = {"description": _text(call.answers) or "Done.", "headers": headers}
        if done != 204:
            media = call.produces.partition(";")[0]
            media = "text/*" if media == "text/plain" else media  # the `Answer` says which
            content = _content(call.answers) if _is_struct(call.answers) else {}
            responses[str(done)]["content"] = {media: content}
    for error in errors(call):
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
        response["content"][JSON]["examples"][code] = {"value": {"Code": code, "Message": text}}
        if error.STATUS_CODE in (429, 503):
            response["headers"]["Retry-After"] = {"$ref": "#/components/headers/Retry-After"}
    return dict(sorted(responses.items()))


def _content(kind: Any, *, text: bool = False) -> Schema:
    """Describe a body of a type, with its examples; `text`: as JSON that is sent as plain text."""
    schema: Schema = {"$ref": REFERENCE.format(name=kind.__name__)}
    if text:
        return {"schema": {"type": "string", "contentMediaType": JSON, "contentSchema": schema}}
    examples = {name: {"value": value} for name, value in getattr(kind, "EXAMPLES", {}).items()}
    return {"schema": schema} | ({"examples": examples} if examples else {})


def errors(call: Call) -> list[type[HubbubError]]:
    """Name every error that a call may answer: its own, and the door's."""
    found: dict[type[HubbubError], None] = {}
    if {"body", "query", "path"} & set(call.takes):
        found[BadRequest] = None
    if call.who != "public":
        found[Unauthorized] = None
        if "path" in call.takes:
            found[UriTooLong] = None
    if call.who == "admin":
        found[Forbidden] = None
    if "body" in call.takes:
        found[TooLarge] = None
        found[UnsupportedMediaType] = None
    return [*found, *(error for error in call.errors if error not in found), *([Busy] if call.takes else [])]


def _tag(call: Call) -> str:
    first = call.path.split("/")[1]
    return first if first in TAGS else "service"


def _text(kind: Any) -> str:
    """Read the first paragraph that a type says of itself."""
    own = _is_struct(kind) or (isinstance(kind, type) and issubclass(kind, HubbubError))
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split()) if own else ""


def _below(kind: type[HubbubError]) -> Iterable[type[HubbubError]]:
    for child in (one for one in kind.__subclasses__() if one.__module__ == HubbubError.__module__):
        yield from (child, *_below(child))


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not Answer
