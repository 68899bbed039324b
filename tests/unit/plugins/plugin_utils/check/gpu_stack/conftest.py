# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A healthy cluster of four nodes that tests break, and the judging of everything that the gate asks of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from sites import make_site

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack import (
    api_permissions,
    cluster_policy_ready,
    component_health,
    dra_slices,
    gpu_allocatable,
    node_ready,
    recipe_constraints,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.cluster_state import (
    AskedPermission,
    ClusterState,
    ComponentState,
    NodeState,
    OperandState,
    PolicyState,
    SliceState,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.spec import JudgeContext
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.promised import Promised
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.component_stack.workloads import Workload
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Outcome
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.site.model import Host, Site

NAMES = ("gpu01", "gpu02", "gpu03", "gpu04")
VERSIONS = {"gpu-operator": "v1.0.0", "nvidia-dra-driver-gpu": "2.0.0", "volcano": "3.0.0"}
JUDGES = (
    api_permissions,
    node_ready,
    component_health,
    cluster_policy_ready,
    gpu_allocatable,
    dra_slices,
    recipe_constraints,
)
SKU = Sku(
    name="test-sku", title="A machine for tests", accelerator="h100", gpu_product="G", gpu_product_label="G", gpus=8,
    gpu_memory_mib=1, sources=("made for tests",),
)  # fmt: skip


def workload(name: str, release: str, kind: str = "Deployment", desired: int = 1, **more: Any) -> Workload:
    """A ready workload, changed by `more`."""
    ready = Workload(
        kind=kind, name=name, namespace=release.partition("/")[0] or "gpu-operator", release=release, app=name,
        desired=desired, ready=desired, state="ready", ready_for_s=3600.0,
    )  # fmt: skip
    return replace(ready, **more)


def healthy() -> ClusterState:
    """The cluster as it should be."""
    return ClusterState(
        version="v1.36.3",
        permissions=(AskedPermission(verb="list", resource="nodes", group="", allowed=True),),
        permissions_asked=1,
        nodes=tuple(
            NodeState(name=name, ready="True", allocatable={"nvidia.com/gpu": 8}, os_image="Ubuntu 24.04.3 LTS")
            for name in NAMES
        ),
        components=tuple(
            ComponentState(
                name=name,
                release=f"{name}/{name}",
                status="deployed",
                version=version,
                ours=True,
                promised=(Promised(kind="Deployment", name=f"{name}-main", namespace=name),),
            )
            for name, version in VERSIONS.items()
        ),
        workloads=tuple(workload(f"{name}-main", f"{name}/{name}") for name in VERSIONS),
        cluster_policies=(PolicyState(name="cluster-policy", state="ready"),),
        nic_cluster_policies=None,
        operands=tuple(
            OperandState(title=title, workload=workload(app, "", "DaemonSet", 4))
            for app, title in (
                ("nvidia-driver-daemonset", "driver"),
                ("nvidia-device-plugin-daemonset", "device plugin"),
                ("nvidia-dcgm-exporter", "DCGM exporter"),
            )
        ),
        device_classes=("gpu.nvidia.com",),
        slices=tuple(
            SliceState(driver="gpu.nvidia.com", node=n, pool=n, generation=1, slice_count=1, gpus=8, devices=8)
            for n in NAMES
        ),
    )


def recipe(**more: Any) -> dict[str, Any]:
    """The recipe of that cluster."""
    refs: list[dict[str, Any]] = [
        {"name": name, "namespace": name, "version": version, "values": {}} for name, version in VERSIONS.items()
    ]
    refs[1]["dependencyRefs"] = ["gpu-operator"]
    constraints = [{"name": "K8s.server.version", "value": ">= 1.32"}]
    return {"componentRefs": refs, "deploymentOrder": list(VERSIONS), "constraints": constraints, **more}


def site(**more: Any) -> Site:
    """The inventory of that cluster."""
    hosts = tuple(Host(name=name, sku=SKU.name, node_name=name) for name in NAMES)
    return make_site(hosts, **{"capabilities": ("kubernetes",), **more})


def context(**more: Any) -> JudgeContext:
    """What the judges are given."""
    given: dict[str, Any] = {"site": site(), "hardware": {SKU.name: SKU}, "recipe": recipe(), **more}
    return JudgeContext(gate="gpu_stack", today=date(2026, 1, 1), **given)


def judged(view: ClusterState, given: JudgeContext) -> list[Outcome]:
    """Every outcome of every check that judges the cluster."""
    return [outcome for check in JUDGES for outcome in check.judge(view, given)]


def changed_node(view: ClusterState, name: str, **more: Any) -> ClusterState:
    """The cluster with one node changed."""
    nodes = tuple(replace(node, **more) if node.name == name else node for node in view.nodes or ())
    return replace(view, nodes=nodes)


def changed_operand(view: ClusterState, app: str, **more: Any) -> ClusterState:
    """The cluster with one operand changed."""
    operands = tuple(
        replace(operand, workload=replace(operand.workload, **more)) if operand.workload.app == app else operand
        for operand in view.operands or ()
    )
    return replace(view, operands=operands)


def changed_component(view: ClusterState, name: str, **more: Any) -> ClusterState:
    """The cluster with one component changed."""
    components = tuple(replace(c, **more) if c.name == name else c for c in view.components or ())
    return replace(view, components=components)


@pytest.fixture
def view() -> ClusterState:
    return healthy()
