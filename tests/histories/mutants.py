"""Faults planted in the product on purpose, one at a time, to show that the invariants catch them.

A mutant rewrites the requests and replies of the handlers on the network, or wraps functions. It knows keys
of the table and public names, and no source text. One that never takes effect raises Unfit.

The faults of the protocol of tags are in tests/aggregates/test_model.py, which enumerates its interleavings.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, NamedTuple
from unittest import mock

import app
from chalicelib.aggregates import engine as engine_of_sums
from chalicelib.api.auth import Caller
from chalicelib.challenges import finders
from chalicelib.chat import bans, connections, handlers, matchmaker, receipts
from chalicelib.comments import cleanup, comments, counters, moderation
from chalicelib.dynamo.table import Table
from chalicelib.errors import Busy
from chalicelib.leaderboards import boards, scores
from chalicelib.notices import notices, sns
from chalicelib.ranking import deepening, tree
from chalicelib.views import definitions, events, site_queries, sites, totals, visitors
from chalicelib.views.definitions import Definition
from chalicelib.views.site_queries import Period
from local import filters
from local.engines.engine import Engine
from tests.histories.event_sources import Queue
from tests.histories.history import run
from tests.histories.scenario import scenario

Body = dict[str, Any]
Change = Callable[[str, Body], bool]
ChangeReply = Callable[[str, Body, Body], bool]
Wrapper = Callable[..., Any]
ALWAYS = "attribute_exists(pk) OR attribute_not_exists(pk)"


class Unfit(Exception):
    """A mutant took no effect: the request or the function that it changes is not used any more."""


@dataclass
class Mutant:
    """A planted fault: functions that are wrapped, or requests and replies that are changed in place.

    `applied` counts how often it took effect.
    """

    name: str
    target: Any = None  # the owner of the functions
    functions: str = ""
    wrapper: Wrapper = lambda function, *arguments: None  # called with the function and its arguments
    change: Change = lambda operation, body: False
    change_reply: ChangeReply = lambda operation, request, reply: False
    theme: str = "everything"  # of the histories that can show it
    applied: int = 0

    def rewrite(self, operation: str, body: Body, reply: Body | None = None) -> bool:
        """Change a request, or its reply, in place. Return whether anything was changed."""
        done = self.change(operation, body) if reply is None else self.change_reply(operation, body, reply)
        self.applied += done
        return done

    def patches(self) -> list[AbstractContextManager[Any]]:
        """Return the patches of a history. Raises AttributeError for an unknown function."""
        return [mock.patch.object(self.target, name, self._wrap(name)) for name in self.functions.split()]

    def _wrap(self, name: str) -> Wrapper:
        function = getattr(self.target, name)

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            self.applied += 1
            return self.wrapper(function, *arguments, **named)

        return call


# -- requests --------------------------------------------------------------------------------------


def _writes(operation: str, body: Body) -> Iterator[tuple[str, Body]]:
    """Yield the verb and the action of each single write of a request."""
    if operation == "TransactWriteItems":
        yield from (value for entry in body["TransactItems"] for value in entry.items())
    elif operation in ("PutItem", "UpdateItem", "DeleteItem"):
        yield operation.removesuffix("Item"), body


def _has_key(action: Body, pk: str, sk: str) -> bool:
    """Return whether an action writes an item whose keys begin like this, in typed or plain JSON."""
    key: Any = action.get("Key") or action["Item"]
    found = [key[name]["S"] if isinstance(key[name], dict) else key[name] for name in ("pk", "sk")]
    return bool(found[0].startswith(pk) and found[1].startswith(sk))


def unconditional(name: str, pk: str, sk: str, verb: str) -> Mutant:
    """Return a mutant that makes the condition of matching writes always true."""

    def change(operation: str, body: Body) -> bool:
        writes = [
            write for found, write in _writes(operation, body) if found == verb and _has_key(write, pk, sk)
        ]
        conditional = [write for write in writes if "ConditionExpression" in write]
        for action in conditional:
            action["ConditionExpression"] = f"({action['ConditionExpression']}) OR {ALWAYS}"
        return bool(conditional)

    return Mutant(name, change=change)


def without(name: str, pk: str, sk: str, verb: str) -> Mutant:
    """Return a mutant that replaces matching actions of a transaction by one that writes nothing."""

    def change(operation: str, body: Body) -> bool:
        entries = body["TransactItems"] if operation == "TransactWriteItems" else ()
        matching = [entry for entry in entries if verb in entry and _has_key(entry[verb], pk, sk)]
        for entry in matching:
            action = entry.pop(verb)
            key = action.get("Key") or {name: action["Item"][name] for name in ("pk", "sk")}
            check = {"TableName": action["TableName"], "Key": key, "ConditionExpression": ALWAYS}
            entry["ConditionCheck"] = check
        return bool(matching)

    return Mutant(name, change=change)


def split(name: str, pk: str, sk: str = "", *, is_first: bool = True) -> Mutant:
    """Return a mutant that writes the matching actions of a transaction in one of their own."""

    def transact(function: Wrapper, table: Table, actions: Sequence[Any]) -> tuple[int, ...]:
        matching = [i for i, action in enumerate(actions) if _has_key(next(iter(action.values())), pk, sk)]
        others = [i for i in range(len(actions)) if i not in matching]
        for group in (matching, others) if is_first else (others, matching):
            if group and (refused := function(table, [actions[i] for i in group])):
                return tuple(group[i] for i in refused)
        return ()

    return Mutant(name, Table, "transact", transact)


# -- replies ---------------------------------------------------------------------------------------


def _drop(*names: str) -> ChangeReply:
    return lambda operation, request, reply: bool([name for name in names if reply.pop(name, None)])


def _empty_pool(operation: str, request: Body, reply: Body) -> bool:
    partition = request.get("ExpressionAttributeValues", {}).get(":pk", {}).get("S", "")
    is_pool = operation == "Query" and partition.startswith("WAITING#")
    reply |= {"Items": []} if is_pool else {}
    return is_pool


def _without_votes(operation: str, request: Body, reply: Body) -> bool:
    """Hide the votes that a batch has read."""
    batches = reply.get("Responses", {}) if operation == "BatchGetItem" else {}
    votes = [item for items in batches.values() for item in items if item["sk"]["S"].startswith("VOTE#")]
    for name, items in batches.items():
        batches[name] = [item for item in items if item not in votes]
    return bool(votes)


# -- functions -------------------------------------------------------------------------------------


def _hide_expiry(function: Wrapper, event: Body, context: Any) -> Any:
    records = [
        {n: value for n, value in record.items() if n != "userIdentity"} for record in event["Records"]
    ]
    return function({"Records": records}, context)


def _without_cleanups(function: Wrapper, record: Body, name: str) -> bool:
    return function(record, name) and not record["dynamodb"]["Keys"]["sk"]["S"].startswith("CLEANUP#")


def _despite_busy(function: Wrapper, *arguments: Any) -> None:
    with suppress(Busy):
        function(*arguments)


def _as_admin(function: Wrapper, *, caller: Caller, **given: Any) -> Any:
    return function(**given, caller=caller._replace(admin=True))


def _publish(function: Wrapper, *arguments: Any) -> str:
    state = function(*arguments)
    return "approved" if state == "pending" else state


def _count_twice(function: Wrapper, path: str, depth: int, nodes: tree.Nodes) -> Any:
    """Count the bucket's own counter as better, though its players are counted through the index."""
    *_, (prefix, digits) = tree.steps(path, depth)
    return function(path, depth, nodes) + nodes.get(prefix, tree.Node()).count(digits) - 1


