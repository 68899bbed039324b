# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Serves the BMCs of all simulated hosts over TLS on loopback, one port each, from one process.

It follows the model file.

Sessions are those of DMTF DSP0266: the root needs no login, a POST with name and password creates one of a few
sessions, everything else needs its token. A client that does not end its sessions finds none left.
"""

from __future__ import annotations

import argparse
import json
import resource
import secrets
import selectors
import ssl
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import RECIPES

from ..model.bmc import Bmc, RackUnit
from ..model.patch import build_model
from ..model.spec import read_spec
from .payloads import ROOT, SESSIONS, Json, Tree, pdu_name, pdu_tree, tree_of

_SLOTS = 8
_HANDSHAKE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The account that every BMC accepts. Without a name it accepts any."""

    user: str = ""
    password: str = ""

    def takes(self, user: object, password: object) -> bool:
        """Tell whether that account may log in."""
        return (user, password) == (self.user, self.password) if self.user else bool(user and password)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Files with certificate and key, by kind: `good`, `expired`, `stranger`."""

    files: Mapping[str, Path]

    def context(self, kind: str) -> ssl.SSLContext:
        """Return a TLS server context with that certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.files[kind])
        return context


class Controller:
    """One BMC or PDU with its resources and sessions."""

    def __init__(self, bmc: Bmc | RackUnit, serial: str, login: Login) -> None:
        """Set its state."""
        self._login, self._lock = login, threading.Lock()
        self._sessions: dict[str, str] = {}
        self._bmc, self._serial, self._tree = bmc, serial, _tree(bmc, serial)

    @property
    def bmc(self) -> Bmc | RackUnit:
        """Current state."""
        return self._bmc

    @property
    def open_sessions(self) -> int:
        """Number of sessions that were not ended."""
        return len(self._sessions)

    def become(self, bmc: Bmc | RackUnit) -> None:
        """Change the state. Sessions stay."""
        if bmc != self._bmc:
            self._bmc, self._tree = bmc, _tree(bmc, self._serial)

    def answer(self, method: str, path: str, token: str, body: bytes) -> tuple[int, Json | None, dict[str, str]]:
        """Return status, resource and headers for a request."""
        path = path if path == "/" else path.rstrip("/")
        if self._bmc.answers == "busy":
            return 503, _error("the service is temporarily unavailable"), {"Retry-After": "1"}
        if method == "GET" and path == ROOT:
            return 200, self._tree[ROOT], {}
        if method == "POST" and path == SESSIONS:
            return self._begin(body)
        if token not in self._sessions:
            return 401, _error("no valid session"), {}
        if method == "DELETE" and path.startswith(f"{SESSIONS}/"):
            with self._lock:
                self._sessions = {key: name for key, name in self._sessions.items() if name != path}
            return 204, None, {}
        if method != "GET":
            return 405, _error("this method is not allowed"), {}
        return self._get(self._tree, path)

    @staticmethod
    def _get(tree: Tree, path: str) -> tuple[int, Json | None, dict[str, str]]:
        found = tree.get(path)
        return (404, _error("no such resource"), {}) if found is None else (200, found, {})

    def _begin(self, body: bytes) -> tuple[int, Json | None, dict[str, str]]:
        try:
            given = json.loads(body)
            right = self._login.takes(given["UserName"], given["Password"])
        except (ValueError, KeyError, TypeError):
            return 400, _error("UserName and Password are required"), {}
        if not right or self._bmc.answers == "login-refused":
            return 401, _error("invalid user name or password"), {}
        with self._lock:
            if len(self._sessions) >= _SLOTS:
                return 503, _error("the maximum number of sessions is reached"), {}
            token, path = secrets.token_hex(16), f"{SESSIONS}/{secrets.token_hex(4)}"
            self._sessions[token] = path
        return 201, {"@odata.id": path, "UserName": given["UserName"]}, {"X-Auth-Token": token, "Location": path}


def _tree(state: Bmc | RackUnit, serial: str) -> Tree:
    return pdu_tree(state) if isinstance(state, RackUnit) else tree_of(state, serial)


