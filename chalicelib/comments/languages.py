"""Language tags of BCP 47 in one canonical notation.

>>> canonical("EN-us"), canonical("zh-hant-tw"), canonical("de-CH-1996-x-Me")
('en-US', 'zh-Hant-TW', 'de-CH-1996-x-me')
>>> canonical("i-klingon"), canonical("en-gb-oed")
('tlh', 'en-GB-oxendict')
"""

import re

LONGEST = 35  # characters: the least limit that RFC 5646, 4.4.1 allows
_LETTER, _ANY = "[A-Za-z]", "[A-Za-z0-9]"

# The 17 irregular tags registered before 2006, and the preferred value of each in the IANA registry. Three of
# them have no preferred value.
IRREGULAR = {
    "en-gb-oed": "en-GB-oxendict",
    "i-ami": "ami",
    "i-bnn": "bnn",
    "i-default": "i-default",
    "i-enochian": "i-enochian",
    "i-hak": "hak",
    "i-klingon": "tlh",
    "i-lux": "lb",
    "i-mingo": "i-mingo",
    "i-navajo": "nv",
    "i-pwn": "pwn",
    "i-tao": "tao",
    "i-tay": "tay",
    "i-tsu": "tsu",
    "sgn-be-fr": "sfb",
    "sgn-be-nl": "vgt",
    "sgn-ch-de": "sgg",
}
_IRREGULAR = "|".join(
    "".join(f"[{letter.upper()}{letter}]" if letter.isalpha() else letter for letter in tag)
    for tag in IRREGULAR
)
# The grammar of RFC 5646, 2.1.
PATTERN = (
    rf"^(?:(?:{_LETTER}{{2,3}}(?:-{_LETTER}{{3}}){{0,3}}|{_LETTER}{{4,8}})"  # language
    rf"(?:-{_LETTER}{{4}})?"  # script
    rf"(?:-(?:{_LETTER}{{2}}|[0-9]{{3}}))?"  # region
    rf"(?:-(?:{_ANY}{{5,8}}|[0-9]{_ANY}{{3}}))*"  # variants
    rf"(?:-[0-9A-WY-Za-wy-z](?:-{_ANY}{{2,8}})+)*"  # extensions
    rf"(?:-[xX](?:-{_ANY}{{1,8}})+)?"
    rf"|[xX](?:-{_ANY}{{1,8}})+"  # private use
    rf"|{_IRREGULAR})$(?!\n)"
)
TAG = re.compile(PATTERN)


def canonical(tag: str) -> str:
    """Return a tag in the case that RFC 5646, 2.1.1 recommends. An irregular tag becomes its replacement.

    Raises: ValueError for a tag that is not well-formed.
    """
    if len(tag) > LONGEST or not TAG.search(tag):
        raise ValueError("must be a language tag such as en, pt-BR or zh-Hant")
    if tag.lower() in IRREGULAR:
        return IRREGULAR[tag.lower()]
    parts = tag.lower().split("-")
    for i, part in enumerate(parts[1:], 1):
        if len(parts[i - 1]) == 1:  # a singleton: extensions and private use are in lower case
            break
        if len(part) in (2, 4) and part.isalpha():
            parts[i] = part.upper() if len(part) == 2 else part.title()
    return "-".join(parts)
