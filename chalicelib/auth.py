"""Who is calling: bearer tokens, checked and minted.

The authorizer says who a caller is, the door (`door.py`) says whether that is enough. So an answer's shape
and wording are ours in every place, and one cached authorizer answer serves every route.
"""

import hmac
import time
from pathlib import Path
from typing import NamedTuple

from chalicelib.settings import Settings

ISSUER = "hubbub"


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
    claims = {"iss": ISSUER, "aud": _audience(settings), "sub": sub, "iat": now, "exp": now + seconds}
    return jwt.encode(claims | ({"scope": scope} if scope else {}), secret(settings), algorithm="HS256")


def context(settings: Settings, authorization: str) -> dict[str, str]:
    """Check an Authorization header; answer what the authorizer hands on to the request.

    Signature, algorithm (pinned), `exp`, `nbf`, `aud` and `iss` must all be right. Never raises: what is
    wrong is said in `problem`, without a part of the token.
    """
    import jwt

    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != "bearer":
        return {"problem": "the Authorization header must be: Bearer, a blank, the token"}
    try:
        claims = jwt.decode(
            token.strip(),
            secret(settings),
            algorithms=["HS256"],
            audience=_audience(settings),
            issuer=ISSUER,
            options={"require": ["exp", "sub", "aud", "iss"]},
        )
    except jwt.InvalidTokenError as error:
        return {"problem": f"the token is not valid ({type(error).__name__})"}
    # The gateway keeps this answer for a while; with `exp` in it the door still sees a token expire.
    return {"sub": claims["sub"], "scope": str(claims.get("scope", "")), "exp": str(claims["exp"])}


def caller(context: dict[str, str] | None) -> Caller:
    """Read what the authorizer handed on."""
    context = context or {}
    if not context.get("sub"):
        return Caller(problem=context.get("problem", "no token"))
    if float(context.get("exp", 0)) <= time.time():
        return Caller(problem="the token is not valid (ExpiredSignatureError)")
    return Caller(context["sub"], "admin" in context.get("scope", "").split(), "")


def _audience(settings: Settings) -> str:
    return f"hubbub-{settings.stage}"
