# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Devices that the pods of a test ask for by claims: the templates of these, and what pods and containers say.

Every pod of a template gets claims of its own (kubernetes.io/docs/concepts/scheduling-eviction/
dynamic-resource-allocation). A request says how many devices it wants and not `All`: with `All` a node that lost a
device serves the test with those that are left, with a number the scheduler refuses it and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
GPUS = "gpus"
# How Kubernetes itself names a device class among resources (KEP-5004, DRAExtendedResource). Not asked for as such:
# that feature is younger than claims.
CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """So many devices of a class for every pod; `name` is that of the claim in a pod (a DNS label)."""

    name: str
    device_class: str
    count: int


def gpu_requests(device_class: str, count: int) -> tuple[DeviceRequest, ...]:
    """Return the request for GPUs; none without a class or without GPUs."""
    if not device_class or count < 1:
        return ()
    return (DeviceRequest(name=GPUS, device_class=device_class, count=count),)


def split_limits(limits: Mapping[str, str]) -> tuple[dict[str, str], tuple[DeviceRequest, ...]]:
    """Return the resources of a pod that are none of DRA, and the requests for those that are device classes."""
    classes = {name: amount for name, amount in limits.items() if name.startswith(CLASS_PREFIX)}
    plain = {name: amount for name, amount in limits.items() if name not in classes}
    numbered = enumerate(sorted(classes.items()))
    return plain, tuple(
        DeviceRequest(name=f"adapters-{number}", device_class=name.removeprefix(CLASS_PREFIX), count=int(amount))
        for number, (name, amount) in numbered
        if int(amount) > 0
    )


def claim_templates(
    owner: str, namespace: str, labels: Mapping[str, str], requests: Sequence[DeviceRequest]
) -> list[Json]:
    """Return a ResourceClaimTemplate for each request; a namespace makes it in the version that its server has.

    Args:
        owner: begin of the names of the templates (template_name).
        namespace: where the pods are.
        labels: of templates and claims.
        requests: what every pod wants.
    """
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": template_name(owner, request), "namespace": namespace, "labels": dict(labels)},
            "spec": {"metadata": {"labels": dict(labels)}, "spec": {"devices": {"requests": [_body(request)]}}},
        }
        for request in requests
    ]


def claim_variables(
    owner: str,
    namespace: str,
    labels: Mapping[str, str],
    requests: Sequence[DeviceRequest],
    made_by_others: Sequence[Json] = (),
) -> Json:
    """Return what the templates of workloads need to claim devices: `claim_templates`, `pod_claims` (resourceClaims of
    a pod, those of templates `made_by_others` included) and `claims` (of the container that gets all of them)."""
    own = [{"name": entry.name, "resourceClaimTemplateName": template_name(owner, entry)} for entry in requests]
    claimed = [*own, *made_by_others]
    return {
        "claim_templates": claim_templates(owner, namespace, labels, requests),
        "pod_claims": claimed,
        "claims": [{"name": entry["name"]} for entry in claimed],
    }


def template_name(owner: str, request: DeviceRequest) -> str:
    """Return the name of the template of a request."""
    return f"{owner}-{request.name}"


def _body(request: DeviceRequest) -> Json:
    wanted = {"deviceClassName": request.device_class, "allocationMode": "ExactCount", "count": request.count}
    return {"name": request.name, "exactly": wanted}