def _without_key(function: Wrapper, *, idempotency_key: str | None, **given: Any) -> Any:
    return function(**given, idempotency_key=None)


def _nothing(function: Wrapper, *arguments: Any, **named: Any) -> Any:
    function(*arguments, **named)
    return {}


# -- chat ---------------------------------------------------------------------------------------------


def _block_nobody(operation: str, body: Body) -> bool:
    """Remove the visitors that a connection blocks from its updates."""
    blocking = [
        write
        for _, write in _writes(operation, body)
        if ":blocks" in write.get("ExpressionAttributeValues", {})
    ]
    for write in blocking:
        write["UpdateExpression"] = write["UpdateExpression"].replace("ADD blocked :blocks", "")
        if write["UpdateExpression"].strip():
            del write["ExpressionAttributeValues"][":blocks"]
        else:
            write["UpdateExpression"] = "SET unblocked = :blocks"
    return bool(blocking)


def _as_stranger(function: Wrapper, *arguments: Any) -> Any:
    return function(*arguments) | {"who": connections.new_token()}


def _without_pair(function: Wrapper, frame: Any, name: str) -> Any:
    return "" if name == "pair" else function(frame, name)


# -- sums ---------------------------------------------------------------------------------------------


def _derive_new_alone(function: Wrapper, *arguments: Any) -> Any:
    """Update derived attributes only after additions, and not after duplicates."""
    counted, item = function(*arguments)
    return counted, item if counted else {}


