"""Custom domains are settings of a stage, checked before anything is written, in both ways to deploy."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
from botocore.exceptions import ClientError

from ops.aws import chalice_config, domains, record
from ops.aws import package as packages
from ops.aws.domains import Domains
from ops.stage import ROOT
from tests.ops.test_gateway_template import copied, translate

CERTIFICATE = "arn:aws:acm:eu-central-1:123456789012:certificate/12345678-1234-1234-1234-123456789012"
REGION = "eu-central-1"
GOOD = {"domain_name": "api.example.org", "certificate_arn": CERTIFICATE, "tls_version": "TLS_1_2"}
NAMES = Domains("api.example.org", "live.example.org")


def configure(project: Path, rest: Any = None, socket: Any = None, **part: Any) -> Path:
    file = project / ".chalice" / "config.json"
    config = json.loads(file.read_text())
    settings = {domains.REST: rest, domains.SOCKET: socket, **part}
    config["stages"]["dev"] |= {name: value for name, value in settings.items() if value}
    file.write_text(json.dumps(config))
    return project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return configure(copied(tmp_path), GOOD, GOOD | {"domain_name": NAMES.socket})


def test_domains_that_aws_accepts_are_accepted(project: Path) -> None:
    domains.check(project, "dev", REGION)
    assert domains.find(project, "dev") == NAMES
    assert NAMES.socket_address == "wss://live.example.org"


def test_the_settings_of_the_document_are_accepted(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "deployment.md").read_text()
    [block] = [block for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL) if domains.REST in block]
    configure(copied(tmp_path), **json.loads(block))
    domains.check(tmp_path, "dev", REGION)
    assert domains.find(tmp_path, "dev") == NAMES


def test_a_stage_without_domains_has_none(tmp_path: Path) -> None:
    domains.check(copied(tmp_path), "dev", REGION)
    assert (domains.find(tmp_path, "dev"), Domains().socket_address) == (Domains(), "")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"domain_name": "API.example.org"}, "`domain_name`"),
        ({"domain_name": "https://api.example.org"}, "`domain_name`"),
        ({"domain_name": "*.example.org"}, "`domain_name`"),
        ({"domain_name": "localhost"}, "`domain_name`"),
        ({"domain_name": ""}, "`domain_name`"),
        ({"certificate_arn": "arn:aws:iam::123456789012:server-certificate/x"}, "ACM"),
        ({"certificate_arn": CERTIFICATE.replace(REGION, "us-east-1")}, "must be in eu-central-1"),
        ({"tls_version": "TLS_1_0"}, "`tls_version`"),
        ({"tls_version": None}, "`tls_version`"),
        ({"url_prefix": "hubbub"}, "`url_prefix`"),
    ],
)
@pytest.mark.parametrize("kind", [domains.REST, domains.SOCKET])
def test_a_domain_that_aws_refuses_is_refused_before(
    tmp_path: Path, kind: str, change: dict[str, Any], why: str
) -> None:
    configure(copied(tmp_path), **{kind: GOOD | change})
    with pytest.raises(click.ClickException, match=f"{kind} of dev: .*{why}"):
        domains.check(tmp_path, "dev", REGION)


def test_one_name_cannot_serve_rest_and_sockets(tmp_path: Path) -> None:
    configure(copied(tmp_path), GOOD, GOOD)
    with pytest.raises(click.ClickException, match="either REST or sockets"):
        domains.check(tmp_path, "dev", REGION)


def test_a_stage_without_chat_has_no_domain_of_sockets(tmp_path: Path) -> None:
    configure(copied(tmp_path, HUBBUB_FEATURES="views"), socket=GOOD)
    with pytest.raises(click.ClickException, match="no sockets"):
        domains.check(tmp_path, "dev", REGION)


def test_a_new_stage_does_not_take_devs_domains(project: Path) -> None:
    chalice_config.ensure_stage(project, "prod")
    assert domains.find(project, "prod") == Domains()


def test_the_package_has_the_domains_and_tells_the_page_its_socket(project: Path, tmp_path: Path) -> None:
    packages.package(project, "dev", tmp_path / "out")
    made = translate(tmp_path / "out" / "sam.yaml")
    rest, socket = made["ApiGatewayCustomDomain"], made["WebsocketApiCustomDomain"]
    assert rest["Properties"]["RegionalCertificateArn"] == CERTIFICATE
    assert rest["Properties"] | {"DomainName": NAMES.rest, "SecurityPolicy": "TLS_1_2"} == rest["Properties"]
    assert socket["Properties"]["DomainName"] == NAMES.socket
    [stage] = [name for name, resource in made.items() if resource["Type"] == "AWS::ApiGateway::Stage"]
    assert made["ApiGatewayCustomDomainMapping"]["Properties"]["Stage"] == {"Ref": stage}
    assert made["WebsocketApiCustomDomainMapping"]["Properties"]["Stage"] == {"Ref": "WebsocketAPIStage"}
    variables = made["APIHandler"]["Properties"]["Environment"]["Variables"]
    assert variables["HUBBUB_SOCKET"] == "wss://live.example.org"


class Gateway:
    """API Gateway with some custom domains."""

    class exceptions:  # noqa: N801 (as of a client)
        NotFoundException = ClientError

    def __init__(self, *names: str) -> None:
        self.names = names

    def get_domain_name(self, DomainName: str) -> Any:  # noqa: N803
        if DomainName not in self.names:
            raise ClientError({"Error": {"Code": "NotFoundException"}}, "GetDomainName")
        found = {"ApiGatewayDomainName": "d-1.execute-api.eu-central-1.amazonaws.com", "HostedZoneId": "Z"}
        return {"DomainNameConfigurations": [found | {"CertificateArn": CERTIFICATE}]}

    def get_api_mappings(self, DomainName: str) -> Any:  # noqa: N803
        return {"Items": [{"ApiMappingKey": "", "DomainName": DomainName}]}


def test_the_dns_records_are_printed() -> None:
    assert domains.list_records(Gateway(NAMES.rest), Domains(NAMES.rest)) == [
        "api.example.org. CNAME d-1.execute-api.eu-central-1.amazonaws.com."
    ]


def test_the_rebuilt_record_has_the_domains_that_exist() -> None:
    """Without them `chalice delete` would leave the domains."""
    other = {"name": "api_gateway_custom_domain", "domain_name": "old.example.org"}
    outdated = {"name": "api_gateway_custom_domain", "domain_name": NAMES.rest}
    found = list(record._find_domains(Gateway(NAMES.rest), NAMES, [other, outdated]))
    assert [(resource["name"], resource["domain_name"]) for resource in found] == [
        ("api_gateway_custom_domain", "old.example.org"),
        ("api_gateway_custom_domain", NAMES.rest),
    ]
    assert found[1]["api_mapping"] == [{"key": "/"}]
