# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of requests share: a server that misbehaves, and a client whose pauses are short."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from served import served
from spoiled_api import Api

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import cluster as cluster_module
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube import errors
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection


@pytest.fixture
def api() -> Iterator[Api]:
    with served(Api()) as running:
        yield running


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every pause that was made; they are made short."""
    seen: list[float] = []
    real = time.sleep

    def sleep(seconds: float) -> None:
        seen.append(seconds)
        real(min(seconds, 0.002))

    monkeypatch.setattr(errors.time, "sleep", sleep)
    monkeypatch.setattr(cluster_module.time, "sleep", sleep)
    return seen


@pytest.fixture
def cluster(api: Api, pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    assert pauses == []
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Cluster(Connection(host=f"http://127.0.0.1:{api.server_port}", api_key="abc"), 5) as found:
        yield found
