# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which pods of a test the scheduler took away for others, as its events say.

A pod that is preempted has the condition DisruptionTarget and is deleted with its grace period; who looks after that
sees neither. The event about it stays (kubernetes/kubernetes, pkg/scheduler/framework/preemption: type Normal, reason
Preempted, "Preempted by pod <uid> on node <name>").
"""

from __future__ import annotations

from typing import Any

from ..clients.kube.cluster import Cluster
from ..clients.kube.kinds import EVENTS
from ..outcome.errors import BringupError

Json = dict[str, Any]
_REASON = "Preempted"


def preempted_pods(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Return by pod what the scheduler said as it took its place; nothing if nobody answers: the pod is gone anyway."""
    try:
        events: list[Json] = cluster.list_objects(EVENTS, namespace, fields=f"reason={_REASON}")
    except BringupError:
        return {}
    return {
        str((event.get("involvedObject") or {}).get("name", "")): str(event.get("message") or _REASON)
        for event in events
        if event.get("reason") == _REASON
    }
