"""AWS accepts the keys and the paths of every name that a client may choose.

DynamoDB: a partition key has up to 2,048 bytes and a sort key up to 1,024, in an index as in the table
("Quotas in Amazon DynamoDB", naming rules and data types). API Gateway: the ARN of a method with an
authorizer has up to 1,600 bytes, and the path in it is percent-encoded ("Amazon API Gateway quotas").
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

import app
from chalicelib import ulids, urls
from chalicelib.aggregates import tags
from chalicelib.api import codec
from chalicelib.api.openapi import list_errors
from chalicelib.api.router import MAX_AUTHORIZED_PATH
from chalicelib.api.schemas import IDENTIFIER, Identifier, Schema, parse_identifier
from chalicelib.challenges import definitions
from chalicelib.chat import connections, evidence, handlers, handshake, reports, waiting_pool
from chalicelib.chat.schemas import ReportFrame
from chalicelib.comments import comments
from chalicelib.comments.schemas import CommentPath
from chalicelib.dynamo.items import Item, Key
from chalicelib.errors import BadRequest
from chalicelib.feature import Notice
from chalicelib.leaderboards import boards, scores
from chalicelib.leaderboards.schemas import BoardBody
from chalicelib.ranking.ranking import Ranking
from chalicelib.ranking.tree import MOST
from chalicelib.settings import Settings
from chalicelib.views import events, sites
from chalicelib.views.events import View
from tests.support.site import Site

ROOT = Path(__file__).parents[2]
PARTITION, SORT = 2_048, 1_024
NOW = datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)

NAME = "𝕏" * 60  # the most bytes that a name may have
URL = "https://" + "a" * 60 + ".example/" + "a" * (urls.MAX_LENGTH - 77)
URL += "a" * (urls.MAX_LENGTH - len(URL))
CONNECTION = "x" * 128  # API Gateway's have 16
LOBBY = "𝕏" * 64
TURN = waiting_pool.new_state_id(CONNECTION, NOW)
LANGUAGE = "x-aaaaaaaa-aaaaaaaa-aaaaaaaa-aaaaaa"
BODY = BoardBody(title="t", min=Decimal(-MOST), max=Decimal(MOST), shards=32)
BOARD = boards.Board(name=NAME, season=scores.MAX_SEASONS, started="", **msgspec.structs.asdict(BODY))


# -- keys ----------------------------------------------------------------------------------------------

# The longest value of every argument of a function that makes a key.
LONGEST: dict[str, Any] = {
    "board": NAME,
    "challenge": NAME,
    "player": NAME,
    "product": NAME,
    "author": NAME,
    "language": LANGUAGE,
    "rating": 5,
    "season": scores.MAX_SEASONS,
    "path": "a" * definitions.MAX_PATH_BYTES,
    "ranking": Ranking(f"BOARD#{NAME}#{scores.MAX_SEASONS}", BOARD.scale, 32),
    "prefix": "9" * 40,
    "answer": b"\xff" * 7,
    "shard": 32,
    "url": URL,
    "host": "a" * 253,
    "total": {"pk": f"SITE#{'a' * 253}", "newest": "DAY#9999-12-31"},
    "referrer": "a" * 253,
    "campaign": "😀" * sites.MAX_CAMPAIGN,
    "kind": max((sites.PAGES, sites.REFERRERS, sites.CAMPAIGNS), key=len),
    "day": "9999-12-31",
    "client": "c" * 128,
    "view": View(URL, NOW, "c" * 128),
    "lobby": LOBBY,
    "state_id": TURN,
    "pair": "𝕏" * handlers.MAX_LABEL,  # a client may name any
    "topic": f"views:{URL}",
    "key": Key("x" * PARTITION, "x" * SORT),
    "score": scores.score_key(NAME, scores.MAX_SEASONS, NAME),
    "digest": "f" * 24,
    "comment": "7" + "Z" * 25,
    "reply": "7" + "Z" * 25,
    "source": NAME,
    "reader": NAME,
    "idempotency_key": "k" * 128,
    "period": "D",
    "number": 10**8 - 1,
    "hidden": True,
    "record": b"\xff" * 12,
    "second": 10**11,
    "sign": -1,
    "settings": Settings(secret="s" * 32),
    "purpose": "guests",
    "sub": NAME,
    "address": "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "moment": NOW,
    "notice": Notice("season", "x" * PARTITION, "", "", {}),
}
# Where an argument of one name, `id` or `path`, means several things.
IDS: dict[str, Any] = {
    "comments.reports.report_key": CommentPath(product=NAME, id="7" + "Z" * 25),
    "leaderboards.scores.activity_key": NAME,
    "comments.comments.comment_key": "7" + "Z" * 25,
    "comments.comments.cleanup_key": "7" + "Z" * 25,
    "comments.counters.counters_key": "7" + "Z" * 25,
    "comments.replies.reply_key": "7" + "Z" * 25,
    "comments.votes.vote_key": "7" + "Z" * 25,
    "chat.connections.key": CONNECTION,
    "chat.subscriptions.listener_key": CONNECTION,
}


def modules() -> Iterator[tuple[str, Path]]:
    """Find every module of chalicelib, with its dotted name below it."""
    for path in sorted((ROOT / "chalicelib").rglob("*.py")):
        yield ".".join(path.relative_to(ROOT / "chalicelib").with_suffix("").parts), path


def key_functions() -> Iterator[tuple[str, Callable[..., Key | str]]]:
    """Find every function of chalicelib that builds a key: it returns a Key, or its name ends with `_key`."""
    for name, path in modules():
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            returned = ast.unparse(node.returns) if node.returns else ""
            if returned == "Key" or (node.name.endswith("_key") and returned == "str"):
                yield f"{name}.{node.name}", getattr(importlib.import_module(f"chalicelib.{name}"), node.name)


def longest(name: str, make: Callable[..., Key | str]) -> Key | str:
    """Build the longest key of a function. An argument without a length of its own is an identifier."""
    given = {
        argument: IDS[name]
        if argument == "id" or (argument == "path" and name in IDS)
        else LONGEST.get(argument, LONGEST["board"])
        for argument in inspect.signature(make).parameters
    }
    return make(**given)


FUNCTIONS = dict(key_functions())


@pytest.mark.security
@pytest.mark.parametrize("name", FUNCTIONS)
def test_dynamodb_accepts_the_longest_key_of_every_kind(name: str) -> None:
    key = longest(name, FUNCTIONS[name])
    pk, sk = key if isinstance(key, Key) else (key, "")
    assert len(pk.encode()) <= PARTITION
    assert len(sk.encode()) <= SORT


def test_keys_without_a_function_of_their_own_are_short() -> None:
    guard = tags.page_key(Key("p" * PARTITION, "s" * SORT), "S", 2**32 - 1)
    now = datetime(2026, 11, 21, tzinfo=UTC)
    member = {"who": "w", "id": "i", "digests": {}, "said": []}
    me: Item = {"who": "w"}
    pair: Item = {"pk": evidence.key("p").pk, "lobby": LOBBY, "members": [member, member | {"who": "v"}]}
    settings = Settings(secret="s" * 32)
    report = reports.build_put(me, pair, ReportFrame(reason="r"), now, settings)["Put"]["Item"]
    for pk, sk in (guard, (report["pk"], report["sk"])):
        assert len(pk.encode()) <= PARTITION
        assert len(sk.encode()) <= SORT


def test_dynamodb_accepts_the_longest_index_keys() -> None:
    """Contributions write `gsi1pk` and `gsi2pk`, here for items with the longest names."""
    stamped = {"rating": 5, "language": LANGUAGE, "text": ""}
    score = scores.score_key(NAME, scores.MAX_SEASONS, NAME)._asdict()
    progress = {"pk": f"CHALLENGE#{NAME}#PLAYER#{NAME}", "sk": "PROGRESS"}
    items: list[Item] = [
        events.event_key(View(URL, NOW, "c" * 128))._asdict() | {"days": 400},
        score
        | {
            "score": MOST,
            "scale": list(BOARD.scale),
            "shards": 32,
            "depth": 9,
            "version": 1,
            "gsi1sk": 2 * 10**37,
        },
        progress | {"found": 100, "depth": 9, "gsi1sk": 10**30},
        comments.comment_key(NAME, ulids.new(NOW))._asdict() | stamped,
    ]
    seen = set()
    for item in items:
        for contribution in app.CONTRIBUTIONS:
            for (key, attribute), amount in contribution(item).items():
                assert len(key.pk.encode()) <= PARTITION
                assert len(key.sk.encode()) <= SORT
                if attribute.endswith("pk"):
                    seen.add(attribute)
                    assert len(amount.value.encode()) <= PARTITION
    assert seen == {"gsi1pk"}
    cell = comments.cell_key(NAME, LANGUAGE, 5)
    assert len(cell.encode()) <= PARTITION
    assert len(connections.INDEX) <= PARTITION


@pytest.mark.parametrize(
    ("board", "player", "id"),
    [("😀" * 127, "p", "😀" * 127), (NAME, NAME, "😀" * 61), (NAME, NAME, "é" * 61), ("b", "p", "x" * 129)],
)
def test_a_score_with_names_that_are_too_long_is_refused_by_name(
    site: Site, board: str, player: str, id: str
) -> None:
    admin = site.token("admin")
    path = f"/leaderboards/{quote(board)}"
    site.call("PUT", path, {"title": "t"}, Authorization=admin)
    body = {"id": id, "value": 1, "player": player}
    status, answer = site.call("POST", f"{path}/scores", body, Authorization=admin)
    assert (status, answer["code"]) in ((400, "BadRequest"), (414, "UriTooLong"))
    assert answer["message"].split("`")[1] in ("id", "path")


def test_the_longest_accepted_names_work_from_end_to_end(site: Site) -> None:
    """Requests with the longest names are accepted, written and counted."""
    admin, path = site.token("admin"), f"/leaderboards/{quote(NAME)}"
    mine = site.token(NAME)
    assert site.call("PUT", path, {"title": "t"}, Authorization=admin)[0] == 201
    for _ in range(2):
        assert site.call("POST", f"{path}/scores", {"id": NAME, "value": 1}, Authorization=mine)[0] in (
            200,
            201,
        )
    hunt = f"/challenges/{quote(NAME)}"
    assert site.call("PUT", hunt, {"title": "Hunt", "paths": ["x" * 200]}, Authorization=admin)[0] == 201
    assert site.call("POST", f"{hunt}/paths", {"path": "x" * 200}, Authorization=mine)[0] == 201
    product = f"/products/{quote(NAME)}/comments"
    comment = {"rating": 5, "language": LANGUAGE, "text": "𝕏" * 5_000}
    assert site.call("POST", product, comment, Authorization=mine)[0] == 201
    site.settle()
    [first] = site.get(f"{path}/entries?around={quote(NAME)}")["items"]
    assert first["player"] == NAME
    listed = site.call("GET", f"{path}/players/{quote(NAME)}/activities", Authorization=mine)
    assert [item["id"] for item in listed[1]["items"]] == [NAME]
    assert site.call("GET", f"{hunt}/players/{quote(NAME)}", Authorization=mine)[1]["found"] == 1


# -- paths ---------------------------------------------------------------------------------------------

# The longest ARN before the path: the longest partition, region, stage and method that there are.
PREFIX = "arn:aws-us-gov:execute-api:ap-southeast-1:123456789012:abcdefghij/production/DELETE"
ARN = 1_600
PARAMETERS = {
    "board": NAME,
    "player": NAME,
    "challenge": NAME,
    "product": NAME,
    "id": "7" + "Z" * 25,
    "reply": "7" + "Z" * 25,
    "path": "oak/bridge",  # a found path may be longer: then the call is 414
}


@pytest.mark.parametrize(
    ("method", "path"), [(call.method, call.path) for call in app.router.routes if call.access != "public"]
)
def test_every_call_with_a_token_reaches_its_authorizer_with_the_longest_names(
    method: str, path: str
) -> None:
    for name in re.findall("{(.*?)}", path):
        path = path.replace(f"{{{name}}}", quote(PARAMETERS.get(name, PARAMETERS["board"]), safe=""))
    assert len(f"{PREFIX}{path}") <= ARN, method
    assert len(path) <= MAX_AUTHORIZED_PATH


@pytest.mark.security
def test_a_path_that_api_gateway_would_not_authorize_is_414(site: Site) -> None:
    assert len(PREFIX) + MAX_AUTHORIZED_PATH <= ARN
    start = "/challenges/c/players/p/paths/"
    fits, longer = (quote("é" * 200) + "a" * (size - 1_200) for size in (1_470, 1_471))
    for part, expected in ((fits, 400), (longer, 414)):  # 400: a found path has up to 200 characters
        status, answer = site.call("DELETE", start + part, who="admin")
        assert status == expected, answer
    assert answer["code"] == "UriTooLong"
    assert site.call("DELETE", start + longer)[0] in (401, 414)
    for call in app.router.routes:
        declared = "UriTooLong" in [error.__name__ for error in list_errors(call)]
        assert declared == (call.access != "public" and "path" in call.arguments), call.path


# -- names ---------------------------------------------------------------------------------------------


class Named(Schema):
    name: Identifier


# Format characters with a shape: Arabic and Kaithi signs that stand before or around a number.
VISIBLE = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
# Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt, 16.0), and
# characters without a shape: a blank of Braille, a Brahmi joiner, a Khitan filler, a note without a head.
IGNORABLE = [
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010)),
    *(*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0),
    *(*range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000)),
    *(0x2800, 0x1107F, 0x16FE4, 0x1D159),
]


@pytest.mark.security
def test_a_name_must_not_have_invisible_characters() -> None:
    hidden = ("Cc", "Cf", "Co", "Cs", "Zs", "Zl", "Zp")
    codes = {code for code in range(0x110000) if unicodedata.category(chr(code)) in hidden}
    codes -= set(map(ord, VISIBLE))
    codes |= {
        *IGNORABLE,
        *(code for code in range(0x110000) if code & 0xFFFE == 0xFFFE),
        *range(0xFDD0, 0xFDF0),
    }
    assert [hex(code) for code in codes if IDENTIFIER.search(f"admin{chr(code)}")] == []
    assert [hex(code) for code in codes if IDENTIFIER.search(f"é{chr(code)}")] == []


def test_every_letter_digit_mark_and_sign_may_be_in_a_name() -> None:
    """But for the block of Egyptian format controls: since Unicode 15 it has letters that are blanks."""
    seen = ("L", "M", "N", "P", "S")
    codes = {code for code in range(0xE0000) if unicodedata.category(chr(code))[0] in seen}
    codes -= {ord("#"), 0xFFFC, 0xFFFD, *IGNORABLE, *range(0x13430, 0x13460)}
    assert [hex(code) for code in codes if not IDENTIFIER.search(f"a{chr(code)}")] == []


# -- dot segments --------------------------------------------------------------------------------------

# A URL parser removes these from a path, with the part before two of them (WHATWG URL, double-dot segment).
DOT_SEGMENTS = [".", "..", "%2e", "%2E", ".%2e", "%2E.", "%2e%2E"]


@pytest.mark.security
@pytest.mark.parametrize("dots", DOT_SEGMENTS)
def test_a_dot_segment_is_no_name_in_any_path(site: Site, dots: str) -> None:
    for route in app.router.routes:
        for name in re.findall("{(.*?)}", route.path):
            for part in {dots, quote(dots, safe="")}:
                path = route.path.replace(f"{{{name}}}", part)
                path = re.sub("{(.*?)}", lambda found: quote(PARAMETERS.get(found[1], "x"), safe=""), path)
                status, answer = site.call(route.method, path, who="admin")
                assert status in (400, 404), (route.method, path, answer)
                assert status == 400 or route.path.startswith(("/docs", "/web")), (route.method, path, answer)


@pytest.mark.security
@pytest.mark.parametrize("dots", DOT_SEGMENTS)
def test_a_dot_segment_is_no_name_in_any_body_or_query_or_token_or_topic(site: Site, dots: str) -> None:
    admin = site.token("admin")
    site.call("PUT", "/leaderboards/b", {"title": "t"}, Authorization=admin)
    for body in ({"id": dots, "value": 1}, {"id": "i", "value": 1, "player": dots}):
        assert site.call("POST", "/leaderboards/b/scores", body, Authorization=admin)[0] == 400
    hunt: dict[str, Any] = {"title": "t", "paths": ["oak", dots]}
    assert site.call("PUT", "/challenges/h", hunt, Authorization=admin)[0] == 400
    assert site.call("PUT", "/challenges/h", hunt | {"paths": ["oak"]}, Authorization=admin)[0] == 201
    assert site.call("POST", "/challenges/h/paths", {"path": dots}, Authorization=admin)[0] == 400
    for path in ("/leaderboards/b/entries", "/challenges/h/leaders"):
        assert site.call("GET", f"{path}?around={quote(dots)}")[0] == 400
    assert site.call("GET", "/leaderboards", who=dots)[0] == 401
    with pytest.raises(BadRequest):
        parse_identifier(dots)
    with pytest.raises(ValueError, match="lobby"):
        handshake.parse({"queryStringParameters": {"lobby": dots}, "requestContext": {}})


@pytest.mark.parametrize("name", ["...", ".a", "a.", "..a", "%2", "2e", "%2e2", "a/..", "...."])
def test_a_name_may_have_dots_beside_other_characters(name: str) -> None:
    assert codec.decode_parameters({"name": name}, Named).name == name
