"""Authentication: bearer tokens are verified and minted here.

A stage accepts its own tokens, which are signed with its secret (HS256). With HUBBUB_JWKS_URL it also accepts
the tokens of one issuer (RS256, ES256). The algorithm of a token decides which rules apply. Operators and
guests have tokens of the stage. docs/deployment.md shows the tokens of several providers.

The authorizer lets every request through with the result of `authenticate`. The router decides whether the
caller may use the route. So every error has the same form, and one result of the authorizer, which API
Gateway caches, serves every route.
"""

import hmac
import json
import logging
import time
import unicodedata
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from chalicelib.api import names
from chalicelib.api.schemas import IDENTIFIER, IDENTIFIER_RULE
from chalicelib.settings import Settings
from chalicelib.telemetry import logs

MIN_SECRET = 32  # bytes: RFC 7518, 3.2
SECRET_SECONDS = 300  # for which a process keeps the secret of SSM
ROTATION = timedelta(hours=24)  # for which the previous secret stays valid
LEEWAY = 60  # seconds that an issuer's clock may be ahead of ours
ALGORITHMS = ("RS256", "ES256")  # accepted for the keys of a JWKS URL
FRESH = 300  # seconds for which fetched keys are used without another request
STALE = 3600  # seconds for which they are used while the issuer does not respond
MAX_REQUESTS, REQUEST_SPAN = 3, 30  # at most 3 requests to the issuer in 30 seconds
MAX_JWKS = 1_000_000  # bytes of an issuer's response
FETCH_SECONDS = 5  # for an issuer's response; no part of it may take more than 3
NO_CLAIMS: Mapping[str, str | bool] = MappingProxyType({})
OWN_ISSUER = "hubbub"  # the `iss` of the stage's own tokens beside those of a JWKS URL
# The errors of PyJWT, and the claim or the part of the token that causes each.
MALFORMED = "it is malformed"
PROBLEMS = {
    "ExpiredSignatureError": "`exp`: it has expired",
    "ImmatureSignatureError": "`nbf` or `iat`: it is not valid yet",
    "InvalidIssuedAtError": "`iat` must be a number",
    "InvalidSubjectError": "`sub` must be a text",
    "InvalidSignatureError": "its signature is not valid here",
    "InvalidJTIError": "`jti` must be a text",
}
LINK = "the token is that of a link, which only reads the numbers of its site"


class Caller(NamedTuple):
    """The sender of a request. `sub` is empty for an anonymous caller, and `problem` states the reason.

    `name` is the display name in the token. A `guest` has a token of `POST /guests`. `site` is the site whose
    numbers a token with the scope `statistics` may read. A token of a link to them makes no user, so `sub` is
    empty. A token with the scope `scores` belongs to a server that submits for players. A `verified` caller's
    token has this claim, and comments show it. `address` is the client's (viewer.py).
    """

    sub: str = ""
    admin: bool = False
    problem: str = ""
    name: str | None = None
    guest: bool = False
    scores: bool = False
    site: str = ""
    address: str = ""
    verified: bool = False

    @property
    def is_trusted(self) -> bool:
        """Return whether the caller has a token that is not a guest's. Anyone can be a guest."""
        return bool(self.sub) and not self.guest


class Issuer(NamedTuple):
    """An issuer's tokens: the claims that they must have, and the claims that make admins and names."""

    name: str
    audiences: tuple[str, ...]
    algorithms: tuple[str, ...]
    admin_claim: str
    admin_value: str
    name_claim: str

    def accepts_audience(self, claims: Mapping[str, Any]) -> bool:
        """Return whether a token is for this stage. A token without `aud` has `client_id`, as of Cognito."""
        found = claims["aud"] if "aud" in claims else claims.get("client_id")
        return any(audience in self.audiences for audience in (found if isinstance(found, list) else [found]))

    def is_admin(self, claims: Mapping[str, Any]) -> bool:
        """Return whether a token belongs to an admin.

        The value is a word of a text, a part of a list, or `true`. A `scope` is a text (RFC 8693, 4.2), so a
        list there counts as no scope.
        """
        found = claims.get(self.admin_claim)
        if isinstance(found, str):
            return self.admin_value in (found, *found.split(" "))
        if isinstance(found, list):
            return self.admin_claim != "scope" and self.admin_value in found
        return found is True and self.admin_value == "true"


def _scopes(claims: Mapping[str, Any]) -> list[str]:
    found = claims.get("scope")
    return found.split(" ") if isinstance(found, str) else []


