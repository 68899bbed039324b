# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of an API server that a request survives, and those that it must not: against a server that misbehaves."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import Configuration

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import cluster as cluster_module
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import persistence
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster, holds
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import (
    ConflictError,
    GoneError,
    UnauthorizedError,
    UnreachableError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.kinds import NAMESPACES, NODES, PODS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.persistence import Fault, Outage, Tries
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError, UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.backoff import (
    LONGEST_PAUSE_S,
    Backoff,
    retry_after_s,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline

Json = dict[str, Any]
RESET = "reset"  # the connection breaks before anything is done
LOST = "lost"  # it is done, and the connection breaks before the answer
CUT_BODY = "cut body"  # it is done, and the connection breaks in the middle of the answer
CUT_HEAD = "cut head"  # it is done, and the connection breaks in the middle of the answer's headers
POD: Json = {"metadata": {"name": "x", "labels": {"gpufleet.io/test": "run-1"}}, "spec": {"a": 1}}


class Api(ThreadingHTTPServer):
    """Objects by path; `faults` come first, one a request: RESET, LOST, or an answer (status, body, headers)."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.objects: dict[str, Json] = {}
        self.faults: list[Any] = []
        self.asked: list[tuple[str, str]] = []
        self.tokens: set[str] = set()
        self.stream: list[Callable[[str], list[bytes]]] = []

    def answer(self, method: str, path: str, body: Json | None) -> tuple[int, Json]:
        path, found = path.partition("?")[0], self.objects.get(path.partition("?")[0])
        if method == "POST":
            assert body is not None
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                return 409, status("AlreadyExists")
            self.objects[path] = body
            return 201, body
        if found is None:
            return 404, status("NotFound")
        if method == "DELETE":
            return 200, self.objects.pop(path)
        if method == "PUT":
            assert body is not None
            if body["metadata"].get("resourceVersion") != found["metadata"].get("resourceVersion"):
                return 409, status("Conflict")
            version = str(int(found["metadata"].get("resourceVersion") or 0) + 1)
            self.objects[path] = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
        return 200, self.objects[path]


def status(reason: str, causes: tuple[str, ...] = ()) -> Json:
    listed = [{"reason": cause} for cause in causes]
    return {"kind": "Status", "apiVersion": "v1", "reason": reason, "message": reason, "details": {"causes": listed}}


class _Handler(BaseHTTPRequestHandler):
    server: Api

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        self.server.asked.append((self.command, self.path))
        if self.server.tokens and self.headers.get("Authorization", "")[7:] not in self.server.tokens:
            return self._say(401, status("Unauthorized"), {})
        if "watch=true" in self.path:
            return self._stream(self.server.stream.pop(0)(self.path))
        fault = self.server.faults.pop(0) if self.server.faults else None
        if fault == RESET:
            return self._reset()
        if isinstance(fault, tuple):
            return self._say(*fault)
        code, answer = self.server.answer(self.command, self.path, body)
        if fault == LOST:
            return self._reset()
        if fault in (CUT_BODY, CUT_HEAD):
            length = b"Content-Length: 5000\r\n\r\n{" if fault == CUT_BODY else b"Content-Ty"
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + length)
            self.close_connection = True
            return None
        return self._say(code, answer, {})

    def _say(self, code: int, answer: Json, headers: dict[str, str]) -> None:
        text = json.dumps(answer).encode()
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def _stream(self, parts: list[bytes]) -> None:
        """Send chunks; one that is empty breaks the connection."""
        self.protocol_version = "HTTP/1.1"
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in parts:
            if not part:
                self.wfile.flush()
                time.sleep(0.05)
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.wfile.close()
        self.rfile.close()
        self.connection.close()

    def finish(self) -> None:
        """Leave a connection alone that was reset."""
        if not self.wfile.closed:
            super().finish()

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _answer

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def api() -> Iterator[Api]:
    running = Api()
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every pause that was made; they are made short."""
    seen: list[float] = []
    real = time.sleep

    def sleep(seconds: float) -> None:
        seen.append(seconds)
        real(min(seconds, 0.002))

    monkeypatch.setattr(persistence.time, "sleep", sleep)
    monkeypatch.setattr(cluster_module.time, "sleep", sleep)
    return seen


@pytest.fixture
def cluster(api: Api, pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    assert pauses == []
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Cluster(Connection(host=f"http://127.0.0.1:{api.server_port}", api_key="abc"), 5) as found:
        yield found


def _busy(code: int, **headers: str) -> tuple[int, Json, dict[str, str]]:
    return code, status("x"), {name.replace("_", "-"): value for name, value in headers.items()}


CONFLICT = (409, status("Conflict"), {})
SURVIVED_BY_READS = [
    RESET,
    LOST,
    CUT_BODY,
    CUT_HEAD,
    CONFLICT,
    *(_busy(code) for code in (408, 429, 500, 502, 503, 504)),
]


@pytest.mark.parametrize("fault", SURVIVED_BY_READS, ids=str)
def test_a_read_survives_it(api: Api, cluster: Cluster, fault: Any) -> None:
    api.objects["/api/v1/nodes/a"] = {"metadata": {"name": "a"}}
    api.faults = [fault] * 3
    assert cluster.get(NODES, "a") == {"metadata": {"name": "a"}}
    assert len(api.asked) == 4


@pytest.mark.parametrize("fault", [CUT_BODY, CUT_HEAD])
def test_a_log_that_is_cut_is_no_empty_log(api: Api, cluster: Cluster, fault: str) -> None:
    api.objects["/api/v1/namespaces/ns/pods/x/log"] = {"said": "everything"}
    api.faults = [fault]
    assert json.loads(cluster.logs("x", "ns")) == {"said": "everything"}


def test_a_server_that_says_500_for_ever_is_believed_after_ten_tries(api: Api, cluster: Cluster) -> None:
    api.faults = [_busy(500)] * 20
    with pytest.raises(UnavailableError, match="HTTP 500"):
        cluster.get(NODES, "a")
    assert len(api.asked) == 10


@pytest.mark.parametrize("code", [400, 403, 404, 422])
def test_an_answer_that_stands_is_not_asked_for_twice(api: Api, cluster: Cluster, code: int) -> None:
    api.faults = [_busy(code)]
    with pytest.raises(BringupError):
        cluster.get(NODES, "a")
    assert len(api.asked) == 1


@pytest.mark.parametrize(
    "fault", [LOST, RESET, CUT_BODY, CUT_HEAD, _busy(500), _busy(504), _busy(429), CONFLICT], ids=str
)
def test_an_object_with_our_labels_is_created_once(api: Api, cluster: Cluster, fault: Any) -> None:
    api.faults = [fault]
    assert cluster.create(PODS, POD, "ns")["metadata"] == POD["metadata"]
    assert list(api.objects) == ["/api/v1/namespaces/ns/pods/x"]


def test_an_object_of_another_run_is_not_taken_for_ours(api: Api, cluster: Cluster) -> None:
    theirs = {"metadata": {"name": "x", "labels": {"gpufleet.io/test": "run-2"}}}
    api.objects["/api/v1/namespaces/ns/pods/x"] = theirs
    api.faults = [RESET]
    with pytest.raises(ConflictError):
        cluster.create(PODS, POD, "ns")
    assert api.objects["/api/v1/namespaces/ns/pods/x"] == theirs


def test_a_lease_that_another_got_meanwhile_is_not_taken_for_ours(api: Api, cluster: Cluster) -> None:
    ours = {"metadata": {"name": "x", "labels": {"app": "gpufleet"}}, "spec": {"holderIdentity": "run-1"}}
    api.objects["/api/v1/namespaces/ns/pods/x"] = {**ours, "spec": {"holderIdentity": "run-2"}}
    api.faults = [RESET]
    with pytest.raises(ConflictError):
        cluster.create(PODS, ours, "ns")


def test_an_object_that_was_there_before_is_a_conflict_even_with_our_labels(api: Api, cluster: Cluster) -> None:
    api.objects["/api/v1/namespaces/ns/pods/x"] = POD
    with pytest.raises(ConflictError):
        cluster.create(PODS, POD, "ns")


def test_what_cannot_be_read_back_is_not_created_twice(api: Api, cluster: Cluster) -> None:
    api.faults = [LOST]
    with pytest.raises(UnreachableError):
        cluster.create(PODS, {"metadata": {"name": "x"}}, "ns")
    assert len(api.asked) == 1


def test_what_was_surely_not_done_is_sent_again_whatever_it_is(api: Api, cluster: Cluster) -> None:
    api.faults = [_busy(429), _busy(503, Retry_After="1")]
    cluster.create(PODS, {"metadata": {"name": "x"}}, "ns")
    assert len(api.asked) == 3


@pytest.mark.parametrize("fault", [LOST, RESET, CONFLICT, _busy(500)], ids=str)
def test_a_deletion_survives_it_and_says_that_the_object_was_there(api: Api, cluster: Cluster, fault: Any) -> None:
    api.objects["/api/v1/namespaces/ns/pods/x"] = POD
    api.faults = [fault]
    assert cluster.delete(PODS, "x", "ns") is True
    assert api.objects == {}


def test_a_namespace_that_goes_away_already_is_deleted(api: Api, cluster: Cluster) -> None:
    api.objects["/api/v1/namespaces/n"] = {"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    api.faults = [CONFLICT]
    assert cluster.delete(NAMESPACES, "n") is True


def test_a_deletion_that_is_refused_each_time_is_no_deletion(api: Api, cluster: Cluster) -> None:
    api.objects["/api/v1/namespaces/ns/pods/x"] = POD
    api.faults = [CONFLICT, None] * 6
    with pytest.raises(ConflictError):
        cluster.delete(PODS, "x", "ns")


def test_fields_of_another_manager_are_no_passing_conflict(api: Api, cluster: Cluster) -> None:
    api.objects["/api/v1/namespaces/ns/pods/x"] = POD
    api.faults = [(409, status("Conflict", ("FieldManagerConflict",)), {})]
    with pytest.raises(ConflictError):
        cluster.apply(PODS, POD, "ns")
    assert len(api.asked) == 1


def test_a_replacement_whose_answer_is_lost_is_known_as_ours(api: Api, cluster: Cluster) -> None:
    api.objects["/api/v1/namespaces/ns/pods/x"] = {**POD, "metadata": {**POD["metadata"], "resourceVersion": "4"}}
    api.faults = [LOST]
    body = {"metadata": {**POD["metadata"], "resourceVersion": "4"}, "spec": {"a": 2}}
    assert cluster.replace(PODS, body, "ns")["metadata"]["resourceVersion"] == "5"


def test_a_replacement_loses_against_another_writer(api: Api, cluster: Cluster) -> None:
    api.objects["/api/v1/namespaces/ns/pods/x"] = {**POD, "metadata": {**POD["metadata"], "resourceVersion": "5"}}
    body = {"metadata": {**POD["metadata"], "resourceVersion": "4"}, "spec": {"a": 2}}
    with pytest.raises(ConflictError):
        cluster.replace(PODS, body, "ns")
    assert len(api.asked) == 1


def test_a_change_is_made_again_on_what_the_other_wrote(api: Api, cluster: Cluster) -> None:
    path, seen = "/api/v1/namespaces/ns/pods/x", []
    api.objects[path] = {"metadata": {"name": "x", "resourceVersion": "1"}, "spec": {"theirs": 1}}

    def edit(found: Json) -> Json:
        seen.append(found["spec"]["theirs"])
        if len(seen) == 1:
            api.objects[path] = {"metadata": {"name": "x", "resourceVersion": "9"}, "spec": {"theirs": 2}}
        return {**found, "spec": {**found["spec"], "ours": 1}}

    assert cluster.change(PODS, "x", edit, "ns")["spec"] == {"theirs": 2, "ours": 1}
    assert seen == [1, 2]


def test_what_needs_no_change_is_not_written(api: Api, cluster: Cluster) -> None:
    api.objects["/api/v1/nodes/a"] = {"metadata": {"name": "a"}}
    cluster.change(NODES, "a", lambda _found: None)
    assert [method for method, _path in api.asked] == ["GET"]


def test_holding_is_having_all_that_is_wanted() -> None:
    assert holds({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 1}})
    assert not holds({"a": {"b": 1}}, {"a": {"b": 2}})
    assert not holds({"d": [1, 2]}, {"d": [1]})


# Credentials.


def _kubeconfig(path: Path, api: Api, user: Json) -> Connection:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{api.server_port}"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return Connection(kubeconfig=str(path))


def _plugin(path: Path) -> Json:
    """Return a user whose token comes from a program, without an expiry: it prints what the file says."""
    credential = (
        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "%s"}}'
    )
    script = f"#!/bin/sh\nprintf '{credential}' \"$(cat {path}.token)\"\n"
    path.write_text(script, encoding="utf-8")
    path.chmod(0o755)
    api_version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": api_version, "command": str(path), "interactiveMode": "Never"}}


@pytest.mark.usefixtures("pauses")
@pytest.mark.parametrize("source", ["kubeconfig", "tokenFile", "exec"])
def test_a_token_that_expires_is_read_again(api: Api, tmp_path: Path, source: str) -> None:
    token, plugin, config = tmp_path / "plugin.token", tmp_path / "plugin", tmp_path / "config"
    token.write_text("old", encoding="utf-8")

    def user(value: str) -> Json:
        users = {"kubeconfig": {"token": value}, "tokenFile": {"tokenFile": str(token)}, "exec": _plugin(plugin)}
        return users[source]

    api.tokens, api.objects["/api/v1/nodes/a"] = {"old"}, {"metadata": {"name": "a"}}
    with Cluster(_kubeconfig(config, api, user("old")), 5) as cluster:
        cluster.get(NODES, "a")
        api.tokens = {"new"}
        token.write_text("new", encoding="utf-8")
        _kubeconfig(config, api, user("new"))
        assert cluster.get(NODES, "a")["metadata"]["name"] == "a"
        assert cluster.transport.headers()["authorization"] == "Bearer new"


def test_a_token_that_stays_wrong_is_an_error_that_says_so(api: Api, cluster: Cluster) -> None:
    api.tokens = {"another"}
    with pytest.raises(UnauthorizedError, match="not authenticated"):
        cluster.get(NODES, "a")
    assert len(api.asked) <= 4


@pytest.mark.usefixtures("pauses")
def test_a_kubeconfig_that_is_gone_when_it_is_read_again_is_named(api: Api, tmp_path: Path) -> None:
    api.tokens = {"old"}
    with Cluster(_kubeconfig(tmp_path / "config", api, {"token": "expired"}), 5) as cluster:
        (tmp_path / "config").unlink()
        with pytest.raises(UnauthorizedError, match="reading the credentials again: no such file"):
            cluster.get(NODES, "a")


def test_the_oldest_client_sends_the_key_too(api: Api, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def auth_settings(self: Any) -> Json:
        # As release 31 of the client does it.
        if "authorization" not in self.api_key:
            return {}
        return {"BearerToken": {"in": "header", "key": "authorization", "value": self.api_key["authorization"]}}

    monkeypatch.setattr(Configuration, "auth_settings", auth_settings)
    api.tokens, api.objects["/api/v1/nodes/a"] = {"abc"}, {"metadata": {"name": "a"}}
    assert cluster.get(NODES, "a")


# Outages.


def test_an_outage_costs_its_patience_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(persistence.time, "monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(persistence.time, "sleep", sleep)
    outage = Outage(150)

    def dead() -> float:
        began, tries = now[0], Tries(outage, started=now[0])
        while tries.again(Fault(sent=False), repeatable=False):
            now[0] += 0.1
        return now[0] - began

    assert 145 < dead() < 152
    assert dead() < 1
    outage.note(Fault(status=200))
    assert 145 < dead() < 152


def test_a_restart_of_a_minute_is_survived_and_costs_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(persistence.time, "monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(persistence.time, "sleep", sleep)
    for fault in (Fault(sent=False), Fault(), Fault(status=503), Fault(status=502)):
        began, tries = now[0], Tries(Outage(150), started=now[0])
        while now[0] - began < 60:
            assert tries.again(fault, repeatable=True)
        assert now[0] - began < 66


@pytest.mark.usefixtures("pauses")
def test_a_server_that_comes_back_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("http_proxy", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    started: list[Api] = []

    def come_back() -> None:
        time.sleep(0.2)
        started.append(Api(port))
        started[0].objects["/api/v1/nodes/a"] = {"metadata": {"name": "a"}}
        threading.Thread(target=started[0].serve_forever, args=(0.01,), daemon=True).start()

    thread = threading.Thread(target=come_back)
    thread.start()
    with Cluster(Connection(host=f"http://127.0.0.1:{port}"), 5, 10) as cluster:
        assert cluster.get(NODES, "a")
    thread.join()
    started[0].shutdown()
    started[0].server_close()


def test_a_server_that_has_just_come_back_is_not_believed_that_we_may_nothing(api: Api, cluster: Cluster) -> None:
    api.objects["/api/v1/nodes/a"] = {"metadata": {"name": "a"}}
    api.faults = [RESET, _busy(403), _busy(403)]
    assert cluster.get(NODES, "a")
    api.faults = []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3", 3.0), (" 3 ", 3.0), ("0", 0.0), ("", 0.0), ("nan", 0.0), ("inf", 0.0), ("-5", 0.0), ("1e3", 0.0),
        ("1000000000", LONGEST_PAUSE_S), ("9" * 5000, LONGEST_PAUSE_S), ("٣", 0.0), ("soon", 0.0),
        ("Sun, 22 Nov 2026 12:00:10 GMT", 10.0), ("Sun, 22 Nov 2026 11:00:00 GMT", 0.0),
        ("Sun, 22 Nov 2076 12:00:00 GMT", LONGEST_PAUSE_S), ("Sun, 99 Nov 2026 12:00:00 GMT", 0.0),
    ],
)  # fmt: skip
def test_what_a_server_asks_for_is_bounded(text: str, seconds: float) -> None:
    assert retry_after_s(text, datetime(2026, 11, 22, 12, tzinfo=UTC)) == seconds


@pytest.mark.parametrize("asked", ["nan", "-1", "1000000000", "Sun, 22 Nov 2076 12:00:00 GMT", "2"])
def test_any_retry_after_is_survived(api: Api, cluster: Cluster, pauses: list[float], asked: str) -> None:
    api.objects["/api/v1/nodes/a"] = {"metadata": {"name": "a"}}
    api.faults = [_busy(429, Retry_After=asked)]
    assert cluster.get(NODES, "a")
    assert 0 < pauses[0] <= LONGEST_PAUSE_S
    assert asked != "2" or pauses[0] >= 2


def test_pauses_grow_and_differ() -> None:
    backoff = Backoff(0.2, 5.0)
    drawn = [backoff.pause_s() for _try in range(8)]
    steps = [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert all(step / 2 <= pause <= step for pause, step in zip(drawn, steps, strict=True))


# Watches.


def _event(name: str, version: int, kind: str = "ADDED") -> bytes:
    return json.dumps({"type": kind, "object": {"metadata": {"name": name, "resourceVersion": str(version)}}}).encode()


def test_a_watch_that_is_cut_goes_on_from_the_last_whole_event(api: Api, cluster: Cluster) -> None:
    versions: list[str] = []

    def part(*parts: bytes) -> Callable[[str], list[bytes]]:
        def take(path: str) -> list[bytes]:
            versions.append(path.partition("resourceVersion=")[2].partition("&")[0])
            return list(parts)

        return take

    bookmark = _event("", 6, "BOOKMARK")
    api.stream = [
        part(_event("a", 5) + b"\n" + bookmark + b"\n" + _event("b", 7)[:20], b""),
        part(b""),
        part(_event("b", 7) + b"\n"),
    ]
    seen = [found["metadata"]["name"] for _type, found in cluster.watch(PODS, Deadline.after(5), version="4")]
    assert seen == ["a", "b"]
    assert versions == ["4", "6", "6"]


@pytest.mark.parametrize("line", [b"nonsense", b"[]", b'{"type": "ADDED"}', b'{"type": "ADDED", "object": 3}'])
def test_nonsense_in_a_watch_is_no_event(api: Api, cluster: Cluster, line: bytes) -> None:
    api.stream = [lambda _path: [line + b"\n"]]
    with pytest.raises(UnavailableError, match="not an event"):
        list(cluster.watch(PODS, Deadline.after(5)))


def test_a_forgotten_version_is_told_after_a_break_as_well(api: Api, cluster: Cluster) -> None:
    gone = json.dumps({"type": "ERROR", "object": {"code": 410}}).encode() + b"\n"
    api.stream = [lambda _path: [_event("a", 5) + b"\n", b""], lambda _path: [gone]]
    with pytest.raises(GoneError):
        list(cluster.watch(PODS, Deadline.after(5), version="4"))
