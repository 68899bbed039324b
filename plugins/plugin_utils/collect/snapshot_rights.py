# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The kinds that a snapshot lists beside nodes and pods, and what its user may do."""

from __future__ import annotations

from ..clients.kube.kinds import (
    CLUSTER_POLICIES,
    DAEMON_SETS,
    DEPLOYMENTS,
    NIC_CLUSTER_POLICIES,
    NODES,
    NVIDIA_DRIVERS,
    PODS,
    RUNTIME_CLASSES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Kind,
)
from ..clients.kube.permission import Permission

INGRESS_CLASSES = Kind("networking.k8s.io/v1", "IngressClass", "ingressclasses", namespaced=False)
NETWORK_ATTACHMENTS = Kind(
    "k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "network-attachment-definitions"
)  # fmt: skip
OWNERS = (DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS)
# A GPU operator takes its drivers from NVIDIADrivers where its ClusterPolicy says so (driver.useNvidiaDriverCRD).
POLICIES = (CLUSTER_POLICIES, NVIDIA_DRIVERS, NIC_CLUSTER_POLICIES)
CLASSES = (
    (STORAGE_CLASSES, ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode", "default")),
    (INGRESS_CLASSES, ("spec",)),
    (NETWORK_ATTACHMENTS, ("spec",)),
    (RUNTIME_CLASSES, ("handler", "scheduling", "overhead")),
)


def _listing(*kinds: Kind) -> tuple[Permission, ...]:
    return tuple(Permission("list", kind.plural, kind.group) for kind in kinds)


# By collector. The hosts are asked over SSH, or by pods, whose rights are of their own (workload/node_pods.py).
RIGHTS_OF = {
    "server": (Permission("get", "namespaces"),),
    "nodes": _listing(NODES),
    "workloads": _listing(PODS),
    "devices": (Permission("list", "resourceslices", "resource.k8s.io"),),
    "policies": _listing(*POLICIES),
    "classes": (*_listing(*(kind for kind, _parts in CLASSES)), Permission("list", "deviceclasses", "resource.k8s.io")),
    # Helm keeps its releases in secrets; who owns a component is read off what runs it.
    "releases": (Permission("list", "secrets"), *_listing(*OWNERS)),
}
RIGHTS = tuple(permission for rights in RIGHTS_OF.values() for permission in rights)
