# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Creates the first objects of a rehearsal: KWOK's resource definitions, then the nodes. Run by the supervisor.

It uses HTTP from the standard library: it runs at every start, and importing the official client would take longer than
its work.
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import MARK
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.codec import from_plain
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import UnavailableError
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.clock import Deadline
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.pool import map_bounded

from .kwok import NodeSpec, is_ready, node_object, resource_definitions
from .pki import Pki

_CREATED = (200, 201, 409)
_WORKERS = 8
_LIMIT_S = 110.0


@dataclass(slots=True)
class LocalApi:
    """The rehearsal's API server, with administrator rights and one connection per thread."""

    port: int
    context: ssl.SSLContext
    local: threading.local

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, Any]:
        """Return status and decoded body of a request. `kind` is the content type of its body."""
        connection: http.client.HTTPSConnection | None = getattr(self.local, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=self.context)
            self.local.connection = connection
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": kind})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    def create(self, path: str, body: dict[str, Any]) -> None:
        """Create an object. An existing one is no error.

        Raises:
            UnavailableError: the API server refuses it.
        """
        status, answer = self.call("POST", path, body)
        if status not in _CREATED:
            raise UnavailableError(f"{body['kind']} {body['metadata']['name']}", f"{status}: {answer.get('message')}")


def open_api(directory: Path, port: int) -> LocalApi:
    """Return the API of the control plane in a directory."""
    pki = Pki(directory / "pki")
    context = ssl.create_default_context(cafile=pki.ca)
    context.load_cert_chain(pki.cert("admin"), pki.key("admin"))
    return LocalApi(port, context, threading.local())


def mark_cluster(api: LocalApi) -> None:
    """Annotate the namespace whose UID identifies the cluster as a rehearsal's. It is created if it does not exist.

    Raises:
        UnavailableError: the API server refuses it.
    """
    name = "kube-system"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": {MARK: "true"}}}
    path = f"/api/v1/namespaces/{name}?fieldManager=gpufleet-rehearsal&force=true"
    status, answer = api.call("PATCH", path, body, "application/apply-patch+yaml")
    if status not in _CREATED:
        raise UnavailableError(f"namespace {name}", f"{status}: {answer.get('message')}")


def prime_definitions(api: LocalApi) -> None:
    """Create KWOK's resource definitions and wait until they are served."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for definition in resource_definitions():
        api.create(path, definition)
    deadline = Deadline.after(_LIMIT_S)
    while True:
        items = api.call("GET", path)[1].get("items", [])
        waiting = [item["metadata"]["name"] for item in items if not _established(item)]
        if not waiting:
            return
        deadline.check("KWOK resource definitions", f"not established: {', '.join(waiting)}")
        sleep(0.05)


def _established(definition: dict[str, Any]) -> bool:
    conditions = definition.get("status", {}).get("conditions") or []
    return any(entry["type"] == "Established" and entry["status"] == "True" for entry in conditions)


def prime_nodes(api: LocalApi, nodes: list[NodeSpec]) -> None:
    """Create the nodes and wait until KWOK has made all of them Ready."""
    map_bounded(lambda node: api.create("/api/v1/nodes", node_object(node)), nodes, _WORKERS)
    deadline = Deadline.after(_LIMIT_S)
    while True:
        items = api.call("GET", "/api/v1/nodes")[1].get("items", [])
        ready = sum(is_ready(item) for item in items)
        if ready >= len(nodes):
            return
        deadline.check("nodes", f"{ready} of {len(nodes)} Ready and untainted")
        sleep(0.1)


def main(step: str, directory: str, port: str) -> None:
    """Do one step: `crds` or `nodes`."""
    api = open_api(Path(directory), int(port))
    if step == "crds":
        mark_cluster(api)
        prime_definitions(api)
        return
    source = Path(directory) / "nodes.json"
    prime_nodes(api, [from_plain(NodeSpec, item, str(source)) for item in json.loads(source.read_text())])


if __name__ == "__main__":
    main(*sys.argv[1:])
