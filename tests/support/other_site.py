"""Another site, on whose pages the drop-ins are used."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class OtherSite:
    """Serves another site's pages with its own policy on its own port. Its host name is `localhost`."""

    def __init__(self) -> None:
        self.policy = ""
        self._pages: dict[str, str] = {}
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                html = site._pages.get(self.path)
                body = (html or "").encode()
                self.send_response(200 if html else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Security-Policy", site.policy)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://localhost:{self._server.server_port}"
        self.other_origin = f"http://127.0.0.1:{self._server.server_port}"  # the same site by another name
        self.foreign_origin = f"http://evil.example:{self._server.server_port}"  # for the fixture `browser`

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def publish(self, path: str, html: str) -> str:
        """Publish a page and return its address."""
        self._pages[path] = html
        return self.origin + path
