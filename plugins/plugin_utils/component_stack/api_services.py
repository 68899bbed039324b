# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""APIs that components serve beside the API server, as workloads of their releases. Pure.

Charts of metrics servers for autoscalers register them as APIServices (prometheus-community/helm-charts,
charts/prometheus-adapter/templates/custom-metrics-apiservice.yaml, external-metrics-apiservice.yaml; kedacore/charts,
keda/templates/metrics-server/apiservice.yaml). The API server probes each of them all the time, and reports the result
in the condition Available (kubernetes/kube-aggregator, pkg/controllers/status/remote). While one is not available no
namespace can be deleted (kubernetes/kubernetes#60807), even if its pods are ready.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ..clients.kube.objects import Kind, condition, is_true
from .workloads import Workload, age_s, release_of

API_SERVICES = Kind("apiregistration.k8s.io/v1", "APIService", "apiservices", namespaced=False)
NOT_AVAILABLE = "api-not-available"
# Cause of a component for which the API server refused a request of helm or ours.
NOT_ANSWERED = "api-not-answered"
Json = dict[str, Any]


def api_workload(item: Json, now: datetime) -> Workload | None:
    """Return the state of an API that a service in the cluster serves. None for an API of the API server itself."""
    service = (item.get("spec") or {}).get("service")
    if not service:
        return None
    reported, name = condition(item, "Available"), str(item["metadata"]["name"])
    ready = is_true(item, "Available")
    words = str(reported.get("message") or reported.get("reason") or "nobody asked it yet")
    return Workload(
        kind=API_SERVICES.kind,
        name=name,
        namespace=str(service.get("namespace") or ""),
        release=release_of(item),
        app=name,
        desired=1,
        ready=int(ready),
        state="ready" if ready else "pending",
        cause="" if ready else NOT_AVAILABLE,
        reason="" if ready else f"the API server does not reach it: {words}"[:400],
        ready_for_s=round(age_s(str(reported.get("lastTransitionTime") or ""), now), 1) if ready else 0.0,
    )
