"""Puts right what the local engine reports of reads, so that the page shows what AWS would report.

ministack 1.5.33 takes every read for one of 4 KB, and reports nothing for batches of them. AWS's published
rules, which local/units.py has, give the units from what was read; of writes it reports what AWS would.
"""

from __future__ import annotations

from typing import Any

from local.units import EVENTUAL, STRONG, TRANSACTIONAL, item_size, read_units


def count_reads(client: Any) -> None:
    """Report the units of a client's reads by their sizes, to all who listen after."""
    client.meta.events.register("provide-client-params.dynamodb", _remember, unique_id="remember")
    client.meta.events.register_first("after-call.dynamodb", _correct, unique_id="correct")


def _remember(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    context["asked"] = params


def _correct(parsed: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
    asked = context.get("asked", {})
    if "Error" in parsed or asked.get("ReturnConsumedCapacity", "NONE") == "NONE":
        return
    units = _units(model.name, asked, parsed)
    if units is not None:
        parsed["ConsumedCapacity"] = [{"TableName": "", "CapacityUnits": units}]
        if model.name == "Query":  # its answer has one table's
            [parsed["ConsumedCapacity"]] = parsed["ConsumedCapacity"]


def _units(operation: str, asked: dict[str, Any], answer: dict[str, Any]) -> float | None:
    """Return the RCU of a read; None for a write."""
    rate = STRONG if asked.get("ConsistentRead") else EVENTUAL
    if operation == "GetItem":
        return read_units(item_size(answer.get("Item", {})), rate)
    if operation == "Query":
        return read_units(sum(map(item_size, answer["Items"])), rate)
    if operation == "TransactGetItems":
        return sum(read_units(item_size(one.get("Item", {})), TRANSACTIONAL) for one in answer["Responses"])
    if operation == "BatchGetItem":
        units = 0.0
        for table, batch in asked["RequestItems"].items():
            rate = STRONG if batch.get("ConsistentRead") else EVENTUAL
            found = answer["Responses"].get(table, [])
            missing = len(batch["Keys"]) - len(found) - len(answer.get("UnprocessedKeys", {}).get(table, []))
            units += sum(read_units(item_size(item), rate) for item in found) + missing * rate
        return units
    return None
