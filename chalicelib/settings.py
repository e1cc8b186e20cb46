"""The settings of a stage: one immutable value, read once from the environment.

`.chalice/config.json` sets them per stage. Chalice puts them into the environment before app.py is
imported, for `chalice deploy`, `chalice local` and `python -m local` alike. docs/deployment.md lists them.
"""

import os
import re
import unicodedata
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

BEACON = re.compile(r"(/[A-Za-z0-9_-]{1,40}){1,3}(\.js)?")
TOPIC = re.compile(r"arn:aws(-[a-z]+)*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}")
MAX_LEADERS = 100  # products that one call reads
MAX_NUMBER = 100_000  # of any setting in days, seconds or pages
QUEUE_DAYS = 15  # added to a view's lifetime, because it may wait in the queue and its dead letters
PAGE_MARGIN = QUEUE_DAYS + 8  # days: TTL may be some days late, and events expire before their sums


class SignIn(NamedTuple):
    """The identity provider with which the admin page signs in: its addresses, and the page's client id."""

    authorize: str
    token: str
    client: str


class Settings(NamedTuple):
    """One stage's settings."""

    stage: str = "local"
    table: str = "hubbub-local"
    stream_arn: str = ""
    queue_name: str = "hubbub-local-views"
    queue_url: str = ""
    endpoint: str = ""
    sites: frozenset[str] = frozenset()
    pages: frozenset[tuple[str, str]] = frozenset()
    views_window: timedelta = timedelta(days=7)
    views_rate: int = 100
    cache_seconds: int = 5
    page_days: int = 400
    beacon: str = ""
    origins: tuple[str, ...] = ("*",)
    jwks_url: str = ""
    issuer: str = "hubbub"
    audience: str = ""
    admin_claim: str = "scope"
    admin_value: str = "admin"
    name_claim: str = "name"
    guests: bool = False
    guest_writes: int = 30
    sign_in: SignIn | None = None
    token_life: timedelta = timedelta(days=30)
    leaders_min: int = 1
    leaders: frozenset[str] = frozenset()
    comments_mode: str = "reviews"
    comments_approve: bool = False
    comments_block: tuple[str, ...] = ()
    chat_length: int = 2_000
    chat_widen: timedelta = timedelta(seconds=5)
    chat_again: timedelta = timedelta(seconds=10)
    chat_reports: timedelta = timedelta(days=30)
    topic_listeners: int = 1_000
    secret: str = ""
    secret_file: str = ""
    secret_parameter: str = ""
    socket: str = ""
    is_full: bool = False  # HUBBUB_SIZE
    queue: bool = False
    notices: str = ""  # `on` for the topic of the stack, or the ARN of another one
    notice_topic: str = ""  # the ARN to which notices are published
    features: frozenset[str] = frozenset()  # of HUBBUB_FEATURES, which is empty for all
    capacity: bool = False

    def has(self, feature: str) -> bool:
        """Return whether the stage has a feature that HUBBUB_FEATURES can name."""
        return not self.features or feature in self.features

    def allows(self, host: str, page: str = "") -> bool:
        """Return whether views of a page (its path and query) are counted; without a page, any of the host.

        `*.example.org` in the list matches every host below example.org. An entry with a path matches only
        that page of the host, or with `*` at its end every page with that prefix. `*` matches every site. An
        empty list matches every site in the local stage, and no site elsewhere.
        """
        if not self.sites and not self.pages:
            return self.stage == "local"
        names = {"*", host} | {f"*{host[i:]}" for i, letter in enumerate(host) if letter == "."}
        if names & self.sites:
            return True
        paths = [path for name, path in self.pages if name in names]
        return any(
            not page or page == path or (path[-1] == "*" and page.startswith(path[:-1])) for path in paths
        )

    def named_sites(self) -> list[str]:
        """Return the hosts that the lists of sites and pages name, without patterns."""
        hosts = self.sites | {host for host, _ in self.pages}
        return sorted(host for host in hosts if not host.startswith("*"))

    def client_options(self) -> dict[str, Any]:
        """Return the options of an SDK client of this stage, which are empty on AWS itself.

        A local engine gets dummy credentials, so that real credentials never reach it.
        """
        if not self.endpoint:
            return {}
        dummy = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
        return {"endpoint_url": self.endpoint, "region_name": "us-east-1", **dummy}


