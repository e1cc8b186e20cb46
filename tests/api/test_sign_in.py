"""Sign-in: tokens of each provider in docs/deployment.md, in their exact form, with its settings."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from jwt.algorithms import RSAAlgorithm

from chalicelib import settings
from chalicelib.api import auth
from chalicelib.settings import Settings
from tests.api.test_auth import RSA, Issuer
from tests.api.test_router import call, made
from tests.support.site import Site

DOCUMENT = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text()
SECRET = "s" * 32
NODE = pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")


def documented(name: str) -> dict[str, str]:
    """Return the settings of a block in the document."""
    [block] = re.findall(rf"```sh {name}\n(.*?)```", DOCUMENT, re.DOTALL)
    return dict(line.split("=", 1) for line in block.split())


def code(language: str) -> str:
    """Return the signer of the document in a language."""
    [found] = re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)
    return str(found)


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    """An issuer on this machine. Its address replaces the documented JWKS URL."""
    running = Issuer()
    running.publish(key=RSA)
    monkeypatch.setattr(auth, "_key_set", lambda url: running.found)
    yield running
    running.server.shutdown()
    running.server.server_close()


def stage_of(issuer: Issuer, name: str, **more: str) -> Settings:
    variables = documented(name) | {"HUBBUB_STAGE": "dev", "HUBBUB_SECRET": SECRET} | more
    return settings.read(variables | {"HUBBUB_JWKS_URL": issuer.url})


def sign(claims: dict[str, Any], typ: str | None = "JWT") -> str:
    """Sign claims as the providers do: RS256 with a key id. Cognito's headers have no `typ`."""
    now = int(time.time())
    header = {"kid": "key", "typ": typ}
    return jwt.encode({"iat": now, "exp": now + 3600} | claims, RSA, algorithm="RS256", headers=header)


def caller_of(stage: Settings, token: str) -> auth.Caller:
    return auth.read_context(auth.authenticate(stage, f"Bearer {token}"))


# -- Amazon Cognito --------------------------------------------------------------------------------------

# Amazon Cognito Developer Guide, "Understanding the identity (ID) token" and "… the access token": the
# examples there, with the ids of the document.
COGNITO = documented("cognito")
COGNITO_SUB = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
COGNITO_ID = {
    "sub": COGNITO_SUB,
    "cognito:groups": ["test-group-a", "test-group-b"],
    "email_verified": True,
    "cognito:preferred_role": "arn:aws:iam::111122223333:role/my-test-role",
    "iss": COGNITO["HUBBUB_ISSUER"],
    "cognito:username": "my-test-user",
    "middle_name": "Jane",
    "nonce": "abcdefg",
    "origin_jti": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    "cognito:roles": ["arn:aws:iam::111122223333:role/my-test-role"],
    "aud": COGNITO["HUBBUB_AUDIENCE"],
    "identities": [{"userId": "amzn1.account.EXAMPLE", "providerName": "LoginWithAmazon"}],
    "event_id": "64f513be-32db-42b0-b78e-b02127b4f463",
    "token_use": "id",
    "auth_time": 1676312777,
    "name": "Jane Roe",
    "jti": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    "email": "my-test-user@example.com",
}
COGNITO_ACCESS = {
    "sub": COGNITO_SUB,
    "device_key": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    "cognito:groups": ["testgroup"],
    "iss": COGNITO["HUBBUB_ISSUER"],
    "version": 2,
    "client_id": COGNITO["HUBBUB_AUDIENCE"],
    "origin_jti": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    "event_id": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    "token_use": "access",
    "scope": "phone openid profile resourceserver.1/appclient2 email",
    "auth_time": 1676313851,
    "jti": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
    "username": "my-test-user",
}


def test_cognito_id_tokens_name_a_user(issuer: Issuer) -> None:
    found = caller_of(stage_of(issuer, "cognito"), sign(COGNITO_ID, typ=None))
    assert found == auth.Caller(COGNITO_SUB, admin=False, problem="", name="Jane Roe")


