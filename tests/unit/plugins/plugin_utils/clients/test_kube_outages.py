# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Credentials that expire, servers that are away, and watches that break."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import Configuration
from spoiled_api import RESET, Api, Json, busy, status

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import errors
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import (
    CONTROLLERS_LATE_S,
    Fault,
    ForbiddenError,
    GoneError,
    Outage,
    Tries,
    UnauthorizedError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import NODES, PODS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.permission import Permission
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import (
    LONGEST_PAUSE_S,
    Backoff,
    Deadline,
    retry_after_s,
)


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
    monkeypatch.setattr(errors.time, "monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(errors.time, "sleep", sleep)
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
    monkeypatch.setattr(errors.time, "monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(errors.time, "sleep", sleep)
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
    api.faults = [RESET, busy(403), busy(403)]
    assert cluster.get(NODES, "a")
    api.faults = []


STARTING = [
    'nodes "a" is forbidden: not yet ready to handle request',
    'nodes "a" is forbidden: User "me" cannot get resource "nodes" in API group "" at the cluster scope: RBAC: '
    'clusterrole.rbac.authorization.k8s.io "gpufleet-test" not found',
]


@pytest.mark.parametrize("said", STARTING)
def test_a_server_that_says_that_it_has_just_started_is_asked_again_by_who_did_not_see_it_go(
    api: Api, cluster: Cluster, said: str
) -> None:
    api.objects["/api/v1/nodes/a"] = {"metadata": {"name": "a"}}
    api.faults = [(403, status(said), {}), (403, status(said), {})]
    assert cluster.get(NODES, "a")
    assert api.faults == []


def test_a_role_that_is_never_there_is_waited_for_once(api: Api, cluster: Cluster, pauses: list[float]) -> None:
    """A binding may name a role that nobody made: who asks much must not wait each time."""
    api.faults = [(403, status(STARTING[1]), {})] * 40
    for _request in range(2):
        with pytest.raises(ForbiddenError, match="gpufleet-test"):
            cluster.get(NODES, "a")
    tried = len(pauses)
    assert tried == 2 * 9
    cluster.transport.outage._missing = dict.fromkeys(cluster.transport.outage._missing, -1000000000.0)
    with pytest.raises(ForbiddenError):
        cluster.get(NODES, "a")
    assert len(pauses) == tried
    api.faults = []


def _review(allowed: bool, reason: str = "") -> tuple[int, Json, dict[str, str]]:
    return 201, {"status": {"allowed": allowed, "reason": reason}}, {}


def test_a_server_that_has_not_read_its_roles_is_asked_again_what_we_may(api: Api, cluster: Cluster) -> None:
    """Before it has, it denies everything, as an answer that is a success."""
    loading = 'RBAC: clusterrole.rbac.authorization.k8s.io "gpufleet-test" not found'
    api.faults = [_review(False, loading), _review(False, loading), _review(True)]
    assert cluster.can_i(Permission("create", "pods")).allowed
    api.faults = [_review(False)]
    assert not cluster.can_i(Permission("create", "pods")).allowed
    cluster.transport.outage._missing = dict.fromkeys(cluster.transport.outage._missing, -1000000000.0)
    api.faults = [_review(False, loading)]
    assert not cluster.can_i(Permission("create", "pods")).allowed
    assert api.faults == []


def test_who_may_not_is_told_at_once(api: Api, cluster: Cluster, pauses: list[float]) -> None:
    api.faults = [(403, status('nodes "a" is forbidden: User "me" cannot get resource "nodes"'), {})]
    with pytest.raises(ForbiddenError):
        cluster.get(NODES, "a")
    assert pauses == []


@pytest.mark.parametrize(("lost_s", "late_s"), [(0.0, 0.0), (20.0, 20.0 + CONTROLLERS_LATE_S)])
def test_what_others_do_is_late_by_the_outage_and_their_way_back(lost_s: float, late_s: float) -> None:
    outage = Outage(150.0, away_s=7.0)
    before_s, outage.away_s = outage.away_s, outage.away_s + lost_s
    assert outage.late_s(before_s) == late_s


def test_a_request_whose_time_is_over_ends_as_one_and_does_not_crash(api: Api, cluster: Cluster) -> None:
    api.objects["/api/v1/nodes/a"] = {"metadata": {"name": "a"}}
    over = Deadline.after(0.0)
    status, _text = cluster.transport.exchange("GET", "/api/v1/nodes/a", headers={}, payload=None, deadline=over)
    assert status == 200


def test_faults_between_refusals_do_not_have_the_last_word(api: Api, cluster: Cluster, pauses: list[float]) -> None:
    """What is refused for good on a server that breaks all the time is refused, and not one of its other faults."""
    api.faults = [RESET, *[fault for _round in range(9) for fault in (busy(403), busy(500))], busy(403), busy(500)]
    with pytest.raises(ForbiddenError):
        cluster.get(NODES, "a")
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
    api.faults = [busy(429, Retry_After=asked)]
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


@pytest.mark.usefixtures("pauses")
@pytest.mark.parametrize(("status", "made"), [(429, 30), (503, 4)])
def test_a_server_without_time_is_waited_for_where_nobody_behind_it_is(status: int, made: int) -> None:
    """A log or a service stands behind the API server: its 503 is that of one kubelet, a 429 is the server's own."""
    tries = Tries(Outage(patience_s=60.0), patient=False, answered=4)
    busy_server = Fault(status=status, asked_s=1.0)
    count = 1
    while count < made + 1 and tries.again(busy_server, repeatable=True):
        count += 1
    assert count == (made + 1 if status == 429 else made)
