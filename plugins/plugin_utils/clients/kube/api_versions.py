# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""APIs whose version depends on the server: dynamic resource allocation and PodGroups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...outcome.errors import NotFoundError
from .cluster import Cluster
from .objects import DEVICE_CLASSES, NATIVE_POD_GROUPS, RESOURCE_CLAIMS, RESOURCE_SLICES, Kind

# Dynamic resource allocation in the version that a server has: v1 from Kubernetes 1.34 on, betas before.
#
# A claim of v1beta1 names its device class in the request itself, later ones below `exactly`. The attributes of a
# device are one level deeper in v1beta1 (KEP-4381; release notes of Kubernetes 1.33 and 1.34).

GROUP = "resource.k8s.io"
_VERSIONS = ("v1", "v1beta2", "v1beta1")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraKinds:
    """The kinds in one version."""

    version: str
    classes: Kind
    slices: Kind
    claims: Kind

    @property
    def exactly(self) -> bool:
        """Whether a request has its fields below `exactly`."""
        return self.version != "v1beta1"


def dra_kinds(cluster: Cluster) -> DraKinds | None:
    """Return the kinds in the newest version that the server serves. None if it serves none that we support.

    Raises:
        BringupError: the API server does not answer.
    """
    served = cluster.served_versions(GROUP)
    version = next((entry for entry in _VERSIONS if entry in served), None)
    if version is None:
        return None
    of = f"{GROUP}/{version}"
    return DraKinds(
        version=version,
        classes=replace(DEVICE_CLASSES, api_version=of),
        slices=replace(RESOURCE_SLICES, api_version=of),
        claims=replace(RESOURCE_CLAIMS, api_version=of),
    )


def as_served(cluster: Cluster, body: dict[str, Any]) -> dict[str, Any]:
    """Convert a v1 claim or claim template to the version that the server has. Other objects are returned unchanged.

    Raises:
        BringupError: the API server does not answer.
    """
    if body.get("apiVersion") != f"{GROUP}/{_VERSIONS[0]}":
        return body
    kinds = dra_kinds(cluster)
    return body if kinds is None else in_version(body, kinds)


def in_version(body: dict[str, Any], kinds: DraKinds) -> dict[str, Any]:
    """Convert a v1 claim or claim template to another version. Pure."""
    found = {**body, "apiVersion": f"{GROUP}/{kinds.version}"}
    if kinds.exactly:
        return found
    if body["kind"] == "ResourceClaimTemplate":
        return {**found, "spec": {**body["spec"], "spec": _flat(body["spec"]["spec"])}}
    return {**found, "spec": _flat(body["spec"])} if body["kind"] == "ResourceClaim" else found


def _flat(spec: dict[str, Any]) -> dict[str, Any]:
    devices = spec.get("devices") or {}
    requests = [
        {**{key: value for key, value in entry.items() if key != "exactly"}, **(entry.get("exactly") or {})}
        for entry in devices.get("requests") or []
    ]
    return {**spec, "devices": {**devices, "requests": requests}}


# The built-in PodGroups in the version that the API server has: v1beta1 and v1alpha3 from Kubernetes 1.37 on, v1alpha2
# in 1.36. The fields that we write are the same in all of them (kubernetes/api, scheduling/v1beta1/types.go:
# PodGroupSpec).
#
# That a version is served does not prove that it has PodGroups: v1beta1 once had PriorityClasses alone, and a server
# has no PodGroups while its feature gate GenericWorkload is off.

Json = dict[str, Any]
POD_GROUPS_GROUP = NATIVE_POD_GROUPS.group
VERSIONS = ("v1beta1", "v1alpha3", "v1alpha2")
EVERY_VERSION = tuple(replace(NATIVE_POD_GROUPS, api_version=f"{POD_GROUPS_GROUP}/{version}") for version in VERSIONS)


def native_pod_groups(cluster: Cluster) -> Kind | None:
    """Return the kind in the newest version in which the server has it. None if it has none that we support.

    Raises:
        BringupError: the API server does not answer.
    """
    served = cluster.served_versions(POD_GROUPS_GROUP)
    for version in VERSIONS:
        if version in served:
            try:
                return cluster.kind(f"{POD_GROUPS_GROUP}/{version}", NATIVE_POD_GROUPS.kind)
            except NotFoundError:
                continue
    return None


def group_as_served(cluster: Cluster, body: Json) -> Json:
    """Convert a built-in PodGroup to the version that the server has. Other objects are returned unchanged.

    Raises:
        BringupError: the API server does not answer.
    """
    if (body.get("apiVersion"), body.get("kind")) != (NATIVE_POD_GROUPS.api_version, NATIVE_POD_GROUPS.kind):
        return body
    kind = native_pod_groups(cluster)
    return body if kind is None else {**body, "apiVersion": kind.api_version}
