# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that are waited for: one list for each change, none while nothing changes, and no trust in a watch alone."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
import spoiled_api
from served import served

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.errors import (
    ForbiddenError,
    GoneError,
    UnreachableError,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import BringupError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload import pods
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.pods import PodView


class Api:
    """An API server with one namespace; it counts what it is asked."""

    def __init__(self) -> None:
        self.lists = self.watches = self.version = 0
        self.problem: BringupError | None = None
        self.changed = threading.Event()

    def list_with_version(self, *_asked: Any) -> tuple[list[dict[str, Any]], str]:
        self.lists += 1
        return [{"metadata": {"name": f"pod-{self.version}"}}], str(self.version + 1)

    def watch(
        self, _kind: Any, deadline: Deadline, _namespace: str, *, version: str
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        self.watches += 1
        if self.problem is not None:
            raise self.problem
        if self.version + 1 > int(version) or self.changed.wait(deadline.left_s):
            self.changed.clear()
            yield "MODIFIED", {}

    def change(self) -> None:
        self.version += 1
        self.changed.set()


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def view(api: Api, monkeypatch: pytest.MonkeyPatch) -> PodView:
    monkeypatch.setattr(pods, "_BURST_S", 0.01)
    return PodView(cast(Cluster, api), "ns")


def test_while_nothing_changes_nothing_is_listed(api: Api, view: PodView) -> None:
    for _time in range(5):
        assert [pod["metadata"]["name"] for pod in view.pods()] == ["pod-0"]
        view.wait(0.02)
    assert (api.lists, api.watches) == (1, 5)


def test_a_change_ends_the_wait_and_is_seen(api: Api, view: PodView) -> None:
    view.pods()
    threading.Timer(0.05, api.change).start()
    begun = time.monotonic()
    view.wait(30.0)
    assert time.monotonic() - begun < 10
    assert [pod["metadata"]["name"] for pod in view.pods()] == ["pod-1"]
    assert api.lists == 2


def test_a_change_between_list_and_watch_is_seen(api: Api, view: PodView) -> None:
    view.pods()
    api.change()
    view.wait(30.0)
    assert [pod["metadata"]["name"] for pod in view.pods()] == ["pod-1"]


@pytest.mark.parametrize(
    "problem",
    [GoneError("watch", "version expired."), ForbiddenError("watch", "no."), UnreachableError("watch", "reset.")],
    ids=["gone", "forbidden", "unreachable"],
)
def test_without_a_watch_every_look_is_a_list(api: Api, view: PodView, problem: BringupError) -> None:
    api.problem = problem
    view.pods()
    begun = time.monotonic()
    view.wait(0.05)
    assert time.monotonic() - begun >= 0.04, "a refused watch is no busy loop"
    api.version += 1
    assert [pod["metadata"]["name"] for pod in view.pods()] == ["pod-1"]
    assert api.lists == 2


def test_an_old_list_is_not_believed(api: Api, view: PodView, monkeypatch: pytest.MonkeyPatch) -> None:
    view.pods()
    monkeypatch.setattr(pods, "_BELIEVED_S", 0.0)
    view.pods()
    assert api.lists == 2


def test_what_we_changed_ourselves_is_looked_at(api: Api, view: PodView) -> None:
    view.pods()
    view.forget()
    view.pods()
    assert api.lists == 2


PATH = "/api/v1/namespaces/ns/pods"


def event(kind: str, version: int) -> bytes:
    found = {"kind": "Pod", "metadata": {"name": "one", "resourceVersion": str(version)}}
    return json.dumps({"type": kind, "object": found}).encode() + b"\n"


@pytest.mark.parametrize(
    ("streams", "lists"),
    [
        # Nothing and a bookmark: the list stands. A change: another list.
        ([[], [event("BOOKMARK", 9)]], 1),
        ([[event("BOOKMARK", 9), event("MODIFIED", 10)], []], 2),
        # The server forgot the version, and an answer that is no event.
        ([[json.dumps({"type": "ERROR", "object": {"code": 410}}).encode() + b"\n"], []], 2),
        ([[b"<html>a proxy</html>\n"], []], 2),
    ],
    ids=["nothing", "change", "gone", "no event"],
)
def test_over_http(streams: list[list[bytes]], lists: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pods, "_BURST_S", 0.01)
    with served(spoiled_api.Api()) as api:
        api.objects[PATH] = {"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": "one"}}]}
        api.stream = [lambda _path, parts=parts: parts for parts in streams]  # type: ignore[misc]
        with Cluster(Connection(host=f"http://127.0.0.1:{api.server_port}", api_key="abc"), 5) as cluster:
            found = PodView(cluster, "ns")
            for _stream in streams:
                assert [pod["metadata"]["name"] for pod in found.pods()] == ["one"]
                found.wait(0.3)
            found.pods()
        asked = [path for _method, path in api.asked]
    assert sum("watch=true" not in path for path in asked) == lists
    watches = [path for path in asked if "watch=true" in path]
    assert len(watches) == len(streams)
    assert all("resourceVersion=5" in path for path in watches)
