"""The address of a client behind CloudFront.

API Gateway sees the address of CloudFront's edge, which many clients share. CloudFront sends the client's in
the header `CloudFront-Viewer-Address`, which anybody else could send too. So the distribution also sends the
stage's *origin secret* in the header `X-Origin-Secret`. Without the right secret the address is ignored.

The origin secret is derived from the stage's secret, so it is stored nowhere. `ops origin-secret` prints it.
After a change of the secret the previous origin secret is accepted for a day.
"""

import hmac
from collections.abc import Mapping

from chalicelib.api.auth import derive_keys
from chalicelib.api.rates import parse_address
from chalicelib.settings import Settings
from chalicelib.telemetry import logs

SECRET, ADDRESS = "x-origin-secret", "cloudfront-viewer-address"  # the names of headers
PURPOSE = "origin"


def find_origin_secrets(settings: Settings) -> list[str]:
    """Return the secret that the distribution sends, and the previous one while that is valid.

    Raises: OSError without a secret.
    """
    return [key.hex() for key in derive_keys(settings, PURPOSE)]


def find_address(settings: Settings, headers: Mapping[str, str], source: str) -> str:
    """Return the address of a client. `source` is the address that API Gateway sees."""
    if not (given := headers.get(SECRET)):
        return source
    try:
        secrets = find_origin_secrets(settings)
    except Exception as error:  # SSM is unavailable, for example. The caller is not the cause
        logs.log_error("the address behind the distribution is unknown", error)
        return source
    sent = given.encode(errors="surrogatepass")
    matches = [hmac.compare_digest(sent, secret.encode()) for secret in secrets]
    return (parse_viewer(headers.get(ADDRESS, "")) or source) if any(matches) else source


def parse_viewer(text: str) -> str:
    """Return the address of the header, or an empty text for a malformed one.

    The value is an address and a port: `198.51.100.10:46532` (Amazon CloudFront Developer Guide, "Add
    CloudFront request headers"). CloudFront writes IPv6 without brackets, which are accepted too.
    """
    address, _, port = text.strip().rpartition(":")
    try:
        return str(parse_address(address.removeprefix("[").removesuffix("]"))) if port.isdecimal() else ""
    except ValueError:
        return ""