def test_cognito_access_tokens_name_a_user(issuer: Issuer) -> None:
    token = sign(COGNITO_ACCESS, typ=None)
    assert caller_of(stage_of(issuer, "cognito"), token) == auth.Caller(COGNITO_SUB, False, "")
    named = caller_of(stage_of(issuer, "cognito", HUBBUB_NAME_CLAIM="username"), token)
    assert named.name == "my-test-user"


def test_cognito_admins_are_in_the_group_and_a_scope_makes_no_admin(issuer: Issuer) -> None:
    stage = stage_of(issuer, "cognito")
    for claims in (COGNITO_ID, COGNITO_ACCESS):
        assert caller_of(stage, sign(claims | {"cognito:groups": ["testgroup", "admin"]})).admin
        for other in ({"cognito:groups": ["admins"]}, {"scope": "openid admin"}, {"cognito:groups": None}):
            assert not caller_of(stage, sign(claims | other)).admin, other


def test_cognito_tokens_of_another_client_or_pool_are_refused_with_the_claim(issuer: Issuer) -> None:
    stage, other = stage_of(issuer, "cognito"), "cognito-idp.eu-central-1.amazonaws.com/eu-central-1_OTHER"
    odd = {
        "`aud`, or else `client_id`, must be `1example23456789`": [
            COGNITO_ID | {"aud": "other"},
            COGNITO_ACCESS | {"client_id": "other"},
            # A token with `aud` is for that audience alone, whichever client has requested it (RFC 9068).
            COGNITO_ACCESS | {"aud": "other"},
        ],
        f"`iss` must be `{stage.issuer}`": [COGNITO_ID | {"iss": f"https://{other}"}],
        "`exp`: it has expired": [COGNITO_ID | {"exp": int(time.time()) - 10}],
    }
    for problem, tokens in odd.items():
        for claims in tokens:
            assert problem in caller_of(stage, sign(claims)).problem


# -- Auth0 -----------------------------------------------------------------------------------------------

# Auth0 Docs, "Access Token Profiles" (Auth0 profile, with RBAC permissions) and "ID Token Structure".
AUTH0 = documented("auth0")
AUTH0_SUB = "auth0|5f7c8ec7c33c6c004bbafe82"
AUTH0_ACCESS = {
    "iss": AUTH0["HUBBUB_ISSUER"],
    "sub": AUTH0_SUB,
    "aud": [AUTH0["HUBBUB_AUDIENCE"], "https://example.eu.auth0.com/userinfo"],
    "azp": "my_client_id",
    "scope": "openid profile email",
    "permissions": [],
    AUTH0["HUBBUB_NAME_CLAIM"]: "jane",
}
AUTH0_ID = {
    "iss": AUTH0["HUBBUB_ISSUER"],
    "sub": AUTH0_SUB,
    "aud": "my_client_id",
    "name": "Jane Doe",
    "given_name": "Jane",
    "nickname": "jane",
    "picture": "https://s.gravatar.com/avatar/example.png",
    "updated_at": "2026-11-21T10:00:00.000Z",
    "email": "janedoe@example.com",
    "email_verified": True,
    "sid": "ouP4hhp7MhqP5TFx1i1GNNnCPI3wjzKG",
    "nonce": "TmRvWl9JMjFsTDhtRm1JQWh0",
}


def test_auth0_access_tokens_name_a_user_and_permissions_make_an_admin(issuer: Issuer) -> None:
    stage = stage_of(issuer, "auth0")
    assert caller_of(stage, sign(AUTH0_ACCESS)) == auth.Caller(AUTH0_SUB, False, "", "jane")
    assert caller_of(stage, sign(AUTH0_ACCESS | {"permissions": ["read:all", "admin"]})).admin


