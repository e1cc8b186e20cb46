"""Who is calling: bearer tokens, checked and minted.

The authorizer says who a caller is, the door (`door.py`) says whether that is enough. So an answer's shape
and wording are ours in every place, and one cached authorizer answer serves every route.
"""

import hmac
import json
import logging
import time
import unicodedata
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from chalicelib.api.schemas import IDENTIFIER, IDENTIFIER_RULE
from chalicelib.settings import Settings
from chalicelib.telemetry import logs

SHORTEST = 32  # bytes of a secret: RFC 7518, 3.2
LEEWAY = 5  # seconds that an issuer's clock may be ahead of ours
ALGORITHMS = {"RS256", "ES256"}  # of a JWKS URL's keys
FRESH, STALE = 300, 3600  # seconds that its keys are used unasked, and at most when it does not answer
ASKS, SPAN = 3, 30  # how often it is asked in so many seconds, whatever key ids come
ANSWER = 1_000_000  # bytes of its answer that are read


class Caller(NamedTuple):
    """Who sent a request; `sub` is empty when nobody valid did, and `problem` says why."""

    sub: str = ""
    admin: bool = False
    problem: str = "no token"


def secret(settings: Settings) -> bytes:
    """Answer the stage's secret: from the environment, from a file, or from SSM, in this order.

    Raises OSError when there is none, or one too short to sign with.
    """
    if settings.secret:
        found = settings.secret.encode()
    elif settings.secret_file:
        found = Path(settings.secret_file).read_bytes().strip()
    elif settings.secret_parameter:
        found = parameter(settings)
    else:
        raise OSError("none of HUBBUB_SECRET, HUBBUB_SECRET_FILE and HUBBUB_SECRET_PARAMETER is set")
    if len(found) < SHORTEST:
        raise OSError(f"the secret has {len(found)} bytes, fewer than {SHORTEST}")
    return found


@cache
def parameter(settings: Settings) -> bytes:
    """Read the secret from SSM, once in a process."""
    import boto3  # only a function that checks tokens pays for this client
    from botocore.config import Config

    config = Config(connect_timeout=2, read_timeout=3, retries={"total_max_attempts": 2})
    ssm = boto3.session.Session().client("ssm", config=config, **settings.client_options())
    log = logging.getLogger("botocore")
    level = log.level
    log.setLevel(logging.INFO)  # at DEBUG it writes down the answer
    try:
        answer = ssm.get_parameter(Name=settings.secret_parameter, WithDecryption=True)
    finally:
        log.setLevel(level)
    return str(answer["Parameter"]["Value"]).strip().encode()


def derived(settings: Settings, purpose: str) -> bytes:
    """Derive a key for one purpose, so that what one signs the other never accepts."""
    return hmac.digest(secret(settings), purpose.encode(), "sha256")


def mint(settings: Settings, sub: str, *, scope: str = "", seconds: int = 3600) -> str:
    """Sign a token for this stage that says who its bearer is for so long.

    Raises ValueError for a life that the stage would not accept.
    """
    import jwt

    if seconds > settings.token_life.total_seconds():
        hours = settings.token_life // timedelta(hours=1)
        raise ValueError(f"a token of this stage lives for up to {hours} hours (HUBBUB_TOKEN_HOURS)")
    now = int(time.time())
    claims: dict[str, Any] = {"iss": settings.issuer, "aud": _audience(settings), "sub": sub}
    claims |= {"iat": now, "exp": now + seconds}
    return jwt.encode(claims | ({"scope": scope} if scope else {}), secret(settings), algorithm="HS256")


def context(settings: Settings, authorization: str) -> dict[str, str]:
    """Check an Authorization header; answer what the authorizer hands on to the request.

    HS256 with the stage's secret, or RS256 and ES256 with the keys of a JWKS URL. Signature, algorithm,
    `exp`, `nbf`, `aud` and `iss` must all be right; `nbf` and `iat` may be 5 seconds ahead. A token whose
    life is longer than HUBBUB_TOKEN_HOURS is refused. A `scope` that is not a string is no scope. Never
    raises: what is wrong is said in `problem`, without a part of the token.
    """
    import jwt

    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        return {"problem": "the Authorization header must be: Bearer, a blank, the token"}
    token = token.strip()
    try:
        header = jwt.get_unverified_header(token)
    except Exception as error:  # whatever a token does to its parser (a deep nest: RecursionError)
        return _invalid(error)
    try:
        found = _key(settings, header.get("kid"))
    except Exception as error:  # a file, SSM or the issuer: nothing that the client sent
        logs.failure("tokens cannot be checked", error, reason=str(error)[:300])
        return {"problem": "this stage cannot check tokens now, whatever they are; try again later"}
    if not found:
        return {"problem": "the token is not valid (its key id is none of the issuer's)"}
    try:
        key, algorithm = found
        claims = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=_audience(settings),
            issuer=settings.issuer,
            leeway=LEEWAY,
            options={"require": ["exp", "sub", "aud", "iss"]},
        )
        sub, exp = unicodedata.normalize("NFC", claims["sub"]), int(claims["exp"])
        life = exp - int(claims.get("iat", time.time()))
    except Exception as error:
        return _invalid(error)
    if not IDENTIFIER.search(sub):
        return {"problem": f"the token's sub is not an identifier: it {IDENTIFIER_RULE}"}
    if life > settings.token_life.total_seconds() + LEEWAY:
        hours = settings.token_life // timedelta(hours=1)
        return {"problem": f"the token's life is too long: this stage takes up to {hours} hours"}
    scope = claims.get("scope")
    # The gateway keeps this answer for a while; with `exp` in it the door still sees a token expire.
    return {"sub": sub, "scope": scope if isinstance(scope, str) else "", "exp": str(exp)}


