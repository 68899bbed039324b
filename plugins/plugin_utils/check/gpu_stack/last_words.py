# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the pods that do not work wrote last: the line that names a cause is in their log, not in their status."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.kinds import PODS
from ...component_stack.workloads import Workload
from ...outcome.errors import BringupError
from ...runtime.redaction import redact
from .cluster_state import ClusterState

Json = dict[str, Any]
_PODS, _LINES, _LENGTH = 8, 25, 4000


def with_last_words(cluster: Cluster, state: ClusterState) -> ClusterState:
    """Return the state with the last lines of the pods that hold a workload, of a few workloads at most."""
    broken = [workload for workload in state.workloads or () if workload.state != "ready" and workload.pod]
    broken = sorted(broken, key=lambda workload: workload.state != "failed")[:_PODS]
    told = {_key(workload): replace(workload, said=_words(cluster, workload)) for workload in broken}
    if not told:
        return state
    workloads = tuple(told.get(_key(workload), workload) for workload in state.workloads or ())
    operands = tuple(
        replace(operand, workload=told.get(_key(operand.workload), operand.workload))
        for operand in state.operands or ()
    )
    return replace(state, workloads=workloads, operands=operands)


def _key(workload: Workload) -> tuple[str, str, str]:
    return workload.kind, workload.namespace, workload.name


def _words(cluster: Cluster, workload: Workload) -> str:
    try:
        pod = cluster.find_listed(PODS, workload.pod, workload.namespace)
    except BringupError:
        return ""
    texts = []
    for container, previous in speakers(pod or {}):
        try:
            texts.append(
                cluster.logs(
                    workload.pod, workload.namespace, container=container, tail_lines=_LINES, previous=previous
                )
            )
        except BringupError:
            # A container that never started has none, and whoever may not read logs still sees the status.
            continue
    return redact("\n".join(texts))[-_LENGTH:]


def speakers(pod: Json) -> list[tuple[str, bool]]:
    """Return the containers of a pod whose log tells why it is not ready, each with whether the log before counts."""
    status = pod.get("status") or {}
    found = []
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        state = container.get("state") or {}
        if container.get("ready") or (state.get("terminated") or {}).get("exitCode") == 0:
            continue
        restarted = bool((container.get("lastState") or {}).get("terminated"))
        if restarted or "running" in state or "terminated" in state:
            found.append((str(container.get("name", "")), restarted))
    return found
