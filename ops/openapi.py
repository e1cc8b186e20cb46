"""Writes down the interface's description, the same that the app answers at `/openapi.json`."""

from __future__ import annotations

import json


def text() -> str:
    """Describe every call as OpenAPI 3.1, in JSON to read and to compare."""
    import app
    from chalicelib.api.openapi import describe

    return json.dumps(describe(app.router.routes, app.VERSION), indent=2, ensure_ascii=False) + "\n"
