# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads Kubernetes objects into the gate's cluster state. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...clients.kube.objects import Cleaner, condition, is_true, read_node
from ...component_stack.workloads import Workload
from ...outcome.errors import InputError
from ...snapshot.model import whole_number
from ...workload.capacity import gpus_covered
from .cluster_state import NodeState, OperandState, PolicyState, SliceState

Json = dict[str, Any]
DRIVER_APP = "nvidia-driver-daemonset"
_DRIVERS = re.compile(rf"{DRIVER_APP}-|nvidia-v?gpu-driver-")
_LABEL_PREFIXES = (
    "nvidia.com/", "feature.node.kubernetes.io/pci-10de", "feature.node.kubernetes.io/pci-15b3",
    "network.nvidia.com/operator.", "topology.kubernetes.io/",
)  # fmt: skip
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


def keeps_label(key: str) -> bool:
    """Return whether a label is kept in a node's state: the gate keeps those that it judges by."""
    return key.startswith(_LABEL_PREFIXES)


def node_state(node: Json, cleaner: Cleaner | None = None) -> NodeState:
    """Return the part of a node that the gate judges, read as for a snapshot, with its conditions.

    Args:
        node: the object.
        cleaner: one for all nodes, whose labels are mostly the same.

    Raises:
        InputError: a count of devices is not a whole number.
    """
    name, read = read_node(node, cleaner or Cleaner())
    ready = condition(node, "Ready")
    return NodeState(
        name=name,
        ready=read.ready,
        reason=": ".join(text for text in (ready.get("reason", ""), ready.get("message", "")) if text)[:300],
        unschedulable=read.unschedulable,
        pressures=tuple(name for name in _PRESSURES if is_true(node, name)),
        allocatable={**other_resources(read.allocatable), **gpu_resources(read.allocatable, name)},
        capacity=gpu_resources(read.capacity, name),
        taints=read.taints,
        labels={key: value for key, value in read.labels.items() if keeps_label(key)},
        os_image=read.os_image,
        kernel=read.kernel,
    )


def gpu_resources(quantities: Mapping[str, Any], node: str) -> dict[str, int]:
    """Return the extended resources of the GPU vendor.

    Raises:
        InputError: a quantity is not a whole number.
    """
    found = {}
    for name, quantity in quantities.items():
        if not name.startswith("nvidia.com/"):
            continue
        number = whole_number(quantity)
        if number is None:
            raise InputError(f"node {node}", f"allocatable {name} is {quantity!r}, not a whole number.")
        found[name] = number
    return found


def other_resources(quantities: Mapping[str, Any]) -> dict[str, int]:
    """Return the extended resources of other vendors, such as network adapters.

    Quantities that are not whole numbers are left out.
    """
    return {
        name: number
        for name, quantity in quantities.items()
        if "/" in name and not name.startswith("nvidia.com/") and (number := whole_number(str(quantity))) is not None
    }


def policy_state(policy: Json) -> PolicyState:
    """Return a ClusterPolicy or NicClusterPolicy as the judges need it."""
    status = policy.get("status") or {}
    applied = [
        f"{entry.get('name')}: {entry.get('state')} {entry.get('message', '')}".strip()
        for entry in status.get("appliedStates") or []
        if entry.get("state") not in ("ready", "ignore")
    ]
    conditions = [
        f"{c['type']}={c['status']}: {c.get('message') or c.get('reason', '')}"
        for c in status.get("conditions") or []
        if (c["type"] == "Error" and c["status"] == "True") or (c["type"] == "Ready" and c["status"] != "True")
    ]
    return PolicyState(
        name=policy["metadata"]["name"], state=str(status.get("state", "")), messages=tuple(applied + conditions)
    )


def operand_states(workloads: Iterable[Workload], titles: Mapping[str, str]) -> tuple[OperandState, ...]:
    """Return the operands among the workloads, in the order of `titles`, which is the order of dependency."""
    order = {app: number for number, app in enumerate(titles)}
    named = [_by_its_name(workload) for workload in workloads if workload.kind == "DaemonSet"]
    found = [workload for workload in named if workload.app in order]
    return tuple(
        OperandState(title=titles[workload.app], workload=workload)
        for workload in sorted(found, key=lambda workload: (order[workload.app], workload.name))
    )


def _by_its_name(workload: Workload) -> Workload:
    """Return a workload with the common label of its kind.

    On OpenShift the driver has a DaemonSet for each version of the nodes' operating system; the version is at the end
    of its name and label (NVIDIA/gpu-operator controllers/object_controls.go, transformOpenShiftDriverToolkitContainer;
    #990). A NVIDIADriver has one for each operating system of its nodes, `nvidia-<driver type>-driver-<system>-<hash>`
    (internal/state/driver.go, getDriverAppName; manifests/state-driver/0500_daemonset.yaml).
    """
    versioned = _DRIVERS.match(workload.app) is not None and workload.app == workload.name
    return replace(workload, app=DRIVER_APP) if versioned else workload


def slice_state(obj: Json) -> SliceState:
    """Return a ResourceSlice, of v1 or an older version with the attributes of devices under `basic`."""
    spec = obj["spec"]
    devices = spec.get("devices") or []
    pool = spec["pool"]
    return SliceState(
        driver=spec["driver"],
        node=str(spec.get("nodeName", "")),
        pool=pool["name"],
        generation=int(pool["generation"]),
        slice_count=int(pool["resourceSliceCount"]),
        gpus=gpus_covered(devices),
        devices=len(devices),
    )
