# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Between helm and the API server: forwards helm's requests, and retries them when the server is overloaded, as our own
client does.

It listens on the loopback address while one helm runs. The path of its address has a secret that only this helm gets
(client-go sends no token over plain HTTP). Credentials of the cluster stay in this process.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ...outcome.errors import BringupError, UnavailableError
from ..kube.transport import Passed, Transport

# Headers of a request that the server needs. `Accept-Encoding` is not among them: responses are passed on as they come.
_SENT = ("User-Agent", "Accept", "Content-Type", "Kubectl-Command", "Kubectl-Session")
_GIVEN = ("Content-Type", "Retry-After", "Warning", "Audit-Id", "Date")
_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
# A webhook that does not respond yet is left to the installer, which waits for the service behind it.
_WEBHOOK = b"failed calling webhook"


class Repeater(ThreadingHTTPServer):
    """Serves one helm."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, transport: Transport) -> None:
        """Take a port of the loopback address and create the secret."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.transport, self.secret = transport, secrets.token_urlsafe(24)

    @property
    def url(self) -> str:
        """The address for helm."""
        return f"http://127.0.0.1:{self.server_address[1]}/{self.secret}"

    def kubeconfig(self) -> bytes:
        """Return a kubeconfig that leads here. It is JSON, which is YAML too."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": self.url}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
            "users": [{"name": "here", "user": {}}],
        }
        return json.dumps(document).encode()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore that helm went away during a response."""


@contextmanager
def repeating(transport: Transport) -> Iterator[Repeater]:
    """Serve until the end of the block. Yield the server."""
    server = Repeater(transport)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Repeater

    def _serve(self) -> None:
        begin, _slash, rest = self.path.removeprefix("/").partition("/")
        length = self.headers.get("Content-Length") or "0"
        if not hmac.compare_digest(begin.encode(), self.server.secret.encode()):
            return self._refuse(403, "Forbidden", "this address serves one helm")
        if "Transfer-Encoding" in self.headers or "Upgrade" in self.headers or not length.isdecimal():
            return self._refuse(501, "NotImplemented", "only plain requests are forwarded")
        payload = self.rfile.read(int(length)) or None
        headers = {name: self.headers[name] for name in _SENT if name in self.headers}
        try:
            answer = self._asked(f"/{rest}", headers, payload)
        except BringupError as error:
            return self._refuse(503, "ServiceUnavailable", f"{_UNABLE}: {error.reason}")
        return self._give(answer)

    def _asked(self, path: str, headers: Mapping[str, str], payload: bytes | None) -> Passed:
        transport, method = self.server.transport, self.command
        answer = transport.passed_on(method, path, headers, payload, any_status_ok=lambda data: _WEBHOOK in data)
        if answer.unsure and method == "DELETE" and answer.status == 404:
            # An earlier try was carried out.
            return Passed(200, {"Content-Type": "application/json"}, json.dumps(_SUCCESS).encode())
        if answer.unsure and method == "POST" and answer.status == 409:
            made = self._made_before(path, payload)
            if made is None and not path.partition("?")[0].endswith("/secrets"):
                # Ours as the server stores it, or that of another: helm ends as in an outage and starts again.
                raise UnavailableError("Kubernetes API", "whether the object was created is not known")
            # If two helms record one revision, the second recognises it by this error.
            return made or answer
        return answer

    def _made_before(self, path: str, payload: bytes | None) -> Passed | None:
        """Return the existing object if it is what was sent, that is if an earlier try created it. Otherwise None."""
        try:
            sent = json.loads(payload or b"")
            place, _mark, _query = path.partition("?")
            found = self.server.transport.passed_on("GET", f"{place}/{sent['metadata']['name']}", {}, None)
            same = found.status == 200 and _within(sent, json.loads(found.data))
        except (ValueError, KeyError, TypeError):
            return None
        return Passed(201, found.headers, found.data) if same else None

    def _give(self, answer: Passed) -> None:
        self.send_response_only(answer.status)
        for name in _GIVEN:
            if name in answer.headers:
                self.send_header(name, answer.headers[name])
        if answer.stream is None:
            self.send_header("Content-Length", str(len(answer.data)))
            self.end_headers()
            self.wfile.write(answer.data)
            return
        # A watch is forwarded as it comes, to its end.
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for chunk in answer.stream:
            self.wfile.write(chunk)
            self.wfile.flush()

    def _refuse(self, code: int, reason: str, message: str) -> None:
        reported = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message}
        body = json.dumps(reported | {"code": code}).encode()
        # The body of the request may not have been read.
        self.close_connection = True
        self._give(Passed(code, {"Content-Type": "application/json"}, body))

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve


# The text by which helm.cut_off recognises that the server is away (kubernetes/apimachinery, pkg/api/errors/errors.go).
_UNABLE = "the server is currently unable to handle the request"


def _within(sent: Any, found: Any) -> bool:
    """Tell whether everything that was sent is in what was found."""
    if isinstance(sent, dict) and isinstance(found, dict):
        return all(value is None or _within(value, found.get(key)) for key, value in sent.items())
    if isinstance(sent, list) and isinstance(found, list):
        return len(sent) == len(found) and all(map(_within, sent, found))
    return bool(sent == found)
