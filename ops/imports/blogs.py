"""Read comments from Disqus' XML export and from WordPress' export (WXR).

These files have no ratings and no languages, so the importer may name both. A thread or post becomes a
product, a commenter an author with a display name. The time of a comment is kept. E-mail addresses are not
read.

A reply to a reply becomes a reply to the comment above both, because replies have one level. Left out, each
with its reason: deleted, spam and unapproved comments, and pingbacks. A reply whose comment is left out
becomes a comment, or is left out where comments have ratings.

Control characters that XML forbids are dropped and counted. Document type definitions are refused, and
entities with them, so no file can expand without end or read another file (CWE-776, CWE-611).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote
from xml.parsers import expat

import msgspec

from chalicelib import times, ulids, urls
from chalicelib.api import names
from chalicelib.api.schemas import IDENTIFIER, INVISIBLE
from chalicelib.comments.schemas import ReplyBody
from chalicelib.views import sources
from ops.imports.comments import NotComments, Parent, ReplyRow, Row, Skip, parse

INTERNALS = "http://disqus.com/disqus-internals"
DISQUS = re.compile(r"http://disqus\.com")
WORDPRESS = re.compile(r"http://wordpress\.org/export/[\d.]+/")
BLOCKS = {"p", "div", "li", "blockquote", "tr", "h1", "h2", "h3", "h4"}
FORBIDDEN = bytes(set(range(32)) - set(b"\t\n\r"))
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
LONGEST_SLUG = 40  # characters of a product in any script, before the digest that replaces the rest
MAX_DEPTH = 64
MAX_TEXT = 1_000_000  # characters of one element


@dataclass
class Choice:
    """The rating and the language of each comment, which the files do not have.

    `dropped` counts the characters that XML forbids.
    """

    rating: int | None = None
    language: str = "und"
    dropped: int = 0


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
        return next((child.find(*path[1:]) for child in self.children if child.name == path[0]), None)


def drop_forbidden(chunks: Iterable[bytes], choice: Choice) -> Iterator[bytes]:
    """Yield the chunks of a file without the control characters that XML 1.0 forbids, and count these.

    Source: XML 1.0, 2.2 ("Characters"). No other character of UTF-8 has such a byte. Files in UTF-16 pass.
    """
    is_utf_16 = None
    for chunk in chunks:
        is_utf_16 = chunk[:2] in UTF_16 if is_utf_16 is None else is_utf_16
        kept = chunk if is_utf_16 else chunk.translate(None, FORBIDDEN)
        choice.dropped += len(chunk) - len(kept)
        yield kept


def read_elements(
    chunks: Iterable[bytes], wanted: frozenset[str], depth: int, space: re.Pattern[str]
) -> Iterator[Element]:
    """Yield the elements with a wanted name at a depth below the root, one at a time.

    Raises: NotComments for a malformed file, for one whose root does not declare the namespace, and for one
        with a document type definition.
    """
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    stack: list[Element] = []
    done: list[Element] = []
    declared: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        own, _, local = name.rpartition(" ")
        if not stack and not any(map(space.fullmatch, declared)):
            raise NotComments("not an export of this --format")
        if len(stack) >= MAX_DEPTH:
            raise NotComments(f"elements are nested deeper than {MAX_DEPTH} levels")
        stack.append(Element(own, local, attributes))

    def end(_: str) -> None:
        element = stack.pop()
        if element.name in wanted and len(stack) == depth:
            done.append(element)
        elif len(stack) > depth:
            stack[-1].children.append(element)

    def data(text: str) -> None:
        if stack and sum(map(len, stack[-1].parts)) + len(text) <= MAX_TEXT:
            stack[-1].parts.append(text)

    def declare(_: str | None, uri: str | None) -> None:
        declared.append(uri or "")

    def refuse(*_: Any) -> None:
        raise NotComments("the file has a document type definition, which is not accepted")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartNamespaceDeclHandler = declare
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = data, refuse
    try:
        for chunk in chunks:
            parser.Parse(chunk, False)
            yield from done
            done.clear()
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise NotComments(f"not XML, or cut off, at line {error.lineno}, column {error.offset}") from None
    yield from done


class Threads:
    """The comments of a file by their ids, so that its replies find them.

    Memory: about 300 bytes for each comment and reply, and the replies that precede their parent in the file.
    """

    def __init__(self, source: str, *, keeps_all: bool) -> None:
        self._source = source
        self._keeps_all = keeps_all  # comments without ratings: any number of an author, and lost replies
        self._parents: dict[str, Parent | None] = {}  # None: the comment is left out
        self._authors: set[tuple[str, str]] = set()
        self._waiting: dict[str, list[tuple[str, Row | Skip]]] = {}

    def place(self, id: str, parent: str, found: Row | Skip) -> Iterator[Row | ReplyRow | Skip]:
        """Yield a comment or a reply, with the replies that have waited for it."""
        ready = [(id, parent, found)]
        while ready:
            id, parent, found = ready.pop()
            if parent and parent not in self._parents:
                self._waiting.setdefault(parent, []).append((id, found))
                continue
            above = self._parents[parent] if parent else None
            if above or (parent and not self._keeps_all):
                self._parents[id] = above
                yield self._to_reply(id, found)
            else:
                if self._keeps_all and isinstance(found, Row) and found.created:
                    source = f"{self._source} {found.product} {id}"
                    found = found._replace(id=ulids.derive(found.created, source))
                self._parents[id] = self._to_parent(found)
                yield found
            ready += [(reply, id, row) for reply, row in self._waiting.pop(id, [])]

    def close(self) -> Iterator[Row | ReplyRow | Skip]:
        """Yield the replies whose parent is not in the file, as if it was left out."""
        lost = [parent for parent in self._waiting if not self._is_waiting(parent)]
        for parent in lost:
            self._parents[parent] = None
            for id, found in self._waiting.pop(parent):
                yield from self.place(id, parent, found)
        for rows in self._waiting.values():  # replies to each other in a circle
            for _, found in rows:
                yield found if isinstance(found, Skip) else Skip.NO_COMMENT

    def _is_waiting(self, id: str) -> bool:
        return any(id == waiting for rows in self._waiting.values() for waiting, _ in rows)

    def _to_parent(self, found: Row | Skip) -> Parent | None:
        """Return the comment that replies belong to, or None if it is left out.

        The first one of an author on a product is imported.
        """
        if isinstance(found, Skip) or not found.created:
            return None
        if not found.id and found[:2] in self._authors:
            return None
        self._authors.add(found[:2])
        return Parent(found.product, found.author, found.created, found.id)

    def _to_reply(self, id: str, found: Row | Skip) -> ReplyRow | Skip:
        if isinstance(found, Skip):
            return found
        parent, created = self._parents[id], found.created
        if parent is None or created is None:
            return Skip.NO_COMMENT
        body = ReplyBody(text=found.body.text, language=found.body.language)
        return ReplyRow(
            parent, found.author, body, found.name, created, f"{self._source} {parent.product} {id}"
        )


def read_disqus(chunks: Iterable[bytes], choice: Choice) -> Iterator[Row | ReplyRow | Skip]:
    """Yield a comment, a reply or a skip reason for each post of a Disqus export.

    Raises: NotComments.
    """
    products: dict[str, str] = {}
    threads = Threads("disqus", keeps_all=choice.rating is None)
    for element in read_elements(drop_forbidden(chunks, choice), frozenset({"thread", "post"}), 1, DISQUS):
        if element.name == "thread":
            products[_id(element)] = element.text("id") or _to_page(element.text("link"))
            continue
        found: Row | Skip = Skip.NOT_PUBLISHED
        if element.text("isDeleted") != "true" and element.text("isSpam") != "true":
            thread, name = element.find("thread"), element.text("author", "name")
            product = products.get(_id(thread), "") if thread else ""
            author = element.text("author", "username") or name
            found = _row(product, author, name, element.text("message"), element.text("createdAt"), choice)
        parent = element.find("parent")
        yield from threads.place(_id(element), _id(parent) if parent else "", found)
    yield from threads.close()


def read_wordpress(chunks: Iterable[bytes], choice: Choice) -> Iterator[Row | ReplyRow | Skip]:
    """Yield a comment, a reply or a skip reason for each comment of a WordPress export.

    Raises: NotComments.
    """
    threads = Threads("wordpress", keeps_all=choice.rating is None)
    for item in read_elements(drop_forbidden(chunks, choice), frozenset({"item"}), 2, WORDPRESS):
        comments = [
            child for child in item.children if child.name == "comment" and WORDPRESS.match(child.space)
        ]
        product = unquote(item.text("post_name")) or item.text("post_id")
        for comment in comments:
            found: Row | Skip = Skip.NOT_PUBLISHED
            if comment.text("comment_approved") == "1" and comment.text("comment_type") in ("", "comment"):
                name, user = comment.text("comment_author"), comment.text("comment_user_id")
                author = f"wordpress-{user}" if user not in ("", "0") else name
                times_of_it = (comment.text("comment_date_gmt"), comment.text("comment_date"))
                time = next((time for time in times_of_it if not time.startswith("0000")), "")
                found = _row(product, author, name, comment.text("comment_content"), f"{time}Z", choice)
            parent = comment.text("comment_parent").lstrip("0")
            yield from threads.place(comment.text("comment_id"), parent, found)
    yield from threads.close()


def _row(product: str, author: str, name: str, html: str, time: str, choice: Choice) -> Row | Skip:
    fields = {
        "product": _to_product(product),
        "author": _identifier(author),
        "rating": str(choice.rating or 1),
        "language": choice.language,
        "text": to_text(html),
    }
    found = parse(fields)
    if isinstance(found, Skip):
        return found
    try:
        created = times.parse(time)
    except ValueError:
        return Skip.BAD_TIME
    body = msgspec.structs.replace(found.body, rating=choice.rating)
    return found._replace(body=body, name=names.clean(name), created=created)


def _id(element: Element) -> str:
    return element.attributes.get(f"{INTERNALS} id", "")


def _to_page(link: str) -> str:
    """Return the address of a page without its anchor and without tracking parameters."""
    try:
        page = urls.canonical(link)
    except ValueError:
        return link
    return sources.strip_tracking(page)


def _to_product(text: str) -> str:
    """Return an identifier. A digest replaces the end of one that is too long."""
    product = _identifier(text)
    if not product or IDENTIFIER.search(product):
        return product
    digest = hashlib.blake2b(product.encode(), digest_size=8).hexdigest()
    return f"{product[:LONGEST_SLUG]}-{digest}"


def _identifier(text: str) -> str:
    """Return a text without the characters that no identifier has: white space becomes a hyphen."""
    return "-".join(re.sub(rf"(?!\s)[#{INVISIBLE}]", "", text).split())


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
        self._link: tuple[str, int] | None = None  # the address of the open link, and where its text begins

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._hidden += tag in ("script", "style")
        if tag == "a":
            self._link = (dict(attrs).get("href") or "", len(self.parts))
        if tag == "br":
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= self._hidden > 0 and tag in ("script", "style")
        if tag == "a" and self._link:
            (address, place), self._link = self._link, None
            text = "".join(self.parts[place:])
            if text.endswith(("…", "...")) and address.partition("//")[2].startswith(
                text.rstrip(".…").partition("//")[2] or text.rstrip(".…")
            ):
                self.parts[place:] = [address]  # a text that shortens the address
        if tag in BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)
