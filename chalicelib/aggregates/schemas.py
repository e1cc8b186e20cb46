"""What enters and what leaves: how the stream is doing, for admins."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from chalicelib.api.schemas import Cursor, Instant, Next, Schema

LONGEST = 2_000  # characters of an image that are shown


class Lag(Schema):
    """How far the sums are behind what is written."""

    EXAMPLES: ClassVar = {
        "as usual": {"sent": "2026-11-21T10:00:00.120Z", "seconds": 0.31, "counted": True},
        "far behind": {"sent": "2026-11-21T10:00:00.120Z", "seconds": 754.2, "counted": False},
    }

    sent: Annotated[Instant, Meta(description="When the pulse was written that this is measured by")]
    seconds: Annotated[
        float,
        Meta(description="From then until it was seen in the sums, or until now where it is not", ge=0),
    ]
    counted: Annotated[bool, Meta(description="Whether it is in the sums; if not, the lag is at least this")]


class QuarantineQuery(Schema):
    """What is in quarantine, newest first."""

    limit: Annotated[int, Meta(description="At most so many images", ge=1, le=20)] = 10
    cursor: Cursor = None


class QuarantinedImage(Schema):
    """An image of an item that no contribution could be computed of: it counts for nothing until it can."""

    time: Annotated[Instant | None, Meta(description="When it came here; null where nobody can tell")]
    change: Annotated[
        Literal["written", "left"],
        Meta(description="Whether the item became this (to be added), or ceased to be (to be taken away)"),
    ]
    reason: Annotated[str, Meta(description="What is wrong with it", examples=["KeyError: 'rating'"])]
    pk: Annotated[str | None, Meta(description="The item's partition key", examples=["PRODUCT#a"])]
    sk: Annotated[str | None, Meta(description="The item's sort key", examples=["COMMENT#1"])]
    image: Annotated[
        str | None,
        Meta(
            description="The item, in DynamoDB's JSON, up to 2,000 characters; null: it was too large to keep"
        ),
    ]


class Quarantine(Schema):
    """A page of what is in quarantine, newest first."""

    EXAMPLES: ClassVar = {
        "one image": {
            "items": [
                {
                    "time": "2026-11-21T10:00:00Z",
                    "change": "written",
                    "reason": "KeyError: 'rating'",
                    "pk": "PRODUCT#a",
                    "sk": "COMMENT#1",
                    "image": '{"pk": {"S": "PRODUCT#a"}, "sk": {"S": "COMMENT#1"}}',
                }
            ],
            "cursor": None,
        }
    }

    items: list[QuarantinedImage]
    cursor: Next
