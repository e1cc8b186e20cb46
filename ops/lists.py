"""Renew the lists of chalicelib/views/lists from clones of the repositories that maintain them.

`make lists` clones the repositories and runs this module. A list is renewed by hand, so that its changes are
reviewed: another name for a source divides its history.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import yaml

from chalicelib import urls

FOLDER = Path(__file__).parents[1] / "chalicelib" / "views" / "lists"
NAMED_HOSTS, SPAM = "matomo-org/searchengine-and-social-list", "matomo-org/referrer-spam-list"
ZONES = "eggert/tz"
PARAMETERS = "mpchadwick/tracking-query-params-registry"
# Names of networks with hosts of their own, or without one. All other networks are named by their first host.
NETWORKS = {"Mastodon": "mastodon", "Pixelfed": "pixelfed", "Telegram": "telegram", "Twitter": "x.com"}
NOT_NETWORKS = {"Windows Live Spaces", "Google%2B"}
# Parameters that sites use for pages too.
NOT_TRACKING = {"si", "campid", "customid", "toolid", "rtid"}


def read_sources(folder: Path) -> dict[str, list[str]]:
    """Return the hosts of networks, assistants and search engines by the names of the sources."""
    names: dict[str, str] = {}  # a host that two of them have is the first one's
    networks: dict[str, str] = {}
    for file in ("Socials.yml", "AIAssistants.yml"):
        for name, hosts in yaml.safe_load((folder / file).read_text()).items():
            kept = [host for host in hosts if "/" not in host and name not in NOT_NETWORKS]
            for host in kept:
                networks[name.lower()] = NETWORKS.get(name, kept[0])
                names.setdefault(host, networks[name.lower()])
    engines = yaml.safe_load((folder / "SearchEngines.yml").read_text())
    short = {name: re.sub("[!#]", "", str(name)).lower() for name in engines}
    for name, parts in engines.items():
        # `Google Images` is `google`.
        bases = (other for other in short.values() if short[name].startswith(f"{other} "))
        base = min(bases, default=short[name])
        base = networks.get(base, base)
        for host in (host for part in parts for host in part.get("urls", []) if "/" not in host):
            names.setdefault(host.replace("{}", "*"), base)
    found: dict[str, list[str]] = {}
    for host, name in names.items():
        found.setdefault(name, []).append(host)
    return found


def read_countries(folder: Path) -> dict[str, list[str]]:
    """Return the time zones of each country. A zone of several countries, such as `CET`, has none."""
    rows = [line.split("\t") for line in (folder / "zone.tab").read_text().splitlines() if line[0] != "#"]
    countries = {row[2]: row[0] for row in rows}
    links = [
        line.split()[1:3] for line in (folder / "backward").read_text().splitlines() if line[:4] == "Link"
    ]
    for target, link in links:  # names that browsers still give, such as Asia/Calcutta
        if target in countries and "/" in link:
            countries.setdefault(link, countries[target])
    found: dict[str, list[str]] = {}
    for zone, country in countries.items():
        found.setdefault(country, []).append(zone)
    return found


def read_spam(folder: Path) -> list[str]:
    """Return the hosts of referrer spam, in punycode."""
    return [urls.canonical_host(host) for host in (folder / "spammers.txt").read_text().split()]


def read_parameters(folder: Path) -> list[str]:
    """Return the names of tracking parameters, in lower case."""
    rows = csv.DictReader((folder / "_data" / "params.csv").read_text().splitlines())
    return sorted({row["name"].strip().lower() for row in rows} - NOT_TRACKING)


def format_groups(groups: dict[str, list[str]]) -> list[str]:
    """Return a line for each group: its name and its members."""
    return [f"{name}: {' '.join(members)}" for name, members in sorted(groups.items())]


def write(name: str, origin: str, licence: str, lines: Iterable[str]) -> None:
    """Write a list with its origin."""
    start = f"# github.com/{origin}, {licence}. `make lists` renews it."
    (FOLDER / name).write_text("\n".join([start, *lines, ""]))


def renew(clones: Path) -> None:
    """Write all lists from a folder of clones with the names of their repositories."""
    FOLDER.mkdir(exist_ok=True)
    write("sources.txt", NAMED_HOSTS, "CC0 1.0", format_groups(read_sources(clones / NAMED_HOSTS)))
    write("countries.txt", ZONES, "public domain", format_groups(read_countries(clones / ZONES)))
    write("spam.txt", SPAM, "public domain", sorted(set(read_spam(clones / SPAM))))
    write("tracking.txt", PARAMETERS, "the Unlicense", read_parameters(clones / PARAMETERS))


if __name__ == "__main__":
    renew(Path(sys.argv[1]))
