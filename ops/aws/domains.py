"""The custom domains of a stage, which Chalice creates from two settings of the stage's configuration.

    "api_gateway_custom_domain": {"domain_name": "api.example.org", "certificate_arn": …, "tls_version": …}
    "websocket_api_custom_domain": {"domain_name": "live.example.org", …}

AWS's rules, from the Amazon API Gateway Developer Guide, "Custom domain name for public REST APIs" and
"Custom domain names for WebSocket APIs in API Gateway": a regional domain needs a certificate of ACM in the
region of the API. A name that serves a WebSocket API serves no REST API, and has TLS 1.2 only.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import click

from ops.aws import chalice_config

REST, SOCKET = "api_gateway_custom_domain", "websocket_api_custom_domain"
HOST = re.compile(r"(?=.{4,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
CERTIFICATE = re.compile(r"arn:aws(?:-[a-z]+)*:acm:([a-z0-9-]+):[0-9]{12}:certificate/[\w-]+")
TLS = "TLS_1_2"


class Domains(NamedTuple):
    """The names of a stage's REST API and of its sockets; empty for one without."""

    rest: str = ""
    socket: str = ""

    @property
    def socket_address(self) -> str:
        """Return the address that the stage tells its pages; empty without a domain."""
        return f"wss://{self.socket}" if self.socket else ""


def find(root: Path, stage: str) -> Domains:
    """Return the custom domains of a stage as its configuration has them."""
    part = chalice_config.read(root)["stages"].get(stage, {})
    return Domains(*(str(part.get(kind, {}).get("domain_name", "")) for kind in (REST, SOCKET)))


def check(root: Path, stage: str, region: str) -> None:
    """Check the custom domains of a stage, before anything is written.

    Raises: ClickException for the first part that AWS or Chalice would refuse.
    """
    config = chalice_config.read(root)
    part = config["stages"].get(stage, {})
    for kind in (REST, SOCKET):
        if kind in config:
            raise click.ClickException(f"{kind} belongs to one stage: move it into the part of that stage")
        if kind in part and (problem := _find_problem(part[kind], region)):
            raise click.ClickException(f"{kind} of {stage}: {problem}")
    names = find(root, stage)
    if names.rest and names.rest == names.socket:
        raise click.ClickException(
            f"{names.rest} serves either REST or sockets: give the sockets another name"
        )
    if names.socket and not chalice_config.read_settings(root, stage).has("chat"):
        raise click.ClickException(f"{SOCKET} of {stage}: a stage without chat has no sockets")


def _find_problem(setting: Any, region: str) -> str:
    name, arn = str(setting.get("domain_name", "")), str(setting.get("certificate_arn", ""))
    if not HOST.fullmatch(name):
        return f"`domain_name` is {name[:80]!r}: it must be a host in lower case, such as api.example.org"
    if not (certificate := CERTIFICATE.fullmatch(arn)):
        return f"`certificate_arn` is {arn[:120]!r}: it must be the ARN of a certificate of ACM"
    if certificate[1] != region:
        return f"`certificate_arn` is in {certificate[1]}: the certificate must be in {region}, as the API is"
    if setting.get("tls_version") != TLS:
        return f'`tls_version` must be "{TLS}"'
    if "url_prefix" in setting:
        return "`url_prefix` is not supported: give the stage a name of its own"
    return ""


def merge(whole: dict[str, Any], domains: Domains) -> None:
    """Complete what Chalice packages for the custom domains of a stage, in a template to merge.

    Chalice's mapping of the REST API names its stage by a text, so CloudFormation could create the mapping
    first. A reference makes it wait: AWS SAM Developer Guide, AWS::Serverless::Api, referenceable properties.
    """
    whole.setdefault("Outputs", {})
    if domains.rest:
        whole["Resources"]["ApiGatewayCustomDomainMapping"] = {
            "Properties": {"Stage": {"Ref": "RestAPI.Stage"}}
        }
        target = {"Fn::GetAtt": ["ApiGatewayCustomDomain", "RegionalDomainName"]}
        whole["Outputs"]["RestDomainTarget"] = {"Description": f"CNAME of {domains.rest}", "Value": target}
    if domains.socket:
        target = {"Fn::GetAtt": ["WebsocketApiCustomDomain", "RegionalDomainName"]}
        whole["Outputs"]["SocketDomainTarget"] = {
            "Description": f"CNAME of {domains.socket}",
            "Value": target,
        }
        variables = whole["Resources"]["APIHandler"]["Properties"]["Environment"]["Variables"]
        variables[chalice_config.SOCKET] = domains.socket_address


def list_records(client: Any, domains: Domains) -> list[str]:
    """Return the DNS records that the custom domains need, one in a line. `client` is for apigatewayv2."""
    lines = []
    for name in filter(None, domains):
        [found, *_] = client.get_domain_name(DomainName=name)["DomainNameConfigurations"]
        lines.append(f"{name}. CNAME {found['ApiGatewayDomainName']}.")
    return lines
