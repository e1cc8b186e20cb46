"""What enters and what leaves, as typed structs; on the wire their names are camelCase.

Here is what all features share; each has its own in a file beside its own.
"""

import re
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

# What names a player, a board, a product: 1 to 128 characters, letters of any script, signs and emoji, but no
# blank, no control or direction mark, and no `#`, which parts the keys of the table. NFC is applied first.
IDENTIFIER_PATTERN = (
    r"^[^#\u0000-\u0020\u007f-\u00a0\u061c\u1680\u2000-\u200c\u200e\u200f\u2028-\u202f\u205f-\u206f"
    r"\u3000\ud800-\udfff\ufeff]{1,128}$(?!\n)"
)
IDENTIFIER = re.compile(IDENTIFIER_PATTERN)
Identifier = Annotated[str, Meta(pattern=IDENTIFIER_PATTERN, examples=["player-1"])]
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
