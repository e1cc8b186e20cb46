"""Chalice's record of the resources that it has created, rebuilt from what exists.

Chalice writes the record at the end of a deployment, so one that breaks off leaves resources that Chalice
does not know. It could neither create nor delete them then. Each resource of a stage has a name of its own
and each function a tag of Chalice, so the record follows from the account. Deploy, destroy and rollback
rebuild it first, and so work after an interruption at any point, and from any directory.

An API without its stage serves nobody and cannot be completed by Chalice, so it is deleted.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from ops.aws import chalice_config, domains, event_sources
from ops.aws.domains import Domains
from ops.aws.template import function_name
from ops.stage import write_atomically

Client = Callable[[str], Any]
Resource = dict[str, Any]

OF_CHALICE = "aws-chalice"
"""The tag of Chalice at its functions."""
OF_A_STACK = "aws:cloudformation:stack-name"
KINDS = {"dynamodb": "dynamodb_event", "sqs": "sqs_event"}


def record_path(root: Path, stage: str) -> Path:
    """Return the path of the record."""
    return root / ".chalice" / "deployed" / f"{stage}.json"


def read_record(root: Path, stage: str) -> list[Resource]:
    """Read the record; empty before the first deployment."""
    path = record_path(root, stage)
    return list(json.loads(path.read_text(encoding="utf-8"))["resources"]) if path.exists() else []


def rebuild_record(client: Client, root: Path, stage: str, *, deletes: bool = True) -> bool:
    """Write the record of the resources of a stage that exist, and return whether there are any.

    `client` creates a client of an AWS service. `deletes` deletes APIs without a stage. A command that only
    reads must not, because another one may be creating the stage.

    Raises: ClickException for a function that another stack or application has created.
    """
    config = chalice_config.read(root)
    names = config["stages"][chalice_config.PATTERN]["lambda_functions"]
    found = [resource for name in names for resource in _find_function(client, stage, name)]
    found += _find_apis(client, stage, config["stages"][stage]["api_gateway_stage"], deletes=deletes)
    known = [resource for resource in read_record(root, stage) if resource["resource_type"] == "domain_name"]
    found += list(_find_domains(client("apigatewayv2"), domains.find(root, stage), known))
    path = record_path(root, stage)
    if not found:
        path.unlink(missing_ok=True)
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"resources": found, "schema_version": "2.0", "backend": "api"}
    write_atomically(path, json.dumps(record, indent=2) + "\n")
    return True


def _find_function(client: Client, stage: str, name: str) -> Iterator[Resource]:
    """Yield the role, the function, and the source of its events that exist, as Chalice names them."""
    iam, functions, events = client("iam"), client("lambda"), client("events")
    role, arn = f"hubbub-{stage}-{name}", ""
    with contextlib.suppress(iam.exceptions.NoSuchEntityException):
        role_arn = iam.get_role(RoleName=role)["Role"]["Arn"]
        yield {"name": f"{name}_role", "resource_type": "iam_role", "role_arn": role_arn, "role_name": role}
    with contextlib.suppress(functions.exceptions.ResourceNotFoundException):
        there = functions.get_function(FunctionName=function_name(stage, name))
        arn = there["Configuration"]["FunctionArn"]
        _check_owner(arn, there.get("Tags", {}))
        yield {"name": name, "resource_type": "lambda_function", "lambda_arn": arn}
    if arn:
        pages = functions.get_paginator("list_event_source_mappings").paginate(FunctionName=arn)
        for mapping in (mapping for page in pages for mapping in page["EventSourceMappings"]):
            if mapping["State"] != "Deleting":
                event_sources.wait_until_stable(functions, mapping["UUID"])  # because Chalice changes it next
                yield _describe_mapping(name, arn, mapping)
    rule = f"hubbub-{stage}-{name}-event"
    with contextlib.suppress(events.exceptions.ResourceNotFoundException):
        events.describe_rule(Name=rule)
        yield {"name": f"{name}-event", "resource_type": "cloudwatch_event", "rule_name": rule}


def _describe_mapping(name: str, function: str, mapping: Any) -> Resource:
    source = mapping["EventSourceArn"]
    service = source.split(":")[2]
    found = {
        "name": f"{name}-{service}-event-source",
        "resource_type": KINDS[service],
        "event_uuid": mapping["UUID"],
        "lambda_arn": function,
    }
    if service == "sqs":
        return found | {"queue_arn": source, "queue": source.rpartition(":")[2]}
    return found | {"stream_arn": source}


def _check_owner(function: str, tags: dict[str, str]) -> None:
    if stack := tags.get(OF_A_STACK):
        raise click.ClickException(
            f"{function} belongs to the stack {stack}: deploy and delete this stage with its pipeline"
        )
    if OF_CHALICE not in tags:
        raise click.ClickException(f"{function} belongs to another application: use another stage")


def _find_apis(client: Client, stage: str, suffix: str, *, deletes: bool) -> Iterator[Resource]:
    """Yield the APIs of a stage that have a stage `suffix`. Delete those that have none, if `deletes`."""
    rest, sockets = client("apigateway"), client("apigatewayv2")
    region, partition = rest.meta.region_name, rest.meta.partition
    host = f"execute-api.{region}.amazonaws.com" + (".cn" if partition == "aws-cn" else "")

    name, complete = f"hubbub-{stage}", []
    pages = rest.get_paginator("get_rest_apis").paginate()
    for api in (item for page in pages for item in page["items"] if item["name"] == name):
        if any(stage["stageName"] == suffix for stage in rest.get_stages(restApiId=api["id"])["item"]):
            complete.append(api["id"])
        elif deletes:
            rest.delete_rest_api(restApiId=api["id"])
    for id in _only(name, complete):
        url = f"https://{id}.{host}/{suffix}/"
        yield {"name": "rest_api", "resource_type": "rest_api", "rest_api_id": id, "rest_api_url": url}

    name, complete = f"hubbub-{stage}-websocket-api", []
    pages = sockets.get_paginator("get_apis").paginate()
    for api in (item for page in pages for item in page["Items"] if item["Name"] == name):
        if any(item["StageName"] == suffix for item in sockets.get_stages(ApiId=api["ApiId"])["Items"]):
            complete.append(api["ApiId"])
        elif deletes:
            sockets.delete_api(ApiId=api["ApiId"])
    for id in _only(name, complete):
        url = f"wss://{id}.{host}/{suffix}/"
        resource = {"name": "websocket_api", "resource_type": "websocket_api", "websocket_api_id": id}
        yield resource | {"websocket_api_url": url}


def _find_domains(client: Any, names: Domains, known: list[Resource]) -> Iterator[Resource]:
    """Yield the custom domains of the configuration that exist, and others of the record that was read."""
    configured = {
        name: kind for kind, name in zip((domains.REST, domains.SOCKET), names, strict=True) if name
    }
    yield from (resource for resource in known if resource.get("domain_name") not in configured)
    for name, kind in configured.items():
        with contextlib.suppress(client.exceptions.NotFoundException):
            [found, *_] = client.get_domain_name(DomainName=name)["DomainNameConfigurations"]
            mappings = client.get_api_mappings(DomainName=name)["Items"]
            yield {
                "name": kind,
                "resource_type": "domain_name",
                "domain_name": name,
                "hosted_zone_id": found["HostedZoneId"],
                "alias_domain_name": found["ApiGatewayDomainName"],
                "certificate_arn": found["CertificateArn"],
                "security_policy": found.get("SecurityPolicy"),
                "api_mapping": [{"key": f"/{mapping.get('ApiMappingKey') or ''}"} for mapping in mappings],
            }


def _only(name: str, ids: list[str]) -> list[str]:
    if len(ids) > 1:
        raise click.ClickException(f"several APIs are named {name}: {', '.join(ids)}; delete all but one")
    return ids
