"""Generate the OpenAPI document that the app returns at `/openapi.json`."""

from __future__ import annotations

import json


def format_openapi() -> str:
    """Return the OpenAPI 3.1 document of all routes as indented JSON."""
    import app
    from chalicelib.api.openapi import describe

    return json.dumps(describe(app.router, app.VERSION), indent=2, ensure_ascii=False) + "\n"
