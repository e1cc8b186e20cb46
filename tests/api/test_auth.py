"""Authentication: tokens of every kind at every route, an issuer's changing keys, and the stage's secret."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import jwt
import pytest
from chalice.test import Client
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from moto import mock_aws

import app
from chalicelib import settings
from chalicelib.api import auth, cursors
from chalicelib.api.router import Route
from chalicelib.dynamo.table import connect
from chalicelib.errors import BadCursor
from chalicelib.settings import Settings
from ops.aws import template
from tests.api.test_router import call, listening, made, raw_call

STAGE = settings.current()
SECRET = STAGE.secret.encode()
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
PEM = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
ISSUER = {"iss": "https://issuer.example", "aud": "hubbub-test", "sub": "player-1"}


def claims(**changed: Any) -> dict[str, Any]:
    """Build the claims of a valid token of this stage. A claim of None is left out."""
    now = int(time.time())
    own = {"iss": "hubbub", "aud": "hubbub-local", "sub": "user-1", "iat": now, "exp": now + 86_400}
    return {name: value for name, value in (own | changed).items() if value is not None}


def part(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def by_hand(header: Any, payload: Any, key: bytes = SECRET) -> str:
    """Build a token that no library would build."""
    signed = f"{part(header)}.{part(payload)}"
    return f"{signed}.{part(hmac.digest(key, signed.encode(), hashlib.sha256))}"


HS256 = {"alg": "HS256", "typ": "JWT"}
DEEP = b'{"alg":"HS256","x":' + b"[" * 20_000 + b"]" * 20_000 + b"}"  # more than Python's parser takes

NOW = int(time.time())
# Every way to introduce oneself: the header, and who it is that comes (None: nobody that we know).
HEADERS: dict[str, tuple[str | None, str | None]] = {
    "no token": (None, None),
    "user": ("Bearer " + by_hand(HS256, claims()), "user"),
    "other user": ("Bearer " + by_hand(HS256, claims(sub="user-2", scope="user")), "user"),
    "admin": ("Bearer " + by_hand(HS256, claims(sub="admin-1", scope="user admin")), "admin"),
    "lower-case scheme": ("bearer  " + by_hand(HS256, claims()) + " ", "user"),
    "scope that only contains admin": ("Bearer " + by_hand(HS256, claims(scope="administrator")), "user"),
    "scope that is a list": ("Bearer " + by_hand(HS256, claims(scope=["admin"])), "user"),
    "scope that is a list with admin between spaces": (
        "Bearer " + by_hand(HS256, claims(scope=["x admin y"])),
        "user",
    ),
    "scope that is an object": ("Bearer " + by_hand(HS256, claims(scope={" admin ": 1})), "user"),
    "scope with a tab before admin": ("Bearer " + by_hand(HS256, claims(scope="user\tadmin")), "user"),
    "a life of 31 days": ("Bearer " + by_hand(HS256, claims(iat=NOW, exp=NOW + 31 * 86_400)), None),
    "a life of 31 days without iat": (
        "Bearer " + by_hand(HS256, claims(iat=None, exp=NOW + 31 * 86_400)),
        None,
    ),
    "a life of 30 days": ("Bearer " + by_hand(HS256, claims(iat=NOW, exp=NOW + 30 * 86_400)), "user"),
    "a clock 20 seconds ahead": ("Bearer " + by_hand(HS256, claims(nbf=int(time.time()) + 20)), "user"),
    "expired": ("Bearer " + by_hand(HS256, claims(exp=int(time.time()) - 1, scope="admin")), None),
    "not yet valid": ("Bearer " + by_hand(HS256, claims(nbf=int(time.time()) + 86_400, scope="admin")), None),
    "issued later": ("Bearer " + by_hand(HS256, claims(iat=int(time.time()) + 86_400, scope="admin")), None),
    "wrong audience": ("Bearer " + by_hand(HS256, claims(aud="hubbub-prod", scope="admin")), None),
    "wrong issuer": ("Bearer " + by_hand(HS256, claims(iss="somebody", scope="admin")), None),
    "no exp": ("Bearer " + by_hand(HS256, claims(exp=None, scope="admin")), None),
    "exp that is infinite": ("Bearer " + by_hand(HS256, claims(exp=float("inf"), scope="admin")), None),
    "exp that is no number": ("Bearer " + by_hand(HS256, claims(exp="soon", scope="admin")), None),
    "no sub": ("Bearer " + by_hand(HS256, claims(sub=None, scope="admin")), None),
    "no aud": ("Bearer " + by_hand(HS256, claims(aud=None, scope="admin")), None),
    "no iss": ("Bearer " + by_hand(HS256, claims(iss=None, scope="admin")), None),
    "sub with #": ("Bearer " + by_hand(HS256, claims(sub="a#b", scope="admin")), None),
    "empty sub": ("Bearer " + by_hand(HS256, claims(sub="", scope="admin")), None),
    "sub that is a number": ("Bearer " + by_hand(HS256, claims(sub=7, scope="admin")), None),
    "sub of 129": ("Bearer " + by_hand(HS256, claims(sub="a" * 129, scope="admin")), None),
    "sub that NFC makes 120": ("Bearer " + by_hand(HS256, claims(sub="\u0958" * 60, scope="admin")), None),
    "forged": ("Bearer " + by_hand(HS256, claims(scope="admin"), b"x" * 32), None),
    "an empty secret": ("Bearer " + by_hand(HS256, claims(scope="admin"), b""), None),
    "tampered": (
        "Bearer " + by_hand(HS256, claims()).rsplit(".", 2)[0] + "." + part(claims(scope="admin")) + ".x",
        None,
    ),
    "no signature": ("Bearer " + by_hand(HS256, claims(scope="admin")).rpartition(".")[0] + ".", None),
    "alg none": ("Bearer " + jwt.encode(claims(scope="admin"), "", algorithm="none"), None),
    "alg NoNe": ("Bearer " + by_hand({"alg": "NoNe"}, claims(scope="admin")), None),
    "alg none, signed": ("Bearer " + by_hand({"alg": "none"}, claims(scope="admin")), None),
    "alg HS512 of our secret": (
        "Bearer " + jwt.encode(claims(scope="admin"), SECRET * 2, algorithm="HS512"),
        None,
    ),
    "HS256 with a public key": ("Bearer " + by_hand(HS256, claims(scope="admin"), PEM), None),
    "RS256 of somebody": ("Bearer " + jwt.encode(claims(scope="admin"), RSA, algorithm="RS256"), None),
    "key in the header": (
        "Bearer " + by_hand(HS256 | {"jwk": {"kty": "oct", "k": "eA"}}, claims(), b"x"),
        None,
    ),
    # RFC 7515, 4.1.11: an unknown extension in `crit` makes a token invalid.
    "a critical extension": ("Bearer " + by_hand(HS256 | {"crit": ["x"], "x": 1}, claims()), None),
    "kid that is a list": ("Bearer " + by_hand(HS256 | {"kid": []}, claims(scope="admin"), b"x"), None),
    "a header that nests": ("Bearer " + by_hand(DEEP, claims(scope="admin")), None),
    "claims that nest": ("Bearer " + by_hand(HS256, DEEP), None),
    "claims that are a list": ("Bearer " + by_hand(HS256, []), None),
    "header that is a list": ("Bearer " + by_hand([], claims()), None),
    "the cursor's key": (
        "Bearer " + by_hand(HS256, claims(scope="admin"), auth.derive_key(STAGE, "cursor")),
        None,
    ),
    "malformed": ("Bearer a.b.c", None),
    "no scheme": (by_hand(HS256, claims(scope="admin")), None),
    "another scheme": ("Token " + by_hand(HS256, claims(scope="admin")), None),
    "two tokens": ("Bearer " + by_hand(HS256, claims()) + " " + by_hand(HS256, claims()), None),
    "Basic": ("Basic YWRtaW46YWRtaW4=", None),
    "empty bearer": ("Bearer ", None),
    "blank": (" ", None),
    "not ASCII": ("Bearer é.é.é", None),
}


@pytest.fixture(scope="module")
def everything() -> Iterator[Any]:
    """The real app on a separate table."""
    connect.cache_clear()
    with mock_aws():
        template.create_table(boto3.client("dynamodb"), "dev")
        with Client(app.app) as client:
            yield client.http
    connect.cache_clear()


@pytest.mark.parametrize("route", app.router.routes, ids=lambda route: route.name)
def test_each_route_admits_exactly_the_callers_that_it_declares(everything: Any, route: Route) -> None:
    """Every registered route is tested here without further configuration."""
    path = route.path.replace("{", "").replace("}", "")
    found: dict[str, int] = {}
    for name, (header, _) in HEADERS.items():
        sent = {"Content-Type": route.body.types[0]} | (
            {"Authorization": header} if header is not None else {}
        )
        answer = everything.request(route.method, path, headers=sent, body=b"{}")
        found[name] = answer.status_code
        assert answer.status_code < 500, name
        assert not [
            part for part in (header or "").split(".") if len(part) > 8 and part.encode() in answer.body
        ]
    if route.access == "public":
        assert set(found.values()) == {found["no token"]}
        assert found["no token"] not in (401, 403)
        return
    for name, (_, who) in HEADERS.items():
        if who is None:
            assert found[name] == 401, name
        elif route.access == "admin" and who == "user":
            assert found[name] == 403, name
        else:
            assert found[name] != 401, name
            assert found[name] != 403 or route.access == "user", (
                name
            )  # a user's own call may be another user's


@examples(deadline=None, database=None)
@given(
    st.text() | st.text().map("Bearer {}".format) | st.binary().map(lambda raw: f"Bearer {part(raw)}.e30.x")
)
def test_any_header_gives_a_caller_or_a_problem(header: str) -> None:
    assert "problem" in auth.authenticate(STAGE, header)


def test_a_sub_is_normalized_to_nfc() -> None:
    token = auth.mint(STAGE, "e\u0301")
    assert auth.authenticate(STAGE, f"Bearer {token}")["sub"] == "é"


@pytest.mark.parametrize("claim", ["iss", "aud", "sub", "iat", "exp", "nbf", "jti", "name", "scope"])
@pytest.mark.parametrize("value", [1, -1.5, True, "", "x", [], ["x"], {"a": 1}, 10**20, "\x00", {}, "1e5"])
def test_a_malformed_claim_has_a_problem_in_plain_words(claim: str, value: Any) -> None:
    found = auth.authenticate(STAGE, f"Bearer {by_hand(HS256, claims() | {claim: value}, SECRET)}")
    assert not re.search(r"[A-Z]\w+(Error|Exception)", found.get("problem", "")), found


# -- the gateway's cache -------------------------------------------------------------------------------


def authorized(token: str, partition: str = "aws") -> dict[str, Any]:
    """Call the authorizer as API Gateway does."""
    arn = f"arn:{partition}:execute-api:eu-west-1:123456789012:abc/api/GET/views/events"
    answer: dict[str, Any] = app.identify(
        {"type": "TOKEN", "authorizationToken": f"Bearer {token}", "methodArn": arn}, None
    )
    return answer


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_the_authorizers_result_is_valid_for_every_route(partition: str) -> None:
    """API Gateway caches one result per header value, for all routes."""
    for token in (auth.mint(STAGE, "user-1"), auth.mint(STAGE, "a", scope="admin"), "x"):
        answer = authorized(token, partition)
        [statement] = answer["policyDocument"]["Statement"]
        assert statement["Effect"] == "Allow"
        assert statement["Resource"] == [f"arn:{partition}:execute-api:eu-west-1:123456789012:abc/api/*/*"]
        assert all(isinstance(value, str) for value in answer["context"].values())


@pytest.mark.parametrize(
    ("sub", "principal"), [("user-1", "user"), ("é", "user"), ("名前" * 30, "user"), ("", "nobody")]
)
def test_the_authorizers_principal_is_a_constant(sub: str, principal: str) -> None:
    """API Gateway accepts only ASCII there, and a sub is any text. Nothing reads the principal."""
    answer = authorized(auth.mint(STAGE, sub) if sub else "x")
    assert answer["principalId"] == principal
    assert answer["context"].get("sub", "") == sub


def test_a_cached_result_expires_with_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    token = auth.mint(STAGE, "admin-1", scope="admin", seconds=60)
    kept = authorized(token)["context"]
    bearer = {"headers": {"Authorization": f"Bearer {token}"}}
    assert raw_call(made(), "GET", "/secrets", authorizer=kept, **bearer)[:2] == (200, {"it": "admin-1"})
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    status, answer, _ = raw_call(made(), "GET", "/secrets", authorizer=kept)
    assert (status, answer["code"]) == (401, "Unauthorized")


def test_a_cached_refusal_is_checked_again() -> None:
    token = auth.mint(STAGE, "admin-1", scope="admin")
    early = {"problem": "the token is not valid (ImmatureSignatureError)", "principalId": "nobody"}
    for header, status in ((f"Bearer {token}", 200), ("Bearer x", 401)):
        sent = {"headers": {"Authorization": header}}
        assert raw_call(made(), "GET", "/secrets", authorizer=early, **sent)[0] == status


def test_without_an_authorizer_no_caller_is_admitted() -> None:
    for nobody in (None, {}, {"principalId": "admin-1"}, {"sub": ""}, {"sub": "a", "scope": "admin"}):
        assert raw_call(made(), "GET", "/secrets", authorizer=nobody)[0] == 401


# -- an issuer with keys of its own --------------------------------------------------------------------


class Issuer:
    """A JWKS URL on this machine that counts its requests."""

    def __init__(self) -> None:
        self.fetches = 0
        self.status = 200
        self.location = ""
        self.body: bytes | None = None
        self.pause = 0.0  # seconds between two bytes of the body
        self.keys: dict[str, Any] = {}
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.fetches += 1
                body = issuer.body if issuer.body is not None else issuer.document()
                self.send_response(issuer.status)
                self.send_header("Content-Length", str(len(body)))
                if issuer.location:
                    self.send_header("Location", issuer.location)
                self.end_headers()
                with suppress(ConnectionError):
                    for byte in [bytes([letter]) for letter in body] if issuer.pause else [body]:
                        self.wfile.write(byte)
                        issuer.stopping.wait(issuer.pause)

            def log_message(self, format: str, *args: Any) -> None: ...

        self.stopping = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/jwks.json"
        self.stage = Settings(
            jwks_url=self.url, issuer=ISSUER["iss"], audience=ISSUER["aud"], secret="s" * 32
        )
        self.now = 1000.0
        self.found = auth.KeySet(self.url, clock=lambda: self.now)

    def document(self) -> bytes:
        return json.dumps({"keys": [key | {"kid": kid} for kid, key in self.keys.items()]}).encode()

    def publish(self, **keys: Any) -> None:
        algorithms: dict[bool, Any] = {True: RSAAlgorithm, False: ECAlgorithm}
        self.keys = {
            kid: key
            if isinstance(key, dict)
            else algorithms[isinstance(key, rsa.RSAPrivateKey)].to_jwk(key.public_key(), as_dict=True)
            for kid, key in keys.items()
        }

    def check(self, token: str) -> dict[str, str]:
        return auth.authenticate(self.stage, f"Bearer {token}")


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    """An issuer that publishes the keys `r` and `e`, with a clock that the test controls."""
    running = Issuer()
    running.publish(r=RSA, e=EC)
    monkeypatch.setattr(auth, "_key_set", lambda url: running.found)
    yield running
    running.server.shutdown()
    running.server.server_close()


def signed(key: Any, kid: str | None, **changed: Any) -> str:
    algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
    return jwt.encode(
        claims(**ISSUER | changed), key, algorithm=algorithm, headers={"kid": kid} if kid else {}
    )


def test_rs256_and_es256_of_the_issuer_are_valid_and_its_keys_are_fetched_once(issuer: Issuer) -> None:
    for _ in range(5):
        assert issuer.check(signed(RSA, "r", scope="admin"))["scope"] == "admin"
        assert issuer.check(signed(EC, "e"))["sub"] == "player-1"
    assert issuer.fetches == 1


def test_tokens_of_another_issuer_are_refused(issuer: Issuer) -> None:
    own = claims(**ISSUER)
    odd = {
        "another RSA key": signed(OTHER_RSA, "r"),
        "another EC key": signed(ec.generate_private_key(ec.SECP256R1()), "e"),
        "another's key id": signed(RSA, "e"),
        "another's key id, too": signed(EC, "r"),
        "no key id": signed(RSA, None),
        "a key id that is not known": signed(RSA, "x"),
        "HS256 with the public key": by_hand(HS256 | {"kid": "r"}, own, PEM),
        "HS256 with the published key": by_hand(
            HS256 | {"kid": "r"}, own, json.dumps(issuer.keys["r"]).encode()
        ),
        "HS256 with the stage's secret": by_hand(HS256 | {"kid": "r"}, own, b"s" * 32),
        "RS256 in name alone": by_hand({"alg": "RS256", "kid": "r"}, own, PEM),
        "ES256 on an RSA key": by_hand({"alg": "ES256", "kid": "r"}, own, PEM),
        "RS512": jwt.encode(own, RSA, algorithm="RS512", headers={"kid": "r"}),
        "PS256": jwt.encode(own, RSA, algorithm="PS256", headers={"kid": "r"}),
        "none": jwt.encode(own, "", algorithm="none", headers={"kid": "r"}),
        "its own key in the header": jwt.encode(
            own,
            OTHER_RSA,
            algorithm="RS256",
            headers={"kid": "r", "jwk": {"kty": "RSA"}, "jku": "http://evil"},
        ),
        "expired": signed(RSA, "r", exp=int(time.time()) - 10),
        "wrong audience": signed(RSA, "r", aud="x"),
        "wrong issuer": signed(RSA, "r", iss="hubbub"),
        "of another stage": auth.mint(issuer.stage._replace(stage="prod"), "admin-1", scope="admin"),
    }
    for name, token in odd.items():
        found = issuer.check(token)
        assert found.keys() == {"problem"}, name
        assert "not valid" in found["problem"], name


def test_an_issuers_clock_may_be_a_minute_ahead(issuer: Issuer) -> None:
    for seconds, part_of_the_result in ((20, "sub"), (55, "sub"), (90, "problem")):
        later = int(time.time()) + seconds
        assert part_of_the_result in issuer.check(signed(RSA, "r", iat=later, nbf=later)), seconds


def test_a_sole_key_needs_no_id_in_the_token_or_in_the_set(issuer: Issuer) -> None:
    """RFC 7517, 4.5: the id is optional. OpenID Connect Core, 10.1: a token names one of several keys."""
    published = {"r": issuer.keys["r"], "e": issuer.keys["e"]}

    def accepted(*keys: dict[str, Any]) -> list[bool]:
        issuer.body, issuer.now = json.dumps({"keys": keys}).encode(), issuer.now + auth.FRESH + 1
        return ["sub" in issuer.check(signed(RSA, kid)) for kid in (None, "r", "x")]

    named, unnamed = published["r"] | {"kid": "r"}, published["r"]
    assert accepted(named) == [True, True, False]
    assert accepted(unnamed) == [True, True, True]
    assert accepted(named, published["e"] | {"use": "enc"}) == [True, True, False]  # only one key signs
    assert accepted(named, published["e"] | {"kid": "e"}) == [False, True, False]
    assert accepted(unnamed, published["e"]) == [False, False, False]
    assert accepted(published["e"] | {"kid": "r"}, named) == [False, True, False]  # one id for two types
    assert "problem" in issuer.check(by_hand(HS256, claims(**ISSUER), PEM))


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
def test_keys_without_an_accepted_algorithm_use_or_size_are_ignored(issuer: Issuer) -> None:
    published = issuer.keys["r"]
    small = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    issuer.publish(
        small=small,
        encrypts=published | {"use": "enc"},
        wraps=published | {"key_ops": ["wrapKey"]},
        strong=published | {"alg": "RS512"},
        shared={"kty": "oct", "k": part(b"x" * 32), "alg": "HS256"},
        odd={"kty": "odd"},
        good=published | {"use": "sig", "alg": "RS256", "key_ops": ["verify"]},
    )
    assert "sub" in issuer.check(signed(RSA, "good"))
    for kid in ("encrypts", "wraps", "strong", "odd"):
        assert "problem" in issuer.check(signed(RSA, kid))
    assert "problem" in issuer.check(signed(small, "small"))
    assert "problem" in issuer.check(by_hand(HS256 | {"kid": "shared"}, claims(**ISSUER), b"x" * 32))


def test_a_new_key_is_fetched_at_once_and_a_withdrawn_key_is_valid_for_five_minutes(issuer: Issuer) -> None:
    assert "sub" in issuer.check(signed(RSA, "r"))
    issuer.publish(r=RSA, new=OTHER_RSA)
    assert "sub" in issuer.check(signed(OTHER_RSA, "new"))
    assert issuer.fetches == 2
    issuer.publish(new=OTHER_RSA)
    issuer.now += 299
    assert "sub" in issuer.check(signed(RSA, "r"))
    issuer.now += 2
    assert "problem" in issuer.check(signed(RSA, "r"))
    assert "sub" in issuer.check(signed(OTHER_RSA, "new"))
    assert issuer.fetches == 3


@pytest.mark.security
def test_forged_key_ids_do_not_cause_more_fetches(issuer: Issuer) -> None:
    good = signed(RSA, "r")
    for second in range(60):
        issuer.now = 1000 + second
        for n in range(5):
            assert "problem" in issuer.check(by_hand({"alg": "RS256", "kid": f"{second}-{n}"}, {}))
        assert "sub" in issuer.check(good)
    assert issuer.fetches <= 6
    issuer.publish(new=OTHER_RSA)
    issuer.now += 31
    assert "sub" in issuer.check(signed(OTHER_RSA, "new"))


def test_an_issuer_that_does_not_respond_gives_401_and_few_requests(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer.status = 500
    monkeypatch.setattr(settings, "current", lambda: issuer.stage)
    token = f"Bearer {signed(RSA, 'r', scope='admin')}"
    with listening() as log:
        for _ in range(20):
            status, answer, _ = call(made(stage=issuer.stage), "GET", "/secrets", authorization=token)
            assert (status, answer["code"]) == (401, "Unauthorized")
            assert "cannot check tokens now" in answer["message"]
    assert issuer.fetches == 3
    assert next(line["reason"] for line in log.lines if "JWKS" in line["message"]) == (
        "HTTP Error 500: Internal Server Error"
    )
    assert token.split()[1] not in log.text
    issuer.status, issuer.now = 200, issuer.now + 31
    assert call(made(stage=issuer.stage), "GET", "/secrets", authorization=token)[0] == 200


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b"\xff", b'{"keys":7}', b'{"keys":[7]}', b'{"keys":[]}', b"[" * 5000]
)
def test_an_invalid_response_of_an_issuer_gives_401(issuer: Issuer, body: bytes) -> None:
    issuer.body = body
    assert issuer.check(signed(RSA, "r")).keys() == {"problem"}


def test_while_the_issuer_does_not_respond_its_last_keys_are_valid_for_an_hour(issuer: Issuer) -> None:
    assert "sub" in issuer.check(signed(RSA, "r"))
    issuer.status = 503
    issuer.now += 3599
    assert "sub" in issuer.check(signed(RSA, "r"))
    issuer.now += 2
    assert "cannot check tokens now" in issuer.check(signed(RSA, "r"))["problem"]


@pytest.mark.security
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("location", ["/moved", "http://localhost:{port}/moved", "http://evil.example/jwks"])
def test_a_redirect_is_not_followed(issuer: Issuer, status: int, location: str) -> None:
    issuer.status, issuer.location = status, location.format(port=issuer.server.server_port)
    with listening() as log:
        assert "cannot check tokens now" in issuer.check(signed(RSA, "r"))["problem"]
    assert issuer.fetches == 1
    assert "HUBBUB_JWKS_URL must not redirect" in log.text


@pytest.mark.security
def test_a_response_that_takes_too_long_is_given_up(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "FETCH_SECONDS", 0.3)
    issuer.pause = 0.05  # each byte comes in time, all of them do not
    begin = time.monotonic()
    assert "cannot check tokens now" in issuer.check(signed(RSA, "r"))["problem"]
    assert time.monotonic() - begin < 3
    issuer.stopping.set()


@pytest.mark.security
def test_a_response_of_more_than_a_megabyte_is_not_read(issuer: Issuer) -> None:
    issuer.body = issuer.document() + b" " * auth.MAX_JWKS
    assert "cannot check tokens now" in issuer.check(signed(RSA, "r"))["problem"]


@pytest.mark.security
@pytest.mark.parametrize(
    "url", ["http://issuer.example/jwks", "file:///etc/passwd", "http://127.0.0.1.evil/", "x"]
)
def test_keys_are_fetched_only_over_https(url: str) -> None:
    with listening() as log:
        found = auth.authenticate(Settings(jwks_url=url), "Bearer " + signed(RSA, "r"))
    assert "cannot check tokens now" in found["problem"]
    assert "HUBBUB_JWKS_URL must begin with https://" in log.text


def test_a_missing_cryptography_package_is_a_problem_and_is_logged(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jwt.algorithms.has_crypto", False)
    with listening() as log:
        found = issuer.check(signed(RSA, "r"))
    assert "cannot check tokens now" in found["problem"]
    assert "HUBBUB_JWKS_URL needs the package cryptography" in log.text


# -- the secret ----------------------------------------------------------------------------------------


@pytest.fixture
def ssm() -> Iterator[Any]:
    auth.read_parameter.cache_clear()
    with mock_aws():
        yield boto3.client("ssm")
    auth.read_parameter.cache_clear()


IN_SSM = Settings(stage="dev", secret_parameter="/hubbub/dev/secret")


def test_a_secret_in_ssm_is_fetched_once_and_never_logged(ssm: Any) -> None:
    name, value = IN_SSM.secret_parameter, "the-secret-that-nobody-may-ever-read"
    ssm.put_parameter(Name=name, Value=value, Type="SecureString")
    with listening() as log:
        token = auth.mint(IN_SSM, "user-1")
        ssm.delete_parameter(Name=name)  # whoever asked again would fail
        for _ in range(3):
            assert auth.authenticate(IN_SSM, f"Bearer {token}")["sub"] == "user-1"
    assert value not in log.text
    assert token not in log.text


def test_a_warm_process_takes_a_new_secret_and_accepts_the_one_before_for_a_day(
    ssm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Minutes after `put-parameter --overwrite` every process signs with the new secret."""
    name, now = IN_SSM.secret_parameter, [time.time() - 4 * auth.SECRET_SECONDS]
    monkeypatch.setattr(auth, "time", SimpleNamespace(time=lambda: now[0]))
    tokens, all_cursors = [], []
    for number in range(3):
        ssm.put_parameter(Name=name, Value=str(number) * 32, Type="SecureString", Overwrite=True)
        now[0] += auth.SECRET_SECONDS
        tokens.append(auth.mint(IN_SSM, "user-1"))
        all_cursors.append(cursors.encode(IN_SSM, ("list",), "position"))
    assert "sub" not in auth.authenticate(IN_SSM, f"Bearer {tokens[0]}"), "it is two secrets old"
    for token, cursor in zip(tokens[1:], all_cursors[1:], strict=True):
        assert auth.authenticate(IN_SSM, f"Bearer {token}")["sub"] == "user-1"
        assert cursors.decode(IN_SSM, ("list",), cursor) == "position"
    monkeypatch.setattr(auth, "ROTATION", timedelta(0))
    now[0] += auth.SECRET_SECONDS
    assert "sub" not in auth.authenticate(IN_SSM, f"Bearer {tokens[1]}"), "a day is over"
    assert auth.authenticate(IN_SSM, f"Bearer {tokens[2]}")["sub"] == "user-1"
    ssm.delete_parameter(Name=name)


