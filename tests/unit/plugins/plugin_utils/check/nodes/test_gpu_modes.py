# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs of a SKU are set alike: compute mode, GSP firmware, clocks (elements of documents in NVIDIA/k8s-test-infra)."""

from __future__ import annotations

import pytest
from fleet_faults import AnyFleet, said

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.model import Status

CHECK = "gpu-modes-uniform"
USUAL = {
    "compute_mode": "Default",
    "gsp_firmware_version": "580.105.08",
    "c2c_mode": "Enabled",
    "applications_clocks": "<graphics_clock>1980 MHz</graphics_clock><mem_clock>2619 MHz</mem_clock>",
}


def put(fleet: AnyFleet, usual: dict[str, str], odd: dict[str, str] | None = None) -> None:
    """Set all GPUs, and GPU 1 of gpu02 otherwise."""
    for name, host in fleet.hosts.items():
        for index, gpu in enumerate(host.gpus):
            values = odd if odd is not None and (name, index) == ("gpu02", 1) else usual
            gpu.values["modes"] = "".join(f"<{tag}>{text}</{tag}>" for tag, text in values.items())


@pytest.mark.parametrize(
    "change",
    [
        {"compute_mode": "Exclusive_Process"},
        {"gsp_firmware_version": "N/A"},
        {"applications_clocks": "<graphics_clock>1200 MHz</graphics_clock><mem_clock>2619 MHz</mem_clock>"},
        {"addressing_mode": "HMM"},
        {"c2c_mode": "Disabled"},
        {"dram_encryption_mode": "<current_dram_encryption>Enabled</current_dram_encryption>"},
    ],
)
def test_one_gpu_that_is_set_otherwise_is_for_a_person(fleet: AnyFleet, change: dict[str, str]) -> None:
    put(fleet, USUAL, USUAL | change)
    assert said(fleet.judge(only=CHECK), Status.OTHER) == {(CHECK, "gpu-modes-mismatch", "gpu02/gpu1")}


def test_a_limit_of_clocks_that_one_gpu_has_is_for_a_person(fleet: AnyFleet) -> None:
    for host in fleet.hosts.values():
        for gpu in host.gpus:
            gpu.values["slow"] = ""
    fleet.hosts["gpu02"].gpus[1].values["slow"] = "applications_clocks_setting"
    assert said(fleet.judge(only=CHECK), Status.OTHER) == {(CHECK, "gpu-modes-mismatch", "gpu02/gpu1")}


@pytest.mark.parametrize("everywhere", [USUAL, USUAL | {"gsp_firmware_version": "N/A"}, {}])
def test_what_all_gpus_have_alike_passes(fleet: AnyFleet, everywhere: dict[str, str]) -> None:
    put(fleet, everywhere)
    assert {o.status for o in fleet.judge(only=CHECK)} == {Status.PASSED}


def test_gpus_that_let_no_program_in_are_no_passed_fleet(fleet: AnyFleet) -> None:
    put(fleet, USUAL | {"compute_mode": "Prohibited"})
    assert {o.cause for o in fleet.judge(only=CHECK)} == {"compute-prohibited"}


def test_a_gpu_that_does_not_report_what_the_others_do_is_for_a_person(fleet: AnyFleet) -> None:
    put(fleet, USUAL, {"compute_mode": "Default"})
    assert said(fleet.judge(only=CHECK), Status.OTHER) == {(CHECK, "gpu-modes-mismatch", "gpu02/gpu1")}


def test_the_firmware_of_another_driver_is_left_to_driver_uniform(fleet: AnyFleet) -> None:
    put(fleet, USUAL)
    fleet.hosts["gpu02"].driver = "575.57.08"
    for gpu in fleet.hosts["gpu02"].gpus:
        gpu.values["modes"] = gpu.values["modes"].replace("580.105.08", "575.57.08")
    assert {o.status for o in fleet.judge(only=CHECK)} == {Status.PASSED}
