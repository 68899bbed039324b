# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The best published matrix products hold for the boards on which they were measured, and for no others of the kind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from known_hardware import HARDWARE

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.dl_unit.rates import reference_of
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.verdict.ceiling import CeilingLimits

SKUS = {sku.name: sku for sku in HARDWARE.values()}


@pytest.mark.parametrize(
    ("sku", "measured_tflops"),
    [
        # captures/h200-single/dl-unit.log, a healthy H200 by our own program.
        ("hgx-h200", 658.8),
        # huggingface/gpu-fryer: 0.74 of the peak on H100, 0.87 on A100.
        ("hgx-h100", 732.0),
        ("dgx-a100", 271.0),
    ],
)
def test_a_healthy_board_is_above_what_fails(sku: str, measured_tflops: float) -> None:
    best = reference_of(SKUS[sku], "gemm-bf16")
    assert best is not None and best * CeilingLimits().bad < measured_tflops < best * 1.05
    # An H100 that does 505 TFLOP/s (a power cap, a wrong clock, a bad library) is not.
    assert best * CeilingLimits().bad > 0.51 * SKUS[sku].peak_tflops["bf16"]


def test_nothing_is_said_of_a_board_with_another_peak() -> None:
    # H100 PCIe, 350 W: 756 TFLOP/s dense (NVIDIA's data sheet).
    card = replace(SKUS["hgx-h100"], name="h100-pcie", peak_tflops={"bf16": 756.0})
    assert reference_of(card, "gemm-bf16") is None
    assert reference_of(SKUS["hgx-h100"], "gemm-fp8") is None
    assert reference_of(None, "gemm-bf16") is None
