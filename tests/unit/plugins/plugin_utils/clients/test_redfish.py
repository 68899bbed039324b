# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Redfish service over TLS: login and logout as the standard says, one cause for each reason why it is not read."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from bmcs import LOGIN, Running, running_bmcs

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.redfish.service import (
    Access,
    Account,
    RedfishService,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.redfish.wire import (
    BusyError,
    CertificateError,
    LoginError,
    NotRedfishError,
    RedfishError,
    SilentError,
    StatusError,
    Wire,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.bmc.plan import AUTHORITY, write_certificates
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.bmc import Bmc

ACCOUNT = Account(LOGIN.user, LOGIN.password)
CHASSIS = "/redfish/v1/Chassis"
SECRET = "kept-to-ourselves"


@pytest.fixture(scope="module")
def bmcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    states = {
        "good": Bmc(), "expired": Bmc(certificate="expired"), "stranger": Bmc(certificate="stranger"),
        "busy": Bmc(answers="busy"), "nobody": Bmc(answers="nobody"), "closed": Bmc(answers="login-refused"),
    }  # fmt: skip
    with running_bmcs(tmp_path_factory.mktemp("bmcs"), states) as running:
        yield running


def service(bmcs: Running, name: str, account: Account = ACCOUNT, **access: Any) -> RedfishService:
    return RedfishService(bmcs.urls[name], f"BMC of {name}", account, Access(ca_cert=bmcs.ca_cert, **access))


def test_it_logs_in_reads_and_leaves_no_session(bmcs: Running) -> None:
    with service(bmcs, "good") as bmc:
        assert bmc.root["RedfishVersion"] == "1.15.0"
        assert bmc.get(CHASSIS)["Members@odata.count"] == 1
        assert bmcs.controllers["good"].open_sessions == 1
    assert bmcs.controllers["good"].open_sessions == 0


def test_a_hundred_reads_leave_a_free_session(bmcs: Running) -> None:
    for _read in range(20):
        with service(bmcs, "good") as bmc:
            bmc.get(CHASSIS)
    assert bmcs.controllers["good"].open_sessions == 0


def test_the_session_is_ended_where_reading_fails(bmcs: Running) -> None:
    with pytest.raises(StatusError, match="HTTP 404") as caught, service(bmcs, "good") as bmc:
        bmc.get("/redfish/v1/Nowhere")
    assert caught.value.status == 404 and "curl" in caught.value.hint
    assert bmcs.controllers["good"].open_sessions == 0


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("expired", CertificateError, "expired"), ("stranger", CertificateError, "not accepted"),
        ("busy", BusyError, "HTTP 503"), ("closed", LoginError, "'reader' is refused"), ("nobody", SilentError, "GET"),
    ],
)  # fmt: skip
def test_each_reason_has_its_own_cause(bmcs: Running, name: str, error: type[RedfishError], says: str) -> None:
    with pytest.raises(error, match=says) as caught, service(bmcs, name, timeout_s=5, limit_s=8):
        pass
    assert f"BMC of {name} (https://127.0.0.1:" in caught.value.subject and caught.value.hint
    assert bmcs.controllers[name].open_sessions == 0


def test_the_password_is_in_no_message(bmcs: Running) -> None:
    account = replace(ACCOUNT, password=SECRET)
    with pytest.raises(LoginError) as caught, service(bmcs, "good", account):
        pass
    assert SECRET not in f"{caught.value} {caught.value.to_dict()} {account!r}"


def test_nothing_is_sent_to_a_service_whose_certificate_is_not_good(bmcs: Running) -> None:
    """With checks on, which is the default, the password does not leave this machine."""
    url = bmcs.urls["good"].replace("127.0.0.1", "127.0.0.2")
    with (
        pytest.raises(RedfishError),
        RedfishService(url, "another", ACCOUNT, Access(ca_cert=bmcs.ca_cert, timeout_s=5)),
    ):
        pass
    with pytest.raises(CertificateError), RedfishService(bmcs.urls["good"], "good", ACCOUNT, Access(timeout_s=5)):
        pass
    with service(bmcs, "expired", validate_certs=False) as bmc:
        assert bmc.get(CHASSIS)


def test_a_port_where_nobody_listens_is_told_with_the_command_to_look(bmcs: Running) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(SilentError) as caught, RedfishService(url, "gone", ACCOUNT, Access(timeout_s=5)):
        pass
    assert f"curl -sS {url}/redfish/v1/" in caught.value.hint


class Odd(BaseHTTPRequestHandler):
    """A server with answers of a test: status, headers and body by method and path."""

    answers: ClassVar[dict[tuple[str, str], tuple[int, dict[str, str], bytes]]] = {}
    seen: ClassVar[list[tuple[str, str, str, bytes]]] = []

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.seen.append((self.command, self.path, self.headers.get("Authorization", ""), body))
        status, headers, text = self.answers.get((self.command, self.path), (404, {}, b"{}"))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = _answer

    def log_message(self, *_args: Any) -> None:
        pass


def _opened(found: RedfishService) -> None:
    """Log in and out."""
    with found:
        pass


