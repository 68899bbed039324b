# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A forwarded port is used for several requests, and never in place of an answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.http import routes as module
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.http.model import NoConnectionError, Request
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.http.routes import PodRoute, UrlRoute, kept
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.http.session import HttpSession
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import DeadlineError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    closes = False
    silent = 0

    def do_GET(self) -> None:
        if type(self).silent:
            # As a server does that ended the connection while nothing was asked.
            type(self).silent -= 1
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.path)))
        if type(self).closes:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(self.path.encode())

    do_POST = do_GET

    def log_message(self, *_args: Any) -> None:
        return None


class Port:
    """What stands for a forwarded port: the client's own socket."""

    def __init__(self, client: HTTPConnection, limits: list[float]) -> None:
        self.client, self.limits, self.ended = client, limits, False

    def limit(self, deadline: Deadline) -> None:
        self.limits.append(deadline.limit_s)

    def end(self) -> None:
        self.ended = True
        self.client.close()


class Pod(PodRoute):
    """A pod whose port is one of this machine."""

    def __init__(self, port: int) -> None:
        self.port, self.opened, self.limits = port, list[Port](), list[float]()

    @property
    def text(self) -> str:
        return "pod t/vllm-0"

    def connect(self, deadline: Deadline) -> Any:
        client = HTTPConnection("127.0.0.1", self.port, timeout=deadline.left_s)
        client.connect()
        self.opened.append(Port(client, self.limits))
        return self.opened[-1], client


@pytest.fixture
def pod() -> Iterator[Pod]:
    Handler.closes, Handler.silent = False, 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Pod(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


def test_one_port_answers_all_requests_each_with_its_own_time_limit_and_is_closed(pod: Pod) -> None:
    with kept(pod) as way:
        session = HttpSession(way)
        assert [session.text("GET", f"/{number}", timeout_s=5.0 + number) for number in range(3)] == ["/0", "/1", "/2"]
        assert session.text("POST", "/v1", body={"a": 1}) == "/v1"
        assert (len(pod.opened), pod.limits, session.where) == (1, [5.0, 6.0, 7.0, 10.0], "pod t/vllm-0")
    assert pod.opened[0].ended


def test_a_server_that_wants_it_closed_gets_it_closed(pod: Pod) -> None:
    Handler.closes = True
    with kept(pod) as way:
        for _time in range(2):
            assert HttpSession(way).text("GET", "/x") == "/x"
    assert [port.ended for port in pod.opened] == [True, True]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_kept_port_that_breaks_is_no_answer_of_the_server(pod: Pod, method: str) -> None:
    with kept(pod) as way:
        assert HttpSession(way).text("GET", "/x") == "/x"
        Handler.silent = 1
        assert HttpSession(way).text(method, "/y") == "/y"
        assert [port.ended for port in pod.opened] == [True, False]
        # Nor is it one when the new port breaks as well: that the server does not answer is what is told.
        Handler.silent = 2
        with pytest.raises(NoConnectionError):
            HttpSession(way).text(method, "/z")
    assert len(pod.opened) == 3


def test_a_new_port_that_breaks_is_not_tried_again(pod: Pod) -> None:
    Handler.silent = 1
    with kept(pod) as way, pytest.raises(NoConnectionError):
        HttpSession(way).text("GET", "/x")
    assert [port.ended for port in pod.opened] == [True]


def test_a_port_that_was_idle_is_forwarded_anew(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT_S", 0.0)
    with kept(pod) as way:
        for _time in range(2):
            assert HttpSession(way).text("GET", "/x") == "/x"
    assert len(pod.opened) == 2


def test_a_time_that_is_over_is_not_used_again(pod: Pod) -> None:
    with kept(pod) as way:
        assert HttpSession(way).text("GET", "/x") == "/x"
        Handler.silent = 1
        with pytest.raises(DeadlineError):
            way.send(Request("GET", "/y"), Deadline.after(-1.0))
    assert len(pod.opened) == 1


def test_other_ways_are_as_they_are() -> None:
    route = UrlRoute("http://127.0.0.1:9")
    with kept(route) as way:
        assert way is route
