"""Generated TypeScript accepts every documented example: the client's types, and openapi-typescript's."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import app
from chalicelib.api.openapi import describe
from ops import client
from ops.stage import ROOT

pytestmark = pytest.mark.long


PACKAGES = ("typescript@5.9.3", "openapi-typescript@7.10.1", "@types/react@19.3.0")
STRICT = ("--noEmit", "--strict", "--target", "es2022", "--module", "nodenext")
DESCRIPTION = describe(app.router, app.VERSION)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the compiler and the generator, without running any script of theirs."""
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("typescript")
    (folder / "package.json").write_text('{"name": "check", "version": "1.0.0", "type": "module"}')
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--silent")
    done = subprocess.run(
        ["npm", "install", *options, *PACKAGES], cwd=folder, capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        pytest.skip(f"npm cannot install TypeScript: {(done.stderr or done.stdout).strip()[:200]}")
    return folder


def run(tools: Path, name: str, *arguments: str) -> str:
    done = subprocess.run(
        [str(tools / "node_modules" / ".bin" / name), *arguments],
        cwd=tools,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def examples() -> Iterator[tuple[str, Any]]:
    """Yield every documented example of a body, with the name of its schema."""
    for methods in DESCRIPTION["paths"].values():
        for operation in methods.values():
            parts = [operation.get("requestBody", {}), *operation["responses"].values()]
            for part in parts:
                content = part.get("content", {}).get("application/json", {})
                reference = content.get("schema", {}).get("$ref", "")
                for example in content.get("examples", {}).values():
                    yield reference.rpartition("/")[2], example["value"]


def test_the_clients_own_types_accept_every_example(tools: Path) -> None:
    (tools / "hubbub.d.ts").write_text(client.types(DESCRIPTION))
    found = list(examples())
    assert len(found) > 60
    lines = [
        f"export const e{number}: api.{name} = {json.dumps(value)};"
        for number, (name, value) in enumerate(found)
        if name != "Error"
    ]
    (tools / "own.ts").write_text('import type * as api from "./hubbub.js";\n' + "\n".join(lines))
    use = """
import { Hubbub } from "./hubbub.js";
const hub = new Hubbub("https://example.org/api", { token: async (isRefused) => (isRefused ? "a" : "b") });
export const names: string[] = [];
for await (const entry of hub.getEntries({ board: "race", limit: 5 })) names.push(entry.player);
export const views: number = (await hub.getViews({ url: "https://example.org" })).views;
hub.live("product:shoe", (ratings) => names.push(`${ratings?.total} ${ratings?.average?.toFixed(1)}`));
hub.live("leaderboard:race", (board) => names.push(...(board?.items ?? []).map((one) => one.player)));
await hub.chat("main").sendMessage("hello");
export const { body, etag } = await hub.request("getComment", { product: "shoe", id: "1" });
export const text: string = body.text;
// @ts-expect-error a score needs its id
await hub.postScore({ board: "race", value: 1 });
await hub.patchComment({ product: "shoe", id: "1", rating: 4 }, { ifMatch: etag });
const chat = hub.chat("main");
chat.addEventListener("message", ({ detail }) => names.push(detail.text));
chat.addEventListener("state", ({ detail }) => names.push(detail));
const widget = document.createElement("hubbub-comments");
widget.getToken = async () => "a";
widget.addEventListener("hubbub-posted", ({ detail }) => names.push(detail.text));
document.addEventListener("hubbub-guest", ({ detail }) => names.push(detail.name ?? detail.sub));
"""
    (tools / "use.ts").write_text(use)
    run(tools, "tsc", *STRICT, "--lib", "es2023,dom", "own.ts", "use.ts")


def test_the_examples_of_the_document_are_strict_typescript(tools: Path) -> None:
    """They import the packed client, whose types come from `npm pack`."""
    package = tools / "node_modules" / "hubbub-client"
    (package / "lib").mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "web" / "package.json", package)
    shutil.copy(ROOT / "web" / "lib" / "react.d.ts", package / "lib")
    (package / "lib" / "hubbub.d.ts").write_text(client.types(DESCRIPTION))
    document = (ROOT / "docs" / "embed.md").read_text()
    for language, name in (("tsx", "example.tsx"), ("js", "calls.ts")):
        (tools / name).write_text(re.findall(rf"```{language}\n(.*?)```", document, re.DOTALL)[0])
    hub = (
        'import { Hubbub } from "hubbub-client";\nexport const hub = new Hubbub("https://example.org/api");\n'
    )
    (tools / "hub.ts").write_text(hub)
    run(tools, "tsc", *STRICT, "--lib", "es2023,dom", "--jsx", "react-jsx", "example.tsx", "calls.ts")


def test_openapi_typescript_needs_no_flags_and_accepts_every_example(tools: Path) -> None:
    (tools / "openapi.json").write_text(json.dumps(DESCRIPTION))
    run(tools, "openapi-typescript", "openapi.json", "--output", "generated.ts")
    lines = [
        f'export const e{number}: components["schemas"]["{name}"] = {json.dumps(value)};'
        for number, (name, value) in enumerate(examples())
    ]
    (tools / "bodies.ts").write_text('import type { components } from "./generated.js";\n' + "\n".join(lines))
    run(tools, "tsc", *STRICT, "generated.ts", "bodies.ts")
