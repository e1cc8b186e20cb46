"""Exports of Disqus and WordPress become comments with their times and names; hostile XML is refused."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chalicelib.api.auth import Caller
from chalicelib.comments import comments, counters, definitions, replies
from chalicelib.comments.schemas import CommentBody, RepliesQuery
from chalicelib.dynamo.table import Table
from chalicelib.settings import Settings
from ops.cli.main import main
from ops.imports.blogs import Choice, read_disqus, read_wordpress, to_text
from ops.imports.comments import NotComments, ReplyRow, Row, Skip, write
from tests.conftest import EngineTable
from tests.support.contexts import new_context
from tests.support.live import Live
from tests.support.records import scan

CHOICE = Choice(5, "en")
# The elements of Disqus' "Custom XML Import Format" and of its exports.
DISQUS = """<?xml version="1.0" encoding="utf-8"?>
<disqus xmlns="http://disqus.com" xmlns:dsq="http://disqus.com/disqus-internals">
  <category dsq:id="1"><forum>blog</forum><title>General</title></category>
  <thread dsq:id="11"><id>first-post</id><link>https://blog.example/first</link><title>First</title></thread>
  <thread dsq:id="12"><id /><link>https://blog.example/second?a=1</link><title>Second</title></thread>
  {posts}
</disqus>"""
POST = """<post dsq:id="{number}"><id>wp_id</id><message><![CDATA[{text}]]></message>
  <createdAt>{time}</createdAt><isDeleted>{deleted}</isDeleted><isSpam>{spam}</isSpam>
  <author><name>{name}</name><isAnonymous>false</isAnonymous>{username}</author>
  <thread dsq:id="{thread}" />{parent}</post>"""
# WordPress eXtended RSS 1.2, as wp-admin/includes/export.php writes it.
WORDPRESS = """<?xml version="1.0" encoding="UTF-8" ?>
<rss version="2.0" xmlns:wp="http://wordpress.org/export/1.2/"><channel><title>Blog</title>
<wp:wxr_version>1.2</wp:wxr_version>
<item><title>First</title><link>https://blog.example/first/</link><wp:post_id>7</wp:post_id>
<wp:post_name><![CDATA[first-post]]></wp:post_name>{comments}</item></channel></rss>"""
COMMENT = """<wp:comment><wp:comment_id>{number}</wp:comment_id>
<wp:comment_author><![CDATA[{name}]]></wp:comment_author>
<wp:comment_author_email><![CDATA[secret@example.org]]></wp:comment_author_email>
<wp:comment_date_gmt><![CDATA[{time}]]></wp:comment_date_gmt>
<wp:comment_content><![CDATA[{text}]]></wp:comment_content>
<wp:comment_approved><![CDATA[{approved}]]></wp:comment_approved>
<wp:comment_type><![CDATA[{kind}]]></wp:comment_type>
<wp:comment_parent>{parent}</wp:comment_parent><wp:comment_user_id>{user}</wp:comment_user_id></wp:comment>"""


def post(number: int, **changed: str) -> str:
    fields = {
        "text": "<p>Good &amp; <b>short</b>.</p><p>Thanks.</p>",
        "time": "2014-03-01T10:00:00Z",
        "deleted": "false",
        "spam": "false",
        "name": "Ann Lee",
        "username": "<username>annlee</username>",
        "thread": "11",
        "parent": "",
    }
    return POST.format(number=number, **fields | changed)


def comment(number: int, **changed: str) -> str:
    fields = {"name": "Ann Lee", "time": "2014-03-01 10:00:00", "text": "Good.\nThanks."}
    more = {"approved": "1", "kind": "comment", "parent": "0", "user": "0"}
    return COMMENT.format(number=number, **fields | more | changed)


def chunks(text: str) -> Iterator[bytes]:
    """Cut a file into small pieces, as a reader of a stream gets it."""
    data = text.encode()
    return (data[start : start + 7] for start in range(0, len(data), 7))


def disqus(*posts: str) -> list[Row | ReplyRow | Skip]:
    return list(read_disqus(chunks(DISQUS.format(posts="".join(posts))), CHOICE))


def wordpress(*found: str) -> list[Row | ReplyRow | Skip]:
    return list(read_wordpress(chunks(WORDPRESS.format(comments="".join(found))), CHOICE))


def test_a_post_of_disqus_is_a_comment_with_its_time_and_name() -> None:
    [row, other] = disqus(post(1), post(2, thread="12", username="", name="Ben #1"))
    assert isinstance(row, Row)
    assert isinstance(other, Row)
    assert (row.product, row.author, row.name) == ("first-post", "annlee", "Ann Lee")
    assert (row.body.rating, row.body.language, row.body.text) == (5, "en", "Good & short.\nThanks.")
    assert row.created == datetime(2014, 3, 1, 10, tzinfo=UTC)
    assert (other.product, other.author, other.name) == (
        "https://blog.example/second?a=1",
        "Ben-1",
        "Ben #1",
    )


def test_a_persian_author_keeps_the_comment_and_the_name() -> None:
    name = "\u0639\u0644\u06cc\u200c\u0631\u0636\u0627"
    for [row] in (disqus(post(1, username="", name=name)), wordpress(comment(1, name=f"{name}\u2800"))):
        assert isinstance(row, Row)
        assert (row.author, row.name) == (name.replace("\u200c", ""), name)


def test_what_disqus_did_not_show_is_left_out_with_a_reason() -> None:
    parent = '<parent dsq:id="1" />'
    assert disqus(post(1, deleted="true"), post(2, spam="true"), post(3, parent=parent)) == [
        Skip.NOT_PUBLISHED,
        Skip.NOT_PUBLISHED,
        Skip.NO_COMMENT,
    ]
    assert disqus(post(1, thread="99")) == [Skip.BAD_PRODUCT]
    assert disqus(post(1, time="yesterday")) == [Skip.BAD_TIME]
    assert disqus(post(1, name="", username="")) == [Skip.BAD_AUTHOR]


def test_a_comment_of_wordpress_is_a_comment_and_its_address_is_not_read() -> None:
    [row, user] = wordpress(comment(1), comment(2, user="3", name="Chief"))
    assert isinstance(row, Row)
    assert isinstance(user, Row)
    assert (row.product, row.author, row.name, row.body.text) == (
        "first-post",
        "Ann-Lee",
        "Ann Lee",
        "Good.\nThanks.",
    )
    assert row.created == datetime(2014, 3, 1, 10, tzinfo=UTC)
    assert (user.author, user.name) == ("wordpress-3", "Chief")
    assert "secret" not in repr((row, user))


def test_what_wordpress_did_not_show_is_left_out_with_a_reason() -> None:
    hidden = [comment(1, approved="0"), comment(2, approved="spam"), comment(3, kind="pingback")]
    assert wordpress(*hidden, comment(4, parent="1")) == [*[Skip.NOT_PUBLISHED] * 3, Skip.NO_COMMENT]


def below(number: int) -> str:
    return f'<parent dsq:id="{number}" />'


def shape(found: list[Row | ReplyRow | Skip]) -> list[str]:
    """Name the rows: a comment by its author, a reply by its comment's author and its own."""
    return [
        row.author
        if isinstance(row, Row)
        else f"{row.parent.author} < {row.author}"
        if isinstance(row, ReplyRow)
        else str(row)
        for row in found
    ]


