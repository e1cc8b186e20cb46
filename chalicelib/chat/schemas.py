"""What enters and what leaves: chat."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from chalicelib.api.schemas import Cursor, Instant, Next, Schema

QUOTED_AT_MOST = 20
REASON = 500  # characters
TOPIC = 1_600  # characters: an address is 1,500 bytes at most


class Message(Struct):
    """A text for the partner."""

    text: Annotated[str, Meta(min_length=1)]


class Quotation(Struct):
    """A message as its reader quotes it in a report."""

    text: str
    mine: bool = False  # written by the one who reports


class ReportFrame(Struct):
    """A report of the partner, with the last messages as the reporter's client kept them, oldest first."""

    reason: Annotated[str, Meta(min_length=1, max_length=REASON)]
    messages: Annotated[list[Quotation], Meta(max_length=QUOTED_AT_MOST)] = []


class Subscription(Struct):
    """A topic to listen to, or to listen to no more."""

    topic: Annotated[str, Meta(min_length=1, max_length=TOPIC)]


# -- reports, over REST --------------------------------------------------------------------------------


class ReportsQuery(Schema):
    """Reports, newest first."""

    limit: Annotated[int, Meta(description="At most so many reports", ge=1, le=100)] = 20
    cursor: Cursor = None


class QuotedMessage(Schema):
    """One of the last messages before a report, as the reporter's client sent it along."""

    author: Annotated[Literal["reporter", "reported"], Meta(description="Who wrote it")]
    text: Annotated[str, Meta(description="What it said", examples=["hello"])]
    proved: Annotated[
        bool,
        Meta(description="Whether its author did send these words to this partner, among the last eight"),
    ]


class Report(Schema):
    """A report: why, and the last messages. It names nobody: a chat is anonymous."""

    time: Instant
    lobby: Annotated[str, Meta(description="The lobby in which the two met", examples=["main"])]
    reason: Annotated[str, Meta(description="Why, in the reporter's words", examples=["insults"])]
    reporter: Annotated[
        str, Meta(description="A name for who reports, good for this stay alone", examples=["5f1c"])
    ]
    reported: Annotated[str, Meta(description="The same for who is reported", examples=["a90b"])]
    messages: list[QuotedMessage]


class Reports(Schema):
    """A page of reports, newest first."""

    EXAMPLES: ClassVar = {
        "one report": {
            "items": [
                {
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
