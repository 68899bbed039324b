# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps a run on the adapters, so that neither NVLink within a host nor that of a rack hides a slow one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.model import (
    ADAPTER_PHASES,
    Phase,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.fabric_validation.nccl_job import (
    adapter_environment,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.hardware.sku import Sku


@pytest.mark.parametrize("phase", ADAPTER_PHASES)
def test_nvlink_between_the_trays_of_a_rack_is_off_where_adapters_are_measured(
    hardware: dict[str, Sku], phase: Phase
) -> None:
    assert adapter_environment(phase, hardware["gb200-nvl72"])["NCCL_MNNVL_ENABLE"] == "0"
    assert "NCCL_MNNVL_ENABLE" not in adapter_environment(phase, hardware["dgx-h100"])


@pytest.mark.parametrize("phase", ["node", "pair", "all"])
@pytest.mark.parametrize("sku", ["gb200-nvl72", "dgx-h100"])
def test_runs_that_measure_all_leave_nccl_its_choice(hardware: dict[str, Sku], phase: Phase, sku: str) -> None:
    assert adapter_environment(phase, hardware[sku]) == {}


def test_pairs_are_split_into_one_gpu_of_each_host(hardware: dict[str, Sku]) -> None:
    """A mask of bits says so to older releases of nccl-tests, which is possible for a power of two alone."""
    eight = hardware["dgx-h100"]
    assert adapter_environment("adapters", eight) == {"NCCL_TESTS_SPLIT": "MOD 8", "NCCL_TESTS_SPLIT_MASK": "0x7"}
    assert adapter_environment("adapters", replace(eight, gpus=6)) == {"NCCL_TESTS_SPLIT": "MOD 6"}


def test_a_host_by_itself_leaves_nvlink_and_shared_memory_alone(hardware: dict[str, Sku]) -> None:
    found = adapter_environment("loop", hardware["dgx-h100"])
    assert found == {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
