# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands between helm and the API server: repeats what the server had no time for, and serves nobody else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.repeater import Repeater, repeating
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import errors
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.transport import Transport

SECRETS = "/api/v1/namespaces/ns/secrets"
OURS: dict[str, Any] = {
    "kind": "Secret",
    "metadata": {"name": "r.v1", "labels": {"owner": "helm"}},
    "data": {"release": "abc"},
}


class Server(ThreadingHTTPServer):
    """Answers by method with what the test says, one after another; an answer of code 0 cuts the connection."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, list[tuple[int, Any]]] = {}
        self.asked: list[tuple[str, str, str]] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path, self.headers.get("Authorization", "")))
        waiting = self.server.answers[self.command]
        code, said = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if not code:
            self.connection.close()
            self.close_connection = True
            return
        body = json.dumps(said).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""

    do_GET = do_POST = do_DELETE = _answer


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


@pytest.fixture
def between(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repeater]:
    monkeypatch.setattr(errors.time, "sleep", lambda _s: None)
    host = f"http://127.0.0.1:{server.server_address[1]}"
    with repeating(Transport(Connection(host=host, api_key="key-of-the-cluster"))) as found:
        yield found


def asked(between: Repeater, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    data = json.dumps(body).encode() if body is not None else None
    try:
        with urlopen(Request(between.url + path, data=data, method=method), timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504, 0])
def test_what_the_server_had_no_time_for_is_asked_again(between: Repeater, server: Server, code: int) -> None:
    server.answers = {"GET": [(code, {}), (code, {}), (200, OURS)]}
    assert asked(between, "GET", f"{SECRETS}/r.v1?timeout=5s") == (200, OURS)
    assert server.asked == [("GET", f"{SECRETS}/r.v1?timeout=5s", "Bearer key-of-the-cluster")] * 3


def test_a_creation_that_was_carried_out_before_its_answer_was_lost_is_made_once(
    between: Repeater, server: Server
) -> None:
    found = OURS | {"metadata": {**OURS["metadata"], "uid": "1"}}
    server.answers = {"POST": [(0, {}), (409, {"reason": "AlreadyExists"})], "GET": [(200, found)]}
    assert asked(between, "POST", f"{SECRETS}?fieldManager=helm", OURS) == (201, found)
    assert server.asked[-1][:2] == ("GET", f"{SECRETS}/r.v1")


@pytest.mark.parametrize("first", [(0, {}), (409, {"reason": "AlreadyExists"})])
def test_what_another_helm_made_is_theirs(between: Repeater, server: Server, first: tuple[int, Any]) -> None:
    theirs = OURS | {"data": {"release": "other"}}
    server.answers = {"POST": [first, (409, {"reason": "AlreadyExists"})], "GET": [(200, theirs)]}
    assert asked(between, "POST", SECRETS, OURS)[0] == 409
    if not first[0]:
        # Of other objects nobody knows whose they are: that is an outage's word, after which helm begins anew.
        server.answers["POST"] = [first, (409, {"reason": "AlreadyExists"})]
        assert asked(between, "POST", SECRETS.replace("secrets", "configmaps"), OURS)[0] == 503


def test_a_deletion_that_was_carried_out_is_done(between: Repeater, server: Server) -> None:
    server.answers = {"DELETE": [(504, {}), (404, {"reason": "NotFound"})]}
    assert asked(between, "DELETE", f"{SECRETS}/r.v1")[0] == 200
    server.answers = {"DELETE": [(404, {"reason": "NotFound"})]}
    assert asked(between, "DELETE", f"{SECRETS}/r.v1")[0] == 404


def test_answers_that_stand_are_given_as_they_are(between: Repeater, server: Server) -> None:
    refused = {"message": 'Internal error occurred: failed calling webhook "w": no endpoints'}
    for code, said in ((403, {"reason": "Forbidden"}), (422, {"reason": "Invalid"}), (500, refused)):
        server.asked.clear()
        server.answers = {"POST": [(code, said)]}
        assert asked(between, "POST", SECRETS, OURS) == (code, said)
        assert len(server.asked) == 1


def test_nobody_who_does_not_know_the_address_reaches_the_cluster(between: Repeater, server: Server) -> None:
    server.answers = {"GET": [(200, OURS)]}
    port = between.server_address[1]
    for path in (SECRETS, f"/{'x' * 32}{SECRETS}", "/"):
        with pytest.raises(HTTPError, match="403"):
            urlopen(f"http://127.0.0.1:{port}{path}", timeout=10)
    assert server.asked == []
    assert between.server_address[0] == "127.0.0.1"
    assert b"key-of-the-cluster" not in between.kubeconfig()
