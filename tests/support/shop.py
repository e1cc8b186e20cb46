"""The app as the clients of a shop see it, whose products have comments."""

from __future__ import annotations

from typing import Any

from chalicelib import settings
from ops.maintenance import erase
from ops.maintenance.pace import Pace
from tests.support.site import Site

P = "/products/garment-767"


class Shop(Site):
    """The app as the clients of a shop see it, whose products have comments."""

    def write(
        self, who: str, rating: int = 5, language: str = "en", text: str = "Fits.", product: str = P
    ) -> Any:
        """Write a comment, and return it."""
        body = {"rating": rating, "language": language, "text": text}
        status, answer = self.call("POST", f"{product}/comments", body, who)
        assert status == 201, answer
        return answer

    def ids(self, query: str = "", product: str = P) -> list[str]:
        """Return the ids of a list of comments."""
        return [item["id"] for item in self.get(f"{product}/comments?{query}")["items"]]

    def erase(self, name: str) -> erase.Erased:
        """Erase all data of a person, while the test applies the stream."""
        return erase.erase(
            self.table,
            erase.parse_person(settings.current(), name, ()),
            Pace(1),
            settle=0,
            report=lambda _: None,
            pause=lambda _: self.settle(),
        )
