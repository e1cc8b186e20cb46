"""Display names: the names of people beside their identifiers, for readers and not for keys."""

import unicodedata
from typing import Annotated, Any

from msgspec import Meta

from chalicelib.api import codec

MAX_NAME = 60  # characters
INVISIBLE = {"Cc", "Cf", "Cn", "Co", "Cs"}  # Unicode categories that a name does not keep

Name = Annotated[
    Annotated[str, Meta(max_length=MAX_NAME)] | None,
    Meta(
        description="The display name in the token at the time of writing; null if the token had none",
        examples=["Ann"],
    ),
]


def clean(value: Any) -> str | None:
    """Return a display name for a claim: in NFC, without invisible characters, at most 60 characters.

    Any other value than a text, and a text without a visible character, gives None.

    >>> clean("  Ann\\t Lee ")
    'Ann Lee'
    """
    if not isinstance(value, str):
        return None
    try:
        text = codec.normalize(value[: 4 * MAX_NAME], "name")
    except ValueError:  # it is not a name, and the token is valid without one
        return None
    words = "".join(" " if one.isspace() else one for one in text).split()
    shown = "".join(one for one in " ".join(words) if unicodedata.category(one) not in INVISIBLE)
    return shown[:MAX_NAME].strip() or None
