# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods of a training as the product's own manifest makes them, and what the simulator lets them print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, cast

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku, load_hardware
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.job import JobSpec
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.manifests import job_objects
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.workload.namespace import TemporaryNamespace
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import (
    Change,
    Fault,
    ModelSpec,
    numbered_nodes,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.pod_simulator import (
    INDEX_LABEL,
    PodGroup,
    PodOutput,
    SimContext,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.registry import simulator_for

ROOT = Path(__file__).resolve().parents[2]
SHAPE = {
    "layers": 8, "hidden": 4096, "heads": 32, "sequence": 2048, "batch": 8, "accumulate": 1, "vocabulary": 8192,
    "steps": 60, "load-s": 600,
}  # fmt: skip
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@cache
def hardware() -> dict[str, Sku]:
    return load_hardware([ROOT / "recipes" / "hardware"])


def group_on(
    nodes: Sequence[str], *, gpus: int = 8, running: int | None = None, name: str = "train-1-1",
    shape: Mapping[str, Any] | None = None,
) -> PodGroup:  # fmt: skip
    """The pods of a job on these nodes, with SHAPE if no other is given; of them so many run, all if not told."""
    options = [word for key, value in (shape or SHAPE).items() for word in (f"--{key}", str(value))]
    spec = JobSpec(
        name=name, nodes=tuple(nodes), gpus_per_node=gpus, image="pytorch",
        command=("/etc/program/train.py", *options, "--device", "cuda", "--dtype", "bfloat16"), kind="torchrun",
        limits={"rdma/x": "1"},
    )  # fmt: skip
    template = job_objects(spec, TemporaryNamespace(cast(Any, None), "test", 60.0, ()))[-1]["spec"]["template"]["spec"]
    pods = [
        {
            "metadata": {"name": f"{name}-{n}-x", "namespace": "test", "labels": {INDEX_LABEL: str(n)}},
            "spec": {**template, "nodeName": node, "hostname": f"{name}-{n}"},
            "status": {"phase": "Running" if running is None or n < running else "Pending"},
        }
        for n, node in enumerate(spec.nodes)
    ]
    return PodGroup(name=name, pods=tuple(pods))


def group_of(nodes: int, **more: Any) -> PodGroup:
    """The pods of a job on so many nodes."""
    return group_on([f"gpu{n:02d}" for n in range(1, nodes + 1)], **more)


def context(*faults: Fault, nodes: int = 2, sku: str = "dgx-h100", full: Path | None = None) -> SimContext:
    spec = ModelSpec(name="lab", seed=3, nodes=numbered_nodes(nodes, sku), faults=faults)
    return SimContext(model=build_model(spec, hardware()), skus=hardware(), now=NOW, full=full)


def fault(at: str, value: Any, kind: Any = "node", subject: str = "gpu02") -> Fault:
    return Fault(id="f", kind=kind, subject=subject, patch=(Change(at=at, set=value),))


def outputs_of(pods: PodGroup, where: SimContext) -> dict[str, PodOutput]:
    """What the pods print, by name of pod."""
    simulator = simulator_for(pods.pods[0])
    assert simulator is not None and simulator.name == "training"
    found = simulator.simulate(pods, where)
    assert found is not None
    return dict(found)


def outputs(where: SimContext, nodes: int = 2, **more: Any) -> dict[str, PodOutput]:
    return outputs_of(group_of(nodes, **more), where)
