# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Configuration of KWOK with every option, and the Kubernetes nodes that it simulates."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.files import write_atomic
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.runtime.foreign_yaml import documents

from .pki import Pki

# Configuration of KWOK. Every option is written, because a bare configuration file gets no defaults.

GROUP = "kwok.x-k8s.io"
# Kind, plural, whether it is namespaced. Stages are not among them, since they come from the configuration file.
_KINDS: tuple[tuple[str, str, bool], ...] = (
    ("Logs", "logs", True),
    ("ClusterLogs", "clusterlogs", False),
    ("Exec", "execs", True),
    ("ClusterExec", "clusterexecs", False),
    ("Attach", "attaches", True),
    ("ClusterAttach", "clusterattaches", False),
    ("PortForward", "portforwards", True),
    ("ClusterPortForward", "clusterportforwards", False),
)
_TEST = '.metadata.labels["gpufleet.io/purpose"]'
_OF_TEST = {"key": _TEST, "operator": "In", "values": ["test"]}
_PULLING = ".status.containerStatuses.[].state.waiting.reason"
# Status from a kubelet during an image pull: the pod is Pending, its containers wait with this reason.
_PULL_TEMPLATE = """\
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: false
  started: false
  restartCount: 0
  state:
    waiting:
      reason: ContainerCreating
{{ end }}
phase: Pending
"""
# Seconds. Leases are renewed every quarter of it. With the kubelet's 40 s a thousand nodes would keep one core busy.
LEASE_S = 240


def resource_definitions() -> list[dict[str, Any]]:
    """Return the definitions of KWOK's own resources. KWOK checks their content itself."""
    return [_definition(kind, plural, namespaced) for kind, plural, namespaced in _KINDS]


def _definition(kind: str, plural: str, namespaced: bool) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


def write_configuration(path: Path, stages: Path, pki: Pki, port: int, pull_s: float = 0.0) -> None:
    """Write KWOK's configuration file: its options, then the stages of nodes and pods.

    With `pull_s` test pods stay that long in ContainerCreating before they run, as with an image that is not on their
    node yet.
    """
    document = {
        "apiVersion": f"config.{GROUP}/v1alpha1",
        "kind": "KwokConfiguration",
        "metadata": {"name": "rehearsal"},
        "options": _options(pki, port),
    }
    text = stages.read_text(encoding="utf-8")
    write_atomic(path, f"{json.dumps(document)}\n---\n{with_slow_pulls(text, pull_s) if pull_s else text}", 0o600)


def with_slow_pulls(stages: str, pull_s: float) -> str:
    """Return the stages in which test pods (label gpufleet.io/purpose) pull their image for `pull_s` seconds."""
    found = [document for document in documents(stages) if document]
    run = next(document for document in found if document["metadata"]["name"] == "pod-run")
    others = [document for document in found if document is not run]
    expressions = run["spec"]["selector"]["matchExpressions"]
    pulling = {"key": _PULLING, "operator": "In", "values": ["ContainerCreating"]}

    def stage(name: str, more: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
        selector = {"matchExpressions": [*expressions, *more]}
        return {**run, "metadata": {"name": name}, "spec": {**run["spec"], "selector": selector, **spec}}

    return "---\n".join(
        json.dumps(document) + "\n"
        for document in (
            *others,
            stage("pod-run", [{"key": _TEST, "operator": "NotIn", "values": ["test"]}]),
            stage("pod-pull", [_OF_TEST, {**pulling, "operator": "NotIn"}], next={"statusTemplate": _PULL_TEMPLATE}),
            stage("pod-pulled", [_OF_TEST, pulling], delay={"durationMilliseconds": int(1000 * pull_s)}),
        )
    )


def _options(pki: Pki, port: int) -> dict[str, Any]:
    return {
        "enableCRDs": [kind for kind, _plural, _namespaced in _KINDS],
        "manageAllNodes": True,
        "cidr": "10.64.0.0/10",
        "nodeIP": "127.0.0.1",
        "nodePort": port,
        "serverAddress": f"127.0.0.1:{port}",
        "tlsCertFile": pki.cert("server"),
        "tlsPrivateKeyFile": pki.key("server"),
        "enableDebuggingHandlers": True,
        "enableContentionProfiling": False,
        "enableProfilingHandler": False,
        "nodeLeaseDurationSeconds": LEASE_S,
        "nodeLeaseParallelism": 4,
        "nodePlayStageParallelism": 8,
        "podPlayStageParallelism": 8,
        "podsOnNodeSyncParallelism": 4,
        "enablePodsOnNodeSyncListPager": False,
        "enablePodsOnNodeSyncStreamWatch": True,
    }


# Kubernetes nodes of a rehearsal, simulated by KWOK.

MANAGED_BY = "gpufleet-rehearsal"
_KUBELET = "v1.36.3"
_NOT_READY = "node.kubernetes.io/not-ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One node.

    Args:
        labels: added to the ones that every kubelet sets.
        capacity: cpu, memory, pods, ...; no `nvidia.com/gpu`, which the simulated operator adds.
        info: fields of `status.nodeInfo` (kernelVersion, osImage, containerRuntimeVersion, ...).
    """

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    capacity: dict[str, str] = field(default_factory=lambda: {"cpu": "224", "memory": "2Ti", "pods": "250"})
    taints: tuple[dict[str, str], ...] = ()
    info: dict[str, str] = field(default_factory=dict)


def node_object(spec: NodeSpec) -> dict[str, Any]:
    """Return the Node as a kubelet registers it."""
    own = {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "type": "kwok",
    }
    capacity = {"ephemeral-storage": "3Ti", **spec.capacity}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": spec.name,
            "labels": {**own, **spec.labels},
            "annotations": {"kwok.x-k8s.io/node": "fake", **spec.annotations},
        },
        "spec": {"taints": [dict(taint) for taint in spec.taints]},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "kubeletVersion": _KUBELET,
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.8.0-60-generic",
                "osImage": "Ubuntu 24.04.3 LTS",
                **spec.info,
            },
        },
    }


def is_ready(node: dict[str, Any]) -> bool:
    """Whether a node's condition Ready is True and it accepts pods: the taint of a new node is gone."""
    if any(taint.get("key") == _NOT_READY for taint in node.get("spec", {}).get("taints") or []):
        return False
    conditions = node.get("status", {}).get("conditions") or []
    return any(entry.get("type") == "Ready" and entry.get("status") == "True" for entry in conditions)