def own_issuer(settings: Settings) -> Issuer:
    """Return the rules for the stage's own tokens.

    With a JWKS URL the settings describe the tokens of its issuer, and the stage's own have the defaults.
    """
    if settings.jwks_url:
        settings = settings._replace(
            issuer=OWN_ISSUER, audience="", admin_claim="scope", admin_value="admin", name_claim="name"
        )
    return _issuer(settings, ("HS256",))


def jwks_issuer(settings: Settings) -> Issuer:
    """Return the rules for the tokens that are signed with a key of the JWKS URL."""
    return _issuer(settings, ALGORITHMS)


def _issuer(settings: Settings, algorithms: tuple[str, ...]) -> Issuer:
    # A token of one stage is invalid at another.
    audiences = [audience.strip() for audience in settings.audience.split(",") if audience.strip()]
    return Issuer(
        settings.issuer,
        tuple(audiences) or (f"hubbub-{settings.stage}",),
        algorithms,
        settings.admin_claim,
        settings.admin_value,
        settings.name_claim,
    )


def read_secret(settings: Settings) -> bytes:
    """Return the stage's secret, which signs. Raises OSError as `read_secrets` does."""
    return read_secrets(settings)[0]


def read_secrets(settings: Settings) -> tuple[bytes, ...]:
    """Return the stage's secret from the environment, from a file, or from SSM, in this order.

    A secret in SSM is followed by the one before it for a day, so that its tokens stay valid.

    Raises: OSError when there is no secret, or when it is too short.
    """
    if settings.secret:
        found: tuple[bytes, ...] = (settings.secret.encode(),)
    elif settings.secret_file:
        found = (Path(settings.secret_file).read_bytes().strip(),)
    elif settings.secret_parameter:
        found = read_parameter(settings, int(time.time() / SECRET_SECONDS))
    else:
        raise OSError("none of HUBBUB_SECRET, HUBBUB_SECRET_FILE and HUBBUB_SECRET_PARAMETER is set")
    if len(found[0]) < MIN_SECRET:
        raise OSError(f"the secret has {len(found[0])} bytes, fewer than {MIN_SECRET}")
    return found


@lru_cache(maxsize=4)
def read_parameter(settings: Settings, span: int) -> tuple[bytes, ...]:
    """Read the secret from SSM, and the previous one for a day. Each process reads once per span of time.

    A version is read as `name:version` (AWS Systems Manager User Guide, parameter versions).
    """
    import boto3  # imported here, because only functions that verify tokens need this client
    from botocore.config import Config

    config = Config(connect_timeout=2, read_timeout=3, retries={"total_max_attempts": 2})
    ssm = boto3.session.Session().client("ssm", config=config, **settings.client_options())
    log = logging.getLogger("botocore")
    level = log.level
    log.setLevel(logging.INFO)  # at DEBUG, botocore logs the response with the secret
    try:
        name = settings.secret_parameter
        found: Any = [ssm.get_parameter(Name=name, WithDecryption=True)["Parameter"]]
        if found[0]["Version"] > 1 and datetime.now(UTC) - found[0]["LastModifiedDate"] < ROTATION:
            with suppress(ssm.exceptions.ParameterVersionNotFound, ssm.exceptions.ParameterNotFound):
                before = f"{name}:{found[0]['Version'] - 1}"
                found.append(ssm.get_parameter(Name=before, WithDecryption=True)["Parameter"])
    finally:
        log.setLevel(level)
    return tuple(str(parameter["Value"]).strip().encode() for parameter in found)


def derive_key(settings: Settings, purpose: str) -> bytes:
    """Derive a key for one purpose, so that a signature for one purpose is invalid for every other."""
    return derive_keys(settings, purpose)[0]


def derive_keys(settings: Settings, purpose: str) -> tuple[bytes, ...]:
    """Derive the signing key for one purpose, then the key of the previous secret while that is valid."""
    return tuple(hmac.digest(secret, purpose.encode(), "sha256") for secret in read_secrets(settings))


def decode(token: str, keys: Sequence[Any], **options: Any) -> dict[str, Any]:
    """Decode a token that is signed with any of the keys. Raises PyJWT's error for the last key."""
    import jwt

    for key in keys[:-1]:
        with suppress(jwt.InvalidSignatureError):
            return dict(jwt.decode(token, key, **options))
    return dict(jwt.decode(token, keys[-1], **options))


