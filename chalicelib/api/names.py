"""Display names: the names of people beside their identifiers, for readers and not for keys.

Invariant: two names that look the same are equal, no name looks blank, and a real name stays as it is
written. So a name has no hidden characters except those that change its look: a joiner between letters that
join, and a selector after a character that has variants.
"""

import re
import unicodedata
from typing import Annotated, Any

from msgspec import Meta

from chalicelib.api.schemas import INVISIBLE

MAX_NAME = 60  # characters
MAX_MARKS, MAX_TIBETAN_MARKS = 2, 4  # combining marks in a row; the letters of a Tibetan stack are marks
JOINERS = "\u200c\u200d"
BLANKS = "\u2800\u3164\uffa0"  # letters and patterns without a shape
# The characters that are shown as text unless a selector follows them, U+FE0F. Source: emoji-data.txt of
# Unicode 15, Emoji without Emoji_Presentation.
TEXT_EMOJI = (
    "©®‼⁉™ℹ↔-↙↩↪⌨⏏⏭-⏯⏱⏲⏸-⏺Ⓜ▪▫▶◀◻◼☀-☄☎☑☘☝☠☢☣☦☪☮☯☸-☺♀♂♟♠♣♥♦♨♻♾⚒⚔-⚗⚙⚛⚜⚠⚧⚰⚱⛈⛏⛑⛓⛩⛰⛱⛴⛷-⛹✂✈✉✌✍✏✒✔✖✝✡"
    "✳✴❄❇❣❤➡⤴⤵⬅-⬇〰〽㊗㊙🅰🅱🅾🅿🈂🈷🌡🌤-🌬🌶🍽🎖🎗🎙-🎛🎞🎟🏋-🏎🏔-🏟🏳🏵🏷🐿👁📽🕉🕊🕯🕰🕳-🕹🖇🖊-🖍🖐🖥🖨🖱🖲🖼🗂-🗄🗑-🗓🗜-🗞🗡🗣🗨🗯🗳🗺🛋🛍-🛏🛠-🛥🛩🛰"
    "🛳"
)
IDEOGRAPHS = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# The blocks of scripts whose letters join (Arabic, Indic and their relatives), and of symbols and emoji.
JOINING = re.compile(
    r"[\u0600-\u109f\u1700-\u1c4f\u2190-\u2bff\ua800-\uaaff\uabc0-\uabff"
    r"\U00010800-\U00011fff\U0001e900-\U0001e95f\U0001f000-\U0001fbff]"
)
HIDDEN = re.compile(rf"(?! )[{INVISIBLE}]")
# A hidden character; group 1 is one that may change what is seen.
SELECTOR_OR_HIDDEN = re.compile(
    rf"((?<=[{TEXT_EMOJI}])\ufe0f|(?<=[0-9#*])\ufe0f(?=\u20e3)"
    rf"|(?<=[{IDEOGRAPHS}])[\ufe00-\ufe02\U000e0100-\U000e01ef]"
    r"|(?<=[\u1820-\u18aa])[\u180b-\u180f]"  # Mongolian
    r"|(?<=\U0001f3f4)[\U000e0030-\U000e007a]{3,6}\U000e007f"  # the flag of a region
    rf"|[{JOINERS}])|{HIDDEN.pattern}"
)

Name = Annotated[
    Annotated[str, Meta(max_length=MAX_NAME)] | None,
    Meta(
        description="The display name in the token at the time of writing; null if the token had none",
        examples=["Ann"],
    ),
]


def clean(value: Any) -> str | None:
    """Return a display name for a claim: in NFC, without blanks at its ends, at most 60 characters.

    Any other value than a text, and a text without a visible character, gives None.

    >>> clean("  Ann\\t Lee\\u200b ")
    'Ann Lee'
    """
    if not isinstance(value, str):
        return None
    spaced = "".join(" " if one.isspace() or one in BLANKS else one for one in value[: 4 * MAX_NAME])
    visible = SELECTOR_OR_HIDDEN.sub(lambda found: found[1] or "", spaced)
    clusters = _split(unicodedata.normalize("NFC", visible))
    shown = "".join(map(_limit, clusters, [*clusters[1:], ""]))
    name = " ".join(unicodedata.normalize("NFC", shown).split())
    return clean(name[:MAX_NAME]) if len(name) > MAX_NAME else name or None


def _split(text: str) -> list[str]:
    """Split a text into characters, each with its marks, selectors and joiners.

    Marks, selectors and joiners at the beginning or after a space are left out.
    """
    clusters: list[str] = []
    for one in text:
        if not (_is_mark(one) or HIDDEN.match(one)):
            clusters.append(one)
        elif clusters and clusters[-1] != " ":
            clusters[-1] += one
    return clusters


def _limit(cluster: str, following: str) -> str:
    """Return a cluster with at most two marks, and with one joiner if the characters beside it may join."""
    joiners = int(bool(JOINING.match(cluster) and JOINING.match(following)))
    marks, kept = 0, cluster[0]
    for one in cluster[1:]:
        if one in JOINERS:
            kept += one * joiners
            joiners = 0
        elif HIDDEN.match(one):
            kept += one
        elif marks < (MAX_TIBETAN_MARKS if "\u0f71" <= one <= "\u0fbc" else MAX_MARKS):
            kept += one
            marks += 1
    return kept


def _is_mark(one: str) -> bool:
    """Return whether a character is a combining mark, also one that is newer than Python's tables."""
    category = unicodedata.category(one)
    return category in ("Mn", "Me") or (category == "Cn" and "\u1ab0" <= one <= "\u1aff")
