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
NON_JOINER = JOINERS[0]
BLANKS = "\u2800\u3164\uffa0"  # letters and patterns without a shape
# The characters that are shown as text unless a selector follows them, U+FE0F. Source: emoji-data.txt of
# Unicode 15, Emoji without Emoji_Presentation.
TEXT_EMOJI = (
    "©®‼⁉™ℹ↔-↙↩↪⌨⏏⏭-⏯⏱⏲⏸-⏺Ⓜ▪▫▶◀◻◼☀-☄☎☑☘☝☠☢☣☦☪☮☯☸-☺♀♂♟♠♣♥♦♨♻♾⚒⚔-⚗⚙⚛⚜⚠⚧⚰⚱⛈⛏⛑⛓⛩⛰⛱⛴⛷-⛹✂✈✉✌✍✏✒✔✖✝✡"
    "✳✴❄❇❣❤➡⤴⤵⬅-⬇〰〽㊗㊙🅰🅱🅾🅿🈂🈷🌡🌤-🌬🌶🍽🎖🎗🎙-🎛🎞🎟🏋-🏎🏔-🏟🏳🏵🏷🐿👁📽🕉🕊🕯🕰🕳-🕹🖇🖊-🖍🖐🖥🖨🖱🖲🖼🗂-🗄🗑-🗓🗜-🗞🗡🗣🗨🗯🗳🗺🛋🛍-🛏🛠-🛥🛩🛰"
    "🛳"
)
IDEOGRAPHS = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Symbols and emoji, and scripts whose letters join as Arabic ones: Syriac, Mongolian and their relatives.
JOINING = re.compile(
    r"[\u0700-\u074f\u07c0-\u085f\u1800-\u18af\u2190-\u2bff"
    r"\U00010800-\U00010fff\U0001e900-\U0001e95f\U0001f000-\U0001fbff]"
)
# Arabic letters that join the one before, and those that join the next one. Source: ArabicShaping.txt
ARABIC = r"\u0620-\u064a\u066e-\u06d5\u06ee-\u06ff\u0750-\u077f\u08a0-\u08c8"
JOINED = re.compile(rf"(?![\u0621\u0674\u08ad])[{ARABIC}]")
JOINING_NEXT = re.compile(
    r"(?![\u0622-\u0625\u0627\u0629\u062f-\u0632\u0648\u0671-\u0673\u0675-\u0677\u0688-\u0699"
    r"\u06c0\u06c3-\u06cb\u06cd\u06cf\u06d2-\u06d5\u06ee\u06ef\u0759-\u075b\u076b\u076c\u0771\u0773\u0774\u0778\u0779"
    rf"\u08aa-\u08ac\u08ae\u08b1\u08b2\u08b9]){JOINED.pattern}"
)
# Indic scripts, and those of Southeast Asia
BRAHMIC = re.compile(
    r"[\u0900-\u109f\u1700-\u17ff\u1900-\u1c4f\ua800-\uaaff\uabc0-\uabff\U00011000-\U00011fff]"
)
VIRAMA = 9  # the combining class of the signs that remove a vowel
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
    spaced = "".join(
        " " if letter.isspace() or letter in BLANKS else letter for letter in value[: 4 * MAX_NAME]
    )
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
    for letter in text:
        is_part = _is_mark(letter) or HIDDEN.match(letter)
        is_bare = not clusters or clusters[-1] == " "
        if is_part and not is_bare:
            clusters[-1] += letter
        elif not is_part and not (is_bare and unicodedata.category(letter) == "Mc"):
            clusters.append(letter)
    return clusters


def _limit(cluster: str, following: str) -> str:
    """Return a cluster with at most two marks, and with one joiner if it changes what is seen."""
    has_joiner, marks, kept = False, 0, cluster[0]
    for place, letter in enumerate(cluster[1:], start=1):
        if letter in JOINERS:
            rest = cluster[place:].lstrip(JOINERS) or following
            if not has_joiner and _has_effect(kept, letter, rest):
                has_joiner, kept = True, kept + letter
        elif HIDDEN.match(letter):
            kept += letter
        elif marks < (MAX_TIBETAN_MARKS if "\u0f71" <= letter <= "\u0fbc" else MAX_MARKS):
            kept += letter
            marks += 1
    return kept


def _has_effect(before: str, joiner: str, rest: str) -> bool:
    """Return whether a joiner changes what is seen. `before` are a letter and its marks.

    Source: Unicode Standard Annex 31, contexts A1, A2 and B.
    """
    if JOINED.match(before):
        return joiner == NON_JOINER and bool(JOINING_NEXT.match(before) and JOINED.match(rest))
    if BRAHMIC.match(before):
        is_final = not rest or rest == " "
        if unicodedata.combining(before[-1]) == VIRAMA:
            return joiner != NON_JOINER or not is_final
        return not is_final and unicodedata.category(rest[0]).startswith("M")
    return bool(JOINING.match(before) and JOINING.match(rest))


def _is_mark(letter: str) -> bool:
    """Return whether a character is a combining mark, also one that is newer than Python's tables."""
    category = unicodedata.category(letter)
    return category in ("Mn", "Me") or (category == "Cn" and "\u1ab0" <= letter <= "\u1aff")
