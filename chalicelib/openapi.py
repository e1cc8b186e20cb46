"""The interface as OpenAPI 3.1, from the calls that are registered at the door: nothing is written twice.

A call's text is its handler's docstring, its types are its handler's annotations, its errors are those it
declares and those the door itself may answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from chalicelib.door import JSON, Answer, Call
from chalicelib.errors import (
    BadRequest,
    Busy,
    Forbidden,
    HubbubError,
    TooLarge,
    Unauthorized,
    UnsupportedMediaType,
)

REFERENCE = "#/components/schemas/{name}"
Schema = dict[str, Any]

ERROR = {
    "type": "object",
    "description": "What is wrong: a stable code, and a sentence for people that names the offender.",
    "properties": {"Code": {"type": "string"}, "Message": {"type": "string"}},
    "required": ["Code", "Message"],
    "examples": [{"Code": "BadRequest", "Message": "limit: Expected `int` <= 100"}],
}
HEADERS = {
    "X-Request-Id": {
        "description": "Names this request in the logs.",
        "schema": {"type": "string"},
    },
    "Retry-After": {"description": "Seconds to wait before the next try.", "schema": {"type": "integer"}},
}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Your own name for this write: the same name again writes nothing and answers the same.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,128}$"},
}
BEARER = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "JWT",
    "description": "`sub` is the player or author; the scope `admin` opens the calls for admins.",
}


def describe(calls: Sequence[Call], version: str) -> Schema:
    """Describe the calls as one OpenAPI document."""
    types = [kind for call in calls for kind in (*_structs(call).values(), call.answers) if _is_struct(kind)]
    _, schemas = msgspec.json.schema_components(types, ref_template=REFERENCE)
    for kind in types:
        schemas[kind.__name__] |= getattr(kind, "MORE", {})
    paths: dict[str, Schema] = {}
    for call in calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call, schemas)
    sent: list[Any] = [kind for call in calls for kind in (call.takes.get("body"), call.answers)]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Hubbub",
            "version": version,
            "summary": "Live numbers for a web site",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "."}],
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR}
            | _reachable(schemas, [kind.__name__ for kind in sent if _is_struct(kind)]),
            "headers": HEADERS,
            "securitySchemes": {"bearer": BEARER},
        },
    }


def _operation(call: Call, schemas: Mapping[str, Schema]) -> Schema:
    summary, _, text = call.text.partition("\n\n")
    operation: Schema = {
        "operationId": call.name,
        "summary": " ".join(summary.split()),
        "tags": [call.path.strip("/").split("/")[0].partition(".")[0]],
        "parameters": [
            *_parameters("path", call.takes.get("path"), schemas),
            *_parameters("query", call.takes.get("query"), schemas),
            *([IDEMPOTENCY_KEY] if "idempotency_key" in call.takes else []),
        ],
        "responses": _responses(call),
        "security": [{"bearer": ["admin"] if call.who == "admin" else []}] if call.who != "public" else [],
    }
    if text:
        operation["description"] = " ".join(text.split())
    if body := call.takes.get("body"):
        content = {"schema": {"$ref": REFERENCE.format(name=body.__name__)}}
        operation["requestBody"] = {"required": True, "content": dict.fromkeys(call.accepts, content)}
    return operation


def _parameters(place: str, kind: Any, schemas: Mapping[str, Schema]) -> Iterable[Schema]:
    if kind is None:
        return
    described = schemas[kind.__name__]
    for name, schema in described["properties"].items():
        schema = dict(schema)
        parameter = {"name": name, "in": place, "required": name in described.get("required", ())}
        if text := schema.pop("description", ""):
            parameter["description"] = text
        # In a query nothing stands for null: a parameter is there or it is not.
        if "anyOf" in schema:
            [schema["anyOf"]] = [[one for one in schema["anyOf"] if one.get("type") != "null"]]
            schema |= schema.pop("anyOf")[0]
        if schema.get("default", ...) is None:
            del schema["default"]
        yield parameter | {"schema": schema}


def _responses(call: Call) -> Schema:
    headers = {"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}}
    responses: dict[str, Schema] = {}
    answers = {"$ref": REFERENCE.format(name=call.answers.__name__)} if _is_struct(call.answers) else {}
    for done in call.statuses:
        content = {"content": {call.produces.partition(";")[0]: {"schema": answers}}} if done != 204 else {}
        responses[str(done)] = {"description": "Done.", "headers": headers, **content}
    for error in errors(call):
        status = str(error.STATUS_CODE)
        code, text = error.__name__, " ".join((error.__doc__ or "").split("\n\n")[0].split())
        if status in responses:
            responses[status]["description"] += f" `{code}`: {text}"
        else:
            responses[status] = {
                "description": f"`{code}`: {text}",
                "headers": headers,
                "content": {JSON: {"schema": {"$ref": REFERENCE.format(name="Error")}}},
            }
        if status in ("429", "503"):
            again = {"Retry-After": {"$ref": "#/components/headers/Retry-After"}}
            responses[status]["headers"] = headers | again
    return dict(sorted(responses.items()))


def errors(call: Call) -> list[type[HubbubError]]:
    """Name every error that a call may answer: its own, and the door's."""
    found: dict[type[HubbubError], None] = {}
    if {"body", "query", "path"} & set(call.takes):
        found[BadRequest] = None
    if call.who != "public":
        found[Unauthorized] = None
    if call.who == "admin":
        found[Forbidden] = None
    if "body" in call.takes:
        found[TooLarge] = None
        found[UnsupportedMediaType] = None
    return [*found, *(error for error in call.errors if error not in found), *([Busy] if call.takes else [])]


def _structs(call: Call) -> dict[str, Any]:
    return {name: kind for name, kind in call.takes.items() if name in ("body", "query", "path")}


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind is not Answer


def _reachable(schemas: Mapping[str, Schema], names: list[str]) -> dict[str, Schema]:
    """Keep the schemas that a body or an answer is made of; those of parameters are written out in place."""
    found: dict[str, Schema] = {}
    rest = list(names)
    while rest:
        name = rest.pop()
        if name not in found:
            found[name] = schemas[name]
            prefix = REFERENCE.format(name="")
            rest += [text.removeprefix(prefix) for text in _texts(schemas[name]) if text.startswith(prefix)]
    return dict(sorted(found.items()))


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
