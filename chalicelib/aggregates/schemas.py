"""Request and response schemas of the aggregates: lag and quarantine, for admins."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from chalicelib.api.schemas import Cursor, Instant, Next, Schema

LONGEST = 2_000  # characters of an image in a response


class Lag(Schema):
    """The time that passes from a write until it is counted in the aggregates."""

    EXAMPLES: ClassVar = {
        "as usual": {"sent": "2026-11-21T10:00:00.120Z", "seconds": 0.31, "counted": True},
        "far behind": {"sent": "2026-11-21T10:00:00.120Z", "seconds": 754.2, "counted": False},
    }

    sent: Annotated[Instant, Meta(description="When the probe that measures the lag was written")]
    seconds: Annotated[
        float,
        Meta(
            description="Seconds from `sent` until the probe was counted, or until now if it is not",
            ge=0,
        ),
    ]
    counted: Annotated[
        bool, Meta(description="Whether the probe is counted. If not, the lag is at least `seconds`")
    ]


class QuarantineQuery(Schema):
    """A query for quarantined images, newest first."""

    limit: Annotated[int, Meta(description="Maximum number of images", ge=1, le=20)] = 10
    cursor: Cursor = None


class QuarantinedImage(Schema):
    """An item image whose contribution failed. It counts for nothing until it is redriven."""

    time: Annotated[Instant | None, Meta(description="When it was quarantined; null if unknown")]
    change: Annotated[
        Literal["written", "left"],
        Meta(description="`written`: the image is to be added. `left`: it is to be subtracted"),
    ]
    reason: Annotated[str, Meta(description="The error", examples=["KeyError: 'rating'"])]
    pk: Annotated[str | None, Meta(description="The item's partition key", examples=["PRODUCT#a"])]
    sk: Annotated[str | None, Meta(description="The item's sort key", examples=["COMMENT#1"])]
    image: Annotated[
        str | None,
        Meta(description="The item in DynamoDB's JSON, up to 2,000 characters; null if it is missing"),
    ]


class Quarantine(Schema):
    """A page of quarantined images, newest first."""

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
