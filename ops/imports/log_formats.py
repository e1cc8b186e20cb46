"""The formats of access logs. The beginning of a line shows its format.

| format | a line begins with | has |
|---|---|---|
| Apache's common | the client's address | no referrer and no User-Agent |
| Apache's combined, nginx' default | the client's address | |
| Apache's vhost_combined | `host:port`, or a host and the client's address | the host |
| Caddy's JSON | `{` | the host |
| CloudFront's standard log (W3C) | the columns of the last `#Fields:`, with tabs | the host |
| Application Load Balancer's | `http`, `https`, `h2` and a time | the host, and no referrer |

Further fields at the end of a line are ignored. A line that has none of these formats is malformed.
"""

import ipaddress
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple
from urllib.parse import unquote

from chalicelib import times

QUOTED = r'"((?:[^"\\]|\\.)*)"'
APACHE = re.compile(
    rf"(\S+) \S+ .+? \[([^\]]{{20,40}})\] {QUOTED} (\d{{3}}) \S+(?: {QUOTED} {QUOTED}(?: .*)?)?"
)
VIRTUAL_HOST = re.compile(r"(\[[^\]]*\]|[^:\s]+):(\d{1,5})")
ALB = re.compile(
    rf"(https?|h2) (\d{{4}}-\d\d-\S+) \S+ (\S+) \S+ \S+ \S+ \S+ (\d{{3}}|-) \S+ \S+ \S+ "
    rf"{QUOTED} {QUOTED}(?: .*)?"
)
PROTOCOL = re.compile(r" HTTP/\d(\.\d)?$")
TIME = re.compile(r"(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)", re.ASCII)
MONTHS = {name: i for i, name in enumerate(re.findall("...", "JanFebMarAprMayJunJulAugSepOctNovDec"), 1)}
WALL = re.compile(r"(\d{4})/(\d\d)/(\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)", re.ASCII)  # a format of Caddy, in UTC
DIRECTIVE = re.compile(r"#([A-Z][A-Za-z-]*):(.*)")
SCHEMES = {"80": "http", "443": "https", "h2": "https"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Line(NamedTuple):
    """One request. `host` and `scheme` are empty, and `referrer` and `agent` None, if the log has none.

    `target` is a path with its query, or an address.
    """

    address: str
    time: datetime
    method: str
    target: str
    status: str
    host: str = ""
    scheme: str = ""
    referrer: str | None = None
    agent: str | None = None


class Parser:
    """A parser of lines. It remembers the columns of a W3C log, which a line of the log names."""

    def __init__(self) -> None:
        self._columns: list[str] = []

    def parse(self, text: str) -> Line | None:
        """Return the request of a line.

        Raises:
            ValueError: the line is malformed.
        """
        if directive := DIRECTIVE.fullmatch(text):
            if directive[1] == "Fields":
                self._columns = directive[2].split()
            return None
        for parse in FORMATS.values():
            if line := parse(text, self._columns):
                return line
        raise ValueError("in no known format")


def parse_apache(text: str, _columns: list[str]) -> Line | None:
    """Parse a line in Apache's common or combined format, with or without a virtual host before it.

    Raises: ValueError.
    """
    host, port, (first, _, rest) = "", "", text.partition(" ")
    if named := VIRTUAL_HOST.fullmatch(first):
        host, port, text = named[1], named[2], rest
    elif _is_address(rest.partition(" ")[0]):
        host, text = first, rest
    found = APACHE.fullmatch(text)
    if not found:
        return None
    address, time, request, status, referrer, agent = found.groups()
    method, _, target = request.partition(" ")
    return Line(
        address,
        parse_time(time),
        method,
        PROTOCOL.sub("", target),
        status,
        host.removeprefix("-"),
        SCHEMES.get(port, ""),
        referrer,
        agent,
    )


def parse_alb(text: str, _columns: list[str]) -> Line | None:
    """Parse a line of an Application Load Balancer.

    Raises: ValueError.
    """
    found = ALB.fullmatch(text)
    if not found:
        return None
    scheme, time, client, status, request, agent = found.groups()
    method, _, target = request.partition(" ")
    address = client.rpartition(":")[0].strip("[]")
    host = re.match(r"https?://([^/?#]*)", target)
    return Line(
        address,
        times.parse(time),
        method,
        PROTOCOL.sub("", target),
        status,
        host[1] if host else "",
        SCHEMES.get(scheme, scheme),
        None,
        agent,
    )


def parse_caddy(text: str, _columns: list[str]) -> Line | None:
    """Parse a line of Caddy's JSON.

    Raises: ValueError.
    """
    if not text.startswith("{"):
        return None
    try:
        entry = json.loads(text)
        request: dict[str, Any] = entry["request"]
        headers = {name.lower(): values[0] for name, values in request.get("headers", {}).items() if values}
        address = request.get("client_ip") or request.get("remote_ip")
        texts = [address or request["remote_addr"].rpartition(":")[0].strip("[]")]
        texts += [request["method"], request["uri"], request["host"], *headers.values()]
        if not all(isinstance(value, str) for value in texts):
            raise ValueError("not the log of requests")
        return Line(
            texts[0],
            _parse_caddy_time(entry["ts"]),
            request["method"],
            request["uri"],
            str(entry["status"]),
            request["host"],
            "https" if request.get("tls") else "",
            headers.get("referer", ""),
            headers.get("user-agent", "") if "headers" in request else None,
        )
    except (KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise ValueError("not the log of requests") from None


def parse_w3c(text: str, columns: list[str]) -> Line | None:
    """Parse a line of a W3C log with these columns, as CloudFront writes it.

    CloudFront encodes some characters of a User-Agent and of a path, the sign % included.

    Raises: ValueError.
    """
    if not columns or "\t" not in text:
        return None
    values = text.split("\t")
    if len(values) != len(columns):
        raise ValueError("another number of columns")
    fields = {name: "" if value == "-" else value for name, value in zip(columns, values, strict=True)}
    try:
        time = times.parse(f"{fields['date']}T{fields['time']}Z")
        path = re.sub("%25(?=[0-9A-Fa-f]{2})", "%", fields["cs-uri-stem"])
        query = re.sub("%25(?=[0-9A-Fa-f]{2})", "%", fields.get("cs-uri-query", ""))
        agent = fields.get("cs(User-Agent)")
        if agent is not None:
            agent = unquote(agent)
            agent = agent if " " in agent else unquote(agent)  # older logs encode it twice
        return Line(
            fields["c-ip"],
            time,
            fields["cs-method"],
            path + (f"?{query}" if query else ""),
            fields["sc-status"],
            fields.get("x-host-header") or fields.get("cs(Host)", ""),
            fields.get("cs-protocol", ""),
            fields.get("cs(Referer)"),
            agent,
        )
    except KeyError as error:
        raise ValueError(f"no column {error}") from None


FORMATS: dict[str, Callable[[str, list[str]], Line | None]] = {
    "Caddy's JSON": parse_caddy,
    "CloudFront's": parse_w3c,
    "ALB's": parse_alb,
    "Apache's or nginx'": parse_apache,
}
"""The parser of each format, by its name in messages. It returns None for a line of another format."""


def parse_time(text: str) -> datetime:
    """Parse `17/May/2015:10:05:03 +0000` in any locale. Raises ValueError."""
    match = TIME.fullmatch(text)
    if not match:
        raise ValueError("not a time")
    day, year, hour, minute, second, *offset = (int(match[part]) for part in (1, 3, 4, 5, 6, 8, 9))
    east = timedelta(hours=offset[0], minutes=offset[1]) * (-1 if match[7] == "-" else 1)
    try:
        local = datetime(year, MONTHS[match[2]], day, hour, minute, second, tzinfo=timezone(east))
        return local.astimezone(UTC)
    except (KeyError, OverflowError):
        raise ValueError("not a time") from None


def _parse_caddy_time(value: Any) -> datetime:
    """Parse a time in one of the formats of Caddy. Raises ValueError, TypeError, OverflowError."""
    if isinstance(value, str):
        if TIME.fullmatch(value):
            return parse_time(value)
        wall = WALL.fullmatch(value)
        return times.parse(f"{wall[1]}-{wall[2]}-{wall[3]}T{wall[4]}Z" if wall else value)
    if isinstance(value, bool):
        raise TypeError("not a time")
    unit = 1e9 if value > 1e16 else 1e3 if value > 1e11 else 1  # nanoseconds, milliseconds, seconds
    return EPOCH + timedelta(seconds=value / unit)


def _is_address(text: str) -> bool:
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False