class Handler(BaseHTTPRequestHandler):
    """One request to the BMC on that port."""

    protocol_version = "HTTP/1.1"
    # Head and body are sent together: separately, each response waits 40 ms for the client's acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: Port

    def do_GET(self) -> None:
        """Read a resource."""
        self._answer()

    def do_POST(self) -> None:
        """Create a session."""
        self._answer()

    def do_DELETE(self) -> None:
        """End a session."""
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, found, headers = self.server.controller.answer(
            self.command, self.path, self.headers.get("X-Auth-Token", ""), body
        )
        text = b"" if found is None else json.dumps(found).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "OData-Version": "4.0", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_args: Any) -> None:
        """Log nothing."""


class Port(ThreadingHTTPServer):
    """The port of one BMC.

    TLS starts in the thread of the connection, so that a client that sends nothing blocks no other.
    """

    daemon_threads = True
    request_queue_size = 16

    def __init__(self, port: int, controller: Controller, certificates: Certificates) -> None:
        """Listen on a port of 127.0.0.1; 0 takes a free one."""
        self.controller = controller
        self._certificates = certificates
        super().__init__(("127.0.0.1", port), Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Start TLS, then respond. In state `nobody` the connection is closed without a response."""
        if self.controller.bmc.answers == "nobody":
            return
        request.settimeout(_HANDSHAKE_S)
        try:
            context = self._certificates.context(self.controller.bmc.certificate)
            with context.wrap_socket(request, server_side=True) as wrapped:
                super().finish_request(wrapped, client_address)
        except OSError:
            # The client rejected the certificate, or disconnected.
            return


def serve(ports: Sequence[Port], ended: threading.Event, look: Any = None, pause_s: float = 0.2) -> None:
    """Serve all ports until `ended`. `look` is called between requests."""
    with selectors.DefaultSelector() as selector:
        for port in ports:
            selector.register(port, selectors.EVENT_READ, port)
        while not ended.is_set():
            for key, _events in selector.select(timeout=pause_s):
                key.data.handle_request()
            if look is not None:
                look()


class _Followed:
    """BMCs of the model file. They change their state when the file changes."""

    def __init__(self, model: Path, hardware: Sequence[Path], login: Login) -> None:
        self._path, self._skus, self._login = model, load_hardware([RECIPES / "hardware", *hardware]), login
        self._stamp = self._path.stat().st_mtime_ns
        self.controllers = {name: Controller(state, serial, login) for name, state, serial in self._states()}

    def look(self) -> None:
        """Read the file again if it changed."""
        stamp = self._path.stat().st_mtime_ns
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            for name, state, _serial in self._states():
                self.controllers[name].become(state)
        except BringupError as error:
            print(f"model: {error}", file=sys.stderr, flush=True)

    def _states(self) -> list[tuple[str, Bmc | RackUnit, str]]:
        """Return every BMC and PDU with its name and its serial number."""
        model = build_model(read_spec(self._path), self._skus)
        bmcs: list[tuple[str, Bmc | RackUnit, str]] = [(node.name, node.bmc, node.serial) for node in model.nodes]
        units = [(pdu_name(rack.name, n), unit, "") for rack in model.racks for n, unit in enumerate(rack.units)]
        return [*bmcs, *units]


def _error(message: str) -> Json:
    return {"error": {"code": "Base.1.18.GeneralError", "message": message}}


def main(argv: Sequence[str]) -> int:
    """Serve until killed; return the exit code."""
    parser = argparse.ArgumentParser(prog="bmc", description="BMCs of simulated hosts.")
    parser.add_argument("--model", required=True, type=Path, help="cluster model (YAML); read again when it changes")
    parser.add_argument("--plan", required=True, type=Path, help="ports and certificates (bmc/plan.py)")
    parser.add_argument("--hardware", action="append", default=[], type=Path, help="more SKU facts (repeatable)")
    given = parser.parse_args(list(argv))
    plan = json.loads(given.plan.read_text(encoding="utf-8"))
    try:
        followed = _Followed(given.model, given.hardware, Login())
    except BringupError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    certificates = Certificates(files={kind: Path(path) for kind, path in plan["certificates"].items()})
    # One socket for each host, and one for each connection.
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    ports = [Port(port, followed.controllers[name], certificates) for name, port in plan["ports"].items()]
    serve(ports, threading.Event(), followed.look)
    return 0
