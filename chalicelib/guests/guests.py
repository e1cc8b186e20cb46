"""Sign in guests: each has a random subject and a token of the stage, and can change its name.

| item | pk | sk | holds |
|---|---|---|---|
| bucket of an address | `GUESTS#<digest>` | `BUCKET` | `drained`: when it is empty (ms); `ttl` |

A guest has no item. Everything about a guest is in the token, so nothing has to be cleaned up.

Invariant: an address may have 60 guests at once, a school class for example, and one more every ten seconds
(a leaky bucket). An address is stored as a digest with the stage's key, and the item expires after some
minutes.
"""

import secrets
from datetime import datetime

from chalicelib import times
from chalicelib.api import auth, names, rates
from chalicelib.api.router import Response
from chalicelib.dynamo.items import Key
from chalicelib.dynamo.table import Table
from chalicelib.errors import SlowDown
from chalicelib.guests.schemas import Guest, GuestBody
from chalicelib.settings import Settings

LIMIT = rates.Limit(at_once=60, interval=10_000)


def bucket_key(settings: Settings, address: str) -> Key:
    """Build the key of an address's bucket. Raises OSError without a secret."""
    return Key(f"GUESTS#{rates.digest(settings, address)}", "BUCKET")


def sign_in(
    table: Table, body: GuestBody, caller: auth.Caller, address: str, settings: Settings, now: datetime
) -> Response[Guest]:
    """Return a new guest with a token, or the guest who calls with a new token under the name of the body.

    Cost: 1 WCU; 2 WCU when the bucket is not empty.
    Raises: SlowDown when the address has had too many guests.
    """
    if wait := rates.take(table, bucket_key(settings, address), LIMIT, now):
        raise SlowDown("Too many guests from this address. Retry after the time in Retry-After.", wait / 1000)
    sub, name = caller.sub if caller.guest else f"guest-{secrets.token_hex(10)}", names.clean(body.name)
    token = auth.mint(settings, sub, seconds=int(settings.token_life.total_seconds()), name=name, guest=True)
    expires = times.to_iso((now + settings.token_life).replace(microsecond=0))
    return Response(Guest(token=token, sub=sub, name=name, expires=expires))