def principal(context: dict[str, str]) -> str:
    """Return the authorizer's principal: a constant, for API Gateway takes ASCII there and a sub is any text.

    Nothing reads it; the sub itself goes on in the context.
    """
    return "user" if context.get("sub") else "nobody"


def _invalid(error: Exception) -> dict[str, str]:
    return {"problem": f"the token is not valid ({type(error).__name__})"}


def caller(context: dict[str, str] | None) -> Caller:
    """Read what the authorizer handed on."""
    context = context or {}
    if not context.get("sub"):
        return Caller(problem=context.get("problem", "no token"))
    if float(context.get("exp", 0)) <= time.time():
        return Caller(problem="the token is not valid (ExpiredSignatureError)")
    return Caller(context["sub"], "admin" in context.get("scope", "").split(" "), "")


def _audience(settings: Settings) -> str:
    """Answer whom tokens are for: one stage's are no good at another."""
    return settings.audience or f"hubbub-{settings.stage}"


def _key(settings: Settings, kid: str | None) -> tuple[Any, str] | None:
    """Answer the key for a token and the one algorithm that it is for, so that no key is taken for another's.

    None when the issuer has no such key. Raises OSError and others when the keys cannot be read.
    """
    if not settings.jwks_url:
        return secret(settings), "HS256"
    return _keys(settings.jwks_url).find(kid)


@cache
def _keys(url: str) -> "Keys":
    return Keys(url)


class Keys:
    """An issuer's public keys, by key id: fetched once in five minutes, and at once for a key id that is new.

    But only three times in 30 seconds: forged key ids must not make us ask again and again. While the issuer
    does not answer, its last keys stay good for an hour.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._clock = clock
        self._lock = Lock()
        self._found: dict[str, tuple[Any, str]] = {}
        self._read = float("-inf")
        self._asked: deque[float] = deque(maxlen=ASKS)

    def find(self, kid: str | None) -> tuple[Any, str] | None:
        """Answer the key of an id and its algorithm. Raises OSError when there are no keys to look into."""
        if kid is None:
            return None
        with self._lock:
            now = self._clock()
            if (kid not in self._found or now - self._read > FRESH) and self._may_ask(now):
                self._ask(now)
            if now - self._read > STALE:
                raise OSError("the keys of HUBBUB_JWKS_URL cannot be read")
            return self._found.get(kid)

    def _may_ask(self, now: float) -> bool:
        return len(self._asked) < ASKS or now - self._asked[0] > SPAN

    def _ask(self, now: float) -> None:
        self._asked.append(now)
        try:
            self._found, self._read = _fetch(self._url), now
        except Exception as error:
            logs.failure("the keys of HUBBUB_JWKS_URL cannot be read", error, reason=str(error)[:300])


def _fetch(url: str) -> dict[str, tuple[Any, str]]:
    """Read the keys that sign with an algorithm of ours. Raises OSError, ValueError, ImportError."""
    from urllib.request import urlopen

    import jwt
    from jwt.algorithms import has_crypto

    if not has_crypto:
        raise ImportError(
            "HUBBUB_JWKS_URL needs cryptography: add it to requirements.txt, then python -m ops lock"
        )
    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme, parts.hostname) != ("http", "127.0.0.1"):
        raise ValueError("HUBBUB_JWKS_URL must begin with https://")
    with urlopen(url, timeout=3) as answer:  # noqa: S310 - the scheme is https
        keys = jwt.PyJWKSet.from_dict(json.loads(answer.read(ANSWER))).keys
    return {
        key.key_id: (key.key, key.algorithm_name)
        for key in keys
        if key.key_id and key.algorithm_name in ALGORITHMS and key.public_key_use in ("sig", None)
    }
