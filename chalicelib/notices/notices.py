"""Notices: changes of the table that the team is told about, each published once.

| item | pk | sk | holds |
|---|---|---|---|
| published notice | `NOTICE#<digest>` | `NOTICE` | `ttl` |
| pending notice | `NOTICE#<digest>` | `NOTICE` | `pending`: the kind; the fields of the notice |
| | | | `since`, `tried`, `ttl` |

A feature turns a changed item into a notice (`Feature.notice`). The stream consumer `push` publishes it,
apart from `apply`, so that SNS can neither delay nor fail a count. The digest identifies the change.

A notice that SNS could not accept is stored as pending. This write is itself a stream record, so the stream
is the timer of the next attempt, for a day. A notice that SNS refuses is logged and not sent again.

Invariant: a notice is published at least once, unless SNS refuses it or is unavailable for a day. It is
published again only if SNS's response is lost, or if the process ends before it has written the item.
"""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from chalicelib import feature as features
from chalicelib import times
from chalicelib.context import Context
from chalicelib.dynamo.items import Item, Key, read_key, unpack
from chalicelib.feature import Feature, Notice
from chalicelib.notices import sns
from chalicelib.telemetry import logs, metrics

KEPT = timedelta(days=2)  # longer than the 24 hours in which a record can be delivered again
PATIENCE = timedelta(days=1)  # of attempts to publish


def notice_key(kind: str, source: str) -> Key:
    """Build the key of the notice of a change."""
    name = f"{kind}\n{source}".encode()
    return Key(f"NOTICE#{hashlib.blake2b(name, digest_size=16).hexdigest()}", "NOTICE")


def publish(context: Context, enabled: Iterable[Feature], records: Iterable[Any]) -> None:
    """Publish the notices of a batch of stream records, and those that the records name as pending.

    Idempotent. A malformed record has no notice. A stage without the setting publishes nothing.

    Cost: nothing without a notice. 1 RCU and 1 WCU for each, and one request to SNS for each ten.
    Raises: Busy before anything is published, and when a notice can be neither published nor stored.
    """
    if not context.settings.notices:
        return
    new, pending = find(tuple(enabled), list(records), context.now)
    if not (new or pending):
        return
    stored = context.table.get_many([*new, *pending], consistent=True)
    waiting = {key: notice for key, notice in new.items() if key not in stored}
    waiting |= {key: read(stored[key]) for key in pending if "pending" in stored.get(key, {})}
    sent = sns.send(context.settings, [(id_of(key), notice) for key, notice in waiting.items()])
    metrics.count(NoticesFailed=len(sent.refused))
    done, left = list[Item](), list[Item]()
    for key, notice in waiting.items():
        since = stored.get(key, {}).get("since", times.epoch(context.now))
        mark: Item = key._asdict() | {"ttl": times.epoch(context.now + KEPT)}
        if id_of(key) in sent.accepted | sent.refused:
            done.append(mark)
        elif since > times.epoch(context.now - PATIENCE):
            left.append(
                mark | _build_pending(notice) | {"since": since, "tried": times.milliseconds(context.now)}
            )
        else:
            metrics.count(NoticesFailed=1)
            done.append(mark)
    context.table.batch_put(left)
    try:
        context.table.batch_put(done)
    except Exception as error:  # they are published, and a failed batch would publish them again
        logs.log_error("published notices are not marked", error)


def find(
    enabled: tuple[Feature, ...], records: list[Any], now: datetime
) -> tuple[dict[Key, Notice], list[Key]]:
    """Return the notices of some records by their keys, and the keys of pending notices. Never raise."""
    new, pending = dict[Key, Notice](), list[Key]()
    for record in records:
        try:
            body = record["dynamodb"]
            if (key := read_key(body)) is None or "NewImage" not in body:
                continue
            if key.pk.startswith("NOTICE#"):
                pending += [key] if "pending" in body["NewImage"] else []
                continue
            change = (key, unpack(body.get("OldImage", {})), unpack(body["NewImage"]))
            for notice in features.find_notices(enabled, change, now):
                new[notice_key(notice.kind, notice.source)] = notice
        except Exception as error:
            logs.log_error("a record has no notice", error)
    return new, pending


def _build_pending(notice: Notice) -> Item:
    fields = notice._asdict() | {"data": dict(notice.data), "pending": notice.kind}
    del fields["kind"]
    return fields


def read(item: Mapping[str, Any]) -> Notice:
    """Return the notice of a pending item."""
    return Notice(item["pending"], *(item[name] for name in Notice._fields[1:]))


def id_of(key: Key) -> str:
    """Return the id of a notice, by which a subscriber recognizes a second delivery."""
    return key.pk.removeprefix("NOTICE#")
