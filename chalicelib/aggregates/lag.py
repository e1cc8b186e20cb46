"""The lag of the aggregates behind the writes, measured by a probe that is sent through the stream.

| item | pk | sk | holds |
|---|---|---|---|
| probe | `PULSE` | `SENT` | `sent_at`, the millisecond in which it was sent |
| applied probe | `PULSE` | `COUNTED` | `sent_at` of the newest probe that the stream has delivered |

The applied probe is an aggregate like any other. It sums one item, so it equals the `sent_at` of that item
as the stream has delivered it last.

Invariant: no probe is sent while an older one is pending. So the lag of a stream that stands still grows
until the stream continues. Probes are sent on request, and every five minutes by the function `probe`, whose
errors are the alarm stream-lag.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from chalicelib import times
from chalicelib.aggregates.schemas import Lag
from chalicelib.aggregates.sums import Amount
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table

ATTEMPTS = 20  # reads of the applied probe, before the lag is returned as a lower bound
PAUSE = 0.1  # seconds between two reads
LATE = 60  # seconds after which a stage's sums are too late; as many reads, one a second


class SumsAreLate(Exception):
    """The stream has not delivered a probe within a minute."""


# -- keys ----------------------------------------------------------------------------------------------

SENT_KEY = Key("PULSE", "SENT")
COUNTED_KEY = Key("PULSE", "COUNTED")


# -- contribution --------------------------------------------------------------------------------------


def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    """Return the time of a probe. It replaces the time of the probe before it."""
    return {(COUNTED_KEY, "sent_at"): item["sent_at"]} if Key(item["pk"], item["sk"]) == SENT_KEY else {}


# -- reads ---------------------------------------------------------------------------------------------


def check_lag(table: Table, now: Callable[[], datetime], pause: Callable[[float], None] = time.sleep) -> None:
    """Send a probe, unless one is pending, and wait until it is applied.

    Cost: 1 WCU, 2 RCU, and 1 RCU for each second of the lag, at most 60. Applying the probe costs 1 WCU.

    Raises:
        SumsAreLate: the probe is older than a minute.
        Busy: the table is throttled.
    """
    lag = measure_lag(table, now, lambda _: pause(1), LATE)
    if not lag.counted or lag.seconds > LATE:
        raise SumsAreLate(f"a change of {lag.sent} was not counted within {LATE} seconds")


def measure_lag(
    table: Table,
    now: Callable[[], datetime],
    pause: Callable[[float], None] = time.sleep,
    attempts: int = ATTEMPTS,
) -> Lag:
    """Send a probe, unless one is pending, and wait for some attempts until it is applied.

    Cost: 1 WCU, 2 RCU, and 1 RCU for each attempt. Applying the probe costs 1 WCU.

    Raises:
        Busy: the table is throttled.
    """
    sent = _find_or_send_probe(table, times.milliseconds(now()))
    for attempt in range(attempts):
        if attempt:
            pause(PAUSE)
        if counted := (table.get(COUNTED_KEY, consistent=True) or {}).get("sent_at") == sent:
            break
    milliseconds = max(0, times.milliseconds(now()) - sent)
    sent_at = datetime.fromtimestamp(sent / 1000, UTC)
    return Lag(sent=times.to_iso(sent_at), seconds=milliseconds / 1000, counted=counted)


def _find_or_send_probe(table: Table, instant: int) -> int:
    """Return the time of the pending probe. If none is pending, send one with this time."""
    items = table.get_many([SENT_KEY, COUNTED_KEY], consistent=True)
    before = items.get(SENT_KEY, {}).get("sent_at", 0)
    if before != items.get(COUNTED_KEY, {}).get("sent_at", 0):
        return int(before)
    instant = max(instant, before + 1)
    is_sent = table.put(
        SENT_KEY._asdict() | {"sent_at": instant},
        condition="attribute_not_exists(pk) OR sent_at = :before",
        values={":before": before},
    )
    if not is_sent:  # another request has sent a probe in the meantime
        return int((table.get(SENT_KEY, consistent=True) or {}).get("sent_at", instant))
    return instant
