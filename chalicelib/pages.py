"""The files of the pages and the drop-ins: the folder web/, which the package carries beside the app.

`vendor/web` leads to it, for Chalice packs what vendor/ leads to. Any static host serves the same files: they
name each other relatively.
"""

from pathlib import Path

from chalicelib.calls import Answer
from chalicelib.errors import NotFound

WEB = Path(__file__).resolve().parents[1] / "web"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
# A page says in its own head where its parts may come from, but only a header forbids to frame it. A script
# is there for other sites' pages, even those that isolate themselves.
HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Cache-Control": "public, max-age=300",
}


def file(name: str, folder: str = "") -> Answer[str]:
    """Answer a file of the pages, or of one of their folders. Raises NotFound."""
    path = WEB / folder / name
    try:
        if path.suffix in KINDS and path.resolve() == path:  # what leads elsewhere is none of ours
            headers = HEADERS | {"Content-Type": KINDS[path.suffix]}
            return Answer(path.read_text(encoding="utf-8"), headers=headers)
    except OSError:  # there is none
        pass
    raise NotFound(f"There is no file {name!r} here.")
