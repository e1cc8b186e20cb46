"""Schemas that all features share: typed structs for requests and responses, in camelCase in JSON.

Each feature has its own schemas in its package.
"""

import re
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from chalicelib import times
from chalicelib.errors import BadRequest

RULES: dict[str, str] = {}
"""For each pattern, the rule in words that an error message states instead of the pattern."""


def described(pattern: str, rule: str) -> str:
    """Register the rule in words of a pattern; return the pattern, for `Meta(pattern=…)`."""
    RULES[pattern] = rule
    return pattern


# An identifier is the name of a player, board, challenge or product, or the client's id of a submission. It
# is in NFC before it is matched.
#
# Length: 128 ASCII characters, or 60 characters of up to 4 bytes, so never more than 240 bytes. Two such
# names in one sort key are below DynamoDB's 1,024 bytes. Percent-encoded in one path they are below the
# 1,600 bytes of a method ARN (tests/api/test_keys.py).
#
# Excluded: `#`, which separates the parts of a key; white space; and invisible characters, so that no two
# names look the same: control and format characters, Unicode's default ignorable code points (zero-width
# characters, joiners, direction marks, variation selectors, tags, Hangul fillers), private use and
# noncharacters. RFC 8264 (PRECIS), 9.13, disallows the same. Also excluded are the dot segments: a URL parser
# removes `..` from a path together with the part before it, so a call would reach another resource.
DOT_SEGMENT = r"(?:\.|%2[eE]){1,2}"
INVISIBLE = (
    r"\u0000-\u0020\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f"
    r"\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ue000-\uf8ff"
    r"\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
) + "".join(
    f"{chr(first)}-{chr(last)}"  # literal characters: JSON Schema has no escape above U+FFFF
    for first, last in (
        (0x1107F, 0x1107F),  # a Brahmi joiner
        (0x13430, 0x13455),  # Egyptian hieroglyph format controls, among them blanks
        (0x16FE4, 0x16FE4),  # a Khitan filler
        (0x1BCA0, 0x1BCA3),  # shorthand format controls
        (0x1D159, 0x1D159),  # a note without a head
        (0x1D173, 0x1D17A),  # musical symbols that begin and end a beam or a slur
        *((plane << 16 | 0xFFFE, plane << 16 | 0xFFFF) for plane in range(1, 14)),
        (0xE0000, 0x10FFFF),  # tags, variation selectors, private use
    )
)
IDENTIFIER_PATTERN = rf"^(?!{DOT_SEGMENT}$)(?:[!\"$-~]{{1,128}}|[^#{INVISIBLE}]{{1,60}})$(?!\n)"
IDENTIFIER = re.compile(IDENTIFIER_PATTERN)
IDENTIFIER_RULE = (
    "must be 1 to 128 ASCII characters, or 1 to 60 characters of any script, "
    "without white space, `#`, control, invisible or private-use characters, and not `.` or `..`"
)
Identifier = Annotated[
    str, Meta(pattern=described(IDENTIFIER_PATTERN, IDENTIFIER_RULE), examples=["player-1"])
]
Zone = Annotated[str, Meta(max_length=60, extra_json_schema={"format": "timezone"})]  # our own format


def parse_instant(field: str, text: str) -> datetime:
    """Return the instant in a field of a body. Raises BadRequest, which names the field."""
    try:
        return times.parse(text)
    except ValueError as error:
        raise BadRequest(f"`{field}` {error}") from None


def parse_identifier(name: str) -> str:
    """Return the name of a board, a challenge or a product, as a topic has it.

    Raises: BadRequest for a malformed name.
    """
    if not IDENTIFIER.search(name):
        raise BadRequest("`topic` must name a board, a challenge or a product after its colon")
    return name


Instant = Annotated[
    str,
    Meta(
        description="An ISO 8601 instant with an offset; responses are in UTC",
        examples=["2026-11-21T10:00:00Z"],
        extra_json_schema={"format": "date-time"},
    ),
]
Cursor = Annotated[str, Meta(description="The cursor of the page before; omit it for the first page")] | None
Next = Annotated[str, Meta(description="The cursor of the next page, or null after the last page")] | None


class Schema(Struct, rename="camel", kw_only=True):
    """The base class of every struct of the interface.

    Optional class attributes for its OpenAPI description: EXAMPLES by name; MORE keywords of JSON Schema; and
    ONE_OF, the structs of which a value is exactly one, with the fields that only this struct has. With
    TAKES_ANY_NUMBER, its fields of any type may hold a number that DynamoDB cannot hold.
    """


# -- service -------------------------------------------------------------------------------------------


class Health(Schema):
    """The state of the app."""

    EXAMPLES: ClassVar = {"a local run": {"stage": "local", "status": "ok"}}
    MORE: ClassVar = {"required": ["stage", "status"]}

    stage: Annotated[str, Meta(description="The name of the stage")]
    status: Literal["ok"] = "ok"


class FilePath(Schema):
    """A file of the API reference."""

    file: Annotated[
        str,
        Meta(
            description="The file's name",
            examples=["reference.css"],
            pattern=described(
                "^[a-z.-]{1,40}$(?!\\n)",
                "must be a file name of 1 to 40 lower-case letters, `.` and `-`",
            ),
        ),
    ]


class PageSignIn(Schema):
    """The identity provider with which the admin page signs in."""

    authorize: Annotated[str, Meta(description="The address of its authorization endpoint")]
    token: Annotated[str, Meta(description="The address of its token endpoint")]
    client: Annotated[str, Meta(description="The client id of the admin page")]


class PageConfig(Schema):
    """The configuration of the page at this stage."""

    EXAMPLES: ClassVar = {
        "a local run": {
            "stage": "local",
            "socket": "ws://127.0.0.1:8001",
            "guests": True,
            "sites": ["example.org"],
            "signIn": None,
        }
    }

    stage: Annotated[str, Meta(description="The name of the stage")]
    socket: Annotated[str, Meta(description="The WebSocket address of the stage; empty when it is unknown")]
    guests: Annotated[bool, Meta(description="Whether visitors can sign in as guests")]
    sites: Annotated[
        list[str], Meta(description="The hosts in HUBBUB_SITES, without those that stand for several")
    ]
    sign_in: Annotated[PageSignIn, Meta(description="Null: the admin page takes a pasted token")] | None


FileName = Annotated[str, Meta(description="The file's name", examples=["page.css"], max_length=60)]


class PagePath(Schema):
    """A file of the page."""

    name: FileName


class PagePartPath(Schema):
    """A file in a folder of the page."""

    name: Annotated[str, Meta(description="The folder's name", examples=["vendor"], max_length=60)]
    file: FileName
