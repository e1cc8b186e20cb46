"""Who is calling: bearer tokens, checked and minted.

The authorizer says who a caller is, the door (`door.py`) says whether that is enough. So an answer's shape
and wording are ours in every place, and one cached authorizer answer serves every route.
"""

import hmac
import time
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from chalicelib.schemas import IDENTIFIER
from chalicelib.settings import Settings


class Caller(NamedTuple):
    """Who sent a request; `sub` is empty when nobody valid did, and `problem` says why."""

    sub: str = ""
    admin: bool = False
    problem: str = "no token"


def secret(settings: Settings) -> bytes:
    """Answer the stage's secret: from the environment, from a file, or from SSM, in this order."""
    if settings.secret:
        return settings.secret.encode()
    if settings.secret_file:
        return Path(settings.secret_file).read_bytes().strip()
    import boto3  # only a function that checks tokens pays for this client

    ssm = boto3.client("ssm", **settings.client_options())
    parameter = ssm.get_parameter(Name=settings.secret_parameter, WithDecryption=True)["Parameter"]
    return str(parameter["Value"]).encode()


def derived(settings: Settings, purpose: str) -> bytes:
    """Derive a key for one purpose, so that what one signs the other never accepts."""
    return hmac.digest(secret(settings), purpose.encode(), "sha256")


def mint(settings: Settings, sub: str, *, scope: str = "", seconds: int = 3600) -> str:
    """Sign a token for this stage that says who its bearer is for so long."""
    import jwt

    now = int(time.time())
    claims: dict[str, Any] = {"iss": settings.issuer, "aud": _audience(settings), "sub": sub}
    claims |= {"iat": now, "exp": now + seconds}
    return jwt.encode(claims | ({"scope": scope} if scope else {}), secret(settings), algorithm="HS256")


def context(settings: Settings, authorization: str) -> dict[str, str]:
    """Check an Authorization header; answer what the authorizer hands on to the request.

    HS256 with the stage's secret, or RS256 and ES256 with the keys of a JWKS URL. Signature, algorithm,
    `exp`, `nbf`, `aud` and `iss` must all be right. Never raises: what is wrong is said in `problem`, without
    a part of the token.
    """
    import jwt

    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != "bearer":
        return {"problem": "the Authorization header must be: Bearer, a blank, the token"}
    try:
        key, algorithms = _key(settings, token.strip())
        claims = jwt.decode(
            token.strip(),
            key,
            algorithms=algorithms,
            audience=_audience(settings),
            issuer=settings.issuer,
            options={"require": ["exp", "sub", "aud", "iss"]},
        )
    except jwt.PyJWTError as error:
        return {"problem": f"the token is not valid ({type(error).__name__})"}
    if not IDENTIFIER.search(claims["sub"]):
        return {"problem": "the token's sub is not an identifier"}
    # The gateway keeps this answer for a while; with `exp` in it the door still sees a token expire.
    sub = unicodedata.normalize("NFC", claims["sub"])
    return {"sub": sub, "scope": str(claims.get("scope", "")), "exp": str(claims["exp"])}


def caller(context: dict[str, str] | None) -> Caller:
    """Read what the authorizer handed on."""
    context = context or {}
    if not context.get("sub"):
        return Caller(problem=context.get("problem", "no token"))
    if float(context.get("exp", 0)) <= time.time():
        return Caller(problem="the token is not valid (ExpiredSignatureError)")
    return Caller(context["sub"], "admin" in context.get("scope", "").split(), "")


def _audience(settings: Settings) -> str:
    """Answer whom tokens are for: one stage's are no good at another."""
    return settings.audience or f"hubbub-{settings.stage}"


def _key(settings: Settings, token: str) -> tuple[Any, list[str]]:
    """Answer the key for a token, and the algorithms it may be used with: never both kinds at once.

    So a public key can never be taken for an HMAC secret. Raises jwt.PyJWTError.
    """
    if not settings.jwks_url:
        return secret(settings), ["HS256"]
    return _keys(settings.jwks_url).get_signing_key_from_jwt(token).key, ["RS256", "ES256"]


@cache
def _keys(url: str) -> Any:
    """Answer the issuer's keys: fetched once in five minutes, and at once for a key id that is new.

    But not more often than every ten seconds: a forged key id must not make us ask again and again.
    """
    import jwt

    class Keys(jwt.PyJWKClient):
        asked = float("-inf")

        def fetch_data(self) -> Any:
            if (
                time.monotonic() - self.asked < 10
                and self.jwk_set_cache
                and (kept := self.jwk_set_cache.get())
            ):
                return kept
            self.asked = time.monotonic()
            return super().fetch_data()

    return Keys(url, lifespan=300, timeout=3)
