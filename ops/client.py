"""Writes the client's calls (web/lib/calls.js) and types (web/lib/hubbub.d.ts) from the OpenAPI document.

The calls are part of the module that is served, so they are committed. The types are written when the client
is packed (`prepack` in web/package.json). Those of requests and responses are generated. The rest is in
ops/client.d.ts, in which `/* calls */` and `/* schemas */` stand for the generated parts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "web" / "lib" / "calls.js"
TYPES = ROOT / "web" / "lib" / "hubbub.d.ts"
FRAME = Path(__file__).with_suffix(".d.ts")
JSON = "application/json"
TABLE = re.compile(r"const CALLS = \{.*?\};", re.DOTALL)
Schema = dict[str, Any]


def operations(description: Schema) -> Iterator[tuple[str, str, str, Schema]]:
    """Yield the name, method, path and description of each call that returns JSON."""
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            if path != "/openapi.json" and _success(operation) is not None:
                name = re.sub("_([a-z])", lambda found: found[1].upper(), operation["operationId"])
                yield name, method.upper(), path, operation


def write_calls(source: str, description: Schema) -> str:
    """Return the client's source with the table of calls of a description."""
    lines = []
    for name, method, path, operation in operations(description):
        queried = [field["name"] for field in operation["parameters"] if field["in"] == "query"]
        query = f"?{'&'.join(queried)}" if "requestBody" in operation and queried else ""
        lines.append(f'  {name}: "{method}{"!" if operation["security"] else ""} {path[1:]}{query}",')
    return TABLE.sub(lambda _: "const CALLS = {\n" + "\n".join(lines) + "\n};", source, count=1)


def types(description: Schema) -> str:
    """Return the client's types for a description."""
    schemas = description["components"]["schemas"]
    declared = [_declare(name, schema) for name, schema in schemas.items()]
    calls = [line for operation in operations(description) for line in _call(*operation)]
    frame = FRAME.read_text(encoding="utf-8")
    codes = " | ".join(json.dumps(code) for code in schemas["Error"]["properties"]["code"]["enum"])
    return (
        frame.replace("/* codes */", codes)
        .replace("  /* calls */\n", "\n".join(calls) + "\n")
        .replace("/* schemas */\n", "\n".join(declared))
    )


def _success(operation: Schema) -> Schema | None:
    """Return the content of a call's last successful response.

    It is empty without a body, and None if it is not JSON. The response that a client has to ask for with
    `Prefer` comes before it.
    """
    *_, found = (response for status, response in operation["responses"].items() if status.startswith("2"))
    content = found.get("content")
    if content is None:
        return {}
    found_json: Schema | None = content.get(JSON)
    return found_json


def _declare(name: str, schema: Schema) -> str:
    text = f"/** {schema['description']} */\n" if "description" in schema else ""
    if schema.get("type") == "object" and "oneOf" not in schema and "properties" in schema:
        return f"{text}export interface {name} {_object(schema, '')}\n"
    return f"{text}export type {name} = {_type(schema)};\n"


def _call(name: str, method: str, path: str, operation: Schema) -> Iterator[str]:
    """Declare one call. Path, query and body are one object."""
    parts = []
    if operation["parameters"]:
        own = [parameter for parameter in operation["parameters"] if parameter["in"] in ("path", "query")]
        if own:
            parts.append("{ " + " ".join(_parameter(parameter) for parameter in own) + " }")
    body = operation.get("requestBody", {}).get("content", {}).get(JSON)
    if body:
        parts.append(_type(body["schema"]))
    content = _success(operation)
    result = _type(content["schema"]) if content and "schema" in content else "null"
    needed = [parameter for parameter in operation["parameters"] if parameter["required"]] or body
    optional = "" if needed else "?"
    kind = (
        f"Pages<{result}>"
        if any(parameter["name"] == "cursor" for parameter in operation["parameters"])
        else None
    )
    yield f"  /** {operation['summary']} `{method} {path}` */"
    arguments = f"args{optional}: {' & '.join(parts) or 'Record<string, never>'}, options?: CallOptions"
    yield f"  {name}({arguments}): {kind or f'Promise<{result}>'};"


def _parameter(parameter: Schema) -> str:
    return f"{parameter['name']}{'' if parameter['required'] else '?'}: {_type(parameter['schema'])};"


def _object(schema: Schema, indent: str) -> str:
    required = set(schema.get("required", ()))
    lines = []
    for name, field in schema.get("properties", {}).items():
        if text := field.get("description"):
            lines.append(f"{indent}  /** {text} */")
        key = name if re.fullmatch(r"[A-Za-z_]\w*", name) else json.dumps(name)
        lines.append(f"{indent}  {key}{'' if name in required else '?'}: {_type(field, indent + '  ')};")
    return "{\n" + "\n".join(lines) + f"\n{indent}}}"


def _type(schema: Schema, indent: str = "") -> str:
    """Return the TypeScript type of a schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    for key in ("anyOf", "oneOf"):
        if key in schema and all("required" not in kind or len(kind) > 1 for kind in schema[key]):
            return " | ".join(dict.fromkeys(_type(kind, indent) for kind in schema[key]))
    match schema.get("type"):
        case "object" if "properties" in schema:
            return _object(schema, indent)
        case "object":
            more = schema.get("additionalProperties")
            return f"Record<string, {_type(more, indent) if isinstance(more, dict) else 'unknown'}>"
        case "array":
            item = _type(schema.get("items", {}), indent)
            return f"Array<{item}>"
        case "integer" | "number":
            return "number"
        case "string" | "boolean" | "null" as simple:
            return str(simple)
    return "unknown"


def write() -> list[Path]:
    """Write both files, and return those that have changed."""
    from ops.openapi import format_openapi

    description = json.loads(format_openapi())
    wanted = {SOURCE: write_calls(SOURCE.read_text(encoding="utf-8"), description), TYPES: types(description)}
    changed = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in changed:
        path.write_text(wanted[path], encoding="utf-8")
    return changed
