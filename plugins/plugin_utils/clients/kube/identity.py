# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Identity of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .cluster import Cluster
from .objects import MARK, NAMESPACES

# KWOK manages the nodes with this annotation (kwok.sigs.k8s.io, "Getting Started"; its charts/kwok/values.yaml).
_SIMULATED = "kwok.x-k8s.io/node"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIdentity:
    """The identity of a cluster.

    `uid` is the UID of its namespace kube-system, which lives as long as the cluster and is unique. `rehearsal` is
    whether an annotation of that namespace marks the cluster as started for a rehearsal.
    """

    uid: str
    rehearsal: bool


def cluster_identity(cluster: Cluster) -> ClusterIdentity:
    """Read the identity of a cluster.

    Raises:
        BringupError: this user may not read it, or the server does not answer.
    """
    found = cluster.get(NAMESPACES, "kube-system").get("metadata") or {}
    return ClusterIdentity(uid=str(found.get("uid") or ""), rehearsal=MARK in (found.get("annotations") or {}))


def cluster_uid(cluster: Cluster) -> str:
    """Return the UID of a cluster, see cluster_identity."""
    return cluster_identity(cluster).uid


def is_simulated(metadata: Mapping[str, Any]) -> bool:
    """Tell by its metadata whether a node is simulated by KWOK."""
    return _SIMULATED in (metadata.get("annotations") or {})
