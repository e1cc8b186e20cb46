"""The parts of the description that no call and no type says of itself."""

from typing import Any

# By the first part of a call's path; what is none of these belongs to the service itself.
TAGS = {
    "views": "How often a site's pages are viewed, by how many clients, and when.",
    "leaderboards": "Scores of players, ranked.",
    "challenges": "Who found which of a challenge's paths.",
    "products": "Comments on products, with ratings.",
    "service": "The app itself.",
}
HEADERS: dict[str, Any] = {
    "X-Request-Id": {
        "description": "Names this request in the logs.",
        "schema": {"type": "string"},
        "example": "0b3f6f0e-6a0b-4d8c-9d4e-3c1f2d6f9a11",
    },
    "Cache-Control": {
        "description": "How long the answer may be kept: not at all (`no-store`), or for so many seconds.",
        "schema": {"type": "string"},
        "example": "no-store",
    },
    "Retry-After": {
        "description": "Seconds to wait before the next try.",
        "schema": {"type": "integer"},
        "example": 1,
    },
}
IDEMPOTENCY_KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Your own name for this write: the same name again writes nothing and answers the same.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,128}$"},
    "example": "order-1539",
}
IF_MATCH: dict[str, Any] = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "description": "The ETag that you read: what somebody has changed since is 412, and stays as it is.",
    "schema": {"type": "string"},
    "example": '"1"',
}
BEARER = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "JWT",
    "description": "A signed token: `sub` is the player or author, and the scope `admin` opens the calls "
    "for admins. On one machine `python -m ops token --stage local --sub me` prints one.",
}