def test_auth0_id_tokens_are_accepted_for_a_listed_client(issuer: Issuer) -> None:
    audiences = f"{AUTH0['HUBBUB_AUDIENCE']}, my_client_id"
    stage = stage_of(issuer, "auth0", HUBBUB_AUDIENCE=audiences, HUBBUB_NAME_CLAIM="name")
    assert caller_of(stage, sign(AUTH0_ID)) == auth.Caller(AUTH0_SUB, False, "", "Jane Doe")
    assert "must be `https://hubbub" in caller_of(stage_of(issuer, "auth0"), sign(AUTH0_ID)).problem


def test_an_issuer_without_its_final_slash_is_named(issuer: Issuer) -> None:
    stage = stage_of(issuer, "auth0", HUBBUB_ISSUER="https://example.eu.auth0.com")
    assert "`iss` must be `https://example.eu.auth0.com`" in caller_of(stage, sign(AUTH0_ACCESS)).problem


# -- your own server -------------------------------------------------------------------------------------


def run_node(folder: Path, source: str, expression: str) -> str:
    (folder / "signer.mjs").write_text(source)
    (folder / "main.mjs").write_text(
        f'import * as signer from "./signer.mjs";\nprocess.stdout.write({expression});'
    )
    done = subprocess.run(
        ["node", str(folder / "main.mjs")], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


STAGE = Settings(stage="dev", secret=SECRET)


@pytest.mark.parametrize("admin", [False, True])
def test_the_python_signer_with_the_secret_works_without_settings(admin: bool) -> None:
    signer: dict[str, Any] = {}
    exec(code("python"), signer)
    token = signer["sign"](SECRET, "dev", "ann", "Ann Lee", admin)
    assert caller_of(STAGE, token) == auth.Caller("ann", admin, "", "Ann Lee")


@NODE
@pytest.mark.parametrize("admin", [False, True])
def test_the_node_signer_with_the_secret_works_without_settings(admin: bool, tmp_path: Path) -> None:
    arguments = json.dumps([SECRET, "dev", "ann", "Ann Lee", admin])
    token = run_node(tmp_path, code("js"), f"signer.sign(...{arguments})")
    assert caller_of(STAGE, token) == auth.Caller("ann", admin, "", "Ann Lee")


@pytest.mark.parametrize("admin", [False, True])
def test_a_token_of_a_library_with_an_own_key_works(issuer: Issuer, admin: bool) -> None:
    now = int(time.time())
    claims: dict[str, Any] = {"iss": "https://www.example.org", "aud": "hubbub", "sub": "ann"}
    claims |= {"name": "Ann Lee", "iat": now, "exp": now + 3600} | ({"scope": "admin"} if admin else {})
    token = jwt.encode(claims, RSA, algorithm="RS256", headers={"kid": "1"})
    key = RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True) | {"kid": "1"}
    issuer.body = json.dumps({"keys": [key]}).encode()
    assert caller_of(stage_of(issuer, "own-key"), token) == auth.Caller("ann", admin, "", "Ann Lee")


# -- the stage's own tokens ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cognito", "auth0", "own-key"])
def test_operators_and_guests_have_tokens_beside_an_issuer(issuer: Issuer, name: str) -> None:
    stage = stage_of(issuer, name)
    admin = auth.mint(stage, "operator", scope="admin")
    assert caller_of(stage, admin) == auth.Caller("operator", True, "")
    guest = auth.mint(stage, "guest-1", name="Ann", claims={"guest": True})
    assert caller_of(stage, guest) == auth.Caller("guest-1", False, "", "Ann", guest=True)
    assert issuer.fetches == 0
    other = stage._replace(secret="x" * 32), stage._replace(stage="prod")
    for forged in other:
        assert caller_of(stage, auth.mint(forged, "operator", scope="admin")).sub == ""


def test_an_operators_token_satisfies_the_stages_own_claims() -> None:
    stage = STAGE._replace(issuer="our-server", audience="a,b", admin_claim="role", admin_value="chief")
    assert caller_of(stage, auth.mint(stage, "operator", scope="admin")).admin
    assert not caller_of(stage, auth.mint(stage, "operator")).admin