def _without_referrer(function: Wrapper, *arguments: Any) -> Any:
    return {at: amount for at, amount in function(*arguments).items() if "#REFERRER#" not in at[0].pk}


def _without_goal(function: Wrapper, view: Any) -> Any:
    return [] if view.goal else function(view)


def _alone(function: Wrapper, table: Any, hosts: Any) -> Any:
    """Define each further host as a site of its own."""
    found = function(table, hosts)
    return {host: site if site.site == host else Definition(host) for host, site in found.items()}


def _in_utc(function: Wrapper, table: Any, views: Any) -> Any:
    """Leave each view in the day of UTC, whatever the zone of its site."""
    return list(views)


def _forget_failed(function: Wrapper, *arguments: Any) -> sns.Outcome:
    """Take what SNS has not accepted for refused."""
    sent: sns.Outcome = function(*arguments)
    return sent._replace(refused=frozenset(id for id, _ in arguments[1]) - sent.accepted)


def _without_listing(function: Wrapper, *arguments: Any) -> Any:
    return {at: amount for at, amount in function(*arguments).items() if at[1] != "gsi1pk"}


def _as_shared(is_pending: Any, board: Any, *args: Any) -> Any:
    return is_pending(board._replace(ties="shared", metadata=False), *args)


def _keep_metadata(change: Any, table: Any, board: Any, activity: Any, score: Any, *args: Any) -> Any:
    kept = {name: score[name] for name in ("metadata",) if score and name in score}
    return change(table, board, activity, score, *args) | kept


def _note_last(note_first: Any, table: Any, changes: Any) -> None:
    """Write each finder over the one before."""
    for key, old, new in changes:
        if finders.is_path(*key) and new and not old:
            first, name, entry = finders._build_entry(key, new)
            finders._write(table, first, name, "", {":entry": entry})