def by(name: str) -> dict[str, str]:
    return {"name": name, "username": ""}


def test_a_reply_to_a_reply_belongs_to_the_comment_above_both() -> None:
    posts = [
        post(1, **by("a")),
        post(2, **by("b"), parent=below(1)),
        post(3, parent=below(2), spam="true"),
        post(4, **by("d"), parent=below(3), time="2014-03-02T10:00:00Z"),
    ]
    found = disqus(*posts)
    assert shape(found) == ["a", "a < b", "not_published", "a < d"]
    assert isinstance(found[3], ReplyRow)
    assert (found[3].name, found[3].created) == ("d", datetime(2014, 3, 2, 10, tzinfo=UTC))
    assert shape(wordpress(comment(1), comment(20, name="Ben", parent="1"), comment(3, parent="20"))) == [
        "Ann-Lee",
        "Ann-Lee < Ben",
        "Ann-Lee < Ann-Lee",
    ]


def test_replies_may_precede_their_comment_in_the_file() -> None:
    posts = [post(number, **by(f"p{number}"), parent=below(number + 1)) for number in range(1, 3_000)]
    found = shape(disqus(*posts, post(3_000, **by("top"))))
    assert sorted(found) == sorted(["top", *(f"top < p{number}" for number in range(1, 3_000))])


def test_a_reply_whose_comment_is_not_imported_has_a_reason_of_its_own() -> None:
    second = post(2, **by("a"), time="2014-03-03T10:00:00Z")
    found = disqus(
        post(1, **by("a")),
        second,  # the author has a comment by then, so this one is not imported
        post(3, **by("b"), parent=below(2)),
        post(4, **by("c"), text="x" * 5_001),
        post(5, **by("d"), parent=below(4)),
        post(6, **by("e"), parent=below(99)),
        post(7, **by("f"), parent=below(7)),
    )
    assert shape(found) == ["a", "a", "no_comment", "bad_text", *["no_comment"] * 3]


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<script>alert(1)</script>x<style>p{}</style>", "x"),
        ("1 &lt; 2 &#x1F600;", "1 < 2 \U0001f600"),
        ("<p>a</p>\n\n\n<p>b</p>", "a\n\nb"),
        ("<a href='javascript:x'>link</a> & <unclosed", "link & <unclosed"),
    ],
)
def test_html_becomes_text(html: str, text: str) -> None:
    assert to_text(html) == text


