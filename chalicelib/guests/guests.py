"""Sign in guests: each has a random subject and a token of the stage, and can change its name.

A guest has no item. Everything about a guest is in the token, so nothing has to be cleaned up.

Invariant: an address may have 60 guests at once, a school class for example, and one more every ten seconds
(a leaky bucket, api/rates.py).
"""

import secrets

from chalicelib import times
from chalicelib.api import auth, names, rates
from chalicelib.context import Context
from chalicelib.errors import SlowDown
from chalicelib.guests.schemas import Guest, GuestBody

LIMIT = rates.Limit(at_once=60, interval=10_000)


def sign_in(context: Context, body: GuestBody, caller: auth.Caller) -> Guest:
    """Return a new guest with a token, or the guest who calls with a new token under the name of the body.

    Cost: that of `rates.take`.
    Raises: SlowDown when the address has had too many guests.
    """
    bucket = rates.Bucket(rates.address_key(context.settings, "guests", caller.address))
    if wait := rates.take(context, bucket, LIMIT):
        raise SlowDown("Too many guests from this address. Retry after the time in Retry-After.", wait / 1000)
    sub, name = caller.sub if caller.guest else f"guest-{secrets.token_hex(10)}", names.clean(body.name)
    seconds = int(context.settings.token_life.total_seconds())
    token = auth.mint(context.settings, sub, seconds=seconds, name=name, claims={"guest": True})
    expires = times.to_iso((context.now + context.settings.token_life).replace(microsecond=0))
    return Guest(token=token, sub=sub, name=name, expires=expires)
