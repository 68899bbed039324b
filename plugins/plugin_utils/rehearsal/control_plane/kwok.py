# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How KWOK is configured: every option written out, because a bare configuration file gets no defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...runtime.files import write_atomic
from .pki import Pki

GROUP = "kwok.x-k8s.io"
# Kind, plural, whether it lies in a namespace. Stages come from the configuration file and are not among them.
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
# Seconds. Leases are renewed every quarter of it; a thousand nodes at the kubelet's 40 s would keep one core busy.
LEASE_S = 240


def resource_definitions() -> list[dict[str, Any]]:
    """Return the definitions of KWOK's own resources; their content is checked by KWOK."""
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


def write_configuration(path: Path, stages: Path, pki: Pki, port: int) -> None:
    """Write KWOK's configuration file: its options, then the stages of nodes and pods."""
    document = {
        "apiVersion": f"config.{GROUP}/v1alpha1",
        "kind": "KwokConfiguration",
        "metadata": {"name": "rehearsal"},
        "options": _options(pki, port),
    }
    write_atomic(path, f"{json.dumps(document)}\n---\n{stages.read_text(encoding='utf-8')}", 0o600)


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
