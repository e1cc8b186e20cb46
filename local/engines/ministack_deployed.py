"""Corrections of ministack 1.5.33 that a deployed stage needs: CloudFormation, Lambda, and posts to sockets.

As in launcher.py each function is one correction, and says what AWS does. They cost imports that a table and
a queue do not need, so `local.engines.ministack` makes them only where `SERVE_FUNCTIONS` is set.
"""

from __future__ import annotations

from typing import Any

from ministack.core import lambda_runtime
from ministack.services import dynamodb, lambda_svc
from ministack.services.cloudformation import provisioners

POSTS = """
def _to_the_engine():
    import os, re
    import botocore.handlers

    def redirect(params, **_):
        found = re.match(r"https://([^.]+)[.]execute-api[.][^/]+(/.*)", params["url"])
        if found:
            api, path = found.groups()
            params["url"] = os.environ["AWS_ENDPOINT_URL"] + "/_aws/execute-api/" + api + path

    name = "before-call.apigatewaymanagementapi"
    botocore.handlers.BUILTIN_HANDLERS.append((name, redirect))

_to_the_engine()
"""
"""Runs in a worker before the function's own code is imported, in place of DNS and of a certificate."""


def send_posts_to_the_engine() -> None:
    """Let a function post to `https://<api>.execute-api.<region>.amazonaws.com`, its address on AWS."""
    lambda_runtime._PYTHON_WORKER_SCRIPT = POSTS + lambda_runtime._PYTHON_WORKER_SCRIPT


def make_functions_ready_at_once() -> None:
    """Make a function that is created or updated Active in the same moment.

    AWS takes seconds, ministack half a second; but Chalice looks every five, for each of its functions.
    """

    def ready(name: str, delay: float) -> None:
        config = lambda_svc._functions[name]["config"]
        config |= {"State": "Active", "StateReason": "", "StateReasonCode": ""}
        config |= {"LastUpdateStatus": "Successful", "LastUpdateStatusReason": ""}

    lambda_svc._schedule_state_transition = ready


def take_the_whole_table_from_a_template() -> None:
    """Set a stack's table's time to live and point-in-time recovery, which ministack leaves out."""
    handler = provisioners._RESOURCE_HANDLERS["AWS::DynamoDB::Table"]
    create, update = handler["create"], handler["update"]

    def specify(made: Any, properties: dict[str, Any]) -> Any:
        if expiry := properties.get("TimeToLiveSpecification"):
            status = "ENABLED" if expiry.get("Enabled") else "DISABLED"
            dynamodb._ttl_settings[made[0]] = {
                "TimeToLiveStatus": status,
                "AttributeName": expiry["AttributeName"],
            }
        if recovery := properties.get("PointInTimeRecoverySpecification"):
            dynamodb._pitr_settings[made[0]] = recovery["PointInTimeRecoveryEnabled"]
        return made

    def created(logical_id: str, properties: dict[str, Any], stack: str) -> Any:
        return specify(create(logical_id, properties, stack), properties)

    def updated(id: str, old: dict[str, Any], new: dict[str, Any], *rest: Any, **named: Any) -> Any:
        return specify(update(id, old, new, *rest, **named), new)

    handler |= {"create": created, "update": updated}


def correct() -> None:
    """Make every correction."""
    send_posts_to_the_engine()
    make_functions_ready_at_once()
    take_the_whole_table_from_a_template()
