"""Read comments from Disqus' XML export and from WordPress' export (WXR).

These files have no ratings and no languages, so the importer names both. A thread or post becomes a product,
a commenter an author with a display name. The time of a comment is kept. E-mail addresses are not read.

Left out, each with its reason: deleted, spam and unapproved comments, pingbacks, and replies, because a
product has one comment of each author. Document type definitions are refused, and entities with them, so no
file can expand without end or read another file (CWE-776, CWE-611).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any, NamedTuple
from xml.parsers import expat

from chalicelib.api import names
from ops.imports.comments import NotComments, Row, Skip, parse

DISQUS, INTERNALS = "http://disqus.com", "http://disqus.com/disqus-internals"
WORDPRESS = re.compile(r"http://wordpress\.org/export/[\d.]+/")
BLOCKS = {"p", "div", "li", "blockquote", "tr", "h1", "h2", "h3", "h4"}
MAX_DEPTH = 64
MAX_TEXT = 1_000_000  # characters of one element


class Choice(NamedTuple):
    """What the files do not say: the rating and the language of each comment."""

    rating: int
    language: str


class Element:
    """An element with its text and its children. A name has no namespace, and `space` is its namespace."""

    def __init__(self, space: str, name: str, attributes: dict[str, str]) -> None:
        self.space, self.name, self.attributes = space, name, attributes
        self.children: list[Element] = []
        self.parts: list[str] = []

    @property
    def content(self) -> str:
        """The text of this element without that of its children."""
        return "".join(self.parts)

    def text(self, *path: str) -> str:
        """Return the text of the first element at a path of names; empty without one."""
        found = self.find(*path)
        return found.content.strip() if found else ""

    def find(self, *path: str) -> Element | None:
        """Return the first element at a path of names."""
        if not path:
            return self
        return next((one.find(*path[1:]) for one in self.children if one.name == path[0]), None)


def read_elements(chunks: Iterable[bytes], wanted: frozenset[str], depth: int) -> Iterator[Element]:
    """Yield the elements with a wanted name at a depth below the root, one at a time.

    Raises: NotComments for a malformed file, and for one with a document type definition.
    """
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    stack: list[Element] = []
    done: list[Element] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        space, _, local = name.rpartition(" ")
        if len(stack) >= MAX_DEPTH:
            raise NotComments(f"elements are nested deeper than {MAX_DEPTH} levels")
        stack.append(Element(space, local, attributes))

    def end(_: str) -> None:
        one = stack.pop()
        if one.name in wanted and len(stack) == depth:
            done.append(one)
        elif len(stack) > depth:
            stack[-1].children.append(one)

    def data(text: str) -> None:
        if stack and sum(map(len, stack[-1].parts)) + len(text) <= MAX_TEXT:
            stack[-1].parts.append(text)

    def refuse(*_: Any) -> None:
        raise NotComments("the file has a document type definition, which is not accepted")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = data, refuse
    try:
        for chunk in chunks:
            parser.Parse(chunk, False)
            yield from done
            done.clear()
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise NotComments(f"not XML: {error}") from None
    yield from done


def read_disqus(chunks: Iterable[bytes], choice: Choice) -> Iterator[Row | Skip]:
    """Yield a comment or a skip reason for each post of a Disqus export.

    Raises: NotComments.
    """
    products: dict[str, str] = {}
    for one in read_elements(chunks, frozenset({"thread", "post"}), 1):
        if one.space != DISQUS:
            raise NotComments("not an export of Disqus")
        if one.name == "thread":
            products[_id(one)] = _identifier(one.text("id")) or _identifier(one.text("link"))
        elif one.text("isDeleted") == "true" or one.text("isSpam") == "true":
            yield Skip.NOT_PUBLISHED
        elif one.find("parent"):
            yield Skip.REPLY
        else:
            thread, name = one.find("thread"), one.text("author", "name")
            product = products.get(_id(thread), "") if thread else ""
            author = one.text("author", "username") or name
            yield _row(product, author, name, one.text("message"), one.text("createdAt"), choice)


def read_wordpress(chunks: Iterable[bytes], choice: Choice) -> Iterator[Row | Skip]:
    """Yield a comment or a skip reason for each comment of a WordPress export.

    Raises: NotComments.
    """
    for item in read_elements(chunks, frozenset({"item"}), 2):
        comments = [one for one in item.children if one.name == "comment" and WORDPRESS.match(one.space)]
        product = item.text("post_name") or item.text("post_id")
        for one in comments:
            if one.text("comment_approved") != "1" or one.text("comment_type") not in ("", "comment"):
                yield Skip.NOT_PUBLISHED
            elif one.text("comment_parent") not in ("", "0"):
                yield Skip.REPLY
            else:
                name, user = one.text("comment_author"), one.text("comment_user_id")
                author = f"wordpress-{user}" if user not in ("", "0") else name
                text, time = one.text("comment_content"), one.text("comment_date_gmt")
                yield _row(product, author, name, text, time, choice)


def _row(product: str, author: str, name: str, html: str, time: str, choice: Choice) -> Row | Skip:
    fields = {
        "product": _identifier(product),
        "author": _identifier(author),
        "rating": str(choice.rating),
        "language": choice.language,
        "text": to_text(html),
    }
    found = parse(fields)
    if isinstance(found, Skip):
        return found
    try:
        created = datetime.fromisoformat(time.replace(" ", "T"))
    except ValueError:
        return Skip.BAD_TIME
    created = created.replace(tzinfo=UTC) if created.tzinfo is None else created.astimezone(UTC)
    return found._replace(name=names.clean(name), created=created)


def _id(one: Element) -> str:
    return one.attributes.get(f"{INTERNALS} id", "")


def _identifier(text: str) -> str:
    """Return a text without the characters that no identifier has: white space becomes a hyphen."""
    return "-".join(text.replace("#", "").split())


def to_text(html: str) -> str:
    """Return the text of an HTML fragment, with a line for each block.

    >>> to_text("<p>One &amp; <b>two</b></p><p>three</p>")
    'One & two\\nthree'
    """
    reader = _TextReader()
    reader.feed(html)
    reader.close()
    lines = [" ".join(line.split()) for line in "".join(reader.parts).split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


class _TextReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._hidden += tag in ("script", "style")
        if tag == "br":
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= self._hidden > 0 and tag in ("script", "style")
        if tag in BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)
