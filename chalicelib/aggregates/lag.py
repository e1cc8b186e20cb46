"""The pulse: how far the sums are behind what is written, measured by the stream itself.

| item | pk | sk | holds |
|---|---|---|---|
| pulse | `PULSE` | `SENT` | `sent_at`, the millisecond in which it was sent |
| echo | `PULSE` | `COUNTED` | `sent_at` of the newest pulse that is in the sums |

The echo is a sum like any other, over one item: what it adds up to is that item's `sent_at`, as the stream
has told it last. A pulse is sent when somebody asks, and not while an older one is still on its way: so a
stream that stands still is seen to be as far behind as it is. Nobody who does not ask pays for it.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from chalicelib import times
from chalicelib.aggregates.schemas import Lag
from chalicelib.aggregates.sums import Amount
from chalicelib.dynamo.items import Item, Key
from chalicelib.dynamo.table import Table

LOOKS = 20  # at the echo, before the answer is "at least so long"
PAUSE = 0.1  # seconds between two

# -- keys ----------------------------------------------------------------------------------------------

SENT = Key("PULSE", "SENT")
COUNTED = Key("PULSE", "COUNTED")


# -- contribution --------------------------------------------------------------------------------------


def contribution(item: Item) -> dict[tuple[Key, str], Amount]:
    """Say what a pulse adds to its echo: its own time, in the place of the one before it."""
    return {(COUNTED, "sent_at"): item["sent_at"]} if Key(item["pk"], item["sk"]) == SENT else {}


# -- read ----------------------------------------------------------------------------------------------


def lag(table: Table, now: Callable[[], datetime], pause: Callable[[float], None] = time.sleep) -> Lag:
    """Send a pulse, unless one is on its way, and wait for its echo, up to two seconds.

    Costs 1 WCU, 2 RCU, and 1 RCU a look (20 at most); the stream's part is 4 WCU. Raises Busy.
    """
    sent = _sent(table, times.milliseconds(now()))
    for look in range(LOOKS):
        if look:
            pause(PAUSE)
        if counted := (table.get(COUNTED, consistent=True) or {}).get("sent_at") == sent:
            break
    waited = max(0, times.milliseconds(now()) - sent)
    when = datetime.fromtimestamp(sent / 1000, UTC)
    return Lag(sent=times.to_iso(when), seconds=waited / 1000, counted=counted)


def _sent(table: Table, instant: int) -> int:
    """Answer the pulse that is on its way, or send one at this instant."""
    found = table.get_many([SENT, COUNTED], consistent=True)
    before = found.get(SENT, {}).get("sent_at", 0)
    if before != found.get(COUNTED, {}).get("sent_at", 0):
        return int(before)
    instant = max(instant, before + 1)
    written = table.put(
        SENT._asdict() | {"sent_at": instant},
        condition="attribute_not_exists(pk) OR sent_at = :before",
        values={":before": before},
    )
    if not written:  # another one has sent a pulse meanwhile
        return int((table.get(SENT, consistent=True) or {}).get("sent_at", instant))
    return instant
