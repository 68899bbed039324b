# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose pods use GPUs, whole ones or parts: by device plugin or claim, running ones only."""

from __future__ import annotations

from typing import Any, cast

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.cluster import Cluster
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.clients.kube.objects import PODS, Kind
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.capacity import gpu_users


def pod(
    name: str, node: str, gpus: int = 0, phase: str = "Running", resource: str = "nvidia.com/gpu"
) -> dict[str, Any]:
    limits = {resource: gpus} if gpus else {}
    spec = {"nodeName": node, "containers": [{"resources": {"limits": limits}}]}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec, "status": {"phase": phase}}


CLAIM = {
    "metadata": {"name": "c", "namespace": "team"},
    "status": {
        "allocation": {"devices": {"results": [{"driver": "gpu.nvidia.com", "pool": "gpu02", "device": "gpu-0"}]}},
        "reservedFor": [{"resource": "pods", "name": "by-claim"}],
    },
}


class Api:
    def served_versions(self, _group: str) -> tuple[str, ...]:
        return ("v1",)

    def list_objects(self, kind: Kind, *_args: Any, **_more: Any) -> list[dict[str, Any]]:
        if kind is not PODS:
            return [CLAIM]
        return [
            pod("trains", "gpu01", 8), pod("done", "gpu03", 8, "Succeeded"), pod("exporter", "gpu03"),
            pod("by-claim", "gpu02"), pod("ends", "gpu04", 1, "Pending"),
            pod("slice", "gpu05", 1, resource="nvidia.com/mig-1g.10gb"),
            pod("turn", "gpu06", 1, resource="nvidia.com/gpu.shared"), pod("net", "gpu07", 1, resource="rdma/ib"),
        ]  # fmt: skip


def test_pods_that_hold_gpus_are_named_by_node_and_others_are_not() -> None:
    assert gpu_users(cast(Cluster, Api())) == {
        "gpu01": ["team/trains"], "gpu02": ["team/by-claim"], "gpu04": ["team/ends"],
        "gpu05": ["team/slice"], "gpu06": ["team/turn"],
    }  # fmt: skip