@pytest.mark.parametrize(
    ("scope", "scores"),
    [("scores", True), ("openid scores", True), ("scores.read", False), (["scores"], False)],
)
def test_a_word_of_the_scope_makes_a_server_of_scores(issuer: Issuer, scope: Any, scores: bool) -> None:
    caller = caller_of(stage_of(issuer, "auth0"), sign(AUTH0_ACCESS | {"scope": scope}))
    assert (caller.sub, caller.scores, caller.admin) == (AUTH0_SUB, scores, False)


def test_an_issuer_cannot_name_a_guest(issuer: Issuer) -> None:
    found = caller_of(stage_of(issuer, "auth0"), sign(AUTH0_ACCESS | {"guest": True}))
    assert (found.sub, found.guest) == (AUTH0_SUB, False)


@pytest.mark.parametrize(
    ("claim", "value", "is_admin"),
    [
        (True, "true", True),
        (True, "admin", False),
        ("true", "true", True),
        (1, "true", False),
        (["admin"], "admin", True),
        (["admin user"], "admin", False),
        ("user admin", "admin", True),
        ("administrator", "admin", False),
        ("site admin", "site admin", True),
        ({"admin": True}, "admin", False),
        (None, "admin", False),
    ],
)
def test_a_claim_and_a_value_make_an_admin(claim: object, value: str, is_admin: bool) -> None:
    stage = STAGE._replace(admin_claim="role", admin_value=value)
    now = int(time.time())
    claims = {"iss": "hubbub", "aud": "hubbub-dev", "sub": "a", "exp": now + 60, "role": claim}
    assert caller_of(stage, jwt.encode(claims, SECRET, algorithm="HS256")).admin is is_admin


@pytest.mark.parametrize(
    ("claim", "name"),
    [
        ("  Ann \t\n Lee ", "Ann Lee"),
        ("x" * 500, "x" * 60),
        ("\u200b", None),
        (7, None),
        (["Ann"], None),
        (None, None),
    ],
)
def test_a_name_is_cleaned_and_optional(claim: object, name: str | None) -> None:
    now = int(time.time())
    claims = {"iss": "hubbub", "aud": "hubbub-dev", "sub": "a", "exp": now + 60, "name": claim}
    found = caller_of(STAGE, jwt.encode(claims, SECRET, algorithm="HS256"))
    assert (found.sub, found.name) == ("a", name)


