"""What enters and what leaves, as typed structs; on the wire their names are camelCase.

Here is what all features share; each has its own in a file beside its own.
"""

import re
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

# An identifier names a player, a board, a challenge or a product, or is the client's id of a submission.
# NFC is applied before it is matched.
#
# Bytes: 128 of ASCII, or 60 characters of up to 4 bytes, so never more than 240. Two such names in one sort
# key are below DynamoDB's 1,024 bytes, and percent-encoded in one path below the method ARN's 1,600
# (tests/api/test_keys.py).
#
# Not in it: `#`, which separates the parts of a key; blanks; whatever has no shape of its own, so that no two
# names look the same: control and format characters, Unicode's default ignorable code points (zero-width
# characters, joiners, direction marks, variation selectors, tags, Hangul fillers), private use and
# noncharacters. RFC 8264 (PRECIS), 9.13, disallows the same.
_INVISIBLE = (
    r"\u0000-\u0020\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f"
    r"\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ue000-\uf8ff"
    r"\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
) + "".join(
    f"{chr(first)}-{chr(last)}"  # as they are: JSON Schema has no escape for a code point above U+FFFF
    for first, last in (
        (0x13430, 0x13455),  # Egyptian hieroglyph format controls
        (0x1BCA0, 0x1BCA3),  # shorthand format controls
        (0x1D173, 0x1D17A),  # musical symbols that begin and end a beam or a slur
        *((plane << 16 | 0xFFFE, plane << 16 | 0xFFFF) for plane in range(1, 14)),
        (0xE0000, 0x10FFFF),  # tags, variation selectors, private use
    )
)
IDENTIFIER_PATTERN = rf"^(?:[!\"$-~]{{1,128}}|[^#{_INVISIBLE}]{{1,60}})$(?!\n)"
IDENTIFIER = re.compile(IDENTIFIER_PATTERN)
IDENTIFIER_RULE = (
    "must be 1 to 128 ASCII characters, or 1 to 60 characters of any script, "
    "without blanks, `#`, control, invisible or private-use characters"
)
Identifier = Annotated[str, Meta(pattern=IDENTIFIER_PATTERN, examples=["player-1"])]

# What version 0.1.0 took for an identifier. A name that it stored is still read, listed and removed; a new
# one is not made.
STORED_PATTERN = (
    r"^[^#\u0000-\u0020\u007f-\u00a0\u061c\u1680\u2000-\u200c\u200e\u200f\u2028-\u202f\u205f-\u206f"
    r"\u3000\ud800-\udfff\ufeff]{1,128}$(?!\n)"
)
STORED = re.compile(STORED_PATTERN)
STORED_RULE = "must be 1 to 128 characters without blanks, `#` or control characters"
StoredIdentifier = Annotated[str, Meta(pattern=STORED_PATTERN, examples=["player-1"])]

RULES = {IDENTIFIER_PATTERN: IDENTIFIER_RULE, STORED_PATTERN: STORED_RULE}
"""Sentences for people, in place of patterns."""

Instant = Annotated[
    str,
    Meta(
        description="An ISO 8601 instant with an offset; answers are in UTC",
        examples=["2026-11-21T10:00:00Z"],
        extra_json_schema={"format": "date-time"},
    ),
]
Cursor = Annotated[str, Meta(description="The cursor of the page before; without one, the first")] | None
Next = Annotated[str, Meta(description="Where the next page begins, or null after the last")] | None


class Schema(Struct, rename="camel", kw_only=True):
    """Stand above every struct of the interface.

    For its description (openapi.py) one may hold EXAMPLES, each with a name; MORE keywords of JSON Schema;
    and ONE_OF: the structs it is one of, with the fields that each has and no other.
    """


# -- service -------------------------------------------------------------------------------------------


class Health(Schema):
    """That the app answers, and which stage it is."""

    EXAMPLES: ClassVar = {"a local run": {"stage": "local", "status": "ok"}}
    MORE: ClassVar = {"required": ["stage", "status"]}

    stage: Annotated[str, Meta(description="The stage that answers")]
    status: Literal["ok"] = "ok"


class FilePath(Schema):
    """One of a page's files."""

    file: Annotated[
        str,
        Meta(description="Its name", examples=["swagger-ui.css"], pattern="^[a-z.-]{1,40}$(?!\\n)"),
    ]


class PageConfig(Schema):
    """What the page has to know of the stage that it is served by."""

    EXAMPLES: ClassVar = {"a local run": {"stage": "local", "socket": "ws://127.0.0.1:8001"}}

    stage: Annotated[str, Meta(description="The stage")]
    socket: Annotated[str, Meta(description="The address of its sockets; empty: it is not known here")]


FileName = Annotated[str, Meta(description="Its name", examples=["page.css"], max_length=60)]


class PagePath(Schema):
    """One of the page's files."""

    name: FileName


class PagePartPath(Schema):
    """A file in one of the page's folders."""

    name: Annotated[str, Meta(description="The folder", examples=["vendor"], max_length=60)]
    file: FileName
