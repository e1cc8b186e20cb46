"""Every operation of comments in each of its cases, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator

from chalicelib.comments.comments import author_key
from chalicelib.dynamo.items import Range
from tests.support.deployed import Deployed, Invocation
from tests.support.operations import COMMENTS

COSTS = {
    ("POST /products/{product}/comments", ""): (201, 9, 2),
    ("POST /products/{product}/comments", "a second by the author"): (409, 5, 2),
    ("stream", "a comment"): (0, 4, 0),
    ("stream", "20 comments of a product"): (0, 8, 0),
    ("GET /products/{product}/comments", "20, all"): (200, 0, 1),
    ("GET /products/{product}/comments", "20, in a language"): (200, 0, 2),
    ("GET /products/{product}/comments", "none, of a rating"): (200, 0, 0.5),
    ("GET /products/{product}/comments/{id}", ""): (200, 0, 1),
    ("PATCH /products/{product}/comments/{id}", "another text"): (200, 3, 2.5),
    ("PATCH /products/{product}/comments/{id}", "another rating"): (200, 4, 2.5),
    ("stream", "another rating"): (0, 8, 0),
    ("PATCH /products/{product}/comments/{id}", "nothing new"): (200, 1, 2.5),
    ("PATCH /products/{product}/comments/{id}", "hide it"): (200, 10, 2.5),
    ("PATCH /products/{product}/comments/{id}", "show it"): (200, 10, 3.5),
    ("DELETE /products/{product}/comments/{id}", ""): (204, 9, 2),
    ("PUT /products/{product}/comments/{id}/vote", ""): (201, 8, 4),
    ("PUT /products/{product}/comments/{id}/vote", "another"): (201, 7, 3),
    ("GET /products/{product}/comments", "20, by votes"): (200, 0, 3.5),
    ("GET /products/{product}/comments", "20, by rating"): (200, 0, 1.5),
    ("PUT /products/{product}/comments/{id}/vote", "again"): (200, 1, 3),
    ("stream", "a vote"): (0, 0, 0),
    ("DELETE /products/{product}/comments/{id}/vote", ""): (204, 7, 2),
    ("DELETE /products/{product}/comments/{id}/vote", "again"): (204, 1, 2),
    ("GET /products/{product}/comments/{id}/replies", "none"): (200, 0, 0.5),
    ("POST /products/{product}/comments/{id}/replies", ""): (201, 6, 3),
    ("stream", "a reply"): (0, 0, 0),
    ("GET /products/{product}/comments/{id}/replies", "two"): (200, 0, 1),
    ("PATCH /products/{product}/comments/{id}/replies/{reply}", "another text"): (200, 2, 3),
    ("PATCH /products/{product}/comments/{id}/replies/{reply}", "hide it"): (200, 5, 2),
    ("GET /replies", "two"): (200, 0, 3),
    ("DELETE /products/{product}/comments/{id}/replies/{reply}", ""): (204, 8, 2),
    ("DELETE /products/{product}/comments/{id}", "with a reply"): (204, 12, 2),
    ("stream", "a deleted comment with a reply"): (0, 6, 4),
    ("stream", "its cleanup is done"): (0, 0, 0),
    ("GET /products/{product}/hidden", ""): (200, 0, 0.5),
    ("GET /products/{product}/statistics", ""): (200, 0, 0.5),
    ("GET /products/leaders", ""): (200, 0, 1),
    ("GET /products", ""): (200, 0, 0.5),
    ("PUT /products/{product}", ""): (201, 3, 1.5),
    ("GET /products/{product}", ""): (200, 0, 0.5),
    ("POST /products/{product}/comments", "one of many"): (201, 4, 1),
    ("DELETE /products/{product}", ""): (204, 1, 0),
    ("GET /comments", "20 of all"): (200, 0, 22),
    ("POST /products/{product}/comments", "pending"): (201, 6, 1.5),
    ("stream", "a pending comment"): (0, 0, 0),
    ("GET /comments", "a pending one"): (200, 0, 2.5),
    ("PATCH /products/{product}/comments/{id}", "approve it"): (200, 12, 3.5),
    ("POST /products/{product}/comments/{id}/reports", ""): (201, 10, 4),
    ("POST /products/{product}/comments/{id}/reports", "again"): (200, 1, 3),
    ("GET /comments/reports", "one"): (200, 0, 2.5),
    ("DELETE /products/{product}/comments/{id}/reports", ""): (204, 2, 0),
    ("PUT /comments/bans/{author}", ""): (201, 2, 1),
    ("GET /comments/bans", ""): (200, 0, 0.5),
    ("DELETE /comments/bans/{author}", ""): (204, 2, 0),
}
"""The status, WCU and RCU of each case; a handler without an answer has status 0."""


def _find_comment(site: Deployed, product: str, author: str) -> str:
    """Return the id of the comment of an author on a product."""
    found = site.table.get(author_key(product, author))
    return found["id"] if found else ""


def story(site: Deployed) -> Iterator[Invocation]:
    """Comment on a product, list its comments, and edit, hide, show and delete one."""
    product = {"product": "lamp"}
    route, comment_route = COMMENTS, "/products/{product}/comments/{id}"
    body = {"rating": 5, "language": "en", "text": "It shines."}

    def post(sub: str, name: str) -> Invocation:
        return site.rest(f"POST {route}", name, path=product, body=body, sub=sub)

    yield post("ann", "")
    yield post("ann", "a second by the author")
    yield site.delivery("a comment")
    for i in range(20):
        post(f"reader-{i:02}", "").run()
    yield site.delivery("20 comments of a product")
    yield site.rest(f"GET {route}", "20, all", path=product)
    yield site.rest(f"GET {route}", "20, in a language", path=product, query={"language": "en"})
    yield site.rest(f"GET {route}", "none, of a rating", path=product, query={"rating": "1"})
    comment = product | {"id": _find_comment(site, "lamp", "ann")}
    yield site.rest(f"GET {comment_route}", "", path=comment)
    yield site.rest(
        f"PATCH {comment_route}", "another text", path=comment, body={"text": "It shone."}, sub="ann"
    )
    yield site.rest(f"PATCH {comment_route}", "another rating", path=comment, body={"rating": 3}, sub="ann")
    yield site.delivery("another rating")
    yield site.rest(f"PATCH {comment_route}", "nothing new", path=comment, body={"rating": 3}, sub="ann")
    for name, is_hidden in (("hide it", True), ("show it", False)):
        yield site.rest(f"PATCH {comment_route}", name, path=comment, body={"hidden": is_hidden}, sub="admin")
    yield site.rest(f"DELETE {comment_route}", "", path=comment, sub="ann")
    site.drain()
    yield from _reactions(site, product)
    yield site.rest("GET /products/{product}/hidden", "", path=product, sub="admin")
    yield site.rest("GET /products/{product}/statistics", "", path=product)
    yield site.rest("GET /products/leaders", "")
    yield site.rest("GET /products", "", sub="admin")
    yield from _discussion(site)
    yield site.rest("GET /comments", "20 of all", sub="admin")
    yield from _moderation(site)


def _moderation(site: Deployed) -> Iterator[Invocation]:
    """Approve a comment, report it, and ban its author and let it write again."""
    path = {"product": "chair"}
    site.rest("PUT /products/{product}", "", path=path, body={"approve": True}, sub="admin").run()
    body = {"rating": 5, "language": "en", "text": "It stands."}
    yield site.rest(f"POST {COMMENTS}", "pending", path=path, body=body, sub="ann")
    yield site.delivery("a pending comment")
    yield site.rest("GET /comments", "a pending one", query={"state": "pending"}, sub="admin")
    comment = path | {"id": _find_comment(site, "chair", "ann")}
    state, route = {"state": "approved"}, "PATCH /products/{product}/comments/{id}"
    yield site.rest(route, "approve it", path=comment, body=state, sub="admin")
    reports, body = "/products/{product}/comments/{id}/reports", {"reason": "An insult."}
    yield site.rest(f"POST {reports}", "", path=comment, body=body, sub="bob")
    yield site.rest(f"POST {reports}", "again", path=comment, body=body, sub="bob")
    yield site.rest("GET /comments/reports", "one", sub="admin")
    yield site.rest(f"DELETE {reports}", "", path=comment, sub="admin")
    author = {"author": "ann"}
    yield site.rest("PUT /comments/bans/{author}", "", path=author, body={"hours": 1}, sub="admin")
    yield site.rest("GET /comments/bans", "", sub="admin")
    yield site.rest("DELETE /comments/bans/{author}", "", path=author, sub="admin")
    site.drain()


def _discussion(site: Deployed) -> Iterator[Invocation]:
    """Define a product without ratings, and comment on it."""
    path, body = {"product": "post"}, {"ratings": "off", "perAuthor": "many"}
    comment = {"language": "en", "text": "It shines."}
    yield site.rest("PUT /products/{product}", "", path=path, body=body, sub="admin")
    yield site.rest("GET /products/{product}", "", path=path)
    site.rest(f"POST {COMMENTS}", "", path=path, body=comment, sub="ann").run()
    yield site.rest(f"POST {COMMENTS}", "one of many", path=path, body=comment, sub="ann")
    yield site.rest("DELETE /products/{product}", "", path=path, sub="admin")
    site.drain()


def _reactions(site: Deployed, product: dict[str, str]) -> Iterator[Invocation]:
    """Vote for a comment and reply to it, list, edit, hide and delete replies, and delete the comment."""
    comment_route, vote = "/products/{product}/comments/{id}", "/products/{product}/comments/{id}/vote"
    several, single = f"{comment_route}/replies", f"{comment_route}/replies/{{reply}}"
    body = {"rating": 4, "language": "en", "text": "It is bright."}
    site.rest(f"POST {COMMENTS}", "", path=product, body=body, sub="bob").run()
    comment = product | {"id": _find_comment(site, "lamp", "bob")}
    site.drain()
    yield site.rest(f"PUT {vote}", "", path=comment, sub="ann")
    yield site.rest(f"PUT {vote}", "another", path=comment, sub="cyd")
    yield site.rest(f"GET {COMMENTS}", "20, by votes", path=product, query={"order": "helpful"})
    yield site.rest(f"GET {COMMENTS}", "20, by rating", path=product, query={"order": "highest"})
    yield site.rest(f"PUT {vote}", "again", path=comment, sub="ann")
    yield site.delivery("a vote")
    yield site.rest(f"DELETE {vote}", "", path=comment, sub="ann")
    yield site.rest(f"DELETE {vote}", "again", path=comment, sub="ann")
    yield site.rest(f"GET {several}", "none", path=comment)
    yield site.rest(f"POST {several}", "", path=comment, body={"text": "It is."}, sub="ann")
    site.drain()
    site.rest(f"POST {several}", "", path=comment, body={"text": "Yes."}, sub="ann").run()
    yield site.delivery("a reply")
    yield site.rest(f"GET {several}", "two", path=comment)
    ids = [
        item["sk"].rpartition("#")[2]
        for item in site.table.query(Range(f"PRODUCT#{product['product']}")).items
        if item["sk"].startswith("REPLY#")
    ]
    path = comment | {"reply": ids[0]}
    yield site.rest(f"PATCH {single}", "another text", path=path, body={"text": "It was."}, sub="ann")
    yield site.rest(f"PATCH {single}", "hide it", path=path, body={"hidden": True}, sub="admin")
    yield site.rest("GET /replies", "two", sub="admin")
    yield site.rest(f"DELETE {single}", "", path=comment | {"reply": ids[1]}, sub="ann")
    site.drain()
    yield site.rest(f"DELETE {comment_route}", "with a reply", path=comment, sub="bob")
    yield site.delivery("a deleted comment with a reply")
    yield site.delivery("its cleanup is done")
