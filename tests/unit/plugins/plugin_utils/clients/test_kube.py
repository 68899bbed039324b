# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Kubernetes client against a server that answers what a test tells it to: pages, retries, watches, errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from served import served

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import (
    Connection,
    connection_from,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import (
    ConflictError,
    ForbiddenError,
    GoneError,
    RefusedError,
    UnreachableError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NODES, PODS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.permission import Permission
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.streams import exit_code
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.wait import (
    OK,
    State,
    failed,
    pending,
    wait_all,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.read import (
    WORKLOAD_KINDS,
    read_workloads,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import (
    InputError,
    NotFoundError,
    UnavailableError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline


class Server(ThreadingHTTPServer):
    """Answers with what is queued; remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []

    def say(self, status: int, body: Any, **headers: str) -> None:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers.append((status, headers, text))


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        self.server.asked.append((self.command, self.path, dict(self.headers), body))
        status, headers, text = self.server.answers.pop(0)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(text))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PATCH = do_DELETE = _answer

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with served(Server()) as running:
        yield running


@pytest.fixture
def cluster(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Cluster(Connection(host=f"http://127.0.0.1:{server.server_port}", api_key="abc"), 5) as found:
        yield found


def _page(*names: str, token: str = "") -> dict[str, Any]:
    metadata = {"continue": token, "resourceVersion": "7"} if token else {"resourceVersion": "7"}
    return {"items": [{"metadata": {"name": name}} for name in names], "metadata": metadata}


def test_a_list_is_read_page_by_page(server: Server, cluster: Cluster) -> None:
    server.say(200, _page("a", token="next"))
    server.say(200, _page("b"))
    assert [item["metadata"]["name"] for item in cluster.list_objects(NODES)] == ["a", "b"]
    assert "continue=next" in server.asked[1][1]
    assert server.asked[0][2]["authorization"] == "Bearer abc"


def test_a_list_that_expires_starts_over(server: Server, cluster: Cluster) -> None:
    server.say(200, _page("a", token="next"))
    server.say(410, {"message": "too old"})
    server.say(200, _page("a"))
    assert len(cluster.list_objects(NODES)) == 1


def test_a_busy_server_is_asked_again(server: Server, cluster: Cluster) -> None:
    server.say(429, {}, Retry_After="0")
    server.say(503, {})
    server.say(200, _page("a"))
    assert len(cluster.list_objects(NODES)) == 1


def test_a_change_is_not_sent_twice(server: Server, cluster: Cluster) -> None:
    server.say(500, {"message": "boom"})
    with pytest.raises(UnavailableError, match="boom"):
        cluster.create(PODS, {}, "ns")
    assert len(server.asked) == 1


@pytest.mark.parametrize("body", [b"<html>login</html>", b"", b"[]", b"{}", b"null"])
def test_nonsense_is_not_an_empty_list(server: Server, cluster: Cluster, body: bytes) -> None:
    server.say(200, body)
    with pytest.raises(UnavailableError):
        cluster.list_objects(NODES)


@pytest.mark.parametrize(
    ("status", "error"),
    [(403, ForbiddenError), (404, NotFoundError), (409, ConflictError), (422, RefusedError)],
)
def test_errors_say_what_was_refused(server: Server, cluster: Cluster, status: int, error: type[Exception]) -> None:
    server.say(status, {"message": 'pods "x" is bad: User "eve" cannot'})
    with pytest.raises(error, match=r"create /api/v1/namespaces/ns/pods: .*eve"):
        cluster.create(PODS, {}, "ns")


def test_absence_is_an_answer_where_it_is_asked_for(server: Server, cluster: Cluster) -> None:
    for _read in range(3):
        server.say(404, {"message": "no"})
    assert cluster.find(PODS, "x", "ns") is None
    assert cluster.find_all(PODS) is None
    assert cluster.delete(PODS, "x", "ns") is False


def test_apply_is_strict_and_ours(server: Server, cluster: Cluster) -> None:
    server.say(200, {})
    cluster.apply(PODS, {"metadata": {"name": "x"}}, "ns", dry_run=True)
    method, path, headers, body = server.asked[0]
    assert method == "PATCH"
    assert headers["Content-Type"] == "application/apply-patch+yaml"
    assert all(
        word in path for word in ("fieldValidation=Strict", "dryRun=All", "fieldManager=gpufleet", "force=false")
    )
    assert body["kind"] == "Pod"


def test_a_watch_that_is_too_old_says_so(server: Server, cluster: Cluster) -> None:
    lines = [{"type": "ADDED", "object": {"metadata": {"name": "a"}}}, {"type": "ERROR", "object": {"code": 410}}]
    server.say(200, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    seen = []
    with pytest.raises(GoneError):
        for kind, _obj in cluster.watch(PODS, Deadline.after(5), version="1"):
            seen.append(kind)
    assert seen == ["ADDED"]


@pytest.mark.parametrize(
    ("answer", "allowed"), [({"status": {"allowed": True}}, True), ({"status": {}}, False), ({}, False)]
)
def test_permission_is_only_what_is_granted(server: Server, cluster: Cluster, answer: Any, allowed: bool) -> None:
    server.say(201, answer)
    assert cluster.can_i(Permission("list", "pods")).allowed is allowed


def test_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.delenv("HTTP_PROXY", raising=False)
    with pytest.raises(UnreachableError, match="cannot be reached"):
        Cluster(Connection(host="http://127.0.0.1:1"), 2, 0.1).version()


@pytest.mark.parametrize("text", ["", "x: [", "clusters: 3", "{}", "[]"])
def test_a_broken_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="kubeconfig"):
        Cluster(Connection(kubeconfig=str(path)))
    with pytest.raises(InputError, match="no such file"):
        Cluster(Connection(kubeconfig=str(tmp_path / "gone")))


def test_options_win_over_the_environment() -> None:
    env = {
        "K8S_AUTH_KUBECONFIG": "/env",
        "K8S_AUTH_CONTEXT": "env",
        "K8S_AUTH_VERIFY_SSL": "no",
        "K8S_AUTH_API_KEY": "s3",
    }
    found = connection_from({"kubeconfig": "/option"}, env)
    assert (found.kubeconfig, found.context, found.validate_certs) == ("/option", "env", False)
    assert "s3" not in repr(found)


def test_paths() -> None:
    kind = Kind("apps/v1", "Deployment", "deployments")
    assert kind.path("a b", "n/s", "scale") == "/apis/apps/v1/namespaces/n%2Fs/deployments/a%20b/scale"
    with pytest.raises(InputError, match="namespace"):
        kind.path("a")


@pytest.mark.parametrize(
    ("end", "reads"), [(OK, 3), (failed("image-pull-failed", "no such image"), 3), (pending("later"), 99)]
)
def test_a_wait_ends_when_all_are_ok_or_one_is_lost(end: State, reads: int) -> None:
    count, lines = 0, []

    def read() -> dict[str, State]:
        nonlocal count
        count += 1
        return {"a": OK, "b": end if count >= 3 else pending("not yet")}

    states = wait_all(read, Deadline.after(0.2), "parts", lines.append, 0.001)
    assert states["b"] == end
    assert count == reads if reads < 99 else count > 3
    assert lines[0].startswith("parts: 1 of 2; b: not yet")


@pytest.mark.parametrize(
    ("status", "rc"),
    [
        ('{"status": "Success"}', 0),
        ('{"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}}', 3),
        ('{"status": "Failure", "message": "command terminated with exit code 126"}', 126),
        ('{"status": "Failure", "message": "cmd wait: sh: exit status 3"}', 3),
        ('{"status": "Failure", "message": "container not running"}', None),
        ('{"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "x"}]}}', None),
        ("", None),
        ("[]", None),
        ("broken pipe", None),
    ],
)
def test_an_exit_code_is_read_or_not_known(status: str, rc: int | None) -> None:
    assert exit_code(status)[0] == rc


@pytest.mark.parametrize("ahead_s", [-300, 0, 300])
def test_times_of_objects_are_read_by_the_clock_of_the_server(
    server: Server, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, ahead_s: int
) -> None:
    """A workstation whose clock is wrong neither waits for ever nor believes in readiness that is too young."""
    its_time = datetime.now(UTC) + timedelta(seconds=ahead_s)
    monkeypatch.setattr(_Handler, "date_time_string", lambda self: format_datetime(its_time, usegmt=True))
    server.say(200, _page())
    cluster.list_objects(NODES)
    assert abs((cluster.transport.now() - its_time).total_seconds()) < 10

    since = (its_time - timedelta(seconds=90)).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    labels = {"app": "x"}
    pod = {"metadata": {"name": "x-1", "namespace": "ns", "labels": labels}, "status": {"conditions": [condition]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}}
    progress = {"readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "replicas": 1}
    deployment = {"metadata": {"name": "x", "namespace": "ns"}, "spec": spec, "status": progress}
    for kind in (PODS, *WORKLOAD_KINDS):
        items = {"Pod": [pod], "Deployment": [deployment]}.get(kind.kind, [])
        server.say(200, {"items": items, "metadata": {"resourceVersion": "7"}})
    (workload,) = read_workloads(cluster, ["ns"], 0.0)
    assert workload.ready_for_s is not None and 85 < workload.ready_for_s < 100


def test_who_says_no_time_has_ours(server: Server, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Handler, "date_time_string", lambda self: "soon")
    server.say(200, _page())
    cluster.list_objects(NODES)
    assert abs((cluster.transport.now() - datetime.now(UTC)).total_seconds()) < 5