def test_an_unreadable_secret_is_a_problem_of_the_stage(ssm: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    odd = {
        "ParameterNotFound": IN_SSM,
        "FileNotFoundError": Settings(secret_file=str(tmp_path / "none")),
        "the secret has 0 bytes": Settings(secret_file=str(tmp_path / "empty")),
        "the secret has 31 bytes": Settings(secret="x" * 31),
        "none of HUBBUB_SECRET": Settings(),
    }
    for why, stage in odd.items():
        with listening() as log:
            found = auth.authenticate(stage, "Bearer " + by_hand(HS256, claims(), b""))
        assert "cannot check tokens now" in found["problem"]
        assert why in log.text


def test_a_secret_comes_from_the_environment_then_a_file_then_ssm(ssm: Any, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("f" * 32 + "\n")
    ssm.put_parameter(Name="p", Value="p" * 32, Type="SecureString")
    stage = Settings(secret="e" * 32, secret_file=str(file), secret_parameter="p")
    assert auth.read_secret(stage) == b"e" * 32
    assert auth.read_secret(stage._replace(secret="")) == b"f" * 32
    assert auth.read_secret(stage._replace(secret="", secret_file="")) == b"p" * 32
    file.write_text("g" * 32)
    assert auth.read_secret(stage._replace(secret="")) == b"g" * 32


def test_logs_hold_no_token_secret_or_address() -> None:
    forwarded = {"X-Forwarded-For": "203.0.113.9", "X-Real-Ip": "203.0.113.9"}
    with listening() as log:
        for header, _ in HEADERS.values():
            if header and header.strip():
                call(made(), "GET", "/secrets?q=text-of-a-person", authorization=header, **forwarded)
    assert len(log.requests) >= len(HEADERS) - 3
    for header, _ in HEADERS.values():
        assert not [part for part in (header or "").split(".") if len(part) > 8 and part in log.text]
    for hidden in (STAGE.secret, "203.0.113.9", "127.0.0.1", "text-of-a-person", "Bearer ey"):
        assert hidden not in log.text


# -- cursors -------------------------------------------------------------------------------------------

QUERY = ("views", "https://example.org/")


def test_a_cursor_holds_its_position_and_no_cursor_means_the_beginning() -> None:
    for place in ("a", "2026-11-21T10:00:00Z#c-1", "😀" * 100):
        assert cursors.decode(STAGE, QUERY, cursors.encode(STAGE, QUERY, place)) == place
    assert cursors.encode(STAGE, QUERY, "") is None
    assert cursors.decode(STAGE, QUERY, None) == cursors.decode(STAGE, QUERY, "") == ""


def test_a_cursor_holds_only_its_version_scope_and_position() -> None:
    cursor = cursors.encode(STAGE, QUERY, "here") or ""
    held = jwt.decode(cursor, options={"verify_signature": False})
    assert held.keys() == {"v", "q", "k"}
    assert (held["v"], held["k"]) == (cursors.VERSION, "here")
    assert STAGE.secret not in cursor


def test_a_cursor_of_another_kind_is_rejected() -> None:
    good = cursors.encode(STAGE, QUERY, "here") or ""
    key = auth.derive_key(STAGE, "cursor")
    held = jwt.decode(good, key, algorithms=["HS256"])
    head, body, sign = good.split(".")
    odd = {
        "another query": cursors.encode(STAGE, (*QUERY, "x"), "here"),
        "a query in other parts": cursors.encode(STAGE, ("".join(QUERY),), "here"),
        "another stage's secret": cursors.encode(STAGE._replace(secret="x" * 32), QUERY, "here"),
        "an older version": by_hand(HS256, held | {"v": cursors.VERSION - 1}, key),
        "no version": by_hand(HS256, {"q": held["q"], "k": "here"}, key),
        "no place": by_hand(HS256, {"q": held["q"], "v": held["v"]}, key),
        "a place that is no text": by_hand(HS256, held | {"k": ["x"]}, key),
        "signed with the secret itself": by_hand(HS256, held),
        "a token": auth.mint(STAGE, "admin-1", scope="admin"),
        "alg none": jwt.encode(held, "", algorithm="none"),
        "another place": f"{head}.{part(held | {'k': 'there'})}.{sign}",
        "cut": good[:-1],
        "longer": good + "x",
        "no signature": f"{head}.{body}.",
        "a nest": by_hand(HS256, DEEP, key),
        "a nest in its header": by_hand(DEEP, held, key),
        "a list": by_hand(HS256, [], key),
        "anything": "x",
        "not ASCII": "é.é.é",
        "half a pair": "\ud800",
    }
    for name, cursor in odd.items():
        with pytest.raises(BadCursor) as refused:
            cursors.decode(STAGE, QUERY, cursor)
        assert str(refused.value).startswith("`cursor` "), name


@examples(deadline=None, database=None)
@given(st.integers(0, 500), st.characters(max_codepoint=127))
def test_a_cursor_with_a_changed_letter_is_rejected_or_unchanged(at: int, letter: str) -> None:
    cursor = cursors.encode(STAGE, QUERY, "here") or ""
    at %= len(cursor)
    changed = cursor[:at] + letter + cursor[at + 1 :]
    try:
        assert cursors.decode(STAGE, QUERY, changed) == "here"  # base64's last letter has bits to spare
        assert changed == cursor or at == len(cursor) - 1
    except BadCursor:
        assert changed != cursor


def test_a_cursor_is_not_accepted_as_a_token() -> None:
    cursor = cursors.encode(STAGE, QUERY, "here")
    assert "problem" in auth.authenticate(STAGE, f"Bearer {cursor}")
