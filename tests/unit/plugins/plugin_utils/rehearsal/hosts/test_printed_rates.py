# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is simulated of a healthy host has the rates of its own generation, for every SKU that is shipped."""

from __future__ import annotations

from pathlib import Path

import pytest
from known_hardware import HARDWARE

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.probe import nvidia_smi_nvlink
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.accelerators import printed_facts
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.hosts.nvidia_smi_text import nvlink_status
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.patch import build_model
from ansible_collections.gpufleet.rehearsal.plugins.plugin_utils.model.spec import ModelSpec, numbered_nodes

DATA = Path(__file__).resolve().parents[6] / "rehearsal" / "recipes"
# GB/s in one direction, both ways and all links together: NVIDIA's data sheets of A100 600, H100 900, B200 1,800 GB/s.
BOTH_WAYS = {3: 600.0, 4: 900.0, 5: 1800.0}
SKUS = {sku.name: sku for sku in HARDWARE.values() if sku.nvlink_generation in BOTH_WAYS}


@pytest.mark.parametrize("sku", SKUS.values(), ids=SKUS)
def test_links_run_at_the_rate_of_their_generation(sku: Sku) -> None:
    model = build_model(ModelSpec(name="rehearsal", seed=7, nodes=numbered_nodes(1, sku.name)), HARDWARE)
    (node,) = model.nodes
    text = nvlink_status(node, printed_facts(node.accelerator, DATA))
    full_gbps = BOTH_WAYS[sku.nvlink_generation or 0] / 2
    for gpu in nvidia_smi_nvlink.parse(text).gpus:
        assert sum(gbps for _link, gbps in gpu.links) == pytest.approx(full_gbps, rel=0.07)