def read(environ: Mapping[str, str]) -> Settings:
    """Read the settings from an environment.

    Raises: ValueError that names the variable of a malformed setting.
    """
    stage = environ.get("HUBBUB_STAGE", "local")
    window = _number(environ, "HUBBUB_VIEWS_WINDOW_DAYS", 7)
    page_days = _number(environ, "HUBBUB_PAGE_DAYS", max(400, window + PAGE_MARGIN), least=0)
    if 0 < page_days < window + PAGE_MARGIN:
        least = f"{window + PAGE_MARGIN}, {PAGE_MARGIN} more than HUBBUB_VIEWS_WINDOW_DAYS"
        raise ValueError(f"HUBBUB_PAGE_DAYS is {page_days}: it must be 0 or at least {least}")
    return Settings(
        stage=stage,
        table=environ.get("HUBBUB_TABLE") or f"hubbub-{stage}",
        stream_arn=environ.get("HUBBUB_STREAM_ARN", ""),
        queue_name=environ.get("HUBBUB_QUEUE_NAME") or f"hubbub-{stage}-views",
        queue_url=environ.get("HUBBUB_QUEUE_URL", ""),
        endpoint=_endpoint(environ),
        sites=frozenset(_site(s) for s in _sites(environ) if "/" not in s),
        pages=frozenset((_site(s.partition("/")[0]), _page(s)) for s in _sites(environ) if "/" in s),
        views_window=timedelta(days=window),
        views_rate=_number(environ, "HUBBUB_VIEWS_RATE", 100, least=0),
        cache_seconds=_number(environ, "HUBBUB_CACHE_SECONDS", 1 if stage == "local" else 5, 60, 0),
        page_days=page_days,
        origins=tuple(o.strip() for o in environ.get("HUBBUB_ORIGINS", "").split(",") if o.strip()) or ("*",),
        comments_mode=_choice(environ, "HUBBUB_COMMENTS_MODE", ("reviews", "discussion"), "reviews"),
        comments_approve=_choice(environ, "HUBBUB_COMMENTS", ("open", "approve"), "open") == "approve",
        comments_block=tuple(
            entry.strip() for entry in environ.get("HUBBUB_COMMENTS_BLOCK", "").split(",") if entry.strip()
        ),
        chat_length=_number(environ, "HUBBUB_CHAT_LENGTH", 2_000),
        chat_widen=timedelta(seconds=_number(environ, "HUBBUB_CHAT_WIDEN_SECONDS", 5)),
        chat_again=timedelta(seconds=_number(environ, "HUBBUB_CHAT_AGAIN_SECONDS", 10)),
        chat_reports=timedelta(days=_number(environ, "HUBBUB_CHAT_REPORTS_DAYS", 30)),
        topic_listeners=_number(environ, "HUBBUB_TOPIC_LISTENERS", 1_000),
        jwks_url=environ.get("HUBBUB_JWKS_URL", ""),
        issuer=environ.get("HUBBUB_ISSUER") or "hubbub",
        audience=environ.get("HUBBUB_AUDIENCE", ""),
        admin_claim=environ.get("HUBBUB_ADMIN_CLAIM") or "scope",
        admin_value=environ.get("HUBBUB_ADMIN_VALUE") or "admin",
        name_claim=environ.get("HUBBUB_NAME_CLAIM") or "name",
        guests=_switch(environ, "HUBBUB_GUESTS", "on" if stage == "local" else "off"),
        guest_writes=_number(environ, "HUBBUB_GUEST_WRITES", 30),
        sign_in=_sign_in(environ),
        token_life=timedelta(hours=_number(environ, "HUBBUB_TOKEN_HOURS", 720)),
        leaders_min=_number(environ, "HUBBUB_LEADERS_MIN", 1 if stage == "local" else 3),
        leaders=_leaders(environ),
        secret=environ.get("HUBBUB_SECRET", ""),
        secret_file=environ.get("HUBBUB_SECRET_FILE", ""),
        secret_parameter=environ.get("HUBBUB_SECRET_PARAMETER", ""),
        socket=environ.get("HUBBUB_SOCKET", ""),
        is_full=_choice(environ, "HUBBUB_SIZE", ("small", "full"), "small") == "full",
        queue=_switch(environ, "HUBBUB_QUEUE", "off"),
        notices=_notices(environ),
        notice_topic=_notices(environ).removeprefix("on") or environ.get("HUBBUB_NOTICE_TOPIC", ""),
        features=_features(environ),
        capacity=_switch(environ, "HUBBUB_CAPACITY", "off"),
        beacon=_beacon(environ),
    )


@cache
def current() -> Settings:
    """Return the settings of this process, which are read at the first call."""
    return read(os.environ)


