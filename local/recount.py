"""Recounts all sums at a start, as `python -m ops repair` does, if the stream may have lost changes.

A stream keeps its records for 24 hours. Records that the last run did not deliver, because it was killed or
stopped too early, leave the stream if the next start is later.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from botocore.exceptions import BotoCoreError, ClientError

from chalicelib.dynamo.table import Table, connect
from chalicelib.errors import HubbubError
from local.event_sources import StreamPump
from ops.maintenance import audit
from ops.maintenance.streams import Stream, StreamFollower


def recount_if_needed(pump: StreamPump, stream: Stream, check: Callable[[], None]) -> None:
    """Recount if a pump cannot continue where it stopped. The app must not serve yet.

    `check` is called often and may raise to interrupt. The next start then begins again.

    Cost: none if the pump can continue or the table is empty, otherwise a delivery of all records of the
    stream and two or three reads of the whole table.
    """
    if pump.is_continuous():
        return
    table = connect()
    if table.client.scan(TableName=table.name, Limit=1)["Items"]:
        _say("the stream may have lost changes, as after a stop of 24 hours: recounting all sums")
        pump.saves = False  # until the recount is complete
        try:
            _recount(table, pump, StreamFollower(stream), check)
        except (HubbubError, ClientError, BotoCoreError) as error:
            _say(f"the sums are not recounted ({error}); the next start tries again")
            return
        pump.saves = True
    pump.save()


def _recount(table: Table, pump: StreamPump, follower: StreamFollower, check: Callable[[], None]) -> None:
    import app  # reads the settings, which are exported by now

    while pump.step():
        check()
    found = audit.audit(table, app.CONTRIBUTIONS, follower, 0, lambda _: check())
    audit.repair(table, found, app.DERIVATIONS)
    _say(f"recounted {found.items:,} items: {found.corrected:,} sums corrected")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