def test_each_401_of_the_document_names_its_claim(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    now = int(time.time())
    good = COGNITO_ID
    sent = {
        "`exp`: it has expired": (sign(good | {"exp": now - 10}), "cognito"),
        "`exp`: its lifetime must be at most 720 hours": (sign(good | {"exp": now + 10**7}), "cognito"),
        "`iss` must be": (sign(good | {"iss": "x"}), "cognito"),
        "`aud`, or else `client_id`, must be": (sign(good | {"aud": "x"}), "cognito"),
        "`sub` is missing": (sign({k: v for k, v in good.items() if k != "sub"}), "cognito"),
        "`sub` is not an identifier": (sign(good | {"sub": "a#b"}), "cognito"),
        "`nbf` or `iat`: it is not valid yet": (sign(good | {"nbf": now + 600}), "cognito"),
        "`kid`: the issuer has no key with this id": (
            jwt.encode(good | {"exp": now + 60}, RSA, algorithm="RS256", headers={"kid": "x"}),
            "cognito",
        ),
        "its signature is not valid here": (auth.mint(STAGE._replace(secret="x" * 32), "a"), "cognito"),
        "`alg` must be HS256": (sign(good), ""),
    }
    for problem, (token, name) in sent.items():
        stage = stage_of(issuer, name) if name else STAGE
        monkeypatch.setattr(settings, "current", lambda stage=stage: stage)
        status, answer, _ = call(made(stage=stage), "GET", "/secrets", authorization=f"Bearer {token}")
        assert (status, answer["code"]) == (401, "Unauthorized"), problem
        assert problem in answer["message"], answer["message"]
        assert not [part for part in token.split(".") if len(part) > 8 and part in answer["message"]]


def test_a_403_names_the_claim_of_admins(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_of(issuer, "cognito")
    monkeypatch.setattr(settings, "current", lambda: stage)
    token = sign(COGNITO_ACCESS)
    status, answer, _ = call(made(stage=stage), "GET", "/secrets", authorization=f"Bearer {token}")
    assert (status, answer["code"]) == (403, "Forbidden")
    assert "its `cognito:groups` has `admin`" in answer["message"]


# -- names in the features -------------------------------------------------------------------------------


def test_comments_and_finders_carry_the_name_of_the_token_at_the_time_of_writing(site: Site) -> None:
    def bearer(sub: str, name: str | None) -> dict[str, str]:
        return {"Authorization": "Bearer " + auth.mint(settings.current(), sub, name=name)}

    hunt = {"title": "Hunt", "paths": ["oak", "elm"], "ranked": True}
    site.call("PUT", "/challenges/hunt", hunt, who="admin")
    body = {"rating": 5, "language": "en", "text": "Good."}
    for sub, name in (("ann", "Ann Lee"), ("ben", None)):
        status, made = site.call("POST", "/products/shoe/comments", body, **bearer(sub, name))
        assert (status, made["author"], made["name"]) == (201, sub, name)
        assert site.call("POST", "/challenges/hunt/paths", {"path": "oak"}, **bearer(sub, name))[0] == 201
    site.settle()
    listed = {item["author"]: item["name"] for item in site.get("/products/shoe/comments")["items"]}
    assert listed == {"ann": "Ann Lee", "ben": None}
    found = {item["player"]: item["name"] for item in site.get("/challenges/hunt/leaders")["items"]}
    assert found == {"ann": "Ann Lee", "ben": None}
    for name in ("Ann Roe", None):  # a token without a name keeps the name of an earlier one
        site.call("POST", "/challenges/hunt/paths", {"path": "elm" if name else "oak"}, **bearer("ann", name))
    site.settle()
    assert {item["player"]: item["name"] for item in site.get("/challenges/hunt/leaders")["items"]} == {
        "ann": "Ann Roe",
        "ben": None,
    }
    [id] = [item["id"] for item in site.get("/products/shoe/comments")["items"] if item["author"] == "ann"]
    status, edited = site.call("PATCH", f"/products/shoe/comments/{id}", {"rating": 4}, **bearer("ann", "X"))
    assert (status, edited["name"]) == (200, "Ann Lee")


def test_scores_and_entries_carry_the_name_of_the_token(site: Site) -> None:
    def submit(sub: str, name: str | None, id: str, value: int, **more: str) -> None:
        bearer = {"Authorization": "Bearer " + auth.mint(settings.current(), sub, name=name)}
        body = {"id": id, "value": value}
        assert site.call("POST", "/leaderboards/race/scores", body, **bearer)[0] == 201

    def names() -> dict[str, str | None]:
        site.settle()
        listed = site.get("/leaderboards/race/entries")["items"]
        for comment in listed:
            assert site.get(f"/leaderboards/race/players/{comment['player']}")["name"] == comment["name"]
        return {comment["player"]: comment["name"] for comment in listed}

    site.call("PUT", "/leaderboards/race", {"title": "Race"}, who="admin")
    submit("ann", "Ann Lee", "1", 3)
    submit("ben", None, "1", 2)
    assert names() == {"ann": "Ann Lee", "ben": None}
    submit("ann", "Ann Roe", "2", 3)
    submit("ann", None, "3", 3)  # a token without a name keeps the name of an earlier one
    assert names() == {"ann": "Ann Roe", "ben": None}
    body = {"id": "4", "value": 1, "player": "ann"}  # an admin's own name is not the player's
    admin = {"Authorization": "Bearer " + auth.mint(settings.current(), "chief", scope="admin", name="Chief")}
    assert site.call("POST", "/leaderboards/race/scores", body, **admin)[0] == 201
    assert names() == {"ann": "Ann Roe", "ben": None}
