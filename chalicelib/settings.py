"""What a stage decides: one immutable value, read once from the environment.

`.chalice/config.json` sets these per stage; Chalice puts them into the environment before app.py is
imported, for `chalice deploy`, `chalice local` and `python -m local` alike. docs/settings.md lists them.
"""

import os
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

MOST = 100_000  # of anything that is counted in days, seconds or pages


class Settings(NamedTuple):
    """One stage's settings."""

    stage: str = "local"
    table: str = "hubbub-local"
    stream_arn: str = ""
    queue_name: str = "hubbub-local-views"
    queue_url: str = ""
    endpoint: str = ""
    sites: frozenset[str] = frozenset()
    views_window: timedelta = timedelta(days=7)
    views_ahead: timedelta = timedelta(minutes=5)
    views_series: bool = True
    views_uniques: bool = True
    guard_pages: int = 1
    origins: tuple[str, ...] = ("*",)
    jwks_url: str = ""
    issuer: str = "hubbub"
    audience: str = ""
    chat_length: int = 2_000
    chat_frames: int = 30
    chat_span: timedelta = timedelta(seconds=10)
    chat_widen: timedelta = timedelta(seconds=5)
    chat_again: timedelta = timedelta(seconds=10)
    chat_resume: timedelta = timedelta(seconds=60)
    chat_reports: timedelta = timedelta(days=30)
    topic_listeners: int = 1_000
    secret: str = ""
    secret_file: str = ""
    secret_parameter: str = ""
    socket: str = ""
    capacity: bool = False

    def allows(self, host: str) -> bool:
        """Tell whether views of this host are counted.

        `*.example.org` in the list stands for every host below example.org. An empty list allows every
        site in the local stage and none elsewhere: a deployment that counts for the whole world is a
        mistake more often than a wish (`*` says that it is a wish).
        """
        if not self.sites:
            return self.stage == "local"
        parents = (host[i + 1 :] for i, letter in enumerate(host) if letter == ".")
        return "*" in self.sites or host in self.sites or any(f"*.{p}" in self.sites for p in parents)

    def client_options(self) -> dict[str, Any]:
        """Answer what an SDK client of this stage is made with: nothing of note on AWS itself.

        A local engine gets made-up credentials, so that real ones never reach it.
        """
        if not self.endpoint:
            return {}
        made_up = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
        return {"endpoint_url": self.endpoint, "region_name": "us-east-1", **made_up}


def read(environ: Mapping[str, str]) -> Settings:
    """Read the settings from an environment; a malformed one raises ValueError naming its variable."""
    stage = environ.get("HUBBUB_STAGE", "local")
    return Settings(
        stage=stage,
        table=environ.get("HUBBUB_TABLE") or f"hubbub-{stage}",
        stream_arn=environ.get("HUBBUB_STREAM_ARN", ""),
        queue_name=environ.get("HUBBUB_QUEUE_NAME") or f"hubbub-{stage}-views",
        queue_url=environ.get("HUBBUB_QUEUE_URL", ""),
        endpoint=environ.get("HUBBUB_ENDPOINT", ""),
        sites=frozenset(_site(s) for s in environ.get("HUBBUB_SITES", "").split(",") if s.strip()),
        views_window=timedelta(days=_number(environ, "HUBBUB_VIEWS_WINDOW_DAYS", 7)),
        views_ahead=timedelta(seconds=_number(environ, "HUBBUB_VIEWS_AHEAD_SECONDS", 300)),
        views_series=_switch(environ, "HUBBUB_VIEWS_SERIES"),
        views_uniques=_switch(environ, "HUBBUB_VIEWS_UNIQUES"),
        guard_pages=_number(environ, "HUBBUB_GUARD_PAGES", 1),
        origins=tuple(o.strip() for o in environ.get("HUBBUB_ORIGINS", "").split(",") if o.strip()) or ("*",),
        chat_length=_number(environ, "HUBBUB_CHAT_LENGTH", 2_000),
        chat_frames=_number(environ, "HUBBUB_CHAT_FRAMES", 30, most=40),
        chat_span=timedelta(seconds=_number(environ, "HUBBUB_CHAT_SPAN_SECONDS", 10)),
        chat_widen=timedelta(seconds=_number(environ, "HUBBUB_CHAT_WIDEN_SECONDS", 5)),
        chat_again=timedelta(seconds=_number(environ, "HUBBUB_CHAT_AGAIN_SECONDS", 10)),
        chat_resume=timedelta(seconds=_number(environ, "HUBBUB_CHAT_RESUME_SECONDS", 60, most=240)),
        chat_reports=timedelta(days=_number(environ, "HUBBUB_CHAT_REPORTS_DAYS", 30)),
        topic_listeners=_number(environ, "HUBBUB_TOPIC_LISTENERS", 1_000),
        jwks_url=environ.get("HUBBUB_JWKS_URL", ""),
        issuer=environ.get("HUBBUB_ISSUER") or "hubbub",
        audience=environ.get("HUBBUB_AUDIENCE", ""),
        secret=environ.get("HUBBUB_SECRET", ""),
        secret_file=environ.get("HUBBUB_SECRET_FILE", ""),
        secret_parameter=environ.get("HUBBUB_SECRET_PARAMETER", ""),
        socket=environ.get("HUBBUB_SOCKET", ""),
        capacity=_switch(environ, "HUBBUB_CAPACITY", "off"),
    )


@cache
def current() -> Settings:
    """Answer the settings of this process, read at the first call."""
    return read(os.environ)


def _site(text: str) -> str:
    """Write a host of the list as addresses have it: lower case, in punycode, without a last dot."""
    wildcard, host = ("*.", text.strip()[2:]) if text.strip().startswith("*.") else ("", text.strip())
    try:
        return wildcard + (host if host == "*" else host.lower().rstrip(".").encode("idna").decode())
    except UnicodeError:
        raise ValueError(f"HUBBUB_SITES has {text.strip()[:80]!r}: it must be a host") from None


def _number(environ: Mapping[str, str], name: str, default: int, most: int = MOST) -> int:
    text = environ.get(name) or str(default)
    if not text.isdecimal() or not 1 <= int(text[:20]) <= most:
        raise ValueError(f"{name} is {text[:40]!r}: it must be a whole number from 1 to {most}")
    return int(text)


def _switch(environ: Mapping[str, str], name: str, default: str = "on") -> bool:
    text = environ.get(name) or default
    if text not in ("on", "off"):
        raise ValueError(f"{name} is {text!r}: it must be on or off")
    return text == "on"
