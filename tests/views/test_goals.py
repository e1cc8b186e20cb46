"""Goals: events with a name, which count for the goal and not as views."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as configured
from hypothesis import strategies as st

from tests.support.site import Site

PAGE = "https://example.org/a"
NUMBERS = count()


def goal(name: Any, client: str = "c", *, ago: float = 0, page: str = PAGE) -> dict[str, Any]:
    time = datetime.now(UTC) - timedelta(seconds=ago)
    return {"url": page, "time": time.isoformat(), "clientId": client, "goal": name}


def goals(site: Site, host: str = "example.org") -> dict[str, tuple[int, int]]:
    site.settle()
    items = site.get(f"/views/goals?site={host}&limit=100")["items"]
    return {item["goal"]: (item["events"], item["visitors"]) for item in items}


def test_a_goal_counts_for_itself_and_not_as_a_view(site: Site) -> None:
    for client, ago in (("ann", 1), ("ann", 2), ("bo", 3)):
        assert site.post(goal("signup", client, ago=ago)) == (202, {"accepted": 1, "rejected": []})
    assert site.post(goal("signup", page="https://shop.example/"))[0] == 202
    assert goals(site) == {"signup": (3, 2)}
    assert site.get(f"/views?url={PAGE}") == {"url": PAGE, "views": 0, "visitors": 0}
    assert site.get("/views/site?site=example.org")["visitors"] == 0
    assert site.get(f"/views/events?url={PAGE}", who="admin")["items"] == []


def test_a_goal_that_is_delivered_again_counts_once(site: Site) -> None:
    same, other = goal("a"), goal("b")
    for event in (same, same, other | {"time": same["time"]}, same | {"goal": " a "}):
        site.post(event)
    site.post({key: value for key, value in same.items() if key != "goal"})
    assert goals(site) == {"a": (1, 1), "b": (1, 1)}
    assert site.get(f"/views?url={PAGE}")["views"] == 1


@pytest.mark.parametrize("name", ["", " ", "x" * 65, "a\nb", "\u200b", 7, None, ["a"]])
def test_a_malformed_goal_is_400_and_names_the_field(site: Site, name: Any) -> None:
    status, reply = site.post(goal(name))
    assert (status, reply["code"]) == (400, "BadRequest")
    assert reply["message"].startswith("`goal` ")
    assert site.post({"events": [goal(name)]})[1]["rejected"] == [{"index": 0, "reason": "bad_goal"}]


@configured(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "a#CLIENT#b", "#", "%23", "%2523", "ü b", "CLIENT#a a", "x" * 64]),
            st.sampled_from(["a", "#CLIENT#a", "b#CID#c", "%23"]),
            st.integers(0, 9),
        ),
        max_size=12,
    )
)
def test_goals_agree_with_a_naive_count(site: Site, events: list[tuple[str, str, int]]) -> None:
    host = f"site-{next(NUMBERS)}.example"
    now = datetime.now(UTC)
    for name, client, minute in events:
        time = (now - timedelta(minutes=minute)).isoformat()
        site.post({"url": f"https://{host}/", "time": time, "clientId": client, "goal": name})
    counted = Counter(name for name, _, _ in set(events))
    days = {(name, client, (now - timedelta(minutes=minute)).date()) for name, client, minute in events}
    visitors = Counter(name for name, _, _ in days)
    assert goals(site, quote(host)) == {name: (counted[name], visitors[name]) for name in counted}