def mint(
    settings: Settings,
    sub: str,
    *,
    scope: str = "",
    seconds: int = 3600,
    name: str | None = None,
    claims: Mapping[str, str | bool] = NO_CLAIMS,
) -> str:
    """Sign a token of this stage for a subject, with other claims such as `guest` and `site`.

    The scope `admin` becomes the stage's claim of admins.

    Raises: ValueError for a lifetime that the stage does not accept.
    """
    import jwt

    if seconds > settings.token_life.total_seconds():
        hours = settings.token_life // timedelta(hours=1)
        raise ValueError(f"a token of this stage lives for up to {hours} hours (HUBBUB_TOKEN_HOURS)")
    now, issuer = int(time.time()), own_issuer(settings)
    signed: dict[str, Any] = {"iss": issuer.name, "aud": issuer.audiences[0], "sub": sub, **claims}
    signed |= {"iat": now, "exp": now + seconds} | ({"scope": scope} if scope else {})
    signed |= {issuer.admin_claim: issuer.admin_value} if scope == "admin" else {}
    signed |= {issuer.name_claim: name} if name else {}
    return jwt.encode(signed, read_secret(settings), algorithm="HS256")


def authenticate(settings: Settings, authorization: str) -> dict[str, str]:
    """Verify an Authorization header; return the context that the authorizer passes to the request.

    Signature, algorithm, `exp`, `nbf`, `aud` and `iss` must all be valid; `nbf` and `iat` may be a minute
    ahead. The lifetime is at most HUBBUB_TOKEN_HOURS.

    Never raises. An invalid token gives a context with `problem`, and so does that of a link. The problem
    names the claim and the accepted value, and never quotes the token.
    """
    import jwt

    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        return {"problem": "the Authorization header must be `Bearer <token>`"}
    token = token.strip()
    try:
        header = jwt.get_unverified_header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        is_own = not settings.jwks_url or algorithm == "HS256"
    except Exception:  # a malicious token can raise anything in the parser, such as RecursionError
        return _invalid(MALFORMED)
    issuer = own_issuer(settings) if is_own else jwks_issuer(settings)
    if algorithm not in issuer.algorithms:
        return _invalid(f"`alg` must be {' or '.join(issuer.algorithms)}")
    try:
        keys = read_secrets(settings) if is_own else [_key_set(settings.jwks_url).find(kid, algorithm)]
    except Exception as error:  # a file, SSM or the issuer fails; the client is not the cause
        logs.log_error("tokens cannot be checked", error, reason=str(error)[:300])
        return {"problem": "this stage cannot check tokens now; please retry later"}
    if not keys[0]:
        return _invalid("`kid`: the issuer has no key with this id")
    try:
        claims = decode(
            token,
            keys,
            algorithms=[algorithm],  # the key's only one, so it is never used with another
            issuer=issuer.name,
            leeway=LEEWAY,
            options={"require": ["exp", "sub", "iss"], "verify_aud": False},
        )
        sub, exp = unicodedata.normalize("NFC", claims["sub"]), int(claims["exp"])
        lifetime = exp - int(claims.get("iat", time.time()))
    except Exception as error:
        return _invalid(_find_problem(error, issuer))
    if exp <= time.time():  # an issuer's clock may be ahead, which is no reason for a longer life
        return _invalid(PROBLEMS["ExpiredSignatureError"])
    if not issuer.accepts_audience(claims):
        accepted = " or ".join(f"`{audience}`" for audience in issuer.audiences)
        return _invalid(f"`aud`, or else `client_id`, must be {accepted}")
    if not IDENTIFIER.search(sub):
        return _invalid(f"`sub` is not an identifier: it {IDENTIFIER_RULE}")
    if lifetime > settings.token_life.total_seconds() + LEEWAY:
        hours = settings.token_life // timedelta(hours=1)
        return _invalid(f"`exp`: its lifetime must be at most {hours} hours")
    site = claims.get("site") if "statistics" in _scopes(claims) else None
    reads = {"site": site} if isinstance(site, str) else {}
    if is_own and claims.get("link") is True:
        return {"problem": LINK, **reads}
    # API Gateway caches this context. With `exp` in it, the router still notices that a token has expired.
    scopes = ["admin"] * issuer.is_admin(claims) + ["scores"] * ("scores" in _scopes(claims))
    context = {"sub": sub, "scope": " ".join(scopes), "exp": str(exp), **reads}
    context |= {"name": name} if (name := names.clean(claims.get(issuer.name_claim))) else {}
    context |= {"verified": "true"} if claims.get("verified") is True else {}
    return context | ({"guest": "true"} if is_own and claims.get("guest") is True else {})


def _find_problem(error: Exception, issuer: Issuer) -> str:
    """Return the problem of a token that PyJWT refuses."""
    match type(error).__name__:
        case "InvalidIssuerError":
            return f"`iss` must be `{issuer.name}`"
        case "MissingRequiredClaimError":
            return f"`{getattr(error, 'claim', 'a claim')}` is missing"
        case kind:
            return PROBLEMS.get(kind, MALFORMED)


def _invalid(problem: str) -> dict[str, str]:
    return {"problem": f"the token is not valid ({problem})"}


