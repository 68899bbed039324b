# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Adapters that nodes give out by DRA claims: which device class pods ask for, and how many each node has.

GKE's A4X Max gives its eight RoCE adapters out so: class mrdma.google.com, count 8
(GoogleCloudPlatform/container-engine-accelerators, gpudirect-rdma/nccl-test-a4x-max.yaml; "Allocate network resources
by using GKE managed DRANET"). The driver is DRANET, whose slices say of each network interface whether it can do RDMA
(kubernetes-sigs/dranet: driver and attribute domain `dra.net`, boolean attribute `rdma`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ...clients.kube.cluster import Cluster
from ...clients.kube.dra import dra_kinds
from ...outcome.errors import InputError
from ...workload.claims import CLASS_PREFIX

Json = dict[str, Any]
_DRIVER = "dra.net"
_RDMA = ("rdma", f"{_DRIVER}/rdma")


def class_offers(
    cluster: Cluster, nodes: Collection[str], classes: Iterable[str], stated: str, count: int
) -> dict[str, dict[str, int]]:
    """Return by node how many adapters its pods can claim, under the name of the class among resources (CLASS_PREFIX).

    Args:
        cluster: where.
        nodes: the nodes.
        classes: classes that are looked for where the site states none.
        stated: what the site states as its resource; another resource, or `none`, leaves claims out.
        count: how many a pod claims, as the site states it; 0: all that a node has.

    Raises:
        InputError: the stated class does not exist, or nobody knows how many adapters it has.
        BringupError: the API server does not answer.
    """
    if stated and not stated.startswith(CLASS_PREFIX):
        return {}
    kinds = dra_kinds(cluster)
    there: Counter[str] = rdma_devices(cluster.list_objects(kinds.slices)) if kinds else Counter()
    listed = any(there[node] for node in nodes)
    if not listed and not stated:
        # Nor is anybody asked for classes that nothing would be claimed of: that is a right of its own.
        return {}
    wanted = [stated.removeprefix(CLASS_PREFIX)] if stated else list(classes)
    found = next((name for name in wanted if kinds and cluster.find(kinds.classes, name) is not None), "")
    if not found:
        if stated:
            hint = "kubectl get deviceclasses; correct rdma_resource (settings of fabric_validation)"
            raise InputError(f"DeviceClass {wanted[0]}", "does not exist.", hint)
        return {}
    if not listed:
        if not count:
            reason = f"no ResourceSlice of {_DRIVER} says how many adapters the nodes have."
            hint = "state how many a pod claims: rdma_count (settings of fabric_validation)"
            raise InputError(f"DeviceClass {found}", reason, hint)
        there = Counter(dict.fromkeys(nodes, count))
    return {node: {f"{CLASS_PREFIX}{found}": there[node]} for node in nodes}


def rdma_devices(slices: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Return by node how many of its network interfaces can do RDMA. Pure."""
    found: Counter[str] = Counter()
    for item in slices:
        spec = item.get("spec") or {}
        if spec.get("driver") == _DRIVER:
            found[str(spec.get("nodeName") or "")] += sum(map(_has_rdma, spec.get("devices") or []))
    return found


def _has_rdma(device: Json) -> bool:
    attributes = device.get("attributes") or (device.get("basic") or {}).get("attributes") or {}
    return any((attributes.get(name) or {}).get("bool") is True for name in _RDMA)
