# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""HTTP servers behind vLLM pods: one loopback port each, reached by port-forward.

One thread serves all of them. Their speed and quality follow from the current cluster model.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import PODS

from ..model.values import Node
from ..workloads.llm_http import LlmServer
from ..workloads.pod_simulator import words_of
from ..workloads.vllm_pods import handles, option
from .cluster_facts import Change, ClusterFacts, ClusterView, Json, Key, is_deleted, labels_of
from .pod_ports import backends_directory, register_backend

_SERVES = ("ok", "engine-dead")
_JOB_LABEL = "gpufleet.io/job"
_START_S = 10.0


@dataclass(slots=True)
class _RunningServer:
    """One server with its socket and port."""

    server: LlmServer
    socket: asyncio.Server
    port: int


@dataclass(slots=True)
class LlmServers:
    """Runs a server for every running vLLM pod. `ports` maps namespace and name of the Service to its port."""

    rehearsal: Path
    wake: Callable[[], None]
    ports: dict[Key, int] = field(default_factory=dict)
    _running: dict[Key, _RunningServer] = field(default_factory=dict)
    _loop: asyncio.AbstractEventLoop | None = None

    def reconcile(self, view: ClusterView, facts: ClusterFacts) -> list[Change]:
        """Start and stop servers as pods come and go. Nothing is written to the cluster."""
        wanted = {_key(pod): pod for pod in view.all(PODS) if _is_served(pod, facts)}
        for key in [key for key in self._running if key not in wanted]:
            self._stop(key)
        for key, pod in wanted.items():
            node = _node(pod, facts)
            if node is None:
                continue
            if key not in self._running:
                self._start(key, pod, node)
            self._running[key].server.serving = node.serving
        return []

    def _start(self, key: Key, pod: Json, node: Node) -> None:
        words = words_of(pod)
        gpus = int(
            (pod["spec"]["containers"][0]["resources"].get("limits") or {}).get("nvidia.com/gpu", len(node.gpus))
        )
        per_copy = int(option(words, "--tensor-parallel-size", "1"))
        server = LlmServer(
            name=option(words, "--served-model-name", words[2]), accelerator=node.accelerator,
            copies=max(1, gpus // per_copy), serving=node.serving,
        )  # fmt: skip
        socket = self._run(asyncio.start_server(server.connected, "127.0.0.1", 0))
        port = int(socket.sockets[0].getsockname()[1])
        self._running[key] = _RunningServer(server, socket, port)
        self.ports[key] = port
        inside = int(option(words, "--port", "8000"))
        register_backend(self.rehearsal, _file(key), {_JOB_LABEL: key[1]}, {inside: port}, key[0])
        self.wake()

    def _stop(self, key: Key) -> None:
        server = self._running.pop(key)
        self.ports.pop(key, None)
        (backends_directory(self.rehearsal) / f"{_file(key)}.json").unlink(missing_ok=True)
        self._run(_close(server.socket))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, daemon=True).start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_S)


async def _close(socket: asyncio.Server) -> None:
    socket.close()


def _file(key: Key) -> str:
    return f"{key[0]}-{key[1]}"


def _key(pod: Json) -> Key:
    return pod["metadata"]["namespace"], labels_of(pod).get(_JOB_LABEL, pod["metadata"]["name"])


def _is_served(pod: Json, facts: ClusterFacts) -> bool:
    running = (pod.get("status") or {}).get("phase") == "Running" and not is_deleted(pod)
    # Only few pods remain here, so the nodes are searched for each.
    node = _node(pod, facts) if running and handles(pod) else None
    if node is None or node.serving.state not in _SERVES:
        return False
    return not node.serving.hub_refusals or _has_recovered(pod)


def _has_recovered(pod: Json) -> bool:
    """Return whether a failed container runs again. Until then it has no weights to serve."""
    status = ((pod.get("status") or {}).get("containerStatuses") or [{}])[0]
    return bool(status.get("restartCount")) and "running" in (status.get("state") or {})


def _node(pod: Json, facts: ClusterFacts) -> Node | None:
    name = pod["spec"].get("nodeName", "")
    nodes = facts.model.nodes if facts.model else ()
    return next((node for node in nodes if node.name == name), None)