def principal_id(context: dict[str, str]) -> str:
    """Return the authorizer's principal: a constant, because it must be ASCII and a sub is any text.

    Nothing reads the principal. The context carries the sub itself.
    """
    return "user" if context.get("sub") else "nobody"


def read_context(context: dict[str, str] | None) -> Caller:
    """Return the caller that an authorizer's context describes."""
    context = context or {}
    if not context.get("sub"):
        return Caller(problem=context.get("problem", ""), site=context.get("site", ""))
    if float(context.get("exp", 0)) <= time.time():
        return Caller(problem=_invalid(PROBLEMS["ExpiredSignatureError"])["problem"])
    return Caller(
        context["sub"],
        admin="admin" in context.get("scope", "").split(" "),
        problem="",
        name=context.get("name"),
        guest="guest" in context,
        scores="scores" in context.get("scope", "").split(" "),
        site=context.get("site", ""),
        verified="verified" in context,
    )


@cache
def _key_set(url: str) -> "KeySet":
    return KeySet(url)


class Key(NamedTuple):
    """A public key of an issuer. Its id is optional (RFC 7517, 4.5); it has one algorithm."""

    id: str | None
    algorithm: str
    key: Any


class KeySet:
    """An issuer's public keys, cached for five minutes; an unknown key id fetches them at once.

    A sole key needs no id in the token or in the set. A token names one of several keys (OpenID Connect Core,
    10.1). There are at most three requests in 30 seconds, so forged key ids cannot cause more. While the
    issuer does not respond, its last keys stay valid for an hour. The clock goes on while the process is
    frozen.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.time) -> None:
        self._url = url
        self._clock = clock
        self._lock = Lock()
        self._found: list[Key] = []
        self._fetched_at = float("-inf")
        self._requests: deque[float] = deque(maxlen=MAX_REQUESTS)

    def find(self, kid: str | None, algorithm: str) -> Any:
        """Return the key for a token, or None. Raises OSError when no keys can be read."""
        with self._lock:
            now = self._clock()
            key = self._match(kid, algorithm)
            if (key is None or now - self._fetched_at > FRESH) and self._may_request(now):
                self._refresh(now)
                key = self._match(kid, algorithm)
            if now - self._fetched_at > STALE:
                raise OSError("the keys of HUBBUB_JWKS_URL cannot be read")
            return key

    def _match(self, kid: str | None, algorithm: str) -> Any:
        is_sole = len(self._found) == 1
        for key in self._found:
            if key.algorithm == algorithm and (
                (kid is not None and kid == key.id) or (is_sole and None in (kid, key.id))
            ):
                return key.key
        return None

    def _may_request(self, now: float) -> bool:
        return len(self._requests) < MAX_REQUESTS or now - self._requests[0] > REQUEST_SPAN

    def _refresh(self, now: float) -> None:
        self._requests.append(now)
        try:
            self._found, self._fetched_at = _fetch(self._url), now
        except Exception as error:
            logs.log_error("the keys of HUBBUB_JWKS_URL cannot be read", error, reason=str(error)[:300])


def _fetch(url: str) -> list[Key]:
    """Fetch the keys that can sign with an accepted algorithm and are long enough (RFC 7518, 3.3).

    Raises: OSError, ValueError, ImportError.
    """
    import jwt
    from jwt.algorithms import has_crypto

    if not has_crypto:
        raise ImportError(
            "HUBBUB_JWKS_URL needs the package cryptography: deploy this stage with make deploy or make "
            "package, which add it"
        )
    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme, parts.hostname) != ("http", "127.0.0.1"):
        raise ValueError("HUBBUB_JWKS_URL must begin with https://")
    return [
        Key(key.key_id or None, key.algorithm_name, key.key)
        for key in jwt.PyJWKSet.from_dict(json.loads(_read(url))).keys
        if key.algorithm_name in ALGORITHMS
        and key.public_key_use in ("sig", None)
        and "verify" in key._jwk_data.get("key_ops", ["verify"])
        and not key.Algorithm.check_key_length(key.key)
    ]


def _read(url: str) -> bytes:
    """Read a URL without following redirects, which could lead to another host or away from https.

    Raises: OSError, also for a response that is too long or takes too long.
    """
    from urllib.request import HTTPRedirectHandler, build_opener

    class Refused(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            raise OSError("HUBBUB_JWKS_URL must not redirect: set the address that it leads to")

    begin, body = time.monotonic(), b""
    with build_opener(Refused).open(url, timeout=3) as response:
        while part := response.read1(65_536):
            body += part
            if len(body) > MAX_JWKS or time.monotonic() - begin > FETCH_SECONDS:
                raise OSError(f"more than {MAX_JWKS} bytes or {FETCH_SECONDS} s")
    return body
