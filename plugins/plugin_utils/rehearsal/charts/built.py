# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What Kustomize would build of a component, as the mirror of a site holds it: definitions and workloads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .chart import FAULT_ANNOTATION, crd_document
from .facts import StandIn, Workload


def built_text(name: str, tag: str, stand_in: StandIn, fault: str = "") -> str:
    """Return the manifests of a component.

    Args:
        name: component.
        tag: the tag that it was built from.
        stand_in: what it creates.
        fault: reason for which the containers of its first workload keep failing, such as `CrashLoopBackOff`.
    """
    documents = [crd_document(crd) for crd in stand_in.crds]
    if stand_in.workloads:
        documents.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    for number, workload in enumerate(stand_in.workloads):
        documents.append(_workload(name, tag, workload, "" if number else fault))
    return "---\n".join(json.dumps(document, indent=2) + "\n" for document in documents)


def _workload(component: str, tag: str, workload: Workload, fault: str) -> dict[str, Any]:
    labels: Mapping[str, str] = workload.labels or {"app": component}
    pod: dict[str, Any] = {
        "metadata": {"labels": labels},
        "spec": {
            "serviceAccountName": component,
            "containers": [{"name": name, "image": f"rehearsal/{name}:{tag}"} for name in workload.containers],
        },
    }
    if fault:
        pod["metadata"]["annotations"] = {FAULT_ANNOTATION: fault}
    spec: dict[str, Any] = {"selector": {"matchLabels": labels}, "template": pod}
    if workload.kind == "Deployment":
        spec["replicas"] = 1
    metadata = {"name": workload.name, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": workload.kind, "metadata": metadata, "spec": spec}
