# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""PodGroups of the API server's own in the version that it has: v1beta1 and v1alpha3 from Kubernetes 1.37 on, v1alpha2
in 1.36; what we write of one is the same in all of them (kubernetes/api, scheduling/v1beta1/types.go: PodGroupSpec).

A version that is served does not say that it has them: v1beta1 had PriorityClasses alone once, and a server has no
PodGroups while its feature gate GenericWorkload is off.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...outcome.errors import NotFoundError
from .cluster import Cluster
from .kinds import NATIVE_POD_GROUPS, Kind

Json = dict[str, Any]
GROUP = NATIVE_POD_GROUPS.group
VERSIONS = ("v1beta1", "v1alpha3", "v1alpha2")
EVERY_VERSION = tuple(replace(NATIVE_POD_GROUPS, api_version=f"{GROUP}/{version}") for version in VERSIONS)


def native_pod_groups(cluster: Cluster) -> Kind | None:
    """Return the kind in the newest version in which the server has it, None if it has none that we know.

    Raises:
        BringupError: the API server does not answer.
    """
    served = cluster.served_versions(GROUP)
    for version in VERSIONS:
        if version in served:
            try:
                return cluster.kind(f"{GROUP}/{version}", NATIVE_POD_GROUPS.kind)
            except NotFoundError:
                continue
    return None


def group_as_served(cluster: Cluster, body: Json) -> Json:
    """Return a PodGroup of the API server's own in the version that the server has, anything else as it is.

    Raises:
        BringupError: the API server does not answer.
    """
    if (body.get("apiVersion"), body.get("kind")) != (NATIVE_POD_GROUPS.api_version, NATIVE_POD_GROUPS.kind):
        return body
    kind = native_pod_groups(cluster)
    return body if kind is None else {**body, "apiVersion": kind.api_version}
