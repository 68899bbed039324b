# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds whose CRD is not installed yet: asked for all of them at once, each is listed when it is there."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any, cast

import pytest
from waiting import eventually

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import (
    KAI_QUEUES,
    VOLCANO_POD_GROUPS,
    VOLCANO_QUEUES,
    Kind,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import NotFoundError
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers import main as store_module
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.controllers.main import Served, Store, follow


class Server:
    """Serves some kinds; counts what it is asked for."""

    def __init__(self) -> None:
        self.kinds: set[Kind] = set()
        self.asked: Counter[str] = Counter()
        self.transport = self

    def json(self, _method: str, path: str) -> dict[str, Any]:
        self.asked[path] += 1
        return {"groups": [{"name": kind.group} for kind in self.kinds]}

    def list_with_version(self, kind: Kind) -> tuple[list[dict[str, Any]], str]:
        self.asked[kind.title] += 1
        if kind not in self.kinds:
            raise NotFoundError(kind.title, "is not served.")
        return [{"metadata": {"name": kind.plural, "resourceVersion": "1"}}], "1"

    def watch(self, *_what: Any, **_options: Any) -> list[Any]:
        threading.Event().wait(0.01)
        return []


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(store_module, "_AGAIN_S", 0.02)
    return Server()


def test_kinds_wait_for_their_group_and_are_listed_once_it_is_served(server: Server) -> None:
    kinds = (VOLCANO_QUEUES, VOLCANO_POD_GROUPS, KAI_QUEUES)
    cluster, store, stop = cast(Cluster, server), Store(kinds), threading.Event()
    served = Served(cluster, store)
    threads = [threading.Thread(target=follow, args=(cluster, store, kind, stop, served)) for kind in kinds]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: server.asked["/apis"] >= 5, what=lambda: server.asked)
        assert all(server.asked[kind.title] == 1 for kind in kinds), server.asked
        server.kinds.add(VOLCANO_QUEUES)
        eventually(lambda: list(store.view().all(VOLCANO_QUEUES)), what=lambda: server.asked)
        # A group may be served before each of its kinds is.
        server.kinds.add(VOLCANO_POD_GROUPS)
        eventually(lambda: list(store.view().all(VOLCANO_POD_GROUPS)), what=lambda: server.asked)
        assert server.asked[KAI_QUEUES.title] == 1 and not list(store.view().all(KAI_QUEUES))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