FAULTS = {
    # Half of these histories have the queue.
    "everything": (
        Mutant("a derived attribute is left behind by a crash", engine_of_sums, "_add", _derive_new_alone),
        Mutant("the last finder of a path is the first", finders, "note_first", _note_last),
        Mutant("a visitor is not written", events, "_write_visitor", lambda f, *a: None),
        Mutant("a visitor of a site is not written", events, "_visitor_keys", lambda f, *a: f(*a)[:1]),
        Mutant("a view is in the day of UTC", events, "place_all", _in_utc),
        Mutant("a goal is not counted", sites, "count_goal", lambda f, *a: {}),
        Mutant("the visitor of a goal is not written", events, "_visitor_keys", _without_goal),
        Mutant("a sender is another visitor each time", visitors, "read_salt", lambda f, *a: os.urandom(16)),
        Mutant("all senders are one visitor", visitors, "identify", lambda f, *a: "0" * 24),
        Mutant("a further host is a site of its own", definitions, "_read_definitions", _alone),
        Mutant("a notice is lost when SNS fails", sns, "send", _forget_failed),
        Mutant("a notice is not published", notices, "publish", lambda f, *a: None),
        Mutant("a day is not in the total of its site", totals, "add_day", lambda f, *a: None),
        Mutant("a referrer is not counted", sites, "count_event", _without_referrer),
        Mutant("a referrer is not listed", sites, "count_event", _without_listing),
        Mutant(
            "a period ends a day early", site_queries, "read_period", lambda f, *a: Period(f(*a).days[:-1])
        ),
        Mutant("a batch is acknowledged before it is counted", app, "apply", _despite_busy),
        unconditional("a repeated submission counts again", "PLAYER#", "ACTIVITY#", "Put"),
        Mutant("an expired item is subtracted", app, "apply", _hide_expiry),
        Mutant("the rest of a batch is dropped", change_reply=_drop("UnprocessedItems", "UnprocessedKeys")),
        Mutant("a refused part of a queue request is dropped", Queue, "send_message_batch", _nothing),
        Mutant("a failed queue message is acknowledged", app, "write_views", _nothing),
        without("an image that cannot be computed is dropped", "QUARANTINE#", "", "Put"),
    ),
    "scores": (
        Mutant("an activity is not completed", scores, "_complete_activities", lambda f, *a: None),
        Mutant("a late submission of the same score is ignored", scores, "is_pending", _as_shared),
        Mutant("a season begins without being stored", boards, "begin_season", lambda f, *a: None),
        Mutant("a player submits to a server's board", scores, "check_submitter", lambda f, *a: None),
        Mutant("metadata stay those of the first score", scores, "_change", _keep_metadata),
        Mutant("a bucket is counted twice", tree, "count_better", _count_twice),
        Mutant("a depth does not follow", deepening, "_stamp", lambda f, *a: None),
        Mutant("a stranger may change scores", app, "post_score delete_player", _as_admin),
    ),
    "paths": (
        Mutant("a query ends with its first page", change_reply=_drop("LastEvaluatedKey")),
        unconditional("a path is found twice", "CHALLENGE#", "PATH#", "Put"),
        Mutant("a stranger may read what is hidden", app, "get_comment get_challenge_player", _as_admin),
    ),
    "comments": (
        Mutant("a refused transaction is taken for written", Table, "transact", lambda f, *a: f(*a) and ()),
        unconditional("an author has two comments", "PRODUCT#", "AUTHOR#", "Put"),
        Mutant("the idempotency key is ignored", app, "post_comment", _without_key),
        unconditional("an edit overwrites another one", "PRODUCT#", "COMMENT#", "Put"),
        without("a deleted comment keeps its author's place", "PRODUCT#", "AUTHOR#", "Delete"),
        Mutant("a comment is not listed", comments, "list_attributes", lambda f, *a: {}),
        Mutant("an edit publishes a pending comment", moderation, "choose_state", _publish),
        Mutant("a stranger may change comments", app, "patch_comment delete_comment", _as_admin),
    ),
    "reactions": (
        replace(
            unconditional("a repeated vote counts again", "PRODUCT#", "VOTE#", "Put"),
            change_reply=_without_votes,
        ),
        without("the counters of a deleted comment stay", "PRODUCT#", "COUNTERS#", "Delete"),
        without("a retry says a comment again", "PRODUCT#", "KEY##", "Put"),
        Mutant("comments with votes are in no order", counters, "position", lambda f, id, votes: f(id, 0)),
        Mutant("the votes of a deleted comment stay", cleanup, "step", lambda f, *a: None),
        Mutant("the stream's filter drops cleanups", filters, "passes", _without_cleanups),
        Mutant("a blocked text is published", moderation, "must_wait", lambda f, *a: False),
        Mutant("a stranger may change replies", app, "patch_reply delete_reply", _as_admin),
    ),
    "arrivals": (
        split("the entry in the pool is written separately", "WAITING#", is_first=False),
        Mutant("nobody is found in the pool", change_reply=_empty_pool),
    ),
    "talks": (
        unconditional("a pair is matched whatever its two have become", "CONN#", "STATE", "Update"),
        Mutant("the sweep does nothing", app, "sweep", lambda f, *a: None),
        Mutant("two tabs of one person are matched", connections, "build_item", _as_stranger),
        Mutant("a frame for another pair is taken", handlers, "read_label", _without_pair),
        Mutant("a message is acknowledged when it is posted", receipts, "new_id", lambda f, *a: ""),
    ),
    "bans": (
        without("a report is acknowledged and not kept", "REPORTS", "", "Put"),
        Mutant("two whom a report has parted meet again", change=_block_nobody),
        without("two persons meet again in connections that were open", "BLOCKED#", "", "ConditionCheck"),
        Mutant("a ban closes no connection", matchmaker, "close_banned", lambda f, *a: ()),
        Mutant("a ban is not written", bans, "ban", lambda f, *a: None),
        Mutant("a subject is not banned", bans, "ban", lambda f, to, digests, *a: f(to, digests[:1], *a)),
        Mutant("everybody is banned", bans, "is_banned", lambda f, *a: True),
    ),
}
"""The planted faults by the theme of the histories that can show them."""
MUTANTS = {fault.name: replace(fault, theme=theme) for theme, faults in FAULTS.items() for fault in faults}
LONGEST = 200  # histories


class Caught(NamedTuple):
    """The result of a hunt: the number of histories, and the first difference, "" when there was none."""

    histories: int
    difference: str = ""


def hunt(engine: Engine, mutant: Mutant, longest: int = LONGEST) -> Caught:
    """Run histories of its theme with a mutant until one has a difference.

    Raises Unfit when it never took effect.
    """
    seeds = (seed for seed in itertools.count(1) if scenario(seed).theme.name == mutant.theme)
    for number, seed in enumerate(itertools.islice(seeds, longest), 1):
        outcome = run(engine, seed, planted=mutant)
        if outcome.differences and mutant.applied:
            return Caught(number, outcome.differences[0])
    if not mutant.applied:
        raise Unfit(f"{mutant.name}: took no effect in {longest} histories")
    return Caught(longest)