BOMB = """<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>"""
FILE = """<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>"""


@pytest.mark.parametrize("read", [read_disqus, read_wordpress])
@pytest.mark.parametrize(
    "text",
    [
        f"{BOMB}<disqus xmlns='http://disqus.com'>&b;</disqus>",
        f"{FILE}<disqus xmlns='http://disqus.com'>&a;</disqus>",
        "<!DOCTYPE rss SYSTEM 'http://evil.example/x.dtd'><rss></rss>",
        "<a>" * 100 + "</a>" * 100,
        "<disqus",
        "product,author",
        "",
        "<rss><channel><item></item></channel></rss>",
        "<disqus><thread></thread></disqus>",
    ],
)
def test_a_hostile_or_malformed_file_is_refused(read: Any, text: str) -> None:
    with pytest.raises(NotComments):
        list(read(chunks(text), CHOICE))


def test_an_export_of_the_other_system_is_refused(engine_table: EngineTable, tmp_path: Path) -> None:
    engine, name, _ = engine_table
    files = {
        "disqus": DISQUS.format(posts=post(1)),
        "wordpress": WORDPRESS.format(comments=comment(1)),
        "csv": "product,author,rating,language,text\np,a,5,en,x\n",
    }
    for kind, text in files.items():
        (tmp_path / kind).write_text(text)
        for wrong in files.keys() - {kind}:
            chosen = ["--format", wrong, "--rating", "4", "--languages", "en", "--no-wait"]
            environment = {"HUBBUB_ENDPOINT": engine.endpoint, "HUBBUB_TABLE": name}
            done = CliRunner().invoke(
                main, ["import-comments", str(tmp_path / kind), *chosen], env=environment
            )
            assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (1, "", 1), done.output
            assert "twice" not in done.stderr, "nothing was written"
    assert Live(engine_table, []).comments() == []


def test_the_command_writes_the_comments_once(engine_table: EngineTable, tmp_path: Path) -> None:
    engine, name, _ = engine_table
    file = tmp_path / "export.xml"
    posts = [post(1), post(2, username="<username>ben</username>"), post(3), post(4, spam="true")]
    file.write_text(DISQUS.format(posts="".join(posts)))
    environment = {"HUBBUB_ENDPOINT": engine.endpoint, "HUBBUB_TABLE": name, "HUBBUB_SECRET": "s" * 32}

    def run(*options: str) -> Any:
        arguments = ["import-comments", str(file), "--no-wait", "--json", *options]
        return CliRunner().invoke(main, arguments, env=environment)

    assert run("--format", "disqus", "--languages", "en,de").exit_code == 2
    chosen = ("--format", "disqus", "--rating", "4", "--languages", "en")
    for written in (2, 0):
        done = run(*chosen)
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        assert (found["rows"], found["written"]) == (4, written)
        assert found["skipped"]["not_published"] == 1
    stored = Live(engine_table, []).comments()
    assert sorted(item["author"] for item in stored) == ["annlee", "ben"]
    assert {comments.to_comment(item).created for item in stored} == {"2014-03-01T10:00:00Z"}
    assert {item["name"] for item in stored} == {"Ann Lee"}


REPLIES = [(2, "b", 1), (3, "c", 2), (4, "a", 1), (6, "b", 5), (7, "c", 6), (8, "d", 99)]


def on(day: int) -> str:
    return f"2014-03-0{day}T10:00:00Z"


def written(table: Table) -> dict[str, tuple[int, list[tuple[str, str, str]]]]:
    """Return the replies of each comment by its author, as a reader gets them, and their number."""
    found = {}
    for item in scan(table):
        if item["sk"].startswith(comments.COMMENT):
            id, query = comments.id_of(item), RepliesQuery(limit=100)
            page = replies.list_replies(
                new_context(table, settings=Settings(secret="s" * 32)), "first-post", id, query, Caller()
            )
            shown = [(item.author, item.text, item.created) for item in page.items]
            counted = table.get(counters.counters_key("first-post", id)) or {}
            found[item["author"]] = (counted.get("replies", 0), shown)
    return found


