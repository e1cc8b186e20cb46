"""Texts that wait for an admin's approval because of what they contain. Pure functions.

A text waits if it has a word or a host of HUBBUB_COMMENTS_BLOCK, or more than LINKS links. Case, width,
invisible characters and percent-encoding make no difference. A word matches whole words. A host matches its
subdomains too.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from urllib.parse import unquote

LINKS = 3  # links of a text that needs no approval
LINK = re.compile(r"(?:https?://|\bwww\.)\S+", re.IGNORECASE)
HOST = re.compile(r"(?:[\w-]+\.)+[\w-]{2,}")
BLANK_LINES = re.compile(r"\n(?:[^\S\n]|[\u200b-\u200f\u2060\ufeff\u3164])*(?=\n)")


def must_wait(text: str, block: tuple[str, ...]) -> bool:
    """Return whether a text must be approved before it is published.

    >>> must_wait("Buy CASINO chips", ("casino",)), must_wait("An occasion", ("casino",))
    (True, False)
    >>> must_wait("see http://a.spam.example/x", ("spam.example",))
    True
    >>> must_wait("see http://a.spam%2Eexample/x", ("spam.example",))  # as browsers read it
    True
    """
    if len(LINK.findall(text)) > LINKS:
        return True
    pattern = _compile(block)
    return pattern is not None and any(pattern.search(fold(form)) for form in (text, unquote(text)))


def fold(text: str) -> str:
    """Return a text without differences of case and width, and without invisible characters."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(letter for letter in folded if unicodedata.category(letter) != "Cf")


def clamp_lines(text: str) -> str:
    r"""Return a text with at most two line ends in a row. Lines of white space are empty lines.

    >>> clamp_lines("a\n\n \n\nb\nc")
    'a\n\nb\nc'
    """
    return re.sub(r"\n{3,}", "\n\n", BLANK_LINES.sub("\n", text))


@cache
def _compile(block: tuple[str, ...]) -> re.Pattern[str] | None:
    """Return a pattern of all entries, for a folded text, or None without entries."""
    entries = {fold(entry).strip() for entry in block}
    parts = sorted(part for entry in entries if entry for part in _build_parts(entry))
    return re.compile("|".join(parts)) if parts else None


def _build_parts(entry: str) -> Iterable[str]:
    if HOST.fullmatch(entry):  # the host itself, or a part of it in front, but not a longer host
        for name in {entry, _to_ascii(entry)}:
            yield rf"(?<![\w-])(?:[\w-]+\.)*{re.escape(name)}(?!-|\w|\.\w)"
        return
    words = r"\s+".join(map(re.escape, entry.split()))
    yield _boundary(entry[0], "(?<!{})") + words + _boundary(entry[-1], "(?!{})")


def _boundary(letter: str, look: str) -> str:
    """Return the border of a word. Scripts without spaces between words have none."""
    has_words = letter.isalnum() and unicodedata.east_asian_width(letter) not in "WF"
    return look.format(r"\w") if has_words else ""


def _to_ascii(host: str) -> str:
    """Return an internationalized host as browsers send it."""
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host
