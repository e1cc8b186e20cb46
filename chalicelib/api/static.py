"""Static files: the files of `web` (page, admin page, widgets), and the API reference.

`web` lies beside the app, so that any static host can serve it too. Packaging links it into `vendor/`, from
which Chalice takes it (ops/aws/bundle.py). The HTML of the page has a content security policy that is valid
on any host. The header here is stricter: it names the only addresses that a page of this stage connects to.

`reference` has openapi-explorer.js of the npm package `openapi-explorer`, 2.4.820 (Apache-2.0, LICENSE beside
it). The other files there are ours.
"""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from chalicelib.api.router import Response
from chalicelib.api.schemas import PageConfig, PageSignIn
from chalicelib.errors import NotFound
from chalicelib.settings import Settings

WEB = Path(__file__).parents[2] / "web"
REFERENCE = Path(__file__).parent / "reference"
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
REFERENCE_TYPES = frozenset({".html", ".js", ".css"})
BUNDLE = re.compile(r"-([0-9a-f]{12}|[0-9A-Z]{8})\.(js|css)$")  # ops/aws/page_bundle.py writes bundles
POLICY = "base-uri 'none'; object-src 'none'; frame-ancestors 'none'"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src {addresses}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# The viewer sets styles on its elements. Everything else comes from the stage itself.
REFERENCE_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def serve_file(stage: Settings, name: str, folder: str = "") -> Response[str]:
    """Return one of the files of `web`. Raises NotFound."""
    path = WEB / folder / name
    try:
        is_ours = path.resolve().is_relative_to(WEB.resolve())
        exists = is_ours and path.suffix in CONTENT_TYPES and path.is_file()
    except (OSError, ValueError):  # the operating system does not accept the name
        exists = False
    if not exists:
        raise NotFound(f"The page has no file {name[:40]}.")
    headers = {
        "Content-Type": CONTENT_TYPES[path.suffix],
        "Content-Security-Policy": _page_policy(stage, name) if path.suffix == ".html" else POLICY,
        "Cross-Origin-Resource-Policy": "cross-origin",  # pages of other sites load the widgets
        "Cache-Control": _cache_control(stage, path),
    }
    return Response(path.read_text(encoding="utf-8"), headers=headers)


def serve_index(stage: Settings, path: str, query: Any) -> Response[str]:
    """Return the page, or a redirect to it for a client that requested it without the last slash.

    API Gateway serves `/{stage}` and `/{stage}/` as the same resource. Relative links of a page at `/{stage}`
    would lead above the stage. `path` is `requestContext.path`: the path as the client sent it, with the
    stage or the base path of a custom domain. The address is relative, so the host does not matter.
    """
    if not path or path.endswith("/"):
        return serve_file(stage, "index.html")
    pairs = [(name, value) for name in query or () for value in query.getlist(name)]
    address = f"./{path.rpartition('/')[2]}/" + (f"?{urlencode(pairs)}" if pairs else "")
    return Response("", status=302, headers={"Location": address})


def configure_page(stage: Settings) -> PageConfig:
    """Return the configuration of the page at a stage."""
    return PageConfig(
        stage=stage.stage,
        socket=stage.socket,
        guests=stage.guests,
        sites=stage.named_sites(),
        sign_in=PageSignIn(**stage.sign_in._asdict()) if stage.sign_in else None,
    )


def serve_reference(name: str = "index.html") -> Response[str]:
    """Return one of the files of the API reference. Raises NotFound."""
    path = REFERENCE / name
    if path.parent != REFERENCE or path.suffix not in REFERENCE_TYPES or not path.is_file():
        raise NotFound(f"The API reference has no file {name[:40]}.")
    headers = {
        "Content-Type": CONTENT_TYPES[path.suffix],
        "Content-Security-Policy": REFERENCE_POLICY,
        "Cache-Control": "public, max-age=3600",
    }
    return Response(path.read_text(encoding="utf-8"), headers=headers)


def _cache_control(stage: Settings, path: Path) -> str:
    """Return how long a file may be cached. A bundle never changes: its name has a hash of its content."""
    if BUNDLE.search(path.name):
        return "public, max-age=31536000, immutable"
    return "no-cache" if stage.stage == "local" or path.suffix == ".html" else "public, max-age=300"


def _page_policy(stage: Settings, name: str) -> str:
    """Return the policy of a page: its own files, the API that serves it, and the stage's sockets.

    The admin page also calls the token endpoint of the identity provider.
    """
    token = stage.sign_in.token if stage.sign_in and name == "admin.html" else ""
    urls = [urlsplit(url) for url in (stage.socket, token)]
    others = [f"{url.scheme}://{url.netloc}" for url in urls if url.netloc]
    return PAGE_POLICY.format(addresses=" ".join(["'self'", *others]))
