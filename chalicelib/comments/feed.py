"""The newest comments as an Atom feed (RFC 4287), for admins. A feed reader must be able to send a token.

References are relative to the address of the feed. The id of an entry is the comment's ULID as a UUID. A next
page is linked as RFC 5005 says.
"""

import re
import uuid
from urllib.parse import quote, urlencode
from xml.sax.saxutils import escape, quoteattr

from chalicelib import ulids
from chalicelib.comments.schemas import AllComments, ProductComment

TYPE = "application/atom+xml"
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, 2.2 Characters


def encode(stage: str, comments: AllComments) -> str:
    """Return a page of comments as a feed."""
    updated = max((_updated(comment) for comment in comments.items), default="1970-01-01T00:00:00Z")
    return "\n".join(
        [
            '<?xml version="1.0" encoding="utf-8"?>',
            '<feed xmlns="http://www.w3.org/2005/Atom">',
            f"<id>{uuid.uuid5(uuid.NAMESPACE_URL, f'hubbub:{stage}:comments').urn}</id>",
            f"<title>Comments of {_text(stage)}</title>",
            f"<updated>{updated}</updated>",
            '<link rel="self" href="comments"/>',
            *_link_next(comments),
            *map(_encode_entry, comments.items),
            "</feed>",
            "",
        ]
    )


def _link_next(comments: AllComments) -> list[str]:
    """Return the link to the next page, if there is one. All comments of a page are pending, or none is."""
    if not comments.cursor:
        return []
    query = {"state": "pending"} if comments.items and comments.items[0].state == "pending" else {}
    href = f"comments?{urlencode(query | {'cursor': comments.cursor})}"
    return [f'<link rel="next" href={quoteattr(href)}/>']


def _encode_entry(comment: ProductComment) -> str:
    rating = f", {comment.rating} of 5" if comment.rating else ""
    href = f"products/{quote(comment.product, safe='')}/comments/{comment.id}"
    return (
        f"<entry><id>{uuid.UUID(int=ulids.to_number(comment.id)).urn}</id>"
        f"<title>{_text(comment.product)}{rating}</title>"
        f"<author><name>{_text(comment.name or comment.author)}</name></author>"
        f"<published>{comment.created}</published><updated>{_updated(comment)}</updated>"
        f'<link rel="alternate" type="application/json" href={quoteattr(href)}/>'
        f'<category term="{comment.state}"/>'
        f'<content type="text" xml:lang={quoteattr(comment.language)}>{_text(comment.text)}</content></entry>'
    )


def _updated(comment: ProductComment) -> str:
    return comment.edited or comment.created


def _text(text: str) -> str:
    """Escape a text, and replace the characters that no XML document may have."""
    return escape(NOT_XML.sub("\ufffd", text))
