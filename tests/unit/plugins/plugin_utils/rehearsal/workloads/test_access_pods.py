# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated containers see the GPUs that they asked for, and none if they asked for none."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.access import LIST_GPUS, LOOK
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.pod_simulator import (
    PodGroup,
    PodOutput,
    SimContext,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.registry import simulator_for


@pytest.fixture(scope="module")
def context(repository: Path) -> SimContext:
    skus = load_hardware([repository / "recipes" / "hardware"])
    model = build_model(ModelSpec(name="t", seed=3, nodes=numbered_nodes(2, "dgx-h100")), skus)
    claimed = {("ns", "made-of-it"): ("gpu-0", "gpu-1", "gpu-2")}
    return SimContext(model=model, skus=skus, now=datetime(2026, 1, 1, tzinfo=UTC), claimed=claimed)


def _output(context: SimContext, command: tuple[str, ...], phase: str = "Running", **more: Any) -> PodOutput | None:
    container = {"name": "c", "command": list(command), **more}
    status = {"phase": phase, "resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "made-of-it"}]}
    spec = {"nodeName": "gpu02", "containers": [container]}
    pod = {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec, "status": status}
    simulator = simulator_for(pod)
    assert simulator is not None and simulator.name == "gpu-access"
    found = simulator.simulate(PodGroup(name="p", pods=(pod,)), context)
    return None if found is None else found["p"]


def test_as_many_gpus_are_listed_as_were_asked_for_and_the_pod_ends(context: SimContext) -> None:
    assert _output(context, LIST_GPUS, "Pending") is None
    found = _output(context, LIST_GPUS, resources={"limits": {"nvidia.com/gpu": 5}})
    assert found is not None and found.exit_code == 0
    gpus = context.model.node("gpu02").gpus
    wanted = [f"GPU {n}: {gpu.product} (UUID: {gpu.uuid})" for n, gpu in enumerate(gpus[:5])]
    assert [text for _stream, text in found.lines] == wanted
    claimed = _output(context, LIST_GPUS)
    assert claimed is not None and len(claimed.lines) == 3


def test_who_asked_for_none_finds_none(context: SimContext) -> None:
    found = _output(context, LOOK)
    assert found is not None and [text for _stream, text in found.lines] == ["looked into /dev"]


def test_a_stand_in_for_a_validator_does_what_its_arguments_say(context: SimContext) -> None:
    container = {"name": "validator", "image": "rehearsal.gpufleet.invalid/validator:v1"}
    container["args"] = ["RESULT: 3 of 8", "exit=1", "message=a disk is slow", "run_s=2"]  # type: ignore[assignment]
    status = {"phase": "Running"}
    pod = {"metadata": {"name": "v", "namespace": "ns"}, "spec": {"containers": [container]}, "status": status}
    simulator = simulator_for(pod)
    assert simulator is not None and simulator.name == "validator"
    (found,) = (simulator.simulate(PodGroup(name="v", pods=(pod,)), context) or {}).values()
    assert (found.lines, found.exit_code, found.message, found.run_s) == (
        (("stdout", "RESULT: 3 of 8"),), 1, "a disk is slow", 2.0,
    )  # fmt: skip
    assert simulator.simulate(PodGroup(name="v", pods=({**pod, "status": {"phase": "Pending"}},)), context) is None
