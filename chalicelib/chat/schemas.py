"""The payloads of chat frames, and the requests and responses of the reports API."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from chalicelib.api.schemas import Cursor, Instant, Next, Schema, described

MOST_QUOTED = 20  # messages in a report
REASON = 500  # characters
MOST_CONFIRMED = 40  # messages in a receipt: more than a partner may send in ten seconds
MESSAGE_ID = 80  # characters: a ref has at most 64
TOPIC = 1_600  # characters: a URL has at most 1,500 bytes


class Message(Struct):
    """A text for the partner."""

    text: Annotated[str, Meta(min_length=1)]


class Quotation(Struct):
    """A message that the reporter quotes."""

    text: str
    mine: bool = False  # written by the reporter


class ReportFrame(Struct):
    """A report of the partner, or of one that has parted less than a minute ago.

    It has the last messages from the reporter's client, oldest first.
    """

    reason: Annotated[str, Meta(min_length=1, max_length=REASON)]
    messages: Annotated[list[Quotation], Meta(max_length=MOST_QUOTED)] = []


MessageId = Annotated[str, Meta(max_length=MESSAGE_ID)]


class Receipt(Struct):
    """The ids of messages that a client has received."""

    ids: Annotated[list[MessageId], Meta(min_length=1, max_length=MOST_CONFIRMED)]


class Subscription(Struct):
    """A topic to subscribe to or to unsubscribe from."""

    topic: Annotated[str, Meta(min_length=1, max_length=TOPIC)]


# -- reports, over REST --------------------------------------------------------------------------------


class ReportsQuery(Schema):
    """A page of reports, newest first."""

    limit: Annotated[int, Meta(description="The maximum number of reports", ge=1, le=100)] = 20
    cursor: Cursor = None


ReportId = Annotated[
    str,
    Meta(
        description="The report's id",
        pattern=described("^[0-9][0-9A-Za-z:.~-]{0,99}$(?!\\n)", "must be the id of a report"),
        examples=["2026-11-21T10:00:00.000000Z~PAIR~0a1b2c3d4e5f607182"],
    ),
]


class ReportPath(Schema):
    """A report."""

    id: ReportId


class ReportAction(Schema):
    """What an admin does about a report. Both actions remove the report from the list."""

    EXAMPLES: ClassVar = {"dismiss": {"action": "dismiss"}, "ban": {"action": "ban", "hours": 24}}

    action: Annotated[
        Literal["dismiss", "ban"],
        Meta(description="ban: the reported visitor's address and subject cannot connect for some hours"),
    ]
    hours: Annotated[int, Meta(description="The length of a ban", ge=1, le=8760)] = 24


class QuotedMessage(Schema):
    """One of the last messages before a report, as sent by the reporter's client."""

    author: Annotated[Literal["reporter", "reported"], Meta(description="The author of the message")]
    text: Annotated[str, Meta(description="The text of the message", examples=["hello"])]
    proved: Annotated[
        bool,
        Meta(
            description="Whether the author has sent this text to the partner in the last minute or among the"
            " last eight messages"
        ),
    ]


class Report(Schema):
    """A report of a chat partner, with its reason and the last messages. Both visitors are anonymous."""

    id: ReportId
    time: Instant
    lobby: Annotated[str, Meta(description="The lobby of the pair", examples=["main"])]
    reason: Annotated[str, Meta(description="The reason, as written by the reporter", examples=["insults"])]
    reporter: Annotated[
        str, Meta(description="The reporter's id; the same in all sessions with a token", examples=["5f1c"])
    ]
    reported: Annotated[str, Meta(description="The reported visitor's id", examples=["a90b"])]
    messages: list[QuotedMessage]


class Reports(Schema):
    """A page of reports, newest first."""

    EXAMPLES: ClassVar = {
        "one report": {
            "items": [
                {
                    "id": "2026-11-21T10:00:00.000000Z~PAIR~0a1b2c3d4e5f607182",
                    "time": "2026-11-21T10:00:00Z",
                    "lobby": "main",
                    "reason": "insults",
                    "reporter": "5f1c",
                    "reported": "a90b",
                    "messages": [{"author": "reported", "text": "hello", "proved": True}],
                }
            ],
            "cursor": None,
        }
    }

    items: list[Report]
    cursor: Next