@contextmanager
def odd(tmp_path: Path, answers: dict[tuple[str, str], tuple[int, dict[str, str], bytes]]) -> Iterator[RedfishService]:
    Odd.answers, Odd.seen = answers, []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(write_certificates(tmp_path)["good"])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    access = Access(ca_cert=str(tmp_path / AUTHORITY), timeout_s=20, limit_s=60)
    try:
        yield RedfishService(f"https://127.0.0.1:{server.server_address[1]}", "odd", ACCOUNT, access)
    finally:
        server.shutdown()
        server.server_close()


ROOT = b'{"RedfishVersion": "1.0.2", "Chassis": {"@odata.id": "/redfish/v1/Chassis"}}'


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_service_without_sessions_is_read_with_basic_authentication(tmp_path: Path, status: int) -> None:
    answers = {("GET", "/redfish/v1/"): (200, {}, ROOT), ("GET", CHASSIS): (200, {}, b'{"Members": []}')}
    for path in ("/redfish/v1/SessionService/Sessions", "/redfish/v1/Sessions"):
        answers["POST", path] = (status, {}, b"{}")
    with odd(tmp_path, answers) as found, found as bmc:
        assert bmc.get(CHASSIS) == {"Members": []}
    posts = [path for method, path, _sent, _body in Odd.seen if method == "POST"]
    assert posts == ["/redfish/v1/SessionService/Sessions", "/redfish/v1/Sessions"]
    assert Odd.seen[-1][2].startswith("Basic ") and "DELETE" not in [entry[0] for entry in Odd.seen]


def test_the_session_of_a_whole_url_is_ended_on_the_service_that_we_know(tmp_path: Path) -> None:
    header = {"X-Auth-Token": "t", "Location": "https://bmc.example.org/redfish/v1/SessionService/Sessions/4"}
    answers = {
        ("GET", "/redfish/v1/"): (200, {}, ROOT),
        ("POST", "/redfish/v1/SessionService/Sessions"): (201, header, b"{}"),
    }
    with odd(tmp_path, answers) as found:
        _opened(found)
    assert Odd.seen[-1][:2] == ("DELETE", "/redfish/v1/SessionService/Sessions/4")


@pytest.mark.parametrize("text", [b"<html>Sign in</html>", b"[]", b'{"kind": "Status"}', b"\xff\xfe"])
def test_what_is_no_redfish_service_is_told_so_and_gets_no_password(tmp_path: Path, text: bytes) -> None:
    answers = {("GET", "/redfish/v1/"): (200, {}, text)}
    with odd(tmp_path, answers) as found, pytest.raises(NotRedfishError), found:
        pass
    assert [entry[0] for entry in Odd.seen] == ["GET"]


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    answers = {("GET", "/redfish/v1/"): (302, {"Location": "https://elsewhere.example.org/"}, b"")}
    with odd(tmp_path, answers) as found, pytest.raises(NotRedfishError, match="HTTP 302"), found:
        pass


def test_a_password_that_the_service_repeats_is_masked(tmp_path: Path) -> None:
    answers = {
        ("GET", "/redfish/v1/"): (200, {}, ROOT),
        ("POST", "/redfish/v1/SessionService/Sessions"): (503, {}, f"no room for {LOGIN.password}".encode()),
    }
    with odd(tmp_path, answers) as found, pytest.raises(BusyError) as caught:
        _opened(found)
    assert LOGIN.password not in str(caught.value) and "no room for" in str(caught.value)


class Slow(BaseHTTPRequestHandler):
    """A BMC that is busy at first, and then sends a byte now and then."""

    busy: ClassVar[int] = 0
    pause_s: ClassVar[float] = 0.0

    def do_GET(self) -> None:
        if type(self).busy:
            type(self).busy -= 1
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(ROOT)))
        self.end_headers()
        with suppress(OSError):
            for byte in ROOT:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(self.pause_s)

    def log_message(self, *_args: Any) -> None:
        pass


@contextmanager
def slow(tmp_path: Path, busy: int, pause_s: float) -> Iterator[Wire]:
    Slow.busy, Slow.pause_s = busy, pause_s
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(write_certificates(tmp_path)["good"])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    url = f"https://127.0.0.1:{server.server_address[1]}"
    wire = Wire(url, "slow", ca_cert=str(tmp_path / AUTHORITY), validate_certs=True, timeout_s=2.0)
    try:
        yield wire
    finally:
        wire.close()
        server.shutdown()
        server.server_close()


def test_a_service_that_is_busy_for_a_moment_is_read(tmp_path: Path) -> None:
    with slow(tmp_path, busy=2, pause_s=0.0) as wire:
        assert wire.patient("GET", "/redfish/v1/", {}, Deadline.after(60)).body == ROOT
    with slow(tmp_path, busy=9, pause_s=0.0) as wire:
        assert wire.patient("GET", "/redfish/v1/", {}, Deadline.after(60)).status == 503
    assert Slow.busy == 6


def test_a_service_that_sends_a_byte_now_and_then_holds_nobody(tmp_path: Path) -> None:
    """It would take a minute, each byte within any limit of its own."""
    began = time.monotonic()
    with (
        slow(tmp_path, busy=0, pause_s=0.8) as wire,
        pytest.raises(SilentError, match="no whole answer within 2 s"),
    ):
        wire.once("GET", "/redfish/v1/", {}, None, Deadline.after(60))
    assert time.monotonic() - began < 20
