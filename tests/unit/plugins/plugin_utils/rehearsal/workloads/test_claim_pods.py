# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod with a claim lists the GPUs that the claim was given, and stays, so that it keeps them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.gpu_stack.claimed_container import SHOW_GPUS
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import load_hardware
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.pod_simulator import (
    PodGroup,
    SimContext,
)
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.workloads.registry import simulator_for


def _pod(phase: str) -> dict[str, Any]:
    spec = {
        "nodeName": "gpu02",
        "resourceClaims": [{"name": "gpus", "resourceClaimName": "two-gpus"}],
        "containers": [{"name": "hold", "command": list(SHOW_GPUS)}],
    }
    return {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec, "status": {"phase": phase}}


def test_the_gpus_of_the_claim_are_listed(repository: Path) -> None:
    skus = load_hardware([repository / "recipes" / "hardware"])
    model = build_model(ModelSpec(name="t", seed=3, nodes=numbered_nodes(2, "dgx-h100")), skus)
    claimed = {("ns", "two-gpus"): ("gpu-5", "gpu-1"), ("other", "two-gpus"): ("gpu-0",)}
    context = SimContext(model=model, skus=skus, now=datetime(2026, 1, 1, tzinfo=UTC), claimed=claimed)
    simulator = simulator_for(_pod("Running"))
    assert simulator is not None and simulator.name == "claimed-gpus"
    assert simulator.simulate(PodGroup(name="p", pods=(_pod("Pending"),)), context) is None
    found = simulator.simulate(PodGroup(name="p", pods=(_pod("Running"),)), context)
    gpus = model.node("gpu02").gpus
    assert found is not None and found["p"].exit_code is None
    assert [text for _stream, text in found["p"].lines] == [
        f"GPU 0: {gpus[1].product} (UUID: {gpus[1].uuid})",
        f"GPU 1: {gpus[5].product} (UUID: {gpus[5].uuid})",
    ]
    nothing = SimContext(model=model, skus=skus, now=datetime(2026, 1, 1, tzinfo=UTC))
    assert simulator.simulate(PodGroup(name="p", pods=(_pod("Running"),)), nothing) is None
