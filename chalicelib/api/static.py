"""The page of the numbers: the files of `web`, as the app itself answers them.

The folder stands beside the app, where any static host can have it too; Chalice packs it because `vendor/web`
is a link to it. The HTML states a policy that holds on any host. The header that the app adds is stricter: it
names the only addresses that a page of this stage connects to.
"""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from chalicelib.api.responses import Answer
from chalicelib.errors import NotFound
from chalicelib.settings import Settings

HERE = Path(__file__).parents[2] / "web"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
BUNDLE = re.compile(r"-[0-9a-f]{12}\.(js|css)$")  # ops/aws/page_bundle.py makes them at package time
POLICY = "base-uri 'none'; object-src 'none'; frame-ancestors 'none'"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src {addresses}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def file(stage: Settings, name: str, folder: str = "") -> Answer[str]:
    """Answer one of the page's files; while it is worked on, every time anew. Raises NotFound."""
    path = HERE / folder / name
    try:
        inside = path.resolve().is_relative_to(HERE.resolve()) and path.suffix in KINDS and path.is_file()
    except (OSError, ValueError):  # no file can have such a name
        inside = False
    if not inside:
        raise NotFound(f"The page has no file {name[:40]!r}.")
    headers = {
        "Content-Type": KINDS[path.suffix],
        "Content-Security-Policy": _page_policy(stage) if path.suffix == ".html" else POLICY,
        "Cross-Origin-Resource-Policy": "cross-origin",  # drop-ins are for other sites' pages
        "Cache-Control": _caching(stage, path),
    }
    return Answer(path.read_text(encoding="utf-8"), headers=headers)


def _caching(stage: Settings, path: Path) -> str:
    """Return how long a file may be cached: a bundle for ever, because its name has a hash of its content."""
    if BUNDLE.search(path.name):
        return "public, max-age=31536000, immutable"
    return "no-cache" if stage.stage == "local" or path.suffix == ".html" else "public, max-age=300"


def front(stage: Settings, path: str, query: Any) -> Answer[str]:
    """Return the page, or a redirect to it for a client that asked for it without the last slash.

    API Gateway serves `/{stage}` and `/{stage}/` as the same resource. Relative links of a page at the first
    lead above the stage. `path` is `requestContext.path`: the path as the client sent it, with the stage or
    the base path of a custom domain. The address is relative, so the host does not matter.
    """
    if not path or path.endswith("/"):
        return file(stage, "index.html")
    pairs = [(name, value) for name in query or () for value in query.getlist(name)]
    address = f"./{path.rpartition('/')[2]}/" + (f"?{urlencode(pairs)}" if pairs else "")
    return Answer("", status=302, headers={"Location": address})


def _page_policy(stage: Settings) -> str:
    """Return the policy of a page: its own files, the API that serves it, and the stage's sockets."""
    socket = urlsplit(stage.socket)
    addresses = f"'self' {socket.scheme}://{socket.netloc}" if socket.netloc else "'self'"
    return PAGE_POLICY.format(addresses=addresses)
