# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One run, one cluster: a kubeconfig whose current context was changed meanwhile leads to another."""

from __future__ import annotations

from pathlib import Path

from ..clients.kube.cluster import Cluster
from ..clients.kube.connection import connection_from
from ..clients.kube.identity import cluster_uid
from ..outcome.errors import InputError
from ..runtime.files import cluster_uid_of
from .controller import gate_needs_api
from .run import Run

_HINT = "set gpufleet_kubeconfig to a file whose context nobody changes, or K8S_AUTH_CONTEXT, and run again"


def require_same_cluster(run_dir: Path, cluster: Cluster) -> str | None:
    """Return the UID of the cluster, None where preflight of the run could not read it.

    Raises:
        InputError: preflight recorded another cluster.
        BringupError: the identity of the cluster cannot be read, and preflight could read it.
    """
    before = cluster_uid_of(run_dir)
    if not before:
        return None
    now = cluster_uid(cluster)
    if now != before:
        text = f"preflight of this run saw cluster {before}, now it is cluster {now or 'unknown'} (UID of kube-system)."
        raise InputError(f"Kubernetes API {cluster.transport.host}", text, _HINT)
    return now


def cluster_of_gate(run: Run, gate: str, connections: dict[str, str]) -> str | None:
    """Return the UID of the cluster that the gate observes, see require_same_cluster; None if it observes none."""
    if not gate_needs_api(run.site, gate) or not cluster_uid_of(run.path):
        return None
    with Cluster(connection_from(connections)) as cluster:
        return require_same_cluster(run.path, cluster)