@pytest.mark.parametrize("killed", [1, 3, 5, 6])
def test_replies_are_written_once_also_after_an_interruption(
    engine_table: EngineTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: int
) -> None:
    engine, name, _ = engine_table
    file, live = tmp_path / "export.xml", Live(engine_table, [])
    tops = [post(1, **by("a")), post(5, **by("e"))]
    replies = [
        post(
            number, **by(author), parent=below(parent), text=f"r{number}", time=f"2014-03-0{number}T10:00:00Z"
        )
        for number, author, parent in REPLIES
    ]
    file.write_text(DISQUS.format(posts="".join([*tops, *replies])))
    environment = {"HUBBUB_ENDPOINT": engine.endpoint, "HUBBUB_TABLE": name, "HUBBUB_SECRET": "s" * 32}

    def run() -> Any:
        chosen = ("--format", "disqus", "--rating", "4", "--languages", "en", "--no-wait", "--json")
        return CliRunner().invoke(main, ["import-comments", str(file), *chosen], env=environment)

    count, transact = itertools.count(1), Table.transact

    def die(self: Table, actions: Any) -> tuple[int, ...]:
        if next(count) >= killed:
            raise KeyboardInterrupt
        return transact(self, actions)

    with monkeypatch.context() as patch:
        patch.setattr(Table, "transact", die)
        assert run().exit_code == 130
    before = written(live.table)
    assert all(number == len(shown) for number, shown in before.values())
    found = json.loads(run().stdout)
    assert found["replies"] == 5 - sum(number for number, _ in before.values())
    assert (found["skipped"]["no_comment"], found["rows"]) == (1, 8)
    again = json.loads(run().stdout)
    assert (again["written"], again["replies"]) == (0, 0)
    assert (again["skipped"]["commented_already"], again["skipped"]["replied_already"]) == (2, 5)
    tree = {"a": [2, 3, 4], "e": [6, 7]}
    authors = {number: author for number, author, _ in REPLIES}
    assert written(live.table) == {
        top: (len(numbers), [(authors[n], f"r{n}", on(n)) for n in numbers]) for top, numbers in tree.items()
    }


def test_a_reply_goes_to_no_other_comment_of_the_same_author(engine_table: EngineTable) -> None:
    table, now = Live(engine_table, []).table, datetime(2020, 1, 1, tzinfo=UTC)
    body = CommentBody(rating=1, language="en", text="Mine, written on the page.")
    comments.post(new_context(table, now), "first-post", body, Caller("annlee"), None)
    rows = disqus(post(1), post(2, **by("b"), parent=below(1)))
    summary = write(table, rows, now)
    assert summary.skipped == {Skip.COMMENTED_ALREADY: 1, Skip.NO_COMMENT: 1}
    assert {number for number, _ in written(table).values()} == {0}


@pytest.mark.parametrize(
    ("kind", "written", "products"),
    [
        (
            "disqus",
            {"comments": 6, "replies": 1, "not_published": 1, "dropped": 0},
            {"https://blog.example.org/a.html": 3, "https://blog.example.org/b.html": 3},
        ),
        (
            "wordpress",
            {"comments": 5, "replies": 1, "not_published": 0, "dropped": 2},
            {"zero-gmt": 2, "你好" * 8: 1, "control": 2},
        ),
    ],
)
def test_an_export_without_ratings_becomes_a_discussion_and_loses_nothing(
    engine_table: EngineTable, kind: str, written: dict[str, int], products: dict[str, int]
) -> None:
    engine, name, _ = engine_table
    live = Live(engine_table, [])
    environment = {"HUBBUB_ENDPOINT": engine.endpoint, "HUBBUB_TABLE": name, "HUBBUB_SECRET": "s" * 32}
    for attempt in range(2):
        command = ["import-comments", f"tests/data/{kind}.xml", "--format", kind, "--no-wait", "--json"]
        done = CliRunner().invoke(main, command, env=environment)
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        assert (found["written"], found["replies"]) == (
            (0, 0) if attempt else (written["comments"], written["replies"])
        )
        assert found["skipped"]["not_published"] == written["not_published"]
        assert found.get("dropped characters", 0) == written["dropped"]
    stored = live.comments()
    assert {item["pk"].removeprefix("PRODUCT#") for item in stored} == products.keys()
    assert Counter(item["pk"].removeprefix("PRODUCT#") for item in stored) == products
    assert not any("rating" in item for item in stored)
    for product in products:
        found = definitions.describe(new_context(live.table), product)
        assert (found.ratings, found.per_author) == ("off", "many")
    texts = {item["text"] for item in stored}
    if kind == "disqus":
        assert "if a<b: x and https://example.com/a/very/long/address" in texts
        assert "reply to the deleted one" in texts
    else:
        assert {"a verticaltab and  a control character".replace("  ", " "), "no GMT date"} <= texts