def _site(text: str) -> str:
    """Return a host of the list in its canonical form, which may begin with `*.` or be `*`."""
    from chalicelib import urls  # imported here, because only a stage with a list needs it

    host = text.strip()
    if host == "*":
        return host
    wildcard = "*." if host.startswith("*.") else ""
    try:
        return wildcard + urls.canonical_host(host.removeprefix("*."))
    except ValueError as error:
        raise ValueError(f"HUBBUB_SITES has {host[:80]!r}: it {error}") from None


def _leaders(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the products of the list as they are stored: in NFC, without surrounding white space."""
    named = [part.strip() for part in environ.get("HUBBUB_LEADERS", "").split(",") if part.strip()]
    if len(named) > MAX_LEADERS:
        raise ValueError(f"HUBBUB_LEADERS has {len(named)} products: it must have at most {MAX_LEADERS}")
    return frozenset(unicodedata.normalize("NFC", product) for product in named)


def _sites(environ: Mapping[str, str]) -> list[str]:
    return [part.strip() for part in environ.get("HUBBUB_SITES", "").split(",") if part.strip()]


def _page(text: str) -> str:
    """Return the path and query of an entry in their canonical form, with the `*` at its end."""
    from chalicelib import urls

    path = text.partition("/")[2]
    beginning = path.removesuffix("*")
    try:
        normal = "/" + urls.canonical(f"https://any.example/{beginning}").split("/", 3)[3]
    except ValueError as error:
        raise ValueError(f"HUBBUB_SITES has {text[:80]!r}: {error}") from None
    if beginning == path:
        return normal
    return f"{normal}?*" if beginning.endswith("?") else f"{normal}*"


def _number(
    environ: Mapping[str, str], name: str, default: int, most: int = MAX_NUMBER, least: int = 1
) -> int:
    text = environ.get(name) or str(default)
    if not text.isdecimal() or not least <= int(text[:20]) <= most:
        raise ValueError(f"{name} is {text[:40]!r}: it must be a whole number from {least} to {most}")
    return int(text)


def _endpoint(environ: Mapping[str, str]) -> str:
    text = environ.get("HUBBUB_ENDPOINT", "")
    port = re.fullmatch(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9a-f:]+\])(?::(\d{1,5}))?/?", text)
    if text and (not port or int(port[1] or 80) > 65_535):
        raise ValueError(f"HUBBUB_ENDPOINT is {text[:80]!r}: it must be like http://127.0.0.1:8002")
    return text


def _beacon(environ: Mapping[str, str]) -> str:
    """Return the beacon's second path, or an empty text."""
    path = environ.get("HUBBUB_BEACON", "").strip()
    if path and not BEACON.fullmatch(path):
        raise ValueError(
            f"HUBBUB_BEACON is {path[:80]!r}: it must be a path of up to three names, such as /js/hello.js"
        )
    return path


def _notices(environ: Mapping[str, str]) -> str:
    """Return `on`, the ARN of a topic, or an empty text."""
    text = environ.get("HUBBUB_NOTICES", "").strip()
    if text not in ("", "on", "off") and not TOPIC.fullmatch(text):
        raise ValueError(
            f"HUBBUB_NOTICES is {text[:80]!r}: it must be on, off or the ARN of a standard topic of SNS"
        )
    return text.removeprefix("off")


def _features(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the names in HUBBUB_FEATURES. `feature.select` refuses a name that no feature has."""
    return frozenset(part.strip() for part in environ.get("HUBBUB_FEATURES", "").split(",") if part.strip())


def _sign_in(environ: Mapping[str, str]) -> SignIn | None:
    names = ("HUBBUB_AUTHORIZE_URL", "HUBBUB_TOKEN_URL", "HUBBUB_CLIENT_ID")
    found = [environ.get(name, "").strip() for name in names]
    if not any(found):
        return None
    for name, text in zip(names, found, strict=True):
        if not text:
            raise ValueError(f"{name} is not set: {', '.join(names)} belong together")
        if name.endswith("_URL") and not text.startswith(("https://", "http://127.0.0.1:")):
            raise ValueError(f"{name} is {text[:80]!r}: it must begin with https://")
    return SignIn(*found)


def _choice(environ: Mapping[str, str], name: str, values: tuple[str, str], default: str) -> str:
    text = environ.get(name) or default
    if text not in values:
        raise ValueError(f"{name} is {text!r}: it must be {' or '.join(values)}")
    return text


def _switch(environ: Mapping[str, str], name: str, default: str) -> bool:
    return _choice(environ, name, ("on", "off"), default) == "on"
