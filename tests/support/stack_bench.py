# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Components of small recipes on a real control plane: planned, installed, removed, and everything that is there."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.helm.helm import Helm
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.connection import Connection
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.drift import with_drift
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.holdings import holdings_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.install import Installer, Limits
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.model import (
    REVISION_LABEL,
    Plan,
    components_of,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.plan import make_plan
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.read import installed
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.removal import Removal, plan_removal
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.remove import Gone, Remover
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.progress import Progress, silent
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.charts.mirror import build_mirror
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.bring_up import bring_up
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.request import RehearsalRequest
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.lifecycle.starter import stop
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import numbered_nodes
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.toolchain.store import default_cache

# What nobody removes: it ends by itself, or belongs to the nodes and the cluster, as the hosts that KWOK runs do.
# Addresses are named after what the server drew for a Service.
PASSING = (
    "events", "leases", "endpoints", "endpointslices", "nodes", "csinodes", "componentstatuses", "clusterexecs",
    "ipaddresses",
)  # fmt: skip

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{say: {say}}}\n"
DEFINITION = """---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tunings.bringup.example}
spec:
  group: bringup.example
  names: {kind: Tuning, plural: tunings}
  scope: Namespaced
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: bringup.example/v1
kind: Tuning
metadata: {name: nodes}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: tuner, namespace: tuning-pods}
spec:
  selector: {matchLabels: {app: tuner}}
  template:
    metadata: {labels: {app: tuner}}
    spec: {containers: [{name: tuner, image: "registry.example/tuner:1"}], tolerations: [{operator: Exists}]}
"""


def file(when: str, name: str, text: str) -> dict[str, str]:
    """Return one manifest file of a hydrated recipe."""
    return {"when": when, "file": name, "text": text}


@dataclass
class StackBench:
    """A rehearsal cluster and what the installer needs."""

    helm: Helm
    cluster: Cluster
    mirror: Path
    before: frozenset[str]
    kubeconfig: str
    helm_program: str

    def objects(self) -> frozenset[str]:
        """What of every kind there is, but for what comes and goes by itself."""
        return frozenset(
            f"{kind.title} {item.get('namespace', '')}/{item['name']}"
            for kind in self._kinds()
            for item in self.cluster.list_metadata(kind)
        )

    def census(self) -> dict[str, str]:
        """What of every kind there is by somebody's order, with a digest of how it was ordered.

        What controllers make of it (it has an owner), what the server and clocks write into it, and how many revisions
        helm needed are left out.
        """
        found = {}
        for kind in self._kinds():
            for item in self.cluster.list_objects(kind):
                metadata = item["metadata"]
                name = metadata["name"]
                if metadata.get("ownerReferences") or item.get("type") == "helm.sh/release.v1":
                    continue
                found[f"{kind.title} {metadata.get('namespace', '')}/{name}"] = _digest(item)
        for key, release in self.helm.releases().items():
            found[f"release {key}"] = f"{release.chart}-{release.chart_version} {release.status}"
        return found

    def _kinds(self) -> Iterator[Kind]:
        ask = self.cluster.transport.json
        groups = [f"/apis/{entry['preferredVersion']['groupVersion']}" for entry in ask("GET", "/apis")["groups"]]
        for root in ("/api/v1", *groups):
            for entry in ask("GET", root)["resources"]:
                if "list" in entry["verbs"] and entry["name"] not in PASSING:
                    yield Kind(root.split("/", 2)[2], entry["kind"], entry["name"], entry["namespaced"])

    def removals(self, wanted: dict[str, Any], *, crds: bool) -> tuple[Removal, ...]:
        components = components_of(wanted)
        found = installed(self.helm, self.cluster, components)
        have = holdings_of(self.helm, self.cluster, components, found, mirror=str(self.mirror), remove_crds=crds)
        return plan_removal(components, found, have, remove_crds=crds)

    def remove(
        self, wanted: dict[str, Any], *namespaces: str, crds: bool = False, drain_s: float = 60.0
    ) -> dict[str, Gone]:
        done = Remover(self.helm, self.cluster, drain_s=drain_s).run(self.removals(wanted, crds=crds), namespaces)
        return {entry.component: entry for entry in done}

    def plan(self, wanted: dict[str, Any], **more: Any) -> Plan:
        components = components_of(wanted)
        found = with_drift(self.helm, self.cluster, components, installed(self.helm, self.cluster, components))
        return make_plan(components, found, **more)

    def actions(self, wanted: dict[str, Any], **more: Any) -> list[str]:
        return [step.action.value for step in self.plan(wanted, **more).steps]

    def installer(self) -> Installer:
        return Installer(self.helm, self.cluster, str(self.mirror), Limits(ready_s=60, pull_grace_s=5))

    def install(self, wanted: dict[str, Any], **more: Any) -> dict[str, str]:
        done = self.installer().run(self.plan(wanted, **more), components_of(wanted))
        return {
            entry.component: entry.state if entry.state == "ready" else f"{entry.state}: {entry.reason}"
            for entry in done
        }

    def write(self, manager: str, kind: Kind, name: str, namespace: str, body: Any) -> None:
        """Change an object as somebody else."""
        patch = "json-patch" if isinstance(body, list) else "merge-patch"
        self.cluster.transport.json(
            "PATCH", kind.path(name, namespace), query={"fieldManager": manager}, body=body,
            content_type=f"application/{patch}+json",
        )  # fmt: skip


def _digest(item: Mapping[str, Any]) -> str:
    metadata = item["metadata"]
    stated = {key: value for key, value in item.items() if key not in ("metadata", "status")}
    if isinstance(stated.get("spec"), dict):
        given = ("clusterIP", "clusterIPs", "volumeName")
        stated["spec"] = {key: value for key, value in stated["spec"].items() if key not in given}
    counted = ("deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation")
    marks = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in counted}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != REVISION_LABEL}
    text = json.dumps([stated, marks, labels, metadata.get("finalizers")], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@contextmanager
def stack_bench(directory: Path, collection: Path, charts: Iterable[Mapping[str, Any]]) -> Iterator[StackBench]:
    """Yield two simulated nodes without any component, and a mirror with stand-ins for those charts; end them."""
    request = RehearsalRequest(
        directory=directory / "rehearsal", cache=default_cache(os.environ), collection=collection,
        nodes=numbered_nodes(2, "dgx-h100"),
    )  # fmt: skip
    build_mirror(directory / "mirror", charts)
    up = bring_up(request, Progress(silent))
    try:
        connection = Connection(kubeconfig=str(up.kubeconfig))
        with Cluster(connection) as cluster:
            helm = Helm(connection, binary=up.programs["helm"])
            made = StackBench(
                helm, cluster, directory / "mirror", frozenset(), connection.kubeconfig, up.programs["helm"]
            )
            made.before = made.objects()
            yield made
    finally:
        stop(request.directory)
