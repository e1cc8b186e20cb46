"""ETags of resources that count their revisions, and `If-Match` (RFC 9110, 8.8.3 and 13.1.1)."""

import re
from collections.abc import Container
from typing import TypeVar

from chalicelib.api.router import Response

T = TypeVar("T")
TAG = re.compile('"([0-9]{1,18})"')


def with_etag(value: T, revision: int) -> Response[T]:
    """Build the response with a resource and the ETag of its revision."""
    return Response(value, headers={"ETag": f'"{revision}"'})


def parse_if_match(header: str | None) -> Container[int] | None:
    """Return the revisions that `If-Match` lists, or None for any.

    >>> parse_if_match('"3", W/"4", "five"'), parse_if_match("*")
    (frozenset({3}), None)
    """
    if header is None or header.strip() == "*":
        return None
    tags = (TAG.fullmatch(tag.strip()) for tag in header.split(","))
    return frozenset(int(tag[1]) for tag in tags if tag)
