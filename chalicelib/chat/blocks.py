"""Blocks of persons: whom a report keeps away from all connections of a person with a token.

| item | pk | sk | holds |
|---|---|---|---|
| blocks of a person | `BLOCKED#<visitor>` | `BLOCKED` | `blocked`: visitors that reports keep away; `ttl` |

A new connection begins with the blocks of its person. A person may have several connections, and they may be
older than the report.

Invariant: the blocks of both persons are written before the report, and the transaction of a pair is
conditional on them (matching.py). So two persons do not meet after an acknowledged report, whichever of their
connections meet.
"""

from typing import Any

from chalicelib import times
from chalicelib.chat import connections, evidence
from chalicelib.context import Context
from chalicelib.dynamo.items import Key
from chalicelib.dynamo.table import Table


def key(digest: str) -> Key:
    """Build the key of the blocks of a person, by the digest of the subject."""
    return Key(f"BLOCKED#{digest}", "BLOCKED")


def block(context: Context, first: evidence.Member, second: evidence.Member) -> None:
    """Keep two persons apart, if both have tokens.

    Cost: 2 WCU, or nothing.
    """
    if all("subject" in member.digests for member in (first, second)):
        for mine, theirs in ((first, second), (second, first)):
            context.table.update(
                key(mine.who),
                "SET #ttl = :ttl ADD blocked :who",
                condition="attribute_not_exists(blocked) OR size(blocked) < :most",
                names={"#ttl": "ttl"},
                values={
                    ":ttl": times.epoch(context.now + context.settings.chat_reports),
                    ":who": {theirs.who},
                    ":most": connections.BLOCKED,
                },
                idempotent=True,
            )


def build_check(person: str, who: str) -> dict[str, Any]:
    """Build the action that cancels a transaction when a person is kept away from a visitor.

    Cost: 2 WCU per KB of the person's blocks.
    """
    check = {
        "Key": key(person)._asdict(),
        "ConditionExpression": "NOT contains(blocked, :who)",
        "ExpressionAttributeValues": {":who": who},
    }
    return {"ConditionCheck": check}


def read(table: Table, digest: str) -> frozenset[str]:
    """Return the visitors that reports keep away from a person. None for a connection without a token.

    Cost: 1 RCU.
    """
    item = table.get(key(digest), consistent=True) if digest else None
    return frozenset(item["blocked"]) if item else frozenset()
