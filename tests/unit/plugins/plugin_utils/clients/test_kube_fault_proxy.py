# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A working day of a client behind a proxy that spoils three of ten requests: nothing is lost or made twice."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fault_proxy
import pytest
from fault_proxy import FAULTS, FaultProxy
from served import served

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import cluster as cluster_module
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import errors
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import UnreachableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import PODS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline

Json = dict[str, Any]
COLLECTION = "/api/v1/namespaces/ns/pods"


class Store(ThreadingHTTPServer):
    """Pods of one namespace; `writes` counts what was carried out, by verb and name."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pods: dict[str, Json] = {}
        self.events: list[Json] = []
        self.writes: list[tuple[str, str]] = []
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Store

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        path, _mark, query = self.path.partition("?")
        with self.server.lock:
            if "watch=true" in query:
                return self._watch(int(query.partition("resourceVersion=")[2].partition("&")[0]))
            code, answer = self._carried_out(path.removeprefix(COLLECTION).strip("/"), body)
        text = json.dumps(answer).encode()
        self._head(code, {"Content-Length": str(len(text))})
        self.wfile.write(text)
        return None

    def _carried_out(self, name: str, body: Json | None) -> tuple[int, Json]:
        pods = self.server.pods
        if self.command == "GET" and not name:
            return 200, {"items": list(pods.values()), "metadata": {"resourceVersion": str(len(self.server.events))}}
        if self.command == "POST" and body is not None:
            name = body["metadata"]["name"]
            if name in pods:
                return 409, {"reason": "AlreadyExists"}
            body["metadata"]["resourceVersion"] = str(len(self.server.events) + 1)
            pods[name] = body
            self.server.events.append({"type": "ADDED", "object": body})
        elif name not in pods:
            return 404, {"reason": "NotFound"}
        elif self.command == "DELETE":
            del pods[name]
        elif self.command == "PATCH" and body is not None:
            pods[name] = {**pods[name], "spec": body["spec"]}
        if self.command != "GET":
            self.server.writes.append((self.command, name))
        return 200, pods.get(name, {})

    def _watch(self, version: int) -> None:
        self._head(200, {"Transfer-Encoding": "chunked"})
        for event in self.server.events[version:]:
            line = json.dumps(event).encode() + b"\n"
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def _head(self, code: int, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    do_GET = do_POST = do_PATCH = do_DELETE = _answer

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def store() -> Iterator[Store]:
    with served(Store()) as running:
        yield running


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    pause = threading.Event()

    def sleep(seconds: float) -> None:
        pause.wait(min(seconds, 0.001))

    for module in (errors, cluster_module):
        monkeypatch.setattr(module.time, "sleep", sleep)
    monkeypatch.setattr(fault_proxy, "_SLOW_S", 0.01)
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.delenv("HTTP_PROXY", raising=False)


def _proxy(store: Store, seed: int, share: float = 0.3) -> FaultProxy:
    return FaultProxy(lambda: socket.create_connection(("127.0.0.1", store.server_port)), seed=seed, share=share)


def _day(cluster: Cluster, pods: int) -> None:
    """Make pods, look at them, change them, watch them and remove every second one."""
    labels = {"gpufleet.io/test": "run-1"}
    for number in range(pods):
        cluster.create(PODS, {"metadata": {"name": f"p{number}", "labels": labels}, "spec": {"n": 0}}, "ns")
        assert len(cluster.list_objects(PODS, "ns")) == number + 1
        cluster.patch(PODS, f"p{number}", {"spec": {"n": number}}, "ns")
    seen: list[str] = []
    version = "0"
    while len(seen) < pods:
        for _type, found in cluster.watch(PODS, Deadline.after(20), "ns", version=version):
            seen.append(found["metadata"]["name"])
            version = found["metadata"]["resourceVersion"]
    assert seen == [f"p{number}" for number in range(pods)]
    for number in range(0, pods, 2):
        assert cluster.delete(PODS, f"p{number}", "ns") is True


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_three_spoiled_requests_of_ten_change_nothing(store: Store, seed: int) -> None:
    proxy = _proxy(store, seed)
    proxy.start()
    with Cluster(Connection(host=proxy.url), 5, 60) as cluster:
        _day(cluster, 30)
    proxy.stop()
    assert {name: pod["spec"]["n"] for name, pod in store.pods.items()} == {f"p{n}": n for n in range(1, 30, 2)}
    for verb, of in (("POST", range(30)), ("DELETE", range(0, 30, 2))):
        assert [entry for entry in store.writes if entry[0] == verb] == [(verb, f"p{number}") for number in of]
    total, spoiled = sum(proxy.counts.values()), sum(proxy.counts[fault] for fault in FAULTS)
    assert 0.2 < spoiled / total < 0.4
    assert all(proxy.counts[fault] for fault in FAULTS)


def test_a_proxy_that_spoils_nothing_is_a_server(store: Store) -> None:
    proxy = _proxy(store, 1, share=0.0)
    proxy.start()
    with Cluster(Connection(host=proxy.url), 5, 1) as cluster:
        _day(cluster, 3)
    proxy.stop()
    assert set(proxy.counts) == {"passed on"}


def test_a_proxy_that_spoils_everything_is_no_server(store: Store) -> None:
    proxy = _proxy(store, 1)
    proxy.away.set()
    proxy.start()
    with Cluster(Connection(host=proxy.url), 5, 0.2) as cluster, pytest.raises(UnreachableError, match="tries in"):
        cluster.list_objects(PODS, "ns")
    proxy.stop()
