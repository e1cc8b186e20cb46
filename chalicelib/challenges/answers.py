"""Answers of a challenge: which notations are the same one, and what is kept of each.

Of an answer only a digest is kept: scrypt (RFC 7914) under a salt of the challenge's own. Answers are short
and can be guessed; scrypt makes each guess of who reads the table cost 2 ms and 1 MB of memory, and the salt
makes every challenge a search of its own. docs/decisions.md says why not more, and why there is no pepper.
"""

import hashlib
import unicodedata
from collections.abc import Iterable

from chalicelib.challenges.schemas import Normalization

COST = 1024  # scrypt's n; a definition keeps the one that it was made with, so that this may grow
DIGEST = 12  # bytes: a wrong path is taken for one of 1,000 once in 10²⁵ guesses
SALT = 16
LONGEST = 1000  # bytes of a normalized path: it is in a sort key


def normalized(path: str, rules: Normalization) -> str:
    """Write a path in the one notation that its challenge compares; again, it stays the same.

    A path of blanks alone, and one longer than any answer, is the empty text, which is no answer.
    Source: The Unicode Standard, 3.13, "Default Caseless Matching".

    >>> normalized("  Oak   MILL", Normalization())
    'oak mill'
    """
    text = unicodedata.normalize(rules.unicode, path)
    if rules.case == "fold":
        for form in ("NFD", rules.unicode):
            text = unicodedata.normalize(rules.unicode, unicodedata.normalize(form, text).casefold())
    if rules.spaces != "keep":
        text = (" " if rules.spaces == "collapse" else "").join(text.split())
        text = unicodedata.normalize(rules.unicode, text)  # a mark may have come to a letter
    return text if len(text.encode()) <= LONGEST else ""


def digest(path: str, salt: bytes, cost: int) -> bytes:
    """Compute what is kept of a normalized path. Takes about 2 ms of a whole core."""
    return hashlib.scrypt(path.encode(), salt=salt, n=cost, r=8, p=1, dklen=DIGEST)


def digests(paths: Iterable[str], rules: Normalization, salt: bytes, cost: int) -> set[bytes]:
    """Compute what is kept of a challenge's answers. Raises ValueError naming one that can be none."""
    texts = {normalized(path, rules): path for path in paths}
    if "" in texts:
        what = "is blank" if not texts[""].strip() else f"has more than {LONGEST} bytes once it is normalized"
        raise ValueError(f"paths: {texts[''][:40]!a} {what}")
    return {digest(text, salt, cost) for text in texts}
