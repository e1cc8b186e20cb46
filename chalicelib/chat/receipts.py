"""Receipts: a client confirms the messages that it has received, so an `ack` proves the receipt.

A post to a connection whose client is out of reach succeeds for minutes. So a client that connects with
`receipts=1` gets each message with an `id`, and sends the id back. The `ack` of a message between two such
clients comes with the receipt. A client that gets no receipt for some seconds sends `check` to find out
whether its partner still responds.

The module owns no items. An id is the sender's `ref` with a keyed digest, so nothing is stored for a message
on its way, and a client can confirm only what was posted to it.

Cost of a message between two clients with receipts: 2 WCU instead of 1, and four billed messages (message,
post, receipt, ack) instead of three. A client may confirm several messages in one frame.
"""

import hashlib
import hmac
from datetime import datetime, timedelta

from chalicelib import times
from chalicelib.api.auth import derive_key
from chalicelib.chat import evidence
from chalicelib.dynamo.items import Item
from chalicelib.settings import Settings
from chalicelib.telemetry import logs

PURPOSE = "receipts"  # of the key of ids
GRACE = timedelta(seconds=4)  # in which a client must confirm a message


def new_id(settings: Settings, me: Item, ref: str) -> str:
    """Return the id of a message of a connection, or an empty text when it cannot be signed."""
    try:
        return f"{ref}.{_sign(settings, me['pair'], me['who'], ref)}"
    except Exception as error:  # no secret, or SSM is unavailable: the message is acknowledged when posted
        logs.log_error("a message cannot be confirmed", error)
        return ""


def read_ref(settings: Settings, me: Item, id: str) -> str:
    """Return the `ref` of a message that was posted to a connection, or an empty text for a malformed id.

    Raises: OSError without a secret.
    """
    ref, _, digest = id.rpartition(".")
    expected = _sign(settings, me["pair"], me["partner"]["who"], ref)
    return ref if hmac.compare_digest(digest.encode(), expected.encode()) else ""


def _sign(settings: Settings, pair: str, author: str, ref: str) -> str:
    text = f"{pair} {author} {ref}"
    return hashlib.blake2b(text.encode(), digest_size=6, key=derive_key(settings, PURPOSE)).hexdigest()


def is_unresponsive(me: Item, partner: Item, received: datetime) -> bool:
    """Return whether a partner has an unconfirmed message and has sent no frame since.

    A partner whose frames are refused as too fast does respond.
    """
    if "receipts" not in partner or "refused" in partner:
        return False
    sent = [age for age in evidence.ages(me.get("said", ()), received) if age >= GRACE]
    silent = timedelta(milliseconds=times.milliseconds(received) - int(partner.get("last_frame", 0)))
    return bool(sent) and silent >= sent[-1]
