"""The page that shows the calls: Swagger UI 5.35.0, shipped with the app: nothing comes from elsewhere.

Its files are Apache-2.0 (LICENSE beside them); index.html and start.js are ours.
"""

from pathlib import Path

from chalicelib.errors import NotFound

HERE = Path(__file__).parent
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}
# Swagger UI sets styles on its elements; everything else comes from this origin alone.
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "public, max-age=3600",
}


def file(name: str) -> tuple[str, str]:
    """Answer one of the page's files, and its kind. Raises NotFound."""
    path = HERE / name
    if path.parent != HERE or path.suffix not in KINDS or not path.is_file():
        raise NotFound(f"The page has no file {name!r}.")
    return path.read_text(encoding="utf-8"), KINDS[path.suffix]
