"""A faster moto.

moto copies the whole table for each item of a transaction, so that it can undo the transaction. Stream
records never change, and most of the copy is stream records. Sharing them halves the time of such tests.

moto also asks for the class of each node of an update expression several million times in a test run. The
answer depends on two classes alone, so it is kept.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from moto.dynamodb.models.table import Table
from moto.dynamodb.parsing import ast_nodes

R = TypeVar("R")


def copy_items_only(table: Any, memo: dict[int, Any]) -> Any:
    """Copy a table's items, and share everything that a transaction does not change."""
    copied = copy.copy(table)
    copied.items = copy.deepcopy(table.items, memo)
    if table.stream_shard:
        copied.stream_shard = copy.copy(table.stream_shard)
        copied.stream_shard.table, copied.stream_shard.items = copied, list(table.stream_shard.items)
    return copied


Traverser: Any = vars(ast_nodes)["DepthFirstTraverser"]
Node: Any = vars(ast_nodes)["Node"]
NODES: dict[type, bool] = {}
"""Whether a class is one of nodes."""
PROCESSED: dict[tuple[type, type], bool] = {}
"""Whether a class of traversers processes a class of nodes."""


def traverse(self: Any, node: Any, child_id: int = -1) -> Any:
    """Process nodes bottom up, as `DepthFirstTraverser.traverse_node_recursively` does."""
    kinds = type(self), type(node)
    if kinds[1] not in NODES:
        NODES[kinds[1]] = issubclass(kinds[1], Node)
    if not NODES[kinds[1]]:
        return node
    parent = node.parent
    for i, child in enumerate(node.children or ()):
        self.pre_processing_of_child(node, i)
        self.traverse_node_recursively(child, i)
    if kinds not in PROCESSED:
        PROCESSED[kinds] = issubclass(kinds[1], self.nodes_to_be_processed())
    if PROCESSED[kinds]:
        node = self.process(node)
        node.parent = parent
        if parent:
            parent.children[child_id] = node
    return node


def install() -> None:
    """Make moto copy its tables and traverse its expressions in this way."""
    table: Any = Table  # it declares no __deepcopy__
    table.__deepcopy__ = copy_items_only
    Traverser.traverse_node_recursively = traverse


def run_now(call: Callable[[], R], pool: str = "default") -> Future[R]:
    """Make a call at once, in place of `concurrency.submit`."""
    done: Future[R] = Future()
    try:
        done.set_result(call())
    except Exception as error:
        done.set_exception(error)
    return done
