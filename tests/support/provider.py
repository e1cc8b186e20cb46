"""An OpenID provider on this machine: it signs everybody in at once, and checks PKCE (RFC 7636)."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from jwt.algorithms import RSAAlgorithm


class Provider:
    """`claims` are those of its ID tokens. `overrides` replace parameters of its next redirect."""

    def __init__(self, key: RSAPrivateKey, claims: dict[str, Any]) -> None:
        self.claims = claims
        self.overrides: dict[str, str] = {}
        self._key = key
        self._codes: dict[str, dict[str, str]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                if url.path == "/jwks.json":
                    self._send(200, provider._keys())
                    return
                self.send_response(302)
                self.send_header("Location", provider._authorize(dict(parse_qsl(url.query))))
                self.end_headers()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._send(*provider._exchange(dict(parse_qsl(body))))

            def _send(self, status: int, content: Any) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Access-Control-Allow-Origin", "*")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _keys(self) -> Any:
        key: Any = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {"keys": [key | {"kid": "key"}]}

    def _authorize(self, query: dict[str, str]) -> str:
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        reply = {"code": code, "state": query["state"]} | self.overrides
        return f"{query['redirect_uri']}?{urlencode(reply)}"

    def _exchange(self, body: dict[str, str]) -> tuple[int, Any]:
        begun = self._codes.pop(body.get("code", ""), {})
        digest = hashlib.sha256(body["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        expected = {name: begun.get(name) for name in ("client_id", "redirect_uri")}
        is_right = begun.get("code_challenge") == challenge and body.items() >= expected.items()
        if not is_right or begun.get("code_challenge_method") != "S256":
            return 400, {"error": "invalid_grant", "error_description": "The code is not valid."}
        now = int(time.time())
        claims = {"iat": now, "exp": now + 3600, "aud": body["client_id"], "nonce": begun["nonce"]}
        token = jwt.encode(claims | self.claims, self._key, algorithm="RS256", headers={"kid": "key"})
        return 200, {"id_token": token, "token_type": "Bearer", "expires_in": 3600}
